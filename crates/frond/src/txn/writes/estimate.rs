//! Estimating how many rows of a range a transaction has in its writes in memory (Rule: I51).
//!
//! Invariant: 0 only if it gives none of the range's keys a value.
//!
//! Threads: one. Cost: two searches in the ordered view, and one addition per piece between; a look
//! at each key if there are few.

use crate::{TreeId, message::Kind};

use super::TxnWrites;

/// Up to this many keys are checked one by one, so that a range that a statement has emptied is
/// reported as empty.
const LOOKED_AT_MAX: usize = 64;

impl TxnWrites {
    /// The estimated rows, and their bytes.
    pub(crate) fn estimate(
        &mut self,
        tree: TreeId,
        (from, to): (Option<&[u8]>, Option<&[u8]>),
    ) -> (u64, u64) {
        // Builds the ordered view, if there is none yet.
        self.view(tree);
        let set = &self.set;
        let Some(view) = self.trees.get(tree).and_then(|state| state.view.as_ref()) else {
            return (0, 0);
        };
        let first = from.map_or(view.begin(), |from| view.seek(set, from));
        let end = to.map_or(view.end(), |to| view.seek(set, to));
        let keys = view.keys_between(first, end);
        let each = set.bytes() as u64 / set.entry_count().max(1) as u64;
        if keys > LOOKED_AT_MAX {
            return (keys as u64, keys as u64 * each);
        }
        let (mut at, mut rows) = (first, 0);
        for _ in 0..keys {
            let newest = view.first(at).map(|first| set.message_at(self.chains.newest(first)));
            rows += u64::from(newest.is_some_and(|newest| newest.tag.kind() != Kind::Delete));
            at = view.next(at);
        }
        (rows, rows * each)
    }
}
