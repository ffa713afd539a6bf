//! Batches: changes to any number of trees that commit together or not at all.

use std::time::Duration;

use crate::{
    Error, Interrupter, KeyRange, Result, TreeId,
    blob::BlobHold,
    bounds,
    cancel::CancelToken,
    coding::put_varint,
    db::{Shared, Tree, commit::LOCK_WAIT, tree::borrowed_bounds},
    key_range::check_key,
    message::Tag,
    pipeline::CommitPayload,
    run::OPERATOR_USER_MIN,
    sync::Arc,
    txn::WriteSet,
};

/// Changes that commit atomically, in the order in which they were added.
///
/// A batch is private until [`Db::commit`](crate::Db::commit), which empties it and keeps its
/// memory for reuse. Adding a change costs a copy of key and value. A value longer than
/// [`VALUE_INLINE_BYTES_MAX`](crate::types::VALUE_INLINE_BYTES_MAX) is written to the store's file
/// at once and takes no memory here; dropping the batch without a commit frees that space, and
/// cannot fail.
///
/// ```
/// # fn main() -> frond::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
/// let unique = frond::TreeOptions::new().unique(true);
/// let users = db.create_tree("users", unique)?;
/// let by_name = db.create_tree("users.by_name", Default::default())?;
/// let mut batch = frond::Batch::new();
/// batch.insert(&users, b"7", b"Ada")?;
/// batch.put(&by_name, b"Ada\07", b"")?;
/// db.commit(&mut batch)?;
/// assert_eq!(users.get(b"7")?.as_deref(), Some(&b"Ada"[..]));
/// # db.close()
/// # }
/// ```
///
/// A batch cannot be cloned: it owns the long values that it has written, and each belongs to one
/// commit.
#[doc(alias = "WriteBatch")]
#[derive(Default)]
pub struct Batch {
    pub(crate) writes: WriteSet,
    /// Blobs whose references are in `writes`.
    pub(crate) blobs: Vec<Arc<BlobHold>>,
    /// Custom operators that the batch uses, each once per tree.
    pub(super) operators: Vec<(TreeId, u8)>,
    /// The store of its trees, once it has any change.
    store: Option<Arc<Shared>>,
    /// The payload object for commits, kept for its memory.
    pub(super) payload: Option<Arc<CommitPayload>>,
    pub(super) waits: BatchWaits,
}

short_debug!(Batch, "Batch", |batch| batch.len());

/// How the commit of a batch waits for locks.
#[derive(Clone, Debug)]
pub(super) struct BatchWaits {
    cancel: Option<CancelToken>,
    /// Time limit for all its locks together; `None` for no limit.
    pub lock_timeout: Option<Duration>,
}

impl Default for BatchWaits {
    fn default() -> Self {
        Self { cancel: None, lock_timeout: Some(LOCK_WAIT) }
    }
}

impl BatchWaits {
    /// Returns `Interrupted` if the commit was cancelled.
    pub fn check_interrupted(&self) -> Result<()> {
        self.cancel.as_ref().map_or(Ok(()), CancelToken::check_cancelled)
    }

    /// The cancellation token for the owner of its locks.
    pub fn cancel(&self) -> Option<&CancelToken> {
        self.cancel.as_ref()
    }
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a value, whether the key exists or not.
    ///
    /// # Errors
    /// `KeyTooLong`, `ValueTooLong`, `NoSuchTree` if the tree was dropped, or `InvalidArgument` if
    /// it belongs to a table; for a value that is written at once also those of a commit: `Full`,
    /// `ReadOnly`, `Closed`, `Failed`, I/O errors.
    pub fn put(
        &mut self,
        tree: &Tree,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.push(tree, key.as_ref(), value.as_ref(), false)
    }

    /// Sets the value of a key that must not exist: if it does, the whole commit fails with
    /// [`Error::DuplicateKey`]. The check follows the batch's order: it is made against the newest
    /// state of the store with the batch's earlier changes applied. So an insert after a delete of
    /// its key passes, an insert after a put is refused, and nothing later in the batch undoes a
    /// refusal.
    ///
    /// # Errors
    /// `InvalidArgument` if the tree is not `unique`; otherwise as [`put`](Self::put).
    pub fn insert(
        &mut self,
        tree: &Tree,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.push(tree, key.as_ref(), value.as_ref(), true)
    }

    fn push(&mut self, tree: &Tree, key: &[u8], value: &[u8], insert: bool) -> Result<()> {
        self.join(tree)?;
        check_key(key)?;
        tree.check_value(value)?;
        let id = tree.entry.id;
        if insert && !tree.entry.unique {
            let name = tree.name();
            let why = format!("tree \"{name}\" takes no inserts: create it with `unique`, or put");
            return Err(Error::InvalidArgument(why));
        }
        if value.len() <= tree.shared.engine.cx.shape.blob_bytes {
            self.writes.check_room(key.len() + value.len())?;
            self.writes.push(id, key, Tag::PUT, &[value], insert);
            return Ok(());
        }
        tree.shared.check_writable()?;
        let class = tree.entry.record().size_class;
        let written = tree.shared.engine.cx.write_blob(value, class, false);
        let (reference, hold) =
            written.inspect_err(|error| tree.shared.stop_if_unwritable(error))?;
        self.writes.push(id, key, Tag::PUT_BLOB, &[&reference.to_disk()], insert);
        self.blobs.push(hold);
        Ok(())
    }

    /// Deletes a key, if it exists.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    #[doc(alias = "remove")]
    pub fn delete(&mut self, tree: &Tree, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        self.join(tree)?;
        check_key(key)?;
        self.writes.push(tree.entry.id, key, Tag::DELETE, &[], false);
        Ok(())
    }

