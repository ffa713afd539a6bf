//! A store that fills its disk itself, is killed, and is opened with nothing free (P5, P13; I24).
//! It opens at every moment, has its rows, and is emptied by deletes alone, through more kills.
//!
//! In every other pair of seeds, other programs take the rest of the disk before the store has
//! filled it, so that its reserve is used up, too. Then deletes may be refused. Nothing else
//! differs: the store opens, has its rows, and accepts rows again once there is space.
//!
//! Sizes are tiny, except the store's reserve, which is at least 4 MiB: so the disk has some MiB.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::Path,
    time::Duration,
};

use frond::{
    Batch, Db, Durability, Error, Options, Tree, TxnOptions, check::CheckMode, internals::io::Vfs,
};

use super::guarded;
use crate::{
    DbEngine, Dice,
    db_engine::DIR,
    disk::{
        CallKind, CrashOptions, DiskState, Fault, FaultKind, Note, Point, SimVfs, When,
        crash_states,
    },
    drive::{Failure, fail},
};

/// How much to try.
#[derive(Clone, Copy, Debug)]
pub struct FilledPlan {
    /// Capacity of the disk in bytes: more than 5 MiB.
    pub disk_bytes: u64,
    /// Number of calls at which a crash is tried while the disk is full.
    pub calls: usize,
    /// Crash states at each of them.
    pub states: CrashOptions,
    /// One disk in this many is emptied by deletes.
    pub emptied_one_in: u64,
}

impl Default for FilledPlan {
    fn default() -> Self {
        let states = CrashOptions { class_states_max: 1, ..CrashOptions::short() };
        Self { disk_bytes: 7 << 20, calls: 12, states, emptied_one_in: 6 }
    }
}

/// What was tried.
#[derive(Clone, Copy, Debug, Default)]
pub struct FilledReport {
    /// Puts that the full disk refused.
    pub refused: u64,
    /// Deletes on a disk with nothing free.
    pub deletes: u64,
    /// Deletes that were refused: only where other programs had taken the disk.
    pub deletes_refused: u64,
    /// Disks left by a crash that were opened with nothing free.
    pub opened: u64,
    /// Of these, opened after a crash during the opening.
    pub twice: u64,
    /// Of these, opened without space for the checkpoint that ends a recovery.
    pub cramped: u64,
    /// Of these, opened without the reserves of store and log.
    pub unreserved: u64,
    /// Of these, emptied by deletes until rows were accepted again.
    pub emptied: u64,
}

impl FilledReport {
    /// Adds another report.
    pub fn add(&mut self, other: &FilledReport) {
        self.refused += other.refused;
        self.deletes += other.deletes;
        self.deletes_refused += other.deletes_refused;
        self.opened += other.opened;
        self.twice += other.twice;
        self.cramped += other.cramped;
        self.unreserved += other.unreserved;
        self.emptied += other.emptied;
    }
}

impl fmt::Display for FilledReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { refused, deletes, deletes_refused, opened, twice, cramped, unreserved, emptied } =
            self;
        write!(
            f,
            "{refused} puts refused, {deletes} deletes with nothing free, {deletes_refused} refused to others' \
             files; {opened} disks opened with nothing \
             free ({twice} after a crash in an opening, {unreserved} without reserves, {cramped} without room for a \
             checkpoint), {emptied} emptied"
        )
    }
}

const LOG_RESERVE: &str = "log-reserve.new";
/// More allocations than an opening makes.
const ALLOCATIONS_MAX: u64 = 500;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// The changes that were made, in order: a row that was put, or a key that was deleted.
#[derive(Clone, Debug, Default)]
struct History(Vec<(Vec<u8>, Option<Vec<u8>>)>);

impl History {
    fn rows_at(&self, step: u64) -> Rows {
        let mut rows = Rows::new();
        for (key, value) in &self.0[..step as usize] {
            match value {
                Some(value) => rows.insert(key.clone(), value.clone()),
                None => rows.remove(key),
            };
        }
        rows
    }
}

