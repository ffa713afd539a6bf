//! Building a typed block: rows are gathered as they come, and become columns when all are there.
//!
//! Only then it is known whether all keys fit their layout, and each column is read out of the rows in one
//! loop. A row without a value in the columns has a filler there: the value before, which costs nothing
//! in most forms of a column, or, where strings are kept as they are, an empty one.

use super::{
    super::{
        Codec, Pushed,
        bytes::copy_short,
        column::{PAD_BYTES, ROWS_MAX, string::Strings},
    },
    columns::{Columns, Holds, Side, word_at},
    frame::{HEADER_BYTES, IN_COLUMNS, Models, OTHERS, VALUES, VERSION, WHOLE_KEYS, WIDE},
    writer::{ColumnWriter, Plans},
};
use crate::{coding::Reader, message::Tag, sync::Arc};

/// Longest filler: rows without a value must not blow a block up in memory.
const FILLER_BYTES_MAX: usize = 64;

/// Builds typed blocks. Reusable: [`clear`](TypedBuilder::clear) keeps the memory, and what was learnt about
/// how columns are best written.
#[derive(Debug)]
pub struct TypedBuilder {
    columns: Arc<Columns>,
    plans: Plans,
    writer: ColumnWriter,
    keys: Held,
    payloads: Held,
    tags: Vec<Tag>,
    /// Where columns of keys and of values end in the rows held, row by row: of the rows that have them.
    key_cuts: Vec<u32>,
    value_cuts: Vec<u32>,
    in_columns: Vec<bool>,
    scratch: Scratch,
    block: Vec<u8>,
}

/// Byte strings end to end.
#[derive(Debug, Default)]
struct Held {
    /// Longer than they are by eight bytes at least, so that words are read whole.
    bytes: Vec<u8>,
    len: usize,
    ends: Vec<u32>,
}

/// Columns, and where each ends in them.
#[derive(Debug, Default)]
struct Scratch {
    words: Vec<u64>,
    strings: Strings,
    body: Vec<u8>,
    ends: Vec<usize>,
}

/// One side of the rows: keys, or payloads that are values.
struct Rows<'a> {
    side: &'a Side,
    held: &'a Held,
    cuts: &'a [u32],
    /// Of each row whether it has this side in columns; empty if all have.
    in_columns: &'a [bool],
    /// Number of the first column, and by what to count the others.
    number: usize,
    is_key: bool,
}

impl TypedBuilder {
    /// An empty block of a tree with these columns, whose string bytes may be put under this codec.
    pub fn new(columns: Arc<Columns>, codec: Codec, plans: Plans) -> Self {
        Self {
            columns,
            plans,
            writer: ColumnWriter::new(codec),
            keys: Held::default(),
            payloads: Held::default(),
            tags: Vec::new(),
            key_cuts: Vec::new(),
            value_cuts: Vec::new(),
            in_columns: Vec::new(),
            scratch: Scratch::default(),
            block: Vec::new(),
        }
    }

    /// Rows so far.
    #[inline]
    pub fn rows(&self) -> usize {
        self.tags.len()
    }

    /// Length of all keys and payloads so far.
    #[inline]
    pub fn raw_bytes(&self) -> usize {
        self.keys.len + self.payloads.len
    }

    /// The key pushed last; empty if there is none.
    #[inline]
    pub fn last_key(&self) -> &[u8] {
        self.rows().checked_sub(1).map_or(&[], |last| self.keys.row(last))
    }

    /// How columns are best written, as far as it was learnt.
    pub fn plans(&self) -> &Plans {
        &self.plans
    }

