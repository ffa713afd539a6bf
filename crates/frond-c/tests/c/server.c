/*
 * What a server uses besides rows and transactions: cancelling a session, hooks for its waits, row
 * counts, counters, reads of many keys, snapshots, loads, and callbacks when the log is synced.
 * Prints nothing and returns 0 on success.
 */
#include "must.h"

#include <pthread.h>

enum { INVALID = 1001, NO_SUCH_TREE = 1004, DEFINITION_CHANGED = 1006, INTERRUPTED = 1106, ROWS = 1000 };

static frond_db *db;
static frond_tree *rows;

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

/* What the hooks have reported; several threads may wait at once. */
typedef struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uint64_t waiter, holder;
    int waits, synced;
} heard;

static heard ear = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, 0, 0};

static void on_wait(void *context, const frond_party *waiter, const frond_party *holder)
{
    heard *ear = context;
    pthread_mutex_lock(&ear->mutex);
    ear->waiter = frond_party_tag(waiter);
    ear->holder = frond_party_tag(holder);
    ear->waits++;
    pthread_cond_broadcast(&ear->changed);
    pthread_mutex_unlock(&ear->mutex);
    if (frond_party_id(waiter) == frond_party_id(holder))
        frond_party_interrupt(holder);
}

static uint64_t prefer(void *context, const frond_party *a, const frond_party *b)
{
    (void)context;
    return frond_party_tag(a) > frond_party_tag(b) ? frond_party_id(a) : frond_party_id(b);
}

static bool needs_order(void *context, const frond_party *inserter, const frond_party *holder)
{
    (void)context, (void)inserter, (void)holder;
    return true;
}

static void synced(void *cookie)
{
    heard *ear = cookie;
    pthread_mutex_lock(&ear->mutex);
    ear->synced++;
    pthread_cond_broadcast(&ear->changed);
    pthread_mutex_unlock(&ear->mutex);
}

static void open_store(const char *path)
{
    frond_options options;
    frond_lock_hooks hooks = {&ear, on_wait, prefer, needs_order};
    frond_options_init(&options);
    options.cache_size = 16u << 20;
    options.durability = FROND_LAZY;
    options.lock_hooks = &hooks;
    MUST(frond_open(path, &options, &db, &error));
}

static frond_txn *begin(int isolation, uint64_t tag)
{
    frond_txn_options options;
    frond_txn *txn;
    frond_txn_options_init(&options);
    options.isolation = isolation;
    options.tag = tag;
    MUST(frond_txn_begin(db, &options, &txn, &error));
    return txn;
}

static void is_counted(frond_tree *tree, uint64_t expected)
{
    uint64_t found = 0;
    bool exact = false;
    MUST(frond_tree_row_count(tree, &found, &exact, &error));
    CHECK(exact && found == expected);
}

/* Loads two trees in one commit. */
static void load_both(frond_tree *trees[2])
{
    frond_load *loads[2], *given_up;
    frond_tree_options options;
    frond_tree_options_init(&options);
    options.unique = true;
    options.attributes = "a table";
    options.attributes_length = 7;
    MUST(frond_load_begin(db, "rows", &options, &loads[0], &error));
    MUST(frond_load_begin(db, "index", &options, &loads[1], &error));
    MUST(frond_load_begin(db, "never", NULL, &given_up, &error));
    frond_load_free(given_up);
    for (uint64_t i = 0; i < ROWS; i++) {
        id_key own = key_of(i * 7919 % ROWS), other = key_of(ROWS - 1 - i);
        MUST(frond_load_put(loads[0], own.bytes, 8, other.bytes, 8, &error));
        MUST(frond_load_put(loads[1], other.bytes, 8, own.bytes, 8, &error));
    }
    MUST(frond_loads_finish(loads, 2, trees, &error));
    frond_tree_free(trees[0]);
    GIVES(NO_SUCH_TREE, frond_tree_open(db, "never", &trees[0], &error));
}

