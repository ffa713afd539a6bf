/*
 * Calls that neither walk.c nor server.c uses: merges, writes outside of transactions, positions of
 * a cursor, changes of several trees, a backup. Prints nothing and returns 0 on success.
 */
#include "must.h"

static frond_db *db;
static frond_tree *tree;

static frond_db *open_at(const char *path)
{
    frond_options options;
    frond_db *opened;
    frond_options_init(&options);
    options.cache_size = 16u << 20;
    options.durability = FROND_LAZY;
    MUST(frond_open(path, &options, &opened, &error));
    return opened;
}

static void is_value(frond_tree *of, const char *key, const void *value, size_t length)
{
    frond_buffer found = {0};
    MUST(frond_get(of, key, strlen(key), &found, &error));
    CHECK(found.length == length && memcmp(found.data, value, length) == 0);
    frond_buffer_free(&found);
}

static void fold(frond_txn *txn, const char *key, uint8_t operation, const void *operand, size_t length)
{
    MUST(frond_txn_merge(txn, tree, key, strlen(key), operation, operand, length, &error));
}

/* Each merge operator does what the header says. */
static void merges(void)
{
    enum { MISSING_OPERATOR = 1010 };
    const uint8_t one[8] = {0, 0, 0, 0, 0, 0, 0, 1}, most[8] = {0, 0, 0, 0, 0, 0, 0, 255};
    const uint8_t sum[8] = {0, 0, 0, 0, 0, 0, 1, 0};
    frond_txn *txn;
    MUST(frond_txn_begin(db, NULL, &txn, &error));
    fold(txn, "sum", FROND_ADD, most, 8);
    fold(txn, "sum", FROND_ADD, one, 8);
    for (int i = 0; i < 3; i++) {
        const char *word = i == 0 ? "b" : i == 1 ? "c" : "a";
        fold(txn, "max", FROND_MAX, word, 1);
        fold(txn, "min", FROND_MIN, word, 1);
        fold(txn, "all", FROND_APPEND, word, 1);
    }
    GIVES(MISSING_OPERATOR, frond_txn_merge(txn, tree, "sum", 3, 99, one, 8, &error));
    MUST(frond_txn_commit(txn, NULL, &error));
    is_value(tree, "sum", sum, 8);
    is_value(tree, "max", "c", 1);
    is_value(tree, "min", "a", 1);
    is_value(tree, "all", "bca", 3);
    MUST(frond_delete(tree, "sum", 3, &error));
    MUST(frond_delete(tree, "never", 5, &error));
    frond_buffer none = {0};
    GIVES(FROND_NOT_FOUND, frond_get(tree, "sum", 3, &none, &error));
    frond_buffer_free(&none);
}

static void is_next(frond_cursor *cursor, const char *key)
{
    frond_rows batch;
    MUST(frond_cursor_next(cursor, 1, &batch, &error));
    CHECK(batch.count == 1 && batch.rows[0].key_length == strlen(key));
    CHECK(memcmp(batch.rows[0].key, key, strlen(key)) == 0);
}

static void places(void)
{
    frond_cursor *cursor;
    frond_rows batch;
    MUST(frond_scan(tree, NULL, 0, NULL, 0, &cursor, &error));
    is_next(cursor, "all");
    MUST(frond_cursor_seek(cursor, "b", 1, &error));
    is_next(cursor, "max");
    MUST(frond_cursor_seek(cursor, "max", 3, &error));
    is_next(cursor, "max");
    is_next(cursor, "min");
    MUST(frond_cursor_seek_first(cursor, &error));
    is_next(cursor, "all");
    MUST(frond_cursor_seek_last(cursor, &error));
    GIVES(FROND_NOT_FOUND, frond_cursor_next(cursor, 1, &batch, &error));
    MUST(frond_cursor_seek(cursor, "max", 3, &error));
    MUST(frond_cursor_prev(cursor, 1, &batch, &error));
    CHECK(batch.count == 1 && memcmp(batch.rows[0].key, "all", 3) == 0);
    frond_cursor_free(cursor);
}

/* After a batch that has met the end, the cursor is on the batch's last row. Frees the cursor. */
static void turns(frond_cursor *cursor)
{
    frond_rows batch;
    MUST(frond_cursor_next(cursor, 10, &batch, &error));
    CHECK(batch.count == 3 && memcmp(batch.rows[2].key, "min", 3) == 0);
    MUST(frond_cursor_prev(cursor, 1, &batch, &error));
    CHECK(batch.count == 1 && memcmp(batch.rows[0].key, "max", 3) == 0);
    MUST(frond_cursor_seek_last(cursor, &error));
    MUST(frond_cursor_prev(cursor, 10, &batch, &error));
    CHECK(batch.count == 3 && memcmp(batch.rows[2].key, "all", 3) == 0);
    MUST(frond_cursor_next(cursor, 10, &batch, &error));
    CHECK(batch.count == 2 && memcmp(batch.rows[0].key, "max", 3) == 0);
    GIVES(FROND_NOT_FOUND, frond_cursor_next(cursor, 10, &batch, &error));
    MUST(frond_cursor_prev(cursor, 1, &batch, &error));
    CHECK(batch.count == 1 && memcmp(batch.rows[0].key, "min", 3) == 0);
    frond_cursor_free(cursor);
}

