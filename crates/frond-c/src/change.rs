//! Changes of several trees in one commit, which a server can replay from its own log.

use frond::{
    TreeId,
    schema::{TreesChange, TreesChanged, WhichTree},
};

use crate::{
    bytes::*, error::*, layouts::*, read_as::lock_timeout, store::*, waits::frond_interrupter,
};

/// A change of one or more trees in one commit: add its steps in order, then call
/// frond_change_commit. A step identifies its tree by number (0: by name alone), by name (null: by
/// number alone), or by both; in that case the tree must have that name.
pub struct frond_tree_change {
    change: TreesChange,
    changed: Option<TreesChanged>,
}

/// Options of a change of trees. Call frond_change_options_init, then set fields.
#[repr(C)]
pub struct frond_change_options {
    /// Whether this is a replay: the change, and changes after it, may have been made before. In a
    /// replay, a step is skipped if its effect is already present, or if its tree no longer exists
    /// or has another name than the step says.
    ///
    /// A repeatable swap needs the numbers and names of its trees, a truncation the number. A
    /// creation counts as made if a tree with that name has the same options, so give it attributes
    /// that no other tree has. A clone counts as made if the tree with that name is a clone of the
    /// same tree. If the created or cloned tree was later renamed or dropped, the step cannot be
    /// distinguished from one that was not made, and is made again. So if a log has entries after a
    /// creation, replay only its last entry.
    pub repeatable: bool,
    /// How long the commit waits for transactions that have locked rows of trees that are removed,
    /// in milliseconds; below 0 means no limit.
    pub lock_timeout_ms: i64,
}

/// Sets the defaults: not repeatable, ten seconds.
#[api]
fn frond_change_options_init(options: Option<&mut frond_change_options>) {
    let Some(options) = options else { return };
    *options = frond_change_options { repeatable: false, lock_timeout_ms: 10_000 };
}

/// Starts a change of trees. Nothing is locked or done before its commit. `options` may be null.
/// Release the change with frond_change_free.
#[api]
fn frond_change_begin(
    db: &frond_db,
    options: Option<&frond_change_options>,
    change: New<frond_tree_change>,
) -> Done {
    let mut steps = db.0.change_trees();
    if let Some(options) = options {
        steps.lock_timeout(lock_timeout(options.lock_timeout_ms));
        if options.repeatable {
            steps.repeatable();
        }
    }
    change.give(frond_tree_change { change: steps, changed: None })
}

/// Makes frond_change_commit cancellable: after this call, an interrupt immediately ends a commit
/// that is waiting for transactions, with FRD-1106. A commit that starts before the interrupt is
/// cleared also fails with FRD-1106. In both cases nothing was done.
#[api]
fn frond_change_set_interrupter(change: &mut frond_tree_change, interrupter: &frond_interrupter) {
    change.change.set_interrupter(&interrupter.0);
}

/// Releases a change, whether it was committed or not. Null is allowed.
#[api]
fn frond_change_free(change: Option<Box<frond_tree_change>>) {}

fn which(number: u32, name: Option<&str>) -> Done<WhichTree> {
    match (number, name) {
        (0, None) => Err(misuse("a step names its tree neither by number nor by name")),
        (0, name) => Ok(WhichTree::new(None, name)),
        (number, name) => Ok(WhichTree::new(Some(TreeId(number)), name)),
    }
}

impl frond_tree_change {
    /// The steps of a change that is not committed yet.
    fn steps(&mut self) -> Done<&mut TreesChange> {
        match self.changed {
            None => Ok(&mut self.change),
            Some(_) => Err(misuse("the change is already committed")),
        }
    }
}

/// Adds a step that creates a tree, as frond_tree_create does. `options` may be null. If the step
/// is replayed after the tree was renamed or dropped, it creates another tree
/// (frond_change_options).
#[api]
fn frond_change_create(
    change: &mut frond_tree_change,
    name: &str,
    options: Option<&frond_tree_options>,
) -> Done {
    change.steps()?.create(name, tree_options(options)?);
    Ok(())
}

/// Adds a step that renames a tree. The new name must be free once the steps before it are made.
#[api]
fn frond_change_rename(
    change: &mut frond_tree_change,
    number: u32,
    name: Option<&str>,
    to: &str,
) -> Done {
    change.steps()?.rename(which(number, name)?, to);
    Ok(())
}

/// Adds a step that drops a tree, as frond_tree_drop does.
#[api]
fn frond_change_drop(change: &mut frond_tree_change, number: u32, name: Option<&str>) -> Done {
    change.steps()?.drop_tree(which(number, name)?);
    Ok(())
}