static void numbers(void)
{
    uint64_t first = 0, estimated = 0, taken = 0, next = 0;
    id_key low = key_of(100), high = key_of(300);
    is_counted(rows, ROWS);
    MUST(frond_tree_estimate(rows, low.bytes, 8, high.bytes, 8, &estimated, &taken, &error));
    CHECK(estimated >= 50 && estimated <= 800 && taken > 0);
    MUST(frond_tree_estimate(rows, NULL, 0, NULL, 0, &estimated, NULL, &error));
    CHECK(estimated > 0);

    MUST(frond_tree_reserve(rows, 0, ROWS, 3, &first, &error));
    CHECK(first == ROWS);
    frond_txn *txn = begin(FROND_SNAPSHOT, 0);
    for (uint64_t id = first; id < first + 3; id++) {
        id_key key = key_of(id);
        MUST(frond_txn_insert(txn, rows, key.bytes, 8, "new", 3, &error));
    }
    MUST(frond_txn_commit(txn, NULL, &error));
    is_counted(rows, ROWS + 3);
    MUST(frond_tree_next_number(rows, 0, &next, &error));
    CHECK(next == ROWS + 3);
    GIVES(INVALID, frond_tree_reserve(rows, 4, 1, 1, &first, &error));
}

typedef struct {
    frond_txn *txn;
    int outcome;
} waiting;

static void *waits(void *argument)
{
    waiting *session = argument;
    id_key key = key_of(1);
    session->outcome = frond_txn_put(session->txn, rows, key.bytes, 8, "mine", 4, NULL);
    return NULL;
}

static void line(void *context, const char *text, size_t length)
{
    int *lines = context;
    CHECK(strlen(text) == length && strncmp(text, "transaction ", 12) == 0);
    *lines += 1;
}

static bool is_on(const frond_locked *lock, uint64_t id, int32_t mode)
{
    id_key key = key_of(id);
    CHECK(lock->tree == frond_tree_id(rows) && strcmp(lock->tree_name, "rows") == 0 && lock->mode == mode);
    return lock->on == FROND_ON_ROW && lock->key.is_known && lock->key.held == 8 && lock->key.length == 8
        && memcmp(lock->key.data, key.bytes, 8) == 0;
}

static void waits_for_21(void *context, const frond_wait *wait)
{
    CHECK(wait->tag == 22 && wait->holders_count == 1 && wait->holder_tags[0] == 21 && is_on(&wait->lock, 1, FROND_EXCLUSIVE));
    CHECK(wait->holders[0] != wait->waiter && wait->since_nanos > 0);
    ++*(int *)context;
}

static void is_live(void *context, const frond_live *live)
{
    CHECK(live->writes == 1 && live->locks_nanos >= 0 && live->waits == (live->tag == 22));
    CHECK((live->snapshot_nanos >= 0) == (live->snapshot_seqno > 0));
    ++*(int *)context;
}

static void was_in_deadlock(void *context, const frond_deadlocked *one)
{
    CHECK(one->writes == 1 && one->is_victim == (one->tag == 22));
    CHECK(is_on(&one->lock, one->tag == 22 ? 1 : 2, FROND_EXCLUSIVE));
    ++*(int *)context;
}

/* Waits and a deadlock cycle, reported as structs. */
static void fields_of_locks(void)
{
    enum { DEADLOCK = 1102 };
    int told = 0;
    uint64_t at = 0;
    pthread_t thread;
    id_key first = key_of(1), second = key_of(2);
    GIVES(FROND_NOT_FOUND, frond_each_deadlocked(db, was_in_deadlock, &told, &at, &error));
    frond_txn *holder = begin(FROND_SNAPSHOT, 21);
    waiting session = {begin(FROND_SNAPSHOT, 22), 0};
    MUST(frond_txn_put(holder, rows, first.bytes, 8, "mine", 4, &error));
    MUST(frond_txn_put(session.txn, rows, second.bytes, 8, "mine", 4, &error));
    CHECK(pthread_create(&thread, NULL, waits, &session) == 0);
    while (told == 0)
        MUST(frond_each_wait(db, waits_for_21, &told, &error));
    told = 0;
    MUST(frond_each_transaction(db, is_live, &told, &error));
    CHECK(told == 2);
    MUST(frond_txn_put(holder, rows, second.bytes, 8, "mine", 4, &error));
    CHECK(pthread_join(thread, NULL) == 0 && session.outcome == DEADLOCK);
    MUST(frond_each_deadlocked(db, was_in_deadlock, &told, &at, &error));
    CHECK(told == 4 && at > 0);
    MUST(frond_each_wait(db, waits_for_21, &told, &error));
    CHECK(told == 4);
    MUST(frond_txn_rollback(holder, &error));
    MUST(frond_txn_rollback(session.txn, &error));
}

