/* CHECK TABLE. SPDX-License-Identifier: GPL-2.0-only */
#ifndef FROND_CHECK_H
#define FROND_CHECK_H

#include "cursor.h"

#include <string>
#include <vector>

class ha_frond;

namespace frond {

/*
  Compares the rows of a table with the entries of its indexes, in one snapshot.

  Rows and entries are read once, each tree in its order. For each index, the entries that the rows
  should have are added up as hashes, which can be added in any order, and compared with the sum of
  the existing entries. Only if the sums differ, each entry is looked up, to report what is wrong.
*/
class Table_check {
public:
    Table_check(ha_frond *handler, THD *thd) : handler_(handler), thd_(thd) {}
    ~Table_check();
    Table_check(const Table_check &) = delete;
    Table_check &operator=(const Table_check &) = delete;

    /* Returns a HA_ADMIN_*. Without contents only the numbers of entries are compared. */
    int run(bool with_contents);

private:
    struct Tally {
        void add(std::string_view key, std::string_view value);
        uint64_t entries = 0, sum = 0;
    };

    /* Calls `each` with the key and value of all rows of a tree. Returns a code of the engine. */
    template <typename Each> int scan(const Tree &tree, Each each);
    int read(const Tree &tree, std::string_view key);
    /*
      Fills the table's first record, including virtual columns; false if the bytes are not a row.
    */
    bool read_row(std::string_view key, std::string_view value);
    /* Makes the entry of the row in the record. */
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
