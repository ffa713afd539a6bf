//! Training of templates: finds the templates of a sample of strings, and the best encoding of
//! their slots.
//!
//! Strings are grouped by skeleton; a skeleton becomes a template if the future rows with this
//! skeleton are expected to save more than it takes in the model. Strings that occur again and
//! again in all parts of the sample become templates as a whole. The contents of slots are examined
//! field by field: slots of one kind after the same few bytes are one field, in all templates. Each
//! field gets the coder that takes the fewest bits.
//!
//! All sums here are estimates of which candidate is worth trying; the decision is based on the
//! size of blocks that were not used for training (`training.rs`).

use std::{collections::HashMap, hash::Hash};

use super::{
    super::bits::width_of,
    bit_writer::BitWriter,
    strings::Strings,
    template_index::TemplateIndex,
    templated::plain_texts,
    templates::{
        FIELDS_MAX, FieldSpec, LITERAL_BYTES_MAX, NUMBER_BITS_MAX, PADDED_DIGITS_MAX, PIECES_MAX,
        TEMPLATES_MAX, Templates, WORDS_MAX, put_field, put_template,
    },
    tokens::{Skeleton, Slot, SlotKind, Tokens},
};
use crate::coding::put_varint;

/// One row in this many must have a skeleton that occurs again, or the strings are treated as text.
const ALIKE_SHARE: usize = 4;
/// Number of equal values after which a field is considered constant.
const CONSTANT_VALUES: usize = 64;
/// Fewer bytes than these before a slot do not identify it: the previous slot is considered, too.
const CONTEXT_BYTES_MIN: usize = 3;
/// Number of bytes before a slot that are considered.
const CONTEXT_BYTES: usize = 8;
/// Number of values of a field that are examined.
const VALUES_MAX: usize = 4096;

/// The result of training.
pub(super) struct Found {
    /// The templates, encoded as in a model.
    pub bytes: Vec<u8>,
    pub templates: Templates,
    /// Texts that are stored outside the bits.
    pub texts: Strings,
}

/// How often a string or skeleton occurred, and in which blocks.
#[derive(Clone, Copy, Debug)]
struct Met {
    count: usize,
    first: usize,
    last: usize,
}

impl Met {
    fn once(block: usize) -> Self {
        Self { count: 1, first: block, last: block }
    }

    fn again(&mut self, block: usize) {
        self.count += 1;
        self.last = block;
    }

    /// True if it is likely to occur in all blocks, judging by `blocks` sampled ones: a string that
    /// only neighbouring rows share will not be in the next leaf.
    fn is_everywhere(&self, blocks: usize) -> bool {
        self.count > 1 && (blocks == 1 || self.last - self.first > blocks / 4)
    }
}

fn meet<K: Eq + Hash>(all: &mut HashMap<K, Met>, key: K, block: usize) {
    all.entry(key).and_modify(|met| met.again(block)).or_insert_with(|| Met::once(block));
}

/// A string of the sample.
struct Row<'a> {
    text: &'a [u8],
    block: usize,
    /// The hash of its skeleton.
    hash: Option<u64>,
}

/// Estimated bytes of a slot.
fn slot_bytes(slot: &Slot) -> f64 {
    let len = f64::from(slot.end - slot.start);
    match slot.kind {
        SlotKind::Digits => len * 0.42,
        SlotKind::Hex | SlotKind::Guid => len * 0.45,
        SlotKind::Word => len * 0.4,
    }
}

