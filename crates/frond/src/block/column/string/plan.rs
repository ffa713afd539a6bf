//! What a column is to be written as, and how that is found.
//!
//! Finding it costs as much as writing the column some times over, so it is done on a sample, for a
//! leaf at a time, and kept from leaf to leaf until it misses what it promised. Every candidate writes
//! the sample for good: what is compared are final sizes, after the codec that the tree's class has.

use super::{
    encoder::StrEncoder,
    model::{StringModel, WORDS_BYTES_MAX, WORDS_MAX},
    shape_training::shape_of,
    strings::Strings,
    symbol_training,
};
use crate::block::Codec;

/// How a column is encoded. The numbers are on disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum StrKind {
    /// The bytes and their ends.
    Raw = 0,
    /// Cut by shared prefixes.
    Prefix = 1,
    /// Numbers of words that stand in the column.
    Dictionary = 2,
    /// Numbers of words of the model.
    ModelDictionary = 3,
    /// Digits packed, by a shape that stands in the column.
    Shape = 4,
    /// Digits packed, by the model's shape.
    ModelShape = 5,
    /// Symbols of the model.
    Symbols = 6,
}

impl StrKind {
    /// All of them.
    pub const ALL: [StrKind; 7] = [
        Self::Raw,
        Self::Prefix,
        Self::Dictionary,
        Self::ModelDictionary,
        Self::Shape,
        Self::ModelShape,
        Self::Symbols,
    ];

    /// The kind with this number on disk.
    #[inline]
    pub fn from_disk(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte)).copied()
    }

    /// Whether its bytes may stand under a codec.
    #[inline]
    pub fn takes_codec(self) -> bool {
        matches!(self, Self::Raw | Self::Symbols)
    }

    /// Whether it is read with the model of its leaf.
    pub fn needs_model(self) -> bool {
        matches!(self, Self::ModelDictionary | Self::ModelShape | Self::Symbols)
    }

    /// Whether it may stand in a key: it is compared without being decoded.
    pub fn may_be_key(self) -> bool {
        self != Self::Symbols
    }
}

/// What a column is to be written as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StringPlan {
    /// As what.
    pub kind: StrKind,
    /// Under which codec, where that saves a tenth. `Raw` also says that it was tried in vain.
    pub codec: Codec,
}

impl StringPlan {
    /// As it is.
    pub const RAW: Self = Self { kind: StrKind::Raw, codec: Codec::Raw };
}

/// The plainer form is tried first, and gives way to one that takes a fiftieth less.
const PLAINER: f64 = 0.98;
/// A form of which every read decodes all must take a tenth less than any other.
const CODED: f64 = 0.9;

/// What a plan is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Purpose {
    /// The column is searched.
    pub key: bool,
    /// The codec of the tree's class for string bytes.
    pub codec: Codec,
    /// Rows that a model would serve; 0 if there is to be none.
    pub model_rows: usize,
}

/// A plan, and the model that it needs.
#[derive(Clone, Debug)]
pub struct Trained {
    /// The plan.
    pub plan: StringPlan,
    /// Its model, if it needs one.
    pub model: Option<StringModel>,
    /// What a row is expected to take, without the model: a leaf that takes a tenth more is worth
    /// another training.
    pub row_bytes: f64,
}

/// Finds the smallest form of a column of which `sample` is a part: the column of a block or of some,
/// each by itself, for that is how they will be written.
pub fn train(encoder: &mut StrEncoder, sample: &[Strings], purpose: Purpose) -> Trained {
    let all: Strings = sample.iter().flat_map(Strings::iter).collect();
    let rows = purpose.model_rows.max(all.len());
    let mut trial = Trial { encoder, rows, buffer: Vec::new() };
    let direct = Codec::Raw;
    let mut best = trial.of(sample, StringPlan::RAW, None, 0.0);
    let mut offer = |of: &[Strings], kind, codec, model: Option<&StringModel>, more: f64| {
        let candidate = trial.of(of, StringPlan { kind, codec }, model, more);
        if candidate.cost < best.cost * if codec == direct { PLAINER } else { CODED } {
            best = candidate;
        }
    };
    let with_model = purpose.model_rows > 0;
    offer(sample, StrKind::Prefix, direct, None, 0.0);
    if let Some((words, unseen)) = words(sample) {
        if with_model {
            // Rows of the leaf beyond the sample bring words that the dictionary lacks.
            let strangers = (rows - all.len()) as f64 * unseen.share * unseen.bytes;
            let model = StringModel::new(Some(words), None, None);
            offer(sample, StrKind::ModelDictionary, direct, Some(&model), strangers);
        }
        offer(sample, StrKind::Dictionary, direct, None, 0.0);
    }
    if let Some(shape) = shape_of(&all) {
        if with_model {
            let model = StringModel::new(None, None, Some(shape));
            offer(sample, StrKind::ModelShape, direct, Some(&model), 0.0);
        }
        offer(sample, StrKind::Shape, direct, None, 0.0);
    }
    if !purpose.key {
        // Symbols are judged by strings that they were not found in: 255 of them know a small sample by
        // heart.
        let (found_in, judged) = halves(sample);
        let symbols = if with_model { symbol_training::train(&found_in) } else { None };
        let model = symbols.map(|symbols| StringModel::new(None, Some(symbols), None));
        if model.is_some() {
            offer(&judged, StrKind::Symbols, direct, model.as_ref(), 0.0);
        }
        if purpose.codec != direct {
            if model.is_some() {
                offer(&judged, StrKind::Symbols, purpose.codec, model.as_ref(), 0.0);
            }
            offer(sample, StrKind::Raw, purpose.codec, None, 0.0);
        }
    }
    let Candidate { plan, mut model, cost, row_bytes } = best;
    debug_assert!(cost.is_finite());
    if plan.kind == StrKind::Symbols
        && let Some(symbols) = symbol_training::train(&all)
    {
        model = Some(StringModel::new(None, Some(symbols), None));
    }
    Trained { plan, model, row_bytes }
}

