//! Batches, which commit writes atomically without reading, and bulk loads of new or empty trees.

use std::{ffi::c_void, ptr::null_mut};

use frond::{Batch, load::BulkLoad};

use crate::{bytes::*, error::*, read_as::lock_timeout, store::*, waits::frond_interrupter};

/// A batch of writes that are committed together, in the order in which they were added. It can be
/// used by one thread at a time, not necessarily always the same.
pub struct frond_batch(Batch);

/// Creates an empty batch.
#[api]
fn frond_batch_new(batch: New<frond_batch>) -> Done {
    batch.give(frond_batch(Batch::new()))
}

/// Releases a batch. Null is allowed.
#[api]
fn frond_batch_free(batch: Option<Box<frond_batch>>) {}

/// Adds a put to a batch: sets a value, whether the key exists or not.
#[api]
fn frond_batch_put(batch: &mut frond_batch, tree: &frond_tree, key: &[u8], value: &[u8]) -> Done {
    Ok(batch.0.put(&tree.0, key, value)?)
}

/// Adds a delete to a batch: deletes a key, if it exists.
#[api]
fn frond_batch_delete(batch: &mut frond_batch, tree: &frond_tree, key: &[u8]) -> Done {
    Ok(batch.0.delete(&tree.0, key)?)
}

/// Adds a range delete to a batch: deletes all keys from `from` up to, but not including, `to`. Its
/// cost does not depend on the number of keys.
#[api]
fn frond_batch_delete_range(
    batch: &mut frond_batch,
    tree: &frond_tree,
    from: &[u8],
    to: &[u8],
) -> Done {
    Ok(batch.0.delete_range(&tree.0, from..to)?)
}

/// Makes commits of a batch cancellable: after this call, an interrupt ends them with FRD-1106
/// until it is cleared. A commit that is waiting for row locks of transactions, or for space, ends
/// at once. A commit that ends this way has done nothing, and the batch is unchanged.
#[api]
fn frond_batch_set_interrupter(batch: &mut frond_batch, interrupter: &frond_interrupter) {
    batch.0.set_interrupter(&interrupter.0);
}

/// Limits how long a commit of the batch waits for the row locks of transactions in total, in
/// milliseconds; below 0 means no limit. The default is ten seconds.
#[api]
fn frond_batch_lock_timeout(batch: &mut frond_batch, milliseconds: i64) {
    batch.0.lock_timeout(lock_timeout(milliseconds));
}

/// Commits a batch and empties it. `level` is the durability of this commit, or FROND_AS_STORE.
/// `seqno`, which may be null, receives the number of the commit.
///
/// After an error nothing was done, and the batch is unchanged. The exception is FRD-3203 (and
/// FRD-3202 after it): the store has stopped, and others may have seen the commit; open the store
/// again and check whether it is there.
#[api]
fn frond_batch_commit(
    db: &frond_db,
    batch: &mut frond_batch,
    level: i32,
    seqno: Option<&mut u64>,
) -> Done {
    let committed = match durability(level)? {
        None => db.0.commit(&mut batch.0)?,
        Some(level) => db.0.commit_with(&mut batch.0, level)?,
    };
    set(seqno, committed.0)
}

/// A bulk load: it puts rows, in any order, into a new or an existing empty tree, in a commit of
/// its own. It can be used by one thread at a time, not necessarily always the same; several
/// threads can run loads at the same time. The interrupter and the progress of a load can be used
/// by any thread.
pub struct frond_load(pub(crate) BulkLoad);

/// Starts to load a new tree. `options` may be null. The tree is invisible until
/// frond_loads_finish.
#[api]
fn frond_load_begin(
    db: &frond_db,
    name: &str,
    options: Option<&frond_tree_options>,
    load: New<frond_load>,
) -> Done {
    load.give(frond_load(db.0.bulk_load(name, tree_options(options)?)?))
}