/// Trains templates on these blocks, for a model that serves this many rows; `None` if the strings
/// do not have templates.
pub(super) fn train(blocks: &[&Strings], model_rows: usize) -> Option<Found> {
    let mut tokens = Tokens::default();
    let mut rows: Vec<Row<'_>> = Vec::new();
    for (block, strings) in blocks.iter().enumerate() {
        rows.extend(strings.iter().map(|text| {
            let hash = tokens.find(text).then(|| tokens.hash());
            Row { text, block, hash }
        }));
    }
    if rows.is_empty() {
        return None;
    }
    let scale = (model_rows as f64 / rows.len() as f64).max(1.0);
    let mut writer = Writer::default();
    let whole = whole_strings(&mut rows, blocks.len(), scale);
    let mut groups: HashMap<u64, (Met, usize)> = HashMap::new();
    for (at, row) in rows.iter().enumerate() {
        let Some(hash) = row.hash else { continue };
        let group = groups.entry(hash).or_insert_with(|| (Met::once(row.block), at));
        if group.1 != at {
            group.0.again(row.block);
        }
    }
    let alike: usize = groups.values().map(|(met, _)| met.count).filter(|&count| count > 1).sum();
    let whole_rows: usize = whole.iter().map(|(_, count)| count).sum();
    if (alike + whole_rows) * ALIKE_SHARE < rows.len() {
        return None;
    }
    let mut chosen: Vec<(usize, usize)> = Vec::new();
    for &(met, at) in groups.values() {
        let text = rows[at].text;
        if !tokens.find(text) {
            continue;
        }
        let in_slots: usize = tokens.slots().iter().map(|s| usize::from(s.end - s.start)).sum();
        let literal = (text.len() - in_slots) as f64;
        let expected = met.count as f64 * scale * if met.count == 1 { 0.5 } else { 1.0 };
        let cost = literal * 0.3 + 2.0 * tokens.slots().len() as f64 + 4.0;
        if expected * (literal * 0.35 + 2.0) > cost {
            chosen.push((met.count, at));
        }
    }
    // Frequent ones first, so that their numbers are small; equals in the order of the sample.
    chosen.sort_unstable_by_key(|&(count, at)| (std::cmp::Reverse(count), at));
    let mut all: Vec<(usize, Candidate<'_>)> =
        chosen.into_iter().map(|(count, at)| (count, Candidate::Skeleton(at))).collect();
    all.extend(whole.into_iter().map(|(text, count)| (count, Candidate::Whole(text))));
    all.sort_by_key(|&(count, _)| std::cmp::Reverse(count));
    let mut numbers: HashMap<u64, usize> = HashMap::new();
    for (_, candidate) in all {
        match candidate {
            Candidate::Whole(text) => writer.add_whole(text),
            Candidate::Skeleton(at) => {
                let row = &rows[at];
                if tokens.find(row.text) && writer.add(row.text, &tokens) {
                    numbers.insert(tokens.hash(), writer.templates.len() - 1);
                }
            }
        }
    }
    if writer.templates.is_empty() {
        return None;
    }
    for row in &rows {
        let number = row.hash.and_then(|hash| numbers.get(&hash));
        if let Some(&number) = number
            && tokens.find(row.text)
        {
            writer.learn(number, row, &tokens);
        }
    }
    let bytes = writer.finish(blocks.len(), scale);
    let templates = Templates::parse(&bytes).ok()?;
    let texts = texts_of(&templates, &rows);
    Some(Found { bytes, templates, texts })
}

enum Candidate<'a> {
    /// A whole string.
    Whole(&'a [u8]),
    /// The skeleton of this row.
    Skeleton(usize),
}

/// Strings that are worth a template of their own, and how often they occur; their rows lose their
/// skeletons.
fn whole_strings<'a>(rows: &mut [Row<'a>], blocks: usize, scale: f64) -> Vec<(&'a [u8], usize)> {
    let mut met: HashMap<&[u8], Met> = HashMap::new();
    rows.iter().for_each(|row| meet(&mut met, row.text, row.block));
    let mut tokens = Tokens::default();
    let mut is_worth_it = |text: &[u8], met: &Met| {
        if !met.is_everywhere(blocks) || !tokens.find(text) || tokens.slots().is_empty() {
            return false;
        }
        let bytes: f64 = tokens.slots().iter().map(slot_bytes).sum();
        met.count as f64 * scale * 0.7 * bytes > bytes * 1.5 + 6.0
    };
    met.retain(|text, met| is_worth_it(text, met));
    rows.iter_mut().filter(|row| met.contains_key(row.text)).for_each(|row| row.hash = None);
    let mut whole: Vec<_> = met.into_iter().map(|(text, met)| (text, met.count)).collect();
    whole.sort_unstable_by_key(|&(text, count)| (std::cmp::Reverse(count), text));
    whole
}