static void turns_at_the_end(void)
{
    frond_cursor *cursor;
    frond_txn *txn;
    frond_temporary *own;
    MUST(frond_scan(tree, NULL, 0, NULL, 0, &cursor, &error));
    turns(cursor);
    MUST(frond_txn_begin(db, NULL, &txn, &error));
    MUST(frond_txn_scan(txn, tree, NULL, 0, NULL, 0, 0, 0, &cursor, &error));
    turns(cursor);
    MUST(frond_txn_scan(txn, tree, NULL, 0, NULL, 0, FROND_EXCLUSIVE, 0, &cursor, &error));
    turns(cursor);
    MUST(frond_txn_put(txn, tree, "max", 3, "own", 3, &error));
    MUST(frond_txn_scan(txn, tree, NULL, 0, NULL, 0, 0, 0, &cursor, &error));
    turns(cursor);
    MUST(frond_temporary_create(db, NULL, &own, &error));
    MUST(frond_temporary_put(txn, own, "all", 3, "", 0, &error));
    MUST(frond_temporary_put(txn, own, "max", 3, "", 0, &error));
    MUST(frond_temporary_put(txn, own, "min", 3, "", 0, &error));
    MUST(frond_temporary_scan(own, NULL, 0, NULL, 0, &cursor, &error));
    turns(cursor);
    MUST(frond_txn_rollback(txn, &error));
    frond_temporary_free(own);
}

/* What a transaction has written counts in its own estimates, and in no others. */
static void estimates(void)
{
    uint64_t found = 7, taken = 7;
    frond_txn *txn;
    MUST(frond_txn_begin(db, NULL, &txn, &error));
    MUST(frond_txn_estimate(txn, tree, "x", 1, "y", 1, &found, &taken, &error));
    CHECK(found == 0);
    MUST(frond_txn_put(txn, tree, "xx", 2, "own", 3, &error));
    MUST(frond_txn_estimate(txn, tree, "x", 1, "y", 1, &found, &taken, &error));
    CHECK(found == 1 && taken > 0);
    MUST(frond_tree_estimate(tree, "x", 1, "y", 1, &found, NULL, &error));
    CHECK(found == 0);
    MUST(frond_txn_put_absent(txn, tree, "xy", 2, "own", 3, &error));
    MUST(frond_txn_estimate(txn, tree, "x", 1, "y", 1, &found, &taken, &error));
    CHECK(found == 2);
    GIVES(1001, frond_txn_estimate(NULL, tree, NULL, 0, NULL, 0, &found, NULL, &error));
    MUST(frond_txn_rollback(txn, &error));
}

static void line(void *context, const char *text, size_t length)
{
    (void)text, (void)length;
    ++*(int *)context;
}

/* Locks on whole trees, and the place that an error reports. */
static void whole_trees(void)
{
    enum { BUSY = 1105, EXISTS = 1108 };
    frond_txn *one, *two;
    MUST(frond_txn_begin(db, NULL, &one, &error));
    MUST(frond_txn_begin(db, NULL, &two, &error));
    MUST(frond_txn_lock_tree(one, tree, FROND_TREE_SHARED, FROND_WAIT, &error));
    MUST(frond_txn_lock_tree(two, tree, FROND_TREE_INTENT_SHARED, FROND_NO_WAIT, &error));
    GIVES(BUSY, frond_txn_lock_tree(two, tree, FROND_TREE_INTENT_EXCLUSIVE, FROND_NO_WAIT, &error));
    CHECK(error.kind == FROND_RETRY && strcmp(error.tree, "words") == 0 && !error.has_key && error.entry == -1);
    GIVES(1001, frond_txn_lock_tree(two, tree, 0, FROND_NO_WAIT, &error));
    CHECK(error.tree[0] == 0);
    MUST(frond_txn_rollback(two, &error));
    MUST(frond_txn_lock_tree(one, tree, FROND_TREE_EXCLUSIVE, FROND_NO_WAIT, &error));
    MUST(frond_txn_begin(db, NULL, &two, &error));
    GIVES(BUSY, frond_txn_lock_tree(two, tree, FROND_TREE_INTENT_SHARED, FROND_NO_WAIT, &error));
    GIVES(EXISTS, frond_txn_insert(one, tree, "max", 3, NULL, 0, &error));
    CHECK(error.has_key && error.key_length == 3 && memcmp(error.key, "max", 3) == 0);
    MUST(frond_txn_rollback(one, &error));
    MUST(frond_txn_put(two, tree, "max", 3, "c", 1, &error));
    MUST(frond_txn_begin(db, NULL, &one, &error));
    frond_buffer value = {0};
    GIVES(BUSY, frond_txn_get(one, tree, "max", 3, FROND_SHARED, FROND_NO_WAIT, &value, &error));
    CHECK(strcmp(error.tree, "words") == 0 && error.key_length == 3 && memcmp(error.key, "max", 3) == 0);
    CHECK(strstr(error.message, "max") == NULL);
    int waits = 0;
    MUST(frond_lock_waits(db, line, &waits, &error));
    CHECK(waits == 0);
    frond_buffer_free(&value);
    MUST(frond_txn_rollback(one, &error));
    MUST(frond_txn_rollback(two, &error));
}

/* A statement that is rolled back forgets its savepoints, and no savepoint has the number of
 * another. */
