/*
 * Frond: a storage engine for data sets larger than memory, and for write loads that would
 * overwhelm a B-tree. docs/c-api.md is the guide to this header.
 *
 * Results. A call that can fail returns FROND_OK, FROND_NOT_FOUND, or the number of an error code
 * (docs/errors.md). If it fails, it describes the error in the caller's frond_error, if one was
 * passed. FRD-1001 means that the call itself is wrong, for example that a pointer is null where
 * null is not allowed: nothing was done, and no handle was released.
 *
 * Strings. Keys and values are passed as pointer and length, and may contain any bytes. Names are
 * NUL-terminated strings in UTF-8.
 *
 * Callbacks must return: they must not throw or jump out of the library. They may call the library,
 * unless their description says otherwise.
 *
 * Handles are returned through a pointer argument, and must be released exactly once. They may be
 * released in any order, except that a transaction cannot end while it has open cursors.
 *
 * Threads. Handles of stores, trees, temporary trees, snapshots, projections, interrupters and
 * progress objects can be used by all threads at once. Handles of transactions, prepared
 * transactions, cursors, batches, loads, builds and changes of trees can be used by one thread at a
 * time.
 *
 * This header is generated from the sources of crates/frond-c. Change those, and run the test
 * `header` with FROND_WRITE_HEADER=1.
 */


#ifndef FROND_H
#define FROND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The call succeeded.
#define FROND_OK 0

// There is no such row, or there are no more rows. Not an error.
#define FROND_NOT_FOUND 1

// The library failed internally. Close the store and report the failure; no other call is safe.
#define FROND_PANIC 9001

// Kind of error: retry the operation.
#define FROND_RETRY 1

// Kind of error: correct the call.
#define FROND_FIX_CALL 2

// Kind of error: fix the machine (disk full, I/O error, store in use by another process).
#define FROND_FIX_MACHINE 3

// Kind of error: restore from a backup or a replica.
#define FROND_RESTORE 4

// Kind of error: the store has stopped; close it and open it again.
#define FROND_REOPEN 5

// Size of an error message in bytes, including the terminating zero byte.
#define FROND_MESSAGE_BYTES 504

// Size of a tree name in an error, in bytes, including the terminating zero byte. Names have up to
// 512 bytes.
#define FROND_NAME_BYTES 520

// Maximum number of key bytes in an error.
#define FROND_KEY_BYTES 256

// The lock is on a row.
#define FROND_ON_ROW 1

// The lock is on a gap. For a wait: an insert waits because others have locked the gap.
#define FROND_ON_GAP 2

// The lock is on a whole tree.
#define FROND_ON_TREE 3

// Maximum length of the name of a prepared transaction, in bytes.
#define FROND_XID_BYTES_MAX 255

// A part of `width` bytes, big-endian.
#define FROND_PART_FIXED 1

// A part that takes all remaining bytes; allowed only as the last one.
#define FROND_PART_REST 2

// A part of keys of variable length that ends with 00 01. A byte 00 in its content is written as
// 00 FF.
#define FROND_PART_ESCAPED 3

// A part of keys of variable length, in descending order, that ends with FF FE. Its content is
// complemented, and a byte FF in the complement is written as FF 00.
#define FROND_PART_ESCAPED_DESCENDING 4

// A part of values that starts with its length in LEB128.
#define FROND_PART_PREFIXED 5

// The version of the layout of values: two bytes, big-endian, the same in all values; allowed only
// as the first part. `width` is the version: 0 in a new tree. Such a layout can be changed
// (frond_tree_change_layout).
#define FROND_PART_VERSION 6

// Nothing is known about a fixed part.
#define FROND_HINT_NONE 0

// The fixed part is an integer with its sign bit flipped.
#define FROND_HINT_INTEGER 1

// The fixed part is a float in order-preserving form.
#define FROND_HINT_FLOAT 2

// The fixed part is a number of microseconds.
#define FROND_HINT_MICROSECONDS 3

// A read without a lock sees what the transaction's isolation level shows.
#define FROND_AS_LEVEL 0

// A read without a lock sees the newest commit, whatever snapshot the transaction has.
#define FROND_NEWEST 1

// No limit: a wait lasts until the lock is granted, or a deadlock or an interrupt ends it.
#define FROND_FOREVER 9223372036854775807

// A commit is acknowledged once it is synced: nothing acknowledged is ever lost.
#define FROND_SYNC 1

// A commit is acknowledged once the kernel has it: if the process is killed, nothing is lost; a
// power failure loses at most the last second.
#define FROND_OS 2

// A commit is acknowledged once it is in the log's buffer: if the process is killed, at most one
// second is lost; a power failure loses at most two.
#define FROND_LAZY 3

// A commit is acknowledged at the store's level. Meant for transactions and batches.
#define FROND_AS_STORE 0

// Leaves are compressed with LZ4: speed before size.
#define FROND_FAST 1

// Leaves are compressed with zstd. This is the default.
#define FROND_DEFAULT 2

// Leaves are compressed with zstd at a higher level, and with dictionaries: size before speed.
#define FROND_SMALL 3

// Each call sees what was committed when it started. After frond_txn_begin_statement, all plain
// reads of the statement see what was committed when the first of them started.
#define FROND_READ_COMMITTED 1

// Plain reads see what was committed when the first of them started; writes and locking reads use
// the newest commit.
#define FROND_REPEATABLE_READ 2

// All reads see what was committed when the first of them started. If two transactions write the
// same row, the second fails with FRD-1107. This is the default.
#define FROND_SNAPSHOT 3

// Like FROND_REPEATABLE_READ, but each plain read locks what it reads.
#define FROND_SERIALIZABLE 4

// A read locks nothing.
#define FROND_NO_LOCK 0

// A read locks the row against writers.
#define FROND_SHARED 1

// A read locks the row against everything but plain reads.
#define FROND_EXCLUSIVE 2

// If another transaction holds the row: wait, up to the transaction's lock timeout.
#define FROND_WAIT 0

// If another transaction holds the row (NOWAIT): fail with FRD-1105 at once.
#define FROND_NO_WAIT 1

// If another transaction holds the row (SKIP LOCKED): a scan skips it; a read of one row fails.
#define FROND_SKIP_LOCKED 2

// If another transaction holds the row (semi-consistent read): read its last committed version
// without a lock, and report that (`locked`). Calls that cannot report it wait, and at
// FROND_SERIALIZABLE all calls do.
#define FROND_SEMI_CONSISTENT 3

// Adds to an integer of 8 bytes, big-endian, with wraparound. A value of another length counts as
// 0, as does a missing one.
#define FROND_ADD 1

// Keeps the greater of two values, compared as byte strings.
#define FROND_MAX 2

// Keeps the lesser of two values, compared as byte strings.
#define FROND_MIN 3

// Appends to a value.
#define FROND_APPEND 4

// Duration of commits, from the call to its return. If commits do not wait for the disk, about one
// in sixteen is timed.
#define FROND_COMMITS 1

// Duration of commits' waits for a sync of the log; only commits that waited count.
#define FROND_SYNC_WAITS 2

// Duration of calls' waits for locks; only calls that waited count.
#define FROND_LOCK_WAITS 3

// The transaction will lock rows of the tree shared; every locking read takes this lock by itself.
// Conflicts with FROND_TREE_EXCLUSIVE.
#define FROND_TREE_INTENT_SHARED 1

// The transaction will lock rows of the tree exclusively, or write them; every write takes this
// lock by itself. Conflicts also with FROND_TREE_SHARED.
#define FROND_TREE_INTENT_EXCLUSIVE 2

// No other transaction can write to the tree.
#define FROND_TREE_SHARED 3

// No other transaction can write to the tree, or read it under locks.
#define FROND_TREE_EXCLUSIVE 4

// FROND_TREE_SHARED and FROND_TREE_INTENT_EXCLUSIVE together: reported for a transaction that has
// requested both; it cannot be requested by itself.
#define FROND_TREE_SHARED_INTENT_EXCLUSIVE 5

// A batch of writes that are committed together, in the order in which they were added. It can be
// used by one thread at a time, not necessarily always the same.
typedef struct frond_batch frond_batch;

// A cursor over the rows of a tree in a range, in both directions.
typedef struct frond_cursor frond_cursor;

// An open store.
typedef struct frond_db frond_db;

// A running build of indexes. Can be used by one thread at a time. Releasing it abandons the
// build, unless it was published.
typedef struct frond_index_build frond_index_build;

// An interrupter cancels one transaction, or all operations that it was set on, from any thread.
// It may outlive them.
typedef struct frond_interrupter frond_interrupter;

// A bulk load: it puts rows, in any order, into a new or an existing empty tree, in a commit of
// its own. It can be used by one thread at a time, not necessarily always the same; several
// threads can run loads at the same time. The interrupter and the progress of a load can be used
// by any thread.
typedef struct frond_load frond_load;

// A transaction that takes part in a lock wait. Valid during the callback that receives it.
typedef struct frond_party frond_party;

// A prepared transaction that is attached to this session.
typedef struct frond_prepared frond_prepared;

// Progress of a long operation. Any thread may read it, during and after the operation. Release it
// with frond_progress_free.
typedef struct frond_progress frond_progress;

// A projection: a selection of parts of a tree's values. Create it once, and use it for any number
// of reads.
typedef struct frond_projection frond_projection;

// A snapshot: the state of the store after one commit. What is read in it never changes.
typedef struct frond_snapshot frond_snapshot;

// A temporary tree. Its rows are written as part of a session's transactions, are invisible to
// others, and are removed with the tree. One transaction at a time writes to it; reads see what
// was written last.
typedef struct frond_temporary frond_temporary;

// A tree of an open store.
typedef struct frond_tree frond_tree;

// A change of one or more trees in one commit: add its steps in order, then call
// frond_change_commit. A step identifies its tree by number (0: by name alone), by name (null: by
// number alone), or by both; in that case the tree must have that name.
typedef struct frond_tree_change frond_tree_change;

// A transaction. It ends with frond_txn_commit, frond_txn_prepare or frond_txn_rollback, once its
// cursors are released.
typedef struct frond_txn frond_txn;

// Identifies the version of a store that a backup contains; the next increment starts from it.
typedef struct {
  // Identifier of the store.
  uint8_t store[16];
  // The version.
  uint64_t version;
  // Checksum of its root directory, to distinguish two stores with a common origin.
  uint64_t roots;
} frond_backup_id;

// The result of a backup or a restore.
typedef struct {
  // Identifies what the backup contains: pass it to frond_backup_since.
  frond_backup_id id;
  // The last commit in it.
  uint64_t seqno;
  // Number of pages copied.
  uint64_t pages;
  // Total length of these pages in bytes.
  uint64_t bytes;
} frond_backup_info;

// Description of an error. A call takes a pointer to one, or null, and fills it in only if the
// call fails.
typedef struct {
  // The error code as a number: 1107 is FRD-1107. docs/errors.md explains each code.
  int32_t code;
  // What to do about it: FROND_RETRY, FROND_FIX_CALL, …
  int32_t kind;
  // Message in UTF-8, terminated by a zero byte; truncated if it is too long.
  char message[FROND_MESSAGE_BYTES];
  // Name of the tree concerned, terminated by a zero byte; empty if there is none.
  char tree[FROND_NAME_BYTES];
  // Index, from 0, of the batch entry or the step of a change of trees concerned; -1 if there is
  // none.
  int64_t entry;
  // Whether the error concerns a row whose key is known: a row that is locked, in conflict,
  // already present, or duplicate. If not, `key_length` is 0.
  bool has_key;
  // Length of that key in bytes; may be more than `key` holds.
  size_t key_length;
  // Number of leading bytes of that key in `key`: at most FROND_KEY_BYTES, and at most 64 for an
  // error about a lock (FRD-1101, FRD-1102, FRD-1105).
  size_t key_held;
  // The leading bytes of the key, padded with zeros.
  uint8_t key[FROND_KEY_BYTES];
} frond_error;

// A part of the layout of keys or values.
typedef struct {
  // FROND_PART_FIXED, …
  int32_t kind;
  // Number of bytes of a fixed part; for the version, its value.
  uint16_t width;
  // FROND_HINT_INTEGER, … for a fixed part. It affects how the part is stored, never its
  // meaning.
  int32_t hint;
} frond_part;

