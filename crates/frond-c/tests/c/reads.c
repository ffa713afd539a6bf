/*
 * Reads with all options, as a server uses them: what they see, what they lock, what they do if
 * another transaction holds a row, how long they wait, and what they release. Prints nothing and
 * returns 0 on success.
 */
#include "must.h"

enum { INVALID = 1001, TIMEOUT = 1101, BUSY = 1105, ROWS = 100 };

static frond_db *db;
static frond_tree *rows;

static frond_txn *begin(int isolation)
{
    frond_txn_options options;
    frond_txn_options_init(&options);
    options.isolation = isolation;
    frond_txn *txn;
    MUST(frond_txn_begin(db, &options, &txn, &error));
    return txn;
}

static frond_bytes key_of(uint8_t *memory, int id)
{
    memory[0] = (uint8_t)id;
    frond_bytes key = {memory, 1};
    return key;
}

static void put(frond_txn *txn, int id, const char *value)
{
    uint8_t key = (uint8_t)id;
    MUST(frond_txn_put(txn, rows, &key, 1, value, strlen(value), &error));
}

static int has(const void *data, size_t length, const char *text)
{
    return length == strlen(text) && memcmp(data, text, length) == 0;
}

/* Whether any transaction has locked a row. */
static int is_locked(int id)
{
    uint8_t key = (uint8_t)id;
    frond_buffer value = {0};
    frond_txn *txn = begin(FROND_READ_COMMITTED);
    int got = frond_txn_get(txn, rows, &key, 1, FROND_EXCLUSIVE, FROND_NO_WAIT, &value, &error);
    CHECK(got == FROND_OK || got == FROND_NOT_FOUND || got == BUSY);
    MUST(frond_txn_rollback(txn, &error));
    frond_buffer_free(&value);
    return got == BUSY;
}

/* All combinations of what a read sees, what it locks, and what it does about another's lock. */
static void one_row(void)
{
    frond_buffer value = {0};
    frond_read_options how;
    frond_read_options_init(&how);
    frond_txn *reader = begin(FROND_REPEATABLE_READ);
    uint8_t key = 1, absent = 201;
    bool locked = true;
    MUST(frond_txn_read(reader, rows, &key, 1, NULL, &value, &locked, &error));
    CHECK(has(value.data, value.length, "row 1") && !locked);
    frond_txn *writer = begin(FROND_REPEATABLE_READ);
    put(writer, 1, "changed 1");
    MUST(frond_txn_commit(writer, NULL, &error));
    MUST(frond_txn_read(reader, rows, &key, 1, &how, &value, NULL, &error));
    CHECK(has(value.data, value.length, "row 1"));
    how.sees = FROND_NEWEST;
    MUST(frond_txn_read(reader, rows, &key, 1, &how, &value, NULL, &error));
    CHECK(has(value.data, value.length, "changed 1"));
    how.sees = FROND_AS_LEVEL;
    writer = begin(FROND_REPEATABLE_READ);
    put(writer, 1, "changed again");
    put(writer, 201, "new");
    const int locks[] = {FROND_SHARED, FROND_EXCLUSIVE};
    for (int i = 0; i < 2; i++) {
        how.row_lock = locks[i];
        how.when_locked = FROND_WAIT;
        how.wait_ms = 0;
        GIVES(TIMEOUT, frond_txn_read(reader, rows, &key, 1, &how, &value, &locked, &error));
        CHECK(!locked);
        how.wait_ms = -1;
        how.when_locked = FROND_NO_WAIT;
        GIVES(BUSY, frond_txn_read(reader, rows, &key, 1, &how, &value, &locked, &error));
        how.when_locked = FROND_SKIP_LOCKED;
        GIVES(BUSY, frond_txn_read(reader, rows, &key, 1, &how, &value, &locked, &error));
        how.when_locked = FROND_SEMI_CONSISTENT;
        MUST(frond_txn_read(reader, rows, &key, 1, &how, &value, &locked, &error));
        CHECK(has(value.data, value.length, "changed 1") && !locked);
        GIVES(FROND_NOT_FOUND, frond_txn_read(reader, rows, &absent, 1, &how, &value, &locked, &error));
        CHECK(!locked);
    }
    MUST(frond_txn_commit(writer, NULL, &error));
    how.wait_ms = FROND_FOREVER;
    MUST(frond_txn_read(reader, rows, &key, 1, &how, &value, &locked, &error));
    CHECK(has(value.data, value.length, "changed again") && locked);
    absent = 202;
    GIVES(FROND_NOT_FOUND, frond_txn_read(reader, rows, &absent, 1, &how, &value, &locked, &error));
    CHECK(locked);
    /* Misuse is reported, and nothing is done. */
    how.reserved[3] = 1;
    GIVES(INVALID, frond_txn_read(reader, rows, &key, 1, &how, &value, NULL, &error));
    how.reserved[3] = 0;
    how.sees = 7;
    GIVES(INVALID, frond_txn_read(reader, rows, &key, 1, &how, &value, NULL, &error));
    frond_read_options_init(NULL);
    GIVES(INVALID, frond_txn_read(NULL, rows, &key, 1, NULL, &value, NULL, &error));
    GIVES(INVALID, frond_txn_read(reader, rows, &key, 1, NULL, NULL, NULL, &error));
    MUST(frond_txn_rollback(reader, &error));
    frond_buffer_free(&value);
}

