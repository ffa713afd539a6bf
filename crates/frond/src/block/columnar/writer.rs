//! Choosing the encoding of each column, from block to block.
//!
//! The best encoding for a column of one block is usually the best for the next, too. So it is used
//! again. When it takes a tenth more or less per row than it ever did (a *miss*), all encodings are
//! measured again. This also happens after a number of blocks, since rows may change without
//! changing their size. Measuring strings takes ten times as long as encoding them: a string column
//! that misses again and again is measured every eighth time, and the longer an encoding stays the
//! best, the more blocks pass before the next measurement.

use super::{
    super::{
        Codec,
        encoding::{
            Chosen, Float, IntEncoder, IntKind,
            string::{
                Purpose, StrEncoder, StrKind, StringModel, StringPlan, Strings, Trained, Written,
                train,
            },
        },
    },
    columns::Columns,
    difference::{self, Earlier},
    line::Line,
    reference::{self, Candidate},
    samples::Samples,
};

/// A difference of fewer bytes per block does not count as a miss: for words, and for strings.
const WORD_SLACK: usize = 8;
const STRING_SLACK: usize = 64;
/// Number of blocks after which strings that miss are measured again.
const STRING_BLOCKS: u16 = 8;
/// An encoding must save 1/50 to replace another: one that wins by less in one block often loses in
/// the next.
const OTHER: usize = 50;
/// Number of blocks after which a column is measured whether it misses or not: for a new encoding,
/// and at most, for words and for others. Words are cheap to measure.
const BLOCKS_NEW: u16 = 32;
const WORD_BLOCKS_MAX: u16 = 64;
const BLOCKS_MAX: u16 = 512;

/// How the columns of a tree's blocks are encoded, as far as it is known. The last plans of a run
/// are the best guess for the start of the next.
#[derive(Clone, Debug)]
pub struct Plans {
    /// By number of column: those of the key, of the value, and other payloads; then tags; then
    /// keys that do not fit.
    words: Vec<Kept<WordForm>>,
    strings: Vec<Kept<StringPlan>>,
    /// What each string column refers to.
    references: Vec<References>,
}

/// The columns that a column refers to.
#[derive(Clone, Debug, Default)]
struct References {
    /// Their numbers; empty if it is encoded without references.
    columns: Vec<usize>,
    /// Number of blocks until that is measured again.
    left: u16,
    /// The number of blocks at the start of that wait.
    wait: u16,
}

/// How words are encoded.
#[derive(Clone, Copy, Debug)]
struct WordForm {
    chosen: Chosen,
    /// As the difference to the column with this number.
    base: Option<usize>,
    /// As the difference to a line over it, which each block computes for itself.
    on_line: bool,
}

/// The chosen encoding, and the bytes per row that it took when it was measured to be the best.
#[derive(Clone, Copy, Debug)]
struct Kept<F> {
    form: Option<F>,
    /// Least and most bytes of a row.
    range: (f64, f64),
    /// Blocks since it was measured, and until it is measured again.
    blocks: u16,
    wait: u16,
}

impl<F> Default for Kept<F> {
    fn default() -> Self {
        Self { form: None, range: (0.0, 0.0), blocks: STRING_BLOCKS, wait: BLOCKS_NEW }
    }
}

impl<F> Kept<F> {
    /// True if this many bytes differ by more than a tenth from what was expected.
    fn misses(&self, bytes: usize, rows: usize, slack: usize) -> bool {
        let (bytes, rows, slack) = (bytes as f64, rows as f64, slack as f64);
        let (least, most) = self.range;
        bytes + slack < 0.9 * least * rows || bytes > 1.1 * most * rows + slack
    }

    /// Records that another form is the best.
    fn keep(&mut self, form: F, bytes: usize, rows: usize) {
        self.expect_row_bytes(form, bytes as f64 / rows.max(1) as f64);
    }

