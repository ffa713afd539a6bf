/*
 * What a server does, over the C API: a table of accounts with a unique index, whose rows are
 * written with all entries in one transaction. Prints nothing and returns 0 on success.
 */
#include "must.h"

enum { DEADLOCK = 1102, LOCK_BUSY = 1105, ROW_EXISTS = 1108, NO_SUCH_XID = 1110, XID_BUSY = 1112 };

static frond_db *db;
static frond_tree *rows, *by_name;

typedef struct {
    uint8_t bytes[8];
} id_key;

static id_key key_of(uint64_t id)
{
    id_key key;
    for (int i = 0; i < 8; i++)
        key.bytes[i] = (uint8_t)(id >> (56 - 8 * i));
    return key;
}

static frond_txn *begin(int isolation)
{
    frond_txn_options options;
    frond_txn *txn;
    frond_txn_options_init(&options);
    options.isolation = isolation;
    options.lock_timeout_ms = 50;
    MUST(frond_txn_begin(db, &options, &txn, &error));
    return txn;
}

static void commit(frond_txn *txn)
{
    uint64_t seqno = 0;
    MUST(frond_txn_commit(txn, &seqno, &error));
    CHECK(seqno > 0);
}

/* A row (id, name, balance): in `rows` id -> balance, name; in `by_name` name -> id. */
typedef struct {
    id_key key;
    uint8_t value[8 + 64];
    frond_entry entries[2];
} row;

static void make_row(row *made, uint64_t id, const char *name, int64_t balance)
{
    size_t length = strlen(name);
    made->key = key_of(id);
    memcpy(made->value, &balance, 8);
    memcpy(made->value + 8, name, length);
    frond_entry own = {rows, made->key.bytes, 8, made->value, 8 + length, true, false};
    frond_entry indexed = {by_name, name, length, made->key.bytes, 8, true, false};
    made->entries[0] = own;
    made->entries[1] = indexed;
}

/* Inserts a row. Returns the index of the entry that is in conflict, or -1. */
static int64_t insert(frond_txn *txn, uint64_t id, const char *name, int64_t balance, frond_buffer *whose)
{
    row made;
    frond_conflict conflict = {0, {NULL, 0, 0}};
    make_row(&made, id, name, balance);
    MUST(frond_txn_insert_row(txn, made.entries, 2, FROND_EXCLUSIVE, &conflict, &error));
    if (whose != NULL && conflict.index >= 0)
        *whose = conflict.value;
    else
        frond_buffer_free(&conflict.value);
    return conflict.index;
}

static int insert_row(frond_txn *txn, uint64_t id, const char *name, int64_t balance)
{
    row made;
    frond_conflict conflict = {0, {NULL, 0, 0}};
    make_row(&made, id, name, balance);
    int code = frond_txn_insert_row(txn, made.entries, 2, FROND_EXCLUSIVE, &conflict, &error);
    CHECK(code != FROND_OK || conflict.index == -1);
    frond_buffer_free(&conflict.value);
    return code;
}

static int64_t balance_of(uint64_t id)
{
    id_key key = key_of(id);
    frond_buffer value = {0};
    int64_t balance = -1;
    int code = frond_get(rows, key.bytes, 8, &value, &error);
    CHECK(code == FROND_OK || code == FROND_NOT_FOUND);
    if (code == FROND_OK)
        memcpy(&balance, value.data, 8);
    frond_buffer_free(&value);
    return balance;
}

static size_t count(frond_tree *tree)
{
    frond_cursor *cursor;
    frond_rows batch;
    size_t found = 0, batches = 0;
    int code;
    MUST(frond_scan(tree, NULL, 0, NULL, 0, &cursor, &error));
    while ((code = frond_cursor_next(cursor, 0, &batch, &error)) == FROND_OK) {
        CHECK(batch.count > 0);
        CHECK(batches > 0 || batch.count <= 16);
        found += batch.count;
        batches++;
    }
    CHECK(code == FROND_NOT_FOUND && batch.count == 0);
    frond_cursor_free(cursor);
    return found;
}

/* INSERT ... ON DUPLICATE KEY UPDATE balance = balance + 1: the conflict tells which row has the
 * name and leaves the entry locked, and the transaction continues from there. */
