/*
 * Sessions of a server: whether a transaction is over, how long its statements wait, cursors that
 * meet errors, numbers of sequences, range deletes, appliers of a replica, merge operators of the
 * program. Prints nothing and returns 0 on success.
 */
#include "must.h"

#include <pthread.h>

enum { INVALID = 1001, NO_OPERATOR = 1013, LATE = 1101, BUSY = 1105, INTERRUPTED = 1106, CONFLICT = 1107, ENDED = 1109 };

static frond_db *db;
static frond_tree *tree;

/* What the hooks should do, and what they have done. */
typedef struct {
    bool kills_holders, orders;
    int killed, asked;
} applier;

static applier hears = {false, true, 0, 0};

static void on_wait(void *context, const frond_party *waiter, const frond_party *holder)
{
    applier *hears = context;
    if (hears->kills_holders && frond_party_tag(holder) > frond_party_tag(waiter)) {
        frond_party_interrupt(holder);
        hears->killed++;
    }
}

static bool needs_order(void *context, const frond_party *inserter, const frond_party *holder)
{
    applier *hears = context;
    CHECK(frond_party_tag(inserter) != frond_party_tag(holder));
    hears->asked++;
    return hears->orders;
}

/* Keeps the longer value; the newer one if both have the same length. */
static void longer(void *context, const uint8_t *value, size_t value_length, const uint8_t *operand,
                   size_t operand_length, frond_buffer *out)
{
    CHECK(context == &hears && (value || value_length == 0));
    if (value && value_length > operand_length)
        MUST(frond_buffer_set(out, value, value_length, NULL));
    else
        MUST(frond_buffer_set(out, operand, operand_length, NULL));
}