    fn expect_row_bytes(&mut self, form: F, row_bytes: f64) {
        let range = (row_bytes, row_bytes);
        *self = Self { form: Some(form), range, wait: BLOCKS_NEW, ..*self };
    }

    /// Records that the form is still the best. Rows that vary a little from block to block stop
    /// missing; larger changes are treated as new rows.
    fn confirm(&mut self, bytes: usize, rows: usize, blocks_max: u16) {
        let row_bytes = bytes as f64 / rows.max(1) as f64;
        let (least, most) = (self.range.0.min(row_bytes), self.range.1.max(row_bytes));
        if most > 2.0 * least {
            (self.range, self.wait) = ((row_bytes, row_bytes), BLOCKS_NEW);
        } else {
            (self.range, self.wait) = ((least, most), (2 * self.wait).min(blocks_max));
        }
    }
}

impl Plans {
    /// Creates plans in which nothing is known yet.
    pub fn new(columns: &Columns) -> Self {
        let count = columns.count() + 2;
        Self {
            words: vec![Kept::default(); count],
            strings: vec![Kept::default(); count],
            references: vec![References::default(); count],
        }
    }

    /// Makes string column `number` use what was trained for it, with its model, which is to be
    /// among the models of the run, until it misses what was expected.
    pub fn set(&mut self, number: usize, trained: &Trained) {
        if let Some(kept) = self.strings.get_mut(number) {
            kept.expect_row_bytes(trained.plan, trained.row_bytes);
        }
    }

    /// True if some column was last encoded with a codec.
    pub fn use_codec(&self) -> bool {
        self.strings.iter().any(|kept| kept.form.is_some_and(|plan| plan.codec != Codec::Raw))
    }

    /// Adopts how integers are encoded; strings may have been encoded with other models.
    pub fn learn_integers(&mut self, from: &Plans) {
        self.words.clone_from(&from.words);
    }

    /// How string column `number` is encoded, if it is known.
    pub fn string(&self, number: usize) -> Option<StringPlan> {
        self.strings.get(number)?.form
    }

    /// How integer column `number` is encoded, if it is known; for differences, how the differences
    /// are.
    pub fn integer(&self, number: usize) -> Option<IntKind> {
        self.words.get(number)?.form.map(|form| form.chosen.kind)
    }

    /// The number of tags in these vectors.
    pub(super) fn tags(&self) -> usize {
        self.words.len() - 2
    }

    /// The number, in these vectors, of keys that do not fit.
    pub(super) fn whole_keys(&self) -> usize {
        self.words.len() - 1
    }

    /// True if repeating a string costs almost nothing.
    pub(super) fn repeats_are_free(&self, number: usize) -> bool {
        let kind = self.string(number).map(|plan| plan.kind);
        kind.is_some_and(|kind| {
            !matches!(
                kind,
                StrKind::Raw | StrKind::Symbols | StrKind::Templates | StrKind::Alphabet
            )
        })
    }
}

/// Counts of column bytes that a codec was tried on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ChunkCounts {
    /// Chunks that are stored under a codec.
    pub coded: u64,
    /// Raw bytes of these chunks.
    pub coded_from_bytes: u64,
    /// Stored bytes of these chunks.
    pub coded_bytes: u64,
    /// Chunks that are stored raw, since the codec saved too little.
    pub raw: u64,
}

impl ChunkCounts {
    /// Counts a column that was encoded with this codec, if it was tried.
    fn count(&mut self, tried: Codec, written: Written) {
        let Written { kind, chunk, .. } = written;
        if chunk.codec != Codec::Raw {
            self.coded += 1;
            self.coded_from_bytes += chunk.bytes as u64;
            self.coded_bytes += chunk.stored as u64;
        } else if tried != Codec::Raw && kind.takes_codec() && chunk.is_tried() {
            self.raw += 1;
        }
    }
}

