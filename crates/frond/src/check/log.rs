//! Checking the log against the slots: what recovery would read must exist, whole, and without a
//! gap.
//!
//! A log that is being written is read up to the position that was durable after the slots were
//! read; what comes later is still changing, and so is what no slot needs.
//!
//! Blobs that replay would use are read: until the log releases them they must be whole, for the
//! older slot, too (Rule: I11).

use std::path::Path;

use crate::{
    Seqno,
    blob::BlobRef,
    error::Result,
    io::Env,
    message::Kind,
    page::PageKind,
    run,
    store::{Extent, Link, Store, Superblock, TreeRoot},
    sync::Arc,
    types::Lsn,
    wal::{self, Expect, Item, LogExtent, Record, RecordItems},
};

use super::{
    blobs::ReadBlobs,
    report::{CheckMode, CheckReport, Checked, Finding, damage, from_error},
};

/// The location of a log, and what is known about it.
pub(super) struct LogView<'a> {
    pub env: &'a Env,
    pub dir: &'a Path,
    pub store: &'a Arc<Store>,
    /// For a log that is being written: everything before this is on disk.
    pub durable: Option<Lsn>,
}

/// Checks the log for the good slots, newest first. In full mode, returns the extents that the log
/// names.
pub(super) fn check_log(
    view: &LogView<'_>,
    slots: &[Superblock],
    mode: CheckMode,
    report: &mut CheckReport,
    read_blobs: &mut ReadBlobs,
) -> Vec<(PageKind, Extent)> {
    let Some(newest) = slots.first() else { return Vec::new() };
    let Some(start) = slots.iter().min_by_key(|slot| slot.log_from) else { return Vec::new() };
    // An error is ignored here, and met again below.
    if newest.knows_no_log() && wal::was_being_created(view.env, view.dir).unwrap_or(false) {
        return Vec::new();
    }
    let expect = match (view.durable, newest.clean) {
        (Some(durable), _) if !plant!("check: a log that grows has an end") => {
            Expect::Known(durable)
        }
        (_, Some(end)) => Expect::CleanEnd(end),
        (_, None) => Expect::Crashed { synced: newest.log_synced },
    };
    let mut reader = Reader {
        newest,
        store: view.store,
        named: Vec::new(),
        read_blobs,
        checked: &mut report.checked,
        found: Vec::new(),
        base: start.applied,
        last: None,
        full: mode == CheckMode::Full,
        records: 0,
        bad: Vec::new(),
        sequence: 0,
    };
    let read = wal::recover(
        view.env,
        view.dir,
        view.store.id(),
        start.log_from,
        expect,
        &mut |lsn, payload| reader.record(lsn, payload),
    );
    let Reader { records, bad, found: blobs, sequence, named, .. } = reader;
    report.checked.log_records += records;
    blobs.into_iter().for_each(|finding| report.add(finding));
    let found = |what: String| Finding { file: view.dir.to_owned(), ..damage("log", what) };
    for (lsn, what) in bad {
        report.add(Finding { offset: lsn.0, ..found(what) });
    }
    if sequence > newest.sequence && view.durable.is_none() {
        let what = format!(
            "the log knows superblock {}, and the newest one is {}: a write of a slot was lost",
            sequence, newest.sequence
        );
        report.add(found(what));
    }
    let mut tell = |read: Result<wal::RecoveredTail>| match read {
        Ok(_) => {}
        Err(error) => report.add(from_error(&error)),
    };
    tell(read);
    // Opening starts where the newest slot says, and may find problems that reading from an earlier
    // position does not.
    if newest.log_from != start.log_from {
        let (env, dir) = (view.env, view.dir);
        let skip = &mut |_: Lsn, _: &[u8]| Ok(());
        tell(wal::recover(env, dir, view.store.id(), newest.log_from, expect, skip));
    }
    named
}

struct Reader<'a> {
    newest: &'a Superblock,
    store: &'a Arc<Store>,
    named: Vec<(PageKind, Extent)>,
    read_blobs: &'a mut ReadBlobs,
    checked: &'a mut Checked,
    /// Findings about blobs.
    found: Vec<Finding>,
    /// Boundary of the slot with which reading starts: all commits above it are in the log.
    base: Seqno,
    last: Option<Seqno>,
    full: bool,
    records: u64,
    bad: Vec<(Lsn, String)>,
    /// Highest slot that the log says is durable.
    sequence: u64,
}

