//! What the typed runs of a tree are written by: its columns, and what runs before taught.
//!
//! How a column is best written is found by writing it in every way, which costs several times what
//! writing it once does. So what the last run found is where the next one begins. Leaves and buffer runs are
//! kept apart: the ones have a codec and dense keys, the others neither.
//!
//! Invariants
//! 1. What is learnt never says how a block is read: only its run's format does.
//!
//! Threads: all; the locks are held for a copy of some hundred bytes, twice a run.

use crate::{
    block::{
        Codec, Format, TypedFormat,
        typed::{Columns, Plans},
    },
    layout::Layout,
    sync::{Arc, Mutex},
};

/// The columns of a tree, and how they are best written as far as it is known.
#[derive(Debug)]
pub struct Typing {
    columns: Arc<Columns>,
    leaves: Mutex<Option<Plans>>,
    buffers: Mutex<Option<Plans>>,
}

impl Typing {
    /// For a tree with these layouts. A tree that has only one of them has rows whose other side is one
    /// string; `None` if it has neither.
    pub fn of(key: Option<&Layout>, value: Option<&Layout>) -> Option<Arc<Self>> {
        if key.is_none() && value.is_none() {
            return None;
        }
        let opaque = Layout::default();
        let columns = Columns::new(key.unwrap_or(&opaque), value.unwrap_or(&opaque));
        let (leaves, buffers) = (Mutex::new(None), Mutex::new(None));
        Some(Arc::new(Self { columns: Arc::new(columns), leaves, buffers }))
    }

    /// The columns.
    pub fn columns(&self) -> &Arc<Columns> {
        &self.columns
    }

    /// The format of a new run that may carry blocks of runs of format `base`: it has the models that those
    /// are read with.
    pub(super) fn format(&self, base: Option<&Format>) -> Arc<TypedFormat> {
        match base {
            Some(Format::Typed(base)) if *base.columns() == self.columns => base.clone(),
            _ => Arc::new(TypedFormat::new(self.columns.clone(), Vec::new())),
        }
    }

    fn kept(&self, codec: Codec) -> &Mutex<Option<Plans>> {
        if codec == Codec::Raw { &self.buffers } else { &self.leaves }
    }

    /// Where a run under this codec begins.
    pub(super) fn plans(&self, codec: Codec) -> Plans {
        let kept = self.kept(codec).lock().unwrap().clone();
        kept.unwrap_or_else(|| Plans::new(&self.columns))
    }

    /// What a run under this codec found.
    pub(super) fn learn(&self, codec: Codec, plans: &Plans) {
        *self.kept(codec).lock().unwrap() = Some(plans.clone());
    }
}
