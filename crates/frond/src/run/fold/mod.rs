//! Folding of messages: what two messages of one key combine to.
//!
//! | newer | older | together |
//! |---|---|---|
//! | Put | Put | the newer Put, fresh if the older was: a fresh Put has nothing below it |
//! | Put | Delete, Merge | the newer Put, not fresh (Rule: I7) |
//! | Delete | fresh Put | nothing: they annihilate (Rule: I7) |
//! | Delete | any other | Delete |
//! | Merge | Put | Put of the result, fresh if the older was |
//! | Merge | Delete | Put of the result on nothing, not fresh |
//! | Merge | Merge | the older's operands, then the newer's; neighbours of one operator combined |
//!
//! Folding is associative: a group may be folded from either end, or in parts at several levels.
//! The caller knows whether two versions may be folded at all (no snapshot between them, I4).
//!
//! Bounds: a value that an operator makes too long is cut to [`VALUE_BYTES_MAX`] bytes. It cannot
//! be refused: a merge does not read the value, so its commit was acknowledged long before the
//! length is known. Operands of one operator are combined while the result is at most
//! [`OPERAND_BYTES_MAX`] long; others are kept side by side, which has the same effect.
//! `pipeline/batch/mod.rs` says how long such a list may become.

use std::{collections::BTreeMap, fmt};

use crate::{
    bounds,
    coding::{Reader, put_bytes},
    error::{Error, Place, Result},
    message::{Kind, Message, Tag},
    sync::Arc,
};

/// Adds big-endian 64-bit integers, wrapping. A value of another length counts as 0.
pub const OPERATOR_ADD: u8 = 1;
/// Keeps the greater byte string.
pub const OPERATOR_MAX: u8 = 2;
/// Keeps the lesser byte string.
pub const OPERATOR_MIN: u8 = 3;
/// Appends bytes; a value keeps its first [`VALUE_BYTES_MAX`](crate::VALUE_BYTES_MAX).
pub const OPERATOR_APPEND: u8 = 4;
/// The first number of a user's own operator.
pub const OPERATOR_USER_MIN: u8 = 64;
/// Longest name of a user's operator, bytes: a tree may use all 192 of them, and its record in the
/// catalog must hold their names.
pub const OPERATOR_NAME_BYTES_MAX: usize = bounds::OPERATOR_NAME_BYTES.default as usize;
/// Appends are combined up to this length: they only grow, and each fold copies them.
const APPENDED_BYTES_MAX: usize = 4 << 10;

/// A user's merge operator. It must be deterministic and associative, or trees diverge (see
/// docs/safety.md, I17).
///
/// It runs in background threads on rows that were committed long before, where no caller could
/// handle a failure, so it must not panic. A value keeps the first
/// [`VALUE_BYTES_MAX`](crate::VALUE_BYTES_MAX) bytes of what [`merge`](Self::merge) returns;
/// operands whose combination would exceed [`OPERAND_BYTES_MAX`](crate::types::OPERAND_BYTES_MAX)
/// are not combined.
pub trait MergeOperator: Send + Sync {
    /// The operator's name. The catalog stores the name with every tree that uses the operator, so
    /// that a store is never opened without it, or with another one under its number. 1 to 128
    /// bytes, no control characters; it must never change.
    fn name(&self) -> &str;
    /// The value after `operand`, given the previous value, if there is one.
    fn merge(&self, base: Option<&[u8]>, operand: &[u8]) -> Vec<u8>;
    /// One operand with the effect of `older` followed by `newer`.
    fn combine(&self, older: &[u8], newer: &[u8]) -> Vec<u8>;
}

/// Reads values that are not inline.
pub trait BlobReader: Send + Sync {
    /// Reads the value that this 16-byte reference names.
    fn read_blob(&self, reference: &[u8]) -> Result<Vec<u8>>;
}

/// The merge operators that a store knows.
#[derive(Clone, Default)]
pub struct Operators {
    user: BTreeMap<u8, Arc<dyn MergeOperator>>,
}

impl fmt::Debug for Operators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.user.keys()).finish()
    }
}