static void savepoints(void)
{
    uint64_t before = 0, in = 0, after = 0;
    frond_txn *txn;
    MUST(frond_txn_begin(db, NULL, &txn, &error));
    MUST(frond_txn_savepoint(txn, &before, &error));
    MUST(frond_txn_begin_statement(txn, &error));
    MUST(frond_txn_savepoint(txn, &in, &error));
    MUST(frond_txn_put(txn, tree, "xx", 2, "own", 3, &error));
    MUST(frond_txn_rollback_statement(txn, &error));
    GIVES(1001, frond_txn_rollback_to(txn, in, &error));
    MUST(frond_txn_savepoint(txn, &after, &error));
    CHECK(before > 0 && before < in && in < after);
    MUST(frond_txn_release(txn, after, &error));
    GIVES(1001, frond_txn_release(txn, after, &error));
    GIVES(1001, frond_txn_rollback_to(txn, after + 1, &error));
    MUST(frond_txn_put(txn, tree, "xx", 2, "own", 3, &error));
    MUST(frond_txn_rollback_to(txn, before, &error));
    frond_buffer none = {0};
    GIVES(FROND_NOT_FOUND, frond_txn_get(txn, tree, "xx", 2, FROND_NO_LOCK, FROND_WAIT, &none, &error));
    frond_buffer_free(&none);
    MUST(frond_txn_rollback(txn, &error));
}

/* A trigger that counts rows, and an outer statement that is rolled back together with it. */
static void statements_within(void)
{
    frond_txn *txn;
    frond_interrupter *session;
    uint64_t before = 0, within = 0, rows = 0;
    frond_conflict conflict = {0};
    MUST(frond_interrupter_new(&session, &error));
    MUST(frond_txn_begin(db, NULL, &txn, &error));
    MUST(frond_txn_set_interrupter(txn, session, &error));
    GIVES(1001, frond_txn_begin_substatement(txn, &error));
    MUST(frond_txn_begin_statement(txn, &error));
    MUST(frond_txn_count(txn, tree, NULL, 0, NULL, 0, &before, &error));
    frond_entry entry = {tree, "within", 6, "new", 3, true, true};
    MUST(frond_txn_insert_row(txn, &entry, 1, FROND_EXCLUSIVE, &conflict, &error));
    CHECK(conflict.index == -1);
    MUST(frond_txn_begin_substatement(txn, &error));
    MUST(frond_txn_count(txn, tree, NULL, 0, NULL, 0, &within, &error));
    MUST(frond_txn_end_substatement(txn, &error));
    GIVES(1001, frond_txn_end_substatement(txn, &error));
    MUST(frond_txn_count(txn, tree, NULL, 0, NULL, 0, &rows, &error));
    CHECK(within == before + 1 && rows == before);
    frond_interrupt(session);
    GIVES(1106, frond_txn_count(txn, tree, NULL, 0, NULL, 0, &rows, &error));
    frond_interrupter_clear(session);
    MUST(frond_txn_rollback_statement(txn, &error));
    MUST(frond_txn_begin_statement(txn, &error));
    MUST(frond_txn_count(txn, tree, NULL, 0, NULL, 0, &rows, &error));
    CHECK(rows == before);
    MUST(frond_txn_rollback(txn, &error));
    frond_interrupter_free(session);
    frond_buffer_free(&conflict.value);
}

static void held(void *context, const frond_held *lock)
{
    int *kinds = context;
    uint8_t hash[16];
    CHECK(lock->tag == 5 && lock->lock.tree == frond_tree_id(tree) && strcmp(lock->lock.tree_name, "words") == 0);
    switch (lock->lock.on) {
    case FROND_ON_TREE:
        CHECK(lock->lock.mode == FROND_TREE_INTENT_EXCLUSIVE && !lock->lock.key.is_known);
        break;
    case FROND_ON_GAP:
        CHECK(lock->from.is_known && lock->from.length == 1 && lock->from.data[0] == 'a' && lock->with_from);
        break;
    default:
        MUST(frond_tree_key_hash(tree, "zebra", 5, hash, &error));
        CHECK(lock->lock.on == FROND_ON_ROW);
        if (memcmp(lock->lock.key_hash, hash, 16) == 0) {
            CHECK(lock->lock.mode == FROND_EXCLUSIVE && lock->lock.key.is_known);
            CHECK(lock->lock.key.held == 5 && memcmp(lock->lock.key.data, "zebra", 5) == 0);
            kinds[0]++;
        }
    }
    kinds[lock->lock.on]++;
}

/* Reported locks: an intent lock on a tree, a gap and the row to which a cursor moved, and a row
 * that was written. */
