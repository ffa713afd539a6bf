//! The block of a run that is being built, in the format of the run.

use super::{
    dictionaries::UnderDictionary,
    open_opaque::{Ended, Habit, OpenOpaque},
    typing::{Beginning, Lesson, Typing},
};
use crate::{
    block::{
        Codec, Dictionary, Format, Packing, Pushed, TypedFormat,
        typed::{ChunkCounts, Samples, TypedBuilder},
    },
    layout::{RowVersions, Standing},
    message::{Kind, Tag},
    sync::Arc,
};

/// A block that rows are pushed into.
#[derive(Debug)]
pub(super) enum OpenBlock {
    Opaque(OpenOpaque),
    /// Of a run that has not begun: the one before it has yet to teach.
    Waiting(Waiting),
    Typed(Box<OpenTyped>),
}

/// What a typed run will begin with.
#[derive(Debug)]
pub(super) struct Waiting {
    typing: Arc<Typing>,
    codec: Codec,
    /// The format of runs whose blocks it may carry.
    base: Option<Format>,
}

/// A typed one.
#[derive(Debug)]
pub(super) struct OpenTyped {
    typing: Arc<Typing>,
    format: Arc<TypedFormat>,
    builder: TypedBuilder,
    /// By what rows of older versions are mapped, if there are any, and a row that was.
    older: Option<Arc<RowVersions>>,
    mapped: Vec<u8>,
    codec: Codec,
    /// Some column was last under that codec.
    coded: bool,
    /// Length of a row, as far as known.
    row_bytes: u64,
    /// Blocks so far, and what of them is kept to learn from, if anything is.
    blocks: usize,
    samples: Option<Samples>,
}

/// Of so many blocks one is kept to learn from. Of one in sixteen too many words and templates of a leaf are not met:
/// docs/design/016-templates.md.
const SAMPLE_BLOCKS: usize = 4;

impl OpenBlock {
    /// Of a run whose blocks are opaque; those before it left this habit.
    pub fn opaque(habit: Habit) -> Self {
        Self::Opaque(OpenOpaque::new(habit))
    }

    /// Of a run whose blocks are typed, under this codec; it may carry blocks of runs of format `base`.
    pub fn typed(typing: &Arc<Typing>, codec: Codec, base: Option<&Format>) -> Self {
        Self::Waiting(Waiting { typing: typing.clone(), codec, base: base.cloned() })
    }

