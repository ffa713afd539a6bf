/*
  The table and index to which a tree of the store belongs. SPDX-License-Identifier: GPL-2.0-only
*/
#ifndef FROND_TREE_NAMES_H
#define FROND_TREE_NAMES_H

#include "server.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace frond {

/*
  The SQL names of a tree. Names that are not known are empty: the store may have trees that the
  plugin did not make.
*/
struct Named_tree {
    enum Kind { ROWS, INDEX, OTHER };

    uint32_t id = 0;
    std::string name;
    Kind kind = OTHER;
    int size_class = 0;
    std::optional<std::string> schema, table, partition, index;
};

/* All trees, ordered by name, as of one moment. */
class Tree_names {
public:
    Tree_names();

    const std::vector<Named_tree> &all() const { return trees_; }
    /* Null if the tree was dropped or created since. */
    const Named_tree *find(uint32_t id) const;

private:
    std::vector<Named_tree> trees_;
    std::map<uint32_t, size_t> by_id_;
};

/* Names of keys as attributes store them: without blanks and line ends. */
std::string encode_name(const char *name);
std::string decode_name(const std::string &name);

/* Whether two keys of a table would have the same name. */
bool is_same_name(const char *a, const char *b);

}  // namespace frond

#endif