static void number(void *context, const char *name, uint64_t value)
{
    if (strcmp(name, "commits") == 0)
        *(uint64_t *)context = value;
}

/* Holders of locks, and latencies. */
static void watch(uint64_t waits)
{
    int lines = 0;
    uint64_t count = 0, half = 0, longest = 0, listed = 0, before = 0;
    frond_buffer value = {0};
    MUST(frond_transactions(db, line, &lines, &error));
    CHECK(lines == 0);
    frond_txn *holder = begin(FROND_SNAPSHOT, 5);
    id_key key = key_of(1);
    MUST(frond_txn_put(holder, rows, key.bytes, 8, "mine", 4, &error));
    MUST(frond_transactions(db, line, &lines, &error));
    CHECK(lines == 1);
    /* A transaction that only reads is reported, too, because it holds a snapshot. */
    frond_txn *reader = begin(FROND_SNAPSHOT, 6);
    MUST(frond_stat(db, "snapshots", &before, &error));
    CHECK(frond_txn_get(reader, rows, key.bytes, 8, FROND_NO_LOCK, FROND_WAIT, &value, &error) != INVALID);
    lines = 0;
    MUST(frond_transactions(db, line, &lines, &error));
    CHECK(lines == 2);
    MUST(frond_stat(db, "snapshots", &count, &error));
    CHECK(count == before + 1);
    MUST(frond_stat(db, "snapshot_oldest_seqno", &count, &error));
    CHECK(count > 0);
    MUST(frond_stat(db, "snapshot_oldest_millis", &count, &error));
    MUST(frond_stat(db, "snapshot_kept_bytes", &count, &error));
    MUST(frond_txn_rollback(reader, &error));
    frond_buffer_free(&value);
    MUST(frond_txn_rollback(holder, &error));
    GIVES(INVALID, frond_transactions(db, NULL, NULL, &error));
    MUST(frond_stats(db, number, &listed, &error));
    MUST(frond_times(db, FROND_COMMITS, 500, &count, &half, &error));
    MUST(frond_times(db, FROND_COMMITS, 1000, NULL, &longest, &error));
    CHECK(count > 0 && half > 0 && half <= longest && listed == count);
    MUST(frond_times(db, FROND_LOCK_WAITS, 500, &count, NULL, &error));
    CHECK(count == waits);
    GIVES(INVALID, frond_times(db, 9, 500, &count, NULL, &error));
    GIVES(INVALID, frond_times(db, FROND_SYNC_WAITS, 1001, &count, NULL, &error));
}

static void name(void *context, const char *text, size_t length)
{
    CHECK(strlen(text) == length && strcmp(text, "monday") == 0);
    *(int *)context += 1;
}

