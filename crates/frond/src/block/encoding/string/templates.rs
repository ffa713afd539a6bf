//! Templates: the parts that strings of one format have in common, and the encoding of each slot
//! between them.
//!
//! The parameters of a call, a log line, the query of a URL: the same literals with different
//! numbers, names and GUIDs between them. A template consists of the literals and, for each slot
//! between them (`tokens.rs`), a field: the encoding of what is there. Fields are shared by all
//! templates, so what is learned about `@user=` in one template serves all. The templates of a leaf
//! are part of its model.
//!
//! ```text
//! templates  count | fields | count | templates
//! field      coder, low 4 bits; kind of slot, high 4 bits | what the coder says
//! template   slots u8 | each: literal's length, literal, number of its field |
//!            last literal's length, literal
//! ```
//!
//! Invariants
//! 1. All strings of one template take the same number of bits: a row is found by adding numbers of
//!    bits.
//! 2. A value for which a field has no code is stored as text outside the bits (`templated.rs`), if
//!    its coder has a code for that; otherwise the string has no template.
//! 3. Parsed templates are within their bounds: literals, words and templates, individually and in
//!    total.

use super::{
    super::bits::width_of,
    tokens::{HEX_MAX, SLOTS_MAX, Skeleton, SlotKind, TEXT_BYTES_MAX},
};
use crate::{
    block::BadBlock,
    coding::{Reader, put_bytes, put_varint},
};

/// Forms of a text outside the bits (`templated.rs`), in the low bits of its head.
pub(super) const FORM_BITS: u32 = 2;
pub(super) const FORM_BYTES: u64 = 0;
pub(super) const FORM_SYMBOLS: u64 = 1;
pub(super) const FORM_GUID: u64 = 2;
pub(super) const FORM_GUID_UPPER: u64 = 3;

/// Most templates of a model, and most pieces of all of them.
pub(super) const TEMPLATES_MAX: usize = 1 << 14;
pub(super) const PIECES_MAX: usize = 1 << 16;
/// Most fields, and words of all of them.
pub(super) const FIELDS_MAX: usize = 1 << 12;
pub(super) const WORDS_MAX: usize = 1 << 16;
/// Most bytes of literals and words.
pub(super) const LITERAL_BYTES_MAX: usize = 1 << 20;
/// Widest code of a number, and most digits of a number of fixed length.
pub(super) const NUMBER_BITS_MAX: u32 = 56;
pub(super) const PADDED_DIGITS_MAX: usize = 16;
/// Literals and words are read in pieces of this many bytes; the last one is followed by padding.
pub(super) const PIECE_BYTES: usize = 16;

const BAD: BadBlock = BadBlock("templates do not fit");

/// The encoding of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Field {
    /// A number without leading zeros; all ones mean that the text is stored elsewhere.
    Number { bits: u8 },
    /// A number of this many digits; all ones mean that the text is stored elsewhere.
    Padded { digits: u8, bits: u8 },
    /// This many digits, three in ten bits.
    Digits { count: u8 },
    /// This many hexadecimal digits.
    Hex { count: u8, letter: u8 },
    /// 32 hexadecimal digits.
    Guid { letter: u8 },
    /// One of these words; the number after the last means that the text is stored elsewhere.
    Words { first: u32, count: u32, bits: u8 },
    /// Always this word.
    One { word: u32 },
    /// The text is stored elsewhere.
    Text,
    /// No slot: the template ends.
    End,
}

const NUMBER: u8 = 0;
const PADDED: u8 = 1;
const DIGITS: u8 = 2;
const HEX_LOWER: u8 = 3;
const HEX_UPPER: u8 = 4;
const GUID_LOWER: u8 = 5;
const GUID_UPPER: u8 = 6;
const WORDS: u8 = 7;
const ONE: u8 = 8;
const TEXT: u8 = 9;

/// A field as found by training.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum FieldSpec<'a> {
    Number { bits: u8 },
    Padded { digits: u8, bits: u8 },
    Digits { count: u8 },
    Hex { count: u8, upper: bool },
    Guid { upper: bool },
    Words(Vec<&'a [u8]>),
    One(&'a [u8]),
    Text,
}

impl Field {
    /// Number of bits of the field.
    #[inline]
    pub fn bits(&self) -> usize {
        match *self {
            Field::Number { bits } | Field::Padded { bits, .. } | Field::Words { bits, .. } => {
                bits.into()
            }
            Field::Digits { count } => {
                let count = usize::from(count);
                count / 3 * 10 + [0, 4, 7][count % 3]
            }
            Field::Hex { count, .. } => 4 * usize::from(count),
            Field::Guid { .. } => 128,
            Field::One { .. } | Field::Text | Field::End => 0,
        }
    }
}

/// A range of the bytes of all literals and words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub start: u32,
    pub len: u16,
}