/// The texts of the sample that are stored outside the bits.
fn texts_of(templates: &Templates, rows: &[Row<'_>]) -> Strings {
    let mut index = TemplateIndex::of(templates);
    let (mut bits, mut packed, mut texts) = (BitWriter::default(), Vec::new(), Strings::new());
    for row in rows {
        let before = bits.mark();
        packed.clear();
        index.pack(templates, None, row.text, &mut bits, &mut packed);
        bits.reset(before);
        plain_texts(&packed, |text| texts.push(text));
    }
    texts
}

/// Templates that are collected, and the values of their fields.
#[derive(Default)]
struct Writer<'a> {
    templates: Vec<Shape<'a>>,
    pieces: usize,
    literal_bytes: usize,
    fields: Vec<Values<'a>>,
    /// Fields by kind and by what precedes them.
    by_context: HashMap<u64, usize>,
}

/// A template: its literals with the field after each, and the last literal.
struct Shape<'a> {
    slots: Vec<(&'a [u8], usize)>,
    last: &'a [u8],
}

/// The values of a field.
struct Values<'a> {
    kind: SlotKind,
    /// One in `stride` of the values seen, so that they come from all blocks.
    values: Vec<(&'a [u8], usize)>,
    shown: usize,
    stride: usize,
}

impl<'a> Writer<'a> {
    fn has_room(&self, pieces: usize, bytes: usize) -> bool {
        self.templates.len() < TEMPLATES_MAX
            && self.pieces + pieces <= PIECES_MAX
            // Half of the room is for words.
            && self.literal_bytes + bytes <= LITERAL_BYTES_MAX / 2
    }

    fn add_whole(&mut self, text: &'a [u8]) {
        if self.has_room(1, text.len()) {
            self.pieces += 1;
            self.literal_bytes += text.len();
            self.templates.push(Shape { slots: Vec::new(), last: text });
        }
    }

    /// Adds the skeleton of a string; false if there is no room.
    fn add(&mut self, text: &'a [u8], tokens: &Tokens) -> bool {
        if !self.has_room(tokens.slots().len() + 1, text.len()) {
            return false;
        }
        let (mut at, mut slots, mut context) = (0, Vec::new(), Skeleton::default());
        for slot in tokens.slots() {
            let literal = &text[at..slot.start.into()];
            at = slot.end.into();
            if literal.len() >= CONTEXT_BYTES_MIN {
                context = Skeleton::default();
            }
            context.literal(&literal[literal.len().saturating_sub(CONTEXT_BYTES)..]);
            context.slot(slot.kind);
            let fields = self.fields.len();
            let field = *self.by_context.entry(context.0).or_insert(fields);
            if field == fields {
                if fields == FIELDS_MAX {
                    self.by_context.remove(&context.0);
                    return false;
                }
                self.fields.push(Values::of(slot.kind));
            }
            if self.fields[field].kind != slot.kind {
                // Two contexts with the same hash.
                return false;
            }
            self.literal_bytes += literal.len();
            slots.push((literal, field));
        }
        self.pieces += slots.len() + 1;
        self.literal_bytes += text.len() - at;
        self.templates.push(Shape { slots, last: &text[at..] });
        true
    }

    /// Adds a row's values to the fields of template `number`.
    fn learn(&mut self, number: usize, row: &Row<'a>, tokens: &Tokens) {
        let Some(shape) = self.templates.get(number) else { return };
        for (slot, (_, field)) in tokens.slots().iter().zip(&shape.slots) {
            let field = &mut self.fields[*field];
            // Another skeleton may have the same hash.
            if field.kind == slot.kind {
                field.show(&row.text[slot.start.into()..slot.end.into()], row.block);
            }
        }
    }

