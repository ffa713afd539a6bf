/* SPDX-License-Identifier: GPL-2.0-only */
#include "index_change.h"

#include "compression.h"
#include "ha_frond.h"
#include "table_change.h"
#include "table_load.h"
#include "table_options.h"

#include "key.h"

#include <algorithm>
#include <set>

namespace frond {
namespace {

struct Free_txn {
    void operator()(frond_txn *txn) const { frond_txn_rollback(txn, nullptr); }
};
struct Free_cursor {
    void operator()(frond_cursor *cursor) const { frond_cursor_free(cursor); }
};
struct Free_projection {
    void operator()(frond_projection *handle) const { frond_projection_free(handle); }
};

std::string hexadecimal(const LEX_CUSTRING &bytes)
{
    std::string text;
    for (size_t i = 0; i < bytes.length; i++) {
        char digits[3];
        snprintf(digits, sizeof digits, "%02x", bytes.str[i]);
        text += digits;
    }
    return text;
}

/* A set of columns of a table. */
class Columns {
public:
    explicit Columns(const TABLE *table) : words_(bitmap_buffer_size(table->s->fields) / sizeof(my_bitmap_map) + 1)
    {
        my_bitmap_init(&map_, words_.data(), table->s->fields);
    }
    void add(const KEY &key)
    {
        for (uint i = 0; i < key.user_defined_key_parts; i++)
            bitmap_set_bit(&map_, key.key_part[i].field->field_index);
    }
    const MY_BITMAP *get() const { return &map_; }

private:
    std::vector<my_bitmap_map> words_;
    MY_BITMAP map_;
};

}  // namespace

std::optional<Old_keys> old_keys(const TABLE *table, const TABLE *altered, const Alter_inplace_info *info)
{
    Old_keys old(altered->s->keys);
    if (info->key_count != altered->s->keys)
        return std::nullopt;
    for (uint i = 0; i < altered->s->keys; i++) {
        const uint *added = info->index_add_buffer, *end = added + info->index_add_count;
        if (std::find(added, end, i) != end)
            continue;
        const KEY *key = &info->key_info_buffer[i];
        const char *name = key->name.str;
        if (!is_same_name(name, altered->key_info[i].name.str))
            return std::nullopt;
        for (const Alter_inplace_info::Rename_key_pair &pair : info->rename_keys)
            if (pair.new_key == key)
                name = pair.old_key->name.str;
        for (uint number = 0; number < table->s->keys; number++)
            if (is_same_name(table->key_info[number].name.str, name))
                old[i] = number;
        if (!old[i])
            return std::nullopt;
    }
    return old;
}

Index_change::Index_change(Share *share, Old_keys old, const TABLE *altered, HA_CREATE_INFO *info)
    : share_(share), old_(std::move(old)), has_primary_(altered->s->primary_key != MAX_KEY),
      version_(hexadecimal(altered->s->tabledef_version)), compression_(size_class(altered->s->option_struct))
{
    Attributes named;
    named.name_keys(altered->s);
    names_ = std::move(named.index_names);
    if (info->used_fields & HA_CREATE_USED_AUTO)
        auto_increment_ = std::max<uint64_t>(info->auto_increment_value, 1);
}

bool Index_change::has_new_keys() const
{
    return std::find(old_.begin(), old_.end(), std::nullopt) != old_.end();
}

/*
  Reads the rows into the altered table's record, as far as its new keys need them. The altered
  table's own codecs can do that, since the changes besides the keys leave the rows as they are.
*/
template <typename Each>
int Index_change::scan(Session *session, TABLE *altered, const Plan &plan, frond_txn *txn, Each each)
{
    const frond_tree *rows = share_->row_tree().stored();
    Columns wanted(altered);
    for (uint i = 0; i < old_.size(); i++)
        if (!old_[i])
            wanted.add(altered->key_info[i]);
    /* Entries store columns of the primary key that cannot be recovered from its bytes. */
    if (plan.has_primary())
        wanted.add(altered->key_info[plan.primary]);
    Projection projection;
    frond_projection *made = nullptr;
    if (plan.row->project(wanted.get(), &projection) &&
        frond_projection_new(rows, projection.parts.data(), projection.parts.size(), &made, nullptr) != FROND_OK)
        made = nullptr;
    const std::unique_ptr<frond_projection, Free_projection> handle(made);
    frond_read_options options;
    frond_read_options_init(&options);
    options.projection = handle.get();
    frond_cursor *opened = nullptr;
    if (int code = frond_txn_read_range(txn, rows, nullptr, 0, nullptr, 0, &options, &opened, session->error()))
        return code;
    const std::unique_ptr<frond_cursor, Free_cursor> cursor(opened);
    uchar *record = altered->record[0];
    restore_record(altered, s->default_values);
    frond_rows batch;
    int code;
    while ((code = frond_cursor_next(cursor.get(), 0, &batch, session->error())) == FROND_OK)
        for (size_t i = 0; i < batch.count; i++) {
            const frond_row &row = batch.rows[i];
            std::string_view key = view(row.key, row.key_length), value = view(row.value, row.value_length);
            if ((plan.has_primary() && !plan.primary_key().decode(key, record, wanted.get())) ||
                !(handle == nullptr ? plan.row->decode(value, wanted.get(), record)
                                    : plan.row->decode(value, projection, record)))
                return CORRUPT;
            if (int code = each(key, record))
                return code;
        }
    return code == FROND_NOT_FOUND ? FROND_OK : code;
}

/* Chooses names for the trees of new keys. ANALYZE may change the attributes concurrently. */
void Index_change::name_trees()
{
    std::lock_guard<std::mutex> guard(share_->attributes_mutex);
    const Attributes &attributes = share_->attributes;
    uint number = attributes.indexes;
    for (uint key = 0; key < attributes.indexes; key++)
        number = std::max(number, attributes.tree_number(key) + 1);
    for (uint key = 0; key < old_.size(); key++) {
        if (old_[key])
            continue;
        /* An ALTER that failed may have left a tree until the server starts again. */
        frond_tree *tree = nullptr;
        while (frond_tree_open(store(), attributes.tree_name(number).c_str(), &tree, nullptr) == FROND_OK) {
            frond_tree_free(tree);
            number++;
        }
        new_trees_[key] = {number, attributes.tree_name(number)};
        number++;
    }
}

int Index_change::load(Session *session, TABLE *altered, const Plan &plan)
{
    frond_txn_options options;
    frond_txn *begun = nullptr;
    frond_txn_options_init(&options);
    options.isolation = FROND_REPEATABLE_READ;
    options.lock_timeout_ms = lock_timeout_ms(session->thd());
    if (int code = frond_txn_begin(store(), &options, &begun, session->error()))
        return code;
    const std::unique_ptr<frond_txn, Free_txn> txn(begun);
    frond_txn_set_interrupter(txn.get(), session->interrupter(), nullptr);
    /*
      The snapshot is taken after the lock, so it has everything that was ever committed to the
      rows.
    */
    int code = frond_txn_lock_tree(txn.get(), share_->row_tree().stored(), FROND_TREE_SHARED, FROND_WAIT, session->error());
    if (code == FROND_OK)
        code = frond_txn_take_snapshot(txn.get(), nullptr, session->error());
    if (code != FROND_OK)
        return code;

    Table_load load(session);
    for (const auto &[key, tree] : new_trees_) {
        const Tree_definition definition = Tree_definition::index(plan, key, share_->name, compression_);
        if (int code = load.make(key, tree.name, definition.options()))
            return code;
    }
    std::string bytes;
    code = scan(session, altered, plan, txn.get(), [&](std::string_view row_key, const uchar *record) {
        for (const auto &[key, tree] : new_trees_) {
            bool is_unique;
            bytes.clear();
            const Span span = ha_frond::append_entry(plan.indexes[key], record, row_key, &bytes, &is_unique);
            const std::string_view entry(bytes);
            if (int code = load.put(key, entry.substr(0, span.value), entry.substr(span.value)))
                return code;
        }
        return static_cast<int>(FROND_OK);
    });
    if (code == FROND_OK)
        code = load.finish();
    if (code != DUPLICATE_KEY || load.duplicate() == nullptr)
        return code;

    /*
      The first row that has the key supplies its columns, including those that the entry does not
      have.
    */
    const Table_load::Duplicate &duplicate = *load.duplicate();
    const int found = scan(session, altered, plan, txn.get(), [&](std::string_view row_key, const uchar *record) {
        bool is_unique;
        bytes.clear();
        const Span span = ha_frond::append_entry(plan.indexes[duplicate.index], record, row_key, &bytes, &is_unique);
        if (std::string_view(bytes).substr(0, span.value) != duplicate.key)
            return static_cast<int>(FROND_OK);
        print_keydup_error(altered, &altered->key_info[duplicate.index], MYF(0));
        return static_cast<int>(DUPLICATE_KEY);
    });
    return found == FROND_OK ? CORRUPT : found;
}

bool Index_change::build(THD *thd, handler *table, TABLE *altered)
{
    Session *session = Session::of(thd);
    const Plan plan(altered);
    name_trees();
    const int code = load(session, altered, plan);
    if (code == FROND_OK) {
        are_made_ = true;
        return true;
    }
    if (thd->killed)
        thd->send_kill_message();
    else if (code == INTERRUPTED)
        my_error(ER_QUERY_INTERRUPTED, MYF(0));
    else if (!thd->is_error())
        table->print_error(failed(thd, code, *session->error()), MYF(0));
    return false;
}

/*
  Returns the changed attributes. Called when no other session has the table open, since ANALYZE
  changes attributes, too.
*/
Attributes Index_change::changed() const
{
    Attributes before, after;
    {
        std::lock_guard<std::mutex> guard(share_->attributes_mutex);
        before = share_->attributes;
    }
    after = before;
    after.has_primary = has_primary_;
    after.index_names = names_;
    after.indexes = old_.size();
    after.rows_per_key.clear();
    if (auto_increment_)
        after.auto_increment = *auto_increment_;
    std::vector<uint> numbers;
    for (uint key = 0; key < old_.size(); key++) {
        numbers.push_back(old_[key] ? before.tree_number(*old_[key]) : new_trees_.at(key).number);
        if (old_[key] && *old_[key] < before.rows_per_key.size()) {
            after.rows_per_key.resize(key + 1);
            after.rows_per_key[key] = before.rows_per_key[*old_[key]];
        }
    }
    after.set_trees(std::move(numbers));
    return after;
}

void Index_change::add_steps(Steps *steps, Dropped_trees *going, bool *changes)
{
    const Attributes &before = share_->attributes;
    after_ = changed();
    if (after_.encode() == before.encode())
        return;
    after_.version = version_;
    *changes = true;
    for (uint key = 0; key < before.indexes; key++)
        if (std::find(old_.begin(), old_.end(), key) == old_.end()) {
            going->add(share_->tree(key).stored(), false);
            steps->drop(before.index_name(key));
        }
    steps->set_attributes(share_->name, after_);
}

void Index_change::committed()
{
    are_made_ = false;
    uint64_t first;
    if (auto_increment_)
        share_->reserve(AUTO_INCREMENT_COUNTER, *auto_increment_, 0, &first, nullptr);
    /* If keys have changed, the table is opened anew, with a share of its own. */
    std::lock_guard<std::mutex> guard(share_->attributes_mutex);
    if (after_.indexes == share_->attributes.indexes && after_.trees == share_->attributes.trees && after_.indexes != 0)
        share_->attributes = after_;
}

void Index_change::roll_back(THD *thd)
{
    if (!are_made_)
        return;
    are_made_ = false;
    Steps steps(thd);
    for (const auto &[key, tree] : new_trees_)
        steps.drop(tree.name);
    steps.commit();
}

int check_version(handlerton *, const char *path, const LEX_CUSTRING *version, ulonglong)
{
    const std::string name = tree_name(path), wanted = hexadecimal(*version);
    Attributes attributes;
    if (Attributes::read(name.c_str(), &attributes) == 0)
        return attributes.version != wanted;
    /* All partitions were changed by one commit, so any of them will do. */
    struct Search {
        std::string prefix, found;
    } search{name + "#P#", {}};
    frond_trees(
        store(),
        [](void *context, const char *text, size_t length) {
            Search *search = static_cast<Search *>(context);
            const std::string_view tree(text, length);
            if (search->found.empty() && tree.substr(0, search->prefix.size()) == search->prefix)
                search->found.assign(tree);
        },
        &search, nullptr);
    if (search.found.empty() || Attributes::read(search.found.c_str(), &attributes) != 0)
        return 2;
    return attributes.version != wanted;
}

int drop_unnamed_trees(handlerton *)
{
    struct Listed {
        std::map<std::string, std::set<std::string>> named; /* Trees of each table, by the id in their names. */
        std::vector<std::string> indexes;
        bool are_all_known = true; /* This build can read the attributes of all row trees. */
    } listed;
    auto keep = [](void *context, const frond_tree_listed *found) {
        Listed *listed = static_cast<Listed *>(context);
        Attributes attributes;
        if (found->name[0] == '#') {
            listed->indexes.emplace_back(found->name);
        } else if (found->attributes == nullptr ||
                   !Attributes::decode(view(found->attributes, found->attributes_length), &attributes)) {
            listed->are_all_known = false;
        } else {
            std::set<std::string> &named = listed->named[attributes.id];
            for (uint key = 0; key < attributes.indexes; key++)
                named.insert(attributes.index_name(key));
        }
    };
    if (frond_each_tree(store(), keep, &listed, nullptr) != FROND_OK)
        return 0;
    for (const std::string &tree : listed.indexes) {
        const auto table = listed.named.find(tree.substr(1, tree.rfind('/') - 1));
        const bool is_named = table == listed.named.end() ? !listed.are_all_known : table->second.count(tree) != 0;
        if (is_named)
            continue;
        /*
          Each tree is dropped in a commit of its own: a tree that cannot be dropped, because a
          prepared transaction has written to it, must not keep the others from being dropped.
        */
        Steps steps(nullptr);
        steps.drop(tree);
        steps.commit();
    }
    return 0;
}

}  // namespace frond