/// A literal and the slot after it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub literal: Span,
    pub kind: SlotKind,
    pub field: Field,
}

#[derive(Clone, Copy, Debug)]
struct Template {
    first: u32,
    /// Number of its pieces, one more than its slots.
    pieces: u16,
    bits: u32,
}

/// The templates of a model.
#[derive(Clone, Debug)]
pub(super) struct Templates {
    templates: Vec<Template>,
    pieces: Vec<Piece>,
    words: Vec<Span>,
    /// Literals and words, and [`PIECE_BYTES`] of padding.
    bytes: Vec<u8>,
}

/// Appends a field.
pub(super) fn put_field(kind: SlotKind, field: &FieldSpec<'_>, out: &mut Vec<u8>) {
    let (coder, parameters) = match *field {
        FieldSpec::Number { bits } => (NUMBER, vec![bits]),
        FieldSpec::Padded { digits, bits } => (PADDED, vec![digits, bits]),
        FieldSpec::Digits { count } => (DIGITS, vec![count]),
        FieldSpec::Hex { count, upper } => (if upper { HEX_UPPER } else { HEX_LOWER }, vec![count]),
        FieldSpec::Guid { upper } => (if upper { GUID_UPPER } else { GUID_LOWER }, vec![]),
        FieldSpec::Words(ref words) => {
            let mut parameters = Vec::new();
            put_varint(&mut parameters, words.len() as u64);
            words.iter().for_each(|word| put_bytes(&mut parameters, word));
            (WORDS, parameters)
        }
        FieldSpec::One(word) => {
            let mut parameters = Vec::new();
            put_bytes(&mut parameters, word);
            (ONE, parameters)
        }
        FieldSpec::Text => (TEXT, vec![]),
    };
    out.push(coder | (kind as u8) << 4);
    out.extend(parameters);
}

/// Appends a template: literals with the number of the field after each, and the last literal.
pub(super) fn put_template<'a>(
    slots: impl ExactSizeIterator<Item = (&'a [u8], usize)>,
    last: &[u8],
    out: &mut Vec<u8>,
) {
    out.push(slots.len() as u8);
    for (literal, field) in slots {
        put_bytes(out, literal);
        put_varint(out, field as u64);
    }
    put_bytes(out, last);
}

impl Templates {
    /// Decodes templates, and checks everything.
    pub fn parse(bytes: &[u8]) -> Result<Self, BadBlock> {
        let mut reader = Reader::new(bytes);
        let mut templates = Self {
            templates: Vec::new(),
            pieces: Vec::new(),
            words: Vec::new(),
            bytes: Vec::new(),
        };
        let fields = reader.count(1).filter(|count| *count <= FIELDS_MAX).ok_or(BAD)?;
        let fields = (0..fields).map(|_| templates.parse_field(&mut reader));
        let fields: Vec<_> = fields.collect::<Result<_, _>>()?;
        let count = reader.count(2).filter(|count| *count <= TEMPLATES_MAX).ok_or(BAD)?;
        for _ in 0..count {
            templates.parse_template(&fields, &mut reader)?;
        }
        if !reader.rest().is_empty() {
            return Err(BAD);
        }
        templates.bytes.extend([0; PIECE_BYTES]);
        Ok(templates)
    }

    fn parse_field(&mut self, reader: &mut Reader<'_>) -> Result<(SlotKind, Field), BadBlock> {
        let head = reader.u8().ok_or(BAD)?;
        let kind = SlotKind::from_disk(head >> 4).ok_or(BAD)?;
        let mut number = |most: usize| {
            reader.u8().filter(|&number| (1..=most).contains(&number.into())).ok_or(BAD)
        };
        let letter = |upper| if upper { b'A' } else { b'a' };
        let field = match head & 15 {
            NUMBER => Field::Number { bits: number(NUMBER_BITS_MAX as usize)? },
            PADDED => {
                let digits = number(PADDED_DIGITS_MAX)?;
                let widest = width_of(10u64.pow(digits.into()) - 1) as usize;
                Field::Padded { digits, bits: number(widest)? }
            }
            DIGITS => Field::Digits { count: number(u8::MAX.into())? },
            coder @ (HEX_LOWER | HEX_UPPER) => {
                Field::Hex { count: number(HEX_MAX)?, letter: letter(coder == HEX_UPPER) }
            }
            coder @ (GUID_LOWER | GUID_UPPER) => {
                Field::Guid { letter: letter(coder == GUID_UPPER) }
            }
            WORDS => {
                let count = reader.count(1).filter(|&count| count > 0).ok_or(BAD)?;
                let first = self.words.len() as u32;
                for _ in 0..count {
                    self.parse_word(reader)?;
                }
                let bits = width_of(count as u64) as u8;
                Field::Words { first, count: count as u32, bits }
            }
            ONE => {
                let word = self.words.len() as u32;
                self.parse_word(reader)?;
                Field::One { word }
            }
            TEXT => Field::Text,
            _ => return Err(BAD),
        };
        Ok((kind, field))
    }

