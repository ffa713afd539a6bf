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

/// Changes of trees on their way to be one commit: steps are added in their order, then frond_change_commit makes them. A step names
/// its tree by number (0: by its name alone), by name (null: by its number alone), or by both: then the tree must have that name.
pub struct frond_tree_change {
    change: TreesChange,
    changed: Option<TreesChanged>,
}

/// How a change is made. Filled by frond_change_options_init, then changed.
#[repr(C)]
pub struct frond_change_options {
    /// The change may have been made before, and later ones, too: a step is passed over whose outcome is there, or whose tree is
    /// gone or has another name than the step says. A swap then needs numbers and names, a truncation the number; a tree counts
    /// as created if one of that name has the same options: give it attributes that no other has; a clone as made if that name
    /// is a clone of the same tree. One that was created or cloned so, and renamed or dropped later, cannot be told from one that
    /// never was, and is made again: a log that goes on behind creations is to be repeated from its last entry on.
    pub repeatable: bool,
    /// How long the commit waits for transactions that have rows of trees that go, milliseconds; below 0: until they have ended.
    pub lock_timeout_ms: i64,
}

/// Fills options with what is usual: not repeatable, ten seconds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_change_options_init(options: *mut frond_change_options) {
    // SAFETY: see `bytes.rs`, here and below.
    if let Some(options) = unsafe { options.as_mut() } {
        *options = frond_change_options { repeatable: false, lock_timeout_ms: 10_000 };
    }
}

/// Begins a change; nothing is locked or done before its commit. `options` may be null. To be given back by frond_change_free.
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

/// From here on an interrupt ends frond_change_commit with FRD-1106: while it waits for transactions at once, and when it begins until the
/// interrupt is cleared. Nothing was done then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_change_heed(
    change: *mut frond_tree_change,
    interrupter: *const frond_interrupter,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let heeded = &given(interrupter, "what it is stopped by")?.interrupter;
            given_mut(change, "the change")?.change.heed(heeded);
            Ok(())
        })
    }
}

/// Gives a change back, whether it was committed or not. Null is allowed.
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

/// Adds a step: a new tree, as by frond_tree_create. `options` may be null. Repeated after the tree was renamed or dropped, it makes
/// another one (frond_change_options).
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

/// Adds a step: another name for a tree, which is free once the steps before are made.
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

/// Adds a step: a tree goes, as by frond_tree_drop.
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

/// Adds a step: two trees exchange their names. Snapshots of before fail with FRD-1006 in both, as if they had been created now.
/// Transactions with rows of a tree go on with it under its other name: who must not have any locks both first, exclusively, and swaps
/// before that transaction ends.
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

/// Adds a step: a new, empty tree takes the name of a tree, with another number, like it in all it was made with, its counters at
/// their begin; the old one goes. Handles of that fail with FRD-1004, snapshots of before keep its rows.
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

/// Adds a step: a new tree that holds what another does, as by frond_tree_clone. The other may go by a step behind.
/// Repeated after it was renamed or dropped, it makes another one (frond_change_options).
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

/// Adds a step: other bytes are kept with a tree, up to 1 MiB.
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

/// Adds a step: values of a tree get another layout, as by frond_tree_change_layout, together with names and attributes that belong
/// to it. `from`: the version that `parts` are numbered by, below 0 if that is not known; a repeatable change needs it. Not in one
/// change with trees that go.
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

/// Adds a step: a tree begins with this change, and a snapshot of before fails with FRD-1006 there. For one that was filled under
/// another name, and is renamed by a step beside.
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

/// Makes all steps, in one commit that is synced when it returns: after a crash all of it is there, or nothing. Waits for transactions
/// that have rows of trees that it drops or truncates. `seqno`, which may be null, gets its number, 0 if there was nothing to be
/// done. If a step cannot be made nothing is, `entry` of the error is its place, from 0, and the change may be committed again;
/// but FRD-3203 (and FRD-3202 behind it): the store has stopped; after opening it look whether the change was made. One that clones
/// trees or changes layouts, and drops or truncates others, waits for room if the disk becomes full while it is made.
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

/// Of a change that is committed: the tree that a step, from 0, was about or made; of a truncation the new one. FROND_NOT_FOUND if it
/// is gone. `was_made`, which may be null, gets false if the step was passed over, for it had been made. `tree` may be null, too.
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
