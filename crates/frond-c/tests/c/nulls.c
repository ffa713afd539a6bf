/*
 * Passes null for each pointer parameter of every function of frond.h: for one parameter at a time
 * that must not be null, and for all at once. The calls are in sweep.h, which c.rs generates from
 * frond.h; the other arguments, one for each type, are here. Each call must report what was null
 * and do nothing: afterwards every handle still works. Prints nothing and returns 0 on success.
 */
#include "must.h"

static frond_batch *a_frond_batch;
static frond_cursor *a_frond_cursor;
static frond_db *a_frond_db;
static frond_index_build *a_frond_index_build;
static frond_interrupter *a_frond_interrupter;
static frond_load *a_frond_load;
static frond_projection *a_frond_projection;
static frond_prepared *a_frond_prepared;
static frond_progress *a_frond_progress;
static frond_snapshot *a_frond_snapshot;
static frond_temporary *a_frond_temporary;
static frond_tree *a_frond_tree;
static frond_tree_change *a_frond_tree_change;
static frond_txn *a_frond_txn;

static frond_cursor *out_frond_cursor;
static frond_db *out_frond_db;
static frond_index_build *out_frond_index_build;
static frond_interrupter *out_frond_interrupter;
static frond_load *out_frond_load;
static frond_projection *out_frond_projection;
static frond_prepared *out_frond_prepared;
static frond_progress *out_frond_progress;
static frond_snapshot *out_frond_snapshot;
static frond_temporary *out_frond_temporary;
static frond_tree *out_frond_tree;
static frond_tree_change *out_frond_tree_change;
static frond_txn *out_frond_txn;

static frond_backup_id a_frond_backup_id;
static frond_backup_info a_frond_backup_info;
static frond_buffer a_frond_buffer;
static frond_conflict a_frond_conflict;
static frond_new_part a_frond_new_part = {1, {0, 0, 0}, NULL, 0};
static frond_progress_counts a_frond_progress_counts;
static frond_row_changed a_frond_row_changed;
static frond_rows a_frond_rows;
static frond_sizes a_frond_sizes;
static frond_work a_frond_work;
static frond_options a_frond_options;
static frond_tree_options a_frond_tree_options;
static frond_change_options a_frond_change_options;
static frond_txn_options a_frond_txn_options;
static frond_read_options a_frond_read_options;
static frond_bytes a_frond_bytes;
static frond_entry a_frond_entry;
static frond_temporary_entry a_frond_temporary_entry;
static frond_change a_frond_change;

static const char a_char[] = "tree";
static const char *out_char = "index";
static uint8_t a_uint8_t = 'k';
static uint64_t a_uint64_t;
static size_t a_size_t;
static bool a_bool;

static void a_frond_line(void *context, const char *text, size_t length)
{
    (void)context, (void)text, (void)length;
}

static void a_frond_prepared_line(void *context, const uint8_t *xid, size_t length, size_t rows, bool detached)
{
    (void)context, (void)xid, (void)length, (void)rows, (void)detached;
}

static void a_frond_number(void *context, const char *name, uint64_t value)
{
    (void)context, (void)name, (void)value;
}

static void a_frond_wait_callback(void *context, const frond_wait *wait)
{
    (void)context, (void)wait;
}

static void a_frond_deadlocked_callback(void *context, const frond_deadlocked *one)
{
    (void)context, (void)one;
}

static void a_frond_live_callback(void *context, const frond_live *live)
{
    (void)context, (void)live;
}

static void a_frond_row_callback(void *context, const uint8_t *key, size_t key_length, const uint8_t *value, size_t value_length)
{
    (void)context, (void)key, (void)key_length, (void)value, (void)value_length;
}

static void a_frond_tree_callback(void *context, const frond_tree_listed *tree)
{
    (void)context, (void)tree;
}

static void a_frond_held_callback(void *context, const frond_held *held)
{
    (void)context, (void)held;
}