static void many_rows(void)
{
    uint8_t memory[4];
    frond_bytes keys[] = {key_of(&memory[0], 9), key_of(&memory[1], 210), key_of(&memory[2], 5), key_of(&memory[3], 7)};
    frond_bytes values[4];
    bool locked[4];
    frond_buffer held = {0};
    frond_read_options how;
    frond_read_options_init(&how);
    frond_txn *txn = begin(FROND_READ_COMMITTED), *other = begin(FROND_READ_COMMITTED);
    how.row_lock = FROND_EXCLUSIVE;
    MUST(frond_txn_read_many(txn, rows, keys, 4, &how, &held, values, locked, &error));
    CHECK(has(values[0].data, values[0].length, "row 9") && has(values[2].data, values[2].length, "row 5"));
    CHECK(values[1].data == NULL && locked[0] && locked[1] && locked[2] && locked[3]);
    CHECK(is_locked(9) && is_locked(210) && is_locked(5));
    MUST(frond_txn_unlock_last(txn, &error));
    CHECK(!is_locked(9) && !is_locked(210) && !is_locked(5));
    put(other, 7, "another's");
    how.wait_ms = 0;
    GIVES(TIMEOUT, frond_txn_read_many(txn, rows, keys, 4, &how, &held, values, locked, &error));
    CHECK(!is_locked(5) && !is_locked(9));
    how.when_locked = FROND_SKIP_LOCKED;
    MUST(frond_txn_read_many(txn, rows, keys, 4, &how, &held, values, locked, &error));
    CHECK(values[3].data == NULL && !locked[3] && locked[2]);
    how.when_locked = FROND_SEMI_CONSISTENT;
    MUST(frond_txn_read_many(txn, rows, keys, 4, &how, &held, values, locked, &error));
    CHECK(has(values[3].data, values[3].length, "row 7") && !locked[3] && locked[2]);
    how.row_lock = FROND_NO_LOCK;
    MUST(frond_txn_read_many(txn, rows, keys, 4, NULL, &held, values, NULL, &error));
    CHECK(has(values[0].data, values[0].length, "row 9"));
    MUST(frond_txn_read_many(txn, rows, NULL, 0, NULL, &held, NULL, NULL, &error));
    GIVES(INVALID, frond_txn_read_many(txn, rows, keys, 4, &how, &held, NULL, NULL, &error));
    GIVES(INVALID, frond_txn_read_many(txn, rows, keys, 4, &how, NULL, values, NULL, &error));
    GIVES(INVALID, frond_txn_read_many(txn, rows, NULL, 4, &how, &held, values, NULL, &error));
    MUST(frond_txn_rollback(other, &error));
    MUST(frond_txn_rollback(txn, &error));
    frond_buffer_free(&held);
}

static frond_cursor *all_rows(frond_txn *txn, const frond_read_options *how, bool forward)
{
    frond_cursor *cursor;
    MUST(frond_txn_read_range(txn, rows, NULL, 0, NULL, 0, how, &cursor, &error));
    if (!forward)
        MUST(frond_cursor_seek_last(cursor, &error));
    return cursor;
}

/* Batches are small at first and then larger, in both directions, with parts of values. Under locks
 * they have one row, whatever `when_locked` is. */
