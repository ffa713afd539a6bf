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
    error::{Fail, call, frond_error},
    heed::{frond_progress, give_progress},
    snapshot::frond_snapshot,
    store::{frond_db, frond_tree, frond_tree_options, tree_options},
    waits::frond_interrupter,
};

/// A build of indexes on its way, of one thread at a time. Given back, it is given up, unless it was published.
pub struct frond_index_build {
    build: IndexBuild,
}

/// A row that differs between two moments; it lies in the build's memory until frond_index_build_next is called again.
#[repr(C)]
pub struct frond_row_changed {
    /// Its key.
    pub key: *const u8,
    /// Bytes of it.
    pub key_length: usize,
    /// What the indexes have of it: the row as it was; null if it was not there.
    pub before: *const u8,
    /// Bytes of it.
    pub before_length: usize,
    /// What they are to have: the row as it is; null if it is not there.
    pub after: *const u8,
    /// Bytes of it.
    pub after_length: usize,
}

/// The time to wait: `Duration::MAX` if the number is below 0.
fn wait(milliseconds: i64) -> Duration {
    u64::try_from(milliseconds).map_or(Duration::MAX, Duration::from_millis)
}

/// Begins to build `count` indexes of a tree that has rows, while others write it: trees of these names, made with these options
/// (null: what is usual), which are to be used once they are published. From here on the keys of rows that transactions and batches write are
/// kept in a queue, in their own commits; writers need not know. A tree has one build at a time (FRD-1105 otherwise). An entry's key must be no
/// other row's, unless the index is unique and that is to be found out. To be given back by frond_index_build_free, or by
/// frond_index_build_publish.
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

/// Gives the moment that the base is to be read at, the same with each call; to be given back by frond_snapshot_free. The first call
/// waits until transactions have ended that had written the tree when the build began, prepared ones, too: up to `wait_ms` (below 0: as
/// long as it takes), then FRD-1101, and it may be called again. Others go on meanwhile.
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

/// Adds the entry of a row of that moment, in any order, to an index: they are numbered from 0, as their names were given. FRD-1104 here or
/// later if two have the same key in an index, `tree` of the error, that is unique: the build is over.
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

/// The base is whole: makes trees of what was added. frond_index_build_next does it, too, if nobody has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_index_build_end_base(
    build: *mut frond_index_build,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe { call(error, || Ok(given_mut(build, "the build")?.build.end_base()?)) }
}

/// Gives the next row that is not in the indexes as it is: say which entries of it go and come by frond_index_build_change. FROND_NOT_FOUND
/// at the end of a round: the indexes are then what they would be at one moment; the next call begins another round. A round may give
/// a row twice: say the same of it again. FRD-1104 if at that moment two rows had the same in an index, `tree` of the error, that is unique:
/// the build is over, as after each other error but FRD-1106, unless that came while the base was finished.
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

/// Of the row that was given last: the key of the entry that it had in an index (null with length 0: it had none), and key and value of that which it is
/// to have (key null with length 0: none). Say nothing of an entry that stays as it is. A row may have several in one index.
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

/// After a round: `near` gets true if it was short, and the next one will be: it is time to lock the tree.
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

/// Takes the tree for the build alone, so that the next round is the last: writers wait from here on. FRD-1101 if transactions keep rows of
/// it for longer than `wait_ms` (below 0: as long as it takes): nothing was done, go on with rounds and try again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_index_build_lock(
    build: *mut frond_index_build,
    wait_ms: i64,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe { call(error, || Ok(given_mut(build, "the build")?.build.lock(wait(wait_ms))?)) }
}

/// Makes the indexes what they are to be, in one commit, synced, after the round that came behind frond_index_build_lock. `then`, which may be
/// null, is called before any writer goes on who waits for the tree: what writers go by must say from there on that there are indexes, and
/// they must have an intent on the tree before they look (frond_txn_lock_tree), or be kept away; `then` itself writes nothing to the tree, which
/// is locked. The build is given back in any case but FRD-1001: then it is as it was. `trees`, which may be null, gets as many handles as there are indexes, and nulls on an error.
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

/// Gives a build up: nothing of it is left. Null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_index_build_free(build: *mut frond_index_build) {
    // SAFETY: see `bytes.rs`.
    unsafe { call(std::ptr::null_mut(), || take_back(build, "the build").map(drop)) };
}

/// From here on an interrupt ends the calls of the build with FRD-1106: those that add entries to the base or make it whole for
/// good, others until it is cleared.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_index_build_heed(
    build: *mut frond_index_build,
    interrupter: *const frond_interrupter,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let heeded = &given(interrupter, "what it is stopped by")?.interrupter;
            given_mut(build, "the build")?.build.heed(heeded);
            Ok(())
        })
    }
}

/// Gives what says, to any thread, how far the build is.
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
