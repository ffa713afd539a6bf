/* A tree that is open during the lifetime of an object. SPDX-License-Identifier: GPL-2.0-only */
#ifndef FROND_OPENED_TREE_H
#define FROND_OPENED_TREE_H

#include "store.h"
#include "tree_names.h"

namespace frond {

class Opened_tree {
public:
    explicit Opened_tree(const Named_tree &tree)
    {
        if (frond_tree_open(store(), tree.name.c_str(), &tree_, nullptr) != FROND_OK)
            tree_ = nullptr;
    }
    ~Opened_tree() { frond_tree_free(tree_); }
    Opened_tree(const Opened_tree &) = delete;

    /* Null if the tree was dropped meanwhile. */
    const frond_tree *get() const { return tree_; }

private:
    frond_tree *tree_ = nullptr;
};

}  // namespace frond

#endif