// Options of a new tree. Call frond_tree_options_init, then set fields.
typedef struct {
  // FROND_FAST, FROND_DEFAULT, FROND_SMALL.
  int32_t size_class;
  // Whether keys are mostly inserted with a check that they are absent. A bulk load or an index
  // build of such a tree fails if a key occurs twice.
  bool unique;
  // Application data to store with the tree, up to 1 MiB; may be null.
  const void *attributes;
  // Length of `attributes` in bytes.
  size_t attributes_length;
  // Layout of keys; null for none. If keys or values have a layout, rows are stored part by
  // part, each part in its smallest encoding. Copied by the call that gets the options.
  const frond_part *key_parts;
  // Number of `key_parts`.
  size_t key_parts_count;
  // Layout of values; null for none.
  const frond_part *value_parts;
  // Number of `value_parts`.
  size_t value_parts_count;
} frond_tree_options;

// Callback that receives a row. Key and value are valid during the call.
typedef void (*frond_row_callback)(void *context,
                                   const uint8_t *key,
                                   size_t key_length,
                                   const uint8_t *value,
                                   size_t value_length);

// A row that differs between two snapshots of a build. It lies in the build's memory and is valid
// until the next call of frond_index_build_next.
typedef struct {
  // Key of the row.
  const uint8_t *key;
  // Length of the key in bytes.
  size_t key_length;
  // The old value of the row, which the indexes reflect; null if the row did not exist.
  const uint8_t *before;
  // Length of `before` in bytes.
  size_t before_length;
  // The new value of the row, which the indexes should reflect; null if the row no longer
  // exists.
  const uint8_t *after;
  // Length of `after` in bytes.
  size_t after_length;
} frond_row_changed;

// A buffer that receives a value. Its memory belongs to the library. Initialise all fields to 0.
// Any number of calls can use the same buffer and reuse its memory; even the key of a call may lie
// in it. Release it with frond_buffer_free. Only the library may write to it.
typedef struct {
  // The bytes; null if the buffer has never held any.
  uint8_t *data;
  // Length in bytes.
  size_t length;
  // Allocated size in bytes.
  size_t capacity;
} frond_buffer;

// Counters of a long operation's progress at one moment. They never decrease.
typedef struct {
  // Rows put into a load; for a build, into all of its indexes.
  uint64_t rows;
  // Rows that went through an external sort or merge; a row counts each time.
  uint64_t sorted;
  // The final value of `sorted`, as far as it is known; set once frond_loads_finish has started.
  uint64_t to_sort;
  // Rows that are in the new trees, out of `rows`; set once frond_loads_finish has started.
  uint64_t written;
  // Rounds of a build that have ended.
  uint64_t rounds;
  // Rows that these rounds have returned.
  uint64_t changes;
  // Bytes of the file that a check has read.
  uint64_t checked_bytes;
  // The final value of `checked_bytes`, approximately.
  uint64_t to_check_bytes;
} frond_progress_counts;

// Callback that receives a line of text of `length` bytes, followed by a zero byte.
typedef void (*frond_line)(void *context, const char *text, size_t length);

// Options of a change of trees. Call frond_change_options_init, then set fields.
typedef struct {
  // Whether this is a replay: the change, and changes after it, may have been made before. In a
  // replay, a step is skipped if its effect is already present, or if its tree no longer exists
  // or has another name than the step says.
  //
  // A repeatable swap needs the numbers and names of its trees, a truncation the number. A
  // creation counts as made if a tree with that name has the same options, so give it attributes
  // that no other tree has. A clone counts as made if the tree with that name is a clone of the
  // same tree. If the created or cloned tree was later renamed or dropped, the step cannot be
  // distinguished from one that was not made, and is made again. So if a log has entries after a
  // creation, replay only its last entry.
  bool repeatable;
  // How long the commit waits for transactions that have locked rows of trees that are removed,
  // in milliseconds; below 0 means no limit.
  int64_t lock_timeout_ms;
} frond_change_options;

// One part of a new layout of values: an existing part, or a new one.
typedef struct {
  // Number of the existing part, from 1; part 0, the version, need not be listed. 0 for a new
  // part.
  size_t keep;
  // Definition of a new part.
  frond_part part;
  // Content of the new part in existing values, as it is stored in a value (including its length
  // prefix, if it has one).
  const void *data;
  // Length of `data` in bytes.
  size_t length;
} frond_new_part;

// Options of a read. Call frond_read_options_init, then set fields.
typedef struct {
  // What a read without a lock sees: FROND_AS_LEVEL, FROND_NEWEST. With a lock it always sees
  // the newest commit.
  int32_t sees;
  // How the read locks each row: FROND_NO_LOCK, FROND_SHARED, FROND_EXCLUSIVE. At
  // FROND_SERIALIZABLE, FROND_NO_LOCK means FROND_SHARED.
  int32_t row_lock;
  // What the read does if another transaction holds the row: FROND_WAIT, FROND_NO_WAIT,
  // FROND_SKIP_LOCKED, FROND_SEMI_CONSISTENT.
  int32_t when_locked;
  // Groups what this read locks with what the last locking read has locked, so that
  // frond_txn_unlock_last releases both. Meant for the row that an index entry names.
  bool with_last;
  // How long the call waits for locks in total, in milliseconds. FROND_FOREVER means no limit;
  // below 0 means the lock timeout of the transaction.
  int64_t wait_ms;
  // The parts of values to return; null for whole values. Only used during the call.
  const frond_projection *projection;
  // Must be 0.
  uint64_t reserved[4];
} frond_read_options;

// A row of a batch that a cursor has returned.
typedef struct {
  // Key of the row.
  const uint8_t *key;
  // Length of the key in bytes.
  size_t key_length;
  // Value of the row.
  const uint8_t *value;
  // Length of the value in bytes.
  size_t value_length;
  // Whether the cursor has locked the row. False if it locks nothing, or if it met another
  // transaction's lock and read the last committed version (FROND_SEMI_CONSISTENT).
  bool locked;
} frond_row;

// A batch of rows. It belongs to the cursor and is valid until the next call on the cursor.
typedef struct {
  // The first row.
  const frond_row *rows;
  // Number of rows.
  size_t count;
} frond_rows;

// Start of a key. Valid during the callback that receives it.
typedef struct {
  // Whether there is a key and it is known.
  bool is_known;
  // Its first bytes, up to 64; null if it is not known.
  const uint8_t *data;
  // Length of `data` in bytes.
  size_t held;
  // Length of the whole key in bytes.
  size_t length;
} frond_key_start;

// A lock that is held or waited for.
typedef struct {
  // FROND_ON_ROW, FROND_ON_GAP, FROND_ON_TREE.
  int32_t on;
  // FROND_SHARED, FROND_EXCLUSIVE for a row or a gap; FROND_TREE_SHARED, … for a tree.
  int32_t mode;
  // Number of the tree.
  uint32_t tree;
  // Name of the tree, terminated by a zero byte; empty if the tree no longer exists.
  const char *tree_name;
  // Hash of a row's key, 16 bytes: the same for equal keys, and practically never for different
  // ones.
  uint8_t key_hash[16];
  // Start of the key of a row, or of the row that waits for a gap.
  frond_key_start key;
} frond_locked;

// A call that waits for a lock.
typedef struct {
  // Number of the waiting transaction (frond_txn_id).
  uint64_t waiter;
  // Tag of the waiting transaction.
  uint64_t tag;
  // Numbers of the transactions that it waits for: they hold the lock, or requested it earlier.
  const uint64_t *holders;
  // Their tags, in the same order.
  const uint64_t *holder_tags;
  // Number of `holders`.
  size_t holders_count;
  // The lock that it waits for.
  frond_locked lock;
  // Start of the wait in nanoseconds of the store's clock, which starts anew when a store is
  // opened.
  uint64_t since_nanos;
  // Duration of the wait so far, in nanoseconds.
  uint64_t lasts_nanos;
} frond_wait;

// Callback that receives a wait for a lock, which is valid during the call.
typedef void (*frond_wait_callback)(void *context, const frond_wait *wait);

// One transaction of a deadlock cycle. It waited for the one reported next; the last one waited
// for the first.
typedef struct {
  // Number of the transaction.
  uint64_t id;
  // Tag of the transaction.
  uint64_t tag;
  // Approximate number of entries that it had written.
  uint64_t writes;
  // Whether this transaction was ended.
  bool is_victim;
  // The lock that it waited for.
  frond_locked lock;
  // How long it had waited, in nanoseconds.
  uint64_t waited_nanos;
} frond_deadlocked;

// Callback that receives one transaction of a deadlock cycle, which is valid during the call.
typedef void (*frond_deadlocked_callback)(void *context, const frond_deadlocked *one);

// A transaction that holds locks or a snapshot, a batch that holds locks, or a snapshot that
// belongs to no transaction.
typedef struct {
  // Number of the transaction; 0 for a snapshot that belongs to none.
  uint64_t id;
  // Tag of the transaction; 0 for a batch, a snapshot, or a transaction that was prepared before
  // the store was opened.
  uint64_t tag;
  // Approximate number of entries that it has written.
  uint64_t writes;
  // How long it has held locks, in nanoseconds; -1 if it holds none.
  int64_t locks_nanos;
  // How long it has held a snapshot, in nanoseconds; -1 if it holds none.
  int64_t snapshot_nanos;
  // The last commit that its reads see; 0 if it has no snapshot.
  uint64_t snapshot_seqno;
  // Whether it waits for a lock.
  bool waits;
} frond_live;

// Callback that receives a live transaction, which is valid during the call.
typedef void (*frond_live_callback)(void *context, const frond_live *live);

// A lock that is held.
typedef struct {
  // Number of the transaction that holds it.
  uint64_t owner;
  // Tag of that transaction.
  uint64_t tag;
  // The lock. The key of a row is known if the transaction has written it recently, or if
  // another transaction waits for it.
  frond_locked lock;
  // For a gap: start of the key where it begins; not known if it begins before all keys.
  frond_key_start from;
  // For a gap: start of the key where it ends; not known if it ends after all keys.
  frond_key_start to;
  // For a gap: whether it includes the key `from`.
  bool with_from;
  // For a gap: whether it includes the key `to`.
  bool with_to;
} frond_held;

// Callback that receives a lock that is held, which is valid during the call.
typedef void (*frond_held_callback)(void *context, const frond_held *held);

// Callback that receives a prepared transaction: its name, the number of rows that it writes, and
// whether it is detached.
typedef void (*frond_prepared_line)(void *context,
                                    const uint8_t *xid,
                                    size_t xid_length,
                                    size_t rows,
                                    bool is_detached);

// A pointer to bytes that are stored elsewhere.
typedef struct {
  // The first byte; null means that there is no value, not even an empty one.
  const void *data;
  // Length in bytes.
  size_t length;
} frond_bytes;

// One entry of a row: the row's own entry, or one in an index.
typedef struct {
  // The table's tree, or an index's.
  const frond_tree *tree;
  // Key of the entry.
  const void *key;
  // Length of the key in bytes.
  size_t key_length;
  // Value of the entry; may be null if it is empty.
  const void *value;
  // Length of the value in bytes.
  size_t value_length;
  // Whether no other row may have the key.
  bool unique;
  // Whether the program knows that the key is absent, so that frond_txn_insert_row does not look
  // it up: for example, if it contains a number that only frond_tree_reserve gives out. A number
  // that others may also choose themselves does not qualify, even if it was just reserved. If
  // this is the row's own entry, the row's entries that are not unique count as absent, too. If
  // the key does exist, a later delete may bring the older value back, and the row count is
  // wrong.
  bool absent;
} frond_entry;

// A conflict of a row: one of its unique entries already exists. That entry is locked as the call
// requested. Nothing else is locked; in particular, not the row that an existing index entry
// names.
//
// To continue with that row (ON DUPLICATE KEY UPDATE, REPLACE), read and lock it by the key that
// the entry holds (frond_txn_read; set `with_last` if both locks may be released together). Then
// check that the row still has the entry: it may have been deleted or changed before it was
// locked.
typedef struct {
  // Index of the entry, from 0; -1 if there is no conflict.
  int64_t index;
  // The value of the existing entry; in an index, it identifies the row that has the entry.
  frond_buffer value;
} frond_conflict;

