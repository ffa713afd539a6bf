//! Builds of indexes of a tree while it is being written; the program computes the entries.
//!
//! The order of calls: `frond_index_build_begin`, `…_snapshot`, and `…_add` for each entry of a row
//! of the snapshot. Then rounds of `…_next` and `…_change`, each until `…_next` has no more rows,
//! until `…_is_near` says so. Then `…_lock`, one more round, and `…_publish`.

use std::{
    ffi::{c_char, c_void},
    time::Duration,
};

use frond::{IndexBuild, Tree, TreeOptions};

use crate::{
    bytes::{bytes, bytes_or_none, give, given, given_mut, list, take_back, text},
    cancel::{frond_progress, give_progress},
    error::{Fail, call, frond_error},
    snapshot::frond_snapshot,
    store::{frond_db, frond_tree, frond_tree_options, tree_options},
    waits::frond_interrupter,
};

/// A running build of indexes. Can be used by one thread at a time. Releasing it abandons the
/// build, unless it was published.
pub struct frond_index_build {
    build: IndexBuild,
}

/// A row that differs between two moments. It lies in the build's memory and is valid until the
/// next call of frond_index_build_next.
#[repr(C)]
pub struct frond_row_changed {
    /// Key of the row.
    pub key: *const u8,
    /// Length of the key in bytes.
    pub key_length: usize,
    /// The row as it was, which is what the indexes have; null if it did not exist.
    pub before: *const u8,
    /// Length of `before` in bytes.
    pub before_length: usize,
    /// The row as it is, which is what the indexes should have; null if it does not exist.
    pub after: *const u8,
    /// Length of `after` in bytes.
    pub after_length: usize,
}

/// The time to wait: `Duration::MAX` if the number is below 0.
fn wait(milliseconds: i64) -> Duration {
    u64::try_from(milliseconds).map_or(Duration::MAX, Duration::from_millis)
}

