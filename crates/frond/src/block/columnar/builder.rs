//! The builder of columnar blocks: rows are collected as they are pushed, and become columns once
//! all are there.
//!
//! Only then is it known whether all keys fit their layout; each column is then read from the rows
//! in one loop. A row without a value in the columns gets a placeholder there: the previous value,
//! which costs nothing in most encodings, or an empty string where strings are stored raw.

use super::{
    super::{
        Codec, Pushed,
        encoding::{PAD_BYTES, ROWS_MAX, string::Strings},
    },
    columns::{Columns, Holds, Side, word_at},
    difference::Earlier,
    frame::{
        FILLER_BYTES_MAX, FILLERS_BYTES_MAX, HEADER_BYTES, IN_COLUMNS, Models, OTHERS, VALUES,
        VERSION, WHOLE_KEYS, WIDE,
    },
    pushed_rows::{Cuts, Held, Length, ascends, strings_apart, words_apart},
    reference::{Candidate, REFERENCE_BYTES_MIN, ending_bytes, may_be_target},
    samples::Samples,
    writer::{ChunkCounts, ColumnWriter, Plans},
};
use crate::{coding::Reader, message::Tag, sync::Arc};

/// The narrowest words that may be stored as differences, and the number of columns of a block that
/// others are tried against.
const DIFFERENCE_WORD_BYTES_MIN: u8 = 4;
const EARLIER_MAX: usize = 8;

/// Builds columnar blocks. Reusable: [`clear`](ColumnarBuilder::clear) keeps the memory, and what
/// was learned about how columns are best encoded.
#[derive(Debug)]
pub struct ColumnarBuilder {
    columns: Arc<Columns>,
    plans: Plans,
    writer: ColumnWriter,
    keys: Held,
    payloads: Held,
    tags: Vec<Tag>,
    /// The ends of columns in the keys, and in the payloads that are in columns.
    key_cuts: Cuts,
    value_cuts: Cuts,
    in_columns: Vec<bool>,
    scratch: Scratch,
    block: Vec<u8>,
}

/// Encoded columns and the end of each, and buffers.
#[derive(Debug, Default)]
struct Scratch {
    words: Vec<u64>,
    /// Columns that later ones may be stored as differences to, and memory of former ones.
    earlier: Vec<Earlier>,
    spare: Vec<Vec<u64>>,
    strings: Strings,
    /// Columns that later ones may refer to, and memory of former ones.
    candidates: Vec<Candidate>,
    spare_strings: Vec<Strings>,
    body: Vec<u8>,
    ends: Vec<usize>,
}

/// One side of the rows: keys, or payloads that are values.
struct Rows<'a> {
    side: &'a Side,
    held: &'a Held,
    cuts: &'a Cuts,
    /// For each row, whether it has this side in columns; empty if all have.
    in_columns: &'a [bool],
    /// The number of the first column.
    number: usize,
    is_key: bool,
}

impl ColumnarBuilder {
    /// Creates an empty block of a tree with these columns, whose string bytes may be compressed
    /// with this codec.
    pub fn new(columns: Arc<Columns>, codec: Codec, plans: Plans) -> Self {
        Self {
            columns,
            plans,
            writer: ColumnWriter::new(codec),
            keys: Held::default(),
            payloads: Held::default(),
            tags: Vec::new(),
            key_cuts: Cuts::default(),
            value_cuts: Cuts::default(),
            in_columns: Vec::new(),
            scratch: Scratch::default(),
            block: Vec::new(),
        }
    }

    /// Number of rows so far.
    #[inline]
    pub fn rows(&self) -> usize {
        self.tags.len()
    }

    /// Length of all keys and payloads so far.
    #[inline]
    pub fn raw_bytes(&self) -> usize {
        self.keys.bytes_held() + self.payloads.bytes_held()
    }

    /// The last key pushed; empty if there is none.
    #[inline]
    pub fn last_key(&self) -> &[u8] {
        self.keys.last()
    }

    /// The samples that strings of blocks are added to, while there are any.
    pub fn samples(&mut self) -> &mut Option<Samples> {
        &mut self.writer.samples
    }

