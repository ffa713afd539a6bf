/*
 * Builds indexes of a tree while a thread writes it: the rows are numbers with a colour, and the
 * program computes the entries. Then a unique index whose keys are not unique, and long operations
 * that are cancelled. Prints nothing and returns 0 on success.
 */
#include "must.h"

#include <pthread.h>

enum { INVALID = 1001, NO_SUCH_TREE = 1004, LOCK_TIMEOUT = 1101, DUPLICATE = 1104, BUSY = 1105, INTERRUPTED = 1106, ROWS = 3000, KEYS = 4000 };

static frond_db *db;
static frond_tree *rows;

/* A row. The key is a number of four digits; the value is a colour of two digits and a serial
 * number of eight that no other row has. */
typedef struct {
    char text[16];
} word;

static word key_of(unsigned number)
{
    word key;
    snprintf(key.text, sizeof key.text, "%04u", number % 10000);
    return key;
}

static word row_of(unsigned colour, unsigned serial)
{
    word row;
    snprintf(row.text, sizeof row.text, "%02u%08u", colour % 100, serial % 100000000);
    return row;
}

/* An index entry. Index 0 maps the serial number, which is unique, to the key; index 1 is by colour
 * and key. */
typedef struct {
    uint8_t key[16], value[16];
    size_t key_length, value_length;
} entry;

static entry entry_of(size_t index, const void *key, const void *row)
{
    const char *colour = row, *serial = colour + 2;
    entry made;
    memset(&made, 0, sizeof made);
    if (index == 0) {
        memcpy(made.key, serial, 8);
        memcpy(made.value, key, 4);
        made.key_length = 8;
        made.value_length = 4;
    } else {
        memcpy(made.key, colour, 2);
        memcpy(made.key + 2, key, 4);
        made.key_length = 6;
    }
    return made;
}

/* Tells writers whether there are indexes. Changed while the build holds the tree exclusively; read
 * under an intent lock on the tree. */
typedef struct {
    pthread_mutex_t mutex;
    bool has_indexes, is_over;
    unsigned commits;
} definition;

static definition shared = {PTHREAD_MUTEX_INITIALIZER, false, false, 0};

static void indexes_are_there(void *context)
{
    definition *shared = context;
    pthread_mutex_lock(&shared->mutex);
    shared->has_indexes = true;
    pthread_mutex_unlock(&shared->mutex);
}

static bool asks(const bool *what)
{
    pthread_mutex_lock(&shared.mutex);
    bool is_so = *what;
    pthread_mutex_unlock(&shared.mutex);
    return is_so;
}

static const char *const names[2] = {"rows by serial number", "rows by colour"};

static frond_entry in(frond_tree *tree, const entry *of, bool unique)
{
    return (frond_entry){tree, of->key, of->key_length, of->value, of->value_length, unique, false};
}

/* Changes rows until the test is over, together with their index entries once there are indexes. */
static void *writes(void *argument)
{
    frond_buffer old = {0};
    frond_conflict conflict;
    frond_tree *indexes[2] = {NULL, NULL};
    memset(&conflict, 0, sizeof conflict);
    (void)argument;
    for (unsigned serial = ROWS, after = 0; after < 100; serial++) {
        frond_txn *txn;
        word key = key_of(serial * 7919 % KEYS), row = row_of(serial, serial);
        frond_change changes[3];
        size_t count = 1;
        MUST(frond_txn_begin(db, NULL, &txn, &error));
        /* Under valgrind, the build can hold the tree for longer than the default timeout. */
        MUST(frond_txn_set_lock_timeout(txn, -1, &error));
        MUST(frond_txn_lock_tree(txn, rows, FROND_TREE_INTENT_EXCLUSIVE, FROND_WAIT, &error));
        bool has_indexes = asks(&shared.has_indexes);
        if (has_indexes && indexes[0] == NULL)
            for (int i = 0; i < 2; i++)
                MUST(frond_tree_open(db, names[i], &indexes[i], &error));
        int found = frond_txn_get(txn, rows, key.text, 4, FROND_EXCLUSIVE, FROND_WAIT, &old, NULL);
        CHECK(found == FROND_OK || found == FROND_NOT_FOUND);
        memset(changes, 0, sizeof changes);
        changes[0].entry = (frond_entry){rows, key.text, 4, row.text, 10, found != FROND_OK, false};
        changes[0].has_new = true;
        changes[0].has_old = found == FROND_OK;
        changes[0].old = key.text;
        changes[0].old_length = 4;
        entry was[2], is[2];
        for (size_t i = 0; has_indexes && i < 2; i++, count++) {
            is[i] = entry_of(i, key.text, row.text);
            changes[count].entry = in(indexes[i], &is[i], i == 0);
            changes[count].has_new = true;
            if (found == FROND_OK) {
                was[i] = entry_of(i, key.text, old.data);
                changes[count].has_old = true;
                changes[count].old = was[i].key;
                changes[count].old_length = was[i].key_length;
            }
        }
        MUST(frond_txn_update_row(txn, changes, count, FROND_EXCLUSIVE, &conflict, &error));
        CHECK(conflict.index == -1);
        if (serial % 5 == 0)
            MUST(frond_txn_rollback(txn, &error));
        else
            MUST(frond_txn_commit(txn, NULL, &error));
        pthread_mutex_lock(&shared.mutex);
        shared.commits++;
        after += shared.is_over;
        pthread_mutex_unlock(&shared.mutex);
    }
    frond_buffer_free(&old);
    frond_buffer_free(&conflict.value);
    frond_tree_free(indexes[0]);
    frond_tree_free(indexes[1]);
    return NULL;
}

