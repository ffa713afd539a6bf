/* Trees that are filled or created by bulk loads. SPDX-License-Identifier: GPL-2.0-only */
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
  Loads of the trees of one table, which end together: afterwards all trees are there, or none.
  Unless they are finished, they are abandoned and leave nothing behind. The engine sorts rows that
  come out of order, in memory and beyond it.
*/
class Table_load {
public:
    explicit Table_load(Session *session) : session_(session) {}
    ~Table_load() { give_up(); }
    Table_load(const Table_load &) = delete;
    Table_load &operator=(const Table_load &) = delete;

    /*
      These return codes of the engine, with details in the session's error. After an error the only
      thing left to do is to give up.
    */
    int fill(uint index, const frond_tree *tree);
    int make(uint index, const std::string &name, const frond_tree_options &options);
    int put(uint index, std::string_view key, std::string_view value)
    {
        return frond_load_put(loads_[index]->load, key.data(), key.size(), value.data(), value.size(), error());
    }
    /*
      Ends the loads. That of index `first` ends before the others, so a row that is there twice is
      reported for that index.
    */
    int finish(uint first = 0);
    void give_up();

    /* For DUPLICATE_KEY: a row of the index that has the key of another. */
    struct Duplicate {
        uint index = 0;
        bool is_recoverable = false;
        std::string key, value;
    };
    const Duplicate *duplicate() const;

private:
    struct One {
        frond_load *load = nullptr;
        Duplicate duplicate;
    };

    frond_error *error() const;
    template <typename Begin> int add(uint index, Begin begin);

    Session *const session_;
    std::vector<std::unique_ptr<One>> loads_; /* By index; null if there is none. */
};

}  // namespace frond

#endif