static void insert_or_update(uint64_t id, const char *name)
{
    frond_txn *txn = begin(FROND_REPEATABLE_READ);
    frond_buffer whose = {0}, value = {0};
    int64_t balance, index = insert(txn, id, name, 1, &whose);
    if (index >= 0) {
        CHECK(index == 1 && whose.length == 8);
        MUST(frond_txn_get(txn, rows, whose.data, 8, FROND_EXCLUSIVE, FROND_WAIT, &value, &error));
        memcpy(&balance, value.data, 8);
        balance++;
        memcpy(value.data, &balance, 8);
        frond_change change = {{rows, whose.data, 8, value.data, value.length, true, false}, true, true, whose.data, 8};
        frond_conflict conflict = {0, {NULL, 0, 0}};
        MUST(frond_txn_update_row(txn, &change, 1, FROND_EXCLUSIVE, &conflict, &error));
        CHECK(conflict.index == -1);
    }
    frond_buffer_free(&whose);
    frond_buffer_free(&value);
    commit(txn);
}

/* REPLACE: the row in conflict is deleted with all its entries. */
static void replace(uint64_t id, const char *name, int64_t balance)
{
    frond_txn *txn = begin(FROND_REPEATABLE_READ);
    frond_buffer whose = {0};
    while (insert(txn, id, name, balance, &whose) == 1) {
        frond_entry old[2] = {{rows, whose.data, 8, NULL, 0, true, false},
                              {by_name, name, strlen(name), NULL, 0, true, false}};
        MUST(frond_txn_delete_row(txn, old, 2, &error));
        frond_buffer_free(&whose);
    }
    commit(txn);
}

/* UPDATE t SET k = k + 1 over a unique index: from the end, so that no key collides with its
 * neighbour. */
static void shift_all(frond_tree *tree)
{
    frond_txn *txn = begin(FROND_REPEATABLE_READ);
    frond_cursor *cursor;
    frond_rows batch;
    int code;
    MUST(frond_txn_scan(txn, tree, NULL, 0, NULL, 0, FROND_EXCLUSIVE, FROND_WAIT, &cursor, &error));
    MUST(frond_cursor_seek_last(cursor, &error));
    while ((code = frond_cursor_prev(cursor, 0, &batch, &error)) == FROND_OK) {
        CHECK(batch.count == 1 && batch.rows[0].key_length == 8);
        uint64_t k = 0;
        for (int i = 0; i < 8; i++)
            k = k << 8 | batch.rows[0].key[i];
        id_key old = key_of(k), next = key_of(k + 1);
        MUST(frond_txn_delete(txn, tree, old.bytes, 8, &error));
        MUST(frond_txn_insert(txn, tree, next.bytes, 8, batch.rows[0].value, batch.rows[0].value_length, &error));
    }
    CHECK(code == FROND_NOT_FOUND);
    /* A transaction cannot end while it has cursors. */
    GIVES(1001, frond_txn_commit(txn, NULL, &error));
    frond_cursor_free(cursor);
    commit(txn);
}

/* UPDATE t SET k = k + 1, where k has a unique index of its own: id -> k, k -> id. From the first
 * row on, the first collides with its neighbour, and the statement is rolled back; from the last
 * row on it succeeds. */