// The change of one entry of a row.
typedef struct {
  // The new entry. If the entry is removed, only its tree is used.
  frond_entry entry;
  // Whether the entry existed before; otherwise it is new.
  bool has_old;
  // Whether the entry exists from now on; otherwise it is removed.
  bool has_new;
  // The key that the entry had.
  const void *old;
  // Length of `old` in bytes.
  size_t old_length;
} frond_change;

// Sizes of a tree. Leaves hold each key once. A row that was deleted or overwritten stays in its
// leaf until the newer message, which waits in a node above, reaches the leaf.
typedef struct {
  // Number of rows, as frond_tree_row_count returns it.
  uint64_t rows;
  // Whether the rows were counted.
  bool rows_exact;
  // Number of rows in leaves.
  uint64_t leaf_rows;
  // Number of leaves.
  uint64_t leaves;
  // Bytes of keys and values in leaves before encoding; for a tree without layouts, of its
  // blocks before compression.
  uint64_t raw_bytes;
  // Encoded bytes of these rows.
  uint64_t encoded_bytes;
  // Bytes of leaves on disk: encoded rows, indexes, filters, padding to pages, and `blob_bytes`.
  // Pages that a clone shares with its parent count for both.
  uint64_t disk_bytes;
  // Bytes on disk of values of more than 64 KiB. Not included in `raw_bytes` and
  // `encoded_bytes`.
  uint64_t blob_bytes;
  // Bytes that wait in nodes on their way to leaves, encoded without a general codec; an upper
  // estimate.
  uint64_t buffered_bytes;
  // Bytes of rows in memory that are in no page yet; also of what large transactions wrote to
  // disk before their commit.
  uint64_t memory_bytes;
  // Levels of pages, including leaves; 0 if there are no pages.
  uint32_t depth;
} frond_sizes;

// Costs and results of encoding. A chunk is a row block, or the bytes of a string column in a
// columnar block: the unit to which a general codec, LZ4 or zstd, is applied.
typedef struct {
  // Blocks that were encoded.
  uint64_t blocks;
  // Rows in these blocks.
  uint64_t rows;
  // Bytes of these rows.
  uint64_t from_bytes;
  // Bytes of the encoded blocks.
  uint64_t bytes;
  // Time spent encoding them, in nanoseconds; for row blocks, in the codec.
  uint64_t nanos;
  // Chunks that a general codec has compressed.
  uint64_t chunks_coded;
  // Bytes of these chunks before compression.
  uint64_t chunks_coded_from_bytes;
  // Bytes of these chunks after compression.
  uint64_t chunks_coded_bytes;
  // Chunks that are stored uncompressed, because the codec saved too little.
  uint64_t chunks_raw;
  // Blocks that were copied unchanged from older runs.
  uint64_t carried_blocks;
  // Bytes of these blocks.
  uint64_t carried_bytes;
} frond_encoded;

// Work done on a tree since the store was opened. Times are wall-clock times.
typedef struct {
  // Size class with which leaves are encoded: FROND_FAST, FROND_DEFAULT, FROND_SMALL.
  int32_t size_class;
  // Encoding of leaves.
  frond_encoded leaves;
  // Encoding of runs that wait in nodes, without a general codec.
  frond_encoded buffers;
  // Chunks of leaves that were decoded, for reads and for merges.
  uint64_t chunks_decoded;
  // Bytes of these chunks after decoding.
  uint64_t chunks_decoded_bytes;
  // Time spent decoding them, in nanoseconds.
  uint64_t chunks_decode_nanos;
} frond_work;

// Callbacks for lock waits; each may be null. They are called by waiting threads, several at once,
// and may call no functions of the library except those of frond_party. The transactions passed to
// them may have ended meanwhile.
typedef struct {
  // Passed to each callback.
  void *context;
  // Called when `waiter` is about to wait until `holder` has ended, once for each holder.
  void (*on_wait)(void *context, const frond_party *waiter, const frond_party *holder);
  // Returns the id of the one of two transactions in a deadlock cycle that should be ended; 0
  // for no preference.
  uint64_t (*prefer)(void *context, const frond_party *a, const frond_party *b);
  // Returns whether the gap lock of `holder` conflicts with an insert of `inserter`. It need not
  // conflict if the order of the two transactions is settled elsewhere.
  bool (*needs_order)(void *context, const frond_party *inserter, const frond_party *holder);
} frond_lock_hooks;

// Callback that folds `operand` into `value`, which is null if the key has no value. It stores the
// result in `out` with frond_buffer_set; if it does not, the result is an empty value. It must not
// fail, and must not call any other function of the library.
typedef void (*frond_fold)(void *context,
                           const uint8_t *value,
                           size_t value_length,
                           const uint8_t *operand,
                           size_t operand_length,
                           frond_buffer *out);

// A user-defined merge operator, for frond_txn_merge. The store's background threads apply it too,
// at any time after the commit. So it must be deterministic and associative, and must never
// change. Once a tree has used it, the store does not open without it (FRD-1013).
typedef struct {
  // Number of the operator, 64 or above.
  uint8_t number;
  // Name of the operator: 1 to 128 bytes, no control characters. Stored with each tree that uses
  // it.
  const char *name;
  // Passed to the functions.
  void *context;
  // Computes the new value from the previous value, if there is one, and an operand.
  frond_fold fold;
  // Combines two operands into one that has the same effect; the older one is passed as the
  // value. If this is null, `fold` is called instead.
  frond_fold combine;
} frond_operator;

// Options for opening a store. Call frond_options_init, then set fields.
typedef struct {
  // Memory budget for everything, in bytes.
  uint64_t cache_size;
  // When commits are acknowledged: FROND_SYNC (0 means the same), FROND_OS, FROND_LAZY.
  int32_t durability;
  // Whether to create the store if there is none.
  bool create;
  // Whether to open the store without writing a byte.
  bool read_only;
  // Bytes of log to keep for followers of the change feed.
  uint64_t keep_log;
  // Callbacks for lock waits; null for none. Copied by frond_open.
  const frond_lock_hooks *lock_hooks;
  // User-defined merge operators; null for none. Copied by frond_open.
  const frond_operator *operators;
  // Number of `operators`.
  size_t operators_count;
} frond_options;

// Description of a tree in a listing.
typedef struct {
  // Number of the tree, which no other tree of the store ever has.
  uint32_t id;
  // Name of the tree, terminated by a zero byte.
  const char *name;
  // FROND_FAST, FROND_DEFAULT, FROND_SMALL.
  int32_t size_class;
  // Whether keys are mostly inserted with a check that they are absent.
  bool unique;
  // The commit that created the tree.
  uint64_t birth;
  // Attributes of the tree; null if there are none.
  const uint8_t *attributes;
  // Length of `attributes` in bytes.
  size_t attributes_length;
} frond_tree_listed;

// Callback that receives the description of a tree, which is valid during the call.
typedef void (*frond_tree_callback)(void *context, const frond_tree_listed *tree);

// One entry of a row of temporary trees: the row's own entry, or one in an index.
typedef struct {
  // The table's tree, or an index's.
  const frond_temporary *tree;
  // Key of the entry.
  const void *key;
  // Length of the key in bytes.
  size_t key_length;
  // Value of the entry; may be null if it is empty.
  const void *value;
  // Length of the value in bytes.
  size_t value_length;
  // Whether the key must not exist.
  bool unique;
} frond_temporary_entry;

// Options of a transaction. Call frond_txn_options_init, then set fields.
typedef struct {
  // FROND_READ_COMMITTED, FROND_REPEATABLE_READ, FROND_SNAPSHOT, FROND_SERIALIZABLE.
  int32_t isolation;
  // Whether writing is an error; the transaction then never locks anything.
  bool read_only;
  // How long a call waits for locks, in milliseconds; below 0 means no limit.
  int64_t lock_timeout_ms;
  // When its commit is acknowledged: FROND_AS_STORE, FROND_SYNC, FROND_OS, FROND_LAZY.
  int32_t durability;
  // Identifies the transaction to the program's frond_lock_hooks; 0 for none.
  uint64_t tag;
} frond_txn_options;

// Callback that reports that commits are durable.
typedef void (*frond_synced)(void *cookie);

// Callback that receives a number and its name, which is terminated by a zero byte.
typedef void (*frond_number)(void *context, const char *name, uint64_t value);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Copies the store to the new directory `path`, which must not exist before. The copy is itself a
// store. Writers can continue meanwhile. `info` may be null.
int32_t frond_backup(const frond_db *db,
                     const char *path,
                     frond_backup_info *info,
                     frond_error *error);

// Writes an increment, which contains what has changed since the backup `base`, to the new file
// `path`. Writers can continue meanwhile. FRD-1012 if `base` is not of an earlier version of this
// store. `info` may be null.
int32_t frond_backup_since(const frond_db *db,
                           const frond_backup_id *base,
                           const char *path,
                           frond_backup_info *info,
                           frond_error *error);

// Reads the identifier of a backup, for frond_backup_since. `path` is the directory of a full
// backup or the file of an increment. FRD-1001 if the directory has been opened for writing since.
int32_t frond_backup_read_id(const char *path, frond_backup_id *id, frond_error *error);

// Reads and verifies everything that frond_restore would write, and writes nothing. `increments`
// are the paths of `count` increments, oldest first; null if `count` is 0. `info` may be null.
int32_t frond_backup_verify(const char *backup,
                            const char *const *increments,
                            size_t count,
                            frond_backup_info *info,
                            frond_error *error);

// Creates a store in the new directory `target`, which must not exist before, from a full backup
// and `count` increments, oldest first. The backup is a directory that frond_backup made, or that
// of a store that was closed cleanly; it is not changed. Every page is verified. FRD-1012 if an
// increment does not continue what comes before it. After an error, `target` does not exist.
// `increments` is null if `count` is 0. `info` may be null.
int32_t frond_restore(const char *backup,
                      const char *const *increments,
                      size_t count,
                      const char *target,
                      frond_backup_info *info,
                      frond_error *error);

// Creates an empty batch.
int32_t frond_batch_new(frond_batch **batch, frond_error *error);

// Releases a batch. Null is allowed.
void frond_batch_free(frond_batch *batch);

// Adds a put to a batch: sets a value, whether the key exists or not.
int32_t frond_batch_put(frond_batch *batch,
                        const frond_tree *tree,
                        const void *key,
                        size_t key_length,
                        const void *value,
                        size_t value_length,
                        frond_error *error);

// Adds a delete to a batch: deletes a key, if it exists.
int32_t frond_batch_delete(frond_batch *batch,
                           const frond_tree *tree,
                           const void *key,
                           size_t key_length,
                           frond_error *error);

// Adds a range delete to a batch: deletes all keys from `from` up to, but not including, `to`. Its
// cost does not depend on the number of keys.
int32_t frond_batch_delete_range(frond_batch *batch,
                                 const frond_tree *tree,
                                 const void *from,
                                 size_t from_length,
                                 const void *to,
                                 size_t to_length,
                                 frond_error *error);

// Makes commits of a batch cancellable: after this call, an interrupt ends them with FRD-1106
// until it is cleared. A commit that is waiting for row locks of transactions, or for space, ends
// at once. A commit that ends this way has done nothing, and the batch is unchanged.
int32_t frond_batch_set_interrupter(frond_batch *batch,
                                    const frond_interrupter *interrupter,
                                    frond_error *error);

// Limits how long a commit of the batch waits for the row locks of transactions in total, in
// milliseconds; below 0 means no limit. The default is ten seconds.
int32_t frond_batch_lock_timeout(frond_batch *batch, int64_t milliseconds, frond_error *error);

// Commits a batch and empties it. `level` is the durability of this commit, or FROND_AS_STORE.
// `seqno`, which may be null, receives the number of the commit.
//
// After an error nothing was done, and the batch is unchanged. The exception is FRD-3203 (and
// FRD-3202 after it): the store has stopped, and others may have seen the commit; open the store
// again and check whether it is there.
int32_t frond_batch_commit(const frond_db *db,
                           frond_batch *batch,
                           int32_t level,
                           uint64_t *seqno,
                           frond_error *error);

// Starts to load a new tree. `options` may be null. The tree is invisible until
// frond_loads_finish.
int32_t frond_load_begin(const frond_db *db,
                         const char *name,
                         const frond_tree_options *options,
                         frond_load **load,
                         frond_error *error);

