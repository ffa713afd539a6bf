/*
  Rows that will be read by their keys soon, read together. SPDX-License-Identifier: GPL-2.0-only
*/
#ifndef FROND_ROWS_AHEAD_H
#define FROND_ROWS_AHEAD_H

#include "server.h"
#include "tree.h"

#include <string>
#include <string_view>
#include <vector>

namespace frond {

class Session;

/*
  Rows of one tree, read ahead for a statement that locks nothing, so that a row read ahead is the
  row that would be read later. This no longer holds once the session has written, or if the
  statement needs other columns: then `find` finds nothing.
*/
class Rows_ahead {
public:
    Rows_ahead() = default;
    ~Rows_ahead() { frond_buffer_free(&memory_); }
    Rows_ahead(const Rows_ahead &) = delete;
    Rows_ahead &operator=(const Rows_ahead &) = delete;

    /* Forgets the rows; values that were returned stay valid until the next `read`. */
    void clear();
    /*
      Adds a row to those that `read` reads. Keys must be looked up in the order in which they were
      added.
    */
    void add(std::string_view key);
    size_t size() const { return ends_.size(); }
    /*
      Reads the rows that were added, with these parts (null: all), whose number is remembered.
      Returns an HA_ERR_* code.
    */
    int read(Session *session, const Tree &tree, const frond_projection *projection, uint64_t projection_number);
    /*
      Looks up a row; false if it was not read. The next lookup continues after it. `value` receives
      the row's value, with null data if there is no row with this key.
    */
    bool find(const Session *session, std::string_view key, uint64_t projection_number, frond_bytes *value);
    /* Whether rows were read that were not looked up yet. */
    bool has_rest() const { return is_read_ && at_ < ends_.size(); }
    bool has(const Session *session, std::string_view key, uint64_t projection_number) const;
    /* Whether rows were read in vain, because the session has written since. */
    bool is_stale(const Session *session) const;
    /* Releases memory that exceeds what a statement may leave behind. */
    void trim(size_t kept_bytes);

private:
    std::string_view key(size_t row) const;
    bool is_current(const Session *session, uint64_t projection_number) const;
    size_t place(std::string_view key) const;

    std::string bytes_;         /* Keys, concatenated. */
    std::vector<size_t> ends_;  /* Where each key ends. */
    std::vector<frond_bytes> keys_, values_;
    frond_buffer memory_ = {nullptr, 0, 0};
    size_t at_ = 0;
    uint64_t writes_ = 0, projection_number_ = 0;
    bool is_read_ = false;
};

/*
  The ranges of a multi-range read. Some of them are taken ahead, so that rows named by a whole key
  are read together. It sits between the server's sequence and the server's own loop over it, which
  reads one range after another.
*/
class Ranges_ahead {
public:
    void begin(const RANGE_SEQ_IF &sequence, void *parameter, uint ranges, uint mode);
    void end() { is_open_ = false; }
    bool is_open() const { return is_open_; }
    /*
      Takes the next ranges, up to `ranges_max`, from the server's sequence; false if there are no
      more.
    */
    bool fill(size_t ranges_max);
    /* The ranges that were taken last. */
    const std::vector<KEY_MULTI_RANGE> &ranges() const { return ranges_; }
    /* The next range; false if `fill` must take more first. */
    bool next(KEY_MULTI_RANGE *range);
    /* Whether the server does not need rows of this range any more. */
    bool skips(range_id_t range) const;

private:
    RANGE_SEQ_IF sequence_ = {};
    range_seq_t iterator_ = nullptr;
    std::vector<KEY_MULTI_RANGE> ranges_;
    std::string bytes_; /* Copies of their keys: the sequence's are valid only until its next range. */
    size_t at_ = 0, wanted_ = 0;
    bool is_open_ = false, has_ended_ = false;
};

}  // namespace frond

#endif
