//! Newtypes for numbers that must not be mixed up, and other small types that all modules share.
//!
//! `Lsn` orders durability, `Seqno` orders commits and decides visibility, and `VersionNumber`
//! counts the versions of the store and dates births and deaths of pages. All three only grow.

use crate::bounds;
use std::fmt;

use crate::error::{Error, Result};

macro_rules! number {
    ($(#[$doc:meta])* $name:ident, $inner:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl $name {
            /// The next number.
            pub fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }
    };
}

number!(
    /// Byte position in the log, counted from the store's creation across all segments.
    Lsn,
    u64
);
number!(
    /// Commit sequence number. 0 is before every commit.
    Seqno,
    u64
);
number!(
    /// Publish counter: the number of a version of the store. It dates births and deaths of pages.
    VersionNumber,
    u64
);
number!(
    /// Permanent identifier of a tree; never reused (see docs/safety.md, I35).
    TreeId,
    u32
);
number!(
    /// The lineage in which a page was born: that of a tree, or of a clone of one (see
    /// docs/safety.md, I19).
    Lineage,
    u32
);

impl TreeId {
    /// The lineage in which this tree writes. Each tree, clones included, has its own (see
    /// docs/safety.md, I19).
    pub fn lineage(self) -> Lineage {
        Lineage(self.0)
    }
}

/// Random identity of a store, mixed into every checksum.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct StoreId(pub [u8; 16]);

impl fmt::Debug for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The name of a prepared transaction, chosen by the coordinator: opaque bytes. XA names have up to
/// 136 bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Xid(Box<[u8]>);

impl Xid {
    /// Makes a name from these bytes.
    ///
    /// # Errors
    /// `InvalidArgument` unless there are 1 to [`XID_BYTES_MAX`] bytes.
    pub fn new(bytes: &[u8]) -> Result<Self> {
        if bytes.is_empty() || !bounds::XID_BYTES.admits(bytes.len()) {
            let (given, max) = (bytes.len(), bounds::XID_BYTES.max());
            let why = format!("an xid of {given} bytes; it may have 1 to {max}");
            return Err(Error::InvalidArgument(why));
        }
        Ok(Self(bytes.into()))
    }

    /// The bytes of the name.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Xid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// As text if all bytes are printable ASCII, otherwise in hexadecimal.
impl fmt::Display for Xid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.iter().all(u8::is_ascii_graphic) {
            return self.0.iter().try_for_each(|&byte| write!(f, "{}", char::from(byte)));
        }
        write!(f, "0x")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// When a commit is acknowledged, which decides what a crash may lose (see docs/safety.md, P1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Durability {
    /// After an `fdatasync` that started once the commit was completely written: an acknowledged
    /// commit is never lost.
    #[default]
    Sync,
    /// After the kernel has the commit: a killed process loses nothing, a power failure at most the
    /// last second.
    Os,
    /// Once the commit is in the log buffer: a killed process loses at most one second, a power
    /// failure two.
    Lazy,
}

/// A tree's trade-off between size and speed: the only setting of that kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum SizeClass {
    /// Leaves compressed with LZ4.
    Fast = 1,
    /// Leaves compressed with zstd level 1.
    #[default]
    Default = 2,
    /// Leaves compressed with zstd level 3, and with dictionaries where they help.
    Small = 3,
}

impl SizeClass {
    /// The class with this number on disk.
    pub fn from_disk(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Fast),
            2 => Some(Self::Default),
            3 => Some(Self::Small),
            _ => None,
        }
    }

    /// Name and level of the general codec of the class's leaves.
    pub fn codec_name(self) -> &'static str {
        match self {
            Self::Fast => "LZ4",
            Self::Default => "zstd 1",
            Self::Small => "zstd 3",
        }
    }
}

/// The start of a key and the key's whole length, as waits and errors keep it for people to read.
/// `Display` writes it in quotes and escapes everything that is not printable ASCII.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyStart {
    bytes: Box<[u8]>,
    key_bytes: usize,
}

impl KeyStart {
    /// Most bytes of a key that are kept.
    pub const BYTES_MAX: usize = 64;

    /// Keeps the start of `key`.
    pub fn of(key: &[u8]) -> Self {
        let bytes = key.get(..Self::BYTES_MAX).unwrap_or(key).into();
        Self { bytes, key_bytes: key.len() }
    }

