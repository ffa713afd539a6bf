/*
 * Frond: a storage engine for data beyond memory and writes beyond a B-tree. docs/c-api.md has the story.
 *
 * Every call returns FROND_OK, FROND_NOT_FOUND, or the number of an error's code (docs/errors.md); an error is
 * described in the caller's struct, if he gives one. Strings are pointers with lengths and may hold any bytes,
 * names are text that ends with a zero byte. A null pointer where none may be is FRD-1001.
 *
 * FRD-1001 says that the call itself is wrong: nothing was done, and no handle was given back.
 *
 * Functions of the caller's that are called back (lists of names, of waits) must return: they neither throw nor
 * jump. They may call the library.
 *
 * Handles are given out by address and given back once, in any order, but that a transaction does not end while it has
 * cursors; those of stores, trees, temporary trees, snapshots, parts, interrupters and progresses may be used by all
 * threads at once, those of transactions, what is prepared, cursors, batches, loads, builds and changes of trees by one
 * at a time. Made from the sources of crates/frond-c: change those, and run the test `header` with FROND_WRITE_HEADER=1.
 */


#ifndef FROND_H
#define FROND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The call has done what it says.
#define FROND_OK 0

// There is no such row, or no further one. No error.
#define FROND_NOT_FOUND 1

// The library has failed in itself: close the store, and report it. Nothing else is safe to be called.
#define FROND_PANIC 9001

// An error of kind: try the operation again.
#define FROND_RETRY 1

// An error of kind: change the call.
#define FROND_FIX_CALL 2

// An error of kind: mend the machine (disk full, I/O error, in use by another process).
#define FROND_FIX_MACHINE 3

// An error of kind: restore from a backup or a replica.
#define FROND_RESTORE 4

// An error of kind: the store has stopped; close it and open it again.
#define FROND_REOPEN 5

// Bytes of an error's message, with its end.
#define FROND_MESSAGE_BYTES 504

// Bytes of the name of a tree in an error, with its end: names have up to 512.
#define FROND_NAME_BYTES 520

// Bytes of a key that an error holds.
#define FROND_KEY_BYTES 256

// What is locked is a row.
#define FROND_ON_ROW 1

// What is waited for is leave to insert a row where others have locked the gap; what is locked is a gap.
#define FROND_ON_GAP 2

// What is locked is a tree as a whole.
#define FROND_ON_TREE 3

// A part: `width` bytes, big-endian.
#define FROND_PART_FIXED 1

// A part: what is left; the last one only.
#define FROND_PART_REST 2

// A part of keys: ends with 00 01; a 00 of the content is 00 FF.
#define FROND_PART_ESCAPED 3

// A part of keys, descending: ends with FF FE; the content is complemented, and an FF in it is FF 00.
#define FROND_PART_ESCAPED_DESCENDING 4

// A part of values: its LEB128 length stands before it.
#define FROND_PART_PREFIXED 5

// A part of values, the first one only: the version of their layout, two bytes, big-endian, in all values the same. `width` is the
// version: 0 in a new tree. Such a layout can be changed: frond_tree_change_layout.
#define FROND_PART_VERSION 6

// Nothing is known of a fixed part.
#define FROND_HINT_NONE 0

// It is an integer, its sign bit flipped.
#define FROND_HINT_INTEGER 1

// It is a float in order-preserving form.
#define FROND_HINT_FLOAT 2

// It is microseconds.
#define FROND_HINT_MICROSECONDS 3

// Longest name of a prepared transaction, bytes.
#define FROND_XID_BYTES_MAX 255

// A read without a lock sees what the transaction's level shows.
#define FROND_AS_LEVEL 0

// A read without a lock sees the newest commit, whatever snapshot the transaction has.
#define FROND_NEWEST 1

// A wait that lasts until it is granted, or ended by a deadlock or an interrupt.
#define FROND_FOREVER 9223372036854775807

// A commit is acknowledged once it is synced: nothing acknowledged is ever lost.
#define FROND_SYNC 1

// Once the kernel has it: a killed process loses nothing, a power failure at most the last second.
#define FROND_OS 2

// Once it is in the log's buffer: a killed process loses at most a second, a power failure two.
#define FROND_LAZY 3

// As the store's own level says; for transactions alone.
#define FROND_AS_STORE 0

// LZ4 leaves: speed before size.
#define FROND_FAST 1

// zstd leaves; what a tree has that is told nothing.
#define FROND_DEFAULT 2

// zstd leaves of a higher level, and dictionaries: size before speed.
#define FROND_SMALL 3

// Each call sees what was committed when it began; after frond_txn_begin_statement all plain reads of the statement see what
// was committed when the first of them began.
#define FROND_READ_COMMITTED 1

// Plain reads see what was committed when the first of them began; writes and locking reads the newest commit.
#define FROND_REPEATABLE_READ 2

// The same, and of two transactions that write one row the second fails with FRD-1107. What is usual.
#define FROND_SNAPSHOT 3

// As FROND_REPEATABLE_READ, and each plain read locks what it reads.
#define FROND_SERIALIZABLE 4

// A read locks nothing.
#define FROND_NO_LOCK 0

// A read locks the row against writers.
#define FROND_SHARED 1

// A read locks the row against all but plain reads.
#define FROND_EXCLUSIVE 2

// Where another has the row: wait, as long as the transaction's options say.
#define FROND_WAIT 0

// Where another has the row: fail with FRD-1105 at once.
#define FROND_FAIL 1

// Where another has the row: a scan goes on behind it; a read of one row fails.
#define FROND_SKIP 2

// Where another has the row: it is read as it was last committed, without a lock, and that is said of it (`locked`). Calls that
// cannot say so wait, and all do at FROND_SERIALIZABLE.
#define FROND_LAST_COMMIT 3

// Adds to an integer of 8 bytes, big-endian, wrapping. A value of another length counts as 0, and so does no value.
#define FROND_ADD 1

// The greater of two values, as strings of bytes.
#define FROND_MAX 2

// The lesser of two values, as strings of bytes.
#define FROND_MIN 3

// Appends to a value.
#define FROND_APPEND 4

// Commits, from the call to its return. Where commits wait for no disk, about one in sixteen is timed.
#define FROND_COMMITS 1

// How long commits waited for a sync of the log, of those that did.
#define FROND_SYNC_WAITS 2

// How long calls waited for locks, of those that did.
#define FROND_LOCK_WAITS 3

// Rows of the tree will be locked shared: what every locking read says by itself. Against FROND_TREE_EXCLUSIVE.
#define FROND_TREE_INTENT_SHARED 1

// Rows of it will be locked exclusively, or written: what every write says by itself. Against FROND_TREE_SHARED, too.
#define FROND_TREE_INTENT_EXCLUSIVE 2

// Nobody else writes it.
#define FROND_TREE_SHARED 3

// Nobody else writes it, nor reads it under locks.
#define FROND_TREE_EXCLUSIVE 4

// FROND_TREE_SHARED and FROND_TREE_INTENT_EXCLUSIVE at once: told of who has asked for both, never asked for.
#define FROND_TREE_SHARED_INTENT_EXCLUSIVE 5

// Writes that are committed together, in the order in which they were added. Of one thread at a time, not always the same.
typedef struct frond_batch frond_batch;

// A walk over the rows of a tree in a range, in both directions.
typedef struct frond_cursor frond_cursor;

// An open store.
typedef struct frond_db frond_db;

// A build of indexes on its way, of one thread at a time. Given back, it is given up, unless it was published.
typedef struct frond_index_build frond_index_build;

// Stops one transaction, or all work that it was set on, from any thread; it may outlive these.
typedef struct frond_interrupter frond_interrupter;

// Loads rows in any order into a tree that it creates, or that is empty, in a commit of its own. Of one thread at a time, not always the same;
// loads beside each other, and what they heed and their progress, are anybody's.
typedef struct frond_load frond_load;

// Parts of a tree's values that reads are to give; made once, for any number of reads.
typedef struct frond_parts frond_parts;

// A transaction that a lock is about. Good for the call that is told of it.
typedef struct frond_party frond_party;

// A transaction that is prepared, in this session's hands.
typedef struct frond_prepared frond_prepared;

// Says how far long work is: to any thread, also while the work goes on and after it. To be given back by frond_progress_free.
typedef struct frond_progress frond_progress;

// One moment of the store: what is read of it stays the same.
typedef struct frond_snapshot frond_snapshot;

// A temporary tree: its rows are written as part of a session's transactions, seen by nobody else, and gone with it. One
// transaction at a time writes it; reads see what was last written.
typedef struct frond_temporary frond_temporary;

// A tree of an open store.
typedef struct frond_tree frond_tree;

// Changes of trees on their way to be one commit: steps are added in their order, then frond_change_commit makes them. A step names
// its tree by number (0: by its name alone), by name (null: by its number alone), or by both: then the tree must have that name.
typedef struct frond_tree_change frond_tree_change;

// A transaction. Ends with frond_txn_commit, frond_txn_prepare or frond_txn_rollback, once its cursors are given back.
typedef struct frond_txn frond_txn;

// What went wrong. Given to a call by address, or not at all (null); written only if the call fails.
typedef struct {
  // The number of the code: 1107 is FRD-1107. docs/errors.md explains each.
  int32_t code;
  // What to do about it: FROND_RETRY, FROND_FIX_CALL, …
  int32_t kind;
  // In words, UTF-8, ends with a zero byte; cut off if it is too long.
  char message[FROND_MESSAGE_BYTES];
  // The name of the tree that it is about, ends with a zero byte; empty if it is about none.
  char tree[FROND_NAME_BYTES];
  // Which entry of a batch, or step of a change of trees, it is about, from 0; -1 if it is about none.
  int64_t entry;
  // It is about a row whose key is known: one that is locked, in conflict, there already, or twice. Else key_length is 0.
  bool has_key;
  // Length of that key, bytes; it may be more than `key` holds.
  size_t key_length;
  // So many of its first bytes are in `key`: up to FROND_KEY_BYTES; of one that was waited for, up to 64.
  size_t key_held;
  // These, and zeros.
  uint8_t key[FROND_KEY_BYTES];
} frond_error;

// A part of keys or values.
typedef struct {
  // FROND_PART_FIXED, …
  int32_t kind;
  // Of a fixed one: how many bytes. Of the version: which one.
  uint16_t width;
  // Of a fixed one: FROND_HINT_INTEGER, … . How it is kept depends on it, never what it means.
  int32_t hint;
} frond_part;