    fn parse_word(&mut self, reader: &mut Reader<'_>) -> Result<(), BadBlock> {
        let word = self.parse_bytes(reader)?;
        if self.words.len() == WORDS_MAX {
            return Err(BAD);
        }
        self.words.push(word);
        Ok(())
    }

    fn parse_bytes(&mut self, reader: &mut Reader<'_>) -> Result<Span, BadBlock> {
        let bytes = reader.bytes().filter(|bytes| bytes.len() <= TEXT_BYTES_MAX).ok_or(BAD)?;
        let start = self.bytes.len();
        if start + bytes.len() > LITERAL_BYTES_MAX {
            return Err(BAD);
        }
        self.bytes.extend_from_slice(bytes);
        Ok(Span { start: start as u32, len: bytes.len() as u16 })
    }

    fn parse_template(
        &mut self,
        fields: &[(SlotKind, Field)],
        reader: &mut Reader<'_>,
    ) -> Result<(), BadBlock> {
        let slots = usize::from(reader.u8().ok_or(BAD)?);
        let first = self.pieces.len();
        if slots > SLOTS_MAX || first + slots + 1 > PIECES_MAX {
            return Err(BAD);
        }
        let (mut bits, mut len) = (0, 0);
        for slot in 0..=slots {
            let literal = self.parse_bytes(reader)?;
            len += usize::from(literal.len);
            let (kind, field) = if slot < slots {
                let number = reader.varint().and_then(|number| usize::try_from(number).ok());
                *number.and_then(|number| fields.get(number)).ok_or(BAD)?
            } else {
                (SlotKind::Word, Field::End)
            };
            bits += field.bits() as u32;
            self.pieces.push(Piece { literal, kind, field });
        }
        if len > TEXT_BYTES_MAX {
            return Err(BAD);
        }
        self.templates.push(Template { first: first as u32, pieces: slots as u16 + 1, bits });
        Ok(())
    }

    /// Number of templates.
    #[inline]
    pub fn len(&self) -> usize {
        self.templates.len()
    }

    /// The pieces of template `number`; none if there is no such template.
    #[inline]
    pub fn pieces(&self, number: usize) -> &[Piece] {
        let Some(template) = self.templates.get(number) else { return &[] };
        let first = template.first as usize;
        self.pieces.get(first..first + usize::from(template.pieces)).unwrap_or_default()
    }

    /// Bits of a string of template `number`; 0 if there is no such template.
    #[inline]
    pub fn bits(&self, number: u64) -> usize {
        let template = usize::try_from(number).ok().and_then(|number| self.templates.get(number));
        template.map_or(0, |template| template.bits as usize)
    }

    /// The bytes of all literals and words, and padding: spans refer to these.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The text of a span.
    #[inline]
    pub fn text(&self, span: Span) -> &[u8] {
        let start = span.start as usize;
        self.bytes.get(start..start + usize::from(span.len)).unwrap_or_default()
    }

    /// The span of word `number`.
    #[inline]
    pub fn word(&self, number: usize) -> Option<Span> {
        self.words.get(number).copied()
    }

    /// Number of words.
    pub fn words(&self) -> usize {
        self.words.len()
    }

    /// The first word and the number of words of each field that has some.
    pub fn fields_with_words(&self) -> impl Iterator<Item = (u32, u32)> {
        let mut fields: Vec<_> =
            self.pieces.iter().filter_map(|piece| words_of(piece.field)).collect();
        fields.sort_unstable();
        fields.dedup();
        fields.into_iter()
    }

    /// The hash of the tokens of strings of template `number`.
    pub fn hash(&self, number: usize) -> u64 {
        let mut hash = Skeleton::default();
        for piece in self.pieces(number) {
            hash.literal(self.text(piece.literal));
            if piece.field != Field::End {
                hash.slot(piece.kind);
            }
        }
        hash.0
    }

    /// Memory that they hold.
    pub fn memory_bytes(&self) -> usize {
        self.templates.len() * size_of::<Template>()
            + self.pieces.len() * size_of::<Piece>()
            + self.words.len() * size_of::<Span>()
            + self.bytes.len()
    }
}

fn words_of(field: Field) -> Option<(u32, u32)> {
    match field {
        Field::Words { first, count, .. } => Some((first, count)),
        _ => None,
    }
}
