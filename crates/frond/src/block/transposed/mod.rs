//! Transposed blocks (byte shuffle, as in Blosc): row blocks rearranged by byte position, for a
//! codec.
//!
//! Where rows have similar structure, bytes at the same position of each row are similar or equal;
//! a codec that sees them row by row exploits little of that. So bytes of one position are stored
//! together, and the leading part of the keys, which ascend, is replaced by differences from the
//! previous key. The form exists only under a codec: decoding restores the block byte for byte, and
//! nothing else knows of the form.
//!
//! ```text
//! form = tag u8 | rows | key length | shared | summed | value length + 1, or 0 | first key
//!        | bytes of the other keys by place | value lengths, if 0 | values        (numbers LEB128)
//! ```
//!
//! All keys share the first `shared` bytes of the first one. In each key but the first, the bytes
//! up to `summed` are a big-endian number that is added to the same bytes of the previous key;
//! those after it are stored as they are. Values of one length are also stored by position, others
//! one after the other.
//!
//! Invariants
//! 1. All rows have the same tag, that of a Put, and keys of one length.
//! 2. A form is at most [`FORM_RATIO_MAX`] times as long as its block, and the block at most
//!    [`BLOCK_ROWS_BYTES_MAX`]: this bounds the memory of decoding.
//! 3. Any bytes give the rows of a block in order, or [`BadBlock`].
//!
//! Threads: none of its own; memory for decoding is kept per thread.
//! Cost: docs/design/017-transposed-blocks.md.

mod matrix;
mod sums;
mod taken;
#[cfg(test)]
mod tests;
mod writer;

pub use taken::Taken;

use std::cell::RefCell;

use self::writer::RowWriter;
use super::{
    BLOCK_ROWS_BYTES_MAX, BadBlock, Codec, common_prefix, dictionary::Dictionary, varint32,
};
use crate::{
    coding::Reader,
    message::{Kind, Tag},
    types::KEY_BYTES_MAX,
};

/// Largest ratio of the length of a form to that of its block.
const FORM_RATIO_MAX: usize = 2;
/// A thread keeps no more memory than this for the next block: twice what blocks of the usual
/// length take.
const KEPT_BYTES_MAX: usize = 128 << 10;

/// Buffers for decoding.
#[derive(Default)]
struct Scratch {
    form: Vec<u8>,
    keys: Vec<u8>,
    values: Vec<u8>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch::default());
}

/// Decodes what `codec` made of the result of [`Taken::form`], perhaps with a dictionary: `out`
/// becomes the block, and must have its length.
pub fn decode(
    codec: Codec,
    dictionary: Option<&Dictionary>,
    encoded: &[u8],
    out: &mut [u8],
) -> Result<(), BadBlock> {
    if out.len() > BLOCK_ROWS_BYTES_MAX {
        return Err(BadBlock("longer than a transposed block can be"));
    }
    SCRATCH.with_borrow_mut(|scratch| {
        let form_bytes_max = out.len() * FORM_RATIO_MAX;
        if scratch.form.len() < form_bytes_max {
            scratch.form.resize(form_bytes_max, 0);
        }
        let Scratch { form, keys, values } = &mut *scratch;
        let form = form.get_mut(..form_bytes_max).unwrap_or_default();
        let decoded = codec.decode_up_to(dictionary, encoded, form).and_then(|len| {
            let form = Form::parse(form.get(..len).unwrap_or_default()).ok_or(BAD)?;
            form.rebuild(keys, values, out)
        });
        if form_bytes_max > KEPT_BYTES_MAX {
            *scratch = Scratch::default();
        }
        decoded
    })
}

const BAD: BadBlock = BadBlock("its transposed rows do not fit");

/// The parts of a form.
struct Form<'a> {
    tag: Tag,
    rows: usize,
    /// Length of what keys share, and of what is summed after it.
    shared: usize,
    summed: usize,
    first_key: &'a [u8],
    /// The unshared bytes of all keys but the first, by position.
    keys: &'a [u8],
    values: Values<'a>,
}