    /// Takes the counts of what codecs made of the blocks finished since the last call.
    pub fn take_chunks(&mut self) -> ChunkCounts {
        std::mem::take(&mut self.writer.chunks)
    }

    /// Number of times so far that all encodings of a column were measured again.
    pub fn columns_measured(&self) -> u64 {
        self.writer.measured
    }

    /// The best encodings of columns learned so far.
    pub fn plans(&self) -> &Plans {
        &self.plans
    }

    /// Appends a row, unless the block would then have more than `bytes_max` raw bytes (a first row
    /// always fits) or more rows than a block can have, or the key does not ascend.
    #[inline]
    pub fn push(&mut self, key: &[u8], tag: Tag, payload: &[u8], bytes_max: usize) -> Pushed {
        let rows = self.rows();
        if rows > 0 {
            if !ascends(self.keys.last(), key) {
                return Pushed::Unordered;
            }
            let grown = self.raw_bytes() + key.len() + payload.len();
            if grown > bytes_max || rows == ROWS_MAX {
                return Pushed::Full;
            }
        }
        self.keys.push(key);
        self.payloads.push(payload);
        self.tags.push(tag);
        Pushed::Done
    }

    /// Finishes the block and returns its bytes, to be read with the same columns and models. Call
    /// [`clear`](ColumnarBuilder::clear) before the next row.
    ///
    /// # Panics
    /// If there are no rows.
    pub fn finish(&mut self, models: &Models) -> &[u8] {
        assert!(self.rows() > 0, "a block has at least one row");
        let columns = self.columns.clone();
        let fits = self.key_cuts.cut_all(&columns.key, &self.keys);
        if !fits {
            self.key_cuts.cut_all(&columns.whole_key, &self.keys);
        }
        let (some_values, some_others) = self.cut_values(&columns.value);
        let mut flags = if fits { 0 } else { WHOLE_KEYS };
        self.scratch.body.clear();
        self.scratch.ends.clear();
        let Scratch { earlier, spare, candidates, spare_strings, .. } = &mut self.scratch;
        spare.extend(earlier.drain(..).map(|earlier| earlier.words));
        spare_strings.extend(candidates.drain(..).map(|candidate| candidate.strings));
        self.put_tags();
        let Self {
            keys, payloads, key_cuts, value_cuts, in_columns, plans, writer, scratch, ..
        } = &mut *self;
        let key = Rows {
            side: if fits { &columns.key } else { &columns.whole_key },
            held: keys,
            cuts: key_cuts,
            in_columns: &[],
            number: if fits { 0 } else { plans.whole_keys() },
            is_key: true,
        };
        let value = Rows {
            side: &columns.value,
            held: payloads,
            cuts: value_cuts,
            in_columns,
            number: columns.key.columns.len(),
            is_key: false,
        };
        // Keys that do not fit have no model: models are made for fields.
        let key_models: &Models = if fits { models } else { &[] };
        scratch.put(&key, key_models, plans, writer);
        if some_values {
            flags |= VALUES;
            scratch.put(&value, models, plans, writer);
        }
        if some_others {
            flags |= OTHERS;
            self.put_others(models);
        }
        self.join(flags);
        &self.block
    }

    /// Removes the rows.
    pub fn clear(&mut self) {
        self.keys.clear();
        self.payloads.clear();
        self.tags.clear();
    }

    /// Cuts values at the ends of their columns. Returns whether any value is in columns, and
    /// whether any payload is not.
    fn cut_values(&mut self, side: &Side) -> (bool, bool) {
        self.in_columns.clear();
        // The usual case, all values of one shape: no loop over rows is needed.
        if self.same_tag().is_some_and(|tag| tag.without_fresh() == Tag::PUT)
            && let Length::All(length) = self.payloads.length()
            && (length == 0 || side.width == Some(length))
            && (length == 0 || self.value_cuts.cut_all(side, &self.payloads))
        {
            self.in_columns.resize(self.tags.len(), length > 0);
            return (length > 0, false);
        }
        let (mut some_others, mut value_bytes) = (false, 0);
        self.value_cuts.clear(side);
        for (row, tag) in self.tags.iter().enumerate() {
            let payload = self.payloads.row(row);
            let is_put = tag.without_fresh() == Tag::PUT;
            let fits = is_put && self.value_cuts.cut(side, &self.payloads, row);
            value_bytes += if fits { payload.len() } else { 0 };
            some_others |= !fits && !payload.is_empty();
            self.in_columns.push(fits);
        }
        // All values are empty, as in an index: they need no columns.
        if value_bytes == 0 {
            self.in_columns.fill(false);
        }
        (value_bytes > 0, some_others)
    }

