/* Trees that are filled, or made, by bulk loads. SPDX-License-Identifier: GPL-2.0-only */
#ifndef FROND_TABLE_LOAD_H
#define FROND_TABLE_LOAD_H

#include "server.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace frond {

class Session;
class Share;

/*
  Loads of the trees of one table, which end together: all trees are there then, or none. Given up unless they are finished:
  nothing is left of them. What is not in order is sorted within the engine's memory and beyond it.
*/
class Table_load {
public:
    explicit Table_load(Session *session) : session_(session) {}
    ~Table_load() { give_up(); }
    Table_load(const Table_load &) = delete;
    Table_load &operator=(const Table_load &) = delete;

    /* These return codes of the engine's, and say more in the session's error. After an error nothing is left but to give up. */
    int fill(uint index, const frond_tree *tree);
    int make(uint index, const std::string &name, const frond_tree_options &options);
    int put(uint index, std::string_view key, std::string_view value)
    {
        return frond_load_put(loads_[index]->load, reinterpret_cast<const uint8_t *>(key.data()), key.size(),
                              reinterpret_cast<const uint8_t *>(value.data()), value.size(), error());
    }
    /* The load of index `first` ends before the others: a row that is there twice is told of that index. */
    int finish(uint first = 0);
    void give_up();

    /* Of DUPLICATE_KEY: a row of the index that has the key of another. */
    struct Twice {
        uint index = 0;
        bool is_told = false;
        std::string key, value;
    };
    const Twice *duplicate() const;

private:
    struct One {
        frond_load *load = nullptr;
        Twice twice;
    };

    frond_error *error() const;
    template <typename Begin> int add(uint index, Begin begin);

    Session *const session_;
    std::vector<std::unique_ptr<One>> loads_; /* By index; null where there is none. */
};

}  // namespace frond

#endif