enum Values<'a> {
    /// All of this length, by position.
    Alike(usize, &'a [u8]),
    /// Lengths, and the values one after the other.
    Each(Reader<'a>, &'a [u8]),
}

impl<'a> Form<'a> {
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let tag = Tag::from_disk(reader.u8()?).filter(|tag| tag.kind() == Kind::Put)?;
        let mut number = || varint32(&mut reader).map(|number| number as usize);
        let (rows, key_bytes, shared, summed_to) = (number()?, number()?, number()?, number()?);
        let value = number()?;
        let fits = (1..=usize::from(u16::MAX)).contains(&rows)
            && key_bytes <= KEY_BYTES_MAX
            && (shared..=key_bytes).contains(&summed_to);
        if !fits {
            return None;
        }
        let first_key = reader.take(key_bytes)?;
        let keys = reader.take((rows - 1).checked_mul(key_bytes - shared)?)?;
        let values = match value.checked_sub(1) {
            Some(bytes) => Values::Alike(bytes, reader.take(rows.checked_mul(bytes)?)?),
            None => {
                let lengths = Reader::new(reader.rest());
                for _ in 0..rows {
                    varint32(&mut reader)?;
                }
                Values::Each(lengths, reader.take(reader.rest().len())?)
            }
        };
        let summed = summed_to - shared;
        let is_whole = reader.rest().is_empty();
        is_whole.then_some(Self { tag, rows, shared, summed, first_key, keys, values })
    }

    /// Writes the block with these rows to `out`; `keys` and `values` are buffers.
    fn rebuild(
        self,
        keys: &mut Vec<u8>,
        values: &mut Vec<u8>,
        out: &mut [u8],
    ) -> Result<(), BadBlock> {
        let Self { tag, rows, shared, summed, first_key, .. } = self;
        let (all_share, first) = first_key.split_at_checked(shared).ok_or(BAD)?;
        matrix::transpose(self.keys, first.len(), keys);
        let mut values = match self.values {
            Values::Alike(bytes, by_place) => {
                matrix::transpose(by_place, bytes, values);
                RowValues::Alike(bytes, values)
            }
            Values::Each(lengths, values) => RowValues::Each(lengths, values),
        };
        let mut writer = RowWriter::new(out, rows)?;
        writer.put(tag, 0, [all_share, first], values.next().ok_or(BAD)?)?;
        let mut before = first;
        let mut rests = keys.as_mut_slice();
        for _ in 1..rows {
            let (rest, others) = rests.split_at_mut_checked(first.len()).ok_or(BAD)?;
            rests = others;
            if let (Some(sum), Some(before)) = (rest.get_mut(..summed), before.get(..summed)) {
                sums::add(sum, before);
            }
            let common = common_prefix(before, rest);
            if rest.get(common) <= before.get(common) {
                return Err(BadBlock("its keys do not ascend"));
            }
            let value = values.next().ok_or(BAD)?;
            if writer.is_restart() {
                writer.put(tag, 0, [all_share, rest], value)?;
            } else {
                writer.put(tag, shared + common, [&[], &rest[common..]], value)?;
            }
            before = rest;
        }
        if !writer.is_full() || !values.is_empty() {
            return Err(BadBlock("its transposed rows are not as long as its block"));
        }
        Ok(())
    }
}

/// Iterates over the values row by row.
enum RowValues<'a> {
    Alike(usize, &'a [u8]),
    Each(Reader<'a>, &'a [u8]),
}

impl<'a> RowValues<'a> {
    fn next(&mut self) -> Option<&'a [u8]> {
        let (bytes, left) = match self {
            Self::Alike(bytes, left) => (*bytes, left),
            Self::Each(lengths, left) => (varint32(lengths)? as usize, left),
        };
        let (value, others) = left.split_at_checked(bytes)?;
        *left = others;
        Some(value)
    }

    fn is_empty(&self) -> bool {
        let (Self::Alike(_, left) | Self::Each(_, left)) = self;
        left.is_empty()
    }
}