// Starts to load an existing tree that has no rows, for callers that create a tree first and fill
// it later. If it has rows, the error is FRD-1017. Deleted rows do not count.
//
// Until frond_loads_finish the tree is unchanged, and others may use it. Then a new tree with the
// rows replaces it. The new tree has the same name, attributes, layouts, settings and counters
// (frond_tree_reserve), but another number. As after a truncation, handles of the old tree fail
// with FRD-1004, and older snapshots with FRD-1006. If no row was put, the tree is not replaced,
// and its handles stay valid.
//
// frond_loads_finish waits for transactions that have locked the tree or rows of it, including
// prepared ones. If one of them belongs to the caller's session, this wait cannot succeed: end
// that transaction first. After the wait, the tree must still be empty. If the disk becomes full
// after the commit, the call waits for space.
int32_t frond_load_begin_into(const frond_db *db,
                              const frond_tree *tree,
                              frond_load **load,
                              frond_error *error);

// Limits how long the end of a load into an existing tree waits for transactions that have locked
// rows of it, in milliseconds; below 0 means no limit. The default is ten seconds. If several
// loads end together, the shortest limit applies, and the interrupter of the first load.
int32_t frond_load_lock_timeout(frond_load *load, int64_t milliseconds, frond_error *error);

// Adds a row to a load. If a key occurs more than once, the row that was put last is kept, unless
// the tree is unique: then this call, or frond_loads_finish, fails with FRD-1104.
int32_t frond_load_put(frond_load *load,
                       const void *key,
                       size_t key_length,
                       const void *value,
                       size_t value_length,
                       frond_error *error);

// Sets a callback for a duplicate key in a unique tree. It receives one of the rows that have the
// key. It is called at most once, by the call of frond_load_put or frond_loads_finish that then
// fails with FRD-1104. It must not call the library. The function and `context` must stay valid
// until the load is released.
int32_t frond_load_on_duplicate(frond_load *load,
                                frond_row_callback visit,
                                void *context,
                                frond_error *error);

// Releases a load and abandons it: nothing of it is left behind. Null is allowed.
void frond_load_free(frond_load *load);

// Creates or fills the trees of `count` loads in one commit, which is synced when this returns:
// all of them or, after an error, none. `trees`, which may be null, receives `count` handles of
// the new trees.
//
// All loads are released, except after FRD-1001 (a load is null or passed twice, two are for the
// same tree, or they belong to different stores): then all are unchanged.
int32_t frond_loads_finish(frond_load *const *loads,
                           size_t count,
                           frond_tree **trees,
                           frond_error *error);

// Starts to build `count` indexes of a tree that has rows, while others write to the tree. The
// indexes are trees with these names and options (null: the defaults for all), to be used once
// they are published. From now on, each commit of a transaction or batch also puts the keys of the
// rows that it writes into a queue; writers need not know about the build. A tree can have one
// build at a time (otherwise FRD-1105). An entry's key must belong to only one row, unless the
// index is unique and the build should find duplicates. The build is released by
// frond_index_build_publish or frond_index_build_free.
int32_t frond_index_build_begin(const frond_db *db,
                                const frond_tree *base,
                                const char *const *names,
                                const frond_tree_options *options,
                                size_t count,
                                frond_index_build **build,
                                frond_error *error);

// Returns the snapshot at which the program must read the tree's rows; each call returns the same
// one. Release it with frond_snapshot_free. The first call waits for all transactions that had
// written to the tree when the build started, including prepared ones; others continue. If they
// last longer than `wait_ms` (below 0: no limit), the error is FRD-1101, and the call may be
// repeated.
int32_t frond_index_build_snapshot(frond_index_build *build,
                                   int64_t wait_ms,
                                   frond_snapshot **snapshot,
                                   frond_error *error);

// Adds the entry of a row of the snapshot to an index, in any order. Indexes are numbered from 0
// in the order in which their names were given. If two entries have the same key in a unique
// index, this or a later call fails with FRD-1104; `tree` of the error is the index, and the build
// has failed.
int32_t frond_index_build_add(frond_index_build *build,
                              size_t index,
                              const void *key,
                              size_t key_length,
                              const void *value,
                              size_t value_length,
                              frond_error *error);

// Completes the base, which is the entries of the snapshot's rows: makes trees of the entries that
// were added. If the program does not call this, frond_index_build_next does it.
int32_t frond_index_build_end_base(frond_index_build *build, frond_error *error);

// Returns the next row whose index entries may be outdated; pass the entries to remove and to add
// to frond_index_build_change. FROND_NOT_FOUND at the end of a round: the indexes then have the
// entries of one snapshot, and the next call starts another round. A round may return a row twice;
// pass the same entries again.
//
// FRD-1104 if two rows had the same key in a unique index at that snapshot; `tree` of the error is
// the index. After any error the build has failed, except after FRD-1106, unless that came while
// the base was completed.
int32_t frond_index_build_next(frond_index_build *build,
                               frond_row_changed *row,
                               frond_error *error);

// Changes an index entry of the row that was returned last. `old_key` is the key of the entry that
// the row had in the index (null with length 0: none); `key` and `value` are the entry that it
// should have (`key` null with length 0: none). Skip entries that do not change. A row may have
// several entries in one index.
int32_t frond_index_build_change(frond_index_build *build,
                                 size_t index,
                                 const void *old_key,
                                 size_t old_key_length,
                                 const void *key,
                                 size_t key_length,
                                 const void *value,
                                 size_t value_length,
                                 frond_error *error);

// Returns, after a round, whether it is time to lock the tree: `near` receives true if the round
// was short and the next one is expected to be short, too.
int32_t frond_index_build_is_near(const frond_index_build *build, bool *near, frond_error *error);

// Locks the tree exclusively, so that the next round is the last; writers wait from then on.
// FRD-1101 if transactions keep rows of the tree locked for longer than `wait_ms` (below 0: no
// limit): nothing was done; run more rounds and try again.
int32_t frond_index_build_lock(frond_index_build *build, int64_t wait_ms, frond_error *error);

// Publishes the indexes in one commit, which is synced, after the round that follows
// frond_index_build_lock. `trees`, which may be null, receives one handle per index; nulls after
// an error. The build is released, except after FRD-1001: then it is unchanged.
//
// `then`, which may be null, is called before any writer that is waiting for the tree continues.
// It must make the indexes known to writers: after it, every writer must maintain them. So a
// writer must hold an intent lock on the tree (frond_txn_lock_tree) when it looks up which indexes
// exist, or be excluded in another way. `then` itself must not write to the tree, which is locked.
int32_t frond_index_build_publish(frond_index_build *build,
                                  void (*then)(void *context),
                                  void *context,
                                  frond_tree **trees,
                                  frond_error *error);

// Releases a build and abandons it: nothing of it is left behind. Null is allowed.
void frond_index_build_free(frond_index_build *build);

// Makes a build cancellable: after this call, an interrupt ends its calls with FRD-1106. If it
// ends a call that adds entries to the base or completes the base, the build has failed; other
// calls fail only until the interrupt is cleared.
int32_t frond_index_build_set_interrupter(frond_index_build *build,
                                          const frond_interrupter *interrupter,
                                          frond_error *error);

// Returns the progress of a build, which any thread may read. Release it with frond_progress_free.
int32_t frond_index_build_progress(const frond_index_build *build,
                                   frond_progress **progress,
                                   frond_error *error);

// Releases the memory of a buffer and empties it. Null is allowed.
void frond_buffer_free(frond_buffer *buffer);

// Copies bytes into a buffer. Meant for callbacks that return bytes (frond_fold).
int32_t frond_buffer_set(frond_buffer *buffer, const void *data, size_t length, frond_error *error);

// Creates a progress object for frond_check.
int32_t frond_progress_new(frond_progress **progress, frond_error *error);

// Returns the progress of a load, which can also be read while the load is being finished.
int32_t frond_load_progress(const frond_load *load, frond_progress **progress, frond_error *error);

// Reads the current counters of a progress object.
int32_t frond_progress_now(const frond_progress *progress,
                           frond_progress_counts *counts,
                           frond_error *error);

// Releases a progress object. Null is allowed.
void frond_progress_free(frond_progress *progress);

// Creates an interrupter that belongs to no transaction, for the operations that it is to cancel:
// cursors, loads, index builds, checks. These also accept the interrupter of a transaction.
// frond_interrupt cancels all of them.
int32_t frond_interrupter_new(frond_interrupter **interrupter, frond_error *error);

// Clears an interrupter that belongs to no transaction, so that the operations it was set on can
// continue. The interrupter of a transaction is cleared only by frond_txn_clear_interrupt. Null is
// allowed.
void frond_interrupter_clear(const frond_interrupter *interrupter);

// Makes a cursor over a snapshot or outside transactions cancellable: after this call, an
// interrupt ends its calls with FRD-1106. Rows that the engine has already read ahead, up to some
// thousands, may be returned first. Once the interrupt is cleared, the cursor continues where it
// was. FRD-1001 for other cursors: one of a transaction observes the transaction's interrupts by
// itself, and one over a temporary tree those of the transaction that writes the tree.
int32_t frond_cursor_set_interrupter(frond_cursor *cursor,
                                     const frond_interrupter *interrupter,
                                     frond_error *error);

// Makes a load cancellable: after this call, an interrupt ends the load and its current call,
// which may be frond_loads_finish, with FRD-1106.
int32_t frond_load_set_interrupter(frond_load *load,
                                   const frond_interrupter *interrupter,
                                   frond_error *error);

// Checks the store while it is open. With `full`, reads all of it once; otherwise only the log and
// a few pages. Others can use the store meanwhile. `clean` receives true if no damage was found.
// `visit`, which may be null, receives each finding as text. `interrupter` and `progress` may be
// null.
int32_t frond_check(const frond_db *db,
                    bool full,
                    const frond_interrupter *interrupter,
                    const frond_progress *progress,
                    frond_line visit,
                    void *context,
                    bool *clean,
                    frond_error *error);

// Sets the defaults: not repeatable, ten seconds.
void frond_change_options_init(frond_change_options *options);

// Starts a change of trees. Nothing is locked or done before its commit. `options` may be null.
// Release the change with frond_change_free.
int32_t frond_change_begin(const frond_db *db,
                           const frond_change_options *options,
                           frond_tree_change **change,
                           frond_error *error);

// Makes frond_change_commit cancellable: after this call, an interrupt immediately ends a commit
// that is waiting for transactions, with FRD-1106. A commit that starts before the interrupt is
// cleared also fails with FRD-1106. In both cases nothing was done.
int32_t frond_change_set_interrupter(frond_tree_change *change,
                                     const frond_interrupter *interrupter,
                                     frond_error *error);

// Releases a change, whether it was committed or not. Null is allowed.
void frond_change_free(frond_tree_change *change);

// Adds a step that creates a tree, as frond_tree_create does. `options` may be null. If the step
// is replayed after the tree was renamed or dropped, it creates another tree
// (frond_change_options).
int32_t frond_change_create(frond_tree_change *change,
                            const char *name,
                            const frond_tree_options *options,
                            frond_error *error);

// Adds a step that renames a tree. The new name must be free once the steps before it are made.
int32_t frond_change_rename(frond_tree_change *change,
                            uint32_t number,
                            const char *name,
                            const char *to,
                            frond_error *error);

// Adds a step that drops a tree, as frond_tree_drop does.
int32_t frond_change_drop(frond_tree_change *change,
                          uint32_t number,
                          const char *name,
                          frond_error *error);

// Adds a step that exchanges the names of two trees. Reads at older snapshots fail with FRD-1006
// in both, as if the trees had just been created. Transactions that have locked rows of a tree
// continue with it under its other name. To exclude such transactions, first lock both trees
// exclusively in a transaction, and commit the swap before that transaction ends.
int32_t frond_change_swap(frond_tree_change *change,
                          uint32_t number,
                          const char *name,
                          uint32_t other_number,
                          const char *other_name,
                          frond_error *error);

// Adds a step that removes all rows of a tree: a new, empty tree with another number takes its
// name and all its settings, but its counters start again. The old tree is dropped: its handles
// fail with FRD-1004, and older snapshots keep its rows.
int32_t frond_change_truncate(frond_tree_change *change,
                              uint32_t number,
                              const char *name,
                              frond_error *error);

