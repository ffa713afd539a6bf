//! Exclusive locks on trees for changes that remove them. Also other operations on trees that only
//! the modules above `db` need: tables, whose trees are created, changed and dropped together.
//!
//! A change that removes a tree (a drop, a truncation, a load into it, the end of an index or of a
//! build's queue) holds an [`ExclusiveTreeLock`] on the tree, from before it checks the catalog for
//! the last time until the change is shown (visible to lookups). The naive form, an exclusive lock
//! in the lock table, is not enough: while no transaction holds a lock, batches take none
//! (`txn/gate.rs`). A batch that has just found its tree in the catalog would get its seqno after
//! the drop, and its rows would be acknowledged and lost. So the steps are:
//!
//! 1. Lock the trees, in the order of their numbers. Once the locks are granted, transactions and
//!    batches with locks on these trees have ended.
//! 2. Close the gate, which waits for the batches that have passed it. Later batches take locks,
//!    and wait.
//! 3. Check the catalog again, commit, show the change, and only then open the gate and release the
//!    locks. A batch that waited finds its tree gone and gets `NoSuchTree`, before it has a seqno.
//!
//! So each batch either has its seqno before the change, and a clone in the change has its rows, or
//! it has done nothing. Batches of other trees take locks while the change is made.
//!
//! Invariants
//! 1. A caller that needs several trees locks them in the order of their numbers, for one owner. So
//!    two changes of the catalog never wait for each other in a cycle, and the deadlock detector
//!    sees a transaction that waits for one of them.
//! 2. Trees are locked before the lock of catalog changes: a thread that holds that lock never
//!    waits for a transaction.
//! 3. The end of a tree is marked ([`TreeEntry::mark_end`](crate::catalog::TreeEntry)) while an
//!    [`ExclusiveTreeLock`] on it is held.
//!
//! Threads: all.

use std::time::Duration;

use crate::{
    Error, Result, TreeId,
    cancel::CancelToken,
    catalog::KeptPlace,
    db::{BulkLoad, Db, Shared, Tree, commit::LOCK_WAIT},
    error::{LockHolder, WHOLE_TREE},
    sync::Arc,
    txn::{
        LiveWrites,
        lock_table::{LockSet, Reason, TableMode, WaitPolicy},
    },
};

/// How long to wait for an exclusive tree lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ExclusiveWait {
    /// Not at all.
    NoWait,
    /// As long as for a row lock by default.
    DefaultTimeout,
}

/// An exclusive lock on trees: no transaction has rows of them, and no batch is about to commit to
/// them.
#[derive(Debug)]
pub(crate) struct ExclusiveTreeLock {
    shared: Arc<Shared>,
    locks: LockSet,
    /// Whether the batch gate is closed, too.
    has_gate: bool,
}

impl Drop for ExclusiveTreeLock {
    fn drop(&mut self) {
        self.shared.locking.table.release_all(&mut self.locks);
        if self.has_gate {
            self.shared.locking.gate.open();
        }
    }
}

/// Transactions that were writing a tree at a certain moment.
#[derive(Debug)]
pub(crate) struct WritersThen {
    tree: Tree,
    then: Vec<Arc<LiveWrites>>,
}

impl WritersThen {
    /// True once all of these transactions have ended. A prepared transaction has not ended.
    pub fn have_ended(&mut self) -> bool {
        let mut now = Vec::new();
        self.tree.entry.writers.others(None, &mut now);
        // This holds the writers, so no writer's memory can be reused for another's.
        self.then.retain(|writer| now.iter().any(|other| Arc::ptr_eq(writer, other)));
        self.then.is_empty()
    }
}

impl Db {
    /// The tree with this number.
    pub(crate) fn tree_by_id(&self, id: TreeId) -> Option<Tree> {
        let entry = self.shared.catalog.by_id(id)?;
        Some(Tree::new(self.shared.clone(), entry))
    }

    /// The place where modules above `db` keep their state of a tree. A thread that holds its lock
    /// has exclusive use of that state, even while the thread waits for transactions.
    pub(crate) fn kept(&self, tree: TreeId) -> Arc<KeptPlace> {
        let mut kept = self.shared.catalog.kept.lock().unwrap();
        let is_used = |place: &Arc<KeptPlace>| {
            // A place to which no other reference exists is not locked.
            Arc::strong_count(place) > 1
                || (place.lock().unwrap().as_ref()).is_some_and(|state| state.strong_count() > 0)
        };
        kept.retain(|_, place| is_used(place));
        kept.entry(tree).or_default().clone()
    }

    /// Sleeps for `time` on the store's clock, between two checks of what the caller waits for;
    /// fails if the store is being closed.
    pub(crate) fn pause(&self, time: Duration) -> Result<()> {
        self.shared.engine.health.check_open()?;
        self.shared.engine.env.clock.sleep(time);
        Ok(())
    }

    /// Waits until no transaction, prepared ones included, has rows of a tree locked, and then
    /// excludes transactions until the lock is dropped.
    pub(crate) fn lock_tree(&self, tree: &Tree, wait: ExclusiveWait) -> Result<ExclusiveTreeLock> {
        self.lock_trees(std::slice::from_ref(tree), wait)
    }

