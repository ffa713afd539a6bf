//! The schema of a tree: the columns of its columnar runs, and what was learned from earlier runs
//! about encoding them.
//!
//! The best encoding of a column is found by trying all of them, which costs several times as much
//! as encoding once. So each run starts with what the last run found. Leaves and buffer runs learn
//! separately: leaves have a codec and dense keys, buffer runs have neither.
//!
//! Models of strings are trained on a sample of a leaf, spread over it, when that leaf is written,
//! and serve the leaves after it; they are trained again when a leaf takes a tenth more stored
//! bytes per raw byte than the first leaf that used them. A leaf that is merged keeps its models,
//! or none of its blocks could be carried over.
//!
//! Invariants
//! 1. What is learned never determines how a block is read: only its run's format does.
//! 2. A row of an older version of the tree's layout is written as one of the newest version
//!    (Rule: I49).
//!
//! Threads: all; the locks are held while a few hundred bytes are copied, two to four times per
//! run.

use crate::{
    block::{
        Codec, ColumnarFormat, DecodeMeter, Format, MODELS_MEMORY_MAX,
        columnar::{Columns, Plans, Samples},
        encoding::string::StringModel,
    },
    layout::{Layout, RowVersions},
    sync::{Arc, Mutex},
};

use super::work::{EncodeStats, Work};

/// The least bytes of rows of a leaf that is worth training on.
const TRAINING_BYTES_MIN: u64 = 64 << 10;
/// Number of leaves after which models may be trained again.
const TRAINING_LEAVES: u32 = 8;

/// The columns of a tree, and their best encodings as far as they are known.
#[derive(Debug)]
pub struct RowSchema {
    columns: Arc<Columns>,
    /// How older rows are converted to these columns, if rows carry their version.
    versions: Option<Arc<RowVersions>>,
    leaves: Mutex<Learned>,
    buffers: Mutex<Learned>,
    /// Counts the cost of learning.
    work: Option<Arc<Work>>,
}

/// What was learned from runs of one kind.
#[derive(Debug)]
struct Learned {
    plans: Plans,
    /// Contains the latest models.
    format: Arc<ColumnarFormat>,
    /// Stored bytes per raw byte of the first leaf that was written with these models.
    expected_ratio: Option<f64>,
    /// Number of leaves since the models were trained; `None` if they never were.
    leaves: Option<u32>,
    /// Length of a row of the last run.
    row_bytes: u64,
}

/// What a run starts with.
pub(super) struct Beginning {
    pub plans: Plans,
    pub format: Arc<ColumnarFormat>,
    /// Length of a row, if it is known; else 0.
    pub row_bytes: u64,
}

/// What a finished run reports.
pub(super) struct RunOutcome<'a> {
    pub plans: &'a Plans,
    pub format: Arc<ColumnarFormat>,
    pub samples: Option<Samples>,
    pub rows: u64,
    pub row_bytes: u64,
    pub bytes: u64,
}

impl RowSchema {
    /// Creates the schema of a tree with these layouts. If the tree has a layout only for keys or
    /// only for values, the other side of its rows is one string; `None` if it has neither. Rows of
    /// older versions are mapped by `versions`. The cost of learning and decoding is counted in
    /// `work`.
    pub fn of(
        key: Option<&Layout>,
        value: Option<&Layout>,
        versions: Option<Arc<RowVersions>>,
        work: Option<Arc<Work>>,
    ) -> Option<Arc<Self>> {
        if key.is_none() && value.is_none() {
            return None;
        }
        let row_blocks = Layout::default();
        let columns = Columns::new(key.unwrap_or(&row_blocks), value.unwrap_or(&row_blocks));
        let columns = Arc::new(columns);
        let nothing = || Mutex::new(Learned::nothing(&columns, meter(&work)));
        let (leaves, buffers) = (nothing(), nothing());
        Some(Arc::new(Self { columns, versions, leaves, buffers, work }))
    }

    /// The columns.
    pub fn columns(&self) -> &Arc<Columns> {
        &self.columns
    }

    /// How rows of older versions are mapped, if rows carry one.
    pub fn versions(&self) -> Option<&Arc<RowVersions>> {
        self.versions.as_ref()
    }

    fn kept(&self, codec: Codec) -> &Mutex<Learned> {
        if codec == Codec::Raw { &self.buffers } else { &self.leaves }
    }

    /// Returns what a run under this codec starts with. The run may carry blocks of runs of format
    /// `base`, so it gets the models with which those blocks are read, and the latest models where
    /// they have none.
    pub(super) fn begin(&self, codec: Codec, base: Option<&Format>) -> Beginning {
        let base = match base {
            Some(Format::Columnar(base)) if *base.columns() == self.columns => Some(base),
            _ => None,
        };
        let (plans, latest, row_bytes) = {
            let mut learned = self.kept(codec).lock().unwrap();
            if let Some(base) = base.filter(|base| learned.leaves.is_none() && base.has_models()) {
                // The store was just opened: existing models are better than none.
                (learned.format, learned.leaves) = (base.clone(), Some(0));
            }
            (learned.plans.clone(), learned.format.clone(), learned.row_bytes)
        };
        let meter = meter(&self.work);
        let format = base.map_or(latest.clone(), |base| with_models_of(base, &latest, meter));
        Beginning { plans, format, row_bytes }
    }

