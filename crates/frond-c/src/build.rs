//! Builds of indexes of a tree while it is being written; the program computes the entries.
//!
//! The order of calls: `frond_index_build_begin`, `…_snapshot`, and `…_add` for each entry of a row
//! of the snapshot. Then rounds of `…_next` and `…_change`: a round ends when `…_next` has no more
//! rows, and the rounds end when `…_is_near` returns true. Then `…_lock`, one more round, and
//! `…_publish`.

use std::{
    ffi::{c_char, c_void},
    ptr::null_mut,
    time::Duration,
};

use frond::load::IndexBuild;

use crate::{
    bytes::*, cancel::frond_progress, error::*, snapshot::frond_snapshot, store::*,
    waits::frond_interrupter,
};

/// A running build of indexes. Can be used by one thread at a time. Releasing it abandons the
/// build, unless it was published.
pub struct frond_index_build(IndexBuild);

/// A row that differs between two snapshots of a build. It lies in the build's memory and is valid
/// until the next call of frond_index_build_next.
#[repr(C)]
pub struct frond_row_changed {
    /// Key of the row.
    pub key: *const u8,
    /// Length of the key in bytes.
    pub key_length: usize,
    /// The old value of the row, which the indexes reflect; null if the row did not exist.
    pub before: *const u8,
    /// Length of `before` in bytes.
    pub before_length: usize,
    /// The new value of the row, which the indexes should reflect; null if the row no longer
    /// exists.
    pub after: *const u8,
    /// Length of `after` in bytes.
    pub after_length: usize,
}

/// The time to wait: `Duration::MAX` if the number is below 0.
fn wait(milliseconds: i64) -> Duration {
    u64::try_from(milliseconds).map_or(Duration::MAX, Duration::from_millis)
}

/// Starts to build `count` indexes of a tree that has rows, while others write to the tree. The
/// indexes are trees with these names and options (null: the defaults for all), to be used once
/// they are published. From now on, each commit of a transaction or batch also puts the keys of the
/// rows that it writes into a queue; writers need not know about the build. A tree can have one
/// build at a time (otherwise FRD-1105). An entry's key must belong to only one row, unless the
/// index is unique and the build should find duplicates. The build is released by
/// frond_index_build_publish or frond_index_build_free.
#[api]
fn frond_index_build_begin(
    db: &frond_db,
    base: &frond_tree,
    names: *const *const c_char,
    options: *const frond_tree_options,
    count: usize,
    build: New<frond_index_build>,
) -> Done {
    let one = |(at, &name): (usize, &*const c_char)| {
        // SAFETY: see `bytes.rs`: there are as many options as names.
        let options = (!options.is_null()).then(|| unsafe { &*options.add(at) });
        // SAFETY: likewise.
        Ok((unsafe { text(name, "a name") }?, tree_options(options)?))
    };
    // SAFETY: see `bytes.rs`.
    let names = unsafe { list(names, count, "names") }?;
    let indexes: Vec<_> = names.iter().enumerate().map(one).collect::<Done<_>>()?;
    build.give(frond_index_build(db.0.build_indexes(&base.0, &indexes)?))
}

/// Returns the snapshot at which the program must read the tree's rows; each call returns the same
/// one. Release it with frond_snapshot_free. The first call waits for all transactions that had
/// written to the tree when the build started, including prepared ones; others continue. If they
/// last longer than `wait_ms` (below 0: no limit), the error is FRD-1101, and the call may be
/// repeated.
#[api]
fn frond_index_build_snapshot(
    build: &mut frond_index_build,
    wait_ms: i64,
    snapshot: New<frond_snapshot>,
) -> Done {
    snapshot.give(frond_snapshot(build.0.snapshot(wait(wait_ms))?))
}

/// Adds the entry of a row of the snapshot to an index, in any order. Indexes are numbered from 0
/// in the order in which their names were given. If two entries have the same key in a unique
/// index, this or a later call fails with FRD-1104; `tree` of the error is the index, and the build
/// has failed.
#[api]
fn frond_index_build_add(
    build: &mut frond_index_build,
    index: usize,
    key: &[u8],
    value: &[u8],
) -> Done {
    Ok(build.0.add(index, key, value)?)
}

/// Completes the base, which is the entries of the snapshot's rows: makes trees of the entries that
/// were added. If the program does not call this, frond_index_build_next does it.
#[api]
fn frond_index_build_end_base(build: &mut frond_index_build) -> Done {
    Ok(build.0.end_base()?)
}

