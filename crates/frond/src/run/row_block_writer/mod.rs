//! The writer of row blocks, which chooses the form in which a block is stored, and whether under a
//! codec.
//!
//! Rows of similar shape are transposed (byte-shuffled) for the codec, if that makes them shorter
//! than the codec makes the untransposed block. Trying both costs twice what encoding does, so the
//! leaves of a tree remember the result.
//!
//! Invariants
//! 1. What is remembered never determines how a block is read: only its index entry does.

use super::dictionaries::UnderDictionary;
use crate::block::{BlockBuilder, Codec, DictionaryEncoder, Packing, Taken, columnar::ChunkCounts};

/// What worked best for the blocks of a tree's leaves, as far as it was tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct EncodingHint {
    /// Consecutive blocks that the codec did not shrink, including those on which it was not tried.
    in_vain: u32,
    /// Consecutive blocks whose rows had no common shape, including those that were not examined.
    unlike: u32,
    /// The form in which rows of similar shape are passed to the codec, and the number of blocks
    /// since it was chosen.
    form: Form,
    blocks: u32,
}

/// The form in which a codec gets rows of similar shape.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Form {
    /// Not known yet.
    #[default]
    Unknown,
    /// The block as it is.
    Rows,
    /// The transposed rows, with delta-coded keys up to this position.
    Transposed(usize),
}

/// After this many consecutive blocks that a codec does not shrink, or whose rows have no common
/// shape, only one block in sixteen is tried.
const IN_VAIN_MAX: u32 = 4;
const TRIED_ONE_IN: u32 = 16;
/// Blocks after which the form is chosen again.
const CHOSEN_ONE_IN: u32 = 32;
/// A transposed block must save at least 1/20 of the bytes, since it takes a third longer to read.
const SAVED_ONE_IN: usize = 20;

/// A finished block.
pub(super) struct Ended<'a> {
    pub stored: &'a [u8],
    /// The block as readers search it.
    pub read: &'a [u8],
    pub packing: Packing,
    /// Length of its rows, as the index counts them.
    pub row_bytes: usize,
}

/// A row block that rows are pushed into.
#[derive(Debug, Default)]
pub(super) struct RowBlockWriter {
    pub builder: BlockBuilder,
    pub hint: EncodingHint,
    pub chunks: ChunkCounts,
    pub under: UnderDictionary,
    forms: Option<Box<Forms>>,
}

/// How a block is encoded: a codec, and perhaps a dictionary.
#[derive(Clone, Copy)]
struct Coding<'a> {
    codec: Codec,
    dictionary: Option<&'a DictionaryEncoder>,
}

/// Buffers for transposing: only runs with a codec need them.
#[derive(Debug, Default)]
struct Forms {
    taken: Taken,
    /// A second encoding, while forms are compared.
    other: Vec<u8>,
}

impl RowBlockWriter {
    /// Creates an empty block; `hint` is what earlier blocks learned.
    pub fn new(hint: EncodingHint) -> Self {
        Self { hint, ..Self::default() }
    }

    /// Encodes the block under `codec`.
    pub fn finish<'a>(&'a mut self, codec: Codec, encoded: &'a mut Vec<u8>) -> Ended<'a> {
        let Self { builder, hint, chunks, under, forms } = self;
        let raw = builder.finish();
        let is_tried = codec != Codec::Raw && hint.is_worth_trying();
        let packing = if is_tried {
            let forms = forms.get_or_insert_default();
            let coding = Coding { codec, dictionary: under.encoder() };
            let packing = hint.encode(coding, raw, forms, encoded);
            if under.wants_sample() {
                under.keep(match hint.form {
                    Form::Transposed(summed_to) if packing.is_transposed => {
                        forms.taken.form(summed_to).unwrap_or(raw)
                    }
                    _ => raw,
                });
            }
            packing
        } else {
            Packing::RAW
        };
        let stored = if packing.is_raw() { raw } else { encoded };
        if packing.is_raw() {
            chunks.raw += u64::from(is_tried);
            hint.in_vain = hint.in_vain.wrapping_add(1);
        } else {
            chunks.coded += 1;
            chunks.coded_from_bytes += raw.len() as u64;
            chunks.coded_bytes += stored.len() as u64;
            hint.in_vain = 0;
        }
        Ended { stored, read: raw, packing, row_bytes: raw.len() }
    }