/// Adds a step that exchanges the names of two trees. Reads at older snapshots fail with FRD-1006
/// in both, as if the trees had just been created. Transactions that have locked rows of a tree
/// continue with it under its other name. To exclude such transactions, first lock both trees
/// exclusively in a transaction, and commit the swap before that transaction ends.
#[api]
fn frond_change_swap(
    change: &mut frond_tree_change,
    number: u32,
    name: Option<&str>,
    other_number: u32,
    other_name: Option<&str>,
) -> Done {
    change.steps()?.swap(which(number, name)?, which(other_number, other_name)?);
    Ok(())
}

/// Adds a step that removes all rows of a tree: a new, empty tree with another number takes its
/// name and all its settings, but its counters start again. The old tree is dropped: its handles
/// fail with FRD-1004, and older snapshots keep its rows.
#[api]
fn frond_change_truncate(change: &mut frond_tree_change, number: u32, name: Option<&str>) -> Done {
    change.steps()?.truncate(which(number, name)?);
    Ok(())
}

/// Adds a step that clones a tree, as frond_tree_clone does. A later step may drop the original. If
/// the step is replayed after the clone was renamed or dropped, it makes another clone
/// (frond_change_options).
#[api]
fn frond_change_clone(
    change: &mut frond_tree_change,
    number: u32,
    name: Option<&str>,
    to: &str,
) -> Done {
    change.steps()?.clone_tree(which(number, name)?, to);
    Ok(())
}

/// Adds a step that sets the attributes of a tree, up to 1 MiB.
#[api]
fn frond_change_attributes(
    change: &mut frond_tree_change,
    number: u32,
    name: Option<&str>,
    #[length(length)] attributes: &[u8],
) -> Done {
    change.steps()?.set_attributes(which(number, name)?, attributes.to_vec());
    Ok(())
}

/// Adds a step that changes the layout of a tree's values, as frond_tree_change_layout does, so
/// that the layout changes in the same commit as the names and attributes that belong to it. `from`
/// is the version that the numbers in `parts` refer to, or below 0 if it is not known; a repeatable
/// change needs it.
#[api]
fn frond_change_layout(
    change: &mut frond_tree_change,
    number: u32,
    name: Option<&str>,
    from: i32,
    parts: &[frond_new_part],
) -> Done {
    let from = match from < 0 {
        true => None,
        false => Some(u16::try_from(from).map_err(|_| misuse("no such version"))?),
    };
    change.steps()?.change_layout(which(number, name)?, from, &new_parts(parts)?);
    Ok(())
}

/// Adds a step that makes this commit the birth of a tree: reads of the tree at older snapshots
/// then fail with FRD-1006. Meant for a tree that was filled under another name and is renamed by
/// another step.
#[api]
fn frond_change_publish(change: &mut frond_tree_change, number: u32, name: Option<&str>) -> Done {
    change.steps()?.publish(which(number, name)?);
    Ok(())
}

/// Makes all steps in one commit, which is synced when this returns. After a crash, either all
/// steps have taken effect or none. Waits for transactions that have locked rows of trees that it
/// drops or truncates. `seqno`, which may be null, receives the number of the commit, 0 if there
/// was nothing to do.
///
/// If a step cannot be made, nothing is done, `entry` of the error is the index of the step, from
/// 0, and the change may be committed again. The exception is FRD-3203 (and FRD-3202 after it): the
/// store has stopped; open it again and check whether the change was made. A change that clones
/// trees or changes layouts, and drops or truncates others, waits for space if the disk becomes
/// full while it is made.
#[api]
fn frond_change_commit(change: &mut frond_tree_change, seqno: Option<&mut u64>) -> Done {
    let changed = change.steps()?.commit()?;
    let number = changed.seqno.map_or(0, |seqno| seqno.0);
    change.changed = Some(changed);
    set(seqno, number)
}

/// Returns the tree that a step of a committed change changed or created; for a truncation, the new
/// tree. Steps are numbered from 0. FROND_NOT_FOUND if the tree no longer exists. `was_made`, which
/// may be null, receives false if the step was skipped because it had been made before. `tree` may
/// also be null.
#[api]
fn frond_change_tree(
    change: &frond_tree_change,
    step: usize,
    tree: Option<New<frond_tree>>,
    was_made: Option<&mut bool>,
) -> Done {
    let changed = change.changed.as_ref();
    let changed = changed.ok_or_else(|| misuse("the change is not committed"))?;
    let step = changed.steps.get(step).ok_or_else(|| misuse("there is no such step"))?;
    set(was_made, step.was_made)?;
    let found = step.tree.clone().ok_or(Fail::NotFound)?;
    tree.map_or(Ok(()), |tree| tree.give(frond_tree(found)))
}