// What a new tree is to be like. Filled by frond_tree_options_init, then changed.
typedef struct {
  // FROND_FAST, FROND_DEFAULT, FROND_SMALL.
  int32_t size_class;
  // Keys are mostly inserted with a check that they are absent.
  bool unique;
  // Bytes that are kept with the tree, up to 1 MiB; may be null.
  const uint8_t *attributes;
  // How many.
  size_t attributes_length;
  // The parts of keys, and of values, or none of both (null): rows are then kept by part, each in the form that takes least.
  // Copied by the call that they are given to.
  const frond_part *key_parts;
  // How many.
  size_t key_parts_count;
  // Those of values.
  const frond_part *value_parts;
  // How many.
  size_t value_parts_count;
} frond_tree_options;

// Is told a row: its key and its value, which are good for as long as the call lasts.
typedef void (*frond_row_told)(void *context,
                               const uint8_t *key,
                               size_t key_length,
                               const uint8_t *value,
                               size_t value_length);

// A row that differs between two moments; it lies in the build's memory until frond_index_build_next is called again.
typedef struct {
  // Its key.
  const uint8_t *key;
  // Bytes of it.
  size_t key_length;
  // What the indexes have of it: the row as it was; null if it was not there.
  const uint8_t *before;
  // Bytes of it.
  size_t before_length;
  // What they are to have: the row as it is; null if it is not there.
  const uint8_t *after;
  // Bytes of it.
  size_t after_length;
} frond_row_changed;

// Memory of the library's that a value is put into. Begin with all fields 0; it may be used for any number of calls,
// which use its memory again (also one whose key lies in it), and is given back by frond_buffer_free. Written to by the library alone.
typedef struct {
  // The bytes; null if there were never any.
  uint8_t *data;
  // How many.
  size_t length;
  // For how many there is memory.
  size_t capacity;
} frond_buffer;

// How a change is made. Filled by frond_change_options_init, then changed.
typedef struct {
  // The change may have been made before, and later ones, too: a step is passed over whose outcome is there, or whose tree is
  // gone or has another name than the step says. A swap then needs numbers and names, a truncation the number; a tree counts
  // as created if one of that name has the same options: give it attributes that no other has; a clone as made if that name
  // is a clone of the same tree. One that was created or cloned so, and renamed or dropped later, cannot be told from one that
  // never was, and is made again: a log that goes on behind creations is to be repeated from its last entry on.
  bool repeatable;
  // How long the commit waits for transactions that have rows of trees that go, milliseconds; below 0: until they have ended.
  int64_t lock_timeout_ms;
} frond_change_options;

// A part of values as they are to be: one that they have, or a new one.
typedef struct {
  // The number of the part that it is now, from 1: part 0, the version, comes by itself. 0: it is a new part.
  size_t keep;
  // Of a new one: what it is.
  frond_part part;
  // Of a new one: what all values of before have there, as it stands in a value (one with its length before it, with that).
  const uint8_t *data;
  // How many bytes that are.
  size_t length;
} frond_new_part;

// How a read goes. Filled by frond_read_options_init, then changed.
typedef struct {
  // What it sees, if it locks nothing: FROND_AS_LEVEL, FROND_NEWEST. With a lock it is always the newest.
  int32_t sees;
  // How it locks each row: FROND_NO_LOCK, FROND_SHARED, FROND_EXCLUSIVE. At FROND_SERIALIZABLE, FROND_NO_LOCK is FROND_SHARED.
  int32_t row_lock;
  // What it does if another has the row: FROND_WAIT, FROND_FAIL, FROND_SKIP, FROND_LAST_COMMIT.
  int32_t when_locked;
  // What it locks belongs to what the last locking read has locked, and frond_txn_unlock_last gives both back: for the row that
  // an index's entry names.
  bool with_last;
  // How long it waits for locks, all of the call together, in milliseconds; FROND_FOREVER; below 0: as long as the options of
  // the transaction say.
  int64_t wait_ms;
  // The parts of values that it gives; null: whole values. Looked at by the call alone.
  const frond_parts *parts;
  // To be 0.
  uint64_t reserved[4];
} frond_read_options;

// A row of a batch.
typedef struct {
  // Its key.
  const uint8_t *key;
  // Bytes of it.
  size_t key_length;
  // Its value.
  const uint8_t *value;
  // Bytes of it.
  size_t value_length;
  // The cursor has locked it: not so if it locks nothing, or met another's lock and read what was last committed
  // (FROND_LAST_COMMIT).
  bool locked;
} frond_row;

// A batch of rows, which the cursor keeps until it is called again.
typedef struct {
  // The first of them.
  const frond_row *rows;
  // How many.
  size_t count;
} frond_rows;

// What a progress says at a moment; numbers only grow.
typedef struct {
  // Rows that were put into a load; of a build, into all of its indexes.
  uint64_t rows;
  // Rows that went through a sort or a merge beyond memory, as often as they did.
  uint64_t sorted;
  // So many of these are known to be done in all, from the begin of a load's end on.
  uint64_t to_sort;
  // Rows that are in the new trees, of `rows`, from the begin of a load's end on.
  uint64_t written;
  // Rounds of a build that have come to their end.
  uint64_t rounds;
  // Rows that they have given.
  uint64_t changes;
  // Bytes of the file that a check has read.
  uint64_t checked_bytes;
  // Of about so many in all.
  uint64_t to_check_bytes;
} frond_progress_counts;

// Is told a line of text of `length` bytes, which ends with a zero byte besides.
typedef void (*frond_line)(void *context, const char *text, size_t length);

// The begin of a key; good for the call that is told of it.
typedef struct {
  // There is a key, and it is known.
  bool is_known;
  // Its first bytes, up to 64; null if it is not known.
  const uint8_t *data;
  // How many.
  size_t held;
  // Length of the whole key.
  size_t length;
} frond_key_start;

// What is locked, or waited for.
typedef struct {
  // FROND_ON_ROW, FROND_ON_GAP, FROND_ON_TREE.
  int32_t on;
  // Of a row or a gap FROND_SHARED, FROND_EXCLUSIVE; of a tree FROND_TREE_SHARED, …
  int32_t mode;
  // The number of the tree.
  uint32_t tree;
  // Its name, ends with a zero byte; empty if it is gone.
  const char *tree_name;
  // 16 bytes that stand for the key, of a row: equal only if the keys are.
  uint8_t key_hash[16];
  // The begin of the key, of a row, or of one that waits for a gap.
  frond_key_start key;
} frond_locked;

// Somebody who waits for a lock.
typedef struct {
  // The number of the transaction (frond_txn_id).
  uint64_t waiter;
  // The tag that it was begun with.
  uint64_t tag;
  // The numbers of those it waits for: who holds the lock, or came first.
  const uint64_t *holders;
  // Their tags, in the same order.
  const uint64_t *holder_tags;
  // How many.
  size_t holders_count;
  // For what it waits.
  frond_locked lock;
  // Since when, nanoseconds by the store's clock, which begins anew when a store is opened.
  uint64_t since_nanos;
  // For how long.
  uint64_t lasts_nanos;
} frond_wait;

// Is told of a wait, which is good for as long as the call lasts.
typedef void (*frond_wait_told)(void *context, const frond_wait *wait);

// One transaction of a circle of waits; it waited for the next one that is told, the last for the first.
typedef struct {
  // Its number.
  uint64_t id;
  // The tag that it was begun with.
  uint64_t tag;
  // About how many entries it had written.
  uint64_t writes;
  // It was ended.
  bool is_victim;
  // For what it waited.
  frond_locked lock;
  // For how long it had.
  uint64_t waited_nanos;
} frond_deadlocked;

// Is told of one of a circle of waits, which is good for as long as the call lasts.
typedef void (*frond_deadlocked_told)(void *context, const frond_deadlocked *one);

// A transaction that holds locks or a snapshot, a batch that holds locks, or a snapshot that is no transaction's.
typedef struct {
  // Its number; 0 for a snapshot that is no transaction's.
  uint64_t id;
  // The tag that it was begun with; 0 for a batch, a snapshot, and what was prepared before the store was opened.
  uint64_t tag;
  // About how many entries it has written.
  uint64_t writes;
  // For how long it has held locks, nanoseconds; -1 if it holds none.
  int64_t locks_nanos;
  // For how long it has held a snapshot; -1 if it holds none.
  int64_t snapshot_nanos;
  // The last commit that its reads see; 0 if it has no snapshot.
  uint64_t snapshot_seqno;
  // It waits for a lock.
  bool waits;
} frond_live;

// Is told of a live transaction, which is good for as long as the call lasts.
typedef void (*frond_live_told)(void *context, const frond_live *live);

// A lock that is held.
typedef struct {
  // The number of the transaction that holds it.
  uint64_t owner;
  // The tag that it was begun with.
  uint64_t tag;
  // What is locked. The key of a row is told if its transaction has written it lately, or if another waits for it.
  frond_locked lock;
  // Of a gap: the begin of the key where it begins; not known if it begins before all keys.
  frond_key_start from;
  // Of a gap: the begin of the key where it ends; not known if it ends behind all keys.
  frond_key_start to;
  // Of a gap: it begins at `from`, not behind it.
  bool with_from;
  // Of a gap: it ends at `to`, not before it.
  bool with_to;
} frond_held;

// Is told of a lock that is held, which is good for as long as the call lasts.
typedef void (*frond_held_told)(void *context, const frond_held *held);

// Is told a transaction that is prepared: its name, the rows that it writes, and whether nobody has it in hand.
typedef void (*frond_prepared_line)(void *context,
                                    const uint8_t *xid,
                                    size_t xid_length,
                                    size_t rows,
                                    bool is_detached);

// Bytes that lie elsewhere.
typedef struct {
  // The first of them; null: there are none, not even an empty string.
  const uint8_t *data;
  // How many.
  size_t length;
} frond_bytes;

// One entry of a row: its own, or one in an index.
typedef struct {
  // Where: the table's tree, or an index's.
  const frond_tree *tree;
  // Its key.
  const uint8_t *key;
  // Bytes of it.
  size_t key_length;
  // Its value; may be null if it has no bytes.
  const uint8_t *value;
  // Bytes of it.
  size_t value_length;
  // Nobody else may have the key.
  bool unique;
  // For frond_txn_insert_row: the program knows that the key is absent, and it is not looked for. It holds a number that only
  // frond_tree_reserve gives out, say; a number that others may also insert of their own choice will not do, even if it was just
  // reserved. If this is the row's own entry, its entries that are not unique count as absent, too. If the key does exist,
  // a later deletion may bring the older value back, and rows are counted wrong.
  bool absent;
} frond_entry;

// What is in the way of a row: one of its unique entries is there already. That entry is locked, as the call was told to, and it
// alone: of an index, not the row that it names. Who goes on with that row (ON DUPLICATE KEY UPDATE, REPLACE) reads the row by the key that
// the entry holds with a lock of its own (frond_txn_read; `with_last`, if it may be given back with the entry), and looks whether
// it still has that entry: it may have gone or changed before it was locked.
typedef struct {
  // Which entry it is, from 0; -1 if nothing is in the way.
  int64_t index;
  // The value that is there: of an index, it says whose it is.
  frond_buffer value;
} frond_conflict;

