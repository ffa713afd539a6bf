//! Opening: from the files of a directory to a running engine.
//!
//! 1. Module `store` locks the store and chooses a superblock slot.
//! 2. The catalog is read from tree 0 as of the slot's boundary F.
//! 3. The log is replayed from the slot's position: records above F go into the memtable as their
//!    commits did, in log order; catalog records are shown as they pass.
//! 4. By then everything that was recovered is durable on disk (P6). The log continues in a new
//!    segment. A checkpoint before the first row is served makes the next recovery short.
//!
//! Invariants
//! 1. Until step 4 nothing is written, except what `store` writes to lock the store, and the files
//!    of a new store.
//! 2. Prepared transactions take their locks again before any other locks are taken (Rule: I12).

pub(super) mod log_extent;
mod replay;

use std::path::Path;

use crate::{
    Error, Result, Seqno, TreeId,
    cache::{BlockCache, FramePool},
    catalog::{self, CATALOG_TREE, Catalog, Pieces},
    db::{
        Commits, Db, Lifecycle, Locking, Options, Sessions, Shared,
        ddl::operators::must_know,
        session::prepared::{Expected, recover as recover_prepared},
        striped_handle::StripedHandles,
    },
    io::{Watch, WatchedVfs, Workers},
    memtable::Memtable,
    page::{FEATURE_ROW_COUNTS, FEATURE_SUMS},
    pipeline::{
        Background, CheckpointState, Engine, Health, Limits, Loads, Readers, SpillState, TaskPool,
    },
    run::WorkByTree,
    store::{
        self, Class, Extent, Found, Link, NewLog, Opened, PageKind, RootDirectory, Store,
        StoreOptions, Superblock,
    },
    sync::{Arc, AtomicBool, AtomicU64, Mutex},
    tree::{Descriptors, TreeContext, TreeCounters, TreeRoot},
    trim::give_freed_back,
    txn::{Sequencer, lock_table::LockTable},
    types::{Counts, Lsn, VersionNumber},
    version::{Branches, MemtableRef, NamedVersion, Roots, Versions},
    wal::{self, Expect, Item, Log, LogOptions, Record},
};

use log_extent::extent_of;
use replay::{Replay, load_catalog};

/// Locks may take one in this many bytes of the memory budget, as in InnoDB.
const LOCKS_DIVISOR: u64 = 4;

pub(super) fn open(dir: &Path, mut options: Options) -> Result<Db> {
    if let Some(invalid) = options.invalid.take() {
        return Err(invalid);
    }
    let watched = WatchedVfs::new(options.env.vfs.clone(), options.env.clock.clone());
    let watch = watched.watch().clone();
    // Not under the model checker, to keep its schedules small.
    if !cfg!(shuttle) {
        options.env.vfs = Arc::new(watched);
    }
    let env = options.env.clone();
    let store_options = StoreOptions { read_only: options.read_only, ..StoreOptions::default() };
    let may_create = options.create && !options.read_only;
    let created = match store::probe(&env, dir)? {
        Found::Store => None,
        Found::Nothing | Found::Directory | Found::Unfinished(_) if may_create => {
            // `None` if another opener has created it meanwhile.
            store::create_with_log(&env, dir, store_options, |id, log| match log {
                NewLog::None => {
                    let (level, log_options) = (options.durability, log_options(&options));
                    Log::create(env.clone(), dir, id, level, log_options).map(Some)
                }
                NewLog::Made if wal::begins(&env, dir, id)? => Ok(None),
                NewLog::Made => Err(store::no_store_file(dir)),
            })?
        }
        Found::Nothing | Found::Directory => {
            let why = "there is no store here, and this call does not create one";
            return Err(Error::not_a_store(dir, why));
        }
        Found::Unfinished(_) => {
            let why = "a store was being created here; a call that creates stores finishes it";
            return Err(Error::not_a_store(dir, why));
        }
        Found::LogOnly => return Err(store::no_store_file(dir)),
    };
    let (opened, log) = match created {
        Some(created) => created,
        None => (store::open(&env, dir, store_options)?, None),
    };
    recover(dir, options, (opened, log), watch)
}

