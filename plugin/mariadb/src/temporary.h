/* CREATE TEMPORARY TABLE. SPDX-License-Identifier: GPL-2.0-only */
#ifndef FROND_TEMPORARY_H
#define FROND_TEMPORARY_H

#include "tree.h"

#include <memory>
#include <string>
#include <vector>

namespace frond {

struct Plan;

/*
  The trees of a temporary table. They have no names in the store, and end with the process: a table
  is found by the path that the server has made for it, which is unique. The server lets only one
  session use a table.
*/
class Temporary_table {
public:
    ~Temporary_table();
    Temporary_table(const Temporary_table &) = delete;

    /* Returns an HA_ERR_* code. */
    static int create(THD *thd, const std::string &name, const Plan &plan, int size_class, uint64_t auto_increment);
    /* Returns null if there is none. */
    static std::shared_ptr<Temporary_table> find(const std::string &name);
    static bool rename(const std::string &from, const std::string &to);
    /* Open handlers keep the trees until they are closed. */
    static bool drop(const std::string &name);
    /* Call this before the store is closed. */
    static void drop_all();

    Tree row_tree() const { return Tree(rows_); }
    Tree tree(uint index) const { return Tree(trees_[index] == nullptr ? rows_ : trees_[index]); }
    uint64_t rows(bool *is_exact) const;
    uint64_t data_bytes() const;
    uint64_t index_bytes() const;
    /* Takes numbers for AUTO_INCREMENT or hidden row ids, as frond_tree_reserve does. */
    void reserve(uint counter, uint64_t least, uint64_t count, uint64_t *first);
    uint64_t next_number(uint counter) const { return next_[counter]; }
    /* TRUNCATE. Returns an HA_ERR_* code. */
    int clear(THD *thd);

private:
    Temporary_table() = default;

    frond_temporary *rows_ = nullptr;
    /* By index number; null for the primary key. */
    std::vector<frond_temporary *> trees_;
    uint64_t next_[2] = {1, 0};
};

}  // namespace frond

#endif
