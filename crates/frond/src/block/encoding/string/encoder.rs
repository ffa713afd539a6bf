//! Encoding string columns by a plan.
//!
//! What a plan cannot encode (the model lacks the part, or the strings do not fit) is encoded as
//! raw. A column is longer than the raw form by at most its first byte.

use super::{
    super::{IntEncoder, IntKind},
    chunk::Chunked,
    dictionary::Lookup,
    exceptions::ExceptionList,
    fsst::{Matcher, Symbols},
    model::StringModel,
    plan::{StrKind, StringPlan},
    prefix, raw,
    shape::{BitWriter, Shape},
    shape_training::shape_of,
    strings::{Strings, equal_short},
    template_index::TemplateIndex,
    templated::RESTART_ROWS,
    templates::Templates,
};
use crate::{
    block::Codec,
    coding::{Reader, put_bytes, put_varint},
};

/// How a column was encoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Written {
    /// The kind.
    pub kind: StrKind,
    /// The codec, and what it made of the bytes.
    pub chunk: Chunked,
    /// The length.
    pub bytes: usize,
}

/// Most slots of all cached lookups: 1 MiB, enough for four models of 30 000 words or thousands of
/// small ones.
const LOOKUP_SLOTS_MAX: usize = 1 << 18;
/// Most cached matchers, of some 180 KiB each.
const MATCHERS_MAX: usize = 6;
/// Most memory of cached template indexes: two of the largest, which have 512 KiB for templates and
/// as much for words.
const INDEXES_BYTES_MAX: usize = 2 << 20;

/// Encodes string columns. Keeps its memory, and what it derived from models: each column of a
/// block has its model, and comes again with the next block. When there is no room for all, the
/// newest is replaced: replacing the oldest would evict each just before it is needed.
#[derive(Debug, Default)]
pub struct StrEncoder {
    ints: IntEncoder,
    values: Vec<u64>,
    bytes: Vec<u8>,
    chunk: Vec<u8>,
    exceptions: ExceptionList,
    bits: BitWriter,
    /// For the words of the block.
    lookup: Lookup,
    words: Strings,
    /// For models, by their ids. (Words are compared, so a wrong model's lookup could only produce
    /// exceptions.)
    lookups: Vec<(u64, Lookup)>,
    /// Each knows the symbols it was made for.
    matchers: Vec<Matcher>,
    /// For the templates of models, by their ids.
    indexes: Vec<(u64, TemplateIndex)>,
    /// Bit offsets of rows.
    restarts: Vec<u64>,
}

impl StrEncoder {
    /// Creates an encoder.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a column of `strings` to `out`.
    pub fn encode(
        &mut self,
        strings: &Strings,
        model: Option<&StringModel>,
        plan: StringPlan,
        out: &mut Vec<u8>,
    ) -> Written {
        let start = out.len();
        out.push(0);
        let mut kind = plan.kind;
        let mut chunk = Chunked::default();
        let done = match (kind, model) {
            (StrKind::Raw, _) => None,
            (StrKind::Prefix, _) => {
                let Self { ints, values, bytes, .. } = self;
                prefix::put(strings, ints, values, bytes, out);
                Some(())
            }
            (StrKind::Dictionary, _) => {
                self.put_dictionary(strings, out);
                Some(())
            }
            (StrKind::Shape, _) => shape_of(strings).map(|bytes| {
                out.extend_from_slice(&bytes);
                let shape = Shape::parse(&mut Reader::new(&bytes)).expect("it was just made");
                self.put_shaped(strings, shape, out);
            }),
            (StrKind::ModelDictionary, Some(model)) => {
                model.dictionary().map(|words| self.put_codes(strings, words, model.id(), out))
            }
            (StrKind::ModelShape, Some(model)) => {
                model.shape().map(|shape| self.put_shaped(strings, shape, out))
            }
            (StrKind::Symbols, Some(model)) => {
                let symbols = model.symbols();
                let put = |symbols| self.put_symbols(strings, symbols, plan.codec, out);
                symbols.and_then(put).map(|kept| chunk = kept)
            }
            (StrKind::Templates, Some(model)) => {
                let templates = model.templates();
                templates
                    .map(|of| self.put_templated(strings, of, model.symbols(), model.id(), out))
            }
            (
                StrKind::ModelDictionary
                | StrKind::ModelShape
                | StrKind::Symbols
                | StrKind::Templates,
                None,
            ) => None,
        };
        // Raw may still be shorter: its bytes and at most three for each end.
        if done.is_none() || out.len() - start > strings.bytes().len() {
            let other = out.split_off(start + 1);
            let raw_chunk = self.put_raw(strings, plan.codec, out);
            if done.is_some() && other.len() < out.len() - start - 1 {
                out.truncate(start + 1);
                out.extend_from_slice(&other);
            } else {
                (kind, chunk) = (StrKind::Raw, raw_chunk);
            }
        }
        out[start] = kind as u8 | (chunk.codec as u8) << 4;
        Written { kind, chunk, bytes: out.len() - start }
    }