    /// Folds an operand into a value without reading it; [`operator`](crate::operator) lists the
    /// built-in operators. The first commit that uses a custom operator in a tree first records
    /// that in the catalog, synced.
    ///
    /// # Errors
    /// `KeyTooLong`, `NoSuchTree`, `MissingOperator`, or `ValueTooLong` if the operand is longer
    /// than [`OPERAND_BYTES_MAX`](crate::types::OPERAND_BYTES_MAX).
    pub fn merge(
        &mut self,
        tree: &Tree,
        key: impl AsRef<[u8]>,
        operator: u8,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.push_merge(tree, key.as_ref(), operator, operand.as_ref())
    }

    fn push_merge(&mut self, tree: &Tree, key: &[u8], operator: u8, operand: &[u8]) -> Result<()> {
        self.join(tree)?;
        check_key(key)?;
        if !bounds::OPERAND_BYTES.admits(operand.len()) {
            return Err(Error::ValueTooLong {
                bytes: operand.len(),
                max: bounds::OPERAND_BYTES.len(),
            });
        }
        self.writes.check_room(key.len() + operand.len() + 11)?;
        if !tree.shared.engine.cx.operators.knows(operator) {
            return Err(Error::MissingOperator(operator));
        }
        tree.must_take_operands()?;
        let mut head = Vec::with_capacity(11);
        head.push(operator);
        put_varint(&mut head, operand.len() as u64);
        self.writes.push(tree.entry.id, key, Tag::MERGE, &[&head, operand], false);
        let used = (tree.entry.id, operator);
        if operator >= OPERATOR_USER_MIN && !self.operators.contains(&used) {
            self.operators.push(used);
        }
        Ok(())
    }

    /// Deletes all keys in a range. The cost does not depend on how many keys there are. n range
    /// deletes cost n log n, and a read that meets n of them costs log² n.
    ///
    /// A range without an upper bound takes 128 KiB in the log and in memory, because it is written
    /// with the greatest possible key. To delete all rows of a tree, use a
    /// [truncation](crate::schema::TreesChange::truncate).
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// let users = db.create_tree("users", Default::default())?;
    /// for name in ["ada", "bob", "tmp:1", "tmp:2"] {
    ///     users.put(name, "")?;
    /// }
    /// let mut batch = frond::Batch::new();
    /// batch.delete_range(&users, frond::prefix("tmp:"))?;
    /// batch.delete_range(&users, ..="ada")?;
    /// db.commit(&mut batch)?;
    /// assert_eq!(users.count(..)?, 1);
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`put`](Self::put), and `InvalidArgument` if the range ends before it begins.
    pub fn delete_range(&mut self, tree: &Tree, range: impl KeyRange) -> Result<()> {
        let (from, to) = borrowed_bounds(&range)?;
        let greatest = to.is_none().then(|| vec![0xff; bounds::KEY_BYTES.len()]);
        let from = from.as_deref().unwrap_or_default();
        self.push_delete_range(
            tree,
            from,
            to.as_deref().or(greatest.as_deref()).unwrap_or_default(),
        )?;
        // The range ends before the greatest key.
        greatest.map_or(Ok(()), |key| self.delete(tree, key))
    }

    fn push_delete_range(&mut self, tree: &Tree, from: &[u8], to: &[u8]) -> Result<()> {
        self.join(tree)?;
        check_key(from)?;
        check_key(to)?;
        if from == to {
            return Ok(());
        }
        self.writes.check_room(from.len() + to.len())?;
        self.writes.push_range(tree.entry.id, from, to);
        Ok(())
    }

    /// Makes commits of the batch cancellable: after this call, an interrupt makes `commit` fail
    /// with [`Error::Interrupted`], until the interrupt is cleared. A commit that is waiting for
    /// row locks or for space in memory or on disk fails immediately. A commit that fails in this
    /// way has done nothing, and the batch is unchanged.
    pub fn set_interrupter(&mut self, interrupter: &Interrupter) {
        interrupter.set_on(self.waits.cancel.get_or_insert_default());
    }

    /// Limits how long a commit waits in total for row locks of transactions before it fails with
    /// [`Error::LockTimeout`]; `None` means no limit. The default is ten seconds.
    pub fn lock_timeout(&mut self, timeout: Option<Duration>) {
        self.waits.lock_timeout = timeout;
    }

    /// Number of changes.
    pub fn len(&self) -> usize {
        self.writes.len()
    }

    /// True if there is nothing to commit.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of keys and values held in memory.
    pub fn bytes(&self) -> usize {
        self.writes.bytes()
    }

    /// Removes all changes; keeps the memory and the interrupter.
    pub fn clear(&mut self) {
        self.writes.clear();
        self.blobs.clear();
        self.operators.clear();
        self.store = None;
    }

    /// Fails if the tree was dropped, or belongs to another store, where tree numbers mean
    /// something else.
    fn join(&mut self, tree: &Tree) -> Result<()> {
        tree.entry.check()?;
        tree.must_not_bypass_table()?;
        if self.is_empty() {
            self.store = Some(tree.shared.clone()); // also after a change that was refused
        }
        if self.check_store(&tree.shared).is_ok() {
            return Ok(());
        }
        let why = format!("tree \"{}\" is of another store than the batch", tree.name());
        Err(Error::InvalidArgument(why))
    }

    /// Fails if the batch belongs to another store.
    pub(super) fn check_store(&self, store: &Shared) -> Result<()> {
        match &self.store {
            Some(own) if !std::ptr::eq(Arc::as_ptr(own), store) => {
                Err(Error::InvalidArgument("the batch belongs to another store".into()))
            }
            _ => Ok(()),
        }
    }
}