/* Adds the entries of all rows of the build's snapshot. */
static int feed_base(frond_index_build *build, size_t count)
{
    frond_snapshot *snapshot;
    frond_cursor *cursor;
    frond_rows batch;
    int outcome = frond_index_build_snapshot(build, -1, &snapshot, &error);
    if (outcome != FROND_OK)
        return outcome;
    MUST(frond_snapshot_scan(snapshot, rows, NULL, 0, NULL, 0, &cursor, &error));
    while (outcome == FROND_OK && (outcome = frond_cursor_next(cursor, 0, &batch, &error)) == FROND_OK)
        for (size_t i = 0; outcome == FROND_OK && i < batch.count * count; i++) {
            const frond_row *row = &batch.rows[i / count];
            entry is = entry_of(i % count, row->key, row->value);
            outcome = frond_index_build_add(build, i % count, is.key, is.key_length, is.value, is.value_length, &error);
        }
    frond_cursor_free(cursor);
    frond_snapshot_free(snapshot);
    return outcome == FROND_NOT_FOUND ? frond_index_build_end_base(build, &error) : outcome;
}

/* Does one round; FROND_OK at its end. */
static int feed_round(frond_index_build *build, size_t count)
{
    frond_row_changed row;
    int outcome;
    while ((outcome = frond_index_build_next(build, &row, &error)) == FROND_OK) {
        CHECK(row.key_length == 4 && (row.before != NULL || row.after != NULL));
        for (size_t i = 0; i < count; i++) {
            entry was, is;
            if (row.before != NULL)
                was = entry_of(i, row.key, row.before);
            if (row.after != NULL)
                is = entry_of(i, row.key, row.after);
            MUST(frond_index_build_change(build, i, row.before ? was.key : NULL, row.before ? was.key_length : 0,
                                          row.after ? is.key : NULL, row.after ? is.key_length : 0,
                                          row.after ? is.value : NULL, row.after ? is.value_length : 0, &error));
        }
    }
    return outcome == FROND_NOT_FOUND ? FROND_OK : outcome;
}

/* Checks that every row has its entries, and that there are no others. */
static void assert_consistent(void)
{
    frond_cursor *cursor;
    frond_rows batch;
    frond_tree *indexes[2];
    frond_buffer found = {0};
    size_t count = 0, entries[2] = {0, 0};
    for (int i = 0; i < 2; i++)
        MUST(frond_tree_open(db, names[i], &indexes[i], &error));
    MUST(frond_scan(rows, NULL, 0, NULL, 0, &cursor, &error));
    while (frond_cursor_next(cursor, 0, &batch, &error) == FROND_OK)
        for (size_t i = 0; i < batch.count; i++, count++)
            for (size_t index = 0; index < 2; index++) {
                entry is = entry_of(index, batch.rows[i].key, batch.rows[i].value);
                MUST(frond_get(indexes[index], is.key, is.key_length, &found, &error));
                CHECK(found.length == is.value_length);
                CHECK(found.length == 0 || memcmp(found.data, is.value, found.length) == 0);
            }
    frond_cursor_free(cursor);
    for (size_t index = 0; index < 2; index++) {
        MUST(frond_scan(indexes[index], NULL, 0, NULL, 0, &cursor, &error));
        while (frond_cursor_next(cursor, 0, &batch, &error) == FROND_OK)
            entries[index] += batch.count;
        frond_cursor_free(cursor);
        frond_tree_free(indexes[index]);
    }
    CHECK(count >= ROWS && entries[0] == count && entries[1] == count);
    frond_buffer_free(&found);
}