    /// The first bytes of the key; all of them if it has no more than
    /// [`BYTES_MAX`](Self::BYTES_MAX).
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Length of the whole key.
    pub fn key_bytes(&self) -> usize {
        self.key_bytes
    }
}

impl fmt::Display for KeyStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.bytes.escape_ascii())?;
        if self.key_bytes > self.bytes.len() {
            write!(f, "… ({} bytes)", self.key_bytes)?;
        }
        Ok(())
    }
}

impl fmt::Debug for KeyStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Longest [`Xid`], bytes.
pub const XID_BYTES_MAX: usize = bounds::XID_BYTES.default as usize;
/// Longest key, bytes.
pub const KEY_BYTES_MAX: usize = bounds::KEY_BYTES.default as usize;
/// Longest value, bytes.
pub const VALUE_BYTES_MAX: usize = bounds::VALUE_BYTES.default as usize;
/// Longest operand of a merge, bytes. Operands travel inline, so this is bounded by what one apply
/// may hold in memory.
pub const OPERAND_BYTES_MAX: usize = bounds::OPERAND_BYTES.default as usize;
/// Longest value that is stored inline, bytes; longer values have extents of their own and travel
/// as references. 64 KiB: an extent costs about 150 bytes of memory, one more sync per commit, and
/// on average half a page of padding. See docs/design/006.
pub const VALUE_INLINE_BYTES_MAX: usize = 64 << 10;
/// Number of counters of each tree.
pub(crate) const COUNTERS: usize = 4;

/// The next value of each counter of a tree; 0 for a counter that was never used.
pub(crate) type Counts = [u64; COUNTERS];

/// Sums over a tree: what its leaves hold and what waits in the buffers above them. The difference
/// of two sums is also a `Sums`, modulo 2^64.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sums {
    /// Leaves that have a page.
    pub leaves: u64,
    /// Rows in leaves.
    pub rows: u64,
    /// Bytes of the leaves' blocks.
    pub encoded: u64,
    /// Bytes of the leaves' extents: blocks, indexes, filters, padding.
    pub extents: u64,
    /// Uncompressed bytes of the rows, of the leaves for which that is known.
    pub raw: u64,
    /// The part of `encoded` in leaves for which it is not known, because an earlier version of
    /// Frond wrote them.
    pub unmeasured: u64,
    /// Bytes of the extents of the long values that leaves list.
    pub blobs: u64,
    /// Bytes that wait in nodes; an upper estimate.
    pub waiting: u64,
}

/// Number of fields of [`Sums`].
pub(crate) const SUMS: usize = 8;

impl Sums {
    /// The fields in the order in which they are stored.
    pub(crate) fn to_array(self) -> [u64; SUMS] {
        let Self { leaves, rows, encoded, extents, raw, unmeasured, blobs, waiting } = self;
        [leaves, rows, encoded, extents, raw, unmeasured, blobs, waiting]
    }

    /// Sums from stored fields.
    pub(crate) fn from_array(numbers: [u64; SUMS]) -> Self {
        let [leaves, rows, encoded, extents, raw, unmeasured, blobs, waiting] = numbers;
        Self { leaves, rows, encoded, extents, raw, unmeasured, blobs, waiting }
    }

    /// The sum of two.
    pub(crate) fn plus(self, other: Self) -> Self {
        let (mut sum, other) = (self.to_array(), other.to_array());
        sum.iter_mut().zip(other).for_each(|(own, other)| *own = own.wrapping_add(other));
        Self::from_array(sum)
    }

    /// The difference of two.
    pub(crate) fn minus(self, other: Self) -> Self {
        let (mut left, other) = (self.to_array(), other.to_array());
        left.iter_mut().zip(other).for_each(|(own, other)| *own = own.wrapping_sub(other));
        Self::from_array(left)
    }

    /// Estimate of the uncompressed bytes of all rows in leaves. Unmeasured leaves are assumed to
    /// compress as well as the measured ones; if no leaf is measured, their encoded size is taken.
    pub(crate) fn raw_bytes(&self) -> u64 {
        let measured = self.encoded.saturating_sub(self.unmeasured);
        if measured == 0 {
            return self.raw.saturating_add(self.unmeasured);
        }
        let rest = u128::from(self.raw) * u128::from(self.unmeasured) / u128::from(measured);
        self.raw.saturating_add(u64::try_from(rest).unwrap_or(u64::MAX))
    }
}
