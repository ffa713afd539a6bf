//! Temporary trees: trees that belong to one session and end with it (Rule: I50).
//!
//! The rows of a temporary tree are a write buffer that is never committed: in memory up to its
//! share, beyond that in sorted runs that nothing links and that do not survive a crash
//! (`write_buffer/`); there are no committed rows beneath the buffer. So the tree is in no log,
//! catalog or checkpoint, takes no seqno and no lock, and is created at once. The session's
//! transactions write it as part of themselves: their savepoints, statements and ends mark and roll
//! back its writes with their own.
//!
//! | file | what it does |
//! |---|---|
//! | `write.rs` | writes, as part of a transaction |
//! | `read.rs` | reads, counts, estimates |
//! | `cursor.rs` | scans |
//! | `rows.rs` | rows with entries in several trees |
//! | `in_txn.rs` | the trees that a transaction has written follow its savepoints and its end |
//!
//! Invariants
//! 1. At most one transaction that has not ended has written the tree. If that transaction rolls
//!    back, the tree returns to its state at the transaction's start.
//! 2. While no transaction is writing the tree, no mark is live: the tree's spilled pieces may be
//!    merged in any combination.
//! 3. A tree that is lost because it could not be spilled does not prevent the rollback of other
//!    writes of the transaction.
//!
//! Threads: as the transaction. The state of a user's transaction is locked before the state of a
//! temporary tree.

mod cursor;
mod in_txn;
mod read;
mod rows;
mod write;

use std::ops::Range;

use crate::{
    Error, Result, Seqno, TreeId,
    catalog::TreeRecord,
    db::{Db, Projection, Tree, TreeOptions},
    pipeline::Engine,
    sync::{Arc, Mutex, MutexGuard},
    tree::TreeTraits,
    txn::{LiveWrites, Mark, lock_table::Owner},
};

use super::write_buffer::{BufferState, WriteBuffer};

pub use cursor::TemporaryCursor;
pub(super) use in_txn::TemporaryUse;
pub use rows::TemporaryEntry;

/// The number that every temporary tree has: they are never looked up by number.
const TEMPORARY: TreeId = TreeId(u32::MAX - 1);

/// A tree that belongs to a session: ordered rows that the session's transactions write like any
/// others, and that are gone with the last handle. See [`Db::create_temporary`].
#[derive(Clone)]
pub struct TemporaryTree {
    held: Arc<Held>,
}

short_debug!(TemporaryTree, "TemporaryTree", |tree| tree.held.tree.id().0);

/// The tree that all handles share. The buffer comes first: what it has in the file is freed before
/// the store may close.
struct Held {
    buffer: WriteBuffer,
    state: Mutex<State>,
    traits: TreeTraits,
    tree: Tree,
}

short_debug!(Held, "Held", |held| held.tree.id().0);

#[derive(Debug, Default)]
struct State {
    buffer: BufferState,
    /// The transaction that is writing the tree, if it can be interrupted: that cancels calls and
    /// scans of the tree, too.
    writer: Option<Arc<Owner>>,
    /// Whether a transaction that has written the tree has not ended yet.
    is_used: bool,
    /// Whether it could not be spilled.
    is_lost: bool,
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
        let engine = &self.shared.engine;
        engine.health.check()?;
        self.shared.check_writable()?;
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
        // A session may have many temporary trees.
        let bytes_max = engine.limits.own_writes_bytes / 4;
        let buffer = WriteBuffer { live: Arc::new(LiveWrites::default()), bytes_max };
        let tree = Tree::new(self.shared.clone(), entry);
        Ok(TemporaryTree { held: Arc::new(Held { buffer, state: Mutex::default(), traits, tree }) })
    }
}

impl TemporaryTree {
    /// Removes all rows; no rollback restores them.
    ///
    /// # Errors
    /// `InvalidArgument` if a transaction has written the tree and not ended.
    pub fn clear(&self) -> Result<()> {
        let held = &*self.held;
        let mut state = held.lock()?;
        if state.is_used {
            return Err(used());
        }
        held.buffer.rollback_to(&mut state.buffer, Mark::default());
        held.forget_dropped();
        Ok(())
    }

    /// Parts of the tree's values, by their numbers in the layout, for reads of only these parts:
    /// see [`Tree::projection`](crate::Tree::projection).
    ///
    /// # Errors
    /// As [`Tree::projection`](crate::Tree::projection).
    pub fn projection(&self, numbers: &[usize]) -> Result<Projection> {
        self.held.tree.projection(numbers)
    }

    /// Takes `count` numbers from one of the tree's counters, as
    /// [`Tree::reserve`](crate::Tree::reserve) does. The counters end with the tree: neither a
    /// rollback nor [`clear`](Self::clear) resets them.
    ///
    /// # Errors
    /// `InvalidArgument` if there is no such counter, or too few numbers are left.
    pub fn reserve(&self, counter: usize, least: u64, count: u64) -> Result<Range<u64>> {
        self.held.tree.reserve_unlogged(counter, least, count)
    }

    /// The next number of a counter, without taking it.
    ///
    /// # Errors
    /// `InvalidArgument` if there is no such counter.
    pub fn next_number(&self, counter: usize) -> Result<u64> {
        self.held.tree.next_number(counter)
    }
}

impl Held {
    fn engine(&self) -> &Engine {
        &self.tree.shared.engine
    }

    /// Locks the state, unless the tree is lost: because it could not be spilled, or because a
    /// custom merge operator has panicked.
    fn lock(&self) -> Result<MutexGuard<'_, State>> {
        match self.state.lock() {
            Ok(state) if !state.is_lost => Ok(state),
            _ => Err(Error::TxnEnded),
        }
    }

    /// Locks the state for a call that an interrupt of the writing transaction prevents.
    fn enter(&self) -> Result<MutexGuard<'_, State>> {
        self.engine().health.check()?;
        let state = self.lock()?;
        match state.writer.as_ref().is_some_and(|writer| writer.is_interrupted()) {
            true => Err(Error::Interrupted),
            false => Ok(state),
        }
    }

    /// Forgets pieces that were rolled back: no locks of their rows are held.
    fn forget_dropped(&self) {
        self.buffer.live.lock().forget_dropped();
    }
}

fn used() -> Error {
    let why = "another transaction has written the temporary tree and not ended";
    Error::InvalidArgument(why.into())
}
