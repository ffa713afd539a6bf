//! Batches: changes to any number of trees that commit together or not at all.

use crate::{
    Error, KEY_BYTES_MAX, Result, Tag, VALUE_BYTES_MAX, coding::put_varint, txn::WriteSet,
};

use super::Tree;

/// Changes that commit atomically, in the order they were added.
///
/// A batch is private until [`Db::commit`](crate::Db::commit), which empties it and leaves its memory
/// for the next one. Adding costs a copy of key and value.
///
/// ```
/// # fn main() -> frond::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
/// let unique = frond::TreeOptions { unique: true, ..Default::default() };
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
#[derive(Clone, Debug, Default)]
pub struct Batch {
    pub(crate) writes: WriteSet,
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a value, whether the key exists or not.
    ///
    /// # Errors
    /// `KeyTooLong`, `ValueTooLong`, or `NoSuchTree` if the tree was dropped.
    pub fn put(&mut self, tree: &Tree, key: &[u8], value: &[u8]) -> Result<()> {
        check(tree, key, value)?;
        self.writes.push(tree.entry.id, key, Tag::PUT, &[value], false);
        Ok(())
    }

    /// Sets the value of a key that must not exist: the whole commit fails with
    /// [`Error::KeyExists`] if it does. The tree must be `unique`; else the commit fails with
    /// [`Error::InvalidArgument`].
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn insert(&mut self, tree: &Tree, key: &[u8], value: &[u8]) -> Result<()> {
        check(tree, key, value)?;
        self.writes.push(tree.entry.id, key, Tag::PUT, &[value], true);
        Ok(())
    }

    /// Deletes a key, if it exists.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn delete(&mut self, tree: &Tree, key: &[u8]) -> Result<()> {
        check(tree, key, &[])?;
        self.writes.push(tree.entry.id, key, Tag::DELETE, &[], false);
        Ok(())
    }

    /// Folds an operand into a value without reading it: [`operator`](crate::operator) has the
    /// built-in ones.
    ///
    /// # Errors
    /// As [`put`](Self::put), and `MissingOperator`.
    pub fn merge(&mut self, tree: &Tree, key: &[u8], operator: u8, operand: &[u8]) -> Result<()> {
        check(tree, key, operand)?;
        if !tree.shared.engine.cx.operators.knows(operator) {
            return Err(Error::MissingOperator(operator));
        }
        let mut head = Vec::with_capacity(11);
        head.push(operator);
        put_varint(&mut head, operand.len() as u64);
        self.writes.push(tree.entry.id, key, Tag::MERGE, &[&head, operand], false);
        Ok(())
    }

    /// Deletes all keys in `[from, to)`; costs the same however many there are.
    ///
    /// # Errors
    /// As [`put`](Self::put), and `InvalidArgument` if `from` is not below `to`.
    pub fn delete_range(&mut self, tree: &Tree, from: &[u8], to: &[u8]) -> Result<()> {
        check(tree, from, &[])?;
        check(tree, to, &[])?;
        if from >= to {
            return Err(Error::InvalidArgument("a range to delete ends before it begins".into()));
        }
        self.writes.push_range(tree.entry.id, from, to);
        Ok(())
    }

    /// Number of changes.
    pub fn len(&self) -> usize {
        self.writes.len()
    }

    /// True if there is nothing to commit.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of keys and values held.
    pub fn bytes(&self) -> usize {
        self.writes.bytes()
    }

    /// Forgets all changes and keeps the memory.
    pub fn clear(&mut self) {
        self.writes.clear();
    }
}

fn check(tree: &Tree, key: &[u8], value: &[u8]) -> Result<()> {
    tree.entry.check()?;
    check_key(key)?;
    if value.len() > VALUE_BYTES_MAX {
        return Err(Error::ValueTooLong { bytes: value.len(), max: VALUE_BYTES_MAX });
    }
    Ok(())
}

pub(super) fn check_key(key: &[u8]) -> Result<()> {
    if key.len() > KEY_BYTES_MAX {
        return Err(Error::KeyTooLong { bytes: key.len(), max: KEY_BYTES_MAX });
    }
    Ok(())
}
