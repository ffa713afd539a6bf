//! Named snapshots: states of the store that have a name and outlive the process.
//!
//! A named snapshot is a commit to the catalog at which the sequencer freezes the memtable. The
//! snapshot is shown (visible to callers) once the version that holds exactly the commits through
//! it is durable, with the snapshot's roots in the root directory (`version/branches/mod.rs`). If a
//! crash comes before that, replay makes the snapshot again.

use crate::{
    Error, Result, Seqno,
    bounds::{check_named_pin, take_snapshot_number},
    catalog::{Record, SnapshotRecord, validate_name},
    db::{Db, Shared, Snapshot},
    sync::Arc,
    tree::TreeRoot,
    version::{Change, NamedRoots, Roots},
};
use std::time::{Duration, SystemTime};

/// Description of a named snapshot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SnapshotInfo {
    /// The name.
    pub name: String,
    /// The last commit that it shows.
    pub seqno: Seqno,
    /// When it was made, by the machine's clock.
    pub created: SystemTime,
}

impl Db {
    /// Keeps the current state of the store under a name, until
    /// [`drop_snapshot`](Self::drop_snapshot). It shows every commit that returned before. Costs a
    /// checkpoint of what is not durable yet, but copies nothing; later it costs the space of the
    /// pages that have changed since. Durable when this returns.
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// let tree = db.create_tree("t", Default::default())?;
    /// tree.put(b"k", b"before")?;
    /// db.create_snapshot("monday")?;
    /// tree.put(b"k", b"after")?;
    /// let monday = db.open_snapshot("monday")?;
    /// assert_eq!(monday.get(&tree, b"k")?.as_deref(), Some(&b"before"[..]));
    /// db.drop_tree("t")?;
    /// let dropped = monday.open_tree("t")?;
    /// assert_eq!(monday.get(&dropped, b"k")?.as_deref(), Some(&b"before"[..]));
    /// db.drop_snapshot("monday")?;
    /// # drop((monday, dropped));
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// `SnapshotExists`, `InvalidArgument` for a name that is not allowed, `LimitReached`, `Full`:
    /// nothing was done.
    pub fn create_snapshot(&self, name: &str) -> Result<SnapshotInfo> {
        let shared = &self.shared;
        validate_name(name)?;
        let _change = shared.catalog.change();
        if shared.catalog.snapshot(name).is_some() {
            return Err(Error::SnapshotExists(name.into()));
        }
        let engine = &shared.engine;
        check_named_pin(engine.store.space().lineage_pins())?;
        let mut counters = shared.catalog.counters();
        let id = take_snapshot_number(&mut counters.next_snapshot)?;
        let created = engine.env.clock.wall();
        let mut record = SnapshotRecord {
            id,
            name: name.into(),
            seqno: engine.sequencer.visible(),
            created_micros: u64::try_from(created.as_micros()).unwrap_or(u64::MAX),
            carried: Default::default(),
        };
        let put = [Record::Counters(counters.clone()), Record::Snapshot(record.clone())];
        let change = Change::Snapshot(id);
        record.seqno = shared.change(&put, &[], &[change])?;
        shared.catalog.set_counters(counters);
        let durable = engine.health.watch(engine.apply_through(record.seqno)).and_then(|()| {
            while engine.write_begun()? {}
            Ok(())
        });
        if let Err(error) = durable {
            // A full disk: the snapshot must not appear after the next restart. Any other error has
            // stopped the store, and then the outcome is unknown.
            match shared.forget_snapshot(id) {
                Ok(()) => return Err(error),
                // No space even for that, so the snapshot stays. The log holds it until a
                // checkpoint does.
                Err(Error::Full(_)) => {}
                Err(other) => return Err(other),
            }
        }
        let info = info(&record);
        shared.catalog.show_snapshot(record);
        Ok(info)
    }

    /// Opens a named snapshot for reading. It stays readable while it is held, also after its name
    /// is dropped. Costs a read of the catalog as it was then.
    ///
    /// # Errors
    /// `NoSuchSnapshot`; I/O errors and damage.
    pub fn open_snapshot(&self, name: &str) -> Result<Snapshot> {
        let shared = &self.shared;
        let engine = &shared.engine;
        engine.health.check()?;
        let record = shared.catalog.snapshot(name);
        let version = engine.versions.hold();
        let named = record.and_then(|record| version.branches.named.get(&record.id));
        let named = named.ok_or_else(|| Error::NoSuchSnapshot(name.into()))?;
        let roots = match named.roots() {
            NamedRoots::Fresh(roots) => roots,
            NamedRoots::Durable(listed) => {
                let trees = engine.store.snapshot_trees(listed)?;
                let load = trees.iter().map(|(&tree, root)| {
                    (tree, Arc::new(TreeRoot::load(&engine.cx, root.clone())))
                });
                Arc::new(load.collect::<Roots>())
            }
        };
        // `version` is held until the snapshot has its own pin.
        let own = engine.versions.named(named, roots, &engine.cx.pool);
        Snapshot::named(shared.clone(), own)
    }

    /// All named snapshots, ordered by name.
    pub fn snapshots(&self) -> Vec<SnapshotInfo> {
        let version = self.shared.engine.versions.hold();
        let records = self.shared.catalog.snapshots().into_iter();
        let exact = |mut record: SnapshotRecord| {
            if let Some(named) = version.branches.named.get(&record.id) {
                record.seqno = named.seqno;
            }
            info(&record)
        };
        records.map(exact).collect()
    }

    /// Drops a named snapshot; the space that only it needed is freed by the next checkpoints.
    /// Synced when this returns.
    ///
    /// # Errors
    /// `NoSuchSnapshot`.
    pub fn drop_snapshot(&self, name: &str) -> Result<()> {
        let shared = &self.shared;
        let _change = shared.catalog.change();
        let record = shared.catalog.snapshot(name);
        let record = record.ok_or_else(|| Error::NoSuchSnapshot(name.into()))?;
        shared.forget_snapshot(record.id)
    }
}

impl Shared {
    fn forget_snapshot(&self, id: u32) -> Result<()> {
        self.change(&[], &[Record::snapshot_key(id)], &[Change::DropSnapshot(id)])?;
        self.catalog.hide_snapshot(id);
        Ok(())
    }
}

fn info(record: &SnapshotRecord) -> SnapshotInfo {
    SnapshotInfo {
        name: record.name.clone(),
        seqno: record.seqno,
        created: SystemTime::UNIX_EPOCH + Duration::from_micros(record.created_micros),
    }
}