// How one entry of a row changes.
typedef struct {
  // The entry from now on. Not looked at but for its tree if the entry goes.
  frond_entry entry;
  // It had a key before; else the entry is new.
  bool has_old;
  // It has one from now on; else the entry goes.
  bool has_new;
  // The key that it had.
  const uint8_t *old;
  // Bytes of it.
  size_t old_length;
} frond_change;

// What a tree takes. Leaves hold each key once; a row that was deleted or written anew stays in its leaf until what waits
// above reaches it.
typedef struct {
  // Rows, as frond_tree_row_count tells them.
  uint64_t rows;
  // They were counted.
  bool rows_exact;
  // Rows of leaves.
  uint64_t leaf_rows;
  // Leaves.
  uint64_t leaves;
  // Bytes of the rows of leaves, keys and values, before they were encoded. Of a tree without layouts those of its blocks before
  // their codec.
  uint64_t raw_bytes;
  // What these rows take as they are encoded.
  uint64_t encoded_bytes;
  // What leaves take on the disk: encoded rows, indexes, filters, padding to pages, and `blob_bytes`. Pages that a clone shares
  // with its parent count for both.
  uint64_t disk_bytes;
  // What values of more than 64 KiB take on the disk. Not in `raw_bytes` and `encoded_bytes`.
  uint64_t blob_bytes;
  // Bytes that wait in nodes on their way to leaves, encoded without a general codec; an upper estimate.
  uint64_t buffered_bytes;
  // Bytes of rows in memory that no page has yet; of what large transactions wrote to disk ahead, too.
  uint64_t memory_bytes;
  // Levels of pages, leaves among them; 0 if no page has anything.
  uint32_t depth;
} frond_sizes;

// What encoding took and gave. A chunk is an opaque block, or the bytes of a string column in a typed one: what a general
// codec, LZ4 or zstd, is tried on.
typedef struct {
  // Blocks that were encoded.
  uint64_t blocks;
  // Rows in these.
  uint64_t rows;
  // Length of these rows.
  uint64_t from_bytes;
  // What the blocks take.
  uint64_t bytes;
  // Time that encoding them took, all of it; of opaque blocks, the codec.
  uint64_t nanos;
  // Chunks that stand under a general codec.
  uint64_t chunks_coded;
  // Their length.
  uint64_t chunks_coded_from_bytes;
  // What the codec made of it.
  uint64_t chunks_coded_bytes;
  // Chunks that the codec was tried on, and that are stored as they are, since it saved too little.
  uint64_t chunks_raw;
  // Blocks that were taken over from older runs as they were.
  uint64_t carried_blocks;
  // What these take.
  uint64_t carried_bytes;
} frond_encoded;

// What was done on a tree since the store was opened. Times are of the clock on the wall.
typedef struct {
  // What its leaves are encoded with: FROND_FAST, FROND_DEFAULT, FROND_SMALL.
  int32_t size_class;
  // Encoding leaves.
  frond_encoded leaves;
  // Encoding runs that wait in nodes, under no general codec.
  frond_encoded buffers;
  // Chunks of leaves that were decoded, for reads and for merges.
  uint64_t chunks_decoded;
  // Their length, decoded.
  uint64_t chunks_decoded_bytes;
  // Time that decoding them took.
  uint64_t chunks_decode_nanos;
} frond_work;

// Functions that hear of waits for locks; each may be null. They are called by threads that wait, several at once, and may call
// nothing of the library but the frond_party calls. Those told of may have ended since.
typedef struct {
  // Given to each of them.
  void *context;
  // `waiter` is about to sleep until `holder` has gone; called for each.
  void (*on_wait)(void *context, const frond_party *waiter, const frond_party *holder);
  // The id of the one of two in a cycle of waits that is to be ended; 0: no preference.
  uint64_t (*prefer)(void *context, const frond_party *a, const frond_party *b);
  // Whether the gap of `holder` conflicts with an insert of `inserter`: not if the order of the two is settled elsewhere.
  bool (*needs_order)(void *context, const frond_party *inserter, const frond_party *holder);
} frond_lock_hooks;

// What `operand` makes of `value`, which is null if there is none, is to be put into `out`, by frond_buffer_set; nothing put is an
// empty value. It must not fail, nor call anything else of the library.
typedef void (*frond_fold)(void *context,
                           const uint8_t *value,
                           size_t value_length,
                           const uint8_t *operand,
                           size_t operand_length,
                           frond_buffer *out);

// A merge operator of the program's own, for frond_txn_merge. It works in the store's threads, on rows committed long before,
// so it must be deterministic, associative, and the same for ever: once a tree has used it the store does not open without it
// (FRD-1013).
typedef struct {
  // Its number, 64 or above.
  uint8_t number;
  // What it is called: 1 to 128 bytes, no control characters. Kept with each tree that uses the operator.
  const char *name;
  // Given to the functions.
  void *context;
  // A value from the one before, if there is one, and an operand.
  frond_fold fold;
  // One operand that does what two do, the older one given as the value; null: `fold` does that, too.
  frond_fold combine;
} frond_operator;

// How a store is opened. Filled by frond_options_init, then changed.
typedef struct {
  // The memory budget for everything, bytes.
  uint64_t cache_size;
  // When commits are acknowledged: FROND_SYNC, FROND_OS, FROND_LAZY.
  int32_t durability;
  // Make the store if there is none.
  bool create;
  // Open it without writing a byte.
  bool read_only;
  // Bytes of log kept for followers of the change feed.
  uint64_t keep_log;
  // What hears of waits for locks; null: nothing. Copied by frond_open.
  const frond_lock_hooks *lock_hooks;
  // Merge operators of the program's own; null: none. Copied by frond_open.
  const frond_operator *operators;
  // How many.
  size_t operators_count;
} frond_options;

// A tree, as a listing of all tells of it.
typedef struct {
  // Its number, which no other tree of the store ever has.
  uint32_t id;
  // Its name, which ends with a zero byte.
  const char *name;
  // FROND_FAST, FROND_DEFAULT, FROND_SMALL.
  int32_t size_class;
  // Keys are mostly inserted with a check that they are absent.
  bool unique;
  // The commit that created it.
  uint64_t birth;
  // The bytes that are kept with it; null if there are none.
  const uint8_t *attributes;
  // How many.
  size_t attributes_length;
} frond_tree_listed;

// Is told of a tree, which is good for as long as the call lasts.
typedef void (*frond_tree_told)(void *context, const frond_tree_listed *tree);

// One entry of a row of temporary trees: its own, or one in an index.
typedef struct {
  // Where: the table's tree, or an index's.
  const frond_temporary *tree;
  // Its key.
  const uint8_t *key;
  // Bytes of it.
  size_t key_length;
  // Its value; may be null if it has no bytes.
  const uint8_t *value;
  // Bytes of it.
  size_t value_length;
  // The key must not be there.
  bool unique;
} frond_temporary_entry;

// What a transaction is to be like. Filled by frond_txn_options_init, then changed.
typedef struct {
  // FROND_READ_COMMITTED, FROND_REPEATABLE_READ, FROND_SNAPSHOT, FROND_SERIALIZABLE.
  int32_t isolation;
  // Writing is an error; nothing is ever locked.
  bool read_only;
  // How long a call waits for a lock, milliseconds; below 0: until it gets it.
  int64_t lock_timeout_ms;
  // When its commit is acknowledged: FROND_AS_STORE, FROND_SYNC, FROND_OS, FROND_LAZY.
  int32_t durability;
  // What the program's frond_lock_hooks are to know it by; 0 says nothing.
  uint64_t tag;
} frond_txn_options;

// Is told that what was committed is durable.
typedef void (*frond_synced)(void *cookie);

// Is told a number by its name, which ends with a zero byte.
typedef void (*frond_number)(void *context, const char *name, uint64_t value);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Makes an empty batch.
int32_t frond_batch_new(frond_batch **batch, frond_error *error);

// Gives a batch back. Null is allowed.
void frond_batch_free(frond_batch *batch);

// Adds: set a value, whether the key exists or not.
int32_t frond_batch_put(frond_batch *batch,
                        const frond_tree *tree,
                        const uint8_t *key,
                        size_t key_length,
                        const uint8_t *value,
                        size_t value_length,
                        frond_error *error);

// Adds: delete a key, if it exists.
int32_t frond_batch_delete(frond_batch *batch,
                           const frond_tree *tree,
                           const uint8_t *key,
                           size_t key_length,
                           frond_error *error);

// Adds: delete all keys from `from` up to, not including, `to`. Costs the same for one row and for all.
int32_t frond_batch_delete_range(frond_batch *batch,
                                 const frond_tree *tree,
                                 const uint8_t *from,
                                 size_t from_length,
                                 const uint8_t *to,
                                 size_t to_length,
                                 frond_error *error);

// From here on an interrupt ends commits of the batch with FRD-1106 until it is cleared; one that waits for rows that others have, or for
// room, at once. Nothing was done then, and the batch is as it was.
int32_t frond_batch_heed(frond_batch *batch,
                         const frond_interrupter *interrupter,
                         frond_error *error);

// How long commits of the batch wait for rows that transactions have, all together, milliseconds; below 0: until they have ended. Ten
// seconds if nobody says.
int32_t frond_batch_lock_timeout(frond_batch *batch,
                                 int64_t milliseconds,
                                 frond_error *error);

// Commits a batch, at FROND_AS_STORE or a level of its own, and empties it. `seqno`, which may be null, gets the commit's number.
// On an error nothing is done, and the batch is as it was; but FRD-3203 (and FRD-3202 behind it): the store has stopped, and others may
// have seen the commit; after opening it look whether it is there.
int32_t frond_batch_commit(const frond_db *db,
                           frond_batch *batch,
                           int32_t level,
                           uint64_t *seqno,
                           frond_error *error);

// Begins to load a new tree. `options` may be null. Nobody sees it before frond_loads_finish.
int32_t frond_load_begin(const frond_db *db,
                         const char *name,
                         const frond_tree_options *options,
                         frond_load **load,
                         frond_error *error);

// Begins to load a tree that is there and has no rows (else FRD-1017): for who creates a tree first and fills it then. Until
// frond_loads_finish it is as it was, and others may use it. Then a new tree with the rows takes its place, like it in name, attributes,
// layouts, settings and counters (frond_tree_reserve), with another number: handles of the one that was there fail with FRD-1004, and
// snapshots of before with FRD-1006, as after a truncation; if no row was put it stays what it was, handles too. The end of the load waits for
// transactions that have rows of the tree or have locked it, prepared ones, too: the session's own would be waited for in vain. Then
// the tree must be empty still. Rows that were all deleted are none. A disk that becomes full behind the commit is waited for.
int32_t frond_load_begin_into(const frond_db *db,
                              const frond_tree *tree,
                              frond_load **load,
                              frond_error *error);