/// Encodes columns by plans.
#[derive(Debug)]
pub(super) struct ColumnWriter {
    codec: Codec,
    ints: IntEncoder,
    strings: StrEncoder,
    differences: Vec<u64>,
    /// The strings of a column, with references in the place of others.
    replaced: Strings,
    /// Number of columns of this block that refer to others.
    pub referring_columns: usize,
    other: Vec<u8>,
    /// Where strings of this block are kept for training.
    pub samples: Option<Samples>,
    /// Counts since they were last taken.
    pub chunks: ChunkCounts,
    /// How often a column was measured again.
    pub measured: u64,
}

impl ColumnWriter {
    /// Creates a writer that may compress string bytes with this codec.
    pub fn new(codec: Codec) -> Self {
        let (ints, strings) = (IntEncoder::new(), StrEncoder::new());
        let (differences, replaced, other) = (Vec::new(), Strings::new(), Vec::new());
        let chunks = ChunkCounts::default();
        Self {
            codec,
            ints,
            strings,
            differences,
            replaced,
            referring_columns: 0,
            other,
            samples: None,
            chunks,
            measured: 0,
        }
    }

    /// Appends integer column `number`, and returns whether it is stored as the difference to one
    /// of `earlier`.
    pub fn put_words(
        &mut self,
        plans: &mut Plans,
        number: usize,
        float: Option<Float>,
        values: &[u64],
        earlier: &[Earlier],
        out: &mut Vec<u8>,
    ) -> bool {
        let rows = values.len();
        let kept = &mut plans.words[number];
        let start = out.len();
        let known = kept.form.and_then(|form| self.put_as(form, float, values, earlier, out));
        let Some(mut best) = known else {
            let best = self.put_shortest(float, values, earlier, out);
            // A base column that is missing in this block is usually there again in the next.
            let waits = kept.form.is_some() && kept.blocks < kept.wait;
            if waits {
                kept.blocks += 1;
            } else {
                self.measured += 1;
                kept.keep(best, out.len() - start, rows);
            }
            return best.base.is_some();
        };
        let bytes = out.len() - start;
        kept.blocks += 1;
        if kept.blocks >= kept.wait || kept.misses(bytes, rows, WORD_SLACK) {
            kept.blocks = 0;
            self.measured += 1;
            let mut other = std::mem::take(&mut self.other);
            other.clear();
            let again = self.put_shortest(float, values, earlier, &mut other);
            if other.len() < bytes {
                out.truncate(start);
                out.extend_from_slice(&other);
                best = again;
                kept.keep(best, other.len(), rows);
            } else {
                kept.confirm(bytes, rows, WORD_BLOCKS_MAX);
            }
            self.other = other;
        }
        best.base.is_some()
    }

    /// Appends words in this form, unless it is the difference to a column that is missing. Returns
    /// the form used.
    fn put_as(
        &mut self,
        form: WordForm,
        float: Option<Float>,
        values: &[u64],
        earlier: &[Earlier],
        out: &mut Vec<u8>,
    ) -> Option<WordForm> {
        let Self { ints, differences, .. } = self;
        let Chosen { kind, numbers, .. } = form.chosen;
        let chosen = match (form.base, float) {
            (Some(number), _) => {
                let other = earlier.iter().find(|other| other.number == number)?;
                let line = if form.on_line { other.line_of(values)? } else { Line::SAME };
                other.differences(line, values, differences);
                other.put_head(line, out);
                ints.encode_as(kind, numbers, differences, out)
            }
            (None, Some(float)) => ints.encode_floats_as(kind, numbers, float, values, out),
            (None, None) => ints.encode_as(kind, numbers, values, out),
        };
        Some(WordForm { chosen, ..form })
    }