/* A tree with parts: every kind of read of some of them. Then a named snapshot, and statements. */
static void parts_and_statements(void)
{
    const frond_part key_parts[] = {{FROND_PART_FIXED, 8, FROND_HINT_INTEGER}};
    const frond_part value_parts[] = {{FROND_PART_FIXED, 2, FROND_HINT_INTEGER}, {FROND_PART_PREFIXED, 0, 0}, {FROND_PART_FIXED, 1, 0}};
    const frond_part wrong[] = {{9, 1, 0}};
    const size_t numbers[] = {2, 0}, beyond[] = {3};
    const char *row = "\001\002\003abc\007";
    frond_tree_options options;
    frond_tree *table, *other;
    frond_projection *parts;
    frond_snapshot *snapshot;
    frond_cursor *cursor;
    frond_rows batch;
    frond_buffer value = {0};
    uint8_t piece[4];
    size_t count = 0;
    int lines = 0;
    frond_tree_options_init(&options);
    options.value_parts = wrong;
    options.value_parts_count = 1;
    GIVES(INVALID, frond_tree_create(db, "table", &options, &table, &error));
    options.key_parts = key_parts;
    options.key_parts_count = 1;
    options.value_parts = value_parts;
    options.value_parts_count = 3;
    MUST(frond_tree_create(db, "table", &options, &table, &error));
    for (uint64_t i = 0; i < 100; i++) {
        id_key key = key_of(i);
        MUST(frond_put(table, key.bytes, 8, row, 7, &error));
    }
    MUST(frond_checkpoint(db, &error));
    GIVES(INVALID, frond_projection_new(table, beyond, 1, &parts, &error));
    GIVES(INVALID, frond_projection_new(rows, numbers, 2, &parts, &error));
    MUST(frond_projection_new(table, numbers, 2, &parts, &error));

    id_key first = key_of(0), absent = key_of(1000);
    const char *cut = "\001\002\007";
    MUST(frond_get_projected(table, first.bytes, 8, parts, &value, &error));
    CHECK(value.length == 3 && memcmp(value.data, cut, 3) == 0);
    GIVES(FROND_NOT_FOUND, frond_get_projected(table, absent.bytes, 8, parts, &value, &error));
    GIVES(INVALID, frond_get_projected(table, first.bytes, 8, NULL, &value, &error));
    MUST(frond_scan(table, NULL, 0, NULL, 0, &cursor, &error));
    MUST(frond_cursor_project(cursor, parts, &error));
    MUST(frond_cursor_next(cursor, 100, &batch, &error));
    CHECK(batch.count == 100 && batch.rows[99].value_length == 3);
    frond_cursor_free(cursor);

    MUST(frond_snapshot_create(db, "monday", NULL, &error));
    MUST(frond_snapshots(db, name, &lines, &error));
    CHECK(lines == 1);
    frond_txn *txn = begin(FROND_REPEATABLE_READ, 0);
    GIVES(INVALID, frond_txn_rollback_statement(txn, &error));
    MUST(frond_txn_begin_statement(txn, &error));
    for (uint64_t i = 0; i < 100; i++) {
        id_key key = key_of(i + 100);
        MUST(frond_txn_put(txn, table, key.bytes, 8, row, 7, &error));
    }
    MUST(frond_txn_scan(txn, table, NULL, 0, NULL, 0, FROND_NO_LOCK, FROND_WAIT, &cursor, &error));
    MUST(frond_cursor_project(cursor, parts, &error));
    MUST(frond_cursor_next(cursor, 1000, &batch, &error));
    CHECK(batch.count == 100 && batch.rows[0].value_length == 3);
    frond_cursor_free(cursor);
    MUST(frond_txn_begin_statement(txn, &error));
    id_key last = key_of(199);
    MUST(frond_txn_delete(txn, table, last.bytes, 8, &error));
    GIVES(FROND_NOT_FOUND, frond_txn_get_projected(txn, table, last.bytes, 8, parts, &value, &error));
    MUST(frond_txn_rollback_statement(txn, &error));
    MUST(frond_txn_get_projected(txn, table, last.bytes, 8, parts, &value, &error));
    CHECK(value.length == 3 && memcmp(value.data, cut, 3) == 0);
    MUST(frond_txn_commit(txn, NULL, &error));

    MUST(frond_snapshot_open(db, "monday", &snapshot, &error));
    MUST(frond_snapshot_tree_open(snapshot, "table", &other, &error));
    GIVES(FROND_NOT_FOUND, frond_snapshot_get_projected(snapshot, other, last.bytes, 8, parts, &value, &error));
    MUST(frond_snapshot_get_projected(snapshot, other, first.bytes, 8, parts, &value, &error));
    CHECK(value.length == 3);
    MUST(frond_snapshot_get_at(snapshot, other, first.bytes, 8, 4, piece, 4, &count, &error));
    CHECK(count == 3 && memcmp(piece, row + 4, 3) == 0);
    GIVES(FROND_NOT_FOUND, frond_snapshot_get_at(snapshot, other, last.bytes, 8, 0, piece, 4, &count, &error));
    frond_snapshot_free(snapshot);
    frond_tree_free(other);
    MUST(frond_snapshot_drop(db, "monday", &error));
    frond_projection_free(parts);
    frond_projection_free(NULL);
    frond_buffer_free(&value);
    frond_tree_free(table);
}