static void shift_by_index(void)
{
    enum { ROWS = 40 };
    frond_tree *table, *by_k;
    frond_tree_options options;
    MUST(frond_tree_create(db, "numbers", NULL, &table, &error));
    frond_tree_options_init(&options);
    options.unique = true;
    MUST(frond_tree_create(db, "numbers by k", &options, &by_k, &error));
    frond_txn *txn = begin(FROND_REPEATABLE_READ);
    for (uint64_t id = 0; id < ROWS; id++) {
        id_key key = key_of(id), k = key_of(100 + id);
        frond_conflict none = {0, {NULL, 0, 0}};
        frond_entry entries[2] = {{table, key.bytes, 8, k.bytes, 8, true, false}, {by_k, k.bytes, 8, key.bytes, 8, true, false}};
        MUST(frond_txn_insert_row(txn, entries, 2, FROND_EXCLUSIVE, &none, &error));
        CHECK(none.index == -1);
    }
    commit(txn);
    txn = begin(FROND_REPEATABLE_READ);
    for (int backwards = 0; backwards < 2; backwards++) {
        frond_cursor *cursor;
        frond_rows batch;
        uint64_t changed = 0;
        int code;
        frond_conflict conflict = {-1, {NULL, 0, 0}};
        MUST(frond_txn_begin_statement(txn, &error));
        MUST(frond_txn_scan(txn, table, NULL, 0, NULL, 0, FROND_EXCLUSIVE, FROND_WAIT, &cursor, &error));
        if (backwards)
            MUST(frond_cursor_seek_last(cursor, &error));
        while ((code = backwards ? frond_cursor_prev(cursor, 1, &batch, &error)
                                 : frond_cursor_next(cursor, 1, &batch, &error)) == FROND_OK) {
            const frond_row *found = &batch.rows[0];
            id_key key, old, next;
            memcpy(key.bytes, found->key, 8);
            memcpy(old.bytes, found->value, 8);
            next = old;
            next.bytes[7]++;
            frond_change changes[2] = {
                {{table, key.bytes, 8, next.bytes, 8, true, false}, true, true, key.bytes, 8},
                {{by_k, next.bytes, 8, key.bytes, 8, true, false}, true, true, old.bytes, 8},
            };
            MUST(frond_txn_update_row(txn, changes, 2, FROND_EXCLUSIVE, &conflict, &error));
            if (conflict.index >= 0)
                break;
            changed++;
        }
        frond_cursor_free(cursor);
        if (backwards) {
            CHECK(code == FROND_NOT_FOUND && changed == ROWS);
        } else {
            id_key neighbour = key_of(1);
            CHECK(changed == 0 && conflict.index == 1 && conflict.value.length == 8);
            CHECK(memcmp(conflict.value.data, neighbour.bytes, 8) == 0);
            frond_buffer_free(&conflict.value);
            MUST(frond_txn_rollback_statement(txn, &error));
        }
    }
    commit(txn);
    for (uint64_t id = 0; id < ROWS; id++) {
        id_key key = key_of(id), k = key_of(101 + id);
        frond_buffer value = {0};
        MUST(frond_get(by_k, k.bytes, 8, &value, &error));
        CHECK(value.length == 8 && memcmp(value.data, key.bytes, 8) == 0);
        frond_buffer_free(&value);
        MUST(frond_get(table, key.bytes, 8, &value, &error));
        CHECK(value.length == 8 && memcmp(value.data, k.bytes, 8) == 0);
        frond_buffer_free(&value);
    }
    CHECK(count(table) == ROWS && count(by_k) == ROWS);
    frond_tree_free(table);
    frond_tree_free(by_k);
}

/* Makes an entry of the table's index by colour: colour and id. Used by writers and by the build.
 */
static void entry_of(uint8_t entry[16], const uint8_t *id, const uint8_t *colour)
{
    memcpy(entry, colour, 8);
    memcpy(entry + 8, id, 8);
}

/* UPDATE t SET colour, by a writer that does not know of the index; colour 0 deletes the row. */
static void paint(frond_txn *txn, frond_tree *table, uint64_t from, uint64_t to, uint64_t colour)
{
    for (id_key id = key_of(from), is = key_of(colour); from < to; id = key_of(++from))
        MUST(colour == 0 ? frond_txn_delete(txn, table, id.bytes, 8, &error)
                         : frond_txn_put(txn, table, id.bytes, 8, is.bytes, 8, &error));
}

/* Does one round of a build; returns the number of rows that writers have changed. */
static size_t follow(frond_index_build *build)
{
    frond_row_changed row;
    uint8_t was[16], is[16];
    size_t found = 0;
    int code;
    for (; (code = frond_index_build_next(build, &row, &error)) == FROND_OK; found++) {
        if (row.before != NULL)
            entry_of(was, row.key, row.before);
        if (row.after != NULL)
            entry_of(is, row.key, row.after);
        MUST(frond_index_build_change(build, 0, row.before ? was : NULL, row.before ? 16 : 0, row.after ? is : NULL,
                                      row.after ? 16 : 0, NULL, 0, &error));
    }
    CHECK(code == FROND_NOT_FOUND);
    return found;
}

/* Online CREATE INDEX. It is started while a transaction writes, and waits for it. Then it takes
 * the rows of its snapshot, while others change them, and then their changes; the last of these
 * once it holds the table exclusively. */