    /// True if a run under this codec should keep samples, because training may be due when it
    /// ends.
    pub(super) fn wants_samples(&self, codec: Codec) -> bool {
        let learns = codec != Codec::Raw && self.columns.has_strings();
        learns && self.kept(codec).lock().unwrap().may_be_due()
    }

    /// Learns from a finished run under this codec.
    pub(super) fn learn(&self, codec: Codec, outcome: RunOutcome<'_>) {
        let RunOutcome { plans, format, samples, rows, row_bytes, .. } = &outcome;
        {
            let mut learned = self.kept(codec).lock().unwrap();
            learned.row_bytes = row_bytes / (*rows).max(1);
            // Runs with older models say nothing about the latest.
            if !Arc::ptr_eq(format, &learned.format) {
                return learned.plans.learn_integers(plans);
            }
            learned.plans.clone_from(plans);
            // A leaf counts whether it kept samples or not.
            let is_due = *row_bytes >= TRAINING_BYTES_MIN && learned.is_due(&outcome);
            if !is_due || samples.is_none() {
                return;
            }
        }
        let Some(samples) = outcome.samples.filter(|samples| samples.are_enough(outcome.row_bytes))
        else {
            return;
        };
        let now = || self.work.as_ref().map_or(0, |work| work.now());
        let begun = now();
        let trained = samples.train(codec, outcome.rows as usize);
        if let Some(work) = &self.work {
            let training_nanos = now().saturating_sub(begun);
            let done = EncodeStats { trainings: 1, training_nanos, ..EncodeStats::default() };
            work.encoded(codec, &done);
        }
        let mut learned = self.kept(codec).lock().unwrap();
        let mut models: Vec<Option<Arc<StringModel>>> = vec![None; self.columns.count()];
        let mut room = MODELS_MEMORY_MAX;
        for (number, trained) in trained {
            let bytes = trained.model.as_ref().map_or(0, StringModel::memory_bytes);
            if bytes > room {
                continue;
            }
            room -= bytes;
            learned.plans.set(number, &trained);
            if let Some(slot) = models.get_mut(number) {
                *slot = trained.model.map(Arc::new);
            }
        }
        let format = ColumnarFormat::new(self.columns.clone(), models).metered(meter(&self.work));
        learned.format = Arc::new(format);
        (learned.expected_ratio, learned.leaves) = (None, Some(0));
    }
}

impl Learned {
    fn nothing(columns: &Arc<Columns>, meter: Option<Arc<dyn DecodeMeter>>) -> Self {
        let format = Arc::new(ColumnarFormat::new(columns.clone(), Vec::new()).metered(meter));
        Self {
            plans: Plans::new(columns),
            format,
            expected_ratio: None,
            leaves: None,
            row_bytes: 0,
        }
    }

    /// True if training may be due at the end of a leaf that starts now. If concurrent leaves make
    /// it due earlier than expected, this leaf has no samples; the next one keeps them.
    fn may_be_due(&self) -> bool {
        self.leaves.is_none_or(|leaves| {
            self.expected_ratio.is_some() && leaves.saturating_add(1) >= TRAINING_LEAVES
        })
    }

    /// Counts a leaf, and returns whether models are to be trained on it.
    fn is_due(&mut self, leaf: &RunOutcome<'_>) -> bool {
        let Some(leaves) = &mut self.leaves else { return true };
        *leaves = leaves.saturating_add(1);
        let took = leaf.bytes as f64 / leaf.row_bytes.max(1) as f64;
        match self.expected_ratio {
            None => {
                self.expected_ratio = Some(took);
                false
            }
            Some(expected_ratio) => took > expected_ratio * 1.1 && *leaves >= TRAINING_LEAVES,
        }
    }
}

fn meter(work: &Option<Arc<Work>>) -> Option<Arc<dyn DecodeMeter>> {
    work.clone().map(|work| work as Arc<dyn DecodeMeter>)
}

/// The models of `base`, and those of `latest` where it has none.
fn with_models_of(
    base: &Arc<ColumnarFormat>,
    latest: &Arc<ColumnarFormat>,
    meter: Option<Arc<dyn DecodeMeter>>,
) -> Arc<ColumnarFormat> {
    let of =
        |format: &ColumnarFormat, number: usize| format.models().get(number).cloned().flatten();
    let count = base.models().len().max(latest.models().len());
    let models: Vec<_> =
        (0..count).map(|number| of(base, number).or_else(|| of(latest, number))).collect();
    let format = ColumnarFormat::new(latest.columns().clone(), models);
    if format == **latest {
        latest.clone()
    } else if format == **base || format.memory_bytes() > MODELS_MEMORY_MAX {
        base.clone()
    } else {
        Arc::new(format.metered(meter))
    }
}

#[cfg(test)]
mod tests;
