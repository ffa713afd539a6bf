//! Temporary trees: trees that belong to one session and end with it (Rule: I50).
//!
//! The rows of a temporary tree are the writes of an internal transaction that is never committed:
//! in memory up to its share, beyond that in sorted runs that nothing links and that do not survive
//! a crash (`spill.rs`); there are no committed rows below. So the tree is in no log, catalog or
//! checkpoint, takes no seqno and no lock, and is created at once. The session's transactions write
//! it as part of themselves: their savepoints, statements and ends mark and roll back its writes
//! with their own.
//!
//! Invariants
//! 1. At most one transaction that has not ended has written it. If that rolls back, the tree
//!    returns to where the transaction started.
//! 2. While no transaction is writing the tree, no mark is live: its pieces merge freely.
//! 3. A tree that is lost because it could not be spilled does not prevent the rollback of other
//!    writes of the transaction.
//!
//! Threads: as the transaction. The state of a user's transaction is locked before that of a
//! tree's.

use crate::{
    Error, KeyRange, Result, Seqno, TreeId,
    catalog::TreeRecord,
    db::{Db, Tree, TreeOptions},
    sync::{Arc, Mutex},
    tree::TreeTraits,
    txn::{Mark, lock_table::Owner},
};

use super::{Isolation, Savepoint, State, Txn, TxnCursor, TxnOptions};

/// The number of all temporary trees: they are never looked up by number.
const TEMPORARY: TreeId = TreeId(u32::MAX - 1);

/// A tree that belongs to a session: ordered rows that the session's transactions write like any
/// others, and that are gone with the last handle. See [`Db::create_temporary`].
#[derive(Clone)]
pub struct TemporaryTree {
    pub(super) held: Arc<Held>,
}

short_debug!(TemporaryTree, "TemporaryTree", |tree| tree.held.tree.id().0);

#[derive(Debug)]
pub(super) struct Held {
    pub(super) rows: Txn,
    pub(super) tree: Tree,
    /// Whether a transaction has written it and not ended.
    is_used: Mutex<bool>,
}

/// A temporary tree that a transaction has written.
#[derive(Debug)]
pub(super) struct TemporaryUse {
    held: Arc<Held>,
    start: Savepoint,
    /// Savepoints of the tree by the numbers of the transaction's savepoints; ascending.
    marks: Vec<(u64, Savepoint)>,
}

