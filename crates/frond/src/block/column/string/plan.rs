//! What a column is to be written as, and how that is found.
//!
//! Finding it costs as much as writing the column some times over, so it is done on a sample, for a
//! leaf at a time, and kept from leaf to leaf until it misses what it promised. Every candidate writes
//! the sample for good: what is compared are final sizes, after the codec that the tree's class has.

use std::borrow::Cow;

use super::{
    encoder::StrEncoder,
    model::{Parts, StringModel, WORDS_BYTES_MAX, WORDS_MAX},
    shape_training::shape_of,
    strings::Strings,
    symbol_training,
    template_training::{self, Found},
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
    /// Slots packed, of the model's templates.
    Templates = 7,
}

impl StrKind {
    /// All of them.
    pub const ALL: [StrKind; 8] = [
        Self::Raw,
        Self::Prefix,
        Self::Dictionary,
        Self::ModelDictionary,
        Self::Shape,
        Self::ModelShape,
        Self::Symbols,
        Self::Templates,
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
        matches!(self, Self::ModelDictionary | Self::ModelShape | Self::Symbols | Self::Templates)
    }

    /// Whether it may stand in a key: it is compared without being decoded.
    pub fn may_be_key(self) -> bool {
        !matches!(self, Self::Symbols | Self::Templates)
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
/// One that is put together of pieces when it is read has to take so much less than those that are not.
const TEMPLATED: f64 = 0.95;
/// A form of which every read decodes all must take a tenth less than any other.
const CODED: f64 = 0.9;

/// A sample of so many blocks is large: less of it does to judge by.
const LARGE_SAMPLE: usize = 8;
/// Fewer bytes beside templates are not worth symbols.
const SYMBOLS_TEXT_MIN: usize = 2 << 10;

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
    let all = match sample {
        [block] => Cow::Borrowed(block),
        blocks => Cow::Owned(blocks.iter().flat_map(Strings::iter).collect()),
    };
    let rows = purpose.model_rows.max(all.len());
    let mut trial = Trial { encoder, rows, buffer: Vec::new() };
    let direct = Codec::Raw;
    let some = judges_of_what_learns_nothing(sample);
    let best = trial.of(&some, StringPlan::RAW, None, 0.0);
    let mut contest = Contest { trial, best };
    let with_model = purpose.model_rows > 0;
    contest.offer(&some, StrKind::Prefix, direct, None, 0.0);
    if let Some((words, unseen)) = words(sample) {
        if with_model {
            // Rows of the leaf beyond the sample bring words that the dictionary lacks.
            let strangers = (rows - all.len()) as f64 * unseen.share * unseen.bytes;
            let model = StringModel::new(Parts { dictionary: Some(words), ..Parts::default() });
            contest.offer(&some, StrKind::ModelDictionary, direct, Some(&model), strangers);
        }
        contest.offer(&some, StrKind::Dictionary, direct, None, 0.0);
    }
    if let Some(shape) = shape_of(&all) {
        if with_model {
            let model = StringModel::new(Parts { shape: Some(shape), ..Parts::default() });
            contest.offer(&some, StrKind::ModelShape, direct, Some(&model), 0.0);
        }
        contest.offer(&some, StrKind::Shape, direct, None, 0.0);
    }
    if !purpose.key && with_model {
        // Symbols and templates are judged by strings that they were not found in: they know a small sample by
        // heart.
        let Split { learned, judged } = Split::of(sample);
        let [learned, judged] = [&learned, &judged]
            .map(|blocks| blocks.iter().map(AsRef::as_ref).collect::<Vec<&Strings>>());
        let few = &learned[..learned.len().div_ceil(4)];
        let is_hopeless =
            contest.is_hopeless(&judged, StrKind::Templates, || templates_of(few, rows));
        if let Some(model) = (!is_hopeless).then(|| templates_of(&learned, rows)).flatten() {
            contest.offer(&judged, StrKind::Templates, direct, Some(&model), 0.0);
        }
        let is_hopeless = contest.is_hopeless(&judged, StrKind::Symbols, || symbols_of(few));
        if let Some(model) = (!is_hopeless).then(|| symbols_of(&learned)).flatten() {
            contest.offer(&judged, StrKind::Symbols, direct, Some(&model), 0.0);
            if purpose.codec != direct {
                contest.offer(&judged, StrKind::Symbols, purpose.codec, Some(&model), 0.0);
            }
        }
    }
    if !purpose.key && purpose.codec != direct {
        contest.offer(&some, StrKind::Raw, purpose.codec, None, 0.0);
    }
    let Candidate { plan, mut model, cost, row_bytes } = contest.best;
    debug_assert!(cost.is_finite());
    // What was found in a part of the sample is found anew in all of it.
    let sample: Vec<&Strings> = sample.iter().collect();
    let again = match plan.kind {
        StrKind::Symbols => symbols_of(&sample),
        StrKind::Templates => templates_of(&sample, rows),
        _ => None,
    };
    if again.is_some() {
        model = again;
    }
    Trained { plan, model, row_bytes }
}

fn symbols_of(blocks: &[&Strings]) -> Option<StringModel> {
    let all = blocks.iter().flat_map(|block| block.iter()).collect();
    let symbols = Some(symbol_training::train(&all)?);
    Some(StringModel::new(Parts { symbols, ..Parts::default() }))
}

/// Templates, and symbols for what these leave over, if that is more than symbols take.
fn templates_of(blocks: &[&Strings], rows: usize) -> Option<StringModel> {
    let Found { bytes, templates, texts } = template_training::train(blocks, rows)?;
    let enough = texts.bytes().len() >= SYMBOLS_TEXT_MIN;
    let symbols = if enough { symbol_training::train(&texts) } else { None };
    Some(StringModel::new(Parts {
        symbols,
        templates: Some((bytes, templates)),
        ..Parts::default()
    }))
}

/// What of a sample is learnt from, and what that is judged by.
struct Split<'a> {
    learned: Vec<Cow<'a, Strings>>,
    judged: Vec<Cow<'a, Strings>>,
}