    fn put_raw(&mut self, strings: &Strings, codec: Codec, out: &mut Vec<u8>) -> Chunked {
        self.values.clear();
        self.values.extend(strings.ends().iter().map(|&end| u64::from(end)));
        raw::put(codec, strings.bytes(), &self.values, &mut self.ints, &mut self.chunk, out)
    }

    /// Encodes with the words of these strings.
    fn put_dictionary(&mut self, strings: &Strings, out: &mut Vec<u8>) {
        let Self { lookup, words, values, ints, .. } = self;
        lookup.reset(strings.len());
        words.clear();
        values.clear();
        let mut last: Option<(&[u8], u64)> = None;
        for string in strings.iter() {
            // In an index the same string is often repeated.
            let word = match last {
                Some((same, word)) if equal_short(same, string) => word,
                _ => {
                    let word = lookup.find(words, string).unwrap_or_else(|place| {
                        lookup.insert(place);
                        words.push(string);
                        words.len() as u32 - 1
                    });
                    word.into()
                }
            };
            last = Some((string, word));
            values.push(word);
        }
        let mut order: Vec<u32> = (0..words.len() as u32).collect();
        order.sort_unstable_by(|&a, &b| words.get(a as usize).cmp(words.get(b as usize)));
        let sorted: Strings = order.iter().map(|&word| words.get(word as usize)).collect();
        let mut codes = vec![0; order.len()];
        order.iter().zip(0..).for_each(|(&word, code)| codes[word as usize] = code);
        let codes: Vec<u64> = values.iter().map(|&word| codes[word as usize]).collect();
        put_varint(out, sorted.len() as u64);
        raw::put_strings(&sorted, ints, values, out);
        ints.encode(&codes, out);
    }

    /// Encodes with the words of the model `id`.
    fn put_codes(&mut self, strings: &Strings, words: &Strings, id: u64, out: &mut Vec<u8>) {
        let lookup = lookup_of(&mut self.lookups, words, id);
        self.exceptions.clear();
        self.values.clear();
        for (row, string) in strings.iter().enumerate() {
            let code = lookup.find(words, string).unwrap_or_else(|_| {
                self.exceptions.push(row, string);
                words.len() as u32
            });
            self.values.push(code.into());
        }
        self.ints.encode(&self.values, out);
        self.exceptions.put(&mut self.ints, &mut self.values, out);
    }

    /// Encodes with a shape.
    fn put_shaped(&mut self, strings: &Strings, shape: Shape<'_>, out: &mut Vec<u8>) {
        self.exceptions.clear();
        for (row, string) in strings.iter().enumerate() {
            if !shape.pack(string, &mut self.bits) {
                shape.pack_nothing(&mut self.bits);
                self.exceptions.push(row, string);
            }
        }
        self.exceptions.put(&mut self.ints, &mut self.values, out);
        self.bits.finish(out);
    }

    /// Encodes with the templates of the model `id`.
    fn put_templated(
        &mut self,
        strings: &Strings,
        templates: &Templates,
        symbols: Option<&Symbols>,
        id: u64,
        out: &mut Vec<u8>,
    ) {
        let Self { ints, values, exceptions, bits, matchers, indexes, restarts, bytes, .. } = self;
        let index = index_of(indexes, templates, id);
        let matcher = symbols.map(|symbols| matcher_of(matchers, symbols));
        exceptions.clear();
        values.clear();
        restarts.clear();
        for (row, string) in strings.iter().enumerate() {
            if row % RESTART_ROWS == 0 {
                restarts.push(bits.bits() as u64);
            }
            bytes.clear();
            values.push(index.pack(templates, matcher, string, bits, bytes));
            if !bytes.is_empty() {
                exceptions.push(row, bytes);
            }
        }
        // The kinds that are read fastest: finding any row reads some of both.
        ints.encode_as(IntKind::BitPacked, None, values, out);
        ints.encode_as(IntKind::Linear, None, restarts, out);
        put_varint(out, bits.bits().div_ceil(8) as u64);
        bits.finish(out);
        bytes.clear();
        exceptions.put(ints, values, bytes);
        put_bytes(out, bytes);
    }

    /// Encodes as symbols; `None` if that is not shorter.
    fn put_symbols(
        &mut self,
        strings: &Strings,
        symbols: &Symbols,
        codec: Codec,
        out: &mut Vec<u8>,
    ) -> Option<Chunked> {
        let matcher = matcher_of(&mut self.matchers, symbols);
        let room = 2 * strings.bytes().len();
        if self.bytes.len() < room {
            self.bytes.resize(room, 0);
        }
        self.values.clear();
        let mut end = 0;
        for string in strings.iter() {
            end += matcher.encode(string, &mut self.bytes[end..]);
            self.values.push(end as u64);
        }
        if end >= strings.bytes().len() {
            return None;
        }
        let codes = &self.bytes[..end];
        Some(raw::put(codec, codes, &self.values, &mut self.ints, &mut self.chunk, out))
    }
}