/// One half of a sample to learn from, one to be judged by: every other block, or every other string of
/// a single one.
fn halves(sample: &[Strings]) -> (Strings, Vec<Strings>) {
    if let [block] = sample {
        let half = |first| block.iter().skip(first).step_by(2).collect::<Strings>();
        return (half(0), vec![half(1)]);
    }
    let learned = sample.iter().step_by(2).flat_map(Strings::iter).collect();
    (learned, sample.iter().skip(1).step_by(2).cloned().collect())
}

struct Candidate {
    plan: StringPlan,
    model: Option<StringModel>,
    /// Bytes for all rows, with the model.
    cost: f64,
    row_bytes: f64,
}

struct Trial<'a> {
    encoder: &'a mut StrEncoder,
    /// Rows that are to be written.
    rows: usize,
    buffer: Vec<u8>,
}

impl Trial<'_> {
    /// What a plan takes for all rows, by what it takes for some blocks, `more` included.
    fn of(
        &mut self,
        blocks: &[Strings],
        plan: StringPlan,
        model: Option<&StringModel>,
        more: f64,
    ) -> Candidate {
        let (mut bytes, mut rows, mut as_planned) = (0, 0, false);
        for strings in blocks {
            self.buffer.clear();
            let written = self.encoder.encode(strings, model, plan, &mut self.buffer);
            bytes += written.bytes;
            rows += strings.len();
            as_planned |= written.kind == plan.kind && written.chunk.codec == plan.codec;
        }
        let all_bytes = bytes as f64 * self.rows as f64 / rows.max(1) as f64 + more;
        let row_bytes = all_bytes / self.rows.max(1) as f64;
        let cost = all_bytes + model.map_or(0, |model| model.as_bytes().len()) as f64;
        // A block may come out otherwise; a plan that none keeps is none.
        let cost = if as_planned || plan == StringPlan::RAW { cost } else { f64::INFINITY };
        Candidate { plan, model: model.cloned(), cost, row_bytes }
    }
}

/// What is to be expected of rows outside the sample.
struct Unseen {
    /// How many of them have a word that the sample lacks.
    share: f64,
    /// Bytes that such a row takes.
    bytes: f64,
}

/// The words of a sample, ascending, and how many more are to be expected; `None` if they are too
/// many to be worth a dictionary.
fn words(sample: &[Strings]) -> Option<(Strings, Unseen)> {
    let mut order: Vec<(&[u8], usize)> = Vec::new();
    for (block, strings) in sample.iter().enumerate() {
        order.extend(strings.iter().map(|string| (string, block)));
    }
    order.sort_unstable();
    // Rows like those to come with a word that the dictionary lacks: of several blocks, those whose word
    // the other blocks lack; of one, those that are alone with theirs (Good and Turing).
    let (mut words, mut strange, mut strange_bytes) = (Strings::new(), 0usize, 0usize);
    for alike in order.chunk_by(|a, b| a.0 == b.0) {
        let (Some((word, first)), Some((_, last))) = (alike.first(), alike.last()) else {
            continue;
        };
        words.push(word);
        let is_strange = if sample.len() > 1 { first == last } else { alike.len() == 1 };
        if is_strange {
            strange += alike.len();
            strange_bytes += alike.len() * word.len();
        }
    }
    let few = words.len() <= order.len() - order.len() / 8;
    if !few || words.len() > WORDS_MAX || words.bytes().len() > WORDS_BYTES_MAX {
        return None;
    }
    // A row of exceptions costs its string, its number and its end.
    let share = strange as f64 / order.len().max(1) as f64;
    let bytes = strange_bytes as f64 / strange.max(1) as f64 + 4.0;
    Some((words, Unseen { share, bytes }))
}