/// Recovers an opened store. `log` is the log of a store that was just created.
fn recover(
    dir: &Path,
    options: Options,
    (opened, log): (Opened, Option<Log>),
    watch: Arc<Watch>,
) -> Result<Db> {
    let Opened { store, superblock, roots, mut warnings } = opened;
    let is_new =
        log.is_some() || superblock.knows_no_log() && wal::was_being_created(&options.env, dir)?;
    let recovery = Recovery { dir, options: &options, superblock: &superblock, is_new };
    let writes_log = !options.read_only && !is_new;
    let (mut engine, catalog, counts) = recovery.engine(Arc::new(store), roots);
    let mut prepared = Pieces::default();
    load_catalog(&engine, &catalog, &mut prepared, superblock.applied)?;
    for (tree, counts) in counts {
        catalog.by_id(tree).inspect(|tree| tree.counters.raise(counts));
    }
    let end = recovery.open_log(&mut engine, &prepared, log)?;
    prepared.hold_all(&engine)?;
    if writes_log {
        // After the log was opened, which has priority on a full disk, and before replay may need
        // the reserve.
        engine.store.find_reserve(engine.limits.unwritten_bytes)?;
    }
    if !is_new {
        prepared = recovery.replay(&engine, &catalog, prepared, end)?;
    }
    let prepared = recover_prepared(&engine, &prepared)?;
    // Extents of commits that are in trees already, or whose values were replaced before that.
    engine.store.space().abandon_unheld();
    if writes_log {
        end_recovery(&engine, &mut warnings)?;
    }
    let background =
        if options.read_only { Background::default() } else { Background::start(&engine)? };
    let mut shared = Shared {
        locking: Locking::new(engine.lock_table.clone()),
        commits: Commits::new(&options),
        sessions: Sessions::default(),
        lifecycle: Lifecycle::new(options.read_only, background, warnings, watch),
        engine,
        catalog,
    };
    let without_room = shared.adopt_prepared(prepared)?;
    if without_room > 0 {
        shared.lifecycle.warnings.push(format!(
            "FRD-1303 {}: the log has no room on this disk for the commits of {without_room} prepared transactions; \
             until it has, other commits are refused: make room, or commit or roll back what is prepared",
            shared.engine.store.dir().display()
        ));
    }
    let shared = Arc::new(shared);
    let db = Db { handles: StripedHandles::new(&shared), shared };
    if !options.read_only {
        // A disk that is too full for the sweep is no reason not to open the store.
        match db.sweep_builds() {
            Err(Error::Full(_)) => {}
            swept => swept?,
        }
    }
    // Reading the pages and records took about as much memory as what was built from them.
    give_freed_back(db.shared.engine.known_bytes());
    Ok(db)
}

/// Ends a recovery that may write.
fn end_recovery(engine: &Engine, warnings: &mut Vec<String>) -> Result<()> {
    // The slot written below requires the features before the log does.
    engine.store.file().require(FEATURE_ROW_COUNTS | FEATURE_SUMS);
    if let Some(why) = engine.end_replay()? {
        if plant!("db: a full disk fails a recovery") {
            return Err(Error::Full(why));
        }
        warnings.push(format!(
            "FRD-1304 {}: the disk has no room for the checkpoint that ends a recovery ({why}); rows \
             can be read, and deleted as long as the log has room: make room, or delete or drop",
            engine.store.dir().display()
        ));
    }
    engine.health.watch(engine.refill_log())
}

/// What a recovery starts from.
struct Recovery<'a> {
    dir: &'a Path,
    options: &'a Options,
    superblock: &'a Superblock,
    /// The store was just created: there is nothing to recover.
    is_new: bool,
}