/* A column is added, another removed, and no row is touched. */
static void layouts_that_change(void)
{
    const frond_part before[] = {{FROND_PART_VERSION, 0, 0}, {FROND_PART_FIXED, 2, FROND_HINT_INTEGER}, {FROND_PART_PREFIXED, 0, 0}};
    const frond_new_part after[] = {{0, {FROND_PART_FIXED, 1, 0}, "\007", 1}, {2, {0, 0, 0}, NULL, 0}};
    const frond_new_part wrong[] = {{3, {0, 0, 0}, NULL, 0}}, longer[] = {{0, {FROND_PART_FIXED, 1, 0}, "ab", 2}};
    const char *row = "\000\000\001\002\003abc", *mapped = "\000\001\007\003abc";
    frond_tree_options options;
    frond_tree *table, *now, *plain;
    frond_buffer value = {0};
    id_key first = key_of(0), second = key_of(1);
    frond_tree_options_init(&options);
    MUST(frond_tree_create(db, "plain", &options, &plain, &error));
    CHECK(frond_tree_layout_version(plain) == -1 && frond_tree_layout_version(NULL) == -1);
    GIVES(INVALID, frond_tree_change_layout(db, "plain", after, 2, NULL, 0, &now, &error));
    options.value_parts = before;
    options.value_parts_count = 3;
    MUST(frond_tree_create(db, "layouts", &options, &table, &error));
    CHECK(frond_tree_layout_version(table) == 0);
    MUST(frond_put(table, first.bytes, 8, row, 8, &error));
    GIVES(INVALID, frond_put(table, first.bytes, 8, mapped, 7, &error));
    GIVES(INVALID, frond_tree_change_layout(db, "layouts", wrong, 1, NULL, 0, &now, &error));
    GIVES(INVALID, frond_tree_change_layout(db, "layouts", longer, 1, NULL, 0, &now, &error));
    GIVES(INVALID, frond_tree_change_layout(db, "layouts", NULL, 1, NULL, 0, &now, &error));
    MUST(frond_tree_change_layout(db, "layouts", after, 2, "new", 3, &now, &error));
    CHECK(frond_tree_layout_version(now) == 1 && frond_tree_layout_version(table) == 0);
    MUST(frond_get(now, first.bytes, 8, &value, &error));
    CHECK(value.length == 7 && memcmp(value.data, mapped, 7) == 0);
    MUST(frond_get(table, first.bytes, 8, &value, &error));
    CHECK(value.length == 8 && memcmp(value.data, row, 8) == 0);
    MUST(frond_put(now, second.bytes, 8, mapped, 7, &error));
    GIVES(1006, frond_get(table, second.bytes, 8, &value, &error));
    MUST(frond_tree_info(now, NULL, &value, &error));
    CHECK(value.length == 3 && memcmp(value.data, "new", 3) == 0);
    /* The layout and a name change in one commit, which is repeated. */
    const frond_new_part one[] = {{2, {0, 0, 0}, NULL, 0}};
    const uint32_t number = frond_tree_id(table);
    frond_change_options repeated;
    frond_change_options_init(&repeated);
    repeated.repeatable = true;
    for (int time = 0; time < 2; time++) {
        frond_tree_change *change;
        uint64_t seqno = 1;
        MUST(frond_change_begin(db, &repeated, &change, &error));
        GIVES(INVALID, frond_change_layout(change, number, NULL, 1 << 16, one, 1, &error));
        MUST(frond_change_layout(change, number, NULL, 1, one, 1, &error));
        MUST(frond_change_rename(change, number, "layouts", "narrower", &error));
        MUST(frond_change_commit(change, &seqno, &error));
        CHECK((seqno > 0) == (time == 0));
        frond_change_free(change);
    }
    frond_tree_free(now);
    MUST(frond_tree_open(db, "narrower", &now, &error));
    MUST(frond_get(now, first.bytes, 8, &value, &error));
    CHECK(value.length == 6 && memcmp(value.data, "\000\002\003abc", 6) == 0);
    frond_buffer_free(&value);
    frond_tree_free(plain);
    frond_tree_free(table);
    frond_tree_free(now);
}

