//! The writer of a run's current block, for each format of runs.

use super::{
    dictionaries::UnderDictionary,
    row_block_writer::{EncodingHint, Ended, RowBlockWriter},
    schema::{Beginning, RowSchema, RunOutcome},
};
use crate::{
    block::{
        Codec, ColumnarFormat, Dictionary, Format, Packing, Pushed,
        columnar::{ChunkCounts, ColumnarBuilder, Samples},
    },
    layout::{RowVersions, Standing},
    message::{Kind, Tag},
    sync::Arc,
};

/// A block that rows are pushed into.
#[derive(Debug)]
pub(super) enum BlockWriter {
    Row(RowBlockWriter),
    /// A columnar run without a block: how to encode it may still be learned from the previous run.
    Unstarted(Unstarted),
    Columnar(Box<ColumnarBlockWriter>),
}

/// A columnar run that has no block yet.
#[derive(Debug)]
pub(super) struct Unstarted {
    schema: Arc<RowSchema>,
    codec: Codec,
    /// The format of runs whose blocks it may carry.
    base: Option<Format>,
}

/// An open columnar block.
#[derive(Debug)]
pub(super) struct ColumnarBlockWriter {
    schema: Arc<RowSchema>,
    format: Arc<ColumnarFormat>,
    builder: ColumnarBuilder,
    /// How rows of older layout versions are mapped, if there are any; and a buffer for a mapped
    /// row.
    older: Option<Arc<RowVersions>>,
    mapped: Vec<u8>,
    codec: Codec,
    /// True if some column of the last block used the codec.
    coded: bool,
    /// Length of a row, as far as it is known.
    row_bytes: u64,
    /// Number of blocks so far; and the training samples, if any are kept.
    blocks: usize,
    samples: Option<Samples>,
}

/// One block in this many is kept as a training sample. With one in sixteen, too many words and
/// templates of a leaf would be missed: docs/design/016-templates.md.
const SAMPLE_BLOCKS: usize = 4;

impl BlockWriter {
    /// Creates the open block of a run of row blocks; `hint` is what earlier blocks learned.
    pub fn row(hint: EncodingHint) -> Self {
        Self::Row(RowBlockWriter::new(hint))
    }

    /// Creates the open block of a run of columnar blocks under this codec; the run may carry
    /// blocks of runs of format `base`.
    pub fn columnar(schema: &Arc<RowSchema>, codec: Codec, base: Option<&Format>) -> Self {
        Self::Unstarted(Unstarted { schema: schema.clone(), codec, base: base.cloned() })
    }

    /// Starts the run. To be called before the first row and before the first block that is
    /// carried.
    #[inline]
    pub fn begin(&mut self) {
        if let Self::Unstarted(Unstarted { schema, codec, base }) = self {
            let Beginning { plans, format, row_bytes } = schema.begin(*codec, base.as_ref());
            let coded = plans.use_codec();
            let builder = ColumnarBuilder::new(schema.columns().clone(), *codec, plans);
            let older = schema.versions().filter(|versions| !versions.is_first()).cloned();
            let samples = schema.wants_samples(*codec).then(|| Samples::new(schema.columns()));
            *self = Self::Columnar(Box::new(ColumnarBlockWriter {
                schema: schema.clone(),
                format,
                builder,
                older,
                mapped: Vec::new(),
                codec: *codec,
                coded,
                row_bytes,
                blocks: 0,
                samples,
            }));
        }
    }

    /// The format of the run; for a columnar run, known only once it has started.
    pub fn format(&self) -> Format {
        match self {
            Self::Row(_) | Self::Unstarted(_) => Format::Row,
            Self::Columnar(open) => Format::Columnar(open.format.clone()),
        }
    }

    /// True for a run of row blocks.
    pub fn is_row(&self) -> bool {
        matches!(self, Self::Row(_))
    }

    /// Length of rows at which a block ends, where row blocks end at `block_bytes`. It is twice
    /// that for columnar blocks, since columns take little and work best when they are long. But
    /// under a codec a reader of one string decodes the strings of the whole block, so with a codec
    /// this holds only for few, wide rows.
    pub fn block_bytes(&self, block_bytes: usize) -> usize {
        const FEW: u64 = 64;
        match self {
            Self::Row(_) => block_bytes,
            Self::Columnar(open) if open.coded && open.row_bytes * FEW <= block_bytes as u64 => {
                block_bytes
            }
            Self::Unstarted(_) | Self::Columnar(_) => 2 * block_bytes,
        }
    }

    /// Number of rows so far.
    #[inline]
    pub fn rows(&self) -> usize {
        match self {
            Self::Row(open) => open.builder.rows(),
            Self::Unstarted(_) => 0,
            Self::Columnar(open) => open.builder.rows(),
        }
    }

