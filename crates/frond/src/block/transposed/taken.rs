//! Splitting the rows of a block into parts, and arranging their bytes by position.

use super::{
    super::{
        BLOCK_ROWS_BYTES_MAX, BadBlock, common_prefix,
        row::{self, Shape},
    },
    FORM_RATIO_MAX, matrix, sums,
};
use crate::{
    coding::put_varint,
    message::{Kind, Tag},
};

/// Fewest rows for which bytes by position save more than the form's head costs.
const ROWS_MIN: usize = 8;
/// The most leading bytes of keys, after what they share, that may be stored as differences.
const SUMMED_BYTES_MAX: usize = 64;

/// The rows of a block, split into parts. Reusable: the memory is kept.
#[derive(Debug, Default)]
pub struct Taken {
    tag: Option<Tag>,
    rows: usize,
    key_bytes: usize,
    shared: usize,
    /// Whole keys, one after the other.
    keys: Vec<u8>,
    /// Values one after the other, and their lengths.
    values: Vec<u8>,
    lengths: Vec<u8>,
    value_bytes: Option<usize>,
    form_bytes_max: usize,
    rests: Vec<u8>,
    by_place: Vec<u8>,
    form: Vec<u8>,
}

impl Taken {
    /// Splits the rows of a row block. False if they have no common shape, are too few, or would
    /// take too much: then the block has no transposed form.
    pub fn take(&mut self, block: &[u8]) -> bool {
        self.try_take(block).unwrap_or(false)
    }

    fn try_take(&mut self, block: &[u8]) -> Result<bool, BadBlock> {
        let shape = Shape::parse(block)?;
        self.rows = shape.rows();
        self.form_bytes_max = block.len() * FORM_RATIO_MAX;
        for old in [&mut self.keys, &mut self.values, &mut self.lengths] {
            old.clear();
        }
        if self.rows < ROWS_MIN || block.len() > BLOCK_ROWS_BYTES_MAX {
            return Ok(false);
        }
        let mut first = None;
        let mut same_length = true;
        for row in row::each(block, shape) {
            let row = row?;
            let payload = block.get(row.payload).unwrap_or_default();
            let suffix = block.get(row.suffix).unwrap_or_default();
            let key_bytes = row.shared + suffix.len();
            let &mut (tag, first_key_bytes, value_bytes) =
                first.get_or_insert((row.tag, key_bytes, payload.len()));
            let before = self.keys.len().saturating_sub(key_bytes);
            let is_alike = tag == row.tag && key_bytes == first_key_bytes;
            if !is_alike || tag.kind() != Kind::Put || row.shared > self.keys.len() {
                return Ok(false);
            }
            self.keys.extend_from_within(before..before + row.shared);
            self.keys.extend_from_slice(suffix);
            put_varint(&mut self.lengths, payload.len() as u64);
            self.values.extend_from_slice(payload);
            same_length &= payload.len() == value_bytes;
            if self.keys.len() + self.values.len() > self.form_bytes_max {
                return Ok(false);
            }
        }
        let Some((tag, key_bytes, value_bytes)) = first else { return Ok(false) };
        (self.tag, self.key_bytes) = (Some(tag), key_bytes);
        self.value_bytes = same_length.then_some(value_bytes);
        // Keys ascend, so what the first and the last share all share.
        let last = self.keys.len() - key_bytes;
        self.shared = common_prefix(&self.keys[..key_bytes], &self.keys[last..]);
        Ok(true)
    }

    /// Chooses up to which position of the keys differences take the fewest bits, by the entropy of
    /// each position.
    pub fn best_summed(&mut self) -> usize {
        let end = self.key_bytes.min(self.shared + SUMMED_BYTES_MAX);
        let (shared, others) = (self.shared, self.rows - 1);
        let mut bits = |summed_to: usize| {
            self.put_rests(summed_to, end);
            matrix::transpose(&self.rests, others, &mut self.by_place);
            self.by_place.chunks_exact(others).map(entropy).collect::<Vec<f32>>()
        };
        let (plain, summed) = (bits(shared), bits(end));
        // The gain of differences up to each position; the first position with almost the best gain
        // is chosen.
        let gained = plain.iter().zip(summed).scan(0.0, |gained, (plain, summed)| {
            *gained += plain - summed;
            Some(*gained)
        });
        let gained: Vec<f32> = gained.collect();
        let enough = gained.iter().copied().fold(0.0, f32::max) - others as f32 / 4.0;
        match gained.iter().position(|&gained| gained >= enough) {
            Some(place) if enough > 0.0 => shared + place + 1,
            _ => shared,
        }
    }

    /// Length of what all keys share: differences start no earlier.
    pub fn shared(&self) -> usize {
        self.shared
    }

    /// The form, with differences up to this position of the keys. `None` if it would be too long.
    pub fn form(&mut self, summed_to: usize) -> Option<&[u8]> {
        let summed_to = summed_to.clamp(self.shared, self.key_bytes);
        self.put_rests(summed_to, self.key_bytes);
        let form = &mut self.form;
        form.clear();
        form.push(self.tag?.to_disk());
        let value = self.value_bytes.map_or(0, |bytes| bytes + 1);
        for number in [self.rows, self.key_bytes, self.shared, summed_to, value] {
            put_varint(form, number as u64);
        }
        form.extend_from_slice(self.keys.get(..self.key_bytes)?);
        append_by_place(&self.rests, self.rows - 1, form);
        if self.value_bytes.is_some() {
            append_by_place(&self.values, self.rows, form);
        } else {
            form.extend_from_slice(&self.lengths);
            form.extend_from_slice(&self.values);
        }
        (form.len() <= self.form_bytes_max).then_some(form)
    }

    /// Collects the unshared bytes of all keys but the first, up to `end`, row by row.
    fn put_rests(&mut self, summed_to: usize, end: usize) {
        self.rests.clear();
        let key_bytes = self.key_bytes.max(1);
        let keys = self.keys.chunks_exact(key_bytes);
        let others = self.keys.chunks_exact(key_bytes).skip(1);
        for (before, key) in keys.zip(others) {
            let summed = self.shared..summed_to;
            sums::put_difference(&key[summed.clone()], &before[summed], &mut self.rests);
            self.rests.extend_from_slice(&key[summed_to..end]);
        }
    }
}

fn append_by_place(rows: &[u8], count: usize, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + rows.len(), 0);
    matrix::transpose_into(rows, count, &mut out[start..]);
}

/// The order-0 entropy of the bytes, in bits.
fn entropy(bytes: &[u8]) -> f32 {
    let mut counts = [0u32; 256];
    bytes.iter().for_each(|&byte| counts[usize::from(byte)] += 1);
    let all = bytes.len() as f32;
    let of = |&count: &u32| count as f32 * (all / count as f32).log2();
    counts.iter().filter(|&&count| count > 0).map(of).sum()
}
