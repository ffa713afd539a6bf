//! Checking the blobs that runs list: which runs list each blob, how often, and whether its bytes
//! match its reference.
//!
//! A reference contains neither version nor lineage; the space map has both. So what the trees
//! reach is recorded by lineage, and checked once the map is read. A blob is counted once for each
//! run of its own lineage that the newest version links and that lists it (Rule: I21), and kept for
//! clones by their pins on that lineage (Rule: I19).
//!
//! Invariants
//! 1. A blob is read once, however many runs and versions list it.
//! 2. Memory: one small record per blob; its bytes are read a piece at a time.
//!
//! Threads: one.

use std::collections::{BTreeMap, HashSet};

use crate::{
    blob::{BLOB_REF_BYTES, Blob, BlobRef},
    page::{PageKind, StoreFile},
    store::{Extent, Listed},
    sync::Arc,
    types::{Lineage, VersionNumber},
};

use super::report::{Checked, Finding, damage, from_error};

/// A blob that runs list.
#[derive(Clone, Debug)]
struct Reached {
    extent: Extent,
    tree: Arc<str>,
    /// Runs that list it, in the tree that wrote them: lineage, count.
    counts: Vec<(Lineage, u32)>,
    /// Lineages inherited by trees that list it, each with the oldest version for which such a tree
    /// keeps it.
    inherited: Vec<(Lineage, VersionNumber)>,
}

impl Reached {
    fn refs(&self, lineage: Lineage) -> u32 {
        self.counts.iter().find(|(one, _)| *one == lineage).map_or(0, |(_, refs)| *refs)
    }

    fn inherited_at(&self, lineage: Lineage) -> Option<VersionNumber> {
        self.inherited.iter().find(|(one, _)| *one == lineage).map(|(_, at)| *at)
    }
}

/// Blobs that the trees of a version reach, by offset.
#[derive(Clone, Debug, Default)]
pub(super) struct Blobs(BTreeMap<u64, Reached>);

/// A finding's code and description.
pub(super) type Problem = (&'static str, String);

impl Blobs {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn has(&self, offset: u64) -> bool {
        self.0.contains_key(&offset)
    }

    /// Records that a run lists this blob. `counts` is the run's lineage, if the tree that links it
    /// wrote it.
    pub fn note(
        &mut self,
        reference: &[u8; BLOB_REF_BYTES],
        tree: &Arc<str>,
        counts: Option<Lineage>,
        inherits: &[(Lineage, VersionNumber)],
    ) -> Result<(), &'static str> {
        let extent = BlobRef::from_disk(reference).ok_or("a reference that no blob can have")?;
        let extent = extent.extent();
        let fresh = || Reached { extent, tree: tree.clone(), counts: vec![], inherited: vec![] };
        let blob = self.0.entry(extent.offset).or_insert_with(fresh);
        if blob.extent != extent {
            return Err("two references with different lengths name the same extent");
        }
        if let Some(lineage) = counts {
            match blob.counts.iter_mut().find(|(one, _)| *one == lineage) {
                Some((_, refs)) => *refs += 1,
                None => blob.counts.push((lineage, 1)),
            }
        }
        for &(lineage, at) in inherits {
            match blob.inherited.iter_mut().find(|(one, _)| *one == lineage) {
                Some((_, oldest)) => *oldest = at.min(*oldest),
                None => blob.inherited.push((lineage, at)),
            }
        }
        Ok(())
    }

    /// The contradictions between these blobs and the space map of the same version: place, tree,
    /// problem. References are not compared if the walk was incomplete.
    pub fn against(
        &self,
        listed: &BTreeMap<u64, Listed>,
        is_cut: bool,
    ) -> Vec<(u64, Arc<str>, Problem)> {
        let problem = |blob: &Reached| -> Option<Problem> {
            let Some(record) = listed.get(&blob.extent.offset) else {
                return Some(("not-listed", "a blob's bytes are free in the space map".into()));
            };
            if record.kind != PageKind::Blob || record.extent != blob.extent {
                return Some(("listed-as", "the space map lists no such blob there".into()));
            }
            let refs = blob.refs(record.lineage);
            let heir = blob.inherited_at(record.lineage);
            if refs == 0 && heir.is_none() {
                return Some(("lineage", "the blob belongs to another lineage".into()));
            }
            // A run that counts the blob needs it alive.
            if !record.is_kept_for(heir.filter(|_| refs == 0)) {
                return Some(("listed-dead", "a blob is dead in the space map".into()));
            }
            (refs > 0 && refs != record.refs && !is_cut).then(|| {
                let said = record.refs;
                ("references", format!("{refs} runs list a blob, and the space map has {said}"))
            })
        };
        let problems = self.0.values().filter_map(|blob| Some((blob, problem(blob)?)));
        problems.map(|(blob, why)| (blob.extent.offset, blob.tree.clone(), why)).collect()
    }

    /// The blobs that the newest map does not keep for a holder of version `at`.
    pub fn lost_to(
        &self,
        listed: &BTreeMap<u64, Listed>,
        at: VersionNumber,
    ) -> Vec<(Extent, Arc<str>)> {
        let is_kept = |blob: &Reached| {
            listed.get(&blob.extent.offset).is_some_and(|record| {
                let own = Some(at).filter(|_| blob.refs(record.lineage) > 0);
                record.kind == PageKind::Blob
                    && record.extent == blob.extent
                    && record.birth <= at
                    && record.is_kept_for(own.or(blob.inherited_at(record.lineage)))
            })
        };
        let lost = self.0.values().filter(|blob| !is_kept(blob));
        lost.map(|blob| (blob.extent, blob.tree.clone())).collect()
    }
}

/// Blobs that were read, whatever the result.
#[derive(Debug, Default)]
pub(super) struct ReadBlobs(HashSet<[u8; BLOB_REF_BYTES]>);

impl ReadBlobs {
    /// Reads all of a blob, unless it was read before.
    pub fn read(
        &mut self,
        file: &Arc<StoreFile>,
        reference: &[u8; BLOB_REF_BYTES],
        checked: &mut Checked,
    ) -> Result<(), Finding> {
        if !self.0.insert(*reference) {
            return Ok(());
        }
        checked.blobs += 1;
        let Some(blob) = BlobRef::from_disk(reference) else {
            return Err(damage("blobs", "a reference that no blob can have"));
        };
        let read = Blob::open_uncached(file, blob).and_then(|blob| blob.verify());
        read.map_err(|error| from_error(&error))
    }
}