static void build_online(uint64_t many)
{
    frond_index_build *build;
    frond_tree *table, *index;
    frond_snapshot *moment;
    frond_cursor *cursor;
    frond_rows batch;
    frond_buffer empty = {0};
    uint8_t entry[16];
    MUST(frond_tree_create(db, "things", NULL, &table, &error));
    frond_txn *txn = begin(FROND_READ_COMMITTED), *other = begin(FROND_READ_COMMITTED);
    paint(txn, table, 0, many, 1);
    MUST(frond_index_build_begin(db, table, (const char *const[]){"by colour"}, NULL, 1, &build, &error));
    GIVES(1101, frond_index_build_snapshot(build, 5, &moment, &error));
    commit(txn);
    MUST(frond_index_build_snapshot(build, -1, &moment, &error));
    paint(other, table, 10, 20, 2);
    paint(other, table, 20, 30, 0);
    paint(other, table, many, many + 10, 3);
    commit(other);
    MUST(frond_snapshot_scan(moment, table, NULL, 0, NULL, 0, &cursor, &error));
    while (frond_cursor_next(cursor, 0, &batch, &error) == FROND_OK)
        for (size_t i = 0; i < batch.count; i++) {
            entry_of(entry, batch.rows[i].key, batch.rows[i].value);
            MUST(frond_index_build_add(build, 0, entry, 16, NULL, 0, &error));
        }
    frond_cursor_free(cursor);
    frond_snapshot_free(moment);
    CHECK(follow(build) == 30);
    txn = begin(FROND_READ_COMMITTED);
    paint(txn, table, 15, 25, 4);
    GIVES(1101, frond_index_build_lock(build, 5, &error));
    commit(txn);
    MUST(frond_index_build_lock(build, -1, &error));
    txn = begin(FROND_READ_COMMITTED);
    GIVES(1101, frond_txn_put(txn, table, "late", 4, NULL, 0, &error));
    CHECK(follow(build) == 10);
    MUST(frond_index_build_publish(build, NULL, NULL, &index, &error));
    MUST(frond_txn_rollback(txn, &error));
    CHECK(count(table) == many + 5 && count(index) == many + 5);
    MUST(frond_scan(table, NULL, 0, NULL, 0, &cursor, &error));
    while (frond_cursor_next(cursor, 0, &batch, &error) == FROND_OK)
        for (size_t i = 0; i < batch.count; i++) {
            entry_of(entry, batch.rows[i].key, batch.rows[i].value);
            MUST(frond_get(index, entry, 16, &empty, &error));
        }
    frond_cursor_free(cursor);
    frond_buffer_free(&empty);
    frond_tree_free(table);
    frond_tree_free(index);
}

/* A statement of many rows fails at its last one and leaves nothing; earlier writes stay. */
static void statement_rolls_back(uint64_t many)
{
    frond_tree *tree;
    frond_buffer value = {0};
    id_key key = key_of(0);
    MUST(frond_tree_create(db, "many", NULL, &tree, &error));
    frond_txn *txn = begin(FROND_READ_COMMITTED);
    MUST(frond_txn_put(txn, tree, "before", 6, NULL, 0, &error));
    MUST(frond_txn_begin_statement(txn, &error));
    for (uint64_t id = 0; id < many; id++) {
        key = key_of(id);
        MUST(frond_txn_insert(txn, tree, key.bytes, 8, "row", 3, &error));
    }
    key = key_of(many / 2);
    GIVES(ROW_EXISTS, frond_txn_insert(txn, tree, key.bytes, 8, NULL, 0, &error));
    CHECK(error.kind == FROND_FIX_CALL && strstr(error.message, "many") != NULL);
    MUST(frond_txn_rollback_statement(txn, &error));
    GIVES(FROND_NOT_FOUND, frond_txn_get(txn, tree, key.bytes, 8, FROND_NO_LOCK, FROND_WAIT, &value, &error));
    commit(txn);
    CHECK(count(tree) == 1);
    frond_buffer_free(&value);
    frond_tree_free(tree);
    MUST(frond_tree_drop(db, "many", &error));
}