    fn finish(&self, blocks: usize, scale: f64) -> Vec<u8> {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, self.fields.len() as u64);
        let mut room = Room { words: WORDS_MAX, bytes: LITERAL_BYTES_MAX - self.literal_bytes };
        for field in &self.fields {
            let spec = field.choose(blocks, scale, &mut room);
            put_field(field.kind, &spec, &mut bytes);
        }
        put_varint(&mut bytes, self.templates.len() as u64);
        for Shape { slots, last } in &self.templates {
            put_template(slots.iter().copied(), last, &mut bytes);
        }
        bytes
    }
}

/// The space that is left for words in the model.
struct Room {
    words: usize,
    bytes: usize,
}

/// Estimated bits of a text outside the bits, in its list.
fn text_bits(len: usize) -> f64 {
    28.0 + 8.0 * len as f64 * 0.6
}

impl<'a> Values<'a> {
    fn of(kind: SlotKind) -> Self {
        Self { kind, values: Vec::new(), shown: 0, stride: 1 }
    }

    fn show(&mut self, value: &'a [u8], block: usize) {
        if self.shown.is_multiple_of(self.stride) {
            if self.values.len() == VALUES_MAX {
                let mut index = 0;
                self.values.retain(|_| {
                    index += 1;
                    index % 2 == 1
                });
                self.stride *= 2;
            }
            self.values.push((value, block));
        }
        self.shown += 1;
    }

