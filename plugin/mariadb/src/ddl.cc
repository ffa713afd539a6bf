/*
  Creates, drops, renames and truncates tables. Each is one synced commit of the store, so a crash
  leaves all of a table's trees or none, and the server's DDL log may repeat each of them.
  SPDX-License-Identifier: GPL-2.0-only
*/
#include "ddl.h"

#include "compression.h"
#include "errors.h"
#include "ha_frond.h"
#include "index_change.h"
#include "store.h"
#include "table_change.h"
#include "table_options.h"

#include <algorithm>

using namespace frond;

namespace {

std::string new_id()
{
    uchar uuid[MY_UUID_SIZE];
    char text[2 * MY_UUID_SIZE + 1];
    my_uuid(uuid);
    for (uint i = 0; i < MY_UUID_SIZE; i++)
        snprintf(text + 2 * i, 3, "%02x", uuid[i]);
    return text;
}

/*
  Reports by name what the engine does not support. A table is never created with less than was
  asked for.
*/
int refuse(const char *feature)
{
    my_error(ER_ILLEGAL_HA_CREATE_OPTION, MYF(0), "FROND", feature);
    return HA_WRONG_CREATE_OPTION;
}

int check_supported(const TABLE *form, HA_CREATE_INFO *info)
{
    if (info->alter_info != nullptr) {
        List_iterator<Key> keys(info->alter_info->key_list);
        while (Key *key = keys++)
            if (key->type == Key::FOREIGN_KEY)
                return refuse("FOREIGN KEY");
    }
    for (uint i = 0; i < form->s->keys; i++) {
        if (form->key_info[i].flags & HA_FULLTEXT)
            return refuse("FULLTEXT");
        if (form->key_info[i].flags & HA_SPATIAL)
            return refuse("SPATIAL");
    }
    if (info->data_file_name != nullptr)
        return refuse("DATA DIRECTORY");
    if (info->index_file_name != nullptr)
        return refuse("INDEX DIRECTORY");
#ifdef WITH_WSREP
    if (WSREP_ON)
        return refuse("wsrep_on");
#endif
    return 0;
}

int drop(THD *thd, const std::string &name)
{
    if (Temporary_table::drop(name))
        return 0;
    Attributes attributes;
    if (int error = Attributes::read(name.c_str(), &attributes))
        return error;
    /*
      A CREATE TABLE ... SELECT that fails drops its table in the transaction that has filled it,
      and that transaction has written nothing else.
    */
    Session *session = thd == nullptr ? nullptr : Session::find(thd);
    if (session != nullptr && session->txn() != nullptr)
        session->rollback();
    Steps steps(thd);
    Dropped_trees going;
    frond_tree *rows = nullptr;
    if (frond_tree_open(store(), name.c_str(), &rows, nullptr) == FROND_OK)
        going.add(rows, true);
    frond_tree_free(rows);
    steps.drop(name);
    for (uint i = 0; i < attributes.indexes; i++) {
        frond_tree *tree = nullptr;
        std::string index = attributes.index_name(i);
        if (frond_tree_open(store(), index.c_str(), &tree, nullptr) != FROND_OK)
            continue; /* The primary key has no tree of its own. */
        going.add(tree, false);
        frond_tree_free(tree);
        steps.drop(index);
    }
    const int error = steps.commit();
    if (error == 0)
        going.committed();
    return error;
}

int drop_table(handlerton *, const char *path)
{
    return drop(current_thd, tree_name(path));
}

/* Drops tables of a database that have no .frm file. */
void drop_database(handlerton *, char *path)
{
    /* The path ends with a slash: ./db/ */
    std::string database(path);
    while (!database.empty() && database.back() == '/')
        database.pop_back();
    database = database.substr(database.rfind('/') + 1) + '/';
    struct Search {
        std::string prefix;
        std::vector<std::string> found;
    } search{database, {}};
    frond_trees(
        store(),
        [](void *context, const char *text, size_t length) {
            Search *search = static_cast<Search *>(context);
            std::string_view name(text, length);
            if (name.substr(0, search->prefix.size()) == search->prefix)
                search->found.emplace_back(name);
        },
        &search, nullptr);
    for (const std::string &name : search.found)
        drop(current_thd, name);
}

}  // namespace

void frond::set_table_calls(handlerton *hton)
{
    hton->table_options = table_options;
    hton->drop_table = drop_table;
    hton->drop_database = drop_database;
    hton->check_version = check_version;
    hton->signal_ddl_recovery_done = drop_unnamed_trees;
}