static void batches(void)
{
    frond_rows batch;
    frond_read_options how;
    const size_t rest = 1;
    frond_projection *parts;
    MUST(frond_projection_new(rows, &rest, 1, &parts, &error));
    const int modes[] = {FROND_WAIT, FROND_NO_WAIT, FROND_SKIP_LOCKED, FROND_SEMI_CONSISTENT};
    for (int forward = 0; forward < 2; forward++) {
        frond_txn *txn = begin(FROND_READ_COMMITTED);
        frond_read_options_init(&how);
        how.projection = parts;
        frond_cursor *cursor = all_rows(txn, &how, forward);
        size_t count = 0, last = 0, wanted = 0;
        for (;;) {
            int got = forward ? frond_cursor_next(cursor, wanted, &batch, &error) : frond_cursor_prev(cursor, wanted, &batch, &error);
            if (got == FROND_NOT_FOUND)
                break;
            CHECK(got == FROND_OK && batch.count > 0);
            CHECK(last == 0 ? batch.count < 20 : batch.count > last || count + batch.count == ROWS);
            CHECK(has(batch.rows[0].value, 2, "ow") && !batch.rows[0].locked);
            last = batch.count;
            count += batch.count;
        }
        CHECK(count == ROWS);
        frond_cursor_free(cursor);
        for (int mode = 0; mode < 4; mode++) {
            how.when_locked = modes[mode];
            how.row_lock = mode % 2 ? FROND_SHARED : FROND_EXCLUSIVE;
            cursor = all_rows(txn, &how, forward);
            const int first = forward ? 1 : ROWS, second = forward ? 2 : ROWS - 1;
            for (int row = 0; row < 2; row++) {
                MUST(forward ? frond_cursor_next(cursor, 0, &batch, &error) : frond_cursor_prev(cursor, 0, &batch, &error));
                CHECK(batch.count == 1 && batch.rows[0].locked && has(batch.rows[0].value, 2, "ow"));
                CHECK(batch.rows[0].key[0] == (row ? second : first));
            }
            CHECK(is_locked(second) && !is_locked(forward ? 3 : ROWS - 2));
            MUST(frond_txn_unlock_last(txn, &error));
            CHECK(!is_locked(second) && is_locked(first));
            frond_cursor_free(cursor);
        }
        MUST(frond_txn_rollback(txn, &error));
    }
    frond_projection_free(parts);
}

/* One cursor moved from range to range returns and locks what a new cursor for each would. */
static void moved_ranges(void)
{
    frond_rows batch;
    frond_read_options how;
    frond_read_options_init(&how);
    const uint8_t ends[][2] = {{10, 13}, {40, 42}, {20, 21}, {50, 50}};
    for (int locks = 0; locks < 2; locks++) {
        how.row_lock = locks ? FROND_EXCLUSIVE : FROND_NO_LOCK;
        frond_txn *txn = begin(FROND_REPEATABLE_READ);
        frond_cursor *cursor = all_rows(txn, &how, true);
        for (int range = 0; range < 4; range++) {
            const uint8_t from = ends[range][0], to = ends[range][1];
            MUST(frond_cursor_range(cursor, &from, 1, &to, 1, &error));
            int key = from;
            while (frond_cursor_next(cursor, 0, &batch, &error) == FROND_OK)
                for (size_t row = 0; row < batch.count; row++)
                    CHECK(batch.rows[row].key[0] == key++ && batch.rows[row].locked == locks);
            CHECK(key == to);
            MUST(frond_cursor_range(cursor, &from, 1, &to, 1, &error));
            MUST(frond_cursor_seek_last(cursor, &error));
            if (from == to)
                GIVES(FROND_NOT_FOUND, frond_cursor_prev(cursor, 0, &batch, &error));
            else
                MUST(frond_cursor_prev(cursor, 0, &batch, &error));
            CHECK(from == to || batch.rows[0].key[0] == to - 1);
        }
        CHECK(is_locked(10) == locks && is_locked(41) == locks && !is_locked(9) && !is_locked(13) && !is_locked(30) && !is_locked(42));
        const uint8_t high = 9, low = 8;
        GIVES(INVALID, frond_cursor_range(cursor, &high, 1, &low, 1, &error));
        MUST(frond_cursor_range(cursor, NULL, 0, NULL, 0, &error));
        MUST(frond_cursor_next(cursor, 0, &batch, &error));
        CHECK(batch.rows[0].key[0] == 1);
        frond_cursor_free(cursor);
        MUST(frond_txn_rollback(txn, &error));
    }
    frond_cursor *plain;
    MUST(frond_scan(rows, NULL, 0, NULL, 0, &plain, &error));
    GIVES(INVALID, frond_cursor_range(plain, NULL, 0, NULL, 0, &error));
    frond_cursor_free(plain);
}

