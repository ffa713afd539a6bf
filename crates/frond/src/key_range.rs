//! Keys and ranges of keys, as parameters of calls.

use std::ops::{
    Bound, Range, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive,
};

use crate::{
    bounds,
    error::{Error, Result},
};

/// A range of keys: any of Rust's ranges over anything that is bytes.
///
/// ```
/// # fn main() -> frond::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
/// # let tree = db.create_tree("t", Default::default())?;
/// let from: Vec<u8> = vec![1, 2, 3];
/// tree.scan(..)?;
/// tree.scan(from..)?;
/// tree.scan("a".."b")?;
/// tree.scan(b"a"..=b"b")?;
/// # db.close()
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a range of keys",
    label = "expected a range over bytes, such as `..`, `from..`, or `\"a\"..=\"b\"`",
    note = "`frond::prefix(bytes)` is the range of all keys that begin with these bytes",
    note = "keys are bytes: encode numbers with `frond::tuple::encode` or `to_be_bytes`"
)]
pub trait KeyRange {
    /// The lower bound.
    fn lower(&self) -> Bound<&[u8]>;
    /// The upper bound.
    fn upper(&self) -> Bound<&[u8]>;
}

impl KeyRange for RangeFull {
    fn lower(&self) -> Bound<&[u8]> {
        Bound::Unbounded
    }

    fn upper(&self) -> Bound<&[u8]> {
        Bound::Unbounded
    }
}

impl<K: AsRef<[u8]>> KeyRange for (Bound<K>, Bound<K>) {
    fn lower(&self) -> Bound<&[u8]> {
        self.0.as_ref().map(AsRef::as_ref)
    }

    fn upper(&self) -> Bound<&[u8]> {
        self.1.as_ref().map(AsRef::as_ref)
    }
}

macro_rules! ranges {
    ($($range:ident)+) => {$(
        impl<K: AsRef<[u8]>> KeyRange for $range<K> {
            fn lower(&self) -> Bound<&[u8]> {
                self.start_bound().map(K::as_ref)
            }

            fn upper(&self) -> Bound<&[u8]> {
                self.end_bound().map(K::as_ref)
            }
        }
    )+};
}

ranges!(Range RangeFrom RangeInclusive RangeTo RangeToInclusive);

/// A range that counts as empty if it ends before it begins. For iterators; calls that can fail
/// refuse such a range.
pub(crate) struct OrEmpty<R>(pub R);

impl<R: KeyRange> OrEmpty<R> {
    /// The lower bound, if the range ends before it begins.
    fn inverted(&self) -> Option<&[u8]> {
        match (self.0.lower(), self.0.upper()) {
            (Bound::Excluded(from), Bound::Excluded(to)) => (from >= to).then_some(from),
            (
                Bound::Included(from) | Bound::Excluded(from),
                Bound::Included(to) | Bound::Excluded(to),
            ) => (from > to).then_some(from),
            _ => None,
        }
    }
}

impl<R: KeyRange> KeyRange for OrEmpty<R> {
    fn lower(&self) -> Bound<&[u8]> {
        self.inverted().map_or_else(|| self.0.lower(), Bound::Included)
    }

    fn upper(&self) -> Bound<&[u8]> {
        self.inverted().map_or_else(|| self.0.upper(), Bound::Excluded)
    }
}

/// The keys that start with these bytes.
///
/// ```
/// # fn main() -> frond::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
/// let tree = db.create_tree("t", Default::default())?;
/// tree.put(b"user:1", b"")?;
/// tree.put(b"visit:1", b"")?;
/// let mut users = tree.scan(frond::prefix("user:"))?;
/// assert!(users.next()?.is_some());
/// assert!(users.next()?.is_none());
/// # db.close()
/// # }
/// ```
#[doc(alias = "scan_prefix")]
pub fn prefix(bytes: impl AsRef<[u8]>) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let bytes = bytes.as_ref();
    let end = crate::tuple::prefix_end(bytes).map_or(Bound::Unbounded, Bound::Excluded);
    (Bound::Included(bytes.to_vec()), end)
}

/// Fails if the key is too long.
pub(crate) fn check_key(key: &[u8]) -> Result<()> {
    if !bounds::KEY_BYTES.admits(key.len()) {
        return Err(Error::KeyTooLong { bytes: key.len(), max: bounds::KEY_BYTES.len() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(range: impl KeyRange) -> String {
        let show = |bound: Bound<&[u8]>| format!("{:?}", bound.map(String::from_utf8_lossy));
        format!("{} {}", show(range.lower()), show(range.upper()))
    }

    #[test]
    fn every_range_has_its_bounds() {
        assert_eq!(bounds(..), "Unbounded Unbounded");
        assert_eq!(bounds("a".."b"), r#"Included("a") Excluded("b")"#);
        assert_eq!(bounds(b"a"..=b"b"), r#"Included("a") Included("b")"#);
        assert_eq!(bounds(vec![b'a']..), r#"Included("a") Unbounded"#);
        assert_eq!(bounds(..&b"b"[..]), r#"Unbounded Excluded("b")"#);
        assert_eq!(bounds(..="b"), r#"Unbounded Included("b")"#);
        assert_eq!(bounds(prefix("a")), r#"Included("a") Excluded("b")"#);
        assert_eq!(bounds(prefix(b"")), r#"Included("") Unbounded"#);
        assert_eq!(bounds(OrEmpty("b".."a")), r#"Included("b") Excluded("b")"#);
        assert_eq!(bounds(OrEmpty("a"..="a")), r#"Included("a") Included("a")"#);
        let both = (Bound::Excluded("a"), Bound::Excluded("a"));
        assert_eq!(bounds(OrEmpty(both)), r#"Included("a") Excluded("a")"#);
        let both = (Bound::Excluded("a"), Bound::Unbounded);
        assert_eq!(bounds(both), r#"Excluded("a") Unbounded"#);
    }
}
