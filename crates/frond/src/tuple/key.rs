//! Building a key part by part, for callers whose parts are not known at compile time.
//!
//! Invariant: `Key::new().u64(a).str(b)` and `encode(&(a, b))` are the same bytes.
//!
//! Threads: plain values. Bytes: docs/format.md, "Tuple keys".

use std::ops::Deref;

use super::{KeyPart, part::complement};

/// A key under construction; it derefs to its bytes.
///
/// ```
/// use frond::tuple::Key;
///
/// let key = Key::new().u64(7).str("x").desc().i32(-1).part(&None::<bool>);
/// assert_eq!(key.len(), 8 + 3 + 4 + 2);
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Key {
    bytes: Vec<u8>,
    descending: bool,
}

macro_rules! methods {
    ($($(#[$doc:meta])* $name:ident($type:ty);)+) => {$(
        $(#[$doc])*
        #[inline]
        pub fn $name(self, value: $type) -> Self {
            self.part(&value)
        }
    )+};
}

impl Key {
    /// An empty key.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty key that reuses the memory of an old one.
    ///
    /// ```
    /// use frond::tuple::Key;
    ///
    /// let mut key = Key::new();
    /// for id in 0..10u32 {
    ///     key = Key::reuse(key).u32(id).str("name");
    /// }
    /// ```
    pub fn reuse(mut old: Self) -> Self {
        old.bytes.clear();
        old.descending = false;
        old
    }

    /// Reverses the order of the next part.
    pub fn desc(mut self) -> Self {
        self.descending = !self.descending;
        self
    }

    /// Appends a part of any type.
    #[inline]
    pub fn part<T: KeyPart + ?Sized>(mut self, value: &T) -> Self {
        let from = self.bytes.len();
        value.write(&mut self.bytes);
        if std::mem::take(&mut self.descending) {
            complement(&mut self.bytes, from);
        }
        self
    }

    methods! {
        /// Appends a `u8`.
        u8(u8);
        /// Appends a `u16`.
        u16(u16);
        /// Appends a `u32`.
        u32(u32);
        /// Appends a `u64`.
        u64(u64);
        /// Appends a `u128`.
        u128(u128);
        /// Appends an `i8`.
        i8(i8);
        /// Appends an `i16`.
        i16(i16);
        /// Appends an `i32`.
        i32(i32);
        /// Appends an `i64`.
        i64(i64);
        /// Appends an `i128`.
        i128(i128);
        /// Appends an `f32`; −0 becomes +0, NaN comes last.
        f32(f32);
        /// Appends an `f64`; −0 becomes +0, NaN comes last.
        f64(f64);
        /// Appends a `bool`; false comes first.
        bool(bool);
    }

    /// Appends a string.
    pub fn str(self, value: &str) -> Self {
        self.part(value)
    }

    /// Appends bytes of any length.
    pub fn bytes(self, value: &[u8]) -> Self {
        self.part(value)
    }

    /// Appends an optional part; `None` comes first.
    pub fn opt<T: KeyPart>(self, value: Option<T>) -> Self {
        self.part(&value)
    }

    /// The least key after all keys that start with this one; `None` if there is none. See
    /// [`prefix_end`].
    pub fn prefix_end(&self) -> Option<Vec<u8>> {
        prefix_end(&self.bytes)
    }

    /// The bytes of the key.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

impl Deref for Key {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl AsRef<[u8]> for Key {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl From<Key> for Vec<u8> {
    fn from(key: Key) -> Self {
        key.bytes
    }
}

/// The least byte string after all that start with `prefix`; `None` if the prefix is empty or all
/// FF, so that nothing comes after them.
///
/// ```
/// use frond::tuple::prefix_end;
///
/// assert_eq!(prefix_end(b"ab"), Some(b"ac".to_vec()));
/// assert_eq!(prefix_end(b"a\xff"), Some(b"b".to_vec()));
/// assert_eq!(prefix_end(b"\xff"), None);
/// ```
pub fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut end = prefix.get(..=last)?.to_vec();
    if let Some(byte) = end.last_mut() {
        *byte += 1;
    }
    Some(end)
}