    /// Appends words in the shortest form. A difference costs one more read, so it must be a tenth
    /// shorter.
    fn put_shortest(
        &mut self,
        float: Option<Float>,
        values: &[u64],
        earlier: &[Earlier],
        out: &mut Vec<u8>,
    ) -> WordForm {
        let Self { ints, differences, .. } = self;
        let start = out.len();
        let plain = match float {
            Some(float) => ints.encode_floats(float, values, out),
            None => ints.encode(values, out),
        };
        let (mut best, mut best_bytes) = (None, plain.bytes);
        for other in earlier {
            for line in other.promising(values, plain.bytes) {
                other.differences(line, values, differences);
                let bytes = difference::head_bytes(line) + ints.measure(differences).bytes;
                // A sloped line must in turn be worth more than a plain difference.
                let is_less = match line {
                    Line::SAME => bytes < best_bytes,
                    _ => difference::worth_it(bytes, best_bytes),
                };
                if difference::worth_it(bytes, plain.bytes) && is_less {
                    (best, best_bytes) = (Some((other, line)), bytes);
                }
            }
        }
        let Some((other, line)) = best else {
            return WordForm { chosen: plain, base: None, on_line: false };
        };
        out.truncate(start);
        other.differences(line, values, differences);
        other.put_head(line, out);
        let chosen = ints.encode(differences, out);
        WordForm { chosen, base: Some(other.number), on_line: line != Line::SAME }
    }

    /// Appends an integer column with one value, which has the same length for any number of rows.
    pub fn put_same(&mut self, value: u64, out: &mut Vec<u8>) {
        self.ints.encode_as(IntKind::Constant, None, &[value], out);
    }

    /// Appends string column `number` of the value, which may refer to `candidates`, and returns
    /// whether others may refer to it.
    pub fn put_texts(
        &mut self,
        plans: &mut Plans,
        number: usize,
        model: Option<&StringModel>,
        strings: &Strings,
        candidates: &[Candidate],
        out: &mut Vec<u8>,
    ) -> bool {
        let references = plans.references.get_mut(number).expect("there is a plan for each column");
        match references.left.checked_sub(1) {
            Some(left) => references.left = left,
            None => {
                self.measured += 1;
                let chosen = self.choose_targets(model, strings, candidates);
                references.wait = (2 * references.wait).clamp(BLOCKS_NEW, BLOCKS_MAX);
                if chosen != references.columns {
                    // The plan of its strings was made for the old references.
                    (references.columns, references.wait) = (chosen, BLOCKS_NEW);
                    plans.strings[number] = Kept::default();
                }
                references.left = references.wait;
            }
        }
        let find = |number: &usize| candidates.iter().find(|candidate| candidate.number == *number);
        let targets: Option<Vec<&Candidate>> =
            plans.references[number].columns.iter().map(find).collect();
        // The column is encoded without references if one of the targets is missing, or if too many
        // columns already have references.
        let room = self.referring_columns < reference::REFERRING_MAX;
        let mut targets = targets.filter(|_| room).unwrap_or_default();
        targets.sort_unstable_by_key(|target| target.at);
        if targets.is_empty() {
            return reference::may_be_target(
                self.put_strings(plans, number, false, model, strings, out),
            );
        }
        let mut replaced = std::mem::take(&mut self.replaced);
        reference::replace(strings, &targets, &mut replaced);
        reference::put_head(&targets, out);
        self.referring_columns += 1;
        self.put_strings(plans, number, false, model, &replaced, out);
        self.replaced = replaced;
        false
    }

    /// The numbers of the columns that these strings should refer to.
    fn choose_targets(
        &mut self,
        model: Option<&StringModel>,
        strings: &Strings,
        candidates: &[Candidate],
    ) -> Vec<usize> {
        let chosen = reference::choose(strings, candidates);
        if chosen.is_empty() {
            return Vec::new();
        }
        let plain = self.measure_strings(model, strings);
        let mut replaced = std::mem::take(&mut self.replaced);
        reference::replace(strings, &chosen, &mut replaced);
        let bytes = reference::head_bytes(chosen.len()) + self.measure_strings(model, &replaced);
        self.replaced = replaced;
        match reference::worth_it(bytes, plain) {
            true => chosen.iter().map(|target| target.number).collect(),
            false => Vec::new(),
        }
    }