    /// Appends a row, unless the block would then have more than `bytes_max` raw bytes (a first row
    /// always fits) or more rows than a block can have, or the key does not ascend.
    #[inline]
    pub fn push(&mut self, key: &[u8], tag: Tag, payload: &[u8], bytes_max: usize) -> Pushed {
        let rows = self.rows();
        if rows > 0 {
            if !ascends(self.keys.row(rows - 1), key) {
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

    /// The block's bytes, to be read with the same columns and models. Call
    /// [`clear`](TypedBuilder::clear) before the next row.
    ///
    /// # Panics
    /// If there are no rows.
    pub fn finish(&mut self, models: &Models) -> &[u8] {
        assert!(self.rows() > 0, "a block has at least one row");
        let columns = self.columns.clone();
        let fits = self.keys.cut_all(&columns.key, &mut self.key_cuts);
        if !fits {
            self.keys.cut_all(&columns.whole_key, &mut self.key_cuts);
        }
        let (some_values, some_others) = self.cut_values(&columns.value);
        let mut flags = if fits { 0 } else { WHOLE_KEYS };
        self.scratch.body.clear();
        self.scratch.ends.clear();
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
        // Keys that do not fit have no model: it was made for parts.
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

    /// Forgets the rows.
    pub fn clear(&mut self) {
        self.keys.clear();
        self.payloads.clear();
        self.tags.clear();
    }

    /// Cuts values at the ends of their columns; whether any is in columns, and any payload is not.
    fn cut_values(&mut self, side: &Side) -> (bool, bool) {
        let (mut some_others, mut value_bytes) = (false, 0);
        self.value_cuts.clear();
        self.in_columns.clear();
        for (row, tag) in self.tags.iter().enumerate() {
            let payload = self.payloads.row(row);
            let start = self.payloads.start(row);
            let cuts = &mut self.value_cuts;
            let fits = tag.without_fresh() == Tag::PUT
                && match side.width {
                    Some(width) => payload.len() == width,
                    None => side.cut(payload, start, cuts),
                };
            value_bytes += if fits { payload.len() } else { 0 };
            some_others |= !fits && !payload.is_empty();
            self.in_columns.push(fits);
        }
        // Nothing but empty values, as in an index: what is not there needs no column.
        if value_bytes == 0 {
            self.in_columns.fill(false);
        }
        (value_bytes > 0, some_others)
    }

    fn put_tags(&mut self) {
        let Self { plans, writer, scratch, tags, in_columns, .. } = self;
        let number =
            |(tag, &is): (&Tag, &bool)| u64::from(tag.to_disk()) | if is { IN_COLUMNS } else { 0 };
        scratch.words.clear();
        scratch.words.extend(tags.iter().zip(&*in_columns).map(number));
        let number_of_tags = plans.tags();
        writer.put_words(plans, number_of_tags, None, &scratch.words, &mut scratch.body);
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

    /// Header, directory and columns.
    fn join(&mut self, mut flags: u8) {
        let Self { scratch: Scratch { body, ends, .. }, block, .. } = self;
        let start = HEADER_BYTES + 2 * ends.len();
        let wide = start + body.len() > usize::from(u16::MAX);
        let start = if wide { HEADER_BYTES + 4 * ends.len() } else { start };
        flags |= if wide { WIDE } else { 0 };
        block.clear();
        block.extend_from_slice(&[VERSION, flags]);
        block.extend_from_slice(&(self.tags.len() as u16).to_le_bytes());
        block.extend_from_slice(&((self.keys.len + self.payloads.len) as u32).to_le_bytes());
        for &end in &*ends {
            let end = (start + end) as u32;
            block.extend_from_slice(&end.to_le_bytes()[..if wide { 4 } else { 2 }]);
        }
        block.extend_from_slice(body);
        block.extend_from_slice(&[0; PAD_BYTES]);
    }
}

/// Whether a key is above the one before. The first eight bytes mostly say so, and cost no call.
#[inline]
fn ascends(last: &[u8], key: &[u8]) -> bool {
    match (last.first_chunk::<8>(), key.first_chunk::<8>()) {
        (Some(a), Some(b)) if a != b => u64::from_be_bytes(*a) < u64::from_be_bytes(*b),
        _ => last < key,
    }
}

impl Held {
    #[inline]
    fn push(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        if self.bytes.len() < end + 8 {
            self.bytes.resize((end + 8).next_power_of_two().max(4096), 0);
        }
        copy_short(&mut self.bytes[self.len..end], bytes);
        self.len = end;
        self.ends.push(u32::try_from(end).expect("a block's rows are below 4 GiB"));
    }

    #[inline]
    fn start(&self, row: usize) -> usize {
        row.checked_sub(1).map_or(0, |before| self.ends[before] as usize)
    }

    #[inline]
    fn row(&self, row: usize) -> &[u8] {
        &self.bytes[self.start(row)..self.ends[row] as usize]
    }

    /// Cuts all rows at the ends of their columns; false if one does not fit.
    fn cut_all(&self, side: &Side, cuts: &mut Vec<u32>) -> bool {
        cuts.clear();
        let mut rows = 0..self.ends.len();
        match side.width {
            Some(width) => rows.all(|row| self.row(row).len() == width),
            None => rows.all(|row| side.cut(self.row(row), self.start(row), cuts)),
        }
    }

    fn clear(&mut self) {
        self.len = 0;
        self.ends.clear();
    }
}

impl Rows<'_> {
    /// Where column `index` of row `row` begins, which is the `nth` in columns.
    #[inline]
    fn start(&self, row: usize, nth: usize, index: usize) -> usize {
        if self.side.width.is_some() {
            return self.held.start(row) + self.side.offsets[index] as usize;
        }
        match index.checked_sub(1) {
            Some(before) => self.cuts[nth * self.side.columns.len() + before] as usize,
            None => self.held.start(row),
        }
    }

    /// Column `index` of the same, if the rows hold strings.
    #[inline]
    fn string(&self, row: usize, nth: usize, index: usize, holds: Holds) -> &[u8] {
        let end = self.cuts[nth * self.side.columns.len() + index] as usize;
        let part = &self.held.bytes[self.start(row, nth, index)..end];
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
    /// Writes the columns of one side.
    fn put(
        &mut self,
        rows: &Rows<'_>,
        models: &Models,
        plans: &mut Plans,
        writer: &mut ColumnWriter,
    ) {
        let Self { words, strings, body, ends } = self;
        let count = rows.held.ends.len();
        let all_in = rows.in_columns.iter().all(|&is| is);
        let first_in = (0..count).find(|&row| rows.is_in(row)).unwrap_or(0);
        for (index, column) in rows.side.columns.iter().enumerate() {
            let number = rows.number + index;
            match column.holds {
                Holds::Word(bytes, float) => {
                    let from = &rows.held.bytes;
                    words.clear();
                    if let Some(width) = rows.side.width.filter(|_| all_in) {
                        // Rows of one length.
                        let offset = rows.side.offsets[index] as usize;
                        let start = |row| row * width + offset;
                        words.extend((0..count).map(|row| word_at(from, start(row), bytes)));
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
                    writer.put_words(plans, number, float, words, body);
                }
                holds @ (Holds::String(_) | Holds::Content) => {
                    let repeat = plans.repeats_are_free(number);
                    let mut fill = filler(repeat, rows.string(first_in, 0, index, holds));
                    let mut nth = 0;
                    strings.clear();
                    for row in 0..count {
                        if rows.is_in(row) {
                            let string = rows.string(row, nth, index, holds);
                            strings.push(string);
                            fill = filler(repeat, string);
                            nth += 1;
                        } else {
                            strings.push(fill);
                        }
                    }
                    let model = models.get(number).and_then(|model| model.as_deref());
                    writer.put_strings(plans, number, rows.is_key, model, strings, body);
                }
            }
            ends.push(body.len());
        }
    }
}

/// What stands for a row without a value after one with this string.
fn filler(repeat: bool, string: &[u8]) -> &[u8] {
    if repeat && string.len() <= FILLER_BYTES_MAX { string } else { &[] }
}
