//! String models: what the string columns of a leaf share, that is, a dictionary, a symbol table, a
//! shape, templates, an alphabet.
//!
//! A model is made once, from a sample (`training.rs`), and stored in its leaf; reading any block
//! of the leaf requires it. Its bytes are kept as they were written, so that a leaf can pass them
//! on.
//!
//! ```text
//! model       version u8 | parts u8: 1 dictionary, 2 symbols, 4 shape, 8 templates,
//!             16 alphabet |
//!             each part: length, bytes
//! dictionary  count | each word: shared with the one before | suffix's length | suffix's bytes
//! ```
//!
//! Invariants
//! 1. Words ascend strictly; a model has at most [`WORDS_MAX`] of them, with at most
//!    [`WORDS_BYTES_MAX`] bytes together.
//! 2. The version is the lowest that has all parts: 3 has alphabets, 2 templates. A Frond without
//!    support for a part refuses its version, and reads everything that does not need it.
//! 3. A model never changes. Its id is a hash of its bytes, so equal models have equal ids.

use xxhash_rust::xxh3::xxh3_64;

use super::{
    alphabet::Alphabet,
    fsst::Symbols,
    plan::{StrKind, StringPlan},
    shape::Shape,
    strings::Strings,
    templates::Templates,
};
use crate::{
    block::{BadBlock, Codec, common_prefix},
    coding::{Reader, put_bytes, put_varint},
};

/// The newest version; a higher version byte means a newer Frond.
pub(in crate::block) const VERSION: u8 = 3;
/// The version of models with templates but no alphabet.
const VERSION_TEMPLATES: u8 = 2;
/// The version of models with neither.
const VERSION_PLAIN: u8 = 1;
const DICTIONARY: u8 = 1;
const SYMBOLS: u8 = 2;
const SHAPE: u8 = 4;
const TEMPLATES: u8 = 8;
const ALPHABET: u8 = 16;

/// Most words of a dictionary: as many as a block can have rows.
pub(super) const WORDS_MAX: usize = 65_535;
/// Most bytes of a dictionary's words. A leaf is a MiB or two before encoding.
pub(super) const WORDS_BYTES_MAX: usize = 1 << 20;

const BAD: BadBlock = BadBlock("a string model does not fit");

/// What the string columns of a leaf need to be read. Immutable and meant to be shared.
#[derive(Clone, Debug)]
pub struct StringModel {
    bytes: Vec<u8>,
    id: u64,
    dictionary: Option<Strings>,
    symbols: Option<Box<Symbols>>,
    shape: Option<Vec<u8>>,
    templates: Option<Box<Templates>>,
    alphabet: Option<Alphabet>,
}

/// The parts of a model: strictly ascending words, symbols, a shape, encoded templates, an
/// alphabet.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub dictionary: Option<Strings>,
    pub symbols: Option<Symbols>,
    pub shape: Option<Vec<u8>>,
    pub templates: Option<(Vec<u8>, Templates)>,
    pub alphabet: Option<Alphabet>,
}

impl PartialEq for StringModel {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id && self.bytes == other.bytes
    }
}

impl Eq for StringModel {}

impl StringModel {
    /// Creates a model of these parts.
    pub(super) fn new(parts: Parts) -> Self {
        let Parts { dictionary, symbols, shape, templates, alphabet } = parts;
        let words = dictionary.iter().flat_map(|words| (1..words.len()).map(move |at| (words, at)));
        debug_assert!(words.into_iter().all(|(words, at)| words.get(at - 1) < words.get(at)));
        let version = match (&alphabet, &templates) {
            (Some(_), _) => VERSION,
            (None, Some(_)) => VERSION_TEMPLATES,
            (None, None) => VERSION_PLAIN,
        };
        let mut bytes = vec![version, 0];
        let mut part = Vec::new();
        let mut put = |bit: u8, part: &mut Vec<u8>| {
            bytes[1] |= bit;
            put_bytes(&mut bytes, part);
            part.clear();
        };
        if let Some(words) = &dictionary {
            put_words(words, &mut part);
            put(DICTIONARY, &mut part);
        }
        if let Some(symbols) = &symbols {
            symbols.put(&mut part);
            put(SYMBOLS, &mut part);
        }
        if let Some(shape) = &shape {
            part.extend_from_slice(shape);
            put(SHAPE, &mut part);
        }
        if let Some((templates, _)) = &templates {
            part.extend_from_slice(templates);
            put(TEMPLATES, &mut part);
        }
        if let Some(alphabet) = &alphabet {
            alphabet.put(&mut part);
            put(ALPHABET, &mut part);
        }
        let id = xxh3_64(&bytes);
        let templates = templates.map(|(_, templates)| Box::new(templates));
        Self { id, bytes, dictionary, symbols: symbols.map(Box::new), shape, templates, alphabet }
    }