// Adds a step that clones a tree, as frond_tree_clone does. A later step may drop the original. If
// the step is replayed after the clone was renamed or dropped, it makes another clone
// (frond_change_options).
int32_t frond_change_clone(frond_tree_change *change,
                           uint32_t number,
                           const char *name,
                           const char *to,
                           frond_error *error);

// Adds a step that sets the attributes of a tree, up to 1 MiB.
int32_t frond_change_attributes(frond_tree_change *change,
                                uint32_t number,
                                const char *name,
                                const void *attributes,
                                size_t length,
                                frond_error *error);

// Adds a step that changes the layout of a tree's values, as frond_tree_change_layout does, so
// that the layout changes in the same commit as the names and attributes that belong to it. `from`
// is the version that the numbers in `parts` refer to, or below 0 if it is not known; a repeatable
// change needs it.
int32_t frond_change_layout(frond_tree_change *change,
                            uint32_t number,
                            const char *name,
                            int32_t from,
                            const frond_new_part *parts,
                            size_t count,
                            frond_error *error);

// Adds a step that makes this commit the birth of a tree: reads of the tree at older snapshots
// then fail with FRD-1006. Meant for a tree that was filled under another name and is renamed by
// another step.
int32_t frond_change_publish(frond_tree_change *change,
                             uint32_t number,
                             const char *name,
                             frond_error *error);

// Makes all steps in one commit, which is synced when this returns. After a crash, either all
// steps have taken effect or none. Waits for transactions that have locked rows of trees that it
// drops or truncates. `seqno`, which may be null, receives the number of the commit, 0 if there
// was nothing to do.
//
// If a step cannot be made, nothing is done, `entry` of the error is the index of the step, from
// 0, and the change may be committed again. The exception is FRD-3203 (and FRD-3202 after it): the
// store has stopped; open it again and check whether the change was made. A change that clones
// trees or changes layouts, and drops or truncates others, waits for space if the disk becomes
// full while it is made.
int32_t frond_change_commit(frond_tree_change *change, uint64_t *seqno, frond_error *error);

// Returns the tree that a step of a committed change changed or created; for a truncation, the new
// tree. Steps are numbered from 0. FROND_NOT_FOUND if the tree no longer exists. `was_made`, which
// may be null, receives false if the step was skipped because it had been made before. `tree` may
// also be null.
int32_t frond_change_tree(const frond_tree_change *change,
                          size_t step,
                          frond_tree **tree,
                          bool *was_made,
                          frond_error *error);

// Returns the number of rows of a tree. `exact`, which may be null, receives whether they were
// counted. If not, the number is an estimate, because something was put or deleted without knowing
// whether it existed.
int32_t frond_tree_row_count(const frond_tree *tree,
                             uint64_t *rows,
                             bool *exact,
                             frond_error *error);

// Estimates how many rows there are from `from` up to, but not including, `to`, and how many bytes
// they occupy. A null bound means from the first key, or to the last. `data_bytes` may be null.
// Reads nothing from the file: for parts of the tree that were not read since the store was
// opened, it uses the number of all rows. Returns 0 rows only if none is committed so far. A
// transaction may have written rows, or may still see rows that were deleted since, so use
// frond_txn_estimate within one.
int32_t frond_tree_estimate(const frond_tree *tree,
                            const void *from,
                            size_t from_length,
                            const void *to,
                            size_t to_length,
                            uint64_t *rows,
                            uint64_t *data_bytes,
                            frond_error *error);

// Counts the rows from `from` up to, but not including, `to` that a plain scan of the transaction
// would find. It walks over them within the store, at a tenth of the cost of a cursor. At
// FROND_SERIALIZABLE it locks what it counts. A null bound means from the first key, or to the
// last.
int32_t frond_txn_count(const frond_txn *txn,
                        const frond_tree *tree,
                        const void *from,
                        size_t from_length,
                        const void *to,
                        size_t to_length,
                        uint64_t *rows,
                        frond_error *error);

// Estimates like frond_tree_estimate, but includes what the transaction has written, and rows that
// its reads still see although they were deleted since. Returns 0 rows only if neither a plain nor
// a locking read of the transaction would find one.
int32_t frond_txn_estimate(const frond_txn *txn,
                           const frond_tree *tree,
                           const void *from,
                           size_t from_length,
                           const void *to,
                           size_t to_length,
                           uint64_t *rows,
                           uint64_t *data_bytes,
                           frond_error *error);

// Reserves `count` numbers from one of the tree's counters, 0 to 3. The first of them is at least
// `least`, and is returned in `first`. No number is returned twice, even if the transaction is
// rolled back. After a restart, no number is returned that a commit may have used.
int32_t frond_tree_reserve(const frond_tree *tree,
                           uint32_t counter,
                           uint64_t least,
                           uint64_t count,
                           uint64_t *first,
                           frond_error *error);

// Returns the next number of a counter, without reserving it.
int32_t frond_tree_next_number(const frond_tree *tree,
                               uint32_t counter,
                               uint64_t *next,
                               frond_error *error);

// Estimates the number of distinct values of the first part of a tree's keys, of the first two
// parts, and so on: one number for each part of the keys' layout, or one number if keys have no
// layout. `counts` receives the first `counts_max` of them, and `count` how many there are; pass
// null and 0 to ask only for that. No number is 0, even for an empty tree. Numbers up to 64, and
// those of trees of a few thousand rows, are exact if nothing is written meanwhile; larger ones
// are estimates. Reads some tens of thousands of rows, however many there are.
int32_t frond_tree_distinct_prefixes(const frond_tree *tree,
                                     uint64_t *counts,
                                     size_t counts_max,
                                     size_t *count,
                                     frond_error *error);

// Opens a cursor over the keys from `from` up to, but not including, `to`, positioned before its
// first row. A null bound means from the first key, or to the last. It sees what is committed now.
int32_t frond_scan(const frond_tree *tree,
                   const void *from,
                   size_t from_length,
                   const void *to,
                   size_t to_length,
                   frond_cursor **cursor,
                   frond_error *error);

// Opens a cursor like frond_scan, over what the transaction sees, including its own writes so far
// or, within a statement, from before the statement. With `row_lock`, the cursor locks each row
// that it returns, and at FROND_REPEATABLE_READ and FROND_SERIALIZABLE also the gaps that it
// passes. Release the cursor before the transaction ends.
int32_t frond_txn_scan(const frond_txn *txn,
                       const frond_tree *tree,
                       const void *from,
                       size_t from_length,
                       const void *to,
                       size_t to_length,
                       int32_t row_lock,
                       int32_t when_locked,
                       frond_cursor **cursor,
                       frond_error *error);

// Opens a cursor like frond_txn_scan, with all options of a read. `with_last` has no effect here.
int32_t frond_txn_read_range(const frond_txn *txn,
                             const frond_tree *tree,
                             const void *from,
                             size_t from_length,
                             const void *to,
                             size_t to_length,
                             const frond_read_options *options,
                             frond_cursor **cursor,
                             frond_error *error);

// Locks the row that the cursor returned last, as the cursor locks rows, and reads its latest
// version: `rows` receives this row only. Meant for a row that is wanted but is not `locked`.
// FROND_NOT_FOUND if it was deleted; its key is locked all the same. Waits for the holder of the
// row for `wait_ms` milliseconds; below 0, for as long as the cursor waits. The cursor stays where
// it is.
int32_t frond_cursor_relock(frond_cursor *cursor,
                            int64_t wait_ms,
                            frond_rows *rows,
                            frond_error *error);

// Returns the next rows, up to `rows_max`. With 0, the cursor chooses: a few at first and then
// more, or one at a time if it locks rows. FROND_NOT_FOUND after the last row.
//
// The cursor is then positioned on the last of these rows: if frond_cursor_prev is called next, it
// starts with the row below that one. After FROND_NOT_FOUND the cursor is positioned after the
// last row.
//
// After an error the cursor stays where it was. If some rows were fetched before the error, they
// are returned now, and the next call in this direction returns the error. An error that has ended
// the transaction is returned at once, without the rows.
//
// The rows are as they were at this call: if the transaction itself changes or deletes one of them
// later, the batch still has the old row. A scan that may delete rows ahead of its position must
// ask for one row per call, or call frond_cursor_is_current before it uses a row.
int32_t frond_cursor_next(frond_cursor *cursor,
                          size_t rows_max,
                          frond_rows *rows,
                          frond_error *error);

// Returns the previous rows, like frond_cursor_next, in descending order from the nearest.
int32_t frond_cursor_prev(frond_cursor *cursor,
                          size_t rows_max,
                          frond_rows *rows,
                          frond_error *error);

// Returns whether the cursor would still return a row of its last batch (`row`: 0 is the first).
// Call it before using a row of a batch that was fetched earlier.
//
// A row is no longer current if, since the batch was fetched, the transaction has deleted it, has
// rolled back to a savepoint or to the start of its statement (rows that the batch skipped may
// exist again), or has ended. Then seek to the key of the last row that was used plus a zero byte
// (for frond_cursor_prev, to that key itself), and fetch again.
//
// A scan does not show what the transaction has changed or put since the scan, or its statement,
// started, however its batches are fetched: a changed row is current, and has its old value. Rows
// of a cursor of frond_scan or frond_snapshot_scan are always current. While the transaction has
// written nothing to the tree since the batch was fetched, this call only reads a counter. The
// batch stays valid.
int32_t frond_cursor_is_current(const frond_cursor *cursor,
                                size_t row,
                                bool *is_current,
                                frond_error *error);

// Moves the cursor to another range of its tree, before the first row there: from `from` up to,
// but not including, `to`. A null bound means from the first key, or to the last. What it sees and
// locks does not change. This costs less than opening another cursor. FRD-1001 for a cursor of
// frond_scan or frond_snapshot_scan.
int32_t frond_cursor_range(frond_cursor *cursor,
                           const void *from,
                           size_t from_length,
                           const void *to,
                           size_t to_length,
                           frond_error *error);

// Moves the cursor to a key: the next row is the first at or above it, the previous one the last
// below it.
int32_t frond_cursor_seek(frond_cursor *cursor,
                          const void *key,
                          size_t key_length,
                          frond_error *error);

// Moves the cursor before the first row.
int32_t frond_cursor_seek_first(frond_cursor *cursor, frond_error *error);

// Moves the cursor after the last row.
int32_t frond_cursor_seek_last(frond_cursor *cursor, frond_error *error);

// Releases a cursor. Null is allowed.
void frond_cursor_free(frond_cursor *cursor);

// Changes the layout of a tree's values without rewriting any of them: from now on, a value
// consists of the version and these parts. The current layout must begin with FROND_PART_VERSION.
// New attributes are set in the same commit; null with length 0 keeps the old ones. The change is
// synced when this returns.
//
// `tree` receives a handle that returns values in the new version. Other handles keep their
// version until they meet a newer value; then they fail with FRD-1006, and the tree must be opened
// again.
int32_t frond_tree_change_layout(const frond_db *db,
                                 const char *name,
                                 const frond_new_part *parts,
                                 size_t count,
                                 const void *attributes,
                                 size_t attributes_length,
                                 frond_tree **tree,
                                 frond_error *error);

// Returns the layout version of the values that a handle returns. It is the first two bytes of
// each value, big-endian. -1 if values have no version, or if `tree` is null.
int32_t frond_tree_layout_version(const frond_tree *tree);

// Reports the calls that currently wait for locks, longest first, as structs; frond_lock_waits
// reports them as text. Waits for anything else are not reported.
int32_t frond_each_wait(const frond_db *db,
                        frond_wait_callback visit,
                        void *context,
                        frond_error *error);

// Reports the transactions of the last deadlock cycle, each before the one it waited for;
// frond_last_deadlock reports them as text. `at_nanos`, which may be null, receives the time when
// the cycle was resolved, by the clock of `since_nanos` in frond_wait. FROND_NOT_FOUND if there
// was none.
int32_t frond_each_deadlocked(const frond_db *db,
                              frond_deadlocked_callback visit,
                              void *context,
                              uint64_t *at_nanos,
                              frond_error *error);