static void locks(void)
{
    frond_txn *txn;
    frond_txn_options options;
    frond_cursor *cursor;
    frond_rows batch;
    size_t more = 7;
    int none[4] = {0}, all[4] = {0}, own[4] = {0};
    frond_txn_options_init(&options);
    options.isolation = FROND_REPEATABLE_READ;
    options.tag = 5;
    MUST(frond_txn_begin(db, &options, &txn, &error));
    MUST(frond_txn_each_lock(txn, 9, held, none, &more, &error));
    CHECK(more == 0 && none[FROND_ON_TREE] == 0);
    MUST(frond_txn_scan(txn, tree, "a", 1, NULL, 0, FROND_SHARED, FROND_WAIT, &cursor, &error));
    MUST(frond_cursor_next(cursor, 1, &batch, &error));
    frond_cursor_free(cursor);
    MUST(frond_txn_put(txn, tree, "zebra", 5, "striped", 7, &error));
    MUST(frond_each_lock(db, 9, held, all, &more, &error));
    CHECK(more == 0 && all[0] == 1 && all[FROND_ON_TREE] == 1 && all[FROND_ON_GAP] == 1 && all[FROND_ON_ROW] == 2);
    MUST(frond_txn_each_lock(txn, 9, held, own, NULL, &error));
    CHECK(memcmp(own, all, sizeof own) == 0);
    MUST(frond_each_lock(db, 1, held, none, &more, &error));
    CHECK(more == 3 && none[FROND_ON_TREE] == 1);
    MUST(frond_txn_rollback(txn, &error));
    MUST(frond_each_lock(db, 9, held, all, &more, &error));
    CHECK(more == 0 && all[FROND_ON_TREE] == 1);
}

/* A temporary table: rows, and a unique index of their names. */
static void own_rows(void)
{
    frond_temporary *rows, *names;
    frond_txn *txn;
    frond_conflict conflict = {0};
    frond_buffer memory = {0};
    uint64_t first = 0, next = 0, found = 0, taken = 0;
    bool exact = false;
    MUST(frond_temporary_create(db, NULL, &rows, &error));
    MUST(frond_temporary_create(db, NULL, &names, &error));
    MUST(frond_txn_begin(db, NULL, &txn, &error));
    MUST(frond_temporary_reserve(rows, 0, '1', 2, &first, &error));
    MUST(frond_temporary_next_number(rows, 0, &next, &error));
    CHECK(first == '1' && next == '3');
    for (uint8_t id = '1'; id <= '2'; id++) {
        const frond_temporary_entry row[] = {{rows, &id, 1, "anna", 4, true}, {names, "anna", 4, &id, 1, true}};
        MUST(frond_temporary_insert_row(txn, row, 2, &conflict, &error));
        CHECK(conflict.index == (id == '1' ? -1 : 1));
    }
    CHECK(conflict.value.length == 1 && conflict.value.data[0] == '1');
    MUST(frond_temporary_row_count(rows, &found, &exact, &error));
    CHECK(found == 1 && exact);
    MUST(frond_temporary_estimate(rows, "2", 1, NULL, 0, &found, NULL, &error));
    CHECK(found == 0);
    MUST(frond_temporary_estimate(rows, NULL, 0, "2", 1, &found, &taken, &error));
    CHECK(found == 1 && taken > 0);
    const frond_bytes keys[] = {{"2", 1}, {"1", 1}};
    frond_bytes values[2];
    MUST(frond_temporary_get_many(rows, keys, 2, &memory, values, &error));
    CHECK(values[0].data == NULL && values[1].length == 4 && memcmp(values[1].data, "anna", 4) == 0);
    MUST(frond_txn_rollback(txn, &error));
    MUST(frond_temporary_row_count(rows, &found, NULL, &error));
    CHECK(found == 0);
    GIVES(1001, frond_temporary_reserve(rows, 4, 1, 1, &first, &error));
    frond_buffer_free(&conflict.value);
    frond_buffer_free(&memory);
    frond_temporary_free(rows);
    frond_temporary_free(names);
}

/* A temporary tree has the calls of other trees: parts of values, merges, deletes of ranges. */
static void own_tree(void)
{
    const frond_part value_parts[] = {{FROND_PART_FIXED, 2, FROND_HINT_INTEGER}, {FROND_PART_REST, 0, 0}};
    const size_t second[] = {1}, beyond[] = {2};
    frond_tree_options options;
    frond_temporary *tree, *sums;
    frond_projection *parts;
    frond_txn *txn;
    frond_cursor *cursor;
    frond_rows batch;
    frond_buffer value = {0};
    uint8_t piece[4];
    size_t count = 0;
    uint64_t found = 0;
    bool exact = false;
    frond_tree_options_init(&options);
    options.value_parts = value_parts;
    options.value_parts_count = 2;
    MUST(frond_temporary_create(db, &options, &tree, &error));
    MUST(frond_temporary_create(db, NULL, &sums, &error));
    MUST(frond_txn_begin(db, NULL, &txn, &error));
    for (uint8_t id = '1'; id <= '9'; id++)
        MUST(frond_temporary_put_absent(txn, tree, &id, 1, "abcde", 5, &error));
    MUST(frond_temporary_row_count(tree, &found, &exact, &error));
    CHECK(found == 9 && exact);
    MUST(frond_temporary_count(tree, "2", 1, "5", 1, &found, &error));
    CHECK(found == 3);
    GIVES(1001, frond_temporary_projection_new(tree, beyond, 1, &parts, &error));
    MUST(frond_temporary_projection_new(tree, second, 1, &parts, &error));
    MUST(frond_temporary_get_projected(tree, "1", 1, parts, &value, &error));
    CHECK(value.length == 3 && memcmp(value.data, "cde", 3) == 0);
    GIVES(FROND_NOT_FOUND, frond_temporary_get_projected(tree, "a", 1, parts, &value, &error));
    MUST(frond_temporary_get_at(tree, "1", 1, 3, piece, 4, &count, &error));
    CHECK(count == 2 && memcmp(piece, "de", 2) == 0);
    GIVES(FROND_NOT_FOUND, frond_temporary_get_at(tree, "a", 1, 3, piece, 4, &count, &error));
    MUST(frond_temporary_scan(tree, "8", 1, NULL, 0, &cursor, &error));
    MUST(frond_cursor_project(cursor, parts, &error));
    MUST(frond_cursor_next(cursor, 0, &batch, &error));
    CHECK(batch.count == 2 && batch.rows[1].value_length == 3 && *batch.rows[1].key == '9');
    GIVES(FROND_NOT_FOUND, frond_cursor_next(cursor, 0, &batch, &error));
    MUST(frond_cursor_range(cursor, "2", 1, "4", 1, &error));
    MUST(frond_cursor_seek_last(cursor, &error));
    MUST(frond_cursor_prev(cursor, 0, &batch, &error));
    CHECK(batch.count == 2 && *batch.rows[0].key == '3' && *batch.rows[1].key == '2');
    frond_cursor_free(cursor);
    frond_projection_free(parts);
    MUST(frond_temporary_delete_range(txn, tree, NULL, 0, "4", 1, &found, &error));
    CHECK(found == 3);
    MUST(frond_temporary_delete_range(txn, tree, "9", 1, NULL, 0, NULL, &error));
    MUST(frond_temporary_row_count(tree, &found, &exact, &error));
    CHECK(found == 5 && exact);
    for (int i = 0; i < 3; i++)
        MUST(frond_temporary_merge(txn, sums, "s", 1, FROND_APPEND, "ab", 2, &error));
    MUST(frond_temporary_get(sums, "s", 1, &value, &error));
    CHECK(value.length == 6 && memcmp(value.data, "ababab", 6) == 0);
    GIVES(1010, frond_temporary_merge(txn, sums, "s", 1, 99, "ab", 2, &error));
    MUST(frond_txn_rollback(txn, &error));
    frond_buffer_free(&value);
    frond_temporary_free(tree);
    frond_temporary_free(sums);
}