static void open_store(const char *path)
{
    frond_options options;
    frond_lock_hooks hooks = {&hears, on_wait, NULL, needs_order};
    frond_operator nameless = {64, NULL, &hears, longer, NULL}, builtin = {1, "longer", &hears, longer, NULL};
    frond_operator operator = {64, "longer", &hears, longer, NULL};
    frond_options_init(&options);
    options.cache_size = 16u << 20;
    options.durability = FROND_LAZY;
    options.lock_hooks = &hooks;
    options.operators_count = 1;
    GIVES(INVALID, frond_open(path, &options, &db, &error));
    options.operators = &nameless;
    GIVES(INVALID, frond_open(path, &options, &db, &error));
    options.operators = &builtin;
    GIVES(INVALID, frond_open(path, &options, &db, &error));
    options.operators = &operator;
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

static int put(frond_txn *txn, const char *key, const char *value)
{
    return frond_txn_put(txn, tree, key, strlen(key), value, strlen(value), &error);
}

static void is_value(frond_txn *txn, const char *key, const char *value)
{
    frond_buffer found = {0};
    int expected = value ? FROND_OK : FROND_NOT_FOUND;
    if (txn)
        GIVES(expected, frond_txn_get(txn, tree, key, strlen(key), FROND_NO_LOCK, FROND_WAIT, &found, &error));
    else
        GIVES(expected, frond_get(tree, key, strlen(key), &found, &error));
    if (value)
        CHECK(found.length == strlen(value) && (found.length == 0 || memcmp(found.data, value, found.length) == 0));
    frond_buffer_free(&found);
}

static void fill(void)
{
    frond_txn *txn = begin(FROND_SNAPSHOT, 0);
    const char *keys[] = {"1", "2", "3", "4", "5", "6"};
    for (int i = 0; i < 6; i++)
        MUST(put(txn, keys[i], "old"));
    MUST(frond_txn_commit(txn, NULL, &error));
}

/* A lock timeout leaves a transaction as it was; a conflict ends it. */
static void endings(void)
{
    frond_txn *holder = begin(FROND_SNAPSHOT, 0), *txn = begin(FROND_SNAPSHOT, 0);
    is_value(txn, "2", "old");
    MUST(put(txn, "2", "own"));
    MUST(put(holder, "1", "held"));
    MUST(frond_txn_set_lock_timeout(txn, 0, &error));
    GIVES(LATE, put(txn, "1", "own"));
    CHECK(!frond_txn_is_over(txn));
    is_value(txn, "2", "own");
    MUST(frond_txn_commit(holder, NULL, &error));
    GIVES(CONFLICT, put(txn, "1", "own"));
    CHECK(frond_txn_is_over(txn));
    GIVES(ENDED, put(txn, "6", "own"));
    CHECK(frond_txn_is_over(NULL));
    MUST(frond_txn_rollback(txn, &error));
    is_value(NULL, "2", "old");
    MUST(frond_put(tree, "1", 1, "old", 3, &error));
}

/* Each call uses the timeout of the statement. */
static void waits(void)
{
    frond_txn *holder = begin(FROND_SNAPSHOT, 0), *txn = begin(FROND_READ_COMMITTED, 0);
    frond_entry entry = {tree, "1", 1, "new", 3, true, false};
    frond_change change = {entry, true, true, "1", 1};
    frond_conflict met = {-1, {0}};
    frond_buffer value = {0};
    MUST(put(holder, "1", "held"));
    MUST(frond_txn_set_lock_timeout(txn, 0, &error));
    GIVES(LATE, frond_txn_insert_row(txn, &entry, 1, FROND_SHARED, &met, &error));
    GIVES(LATE, frond_txn_update_row(txn, &change, 1, FROND_SHARED, &met, &error));
    GIVES(LATE, frond_txn_delete_row(txn, &entry, 1, &error));
    GIVES(LATE, frond_txn_delete(txn, tree, "1", 1, &error));
    GIVES(LATE, frond_txn_delete_range(txn, tree, NULL, 0, NULL, 0, NULL, &error));
    GIVES(LATE, frond_txn_lock_tree(txn, tree, FROND_TREE_SHARED, FROND_WAIT, &error));
    MUST(frond_txn_set_lock_timeout(txn, 2, &error));
    GIVES(LATE, put(txn, "1", "new"));
    MUST(frond_txn_set_lock_timeout(txn, -1, &error));
    MUST(frond_txn_rollback(holder, &error));
    MUST(frond_txn_insert_row(txn, &entry, 1, FROND_SHARED, &met, &error));
    CHECK(met.index == 0 && met.value.length == 3);
    frond_buffer_free(&met.value);
    MUST(frond_txn_rollback(txn, &error));

    /* A plain read at FROND_SERIALIZABLE locks, and can be told not to wait. */
    holder = begin(FROND_SNAPSHOT, 0), txn = begin(FROND_SERIALIZABLE, 0);
    MUST(put(holder, "1", "held"));
    GIVES(BUSY, frond_txn_get(txn, tree, "1", 1, FROND_NO_LOCK, FROND_NO_WAIT, &value, &error));
    GIVES(BUSY, frond_txn_get(txn, tree, "1", 1, FROND_NO_LOCK, FROND_SKIP_LOCKED, &value, &error));
    MUST(frond_txn_get(txn, tree, "2", 1, FROND_NO_LOCK, FROND_NO_WAIT, &value, &error));
    GIVES(LATE, (frond_txn_set_lock_timeout(holder, 0, &error), put(holder, "2", "too late")));
    frond_buffer_free(&value);
    MUST(frond_txn_rollback(holder, &error));
    MUST(frond_txn_rollback(txn, &error));
}

static frond_cursor *scan(frond_txn *txn, int lock, int when_locked)
{
    frond_cursor *cursor;
    MUST(frond_txn_scan(txn, tree, NULL, 0, NULL, 0, lock, when_locked, &cursor, &error));
    return cursor;
}

static void are_rows(const frond_rows *found, const char *keys)
{
    CHECK(found->count == strlen(keys));
    for (size_t i = 0; i < found->count; i++)
        CHECK(found->rows[i].key_length == 1 && found->rows[i].key[0] == (uint8_t)keys[i]);
}

static void cursors(void)
{
    /* An error that has ended the transaction is returned at once: its rows are not locked any
     * more. */
    frond_txn *txn = begin(FROND_SNAPSHOT, 0);
    frond_rows found;
    is_value(txn, "1", "old");
    MUST(frond_put(tree, "3", 1, "new", 3, &error));
    frond_cursor *cursor = scan(txn, FROND_EXCLUSIVE, FROND_WAIT);
    GIVES(CONFLICT, frond_cursor_next(cursor, 10, &found, &error));
    CHECK(found.count == 0 && frond_txn_is_over(txn));
    frond_cursor_free(cursor);
    MUST(frond_txn_rollback(txn, &error));
    MUST(frond_put(tree, "3", 1, "old", 3, &error));

    /* An error found on the way up does not affect the way down. */
    frond_txn *holder = begin(FROND_SNAPSHOT, 0);
    txn = begin(FROND_READ_COMMITTED, 0);
    MUST(put(holder, "4", "held"));
    cursor = scan(txn, FROND_EXCLUSIVE, FROND_NO_WAIT);
    MUST(frond_cursor_next(cursor, 10, &found, &error));
    are_rows(&found, "123");
    MUST(frond_cursor_prev(cursor, 1, &found, &error));
    are_rows(&found, "2");
    MUST(frond_cursor_next(cursor, 10, &found, &error));
    are_rows(&found, "3");
    GIVES(BUSY, frond_cursor_next(cursor, 10, &found, &error));
    CHECK(found.count == 0);
    MUST(frond_txn_rollback(holder, &error));
    MUST(frond_cursor_next(cursor, 10, &found, &error));
    are_rows(&found, "456");
    frond_cursor_free(cursor);
    MUST(frond_txn_rollback(txn, &error));

    /* A cursor that locks nothing returns more than one row per call. */
    frond_txn_options options;
    frond_txn_options_init(&options);
    options.isolation = FROND_SERIALIZABLE;
    for (int read_only = 0; read_only < 2; read_only++) {
        options.read_only = read_only == 1;
        MUST(frond_txn_begin(db, &options, &txn, &error));
        cursor = scan(txn, FROND_NO_LOCK, FROND_WAIT);
        MUST(frond_cursor_next(cursor, 0, &found, &error));
        are_rows(&found, read_only ? "123456" : "1");
        frond_cursor_free(cursor);
        MUST(frond_txn_rollback(txn, &error));
    }
}

/* No rollback undoes the number of a sequence, and setting it does not wait for readers. */
static void sequences(void)
{
    frond_txn *one = begin(FROND_SERIALIZABLE, 0), *two = begin(FROND_SERIALIZABLE, 0);
    uint64_t first = 0, second = 0;
    is_value(one, "1", "old");
    is_value(two, "1", "old");
    MUST(frond_txn_put_autonomous(one, tree, "1", 1, "11", 2, &first, &error));
    is_value(NULL, "1", "11");
    MUST(frond_txn_put_autonomous(two, tree, "1", 1, "12", 2, &second, &error));
    CHECK(first > 0 && second > first);
    GIVES(FROND_NOT_FOUND, frond_txn_put_autonomous(one, tree, "none", 4, NULL, 0, NULL, &error));
    MUST(put(one, "2", "own"));
    GIVES(INVALID, frond_txn_put_autonomous(one, tree, "2", 1, NULL, 0, NULL, &error));
    MUST(frond_txn_set_lock_timeout(two, 0, &error));
    GIVES(LATE, frond_txn_put_autonomous(two, tree, "2", 1, NULL, 0, NULL, &error));
    CHECK(!frond_txn_is_over(one) && !frond_txn_is_over(two));
    MUST(frond_txn_rollback(one, &error));
    MUST(frond_txn_rollback(two, &error));
    is_value(NULL, "1", "12");

    one = begin(FROND_SNAPSHOT, 0);
    is_value(one, "1", "12");
    MUST(frond_txn_put_autonomous(one, tree, "1", 1, "13", 2, NULL, &error));
    is_value(one, "1", "12");
    GIVES(CONFLICT, put(one, "1", "own"));
    MUST(frond_txn_rollback(one, &error));
    MUST(frond_put(tree, "1", 1, "old", 3, &error));
}

static void ranges(void)
{
    frond_txn *txn = begin(FROND_REPEATABLE_READ, 0);
    uint64_t point = 0, gone = 0;
    MUST(frond_txn_savepoint(txn, &point, &error));
    MUST(frond_txn_delete_range(txn, tree, NULL, 0, NULL, 0, &gone, &error));
    CHECK(gone == 6);
    is_value(txn, "3", NULL);
    MUST(frond_txn_rollback_to(txn, point, &error));
    is_value(txn, "3", "old");
    MUST(frond_txn_delete_range(txn, tree, "2", 1, "4", 1, &gone, &error));
    CHECK(gone == 2);
    GIVES(INVALID, frond_txn_delete_range(txn, tree, "4", 1, "2", 1, &gone, &error));
    GIVES(INVALID, frond_txn_delete_range(txn, tree, NULL, 3, NULL, 0, &gone, &error));
    CHECK(gone == 2);
    /* No other transaction can insert into a gap of the range. */
    frond_txn *other = begin(FROND_READ_COMMITTED, 1);
    MUST(frond_txn_set_lock_timeout(other, 0, &error));
    GIVES(LATE, put(other, "25", "phantom"));
    MUST(frond_txn_rollback(other, &error));
    MUST(frond_txn_commit(txn, NULL, &error));
    is_value(NULL, "3", NULL);
    is_value(NULL, "4", "old");
    fill();
}

/* A session that stays idle within its transaction holds no snapshot of its last statement. */
static void statements(void)
{
    frond_txn *txn = begin(FROND_READ_COMMITTED, 0);
    MUST(frond_txn_begin_statement(txn, &error));
    is_value(txn, "1", "old");
    MUST(put(txn, "2", "own"));
    MUST(frond_put(tree, "1", 1, "new", 3, &error));
    is_value(txn, "1", "old");
    MUST(frond_txn_end_statement(txn, &error));
    is_value(txn, "1", "new");
    MUST(frond_txn_rollback_statement(txn, &error));
    is_value(txn, "2", "old");
    MUST(frond_txn_commit(txn, NULL, &error));
    MUST(frond_put(tree, "1", 1, "old", 3, &error));
}

static void *apply_earlier(void *given)
{
    frond_error failed;
    int got = frond_txn_put(given, tree, "1", 1, "earlier", 7, &failed);
    return got == FROND_OK ? given : NULL;
}

/* Appliers of a replica: if an earlier transaction waits for a later one, the later one is
 * cancelled at once. */
static void appliers(void)
{
    frond_txn *earlier = begin(FROND_REPEATABLE_READ, 1), *later = begin(FROND_REPEATABLE_READ, 2);
    pthread_t thread;
    void *done = NULL;
    int got;
    MUST(frond_txn_set_lock_timeout(earlier, -1, &error));
    MUST(put(later, "1", "later"));
    hears.kills_holders = true;
    CHECK(pthread_create(&thread, NULL, apply_earlier, earlier) == 0);
    do {
        got = put(later, "2", "later");
    } while (got == FROND_OK);
    CHECK(got == INTERRUPTED && !frond_txn_is_over(later));
    MUST(frond_txn_rollback(later, &error));
    CHECK(pthread_join(thread, &done) == 0 && done == earlier);
    hears.kills_holders = false;
    CHECK(hears.killed > 0);
    MUST(frond_txn_commit(earlier, NULL, &error));
    is_value(NULL, "1", "earlier");
    MUST(frond_put(tree, "1", 1, "old", 3, &error));

    /* If the order of two transactions is settled, gap locks do not conflict. */
    for (int orders = 0; orders < 2; orders++) {
        frond_txn *holder = begin(FROND_REPEATABLE_READ, 1), *inserter = begin(FROND_REPEATABLE_READ, 2);
        frond_rows found;
        hears.orders = orders == 1;
        hears.asked = 0;
        frond_cursor *cursor = scan(holder, FROND_EXCLUSIVE, FROND_WAIT);
        MUST(frond_cursor_next(cursor, 6, &found, &error));
        MUST(frond_txn_set_lock_timeout(inserter, 0, &error));
        GIVES(orders ? LATE : FROND_OK, put(inserter, "25", "in the gap"));
        CHECK(hears.asked > 0);
        GIVES(LATE, put(inserter, "2", "a row counts"));
        frond_cursor_free(cursor);
        MUST(frond_txn_rollback(inserter, &error));
        MUST(frond_txn_rollback(holder, &error));
    }
}

static void fold(const char *operand)
{
    frond_txn *txn = begin(FROND_SNAPSHOT, 0);
    MUST(frond_txn_merge(txn, tree, "word", 4, 64, operand, strlen(operand), &error));
    MUST(frond_txn_commit(txn, NULL, &error));
}

static void operators(void)
{
    frond_txn *txn = begin(FROND_SNAPSHOT, 0);
    MUST(frond_txn_merge(txn, tree, "word", 4, 64, "ab", 2, &error));
    MUST(frond_txn_merge(txn, tree, "word", 4, 64, NULL, 0, &error));
    MUST(frond_txn_merge(txn, tree, "word", 4, 64, "cd", 2, &error));
    is_value(txn, "word", "cd");
    MUST(frond_txn_commit(txn, NULL, &error));
    fold("abc");
    fold("x");
    is_value(NULL, "word", "abc");
    MUST(frond_checkpoint(db, &error));
    is_value(NULL, "word", "abc");
    MUST(frond_delete(tree, "word", 4, &error));
    fold("");
    is_value(NULL, "word", "");
}

int main(int count, char **given)
{
    if (count < 2)
        return 2;
    open_store(given[1]);
    MUST(frond_tree_create(db, "t", NULL, &tree, &error));
    fill();
    endings();
    waits();
    cursors();
    sequences();
    ranges();
    statements();
    appliers();
    operators();
    frond_tree_free(tree);
    MUST(frond_close(db, &error));
    /* The store does not open without the operator, since its operands would have no meaning. */
    GIVES(NO_OPERATOR, frond_open(given[1], NULL, &db, &error));
    return 0;
}