// How long the end of a load into a tree that is there waits for who has rows of it, milliseconds; below 0: until they have ended. Ten
// seconds if nobody says. Of several loads that end together the shortest time counts, and the first one's interrupter is heeded.
int32_t frond_load_lock_timeout(frond_load *load,
                                int64_t milliseconds,
                                frond_error *error);

// Adds a row; of two with one key the later one counts, but in a tree that is unique: then finishing fails with FRD-1104.
int32_t frond_load_put(frond_load *load,
                       const uint8_t *key,
                       size_t key_length,
                       const uint8_t *value,
                       size_t value_length,
                       frond_error *error);

// What is told of a duplicate key in a tree that is unique: `tell` is called once at most, with one of the rows that have the key, by the
// call of frond_load_put or frond_loads_finish that then fails with FRD-1104. It may call nothing of the library. It and `context` must be good until the
// load is given back.
int32_t frond_load_on_duplicate(frond_load *load,
                                frond_row_told tell,
                                void *context,
                                frond_error *error);

// Gives a load up, or nothing if `load` is null.
void frond_load_free(frond_load *load);

// Makes, or fills, the trees of `count` loads in one commit, synced: all, or on an error none. All handles are given back in any case but
// FRD-1001 (one is null or given twice, two are for one tree, or they are of two stores): then all are as they were. `trees`, which may be
// null, gets as many new ones.
int32_t frond_loads_finish(frond_load *const *loads,
                           size_t count,
                           frond_tree **trees,
                           frond_error *error);

// Begins to build `count` indexes of a tree that has rows, while others write it: trees of these names, made with these options
// (null: what is usual), which are to be used once they are published. From here on the keys of rows that transactions and batches write are
// kept in a queue, in their own commits; writers need not know. A tree has one build at a time (FRD-1105 otherwise). An entry's key must be no
// other row's, unless the index is unique and that is to be found out. To be given back by frond_index_build_free, or by
// frond_index_build_publish.
int32_t frond_index_build_begin(const frond_db *db,
                                const frond_tree *base,
                                const char *const *names,
                                const frond_tree_options *options,
                                size_t count,
                                frond_index_build **build,
                                frond_error *error);

// Gives the moment that the base is to be read at, the same with each call; to be given back by frond_snapshot_free. The first call
// waits until transactions have ended that had written the tree when the build began, prepared ones, too: up to `wait_ms` (below 0: as
// long as it takes), then FRD-1101, and it may be called again. Others go on meanwhile.
int32_t frond_index_build_snapshot(frond_index_build *build,
                                   int64_t wait_ms,
                                   frond_snapshot **snapshot,
                                   frond_error *error);

// Adds the entry of a row of that moment, in any order, to an index: they are numbered from 0, as their names were given. FRD-1104 here or
// later if two have the same key in an index, `tree` of the error, that is unique: the build is over.
int32_t frond_index_build_add(frond_index_build *build,
                              size_t index,
                              const uint8_t *key,
                              size_t key_length,
                              const uint8_t *value,
                              size_t value_length,
                              frond_error *error);

// The base is whole: makes trees of what was added. frond_index_build_next does it, too, if nobody has.
int32_t frond_index_build_end_base(frond_index_build *build,
                                   frond_error *error);

// Gives the next row that is not in the indexes as it is: say which entries of it go and come by frond_index_build_change. FROND_NOT_FOUND
// at the end of a round: the indexes are then what they would be at one moment; the next call begins another round. A round may give
// a row twice: say the same of it again. FRD-1104 if at that moment two rows had the same in an index, `tree` of the error, that is unique:
// the build is over, as after each other error but FRD-1106, unless that came while the base was finished.
int32_t frond_index_build_next(frond_index_build *build,
                               frond_row_changed *row,
                               frond_error *error);

// Of the row that was given last: the key of the entry that it had in an index (null with length 0: it had none), and key and value of that which it is
// to have (key null with length 0: none). Say nothing of an entry that stays as it is. A row may have several in one index.
int32_t frond_index_build_change(frond_index_build *build,
                                 size_t index,
                                 const uint8_t *old_key,
                                 size_t old_key_length,
                                 const uint8_t *key,
                                 size_t key_length,
                                 const uint8_t *value,
                                 size_t value_length,
                                 frond_error *error);

// After a round: `near` gets true if it was short, and the next one will be: it is time to lock the tree.
int32_t frond_index_build_is_near(const frond_index_build *build,
                                  bool *near,
                                  frond_error *error);

// Takes the tree for the build alone, so that the next round is the last: writers wait from here on. FRD-1101 if transactions keep rows of
// it for longer than `wait_ms` (below 0: as long as it takes): nothing was done, go on with rounds and try again.
int32_t frond_index_build_lock(frond_index_build *build,
                               int64_t wait_ms,
                               frond_error *error);

// Makes the indexes what they are to be, in one commit, synced, after the round that came behind frond_index_build_lock. `then`, which may be
// null, is called before any writer goes on who waits for the tree: what writers go by must say from there on that there are indexes, and
// they must have an intent on the tree before they look (frond_txn_lock_tree), or be kept away; `then` itself writes nothing to the tree, which
// is locked. The build is given back in any case but FRD-1001: then it is as it was. `trees`, which may be null, gets as many handles as there are indexes, and nulls on an error.
int32_t frond_index_build_publish(frond_index_build *build,
                                  void (*then)(void *context),
                                  void *context,
                                  frond_tree **trees,
                                  frond_error *error);

// Gives a build up: nothing of it is left. Null is allowed.
void frond_index_build_free(frond_index_build *build);

// From here on an interrupt ends the calls of the build with FRD-1106: those that add entries to the base or make it whole for
// good, others until it is cleared.
int32_t frond_index_build_heed(frond_index_build *build,
                               const frond_interrupter *interrupter,
                               frond_error *error);

// Gives what says, to any thread, how far the build is.
int32_t frond_index_build_progress(const frond_index_build *build,
                                   frond_progress **progress,
                                   frond_error *error);

// Gives the memory of a buffer back, and empties it. Null is allowed.
void frond_buffer_free(frond_buffer *buffer);

// Puts a copy of these bytes into a buffer: for functions that are called back and give bytes (frond_fold).
int32_t frond_buffer_set(frond_buffer *buffer,
                         const uint8_t *data,
                         size_t length,
                         frond_error *error);

// Fills options with what is usual: not repeatable, ten seconds.
void frond_change_options_init(frond_change_options *options);

// Begins a change; nothing is locked or done before its commit. `options` may be null. To be given back by frond_change_free.
int32_t frond_change_begin(const frond_db *db,
                           const frond_change_options *options,
                           frond_tree_change **change,
                           frond_error *error);

// From here on an interrupt ends frond_change_commit with FRD-1106: while it waits for transactions at once, and when it begins until the
// interrupt is cleared. Nothing was done then.
int32_t frond_change_heed(frond_tree_change *change,
                          const frond_interrupter *interrupter,
                          frond_error *error);

// Gives a change back, whether it was committed or not. Null is allowed.
void frond_change_free(frond_tree_change *change);

// Adds a step: a new tree, as by frond_tree_create. `options` may be null. Repeated after the tree was renamed or dropped, it makes
// another one (frond_change_options).
int32_t frond_change_create(frond_tree_change *change,
                            const char *name,
                            const frond_tree_options *options,
                            frond_error *error);

// Adds a step: another name for a tree, which is free once the steps before are made.
int32_t frond_change_rename(frond_tree_change *change,
                            uint32_t number,
                            const char *name,
                            const char *to,
                            frond_error *error);

// Adds a step: a tree goes, as by frond_tree_drop.
int32_t frond_change_drop(frond_tree_change *change,
                          uint32_t number,
                          const char *name,
                          frond_error *error);

// Adds a step: two trees exchange their names. Snapshots of before fail with FRD-1006 in both, as if they had been created now.
// Transactions with rows of a tree go on with it under its other name: who must not have any locks both first, exclusively, and swaps
// before that transaction ends.
int32_t frond_change_swap(frond_tree_change *change,
                          uint32_t number,
                          const char *name,
                          uint32_t other_number,
                          const char *other_name,
                          frond_error *error);

// Adds a step: a new, empty tree takes the name of a tree, with another number, like it in all it was made with, its counters at
// their begin; the old one goes. Handles of that fail with FRD-1004, snapshots of before keep its rows.
int32_t frond_change_truncate(frond_tree_change *change,
                              uint32_t number,
                              const char *name,
                              frond_error *error);

// Adds a step: a new tree that holds what another does, as by frond_tree_clone. The other may go by a step behind.
// Repeated after it was renamed or dropped, it makes another one (frond_change_options).
int32_t frond_change_clone(frond_tree_change *change,
                           uint32_t number,
                           const char *name,
                           const char *to,
                           frond_error *error);

// Adds a step: other bytes are kept with a tree, up to 1 MiB.
int32_t frond_change_attributes(frond_tree_change *change,
                                uint32_t number,
                                const char *name,
                                const uint8_t *attributes,
                                size_t length,
                                frond_error *error);

// Adds a step: values of a tree get another layout, as by frond_tree_change_layout, together with names and attributes that belong
// to it. `from`: the version that `parts` are numbered by, below 0 if that is not known; a repeatable change needs it. Not in one
// change with trees that go.
int32_t frond_change_layout(frond_tree_change *change,
                            uint32_t number,
                            const char *name,
                            int32_t from,
                            const frond_new_part *parts,
                            size_t count,
                            frond_error *error);

// Adds a step: a tree begins with this change, and a snapshot of before fails with FRD-1006 there. For one that was filled under
// another name, and is renamed by a step beside.
int32_t frond_change_publish(frond_tree_change *change,
                             uint32_t number,
                             const char *name,
                             frond_error *error);

// Makes all steps, in one commit that is synced when it returns: after a crash all of it is there, or nothing. Waits for transactions
// that have rows of trees that it drops or truncates. `seqno`, which may be null, gets its number, 0 if there was nothing to be
// done. If a step cannot be made nothing is, `entry` of the error is its place, from 0, and the change may be committed again;
// but FRD-3203 (and FRD-3202 behind it): the store has stopped; after opening it look whether the change was made. One that clones
// trees or changes layouts, and drops or truncates others, waits for room if the disk becomes full while it is made.
int32_t frond_change_commit(frond_tree_change *change,
                            uint64_t *seqno,
                            frond_error *error);

// Of a change that is committed: the tree that a step, from 0, was about or made; of a truncation the new one. FROND_NOT_FOUND if it
// is gone. `was_made`, which may be null, gets false if the step was passed over, for it had been made. `tree` may be null, too.
int32_t frond_change_tree(const frond_tree_change *change,
                          size_t step,
                          frond_tree **tree,
                          bool *was_made,
                          frond_error *error);