    /// Encodes a block without a dictionary.
    pub fn encode_plainly(&mut self, codec: Codec, raw: &[u8], encoded: &mut Vec<u8>) -> Packing {
        let coding = Coding { codec, dictionary: None };
        self.hint.encode(coding, raw, self.forms.get_or_insert_default(), encoded)
    }
}

impl EncodingHint {
    /// True if the codec may be worth its time on the next block.
    fn is_worth_trying(&self) -> bool {
        is_tried_after(self.in_vain)
    }

    /// Splits the rows of a block by position, unless those of the preceding blocks had no common
    /// shape.
    fn take(&mut self, taken: &mut Taken, raw: &[u8]) -> bool {
        let is_alike = is_tried_after(self.unlike) && taken.take(raw);
        self.unlike = if is_alike { 0 } else { self.unlike.wrapping_add(1) };
        is_alike
    }

    /// Encodes `raw`, whose rows may have a common shape, in the best known form.
    fn encode(
        &mut self,
        coding: Coding<'_>,
        raw: &[u8],
        forms: &mut Forms,
        encoded: &mut Vec<u8>,
    ) -> Packing {
        self.blocks = self.blocks.wrapping_add(1);
        if self.blocks.is_multiple_of(CHOSEN_ONE_IN) {
            self.form = Form::Unknown;
        }
        if self.form == Form::Rows || !self.take(&mut forms.taken, raw) {
            return coding.encode(raw, encoded);
        }
        if let Form::Transposed(summed_to) = self.form {
            return match coding.transposed(raw, &mut forms.taken, summed_to, encoded) {
                Some(packing) => packing,
                None => coding.encode(raw, encoded),
            };
        }
        self.choose(coding, raw, forms, encoded)
    }

    /// Encodes the block in all forms, keeps the shortest, and remembers which it was.
    fn choose(
        &mut self,
        coding: Coding<'_>,
        raw: &[u8],
        Forms { taken, other }: &mut Forms,
        encoded: &mut Vec<u8>,
    ) -> Packing {
        self.form = Form::Rows;
        let mut packing = coding.encode(raw, encoded);
        let rows_bytes = if packing.is_raw() { raw.len() } else { encoded.len() };
        let mut least = rows_bytes - rows_bytes / SAVED_ONE_IN;
        let (shared, best) = (taken.shared(), taken.best_summed());
        for summed_to in [Some(best), (shared != best).then_some(shared)].into_iter().flatten() {
            let tried = coding.transposed(raw, taken, summed_to, other);
            if let Some(tried) = tried.filter(|_| other.len() < least) {
                (packing, least) = (tried, other.len());
                self.form = Form::Transposed(summed_to);
                std::mem::swap(encoded, other);
            }
        }
        packing
    }
}

/// True if something is to be tried after it failed for `in_vain` consecutive blocks.
fn is_tried_after(in_vain: u32) -> bool {
    in_vain < IN_VAIN_MAX || in_vain.is_multiple_of(TRIED_ONE_IN)
}

impl Coding<'_> {
    /// Encodes a block as it is.
    fn encode(self, raw: &[u8], encoded: &mut Vec<u8>) -> Packing {
        self.packed(self.codec.encode_under(self.dictionary, raw, encoded), false)
    }

    /// Encodes transposed rows, if that makes their block shorter.
    fn transposed(
        self,
        raw: &[u8],
        taken: &mut Taken,
        summed_to: usize,
        encoded: &mut Vec<u8>,
    ) -> Option<Packing> {
        let form = taken.form(summed_to)?;
        let kept = self.codec.encode_under(self.dictionary, form, encoded);
        let is_shorter = kept != Codec::Raw && encoded.len() < raw.len() - raw.len() / 32;
        is_shorter.then_some(self.packed(kept, true))
    }

    fn packed(self, kept: Codec, is_transposed: bool) -> Packing {
        let has_dictionary = self.dictionary.is_some() && kept == Codec::UNDER_DICTIONARY;
        Packing { codec: kept, is_transposed, has_dictionary }
    }
}

#[cfg(test)]
mod tests;