/// Starts to load an existing tree that has no rows, for callers that create a tree first and fill
/// it later. If it has rows, the error is FRD-1017. Deleted rows do not count.
///
/// Until frond_loads_finish the tree is unchanged, and others may use it. Then a new tree with the
/// rows replaces it. The new tree has the same name, attributes, layouts, settings and counters
/// (frond_tree_reserve), but another number. As after a truncation, handles of the old tree fail
/// with FRD-1004, and older snapshots with FRD-1006. If no row was put, the tree is not replaced,
/// and its handles stay valid.
///
/// frond_loads_finish waits for transactions that have locked the tree or rows of it, including
/// prepared ones. If one of them belongs to the caller's session, this wait cannot succeed: end
/// that transaction first. After the wait, the tree must still be empty. If the disk becomes full
/// after the commit, the call waits for space.
#[api]
fn frond_load_begin_into(db: &frond_db, tree: &frond_tree, load: New<frond_load>) -> Done {
    load.give(frond_load(db.0.bulk_load_into(&tree.0)?))
}

/// Limits how long the end of a load into an existing tree waits for transactions that have locked
/// rows of it, in milliseconds; below 0 means no limit. The default is ten seconds. If several
/// loads end together, the shortest limit applies, and the interrupter of the first load.
#[api]
fn frond_load_lock_timeout(load: &mut frond_load, milliseconds: i64) {
    load.0.lock_timeout(lock_timeout(milliseconds));
}

/// Adds a row to a load. If a key occurs more than once, the row that was put last is kept, unless
/// the tree is unique: then this call, or frond_loads_finish, fails with FRD-1104.
#[api]
fn frond_load_put(load: &mut frond_load, key: &[u8], value: &[u8]) -> Done {
    Ok(load.0.put(key, value)?)
}

/// Callback that receives a row. Key and value are valid during the call.
pub type frond_row_callback = Option<
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
#[api]
fn frond_load_on_duplicate(
    load: &mut frond_load,
    visit: frond_row_callback,
    context: *mut c_void,
) -> Done {
    struct Context(*mut c_void);
    // SAFETY: the caller promises that the thread that uses the load may use the context.
    unsafe impl Send for Context {}
    let (visit, context) = (callback(visit)?, Context(context));
    load.0.on_duplicate(move |key, value| {
        let context = &context;
        // SAFETY: the caller's function; its arguments are valid until it returns.
        unsafe { visit(context.0, key.as_ptr(), key.len(), value.as_ptr(), value.len()) };
    });
    Ok(())
}

/// Releases a load and abandons it: nothing of it is left behind. Null is allowed.
#[api]
fn frond_load_free(load: Option<Box<frond_load>>) {}

/// Creates or fills the trees of `count` loads in one commit, which is synced when this returns:
/// all of them or, after an error, none. `trees`, which may be null, receives `count` handles of
/// the new trees.
///
/// All loads are released, except after FRD-1001 (a load is null or passed twice, two are for the
/// same tree, or they belong to different stores): then all are unchanged.
#[api]
fn frond_loads_finish(
    loads: &[*mut frond_load],
    mut trees: Option<&mut [Place<*mut frond_tree>]>,
) -> Done {
    if loads.is_empty() {
        return Ok(());
    }
    trees.iter_mut().flat_map(|trees| trees.iter_mut()).for_each(|tree| _ = tree.write(null_mut()));
    if (0..loads.len()).any(|at| loads[..at].contains(&loads[at])) {
        return Err(misuse("the loads contain a duplicate, or two nulls"));
    }
    // SAFETY: see `bytes.rs`. Consumes no handle before it is known that all loads can finish
    // together.
    let all = loads.iter().map(|&load| unsafe { given(load, "a load") }.map(|load| &load.0));
    BulkLoad::must_go_together(&all.collect::<Done<Vec<_>>>()?)?;
    // SAFETY: see `bytes.rs`; none is passed twice.
    let taken =
        loads.iter().map(|&load| unsafe { owned(load, "a load") }.map(|load| load.take().0));
    let finished = BulkLoad::finish_all(taken.collect::<Done<_>>()?)?;
    for (place, loaded) in trees.into_iter().flatten().zip(finished) {
        place.write(handle(frond_tree(loaded.tree)));
    }
    Ok(())
}