    /// The tag of all rows, if they have the same.
    fn same_tag(&self) -> Option<Tag> {
        let first = *self.tags.first()?;
        // Without a branch for each row.
        let bits = |all, tag: &Tag| all | tag.to_disk() ^ first.to_disk();
        (self.tags.iter().fold(0, bits) == 0).then_some(first)
    }

    fn put_tags(&mut self) {
        let same_tag = self.same_tag();
        let Self { plans, writer, scratch, tags, in_columns, .. } = self;
        let first = in_columns.first().copied().unwrap_or(false);
        if let Some(tag) = same_tag.filter(|_| !in_columns.contains(&!first)) {
            let value = u64::from(tag.to_disk()) | if first { IN_COLUMNS } else { 0 };
            writer.put_same(value, &mut scratch.body);
            return scratch.ends.push(scratch.body.len());
        }
        let number =
            |(tag, &is): (&Tag, &bool)| u64::from(tag.to_disk()) | if is { IN_COLUMNS } else { 0 };
        scratch.words.clear();
        scratch.words.extend(tags.iter().zip(&*in_columns).map(number));
        let number_of_tags = plans.tags();
        writer.put_words(plans, number_of_tags, None, &scratch.words, &[], &mut scratch.body);
        scratch.ends.push(scratch.body.len());
    }

    fn put_others(&mut self, models: &Models) {
        let Self { columns, plans, writer, scratch, payloads, in_columns, .. } = self;
        let number = columns.count() - 1;
        scratch.strings.clear();
        for (row, &is) in in_columns.iter().enumerate() {
            scratch.strings.push(if is { &[] } else { payloads.row(row) });
        }
        let model = models.get(number).and_then(|model| model.as_deref());
        let body = &mut scratch.body;
        writer.put_strings(plans, number, false, model, &scratch.strings, body);
        scratch.ends.push(body.len());
    }

    /// Joins header, directory and columns.
    fn join(&mut self, flags: u8) {
        let Self { scratch: Scratch { body, ends, .. }, block, .. } = self;
        let raw_bytes = self.keys.bytes_held() + self.payloads.bytes_held();
        join(flags, self.tags.len(), raw_bytes, (body, ends), block);
    }
}

/// Writes a block of these columns, which end there.
pub(super) fn join(
    flags: u8,
    rows: usize,
    raw_bytes: usize,
    (body, ends): (&[u8], &[usize]),
    block: &mut Vec<u8>,
) {
    let start = HEADER_BYTES + 2 * ends.len();
    let wide = start + body.len() > usize::from(u16::MAX);
    let start = if wide { HEADER_BYTES + 4 * ends.len() } else { start };
    let flags = flags & !WIDE | if wide { WIDE } else { 0 };
    block.clear();
    block.extend_from_slice(&[VERSION, flags]);
    block.extend_from_slice(&(rows as u16).to_le_bytes());
    block.extend_from_slice(&(raw_bytes as u32).to_le_bytes());
    for &end in ends {
        let end = (start + end) as u32;
        block.extend_from_slice(&end.to_le_bytes()[..if wide { 4 } else { 2 }]);
    }
    block.extend_from_slice(body);
    block.extend_from_slice(&[0; PAD_BYTES]);
}

impl Rows<'_> {
    /// Offset of column `index` of row `row`, which is the `nth` row in columns.
    #[inline]
    fn start(&self, row: usize, nth: usize, index: usize) -> usize {
        self.held.start(row) + self.cuts.start(nth, index)
    }

    /// Column `index` of that row, if the column holds strings.
    #[inline]
    fn string(&self, row: usize, nth: usize, index: usize, holds: Holds) -> &[u8] {
        let part = self.held.part(row, self.cuts.start(nth, index)..self.cuts.end(nth, index));
        match holds {
            Holds::Content => Reader::new(part).bytes().unwrap_or_default(),
            Holds::String(_) | Holds::Word(..) => part,
        }
    }

    fn is_in(&self, row: usize) -> bool {
        self.in_columns.get(row).is_none_or(|&is| is)
    }
}