/* A load of a unique tree reports the duplicate key. */
static void duplicate_key_in_a_load(void)
{
    enum { TWICE = 1104 };
    frond_load *load;
    frond_tree *loaded;
    frond_tree_options options;
    frond_tree_options_init(&options);
    options.unique = true;
    MUST(frond_load_begin(db, "load", &options, &load, &error));
    MUST(frond_load_put(load, "one", 3, NULL, 0, &error));
    MUST(frond_load_put(load, "two", 3, NULL, 0, &error));
    MUST(frond_load_put(load, "one", 3, NULL, 0, &error));
    GIVES(TWICE, frond_loads_finish(&load, 1, &loaded, &error));
    CHECK(strcmp(error.tree, "load") == 0 && error.key_length == 3 && memcmp(error.key, "one", 3) == 0);

    /* Loads that cannot end together are not released. */
    frond_load *loads[2], *none[2], *same[2];
    for (int i = 0; i < 2; i++)
        MUST(frond_load_begin(db, "load", &options, &loads[i], &error));
    none[0] = same[0] = same[1] = loads[0];
    none[1] = NULL;
    GIVES(1001, frond_loads_finish(loads, 2, NULL, &error));
    GIVES(1001, frond_loads_finish(none, 2, NULL, &error));
    GIVES(1001, frond_loads_finish(same, 2, NULL, &error));
    frond_load_free(loads[0]);
    frond_load_free(loads[1]);
}

static void keep_row(void *context, const uint8_t *key, size_t key_length, const uint8_t *value, size_t value_length)
{
    snprintf(context, 16, "%.*s=%.*s", (int)key_length, (const char *)key, (int)value_length, (const char *)value);
}

/* A load of a unique tree reports the duplicate row. */
static void duplicate_row_in_a_load(void)
{
    enum { DUPLICATE = 1104 };
    char told[16] = "";
    frond_load *load;
    frond_tree_options options;
    frond_tree_options_init(&options);
    options.unique = true;
    MUST(frond_load_begin(db, "twice", &options, &load, &error));
    GIVES(1001, frond_load_on_duplicate(load, NULL, told, &error));
    MUST(frond_load_on_duplicate(load, keep_row, told, &error));
    MUST(frond_load_put(load, "key", 3, "same", 4, &error));
    MUST(frond_load_put(load, "key", 3, "same", 4, &error));
    GIVES(DUPLICATE, frond_loads_finish(&load, 1, NULL, &error));
    CHECK(strcmp(told, "key=same") == 0 && strcmp(error.tree, "twice") == 0);
}

/* A table is created with its index, and then both are filled; the loads wait for a session that
 * has locked one of them. */