impl Operators {
    /// The built-in operators.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a user's operator, 64 or above.
    pub fn register(&mut self, id: u8, operator: Arc<dyn MergeOperator>) -> Result<()> {
        if id < OPERATOR_USER_MIN {
            let why = format!("operator {id}: numbers below {OPERATOR_USER_MIN} are built in");
            return Err(Error::InvalidArgument(why));
        }
        let name = operator.name();
        let fits = !name.is_empty() && bounds::OPERATOR_NAME_BYTES.admits(name.len());
        if !fits || name.chars().any(char::is_control) {
            let max = bounds::OPERATOR_NAME_BYTES.max();
            let why =
                format!("operator {id}: a name has 1 to {max} bytes and no control characters");
            return Err(Error::InvalidArgument(why));
        }
        self.user.insert(id, operator);
        Ok(())
    }

    /// The name of a user's operator, if there is one of this number.
    pub fn name(&self, id: u8) -> Option<&str> {
        self.user.get(&id).map(|operator| operator.name())
    }

    /// True if there is an operator of this number.
    pub fn knows(&self, id: u8) -> bool {
        (OPERATOR_ADD..=OPERATOR_APPEND).contains(&id) || self.user.contains_key(&id)
    }

    fn user(&self, id: u8) -> Result<&dyn MergeOperator> {
        self.user.get(&id).map(|operator| &**operator).ok_or(Error::MissingOperator(id))
    }

    /// Applies `operand` to `value`, which holds the previous value if `exists`.
    fn merge(&self, id: u8, exists: bool, value: &mut Vec<u8>, operand: &[u8]) -> Result<()> {
        match id {
            OPERATOR_ADD => {
                let base = if exists { integer(value) } else { 0 };
                let sum = base.wrapping_add(integer(operand));
                value.clear();
                value.extend_from_slice(&sum.to_be_bytes());
            }
            OPERATOR_MAX if exists && value.as_slice() >= operand => {}
            OPERATOR_MIN if exists && value.as_slice() <= operand => {}
            OPERATOR_MAX | OPERATOR_MIN => {
                value.clear();
                value.extend_from_slice(operand);
            }
            OPERATOR_APPEND => {
                if !exists {
                    value.clear();
                }
                // Truncating is associative: the bytes beyond the limit are the same in whatever
                // order messages are folded.
                let room = bounds::VALUE_BYTES.len().saturating_sub(value.len());
                value.extend_from_slice(&operand[..operand.len().min(room)]);
            }
            _ => {
                let base = exists.then_some(value.as_slice());
                *value = self.user(id)?.merge(base, operand);
                value.truncate(bounds::VALUE_BYTES.len());
            }
        }
        Ok(())
    }

    /// One operand with the effect of `older` followed by `newer`; `None` if the two should stay
    /// separate.
    fn combine(&self, id: u8, older: &[u8], newer: &[u8]) -> Result<Option<Vec<u8>>> {
        let combined = match id {
            OPERATOR_APPEND if older.len() + newer.len() > APPENDED_BYTES_MAX => return Ok(None),
            OPERATOR_ADD..=OPERATOR_APPEND => {
                // Each built-in operand is itself a value.
                let mut combined = older.to_vec();
                self.merge(id, true, &mut combined, newer)?;
                combined
            }
            _ => self.user(id)?.combine(older, newer),
        };
        Ok((combined.len() <= bounds::OPERAND_BYTES.len()).then_some(combined))
    }
}

fn integer(bytes: &[u8]) -> i64 {
    bytes.try_into().map_or(0, i64::from_be_bytes)
}

/// Appends one operand to the payload of a Merge.
pub fn put_operand(out: &mut Vec<u8>, operator: u8, operand: &[u8]) {
    out.push(operator);
    put_bytes(out, operand);
}

/// The operands of a Merge, oldest first.
pub fn operands(payload: &[u8]) -> impl Iterator<Item = Result<(u8, &[u8])>> {
    let mut reader = Reader::new(payload);
    std::iter::from_fn(move || {
        let operand = next_operand(&mut reader);
        if operand.is_err() {
            reader = Reader::new(&[]);
        }
        operand.transpose()
    })
}