impl<'a> Split<'a> {
    /// Of a large sample a quarter is judged by, of a small one half, of a single block every other string.
    fn of(sample: &'a [Strings]) -> Self {
        if let [block] = sample {
            let half = |first| block.iter().skip(first).step_by(2).collect::<Strings>();
            return Self { learned: vec![Cow::Owned(half(0))], judged: vec![Cow::Owned(half(1))] };
        }
        let part = |judges: bool| -> Vec<Cow<'_, Strings>> {
            let blocks = sample.iter().enumerate();
            let blocks = blocks.filter(|(at, _)| is_judge(*at, sample.len()) == judges);
            blocks.map(|(_, block)| Cow::Borrowed(block)).collect()
        };
        Self { learned: part(false), judged: part(true) }
    }
}

fn is_judge(at: usize, blocks: usize) -> bool {
    at % if blocks < LARGE_SAMPLE { 2 } else { 4 } == 1
}

/// The blocks that judge forms which learn nothing: all of a small sample.
fn judges_of_what_learns_nothing(sample: &[Strings]) -> Vec<&Strings> {
    let blocks = sample.iter().enumerate();
    let some = blocks.filter(|(at, _)| sample.len() < LARGE_SAMPLE || is_judge(*at, sample.len()));
    some.map(|(_, block)| block).collect()
}

struct Candidate {
    plan: StringPlan,
    model: Option<StringModel>,
    /// Bytes for all rows, with the model.
    cost: f64,
    row_bytes: f64,
}

/// The best form so far, and what tries others.
struct Contest<'a> {
    trial: Trial<'a>,
    best: Candidate,
}

impl Contest<'_> {
    /// Tries a form, which takes the place of the best one if it is worth it.
    fn offer(
        &mut self,
        blocks: &[&Strings],
        kind: StrKind,
        codec: Codec,
        model: Option<&StringModel>,
        more: f64,
    ) {
        let candidate = self.trial.of(blocks, StringPlan { kind, codec }, model, more);
        let less = match (codec == Codec::Raw, kind) {
            (false, _) => CODED,
            (true, StrKind::Templates) => TEMPLATED,
            (true, _) => PLAINER,
        };
        if candidate.cost < self.best.cost * less {
            self.best = candidate;
        }
    }

    /// Whether a form is not worth learning from all of the sample: the best one is a shape, as digits and codes have, and
    /// takes no more than this one does once it has learnt from `few`. What comes again and again shows there, too.
    fn is_hopeless(
        &mut self,
        judged: &[&Strings],
        kind: StrKind,
        few: impl FnOnce() -> Option<StringModel>,
    ) -> bool {
        if !matches!(self.best.plan.kind, StrKind::Shape | StrKind::ModelShape) {
            return false;
        }
        let plan = StringPlan { kind, codec: Codec::Raw };
        few().is_some_and(|model| {
            self.trial.of(judged, plan, Some(&model), 0.0).row_bytes >= self.best.row_bytes
        })
    }
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
        blocks: &[&Strings],
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
        let cost = all_bytes + model.map_or(0, stored_bytes) as f64;
        // A block may come out otherwise; a plan that none keeps is none.
        let cost = if as_planned || plan == StringPlan::RAW { cost } else { f64::INFINITY };
        Candidate { plan, model: model.cloned(), cost, row_bytes }
    }
}

/// What a model takes in its leaf, under the codec that models are under there.
fn stored_bytes(model: &StringModel) -> usize {
    let mut encoded = Vec::new();
    match Codec::Zstd3.encode(model.as_bytes(), &mut encoded) {
        Codec::Raw => model.as_bytes().len(),
        _ => encoded.len(),
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