    /// Comes before the first row and before the first block that is carried.
    #[inline]
    pub fn begin(&mut self) {
        if let Self::Waiting(Waiting { typing, codec, base }) = self {
            let Beginning { plans, format, row_bytes } = typing.begin(*codec, base.as_ref());
            let coded = plans.use_codec();
            let builder = TypedBuilder::new(typing.columns().clone(), *codec, plans);
            let older = typing.versions().filter(|versions| !versions.is_first()).cloned();
            let samples = typing.wants_samples(*codec).then(|| Samples::new(typing.columns()));
            *self = Self::Typed(Box::new(OpenTyped {
                typing: typing.clone(),
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

    /// The format of the run; nothing is known of one that has not begun.
    pub fn format(&self) -> Format {
        match self {
            Self::Opaque(_) | Self::Waiting(_) => Format::Opaque,
            Self::Typed(open) => Format::Typed(open.format.clone()),
        }
    }

    /// Whether it is a run of opaque blocks.
    pub fn is_opaque(&self) -> bool {
        matches!(self, Self::Opaque(_))
    }

    /// How long the rows of a block become where opaque ones end at `block_bytes`: twice as long, for columns
    /// take little, and want to be long; but a codec makes each reader of a string decode those of the whole
    /// block, so that with it only few wide rows are worth it.
    pub fn block_bytes(&self, block_bytes: usize) -> usize {
        const FEW: u64 = 64;
        match self {
            Self::Opaque(_) => block_bytes,
            Self::Typed(open) if open.coded && open.row_bytes * FEW <= block_bytes as u64 => {
                block_bytes
            }
            Self::Waiting(_) | Self::Typed(_) => 2 * block_bytes,
        }
    }

    /// Rows so far.
    #[inline]
    pub fn rows(&self) -> usize {
        match self {
            Self::Opaque(open) => open.builder.rows(),
            Self::Waiting(_) => 0,
            Self::Typed(open) => open.builder.rows(),
        }
    }

    /// Their length, as the index would count them; 0 if there are none.
    #[inline]
    pub fn row_bytes(&self) -> usize {
        match self {
            Self::Opaque(open) if open.builder.rows() == 0 => 0,
            Self::Opaque(open) => open.builder.raw_bytes(),
            Self::Waiting(_) => 0,
            Self::Typed(open) => open.builder.raw_bytes(),
        }
    }

    /// The key pushed last.
    pub fn last_key(&self) -> &[u8] {
        match self {
            Self::Opaque(open) => open.builder.last_key(),
            Self::Waiting(_) => &[],
            Self::Typed(open) => open.builder.last_key(),
        }
    }

    /// Appends a row, as the builders do.
    #[inline]
    pub fn push(&mut self, key: &[u8], tag: Tag, payload: &[u8], bytes_max: usize) -> Pushed {
        match self {
            Self::Opaque(open) => open.builder.push(key, tag, payload, bytes_max),
            Self::Waiting(_) => unreachable!("a run begins before its first row"),
            Self::Typed(open) => open.push(key, tag, payload, bytes_max),
        }
    }

    /// The block as it is stored under `codec`. [`clear`](Self::clear) comes before the next row.
    pub fn finish<'a>(&'a mut self, codec: Codec, encoded: &'a mut Vec<u8>) -> Ended<'a> {
        match self {
            Self::Opaque(open) => open.finish(codec, encoded),
            Self::Waiting(_) => unreachable!("a block that ends has rows"),
            Self::Typed(open) => {
                let row_bytes = open.builder.raw_bytes();
                let wanted = open.blocks.is_multiple_of(SAMPLE_BLOCKS);
                *open.builder.samples() = open.samples.take_if(|_| wanted);
                let stored = open.builder.finish(open.format.models());
                Ended { stored, read: stored, packing: Packing::RAW, row_bytes }
            }
        }
    }

    /// What codecs made of the blocks that were finished since this was last asked.
    pub fn take_chunks(&mut self) -> ChunkCounts {
        match self {
            Self::Opaque(open) => std::mem::take(&mut open.chunks),
            Self::Waiting(_) => ChunkCounts::default(),
            Self::Typed(open) => open.builder.take_chunks(),
        }
    }

    /// What opaque blocks are written under, if these are.
    pub fn under(&mut self) -> Option<&mut UnderDictionary> {
        match self {
            Self::Opaque(open) => Some(&mut open.under),
            Self::Waiting(_) | Self::Typed(_) => None,
        }
    }

    /// The dictionary of opaque blocks, if they have one.
    pub fn dictionary(&self) -> Option<&Arc<Dictionary>> {
        match self {
            Self::Opaque(open) => open.under.dictionary(),
            Self::Waiting(_) | Self::Typed(_) => None,
        }
    }

    /// Encodes an opaque block under no dictionary.
    pub fn encode_plainly(&mut self, codec: Codec, raw: &[u8], encoded: &mut Vec<u8>) -> Packing {
        match self {
            Self::Opaque(open) => open.encode_plainly(codec, raw, encoded),
            Self::Waiting(_) | Self::Typed(_) => Packing::RAW,
        }
    }

    /// The habit of opaque blocks; of typed ones the plans know.
    pub fn habit(&self) -> Option<Habit> {
        match self {
            Self::Opaque(open) => Some(open.habit),
            Self::Waiting(_) | Self::Typed(_) => None,
        }
    }

    /// Forgets the rows.
    pub fn clear(&mut self) {
        match self {
            Self::Opaque(open) => open.builder.clear(),
            Self::Waiting(_) => {}
            Self::Typed(open) => {
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

    /// No block follows: hands on what was learnt from a run of so many rows, which are so long, and take so
    /// many bytes.
    pub fn retire(self, rows: u64, row_bytes: u64, bytes: u64) {
        if let Self::Typed(open) = self {
            let OpenTyped { typing, format, builder, codec, samples, .. } = *open;
            let plans = builder.plans();
            typing.learn(codec, Lesson { plans, format, samples, rows, row_bytes, bytes });
        }
    }
}

impl OpenTyped {
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
