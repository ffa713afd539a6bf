//! Encoding string columns by a plan.
//!
//! A column that its plan cannot encode, because the model lacks the part or the strings do not
//! fit, is encoded as raw. A column is longer than the raw form by at most its first byte.

use super::{
    alphabet,
    chunk::Chunked,
    dictionary::DictionaryEncoder,
    fsst::{self, Matchers},
    model::StringModel,
    plan::{StrKind, StringPlan},
    prefix, raw,
    scratch::Scratch,
    shape::{self, Shape},
    shape_training::shape_of,
    strings::Strings,
    templated::TemplateEncoder,
};
use crate::coding::Reader;

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

/// Encodes string columns. Keeps its memory, and what it derived from models: each column of a
/// block has its model, and comes again with the next block. If the memory does not suffice for all
/// of them, the newest is replaced: replacing the oldest would evict each just before it is needed.
#[derive(Debug, Default)]
pub struct StrEncoder {
    scratch: Scratch,
    dictionaries: DictionaryEncoder,
    matchers: Matchers,
    templates: TemplateEncoder,
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
        let Self { scratch, dictionaries, matchers, templates } = self;
        let start = out.len();
        out.push(0);
        let mut kind = plan.kind;
        let mut chunk = Chunked::default();
        let done = match (kind, model) {
            (StrKind::Raw, _) => None,
            (StrKind::Prefix, _) => {
                prefix::put(strings, scratch, out);
                Some(())
            }
            (StrKind::Dictionary, _) => {
                dictionaries.put_own(strings, scratch, out);
                Some(())
            }
            (StrKind::Shape, _) => shape_of(strings).map(|bytes| {
                out.extend_from_slice(&bytes);
                let shape = Shape::parse(&mut Reader::new(&bytes)).expect("it was just made");
                shape::put(strings, shape, scratch, out);
            }),
            (StrKind::ModelDictionary, Some(model)) => model
                .dictionary()
                .map(|words| dictionaries.put_model(strings, (words, model.id()), scratch, out)),
            (StrKind::ModelShape, Some(model)) => {
                model.shape().map(|shape| shape::put(strings, shape, scratch, out))
            }
            (StrKind::Alphabet, Some(model)) => {
                model.alphabet().map(|characters| alphabet::put(strings, characters, scratch, out))
            }
            (StrKind::Symbols, Some(model)) => {
                let matcher = model.symbols().map(|symbols| matchers.of(symbols));
                let put = |matcher| fsst::put(strings, matcher, plan.codec, scratch, out);
                matcher.and_then(put).map(|kept| chunk = kept)
            }
            (StrKind::Templates, Some(model)) => model.templates().map(|of| {
                let matcher = model.symbols().map(|symbols| matchers.of(symbols));
                templates.put(strings, (of, model.id()), matcher, scratch, out);
            }),
            (
                StrKind::ModelDictionary
                | StrKind::ModelShape
                | StrKind::Symbols
                | StrKind::Templates
                | StrKind::Alphabet,
                None,
            ) => None,
        };
        // Raw may still be shorter: its bytes and at most three for each end.
        if done.is_none() || out.len() - start > strings.bytes().len() {
            let other = out.split_off(start + 1);
            let memory = (&mut scratch.ints, &mut scratch.values, &mut scratch.chunk);
            let raw_chunk = raw::put(strings, plan.codec, memory, out);
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
}

#[cfg(test)]
mod tests {
    use super::{
        super::{dictionary::LOOKUP_SLOTS_MAX, fsst::MATCHERS_MAX, fsst_training, model::Parts},
        *,
    };
    use crate::block::Codec;

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
            let ids = encoder.dictionaries.lookups.iter().map(|(id, _)| *id);
            kept.push(ids.take(3).collect::<Vec<_>>());
            let slots: usize =
                encoder.dictionaries.lookups.iter().map(|(_, lookup)| lookup.slots()).sum();
            assert!(slots <= LOOKUP_SLOTS_MAX, "{slots}");
            assert_eq!(encoder.matchers.0.len(), MATCHERS_MAX);
        }
        let first: Vec<u64> = columns.iter().take(3).map(|(model, _)| model.id()).collect();
        assert_eq!(kept, [first.clone(), first]);
    }
}
