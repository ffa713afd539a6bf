//! What the typed runs of a tree are written by: its columns, and what runs before taught.
//!
//! How a column is best written is found by writing it in every way, which costs several times what
//! writing it once does. So what the last run found is where the next one begins. Leaves and buffer runs are
//! kept apart: the ones have a codec and dense keys, the others neither.
//!
//! Models of strings are made from a sample of a leaf, spread over it, when that is written, and serve the
//! leaves after it; they are made anew when a leaf takes a tenth more than the first that had them. A leaf
//! that is merged keeps the models that it has, or none of its blocks could be carried over.
//!
//! Invariants
//! 1. What is learnt never says how a block is read: only its run's format does.
//! 2. A row that names an older version of the tree's layout is written as one of the newest (Rule: I49).
//!
//! Threads: all; the locks are held for a copy of some hundred bytes, twice a run.

use crate::{
    block::{
        Codec, DecodeMeter, Format, MODELS_MEMORY_MAX, TypedFormat,
        column::string::StringModel,
        typed::{Columns, Plans, Samples},
    },
    layout::{Layout, RowVersions},
    sync::{Arc, Mutex},
};

use super::work::{EncodeStats, Work};

/// Bytes of rows of a leaf that is worth learning from.
const TRAINING_BYTES_MIN: u64 = 64 << 10;
/// Leaves after which models may be made anew.
const TRAINING_LEAVES: u32 = 8;

/// The columns of a tree, and how they are best written as far as it is known.
#[derive(Debug)]
pub struct Typing {
    columns: Arc<Columns>,
    /// How older rows become ones of these columns, if rows name their version.
    versions: Option<Arc<RowVersions>>,
    leaves: Mutex<Learnt>,
    buffers: Mutex<Learnt>,
    /// Where learning is counted.
    work: Option<Arc<Work>>,
}

/// What runs of one kind taught.
#[derive(Debug)]
struct Learnt {
    plans: Plans,
    /// With the models made last.
    format: Arc<TypedFormat>,
    /// What the first leaf took that was written with them, of its rows as they are.
    promise: Option<f64>,
    /// Leaves since they were made; none if there never were any.
    leaves: Option<u32>,
    /// Length of a row of the last run.
    row_bytes: u64,
}

/// Where a run begins.
pub(super) struct Beginning {
    pub plans: Plans,
    pub format: Arc<TypedFormat>,
    /// Length of a row, if any is known.
    pub row_bytes: u64,
}

/// What a run was like.
pub(super) struct Lesson<'a> {
    pub plans: &'a Plans,
    pub format: Arc<TypedFormat>,
    pub samples: Option<Samples>,
    pub rows: u64,
    pub row_bytes: u64,
    pub bytes: u64,
}

impl Typing {
    /// For a tree with these layouts. A tree that has only one of them has rows whose other side is one
    /// string; `None` if it has neither. Rows of older versions are mapped by `versions`. What learning and reading take is
    /// counted as `work`.
    pub fn of(
        key: Option<&Layout>,
        value: Option<&Layout>,
        versions: Option<Arc<RowVersions>>,
        work: Option<Arc<Work>>,
    ) -> Option<Arc<Self>> {
        if key.is_none() && value.is_none() {
            return None;
        }
        let opaque = Layout::default();
        let columns = Columns::new(key.unwrap_or(&opaque), value.unwrap_or(&opaque));
        let columns = Arc::new(columns);
        let nothing = || Mutex::new(Learnt::nothing(&columns, meter(&work)));
        let (leaves, buffers) = (nothing(), nothing());
        Some(Arc::new(Self { columns, versions, leaves, buffers, work }))
    }

    /// The columns.
    pub fn columns(&self) -> &Arc<Columns> {
        &self.columns
    }

    /// How rows of older versions are mapped, if rows name one.
    pub fn versions(&self) -> Option<&Arc<RowVersions>> {
        self.versions.as_ref()
    }

    fn kept(&self, codec: Codec) -> &Mutex<Learnt> {
        if codec == Codec::Raw { &self.buffers } else { &self.leaves }
    }

    /// Where a run under this codec begins, that may carry blocks of runs of format `base`: it has the models
    /// that those are read with, and the latest where they have none.
    pub(super) fn begin(&self, codec: Codec, base: Option<&Format>) -> Beginning {
        let base = match base {
            Some(Format::Typed(base)) if *base.columns() == self.columns => Some(base),
            _ => None,
        };
        let (plans, latest, row_bytes) = {
            let mut learnt = self.kept(codec).lock().unwrap();
            if let Some(base) = base.filter(|base| learnt.leaves.is_none() && base.has_models()) {
                // The store was just opened: what it has is better than nothing.
                (learnt.format, learnt.leaves) = (base.clone(), Some(0));
            }
            (learnt.plans.clone(), learnt.format.clone(), learnt.row_bytes)
        };
        let meter = meter(&self.work);
        let format = base.map_or(latest.clone(), |base| with_models_of(base, &latest, meter));
        Beginning { plans, format, row_bytes }
    }

