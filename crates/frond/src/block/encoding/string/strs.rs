//! Reading a string column: one row, all rows, and searching.
//!
//! ```text
//! column  kind, low 4 bits; codec, high 4 bits | depends on the kind
//! ```

use std::{cmp::Ordering, ops::Range};

use super::{
    super::Ints, alphabet::Lettered, dictionary::Coded, fsst::Fsst, model::StringModel,
    plan::StrKind, prefix::Prefixed, raw, raw::Concatenated, shape::Shape, shape::Shaped,
    strings::Strings, templated::Templated, traits::Apart, traits::StringColumn,
};
use crate::{
    block::{BLOCK_RAW_BYTES_MAX, BadBlock, Codec},
    coding::Reader,
};

const NO_MODEL: BadBlock = BadBlock("a string column's model does not have what it needs");

/// A parsed string column, which borrows its encoded bytes.
#[derive(Clone, Debug)]
pub struct Strs<'a> {
    rows: usize,
    kind: StrKind,
    codec: Codec,
    bytes_used: usize,
    bytes_max: usize,
    body: Body<'a>,
}

#[derive(Clone, Debug)]
enum Body<'a> {
    Raw(Concatenated<'a>),
    Symbols(Fsst<'a>),
    Prefix(Prefixed<'a>),
    Dictionary(Coded<'a>),
    Shape(Shaped<'a>),
    Templates(Templated<'a>),
    Alphabet(Lettered<'a>),
}

/// Evaluates the expression for the column of whichever encoding.
macro_rules! each {
    ($body:expr, $column:ident => $call:expr) => {
        match $body {
            Body::Raw($column) => $call,
            Body::Symbols($column) => $call,
            Body::Prefix($column) => $call,
            Body::Dictionary($column) => $call,
            Body::Shape($column) => $call,
            Body::Templates($column) => $call,
            Body::Alphabet($column) => $call,
        }
    };
}

impl<'a> Strs<'a> {
    /// Parses the column of `rows` rows at the start of `bytes`, of a leaf with this model. Takes a
    /// few nanoseconds, unless the column is compressed: then it is decoded into `chunk`, which is
    /// empty or holds what was decoded of this column before. All strings together have at most
    /// `bytes_max` bytes: neither the chunk nor a list of strings becomes longer, whatever the
    /// column says.
    #[inline]
    pub fn parse(
        bytes: &'a [u8],
        rows: usize,
        model: Option<&'a StringModel>,
        bytes_max: usize,
        chunk: &'a mut Vec<u8>,
    ) -> Result<Self, BadBlock> {
        let mut reader = Reader::new(bytes);
        let (kind, codec) = head(&mut reader)?;
        let at = &mut reader;
        let body = match kind {
            StrKind::Raw => {
                Body::Raw(Concatenated::parse_chunk(at, rows, codec, bytes_max, chunk)?)
            }
            StrKind::Symbols => {
                let symbols = model.and_then(StringModel::symbols).ok_or(NO_MODEL)?;
                let codes = Concatenated::parse_chunk(at, rows, codec, bytes_max, chunk)?;
                Body::Symbols(Fsst { codes, symbols })
            }
            StrKind::Prefix => Body::Prefix(Prefixed::parse(at, rows)?),
            StrKind::Dictionary => Body::Dictionary(Coded::parse_own(at, rows)?),
            StrKind::ModelDictionary => {
                let words = model.and_then(StringModel::dictionary).ok_or(NO_MODEL)?;
                Body::Dictionary(Coded::parse_model(at, rows, words)?)
            }
            StrKind::Shape => {
                let shape = Shape::parse(at)?;
                Body::Shape(Shaped::parse(at, rows, shape)?)
            }
            StrKind::ModelShape => {
                let shape = model.and_then(StringModel::shape).ok_or(NO_MODEL)?;
                Body::Shape(Shaped::parse(at, rows, shape)?)
            }
            StrKind::Templates => {
                let symbols = model.and_then(StringModel::symbols);
                let templates = model.and_then(StringModel::templates).ok_or(NO_MODEL)?;
                Body::Templates(Templated::parse(at, rows, templates, symbols)?)
            }
            StrKind::Alphabet => {
                let alphabet = model.and_then(StringModel::alphabet).ok_or(NO_MODEL)?;
                Body::Alphabet(Lettered::parse(at, rows, alphabet, bytes_max)?)
            }
        };
        let bytes_used = bytes.len() - reader.rest().len();
        Ok(Self { rows, kind, codec, bytes_used, bytes_max, body })
    }

    /// Appends string `row` of the column at the start of `bytes`, if its kind reads one row in
    /// less time than the complete header; else returns false, and appends nothing. (A parsed
    /// column is hundreds of bytes, which are moved several times before the first string is read.)
    #[inline]
    pub fn read(
        bytes: &[u8],
        rows: usize,
        model: Option<&StringModel>,
        row: usize,
        out: &mut Vec<u8>,
    ) -> Result<bool, BadBlock> {
        const WORDS: u8 = StrKind::ModelDictionary as u8;
        const TEMPLATES: u8 = StrKind::Templates as u8;
        const ALPHABET: u8 = StrKind::Alphabet as u8;
        let (Some((&head, rest)), Some(model)) = (bytes.split_first(), model) else {
            return Ok(false);
        };
        match head {
            WORDS if row < rows => {
                let words = model.dictionary().ok_or(NO_MODEL)?;
                let code = Ints::read(rest, rows, row)?;
                let is_word = code < words.len() as u64;
                if is_word {
                    out.extend_from_slice(words.get(code as usize));
                }
                Ok(is_word)
            }
            TEMPLATES => {
                let templates = model.templates().ok_or(NO_MODEL)?;
                let mut reader = Reader::new(rest);
                Templated::parse(&mut reader, rows, templates, model.symbols())?.get(row, out)?;
                Ok(true)
            }
            ALPHABET => {
                let alphabet = model.alphabet().ok_or(NO_MODEL)?;
                let mut reader = Reader::new(rest);
                Lettered::parse(&mut reader, rows, alphabet, BLOCK_RAW_BYTES_MAX)?.get(row, out)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// True if the column at the start of `bytes` is compressed, so that reading it decodes a
    /// chunk.
    #[inline]
    pub fn is_coded(bytes: &[u8]) -> bool {
        bytes.first().is_some_and(|head| head >> 4 != Codec::Raw as u8)
    }

    /// Appends the compressed column at the start of `bytes` in its form without a codec, for a
    /// cache with free space for it. `chunk` is as for [`parse`](Self::parse). Returns the length
    /// of the decoded chunk.
    pub fn unpack(
        bytes: &[u8],
        rows: usize,
        bytes_max: usize,
        chunk: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<usize, BadBlock> {
        let mut reader = Reader::new(bytes);
        let (kind, codec) = head(&mut reader)?;
        out.push(kind as u8);
        raw::unpack(&mut reader, rows, codec, bytes_max, chunk, out)
    }

    /// Length of the column's decoded chunk; 0 if it is not compressed.
    pub fn chunk_bytes(&self) -> usize {
        match &self.body {
            Body::Raw(concatenated) | Body::Symbols(Fsst { codes: concatenated, .. })
                if self.codec != Codec::Raw =>
            {
                concatenated.bytes().len()
            }
            _ => 0,
        }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The kind.
    pub fn kind(&self) -> StrKind {
        self.kind
    }

    /// The codec of its bytes.
    pub fn codec(&self) -> Codec {
        self.codec
    }

    /// Length of the column.
    pub fn bytes_used(&self) -> usize {
        self.bytes_used
    }

    /// Appends string `row` to `out`; on an error `out` may hold a part of it.
    #[inline]
    pub fn get(&self, row: usize, out: &mut Vec<u8>) -> Result<(), BadBlock> {
        each!(&self.body, column => column.get(row, out))
    }

    /// Appends strings `rows`, in order; on an error `out` may hold some of them.
    pub fn decode(&self, rows: Range<usize>, out: &mut Strings) -> Result<(), BadBlock> {
        if rows.end > self.rows {
            return Err(BadBlock("a string column has fewer rows"));
        }
        let bytes_max = out.bytes().len() + self.bytes_max;
        each!(&self.body, column => column.decode(rows, bytes_max, out))
    }

    /// The length of each string, if the encoding guarantees that all have the same: then each can
    /// be written directly into its row ([`decode_apart`](Self::decode_apart)).
    #[inline]
    pub fn even_bytes(&self) -> Option<usize> {
        each!(&self.body, column => column.even_bytes())
    }

    /// Writes strings `rows`, which must be [even](Self::even_bytes), each into its row.
    pub fn decode_apart(&self, rows: Range<usize>, to: &mut Apart<'_>) -> Result<(), BadBlock> {
        each!(&self.body, column => column.decode_apart(rows, to))
    }

    /// Appends all strings.
    pub fn decode_all(&self, out: &mut Strings) -> Result<(), BadBlock> {
        self.decode(0..self.rows, out)
    }

    /// Compares string `row` with `key`. Symbols and templates are decoded for this; all other
    /// kinds compare in place.
    pub fn cmp(&self, row: usize, key: &[u8]) -> Result<Ordering, BadBlock> {
        each!(&self.body, column => column.cmp(row, key))
    }

    /// The first of `rows` that is not below `key`; `rows.end` if all are. Strings must ascend in
    /// `rows`.
    pub fn lower_bound(&self, rows: Range<usize>, key: &[u8]) -> Result<usize, BadBlock> {
        self.has(&rows)?;
        each!(&self.body, column => column.bound(rows, key, false))
    }

    /// Those of `rows` that equal `key`. Strings must ascend in `rows`.
    pub fn equal_range(&self, rows: Range<usize>, key: &[u8]) -> Result<Range<usize>, BadBlock> {
        self.has(&rows)?;
        each!(&self.body, column => column.equal_range(rows, key))
    }

    fn has(&self, rows: &Range<usize>) -> Result<(), BadBlock> {
        if rows.start > rows.end || rows.end > self.rows {
            return Err(BadBlock("a string column has fewer rows"));
        }
        Ok(())
    }

    /// Checks everything that later calls would otherwise find row by row.
    pub fn check(&self) -> Result<(), BadBlock> {
        each!(&self.body, column => column.check(self.bytes_max))
    }
}

#[inline]
fn head(reader: &mut Reader<'_>) -> Result<(StrKind, Codec), BadBlock> {
    let head = reader.u8().ok_or(BadBlock("a string column is empty"))?;
    let kind = StrKind::from_disk(head & 15).ok_or(BadBlock("a string column of unknown kind"))?;
    let codec = Codec::from_disk(head >> 4).ok_or(BadBlock("a string column of unknown codec"))?;
    if codec != Codec::Raw && !kind.takes_codec() {
        return Err(BadBlock("a codec over a string column that takes none"));
    }
    Ok((kind, codec))
}