/// A run of one store, with what was acknowledged.
struct Life {
    vfs: SimVfs,
    db: Db,
    tree: Tree,
    history: History,
    acknowledged: u64,
    level: Durability,
    /// Whether other programs have taken the rest of the disk.
    others: bool,
}

impl Life {
    fn open(vfs: SimVfs, level: Durability, seed: u64, history: History) -> Result<Self, Error> {
        let DbEngine { cache_bytes, tuning, .. } = DbEngine::tiny(level);
        let options = Options::new().cache_size(cache_bytes).durability(level).tuning(tuning);
        let db = Db::open(DIR, options.env(vfs.env(seed)))?;
        let tree = db.open_tree("t").or_else(|_| db.create_tree("t", Default::default()))?;
        let acknowledged = history.0.len() as u64;
        let others = false;
        let life = Self { vfs, db, tree, history, acknowledged, level, others };
        life.note(acknowledged);
        Ok(life)
    }

    /// Records what must survive: `issued` changes were started.
    fn note(&self, issued: u64) {
        let floor_power = if self.level == Durability::Sync { self.acknowledged } else { 0 };
        self.vfs.set_note(Note { issued, floor_power, floor_kill: self.acknowledged });
    }

    fn change(
        &mut self,
        key: Vec<u8>,
        value: Option<Vec<u8>>,
        how: impl FnOnce(&Db, &Tree, &[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.history.0.push((key.clone(), value));
        self.note(self.history.0.len() as u64);
        let done = how(&self.db, &self.tree, &key);
        if done.is_ok() {
            self.acknowledged = self.history.0.len() as u64;
        } else {
            self.history.0.pop();
        }
        self.note(self.acknowledged);
        done
    }

    fn put(&mut self, key: Vec<u8>, value: Vec<u8>) -> Result<(), Error> {
        let bytes = value.clone();
        self.change(key, Some(value), |_, tree, key| tree.put(key, &bytes).map(drop))
    }

    /// Deletes a key: by a batch, as a range, or in a transaction.
    fn delete(&mut self, key: Vec<u8>, how: u64) -> Result<(), Error> {
        self.change(key, None, |db, tree, key| match how % 3 {
            0 => tree.delete(key).map(drop),
            1 => {
                let mut batch = Batch::new();
                batch.delete_range(tree, key..=key)?;
                db.commit(&mut batch).map(drop)
            }
            _ => {
                let txn = db.begin(TxnOptions::default())?;
                txn.delete(tree, key)?;
                txn.commit().map(drop)
            }
        })
    }

    /// Deletes a key where others may have left no space for that. Returns whether it was done.
    fn delete_if_it_may(&mut self, key: Vec<u8>, how: u64) -> Result<bool, Failure> {
        match self.delete(key, how) {
            Ok(()) => Ok(true),
            Err(Error::Full(_)) if self.others => Ok(false),
            Err(error) => fail(format!("a delete is refused: {error}")),
        }
    }

    fn rest(&self) -> Result<(), Error> {
        self.vfs.advance(Duration::from_millis(1100));
        while self.db.step()? {}
        Ok(())
    }

    fn rows(&self) -> Result<Rows, Error> {
        let mut rows = Rows::new();
        let mut cursor = self.tree.scan(..)?;
        while let Some((key, value)) = cursor.next()? {
            rows.insert(key.to_vec(), value.to_vec());
        }
        Ok(rows)
    }
}

fn disk_is_filled_by_others(seed: u64) -> bool {
    seed % 4 >= 2
}

fn key(dice: &mut Dice) -> Vec<u8> {
    format!("key{:04}", dice.below(2000)).into_bytes()
}

fn value(dice: &mut Dice) -> Vec<u8> {
    let bytes =
        if dice.chance(1, 30) { dice.between(4_000, 40_000) } else { dice.between(50, 3_000) };
    (0..bytes.div_ceil(8)).flat_map(|_| dice.bits().to_le_bytes()).collect()
}

/// Fills a disk, continues to delete and put while it is full, and crashes.
pub fn fill_and_reopen(seed: u64, plan: &FilledPlan) -> Result<FilledReport, Failure> {
    let mut report = FilledReport::default();
    let mut dice = Dice::new(seed ^ 0xf111);
    let level = [Durability::Sync, Durability::Os][seed as usize % 2];
    let (points, history) = guarded(|| fill(seed, level, plan, &mut dice, &mut report))?;
    for _ in 0..plan.calls {
        let point = &points[dice.below(points.len() as u64) as usize];
        let options = plan.states.with_seed(seed ^ point.change_number);
        for state in crash_states(&point.disk, &options) {
            let floor = if state.kill { point.note.floor_kill } else { point.note.floor_power };
            let place = || format!("crash before {}: {}", point.call, state.what);
            guarded(|| {
                // After a kill the medium may lack what the page cache has, until a recovery has
                // ended.
                let bounds = (floor, point.note.floor_power, point.note.issued);
                reopen(&state.disk, &history, bounds, (seed, level), plan, &mut dice, &mut report)
            })
            .map_err(|failure| failure.during(place()))?;
        }
    }
    Ok(report)
}

fn fill(
    seed: u64,
    level: Durability,
    plan: &FilledPlan,
    dice: &mut Dice,
    report: &mut FilledReport,
) -> Result<(Vec<Point>, History), Failure> {
    let vfs = SimVfs::new();
    let mut life = Life::open(vfs.clone(), level, seed, History::default())?;
    vfs.set_capacity(Some(plan.disk_bytes));
    life.others = disk_is_filled_by_others(seed);
    let mut is_recorded = false;
    let mut refused = 0;
    while refused < 40 {
        match life.put(key(dice), value(dice)) {
            Ok(()) => {}
            Err(Error::Full(_)) => {
                refused += 1;
                if !is_recorded {
                    vfs.record();
                    is_recorded = true;
                }
                let gone = key(dice);
                life.delete_if_it_may(gone, dice.bits())?;
                if life.others && refused % 4 == 0 {
                    // The store returns what it has left of its reserve, and others take it.
                    vfs.set_capacity(Some(vfs.allocated_bytes()));
                }
                if refused % 8 == 0 {
                    life.rest()?;
                }
            }
            Err(error) => return fail(format!("a full disk says: {error}")),
        }
        if dice.chance(1, 4) {
            life.db.step()?;
        }
        if life.others && dice.chance(1, 400) {
            vfs.set_capacity(Some(vfs.allocated_bytes() + dice.below(64 << 10)));
        }
    }
    report.refused += refused;
    let expected = life.history.rows_at(life.acknowledged);
    if life.rows()? != expected {
        return fail("wrong rows on a full disk");
    }
    let points = vfs.recorded();
    vfs.halt();
    let Life { history, .. } = life;
    Ok((points, history))
}

/// Starts a machine whose disk has nothing free. If others have it, the store may look like one
/// that an older version made, or that has used up its reserves: the log has no reserve, and no
/// space is allocated for what is free in the store's file.
fn start_full(
    disk: &DiskState,
    others: bool,
    dice: &mut Dice,
) -> Result<(SimVfs, bool), frond::Error> {
    let vfs = SimVfs::start(disk.clone());
    let is_unreserved = others && dice.chance(1, 2);
    if is_unreserved {
        let (dir, reserve) = (Path::new(DIR), Path::new(DIR).join(LOG_RESERVE));
        let gone = match vfs.exists(&reserve) {
            Ok(true) => vfs.remove(&reserve).and_then(|()| vfs.sync_dir(dir)),
            found => found.map(drop),
        };
        gone.map_err(|error| Error::io(&reserve, "remove", 0, error))?;
        for call in 0..ALLOCATIONS_MAX {
            vfs.plan(Fault::once(When::Kind(CallKind::Allocate, call), FaultKind::Enospc));
        }
    }
    vfs.set_capacity(Some(vfs.allocated_bytes()));
    Ok((vfs, is_unreserved))
}

/// Opens a disk on which nothing is free.
fn reopen(
    disk: &DiskState,
    history: &History,
    (floor, floor_power, issued): (u64, u64, u64),
    (seed, level): (u64, Durability),
    plan: &FilledPlan,
    dice: &mut Dice,
    report: &mut FilledReport,
) -> Result<(), Failure> {
    let others = disk_is_filled_by_others(seed);
    let (vfs, is_unreserved) = start_full(disk, others, dice)?;
    vfs.record();
    let opened = Life::open(vfs.clone(), level, seed ^ 1, History::default());
    let mut life = opened.map_err(|error| {
        Failure(format!("does not open, without reserves: {is_unreserved}: {error}"))
    })?;
    let points = vfs.recorded();
    vfs.mend();
    report.opened += 1;
    report.unreserved += u64::from(is_unreserved);
    let cramped = life.db.warnings().iter().find(|text| text.contains("FRD-1304"));
    if let (Some(warning), false) = (&cramped, others) {
        return fail(format!("the store had the disk alone, and a reserve for this: {warning}"));
    }
    report.cramped += u64::from(cramped.is_some());
    let found = life.rows()?;
    let step = (floor..=issued).rev().find(|&step| history.rows_at(step) == found);
    let Some(step) = step else {
        return fail(format!("the rows are those of no step from {floor} to {issued}"));
    };
    life.history = History(history.0[..step as usize].to_vec());
    life.acknowledged = step;
    life.others = others;
    life.note(step);
    if dice.chance(1, plan.emptied_one_in) {
        empty(&mut life, dice, report)?;
    }
    vfs.halt();
    drop(life);
    if dice.chance(1, 3) {
        // A crash during the opening, and again nothing is free.
        let point = &points[dice.below(points.len() as u64) as usize];
        let states = crash_states(&point.disk, &CrashOptions::random(1).with_seed(dice.bits()));
        for state in states.into_iter().rev().take(2) {
            report.twice += 1;
            let (vfs, _) = start_full(&state.disk, others, dice)?;
            let place = || format!("then in the opening before {}: {}", point.call, state.what);
            let opened = Life::open(vfs.clone(), level, seed ^ 2, History::default());
            let life = opened
                .map_err(|error| Failure(format!("does not open: {error}")).during(place()))?;
            let rows = life.rows()?;
            let floor = if state.kill { floor } else { floor_power };
            if !(floor..=issued).any(|step| history.rows_at(step) == rows) {
                return fail(format!("{}: other rows than before", place()));
            }
            vfs.halt();
        }
    }
    Ok(())
}

/// Deletes most rows with nothing free, and none of the deletes is refused; then rows are accepted
/// again, through a kill and a close.
fn empty(life: &mut Life, dice: &mut Dice, report: &mut FilledReport) -> Result<(), Failure> {
    let keys: Vec<Vec<u8>> = life.rows()?.into_keys().collect();
    let mut kept = BTreeSet::new();
    for key in keys {
        if dice.chance(1, 10) {
            kept.insert(key);
            continue;
        }
        if life.delete_if_it_may(key, dice.bits())? {
            report.deletes += 1;
        } else {
            report.deletes_refused += 1;
            life.rest()?;
        }
    }
    if life.others {
        life.vfs.set_capacity(Some(life.vfs.allocated_bytes() + (6 << 20)));
    }
    for _ in 0..20 {
        life.rest()?;
        while life.db.drain_step()? {}
    }
    let row = (b"new".to_vec(), vec![7; 3000]);
    life.put(row.0, row.1).map_err(|error| Failure(format!("after the deletes: {error}")))?;
    let expected = life.history.rows_at(life.acknowledged);
    for is_closed in [false, true] {
        let disk = life.vfs.disk();
        let vfs = match is_closed {
            false => SimVfs::start(disk.after_kill()),
            true => {
                life.db.close()?;
                SimVfs::start(life.vfs.disk())
            }
        };
        vfs.set_capacity(Some(vfs.allocated_bytes()));
        let again = Life::open(vfs.clone(), life.level, 3, History::default())?;
        if again.rows()? != expected {
            return fail(format!("other rows after the deletes, closed: {is_closed}"));
        }
        let verdict = again.db.check(CheckMode::Full)?;
        if !verdict.is_clean() {
            return fail(format!("check finds damage: {verdict}"));
        }
        vfs.halt();
    }
    report.emptied += 1;
    Ok(())
}