// How many rows a tree has. `exact`, which may be null, gets whether they were counted: else `rows` is an estimate, for something was put or deleted
// of which nobody knew whether it was there.
int32_t frond_tree_row_count(const frond_tree *tree,
                             uint64_t *rows,
                             bool *exact,
                             frond_error *error);

// About how many rows lie from `from` up to, not including, `to`, and how many bytes they take. Reads nothing: of what was
// not read since the store was opened it goes by the number of all rows. 0 rows only if none is committed by now: a transaction
// may have written some, or see some that are gone since, and asks by frond_txn_estimate. Null: from the first key, to the last.
// `data_bytes` may be null.
int32_t frond_tree_estimate(const frond_tree *tree,
                            const uint8_t *from,
                            size_t from_length,
                            const uint8_t *to,
                            size_t to_length,
                            uint64_t *rows,
                            uint64_t *data_bytes,
                            frond_error *error);

// Counts the rows from `from` up to, not including, `to` that a plain scan of the transaction would find. It walks over
// them within the store, at a tenth of the cost of a cursor. At FROND_SERIALIZABLE it locks what it counts. Null: from
// the first key, to the last.
int32_t frond_txn_count(const frond_txn *txn,
                        const frond_tree *tree,
                        const uint8_t *from,
                        size_t from_length,
                        const uint8_t *to,
                        size_t to_length,
                        uint64_t *rows,
                        frond_error *error);

// As frond_tree_estimate, with what the transaction has written, and with rows that its reads still see though they are
// deleted since: 0 rows only if neither a plain nor a locking read of the transaction would find one.
int32_t frond_txn_estimate(const frond_txn *txn,
                           const frond_tree *tree,
                           const uint8_t *from,
                           size_t from_length,
                           const uint8_t *to,
                           size_t to_length,
                           uint64_t *rows,
                           uint64_t *data_bytes,
                           frond_error *error);

// Takes `count` numbers from a counter of the tree, 0 to 3, the first of them at least `least`; `first` gets it. They are not
// handed out again, whatever becomes of the transaction; over a restart at least none that a commit can have used.
int32_t frond_tree_reserve(const frond_tree *tree,
                           uint32_t counter,
                           uint64_t least,
                           uint64_t count,
                           uint64_t *first,
                           frond_error *error);

// The number that a counter would give next.
int32_t frond_tree_next_number(const frond_tree *tree,
                               uint32_t counter,
                               uint64_t *next,
                               frond_error *error);

// About how many different values the first part of a tree's keys has, the first two, and so on: as many numbers as its keys have
// parts, one if they have none. `counts` gets the first `counts_max` of them, and `count` how many there are; 0 and null only ask
// for that. None is 0, also of an empty tree. Up to 64, and of trees of some thousand rows, they are exact if nobody writes; larger ones
// are estimates. Reads some tens of thousands of rows, however many there are.
int32_t frond_tree_distinct_prefixes(const frond_tree *tree,
                                     uint64_t *counts,
                                     size_t counts_max,
                                     size_t *count,
                                     frond_error *error);

// A cursor over the keys from `from` on and below `to` (null for no end), before its first row; it sees what is
// committed now.
int32_t frond_scan(const frond_tree *tree,
                   const uint8_t *from,
                   size_t from_length,
                   const uint8_t *to,
                   size_t to_length,
                   frond_cursor **cursor,
                   frond_error *error);

// The same as a transaction sees it, with its own writes up to now, or to where its statement began. With `row_lock`, each row is locked as the cursor
// hands it out, and at FROND_REPEATABLE_READ and FROND_SERIALIZABLE the gaps it goes over, too. A cursor is given back
// before its transaction ends.
int32_t frond_txn_scan(const frond_txn *txn,
                       const frond_tree *tree,
                       const uint8_t *from,
                       size_t from_length,
                       const uint8_t *to,
                       size_t to_length,
                       int32_t row_lock,
                       int32_t when_locked,
                       frond_cursor **cursor,
                       frond_error *error);

// The same with all that can be said of how it reads. `with_last` says nothing here.
int32_t frond_txn_read_range(const frond_txn *txn,
                             const frond_tree *tree,
                             const uint8_t *from,
                             size_t from_length,
                             const uint8_t *to,
                             size_t to_length,
                             const frond_read_options *options,
                             frond_cursor **cursor,
                             frond_error *error);

// Locks the last row that the cursor gave, as it locks rows, and reads it again as it is by now: `rows` gets it, and it alone.
// FROND_NOT_FOUND if it has gone; it is locked all the same. Waits for who has it for `wait_ms`; below 0: as long as the cursor
// does. For a row that is not `locked` and is wanted. The cursor stays where it is.
int32_t frond_cursor_relock(frond_cursor *cursor,
                            int64_t wait_ms,
                            frond_rows *rows,
                            frond_error *error);

// The next rows, up to `rows_max` (0: as the cursor thinks best, a few at first and then more; one at a time if it
// locks). FROND_NOT_FOUND behind the last one. After an error the cursor stands where it stood; one that is met behind some rows
// comes with the next call in that direction, after them, but for one that has ended the transaction. The rows are of this
// call's moment: one of them that the transaction itself changes or deletes afterwards stays here as it was. A scan that may
// delete what it has yet to come to asks for one row a call, or frond_cursor_is_current before it takes a row.
int32_t frond_cursor_next(frond_cursor *cursor,
                          size_t rows_max,
                          frond_rows *rows,
                          frond_error *error);

// The rows before, from the nearest on: as frond_cursor_next, in descending order.
int32_t frond_cursor_prev(frond_cursor *cursor,
                          size_t rows_max,
                          frond_rows *rows,
                          frond_error *error);

// Whether the cursor would still give a row of its last batch (`row`: 0 is the first): asked before a row is taken of a batch
// that was filled earlier. Not so once the transaction has deleted the row since, has gone back to a savepoint or to its
// statement's begin since (rows that the batch passed by may be there again), or has ended. Then go to the key of the last
// row that was taken, and a zero byte, or for frond_cursor_prev to that key itself, and ask for rows anew. What the
// transaction has changed or put since the scan or its statement began, a scan does not show, whatever its batches are: a
// row that was changed is current, as it was. So is each row of a cursor that is no transaction's. Costs no more than a look
// at a counter as long as the transaction has not written to the tree since the batch. The batch stays where it is.
int32_t frond_cursor_is_current(const frond_cursor *cursor,
                                size_t row,
                                bool *is_current,
                                frond_error *error);

// Goes over another range of its tree from here on, before its first row: from `from` on and below `to` (null: from the first
// key, to the last). Sees and locks rows as before; costs less than another cursor. FRD-1001 of a cursor that is of no
// transaction.
int32_t frond_cursor_range(frond_cursor *cursor,
                           const uint8_t *from,
                           size_t from_length,
                           const uint8_t *to,
                           size_t to_length,
                           frond_error *error);

// Goes to a key: the next row is the first at or above it, the one before the last below it.
int32_t frond_cursor_seek(frond_cursor *cursor,
                          const uint8_t *key,
                          size_t key_length,
                          frond_error *error);

// Goes before the first row.
int32_t frond_cursor_seek_first(frond_cursor *cursor, frond_error *error);

// Goes behind the last row.
int32_t frond_cursor_seek_last(frond_cursor *cursor, frond_error *error);

// Gives a cursor back. Null is allowed.
void frond_cursor_free(frond_cursor *cursor);

// Makes one, for frond_check.
int32_t frond_progress_new(frond_progress **progress, frond_error *error);

// Gives what says how far a load is, also while it is being finished.
int32_t frond_load_progress(const frond_load *load, frond_progress **progress, frond_error *error);

// What it says now.
int32_t frond_progress_now(const frond_progress *progress,
                           frond_progress_counts *counts,
                           frond_error *error);

// Gives the handle back. Null is allowed.
void frond_progress_free(frond_progress *progress);

// Makes an interrupter that is of no transaction, for what can be told to heed it: cursors, loads, builds of indexes, checks. They heed that of a
// transaction, too. frond_interrupt stops all that heed it.
int32_t frond_interrupter_new(frond_interrupter **interrupter,
                              frond_error *error);

// Says of one that is of no transaction that what it was for is done: what heeds it goes on. That of a transaction is cleared by
// frond_txn_clear_interrupt alone. Null is allowed.
void frond_interrupter_clear(const frond_interrupter *interrupter);

// From here on an interrupt ends the calls of a cursor over a snapshot, or outside of transactions, with FRD-1106, at the latest when
// rows are handed out that are fetched already; once it is cleared the cursor goes on where it was. One of a transaction heeds that by itself.
int32_t frond_cursor_heed(frond_cursor *cursor,
                          const frond_interrupter *interrupter,
                          frond_error *error);

// From here on an interrupt ends the call that a load is in, also frond_loads_finish, with FRD-1106, and with it the load.
int32_t frond_load_heed(frond_load *load,
                        const frond_interrupter *interrupter,
                        frond_error *error);

// Checks the store while it is open: all of it if `full`, which reads everything once, else the log and a few pages. Others go on. `clean`
// gets whether no damage was found; `tell`, which may be null, is called with each finding in words. `interrupter` and `progress`
// may be null.
int32_t frond_check(const frond_db *db,
                    bool full,
                    const frond_interrupter *interrupter,
                    const frond_progress *progress,
                    frond_line tell,
                    void *context,
                    bool *clean,
                    frond_error *error);

// Gives the values of a tree another layout, without a look at any of them, synced when it returns: the version and then these
// parts. The layout of values must begin with FROND_PART_VERSION. With the change goes another blob of attributes; null with length 0: they stay.
// `tree` becomes a handle that gives values in the new version; others go on with theirs until they meet a newer value, and then
// fail with FRD-1006: open the tree again.
int32_t frond_tree_change_layout(const frond_db *db,
                                 const char *name,
                                 const frond_new_part *parts,
                                 size_t count,
                                 const uint8_t *attributes,
                                 size_t attributes_length,
                                 frond_tree **tree,
                                 frond_error *error);

// The version of the layout in which a handle gives values, whose first two bytes it is, big-endian; -1 if values name none, or
// `tree` is null.
int32_t frond_tree_layout_version(const frond_tree *tree);

// Tells who waits for a lock now, longest first. As frond_lock_waits, in fields; waits that are not for locks are not told.
int32_t frond_each_wait(const frond_db *db,
                        frond_wait_told tell,
                        void *context,
                        frond_error *error);

// Tells who was on the last circle of waits, each before the one it waited for. `at_nanos`, which may be null, gets when it was
// ended, by the clock of `since_nanos` of frond_wait. FROND_NOT_FOUND if there was none. As frond_last_deadlock, in fields.
int32_t frond_each_deadlocked(const frond_db *db,
                              frond_deadlocked_told tell,
                              void *context,
                              uint64_t *at_nanos,
                              frond_error *error);