/// The next operand; `None` at the end.
fn next_operand<'a>(reader: &mut Reader<'a>) -> Result<Option<(u8, &'a [u8])>> {
    if reader.rest().is_empty() {
        return Ok(None);
    }
    reader.u8().zip(reader.bytes()).map(Some).ok_or_else(|| {
        let place = Place { file: "(message)".into(), offset: 0, bytes: 0 };
        let why = "an operand does not fit".into();
        Error::Malformed { place, what: "the operands of a merge", why }
    })
}

/// The result of folding two messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Folded {
    /// The newer message's payload with this tag.
    Newer(Tag),
    /// The payload in the buffer, with this tag.
    Made(Tag),
    /// Nothing remains.
    Nothing,
}

/// Folds messages with the store's operators and blobs.
#[derive(Clone, Copy)]
pub struct Folder<'a> {
    operators: &'a Operators,
    blobs: Option<&'a dyn BlobReader>,
}

impl fmt::Debug for Folder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Folder({:?})", self.operators)
    }
}

/// Returns the result if it is the newer message alone, so that no payload needs to be touched.
#[inline]
fn hides(newer: Tag, older: Tag) -> Option<Folded> {
    match newer.kind() {
        Kind::Put | Kind::PutBlob if plant!("run: fresh bit survives an absorbed delete") => {
            Some(Folded::Newer(newer))
        }
        Kind::Put | Kind::PutBlob => Some(Folded::Newer(if older.is_fresh() {
            newer.with_fresh()
        } else {
            newer.without_fresh()
        })),
        Kind::Delete if older.is_fresh() => Some(Folded::Nothing),
        Kind::Delete => Some(Folded::Newer(newer)),
        Kind::Merge | Kind::Versions => None,
    }
}

impl<'a> Folder<'a> {
    /// A folder without access to blobs: a Merge over a PutBlob is an error.
    pub fn new(operators: &'a Operators) -> Self {
        Self { operators, blobs: None }
    }

    /// A folder that reads blobs where a Merge needs the value.
    pub fn with_blobs(operators: &'a Operators, blobs: &'a dyn BlobReader) -> Self {
        Self { operators, blobs: Some(blobs) }
    }

