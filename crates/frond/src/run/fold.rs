//! The algebra of messages: what two messages of one key are together.
//!
//! | newer | older | together |
//! |---|---|---|
//! | Put | Put | the newer Put, fresh if the older was: below it there is nothing either way |
//! | Put | Delete, Merge | the newer Put, not fresh (Rule: I7) |
//! | Delete | fresh Put | nothing: they annihilate (Rule: I7) |
//! | Delete | any other | Delete |
//! | Merge | Put | Put of the result, fresh if the older was |
//! | Merge | Delete | Put of the result on nothing, not fresh |
//! | Merge | Merge | the older's operands, then the newer's; neighbours of one operator combined |
//!
//! Folding is associative: a group may be folded from either end, or in parts at several levels.
//! Whether two versions may be folded at all (no snapshot between them) is the caller's to know (I4).

use std::{collections::BTreeMap, fmt};

use crate::{
    coding::{Reader, put_bytes},
    error::{Error, Place, Result},
    message::{Kind, Message, Tag},
    sync::Arc,
    types::VALUE_BYTES_MAX,
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

/// A user's operator: deterministic and associative, or trees diverge (Rule: I17).
pub trait MergeOperator: Send + Sync {
    /// The value after `operand`, given the value before, if there is one.
    fn merge(&self, base: Option<&[u8]>, operand: &[u8]) -> Vec<u8>;
    /// One operand that does what `older` and then `newer` do.
    fn combine(&self, older: &[u8], newer: &[u8]) -> Vec<u8>;
}

/// Reads values that are not inline.
pub trait BlobReader: Send + Sync {
    /// The value that this 16-byte reference names.
    fn read_blob(&self, reference: &[u8]) -> Result<Vec<u8>>;
}

/// The operators that a store knows.
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
    /// The built-in ones.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a user's operator, 64 or above.
    pub fn register(&mut self, id: u8, operator: Arc<dyn MergeOperator>) -> Result<()> {
        if id < OPERATOR_USER_MIN {
            let why = format!("operator {id}: numbers below {OPERATOR_USER_MIN} are built in");
            return Err(Error::InvalidArgument(why));
        }
        self.user.insert(id, operator);
        Ok(())
    }

    /// True if there is an operator of this number.
    pub fn knows(&self, id: u8) -> bool {
        (OPERATOR_ADD..=OPERATOR_APPEND).contains(&id) || self.user.contains_key(&id)
    }

    fn user(&self, id: u8) -> Result<&dyn MergeOperator> {
        self.user.get(&id).map(|operator| &**operator).ok_or(Error::MissingOperator(id))
    }

    /// Puts `operand` onto `value`, which is the value before it if `exists`.
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
                // Cutting is associative: what is over stays over, whatever is folded first.
                let room = VALUE_BYTES_MAX.saturating_sub(value.len());
                value.extend_from_slice(&operand[..operand.len().min(room)]);
            }
            _ => {
                let base = exists.then_some(value.as_slice());
                *value = self.user(id)?.merge(base, operand);
            }
        }
        Ok(())
    }

    /// One operand that does what `older` and then `newer` do, in `out`.
    fn combine(&self, id: u8, older: &[u8], newer: &[u8], out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        match id {
            OPERATOR_ADD..=OPERATOR_APPEND => {
                // Each built-in operand is itself a value.
                out.extend_from_slice(older);
                self.merge(id, true, out, newer)
            }
            _ => {
                *out = self.user(id)?.combine(older, newer);
                Ok(())
            }
        }
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

/// What two messages are together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Folded {
    /// The newer message's payload with this tag.
    Newer(Tag),
    /// What was put into the buffer, with this tag.
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

/// True if the newer message alone is the result, so that no payload needs to be touched.
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

    /// Folds the versions of a key, newest first, into one message, its payload in `payload`; `None` if
    /// nothing is left. With `to_base` nothing older than a Put or a Delete is looked at: enough for who
    /// reads, while who writes the message down wants to know whether it stays fresh.
    #[inline]
    pub fn fold_versions<'m>(
        &self,
        versions: impl Iterator<Item = Message<'m>>,
        to_base: bool,
        payload: &mut Vec<u8>,
        spare: &mut Vec<u8>,
    ) -> Result<Option<Tag>> {
        let mut folded: Option<Tag> = None;
        for older in versions {
            folded = match folded {
                None => {
                    payload.clear();
                    payload.extend_from_slice(older.payload);
                    Some(older.tag)
                }
                Some(newer) => match self.fold(Message::new(newer, payload), older, spare)? {
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
        Ok(folded)
    }

    /// Folds `newer` over `older`; what has to be made goes into `out`, which is cleared first.
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
        out.clear();
        match older.tag.kind() {
            Kind::Merge => {
                self.concatenate(older.payload, newer.payload, out)?;
                return Ok(Folded::Made(Tag::MERGE));
            }
            Kind::Put => out.extend_from_slice(older.payload),
            Kind::PutBlob => *out = self.read_blob(older.payload)?,
            Kind::Delete | Kind::Versions => {}
        }
        self.apply(older.tag.is_put(), newer.payload, out)?;
        let tag = if older.tag.is_fresh() { Tag::PUT_FRESH } else { Tag::PUT };
        Ok(Folded::Made(tag))
    }

    /// What a message is where nothing lies below it, as in a leaf: never a Delete or a Merge, and
    /// not fresh, since nobody will ask.
    pub fn settle(&self, message: Message<'_>, out: &mut Vec<u8>) -> Result<Folded> {
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
        let no_blobs = || Error::InvalidArgument("a merge needs a value that is a blob".into());
        self.blobs.ok_or_else(no_blobs)?.read_blob(reference)
    }

    /// Puts all operands of a Merge onto `value`, oldest first.
    fn apply(&self, exists: bool, payload: &[u8], value: &mut Vec<u8>) -> Result<()> {
        let mut exists = exists;
        for operand in operands(payload) {
            let (operator, operand) = operand?;
            self.operators.merge(operator, exists, value, operand)?;
            exists = true;
        }
        Ok(())
    }

    /// Appends the older operands, then the newer, combining where the two meet.
    fn concatenate(&self, older: &[u8], newer: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let mut reader = Reader::new(older);
        let (mut last, mut last_bytes) = (None, 0);
        loop {
            let bytes = reader.rest().len();
            let Some(operand) = next_operand(&mut reader)? else { break };
            (last, last_bytes) = (Some(operand), bytes);
        }
        let mut rest = Reader::new(newer);
        let first = next_operand(&mut rest)?;
        match (last, first) {
            (Some((a, old)), Some((b, new))) if a == b => {
                let mut combined = Vec::new();
                self.operators.combine(a, old, new, &mut combined)?;
                let before = older.len() - last_bytes;
                out.extend_from_slice(older.get(..before).unwrap_or_default());
                put_operand(out, a, &combined);
                out.extend_from_slice(rest.rest());
            }
            _ => {
                out.extend_from_slice(older);
                out.extend_from_slice(newer);
            }
        }
        Ok(())
    }
}

#[cold]
fn versions() -> Error {
    Error::InvalidArgument("versions of a spilled run are read, not folded".into())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    type Owned = (Tag, Vec<u8>);

    fn merge(operator: u8, operand: &[u8]) -> Owned {
        let mut payload = Vec::new();
        put_operand(&mut payload, operator, operand);
        (Tag::MERGE, payload)
    }

    fn fold(folder: &Folder<'_>, newer: &Owned, older: &Owned) -> Option<Owned> {
        let mut out = Vec::new();
        let [a, b] = [newer, older].map(|(tag, payload)| Message::new(*tag, payload));
        match folder.fold(a, b, &mut out).unwrap() {
            Folded::Newer(tag) => Some((tag, newer.1.clone())),
            Folded::Made(tag) => Some((tag, out)),
            Folded::Nothing => None,
        }
    }

    /// Rule: I7
    #[test]
    pub(in crate::run) fn a_fresh_put_annihilates_with_its_delete_and_only_then() {
        let operators = Operators::new();
        let folder = Folder::new(&operators);
        let put = (Tag::PUT, b"v".to_vec());
        let fresh = (Tag::PUT_FRESH, b"v".to_vec());
        let delete = (Tag::DELETE, vec![]);
        assert_eq!(fold(&folder, &delete, &fresh), None);
        assert_eq!(fold(&folder, &delete, &put), Some(delete.clone()));
        // A fresh Put that absorbed a Delete hides what that Delete was hiding: not fresh any more.
        assert_eq!(fold(&folder, &fresh, &delete), Some(put.clone()));
        assert_eq!(fold(&folder, &put, &fresh), Some(fresh.clone()));
        assert_eq!(fold(&folder, &fresh, &put), Some(put.clone()));
    }

    #[test]
    fn operators_do_what_they_say() {
        let operators = Operators::new();
        let folder = Folder::new(&operators);
        let put = |v: &[u8]| (Tag::PUT, v.to_vec());
        let five = merge(OPERATOR_ADD, &5i64.to_be_bytes());
        let result = fold(&folder, &five, &put(&(-7i64).to_be_bytes())).unwrap();
        assert_eq!(result, put(&(-2i64).to_be_bytes()));
        let ten = fold(&folder, &five, &five).unwrap();
        assert_eq!(ten, merge(OPERATOR_ADD, &10i64.to_be_bytes()));
        assert_eq!(fold(&folder, &merge(OPERATOR_MAX, b"b"), &put(b"a")), Some(put(b"b")));
        assert_eq!(fold(&folder, &merge(OPERATOR_MIN, b"b"), &put(b"a")), Some(put(b"a")));
        assert_eq!(fold(&folder, &merge(OPERATOR_APPEND, b"b"), &put(b"a")), Some(put(b"ab")));
        let fresh = (Tag::PUT_FRESH, b"a".to_vec());
        let result = fold(&folder, &merge(OPERATOR_APPEND, b"b"), &fresh);
        assert_eq!(result, Some((Tag::PUT_FRESH, b"ab".to_vec())));
        let result = fold(&folder, &merge(OPERATOR_APPEND, b"b"), &(Tag::DELETE, vec![]));
        assert_eq!(result, Some(put(b"b")));
        let unknown = merge(200, b"");
        let mut out = Vec::new();
        let newer = Message::new(unknown.0, &unknown.1);
        let folded = folder.fold(newer, Message::new(Tag::PUT, b""), &mut out);
        assert!(matches!(folded, Err(Error::MissingOperator(200))));
        let bad = folder.fold(Message::new(Tag::MERGE, &[1, 9]), newer, &mut out);
        assert!(bad.is_err());
    }

    /// A group folded from either end must settle to the same, or what a reader sees would depend on
    /// which runs were merged first.
    #[test]
    fn folding_is_associative() {
        let operators = Operators::new();
        let folder = Folder::new(&operators);
        let messages = [
            (Tag::PUT, b"12345678".to_vec()),
            (Tag::DELETE, vec![]),
            merge(OPERATOR_ADD, &3i64.to_be_bytes()),
            merge(OPERATOR_MAX, &9i64.to_be_bytes()),
            merge(OPERATOR_MIN, b"4"),
            merge(OPERATOR_APPEND, b"xy"),
        ];
        let both = |newer: &Option<Owned>, older: &Option<Owned>| match (newer, older) {
            (Some(newer), Some(older)) => fold(&folder, newer, older),
            (newer, older) => newer.clone().or_else(|| older.clone()),
        };
        for a in &messages {
            for b in &messages {
                for c in &messages {
                    let [a, b, c] = [a, b, c].map(|m| Some(m.clone()));
                    let left = both(&both(&c, &b), &a);
                    let right = both(&c, &both(&b, &a));
                    assert_eq!(left, right, "{c:?} over {b:?} over {a:?}");
                }
            }
        }
    }
}