    /// Whether a run under this codec should keep samples: models may be due when it ends.
    pub(super) fn wants_samples(&self, codec: Codec) -> bool {
        let learns = codec != Codec::Raw && self.columns.has_strings();
        learns && self.kept(codec).lock().unwrap().may_be_due()
    }

    /// What a run under this codec teaches.
    pub(super) fn learn(&self, codec: Codec, lesson: Lesson<'_>) {
        let Lesson { plans, format, samples, rows, row_bytes, .. } = &lesson;
        {
            let mut learnt = self.kept(codec).lock().unwrap();
            learnt.row_bytes = row_bytes / (*rows).max(1);
            // Runs that keep older models say nothing of the latest.
            if !Arc::ptr_eq(format, &learnt.format) {
                return learnt.plans.learn_integers(plans);
            }
            learnt.plans.clone_from(plans);
            // A leaf counts whether it kept samples or not.
            let is_due = *row_bytes >= TRAINING_BYTES_MIN && learnt.is_due(&lesson);
            if !is_due || samples.is_none() {
                return;
            }
        }
        let Some(samples) = lesson.samples.filter(|samples| samples.are_enough(lesson.row_bytes))
        else {
            return;
        };
        let now = || self.work.as_ref().map_or(0, |work| work.now());
        let begun = now();
        let trained = samples.train(codec, lesson.rows as usize);
        if let Some(work) = &self.work {
            let training_nanos = now().saturating_sub(begun);
            let done = EncodeStats { trainings: 1, training_nanos, ..EncodeStats::default() };
            work.encoded(codec, &done);
        }
        let mut learnt = self.kept(codec).lock().unwrap();
        let mut models: Vec<Option<Arc<StringModel>>> = vec![None; self.columns.count()];
        let mut room = MODELS_MEMORY_MAX;
        for (number, trained) in trained {
            let bytes = trained.model.as_ref().map_or(0, StringModel::memory_bytes);
            if bytes > room {
                continue;
            }
            room -= bytes;
            learnt.plans.set(number, &trained);
            if let Some(slot) = models.get_mut(number) {
                *slot = trained.model.map(Arc::new);
            }
        }
        let format = TypedFormat::new(self.columns.clone(), models).metered(meter(&self.work));
        learnt.format = Arc::new(format);
        (learnt.promise, learnt.leaves) = (None, Some(0));
    }
}

impl Learnt {
    fn nothing(columns: &Arc<Columns>, meter: Option<Arc<dyn DecodeMeter>>) -> Self {
        let format = Arc::new(TypedFormat::new(columns.clone(), Vec::new()).metered(meter));
        Self { plans: Plans::new(columns), format, promise: None, leaves: None, row_bytes: 0 }
    }

    /// Whether models may be made from a leaf that begins now. One that others overtake lacks its samples, and
    /// the next one has them.
    fn may_be_due(&self) -> bool {
        self.leaves.is_none_or(|leaves| {
            self.promise.is_some() && leaves.saturating_add(1) >= TRAINING_LEAVES
        })
    }

    /// Counts a leaf; whether models are to be made from it.
    fn is_due(&mut self, leaf: &Lesson<'_>) -> bool {
        let Some(leaves) = &mut self.leaves else { return true };
        *leaves = leaves.saturating_add(1);
        let took = leaf.bytes as f64 / leaf.row_bytes.max(1) as f64;
        match self.promise {
            None => {
                self.promise = Some(took);
                false
            }
            Some(promise) => took > promise * 1.1 && *leaves >= TRAINING_LEAVES,
        }
    }
}

fn meter(work: &Option<Arc<Work>>) -> Option<Arc<dyn DecodeMeter>> {
    work.clone().map(|work| work as Arc<dyn DecodeMeter>)
}

/// The models of `base`, and those of `latest` where it has none.
fn with_models_of(
    base: &Arc<TypedFormat>,
    latest: &Arc<TypedFormat>,
    meter: Option<Arc<dyn DecodeMeter>>,
) -> Arc<TypedFormat> {
    let of = |format: &TypedFormat, number: usize| format.models().get(number).cloned().flatten();
    let count = base.models().len().max(latest.models().len());
    let models: Vec<_> =
        (0..count).map(|number| of(base, number).or_else(|| of(latest, number))).collect();
    let format = TypedFormat::new(latest.columns().clone(), models);
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
