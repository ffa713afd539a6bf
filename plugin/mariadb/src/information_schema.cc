/* SPDX-License-Identifier: GPL-2.0-only */
#include "information_schema.h"

#include "errors.h"
#include "opened_tree.h"
#include "schema_row.h"
#include "store.h"
#include "table_options.h"

#include "sql_acl.h"
#include "sql_show.h"

#include <algorithm>

namespace Show {

static ST_FIELD_INFO trx_fields[] = {
    Column("trx_id", ULonglong(), NOT_NULL),
    Column("trx_state", Varchar(9), NOT_NULL),
    Column("trx_mysql_thread_id", ULonglong(), NOT_NULL),
    Column("trx_query", Varchar(1024), NULLABLE),
    Column("trx_rows_modified", ULonglong(), NOT_NULL),
    Column("trx_locks_seconds", frond::seconds_type(), NULLABLE),
    Column("trx_snapshot_seconds", frond::seconds_type(), NULLABLE),
    Column("trx_snapshot_seqno", ULonglong(), NULLABLE),
    CEnd(),
};

/* Columns that say what is locked, and how. */
#define LOCK_COLUMNS                                                                                            \
    Column("lock_mode", Varchar(3), NOT_NULL),                                                                  \
        Column("lock_type", Varchar(6), NOT_NULL),                                                              \
        Column("lock_schema", Name(), NULLABLE),                                                                \
        Column("lock_table", Name(), NULLABLE),                                                                 \
        Column("lock_partition", Varchar(2 * NAME_CHAR_LEN + 1), NULLABLE),                                     \
        Column("lock_index", Name(), NULLABLE),                                                                 \
        Column("lock_data", Varchar(300), NULLABLE),                                                            \
        Column("lock_tree_id", ULonglong(), NOT_NULL)

static ST_FIELD_INFO locks_fields[] = {
    Column("lock_trx_id", ULonglong(), NOT_NULL),
    Column("lock_mysql_thread_id", ULonglong(), NOT_NULL),
    LOCK_COLUMNS,
    CEnd(),
};

static ST_FIELD_INFO lock_waits_fields[] = {
    Column("requesting_trx_id", ULonglong(), NOT_NULL),
    Column("requesting_mysql_thread_id", ULonglong(), NOT_NULL),
    Column("blocking_trx_id", ULonglong(), NOT_NULL),
    Column("blocking_mysql_thread_id", ULonglong(), NOT_NULL),
    LOCK_COLUMNS,
    Column("wait_started", Datetime(0), NOT_NULL),
    Column("wait_seconds", frond::seconds_type(), NOT_NULL),
    CEnd(),
};

static ST_FIELD_INFO trees_fields[] = {
    Column("tree_id", ULonglong(), NOT_NULL),
    Column("table_schema", Name(), NULLABLE),
    Column("table_name", Name(), NULLABLE),
    Column("partition_name", Varchar(2 * NAME_CHAR_LEN + 1), NULLABLE),
    Column("index_name", Name(), NULLABLE),
    Column("kind", Varchar(5), NOT_NULL),
    Column("compression", Varchar(7), NOT_NULL),
    Column("table_rows", ULonglong(), NOT_NULL),
    Column("rows_exact", Varchar(3), NOT_NULL),
    Column("height", ULong(), NOT_NULL),
    Column("leaves", ULonglong(), NOT_NULL),
    Column("leaf_rows", ULonglong(), NOT_NULL),
    Column("raw_bytes", ULonglong(), NOT_NULL),
    Column("encoded_bytes", ULonglong(), NOT_NULL),
    Column("disk_bytes", ULonglong(), NOT_NULL),
    Column("blob_bytes", ULonglong(), NOT_NULL),
    Column("buffered_bytes", ULonglong(), NOT_NULL),
    Column("memory_bytes", ULonglong(), NOT_NULL),
    Column("ratio", Decimal(1002), NULLABLE),
    Column("tree_name", Varchar(512), NOT_NULL),
    CEnd(),
};

}  // namespace Show

