//! Plans, which say how a string column is encoded. `training.rs` finds the best one.

use crate::block::Codec;

/// The encoding of a string column. The numbers are on disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum StrKind {
    /// Raw: the bytes and their ends.
    Raw = 0,
    /// Prefix compression.
    Prefix = 1,
    /// Dictionary: numbers of words that are in the column.
    Dictionary = 2,
    /// Dictionary: numbers of words of the model.
    ModelDictionary = 3,
    /// Packed digits, by a shape that is in the column.
    Shape = 4,
    /// Packed digits, by the model's shape.
    ModelShape = 5,
    /// Symbols of the model (FSST).
    Symbols = 6,
    /// Packed slots, of the model's templates.
    Templates = 7,
    /// Characters as numbers of the model's alphabet.
    Alphabet = 8,
}

impl StrKind {
    /// All kinds.
    pub const ALL: [StrKind; 9] = [
        Self::Raw,
        Self::Prefix,
        Self::Dictionary,
        Self::ModelDictionary,
        Self::Shape,
        Self::ModelShape,
        Self::Symbols,
        Self::Templates,
        Self::Alphabet,
    ];

    /// The kind with this number on disk.
    #[inline]
    pub fn from_disk(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte)).copied()
    }

    /// True if its bytes may be compressed by a codec.
    #[inline]
    pub fn takes_codec(self) -> bool {
        matches!(self, Self::Raw | Self::Symbols)
    }

    /// True if reading it requires the model of its leaf.
    pub fn needs_model(self) -> bool {
        matches!(
            self,
            Self::ModelDictionary
                | Self::ModelShape
                | Self::Symbols
                | Self::Templates
                | Self::Alphabet
        )
    }

    /// True if it may be used for a key: it is compared without being decoded.
    pub fn may_be_key(self) -> bool {
        !matches!(self, Self::Symbols | Self::Templates)
    }
}

/// How a column is to be encoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StringPlan {
    /// The encoding.
    pub kind: StrKind,
    /// The codec, where it saves a tenth. `Raw` may also mean that it was tried without success.
    pub codec: Codec,
}

impl StringPlan {
    /// Raw strings.
    pub const RAW: Self = Self { kind: StrKind::Raw, codec: Codec::Raw };
}