static void fill(void)
{
    enum { GONE = 1004, LATER = 1006, NOT_EMPTY = 1017, TIMEOUT = 1101 };
    static const char *const names[] = {"fill", "fill, index"};
    frond_tree *trees[2], *filled[2];
    frond_load *loads[2];
    frond_snapshot *before;
    frond_txn *txn;
    frond_buffer found = {0};
    frond_tree_options options;
    uint64_t first = 0, next = 0;
    frond_tree_options_init(&options);
    options.attributes = "a table";
    options.attributes_length = 7;
    for (int i = 0; i < 2; i++)
        MUST(frond_tree_create(db, names[i], &options, &trees[i], &error));
    MUST(frond_tree_reserve(trees[0], 0, 1, 70, &first, &error));
    MUST(frond_snapshot_take(db, &before, &error));

    /* Deleted rows do not count; an existing row is reported at once, or at the end. */
    frond_load *refused = NULL;
    MUST(frond_txn_begin(db, NULL, &txn, &error));
    MUST(frond_txn_put(txn, trees[0], "row", 3, NULL, 0, &error));
    MUST(frond_txn_commit(txn, NULL, &error));
    GIVES(NOT_EMPTY, frond_load_begin_into(db, trees[0], &refused, &error));
    CHECK(refused == NULL && strcmp(error.tree, "fill") == 0 && error.kind == FROND_FIX_CALL);
    MUST(frond_txn_begin(db, NULL, &txn, &error));
    MUST(frond_txn_delete(txn, trees[0], "row", 3, &error));
    MUST(frond_txn_commit(txn, NULL, &error));
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 2; i++) {
            MUST(frond_load_begin_into(db, trees[i], &loads[i], &error));
            MUST(frond_load_put(loads[i], "two", 3, "2", 1, &error));
            MUST(frond_load_put(loads[i], "one", 3, "1", 1, &error));
            MUST(frond_load_lock_timeout(loads[i], i == 0 ? -1 : 0, &error));
        }
        if (round == 2)
            break;
        MUST(frond_txn_begin(db, NULL, &txn, &error));
        MUST(frond_txn_put(txn, trees[1], "row", 3, NULL, 0, &error));
        if (round == 1)
            MUST(frond_txn_commit(txn, NULL, &error));
        GIVES(round == 0 ? TIMEOUT : NOT_EMPTY, frond_loads_finish(loads, 2, filled, &error));
        CHECK(filled[0] == NULL && filled[1] == NULL && strcmp(error.tree, names[1]) == 0);
        if (round == 0)
            MUST(frond_txn_rollback(txn, &error));
        else {
            MUST(frond_txn_begin(db, NULL, &txn, &error));
            MUST(frond_txn_delete(txn, trees[1], "row", 3, &error));
            MUST(frond_txn_commit(txn, NULL, &error));
        }
    }
    MUST(frond_loads_finish(loads, 2, filled, &error));
    for (int i = 0; i < 2; i++) {
        MUST(frond_get(filled[i], "two", 3, &found, &error));
        CHECK(found.length == 1 && found.data[0] == '2');
        GIVES(LATER, frond_snapshot_get(before, filled[i], "two", 3, &found, &error));
        GIVES(GONE, frond_get(trees[i], "two", 3, &found, &error));
        MUST(frond_tree_info(filled[i], NULL, &found, &error));
        CHECK(found.length == 7 && memcmp(found.data, "a table", 7) == 0);
    }
    MUST(frond_tree_next_number(filled[0], 0, &next, &error));
    CHECK(first == 1 && next == 71);
    frond_snapshot_free(before);
    for (int i = 0; i < 2; i++) {
        frond_tree_free(trees[i]);
        frond_tree_free(filled[i]);
        MUST(frond_tree_drop(db, names[i], &error));
    }
    frond_buffer_free(&found);
}

static uint32_t number_of(const char *name)
{
    frond_tree *of;
    MUST(frond_tree_open(db, name, &of, &error));
    uint32_t number = frond_tree_id(of);
    frond_tree_free(of);
    return number;
}

static void is_in(const char *name, const char *value)
{
    frond_tree *of;
    MUST(frond_tree_open(db, name, &of, &error));
    is_value(of, "is", value, strlen(value));
    frond_tree_free(of);
}

/* Applies an entry of a server's log: a rebuilt table takes the place of the old one, which is
 * dropped; another is truncated; one gets new attributes. */
static uint64_t do_entry(uint32_t old, uint32_t new, uint32_t emptied, bool made)
{
    frond_tree_change *change;
    frond_change_options options;
    frond_tree *now;
    uint64_t seqno = 1;
    bool was_made = !made;
    frond_change_options_init(&options);
    CHECK(!options.repeatable && options.lock_timeout_ms == 10000);
    options.repeatable = true;
    MUST(frond_change_begin(db, &options, &change, &error));
    MUST(frond_change_swap(change, old, "table", new, "made anew", &error));
    MUST(frond_change_drop(change, old, "made anew", &error));
    MUST(frond_change_truncate(change, emptied, "queue", &error));
    MUST(frond_change_attributes(change, new, NULL, "noted", 5, &error));
    MUST(frond_change_create(change, "log", NULL, &error));
    MUST(frond_change_rename(change, 0, "before", "after", &error));
    GIVES(1001, frond_change_tree(change, 0, &now, NULL, &error));
    MUST(frond_change_commit(change, &seqno, &error));
    GIVES(1001, frond_change_commit(change, NULL, &error));
    GIVES(1001, frond_change_drop(change, 0, "log", &error));
    MUST(frond_change_tree(change, 3, &now, &was_made, &error));
    CHECK(frond_tree_id(now) == new && was_made == made);
    frond_tree_free(now);
    GIVES(FROND_NOT_FOUND, frond_change_tree(change, 1, &now, NULL, &error));
    GIVES(1001, frond_change_tree(change, 6, &now, NULL, &error));
    CHECK(frond_change_tree(change, 2, NULL, NULL, &error) == (made ? FROND_OK : FROND_NOT_FOUND));
    frond_change_free(change);
    return seqno;
}