/* A child row is inserted: its parent must exist, and is locked against deletion. */
static void foreign_key(void)
{
    frond_txn *child = begin(FROND_READ_COMMITTED), *other = begin(FROND_READ_COMMITTED);
    id_key parent = key_of(1), nobody = key_of(999);
    frond_buffer value = {0};
    MUST(frond_txn_get(child, rows, parent.bytes, 8, FROND_SHARED, FROND_WAIT, &value, &error));
    GIVES(1101, frond_txn_delete(other, rows, parent.bytes, 8, &error));
    CHECK(error.kind == FROND_RETRY);
    GIVES(LOCK_BUSY, frond_txn_get(other, rows, parent.bytes, 8, FROND_EXCLUSIVE, FROND_NO_WAIT, &value, &error));
    GIVES(FROND_NOT_FOUND, frond_txn_get(child, rows, nobody.bytes, 8, FROND_SHARED, FROND_WAIT, &value, &error));
    GIVES(1101, frond_txn_put(other, rows, nobody.bytes, 8, NULL, 0, &error));
    MUST(frond_txn_rollback(child, &error));
    MUST(frond_txn_rollback(other, &error));
    frond_buffer_free(&value);
}

typedef struct {
    int told, detached;
    size_t rows;
} tally;

static void tell_prepared(void *context, const uint8_t *xid, size_t length, size_t written, bool is_detached)
{
    tally *all = context;
    CHECK(length == 3 && memcmp(xid, "xa", 2) == 0);
    all->told++;
    all->detached += is_detached;
    all->rows += written;
}

static tally prepared(bool only_new)
{
    tally all = {0, 0, 0};
    MUST(frond_prepared_list(db, only_new, tell_prepared, &all, &error));
    return all;
}

static void open_store(const char *path)
{
    frond_options options;
    frond_options_init(&options);
    options.cache_size = 256 << 20;
    options.durability = FROND_LAZY;
    MUST(frond_open(path, &options, &db, &error));
}

static void open_trees(void)
{
    MUST(frond_tree_open(db, "rows", &rows, &error));
    MUST(frond_tree_open(db, "by_name", &by_name, &error));
}

static void close_store(void)
{
    frond_tree_free(rows);
    frond_tree_free(by_name);
    MUST(frond_close(db, &error));
}

/* XA: prepared, recovered by a restart, listed once, decided by name from elsewhere. */
static void two_phases(const char *path)
{
    frond_prepared *first, *second;
    uint64_t one, two;
    frond_txn *txn = begin(FROND_REPEATABLE_READ);
    MUST(insert_row(txn, 71, "xa one", 1));
    MUST(frond_txn_prepare(txn, "xa1", 3, FROND_SYNC, &first, &error));
    txn = begin(FROND_REPEATABLE_READ);
    MUST(insert_row(txn, 72, "xa two", 2));
    MUST(frond_txn_prepare(txn, "xa2", 3, FROND_LAZY, &second, &error));
    MUST(frond_prepared_commit_ordered(second, &two, &error));
    MUST(frond_prepared_commit_ordered(first, &one, &error));
    CHECK(one == two + 1);
    MUST(frond_prepared_commit(first, FROND_AS_STORE, &error));
    frond_prepared_detach(second);
    CHECK(balance_of(71) == 1 && balance_of(72) == 2);
    for (char name = '3'; name <= '4'; name++) {
        char xid[4] = {'x', 'a', name, 0}, row[] = "xa row ?";
        row[7] = name;
        txn = begin(FROND_REPEATABLE_READ);
        MUST(insert_row(txn, 70 + (uint64_t)(name - '0'), row, 9));
        MUST(frond_txn_prepare(txn, xid, 3, FROND_SYNC, &first, &error));
        GIVES(XID_BUSY, frond_prepared_attach(db, xid, 3, &second, &error));
        CHECK(second == NULL);
        frond_prepared_detach(first);
    }
    CHECK(prepared(false).told == 2 && prepared(true).told == 0);
    close_store();
    open_store(path);
    open_trees();
    tally found = prepared(true);
    CHECK(found.told == 2 && found.detached == 2 && found.rows == 4);
    CHECK(prepared(true).told == 0 && prepared(false).told == 2);
    txn = begin(FROND_READ_COMMITTED);
    GIVES(1101, insert_row(txn, 80, "xa row 3", 1));
    MUST(frond_txn_rollback(txn, &error));
    MUST(frond_prepared_attach(db, "xa3", 3, &first, &error));
    MUST(frond_prepared_commit(first, FROND_SYNC, &error));
    MUST(frond_prepared_attach(db, "xa4", 3, &first, &error));
    MUST(frond_prepared_rollback(first, &error));
    GIVES(NO_SUCH_XID, frond_prepared_attach(db, "xa4", 3, &first, &error));
    CHECK(balance_of(73) == 9 && balance_of(74) == -1);
}

