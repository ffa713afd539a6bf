//! A write of one key, and what is known about the key.
//!
//! Threads: as the owner of the buffer.

use crate::{
    Error, Result,
    blob::{BLOB_REF_BYTES, BlobHold},
    bounds,
    db::Tree,
    sync::Arc,
    txn::{HashedKey, OwnState, ROWS_UNKNOWN, TxnWrites},
};

/// What is known, or must be checked, about a key that is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::db::session) enum Absent {
    /// Nothing is known.
    Whatever,
    /// The key must be absent: this is checked.
    Must,
    /// The key is absent: this was checked under the row's lock, and is checked again only after a
    /// wait.
    Proven,
    /// The key is absent: this follows from something else, because it belongs to a row that does
    /// not exist, or because the caller says so.
    Follows,
    /// The key exists, according to the caller.
    Not,
}

/// The result of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::db::session) enum Written {
    /// The write is done; contains the state of the key in the buffer before.
    Done(OwnState),
    /// The key exists, and nothing was written.
    Exists,
}

/// A write of one key.
#[derive(Debug)]
pub(in crate::db::session) enum RowWrite<'a> {
    /// Sets a value.
    Put(&'a [u8]),
    /// Sets a long value, which was written as a blob.
    PutBlob([u8; BLOB_REF_BYTES], Arc<BlobHold>),
    Delete,
    /// Folds an operand into the value, by the operator with this number.
    Merge(u8, &'a [u8]),
}

impl Absent {
    /// True if a write of the key inserts a row.
    pub fn is_insert(self) -> bool {
        matches!(self, Self::Must | Self::Proven | Self::Follows)
    }

    /// Whether a row exists for a key that is about to be written, as far as it follows from the
    /// key's state in the buffer and from what the write requires. For counting rows (Rule: I51).
    pub fn was_there(self, own: OwnState) -> Option<bool> {
        match (own, self) {
            (OwnState::Put { .. } | OwnState::Merged, _) => Some(true),
            (OwnState::Deleted { .. }, _) => Some(false),
            (OwnState::Untouched, Self::Must | Self::Proven | Self::Follows) => Some(false),
            (OwnState::Untouched, Self::Not) => Some(true),
            (OwnState::Untouched, Self::Whatever) => None,
        }
    }
}

impl<'a> RowWrite<'a> {
    /// Sets a value, which is written as a blob first if it is long. The caller has
    /// [checked](Tree::check_value) it.
    pub fn of_value(tree: &Tree, value: &'a [u8]) -> Result<Self> {
        let shared = &tree.shared;
        if value.len() <= shared.engine.cx.shape.blob_bytes {
            return Ok(Self::Put(value));
        }
        shared.check_writable()?;
        let written = shared.engine.cx.write_blob(value, tree.entry.class, false);
        let (reference, hold) = written.inspect_err(|error| shared.stop_if_unwritable(error))?;
        Ok(Self::PutBlob(reference.to_disk(), hold))
    }

    /// Folds an operand into the value.
    ///
    /// # Errors
    /// `ValueTooLong`, `MissingOperator`; `InvalidArgument` if the tree takes no operands.
    pub fn of_operand(tree: &Tree, operator: u8, operand: &'a [u8]) -> Result<Self> {
        if !bounds::OPERAND_BYTES.admits(operand.len()) {
            return Err(Error::ValueTooLong {
                bytes: operand.len(),
                max: bounds::OPERAND_BYTES.len(),
            });
        }
        if !tree.shared.engine.cx.operators.knows(operator) {
            return Err(Error::MissingOperator(operator));
        }
        tree.must_take_operands()?;
        Ok(Self::Merge(operator, operand))
    }
}

impl RowWrite<'_> {
    /// Change of the row count, given whether the row existed.
    pub(super) fn rows(&self, was_there: Option<bool>) -> i8 {
        match (was_there, self) {
            (Some(was_there), Self::Delete) => -i8::from(was_there),
            (Some(was_there), _) => i8::from(!was_there),
            (None, _) => ROWS_UNKNOWN,
        }
    }

    #[inline]
    pub(super) fn append_to(
        &self,
        writes: &mut TxnWrites,
        key: HashedKey<'_>,
        is_absent: bool,
        rows: i8,
    ) -> Result<()> {
        match self {
            Self::Put(value) if is_absent => writes.insert(key, value, rows),
            Self::Put(value) => writes.put(key, value, rows),
            Self::PutBlob(reference, hold) => {
                writes.put_blob(key, reference, hold.clone(), is_absent, rows)
            }
            Self::Delete => writes.delete(key, rows),
            Self::Merge(operator, operand) => writes.merge(key, *operator, operand, rows),
        }
    }
}