/* Several trees change in one commit, which may be repeated. */
static void changes(void)
{
    enum { NONE = 1004, THERE = 1005, LATER = 1006, TIMEOUT = 1101 };
    frond_tree_change *change;
    frond_change_options options;
    frond_snapshot *then;
    frond_tree *now, *was, *queue;
    frond_txn *txn;
    frond_buffer value = {0};
    static const char *const names[] = {"table", "made anew", "queue", "before"};
    for (int i = 0; i < 4; i++) {
        MUST(frond_tree_create(db, names[i], NULL, &now, &error));
        MUST(frond_put(now, "is", 2, names[i], strlen(names[i]), &error));
        frond_tree_free(now);
    }
    uint32_t old = number_of("table"), new = number_of("made anew"), emptied = number_of("queue");
    MUST(frond_snapshot_take(db, &then, &error));
    MUST(frond_tree_open(db, "queue", &queue, &error));
    CHECK(do_entry(old, new, emptied, true) > 0);
    CHECK(do_entry(old, new, emptied, false) == 0);
    is_in("table", "made anew");
    is_in("after", "before");
    GIVES(NONE, frond_put(queue, "is", 2, NULL, 0, &error));
    frond_tree_free(queue);
    MUST(frond_tree_open(db, "queue", &queue, &error));
    GIVES(FROND_NOT_FOUND, frond_get(queue, "is", 2, &value, &error));
    /* An older snapshot cannot be read through the new handles; opened in it, the tree is as it
     * was. */
    MUST(frond_tree_open(db, "table", &now, &error));
    GIVES(LATER, frond_snapshot_get(then, now, "is", 2, &value, &error));
    MUST(frond_snapshot_tree_open(then, "table", &was, &error));
    CHECK(frond_tree_id(was) == old && frond_tree_id(now) == new);
    MUST(frond_snapshot_get(then, was, "is", 2, &value, &error));
    CHECK(value.length == 5 && memcmp(value.data, "table", 5) == 0);
    uint64_t birth = 0;
    MUST(frond_tree_info(now, &birth, &value, &error));
    CHECK(birth > 0 && value.length == 5 && memcmp(value.data, "noted", 5) == 0);
    frond_tree_free(was);
    /* This one still exists, under another name and with attributes that it did not have. */
    MUST(frond_snapshot_tree_open(then, "made anew", &was, &error));
    MUST(frond_tree_info(was, &birth, &value, &error));
    CHECK(frond_tree_id(was) == new && value.length == 0);
    frond_tree_free(was);
    frond_snapshot_free(then);
    /* A step that fails is reported by its index; a commit waits for transactions with rows. */
    MUST(frond_change_begin(db, NULL, &change, &error));
    MUST(frond_change_clone(change, 0, "table", "copy", &error));
    MUST(frond_change_publish(change, frond_tree_id(now), "table", &error));
    MUST(frond_change_rename(change, 0, "copy", "log", &error));
    GIVES(THERE, frond_change_commit(change, NULL, &error));
    CHECK(error.entry == 2 && strcmp(error.tree, "log") == 0 && error.kind == FROND_FIX_CALL);
    frond_change_free(change);
    GIVES(NONE, frond_tree_open(db, "copy", &was, &error));
    MUST(frond_txn_begin(db, NULL, &txn, &error));
    MUST(frond_txn_put(txn, now, "row", 3, NULL, 0, &error));
    frond_change_options_init(&options);
    options.lock_timeout_ms = 1;
    MUST(frond_change_begin(db, &options, &change, &error));
    MUST(frond_change_create(change, "more", NULL, &error));
    MUST(frond_change_drop(change, 0, "table", &error));
    GIVES(TIMEOUT, frond_change_commit(change, NULL, &error));
    CHECK(error.entry == 1 && error.kind == FROND_RETRY);
    MUST(frond_txn_rollback(txn, &error));
    MUST(frond_change_commit(change, NULL, &error));
    frond_change_free(change);
    GIVES(NONE, frond_put(now, "is", 2, NULL, 0, &error));
    GIVES(1001, frond_change_begin(NULL, NULL, &change, &error));
    GIVES(1001, frond_change_drop(NULL, 1, NULL, &error));
    MUST(frond_change_begin(db, NULL, &change, &error));
    GIVES(1001, frond_change_drop(change, 0, NULL, &error));
    frond_change_free(change);
    frond_change_free(NULL);
    frond_tree_free(now);
    frond_tree_free(queue);
    frond_buffer_free(&value);
}

