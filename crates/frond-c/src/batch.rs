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

/// Writes that are committed together, in the order in which they were added. Can be used by one
/// thread at a time, not necessarily always the same.
pub struct frond_batch {
    batch: Batch,
}

/// Creates an empty batch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_batch_new(
    batch: *mut *mut frond_batch,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`, here and below.
    unsafe { call(error, || give(batch, || Ok(frond_batch { batch: Batch::new() }))) }
}

/// Releases a batch. Null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_batch_free(batch: *mut frond_batch) {
    // SAFETY: see `bytes.rs`.
    unsafe { call(std::ptr::null_mut(), || take_back(batch, "the batch").map(drop)) };
}

/// Adds a put to a batch: sets a value, whether the key exists or not.
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

/// Adds a delete to a batch: deletes a key, if it exists.
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

/// Adds a range delete to a batch: deletes all keys from `from` up to, but not including, `to`.
/// Costs the same however many keys there are.
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

/// Makes commits of a batch cancellable: after this call, an interrupt ends them with FRD-1106
/// until it is cleared. A commit that is waiting for row locks of transactions, or for space, ends
/// at once. A commit that ends so has done nothing, and the batch is unchanged.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_batch_set_interrupter(
    batch: *mut frond_batch,
    interrupter: *const frond_interrupter,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let interrupter = &given(interrupter, "what it is stopped by")?.interrupter;
            given_mut(batch, "the batch")?.batch.set_interrupter(interrupter);
            Ok(())
        })
    }
}

/// Limits how long a commit of the batch waits for row locks of transactions, all together, in
/// milliseconds; below 0 means no limit. The default is ten seconds.
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

/// Commits a batch and empties it. `level` is FROND_AS_STORE or a durability of its own. `seqno`,
/// which may be null, receives the number of the commit.
///
/// After an error nothing was done, and the batch is unchanged. The exception is FRD-3203 (and
/// FRD-3202 after it): the store has stopped, and others may have seen the commit; open the store
/// again and check whether it is there.
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

/// A bulk load: puts rows, in any order, into a tree that it creates, or into an empty one, in a
/// commit of its own. Can be used by one thread at a time, not necessarily always the same; several
/// threads can run loads at the same time. The interrupter and the progress of a load can be used
/// by any thread.
pub struct frond_load {
    pub(crate) load: BulkLoad,
}

/// Starts to load a new tree. `options` may be null. The tree is invisible until
/// frond_loads_finish.
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

/// Starts to load an existing tree that has no rows, for callers that create a tree first and fill
/// it later. If it has rows, the error is FRD-1017. Deleted rows do not count.
///
/// Until frond_loads_finish the tree is unchanged, and others may use it. Then a new tree with the
/// rows replaces it. Its name, attributes, layouts, settings and counters (frond_tree_reserve) are
/// the same, its number is another. As after a truncation, handles of the old tree fail with
/// FRD-1004, and older snapshots with FRD-1006. If no row was put, the tree stays, and so do its
/// handles.
///
/// The end of the load waits for transactions that have rows of the tree or have locked it,
/// prepared ones included; for one of the caller's own session it would wait in vain. Then the tree
/// must still be empty. If the disk becomes full after the commit, the call waits for space.
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

/// Limits how long the end of a load into an existing tree waits for transactions with rows of it,
/// in milliseconds; below 0 means no limit. The default is ten seconds. If several loads end
/// together, the shortest limit counts, and so does the interrupter of the first load.
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

/// Adds a row to a load. If a key comes more than once, the row put last stays, unless the tree is
/// unique: then this call, or frond_loads_finish, fails with FRD-1104.
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

/// Callback that receives a row. Key and value are valid during the call.
pub type frond_row_told = Option<
    unsafe extern "C" fn(
        context: *mut c_void,
        key: *const u8,
        key_length: usize,
        value: *const u8,
        value_length: usize,
    ),
>;

/// Sets a callback for a duplicate key in a unique tree. It receives one of the rows that have the
/// key. It is called at most once, by the call of frond_load_put or frond_loads_finish that then
/// fails with FRD-1104. It must not call the library. The function and `context` must stay valid
/// until the load is released.
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

/// Abandons a load. Null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_load_free(load: *mut frond_load) {
    // SAFETY: see `bytes.rs`.
    unsafe { call(std::ptr::null_mut(), || take_back(load, "the load").map(drop)) };
}

/// Creates or fills the trees of `count` loads in one commit, which is synced: all of them or,
/// after an error, none. `trees`, which may be null, receives `count` handles of the new trees.
///
/// All loads are released, except after FRD-1001 (a load is null or passed twice, two are for the
/// same tree, or they belong to different stores): then all are unchanged.
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
                return Err(misuse("the loads contain a duplicate, or two nulls"));
            }
            // Consumes no handle before it is known that all loads can finish together.
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