    /// Folds the versions of a key, newest first, into one message with its payload in `payload`;
    /// `None` if nothing is left. With `to_base`, nothing older than a Put or a Delete is examined:
    /// this suffices for readers, while a caller that stores the message needs to know whether it
    /// stays fresh.
    #[inline]
    pub fn fold_versions<'m>(
        &self,
        versions: impl Iterator<Item = Message<'m>>,
        to_base: bool,
        payload: &mut Vec<u8>,
        spare: &mut Vec<u8>,
    ) -> Result<Option<Tag>> {
        let mut folded: Option<Tag> = None;
        // Merges that wait for what is below them, newest first. They are applied to it one after
        // the other, so each is copied once, however many there are.
        let mut merges: Vec<Message<'m>> = Vec::new();
        for older in versions {
            folded = match (folded, older.tag) {
                (None | Some(Tag::MERGE), Tag::MERGE) => {
                    merges.push(older);
                    Some(Tag::MERGE)
                }
                (None, tag) => {
                    payload.clear();
                    payload.extend_from_slice(older.payload);
                    Some(tag)
                }
                (Some(Tag::MERGE), _) => {
                    let tag = self.base(older, payload)?;
                    let mut exists = older.tag.is_put();
                    for merge in merges.drain(..).rev() {
                        self.apply(exists, merge.payload, payload)?;
                        exists = true;
                    }
                    Some(tag)
                }
                (Some(newer), _) => match self.fold(Message::new(newer, payload), older, spare)? {
                    Folded::Newer(tag) => Some(tag),
                    Folded::Made(tag) => {
                        std::mem::swap(payload, spare);
                        Some(tag)
                    }
                    Folded::Nothing => None,
                },
            };
            if to_base && folded.is_none_or(Tag::is_base) {
                break;
            }
        }
        if !merges.is_empty() {
            payload.clear();
            let mut last = None;
            for merge in merges.iter().rev() {
                self.append(payload, &mut last, merge.payload)?;
            }
        }
        Ok(folded)
    }

    /// Folds `newer` over `older`; a payload that has to be constructed goes into `out`, which is
    /// cleared first.
    pub fn fold(
        &self,
        newer: Message<'_>,
        older: Message<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Folded> {
        if newer.tag.kind() == Kind::Versions || older.tag.kind() == Kind::Versions {
            return Err(versions());
        }
        if let Some(folded) = hides(newer.tag, older.tag) {
            return Ok(folded);
        }
        if older.tag.kind() == Kind::Merge {
            out.clear();
            let mut last = None;
            self.append(out, &mut last, older.payload)?;
            self.append(out, &mut last, newer.payload)?;
            return Ok(Folded::Made(Tag::MERGE));
        }
        let tag = self.base(older, out)?;
        self.apply(older.tag.is_put(), newer.payload, out)?;
        Ok(Folded::Made(tag))
    }

    /// Puts the base of a Merge into `out`, and returns the tag of the result.
    fn base(&self, older: Message<'_>, out: &mut Vec<u8>) -> Result<Tag> {
        out.clear();
        match older.tag.kind() {
            Kind::Put => out.extend_from_slice(older.payload),
            Kind::PutBlob => *out = self.read_blob(older.payload)?,
            Kind::Delete => {}
            Kind::Merge | Kind::Versions => return Err(versions()),
        }
        Ok(if older.tag.is_fresh() { Tag::PUT_FRESH } else { Tag::PUT })
    }

    /// Converts a message for a place with nothing below it, as in a leaf: the result is never a
    /// Delete or a Merge, and not fresh, since nothing below a leaf needs to know.
    pub fn for_leaf(&self, message: Message<'_>, out: &mut Vec<u8>) -> Result<Folded> {
        match message.tag.kind() {
            Kind::Put | Kind::PutBlob => Ok(Folded::Newer(message.tag.without_fresh())),
            Kind::Delete => Ok(Folded::Nothing),
            Kind::Merge => {
                out.clear();
                self.apply(false, message.payload, out)?;
                Ok(Folded::Made(Tag::PUT))
            }
            Kind::Versions => Err(versions()),
        }
    }

    fn read_blob(&self, reference: &[u8]) -> Result<Vec<u8>> {
        let no_blobs = || Error::InvalidArgument("a merge needs a long value as its base".into());
        self.blobs.ok_or_else(no_blobs)?.read_blob(reference)
    }

    /// Applies all operands of a Merge, oldest first, to `value`, which holds the previous value if
    /// it `exists`.
    pub fn apply(&self, exists: bool, payload: &[u8], value: &mut Vec<u8>) -> Result<()> {
        let mut exists = exists;
        for operand in operands(payload) {
            let (operator, operand) = operand?;
            self.operators.merge(operator, exists, value, operand)?;
            exists = true;
        }
        Ok(())
    }

    /// Appends the operands of a Merge to older ones, combining where the two meet. `last` is the
    /// offset of the last operand in `list`.
    fn append(&self, list: &mut Vec<u8>, last: &mut Option<usize>, newer: &[u8]) -> Result<()> {
        let mut rest = Reader::new(newer);
        let mut joins = true;
        while let Some((operator, operand)) = next_operand(&mut rest)? {
            let before = last.filter(|_| std::mem::take(&mut joins));
            if let Some(at) = before
                && let Some((same, old)) = next_operand(&mut Reader::new(&list[at..]))?
                && same == operator
                && let Some(combined) = self.operators.combine(operator, old, operand)?
            {
                list.truncate(at);
                put_operand(list, operator, &combined);
                continue;
            }
            *last = Some(list.len());
            put_operand(list, operator, operand);
        }
        Ok(())
    }
}

#[cold]
fn versions() -> Error {
    Error::InvalidArgument("versions of a spilled run are read, not folded".into())
}

#[cfg(test)]
pub(super) mod tests;
