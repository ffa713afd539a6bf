//! Tuple keys: encodes Rust values as bytes whose memcmp order is the order of the values.
//!
//! Keys are byte strings compared with memcmp. This module writes them, so that no program has to
//! flip sign bits by hand, and yields the [`Layout`] that tells the engine where each part is.
//!
//! ```
//! use frond::tuple::{self, Desc, Key};
//!
//! // A tuple is a key, and comes back from it.
//! let key = tuple::encode(&(7u64, "oslo", Some(-1i32)));
//! let (id, city, delta): (u64, String, Option<i32>) = tuple::decode(&key)?;
//! assert_eq!((id, city.as_str(), delta), (7, "oslo", Some(-1)));
//!
//! // The same key, part by part; `desc()` reverses the order of the next part.
//! let newest_first = Key::new().u64(7).str("oslo").desc().i32(-1);
//! assert_eq!(*newest_first, *tuple::encode(&(7u64, "oslo", Desc(-1i32))));
//!
//! // Order of bytes = order of values.
//! assert!(tuple::encode(&(-1i64, "b")) < tuple::encode(&(0i64, "a")));
//!
//! // The layout of such keys, for the engine.
//! let layout = tuple::layout_of::<(u64, &str, Option<i32>)>();
//! assert_eq!(layout.parts().len(), 4); // the option has a flag before it
//!
//! // All keys that start with a part: from the prefix to the end of the prefix.
//! let from = Key::new().u64(7);
//! let to = from.prefix_end();
//! assert!(*from <= *key && to.as_deref().is_some_and(|to| *key < *to));
//! # Ok::<(), frond::Error>(())
//! ```
//!
//! | type | bytes, ascending | layout |
//! |---|---|---|
//! | `u8` … `u128` | big-endian | `Fixed(width, Integer)` |
//! | `i8` … `i128` | big-endian, sign bit flipped | `Fixed(width, Integer)` |
//! | `f32`, `f64` | IEEE bits; sign bit flipped, or all bits if it was set | `Fixed(width, Float)` |
//! | `bool` | 00 or 01 | `Fixed(1)` |
//! | `[u8; N]` | unchanged | `Fixed(N)` |
//! | strings, bytes | 00 becomes 00 FF, then 00 01 | `Var(Escaped)` |
//! | `Option<T>` | 01 and the value; or 00 and the filler of `T` | `Fixed(1)`, then that of `T` |
//! | [`Desc<T>`] | the complement | that of `T`; `Var(EscapedDescending)` |
//!
//! The **filler** of a null is as long as the encoding of a zero value (zeros, or an empty string),
//! so that every part is where the layout says. `None` sorts first; in descending order, last.
//!
//! **Floats** are ordered −∞ < … < −0 = +0 < … < +∞ < NaN. Two floats that compare equal are one
//! key, so −0.0 is written as +0.0 and every NaN as the one quiet NaN; they are read back as these.
//!
//! Invariants
//! 1. For values a and b of one tuple type, memcmp of the keys = comparison of a and b, part by
//!    part.
//! 2. What decodes, encodes to the same bytes: every tuple has one key, and [`decode`] refuses
//!    bytes that [`encode`] never writes.
//! 3. [`layout_of`] splits every key of that type exactly at its parts.
//!
//! Threads: plain functions. Bytes: docs/format.md, "Tuple keys". Idea: the tuple layer of
//! FoundationDB, without its type codes (the tree has one type for all keys).

mod key;
mod part;
mod reader;
#[cfg(test)]
mod tests;

pub use key::{Key, prefix_end};
pub use part::{Desc, KeyPart, ReadKeyPart};
pub use reader::KeyReader;

use std::ops::Bound;

use crate::{
    Result,
    layout::{Layout, Part},
};

/// Tuples that can be written as a key: up to eight parts, each a [`KeyPart`].
pub trait TupleEncode {
    /// Appends the key.
    fn encode_into(&self, out: &mut Vec<u8>);
    /// Appends the layout of its parts.
    fn describe(parts: &mut Vec<Part>);
}

/// Tuples that can be read back from a key: up to eight parts, each a [`ReadKeyPart`], which may
/// borrow from the key.
pub trait TupleDecode<'k>: Sized {
    /// Reads the parts.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if the next bytes are not such a
    /// tuple.
    fn read(reader: &mut KeyReader<'k>) -> Result<Self>;
}