static void build_concurrently_with_a_writer(void)
{
    frond_tree_options options[2];
    frond_index_build *build, *other;
    frond_progress *progress;
    frond_progress_counts counts;
    frond_tree *trees[2];
    pthread_t writer;
    bool near = false;
    int rounds = 0, locked = LOCK_TIMEOUT;
    for (int i = 0; i < 2; i++)
        frond_tree_options_init(&options[i]);
    options[0].unique = true;
    CHECK(pthread_create(&writer, NULL, writes, NULL) == 0);
    MUST(frond_index_build_begin(db, rows, names, options, 2, &build, &error));
    GIVES(BUSY, frond_index_build_begin(db, rows, names + 1, NULL, 1, &other, &error));
    GIVES(INVALID, frond_index_build_begin(db, rows, NULL, NULL, 1, &other, &error));
    MUST(frond_index_build_progress(build, &progress, &error));
    MUST(feed_base(build, 2));
    while (locked != FROND_OK) {
        MUST(feed_round(build, 2));
        rounds++;
        MUST(frond_index_build_is_near(build, &near, &error));
        if (near && rounds > 3) {
            locked = frond_index_build_lock(build, 1000, &error);
            CHECK(locked == FROND_OK || locked == LOCK_TIMEOUT);
        }
    }
    MUST(feed_round(build, 2));
    MUST(frond_index_build_publish(build, indexes_are_there, &shared, trees, &error));
    MUST(frond_progress_now(progress, &counts, &error));
    CHECK(counts.rows >= 2 * ROWS && counts.written == counts.rows);
    CHECK(counts.rounds == (uint64_t)rounds + 1);
    frond_progress_free(progress);
    pthread_mutex_lock(&shared.mutex);
    shared.is_over = true;
    CHECK(shared.commits > 0);
    pthread_mutex_unlock(&shared.mutex);
    CHECK(pthread_join(writer, NULL) == 0);
    assert_consistent();
    frond_tree_free(trees[0]);
    frond_tree_free(trees[1]);
}

/* Two rows have the same unique key: in the base, and in a round. Then a build is abandoned. */
static void duplicates_end_a_unique_build(void)
{
    static const char *const name = "rows by serial number, once more";
    word twice = row_of(1, 77777777);
    frond_tree_options options;
    frond_index_build *build;
    frond_tree *tree;
    frond_row_changed row;
    frond_tree_options_init(&options);
    options.unique = true;
    for (int in_base = 1; in_base >= 0; in_base--) {
        MUST(frond_put(rows, "0001", 4, twice.text, 10, &error));
        if (in_base)
            MUST(frond_put(rows, "0002", 4, twice.text, 10, &error));
        MUST(frond_index_build_begin(db, rows, &name, &options, 1, &build, &error));
        if (in_base) {
            GIVES(DUPLICATE, feed_base(build, 1));
        } else {
            MUST(feed_base(build, 1));
            MUST(frond_put(rows, "0002", 4, twice.text, 10, &error));
            GIVES(DUPLICATE, feed_round(build, 1));
        }
        CHECK(error.has_key && error.key_length == 8 && memcmp(error.key, "77777777", 8) == 0);
        CHECK(strcmp(error.tree, name) == 0);
        GIVES(DUPLICATE, frond_index_build_next(build, &row, &error));
        GIVES(DUPLICATE, frond_index_build_publish(build, NULL, NULL, &tree, &error));
        CHECK(tree == NULL);
        GIVES(NO_SUCH_TREE, frond_tree_open(db, name, &tree, &error));
        MUST(frond_put(rows, "0002", 4, "0166666666", 10, &error));
    }
    MUST(frond_index_build_begin(db, rows, &name, &options, 1, &build, &error));
    MUST(feed_base(build, 1));
    GIVES(INVALID, frond_index_build_change(build, 0, NULL, 0, NULL, 0, NULL, 0, &error));
    /* No round has ended under the lock, so the build is not released. */
    GIVES(INVALID, frond_index_build_publish(build, NULL, NULL, &tree, &error));
    frond_index_build_free(build);
    frond_index_build_free(NULL);
    GIVES(NO_SUCH_TREE, frond_tree_open(db, name, &tree, &error));
}

static void count_line(void *context, const char *text, size_t length)
{
    CHECK(strlen(text) == length);
    *(int *)context += 1;
}

