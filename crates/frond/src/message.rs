//! Messages: what is to be done to a key (`run/fold/mod.rs` folds two of them into one).
//!
//! A message travels as one tag byte and a payload. The tag's low four bits are the kind, bit 4 the
//! *fresh* bit (Rule: I7). Tags are on disk: numbers are never reused.
//!
//! | kind | payload |
//! |---|---|
//! | 0 Put | the value |
//! | 1 Delete | empty |
//! | 2 Merge | operands, oldest first, each: operator u8, length LEB128, operand |
//! | 3 PutBlob | 16-byte reference to a blob |
//! | 4 Versions | spilled runs only; newest first: seqno LEB128, tag u8, length LEB128, payload |
//!
//! Bytes: docs/format.md, "Messages".

/// A message's kind and its fresh bit, as stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tag(u8);

const KIND_MASK: u8 = 0x0f;
const FRESH: u8 = 0x10;

/// What a message does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// The key now has this value.
    Put = 0,
    /// The key is gone.
    Delete = 1,
    /// Operands to be folded into the key's current value.
    Merge = 2,
    /// The key now has the value that the blob reference names.
    PutBlob = 3,
    /// All versions of one key, in a spilled run.
    Versions = 4,
}

impl Tag {
    /// A Put of a key that may exist.
    pub const PUT: Tag = Tag(Kind::Put as u8);
    /// A Put of a key proven absent under its lock (see docs/safety.md, I7).
    pub const PUT_FRESH: Tag = Tag(Kind::Put as u8 | FRESH);
    /// A Delete.
    pub const DELETE: Tag = Tag(Kind::Delete as u8);
    /// A Merge.
    pub const MERGE: Tag = Tag(Kind::Merge as u8);
    /// A Put whose value is in a blob.
    pub const PUT_BLOB: Tag = Tag(Kind::PutBlob as u8);
    /// Versions of one key in a spilled run.
    pub const VERSIONS: Tag = Tag(Kind::Versions as u8);

    /// Reads a tag from disk; `None` if no such tag exists.
    pub fn from_disk(byte: u8) -> Option<Tag> {
        let fresh_ok = matches!(byte & KIND_MASK, 0 | 3);
        let known = byte & KIND_MASK <= 4 && byte & !(KIND_MASK | FRESH) == 0;
        (known && (byte & FRESH == 0 || fresh_ok)).then_some(Tag(byte))
    }

    /// The byte on disk.
    pub fn to_disk(self) -> u8 {
        self.0
    }

    /// The kind.
    pub fn kind(self) -> Kind {
        match self.0 & KIND_MASK {
            0 => Kind::Put,
            1 => Kind::Delete,
            2 => Kind::Merge,
            3 => Kind::PutBlob,
            _ => Kind::Versions,
        }
    }

    /// True if a uniqueness check proved the key absent when this was put.
    pub fn is_fresh(self) -> bool {
        self.0 & FRESH != 0
    }

    /// This tag without the fresh bit.
    pub fn without_fresh(self) -> Tag {
        Tag(self.0 & !FRESH)
    }

    /// This tag with the fresh bit (Put and PutBlob only).
    pub fn with_fresh(self) -> Tag {
        debug_assert!(matches!(self.kind(), Kind::Put | Kind::PutBlob));
        Tag(self.0 | FRESH)
    }

    /// The tag of a PutBlob that is fresh if this Put is.
    pub fn of_blob(self) -> Tag {
        Tag(self.0 & FRESH | Kind::PutBlob as u8)
    }

    /// True for Put and PutBlob: the key exists after it, whatever was there before.
    pub fn is_put(self) -> bool {
        matches!(self.kind(), Kind::Put | Kind::PutBlob)
    }

    /// True if no older message of this key matters to a reader: Put, PutBlob or Delete.
    pub fn is_base(self) -> bool {
        !matches!(self.kind(), Kind::Merge | Kind::Versions)
    }
}

/// A borrowed message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message<'a> {
    /// Kind and fresh bit.
    pub tag: Tag,
    /// Payload, by kind.
    pub payload: &'a [u8],
}

impl<'a> Message<'a> {
    /// Creates a message.
    pub fn new(tag: Tag, payload: &'a [u8]) -> Self {
        Self { tag, payload }
    }
}
