//! The report of a deadlock that was resolved.

use std::{fmt, time::Duration};

use super::{
    LockMode,
    lock_error::{LockOn, Locked, NamedTree},
};
use crate::{TreeId, types::KeyStart};

/// One transaction on a cycle.
#[derive(Clone, Debug)]
pub struct Party {
    /// The id.
    pub id: u64,
    /// The program's own name for it; 0 for a batch.
    pub tag: u64,
    /// How much it had written.
    pub writes: u64,
    /// What it waited for.
    pub on: LockOn,
    /// The tree.
    pub tree: TreeId,
    /// The name of the tree, if the tree still exists.
    pub tree_name: String,
    /// 128-bit hash of the key.
    pub key_hash: u128,
    /// The start of the key; `None` if it waited for the whole tree.
    pub key: Option<KeyStart>,
    /// The mode that it requested.
    pub mode: LockMode,
    /// How long it had waited.
    pub waited: Duration,
}

/// A cycle of waits that was resolved.
#[derive(Clone, Debug)]
pub struct Deadlock {
    /// Each transaction waits for the next one, and the last for the first.
    pub parties: Vec<Party>,
    /// The id of the victim.
    pub victim: u64,
    /// When it was resolved, by the store's clock.
    pub at: Duration,
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "deadlock of {} transactions:", self.parties.len())?;
        let next = self.parties.iter().cycle().skip(1);
        for (party, next) in self.parties.iter().zip(next) {
            let Party { id, writes, on, tree, tree_name, key_hash, key, mode, waited, .. } = party;
            let tree = NamedTree(tree_name, *tree);
            let what = Locked { on: *on, key_hash: *key_hash, key: key.as_ref(), tree };
            write!(
                f,
                " transaction {id} ({writes} writes) waits ({ms} ms so far) for {mode} access to {what}, \
                 which transaction {next} holds or has requested earlier;",
                ms = waited.as_millis(),
                next = next.id,
            )?;
        }
        write!(f, " transaction {} was ended", self.victim)
    }
}