// Tells who holds locks or a snapshot now, longest first. As frond_transactions, in fields.
int32_t frond_each_transaction(const frond_db *db,
                               frond_live_told tell,
                               void *context,
                               frond_error *error);

// Tells up to `max` locks that are held now, in the order of their owners, trees as a whole first, then gaps, then rows; `more`,
// which may be null, gets about how many there are beside. It is no single moment, for others go on meanwhile. Rows that a transaction beyond
// memory has written are locked without being told.
int32_t frond_each_lock(const frond_db *db,
                        size_t max,
                        frond_held_told tell,
                        void *context,
                        size_t *more,
                        frond_error *error);

// The same of one transaction, by the thread that has it; rows in the order in which they were locked.
int32_t frond_txn_each_lock(const frond_txn *txn,
                            size_t max,
                            frond_held_told tell,
                            void *context,
                            size_t *more,
                            frond_error *error);

// What stands for a key of a tree in `key_hash` of frond_locked: 16 bytes, into `hash`.
int32_t frond_tree_key_hash(const frond_tree *tree,
                            const uint8_t *key,
                            size_t key_length,
                            uint8_t *hash,
                            frond_error *error);

// Parts of the values of a tree that has a layout of them, by number from 0, in any order; reads give them in the order of the
// layout, each as it stands in the value (one with its length before it, with that).
int32_t frond_parts_make(const frond_tree *tree,
                         const size_t *numbers,
                         size_t count,
                         frond_parts **parts,
                         frond_error *error);

// Gives parts back; cursors that give them are not touched. Null is allowed.
void frond_parts_free(frond_parts *parts);

// Parts of a value, one after the other, into `value`; of what lies in trees, no others are looked at. FROND_NOT_FOUND if there is
// no such key; FRD-1001 if the value does not fit the layout of its tree.
int32_t frond_get_parts(const frond_tree *tree,
                        const uint8_t *key,
                        size_t key_length,
                        const frond_parts *parts,
                        frond_buffer *value,
                        frond_error *error);

// The same at a moment of the store.
int32_t frond_snapshot_get_parts(const frond_snapshot *snapshot,
                                 const frond_tree *tree,
                                 const uint8_t *key,
                                 size_t key_length,
                                 const frond_parts *parts,
                                 frond_buffer *value,
                                 frond_error *error);

// The same as a transaction sees it, without a lock but at FROND_SERIALIZABLE.
int32_t frond_txn_get_parts(const frond_txn *txn,
                            const frond_tree *tree,
                            const uint8_t *key,
                            size_t key_length,
                            const frond_parts *parts,
                            frond_buffer *value,
                            frond_error *error);

// From here on a cursor gives these parts of values alone; it stays where it is. A step onto a value that does not fit the layout of
// its tree fails with FRD-1001, each time; frond_cursor_seek goes beyond it.
int32_t frond_cursor_only(frond_cursor *cursor,
                          const frond_parts *parts,
                          frond_error *error);

// Makes everything written durable under a name, undecided: it survives a crash with the rows it writes locked. The
// transaction's handle is given back, but not with FRD-1001 (cursors, the name, the level); on another error all is
// rolled back; but FRD-3203 (and FRD-3202 behind it): the store has stopped; after opening it look whether it is prepared.
// `level` is FROND_SYNC, unless whoever coordinates loses nothing by a transaction that is gone.
int32_t frond_txn_prepare(frond_txn *txn,
                          const uint8_t *xid_data,
                          size_t xid_length,
                          int32_t level,
                          frond_prepared **prepared,
                          frond_error *error);

// Takes a prepared transaction in hand that nobody has: FRD-1110 if there is none, FRD-1112 if another has it.
int32_t frond_prepared_attach(const frond_db *db,
                              const uint8_t *xid_data,
                              size_t xid_length,
                              frond_prepared **prepared,
                              frond_error *error);

// Gives the commit its place in the order of all: from here on it is decided. The log has kept room for it since the prepare, or
// since the store was opened, so that it waits for no disk and fails only once the store has stopped; but where opening has warned of
// FRD-1303 (frond_warnings) there was none on the disk then: until there is it may fail with FRD-1301, and is prepared still. `seqno`, which may be null, gets its
// number. Others see it at the latest when frond_prepared_commit returns, or frond_prepared_detach.
int32_t frond_prepared_commit_ordered(frond_prepared *prepared,
                                      uint64_t *seqno,
                                      frond_error *error);

// Commits, at the store's level (FROND_AS_STORE) or another. The handle is given back; on an error it is prepared still;
// but FRD-3203 (and FRD-3202 behind it): the store has stopped; after opening it look whether it is prepared or committed. Once it is ordered
// every error means that.
int32_t frond_prepared_commit(frond_prepared *prepared,
                              int32_t level,
                              frond_error *error);

// Takes everything back. The handle is given back; on an error it is prepared still; but FRD-3203 (and FRD-3202 behind
// it): the store has stopped; after opening it look whether it is. Once it is ordered it is committed: FRD-1001, and the handle stays.
int32_t frond_prepared_rollback(frond_prepared *prepared,
                                frond_error *error);

// Lets go of it: it waits for a decision by its name, from any session. Gives the handle back; null is allowed.
void frond_prepared_detach(frond_prepared *prepared);

// Tells all transactions that are prepared and not decided, by name; with `only_new` those that were there when the
// store was opened, each in one call alone.
int32_t frond_prepared_list(const frond_db *db,
                            bool only_new,
                            frond_prepared_line tell,
                            void *context,
                            frond_error *error);

// Fills options with what is usual: a read without a lock, of what the level shows.
void frond_read_options_init(frond_read_options *options);

// The value of a key, into `value`, read as asked. FROND_NOT_FOUND if there is none; the key is locked then all the same, if so
// asked. `locked`, which may be null, gets whether it is locked for the transaction: with a lock asked for, not so only where
// another has it (FROND_LAST_COMMIT). `options` may be null.
int32_t frond_txn_read(const frond_txn *txn,
                       const frond_tree *tree,
                       const uint8_t *key,
                       size_t key_length,
                       const frond_read_options *options,
                       frond_buffer *value,
                       bool *locked,
                       frond_error *error);

// The values of many keys, read as asked. Without a lock they are all of one moment; with one, all rows are locked first, in key
// order, and then read: who locks the same rows in another order waits, and is in no circle. `values` is as long as `keys`, and
// gets where each value lies in `memory`, until that is used again; null data: there is no such row, or others have it and it was
// skipped. `locked`, which may be null, is as long, and gets whether each is locked. If the call fails, it has locked nothing.
int32_t frond_txn_read_many(const frond_txn *txn,
                            const frond_tree *tree,
                            const frond_bytes *keys,
                            size_t count,
                            const frond_read_options *options,
                            frond_buffer *memory,
                            frond_bytes *values,
                            bool *locked,
                            frond_error *error);

// Inserts a row, its own entry first: looks for all its unique entries in their order, and only then writes. `conflict->index` is -1 if it
// is done; else it says which entry is there already, what it holds, and that one is locked by `row_lock`
// (FROND_SHARED, FROND_EXCLUSIVE), and nothing is written. Begin with the fields of `conflict->value` 0.
//
// If the row's own entry is a unique one, entries that are not unique are taken to be absent with it, without a look, as those are that hold the
// row's key: a key that may be there already is to be put by itself (frond_txn_put). What was there all the same may come
// back with the row's deletion, and rows are counted wrong.
int32_t frond_txn_insert_row(const frond_txn *txn,
                             const frond_entry *entries,
                             size_t count,
                             int32_t row_lock,
                             frond_conflict *conflict,
                             frond_error *error);

// Changes a row: give the entries that change. As frond_txn_insert_row, where a unique one comes to another key.
int32_t frond_txn_update_row(const frond_txn *txn,
                             const frond_change *changes,
                             size_t count,
                             int32_t row_lock,
                             frond_conflict *conflict,
                             frond_error *error);

// Deletes all entries of a row, by tree and key; their values are not looked at.
int32_t frond_txn_delete_row(const frond_txn *txn,
                             const frond_entry *entries,
                             size_t count,
                             frond_error *error);

// Gives back what the last locking read took, if it was new: for what is not wanted. That is the row, or the row that a cursor gave
// last, with the entry that named it (`with_last` of frond_read_options), or all rows of frond_txn_read_many. Gaps that a cursor has
// locked stay.
int32_t frond_txn_unlock_last(const frond_txn *txn,
                              frond_error *error);

// What a tree takes by now; nothing is sampled. Reads nothing, but for a tree that an earlier version of Frond has written:
// that one's nodes are read the first time.
int32_t frond_tree_sizes(const frond_tree *tree,
                         frond_sizes *sizes,
                         frond_error *error);

// What was done on a tree since the store was opened: what encoding took and gave, and what was decoded. Costs some forty
// loads. Counted a block, not a row.
int32_t frond_tree_work(const frond_tree *tree,
                        frond_work *work,
                        frond_error *error);

// Takes the store as of now.
int32_t frond_snapshot_take(const frond_db *db, frond_snapshot **snapshot, frond_error *error);

// Names this moment of the store: it outlives the process, until frond_snapshot_drop. Synced when it returns; `seqno` gets the last
// commit that it shows, and may be null.
int32_t frond_snapshot_create(const frond_db *db,
                              const char *name,
                              uint64_t *seqno,
                              frond_error *error);

// Opens a moment that has a name.
int32_t frond_snapshot_open(const frond_db *db,
                            const char *name,
                            frond_snapshot **snapshot,
                            frond_error *error);

// Lets a moment go that has a name; who has it open keeps it until then.
int32_t frond_snapshot_drop(const frond_db *db, const char *name, frond_error *error);

// Tells the names of all moments that have one, in order.
int32_t frond_snapshots(const frond_db *db, frond_line tell, void *context, frond_error *error);

// Opens a tree as it was named at this moment, by a name that it may not have any more.
int32_t frond_snapshot_tree_open(const frond_snapshot *snapshot,
                                 const char *name,
                                 frond_tree **tree,
                                 frond_error *error);

// Fills `out` with the bytes of a value from byte `from` on, at this moment; `count` gets how many there were, fewer than
// `length` only at the value's end. FROND_NOT_FOUND if there is no such key. A value of any length can so be read in little memory.
int32_t frond_snapshot_get_at(const frond_snapshot *snapshot,
                              const frond_tree *tree,
                              const uint8_t *key,
                              size_t key_length,
                              size_t from,
                              uint8_t *out,
                              size_t length,
                              size_t *count,
                              frond_error *error);