/* UPDATE … WHERE over rows some of which others have locked: their last committed versions are
 * read, and locked if the statement wants them. */
static void semi_consistent(void)
{
    frond_rows batch;
    frond_read_options how;
    frond_read_options_init(&how);
    how.row_lock = FROND_EXCLUSIVE;
    how.when_locked = FROND_SEMI_CONSISTENT;
    how.wait_ms = 0;
    frond_txn *txn = begin(FROND_READ_COMMITTED), *other = begin(FROND_READ_COMMITTED);
    put(other, 11, "no more");
    uint8_t gone = 13;
    MUST(frond_txn_delete(other, rows, &gone, 1, &error));
    frond_cursor *cursor = all_rows(txn, &how, true);
    int met = 0;
    for (;;) {
        int got = frond_cursor_next(cursor, 0, &batch, &error);
        if (got == FROND_NOT_FOUND)
            break;
        CHECK(got == FROND_OK && batch.count == 1);
        const frond_row *row = batch.rows;
        const int id = row->key[0];
        CHECK(row->locked == (id != 11 && id != 13));
        if (row->locked) {
            MUST(frond_txn_unlock_last(txn, &error));
            continue;
        }
        met++;
        GIVES(TIMEOUT, frond_cursor_relock(cursor, -1, &batch, &error));
        if (id == 13) {
            MUST(frond_txn_commit(other, NULL, &error));
            GIVES(FROND_NOT_FOUND, frond_cursor_relock(cursor, FROND_FOREVER, &batch, &error));
            CHECK(batch.count == 0);
        }
    }
    CHECK(met == 2);
    const uint8_t from = 11;
    MUST(frond_cursor_seek(cursor, &from, 1, &error));
    GIVES(INVALID, frond_cursor_relock(cursor, -1, &batch, &error));
    MUST(frond_cursor_next(cursor, 0, &batch, &error));
    CHECK(has(batch.rows[0].value, batch.rows[0].value_length, "no more") && batch.rows[0].locked);
    MUST(frond_cursor_relock(cursor, -1, &batch, &error));
    CHECK(batch.count == 1 && has(batch.rows[0].value, batch.rows[0].value_length, "no more"));
    frond_cursor_free(cursor);
    how.row_lock = FROND_NO_LOCK;
    cursor = all_rows(txn, &how, true);
    MUST(frond_cursor_next(cursor, 0, &batch, &error));
    GIVES(INVALID, frond_cursor_relock(cursor, -1, &batch, &error));
    frond_cursor_free(cursor);
    GIVES(INVALID, frond_cursor_relock(NULL, -1, &batch, &error));
    MUST(frond_txn_rollback(txn, &error));
}

/* A row is read through an index entry and not wanted: both are unlocked. */
static void by_an_index(frond_tree *index)
{
    frond_rows batch;
    frond_buffer value = {0};
    frond_read_options how;
    frond_read_options_init(&how);
    how.row_lock = FROND_EXCLUSIVE;
    frond_txn *txn = begin(FROND_REPEATABLE_READ);
    frond_cursor *cursor;
    MUST(frond_txn_read_range(txn, index, NULL, 0, NULL, 0, &how, &cursor, &error));
    MUST(frond_cursor_next(cursor, 0, &batch, &error));
    how.with_last = true;
    bool locked;
    MUST(frond_txn_read(txn, rows, batch.rows[0].value, 1, &how, &value, &locked, &error));
    CHECK(locked && is_locked(21));
    uint64_t before, after;
    MUST(frond_stat(db, "locks", &before, &error));
    MUST(frond_txn_unlock_last(txn, &error));
    MUST(frond_stat(db, "locks", &after, &error));
    CHECK(!is_locked(21) && after + 2 == before);
    frond_cursor_free(cursor);
    MUST(frond_txn_rollback(txn, &error));
    frond_buffer_free(&value);
}

