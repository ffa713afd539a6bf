//! The format of a run's blocks: how they are encoded, and what is needed to read them.
//!
//! The blocks of a run are either all row blocks or all columnar. What reading columnar blocks
//! requires, the columns of their rows and the models of these, is stored once in the run, not in
//! each block.
//!
//! ```text
//! format  version u8 | key layout | value layout | models
//! layouts length, then as the catalog keeps them
//! models  raw length | codec u8 | length, bytes: each model: number of its column | length, bytes
//! ```
//!
//! Invariants
//! 1. A format never changes once a run has it.
//! 2. Models take at most [`MODELS_MEMORY_MAX`], both when written and when read.
//!
//! Threads: all.

use std::ops::Range;

use super::{
    BadBlock, Chunks, Codec, DecodeMeter,
    columnar::{self, ColumnSelection, ColumnarBlock, Columns, Models},
    encoding::string::{MODEL_VERSION, StringModel},
    row::{self, Shape},
};
use crate::{
    coding::{Reader, put_bytes, put_varint},
    layout::{DecodeError, Layout},
    message::Tag,
    sync::Arc,
};

const VERSION: u8 = 1;
/// Longest total of the models of a run, as bytes.
const MODELS_BYTES_MAX: u64 = 16 << 20;
/// Most memory that the models of a run take: nothing read from a file may take more, whatever it
/// says.
pub const MODELS_MEMORY_MAX: usize = 16 << 20;

/// How the blocks of a run are encoded.
#[derive(Clone, Debug, Default)]
pub enum Format {
    /// Row blocks: rows in key order, with prefix-compressed keys.
    #[default]
    Row,
    /// Columnar blocks: rows by field.
    Columnar(Arc<ColumnarFormat>),
}

/// What is needed to read columnar blocks.
#[derive(Clone, Debug)]
pub struct ColumnarFormat {
    columns: Arc<Columns>,
    /// String models, by number of column.
    models: Vec<Option<Arc<StringModel>>>,
    /// Notified of decoded chunks.
    meter: Option<Arc<dyn DecodeMeter>>,
}

/// The meter is not compared.
impl PartialEq for ColumnarFormat {
    fn eq(&self, other: &Self) -> bool {
        self.columns == other.columns && self.models == other.models
    }
}

/// A payload that was found, and where it is.
#[derive(Clone, Debug)]
pub enum Payload {
    /// In the block.
    InBlock(Range<usize>),
    /// Assembled from its columns.
    Made(Vec<u8>),
    /// Only the wanted fields.
    Parts(Vec<u8>),
}

impl Format {
    /// True for row blocks.
    pub fn is_row(&self) -> bool {
        matches!(self, Format::Row)
    }

    /// Checks everything about a block before it is used; `rows` and `row_bytes` are what the index
    /// of its run says. What codecs decode of its columns stays in `chunks`, which must be empty.
    pub fn check(
        &self,
        block: &[u8],
        rows: u32,
        row_bytes: u32,
        chunks: &mut Chunks,
    ) -> Result<(), BadBlock> {
        match self {
            Format::Row => {
                let shape = Shape::parse(block)?;
                same(shape.rows(), rows, row_bytes as usize, row_bytes)?;
                row::check(block, &shape)
            }
            Format::Columnar(format) => {
                let block = format.block(block)?;
                same(block.rows(), rows, block.raw_bytes(), row_bytes)?;
                columnar::check_into(&block, chunks)
            }
        }
    }

    /// Returns the message of `key`, if the block has one; of a value that is in columns, only the
    /// wanted fields. `chunks` holds what codecs have decoded of the block before.
    #[inline]
    pub fn find(
        &self,
        block: &[u8],
        key: &[u8],
        selection: &ColumnSelection,
        chunks: &mut Chunks,
    ) -> Result<Option<(Tag, Payload)>, BadBlock> {
        match self {
            Format::Row => {
                let found = row::find(block, &Shape::parse(block)?, key)?;
                Ok(found.map(|(tag, payload)| (tag, Payload::InBlock(payload))))
            }
            Format::Columnar(format) => {
                let mut payload = Vec::new();
                let selection = format.columns.selection(selection);
                let block = format.block(block)?;
                let found = columnar::find_selected(&block, key, selection, chunks, &mut payload)?;
                Ok(found.map(|(tag, in_columns)| match selection {
                    ColumnSelection::All => (tag, Payload::Made(payload)),
                    _ if in_columns => (tag, Payload::Parts(payload)),
                    _ => (tag, Payload::Made(payload)),
                }))
            }
        }
    }