namespace frond {

struct st_mysql_information_schema information_schema = {MYSQL_INFORMATION_SCHEMA_INTERFACE_VERSION};

bool may_look(THD *thd)
{
    return !check_global_access(thd, PROCESS_ACL) && store() != nullptr;
}

namespace {

/* Maximum number of locks that are listed; a warning says how many more there are. */
constexpr size_t LOCKS_MAX = 100000;
constexpr size_t QUERY_BYTES_MAX = 3 * 1024;

/*
  The target that a callback fills. The store gathers everything before it reports, and holds no
  lock during the callback, since storing a row may wait for the disk.
*/
struct Filling {
    THD *thd;
    TABLE *table;
    Tree_names names;
    bool failed = false;
};

const char *mode_name(const frond_locked &lock)
{
    if (lock.on != FROND_ON_TREE)
        return lock.mode == FROND_SHARED ? "S" : "X";
    switch (lock.mode) {
    case FROND_TREE_INTENT_SHARED:
        return "IS";
    case FROND_TREE_INTENT_EXCLUSIVE:
        return "IX";
    case FROND_TREE_SHARED:
        return "S";
    case FROND_TREE_SHARED_INTENT_EXCLUSIVE:
        return "SIX";
    default:
        return "X";
    }
}

const char *type_name(const frond_locked &lock)
{
    return lock.on == FROND_ON_ROW ? "RECORD" : lock.on == FROND_ON_GAP ? "GAP" : "TABLE";
}

/* A key as stored, in hexadecimal digits; dots if there is more of it. */
std::string hex(const frond_key_start &key)
{
    static const char digits[] = "0123456789ABCDEF";
    std::string text = "0x";
    for (size_t i = 0; i < key.held; i++) {
        text += digits[key.data[i] >> 4];
        text += digits[key.data[i] & 15];
    }
    return key.length > key.held ? text + "..." : text;
}

std::optional<std::string> data_of(const frond_locked &lock)
{
    if (!lock.key.is_known)
        return std::nullopt;
    return hex(lock.key);
}

/* A gap as an interval of keys. */
std::optional<std::string> data_of(const frond_held &held)
{
    if (held.lock.on != FROND_ON_GAP)
        return data_of(held.lock);
    std::string text = held.from.is_known ? (held.with_from ? "[" : "(") + hex(held.from) : "(first";
    text += ", ";
    return text + (held.to.is_known ? hex(held.to) + (held.with_to ? "]" : ")") : "last)");
}

void lock_columns(Filling *filling, Schema_row *row, const frond_locked &lock, const std::optional<std::string> &data)
{
    row->text(mode_name(lock)).text(type_name(lock)).place(filling->names.find(lock.tree)).text_if(data).number(lock.tree);
}

/* The current statement of a connection; nothing if it has ended or is between two statements. */
std::optional<std::string> query_of(uint64_t thread)
{
    char query[QUERY_BYTES_MAX + 1];
    THD *thd = thread == 0 ? nullptr : find_thread_by_id(static_cast<longlong>(thread));
    if (thd == nullptr)
        return std::nullopt;
    const size_t length = thd_query_safe(thd, query, sizeof query);
    mysql_mutex_unlock(&thd->LOCK_thd_kill);
    if (length == 0)
        return std::nullopt;
    return std::string(query, length);
}

int fill_trx(THD *thd, TABLE_LIST *tables, COND *)
{
    if (!may_look(thd))
        return 0;
    std::vector<frond_live> all;
    auto keep = [](void *context, const frond_live *live) {
        static_cast<std::vector<frond_live> *>(context)->push_back(*live);
    };
    frond_each_transaction(store(), keep, &all, nullptr);
    for (const frond_live &live : all) {
        auto age = [](Schema_row &row, int64_t nanos) { nanos < 0 ? row.null() : row.seconds(nanos); };
        Schema_row row(thd, tables->table);
        row.number(live.id).text(live.waits ? "LOCK WAIT" : "RUNNING").number(live.tag).text_if(query_of(live.tag));
        row.number(live.writes);
        age(row, live.locks_nanos);
        age(row, live.snapshot_nanos);
        live.snapshot_nanos < 0 ? row.null() : row.number(live.snapshot_seqno);
        if (row.store())
            return 1;
    }
    return 0;
}

int fill_locks(THD *thd, TABLE_LIST *tables, COND *)
{
    if (!may_look(thd))
        return 0;
    Filling filling{thd, tables->table, {}};
    size_t more = 0;
    auto keep = [](void *context, const frond_held *held) {
        Filling *filling = static_cast<Filling *>(context);
        if (filling->failed)
            return;
        Schema_row row(filling->thd, filling->table);
        row.number(held->owner).number(held->tag);
        lock_columns(filling, &row, held->lock, data_of(*held));
        filling->failed = row.store();
    };
    frond_each_lock(store(), LOCKS_MAX, keep, &filling, &more, nullptr);
    if (more > 0)
        push_warning_printf(thd, Sql_condition::WARN_LEVEL_WARN, ER_UNKNOWN_ERROR,
                            "Frond: only the first %zu locks are listed; about %zu more are held", LOCKS_MAX, more);
    return filling.failed;
}

int fill_lock_waits(THD *thd, TABLE_LIST *tables, COND *)
{
    if (!may_look(thd))
        return 0;
    Filling filling{thd, tables->table, {}};
    auto keep = [](void *context, const frond_wait *wait) {
        Filling *filling = static_cast<Filling *>(context);
        for (size_t i = 0; i < wait->holders_count && !filling->failed; i++) {
            Schema_row row(filling->thd, filling->table);
            row.number(wait->waiter).number(wait->tag).number(wait->holders[i]).number(wait->holder_tags[i]);
            lock_columns(filling, &row, wait->lock, data_of(wait->lock));
            row.ago(wait->lasts_nanos).seconds(wait->lasts_nanos);
            filling->failed = row.store();
        }
    };
    frond_each_wait(store(), keep, &filling, nullptr);
    return filling.failed;
}

int fill_trees(THD *thd, TABLE_LIST *tables, COND *)
{
    if (!may_look(thd))
        return 0;
    const Tree_names names;
    for (const Named_tree &tree : names.all()) {
        const Opened_tree opened(tree);
        frond_sizes sizes;
        frond_error error;
        if (opened.get() == nullptr)
            continue;
        if (int code = frond_tree_sizes(opened.get(), &sizes, &error)) {
            /* A page that cannot be read must not keep other trees from being listed. */
            failed(thd, code, error);
            continue;
        }
        Schema_row row(thd, tables->table);
        row.number(tree.id).place(&tree);
        row.text(tree.kind == Named_tree::ROWS ? "rows" : tree.kind == Named_tree::INDEX ? "index" : "other");
        row.text(size_class_name(tree.size_class)).number(sizes.rows).text(sizes.rows_exact ? "YES" : "NO");
        row.number(sizes.depth).number(sizes.leaves).number(sizes.leaf_rows).number(sizes.raw_bytes);
        row.number(sizes.encoded_bytes).number(sizes.disk_bytes).number(sizes.blob_bytes);
        row.number(sizes.buffered_bytes).number(sizes.memory_bytes);
        row.ratio(sizes.raw_bytes, sizes.disk_bytes - std::min(sizes.disk_bytes, sizes.blob_bytes)).text(tree.name);
        if (row.store())
            return 1;
        if (thd_killed(thd))
            return 1;
    }
    return 0;
}

}  // namespace

int init_table(void *schema, ST_FIELD_INFO *fields, int (*fill)(THD *, TABLE_LIST *, Item *))
{
    ST_SCHEMA_TABLE *table = static_cast<ST_SCHEMA_TABLE *>(schema);
    table->fields_info = fields;
    table->fill_table = fill;
    return 0;
}

int init_trx_table(void *schema)
{
    return init_table(schema, Show::trx_fields, fill_trx);
}

int init_locks_table(void *schema)
{
    return init_table(schema, Show::locks_fields, fill_locks);
}

int init_lock_waits_table(void *schema)
{
    return init_table(schema, Show::lock_waits_fields, fill_lock_waits);
}

int init_trees_table(void *schema)
{
    return init_table(schema, Show::trees_fields, fill_trees);
}

}  // namespace frond
