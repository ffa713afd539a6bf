//! General codecs over whole blocks, by size class.
//!
//! zstd and LZ4 contexts are kept per thread: a new one for each block costs as much as the work
//! itself. A block that a codec does not shrink by 3 % is stored raw: decoding it would cost every
//! reader for nothing.

use std::cell::RefCell;

use zstd::zstd_safe::DCtx;

use super::{
    BLOCK_RAW_BYTES_MAX, BadBlock,
    dictionary::{Dictionary, DictionaryEncoder},
};

/// How a block's bytes are stored. The numbers are on disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Codec {
    /// Stored without compression.
    #[default]
    Raw = 0,
    /// LZ4 block format.
    Lz4 = 1,
    /// zstd frame, level 1.
    Zstd1 = 2,
    /// zstd frame, level 3.
    Zstd3 = 3,
}

thread_local! {
    static CONTEXTS: RefCell<Contexts> = RefCell::new(Contexts::default());
}

#[derive(Default)]
struct Contexts {
    lz4: Option<lz4_flex::block::CompressTable>,
    zstd1: Option<Compressor>,
    zstd3: Option<Compressor>,
    unzstd: Option<DCtx<'static>>,
}

impl Codec {
    /// The codec with this number on disk.
    pub fn from_disk(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Raw),
            1 => Some(Self::Lz4),
            2 => Some(Self::Zstd1),
            3 => Some(Self::Zstd3),
            _ => None,
        }
    }

    /// The common name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Lz4 => "lz4",
            Self::Zstd1 | Self::Zstd3 => "zstd",
        }
    }

    /// The codec whose blocks may use a dictionary, and its level.
    pub const UNDER_DICTIONARY: Codec = Codec::Zstd3;
    pub(super) const DICTIONARY_LEVEL: i32 = 3;

    /// Encodes `raw` into `out` and returns the codec used; `Raw` means that `raw` itself is to be
    /// stored, and the contents of `out` are meaningless.
    pub fn encode(self, raw: &[u8], out: &mut Vec<u8>) -> Codec {
        self.encode_under(None, raw, out)
    }

    /// Encodes as [`encode`](Self::encode) does, with a dictionary if there is one; only
    /// [`UNDER_DICTIONARY`](Self::UNDER_DICTIONARY) uses it.
    pub fn encode_under(
        self,
        dictionary: Option<&DictionaryEncoder>,
        raw: &[u8],
        out: &mut Vec<u8>,
    ) -> Codec {
        if self == Codec::Raw || raw.is_empty() {
            return Codec::Raw;
        }
        // Nothing longer than 97 % is kept, so a buffer of that length suffices; LZ4 requires its
        // worst case.
        let keep_max = raw.len() - raw.len() / 32 - 1;
        let room = match self {
            Codec::Lz4 => lz4_flex::block::get_maximum_output_size(raw.len()),
            _ => keep_max,
        };
        if out.len() < room {
            out.resize(room, 0);
        }
        let encoded = CONTEXTS.with_borrow_mut(|contexts| match self {
            Codec::Raw => None,
            Codec::Lz4 => {
                let table = contexts.lz4.get_or_insert_with(lz4_flex::block::CompressTable::small);
                if raw.len() < 64 << 10 {
                    lz4_flex::block::compress_into_with_table(raw, out, table).ok()
                } else {
                    lz4_flex::block::compress_into(raw, out).ok()
                }
            }
            Codec::Zstd1 => compress(&mut contexts.zstd1, 1, raw, out.get_mut(..room)?),
            Codec::Zstd3 => {
                let (context, out) = (&mut contexts.zstd3, out.get_mut(..room)?);
                match dictionary {
                    None => compress(context, 3, raw, out),
                    Some(dictionary) => {
                        let context = made(context, 3)?.context_mut();
                        context.compress_using_cdict(out, raw, &dictionary.encoder).ok()
                    }
                }
            }
        });
        match encoded {
            Some(len) if len <= keep_max => {
                out.truncate(len);
                self
            }
            _ => Codec::Raw,
        }
    }

    /// Decodes into `out`, whose length is the raw length that the index states.
    pub fn decode(self, encoded: &[u8], out: &mut [u8]) -> Result<(), BadBlock> {
        self.decode_under(None, encoded, out)
    }

    /// Decodes as [`decode`](Self::decode) does, with a dictionary if there is one.
    pub(super) fn decode_under(
        self,
        dictionary: Option<&Dictionary>,
        encoded: &[u8],
        out: &mut [u8],
    ) -> Result<(), BadBlock> {
        match self.decode_up_to(dictionary, encoded, out)? == out.len() {
            true => Ok(()),
            false => Err(OTHER_LENGTH),
        }
    }

    /// Decodes into the front of `out`, with a dictionary if there is one, and returns the length.
    /// Raw bytes, which may be padded, fill `out`.
    pub(super) fn decode_up_to(
        self,
        dictionary: Option<&Dictionary>,
        encoded: &[u8],
        out: &mut [u8],
    ) -> Result<usize, BadBlock> {
        if out.len() > BLOCK_RAW_BYTES_MAX {
            return Err(BadBlock("longer than a block can be"));
        }
        let len = match self {
            Codec::Raw => {
                let raw = encoded.get(..out.len()).ok_or(BadBlock("shorter than its length"))?;
                out.copy_from_slice(raw);
                Some(raw.len())
            }
            Codec::Lz4 => lz4_flex::block::decompress_into(encoded, out).ok(),
            Codec::Zstd1 | Codec::Zstd3 => CONTEXTS.with_borrow_mut(|contexts| {
                if contexts.unzstd.is_none() {
                    contexts.unzstd = DCtx::try_create();
                }
                let context = contexts.unzstd.as_mut()?;
                match dictionary {
                    None => context.decompress(out, encoded).ok(),
                    Some(dictionary) => {
                        context.decompress_using_dict(out, encoded, dictionary.as_bytes()).ok()
                    }
                }
            }),
        };
        len.ok_or(BadBlock("its codec rejects it"))
    }
}