    /// How many rows of a block have keys below `key`.
    pub fn rows_below(&self, block: &[u8], key: &[u8]) -> Result<usize, BadBlock> {
        match self {
            Format::Row => {
                let (shape, mut rows) = (Shape::parse(block)?, row::Rows::default());
                Ok(if rows.seek(block, &shape, key)? { rows.row() } else { shape.rows() })
            }
            Format::Columnar(format) => columnar::rows_below(&format.block(block)?, key),
        }
    }

    /// The minimum check for a block that is not fully checked: whether it has as many rows of that
    /// total length as the index of its run says.
    pub fn agrees(&self, block: &[u8], rows: u32, row_bytes: u32) -> Result<(), BadBlock> {
        let (found, found_bytes) = match self {
            Format::Row => (Shape::parse(block)?.rows(), row_bytes as usize),
            Format::Columnar(format) => {
                let block = format.block(block)?;
                (block.rows(), block.raw_bytes())
            }
        };
        same(found, rows, found_bytes, row_bytes)
    }

    /// Returns a checked block with no column under a codec, if some column is; what is in `chunks`
    /// is not decoded again.
    pub fn unpack(&self, block: &[u8], chunks: &mut Chunks) -> Option<Box<[u8]>> {
        let Format::Columnar(format) = self else { return None };
        let mut out = Vec::new();
        let columnar = format.block(block).ok()?;
        matches!(columnar::unpack(&columnar, chunks, &mut out), Ok(true))
            .then(|| out.into_boxed_slice())
    }

    /// True if a block of a run of format `from` can be read with this format.
    pub fn reads_blocks_of(&self, from: &Format) -> bool {
        match (self, from) {
            (Format::Row, Format::Row) => true,
            (Format::Columnar(this), Format::Columnar(from)) => this.reads_blocks_of(from),
            _ => false,
        }
    }

    /// Memory that the format holds.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Format::Row => 0,
            Format::Columnar(format) => format.memory_bytes(),
        }
    }
}

fn same(found: usize, rows: u32, found_bytes: usize, row_bytes: u32) -> Result<(), BadBlock> {
    if found != rows as usize || found_bytes != row_bytes as usize {
        return Err(BadBlock("it has other rows than its run's index says"));
    }
    Ok(())
}

impl ColumnarFormat {
    /// Creates the format of runs with these columns and models.
    pub fn new(columns: Arc<Columns>, mut models: Vec<Option<Arc<StringModel>>>) -> Self {
        models.truncate(models.iter().rposition(Option::is_some).map_or(0, |last| last + 1));
        Self { columns, models, meter: None }
    }

    /// Makes `meter` be notified of chunks that reading blocks decodes.
    pub fn metered(self, meter: Option<Arc<dyn DecodeMeter>>) -> Self {
        Self { meter, ..self }
    }

    /// True if some column's model has templates.
    pub fn has_templates(&self) -> bool {
        self.models.iter().flatten().any(|model| model.has_templates())
    }

    /// True if some column's model has an alphabet.
    pub fn has_alphabets(&self) -> bool {
        self.models.iter().flatten().any(|model| model.has_alphabet())
    }

    /// True if some column has a model.
    pub fn has_models(&self) -> bool {
        !self.models.is_empty()
    }

    /// Memory that the format holds.
    pub fn memory_bytes(&self) -> usize {
        let models = self.models.iter().flatten().map(|model| model.memory_bytes());
        size_of::<Self>() + self.columns.memory_bytes() + models.sum::<usize>()
    }

    /// The columns.
    pub fn columns(&self) -> &Arc<Columns> {
        &self.columns
    }

    /// The models, by number of column.
    pub fn models(&self) -> &Models {
        &self.models
    }