impl Db {
    /// Creates a temporary tree: without a name, invisible to others, gone when its last handle is
    /// dropped or the process ends. Takes no time. Nothing is written until its rows take more than
    /// a sixty-fourth of `cache_size`; rows beyond that are in the store's file, in space that is
    /// freed with the tree, or when the store is opened after a crash.
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// let sorted = db.create_temporary(Default::default())?;
    /// let txn = db.begin(Default::default())?;
    /// sorted.put(&txn, b"pear", b"2")?;
    /// let before = txn.savepoint()?;
    /// sorted.put(&txn, b"apple", b"1")?;
    /// txn.rollback_to(&before)?;
    /// txn.commit()?;
    /// let mut rows = sorted.scan(..)?;
    /// assert_eq!(rows.next()?, Some((&b"pear"[..], &b"2"[..])));
    /// assert_eq!(rows.next()?, None);
    /// # drop(rows); drop(sorted);
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` for invalid layouts; `ReadOnly`, `Closed`, `Failed`.
    pub fn create_temporary(&self, options: TreeOptions) -> Result<TemporaryTree> {
        for layout in [&options.key_layout, &options.value_layout].into_iter().flatten() {
            layout.validate()?;
        }
        // Each read sees all rows.
        let own = TxnOptions::new().isolation(Isolation::ReadCommitted);
        let mut rows = self.begin(own)?;
        let record = TreeRecord {
            id: TEMPORARY,
            name: "a temporary tree".into(),
            size_class: options.size_class,
            unique: options.unique,
            attributes: options.attributes,
            key_layout: options.key_layout,
            value_layout: options.value_layout,
            lineage: TEMPORARY.lineage(),
            birth: Seqno(0),
            ..TreeRecord::default()
        };
        let entry = self.shared.catalog.private(record);
        let (lineage, class) = (entry.lineage, entry.class);
        let traits = TreeTraits { lineage, class, leaf_filters: false, schema: entry.schema() };
        rows.private = Some(Box::new(traits));
        let tree = Tree::new(self.shared.clone(), entry);
        Ok(TemporaryTree { held: Arc::new(Held { rows, tree, is_used: Mutex::new(false) }) })
    }
}

impl TemporaryTree {
    /// Sets a value, as part of a transaction.
    ///
    /// # Errors
    /// `InvalidArgument` if another transaction has written the tree and not ended, or if this one
    /// is read-only or belongs to another store; `KeyTooLong`, `ValueTooLong`, `TxnEnded`. `Full`
    /// and I/O errors if it could not be spilled: the tree is lost, and all its calls fail with
    /// `TxnEnded` from then on.
    pub fn put(&self, txn: &Txn, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        self.enroll(txn)?;
        self.held.rows.put(&self.held.tree, key, value)
    }

    /// Sets the value of a key that must not exist.
    ///
    /// # Errors
    /// `DuplicateKey`; as [`put`](Self::put).
    pub fn insert(&self, txn: &Txn, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        self.enroll(txn)?;
        self.held.rows.insert(&self.held.tree, key, value)
    }

    /// Deletes a key, if it exists.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn delete(&self, txn: &Txn, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        self.enroll(txn)?;
        self.held.rows.delete(&self.held.tree, key)
    }

    /// The value of a key, as last written.
    ///
    /// # Errors
    /// I/O errors and damage of spilled rows.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let key = key.as_ref();
        self.held.rows.get(&self.held.tree, key)
    }

    /// A cursor over a range of keys, before its first row. It sees what was written before it, or
    /// before the current statement of the writing transaction ([`Txn::begin_statement`]); rows
    /// that are deleted meanwhile are skipped.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn scan(&self, range: impl KeyRange) -> Result<TxnCursor<'_>> {
        self.held.rows.scan(&self.held.tree, range)
    }

    /// Removes all rows; no rollback restores them.
    ///
    /// # Errors
    /// `InvalidArgument` if a transaction has written the tree and not ended.
    pub fn clear(&self) -> Result<()> {
        if *self.held.is_used.lock().unwrap() {
            return Err(used());
        }
        let rows = &self.held.rows;
        let mut state = rows.stay()?;
        rows.go_back(&mut state, Mark::default());
        Ok(())
    }

    /// Makes the tree part of a transaction that writes it.
    pub(super) fn enroll(&self, txn: &Txn) -> Result<()> {
        let held = &self.held;
        let mut state = txn.go_on()?;
        if state.temporary.iter().any(|using| Arc::ptr_eq(&using.held, held)) {
            return Ok(());
        }
        // Compared by store, because threads use different handles.
        if !Arc::ptr_eq(&**held.rows.shared, &**txn.shared) || txn.options.read_only {
            let why = "a temporary tree is written by transactions of its store that may write";
            return Err(Error::InvalidArgument(why.into()));
        }
        if std::mem::replace(&mut *held.is_used.lock().unwrap(), true) {
            return Err(used());
        }
        let begun = held.rows.savepoint().and_then(|start| {
            // Nothing of the statement was written here so far.
            let begins = state.marks.statement.is_some().then(|| held.rows.begin_statement());
            begins.transpose()?;
            (0..state.marks.substatements.len())
                .try_for_each(|_| held.rows.begin_substatement())?;
            Ok(start)
        });
        let start = begun.inspect_err(|_| *held.is_used.lock().unwrap() = false)?;
        held.cancel_with(state.known());
        state.temporary.push(TemporaryUse { held: held.clone(), start, marks: Vec::new() });
        Ok(())
    }
}

fn used() -> Error {
    let why = "another transaction has written the temporary tree and not ended";
    Error::InvalidArgument(why.into())
}

/// Ignores `TxnEnded`: a lost tree has nothing to mark or roll back, and reports its loss when it
/// is read or written (invariant 3).
fn unless_lost<T>(outcome: Result<T>) -> Result<Option<T>> {
    match outcome {
        Err(Error::TxnEnded) => Ok(None),
        outcome => outcome.map(Some),
    }
}

/// A transaction's savepoints, statements and end are passed on to the temporary trees that it
/// writes.
impl State {
    pub(super) fn mark_temporary(&mut self, number: u64) -> Result<()> {
        for using in &mut self.temporary {
            if let Some(mark) = unless_lost(using.held.rows.savepoint())? {
                using.marks.push((number, mark));
            }
        }
        Ok(())
    }

    /// Rolls back to a savepoint; a tree that joined after it goes back to its start.
    pub(super) fn go_back_in_temporary(&mut self, number: u64) -> Result<()> {
        for TemporaryUse { held, start, marks } in &mut self.temporary {
            marks.truncate(marks.partition_point(|(other, _)| *other <= number));
            let to = marks.last().filter(|(other, _)| *other == number);
            unless_lost(held.rows.rollback_to(to.map_or(start, |(_, mark)| mark)))?;
        }
        Ok(())
    }

    pub(super) fn release_in_temporary(&mut self, number: u64) -> Result<()> {
        for TemporaryUse { held, marks, .. } in &mut self.temporary {
            let at = marks.partition_point(|(other, _)| *other < number);
            if let Some((_, mark)) = marks.get(at) {
                unless_lost(held.rows.release(mark))?;
            }
            marks.truncate(at);
        }
        Ok(())
    }

    /// Makes the transaction's interrupters reach its calls in temporary trees.
    pub(super) fn cancel_in_temporary(&self) {
        self.temporary.iter().for_each(|using| using.held.cancel_with(self.known()));
    }

    pub(super) fn begin_statement_in_temporary(&self) -> Result<()> {
        let begin = |using: &TemporaryUse| unless_lost(using.held.rows.begin_statement()).map(drop);
        self.temporary.iter().try_for_each(begin)
    }

    pub(super) fn begin_substatement_in_temporary(&self) -> Result<()> {
        let begin = |using: &TemporaryUse| unless_lost(using.held.rows.begin_substatement());
        self.temporary.iter().try_for_each(|using| begin(using).map(drop))
    }

    pub(super) fn end_substatement_in_temporary(&self) -> Result<()> {
        let end = |using: &TemporaryUse| unless_lost(using.held.rows.end_substatement());
        self.temporary.iter().try_for_each(|using| end(using).map(drop))
    }

    /// Rolls back to the start of the statement; savepoints up to this number stay.
    pub(super) fn take_statement_back_in_temporary(&mut self, left: u64) -> Result<()> {
        for TemporaryUse { held, marks, .. } in &mut self.temporary {
            marks.truncate(marks.partition_point(|(other, _)| *other <= left));
            unless_lost(held.rows.rollback_statement())?;
        }
        Ok(())
    }

    /// Keeps what was written.
    pub(super) fn keep_temporary(&mut self) {
        self.temporary.drain(..).for_each(|using| using.end(false));
    }

    /// Rolls back what was written.
    pub(super) fn take_temporary_back(&mut self) {
        self.temporary.drain(..).for_each(|using| using.end(true));
    }
}

impl Held {
    /// Makes the tree's calls and cursors cancellable by the interrupts of the writing transaction,
    /// if it has an owner.
    fn cancel_with(&self, writer: Option<&Arc<Owner>>) {
        // A lost tree has no calls.
        if let Ok(mut state) = self.rows.stay() {
            state.owner = writer.cloned();
        }
    }
}

impl TemporaryUse {
    fn end(self, takes_back: bool) {
        let Self { held, start, .. } = self;
        // The end of a transaction must not be cancelled.
        held.cancel_with(None);
        // A lost tree reports that to its next caller.
        let ended = takes_back.then(|| held.rows.rollback_to(&start)).transpose();
        let released = ended.and_then(|_| held.rows.release(&start));
        if released.is_ok()
            && let Ok(mut state) = held.rows.stay()
        {
            state.marks.statement = None;
            state.marks.substatements.clear();
        }
        *held.is_used.lock().unwrap() = false;
    }
}