    /// Length of the rows, as the index would count them; 0 if there are none.
    #[inline]
    pub fn row_bytes(&self) -> usize {
        match self {
            Self::Row(open) if open.builder.rows() == 0 => 0,
            Self::Row(open) => open.builder.raw_bytes(),
            Self::Unstarted(_) => 0,
            Self::Columnar(open) => open.builder.raw_bytes(),
        }
    }

    /// The last key pushed.
    pub fn last_key(&self) -> &[u8] {
        match self {
            Self::Row(open) => open.builder.last_key(),
            Self::Unstarted(_) => &[],
            Self::Columnar(open) => open.builder.last_key(),
        }
    }

    /// Appends a row, as the builders do.
    #[inline]
    pub fn push(&mut self, key: &[u8], tag: Tag, payload: &[u8], bytes_max: usize) -> Pushed {
        match self {
            Self::Row(open) => open.builder.push(key, tag, payload, bytes_max),
            Self::Unstarted(_) => unreachable!("a run begins before its first row"),
            Self::Columnar(open) => open.push(key, tag, payload, bytes_max),
        }
    }

    /// Encodes the block under `codec`. [`clear`](Self::clear) must be called before the next row.
    pub fn finish<'a>(&'a mut self, codec: Codec, encoded: &'a mut Vec<u8>) -> Ended<'a> {
        match self {
            Self::Row(open) => open.finish(codec, encoded),
            Self::Unstarted(_) => unreachable!("a block that ends has rows"),
            Self::Columnar(open) => {
                let row_bytes = open.builder.raw_bytes();
                let wanted = open.blocks.is_multiple_of(SAMPLE_BLOCKS);
                *open.builder.samples() = open.samples.take_if(|_| wanted);
                let stored = open.builder.finish(open.format.models());
                Ended { stored, read: stored, packing: Packing::RAW, row_bytes }
            }
        }
    }

    /// Takes the counts of what codecs made of the blocks finished since the last call.
    pub fn take_chunks(&mut self) -> ChunkCounts {
        match self {
            Self::Row(open) => std::mem::take(&mut open.chunks),
            Self::Unstarted(_) => ChunkCounts::default(),
            Self::Columnar(open) => open.builder.take_chunks(),
        }
    }

    /// The dictionary state of row blocks, if these are row blocks.
    pub fn under(&mut self) -> Option<&mut UnderDictionary> {
        match self {
            Self::Row(open) => Some(&mut open.under),
            Self::Unstarted(_) | Self::Columnar(_) => None,
        }
    }

    /// The dictionary of row blocks, if they have one.
    pub fn dictionary(&self) -> Option<&Arc<Dictionary>> {
        match self {
            Self::Row(open) => open.under.dictionary(),
            Self::Unstarted(_) | Self::Columnar(_) => None,
        }
    }

    /// Encodes a row block without a dictionary.
    pub fn encode_plainly(&mut self, codec: Codec, raw: &[u8], encoded: &mut Vec<u8>) -> Packing {
        match self {
            Self::Row(open) => open.encode_plainly(codec, raw, encoded),
            Self::Unstarted(_) | Self::Columnar(_) => Packing::RAW,
        }
    }

    /// The hint of row blocks; for columnar blocks the plans hold what was learned.
    pub fn hint(&self) -> Option<EncodingHint> {
        match self {
            Self::Row(open) => Some(open.hint),
            Self::Unstarted(_) | Self::Columnar(_) => None,
        }
    }

    /// Forgets the rows.
    pub fn clear(&mut self) {
        match self {
            Self::Row(open) => open.builder.clear(),
            Self::Unstarted(_) => {}
            Self::Columnar(open) => {
                let row_bytes = open.builder.raw_bytes();
                if let Some(mut samples) = open.builder.samples().take() {
                    samples.count(row_bytes);
                    open.samples = Some(samples);
                }
                open.blocks += 1;
                open.builder.clear();
            }
        }
    }

    /// Called when no block follows: passes on what was learned from a run of this many rows, row
    /// bytes and stored bytes.
    pub fn retire(self, rows: u64, row_bytes: u64, bytes: u64) {
        if let Self::Columnar(open) = self {
            let ColumnarBlockWriter { schema, format, builder, codec, samples, .. } = *open;
            let plans = builder.plans();
            schema.learn(codec, RunOutcome { plans, format, samples, rows, row_bytes, bytes });
        }
    }
}

impl ColumnarBlockWriter {
    #[inline]
    fn push(&mut self, key: &[u8], tag: Tag, payload: &[u8], bytes_max: usize) -> Pushed {
        if let Some(older) = &self.older
            && tag.kind() == Kind::Put
            && older.map(payload, &mut self.mapped) == Standing::Mapped
        {
            return self.builder.push(key, tag, &self.mapped, bytes_max);
        }
        self.builder.push(key, tag, payload, bytes_max)
    }
}
