/* Changes of a table's trees. SPDX-License-Identifier: GPL-2.0-only */
#ifndef FROND_TABLE_CHANGE_H
#define FROND_TABLE_CHANGE_H

#include "errors.h"
#include "session.h"
#include "share.h"
#include "store.h"

#include <memory>
#include <string>

namespace frond {

struct Free_change {
    void operator()(frond_tree_change *change) const { frond_change_free(change); }
};

using Change = std::unique_ptr<frond_tree_change, Free_change>;

/* The definition of a new tree. */
struct Tree_definition {
    /* For a table's rows, or for one of its indexes. */
    static Tree_definition rows(const Plan &plan, const Attributes &attributes, int compression)
    {
        Tree_definition made;
        made.attributes = attributes.encode();
        made.is_unique = true;
        made.compression = compression;
        plan.row_layout(&made.key, &made.value);
        return made;
    }
    static Tree_definition index(const Plan &plan, uint index, const std::string &table, int compression)
    {
        Tree_definition made;
        made.attributes = "frond-mariadb index of " + table;
        made.is_unique = plan.indexes[index].is_unique;
        made.compression = compression;
        plan.index_layout(index, &made.key, &made.value);
        return made;
    }

    /* The options point into the definition. */
    frond_tree_options options() const
    {
        frond_tree_options options;
        frond_tree_options_init(&options);
        options.size_class = compression;
        options.unique = is_unique;
        options.attributes = attributes.data();
        options.attributes_length = attributes.size();
        options.key_parts = key.data();
        options.key_parts_count = key.size();
        options.value_parts = value.data();
        options.value_parts_count = value.size();
        return options;
    }

    std::vector<frond_part> key, value;
    std::string attributes;
    bool is_unique = false;
    int compression = 0;
};

/* A change of trees, and the first error of its steps. */
class Steps {
public:
    explicit Steps(THD *thd) : thd_(thd)
    {
        frond_change_options options;
        frond_tree_change *change = nullptr;
        frond_change_options_init(&options);
        options.lock_timeout_ms = thd == nullptr ? 10000 : lock_timeout_ms(thd);
        code_ = frond_change_begin(store(), &options, &change, &error_);
        change_.reset(change);
    }
    template <typename Step> void add(Step step)
    {
        if (code_ == FROND_OK)
            code_ = step(change_.get(), &error_);
    }
    int commit()
    {
        if (code_ == FROND_OK)
            code_ = frond_change_commit(change_.get(), nullptr, &error_);
        return code_ == FROND_OK ? 0 : failed(thd_, code_, error_);
    }
    void create(const std::string &tree, const Tree_definition &definition)
    {
        const frond_tree_options options = definition.options();
        add([&](frond_tree_change *change, frond_error *error) {
            return frond_change_create(change, tree.c_str(), &options, error);
        });
    }
    void drop(const std::string &tree)
    {
        add([&](frond_tree_change *change, frond_error *error) {
            return frond_change_drop(change, 0, tree.c_str(), error);
        });
    }
    void set_attributes(const std::string &tree, const Attributes &attributes)
    {
        const std::string text = attributes.encode();
        add([&](frond_tree_change *change, frond_error *error) {
            return frond_change_attributes(change, 0, tree.c_str(), text.data(), text.size(), error);
        });
    }

private:
    THD *thd_;
    Change change_;
    int code_;
    frond_error error_;
};

}  // namespace frond

#endif