/// The error for a block whose decoded length differs from the stated one.
const OTHER_LENGTH: BadBlock = BadBlock("decodes to another length than its index entry has");

fn compress(
    context: &mut Option<Compressor>,
    level: i32,
    raw: &[u8],
    out: &mut [u8],
) -> Option<usize> {
    // An error means that it does not fit: the block stays raw.
    made(context, level)?.compress_to_buffer(raw, out).ok()
}

type Compressor = zstd::bulk::Compressor<'static>;

fn made(context: &mut Option<Compressor>, level: i32) -> Option<&mut Compressor> {
    if context.is_none() {
        *context = Compressor::new(level).ok();
    }
    context.as_mut()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Codec; 4] = [Codec::Raw, Codec::Lz4, Codec::Zstd1, Codec::Zstd3];

    #[test]
    fn compressible_data_round_trips_and_other_data_stays_raw() {
        let text: Vec<u8> = (0..900).flat_map(|i| format!("row {i:06} ").into_bytes()).collect();
        let mut state = 1u64;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 56) as u8
        })
        .take(9000)
        .collect();
        for codec in ALL {
            let mut out = Vec::new();
            assert_eq!(codec.encode(&text, &mut out), codec);
            if codec != Codec::Raw {
                assert!(out.len() < text.len() * 6 / 10);
                let mut back = vec![0; text.len()];
                codec.decode(&out, &mut back).unwrap();
                assert_eq!(back, text);
                assert!(codec.decode(&out, &mut vec![0; text.len() - 1]).is_err());
                assert!(codec.decode(&out, &mut vec![0; text.len() + 1]).is_err());
                assert!(codec.decode(&out[..out.len() - 1], &mut back).is_err());
            }
            assert_eq!(codec.encode(&noise, &mut out), Codec::Raw);
            assert_eq!(codec.encode(&[7], &mut out), Codec::Raw);
            assert_eq!(Codec::from_disk(codec as u8), Some(codec));
        }
    }
}