static void tell_nothing(void *context, const char *text, size_t length)
{
    CHECK(strlen(text) == length);
    ++*(int *)context;
}

/* Checks that a listing agrees with the opened tree. */
static void tell_tree(void *context, const frond_tree_listed *listed)
{
    frond_error error;
    frond_tree *tree;
    frond_buffer attributes = {0};
    frond_sizes sizes;
    frond_work work;
    uint64_t birth, rows;
    bool exact;
    MUST(frond_tree_open(db, listed->name, &tree, &error));
    MUST(frond_tree_info(tree, &birth, &attributes, &error));
    CHECK(frond_tree_id(tree) == listed->id && birth == listed->birth);
    CHECK(listed->size_class == FROND_DEFAULT && attributes.length == listed->attributes_length);
    CHECK(attributes.length == 0 || memcmp(attributes.data, listed->attributes, attributes.length) == 0);
    MUST(frond_tree_row_count(tree, &rows, &exact, &error));
    MUST(frond_tree_sizes(tree, &sizes, &error));
    CHECK(sizes.rows == rows && sizes.rows_exact == exact);
    CHECK(sizes.encoded_bytes + sizes.buffered_bytes + sizes.memory_bytes > 0 || rows == 0);
    CHECK(sizes.disk_bytes >= sizes.encoded_bytes + sizes.blob_bytes && (sizes.depth > 0 || sizes.leaves == 0));
    MUST(frond_tree_work(tree, &work, &error));
    CHECK(work.size_class == listed->size_class && work.leaves.chunks_coded_bytes <= work.leaves.bytes);
    frond_buffer_free(&attributes);
    frond_tree_free(tree);
    ++*(int *)context;
}

/* Invalid calls are refused and do nothing. */
static void misuse(const char *path)
{
    frond_options options;
    frond_db *another = (frond_db *)1;
    frond_tree *tree;
    frond_txn *txn;
    frond_buffer value = {0};
    uint64_t number;
    int told = 0;
    frond_options_init(NULL);
    frond_txn_options_init(NULL);
    frond_tree_options_init(NULL);
    GIVES(1001, frond_open(NULL, NULL, &another, &error));
    CHECK(another == NULL);
    GIVES(1001, frond_open(path, NULL, NULL, &error));
    GIVES(3101, frond_open(path, NULL, &another, &error));
    CHECK(error.kind == FROND_FIX_MACHINE);
    frond_options_init(&options);
    options.durability = 77;
    GIVES(1001, frond_open(path, &options, &another, NULL));
    GIVES(1001, frond_close(NULL, &error));
    GIVES(1001, frond_checkpoint(NULL, &error));
    GIVES(1004, frond_tree_open(db, "no such", &tree, &error));
    GIVES(1001, frond_tree_open(db, "\xff\xfe", &tree, &error));
    GIVES(1001, frond_tree_create(db, "", NULL, &tree, &error));
    GIVES(1005, frond_tree_create(db, "rows", NULL, &tree, &error));
    GIVES(1001, frond_put(rows, NULL, 5, "v", 1, &error));
    GIVES(1001, frond_put(NULL, "k", 1, "v", 1, &error));
    GIVES(1001, frond_get(rows, "k", 1, NULL, &error));
    GIVES(FROND_NOT_FOUND, frond_get(rows, NULL, 0, &value, &error));
    GIVES(1001, frond_txn_begin(NULL, NULL, &txn, &error));
    GIVES(1001, frond_txn_commit(NULL, NULL, &error));
    GIVES(1001, frond_txn_rollback(NULL, &error));
    GIVES(1001, frond_txn_put(NULL, rows, NULL, 0, NULL, 0, &error));
    GIVES(1001, frond_cursor_next(NULL, 0, NULL, &error));
    GIVES(1001, frond_txn_insert_row(NULL, NULL, 0, FROND_SHARED, NULL, &error));
    GIVES(1001, frond_txn_unlock_last(NULL, &error));
    GIVES(1001, frond_prepared_commit(NULL, FROND_AS_STORE, &error));
    MUST(frond_txn_begin(db, NULL, &txn, &error));
    CHECK(frond_txn_id(txn) > 0 && frond_txn_id(NULL) == 0);
    GIVES(1001, frond_txn_get(txn, rows, NULL, 0, 9, FROND_WAIT, &value, &error));
    GIVES(1001, frond_txn_rollback_to(txn, 1, &error));
    GIVES(1001, frond_txn_delete_row(txn, NULL, 3, &error));
    /* The key may lie in the buffer that receives the value. */
    MUST(frond_txn_put(txn, rows, "one", 3, "two", 3, &error));
    MUST(frond_txn_put(txn, rows, "two", 3, "three", 5, &error));
    MUST(frond_txn_get(txn, rows, "one", 3, FROND_NO_LOCK, FROND_WAIT, &value, &error));
    MUST(frond_txn_get(txn, rows, value.data, value.length, FROND_NO_LOCK, FROND_WAIT, &value, &error));
    CHECK(value.length == 5 && memcmp(value.data, "three", 5) == 0);
    MUST(frond_txn_savepoint(txn, &number, &error));
    MUST(frond_txn_release(txn, number, &error));
    GIVES(1001, frond_txn_release(txn, number, &error));
    GIVES(1001, frond_txn_prepare(txn, NULL, 0, FROND_SYNC, NULL, &error));
    MUST(frond_txn_rollback(txn, &error));
    frond_tree_free(NULL);
    frond_cursor_free(NULL);
    frond_prepared_detach(NULL);
    GIVES(FROND_NOT_FOUND, frond_stat(db, "no such", &number, &error));
    MUST(frond_stat(db, "seqno_visible", &number, &error));
    GIVES(FROND_NOT_FOUND, frond_last_deadlock(db, &value, &error));
    GIVES(1001, frond_trees(db, NULL, NULL, &error));
    MUST(frond_trees(db, tell_nothing, &told, &error));
    CHECK(told == 2);
    GIVES(1001, frond_each_tree(db, NULL, NULL, &error));
    MUST(frond_each_tree(db, tell_tree, &told, &error));
    CHECK(told == 4);
    told = 2;
    MUST(frond_lock_waits(db, tell_nothing, &told, &error));
    CHECK(told == 2);
    frond_buffer_free(&value);
    frond_buffer_free(NULL);
}