    /// Chooses the coder that takes the fewest bits.
    fn choose(&self, blocks: usize, scale: f64, room: &mut Room) -> FieldSpec<'a> {
        let scale = scale * self.stride as f64;
        let values = &self.values;
        let Some(&(first, _)) = values.first() else { return FieldSpec::Text };
        let is_all = |fits: &dyn Fn(&[u8]) -> bool| values.iter().all(|(value, _)| fits(value));
        let in_case = |letters: std::ops::RangeInclusive<u8>| {
            is_all(&|value| {
                value.iter().all(|byte| !byte.is_ascii_alphabetic() || letters.contains(byte))
            })
        };
        if values.len() >= CONSTANT_VALUES && is_all(&|value| value == first) && room.take(first) {
            return FieldSpec::One(first);
        }
        let as_texts: f64 = values.iter().map(|(value, _)| text_bits(value.len())).sum();
        let mut best = (as_texts, FieldSpec::Text);
        let mut offer = |cost: f64, spec: FieldSpec<'a>| {
            if cost < best.0 {
                best = (cost, spec);
            }
        };
        let is_long = is_all(&|value| value.len() == first.len());
        match self.kind {
            SlotKind::Digits => {
                if let Some((cost, bits)) = self.as_numbers(None) {
                    offer(cost, FieldSpec::Number { bits });
                }
                let digits = self.common_length();
                if let Some((cost, bits)) = self.as_numbers(Some(digits)) {
                    offer(cost, FieldSpec::Padded { digits: digits as u8, bits });
                }
                if is_long && (PADDED_DIGITS_MAX + 1..256).contains(&first.len()) {
                    let cost = values.len() as f64 * first.len() as f64 * 3.4;
                    offer(cost, FieldSpec::Digits { count: first.len() as u8 });
                }
            }
            SlotKind::Hex | SlotKind::Guid => {
                let (lower, upper) = (in_case(b'a'..=b'f'), in_case(b'A'..=b'F'));
                if (lower || upper) && is_long {
                    let upper = !lower;
                    let is_guid = self.kind == SlotKind::Guid;
                    let (bits, spec) = match is_guid {
                        true => (128, FieldSpec::Guid { upper }),
                        false => {
                            let count = first.len() as u8;
                            (4 * first.len(), FieldSpec::Hex { count, upper })
                        }
                    };
                    offer((values.len() * bits) as f64, spec);
                }
            }
            SlotKind::Word => {}
        }
        let value_bits = best.0 / values.len() as f64;
        match self.as_words(blocks, scale, value_bits) {
            Some((cost, words)) if cost < best.0 && room.take_all(&words) => {
                FieldSpec::Words(words)
            }
            _ => best.1,
        }
    }

    /// The length that most values have.
    fn common_length(&self) -> usize {
        let mut counts: HashMap<usize, usize> = HashMap::new();
        self.values.iter().for_each(|(value, _)| *counts.entry(value.len()).or_default() += 1);
        let most = counts.into_iter().max_by_key(|&(length, count)| (count, length));
        most.map_or(0, |(length, _)| length)
    }

    /// The bits of all values as numbers, either of `digits` digits or without leading zeros, with
    /// the best width, and this width.
    fn as_numbers(&self, digits: Option<usize>) -> Option<(f64, u8)> {
        if digits.is_some_and(|digits| digits > PADDED_DIGITS_MAX) {
            return None;
        }
        let mut with_width = [0usize; 65];
        let mut chars = 0;
        for (value, _) in &self.values {
            chars += value.len();
            let fits = match digits {
                Some(digits) => value.len() == digits,
                None => value.len() <= 18 && (value[0] != b'0' || value.len() == 1),
            };
            if !fits {
                continue;
            }
            let number = value.iter().fold(0u64, |n, byte| n * 10 + u64::from(byte - b'0'));
            with_width[width_of(number + 1) as usize] += 1;
        }
        let widest = with_width.iter().rposition(|&count| count > 0)?;
        let limit = digits.map_or(NUMBER_BITS_MAX, |d| width_of(10u64.pow(d as u32) - 1)) as usize;
        // A number longer than all of them must be expected, too.
        let longer = (widest + 1).min(limit);
        with_width[longer] += 1;
        let text = text_bits(chars / self.values.len());
        let count = self.values.len() + 1;
        let mut fit = 0;
        let costs = (1..=limit.min(longer)).map(|width| {
            fit += with_width[width];
            let texts = (count - fit.min(count)) as f64;
            ((count * width) as f64 + texts * text, width as u8)
        });
        costs.min_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// The words that pay if a value otherwise takes `value_bits`, and the bits of all values with
    /// these words.
    fn as_words(&self, blocks: usize, scale: f64, value_bits: f64) -> Option<(f64, Vec<&'a [u8]>)> {
        let mut met: HashMap<&'a [u8], Met> = HashMap::new();
        self.values.iter().for_each(|&(value, block)| meet(&mut met, value, block));
        let in_model = |word: &[u8]| 8.0 * (word.len() as f64 * 0.6 + 1.5);
        let mut words: Vec<(&'a [u8], Met)> = met
            .into_iter()
            .filter(|(word, met)| {
                let expected = met.count as f64 * scale * 0.7;
                met.is_everywhere(blocks) && expected * value_bits > in_model(word)
            })
            .collect();
        if words.is_empty() {
            return None;
        }
        words.sort_unstable_by_key(|&(word, met)| (std::cmp::Reverse(met.count), word));
        let total = self.values.len();
        let chars: usize = self.values.iter().map(|(value, _)| value.len()).sum();
        let text = text_bits(chars / total);
        // The best number of words: one more word may make all codes longer.
        let mut best: Option<(f64, usize)> = None;
        let (mut known, mut model) = (0, 0.0);
        for (at, (word, met)) in words.iter().enumerate() {
            known += met.count;
            model += in_model(word);
            let count = at + 1;
            let last_of_width = (count + 1).is_power_of_two() || count == words.len();
            if last_of_width {
                let bits = f64::from(width_of(count as u64));
                // Estimates the values without a word: those whose word occurred only a few times
                // stand for the ones that did not occur in the sample.
                let strangers = (total - known) as f64 + 1.0;
                let cost = total as f64 * bits + strangers * text + model / scale;
                if best.is_none_or(|(least, _)| cost < least) {
                    best = Some((cost, count));
                }
            }
        }
        let (cost, count) = best?;
        words.truncate(count);
        Some((cost, words.into_iter().map(|(word, _)| word).collect()))
    }
}

impl Room {
    fn take(&mut self, word: &[u8]) -> bool {
        self.take_all(&[word])
    }

    fn take_all(&mut self, words: &[&[u8]]) -> bool {
        let bytes: usize = words.iter().map(|word| word.len()).sum();
        let fits = words.len() <= self.words && bytes <= self.bytes;
        if fits {
            self.words -= words.len();
            self.bytes -= bytes;
        }
        fits
    }
}