impl Reader<'_> {
    fn record(&mut self, lsn: Lsn, payload: &[u8]) -> Result<()> {
        self.records += 1;
        if self.bad.len() > 100 {
            return Ok(());
        }
        match wal::decode(lsn, payload) {
            Ok(Record::Checkpoint { sequence }) => self.sequence = self.sequence.max(sequence),
            Ok(Record::Keeps { items }) => {
                if self.full
                    && let Err(error) = self.items(lsn, Seqno(0), items)
                {
                    self.bad.push((lsn, error.to_string()));
                }
            }
            Ok(Record::Commit { seqno, items }) => {
                self.commit(lsn, seqno);
                if self.full
                    && let Err(error) = self.items(lsn, seqno, items)
                {
                    self.bad.push((lsn, error.to_string()));
                }
            }
            Err(error) => self.bad.push((lsn, error.to_string())),
        }
        Ok(())
    }

    /// Checks that what a commit adds can be claimed, and that what it puts it also adds.
    fn items(&mut self, lsn: Lsn, seqno: Seqno, mut items: RecordItems<'_>) -> Result<()> {
        let first = self.named.len();
        while let Some(item) = items.next()? {
            match item {
                Item::Extent(extent) => self.name(lsn, PageKind::Blob, extent),
                Item::Page { kind, extent } => self.name(lsn, kind, extent),
                Item::Root { root, .. } => self.root(lsn, root, first),
                Item::Runs { links, .. } => {
                    for link in links.iter().map(Link::from_disk) {
                        self.run(lsn, &link, seqno > self.base);
                    }
                }
                Item::Entry { tag, payload, .. }
                    if tag.kind() == Kind::PutBlob && seqno > self.base =>
                {
                    self.blob(lsn, payload, first);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn name(&mut self, lsn: Lsn, kind: PageKind, LogExtent { offset, bytes }: LogExtent) {
        match u32::try_from(bytes).map(|bytes| Extent { offset, bytes }) {
            Ok(extent) if self.store.may_hold(extent) => self.named.push((kind, extent)),
            _ => self.bad.push((lsn, "it names an extent that cannot be".into())),
        }
    }

    /// Checks a run whose entries a commit puts; reads it if replay would.
    fn run(&mut self, lsn: Lsn, link: &Link, is_read: bool) {
        let Link { offset, bytes, .. } = *link;
        self.name(lsn, PageKind::Run, LogExtent { offset, bytes: bytes.into() });
        if !is_read {
            return;
        }
        let file = self.store.file();
        let read = file
            .read(offset, bytes.into(), "a run")
            .and_then(|extent| run::verify_extent(file, link, &extent));
        match read {
            Ok(listed) => {
                for blob in listed {
                    let read = self.read_blobs.read(file, &blob.reference, self.checked);
                    self.found.extend(read.err());
                }
            }
            Err(error) => self.bad.push((lsn, error.to_string())),
        }
    }

    /// Checks the root of a tree that was loaded in bulk: its record must add the page.
    fn root(&mut self, lsn: Lsn, root: &[u8], first: usize) {
        let own = self.named.get(first..).unwrap_or_default();
        let link = TreeRoot::from_bytes(root).ok().and_then(|root| root.link);
        let brought = link.is_some_and(|link| {
            let extent = Extent { offset: link.offset, bytes: link.bytes };
            own.iter().any(|(kind, page)| *kind != PageKind::Blob && *page == extent)
        });
        if !brought {
            self.bad.push((lsn, "a tree is loaded whose root the commit does not bring".into()));
        }
    }

    /// Checks a blob that replay would use; `first` is the index of its record's first extent.
    fn blob(&mut self, lsn: Lsn, payload: &[u8], first: usize) {
        let extent = BlobRef::from_disk(payload).map(|blob| blob.extent());
        let own = self.named.get(first..).unwrap_or_default();
        if !extent.is_some_and(|extent| own.contains(&(PageKind::Blob, extent))) {
            self.bad.push((lsn, "a commit puts a blob that it does not bring".into()));
        } else if let Ok(reference) = payload.try_into() {
            let read = self.read_blobs.read(self.store.file(), reference, self.checked);
            self.found.extend(read.err());
        }
    }

    /// Checks that every seqno above the boundary is in the log, in order, and where replay looks
    /// for it.
    fn commit(&mut self, lsn: Lsn, seqno: Seqno) {
        if self.last.is_some_and(|last| seqno <= last) {
            self.bad.push((lsn, format!("commit {seqno} comes after a later one")));
        } else if seqno > self.base {
            let before = self.last.map_or(self.base, |last| last.max(self.base));
            if seqno != before.next() {
                let what = format!("commits {} to {} are missing", before.next(), seqno.0 - 1);
                self.bad.push((lsn, what));
            }
        }
        if seqno > self.newest.applied && lsn < self.newest.log_from {
            let what = format!("commit {seqno} is in no tree, and lies before where replay begins");
            self.bad.push((lsn, what));
        }
        self.last = self.last.max(Some(seqno));
    }
}
