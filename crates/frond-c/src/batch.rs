//! Batches (committed at once, reading nothing), and bulk loads of trees that are new or empty.

use std::ffi::{c_char, c_void};

use frond::{Batch, BulkLoad};

use crate::{
    bytes::{bytes, give, given, given_mut, take_back, text},
    error::{call, frond_error, misuse},
    read_as::lock_timeout,
    store::{durability, frond_db, frond_tree, frond_tree_options, tree_options},
    waits::frond_interrupter,
};

/// Writes that are committed together, in the order in which they were added. Of one thread at a time, not always the same.
pub struct frond_batch {
    batch: Batch,
}

/// Makes an empty batch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_batch_new(
    batch: *mut *mut frond_batch,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`, here and below.
    unsafe { call(error, || give(batch, || Ok(frond_batch { batch: Batch::new() }))) }
}

/// Gives a batch back. Null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_batch_free(batch: *mut frond_batch) {
    // SAFETY: see `bytes.rs`.
    unsafe { call(std::ptr::null_mut(), || take_back(batch, "the batch").map(drop)) };
}

/// Adds: set a value, whether the key exists or not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_batch_put(
    batch: *mut frond_batch,
    tree: *const frond_tree,
    key: *const u8,
    key_length: usize,
    value: *const u8,
    value_length: usize,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let (batch, tree) = (given_mut(batch, "the batch")?, given(tree, "the tree")?);
            let (key, value) =
                (bytes(key, key_length, "the key")?, bytes(value, value_length, "the value")?);
            Ok(batch.batch.put(&tree.tree, key, value)?)
        })
    }
}

/// Adds: delete a key, if it exists.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_batch_delete(
    batch: *mut frond_batch,
    tree: *const frond_tree,
    key: *const u8,
    key_length: usize,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let (batch, tree) = (given_mut(batch, "the batch")?, given(tree, "the tree")?);
            Ok(batch.batch.delete(&tree.tree, bytes(key, key_length, "the key")?)?)
        })
    }
}

/// Adds: delete all keys from `from` up to, not including, `to`. Costs the same for one row and for all.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_batch_delete_range(
    batch: *mut frond_batch,
    tree: *const frond_tree,
    from: *const u8,
    from_length: usize,
    to: *const u8,
    to_length: usize,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let (batch, tree) = (given_mut(batch, "the batch")?, given(tree, "the tree")?);
            let (from, to) =
                (bytes(from, from_length, "the begin")?, bytes(to, to_length, "the end")?);
            Ok(batch.batch.delete_range(&tree.tree, from, to)?)
        })
    }
}

/// From here on an interrupt ends commits of the batch with FRD-1106 until it is cleared; one that waits for rows that others have, or for
/// room, at once. Nothing was done then, and the batch is as it was.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_batch_heed(
    batch: *mut frond_batch,
    interrupter: *const frond_interrupter,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let heeded = &given(interrupter, "what it is stopped by")?.interrupter;
            given_mut(batch, "the batch")?.batch.heed(heeded);
            Ok(())
        })
    }
}

/// How long commits of the batch wait for rows that transactions have, all together, milliseconds; below 0: until they have ended. Ten
/// seconds if nobody says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_batch_lock_timeout(
    batch: *mut frond_batch,
    milliseconds: i64,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let timeout = lock_timeout(milliseconds);
            given_mut(batch, "the batch")?.batch.lock_timeout(timeout);
            Ok(())
        })
    }
}

/// Commits a batch, at FROND_AS_STORE or a level of its own, and empties it. `seqno`, which may be null, gets the commit's number.
/// On an error nothing is done, and the batch is as it was; but FRD-3203 (and FRD-3202 behind it): the store has stopped, and others may
/// have seen the commit; after opening it look whether it is there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_batch_commit(
    db: *const frond_db,
    batch: *mut frond_batch,
    level: i32,
    seqno: *mut u64,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let (db, batch) = (&given(db, "the store")?.db, given_mut(batch, "the batch")?);
            let committed = match durability(level)? {
                None => db.commit(&mut batch.batch)?,
                Some(level) => db.commit_with(&mut batch.batch, level)?,
            };
            seqno.as_mut().into_iter().for_each(|seqno| *seqno = committed.0);
            Ok(())
        })
    }
}

/// Loads rows in any order into a tree that it creates, or that is empty, in a commit of its own. Of one thread at a time, not always the same;
/// loads beside each other, and what they heed and their progress, are anybody's.
pub struct frond_load {
    pub(crate) load: BulkLoad,
}

/// Begins to load a new tree. `options` may be null. Nobody sees it before frond_loads_finish.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_load_begin(
    db: *const frond_db,
    name: *const c_char,
    options: *const frond_tree_options,
    load: *mut *mut frond_load,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            give(load, || {
                let (db, name) = (&given(db, "the store")?.db, text(name, "the name")?);
                Ok(frond_load { load: db.bulk_load(name, tree_options(options)?)? })
            })
        })
    }
}

/// Begins to load a tree that is there and has no rows (else FRD-1017): for who creates a tree first and fills it then. Until
/// frond_loads_finish it is as it was, and others may use it. Then a new tree with the rows takes its place, like it in name, attributes,
/// layouts, settings and counters (frond_tree_reserve), with another number: handles of the one that was there fail with FRD-1004, and
/// snapshots of before with FRD-1006, as after a truncation; if no row was put it stays what it was, handles too. The end of the load waits for
/// transactions that have rows of the tree or have locked it, prepared ones, too: the session's own would be waited for in vain. Then
/// the tree must be empty still. Rows that were all deleted are none. A disk that becomes full behind the commit is waited for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_load_begin_into(
    db: *const frond_db,
    tree: *const frond_tree,
    load: *mut *mut frond_load,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            give(load, || {
                let (db, tree) = (&given(db, "the store")?.db, given(tree, "the tree")?);
                Ok(frond_load { load: db.bulk_load_into(&tree.tree)? })
            })
        })
    }
}

/// How long the end of a load into a tree that is there waits for who has rows of it, milliseconds; below 0: until they have ended. Ten
/// seconds if nobody says. Of several loads that end together the shortest time counts, and the first one's interrupter is heeded.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_load_lock_timeout(
    load: *mut frond_load,
    milliseconds: i64,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let timeout = lock_timeout(milliseconds);
            given_mut(load, "the load")?.load.lock_timeout(timeout);
            Ok(())
        })
    }
}

/// Adds a row; of two with one key the later one counts, but in a tree that is unique: then finishing fails with FRD-1104.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_load_put(
    load: *mut frond_load,
    key: *const u8,
    key_length: usize,
    value: *const u8,
    value_length: usize,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let load = given_mut(load, "the load")?;
            let (key, value) =
                (bytes(key, key_length, "the key")?, bytes(value, value_length, "the value")?);
            Ok(load.load.put(key, value)?)
        })
    }
}

/// Is told a row: its key and its value, which are good for as long as the call lasts.
pub type frond_row_told = Option<
    unsafe extern "C" fn(
        context: *mut c_void,
        key: *const u8,
        key_length: usize,
        value: *const u8,
        value_length: usize,
    ),
>;

/// What is told of a duplicate key in a tree that is unique: `tell` is called once at most, with one of the rows that have the key, by the
/// call of frond_load_put or frond_loads_finish that then fails with FRD-1104. It may call nothing of the library. It and `context` must be good until the
/// load is given back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_load_on_duplicate(
    load: *mut frond_load,
    tell: frond_row_told,
    context: *mut c_void,
    error: *mut frond_error,
) -> i32 {
    struct Context(*mut c_void);
    // SAFETY: the caller promises that the thread that uses the load may use the context.
    unsafe impl Send for Context {}
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let load = given_mut(load, "the load")?;
            let tell = tell.ok_or_else(|| misuse("the function is null"))?;
            let context = Context(context);
            load.load.on_duplicate(move |key, value| {
                let context = &context;
                tell(context.0, key.as_ptr(), key.len(), value.as_ptr(), value.len());
            });
            Ok(())
        })
    }
}

/// Gives a load up, or nothing if `load` is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_load_free(load: *mut frond_load) {
    // SAFETY: see `bytes.rs`.
    unsafe { call(std::ptr::null_mut(), || take_back(load, "the load").map(drop)) };
}

/// Makes, or fills, the trees of `count` loads in one commit, synced: all, or on an error none. All handles are given back in any case but
/// FRD-1001 (one is null or given twice, two are for one tree, or they are of two stores): then all are as they were. `trees`, which may be
/// null, gets as many new ones.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_loads_finish(
    loads: *const *mut frond_load,
    count: usize,
    trees: *mut *mut frond_tree,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            if count == 0 {
                return Ok(());
            }
            if loads.is_null() || count > isize::MAX as usize / size_of::<usize>() {
                return Err(misuse("the loads are null, or too many"));
            }
            let loads = std::slice::from_raw_parts(loads, count);
            if !trees.is_null() {
                (0..count).for_each(|at| trees.add(at).write(std::ptr::null_mut()));
            }
            if (0..count).any(|at| loads[..at].contains(&loads[at])) {
                return Err(misuse("a load is given twice, or two are null"));
            }
            // No handle is taken back before it is known that all can be.
            let all = loads.iter().map(|&load| given(load, "a load").map(|load| &load.load));
            BulkLoad::must_go_together(&all.collect::<Result<Vec<_>, _>>()?)?;
            let taken = loads.iter().map(|&load| take_back(load, "a load").map(|load| load.load));
            let finished = BulkLoad::finish_all(taken.collect::<Result<_, _>>()?)?;
            if !trees.is_null() {
                let places = std::slice::from_raw_parts_mut(trees, count);
                for (place, loaded) in places.iter_mut().zip(finished) {
                    give(place, || Ok(frond_tree { tree: loaded.tree }))?;
                }
            }
            Ok(())
        })
    }
}