static void a_frond_synced(void *cookie)
{
    (void)cookie;
}

/* Makes a call that must fail because something is null, and say so. */
#define NULL_IN(call)                                                                    \
    do {                                                                                 \
        error.message[0] = 0;                                                            \
        GIVES(1001, call);                                                               \
        if (strstr(error.message, " null") == NULL)                                   \
            DIE(#call);                                                                  \
    } while (0)

#include "sweep.h"

static void begin(const char *path)
{
    const frond_part parts[] = {{FROND_PART_VERSION, 0, 0}, {FROND_PART_REST, 0, 0}};
    const frond_part key[] = {{FROND_PART_REST, 0, 0}};
    const size_t number = 1;
    frond_options_init(&a_frond_options);
    frond_change_options_init(&a_frond_change_options);
    frond_txn_options_init(&a_frond_txn_options);
    frond_read_options_init(&a_frond_read_options);
    a_frond_options.cache_size = 16u << 20;
    a_frond_options.durability = FROND_LAZY;
    MUST(frond_open(path, &a_frond_options, &a_frond_db, &error));
    frond_tree_options_init(&a_frond_tree_options);
    a_frond_tree_options.key_parts = key;
    a_frond_tree_options.key_parts_count = 1;
    a_frond_tree_options.value_parts = parts;
    a_frond_tree_options.value_parts_count = 2;
    MUST(frond_tree_create(a_frond_db, "tree", &a_frond_tree_options, &a_frond_tree, &error));
    frond_tree_options_init(&a_frond_tree_options);
    MUST(frond_projection_new(a_frond_tree, &number, 1, &a_frond_projection, &error));
    MUST(frond_batch_new(&a_frond_batch, &error));
    MUST(frond_load_begin(a_frond_db, "loaded", NULL, &a_frond_load, &error));
    MUST(frond_interrupter_new(&a_frond_interrupter, &error));
    MUST(frond_progress_new(&a_frond_progress, &error));
    MUST(frond_snapshot_take(a_frond_db, &a_frond_snapshot, &error));
    MUST(frond_temporary_create(a_frond_db, NULL, &a_frond_temporary, &error));
    MUST(frond_change_begin(a_frond_db, NULL, &a_frond_tree_change, &error));
    MUST(frond_txn_begin(a_frond_db, NULL, &a_frond_txn, &error));
    MUST(frond_txn_prepare(a_frond_txn, &a_uint8_t, 1, FROND_LAZY, &a_frond_prepared, &error));
    MUST(frond_index_build_begin(a_frond_db, a_frond_tree, &out_char, NULL, 1, &a_frond_index_build, &error));
    MUST(frond_scan(a_frond_tree, NULL, 0, NULL, 0, &a_frond_cursor, &error));
    MUST(frond_txn_begin(a_frond_db, NULL, &a_frond_txn, &error));
    a_frond_bytes = (frond_bytes){&a_uint8_t, 1};
    a_frond_entry = (frond_entry){a_frond_tree, &a_uint8_t, 1, NULL, 0, true, false};
    a_frond_change = (frond_change){a_frond_entry, true, true, &a_uint8_t, 1};
}

/* Nulls inside structs and lists. */
static void inside(void)
{
    frond_entry entry = a_frond_entry;
    frond_bytes bytes = {NULL, 1};
    entry.tree = NULL;
    NULL_IN(frond_txn_insert_row(a_frond_txn, &entry, 1, FROND_SHARED, &a_frond_conflict, &error));
    NULL_IN(frond_txn_delete_row(a_frond_txn, &entry, 1, &error));
    entry = a_frond_entry;
    entry.key = NULL;
    NULL_IN(frond_txn_insert_row(a_frond_txn, &entry, 1, FROND_SHARED, &a_frond_conflict, &error));
    NULL_IN(frond_txn_delete_row(a_frond_txn, &entry, 1, &error));
    entry = a_frond_entry;
    entry.value_length = 1;
    NULL_IN(frond_txn_insert_row(a_frond_txn, &entry, 1, FROND_SHARED, &a_frond_conflict, &error));
    frond_change change = a_frond_change;
    change.old = NULL;
    NULL_IN(frond_txn_update_row(a_frond_txn, &change, 1, FROND_SHARED, &a_frond_conflict, &error));
    change = a_frond_change;
    change.entry.tree = NULL;
    NULL_IN(frond_txn_update_row(a_frond_txn, &change, 1, FROND_SHARED, &a_frond_conflict, &error));
    NULL_IN(frond_txn_get_many(a_frond_txn, a_frond_tree, &bytes, 1, &a_frond_buffer, &a_frond_bytes, &error));
    NULL_IN(frond_snapshot_get_many(a_frond_snapshot, a_frond_tree, &bytes, 1, &a_frond_buffer, &a_frond_bytes, &error));
    const char *no_name = NULL;
    NULL_IN(frond_backup_verify("none", &no_name, 1, NULL, &error));
    NULL_IN(frond_restore("none", &no_name, 1, "nowhere", NULL, &error));
    frond_index_build *build = NULL;
    NULL_IN(frond_index_build_begin(a_frond_db, a_frond_tree, &no_name, NULL, 1, &build, &error));
    frond_load *no_load = NULL;
    NULL_IN(frond_loads_finish(&no_load, 1, NULL, &error));
    frond_tree_options options = a_frond_tree_options;
    frond_tree *tree = NULL;
    options.attributes_length = 1;
    NULL_IN(frond_tree_create(a_frond_db, "none", &options, &tree, &error));
    options = a_frond_tree_options;
    options.key_parts_count = 1;
    NULL_IN(frond_tree_create(a_frond_db, "none", &options, &tree, &error));
    CHECK(build == NULL && tree == NULL);
}

/* No handle was released, and nothing was done. */
static void end(void)
{
    uint64_t seqno = 7;
    frond_tree *loaded;
    GIVES(FROND_NOT_FOUND, frond_cursor_next(a_frond_cursor, 1, &a_frond_rows, &error));
    frond_cursor_free(a_frond_cursor);
    GIVES(FROND_NOT_FOUND, frond_snapshot_get(a_frond_snapshot, a_frond_tree, &a_uint8_t, 1, &a_frond_buffer, &error));
    frond_snapshot_free(a_frond_snapshot);
    MUST(frond_batch_commit(a_frond_db, a_frond_batch, FROND_LAZY, NULL, &error));
    frond_batch_free(a_frond_batch);
    MUST(frond_change_commit(a_frond_tree_change, &seqno, &error));
    CHECK(seqno == 0);
    frond_change_free(a_frond_tree_change);
    MUST(frond_prepared_rollback(a_frond_prepared, &error));
    frond_index_build_free(a_frond_index_build);
    GIVES(FROND_NOT_FOUND, frond_temporary_get(a_frond_temporary, &a_uint8_t, 1, &a_frond_buffer, &error));
    MUST(frond_txn_commit(a_frond_txn, NULL, &error));
    frond_temporary_free(a_frond_temporary);
    MUST(frond_loads_finish(&a_frond_load, 1, &loaded, &error));
    bool exact = false;
    uint64_t rows = 7;
    MUST(frond_tree_row_count(a_frond_tree, &rows, &exact, &error));
    CHECK(exact && rows == 0);
    frond_projection_free(a_frond_projection);
    frond_progress_free(a_frond_progress);
    frond_interrupter_free(a_frond_interrupter);
    frond_buffer_free(&a_frond_buffer);
    frond_buffer_free(&a_frond_conflict.value);
    frond_tree_free(loaded);
    frond_tree_free(a_frond_tree);
    MUST(frond_close(a_frond_db, &error));
}

int main(int count, char **arguments)
{
    CHECK(count >= 2);
    begin(arguments[1]);
    sweep();
    inside();
    end();
    return 0;
}
