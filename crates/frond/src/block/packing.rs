//! How the bytes of one block are stored: under which codec, and in which form the codec took them.
//!
//! Invariants
//! 1. Only opaque blocks of several rows are transposed, and only for a codec.
//! 2. Decoded, a block is the same whatever it was stored as.

use super::{BadBlock, Codec, transposed};

/// How a block's bytes are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Packing {
    /// The codec.
    pub codec: Codec,
    /// Whether rows are [`transposed`](mod@transposed) under it.
    pub is_transposed: bool,
}

/// Beside the number of the codec.
const TRANSPOSED: u8 = 0x40;

impl From<Codec> for Packing {
    fn from(codec: Codec) -> Self {
        Self { codec, is_transposed: false }
    }
}

impl Packing {
    /// As the block is.
    pub const RAW: Self = Self { codec: Codec::Raw, is_transposed: false };

    /// The packing with this number on disk.
    pub fn from_disk(byte: u8) -> Option<Self> {
        let is_transposed = byte & TRANSPOSED != 0;
        let codec = Codec::from_disk(byte & !TRANSPOSED)?;
        (!is_transposed || codec != Codec::Raw).then_some(Self { codec, is_transposed })
    }

    /// Its number, below 128.
    pub fn to_disk(self) -> u8 {
        self.codec as u8 | if self.is_transposed { TRANSPOSED } else { 0 }
    }

    /// Its name, as people know it.
    pub fn name(self) -> &'static str {
        match (self.is_transposed, self.codec) {
            (false, codec) => codec.name(),
            (true, Codec::Lz4) => "transposed lz4",
            (true, _) => "transposed zstd",
        }
    }

    /// Whether stored bytes are the block as it is.
    pub fn is_raw(self) -> bool {
        self.codec == Codec::Raw
    }

    /// Decodes into `out`, whose length is that of the block, as the index promises.
    pub fn decode(self, encoded: &[u8], out: &mut [u8]) -> Result<(), BadBlock> {
        if self.is_transposed {
            transposed::decode(self.codec, encoded, out)
        } else {
            self.codec.decode(encoded, out)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_on_disk_say_codec_and_form_and_no_others_do() {
        let known: Vec<u8> = (0..=127).filter(|&n| Packing::from_disk(n).is_some()).collect();
        assert_eq!(known, [0, 1, 2, 3, 0x41, 0x42, 0x43]);
        for number in known {
            assert_eq!(Packing::from_disk(number).map(Packing::to_disk), Some(number));
        }
    }
}
