//! Changes of several trees in one commit, which a server can repeat from its own log of changes.

use std::{ffi::c_char, time::Duration};

use frond::{TreeId, TreesChange, TreesChanged, WhichTree};

use crate::{
    bytes::{bytes, give, given, given_mut, take_back, text},
    error::{Fail, call, frond_error, misuse},
    layouts::{frond_new_part, new_parts},
    store::{frond_db, frond_tree, frond_tree_options, tree_options},
    waits::frond_interrupter,
};

/// A change of trees, made in one commit: add its steps in order, then call frond_change_commit. A
/// step names its tree by number (0: by name alone), by name (null: by number alone), or by both:
/// then the tree must have that name.
pub struct frond_tree_change {
    change: TreesChange,
    changed: Option<TreesChanged>,
}

/// Options of a change of trees. Call frond_change_options_init, then set fields.
#[repr(C)]
pub struct frond_change_options {
    /// Whether the change, and changes after it, may have been made before. If so, a step is
    /// skipped if its effect is there, or if its tree is gone or has another name than the step
    /// says.
    ///
    /// A swap then needs numbers and names, a truncation the number. A creation counts as made if a
    /// tree with that name has the same options: give it attributes that no other tree has. A clone
    /// counts as made if the tree with that name is a clone of the same tree. If a tree that was
    /// created or cloned so was later renamed or dropped, the step cannot be told from one that was
    /// not made, and is made again: a log that continues after creations must be repeated from its
    /// last entry only.
    pub repeatable: bool,
    /// How long the commit waits for transactions with rows of trees that are removed, in
    /// milliseconds; below 0 means no limit.
    pub lock_timeout_ms: i64,
}

/// Sets the defaults: not repeatable, ten seconds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_change_options_init(options: *mut frond_change_options) {
    // SAFETY: see `bytes.rs`, here and below.
    if let Some(options) = unsafe { options.as_mut() } {
        *options = frond_change_options { repeatable: false, lock_timeout_ms: 10_000 };
    }
}

/// Starts a change of trees. Nothing is locked or done before its commit. `options` may be null.
/// Release the change with frond_change_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_change_begin(
    db: *const frond_db,
    options: *const frond_change_options,
    change: *mut *mut frond_tree_change,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            give(change, || {
                let mut change = given(db, "the store")?.db.change_trees();
                if let Some(options) = options.as_ref() {
                    let timeout = u64::try_from(options.lock_timeout_ms).ok();
                    change.lock_timeout(timeout.map(Duration::from_millis));
                    if options.repeatable {
                        change.repeatable();
                    }
                }
                Ok(frond_tree_change { change, changed: None })
            })
        })
    }
}

/// Makes frond_change_commit cancellable: after this call, an interrupt ends a commit that waits
/// for transactions, at once, with FRD-1106. A commit that starts before the interrupt is cleared
/// also fails with it. In both cases nothing was done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_change_set_interrupter(
    change: *mut frond_tree_change,
    interrupter: *const frond_interrupter,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let interrupter = &given(interrupter, "what it is stopped by")?.interrupter;
            given_mut(change, "the change")?.change.set_interrupter(interrupter);
            Ok(())
        })
    }
}

/// Releases a change, whether it was committed or not. Null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_change_free(change: *mut frond_tree_change) {
    // SAFETY: see `bytes.rs`.
    unsafe { call(std::ptr::null_mut(), || take_back(change, "the change").map(drop)) };
}

unsafe fn which(number: u32, name: *const c_char) -> Result<WhichTree, Fail> {
    // SAFETY: see `bytes.rs`.
    let name = (!name.is_null()).then(|| unsafe { text(name, "the name") }).transpose()?;
    match (number, name) {
        (0, None) => Err(misuse("a tree is named neither by number nor by name")),
        (0, name) => Ok(WhichTree::new(None, name)),
        (number, name) => Ok(WhichTree::new(Some(TreeId(number)), name)),
    }
}

/// Adds a step to a change that is not committed yet.
unsafe fn add(
    change: *mut frond_tree_change,
    error: *mut frond_error,
    step: impl FnOnce(&mut TreesChange) -> Result<(), Fail>,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let change = given_mut(change, "the change")?;
            match change.changed {
                None => step(&mut change.change),
                Some(_) => Err(misuse("the change is committed")),
            }
        })
    }
}

/// Adds a step that creates a tree, as frond_tree_create does. `options` may be null. If it is
/// repeated after the tree was renamed or dropped, it creates another one (frond_change_options).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_change_create(
    change: *mut frond_tree_change,
    name: *const c_char,
    options: *const frond_tree_options,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        add(change, error, |change| {
            change.create(text(name, "the name")?, tree_options(options)?);
            Ok(())
        })
    }
}

/// Adds a step that renames a tree. The new name must be free once the steps before it are made.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_change_rename(
    change: *mut frond_tree_change,
    number: u32,
    name: *const c_char,
    to: *const c_char,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        add(change, error, |change| {
            change.rename(which(number, name)?, text(to, "the new name")?);
            Ok(())
        })
    }
}