/* A temporary tree takes part in transactions, and leaves nothing behind. */
static void temporary(void)
{
    frond_temporary *tree;
    frond_cursor *cursor;
    frond_rows batch;
    frond_buffer value = {0};
    uint64_t savepoint;
    id_key one = key_of(1), two = key_of(2);
    frond_txn *txn = begin(FROND_REPEATABLE_READ, 0), *other = begin(FROND_REPEATABLE_READ, 0);
    MUST(frond_temporary_create(db, NULL, &tree, &error));
    MUST(frond_temporary_put(txn, tree, one.bytes, 8, "one", 3, &error));
    GIVES(INVALID, frond_temporary_put(other, tree, one.bytes, 8, "one", 3, &error));
    GIVES(1108, frond_temporary_insert(txn, tree, one.bytes, 8, "two", 3, &error));
    MUST(frond_txn_savepoint(txn, &savepoint, &error));
    MUST(frond_temporary_insert(txn, tree, two.bytes, 8, "two", 3, &error));
    MUST(frond_temporary_delete(txn, tree, one.bytes, 8, &error));
    GIVES(FROND_NOT_FOUND, frond_temporary_get(tree, one.bytes, 8, &value, &error));
    MUST(frond_txn_rollback_to(txn, savepoint, &error));
    GIVES(INVALID, frond_temporary_clear(tree, &error));
    MUST(frond_txn_commit(txn, NULL, &error));
    MUST(frond_temporary_get(tree, one.bytes, 8, &value, &error));
    CHECK(value.length == 3 && memcmp(value.data, "one", 3) == 0);
    MUST(frond_temporary_scan(tree, NULL, 0, NULL, 0, &cursor, &error));
    MUST(frond_cursor_next(cursor, 10, &batch, &error));
    CHECK(batch.count == 1 && batch.rows[0].value_length == 3);
    GIVES(FROND_NOT_FOUND, frond_cursor_next(cursor, 10, &batch, &error));
    frond_cursor_free(cursor);
    MUST(frond_temporary_clear(tree, &error));
    GIVES(FROND_NOT_FOUND, frond_temporary_get(tree, one.bytes, 8, &value, &error));
    GIVES(INVALID, frond_temporary_get(NULL, one.bytes, 8, &value, &error));
    MUST(frond_txn_rollback(other, &error));
    frond_buffer_free(&value);
    frond_temporary_free(tree);
    frond_temporary_free(NULL);
}

/* A session is cancelled while it waits; the hooks have reported the waiter and the holder. */
static void kill_a_session(void)
{
    pthread_t thread;
    frond_interrupter *interrupter;
    frond_buffer value = {0};
    id_key key = key_of(1), other = key_of(2);
    frond_txn *holder = begin(FROND_READ_COMMITTED, 71);
    waiting session = {begin(FROND_READ_COMMITTED, 72), 0};
    MUST(frond_txn_get(holder, rows, key.bytes, 8, FROND_EXCLUSIVE, FROND_WAIT, &value, &error));
    MUST(frond_txn_interrupter(session.txn, &interrupter, &error));
    CHECK(pthread_create(&thread, NULL, waits, &session) == 0);
    pthread_mutex_lock(&ear.mutex);
    while (ear.waits == 0)
        pthread_cond_wait(&ear.changed, &ear.mutex);
    CHECK(ear.waiter == 72 && ear.holder == 71);
    pthread_mutex_unlock(&ear.mutex);
    frond_interrupt(interrupter);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(session.outcome == INTERRUPTED);
    GIVES(INTERRUPTED, frond_txn_get(session.txn, rows, other.bytes, 8, FROND_NO_LOCK, FROND_WAIT, &value, &error));
    MUST(frond_txn_clear_interrupt(session.txn, &error));
    MUST(frond_txn_get(session.txn, rows, other.bytes, 8, FROND_NO_LOCK, FROND_WAIT, &value, &error));
    MUST(frond_txn_rollback(session.txn, &error));
    MUST(frond_txn_rollback(holder, &error));
    frond_interrupt(interrupter);
    frond_interrupter_free(interrupter);
    frond_interrupt(NULL);
    frond_buffer_free(&value);
}

