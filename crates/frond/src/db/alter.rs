//! What rooms above need to know of who uses a tree: for tables, whose trees come, change and go together.
//!
//! Invariants
//! 1. Who wants several trees for himself takes them in the order of their numbers, for one owner: so two changes of the
//!    catalog never wait for each other in a circle, and a transaction that waits for one of them is seen.
//! 2. Trees are had before the lock of catalog changes is: nobody who has that waits for a transaction.
//!
//! Threads: all.

use std::time::Duration;

use crate::{
    Error, Result, TreeId,
    catalog::KeptPlace,
    heed::Heed,
    sync::Arc,
    txn::{
        LiveWrites,
        lock_table::{LockSet, Patience, Reason, TableMode},
    },
};

use super::{BulkLoad, Db, Shared, Tree, commit::LOCK_WAIT};

/// How long to wait until a tree is nobody else's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WaitAlone {
    Not,
    /// As long as a transaction waits for a row.
    Usual,
}

/// Trees that no transaction has rows of, or takes any.
#[derive(Debug)]
pub(crate) struct Alone {
    shared: Arc<Shared>,
    locks: LockSet,
}

impl Drop for Alone {
    fn drop(&mut self) {
        self.shared.lock_table.release_all(&mut self.locks);
    }
}

/// Transactions that were writing a tree at some moment.
#[derive(Debug)]
pub(crate) struct WritersThen {
    tree: Tree,
    then: Vec<Arc<LiveWrites>>,
}

impl WritersThen {
    /// True once all of them have ended; those that are prepared have not.
    pub fn have_ended(&mut self) -> bool {
        let mut now = Vec::new();
        self.tree.entry.writers.others(None, &mut now);
        // Held here, no writer's memory becomes another's.
        self.then.retain(|writer| now.iter().any(|other| Arc::ptr_eq(writer, other)));
        self.then.is_empty()
    }
}

impl Db {
    /// The tree of this number.
    pub(crate) fn tree(&self, id: TreeId) -> Option<Tree> {
        let entry = self.shared.catalog.by_id(id)?;
        Some(Tree::new(self.shared.clone(), entry))
    }

    /// Where rooms above keep what they know of a tree. Whoever has it locked is alone with that, however long he waits
    /// for others.
    pub(crate) fn kept(&self, tree: TreeId) -> Arc<KeptPlace> {
        let mut kept = self.shared.catalog.kept.lock().unwrap();
        let is_used = |place: &Arc<KeptPlace>| {
            // What nobody else has, nobody has locked.
            Arc::strong_count(place) > 1
                || (place.lock().unwrap().as_ref()).is_some_and(|state| state.strong_count() > 0)
        };
        kept.retain(|_, place| is_used(place));
        kept.entry(tree).or_default().clone()
    }

    /// Lets time pass.
    pub(crate) fn pause(&self, time: Duration) {
        self.shared.engine.env.clock.sleep(time);
    }

    /// Waits until no transaction has rows of a tree, those that are prepared included, and keeps them away.
    pub(crate) fn lock_tree(&self, tree: &Tree, wait: WaitAlone) -> Result<Alone> {
        self.lock_trees(std::slice::from_ref(tree), wait)
    }

    /// The same, but that what it heeds may end the wait.
    pub(crate) fn lock_tree_heeding(
        &self,
        tree: &Tree,
        wait: Duration,
        heed: &Heed,
    ) -> Result<Alone> {
        let locked = self.shared.lock_alone(&[tree.id()], Patience::For(wait), Some(heed));
        locked.map_err(|(_, error)| error)
    }

    /// The same of several trees.
    pub(crate) fn lock_trees(&self, trees: &[Tree], wait: WaitAlone) -> Result<Alone> {
        let patience = match wait {
            WaitAlone::Not => Patience::NoWait,
            WaitAlone::Usual => Patience::For(LOCK_WAIT),
        };
        let mut trees: Vec<TreeId> = trees.iter().map(Tree::id).collect();
        trees.sort_unstable();
        self.shared.lock_alone(&trees, patience, None).map_err(|(_, error)| error)
    }
}

impl Shared {
    /// Waits until no transaction has rows of any of these trees, whose numbers ascend, and keeps them away (Rule: I52). If that
    /// is not to be had, says which tree is not.
    pub(super) fn lock_alone(
        self: &Arc<Self>,
        trees: &[TreeId],
        patience: Patience,
        heed: Option<&Heed>,
    ) -> Result<Alone, (TreeId, Error)> {
        let clock = &self.engine.env.clock;
        let until = match patience {
            Patience::For(time) => Some(clock.now().saturating_add(time)),
            Patience::NoWait | Patience::Forever => None,
        };
        loop {
            let mut alone =
                Alone { shared: self.clone(), locks: self.lock_table.begin(self.next_txn()) };
            until.inspect(|&until| alone.locks.wait_until(until));
            heed.inspect(|&heed| alone.locks.owner().heed(heed.clone()));
            let locked = trees.iter().try_for_each(|&tree| {
                let locks = &mut alone.locks;
                let mode = TableMode::Exclusive;
                self.lock_table.lock_table(locks, tree, mode, patience).map(drop)
            });
            let Err(mut denied) = locked else { return Ok(alone) };
            if denied.reason == Reason::Deadlock {
                // It has written nothing, so it is the one that is ended; and has nothing to lose: it lets all go, which ends
                // the circle, and asks again.
                if trees.len() > 1 && until.is_none_or(|until| clock.now() < until) {
                    continue;
                }
                denied.reason = Reason::Timeout;
            }
            return Err((denied.tree, self.lock_error(denied)));
        }
    }
}

impl Tree {
    /// Who writes it now.
    pub(crate) fn writers_now(&self) -> WritersThen {
        let mut then = Vec::new();
        self.entry.writers.others(None, &mut then);
        WritersThen { tree: self.clone(), then }
    }

    /// An error if it was dropped.
    pub(crate) fn check_there(&self) -> Result<()> {
        self.entry.check()
    }

    /// An error, of what its owner keeps with it.
    pub(crate) fn malformed(&self, flaw: crate::Flaw) -> Error {
        flaw.at(self.shared.engine.store.file().path())
    }

    /// True if nothing of its store can be written.
    pub(crate) fn is_read_only(&self) -> bool {
        self.shared.read_only
    }
}

impl BulkLoad {
    /// The number that the tree will have.
    pub(crate) fn tree_id(&self) -> TreeId {
        self.record.id
    }
}
