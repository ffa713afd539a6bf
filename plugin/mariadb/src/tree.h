/*
  A tree of a table, stored or temporary, with the same calls for both.
  SPDX-License-Identifier: GPL-2.0-only
*/
#ifndef FROND_TREE_H
#define FROND_TREE_H

#include "server.h"

#include <string_view>

namespace frond {

/*
  A tree in the store or, for a temporary table, one that belongs to the session. No other session
  writes to the latter, so nothing in it is locked.
*/
class Tree {
public:
    Tree() = default;
    explicit Tree(const frond_tree *stored) : stored_(stored) {}
    explicit Tree(const frond_temporary *temporary) : temporary_(temporary) {}

    bool operator==(const Tree &other) const { return stored_ == other.stored_ && temporary_ == other.temporary_; }
    bool operator!=(const Tree &other) const { return !(*this == other); }
    bool is_open() const { return stored_ != nullptr || temporary_ != nullptr; }
    bool is_temporary() const { return temporary_ != nullptr; }
    const frond_tree *stored() const { return stored_; }
    const frond_temporary *temporary() const { return temporary_; }

    /*
      Calls of the engine that exist for both kinds; they return its codes. For a temporary tree, a
      read returns the newest row as a whole.
    */
    int read(const frond_txn *txn, std::string_view key, const frond_read_options &options, frond_buffer *value,
             frond_error *error) const
    {
        return is_temporary() ? frond_temporary_get(temporary_, key.data(), key.size(), value, error)
                              : frond_txn_read(txn, stored_, key.data(), key.size(), &options, value, nullptr, error);
    }
    int scan(const frond_txn *txn, std::string_view from, std::string_view to, const frond_read_options &options,
             frond_cursor **cursor, frond_error *error) const
    {
        return is_temporary() ? frond_temporary_scan(temporary_, bound(from), from.size(), bound(to), to.size(), cursor, error)
                              : frond_txn_read_range(txn, stored_, bound(from), from.size(), bound(to), to.size(), &options,
                                                     cursor, error);
    }
    int estimate(const frond_txn *txn, std::string_view from, std::string_view to, uint64_t *rows, frond_error *error) const
    {
        return is_temporary() ? frond_temporary_estimate(temporary_, bound(from), from.size(), bound(to), to.size(), rows,
                                                         nullptr, error)
                              : frond_txn_estimate(txn, stored_, bound(from), from.size(), bound(to), to.size(), rows, nullptr,
                                                   error);
    }

private:
    /* An empty bound means no bound. */
    static const void *bound(std::string_view key) { return key.empty() ? nullptr : key.data(); }

    const frond_tree *stored_ = nullptr;
    const frond_temporary *temporary_ = nullptr;
};

}  // namespace frond

#endif