/// The lookup of the words of the model `id`.
fn lookup_of<'a>(lookups: &'a mut Vec<(u64, Lookup)>, words: &Strings, id: u64) -> &'a Lookup {
    let at = lookups.iter().position(|(of, _)| *of == id).unwrap_or_else(|| {
        let slots = |lookups: &[(u64, Lookup)]| -> usize {
            lookups.iter().map(|(_, lookup)| lookup.slots()).sum()
        };
        let mut lookup = Lookup::default();
        while slots(lookups) + Lookup::slots_for(words.len()) > LOOKUP_SLOTS_MAX {
            match lookups.pop() {
                Some((_, newest)) => lookup = newest,
                None => break,
            }
        }
        lookup.reset(words.len());
        for word in words.iter() {
            if let Err(place) = lookup.find(words, word) {
                lookup.insert(place);
            }
        }
        lookups.push((id, lookup));
        lookups.len() - 1
    });
    &lookups[at].1
}

/// The index of the templates of the model `id`.
fn index_of<'a>(
    indexes: &'a mut Vec<(u64, TemplateIndex)>,
    templates: &Templates,
    id: u64,
) -> &'a mut TemplateIndex {
    let at = indexes.iter().position(|(of, _)| *of == id).unwrap_or_else(|| {
        let index = TemplateIndex::of(templates);
        let taken = |indexes: &[(u64, TemplateIndex)]| -> usize {
            indexes.iter().map(|(_, index)| index.memory_bytes()).sum()
        };
        while taken(indexes) + index.memory_bytes() > INDEXES_BYTES_MAX && indexes.pop().is_some() {
        }
        indexes.push((id, index));
        indexes.len() - 1
    });
    &mut indexes[at].1
}

/// The matcher of these symbols.
fn matcher_of<'a>(matchers: &'a mut Vec<Matcher>, symbols: &Symbols) -> &'a Matcher {
    let is_of = |matcher: &Matcher| symbols.iter().eq(matcher.symbols().iter().copied());
    let at = matchers.iter().position(is_of).unwrap_or_else(|| {
        let newest = if matchers.len() < MATCHERS_MAX { None } else { matchers.pop() };
        let mut matcher = newest.unwrap_or_default();
        matcher.set(symbols);
        matchers.push(matcher);
        matchers.len() - 1
    });
    &matchers[at]
}

#[cfg(test)]
mod tests {
    use super::{
        super::{fsst_training, model::Parts},
        *,
    };

    /// A model with words and symbols, and a block of the column.
    fn column(number: u64, words: u64) -> (StringModel, Strings) {
        let word = |at: u64| format!("{:07}-of-{number:x}", at).into_bytes();
        let rows: Vec<Vec<u8>> = (0..300).map(|row| word(row % 100 * 7919 % words)).collect();
        let strings: Strings = rows.iter().map(Vec::as_slice).collect();
        let symbols = fsst_training::train(&strings);
        let words: Vec<Vec<u8>> = (0..words).map(word).collect();
        let words = words.iter().map(Vec::as_slice).collect();
        (StringModel::new(Parts { dictionary: Some(words), symbols, ..Parts::default() }), strings)
    }

    fn written(
        encoder: &mut StrEncoder,
        (model, strings): &(StringModel, Strings),
        kind: StrKind,
    ) -> Vec<u8> {
        let mut out = Vec::new();
        let plan = StringPlan { kind, codec: Codec::Raw };
        assert_eq!(encoder.encode(strings, Some(model), plan, &mut out).kind, kind);
        out
    }

    /// The columns of a block come in turn, more than there is room for, and some with words of
    /// their own. Those with a cached lookup keep it.
    #[test]
    fn columns_with_models_do_not_disturb_each_other() {
        let columns: Vec<_> = (0..12).map(|number| column(number, 25_000)).collect();
        let mut encoder = StrEncoder::new();
        let mut kept = Vec::new();
        for _ in 0..2 {
            for column in &columns {
                for kind in [StrKind::ModelDictionary, StrKind::Dictionary, StrKind::Symbols] {
                    let alone = written(&mut StrEncoder::new(), column, kind);
                    assert_eq!(written(&mut encoder, column, kind), alone, "{kind:?}");
                }
            }
            let ids = encoder.lookups.iter().map(|(id, _)| *id);
            kept.push(ids.take(3).collect::<Vec<_>>());
            let slots: usize = encoder.lookups.iter().map(|(_, lookup)| lookup.slots()).sum();
            assert!(slots <= LOOKUP_SLOTS_MAX, "{slots}");
            assert_eq!(encoder.matchers.len(), MATCHERS_MAX);
        }
        let first: Vec<u64> = columns.iter().take(3).map(|(model, _)| model.id()).collect();
        assert_eq!(kept, [first.clone(), first]);
    }
}
