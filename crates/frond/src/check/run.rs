//! Checking one run, entry by entry: checksums, order, counts, tags, filter.
//!
//! A bad block does not hide the next one: if a block cannot be read to its end, reading continues
//! with the next one.
//!
//! Memory: a piece of the run, and one count for each blob that the run refers to.

use std::collections::BTreeMap;

use crate::{
    error::Result,
    message::Kind,
    run::{BlockEntry, Entry, Run, RunCursor, key_hash, operands},
    sync::Arc,
};

use super::report::{Checked, Finding, damage, from_error};

/// The result of reading a run's entries.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scanned {
    /// The reason why it cannot be a leaf, if any: leaves hold only values.
    pub not_a_leaf: Option<&'static str>,
}

/// Counts of the rows of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Rows {
    rows: u32,
    deletes: u32,
    merges: u32,
    has_blobs: bool,
}

/// Reads all of a run. Findings have no place yet, except those that come from reading.
pub(super) fn scan(
    run: &Arc<Run>,
    checked: &mut Checked,
    found: &mut dyn FnMut(Finding),
) -> Scanned {
    let mut scan = Scan {
        run,
        scanned: Scanned::default(),
        block: Rows::default(),
        blobs: BTreeMap::new(),
        whole: true,
        found,
        checked,
    };
    scan.checked.runs += 1;
    if !run.range_deletes().is_empty() {
        scan.scanned.not_a_leaf = Some("it has range deletes");
    }
    let mut next = 0;
    let mut cursor = RunCursor::bulk(run.clone()).checking();
    while next < run.block_count() {
        next = scan.walk_from(&mut cursor, next);
    }
    if scan.whole {
        scan.compare_blobs();
    }
    scan.scanned
}

struct Scan<'a> {
    run: &'a Arc<Run>,
    scanned: Scanned,
    block: Rows,
    blobs: BTreeMap<[u8; 16], u32>,
    /// Every block could be read.
    whole: bool,
    found: &'a mut dyn FnMut(Finding),
    checked: &'a mut Checked,
}

impl Scan<'_> {
    /// Reads on from the start of block `from`; returns the block at which to continue after an
    /// error.
    fn walk_from(&mut self, cursor: &mut RunCursor, from: usize) -> usize {
        self.block = Rows::default();
        if let Err(error) = cursor.start_at_block(from) {
            self.fail(&error);
            return from + 1;
        }
        let mut block = from;
        while let Some(entry) = cursor.entry() {
            self.entry(entry, block);
            let step: Result<()> = cursor.advance();
            let at = cursor.block_index();
            if at != block || cursor.entry().is_none() && step.is_ok() {
                self.end_block(block);
                block = at;
            }
            if let Err(error) = step {
                self.fail(&error);
                return at + 1;
            }
        }
        self.run.block_count()
    }

    fn fail(&mut self, error: &crate::Error) {
        self.whole = false;
        (self.found)(from_error(error));
    }

    fn entry(&mut self, entry: Entry<'_>, block: usize) {
        self.checked.entries += 1;
        self.block.rows += 1;
        let mut not_a_leaf = None;
        match entry.tag.kind() {
            Kind::Put => {}
            Kind::PutBlob => {
                self.block.has_blobs = true;
                match <[u8; 16]>::try_from(entry.payload) {
                    Ok(reference) => *self.blobs.entry(reference).or_default() += 1,
                    Err(_) => self.bad(block, "entry", "a blob reference has not 16 bytes"),
                }
            }
            Kind::Delete => {
                self.block.deletes += 1;
                not_a_leaf = Some("it has a Delete");
                if !entry.payload.is_empty() {
                    self.bad(block, "entry", "a Delete has a payload");
                }
            }
            Kind::Merge => {
                self.block.merges += 1;
                not_a_leaf = Some("it has a Merge");
                if entry.payload.is_empty() || operands(entry.payload).any(|one| one.is_err()) {
                    self.bad(block, "entry", "the operands of a Merge cannot be read");
                }
            }
            Kind::Versions => self.bad(block, "entry", "versions outside a spilled run"),
        }
        if entry.tag.is_fresh() {
            not_a_leaf = Some("it has a fresh Put");
        }
        self.scanned.not_a_leaf = self.scanned.not_a_leaf.or(not_a_leaf);
        if entry.key.len() > crate::KEY_BYTES_MAX {
            self.bad(block, "entry", "a key exceeds the maximum length");
        }
        if !self.run.may_contain(key_hash(entry.key)) {
            self.bad(block, "filter", "the filter denies a key that the run has");
        }
    }

    fn end_block(&mut self, block: usize) {
        self.checked.blocks += 1;
        let counted = std::mem::take(&mut self.block);
        let said = self.run.blocks().entry(block).map(|entry| Rows {
            rows: entry.rows,
            deletes: entry.deletes,
            merges: entry.merges,
            has_blobs: entry.has_blobs,
        });
        if said != Some(counted) {
            self.bad(block, "counts", "a block has other rows than the index says");
        }
    }

    fn compare_blobs(&mut self) {
        let listed: BTreeMap<[u8; 16], u32> =
            self.run.blobs().iter().map(|blob| (blob.reference, blob.rows)).collect();
        if listed != self.blobs {
            (self.found)(damage("blobs", "the list of blobs is not what the rows refer to"));
        }
    }

    fn bad(&mut self, block: usize, code: &'static str, what: &str) {
        let entry = self.run.blocks().entry(block);
        let (start, bytes) = entry.map_or((0, 0), |entry: &BlockEntry| {
            (u64::from(entry.offset), u64::from(entry.encoded_bytes))
        });
        let base = self.run.link().map_or(0, |link| link.offset);
        (self.found)(Finding { offset: base + start, bytes, ..damage(code, what) });
    }
}