/* Interrupts end long operations. */
static void interrupts_end_long_operations(void)
{
    frond_interrupter *stop;
    frond_progress *progress;
    frond_progress_counts counts;
    frond_cursor *cursor;
    frond_rows batch;
    frond_load *load;
    frond_index_build *build;
    frond_snapshot *snapshot;
    static const char *const name = "never";
    bool clean = false;
    int lines = 0, outcome = FROND_OK;
    MUST(frond_interrupter_new(&stop, &error));
    MUST(frond_scan(rows, NULL, 0, NULL, 0, &cursor, &error));
    MUST(frond_cursor_set_interrupter(cursor, stop, &error));
    MUST(frond_cursor_next(cursor, 1, &batch, &error));
    frond_interrupt(stop);
    for (int i = 0; i < 10000 && outcome == FROND_OK; i++)
        outcome = frond_cursor_next(cursor, 1, &batch, &error);
    CHECK(outcome == INTERRUPTED);
    frond_interrupter_clear(stop);
    MUST(frond_cursor_next(cursor, 1, &batch, &error));
    frond_cursor_free(cursor);

    MUST(frond_load_begin(db, name, NULL, &load, &error));
    MUST(frond_load_set_interrupter(load, stop, &error));
    MUST(frond_load_progress(load, &progress, &error));
    for (unsigned i = 0; i < 1000; i++) {
        word key = key_of(i * 7919);
        MUST(frond_load_put(load, key.text, 4, NULL, 0, &error));
    }
    MUST(frond_progress_now(progress, &counts, &error));
    CHECK(counts.rows > 700 && counts.written == 0);
    frond_interrupt(stop);
    GIVES(INTERRUPTED, frond_loads_finish(&load, 1, NULL, &error));
    frond_progress_free(progress);

    MUST(frond_progress_new(&progress, &error));
    GIVES(INTERRUPTED, frond_check(db, true, stop, progress, NULL, NULL, &clean, &error));
    frond_interrupter_clear(stop);
    MUST(frond_check(db, true, stop, progress, count_line, &lines, &clean, &error));
    MUST(frond_progress_now(progress, &counts, &error));
    CHECK(clean && lines == 0 && counts.checked_bytes > 0 && counts.checked_bytes <= counts.to_check_bytes);
    MUST(frond_check(db, false, NULL, NULL, NULL, NULL, &clean, &error));
    frond_progress_free(progress);

    /* A build waits for a transaction that wrote the tree before, until it is interrupted. */
    frond_txn *txn;
    MUST(frond_txn_begin(db, NULL, &txn, &error));
    MUST(frond_txn_put(txn, rows, "0003", 4, "0155555555", 10, &error));
    MUST(frond_index_build_begin(db, rows, &name, NULL, 1, &build, &error));
    MUST(frond_index_build_set_interrupter(build, stop, &error));
    GIVES(LOCK_TIMEOUT, frond_index_build_snapshot(build, 5, &snapshot, &error));
    frond_interrupt(stop);
    GIVES(INTERRUPTED, frond_index_build_snapshot(build, -1, &snapshot, &error));
    frond_index_build_free(build);

    /* So do a batch with the same row, and a drop of the tree; after the interrupt they have done
     * nothing. */
    frond_batch *writes;
    frond_tree_change *change;
    MUST(frond_batch_new(&writes, &error));
    MUST(frond_batch_put(writes, rows, "0003", 4, "0144444444", 10, &error));
    MUST(frond_batch_set_interrupter(writes, stop, &error));
    MUST(frond_change_begin(db, NULL, &change, &error));
    MUST(frond_change_drop(change, 0, "rows", &error));
    MUST(frond_change_set_interrupter(change, stop, &error));
    GIVES(INTERRUPTED, frond_batch_commit(db, writes, FROND_AS_STORE, NULL, &error));
    GIVES(INTERRUPTED, frond_change_commit(change, NULL, &error));
    frond_interrupter_clear(stop);
    MUST(frond_batch_lock_timeout(writes, 5, &error));
    GIVES(LOCK_TIMEOUT, frond_batch_commit(db, writes, FROND_AS_STORE, NULL, &error));
    MUST(frond_txn_rollback(txn, &error));
    MUST(frond_batch_commit(db, writes, FROND_AS_STORE, NULL, &error));
    frond_batch_free(writes);
    frond_change_free(change);
    MUST(frond_warnings(db, count_line, &lines, &error));
    CHECK(lines == 0);
    frond_interrupter_free(stop);
}

int main(int count, char **arguments)
{
    frond_options options;
    CHECK(count >= 2);
    frond_options_init(&options);
    options.cache_size = 16u << 20;
    options.durability = FROND_LAZY;
    MUST(frond_open(arguments[1], &options, &db, &error));
    MUST(frond_tree_create(db, "rows", NULL, &rows, &error));
    for (unsigned i = 0; i < ROWS; i++) {
        word key = key_of(i), row = row_of(i, i);
        MUST(frond_put(rows, key.text, 4, row.text, 10, &error));
    }
    build_concurrently_with_a_writer();
    duplicates_end_a_unique_build();
    interrupts_end_long_operations();
    frond_tree_free(rows);
    MUST(frond_close(db, &error));
    return 0;
}
