/*
 * Calls that neither walk.c nor server.c has a use for: what is folded into values, writes outside of transactions, places of a
 * cursor, a backup. Prints nothing and returns 0 if all is as it must be.
 */
#include "must.h"

static frond_db *db;
static frond_tree *tree;

static const uint8_t *bytes(const char *text)
{
    return (const uint8_t *)text;
}

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
    MUST(frond_get(of, bytes(key), strlen(key), &found, &error));
    CHECK(found.length == length && memcmp(found.data, value, length) == 0);
    frond_buffer_free(&found);
}

static void fold(frond_txn *txn, const char *key, uint8_t operation, const void *operand, size_t length)
{
    MUST(frond_txn_merge(txn, tree, bytes(key), strlen(key), operation, operand, length, &error));
}

/* Each operator does what the header says of it. */
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
    GIVES(MISSING_OPERATOR, frond_txn_merge(txn, tree, bytes("sum"), 3, 99, one, 8, &error));
    MUST(frond_txn_commit(txn, NULL, &error));
    is_value(tree, "sum", sum, 8);
    is_value(tree, "max", "c", 1);
    is_value(tree, "min", "a", 1);
    is_value(tree, "all", "bca", 3);
    MUST(frond_delete(tree, bytes("sum"), 3, &error));
    MUST(frond_delete(tree, bytes("never"), 5, &error));
    frond_buffer none = {0};
    GIVES(FROND_NOT_FOUND, frond_get(tree, bytes("sum"), 3, &none, &error));
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
    MUST(frond_cursor_seek(cursor, bytes("b"), 1, &error));
    is_next(cursor, "max");
    MUST(frond_cursor_seek(cursor, bytes("max"), 3, &error));
    is_next(cursor, "max");
    is_next(cursor, "min");
    MUST(frond_cursor_seek_first(cursor, &error));
    is_next(cursor, "all");
    MUST(frond_cursor_seek_last(cursor, &error));
    GIVES(FROND_NOT_FOUND, frond_cursor_next(cursor, 1, &batch, &error));
    MUST(frond_cursor_seek(cursor, bytes("max"), 3, &error));
    MUST(frond_cursor_prev(cursor, 1, &batch, &error));
    CHECK(batch.count == 1 && memcmp(batch.rows[0].key, "all", 3) == 0);
    frond_cursor_free(cursor);
}

/* What a transaction has written counts in its own estimates, and is nobody else's. */
static void estimates(void)
{
    uint64_t found = 7, taken = 7;
    frond_txn *txn;
    MUST(frond_txn_begin(db, NULL, &txn, &error));
    MUST(frond_txn_estimate(txn, tree, bytes("x"), 1, bytes("y"), 1, &found, &taken, &error));
    CHECK(found == 0);
    MUST(frond_txn_put(txn, tree, bytes("xx"), 2, bytes("own"), 3, &error));
    MUST(frond_txn_estimate(txn, tree, bytes("x"), 1, bytes("y"), 1, &found, &taken, &error));
    CHECK(found == 1 && taken > 0);
    MUST(frond_tree_estimate(tree, bytes("x"), 1, bytes("y"), 1, &found, NULL, &error));
    CHECK(found == 0);
    MUST(frond_txn_put_absent(txn, tree, bytes("xy"), 2, bytes("own"), 3, &error));
    MUST(frond_txn_estimate(txn, tree, bytes("x"), 1, bytes("y"), 1, &found, &taken, &error));
    CHECK(found == 2);
    GIVES(1001, frond_txn_estimate(NULL, tree, NULL, 0, NULL, 0, &found, NULL, &error));
    MUST(frond_txn_rollback(txn, &error));
}

static void line(void *context, const char *text, size_t length)
{
    (void)text, (void)length;
    ++*(int *)context;
}