/* The current rows of a batch, one bit each. */
static unsigned current(const frond_cursor *cursor, size_t count)
{
    unsigned found = 0;
    bool is_current;
    for (size_t i = 0; i < count; i++) {
        MUST(frond_cursor_is_current(cursor, i, &is_current, &error));
        found |= (unsigned)is_current << i;
    }
    GIVES(INVALID, frond_cursor_is_current(cursor, count, &is_current, &error));
    CHECK(!is_current);
    return found;
}

static void delete_row(frond_txn *txn, int id)
{
    uint8_t key = (uint8_t)id;
    MUST(frond_txn_delete(txn, rows, &key, 1, &error));
}

/* Fetches rows 31 to 38 in one batch, or 38 to 31 downwards. */
static frond_cursor *eight(frond_txn *txn, int row_lock, bool forward)
{
    const uint8_t from = 31, to = 39;
    frond_cursor *cursor;
    frond_rows batch;
    MUST(frond_txn_scan(txn, rows, &from, 1, &to, 1, row_lock, FROND_WAIT, &cursor, &error));
    if (!forward)
        MUST(frond_cursor_seek_last(cursor, &error));
    MUST(forward ? frond_cursor_next(cursor, 8, &batch, &error) : frond_cursor_prev(cursor, 8, &batch, &error));
    CHECK(batch.count == 8 && current(cursor, 8) == 0xff);
    return cursor;
}

/* The transaction deletes, changes and restores rows of a batch before they are used: a row is
 * current if a cursor repositioned there would return it. */
static void fetched_ahead(frond_tree *index)
{
    frond_rows batch;
    uint64_t savepoint;
    const int locks[] = {FROND_NO_LOCK, FROND_EXCLUSIVE};
    for (int lock = 0; lock < 2; lock++)
        for (int forward = 0; forward < 2; forward++) {
            frond_txn *txn = begin(FROND_REPEATABLE_READ);
            MUST(frond_txn_begin_statement(txn, &error));
            frond_cursor *cursor = eight(txn, locks[lock], forward);
            const int first = forward ? 31 : 38, step = forward ? 1 : -1;
            MUST(frond_txn_put(txn, index, "elsewhere", 9, NULL, 0, &error));
            CHECK(current(cursor, 8) == 0xff);
            put(txn, first + step, "changed");
            put(txn, 200, "new");
            CHECK(current(cursor, 8) == 0xff);
            MUST(frond_txn_savepoint(txn, &savepoint, &error));
            delete_row(txn, first + 2 * step);
            delete_row(txn, first + 5 * step);
            put(txn, first + 5 * step, "put again");
            CHECK(current(cursor, 8) == 0xdb);
            /* Row 0 was used. After it come five rows; the changed one is as it was. */
            const uint8_t at[] = {(uint8_t)first, 0};
            MUST(frond_cursor_seek(cursor, at, forward ? 2 : 1, &error));
            MUST(forward ? frond_cursor_next(cursor, 8, &batch, &error) : frond_cursor_prev(cursor, 8, &batch, &error));
            CHECK(batch.count == 5 && batch.rows[0].key[0] == first + step && batch.rows[1].key[0] == first + 3 * step);
            CHECK(has(batch.rows[0].value, 4, "row ") && current(cursor, 5) == 0x1f);
            /* After the rollback, rows that the batch skipped exist again. */
            MUST(frond_txn_rollback_to(txn, savepoint, &error));
            CHECK(current(cursor, 5) == 0);
            MUST(frond_cursor_seek(cursor, at, forward ? 2 : 1, &error));
            MUST(forward ? frond_cursor_next(cursor, 8, &batch, &error) : frond_cursor_prev(cursor, 8, &batch, &error));
            CHECK(batch.count == 7 && current(cursor, 7) == 0x7f);
            MUST(frond_txn_rollback_statement(txn, &error));
            CHECK(current(cursor, 7) == 0);
            GIVES(FROND_NOT_FOUND, forward ? frond_cursor_next(cursor, 8, &batch, &error) : frond_cursor_prev(cursor, 8, &batch, &error));
            CHECK(current(cursor, 0) == 0);
            frond_cursor_free(cursor);
            MUST(frond_txn_rollback(txn, &error));
        }
}

/* A cursor of a transaction that an error has ended returns nothing more; a cursor outside
 * transactions continues with its snapshot; a cursor of a temporary tree behaves as one of the
 * transaction that writes the tree. */