/// Adds a step that drops a tree, as frond_tree_drop does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_change_drop(
    change: *mut frond_tree_change,
    number: u32,
    name: *const c_char,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        add(change, error, |change| {
            change.drop_tree(which(number, name)?);
            Ok(())
        })
    }
}

/// Adds a step that exchanges the names of two trees. Older snapshots fail with FRD-1006 in both,
/// as if the trees had been created now. Transactions with rows of a tree continue with it under
/// its other name. To exclude them, lock both trees exclusively first, and swap before that
/// transaction ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_change_swap(
    change: *mut frond_tree_change,
    number: u32,
    name: *const c_char,
    other_number: u32,
    other_name: *const c_char,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        add(change, error, |change| {
            change.swap(which(number, name)?, which(other_number, other_name)?);
            Ok(())
        })
    }
}

/// Adds a step that removes all rows of a tree: a new, empty tree with another number takes its
/// name and all its settings; its counters start anew. The old tree is dropped: its handles fail
/// with FRD-1004, and older snapshots keep its rows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_change_truncate(
    change: *mut frond_tree_change,
    number: u32,
    name: *const c_char,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        add(change, error, |change| {
            change.truncate(which(number, name)?);
            Ok(())
        })
    }
}

/// Adds a step that makes a clone of a tree, as frond_tree_clone does. A later step may drop the
/// original. If it is repeated after the clone was renamed or dropped, it makes another one
/// (frond_change_options).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_change_clone(
    change: *mut frond_tree_change,
    number: u32,
    name: *const c_char,
    to: *const c_char,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        add(change, error, |change| {
            change.clone_tree(which(number, name)?, text(to, "the new name")?);
            Ok(())
        })
    }
}

/// Adds a step that sets the attributes of a tree, up to 1 MiB.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_change_attributes(
    change: *mut frond_tree_change,
    number: u32,
    name: *const c_char,
    attributes: *const u8,
    length: usize,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        add(change, error, |change| {
            let attributes = bytes(attributes, length, "attributes")?.to_vec();
            change.set_attributes(which(number, name)?, attributes);
            Ok(())
        })
    }
}

/// Adds a step that changes the layout of a tree's values, as frond_tree_change_layout does, so
/// that names and attributes that belong to it change with it. `from` is the version that the
/// numbers in `parts` refer to, below 0 if it is not known; a repeatable change needs it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_change_layout(
    change: *mut frond_tree_change,
    number: u32,
    name: *const c_char,
    from: i32,
    parts: *const frond_new_part,
    count: usize,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        add(change, error, |change| {
            let from = match from < 0 {
                true => None,
                false => Some(u16::try_from(from).map_err(|_| misuse("no such version"))?),
            };
            change.change_layout(which(number, name)?, from, &new_parts(parts, count)?);
            Ok(())
        })
    }
}

/// Adds a step that makes a tree be born with this change: an older snapshot fails with FRD-1006
/// there. Meant for a tree that was filled under another name and is renamed by another step.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_change_publish(
    change: *mut frond_tree_change,
    number: u32,
    name: *const c_char,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        add(change, error, |change| {
            change.publish(which(number, name)?);
            Ok(())
        })
    }
}

/// Makes all steps in one commit, which is synced when this returns: after a crash all of it is
/// there, or nothing. Waits for transactions with rows of trees that it drops or truncates.
/// `seqno`, which may be null, receives the number of the commit, 0 if there was nothing to do.
///
/// If a step cannot be made, nothing is done, `entry` of the error is the index of the step, from
/// 0, and the change may be committed again. The exception is FRD-3203 (and FRD-3202 after it): the
/// store has stopped; open it again and check whether the change was made. A change that clones
/// trees or changes layouts, and drops or truncates others, waits for space if the disk becomes
/// full while it is made.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_change_commit(
    change: *mut frond_tree_change,
    seqno: *mut u64,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let change = given_mut(change, "the change")?;
            if change.changed.is_some() {
                return Err(misuse("the change is committed"));
            }
            let changed = change.change.commit()?;
            if let Some(seqno) = seqno.as_mut() {
                *seqno = changed.seqno.map_or(0, |seqno| seqno.0);
            }
            change.changed = Some(changed);
            Ok(())
        })
    }
}

/// Returns the tree that a step of a committed change, counted from 0, was about or made; for a
/// truncation the new one. FROND_NOT_FOUND if it is gone. `was_made`, which may be null, becomes
/// false if the step was skipped because it had been made before. `tree` may be null, too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_change_tree(
    change: *const frond_tree_change,
    step: usize,
    tree: *mut *mut frond_tree,
    was_made: *mut bool,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let changed = given(change, "the change")?.changed.as_ref();
            let changed = changed.ok_or_else(|| misuse("the change is not committed"))?;
            let step = changed.steps.get(step).ok_or_else(|| misuse("there is no such step"))?;
            if let Some(was_made) = was_made.as_mut() {
                *was_made = step.was_made;
            }
            let found = step.tree.clone().ok_or(Fail::NotFound)?;
            match tree.is_null() {
                true => Ok(()),
                false => give(tree, || Ok(frond_tree { tree: found })),
            }
        })
    }
}