    /// Locks a tree exclusively, like [`lock_tree`](Self::lock_tree); `cancel` can cancel the wait.
    pub(crate) fn lock_tree_cancellable(
        &self,
        tree: &Tree,
        wait: Duration,
        cancel: &CancelToken,
    ) -> Result<ExclusiveTreeLock> {
        let locked = self.shared.lock_alone(&[tree.id()], WaitPolicy::For(wait), Some(cancel));
        locked.map_err(|(_, error)| error)
    }

    /// Locks several trees exclusively, like [`lock_tree`](Self::lock_tree).
    pub(crate) fn lock_trees(
        &self,
        trees: &[Tree],
        wait: ExclusiveWait,
    ) -> Result<ExclusiveTreeLock> {
        let wait_policy = match wait {
            ExclusiveWait::NoWait => WaitPolicy::NoWait,
            ExclusiveWait::DefaultTimeout => WaitPolicy::For(LOCK_WAIT),
        };
        let mut trees: Vec<TreeId> = trees.iter().map(Tree::id).collect();
        trees.sort_unstable();
        self.shared.lock_alone(&trees, wait_policy, None).map_err(|(_, error)| error)
    }
}

impl Shared {
    /// Waits until nothing else writes any of these trees, whose numbers ascend, and then excludes
    /// transactions and batches (Rule: I52). An error names the tree that it is about.
    pub(in crate::db) fn lock_alone(
        self: &Arc<Self>,
        trees: &[TreeId],
        wait_policy: WaitPolicy,
        cancel: Option<&CancelToken>,
    ) -> Result<ExclusiveTreeLock, (TreeId, Error)> {
        let clock = &self.engine.env.clock;
        let until = match wait_policy {
            WaitPolicy::For(time) => Some(clock.now().saturating_add(time)),
            WaitPolicy::NoWait | WaitPolicy::Forever => None,
        };
        loop {
            let locks = self.locking.table.begin(self.next_txn());
            let mut alone = ExclusiveTreeLock { shared: self.clone(), locks, has_gate: false };
            until.inspect(|&until| alone.locks.wait_until(until));
            cancel.inspect(|&cancel| alone.locks.owner().cancel_on(cancel.clone()));
            let locked = trees.iter().try_for_each(|&tree| {
                let locks = &mut alone.locks;
                let mode = TableMode::Exclusive;
                self.locking.table.lock_table(locks, tree, mode, wait_policy).map(drop)
            });
            let Err(mut denied) = locked else {
                if let Some(&first) = trees.first() {
                    let closed = self.close_gate(&mut alone, first, until, cancel);
                    closed.map_err(|error| (first, error))?;
                }
                return Ok(alone);
            };
            if denied.reason == Reason::Deadlock {
                // This owner was chosen as the victim because it has written nothing. So it loses
                // nothing by releasing all its locks, which ends the cycle, and starting again.
                if trees.len() > 1 && until.is_none_or(|until| clock.now() < until) {
                    continue;
                }
                denied.reason = Reason::Timeout;
            }
            return Err((denied.tree, self.lock_error(denied)));
        }
    }

    /// Closes the gate and waits for the batches that have passed it. They wait for no lock, so
    /// they end soon.
    fn close_gate(
        &self,
        alone: &mut ExclusiveTreeLock,
        tree: TreeId,
        until: Option<Duration>,
        cancel: Option<&CancelToken>,
    ) -> Result<()> {
        if plant!("db: batches run concurrently with changes of trees") {
            return Ok(());
        }
        let check_interrupted = || cancel.map_or(Ok(()), CancelToken::check_cancelled);
        let is_early = || until.is_none_or(|until| self.engine.env.clock.now() < until);
        alone.has_gate = self.locking.gate.close(|| is_early() && check_interrupted().is_ok());
        if alone.has_gate {
            return Ok(());
        }
        check_interrupted()?;
        Err(Error::LockTimeout {
            tree: self.tree_name(tree),
            what: WHOLE_TREE.into(),
            holder: LockHolder::Other("a batch that is being committed"),
            key: None,
        })
    }
}

impl Tree {
    /// The transactions that write it now.
    pub(crate) fn writers_now(&self) -> WritersThen {
        let mut then = Vec::new();
        self.entry.writers.others(None, &mut then);
        WritersThen { tree: self.clone(), then }
    }

    /// Returns `NoSuchTree` if the tree was dropped.
    pub(crate) fn check_there(&self) -> Result<()> {
        self.entry.check()
    }

    /// An error for malformed data that the tree's owner keeps in the catalog.
    pub(crate) fn malformed(&self, flaw: crate::layout::DecodeError) -> Error {
        flaw.at(self.shared.engine.store.file().path())
    }

    /// True if the tree's store is open read-only.
    pub(crate) fn is_read_only(&self) -> bool {
        self.shared.lifecycle.read_only
    }
}

impl BulkLoad {
    /// The number that the tree will have.
    pub(crate) fn tree_id(&self) -> TreeId {
        self.record.id
    }
}