// Reports the current holders of locks or snapshots, longest first, as structs; frond_transactions
// reports them as text.
int32_t frond_each_transaction(const frond_db *db,
                               frond_live_callback visit,
                               void *context,
                               frond_error *error);

// Reports up to `max` locks that are currently held, ordered by owner: whole trees first, then
// gaps, then rows. `more`, which may be null, receives about how many others there are. This is
// not a consistent snapshot: locks are acquired and released meanwhile. Rows whose writes were
// spilled from memory are locked without being reported.
int32_t frond_each_lock(const frond_db *db,
                        size_t max,
                        frond_held_callback visit,
                        void *context,
                        size_t *more,
                        frond_error *error);

// Reports the locks of one transaction, like frond_each_lock, with rows in the order in which they
// were locked. Call it from the thread that uses the transaction.
int32_t frond_txn_each_lock(const frond_txn *txn,
                            size_t max,
                            frond_held_callback visit,
                            void *context,
                            size_t *more,
                            frond_error *error);

// Computes the hash that stands for a key of a tree in `key_hash` of frond_locked: 16 bytes,
// written to `hash`.
int32_t frond_tree_key_hash(const frond_tree *tree,
                            const void *key,
                            size_t key_length,
                            uint8_t *hash,
                            frond_error *error);

// Prepares a transaction: makes everything that it has written durable under a name, without
// deciding whether it commits. From then on it is in-doubt: it survives a crash, and the rows that
// it writes stay locked. `level` is FROND_SYNC, unless the coordinator can afford to lose the
// transaction.
//
// The transaction's handle is released, except after FRD-1001 (it has cursors; the name or the
// level is not allowed). After any other error the transaction is rolled back. The exception is
// FRD-3203 (and FRD-3202 after it): the store has stopped; open it again and check whether the
// transaction is prepared.
int32_t frond_txn_prepare(frond_txn *txn,
                          const void *xid_data,
                          size_t xid_length,
                          int32_t level,
                          frond_prepared **prepared,
                          frond_error *error);

// Attaches a detached prepared transaction to this session: FRD-1110 if there is none with this
// name, FRD-1112 if it is attached to another session.
int32_t frond_prepared_attach(const frond_db *db,
                              const void *xid_data,
                              size_t xid_length,
                              frond_prepared **prepared,
                              frond_error *error);

// Assigns the commit its place in the commit order: from then on the transaction is decided.
// `seqno`, which may be null, receives the number of the commit. Other sessions see the commit at
// the latest when frond_prepared_commit or frond_prepared_detach returns.
//
// The log space for the commit was reserved by the prepare, or when the store was opened. So this
// call does not wait for the disk, and fails only once the store has stopped. There is one
// exception: if opening the store warned of FRD-1303 (frond_warnings), the disk had no space to
// reserve. Until space is available, this call may fail with FRD-1301; the transaction then
// remains prepared.
int32_t frond_prepared_commit_ordered(frond_prepared *prepared,
                                      uint64_t *seqno,
                                      frond_error *error);

// Commits a prepared transaction, at the store's durability (FROND_AS_STORE) or another. The
// handle is released. After an error the transaction is still prepared. The exception is FRD-3203
// (and FRD-3202 after it): the store has stopped; open it again and check whether the transaction
// is prepared or committed. After frond_prepared_commit_ordered, every error has this meaning.
int32_t frond_prepared_commit(frond_prepared *prepared, int32_t level, frond_error *error);

// Rolls back a prepared transaction. The handle is released. After an error the transaction is
// still prepared. The exception is FRD-3203 (and FRD-3202 after it): the store has stopped; open
// it again and check whether it is still prepared. If the commit is ordered, the transaction is
// committed: then the error is FRD-1001, and the handle stays valid.
int32_t frond_prepared_rollback(frond_prepared *prepared, frond_error *error);

// Detaches a prepared transaction, and releases the handle: any session can then decide it by its
// name. Null is allowed.
void frond_prepared_detach(frond_prepared *prepared);

// Lists all in-doubt transactions, ordered by name. With `only_new`, only those that existed when
// the store was opened and that no earlier such call has listed.
int32_t frond_prepared_list(const frond_db *db,
                            bool only_new,
                            frond_prepared_line visit,
                            void *context,
                            frond_error *error);

// Selects parts of the values of a tree that has a layout of values, by number from 0, in any
// order. Reads return them in the order of the layout, each as it is stored in the value
// (including its length prefix, if it has one).
int32_t frond_projection_new(const frond_tree *tree,
                             const size_t *numbers,
                             size_t count,
                             frond_projection **projection,
                             frond_error *error);

// Releases a projection; cursors that use it are not affected. Null is allowed.
void frond_projection_free(frond_projection *projection);

// Reads parts of a value, concatenated, into `value`. Other parts are not read from blocks.
// FROND_NOT_FOUND if there is no such key; FRD-1001 if the value does not fit the layout of its
// tree.
int32_t frond_get_projected(const frond_tree *tree,
                            const void *key,
                            size_t key_length,
                            const frond_projection *projection,
                            frond_buffer *value,
                            frond_error *error);

// Reads parts of a value at a snapshot, like frond_get_projected.
int32_t frond_snapshot_get_projected(const frond_snapshot *snapshot,
                                     const frond_tree *tree,
                                     const void *key,
                                     size_t key_length,
                                     const frond_projection *projection,
                                     frond_buffer *value,
                                     frond_error *error);

// Reads parts of a value as a transaction sees it, like frond_get_projected; without a lock,
// except at FROND_SERIALIZABLE.
int32_t frond_txn_get_projected(const frond_txn *txn,
                                const frond_tree *tree,
                                const void *key,
                                size_t key_length,
                                const frond_projection *projection,
                                frond_buffer *value,
                                frond_error *error);

// Makes a cursor return only these parts of values from now on, without moving it. A step to a
// value that does not fit the layout of its tree fails with FRD-1001, each time; use
// frond_cursor_seek to skip that row.
int32_t frond_cursor_project(frond_cursor *cursor,
                             const frond_projection *projection,
                             frond_error *error);

// Sets the defaults: a read without a lock that sees what the isolation level shows.
void frond_read_options_init(frond_read_options *options);

// Reads the value of a key into `value`, with all options of a read. `options` may be null.
// FROND_NOT_FOUND if there is no such key; if a lock was requested, the absent key is locked all
// the same. `locked`, which may be null, receives whether the transaction has locked the key: if a
// lock was requested, this is false only if another transaction has locked it
// (FROND_SEMI_CONSISTENT).
int32_t frond_txn_read(const frond_txn *txn,
                       const frond_tree *tree,
                       const void *key,
                       size_t key_length,
                       const frond_read_options *options,
                       frond_buffer *value,
                       bool *locked,
                       frond_error *error);

// Reads the values of many keys, with all options of a read. Without a lock, all values are of one
// snapshot. With a lock, all rows are locked first, in key order, and then read. So calls that
// lock the same rows wait for each other but do not deadlock, whatever the order of their keys.
//
// `values` has `count` entries, and receives where each value lies in `memory`; they are valid
// until `memory` is used again. Null data means that there is no such row, or that another
// transaction holds it and it was skipped. `locked`, which may be null, has as many entries, and
// receives whether each row is locked. If the call fails, it has locked nothing.
int32_t frond_txn_read_many(const frond_txn *txn,
                            const frond_tree *tree,
                            const frond_bytes *keys,
                            size_t count,
                            const frond_read_options *options,
                            frond_buffer *memory,
                            frond_bytes *values,
                            bool *locked,
                            frond_error *error);

// Inserts a row. First looks up all its unique entries, in their order, and only then writes. Pass
// the row's own entry first. `conflict->index` is -1 on success. Otherwise it is the index of the
// entry that already exists, and `conflict->value` is the value of that entry; it is locked with
// `row_lock` (FROND_SHARED, FROND_EXCLUSIVE), and nothing is written. Initialise the fields of
// `conflict->value` to 0.
//
// If the row's own entry is unique and does not exist yet, its entries that are not unique are
// assumed not to exist either, and are not looked up, because they contain the row's key. If the
// key of an entry may already exist, write that entry separately (frond_txn_put): otherwise its
// older value may come back when the row is deleted, and the row count is wrong.
int32_t frond_txn_insert_row(const frond_txn *txn,
                             const frond_entry *entries,
                             size_t count,
                             int32_t row_lock,
                             frond_conflict *conflict,
                             frond_error *error);

// Changes a row. Pass only the entries that change. If a unique entry moves to a key that exists
// already, the call reports a conflict and writes nothing, as frond_txn_insert_row does.
int32_t frond_txn_update_row(const frond_txn *txn,
                             const frond_change *changes,
                             size_t count,
                             int32_t row_lock,
                             frond_conflict *conflict,
                             frond_error *error);

// Deletes all entries of a row, given by tree and key; values are ignored.
int32_t frond_txn_delete_row(const frond_txn *txn,
                             const frond_entry *entries,
                             size_t count,
                             frond_error *error);

// Releases the locks that the last locking read newly acquired. Meant for a row that turns out not
// to be wanted. Releases the lock on that row (for a cursor, the row that it returned last), and
// that on the index entry that named it (`with_last` of frond_read_options); after
// frond_txn_read_many, the locks on all its rows. Gaps that a cursor has locked stay locked.
int32_t frond_txn_unlock_last(const frond_txn *txn, frond_error *error);

// Returns the current sizes of a tree; nothing is sampled. Reads nothing, except for a tree that
// an earlier version of Frond has written: its nodes are read the first time.
int32_t frond_tree_sizes(const frond_tree *tree, frond_sizes *sizes, frond_error *error);

// Returns the work done on a tree since the store was opened: costs and results of encoding, and
// what was decoded. Costs about forty memory loads. The counters are maintained per block, not per
// row.
int32_t frond_tree_work(const frond_tree *tree, frond_work *work, frond_error *error);

// Takes a snapshot of the current state of the store.
int32_t frond_snapshot_take(const frond_db *db, frond_snapshot **snapshot, frond_error *error);

// Creates a named snapshot of the current state of the store. It exists until frond_snapshot_drop,
// also across restarts, and is synced when this returns. `seqno`, which may be null, receives the
// last commit that it shows.
int32_t frond_snapshot_create(const frond_db *db,
                              const char *name,
                              uint64_t *seqno,
                              frond_error *error);

// Opens a named snapshot.
int32_t frond_snapshot_open(const frond_db *db,
                            const char *name,
                            frond_snapshot **snapshot,
                            frond_error *error);

// Drops a named snapshot. Handles that have it open keep it until they are released.
int32_t frond_snapshot_drop(const frond_db *db, const char *name, frond_error *error);

// Lists the names of all named snapshots, in order.
int32_t frond_snapshots(const frond_db *db, frond_line visit, void *context, frond_error *error);

// Opens a tree by the name that it had in the snapshot, even if it has another name now.
// frond_tree_info returns the attributes that it had there, and if its layout has changed since,
// the handle returns values in the layout that it had there.
int32_t frond_snapshot_tree_open(const frond_snapshot *snapshot,
                                 const char *name,
                                 frond_tree **tree,
                                 frond_error *error);

// Reads a byte range of a value in a snapshot: fills `out` from byte `from` of the value on.
// `count` receives the number of bytes read, fewer than `length` only at the value's end.
// FROND_NOT_FOUND if there is no such key. So a value of any length can be read with little
// memory.
int32_t frond_snapshot_get_at(const frond_snapshot *snapshot,
                              const frond_tree *tree,
                              const void *key,
                              size_t key_length,
                              size_t from,
                              void *out,
                              size_t length,
                              size_t *count,
                              frond_error *error);

// Releases a snapshot. Null is allowed.
void frond_snapshot_free(frond_snapshot *snapshot);

// Returns the last commit that a snapshot shows; 0 if `snapshot` is null.
uint64_t frond_snapshot_seqno(const frond_snapshot *snapshot);

// Reads the value of a key in a snapshot. FROND_NOT_FOUND if there was no such key, FRD-1006 if
// there was no such tree.
int32_t frond_snapshot_get(const frond_snapshot *snapshot,
                           const frond_tree *tree,
                           const void *key,
                           size_t key_length,
                           frond_buffer *value,
                           frond_error *error);