/* A key may lie in the memory that receives the value. */
static void keys_in_buffers(void)
{
    frond_tree *chain;
    frond_txn *txn;
    frond_snapshot *snapshot;
    frond_buffer value = {0}, *in = &value;
    uint8_t out[4] = "one";
    size_t read = 0;
    MUST(frond_tree_create(db, "chain", NULL, &chain, &error));
    MUST(frond_put(chain, "one", 3, "more", 4, &error));
    MUST(frond_txn_begin(db, NULL, &txn, &error));
    MUST(frond_snapshot_take(db, &snapshot, &error));
    for (int way = 0; way < 6; way++) {
        frond_bytes key, found = {NULL, 0};
        MUST(frond_buffer_set(in, "one", 3, &error));
        key = (frond_bytes){value.data, value.length};
        switch (way) {
        case 0: MUST(frond_get(chain, value.data, 3, in, &error)); break;
        case 1: MUST(frond_txn_get(txn, chain, value.data, 3, FROND_NO_LOCK, FROND_WAIT, in, &error)); break;
        case 2: MUST(frond_txn_get(txn, chain, value.data, 3, FROND_SHARED, FROND_WAIT, in, &error)); break;
        case 3: MUST(frond_txn_read(txn, chain, value.data, 3, NULL, in, NULL, &error)); break;
        case 4: MUST(frond_snapshot_get(snapshot, chain, value.data, 3, in, &error)); break;
        case 5: MUST(frond_txn_read_many(txn, chain, &key, 1, NULL, in, &found, NULL, &error)); break;
        }
        CHECK(value.length == 4 && memcmp(value.data, "more", 4) == 0);
        CHECK(way < 5 || (found.data == value.data && found.length == 4));
    }
    MUST(frond_buffer_set(in, value.data + 1, 2, &error));
    CHECK(value.length == 2 && memcmp(value.data, "or", 2) == 0);
    MUST(frond_snapshot_get_at(snapshot, chain, out, 3, 1, out, 4, &read, &error));
    CHECK(read == 3 && memcmp(out, "ore", 4) == 0);
    frond_snapshot_free(snapshot);
    MUST(frond_txn_rollback(txn, &error));
    frond_tree_free(chain);
    frond_buffer_free(in);
}

/* A backup is a store with the content of that moment; with an increment, that of a later one. */
static void backup(const char *path)
{
    enum { INVALID = 1001, WRONG_BASE = 1012 };
    char copy[4096], increment[4096], restored[4096];
    const char *const increments[] = {increment};
    frond_backup_info full, since, made;
    frond_backup_id id;
    frond_db *copied;
    frond_tree *same;
    CHECK(snprintf(copy, sizeof copy, "%s-copy", path) < (int)sizeof copy);
    CHECK(snprintf(increment, sizeof increment, "%s-increment", path) < (int)sizeof increment);
    CHECK(snprintf(restored, sizeof restored, "%s-restored", path) < (int)sizeof restored);
    MUST(frond_backup(db, copy, &full, &error));
    MUST(frond_put(tree, "later", 5, "on", 2, &error));

    /* An increment contains what was written since; it does not go with another base. */
    MUST(frond_backup_read_id(copy, &id, &error));
    CHECK(memcmp(&id, &full.id, sizeof id) == 0);
    MUST(frond_backup_since(db, &id, increment, &since, &error));
    CHECK(since.seqno > full.seqno && since.pages > 0 && since.bytes > 0);
    id.version = UINT64_MAX;
    GIVES(WRONG_BASE, frond_backup_since(db, &id, restored, NULL, &error));
    MUST(frond_backup_verify(copy, NULL, 0, NULL, &error));
    MUST(frond_backup_verify(copy, increments, 1, &made, &error));
    CHECK(memcmp(&made.id, &since.id, sizeof id) == 0);
    GIVES(WRONG_BASE, frond_backup_verify(copy, (const char *const[]){increment, increment}, 2, NULL, &error));
    GIVES(INVALID, frond_restore(copy, increments, 1, copy, NULL, &error));
    MUST(frond_restore(copy, increments, 1, restored, &made, &error));
    CHECK(made.seqno == since.seqno);
    copied = open_at(restored);
    MUST(frond_tree_open(copied, "words", &same, &error));
    is_value(same, "later", "on", 2);
    frond_tree_free(same);
    MUST(frond_close(copied, &error));

    copied = open_at(copy);
    MUST(frond_tree_open(copied, "words", &same, &error));
    is_value(same, "all", "bca", 3);
    frond_buffer none = {0};
    GIVES(FROND_NOT_FOUND, frond_get(same, "later", 5, &none, &error));
    frond_buffer_free(&none);
    frond_tree_free(same);
    MUST(frond_close(copied, &error));
}

/* Opens the tree, or creates it if there is none; a tree with other options is refused. */
static void ensure(void)
{
    enum { INVALID = 1001, THERE = 1005 };
    frond_tree *same = NULL;
    frond_tree_options options;
    frond_tree_options_init(&options);
    MUST(frond_tree_ensure(db, "words", NULL, &tree, &error));
    MUST(frond_tree_ensure(db, "words", &options, &same, &error));
    CHECK(frond_tree_id(same) == frond_tree_id(tree) && frond_tree_id(tree) != 0);
    frond_tree_free(same);
    options.unique = true;
    GIVES(INVALID, frond_tree_ensure(db, "words", &options, &same, &error));
    GIVES(THERE, frond_tree_create(db, "words", NULL, &same, &error));
    CHECK(same == NULL);
}

int main(int count, char **arguments)
{
    CHECK(count >= 2);
    db = open_at(arguments[1]);
    ensure();
    merges();
    places();
    turns_at_the_end();
    estimates();
    whole_trees();
    locks();
    savepoints();
    statements_within();
    own_rows();
    own_tree();
    duplicate_key_in_a_load();
    duplicate_row_in_a_load();
    fill();
    changes();
    keys_in_buffers();
    backup(arguments[1]);
    frond_tree_free(tree);
    MUST(frond_close(db, &error));
    return 0;
}