int ha_frond::create(const char *path, TABLE *form, HA_CREATE_INFO *info)
{
    if (int error = check_supported(form, info))
        return error;
    note_options_without_effect(ha_thd(), info);
    const Plan plan(form);
    const std::string name = tree_name(path);
    const int compression = size_class(form->s->option_struct);
    if (info->options & HA_LEX_CREATE_TMP_TABLE)
        return Temporary_table::create(ha_thd(), name, plan, compression, info->auto_increment_value);
    Attributes attributes;
    attributes.id = new_id();
    attributes.indexes = form->s->keys;
    attributes.auto_increment = std::max<uint64_t>(info->auto_increment_value, 1);
    attributes.name_keys(form->s);
    Steps steps(ha_thd());
    steps.create(name, Tree_definition::rows(plan, attributes, compression));
    for (uint i = 0; i < form->s->keys; i++)
        if (i != plan.primary)
            steps.create(attributes.index_name(i), Tree_definition::index(plan, i, name, compression));
    return steps.commit();
}

int ha_frond::delete_table(const char *path)
{
    return drop(ha_thd(), tree_name(path));
}

int ha_frond::rename_table(const char *from, const char *to)
{
    const std::string old_name = tree_name(from), new_name = tree_name(to);
    Attributes attributes;
    if (Temporary_table::rename(old_name, new_name))
        return 0;
    if (int error = Attributes::read(old_name.c_str(), &attributes)) {
        /* The DDL log repeats a rename that was already made. */
        return Attributes::read(new_name.c_str(), &attributes) == 0 ? 0 : error;
    }
    Steps steps(ha_thd());
    steps.add([&](frond_tree_change *change, frond_error *error) {
        return frond_change_rename(change, 0, old_name.c_str(), new_name.c_str(), error);
    });
    return steps.commit();
}

int ha_frond::truncate()
{
    cursor_.close();
    if (share_->is_temporary())
        return share_->temporary()->clear(ha_thd());
    Attributes attributes = share_->attributes;
    attributes.auto_increment = 1;
    attributes.rows_per_key.clear();
    attributes.analyzed_rows = 0;
    Steps steps(ha_thd());
    auto truncate_tree = [&](const std::string &tree) {
        steps.add([&](frond_tree_change *change, frond_error *error) {
            return frond_change_truncate(change, 0, tree.c_str(), error);
        });
    };
    Dropped_trees going;
    going.add(share_->row_tree().stored(), true);
    truncate_tree(share_->name);
    for (uint i = 0; i < table->s->keys; i++)
        if (i != plan().primary) {
            going.add(share_->tree(i).stored(), false);
            truncate_tree(attributes.index_name(i));
        }
    steps.set_attributes(share_->name, attributes);
    if (int error = steps.commit())
        return error;
    going.committed();
    next_row_id_ = row_ids_end_ = 0;
    if (int error = share_->reopen())
        return error;
    share_->statistics->set(Rows_per_key(table->s->keys), 0);
    return 0;
}

void ha_frond::update_create_info(HA_CREATE_INFO *info)
{
    if (!(info->used_fields & HA_CREATE_USED_AUTO) && table->found_next_number_field != nullptr) {
        ha_frond::info(HA_STATUS_AUTO);
        info->auto_increment_value = stats.auto_increment_value;
    }
}

/* Samples the keys of each index, and stores the statistics with the table. */
int ha_frond::analyze(THD *thd, HA_CHECK_OPT *)
{
    if (share_->is_temporary())
        return HA_ADMIN_OK;
    Attributes attributes;
    {
        std::lock_guard<std::mutex> guard(share_->attributes_mutex);
        attributes = share_->attributes;
    }
    attributes.rows_per_key.assign(table->s->keys, {});
    const uint64_t rows = attributes.analyzed_rows = std::max<uint64_t>(share_->rows(), 1);
    frond_error error;
    for (uint i = 0; i < table->s->keys; i++)
        if (int code = sample_keys(share_->tree(i).stored(), plan().indexes[i].key.layout_ends(), rows, &attributes.rows_per_key[i], &error)) {
            failed(thd, code, error);
            return HA_ADMIN_FAILED;
        }
    Steps steps(thd);
    steps.set_attributes(share_->name, attributes);
    if (steps.commit())
        return HA_ADMIN_FAILED;
    {
        std::lock_guard<std::mutex> guard(share_->attributes_mutex);
        share_->attributes = attributes;
    }
    share_->statistics->set(attributes.rows_per_key, rows);
    info(HA_STATUS_CONST | HA_STATUS_VARIABLE);
    return HA_ADMIN_OK;
}