// Opens a cursor over the rows of a snapshot from `from` up to, but not including, `to`. A null
// bound means from the first key, or to the last.
int32_t frond_snapshot_scan(const frond_snapshot *snapshot,
                            const frond_tree *tree,
                            const void *from,
                            size_t from_length,
                            const void *to,
                            size_t to_length,
                            frond_cursor **cursor,
                            frond_error *error);

// Reads the values of many keys as the transaction sees them, all at one snapshot; locks none,
// except at FROND_SERIALIZABLE. `values` has `count` entries, and receives where each value lies
// in `memory`; they are valid until `memory` is used again. Null data means that there is no such
// row.
int32_t frond_txn_get_many(const frond_txn *txn,
                           const frond_tree *tree,
                           const frond_bytes *keys,
                           size_t count,
                           frond_buffer *memory,
                           frond_bytes *values,
                           frond_error *error);

// Reads the values of many keys in a snapshot, like frond_txn_get_many.
int32_t frond_snapshot_get_many(const frond_snapshot *snapshot,
                                const frond_tree *tree,
                                const frond_bytes *keys,
                                size_t count,
                                frond_buffer *memory,
                                frond_bytes *values,
                                frond_error *error);

// Takes the snapshot of the transaction's plain reads now, at the current position in the commit
// order: it includes all commits that have a number, even those that are not visible yet. This
// call does not wait; the first read waits until those commits are visible. A transaction that has
// a snapshot keeps it. FRD-1001 at FROND_READ_COMMITTED and FROND_SERIALIZABLE, whose transactions
// have no snapshot. `seqno`, which may be null, receives the last commit that the snapshot shows.
int32_t frond_txn_take_snapshot(const frond_txn *txn, uint64_t *seqno, frond_error *error);

// Returns the version of the library as text.
const char *frond_version(void);

// Sets the defaults: 256 MiB, FROND_SYNC, create the store if there is none.
void frond_options_init(frond_options *options);

// Sets the defaults: FROND_DEFAULT, not unique, no attributes, no parts.
void frond_tree_options_init(frond_tree_options *options);

// Opens the store in directory `path`. `options` may be null. After a crash this replays the log.
int32_t frond_open(const char *path,
                   const frond_options *options,
                   frond_db **db,
                   frond_error *error);

// Closes the store: all commits become durable, and the next open needs no recovery. The handle is
// released, even after an error. All other handles must still be released; until then, their calls
// fail with FRD-3204, except those of open cursors. Calls of other threads that wait, for locks or
// for memory, fail with FRD-3204 at once, and open transactions are rolled back.
int32_t frond_close(frond_db *db, frond_error *error);

// Makes everything committed so far durable in trees, and returns free disk space to the file
// system.
int32_t frond_checkpoint(const frond_db *db, frond_error *error);

// Opens a tree, or creates it with these options if there is none of that name. FRD-1001 if the
// existing tree has other layouts, or another value of `unique`. `options` may be null.
int32_t frond_tree_ensure(const frond_db *db,
                          const char *name,
                          const frond_tree_options *options,
                          frond_tree **tree,
                          frond_error *error);

// Creates a tree. The tree is synced when this returns; FRD-1005 if there is one of that name.
// `options` may be null.
int32_t frond_tree_create(const frond_db *db,
                          const char *name,
                          const frond_tree_options *options,
                          frond_tree **tree,
                          frond_error *error);

// Opens a tree.
int32_t frond_tree_open(const frond_db *db,
                        const char *name,
                        frond_tree **tree,
                        frond_error *error);

// Releases the handle of a tree. Null is allowed.
void frond_tree_free(frond_tree *tree);

// Drops a tree with all its rows. Waits for transactions that have locked rows of the tree.
int32_t frond_tree_drop(const frond_db *db, const char *name, frond_error *error);

// Renames a tree; handles stay valid.
int32_t frond_tree_rename(const frond_db *db, const char *from, const char *to, frond_error *error);

// Creates a tree with the current content of another one. Copies nothing. Later changes of one do
// not affect the other.
int32_t frond_tree_clone(const frond_db *db,
                         const char *from,
                         const char *to,
                         frond_tree **tree,
                         frond_error *error);

// Returns the number of a tree, which no other tree of the store ever has; 0 if `tree` is null.
uint32_t frond_tree_id(const frond_tree *tree);

// Returns the commit that created the tree (older snapshots do not show the tree), and its
// attributes, which are written to `attributes`. Both may be null.
int32_t frond_tree_info(const frond_tree *tree,
                        uint64_t *birth,
                        frond_buffer *attributes,
                        frond_error *error);

// Lists the names of all trees, in order.
int32_t frond_trees(const frond_db *db, frond_line visit, void *context, frond_error *error);

// Lists all trees, ordered by name, as structs; frond_trees lists only their names. Opens none of
// them.
int32_t frond_each_tree(const frond_db *db,
                        frond_tree_callback visit,
                        void *context,
                        frond_error *error);

// Reports problems that were found when the store was opened. They lost nothing, but need
// attention. Each is one sentence with a code (FRD-2105, FRD-1303, FRD-1304). Usually there are
// none.
int32_t frond_warnings(const frond_db *db, frond_line visit, void *context, frond_error *error);

// Creates a temporary tree, which has no name. It exists at once, and no rollback removes it.
// `options` may be null.
int32_t frond_temporary_create(const frond_db *db,
                               const frond_tree_options *options,
                               frond_temporary **tree,
                               frond_error *error);

// Releases a temporary tree. Its rows are removed with it, or with the last of its cursors. Null
// is allowed.
void frond_temporary_free(frond_temporary *tree);

// Sets a value as part of a transaction: rolling back the transaction, its statement, or to a
// savepoint undoes it.
int32_t frond_temporary_put(const frond_txn *txn,
                            const frond_temporary *tree,
                            const void *key,
                            size_t key_length,
                            const void *value,
                            size_t value_length,
                            frond_error *error);

// Sets the value of a key that must not exist; FRD-1108 if it does.
int32_t frond_temporary_insert(const frond_txn *txn,
                               const frond_temporary *tree,
                               const void *key,
                               size_t key_length,
                               const void *value,
                               size_t value_length,
                               frond_error *error);

// Sets the value of a key that the program knows to be absent; nothing is checked. The row count
// stays exact.
int32_t frond_temporary_put_absent(const frond_txn *txn,
                                   const frond_temporary *tree,
                                   const void *key,
                                   size_t key_length,
                                   const void *value,
                                   size_t value_length,
                                   frond_error *error);

// Folds an operand into a value without reading it, like frond_txn_merge.
int32_t frond_temporary_merge(const frond_txn *txn,
                              const frond_temporary *tree,
                              const void *key,
                              size_t key_length,
                              uint8_t operation,
                              const void *operand,
                              size_t operand_length,
                              frond_error *error);

// Deletes all rows from `from` up to, but not including, `to`. Within a statement, only rows
// written before it are deleted. A null bound means from the first key, or to the last. `rows`,
// which may be null, receives the number of rows. If the call fails, no row was deleted.
int32_t frond_temporary_delete_range(const frond_txn *txn,
                                     const frond_temporary *tree,
                                     const void *from,
                                     size_t from_length,
                                     const void *to,
                                     size_t to_length,
                                     uint64_t *rows,
                                     frond_error *error);

// Deletes a key, if it exists.
int32_t frond_temporary_delete(const frond_txn *txn,
                               const frond_temporary *tree,
                               const void *key,
                               size_t key_length,
                               frond_error *error);

// Reads the value of a key, as written last, into `value`. FROND_NOT_FOUND if there is no such
// key.
int32_t frond_temporary_get(const frond_temporary *tree,
                            const void *key,
                            size_t key_length,
                            frond_buffer *value,
                            frond_error *error);

// Selects parts of the tree's values, like frond_projection_new.
int32_t frond_temporary_projection_new(const frond_temporary *tree,
                                       const size_t *numbers,
                                       size_t count,
                                       frond_projection **projection,
                                       frond_error *error);

// Reads parts of a value, like frond_get_projected.
int32_t frond_temporary_get_projected(const frond_temporary *tree,
                                      const void *key,
                                      size_t key_length,
                                      const frond_projection *projection,
                                      frond_buffer *value,
                                      frond_error *error);

// Reads a byte range of a value, like frond_snapshot_get_at.
int32_t frond_temporary_get_at(const frond_temporary *tree,
                               const void *key,
                               size_t key_length,
                               size_t from,
                               void *out,
                               size_t length,
                               size_t *count,
                               frond_error *error);

// Opens a cursor over the rows from `from` up to, but not including, `to`: as they are now or,
// within a statement of the transaction that writes the tree, as they were when the statement
// started. A null bound means from the first key, or to the last.
int32_t frond_temporary_scan(const frond_temporary *tree,
                             const void *from,
                             size_t from_length,
                             const void *to,
                             size_t to_length,
                             frond_cursor **cursor,
                             frond_error *error);

// Removes all rows. FRD-1001 if a transaction that has written to the tree has not ended.
int32_t frond_temporary_clear(const frond_temporary *tree, frond_error *error);

// Inserts a row, its own entry first: all its entries, or none. Like frond_txn_insert_row, but
// locks nothing.
int32_t frond_temporary_insert_row(const frond_txn *txn,
                                   const frond_temporary_entry *entries,
                                   size_t count,
                                   frond_conflict *conflict,
                                   frond_error *error);

// Reads the values of many keys, as written last, like frond_txn_get_many.
int32_t frond_temporary_get_many(const frond_temporary *tree,
                                 const frond_bytes *keys,
                                 size_t count,
                                 frond_buffer *memory,
                                 frond_bytes *values,
                                 frond_error *error);

// Reserves `count` numbers from one of the tree's counters, 0 to 3. The first of them is at least
// `least`, and is returned in `first`. A rollback does not release the numbers.
int32_t frond_temporary_reserve(const frond_temporary *tree,
                                uint32_t counter,
                                uint64_t least,
                                uint64_t count,
                                uint64_t *first,
                                frond_error *error);

// Returns the next number of a counter, without reserving it.
int32_t frond_temporary_next_number(const frond_temporary *tree,
                                    uint32_t counter,
                                    uint64_t *next,
                                    frond_error *error);

// Returns the number of rows. `exact`, which may be null, receives whether they were counted. If
// not, the number is an estimate, because something was put or deleted without knowing whether it
// existed.
int32_t frond_temporary_row_count(const frond_temporary *tree,
                                  uint64_t *rows,
                                  bool *exact,
                                  frond_error *error);

// Estimates how many rows there are from `from` up to, but not including, `to`, and how many bytes
// they take. Returns 0 rows only if there are none. A null bound means from the first key, or to
// the last. `data_bytes` may be null.
int32_t frond_temporary_estimate(const frond_temporary *tree,
                                 const void *from,
                                 size_t from_length,
                                 const void *to,
                                 size_t to_length,
                                 uint64_t *rows,
                                 uint64_t *data_bytes,
                                 frond_error *error);

// Counts the rows from `from` up to, but not including, `to` that a scan would find. A null bound
// means from the first key, or to the last.
int32_t frond_temporary_count(const frond_temporary *tree,
                              const void *from,
                              size_t from_length,
                              const void *to,
                              size_t to_length,
                              uint64_t *rows,
                              frond_error *error);

// Reads the value of a key into `value`. FROND_NOT_FOUND if there is no such key.
int32_t frond_get(const frond_tree *tree,
                  const void *key,
                  size_t key_length,
                  frond_buffer *value,
                  frond_error *error);

// Sets a value in a commit of its own, at the store's durability. Like a batch, it waits for
// transactions that have locked the row, those of its own session included, for at most ten
// seconds. Within a transaction, use frond_txn_put_autonomous to set the numbers of sequences.
int32_t frond_put(const frond_tree *tree,
                  const void *key,
                  size_t key_length,
                  const void *value,
                  size_t value_length,
                  frond_error *error);

// Deletes a key, if it exists, at the store's durability.
int32_t frond_delete(const frond_tree *tree,
                     const void *key,
                     size_t key_length,
                     frond_error *error);

// Sets the defaults: FROND_SNAPSHOT, ten seconds, FROND_AS_STORE.
void frond_txn_options_init(frond_txn_options *options);

// Begins a transaction. `options` may be null.
int32_t frond_txn_begin(const frond_db *db,
                        const frond_txn_options *wanted,
                        frond_txn **txn,
                        frond_error *error);