    /// Decodes a model and checks all of it.
    pub fn parse(bytes: &[u8]) -> Result<Self, BadBlock> {
        let mut reader = Reader::new(bytes);
        let known = match reader.u8() {
            Some(VERSION_PLAIN) => DICTIONARY | SYMBOLS | SHAPE,
            Some(VERSION_TEMPLATES) => DICTIONARY | SYMBOLS | SHAPE | TEMPLATES,
            Some(VERSION) => DICTIONARY | SYMBOLS | SHAPE | TEMPLATES | ALPHABET,
            _ => return Err(BadBlock("a string model of an unknown version")),
        };
        let parts = reader.u8().filter(|parts| parts & !known == 0);
        let parts = parts.ok_or(BadBlock("a string model with an unknown part"))?;
        let mut part = |bit: u8| -> Result<Option<&[u8]>, BadBlock> {
            if parts & bit == 0 { Ok(None) } else { reader.bytes().map(Some).ok_or(BAD) }
        };
        let dictionary = part(DICTIONARY)?.map(parse_words).transpose()?;
        let symbols = part(SYMBOLS)?.map(Symbols::parse).transpose()?.map(Box::new);
        let shape = part(SHAPE)?.map(<[u8]>::to_vec);
        let templates = part(TEMPLATES)?.map(Templates::parse).transpose()?.map(Box::new);
        let alphabet = part(ALPHABET)?.map(Alphabet::parse).transpose()?;
        if let Some(shape) = &shape {
            let mut reader = Reader::new(shape);
            Shape::parse(&mut reader)?.check()?;
            if !reader.rest().is_empty() {
                return Err(BAD);
            }
        }
        if !reader.rest().is_empty() {
            return Err(BAD);
        }
        Ok(Self {
            bytes: bytes.to_vec(),
            id: xxh3_64(bytes),
            dictionary,
            symbols,
            shape,
            templates,
            alphabet,
        })
    }

    /// True if it has templates.
    pub fn has_templates(&self) -> bool {
        self.templates.is_some()
    }

    /// True if it has an alphabet.
    pub fn has_alphabet(&self) -> bool {
        self.alphabet.is_some()
    }

    /// The bytes, as [`parse`](StringModel::parse) takes them.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Memory that it holds.
    pub fn memory_bytes(&self) -> usize {
        let words =
            self.dictionary.as_ref().map_or(0, |words| words.bytes().len() + 4 * words.len());
        let symbols = self.symbols.as_ref().map_or(0, |_| size_of::<Symbols>());
        let shape = self.shape.as_ref().map_or(0, Vec::len);
        let templates = self.templates.as_ref().map_or(0, |templates| templates.memory_bytes());
        let alphabet = self.alphabet.as_ref().map_or(0, Alphabet::memory_bytes);
        size_of::<Self>() + self.bytes.len() + words + symbols + shape + templates + alphabet
    }

    /// The plans that it serves, for a size class with this codec.
    pub fn plans(&self, codec: Codec) -> impl Iterator<Item = StringPlan> + use<> {
        let plan = |is: bool, kind, codec| is.then_some(StringPlan { kind, codec });
        let symbols = self.symbols.is_some();
        let coded = symbols && codec != Codec::Raw;
        let plans = [
            plan(self.dictionary.is_some(), StrKind::ModelDictionary, Codec::Raw),
            plan(self.shape.is_some(), StrKind::ModelShape, Codec::Raw),
            plan(self.templates.is_some(), StrKind::Templates, Codec::Raw),
            plan(self.alphabet.is_some(), StrKind::Alphabet, Codec::Raw),
            plan(symbols, StrKind::Symbols, Codec::Raw),
            plan(coded, StrKind::Symbols, codec),
        ];
        plans.into_iter().flatten()
    }

    #[inline]
    pub(super) fn templates(&self) -> Option<&Templates> {
        self.templates.as_deref()
    }

    #[inline]
    pub(super) fn alphabet(&self) -> Option<&Alphabet> {
        self.alphabet.as_ref()
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    #[inline]
    pub(super) fn dictionary(&self) -> Option<&Strings> {
        self.dictionary.as_ref()
    }

    #[inline]
    pub(super) fn symbols(&self) -> Option<&Symbols> {
        self.symbols.as_deref()
    }

    #[inline]
    pub(super) fn shape(&self) -> Option<Shape<'_>> {
        Shape::parse(&mut Reader::new(self.shape.as_deref()?)).ok()
    }
}

fn put_words(words: &Strings, out: &mut Vec<u8>) {
    put_varint(out, words.len() as u64);
    let mut last: &[u8] = &[];
    for word in words.iter() {
        let shared = common_prefix(last, word);
        put_varint(out, shared as u64);
        put_bytes(out, &word[shared..]);
        last = word;
    }
}

fn parse_words(bytes: &[u8]) -> Result<Strings, BadBlock> {
    let mut reader = Reader::new(bytes);
    let count = reader.count(2).filter(|count| *count <= WORDS_MAX).ok_or(BAD)?;
    let mut words = Strings::new();
    let mut word = Vec::new();
    for index in 0..count {
        let shared = reader.varint().ok_or(BAD)?;
        let suffix = reader.bytes().ok_or(BAD)?;
        if shared > word.len() as u64 || words.bytes().len() + word.len() > WORDS_BYTES_MAX {
            return Err(BAD);
        }
        word.truncate(shared as usize);
        word.extend_from_slice(suffix);
        if index > 0 && words.get(index - 1) >= &word[..] {
            return Err(BadBlock("a dictionary does not ascend"));
        }
        words.push(&word);
    }
    if !reader.rest().is_empty() || words.bytes().len() > WORDS_BYTES_MAX {
        return Err(BAD);
    }
    Ok(words)
}
