//! The leaves of a merge, read together with what waits for them, block by block. A block that
//! nothing touches is carried over as bytes; a block that a range delete covers is dropped unread.
//!
//! Invariants
//! 1. Rows come out in order. Every row is handled once: pushed, carried in its block, folded under
//!    a newer message, or covered by a range delete.
//! 2. A block is carried only if no newer message lies in its range and no range delete touches it.
//!    It has been verified against its checksum.
//! 3. No block much smaller than a quarter of a full one is left permanently between carried
//!    blocks: the remainder of the previous block is merged with the next one, and the two are
//!    divided evenly.
//!
//! Threads: as `apply.rs`. Cost: one comparison per row, a decode for a block that is touched, a
//! checksum and a copy for one that is not.

use crate::{
    error::Result,
    run::{RangeDeletes, Run, RunBuilder, RunCursor},
    sync::Arc,
};

use super::{TreeContext, node::RunHandle};

/// Neighbouring leaves as one sequence, the oldest input of a merge.
pub(super) struct LeafWalk {
    /// One per leaf, in key order.
    cursors: Vec<RunCursor>,
    current: usize,
    /// The next block; the one before it is being read if the cursor stands on an entry.
    block: usize,
    /// Range deletes of all newer inputs, which hide rows of the leaves.
    ranges: RangeDeletes,
    counts: WalkCounts,
}

/// Counts of rows that went through a builder, and of blocks that did not have to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WalkCounts {
    pub rows: u64,
    pub blocks_carried: u64,
}

/// The reason why a walk stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stop {
    /// The walk is before its first row that is not below the key, or at its end.
    Here,
    /// The walk is still below the key: the builder has as much as a leaf should have.
    Full,
}

impl LeafWalk {
    pub(super) fn new(
        cx: &TreeContext,
        leaves: &[&Arc<RunHandle>],
        ranges: RangeDeletes,
    ) -> Result<Self> {
        let full = leaves.iter().filter(|leaf| !leaf.is_placeholder());
        let cursors = full.map(|leaf| Ok(RunCursor::bulk(leaf.open(cx)?.clone())));
        Ok(Self {
            cursors: cursors.collect::<Result<_>>()?,
            current: 0,
            block: 0,
            ranges,
            counts: WalkCounts::default(),
        })
    }

    /// The leaf that is being read.
    pub(super) fn run(&self) -> Option<&Run> {
        self.cursors.get(self.current).map(|cursor| &**cursor.run())
    }

    /// The counts so far.
    pub(super) fn counts(&self) -> WalkCounts {
        self.counts
    }

    /// Adds what lies below `key` (`None`: everything) to the builder, until that holds
    /// `cut_bytes`.
    pub(super) fn drain_below(
        &mut self,
        key: Option<&[u8]>,
        builder: &mut RunBuilder,
        cut_bytes: u64,
    ) -> Result<Stop> {
        while let Some(cursor) = self.cursors.get_mut(self.current) {
            if cursor.entry().is_some() {
                while let Some(entry) = cursor.entry() {
                    if key.is_some_and(|key| entry.key >= key) {
                        return Ok(Stop::Here);
                    }
                    if builder.bytes_so_far() as u64 >= cut_bytes {
                        return Ok(Stop::Full);
                    }
                    if self.ranges.is_empty() || !self.ranges.covers(entry.key) {
                        builder.push(entry.key, entry.tag, entry.payload)?;
                    }
                    self.counts.rows += 1;
                    cursor.advance_in_block()?;
                }
                continue;
            }
            let run = cursor.run().clone();
            let (index, blocks) = (self.block, run.block_count());
            if index >= blocks {
                (self.current, self.block) = (self.current + 1, 0);
                continue;
            }
            let (first, last) = (run.first_key().unwrap_or_default(), run.last_key());
            let start = if index == 0 { first } else { run.blocks().separator(index) };
            if key.is_some_and(|key| key < start) {
                return Ok(Stop::Here);
            }
            if builder.bytes_so_far() as u64 >= cut_bytes {
                return Ok(Stop::Full);
            }
            self.block += 1;
            let end = (index + 1 < blocks).then(|| run.blocks().separator(index + 1));
            let whole = match (key, end) {
                (None, _) => true,
                (Some(key), Some(end)) => end <= key,
                (Some(key), None) => last.is_some_and(|last| last < key),
            };
            let met = if self.ranges.is_empty() {
                Met::No
            } else {
                meets(&self.ranges, start, end.or(last).unwrap_or_default())
            };
            if whole && met == Met::Covered {
                continue;
            }
            let small = builder.block_bytes() / 4;
            let raw = run.blocks().entry(index).map_or(0, |entry| entry.row_bytes as usize);
            let open = builder.open_block_bytes();
            let carried = whole && met == Met::No && builder.carries(&run);
            if carried && raw >= small && (open == 0 || open >= small) {
                let encoded = cursor.carried_block(index)?;
                builder.carry_block(&run, index, encoded)?;
                self.counts.blocks_carried += 1;
                continue;
            }
            if whole && open > 0 && open < small {
                builder.end_block_at(((open + raw) / 2).max(small));
            }
            builder.goes_through(&run, index);
            cursor.start_at_block(index)?;
        }
        Ok(Stop::Here)
    }

    /// Passes the row at `key` to `take`, if there is one and no range delete covers it, and moves
    /// past it. To be called after [`drain_below`](Self::drain_below) of the same key has stopped
    /// with `Here`.
    pub(super) fn take_at(
        &mut self,
        key: &[u8],
        take: &mut dyn FnMut(crate::message::Message<'_>) -> Result<()>,
    ) -> Result<bool> {
        let Some(cursor) = self.cursors.get_mut(self.current) else { return Ok(false) };
        let Some(entry) = cursor.entry().filter(|entry| entry.key == key) else {
            return Ok(false);
        };
        let counts = self.ranges.is_empty() || !self.ranges.covers(key);
        if counts {
            take(entry.message())?;
        }
        self.counts.rows += 1;
        cursor.advance_in_block()?;
        Ok(counts)
    }
}

/// How range deletes relate to a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Met {
    No,
    Partly,
    Covered,
}

/// How `ranges` relate to the keys from `start` up to `end`, both included.
fn meets(ranges: &RangeDeletes, start: &[u8], end: &[u8]) -> Met {
    match ranges.covered_to(start) {
        Some(to) if end < to => Met::Covered,
        Some(_) => Met::Partly,
        // A range that starts at `end` touches the block.
        None if ranges.meets(Some(start), Some(end)) || ranges.covers(end) => Met::Partly,
        None => Met::No,
    }
}