int main(int argc, char **argv)
{
    frond_tree_options options;
    frond_tree *copy;
    uint64_t birth;
    frond_buffer attributes = {0};
    if (argc < 2 || strlen(frond_version()) == 0)
        return 2;
    uint64_t many = argc > 2 ? strtoull(argv[2], NULL, 10) : 500000;
    open_store(argv[1]);
    frond_tree_options_init(&options);
    options.unique = true;
    options.attributes = "about it";
    options.attributes_length = 8;
    MUST(frond_tree_create(db, "rows", &options, &rows, &error));
    MUST(frond_tree_create(db, "by_name", &options, &by_name, &error));
    CHECK(frond_tree_id(rows) != frond_tree_id(by_name));
    MUST(frond_tree_info(rows, &birth, &attributes, &error));
    CHECK(birth > 0 && attributes.length == 8 && memcmp(attributes.data, "about it", 8) == 0);
    frond_buffer_free(&attributes);

    misuse(argv[1]);
    insert_or_update(1, "ada");
    insert_or_update(2, "bob");
    insert_or_update(3, "ada");
    insert_or_update(4, "ada");
    CHECK(balance_of(1) == 3 && balance_of(2) == 1 && balance_of(3) == -1);
    replace(5, "bob", 50);
    CHECK(balance_of(2) == -1 && balance_of(5) == 50);
    CHECK(count(rows) == 2 && count(by_name) == 2);
    foreign_key();
    MUST(frond_tree_clone(db, "rows", "copy", &copy, &error));
    shift_all(copy);
    CHECK(count(copy) == 2);
    frond_tree_free(copy);
    MUST(frond_tree_rename(db, "copy", "renamed", &error));
    MUST(frond_tree_drop(db, "renamed", &error));
    shift_by_index();
    build_online(many / 100 + 40);
    statement_rolls_back(many);
    two_phases(argv[1]);
    MUST(frond_checkpoint(db, &error));
    CHECK(balance_of(1) == 3 && count(rows) == 5);
    close_store();
    return 0;
}