// Gives a snapshot back. Null is allowed.
void frond_snapshot_free(frond_snapshot *snapshot);

// The last commit that it shows; 0 if `snapshot` is null.
uint64_t frond_snapshot_seqno(const frond_snapshot *snapshot);

// The value of a key at this moment. FROND_NOT_FOUND if there was none; FRD-1006 if there was no such tree.
int32_t frond_snapshot_get(const frond_snapshot *snapshot,
                           const frond_tree *tree,
                           const uint8_t *key,
                           size_t key_length,
                           frond_buffer *value,
                           frond_error *error);

// A cursor over the rows from `from` up to, not including, `to` at this moment. Null: from the first, to the last.
int32_t frond_snapshot_scan(const frond_snapshot *snapshot,
                            const frond_tree *tree,
                            const uint8_t *from,
                            size_t from_length,
                            const uint8_t *to,
                            size_t to_length,
                            frond_cursor **cursor,
                            frond_error *error);

// The values of many keys as the transaction sees them, all at once; none is locked but at FROND_SERIALIZABLE. `values` is as
// long as `keys`, and gets where each value lies in `memory`, until that is used again; null data: there is no such row.
int32_t frond_txn_get_many(const frond_txn *txn,
                           const frond_tree *tree,
                           const frond_bytes *keys,
                           size_t count,
                           frond_buffer *memory,
                           frond_bytes *values,
                           frond_error *error);

// The same at the moment of a snapshot.
int32_t frond_snapshot_get_many(const frond_snapshot *snapshot,
                                const frond_tree *tree,
                                const frond_bytes *keys,
                                size_t count,
                                frond_buffer *memory,
                                frond_bytes *values,
                                frond_error *error);

// Takes the snapshot of the transaction's plain reads now, at its place in the order of commits: of all that have a number,
// those that nobody sees yet included. Waits for nothing; the first read waits until they are visible. One that has a snapshot
// keeps it. FRD-1001 at FROND_READ_COMMITTED and FROND_SERIALIZABLE, whose transactions have none. `seqno`, which may be null,
// gets the last commit that it shows.
int32_t frond_txn_take_snapshot(const frond_txn *txn,
                                uint64_t *seqno,
                                frond_error *error);

// The version of the library, as text.
const char *frond_version(void);

// Fills options with what is usual: 256 MiB, FROND_SYNC, made if there is none.
void frond_options_init(frond_options *options);

// Fills options with what is usual: FROND_DEFAULT, not unique, no attributes, no parts.
void frond_tree_options_init(frond_tree_options *options);

// Opens the store in directory `path`. `options` may be null. After a crash this replays the log.
int32_t frond_open(const char *path,
                   const frond_options *options,
                   frond_db **db,
                   frond_error *error);

// Closes the store: all commits become durable, and the next opening needs no recovery. The handle is given back in
// any case; others that are left fail with FRD-3204 when they write, and must be given back all the same.
int32_t frond_close(frond_db *db,
                    frond_error *error);

// Makes everything committed so far durable in trees, and gives back the disk space that is free.
int32_t frond_checkpoint(const frond_db *db, frond_error *error);

// Copies the store to the directory `path`, which must not be there, beside whoever writes.
int32_t frond_backup(const frond_db *db, const char *path, frond_error *error);

// Creates a tree, synced when it returns. `options` may be null.
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

// Gives a tree's handle back. Null is allowed.
void frond_tree_free(frond_tree *tree);

// Drops a tree with everything in it. Waits for transactions that have locked rows of it.
int32_t frond_tree_drop(const frond_db *db, const char *name, frond_error *error);

// Gives a tree another name; handles stay good.
int32_t frond_tree_rename(const frond_db *db, const char *from, const char *to, frond_error *error);

// Makes a tree that holds what another holds now, and goes its own way from there; copies nothing.
int32_t frond_tree_clone(const frond_db *db,
                         const char *from,
                         const char *to,
                         frond_tree **tree,
                         frond_error *error);

// A tree's number, which no other tree of the store ever has; 0 if `tree` is null.
uint32_t frond_tree_id(const frond_tree *tree);

// The commit that created the tree (a snapshot from before it knows nothing of it), and the bytes kept with it, which
// go into `attributes`. Both may be null.
int32_t frond_tree_info(const frond_tree *tree,
                        uint64_t *birth,
                        frond_buffer *attributes,
                        frond_error *error);

// Tells the names of all trees, in order.
int32_t frond_trees(const frond_db *db, frond_line tell, void *context, frond_error *error);

// Tells of all trees, in the order of their names. As frond_trees, in fields. Opens none of them.
int32_t frond_each_tree(const frond_db *db,
                        frond_tree_told tell,
                        void *context,
                        frond_error *error);

// Tells what opening met that took nothing away but should be looked into, a sentence each with its code (FRD-2105, FRD-1303, FRD-1304). Nothing
// as a rule.
int32_t frond_warnings(const frond_db *db,
                       frond_line tell,
                       void *context,
                       frond_error *error);

// Makes a temporary tree, at once and without a name. `options` may be null.
int32_t frond_temporary_create(const frond_db *db,
                               const frond_tree_options *options,
                               frond_temporary **tree,
                               frond_error *error);

// Gives the tree back; its rows go with it, or with the last of its cursors. Null is allowed.
void frond_temporary_free(frond_temporary *tree);

// Sets a value, as part of a transaction, whose savepoints, statement and rollback take it back.
int32_t frond_temporary_put(const frond_txn *txn,
                            const frond_temporary *tree,
                            const uint8_t *key,
                            size_t key_length,
                            const uint8_t *value,
                            size_t value_length,
                            frond_error *error);

// Sets the value of a key that must not exist: else FRD-1108.
int32_t frond_temporary_insert(const frond_txn *txn,
                               const frond_temporary *tree,
                               const uint8_t *key,
                               size_t key_length,
                               const uint8_t *value,
                               size_t value_length,
                               frond_error *error);

// Deletes a key, if it exists.
int32_t frond_temporary_delete(const frond_txn *txn,
                               const frond_temporary *tree,
                               const uint8_t *key,
                               size_t key_length,
                               frond_error *error);

// The value of a key as last written, into `value`. FROND_NOT_FOUND if there is none.
int32_t frond_temporary_get(const frond_temporary *tree,
                            const uint8_t *key,
                            size_t key_length,
                            frond_buffer *value,
                            frond_error *error);

// Rows from `from` on and below `to` (null: from the first, to the last), as they are now, or were when the statement of the
// transaction that writes the tree began.
int32_t frond_temporary_scan(const frond_temporary *tree,
                             const uint8_t *from,
                             size_t from_length,
                             const uint8_t *to,
                             size_t to_length,
                             frond_cursor **cursor,
                             frond_error *error);

// Takes all rows out, unless a transaction has written the tree and not ended.
int32_t frond_temporary_clear(const frond_temporary *tree, frond_error *error);

// Inserts a row, its own entry first: all its entries, or none. As frond_txn_insert_row, but that nothing is locked.
int32_t frond_temporary_insert_row(const frond_txn *txn,
                                   const frond_temporary_entry *entries,
                                   size_t count,
                                   frond_conflict *conflict,
                                   frond_error *error);

// The values of many keys as last written. As frond_txn_get_many.
int32_t frond_temporary_get_many(const frond_temporary *tree,
                                 const frond_bytes *keys,
                                 size_t count,
                                 frond_buffer *memory,
                                 frond_bytes *values,
                                 frond_error *error);

// Takes `count` numbers from a counter of the tree, 0 to 3, the first of them at least `least`; `first` gets it. Nothing gives them
// back.
int32_t frond_temporary_reserve(const frond_temporary *tree,
                                uint32_t counter,
                                uint64_t least,
                                uint64_t count,
                                uint64_t *first,
                                frond_error *error);

// The number that a counter would give next.
int32_t frond_temporary_next_number(const frond_temporary *tree,
                                    uint32_t counter,
                                    uint64_t *next,
                                    frond_error *error);

// How many rows there are. `exact`, which may be null, gets whether they were counted: else something was put or deleted of which
// nobody knew whether it was there.
int32_t frond_temporary_row_count(const frond_temporary *tree,
                                  uint64_t *rows,
                                  bool *exact,
                                  frond_error *error);

// About how many rows lie from `from` up to, not including, `to`, and how many bytes they take; 0 rows only if there are none.
// Null: from the first key, to the last. `data_bytes` may be null.
int32_t frond_temporary_estimate(const frond_temporary *tree,
                                 const uint8_t *from,
                                 size_t from_length,
                                 const uint8_t *to,
                                 size_t to_length,
                                 uint64_t *rows,
                                 uint64_t *data_bytes,
                                 frond_error *error);

// The value of a key, into `value`. FROND_NOT_FOUND if there is none.
int32_t frond_get(const frond_tree *tree,
                  const uint8_t *key,
                  size_t key_length,
                  frond_buffer *value,
                  frond_error *error);

// Sets a value at the store's durability: a batch of one, which waits for transactions that have the row, ten seconds at most,
// its own session's included. Within one, numbers of sequences are set by frond_txn_put_autonomous.
int32_t frond_put(const frond_tree *tree,
                  const uint8_t *key,
                  size_t key_length,
                  const uint8_t *value,
                  size_t value_length,
                  frond_error *error);

// Deletes a key, if it exists, at the store's durability.
int32_t frond_delete(const frond_tree *tree,
                     const uint8_t *key,
                     size_t key_length,
                     frond_error *error);

// Fills options with what is usual: FROND_SNAPSHOT, ten seconds, FROND_AS_STORE.
void frond_txn_options_init(frond_txn_options *options);

// Begins a transaction. `options` may be null.
int32_t frond_txn_begin(const frond_db *db,
                        const frond_txn_options *wanted,
                        frond_txn **txn,
                        frond_error *error);

// Makes everything written visible to others at once. The handle is given back, but while it has cursors (FRD-1001).
// `seqno`, which may be null, gets the number of the commit. On another error all is rolled back;
// but FRD-3203 (and FRD-3202 behind it): the store has stopped, and others may have seen the commit; after opening it look whether it is there.
int32_t frond_txn_commit(frond_txn *txn,
                         uint64_t *seqno,
                         frond_error *error);

// Takes everything back. The handle is given back, but while it has cursors (FRD-1001).
int32_t frond_txn_rollback(frond_txn *txn, frond_error *error);

// The transaction's number, by which waits and deadlocks name it; 0 if `txn` is null.
uint64_t frond_txn_id(const frond_txn *txn);

// Whether the transaction is over: a deadlock (FRD-1102) or a conflict (FRD-1107) has ended it, or an error behind which what it
// had written was nowhere as a whole (a disk that is full, FRD-1301, may be that, or may not). Then all is rolled back, others
// may go on, and its calls fail with FRD-1109; the handle is given back as ever, by frond_txn_rollback. After any other error it
// goes on. True if `txn` is null.
bool frond_txn_is_over(const frond_txn *txn);