impl Recovery<'_> {
    /// The engine, without its log, at the state of the slot: every tree's root, and empty
    /// memtables. Also the counters of trees, for the catalog once it is read.
    fn engine(
        &self,
        store: Arc<Store>,
        roots: RootDirectory,
    ) -> (Arc<Engine>, Arc<Catalog>, Vec<(TreeId, Counts)>) {
        let Self { options, superblock, .. } = *self;
        let env = options.env.clone();
        let limits =
            options.tuning.limits.unwrap_or_else(|| Limits::for_cache(options.cache_bytes));
        let work = WorkByTree::new(env.clock.clone());
        let cx = context(store.clone(), options, &limits, work.clone());
        let (loaded, branches, counts) = load_roots(&cx, roots);
        let written = store.has_paged_directory().then(|| loaded.clone());
        let catalog = Arc::new(Catalog::new(work));
        let table = Arc::new(Memtable::new(cx.pool.clone()));
        let (applied, publish) = (superblock.applied, store.counts_from().next());
        let active = MemtableRef::new(table, applied, superblock.log_from);
        let roots = (loaded, branches);
        let versions = Versions::new(store.clone(), publish, applied, roots, active.clone());
        let threads = match env.workers {
            Workers::Threads(count) => count.saturating_sub(1),
            Workers::Manual => 0,
        };
        let now_millis = env.clock.now().as_millis() as u64;
        let lock_table = LockTable::with(env.clock.clone(), options.lock_hooks.clone());
        // A failed write stops the store at once, in whatever thread it fails.
        let health = Arc::new(Health::default());
        let stopped = health.clone();
        store.on_failure(Box::new(move |why| stopped.fail(why)));
        let engine = Arc::new(Engine {
            limits,
            cache_bytes: options.cache_bytes,
            keep_log_bytes: options.keep_log_bytes,
            cx,
            store,
            log: None,
            sequencer: Sequencer::new(applied, active),
            admission: Default::default(),
            versions,
            snapshots: Default::default(),
            health,
            trees: catalog.clone(),
            pool: TaskPool::new(threads),
            readers: Readers::new(env.workers, options.cache_bytes),
            spill: SpillState::default(),
            // In addition to memtables and unwritten runs; the block cache shrinks accordingly.
            loads: Loads::new(2 * limits.memtable_bytes),
            lock_table: Arc::new(lock_table.within(options.cache_bytes / LOCKS_DIVISOR)),
            writes_memory: Default::default(),
            empty_ranges: AtomicU64::new(0),
            checkpoint: CheckpointState::new(superblock.publish, applied, now_millis),
            log_reached: AtomicU64::new(0),
            blob_sync: Default::default(),
            in_doubt: Default::default(),
            sync_requests: Default::default(),
            roots: Mutex::default(),
            effects: Mutex::default(),
            idle: AtomicBool::new(false),
            signal: Default::default(),
            env,
        });
        engine.snapshots.tick(engine.env.clock.now());
        written.inspect(|roots| engine.checkpoint.roots_are_written(roots));
        (engine, catalog, counts)
    }

    /// How the log is expected to end.
    fn expected_end(&self) -> Expect {
        match self.superblock.clean {
            Some(end) => Expect::CleanEnd(end),
            None => Expect::Crashed { synced: self.superblock.log_synced },
        }
    }

    /// Opens the log, for an engine that does not run yet. The first pass over it finds its end,
    /// which is returned, and the extents that only the log names (Rule: I11), and checks that
    /// everything needed to replay it is there. A store that is open read-only has no log, and one
    /// that was just created has it already.
    fn open_log(
        &self,
        engine: &mut Arc<Engine>,
        prepared: &Pieces,
        created: Option<Log>,
    ) -> Result<Lsn> {
        let Self { dir, options, superblock, is_new } = *self;
        let (env, id, level) = (options.env.clone(), engine.store.id(), options.durability);
        let log_options = log_options(options);
        let (end, log) = if is_new {
            let create = || Log::create(env, dir, id, level, log_options);
            let log = created.map(Ok).or_else(|| (!options.read_only).then(create));
            (Lsn(0), log.transpose()?)
        } else {
            let from = engine.store.log_needed_from();
            let mut expected = Expected::at_boundary(prepared);
            let mut survey = |lsn: Lsn, payload: &[u8]| {
                survey(engine, &mut expected, superblock.applied, lsn, payload)
            };
            let tail = wal::recover(&env, dir, id, from, self.expected_end(), &mut survey)?;
            let end = tail.end;
            let log_options = log_options.roomy_for(expected.commits());
            let log = || Log::resume(env, dir, id, level, log_options, tail);
            (end, (!options.read_only).then(log).transpose()?)
        };
        if let Some(log) = log {
            let engine = Arc::get_mut(engine).expect("it is not shared before it runs");
            engine.checkpoint.begin_log_at(log.position());
            engine.log = Some(log);
        }
        Ok(end)
    }

    /// The second pass: replays the log, which ends at `end`.
    fn replay(
        &self,
        engine: &Arc<Engine>,
        catalog: &Arc<Catalog>,
        prepared: Pieces,
        end: Lsn,
    ) -> Result<Pieces> {
        let Self { dir, options, superblock, .. } = *self;
        // Replay may freeze and checkpoint, and so append to the log that it reads.
        let expect = if options.read_only { self.expected_end() } else { Expect::Known(end) };
        let (applied, id) = (superblock.applied, engine.store.id());
        engine.begin_replay();
        let mut replay = Replay { engine, catalog, applied, prepared };
        wal::recover(&options.env, dir, id, superblock.log_from, expect, &mut |lsn, payload| {
            replay.record(lsn, payload)
        })?;
        Ok(replay.prepared)
    }
}