    /// Length of a column of a value in the shortest form.
    fn measure_strings(&mut self, model: Option<&StringModel>, strings: &Strings) -> usize {
        let Self { strings: encoder, other, codec, .. } = self;
        let purpose = Purpose { key: false, codec: *codec, model_rows: 0 };
        let own = train(encoder, std::slice::from_ref(strings), purpose).plan;
        let by_model = model.into_iter().flat_map(|model| model.plans(*codec));
        let lengths = std::iter::once(own).chain(by_model).map(|plan| {
            other.clear();
            encoder.encode(strings, model, plan, other).bytes
        });
        lengths.min().unwrap_or(0)
    }

    /// Appends string column `number`, and returns its codec; a column of a key is searched, and so
    /// gets none.
    pub fn put_strings(
        &mut self,
        plans: &mut Plans,
        number: usize,
        is_key: bool,
        model: Option<&StringModel>,
        strings: &Strings,
        out: &mut Vec<u8>,
    ) -> Codec {
        // Targets are read in place together with the columns that refer to them, which a codec
        // would prevent.
        let is_target = plans.references.iter().any(|of| of.columns.contains(&number));
        let codec = if is_key || is_target { Codec::Raw } else { self.codec };
        if let Some(samples) = &mut self.samples {
            samples.keep(number, is_key, strings);
        }
        let rows = strings.len();
        let kept = &mut plans.strings[number];
        let start = out.len();
        let Self { strings: encoder, other, chunks, measured, .. } = self;
        let purpose = Purpose { key: is_key, codec, model_rows: 0 };
        let sample = std::slice::from_ref(strings);
        let may_be = |plan: &StringPlan| {
            (!is_key || plan.kind.may_be_key()) && [Codec::Raw, codec].contains(&plan.codec)
        };
        // A plan does not apply to a run whose model lacks the part that it needs, such as a run
        // before the first models.
        let serves = |plan: &StringPlan| {
            let served = |model: &StringModel| model.plans(plan.codec).any(|of| of == *plan);
            !plan.kind.needs_model() || model.is_some_and(served)
        };
        let known = kept.form.filter(|plan| may_be(plan) && serves(plan));
        let plan = known.unwrap_or_else(|| train(encoder, sample, purpose).plan);
        let written = encoder.encode(strings, model, plan, out);
        if known.is_some() {
            kept.blocks += 1;
            let misses =
                kept.blocks >= STRING_BLOCKS && kept.misses(written.bytes, rows, STRING_SLACK);
            if !misses && kept.blocks < kept.wait {
                chunks.count(plan.codec, written);
                return written.chunk.codec;
            }
            kept.blocks = 0;
            kept.confirm(written.bytes, rows, BLOCKS_MAX);
        } else {
            kept.keep(plan, written.bytes, rows);
        }
        *measured += 1;
        let mut best = written;
        let newer = known.map(|_| train(encoder, sample, purpose).plan);
        let by_model = model.into_iter().flat_map(|model| model.plans(codec));
        for newer in newer.into_iter().chain(by_model.filter(may_be)) {
            other.clear();
            let again = encoder.encode(strings, model, newer, other);
            if beats(again, best) {
                out.truncate(start);
                out.extend_from_slice(other);
                best = again;
                kept.keep(newer, best.bytes, rows);
            }
        }
        // Measuring tries the codec.
        chunks.count(codec, best);
        best.chunk.codec
    }
}

/// True if a column should be encoded again in this way. A codec costs all readers of the column
/// and prevents others from referring to it, so it must save a tenth, as in training.
fn beats(again: Written, best: Written) -> bool {
    let cost = |of: Written| of.bytes * if of.chunk.codec == Codec::Raw { 9 } else { 10 };
    cost(again) < cost(best) - cost(best) / OTHER
}