/* Trees as a whole, and what an error says of where it went wrong. */
static void whole_trees(void)
{
    enum { BUSY = 1105, EXISTS = 1108 };
    frond_txn *one, *two;
    MUST(frond_txn_begin(db, NULL, &one, &error));
    MUST(frond_txn_begin(db, NULL, &two, &error));
    MUST(frond_txn_lock_tree(one, tree, FROND_TREE_SHARED, FROND_WAIT, &error));
    MUST(frond_txn_lock_tree(two, tree, FROND_TREE_INTENT_SHARED, FROND_FAIL, &error));
    GIVES(BUSY, frond_txn_lock_tree(two, tree, FROND_TREE_INTENT_EXCLUSIVE, FROND_FAIL, &error));
    CHECK(error.kind == FROND_RETRY && strcmp(error.tree, "words") == 0 && !error.has_key && error.entry == -1);
    GIVES(1001, frond_txn_lock_tree(two, tree, 0, FROND_FAIL, &error));
    CHECK(error.tree[0] == 0);
    MUST(frond_txn_rollback(two, &error));
    MUST(frond_txn_lock_tree(one, tree, FROND_TREE_EXCLUSIVE, FROND_FAIL, &error));
    MUST(frond_txn_begin(db, NULL, &two, &error));
    GIVES(BUSY, frond_txn_lock_tree(two, tree, FROND_TREE_INTENT_SHARED, FROND_FAIL, &error));
    GIVES(EXISTS, frond_txn_insert(one, tree, bytes("max"), 3, NULL, 0, &error));
    CHECK(error.has_key && error.key_length == 3 && memcmp(error.key, "max", 3) == 0);
    MUST(frond_txn_rollback(one, &error));
    MUST(frond_txn_put(two, tree, bytes("max"), 3, bytes("c"), 1, &error));
    MUST(frond_txn_begin(db, NULL, &one, &error));
    frond_buffer value = {0};
    GIVES(BUSY, frond_txn_get(one, tree, bytes("max"), 3, FROND_SHARED, FROND_FAIL, &value, &error));
    CHECK(strcmp(error.tree, "words") == 0 && error.key_length == 3 && memcmp(error.key, "max", 3) == 0);
    CHECK(strstr(error.message, "max") == NULL);
    int waits = 0;
    MUST(frond_lock_waits(db, line, &waits, &error));
    CHECK(waits == 0);
    frond_buffer_free(&value);
    MUST(frond_txn_rollback(one, &error));
    MUST(frond_txn_rollback(two, &error));
}

/* A load that is to be unique says which key is there twice. */
static void twice(void)
{
    enum { TWICE = 1104 };
    frond_load *load;
    frond_tree *loaded;
    frond_tree_options options;
    frond_tree_options_init(&options);
    options.unique = true;
    MUST(frond_load_begin(db, "load", &options, &load, &error));
    MUST(frond_load_put(load, bytes("one"), 3, NULL, 0, &error));
    MUST(frond_load_put(load, bytes("two"), 3, NULL, 0, &error));
    MUST(frond_load_put(load, bytes("one"), 3, NULL, 0, &error));
    GIVES(TWICE, frond_loads_finish(&load, 1, &loaded, &error));
    CHECK(strcmp(error.tree, "load") == 0 && error.key_length == 3 && memcmp(error.key, "one", 3) == 0);
}

/* What is copied is a store, as it was. */
static void backup(const char *path)
{
    char copy[4096];
    frond_db *copied;
    frond_tree *same;
    CHECK(snprintf(copy, sizeof copy, "%s-copy", path) < (int)sizeof copy);
    MUST(frond_backup(db, copy, &error));
    MUST(frond_put(tree, bytes("later"), 5, NULL, 0, &error));
    copied = open_at(copy);
    MUST(frond_tree_open(copied, "words", &same, &error));
    is_value(same, "all", "bca", 3);
    frond_buffer none = {0};
    GIVES(FROND_NOT_FOUND, frond_get(same, bytes("later"), 5, &none, &error));
    frond_buffer_free(&none);
    frond_tree_free(same);
    MUST(frond_close(copied, &error));
}

int main(int count, char **arguments)
{
    CHECK(count >= 2);
    db = open_at(arguments[1]);
    MUST(frond_tree_create(db, "words", NULL, &tree, &error));
    merges();
    places();
    estimates();
    whole_trees();
    twice();
    backup(arguments[1]);
    frond_tree_free(tree);
    MUST(frond_close(db, &error));
    return 0;
}
