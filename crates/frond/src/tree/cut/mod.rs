//! Writing the slices of one tier: entries and range deletes in key order, cut into runs by their
//! bytes.
//!
//! A naive writer cuts between entries only, and adds every range delete to the run being built. A
//! memtable with many range deletes then makes one run whose footer exceeds the bound of footers,
//! and the store stops. So range deletes count as bytes of a run, as entries do:
//!
//! 1. A range delete starts when the walk reaches its lower bound. It is open until the walk passes
//!    its end.
//! 2. A full slice ends at the next key, whether that is an entry's key or the lower bound of a
//!    range delete. A range delete that is open there is clipped: the slice keeps what is below the
//!    key.
//! 3. The rest of it starts the next slice.
//!
//! A cut costs at most one more range delete, and two keys in the node.
//!
//! Invariants
//! 1. The slices are disjoint and ascend; each entry and each range delete lies within the slice
//!    that holds it.
//! 2. Together the slices delete exactly what the given range deletes do.
//! 3. A slice ends once it holds `run_bytes`: the range deletes of a footer exceed that by at most
//!    one fragment.
//!
//! Threads: as `apply.rs`.

use crate::{
    error::Result,
    message::Tag,
    run::{RangeDeletes, RunBuilder},
};

use super::{
    apply::Job,
    node::{Bound, Node, Tier},
};

/// A range delete that the walk is inside; earlier slices have what is below `from`.
#[derive(Debug)]
struct Open<'r> {
    from: Box<[u8]>,
    to: &'r [u8],
}

impl Open<'_> {
    fn bytes(&self) -> usize {
        RangeDeletes::fragment_bytes(&self.from, self.to)
    }
}

/// Writes the slices of a tier for a node.
#[derive(Debug)]
pub(super) struct SliceWriter<'r> {
    node: &'r Node,
    ranges: &'r RangeDeletes,
    /// The first fragment of `ranges` that has not started.
    next: usize,
    open: Option<Open<'r>>,
    builder: RunBuilder,
    /// Where the slice being written starts.
    lo: Bound,
    /// The end of the tier's range.
    hi: Bound,
    /// The child that the walk is in, if slices also end between children once they are large
    /// enough to hand down; `None` if they do not.
    child: Option<usize>,
    tier: Tier,
}

impl<'r> SliceWriter<'r> {
    /// Creates a writer for a tier of `node` in [lo, hi), with these range deletes.
    pub fn new(
        job: &Job<'_>,
        node: &'r Node,
        ranges: &'r RangeDeletes,
        (lo, hi): (Bound, Bound),
    ) -> Self {
        let builder = job.buffer_builder();
        let (open, tier) = (None, Tier::default());
        Self { node, ranges, next: 0, open, builder, lo, hi, child: None, tier }
    }

    /// Makes slices also end between children.
    pub fn cut_at_children(mut self) -> Self {
        self.child = Some(0);
        self
    }

    /// Appends an entry. Keys ascend strictly.
    #[inline]
    pub fn push(&mut self, job: &mut Job<'_>, key: &[u8], tag: Tag, payload: &[u8]) -> Result<()> {
        let has_ranges = self.open.is_some() || self.next < self.ranges.len();
        if has_ranges || self.child.is_some() || self.builder_bytes() >= job.cx.shape.run_bytes {
            self.go_to(job, key)?;
        }
        job.push(&mut self.builder, key, tag, payload)
    }

    /// Writes the rest, and returns the tier.
    pub fn finish(mut self, job: &mut Job<'_>) -> Result<Tier> {
        self.begin_ranges(job, None)?;
        self.end_range(None);
        let hi = self.hi.take();
        self.end_slice(job, hi)?;
        Ok(self.tier)
    }

    #[inline]
    fn builder_bytes(&self) -> u64 {
        self.builder.bytes_so_far() as u64
    }

    /// Advances to the key of the next entry.
    fn go_to(&mut self, job: &mut Job<'_>, key: &[u8]) -> Result<()> {
        self.begin_ranges(job, Some(key))?;
        self.end_range(Some(key));
        self.cut_if_full(job, key)
    }

    /// Opens all range deletes that start at or below `key`; `None`: all.
    fn begin_ranges(&mut self, job: &mut Job<'_>, key: Option<&[u8]>) -> Result<()> {
        while let Some((from, to)) = self.ranges.get(self.next)
            && key.is_none_or(|key| from <= key)
        {
            self.end_range(Some(from));
            self.cut_if_full(job, from)?;
            self.open = Some(Open { from: from.into(), to });
            self.next += 1;
        }
        Ok(())
    }

    /// Adds the open range delete to the slice being written, if it ends at or below `key`; `None`:
    /// in any case.
    fn end_range(&mut self, key: Option<&[u8]>) {
        if let Some(open) = self.open.take_if(|open| key.is_none_or(|key| open.to <= key)) {
            self.builder.add_range_delete(&open.from, open.to);
        }
    }

    /// Ends the slice being written before `key`, if it is large enough.
    fn cut_if_full(&mut self, job: &mut Job<'_>, key: &[u8]) -> Result<()> {
        let shape = job.cx.shape;
        let crosses = self.crosses_to_child(key);
        let open = self.open.as_ref();
        let bytes = self.builder_bytes() + open.map_or(0, Open::bytes) as u64;
        let is_full = bytes >= shape.run_bytes || (crosses && bytes >= shape.push_bytes);
        let has_any = !self.builder.is_empty() || open.is_some_and(|open| *open.from < *key);
        if !is_full || !has_any {
            return Ok(());
        }
        if let Some(open) = self.open.as_mut().filter(|open| *open.from < *key) {
            let end = if plant!("tree: a range delete is not clipped where a part ends") {
                open.to
            } else {
                key
            };
            self.builder.add_range_delete(&open.from, end);
            open.from = key.into();
            if plant!("tree: a part loses the range delete that goes on in it") {
                self.open = None;
            }
        }
        self.end_slice(job, Some(key.into()))
    }

    /// True if the walk enters another child at `key`.
    fn crosses_to_child(&mut self, key: &[u8]) -> bool {
        let Some(child) = &mut self.child else { return false };
        let before = *child;
        while self.node.pivots.get(*child).is_some_and(|pivot| key >= &**pivot) {
            *child += 1;
        }
        *child > before
    }

    /// Ends the slice being written at `hi`.
    fn end_slice(&mut self, job: &mut Job<'_>, hi: Bound) -> Result<()> {
        let full = std::mem::replace(&mut self.builder, job.buffer_builder());
        let lo = std::mem::replace(&mut self.lo, hi.clone());
        if let Some(run) = full.finish()? {
            let run = job.handle(run);
            self.tier.slices.extend(job.slice_of(self.node, run, lo, hi)?);
        }
        Ok(())
    }
}

#[cfg(all(test, not(shuttle)))]
pub(super) mod tests;
