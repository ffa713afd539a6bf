//! Training: finds the best plan for a string column, and the model that it needs.
//!
//! Finding it costs several times as much as encoding the column, so it is done on a sample, for
//! one leaf at a time, and kept from leaf to leaf until it misses its expected size. Every
//! candidate really encodes the sample: final sizes are compared, after the codec of the tree's
//! size class.

use std::borrow::Cow;

use super::{
    alphabet::Alphabet,
    encoder::StrEncoder,
    fsst_training,
    model::{Parts, StringModel, WORDS_BYTES_MAX, WORDS_MAX},
    plan::{StrKind, StringPlan},
    shape_training::shape_of,
    strings::Strings,
    template_training::{self, Found},
};
use crate::block::Codec;

/// The simpler form is tried first, and is replaced by one that takes a fiftieth less.
const PLAINER: f64 = 0.98;
/// A form that is assembled from pieces when it is read must be this much smaller than others.
const TEMPLATED: f64 = 0.95;
/// A form in which every read decodes the whole column must take a tenth less than any other.
const CODED: f64 = 0.9;

/// A sample of this many blocks is large: a part of it suffices for evaluation.
const LARGE_SAMPLE: usize = 8;
/// If templates leave fewer bytes of text, symbols for it do not pay.
const SYMBOLS_TEXT_MIN: usize = 2 << 10;

/// The purpose of a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Purpose {
    /// True if the column is searched.
    pub key: bool,
    /// The codec of the tree's size class for string bytes.
    pub codec: Codec,
    /// Number of rows that a model would serve; 0 if there is to be none.
    pub model_rows: usize,
}

/// A plan, and the model that it needs.
#[derive(Clone, Debug)]
pub struct Trained {
    /// The plan.
    pub plan: StringPlan,
    /// The model, if it needs one.
    pub model: Option<StringModel>,
    /// Expected bytes per row, without the model: a leaf that takes a tenth more is worth another
    /// training.
    pub row_bytes: f64,
}

/// Finds the smallest form of a column from which `sample` was taken: the column of one block or of
/// several, each encoded by itself, as they will be written.
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
            // Rows of the leaf outside the sample have words that the dictionary lacks.
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
    if with_model && let Some(alphabet) = Alphabet::train(&all) {
        let model = StringModel::new(Parts { alphabet: Some(alphabet), ..Parts::default() });
        contest.offer(&some, StrKind::Alphabet, direct, Some(&model), 0.0);
    }
    if !purpose.key && with_model {
        // Symbols and templates are evaluated on strings that they were not trained on: they
        // memorize a small sample.
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
    // A form that was trained on a part of the sample is trained again on all of it.
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
    let symbols = Some(fsst_training::train(&all)?);
    Some(StringModel::new(Parts { symbols, ..Parts::default() }))
}

/// Trains templates, and symbols for the text that these leave, if there is enough of it.
fn templates_of(blocks: &[&Strings], rows: usize) -> Option<StringModel> {
    let Found { bytes, templates, texts } = template_training::train(blocks, rows)?;
    let enough = texts.bytes().len() >= SYMBOLS_TEXT_MIN;
    let symbols = if enough { fsst_training::train(&texts) } else { None };
    Some(StringModel::new(Parts {
        symbols,
        templates: Some((bytes, templates)),
        ..Parts::default()
    }))
}

/// The parts of a sample for training and for evaluation.
struct Split<'a> {
    learned: Vec<Cow<'a, Strings>>,
    judged: Vec<Cow<'a, Strings>>,
}

impl<'a> Split<'a> {
    /// A large sample is evaluated on a quarter of it, a small one on half, a single block on every
    /// other string.
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

/// The blocks for evaluating forms that are not trained: all of a small sample.
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

/// The best form so far, and the state for trying others.
struct Contest<'a> {
    trial: Trial<'a>,
    best: Candidate,
}

impl Contest<'_> {
    /// Tries a form, which replaces the best one if it is worth it.
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

    /// True if it does not pay to train a form on the whole sample: the best form is a shape or an
    /// alphabet, as for digits, codes and tokens, and takes no more than this form does after
    /// training on `few`. Repetitions would show there, too.
    fn is_hopeless(
        &mut self,
        judged: &[&Strings],
        kind: StrKind,
        few: impl FnOnce() -> Option<StringModel>,
    ) -> bool {
        let best = self.best.plan.kind;
        if !matches!(best, StrKind::Shape | StrKind::ModelShape | StrKind::Alphabet) {
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
    /// Number of rows to be written.
    rows: usize,
    buffer: Vec<u8>,
}

impl Trial<'_> {
    /// The size of a plan for all rows, extrapolated from some blocks, plus `more`.
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
        // A block may be encoded differently from the plan; a plan that no block follows does not
        // count.
        let cost = if as_planned || plan == StringPlan::RAW { cost } else { f64::INFINITY };
        Candidate { plan, model: model.cloned(), cost, row_bytes }
    }
}

/// Stored size of a model in its leaf, under the codec that is used for models there.
fn stored_bytes(model: &StringModel) -> usize {
    let mut encoded = Vec::new();
    match Codec::Zstd3.encode(model.as_bytes(), &mut encoded) {
        Codec::Raw => model.as_bytes().len(),
        _ => encoded.len(),
    }
}

/// Expectations for rows outside the sample.
struct Unseen {
    /// The share of them that has a word which the sample lacks.
    share: f64,
    /// Bytes that such a row takes.
    bytes: f64,
}

/// The words of a sample, ascending, and how many more are to be expected; `None` if there are too
/// many for a dictionary to pay.
fn words(sample: &[Strings]) -> Option<(Strings, Unseen)> {
    let mut order: Vec<(&[u8], usize)> = Vec::new();
    for (block, strings) in sample.iter().enumerate() {
        order.extend(strings.iter().map(|string| (string, block)));
    }
    order.sort_unstable();
    // Estimates the share of future rows with an unknown word: with several blocks, the share of
    // rows whose word is in no other block; with one, of those whose word occurs once (Good and
    // Turing).
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
    // An exception costs its string, its row number and its end.
    let share = strange as f64 / order.len().max(1) as f64;
    let bytes = strange_bytes as f64 / strange.max(1) as f64 + 4.0;
    Some((words, Unseen { share, bytes }))
}