static void fetched_by_others(void)
{
    enum { CONFLICT = 1107, ENDED = 1109 };
    frond_rows batch;
    const uint8_t key = 31, from = 31, to = 39;
    frond_txn *txn = begin(FROND_SNAPSHOT), *other = begin(FROND_READ_COMMITTED);
    frond_cursor *cursor = eight(txn, FROND_NO_LOCK, true), *plain, *own;
    MUST(frond_scan(rows, &from, 1, &to, 1, &plain, &error));
    MUST(frond_cursor_next(plain, 8, &batch, &error));
    delete_row(other, 32);
    MUST(frond_txn_commit(other, NULL, &error));
    CHECK(current(cursor, 8) == 0xff && current(plain, 8) == 0xff);
    GIVES(CONFLICT, frond_txn_put(txn, rows, (const uint8_t[]){32}, 1, NULL, 0, &error));
    CHECK(current(cursor, 8) == 0);
    GIVES(ENDED, frond_cursor_next(cursor, 8, &batch, &error));
    frond_cursor_free(cursor);
    frond_cursor_free(plain);
    MUST(frond_txn_rollback(txn, &error));

    frond_temporary *temporary;
    MUST(frond_temporary_create(db, NULL, &temporary, &error));
    txn = begin(FROND_READ_COMMITTED);
    MUST(frond_temporary_put(txn, temporary, &key, 1, NULL, 0, &error));
    MUST(frond_temporary_put(txn, temporary, &to, 1, NULL, 0, &error));
    MUST(frond_temporary_scan(temporary, NULL, 0, NULL, 0, &own, &error));
    MUST(frond_cursor_next(own, 2, &batch, &error));
    CHECK(batch.count == 2 && current(own, 2) == 3);
    MUST(frond_temporary_delete(txn, temporary, &to, 1, &error));
    CHECK(current(own, 2) == 1);
    MUST(frond_txn_rollback(txn, &error));
    CHECK(current(own, 2) == 0);
    frond_cursor_free(own);
    frond_temporary_free(temporary);
    txn = begin(FROND_READ_COMMITTED);
    put(txn, 32, "row 32");
    MUST(frond_txn_commit(txn, NULL, &error));
}

int main(int argc, char **argv)
{
    CHECK(argc > 1);
    frond_options options;
    frond_options_init(&options);
    MUST(frond_open(argv[1], &options, &db, &error));
    const frond_part key_parts[] = {{FROND_PART_FIXED, 1, FROND_HINT_NONE}};
    const frond_part value_parts[] = {{FROND_PART_FIXED, 1, FROND_HINT_NONE}, {FROND_PART_REST, 0, 0}};
    frond_tree_options tree_options;
    frond_tree_options_init(&tree_options);
    tree_options.value_parts = value_parts;
    tree_options.value_parts_count = 2;
    tree_options.key_parts = key_parts;
    tree_options.key_parts_count = 1;
    MUST(frond_tree_create(db, "rows", &tree_options, &rows, &error));
    frond_tree *index;
    MUST(frond_tree_create(db, "index", NULL, &index, &error));
    frond_txn *txn = begin(FROND_SNAPSHOT);
    for (int id = 1; id <= ROWS; id++) {
        char value[16];
        snprintf(value, sizeof value, "row %d", id);
        put(txn, id, value);
    }
    const uint8_t row = 21;
    MUST(frond_txn_put(txn, index, "row 21", 6, &row, 1, &error));
    MUST(frond_txn_commit(txn, NULL, &error));
    uint64_t counts[3];
    size_t parts = 0;
    MUST(frond_tree_distinct_prefixes(rows, counts, 3, &parts, &error));
    CHECK(parts == 1 && counts[0] == ROWS);
    MUST(frond_tree_distinct_prefixes(rows, NULL, 0, &parts, &error));
    GIVES(INVALID, frond_tree_distinct_prefixes(rows, NULL, 3, &parts, &error));
    GIVES(INVALID, frond_tree_distinct_prefixes(NULL, counts, 3, &parts, &error));
    batches();
    moved_ranges();
    one_row();
    many_rows();
    semi_consistent();
    by_an_index(index);
    fetched_ahead(index);
    fetched_by_others();
    frond_tree_free(index);
    frond_tree_free(rows);
    MUST(frond_close(db, &error));
    return 0;
}