// For how long calls that come wait for locks, all those of a call together, in milliseconds; 0: a call that would have to wait
// fails with FRD-1101 at once; below 0: until it gets them. As `lock_timeout_ms` of the options that the transaction was begun
// with; for statements that say so themselves. Reads that say `wait_ms` go by that; frond_txn_delete_range has the time for each row.
int32_t frond_txn_set_lock_timeout(const frond_txn *txn,
                                   int64_t lock_timeout_ms,
                                   frond_error *error);

// The value of a key, into `value`, as the transaction sees it. FROND_NOT_FOUND if there is none; the key is locked then
// all the same, if `row_lock` says so. With a lock the newest commit is read. At FROND_SERIALIZABLE, FROND_NO_LOCK is
// FROND_SHARED.
int32_t frond_txn_get(const frond_txn *txn,
                      const frond_tree *tree,
                      const uint8_t *key,
                      size_t key_length,
                      int32_t row_lock,
                      int32_t when_locked,
                      frond_buffer *value,
                      frond_error *error);

// Sets a value, whether the key exists or not. The row is locked until the transaction ends.
int32_t frond_txn_put(const frond_txn *txn,
                      const frond_tree *tree,
                      const uint8_t *key,
                      size_t key_length,
                      const uint8_t *value,
                      size_t value_length,
                      frond_error *error);

// Sets the value of a key that must not exist: else FRD-1108, and the transaction goes on.
int32_t frond_txn_insert(const frond_txn *txn,
                         const frond_tree *tree,
                         const uint8_t *key,
                         size_t key_length,
                         const uint8_t *value,
                         size_t value_length,
                         frond_error *error);

// Sets the value of a key that the caller knows to be absent, without a look: of a row under a number that was just reserved,
// say. If it was there after all, a later delete may bring the older value back.
int32_t frond_txn_put_absent(const frond_txn *txn,
                             const frond_tree *tree,
                             const uint8_t *key,
                             size_t key_length,
                             const uint8_t *value,
                             size_t value_length,
                             frond_error *error);

// Deletes a key, if it exists.
int32_t frond_txn_delete(const frond_txn *txn,
                         const frond_tree *tree,
                         const uint8_t *key,
                         size_t key_length,
                         frond_error *error);

// Deletes all rows from `from` up to, not including, `to` (null with length 0: no begin, no end), the transaction's own of before
// the statement included, and says how many there were, in `rows`, which may be null. Each is locked as frond_txn_delete locks
// it, and at FROND_REPEATABLE_READ and FROND_SERIALIZABLE the gaps between them are, too; at FROND_SNAPSHOT a row that others
// have changed or deleted since is FRD-1107. It costs what its rows cost, one after the other: frond_batch_delete_range does it
// for the price of one, and not in a transaction; frond_change_truncate for all rows of a tree. If it fails, no row was deleted.
int32_t frond_txn_delete_range(const frond_txn *txn,
                               const frond_tree *tree,
                               const uint8_t *from,
                               size_t from_length,
                               const uint8_t *to,
                               size_t to_length,
                               uint64_t *rows,
                               frond_error *error);

// Sets the value of a row that is there, in a commit of its own, within the transaction's: others see it at once, it is as
// durable as the transaction's commits are, and no rollback takes it back. FROND_NOT_FOUND if there is no such row: nothing was done, make it by
// frond_put first. For the number that a sequence goes on from.
//
// Who has only read the row, under a shared lock, is neither waited for nor told: the transaction itself at FROND_SERIALIZABLE,
// above all. Who has it exclusively, or writes it, is waited for as by any call of the transaction, seen by the search for
// deadlocks and ended by an interrupt. The row is not locked afterwards. A snapshot goes on showing it as it was, and at
// FROND_SNAPSHOT a transaction that has one and writes the row itself, this one too, gets FRD-1107. FRD-1001 if the
// transaction has written the row itself, or is read-only: then one that is begun beside it does it. `seqno`, which may be null, gets the commit's number.
int32_t frond_txn_put_autonomous(const frond_txn *txn,
                                 const frond_tree *tree,
                                 const uint8_t *key,
                                 size_t key_length,
                                 const uint8_t *value,
                                 size_t value_length,
                                 uint64_t *seqno,
                                 frond_error *error);

// Folds an operand into a value without reading it: FROND_ADD, …, or the number of an operator of the program's own
// (frond_operator).
int32_t frond_txn_merge(const frond_txn *txn,
                        const frond_tree *tree,
                        const uint8_t *key,
                        size_t key_length,
                        uint8_t operation,
                        const uint8_t *operand,
                        size_t operand_length,
                        frond_error *error);

// Begins a statement, which ends where the next one begins: it can be taken back as a whole, and scans that begin in it see
// what the transaction had written before it, so that it never meets what it writes itself. Reads of rows see everything.
int32_t frond_txn_begin_statement(const frond_txn *txn,
                                  frond_error *error);

// Begins a statement inside the current one, such as a statement of a function or a trigger: scans that begin in it see
// what the transaction wrote before it. frond_txn_rollback_statement still takes back the outer statement with
// everything inside it, and at FROND_READ_COMMITTED plain reads keep the outer statement's snapshot. Substatements
// nest; end each with frond_txn_end_substatement. FRD-1001 outside of a statement.
int32_t frond_txn_begin_substatement(const frond_txn *txn,
                                     frond_error *error);

// Ends the innermost substatement: scans that begin from now on see what those of the enclosing statement see. FRD-1001
// if there is none, also after the outer statement has ended or was taken back.
int32_t frond_txn_end_substatement(const frond_txn *txn,
                                   frond_error *error);

// Lets go of what the plain reads of a statement looked at at FROND_READ_COMMITTED: for sessions that stay idle within a
// transaction, for which the store would keep what others change. Scans go on; the statement can still be taken back.
int32_t frond_txn_end_statement(const frond_txn *txn,
                                frond_error *error);

// Takes back what was written since the statement began, and forgets savepoints that were made in it; costs what it takes
// back. Rows stay locked.
int32_t frond_txn_rollback_statement(const frond_txn *txn,
                                     frond_error *error);

// Marks this moment, to go back to: `number` gets its number. Savepoints nest.
int32_t frond_txn_savepoint(frond_txn *txn, uint64_t *number, frond_error *error);

// Takes back what was written since a savepoint, which stays; costs what it takes back. Rows stay locked.
int32_t frond_txn_rollback_to(frond_txn *txn,
                              uint64_t number,
                              frond_error *error);

// Forgets a savepoint, and those made behind it; what was written stays.
int32_t frond_txn_release(frond_txn *txn, uint64_t number, frond_error *error);

// Gives what another thread can stop the transaction by. To be asked for before calls that wait.
int32_t frond_txn_interrupter(const frond_txn *txn,
                              frond_interrupter **interrupter,
                              frond_error *error);

// Interrupts the transaction: its current call ends with FRD-1106 if it waits or walks over rows, and so do all later
// calls until frond_txn_clear_interrupt; likewise other work that the interrupter was set on (frond_cursor_heed and others).
// Never waits; does nothing if the transaction is over. Null is allowed.
void frond_interrupt(const frond_interrupter *interrupter);

// Makes an interrupter that belongs to no transaction (frond_interrupter_new) stop this one, from now on until the
// transaction ends. It is meant for a session, which calls this for each of its transactions in turn; the interrupter
// stops only the last of them. If it was interrupted before and not cleared since, the transaction is interrupted at
// once; frond_interrupter_clear lets it go on.
int32_t frond_txn_set_interrupter(const frond_txn *txn,
                                  const frond_interrupter *interrupter,
                                  frond_error *error);

// Gives the handle back. Null is allowed.
void frond_interrupter_free(frond_interrupter *interrupter);

// Clears the interrupt of the transaction: its calls go on.
int32_t frond_txn_clear_interrupt(const frond_txn *txn, frond_error *error);

// Its number; 0 if `party` is null.
uint64_t frond_party_id(const frond_party *party);

// The tag that it was begun with.
uint64_t frond_party_tag(const frond_party *party);

// Asks it to stop, as frond_interrupt does.
void frond_party_interrupt(const frond_party *party);

// Calls `tell` with `cookie` once everything that has its place in the order of commits so far is durable: from a thread
// of the store, within a second, before frond_close returns at the latest; never if the store has stopped. `tell` must
// not call the library.
int32_t frond_when_synced(const frond_db *db,
                          frond_synced tell,
                          void *cookie,
                          frond_error *error);

// Tells who holds locks or a snapshot now, a line each, longest first: for how long, how much it has written, and as of which
// commit it reads; snapshots that are no transaction's, too. Who holds neither, for it has done nothing yet or is between two
// statements at FROND_READ_COMMITTED, is not among them.
int32_t frond_transactions(const frond_db *db,
                           frond_line tell,
                           void *context,
                           frond_error *error);

// Tells who waits for a lock now, a line each: who, for which key of which tree (its begin, in quotes), and behind whom. Not told
// are waits for something else: for batches that are being committed before a transaction's first lock, for background work
// that is behind, and for room in memory, in the log or on the disk.
int32_t frond_lock_waits(const frond_db *db,
                         frond_line tell,
                         void *context,
                         frond_error *error);

// The last deadlock in words, with names of trees and begins of keys. FROND_NOT_FOUND if there was none.
int32_t frond_last_deadlock(const frond_db *db,
                            frond_buffer *words,
                            frond_error *error);

// One of the numbers that `frond stats` prints: counters and sizes. FROND_NOT_FOUND if there is no such name.
int32_t frond_stat(const frond_db *db,
                   const char *name,
                   uint64_t *value,
                   frond_error *error);

// Tells all numbers that `frond stats` prints, in a fixed order.
int32_t frond_stats(const frond_db *db, frond_number tell, void *context, frond_error *error);

// How long things took since the store was opened: `what` is FROND_COMMITS, … . `count` gets how many there were, `nanos` the time
// that `per_mille` of a thousand of them did not exceed, at most an eighth too long: 500 asks for the median, 1000 for the
// longest. Both may be null.
int32_t frond_times(const frond_db *db,
                    int32_t what,
                    uint32_t per_mille,
                    uint64_t *count,
                    uint64_t *nanos,
                    frond_error *error);

// Locks a tree as a whole until the transaction ends, whatever of it is taken back; one that is prepared keeps it. `mode` is
// FROND_TREE_SHARED, …; `when_locked` FROND_WAIT, or FROND_FAIL for FRD-1105 if another stands against it. Plain reads go on.
int32_t frond_txn_lock_tree(const frond_txn *txn,
                            const frond_tree *tree,
                            int32_t mode,
                            int32_t when_locked,
                            frond_error *error);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FROND_H */