/// Encodes a tuple as a key. [`TupleEncode::encode_into`] writes to a buffer of the caller instead.
///
/// ```
/// use frond::tuple;
///
/// let mut keys = [tuple::encode(&(2.5f64, true)), tuple::encode(&(-1.0f64, false))];
/// keys.sort();
/// assert_eq!(tuple::decode::<(f64, bool)>(&keys[0])?, (-1.0, false));
/// # Ok::<(), frond::Error>(())
/// ```
pub fn encode<T: TupleEncode>(tuple: &T) -> Vec<u8> {
    let mut out = Vec::new();
    tuple.encode_into(&mut out);
    out
}

/// The range of all keys whose first parts are this tuple, for scans.
///
/// ```
/// # fn main() -> frond::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
/// use frond::tuple;
///
/// let visits = db.tree("visits", Default::default())?;
/// visits.put(&tuple::encode(&("Oslo", 1u64)), b"")?;
/// visits.put(&tuple::encode(&("Oslo", 2u64)), b"")?;
/// visits.put(&tuple::encode(&("Oslofjord", 1u64)), b"")?;
/// assert_eq!(visits.range(tuple::prefix(&("Oslo",))).count(), 2);
/// # db.close()
/// # }
/// ```
pub fn prefix<T: TupleEncode>(tuple: &T) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    crate::prefix(encode(tuple))
}

/// Decodes the tuple of a key. Strings and bytes are read as `String` and `Vec<u8>`, or without a
/// copy as `Cow<str>` and `Cow<[u8]>`. These borrow from the key, unless the content has a zero
/// byte or the part is in descending order: the key then stores other bytes than the content.
///
/// ```
/// use frond::tuple;
/// use std::borrow::Cow;
///
/// let row = tuple::encode(&(7u64, "oslo", "a\0b"));
/// let (id, city, note): (u64, Cow<str>, Cow<str>) = tuple::decode(&row)?;
/// assert_eq!((id, &*city, &*note), (7, "oslo", "a\0b"));
/// assert!(matches!(city, Cow::Borrowed(_)) && matches!(note, Cow::Owned(_)));
/// # Ok::<(), frond::Error>(())
/// ```
///
/// # Errors
/// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if the bytes are not the key of such a
/// tuple: too short, too long, a string that is not UTF-8, a float or null that is never encoded
/// like that.
pub fn decode<'k, T: TupleDecode<'k>>(key: &'k [u8]) -> Result<T> {
    let mut reader = KeyReader::new(key);
    let tuple = T::read(&mut reader)?;
    reader.finish()?;
    Ok(tuple)
}

/// The layout of the keys of a tuple type, for a tree's options.
///
/// ```
/// use frond::{layout::{End, Hint, Part}, tuple};
///
/// assert_eq!(
///     tuple::layout_of::<(u64, &str)>().parts(),
///     [Part::Fixed(8, Hint::Integer), Part::Var(End::Escaped)],
/// );
/// ```
pub fn layout_of<T: TupleEncode>() -> Layout {
    let mut parts = Vec::new();
    T::describe(&mut parts);
    Layout::new(parts)
}

macro_rules! tuples {
    ($($name:ident)+) => {
        impl<$($name: KeyPart),+> TupleEncode for ($($name,)+) {
            fn encode_into(&self, out: &mut Vec<u8>) {
                #[allow(non_snake_case)]
                let ($($name,)+) = self;
                $($name.write(out);)+
            }

            fn describe(parts: &mut Vec<Part>) {
                $($name::describe(false, parts);)+
            }
        }

        impl<'k, $($name: ReadKeyPart<'k>),+> TupleDecode<'k> for ($($name,)+) {
            fn read(reader: &mut KeyReader<'k>) -> Result<Self> {
                Ok(($($name::read(reader)?,)+))
            }
        }
    };
}

tuples!(A);
tuples!(A B);
tuples!(A B C);
tuples!(A B C D);
tuples!(A B C D E);
tuples!(A B C D E F);
tuples!(A B C D E F G);
tuples!(A B C D E F G H);