/// What jobs on trees share.
fn context(
    store: Arc<Store>,
    options: &Options,
    limits: &Limits,
    work: Arc<WorkByTree>,
) -> Arc<TreeContext> {
    let pool = FramePool::new(options.cache_bytes as usize);
    // What memtables, unwritten runs and merges leave.
    let cache_bytes = options.cache_bytes - options.cache_bytes / 4 - options.cache_bytes / 4;
    let cx = TreeContext {
        store,
        cache: BlockCache::new(pool.clone(), cache_bytes as usize),
        pool,
        operators: Arc::new(options.operators.clone()),
        shape: options.tuning.shape.unwrap_or_default(),
        counters: TreeCounters::default(),
        work: Some(work),
        descriptors: Descriptors::default(),
        damage: Default::default(),
        unwritten: Arc::new(AtomicU64::new(0)),
        unwritten_max: AtomicU64::new(limits.unwritten_bytes),
        resident: Arc::new(AtomicU64::new(0)),
    };
    cx.limit_footers(limits.footers_bytes);
    Arc::new(cx)
}

/// The roots that a slot's directory lists, with their branches, and the counters of the trees.
fn load_roots(cx: &TreeContext, roots: RootDirectory) -> (Roots, Branches, Vec<(TreeId, Counts)>) {
    let (mut loaded, mut branches, mut counts) = (Roots::new(), Branches::default(), Vec::new());
    for (tree, mut durable) in roots.trees {
        let inherits = std::mem::take(&mut durable.inherits);
        if !inherits.is_empty() {
            Arc::make_mut(&mut branches.inherits).insert(tree, inherits);
        }
        counts.push((tree, durable.counts));
        if durable.loaded > VersionNumber(0) {
            Arc::make_mut(&mut branches.loaded).insert(tree, durable.loaded);
        }
        loaded.insert(tree, Arc::new(TreeRoot::load(cx, durable)));
    }
    let named = roots.snapshots.into_iter().filter_map(NamedVersion::load);
    branches.named = named.map(|snapshot| (snapshot.id, Arc::new(snapshot))).collect();
    (loaded, branches, counts)
}

/// The sizes of the log's segments and buffers.
fn log_options(options: &Options) -> LogOptions {
    let default = LogOptions::default();
    LogOptions {
        segment_bytes: options.tuning.segment_bytes.unwrap_or(default.segment_bytes),
        first_segment_bytes: match options.tuning.segment_bytes {
            Some(bytes) => (bytes / 4).next_multiple_of(4096).max(16 << 10),
            None => default.first_segment_bytes,
        },
        // All group buffers together take at most a sixteenth of the budget.
        group_bytes: options.tuning.group_bytes.unwrap_or_else(|| {
            let share = options.cache_bytes as usize / 16 / default.groups;
            default.group_bytes.min(share.next_power_of_two() / 2).max(64 << 10)
        }),
        ..default
    }
}

/// First pass over one log record, before anything is written or allocated: marks the extents that
/// it names as used (Rule: I11), checks that the merge operators that it needs are there (Rule:
/// I17), and counts prepared transactions.
fn survey(
    engine: &Engine,
    expected: &mut Expected,
    applied: Seqno,
    lsn: Lsn,
    payload: &[u8],
) -> Result<()> {
    let (seqno, mut items) = match wal::decode(lsn, payload)? {
        Record::Commit { seqno, items } => (seqno, items),
        Record::Keeps { items } => (Seqno(0), items),
        Record::Checkpoint { .. } => return Ok(()),
    };
    let store = &engine.store;
    while let Some(item) = items.next()? {
        match item {
            Item::Extent(extent) if !plant!("blob: recovery does not claim what the log names") => {
                store.claim(extent_of(store, extent)?, Class::Blob, PageKind::Blob, lsn)?;
            }
            Item::Page { kind, extent }
                if !plant!("load: recovery does not claim what the log names") =>
            {
                store.claim(extent_of(store, extent)?, Class::of_page(kind), kind, lsn)?;
            }
            Item::Runs { links, .. } => {
                for link in links.iter().map(Link::from_disk) {
                    let Link { offset, bytes, .. } = link;
                    store.claim(Extent { offset, bytes }, Class::Run, PageKind::Run, lsn)?;
                }
            }
            Item::Entry { tree: CATALOG_TREE, key, tag, payload } if seqno > applied => {
                expected.learn(key, tag.is_put());
                let record = tag.is_put().then(|| catalog::Record::decode(key, payload));
                // A record that cannot be decoded fails when it is replayed.
                if let Some(Ok(catalog::Record::Tree(record))) = record {
                    must_know(&engine.cx.operators, &record)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}
