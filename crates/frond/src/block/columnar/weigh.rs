//! The size of each column of a block, and of the same fields in raw rows: shows what an encoding
//! saves.

use super::{
    super::{
        BadBlock, Codec,
        encoding::string::Strings,
        encoding::{IntKind, string::StrKind},
        varint_bytes,
    },
    columns::{Column, Holds},
    difference::Against,
    frame::ColumnarBlock,
    reference,
};

/// The part of the rows that a column holds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ColumnOf {
    /// The kinds of messages.
    Tags,
    /// This field of the keys.
    Key(u16),
    /// Keys that do not fit their layout.
    WholeKey,
    /// This field of the values.
    Value(u16),
    /// Payloads that are not values, or do not fit their layout.
    Others,
}

/// The encoding of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Encoding {
    /// Integers, possibly as differences.
    Ints(IntKind, Option<Against>),
    /// Strings, their codec, and whether they refer to other columns.
    Strings(StrKind, Codec, bool),
}

/// One column of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ColumnWeight {
    /// The part of the rows that it holds.
    pub of: ColumnOf,
    /// The encoding.
    pub encoding: Encoding,
    /// Bytes of the fields in raw rows, including lengths in front of them.
    pub row_bytes: usize,
    /// Bytes of the column.
    pub bytes: usize,
}

impl Encoding {
    /// The name in docs/format.md.
    pub fn name(self) -> &'static str {
        match self {
            Encoding::Ints(_, Some(Against::Column)) => "difference",
            Encoding::Ints(_, Some(Against::Line)) => "line",
            Encoding::Ints(kind, None) => match kind {
                IntKind::Constant => "constant",
                IntKind::BitPacked => "bit-packed",
                IntKind::Linear => "linear",
                IntKind::SingleOutlier => "single outlier",
                IntKind::Pfor => "pfor",
                IntKind::Dictionary => "dictionary",
                IntKind::Rle => "rle",
                IntKind::Delta => "delta",
                IntKind::Decimal => "decimal",
                IntKind::Scaled => "scaled",
            },
            Encoding::Strings(_, Codec::Raw, true) => "reference",
            Encoding::Strings(_, Codec::Lz4, true) => "reference, lz4",
            Encoding::Strings(_, _, true) => "reference, zstd",
            Encoding::Strings(kind, codec, false) => match (kind, codec) {
                (StrKind::Raw, Codec::Raw) => "raw",
                (StrKind::Raw, Codec::Lz4) => "lz4",
                (StrKind::Raw, _) => "zstd",
                (StrKind::Prefix, _) => "prefix",
                (StrKind::Dictionary, _) => "dictionary",
                (StrKind::ModelDictionary, _) => "model dictionary",
                (StrKind::Shape, _) => "shape",
                (StrKind::ModelShape, _) => "model shape",
                (StrKind::Templates, _) => "templates",
                (StrKind::Alphabet, _) => "alphabet",
                (StrKind::Symbols, Codec::Raw) => "fsst",
                (StrKind::Symbols, Codec::Lz4) => "fsst, lz4",
                (StrKind::Symbols, _) => "fsst, zstd",
            },
        }
    }
}

/// Passes every column of a block to `show`, tags first. Decodes all strings.
pub fn weigh(
    columnar: &ColumnarBlock<'_>,
    mut show: impl FnMut(ColumnWeight),
) -> Result<(), BadBlock> {
    let rows = columnar.rows();
    let mut tags = vec![0; rows];
    let ints = columnar.words(0)?;
    ints.decode(0, &mut tags);
    let (encoding, bytes) = (Encoding::Ints(ints.kind(), ints.against()), ints.bytes_used());
    show(ColumnWeight { of: ColumnOf::Tags, encoding, row_bytes: rows, bytes });
    let mut in_columns = Vec::with_capacity(rows);
    for number in tags {
        in_columns.push(columnar.tag_of(number)?.1);
    }
    let all = vec![true; rows];
    for (index, column) in columnar.key_side().columns.iter().enumerate() {
        let of = match columnar.has_whole_keys() {
            true => ColumnOf::WholeKey,
            false => ColumnOf::Key(column.part),
        };
        show(weigh_column(columnar, columnar.key_at(index), column, of, &all)?);
    }
    for (index, column) in columnar.columns().value.columns.iter().enumerate() {
        if let Some(at) = columnar.value_at(index) {
            show(weigh_column(columnar, at, column, ColumnOf::Value(column.part), &in_columns)?);
        }
    }
    if let Some(at) = columnar.others_at() {
        let (encoding, row_bytes, bytes) = weigh_strings(columnar, at, &all, false)?;
        show(ColumnWeight { of: ColumnOf::Others, encoding, row_bytes, bytes });
    }
    Ok(())
}

fn weigh_column(
    columnar: &ColumnarBlock<'_>,
    at: usize,
    column: &Column,
    of: ColumnOf,
    counts: &[bool],
) -> Result<ColumnWeight, BadBlock> {
    let (encoding, row_bytes, bytes) = match column.holds {
        Holds::Word(width, _) => {
            let ints = columnar.words(at)?;
            let rows = counts.iter().filter(|&&counts| counts).count();
            (
                Encoding::Ints(ints.kind(), ints.against()),
                rows * usize::from(width),
                ints.bytes_used(),
            )
        }
        holds => weigh_strings(columnar, at, counts, holds == Holds::Content)?,
    };
    Ok(ColumnWeight { of, encoding, row_bytes, bytes })
}

fn weigh_strings(
    columnar: &ColumnarBlock<'_>,
    at: usize,
    counts: &[bool],
    with_length: bool,
) -> Result<(Encoding, usize, usize), BadBlock> {
    let mut chunk = Vec::new();
    let texts = columnar.texts(at, &mut chunk)?;
    let mut strings = Strings::new();
    let mut scratch = reference::Scratch::default();
    texts.decode(columnar, 0..columnar.rows(), &mut scratch, &mut strings)?;
    let lengths = strings.iter().zip(counts).filter(|(_, counts)| **counts).map(|(string, _)| {
        let length = if with_length { varint_bytes(string.len() as u64) } else { 0 };
        length + string.len()
    });
    let encoding =
        Encoding::Strings(texts.strs().kind(), texts.strs().codec(), texts.has_references());
    Ok((encoding, lengths.sum(), texts.bytes_used()))
}
