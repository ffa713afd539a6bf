/*
  A cursor over a tree: steps row by row through the batches that the engine returns.
  SPDX-License-Identifier: GPL-2.0-only
*/
#ifndef FROND_CURSOR_H
#define FROND_CURSOR_H

#include "server.h"
#include "tree.h"

#include <string>
#include <string_view>

namespace frond {

class Session;

inline std::string_view view(const void *data, size_t length)
{
    return {static_cast<const char *>(data), length};
}

inline const uint8_t *raw(std::string_view bytes)
{
    return reinterpret_cast<const uint8_t *>(bytes.data());
}

/*
  A cursor of a handler. It survives the end of the transaction in which it was opened, since
  HANDLER ... READ continues from statement to statement: the key of the current row is kept, and
  the next step opens the tree again, after that key.
*/
class Cursor {
public:
    Cursor() = default;
    ~Cursor() { close(); }
    Cursor(const Cursor &) = delete;
    Cursor &operator=(const Cursor &) = delete;

    /* How rows are read; used when the cursor is opened. */
    struct How {
        int row_lock = FROND_NO_LOCK;
        int when_locked = FROND_WAIT;
        int sees = FROND_AS_LEVEL;
        /*
          The parts of values to read; null for whole values. Each projection that a handler makes
          has its own number.
        */
        const frond_projection *projection = nullptr;
        uint64_t projection_number = 0;
    };

    bool is_open_for(const Tree &tree, const How &how) const
    {
        return cursor_ != nullptr && tree_ == tree && how_.row_lock == how.row_lock &&
               how_.when_locked == how.when_locked && how_.projection_number == how.projection_number;
    }
    /*
      Opens over [from, to), before its first row; an empty `to` means no end. Returns an HA_ERR_*
      code.
    */
    int open(Session *session, Tree tree, const How &how, std::string_view from, std::string_view to);
    /* Moves to another range of the tree for which it is open. */
    int set_range(std::string_view from, std::string_view to);
    /* Continues beyond the range, from the current row up or down. */
    int leave_range(bool forward);
    int seek_last();
    /*
      Approximate number of rows that are wanted of a range; the first fetch gets as many. 0:
      unknown.
    */
    void expect(size_t rows) { expected_ = rows; }
    const How &how() const { return how_; }
    /* Steps to the next or the previous row: 0, HA_ERR_END_OF_FILE or another error. */
    int step(bool forward);
    /* Releases the engine's cursor; the position is kept. */
    void suspend();
    void close();

    std::string_view key() const { return view(row_->key, row_->key_length); }
    std::string_view value() const { return view(row_->value, row_->value_length); }
    bool is_locked() const { return row_->locked; }
    /* Number of fetched rows after the current one, in the cursor's direction. */
    size_t rows_ahead() const { return row_ == nullptr || batch_.count == 0 ? 0 : batch_.count - 1 - at_; }
    std::string_view key_ahead(size_t row) const { return view(row_[row].key, row_[row].key_length); }
    std::string_view value_ahead(size_t row) const { return view(row_[row].value, row_[row].value_length); }
    /*
      Locks the current row, waiting for it, and reads it again; HA_ERR_KEY_NOT_FOUND if it is gone.
    */
    int relock();

private:
    friend class Session;

    int seek(std::string_view key);
    int fetch(bool forward);
    int reopen(bool forward, bool includes_kept);
    int reopen_at_row();
    int seek_past_current(bool forward);
    void forget_rows();

    Session *session_ = nullptr;
    Tree tree_;
    frond_cursor *cursor_ = nullptr;
    How how_;
    bool forward_ = true;
    const frond_row *row_ = nullptr;
    frond_rows batch_ = {nullptr, 0};
    size_t at_ = 0;
    size_t expected_ = 0;
    uint64_t writes_at_fetch_ = 0;
    bool suspended_ = false;
    /* The range; an empty end means no end. */
    std::string from_, to_;
    /* Key of the current row if its batch is gone. */
    std::string kept_key_;
    Cursor *next_ = nullptr;
    Cursor **link_ = nullptr;
};

}  // namespace frond

#endif
