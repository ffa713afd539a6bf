/* SPDX-License-Identifier: GPL-2.0-only */
#include "tree_names.h"

#include "share.h"
#include "store.h"

namespace frond {
namespace {

constexpr const char *PARTITION = "#P#", *SUBPARTITION = "#SP#";

struct Listed {
    Named_tree tree;
    std::string attributes;
};

void keep(void *context, const frond_tree_listed *found)
{
    Listed one;
    one.tree.id = found->id;
    one.tree.name = found->name;
    one.tree.size_class = found->size_class;
    if (found->attributes != nullptr)
        one.attributes.assign(reinterpret_cast<const char *>(found->attributes), found->attributes_length);
    static_cast<std::vector<Listed> *>(context)->push_back(std::move(one));
}

/* Parses `db/table#P#partition`, each encoded as in file names. */
void set_table(const std::string &name, Named_tree *tree)
{
    const size_t slash = name.find('/');
    if (slash == std::string::npos)
        return;
    const size_t partition = name.find(PARTITION, slash + 1);
    tree->schema = decode_name(name.substr(0, slash));
    tree->table = decode_name(name.substr(slash + 1, partition == std::string::npos ? partition : partition - slash - 1));
    if (partition == std::string::npos)
        return;
    const std::string rest = name.substr(partition + strlen(PARTITION));
    const size_t sub = rest.find(SUBPARTITION);
    tree->partition = decode_name(rest.substr(0, sub));
    if (sub != std::string::npos)
        *tree->partition += "/" + decode_name(rest.substr(sub + strlen(SUBPARTITION)));
}

}  // namespace

std::string encode_name(const char *name)
{
    char encoded[FN_REFLEN];
    return std::string(encoded, tablename_to_filename(name, encoded, sizeof encoded));
}

std::string decode_name(const std::string &name)
{
    char decoded[FN_REFLEN];
    return std::string(decoded, filename_to_tablename(name.c_str(), decoded, sizeof decoded, true));
}

bool is_same_name(const char *a, const char *b)
{
    return my_strcasecmp(system_charset_info, a, b) == 0;
}

Tree_names::Tree_names()
{
    struct Table {
        size_t tree;
        Attributes attributes;
    };
    std::vector<Listed> listed;
    std::map<std::string, Table> tables; /* By the id in the names of their index trees. */
    if (store() == nullptr || frond_each_tree(store(), keep, &listed, nullptr) != FROND_OK)
        return;
    for (size_t i = 0; i < listed.size(); i++) {
        Named_tree &tree = listed[i].tree;
        Table table{i, {}};
        if (!Attributes::decode(listed[i].attributes, &table.attributes))
            continue;
        tree.kind = Named_tree::ROWS;
        set_table(tree.name, &tree);
        if (!table.attributes.index_names.empty() && table.attributes.has_primary)
            tree.index = table.attributes.index_names[0];
        tables.emplace(table.attributes.id, std::move(table));
    }
    for (Listed &one : listed) {
        Named_tree &tree = one.tree;
        const size_t slash = tree.name.rfind('/');
        if (tree.name[0] != '#' || slash == std::string::npos)
            continue;
        auto table = tables.find(tree.name.substr(1, slash - 1));
        if (table == tables.end())
            continue;
        const Named_tree &rows = listed[table->second.tree].tree;
        const Attributes &attributes = table->second.attributes;
        const std::vector<std::string> &names = attributes.index_names;
        const size_t number = strtoul(tree.name.c_str() + slash + 1, nullptr, 10);
        tree.kind = Named_tree::INDEX;
        tree.schema = rows.schema;
        tree.table = rows.table;
        tree.partition = rows.partition;
        for (uint key = 0; key < names.size() && key < attributes.indexes; key++)
            if (attributes.tree_number(key) == number)
                tree.index = names[key];
    }
    for (Listed &one : listed) {
        by_id_[one.tree.id] = trees_.size();
        trees_.push_back(std::move(one.tree));
    }
}

const Named_tree *Tree_names::find(uint32_t id) const
{
    auto found = by_id_.find(id);
    return found == by_id_.end() ? nullptr : &trees_[found->second];
}

}  // namespace frond
