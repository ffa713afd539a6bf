//! Packing: how the bytes of one block are stored, that is, under which codec, and in which form
//! the codec got them.
//!
//! Invariants
//! 1. Only row blocks of several rows are transposed, and only for a codec.
//! 2. A decoded block is the same, however it was stored.
//! 3. Only row blocks use the dictionary of their run, and only with the codec that supports one.

use super::{BadBlock, Codec, dictionary::Dictionary, transposed};

/// How a block's bytes are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Packing {
    /// The codec.
    pub codec: Codec,
    /// True if the rows are [`transposed`](mod@transposed) under the codec.
    pub is_transposed: bool,
    /// True if the codec needs the dictionary of the run.
    pub has_dictionary: bool,
}

/// Flags in the byte with the number of the codec.
const TRANSPOSED: u8 = 0x40;
const DICTIONARY: u8 = 0x20;

impl From<Codec> for Packing {
    fn from(codec: Codec) -> Self {
        Self { codec, ..Self::RAW }
    }
}

impl Packing {
    /// Stored as it is.
    pub const RAW: Self = Self { codec: Codec::Raw, is_transposed: false, has_dictionary: false };

    /// The packing with this number on disk.
    pub fn from_disk(byte: u8) -> Option<Self> {
        let (is_transposed, has_dictionary) = (byte & TRANSPOSED != 0, byte & DICTIONARY != 0);
        let codec = Codec::from_disk(byte & !(TRANSPOSED | DICTIONARY))?;
        let fits = (!is_transposed || codec != Codec::Raw)
            && (!has_dictionary || codec == Codec::UNDER_DICTIONARY);
        fits.then_some(Self { codec, is_transposed, has_dictionary })
    }

    /// The number, below 128.
    pub fn to_disk(self) -> u8 {
        let bit = |is_set, bit| if is_set { bit } else { 0 };
        self.codec as u8
            | bit(self.is_transposed, TRANSPOSED)
            | bit(self.has_dictionary, DICTIONARY)
    }

    /// The name, for people.
    pub fn name(self) -> &'static str {
        match (self.is_transposed, self.has_dictionary, self.codec) {
            (false, false, codec) => codec.name(),
            (true, false, Codec::Lz4) => "transposed lz4",
            (true, false, _) => "transposed zstd",
            (false, true, _) => "zstd with dictionary",
            (true, true, _) => "transposed zstd with dictionary",
        }
    }

    /// True if the stored bytes are the block itself.
    pub fn is_raw(self) -> bool {
        self.codec == Codec::Raw
    }

    /// Decodes into `out`, whose length is that of the block, as the index states; with the
    /// dictionary of its run, if that has one.
    pub fn decode(
        self,
        dictionary: Option<&Dictionary>,
        encoded: &[u8],
        out: &mut [u8],
    ) -> Result<(), BadBlock> {
        let dictionary = dictionary.filter(|_| self.has_dictionary);
        if self.has_dictionary && dictionary.is_none() {
            return Err(BadBlock("it needs a dictionary, and its run has none"));
        }
        match self.is_transposed {
            true => transposed::decode(self.codec, dictionary, encoded, out),
            false => self.codec.decode_under(dictionary, encoded, out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_numbers_round_trip_and_others_are_refused() {
        let known: Vec<u8> = (0..=127).filter(|&n| Packing::from_disk(n).is_some()).collect();
        assert_eq!(known, [0, 1, 2, 3, 0x23, 0x41, 0x42, 0x43, 0x63]);
        for number in known {
            assert_eq!(Packing::from_disk(number).map(Packing::to_disk), Some(number));
        }
    }
}
