/* CHECK TABLE. SPDX-License-Identifier: GPL-2.0-only */
#ifndef FROND_CHECK_H
#define FROND_CHECK_H

#include "cursor.h"

#include <string>
#include <vector>

class ha_frond;

namespace frond {

/*
  Compares the rows of a table with the entries of its indexes, at one moment.

  Rows and entries are read once, each tree in its order. What a row's entries ought to be is summed up for each index,
  as hashes that may be added in any order, and compared with the sum of those that are there. Only where sums differ
  each entry is looked for, so that it can be said what is wrong.
*/
class Table_check {
public:
    Table_check(ha_frond *handler, THD *thd) : handler_(handler), thd_(thd) {}
    ~Table_check();
    Table_check(const Table_check &) = delete;
    Table_check &operator=(const Table_check &) = delete;

    /* A HA_ADMIN_*. Without contents only their numbers are compared. */
    int run(bool with_contents);

private:
    struct Tally {
        void add(std::string_view key, std::string_view value);
        uint64_t entries = 0, sum = 0;
    };

    /* Calls `each` with the key and value of all rows of a tree. Returns a code of the engine's. */
    template <typename Each> int scan(const Tree &tree, Each each);
    int read(const Tree &tree, std::string_view key);
    /* Fills the table's first record, virtual columns too; false if the bytes are no row. */
    bool read_row(std::string_view key, std::string_view value);
    /* The entry of the row that is in the record. */
    void make_entry(uint index, std::string_view row_key, std::string_view *key, std::string_view *value);
    int count_rows(uint64_t *rows);
    int check_rows(uint64_t *rows, std::vector<Tally> *wanted);
    int look_for_faults(uint index);
    int unreadable(int code);
    int corrupt(const char *format, ...) ATTRIBUTE_FORMAT(printf, 2, 3);

    ha_frond *const handler_;
    THD *const thd_;
    frond_snapshot *snapshot_ = nullptr;
    frond_buffer buffer_ = {nullptr, 0, 0};
    std::string bytes_;
    frond_error error_;
};

}  // namespace frond

#endif