// Commits a transaction: makes everything that it has written visible to others atomically.
// `seqno`, which may be null, receives the number of the commit.
//
// The handle is released, unless the transaction has cursors (FRD-1001). After any other error the
// transaction is rolled back. The exception is FRD-3203 (and FRD-3202 after it): the store has
// stopped, and others may have seen the commit; open the store again and check whether it is
// there.
int32_t frond_txn_commit(frond_txn *txn, uint64_t *seqno, frond_error *error);

// Rolls back a transaction. The handle is released, unless the transaction has cursors (FRD-1001).
int32_t frond_txn_rollback(frond_txn *txn, frond_error *error);

// Returns the number of the transaction, which identifies it in reports of waits and deadlocks; 0
// if `txn` is null.
uint64_t frond_txn_id(const frond_txn *txn);

// Returns whether an error has ended the transaction: a deadlock (FRD-1102), a conflict
// (FRD-1107), or an error that left its writes incomplete (a full disk, FRD-1301, may or may not
// do so). Such a transaction is rolled back, its locks are released, and its calls fail with
// FRD-1109; release the handle with frond_txn_rollback, as usual. After any other error the
// transaction continues. True if `txn` is null, and once the store is closed.
bool frond_txn_is_over(const frond_txn *txn);

// Sets how long each later call waits for locks in total, in milliseconds. 0: a call that would
// have to wait fails with FRD-1101 at once; below 0: no limit. Overrides `lock_timeout_ms` of the
// transaction's options, for statements that set their own timeouts. A read with its own `wait_ms`
// uses that instead. frond_txn_delete_range may wait this long for each row.
int32_t frond_txn_set_lock_timeout(const frond_txn *txn,
                                   int64_t lock_timeout_ms,
                                   frond_error *error);

// Reads the value of a key, as the transaction sees it, into `value`. FROND_NOT_FOUND if there is
// no such key; if a lock was requested with `row_lock`, the absent key is locked all the same. A
// read with a lock sees the newest commit. At FROND_SERIALIZABLE, FROND_NO_LOCK means
// FROND_SHARED.
int32_t frond_txn_get(const frond_txn *txn,
                      const frond_tree *tree,
                      const void *key,
                      size_t key_length,
                      int32_t row_lock,
                      int32_t when_locked,
                      frond_buffer *value,
                      frond_error *error);

// Sets a value, whether the key exists or not. The row is locked until the transaction ends.
int32_t frond_txn_put(const frond_txn *txn,
                      const frond_tree *tree,
                      const void *key,
                      size_t key_length,
                      const void *value,
                      size_t value_length,
                      frond_error *error);

// Sets the value of a key that must not exist. FRD-1108 if it does; the transaction continues.
int32_t frond_txn_insert(const frond_txn *txn,
                         const frond_tree *tree,
                         const void *key,
                         size_t key_length,
                         const void *value,
                         size_t value_length,
                         frond_error *error);

// Sets the value of a key that the caller knows to be absent, without looking it up: for example,
// of a row whose number was just reserved. If the key does exist, a later delete may bring the
// older value back.
int32_t frond_txn_put_absent(const frond_txn *txn,
                             const frond_tree *tree,
                             const void *key,
                             size_t key_length,
                             const void *value,
                             size_t value_length,
                             frond_error *error);

// Deletes a key, if it exists.
int32_t frond_txn_delete(const frond_txn *txn,
                         const frond_tree *tree,
                         const void *key,
                         size_t key_length,
                         frond_error *error);

// Deletes all rows from `from` up to, but not including, `to`, including those that the
// transaction wrote before the statement. Null with length 0 means no bound. `rows`, which may be
// null, receives the number of rows. If the call fails, no row was deleted.
//
// Each row is locked as by frond_txn_delete; at FROND_REPEATABLE_READ and FROND_SERIALIZABLE the
// gaps between the rows are locked, too. At FROND_SNAPSHOT, a row that others have changed or
// deleted since the snapshot causes FRD-1107. The call costs as much as deleting the rows one by
// one. Outside transactions, frond_batch_delete_range costs no more than deleting one row; to
// delete all rows of a tree, use frond_change_truncate.
int32_t frond_txn_delete_range(const frond_txn *txn,
                               const frond_tree *tree,
                               const void *from,
                               size_t from_length,
                               const void *to,
                               size_t to_length,
                               uint64_t *rows,
                               frond_error *error);

// Sets the value of an existing row in a commit of its own, within the transaction: others see it
// at once, it has the durability of the transaction, and no rollback undoes it. Meant for the next
// number of a sequence. FROND_NOT_FOUND if there is no such row: nothing was done; create the row
// with frond_put first. `seqno`, which may be null, receives the number of the commit.
//
// The call neither waits for nor affects transactions that have only read the row under a shared
// lock. In particular, it does not wait for its own transaction at FROND_SERIALIZABLE. It does
// wait for exclusive holders and writers, like any call of the transaction: deadlocks are
// detected, and an interrupt ends it. The row is not locked afterwards.
//
// An existing snapshot still shows the old value. At FROND_SNAPSHOT, a transaction that has a
// snapshot and then writes the row itself, including this transaction, gets FRD-1107. FRD-1001 if
// the transaction has written the row before, or is read-only: use another transaction in that
// case.
int32_t frond_txn_put_autonomous(const frond_txn *txn,
                                 const frond_tree *tree,
                                 const void *key,
                                 size_t key_length,
                                 const void *value,
                                 size_t value_length,
                                 uint64_t *seqno,
                                 frond_error *error);

// Folds an operand into a value without reading it. `operation` is FROND_ADD, …, or the number of
// a user-defined operator (frond_operator).
int32_t frond_txn_merge(const frond_txn *txn,
                        const frond_tree *tree,
                        const void *key,
                        size_t key_length,
                        uint8_t operation,
                        const void *operand,
                        size_t operand_length,
                        frond_error *error);

// Starts a statement, which ends where the next one starts. A statement can be rolled back as a
// whole. Of the transaction's own writes, scans that start in a statement see only those from
// before it, so a statement never meets its own writes. Reads of single rows see all writes.
int32_t frond_txn_begin_statement(const frond_txn *txn, frond_error *error);

// Starts a statement inside the current one, such as a statement of a function or a trigger. Scans
// that start in it see what the transaction had written before it. frond_txn_rollback_statement
// still rolls back the outer statement with everything inside it, and at FROND_READ_COMMITTED
// plain reads keep the outer statement's snapshot. Substatements nest; end each with
// frond_txn_end_substatement. FRD-1001 outside of a statement.
int32_t frond_txn_begin_substatement(const frond_txn *txn, frond_error *error);

// Ends the innermost substatement: scans that start from now on see what those of the enclosing
// statement see. FRD-1001 if there is none, also after the outer statement has ended or was rolled
// back.
int32_t frond_txn_end_substatement(const frond_txn *txn, frond_error *error);

// Releases the snapshot of a statement's plain reads at FROND_READ_COMMITTED. Meant for sessions
// that stay idle within a transaction, since the store must keep what others change for as long as
// the snapshot exists. Open scans continue, and the statement can still be rolled back.
int32_t frond_txn_end_statement(const frond_txn *txn, frond_error *error);

// Rolls back what was written since the statement started, and discards savepoints that were set
// in it. Costs time proportional to what is rolled back. Rows stay locked.
int32_t frond_txn_rollback_statement(const frond_txn *txn, frond_error *error);

// Sets a savepoint to roll back to; `number` receives its number. Savepoints nest.
int32_t frond_txn_savepoint(frond_txn *txn, uint64_t *number, frond_error *error);

// Rolls back what was written since a savepoint; the savepoint stays. Costs time proportional to
// what is rolled back. Rows stay locked.
int32_t frond_txn_rollback_to(frond_txn *txn, uint64_t number, frond_error *error);

// Discards a savepoint, and those set after it; what was written stays.
int32_t frond_txn_release(frond_txn *txn, uint64_t number, frond_error *error);

// Returns the interrupter of a transaction, with which another thread can cancel its calls. Get it
// before calls that wait.
int32_t frond_txn_interrupter(const frond_txn *txn,
                              frond_interrupter **interrupter,
                              frond_error *error);

// Interrupts a transaction: its current call ends with FRD-1106 if it waits or scans rows, and so
// do all later calls until frond_txn_clear_interrupt. Other operations that the interrupter was
// set on (frond_cursor_set_interrupter and others) end likewise. The call never waits; it does
// nothing if the transaction is over. Null is allowed.
void frond_interrupt(const frond_interrupter *interrupter);

// Sets an interrupter that belongs to no transaction (frond_interrupter_new) on this transaction,
// until the transaction ends. Meant for a session, which calls this for each of its transactions
// in turn; the interrupter cancels only the last of them. If the interrupter has an interrupt that
// was not cleared, the transaction is interrupted at once; frond_interrupter_clear lets it
// continue.
int32_t frond_txn_set_interrupter(const frond_txn *txn,
                                  const frond_interrupter *interrupter,
                                  frond_error *error);

// Releases an interrupter. Null is allowed.
void frond_interrupter_free(frond_interrupter *interrupter);

// Clears the interrupt of a transaction, so that its calls work again.
int32_t frond_txn_clear_interrupt(const frond_txn *txn, frond_error *error);

// Returns the number of the transaction; 0 if `party` is null.
uint64_t frond_party_id(const frond_party *party);

// Returns the tag of the transaction.
uint64_t frond_party_tag(const frond_party *party);

// Interrupts the transaction, as frond_interrupt does.
void frond_party_interrupt(const frond_party *party);

// Calls `done` with `cookie`, on a thread of the store, once every commit sequenced so far is
// durable: within one second, and at the latest before frond_close returns. It is never called if
// the store has stopped. `done` must not call the library.
int32_t frond_when_synced(const frond_db *db, frond_synced done, void *cookie, frond_error *error);

// Reports the current holders of locks or snapshots, one line each, longest first: how long they
// have held them, how much they have written, and the commit whose state they read. Includes
// snapshots that belong to no transaction. A transaction that holds neither, because it has done
// nothing yet or is between two statements at FROND_READ_COMMITTED, is not reported.
int32_t frond_transactions(const frond_db *db, frond_line visit, void *context, frond_error *error);

// Reports the calls that currently wait for locks, one line each: the waiter, the tree, the start
// of the key (in quotes), and the holder. Other waits are not reported: waits of a transaction,
// before its first lock, for batches that are being committed; waits for background work that
// cannot keep up; and waits for space in memory, in the log or on disk.
int32_t frond_lock_waits(const frond_db *db, frond_line visit, void *context, frond_error *error);

// Describes the last deadlock in words, with the names of trees and the starts of keys.
// FROND_NOT_FOUND if there was none.
int32_t frond_last_deadlock(const frond_db *db, frond_buffer *words, frond_error *error);

// Returns one of the numbers that `frond stats` prints: counters and sizes. FROND_NOT_FOUND if
// there is no such name.
int32_t frond_stat(const frond_db *db, const char *name, uint64_t *value, frond_error *error);

// Reports all numbers that `frond stats` prints, in a fixed order.
int32_t frond_stats(const frond_db *db, frond_number visit, void *context, frond_error *error);

// Returns latencies since the store was opened; `what` is FROND_COMMITS, …. `count` receives the
// number of operations that were timed. `nanos` receives a quantile of their durations: the time
// that `per_mille` of every thousand did not exceed, overstated by at most an eighth. 500 asks for
// the median, 1000 for the longest. Both may be null.
int32_t frond_times(const frond_db *db,
                    int32_t what,
                    uint32_t per_mille,
                    uint64_t *count,
                    uint64_t *nanos,
                    frond_error *error);

// Locks a whole tree until the transaction ends. Rolling back a statement or to a savepoint does
// not release the lock, and a prepared transaction keeps it. `mode` is FROND_TREE_SHARED, ….
// `when_locked` is FROND_WAIT, or FROND_NO_WAIT for FRD-1105 if another transaction holds a
// conflicting lock. Plain reads are not affected.
int32_t frond_txn_lock_tree(const frond_txn *txn,
                            const frond_tree *tree,
                            int32_t mode,
                            int32_t when_locked,
                            frond_error *error);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FROND_H */