/// Returns the next row whose index entries may be outdated; pass the entries to remove and to add
/// to frond_index_build_change. FROND_NOT_FOUND at the end of a round: the indexes then have the
/// entries of one snapshot, and the next call starts another round. A round may return a row twice;
/// pass the same entries again.
///
/// FRD-1104 if two rows had the same key in a unique index at that snapshot; `tree` of the error is
/// the index. After any error the build has failed, except after FRD-1106, unless that came while
/// the base was completed.
#[api]
fn frond_index_build_next(build: &mut frond_index_build, row: &mut frond_row_changed) -> Done {
    let found = build.0.next_change()?.ok_or(Fail::NotFound)?;
    let (before, before_length) = parts(found.old);
    let (after, after_length) = parts(found.new);
    let (key, key_length) = parts(Some(found.key));
    set(row, frond_row_changed { key, key_length, before, before_length, after, after_length })
}

/// Changes an index entry of the row that was returned last. `old_key` is the key of the entry that
/// the row had in the index (null with length 0: none); `key` and `value` are the entry that it
/// should have (`key` null with length 0: none). Skip entries that do not change. A row may have
/// several entries in one index.
#[api]
fn frond_index_build_change(
    build: &mut frond_index_build,
    index: usize,
    old_key: Option<&[u8]>,
    key: Option<&[u8]>,
    value: &[u8],
) -> Done {
    Ok(build.0.change(index, old_key, key.map(|key| (key, value)))?)
}

/// Returns, after a round, whether it is time to lock the tree: `near` receives true if the round
/// was short and the next one is expected to be short, too.
#[api]
fn frond_index_build_is_near(build: &frond_index_build, near: &mut bool) -> Done {
    set(near, build.0.is_near()?)
}

/// Locks the tree exclusively, so that the next round is the last; writers wait from then on.
/// FRD-1101 if transactions keep rows of the tree locked for longer than `wait_ms` (below 0: no
/// limit): nothing was done; run more rounds and try again.
#[api]
fn frond_index_build_lock(build: &mut frond_index_build, wait_ms: i64) -> Done {
    Ok(build.0.lock(wait(wait_ms))?)
}

/// Publishes the indexes in one commit, which is synced, after the round that follows
/// frond_index_build_lock. `trees`, which may be null, receives one handle per index; nulls after
/// an error. The build is released, except after FRD-1001: then it is unchanged.
///
/// `then`, which may be null, is called before any writer that is waiting for the tree continues.
/// It must make the indexes known to writers: after it, every writer must maintain them. So a
/// writer must hold an intent lock on the tree (frond_txn_lock_tree) when it looks up which indexes
/// exist, or be excluded in another way. `then` itself must not write to the tree, which is locked.
#[api]
fn frond_index_build_publish(
    build: Owned<frond_index_build>,
    then: Option<unsafe extern "C" fn(context: *mut c_void)>,
    context: *mut c_void,
    trees: *mut *mut frond_tree,
) -> Done {
    if let Err(wrong @ frond::Error::InvalidArgument(_)) = build.0.must_be_whole() {
        return Err(wrong.into());
    }
    let build = build.take().0;
    let count = if trees.is_null() { 0 } else { build.index_count() };
    // SAFETY: see `bytes.rs`: there is a place for each index.
    let places = unsafe { places(trees, count, "trees") }?;
    places.iter_mut().for_each(|place| _ = place.write(null_mut()));
    // SAFETY: the caller's function.
    let made = build.publish(|_| then.into_iter().for_each(|then| unsafe { then(context) }))?;
    for (place, tree) in places.iter_mut().zip(made) {
        place.write(handle(frond_tree(tree)));
    }
    Ok(())
}

/// Releases a build and abandons it: nothing of it is left behind. Null is allowed.
#[api]
fn frond_index_build_free(build: Option<Box<frond_index_build>>) {}

/// Makes a build cancellable: after this call, an interrupt ends its calls with FRD-1106. If it
/// ends a call that adds entries to the base or completes the base, the build has failed; other
/// calls fail only until the interrupt is cleared.
#[api]
fn frond_index_build_set_interrupter(
    build: &mut frond_index_build,
    interrupter: &frond_interrupter,
) {
    build.0.set_interrupter(&interrupter.0);
}

/// Returns the progress of a build, which any thread may read. Release it with frond_progress_free.
#[api]
fn frond_index_build_progress(build: &frond_index_build, progress: New<frond_progress>) -> Done {
    progress.give(frond_progress(build.0.progress()))
}