impl Scratch {
    /// Encodes the columns of one side.
    fn put(
        &mut self,
        rows: &Rows<'_>,
        models: &Models,
        plans: &mut Plans,
        writer: &mut ColumnWriter,
    ) {
        let Self { words, earlier, spare, strings, candidates, spare_strings, body, ends } = self;
        let count = rows.held.rows();
        let all_in = rows.in_columns.iter().all(|&is| is);
        let first_in = (0..count).find(|&row| rows.is_in(row)).unwrap_or(0);
        let mut fillers_left = FILLERS_BYTES_MAX;
        writer.referring_columns = 0;
        for (index, column) in rows.side.columns.iter().enumerate() {
            let number = rows.number + index;
            match column.holds {
                Holds::Word(bytes, float) => {
                    let from = rows.held.padded();
                    words.clear();
                    if let (Some(part), Length::All(apart), true) =
                        (rows.cuts.same_part(index), rows.held.length(), all_in)
                    {
                        words_apart(&from[part.start..], apart, count, bytes, words);
                    } else {
                        let mut word = word_at(from, rows.start(first_in, 0, index), bytes);
                        let mut nth = 0;
                        words.extend((0..count).map(|row| {
                            if rows.is_in(row) {
                                word = word_at(from, rows.start(row, nth, index), bytes);
                                nth += 1;
                            }
                            word
                        }));
                    }
                    let may_differ = bytes >= DIFFERENCE_WORD_BYTES_MIN && float.is_none();
                    let others = if may_differ { &earlier[..] } else { &[] };
                    let differs = writer.put_words(plans, number, float, words, others, body);
                    if may_differ && !differs && earlier.len() < EARLIER_MAX {
                        let words = std::mem::replace(words, spare.pop().unwrap_or_default());
                        earlier.push(Earlier { number, at: ends.len() as u16, words });
                    }
                }
                holds @ (Holds::String(_) | Holds::Content) => {
                    strings.clear();
                    if let (Some(part), Length::All(apart), Holds::String(_), true) =
                        (rows.cuts.same_part(index), rows.held.length(), holds, all_in)
                    {
                        let from = &rows.held.padded()[part.start..];
                        strings_apart(from, apart, count, part.len(), strings);
                    } else if all_in {
                        (0..count)
                            .for_each(|row| strings.push(rows.string(row, row, index, holds)));
                    } else {
                        let repeat = plans.repeats_are_free(number);
                        let mut fill = filler(repeat, rows.string(first_in, 0, index, holds));
                        let mut nth = 0;
                        for row in 0..count {
                            if rows.is_in(row) {
                                let string = rows.string(row, nth, index, holds);
                                strings.push(string);
                                fill = filler(repeat, string);
                                nth += 1;
                            } else {
                                fill = if fill.len() <= fillers_left { fill } else { &[] };
                                fillers_left -= fill.len();
                                strings.push(fill);
                            }
                        }
                    }
                    let model = models.get(number).and_then(|model| model.as_deref());
                    let may_be_target = if rows.is_key {
                        may_be_target(writer.put_strings(plans, number, true, model, strings, body))
                    } else {
                        writer.put_texts(plans, number, model, strings, candidates, body)
                    };
                    let long_enough = strings.bytes().len() >= count * REFERENCE_BYTES_MIN;
                    if may_be_target && long_enough && candidates.len() < EARLIER_MAX {
                        let other = spare_strings.pop().unwrap_or_default();
                        let strings = std::mem::replace(strings, other);
                        let (at, ending) = (ends.len() as u16, ending_bytes(column));
                        candidates.push(Candidate { number, at, ending, strings });
                    }
                }
            }
            ends.push(body.len());
        }
    }
}

/// The placeholder of a row without a value, after one with this string.
fn filler(repeat: bool, string: &[u8]) -> &[u8] {
    if repeat && string.len() <= FILLER_BYTES_MAX { string } else { &[] }
}