/* Snapshots, and reads of many keys. */
static void snapshots_and_many_keys(frond_tree *index)
{
    enum { KEYS = 5 };
    frond_snapshot *snapshot;
    frond_buffer memory = {0}, value = {0};
    frond_cursor *cursor;
    frond_rows batch;
    frond_tree *younger;
    frond_bytes keys[KEYS], values[KEYS];
    id_key asked[KEYS];
    uint64_t seqno = 0;
    MUST(frond_snapshot_take(db, &snapshot, &error));
    frond_txn *ordered = begin(FROND_REPEATABLE_READ, 0);
    MUST(frond_txn_take_snapshot(ordered, &seqno, &error));
    CHECK(seqno == frond_snapshot_seqno(snapshot) && seqno > 0);

    frond_batch *writes;
    id_key low = key_of(0), high = key_of(10);
    MUST(frond_batch_new(&writes, &error));
    MUST(frond_batch_delete_range(writes, rows, low.bytes, 8, high.bytes, 8, &error));
    MUST(frond_batch_put(writes, rows, low.bytes, 8, "first", 5, &error));
    MUST(frond_batch_delete(writes, index, low.bytes, 8, &error));
    MUST(frond_batch_commit(db, writes, FROND_OS, &seqno, &error));
    frond_batch_free(writes);
    CHECK(seqno > frond_snapshot_seqno(snapshot));
    MUST(frond_tree_create(db, "younger", NULL, &younger, &error));

    for (uint64_t i = 0; i < KEYS; i++) {
        asked[i] = key_of(i == 3 ? ROWS * 10 : (KEYS - i) * 2);
        keys[i].data = asked[i].bytes;
        keys[i].length = 8;
    }
    MUST(frond_snapshot_get_many(snapshot, rows, keys, KEYS, &memory, values, &error));
    for (int i = 0; i < KEYS; i++)
        CHECK(i == 3 ? values[i].data == NULL : values[i].length == 8);
    MUST(frond_txn_get_many(ordered, rows, keys, KEYS, &memory, values, &error));
    CHECK(values[0].length == 8 && values[3].data == NULL && values[4].length == 8);
    MUST(frond_txn_rollback(ordered, &error));
    frond_txn *now = begin(FROND_READ_COMMITTED, 0);
    MUST(frond_txn_get_many(now, rows, keys, KEYS, &memory, values, &error));
    CHECK(values[0].data != NULL && values[1].data == NULL && values[4].data == NULL);
    MUST(frond_txn_get_many(now, rows, NULL, 0, &memory, NULL, &error));
    GIVES(INVALID, frond_txn_get_many(now, rows, NULL, 1, &memory, values, &error));
    MUST(frond_txn_rollback(now, &error));

    MUST(frond_snapshot_get(snapshot, rows, low.bytes, 8, &value, &error));
    CHECK(value.length == 8);
    GIVES(DEFINITION_CHANGED, frond_snapshot_get(snapshot, younger, low.bytes, 8, &value, &error));
    MUST(frond_snapshot_scan(snapshot, rows, NULL, 0, high.bytes, 8, &cursor, &error));
    MUST(frond_cursor_next(cursor, 100, &batch, &error));
    CHECK(batch.count == 10);
    frond_cursor_free(cursor);
    frond_snapshot_free(snapshot);
    frond_tree_free(younger);
    frond_buffer_free(&memory);
    frond_buffer_free(&value);
}

int main(int count, char **arguments)
{
    frond_tree *trees[2], *index;
    frond_buffer attributes = {0};
    uint64_t birth = 0, next = 0;
    CHECK(count >= 2);
    open_store(arguments[1]);
    load_both(trees);
    MUST(frond_tree_open(db, "rows", &rows, &error));
    index = trees[1];
    MUST(frond_tree_info(rows, &birth, &attributes, &error));
    CHECK(birth > 0 && attributes.length == 7 && memcmp(attributes.data, "a table", 7) == 0);
    frond_buffer_free(&attributes);
    numbers();
    watch(0);
    kill_a_session();
    watch(1);
    fields_of_locks();
    snapshots_and_many_keys(index);
    parts_and_statements();
    layouts_that_change();
    temporary();
    MUST(frond_when_synced(db, synced, &ear, &error));
    pthread_mutex_lock(&ear.mutex);
    while (ear.synced == 0)
        pthread_cond_wait(&ear.changed, &ear.mutex);
    pthread_mutex_unlock(&ear.mutex);
    GIVES(INVALID, frond_when_synced(db, NULL, NULL, &error));
    frond_tree_free(rows);
    frond_tree_free(index);
    MUST(frond_close(db, &error));

    open_store(arguments[1]);
    MUST(frond_tree_open(db, "rows", &rows, &error));
    MUST(frond_tree_next_number(rows, 0, &next, &error));
    CHECK(next == ROWS + 3);
    frond_tree_free(rows);
    MUST(frond_close(db, &error));
    return 0;
}