/// Starts to build `count` indexes of a tree that has rows, while others write it. The indexes are
/// trees with these names and options (null: the defaults for all), to be used once they are
/// published. From now on the keys of rows that transactions and batches write are kept in a queue,
/// in their own commits; writers need not know of the build. A tree can have one build at a time
/// (else FRD-1105). An entry's key must belong to only one row, unless the index is unique and the
/// build should find duplicates. The build is released by frond_index_build_publish or
/// frond_index_build_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_index_build_begin(
    db: *const frond_db,
    base: *const frond_tree,
    names: *const *const c_char,
    options: *const frond_tree_options,
    count: usize,
    build: *mut *mut frond_index_build,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`, here and below.
    unsafe {
        call(error, || {
            give(build, || {
                let (db, base) = (&given(db, "the store")?.db, &given(base, "the tree")?.tree);
                let names = list(names, count, "the names")?;
                let one = |(at, &name): (usize, &*const c_char)| {
                    let options = if options.is_null() { options } else { options.add(at) };
                    Ok((text(name, "a name")?, tree_options(options)?))
                };
                let indexes: Result<Vec<(&str, TreeOptions)>, Fail> =
                    names.iter().enumerate().map(one).collect();
                Ok(frond_index_build { build: db.build_indexes(base, &indexes?)? })
            })
        })
    }
}

/// Returns the snapshot at which the program must read the base, the same with each call. Release
/// it with frond_snapshot_free. The first call waits until all transactions have ended that had
/// written the tree when the build started, prepared ones included; others go on. If they last
/// longer than `wait_ms` (below 0: no limit), the error is FRD-1101, and the call may be repeated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_index_build_snapshot(
    build: *mut frond_index_build,
    wait_ms: i64,
    snapshot: *mut *mut frond_snapshot,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            give(snapshot, || {
                let build = &mut given_mut(build, "the build")?.build;
                Ok(frond_snapshot { snapshot: build.snapshot(wait(wait_ms))? })
            })
        })
    }
}

/// Adds the entry of a row of the snapshot to an index, in any order. Indexes are numbered from 0
/// in the order in which their names were given. If two entries have the same key in a unique
/// index, this or a later call fails with FRD-1104; `tree` of the error is the index, and the build
/// has failed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_index_build_add(
    build: *mut frond_index_build,
    index: usize,
    key: *const u8,
    key_length: usize,
    value: *const u8,
    value_length: usize,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let build = given_mut(build, "the build")?;
            let (key, value) =
                (bytes(key, key_length, "the key")?, bytes(value, value_length, "the value")?);
            Ok(build.build.add(index, key, value)?)
        })
    }
}

/// Completes the base: makes trees of the entries that were added. If this was not called,
/// frond_index_build_next does it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_index_build_end_base(
    build: *mut frond_index_build,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe { call(error, || Ok(given_mut(build, "the build")?.build.end_base()?)) }
}

/// Returns the next row whose index entries may be outdated; pass the entries to remove and to add
/// to frond_index_build_change. FROND_NOT_FOUND at the end of a round: the indexes then have the
/// entries of one moment, and the next call starts another round. A round may return a row twice;
/// answer the same again.
///
/// FRD-1104 if at that moment two rows had the same key in a unique index, which is `tree` of the
/// error. After any error the build has failed, except after FRD-1106, unless that came while the
/// base was completed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_index_build_next(
    build: *mut frond_index_build,
    row: *mut frond_row_changed,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let row = given_mut(row, "the place for the row")?;
            let build = &mut given_mut(build, "the build")?.build;
            let found = build.next_change()?.ok_or(Fail::NotFound)?;
            let start = |bytes: Option<&[u8]>| bytes.map_or(std::ptr::null(), <[u8]>::as_ptr);
            let length = |bytes: Option<&[u8]>| bytes.map_or(0, <[u8]>::len);
            *row = frond_row_changed {
                key: found.key.as_ptr(),
                key_length: found.key.len(),
                before: start(found.old),
                before_length: length(found.old),
                after: start(found.new),
                after_length: length(found.new),
            };
            Ok(())
        })
    }
}

/// Changes an index entry of the row that was returned last. `old_key` is the key of the entry that
/// the row had in the index (null with length 0: none); `key` and `value` are the entry that it
/// should have (`key` null with length 0: none). Skip entries that do not change. A row may have
/// several entries in one index.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_index_build_change(
    build: *mut frond_index_build,
    index: usize,
    old_key: *const u8,
    old_key_length: usize,
    key: *const u8,
    key_length: usize,
    value: *const u8,
    value_length: usize,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let build = given_mut(build, "the build")?;
            let old = bytes_or_none(old_key, old_key_length, "the old key")?;
            let key = bytes_or_none(key, key_length, "the key")?;
            let value = bytes(value, value_length, "the value")?;
            Ok(build.build.change(index, old, key.map(|key| (key, value)))?)
        })
    }
}

/// Tells, after a round, whether it is time to lock the tree: `near` becomes true if the round was
/// short and the next one will be, too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_index_build_is_near(
    build: *const frond_index_build,
    near: *mut bool,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let near = given_mut(near, "the place for the answer")?;
            *near = given(build, "the build")?.build.is_near()?;
            Ok(())
        })
    }
}

/// Locks the tree exclusively, so that the next round is the last; writers wait from here on.
/// FRD-1101 if transactions keep rows of the tree for longer than `wait_ms` (below 0: no limit):
/// nothing was done; run more rounds and try again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_index_build_lock(
    build: *mut frond_index_build,
    wait_ms: i64,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe { call(error, || Ok(given_mut(build, "the build")?.build.lock(wait(wait_ms))?)) }
}

/// Makes the indexes live in one commit, which is synced, after the round that follows
/// frond_index_build_lock. `trees`, which may be null, receives one handle per index; nulls after
/// an error. The build is released, except after FRD-1001: then it is unchanged.
///
/// `then`, which may be null, is called before any writer that waits for the tree goes on. From
/// there on, whatever tells writers which indexes exist must include these. Writers must have an
/// intent lock on the tree (frond_txn_lock_tree) before they look at that, or be kept away. `then`
/// itself must not write to the tree, which is locked.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_index_build_publish(
    build: *mut frond_index_build,
    then: Option<unsafe extern "C" fn(context: *mut c_void)>,
    context: *mut c_void,
    trees: *mut *mut frond_tree,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            if let Err(wrong @ frond::Error::InvalidArgument(_)) =
                given(build, "the build")?.build.must_be_whole()
            {
                return Err(wrong.into());
            }
            let build = take_back(build, "the build")?.build;
            let count = build.index_count();
            let place = |at| if trees.is_null() { trees } else { trees.add(at) };
            if !trees.is_null() {
                (0..count).for_each(|at| place(at).write(std::ptr::null_mut()));
            }
            let made: Vec<Tree> =
                build.publish(|_| then.into_iter().for_each(|then| then(context)))?;
            if !trees.is_null() {
                for (at, tree) in made.into_iter().enumerate() {
                    give(place(at), || Ok(frond_tree { tree }))?;
                }
            }
            Ok(())
        })
    }
}

/// Abandons a build and leaves nothing of it behind. Null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_index_build_free(build: *mut frond_index_build) {
    // SAFETY: see `bytes.rs`.
    unsafe { call(std::ptr::null_mut(), || take_back(build, "the build").map(drop)) };
}

/// Makes a build cancellable: after this call, an interrupt ends its calls with FRD-1106. If it
/// ends a call that adds entries to the base or completes the base, the build has failed; other
/// calls fail only until the interrupt is cleared.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_index_build_set_interrupter(
    build: *mut frond_index_build,
    interrupter: *const frond_interrupter,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let interrupter = &given(interrupter, "what it is stopped by")?.interrupter;
            given_mut(build, "the build")?.build.set_interrupter(interrupter);
            Ok(())
        })
    }
}

/// Returns the progress of a build, which any thread may read. Release it with frond_progress_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_index_build_progress(
    build: *const frond_index_build,
    progress: *mut *mut frond_progress,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || give_progress(progress, || Ok(given(build, "the build")?.build.progress())))
    }
}