    /// Parses a block of such a run.
    #[inline]
    pub fn block<'a>(&'a self, block: &'a [u8]) -> Result<ColumnarBlock<'a>, BadBlock> {
        let columnar = ColumnarBlock::parse(block, &self.columns, &self.models)?;
        Ok(columnar.metered(self.meter.as_deref()))
    }

    fn reads_blocks_of(&self, from: &Self) -> bool {
        if std::ptr::eq(self, from) {
            return true;
        }
        // A column of `from` without a model is read without one.
        let same = |(number, model): (usize, &Option<Arc<StringModel>>)| match model {
            None => true,
            Some(model) => self.models.get(number).and_then(Option::as_ref) == Some(model),
        };
        (Arc::ptr_eq(&self.columns, &from.columns) || self.columns == from.columns)
            && from.models.iter().enumerate().all(same)
    }

    /// Appends the format as the footer of a run keeps it.
    pub fn to_disk(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        let mut part = Vec::new();
        let (key, value) = self.columns.layouts();
        for layout in [key, value] {
            part.clear();
            layout.encode(&mut part);
            put_bytes(out, &part);
        }
        part.clear();
        for (number, model) in self.models.iter().enumerate() {
            if let Some(model) = model {
                put_varint(&mut part, number as u64);
                put_bytes(&mut part, model.as_bytes());
            }
        }
        let mut encoded = Vec::new();
        let codec = Codec::Zstd3.encode(&part, &mut encoded);
        put_varint(out, part.len() as u64);
        out.push(codec as u8);
        put_bytes(out, if codec == Codec::Raw { &part } else { &encoded });
    }

    /// Reads what [`to_disk`](Self::to_disk) wrote, which must fill `bytes`.
    pub fn from_disk(bytes: &[u8]) -> Result<Self, DecodeError> {
        let short = || flaw("it is cut short");
        let mut reader = Reader::new(bytes);
        let version = reader.u8().ok_or_else(short)?;
        if let Some(flaw) = DecodeError::version(WHAT, version, VERSION) {
            return Err(flaw);
        }
        let mut layout = || Layout::decode(reader.bytes().ok_or_else(short)?);
        let (key, value) = (layout()?, layout()?);
        let raw_bytes = reader.varint().ok_or_else(short)?;
        let codec = reader.u8().and_then(Codec::from_disk);
        let codec = codec.ok_or_else(|| flaw("an unknown codec of models"))?;
        let encoded = reader.bytes().ok_or_else(short)?;
        if raw_bytes > MODELS_BYTES_MAX || !reader.rest().is_empty() {
            return Err(flaw("models of an impossible length"));
        }
        let mut raw = vec![0; raw_bytes as usize];
        codec.decode(encoded, &mut raw).map_err(|bad| flaw(bad.0))?;
        let columns = Columns::new(&key, &value);
        let models = models_from_disk(&raw, &columns)?;
        Ok(Self::new(Arc::new(columns), models))
    }
}

fn models_from_disk(
    bytes: &[u8],
    columns: &Columns,
) -> Result<Vec<Option<Arc<StringModel>>>, DecodeError> {
    let short = || flaw("its models are cut short");
    let (mut models, mut memory) = (Vec::new(), 0);
    let mut reader = Reader::new(bytes);
    while !reader.rest().is_empty() {
        let number = reader.varint().ok_or_else(short)?;
        let model = reader.bytes().ok_or_else(short)?;
        let version = model.first().copied().ok_or_else(short)?;
        if let Some(flaw) = DecodeError::version("string model", version, MODEL_VERSION) {
            return Err(flaw);
        }
        let model = StringModel::parse(model).map_err(|bad| flaw(bad.0))?;
        if number < models.len() as u64 || number >= columns.count() as u64 {
            return Err(flaw("models of columns that there are not"));
        }
        memory += model.memory_bytes();
        if memory > MODELS_MEMORY_MAX {
            return Err(flaw("models that take more memory than any run's may"));
        }
        models.resize(number as usize, None);
        models.push(Some(Arc::new(model)));
    }
    Ok(models)
}

const WHAT: &str = "run format";

fn flaw(why: &str) -> DecodeError {
    DecodeError::Malformed { what: WHAT, why: why.into() }
}
