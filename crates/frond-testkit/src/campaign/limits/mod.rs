//! Tiny bounds (P1, P5, P9): each is reached, refused calls leave nothing behind, and everything
//! acknowledged is there after the store is reopened with the same bounds.
//!
//! One workload does everything that can meet a bound ([`steps`]), with lengths around each tiny
//! one, and keeps a ledger of what was acknowledged. A call that is refused must be refused by a
//! tiny bound, with the error that the table of bounds names. Background work must meet none: it
//! would fail for something that was acknowledged.

mod map;
mod steps;

use std::{collections::BTreeMap, fmt, sync::Arc};

use frond::{
    Db, Error, Options, SizeClass,
    check::CheckMode,
    internals::{
        Shape,
        bounds::{self, At, BOUNDS, Bound, Tiny},
    },
};

use super::guarded;
use crate::{
    DbEngine, Dice,
    db_engine::DIR,
    disk::SimVfs,
    drive::{Failure, fail},
};

pub use map::fill_the_map;
use steps::Longest;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// Counts of what happened in a run.
#[derive(Clone, Debug, Default)]
pub struct LimitReport {
    /// Calls that change something.
    pub calls: u64,
    /// Calls that were refused, by the code of the error.
    pub refused: BTreeMap<String, u64>,
    /// How often each bound was reached, by its name.
    pub reached: BTreeMap<&'static str, u64>,
    /// How often the store was opened.
    pub opened: u64,
}

impl LimitReport {
    /// Adds another report.
    pub fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.opened += other.opened;
        for (code, count) in &other.refused {
            *self.refused.entry(code.clone()).or_default() += count;
        }
        for (name, count) in &other.reached {
            *self.reached.entry(name).or_default() += count;
        }
    }
}

impl fmt::Display for LimitReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { calls, refused, reached, opened } = self;
        write!(f, "{calls} calls, {opened} openings, refused {refused:?}, reached {reached:?}")
    }
}

/// The bounds that are made tiny together with this one: without them nothing small would reach it.
fn together_with(bound: Bound) -> Vec<(Bound, u64)> {
    let others: &[(Bound, u64)] = match bound.name {
        "MAP_DIRECTORY_BYTES" => &[(bounds::ZONE_BYTES, 8 << 10), (bounds::LINEAGE_PINS, 64)],
        // Otherwise records of the catalog would be longer than a value may be.
        "VALUE_BYTES" => &[(bounds::LAYOUT_CHANGES, 2)],
        _ => &[],
    };
    let mut all = vec![(bound, bound.tiny)];
    all.extend(others);
    all
}

/// The bounds that can be made tiny.
pub fn tunable() -> impl Iterator<Item = Bound> {
    BOUNDS.iter().copied().filter(|bound| !matches!(bound.at, At::Fixed(_)))
}

/// Runs `steps` steps with one tiny bound. `None` in a build whose bounds are constants.
pub fn reach_bound(bound: Bound, seed: u64, steps: u64) -> Result<Option<LimitReport>, Failure> {
    limited(&together_with(bound), seed, steps)
}

/// Runs with all bounds tiny at once, except that of the space map, which needs a file of some MiB.
pub fn reach_all_bounds(seed: u64, steps: u64) -> Result<Option<LimitReport>, Failure> {
    let all = tunable().filter(|bound| *bound != bounds::MAP_DIRECTORY_BYTES);
    let mut all: Vec<_> = all.map(|bound| (bound, bound.tiny)).collect();
    // Keys of the catalog contain names of prepared transactions, and its records are values.
    for (bound, value) in &mut all {
        match bound.name {
            "KEY_BYTES" => *value = 60,
            "VALUE_BYTES" => *value = 700,
            // Trees are created for a while, so that there is something to clone.
            "TREES" => *value = 40,
            _ => {}
        }
    }
    limited(&all, seed, steps)
}

fn limited(values: &[(Bound, u64)], seed: u64, steps: u64) -> Result<Option<LimitReport>, Failure> {
    let Some(tiny) = Tiny::of(values) else { return Ok(None) };
    let tuned: Vec<Bound> = values.iter().map(|(bound, _)| *bound).collect();
    guarded(|| {
        let mut story = Story::begin(&tuned, seed)?;
        for step in 0..steps {
            let told = |failure: Failure| failure.during(format!("step {step} of seed {seed}"));
            story.step().map_err(told)?;
            if step % 64 == 63 {
                story.look().map_err(told)?;
            }
        }
        story.reopen()?;
        story.end()?;
        let mut report = story.report;
        report.reached = tuned.iter().map(|bound| (bound.name, tiny.reached(*bound))).collect();
        Ok(Some(report))
    })
}

/// A store with the ledger of what it has acknowledged.
struct Story {
    vfs: SimVfs,
    engine: DbEngine,
    db: Option<Db>,
    dice: Dice,
    seed: u64,
    tuned: Vec<Bound>,
    trees: BTreeMap<String, Rows>,
    snapshots: BTreeMap<String, BTreeMap<String, Rows>>,
    /// Trees without rows whose layouts change.
    layered: Vec<String>,
    made: u64,
    report: LimitReport,
}

impl Story {
    fn begin(tuned: &[Bound], seed: u64) -> Result<Self, Failure> {
        let mut dice = Dice::new(seed ^ 0xb0d5);
        let mut engine = DbEngine::tiny(frond::Durability::Lazy);
        engine.size_class = *dice.pick(&[SizeClass::Fast, SizeClass::Default]);
        let is = |bound: Bound| tuned.contains(&bound);
        if is(bounds::RUN_DATA_BYTES)
            || is(bounds::RUN_FOOTER_BYTES)
            || is(bounds::SEPARATORS_BYTES)
        {
            // Runs must end because of their bounds, not because of their shape.
            let shape = engine.tuning.shape.get_or_insert_with(Shape::default);
            (shape.leaf_bytes, shape.run_bytes, shape.push_bytes) = (256 << 10, 256 << 10, 4 << 10);
            shape.block_bytes = 64;
        }
        let mut story = Self {
            vfs: SimVfs::new(),
            engine,
            db: None,
            dice,
            seed,
            tuned: tuned.to_vec(),
            trees: BTreeMap::new(),
            snapshots: BTreeMap::new(),
            layered: Vec::new(),
            made: 0,
            report: LimitReport::default(),
        };
        story.open()?;
        Ok(story)
    }

    fn open(&mut self) -> Result<(), Failure> {
        let DbEngine { cache_bytes, tuning, level, .. } = self.engine.clone();
        let options = Options::new().cache_size(cache_bytes).durability(level).tuning(tuning);
        let options = options.operator(64, Arc::new(Longest("long")));
        self.report.opened += 1;
        self.db = Some(Db::open(DIR, options.env(self.vfs.env(self.seed)))?);
        Ok(())
    }

    fn db(&self) -> &Db {
        self.db.as_ref().expect("it is open")
    }

    /// Whether a call was done. It may be refused by a tiny bound; any other error is a failure.
    fn allowed<T>(&mut self, what: &str, result: Result<T, Error>) -> Result<Option<T>, Failure> {
        self.report.calls += 1;
        let error = match result {
            Ok(done) => return Ok(Some(done)),
            Err(error) => error,
        };
        let text = error.to_string();
        let code = text.get(..8).unwrap_or_default();
        // A full disk may end a transaction while it is spilled; its other calls report that.
        let after_full = code == "FRD-1109" && self.tuned.contains(&bounds::MAP_DIRECTORY_BYTES);
        let expected =
            after_full || self.tuned.iter().any(|bound| bound.at == At::Refused(code_of(code)));
        if !expected {
            return fail(format!("{what} is refused by no bound that is tiny: {error}"));
        }
        *self.report.refused.entry(code.to_owned()).or_default() += 1;
        Ok(None)
    }

    /// Checks that the running store has not failed, and has the rows of the ledger.
    fn look(&mut self) -> Result<(), Failure> {
        let db = self.db();
        if let Some(why) = db.stats().failed {
            return fail(format!("the store has stopped: {why}"));
        }
        let names: Vec<String> = db.trees().into_iter().map(|info| info.name).collect();
        let mut wanted: Vec<&String> = self.trees.keys().chain(&self.layered).collect();
        wanted.sort();
        if names.iter().collect::<Vec<_>>() != wanted {
            return fail(format!("trees are {names:?}, and should be {wanted:?}"));
        }
        for (name, rows) in &self.trees {
            let tree = db.open_tree(name)?;
            let mut cursor = tree.scan(..)?;
            let mut found = Rows::new();
            while let Some((key, value)) = cursor.next()? {
                found.insert(key.to_vec(), value.to_vec());
            }
            same(name, rows, &found)?;
        }
        let named: Vec<String> = db.snapshots().into_iter().map(|info| info.name).collect();
        if named.iter().collect::<std::collections::BTreeSet<_>>()
            != self.snapshots.keys().collect()
        {
            return fail(format!("snapshots are {named:?}"));
        }
        for (name, trees) in &self.snapshots {
            let snapshot = db.open_snapshot(name)?;
            for (tree, rows) in trees {
                let tree_then = snapshot.open_tree(tree)?;
                let mut cursor = snapshot.scan(&tree_then, ..)?;
                let mut found = Rows::new();
                while let Some((key, value)) = cursor.next()? {
                    found.insert(key.to_vec(), value.to_vec());
                }
                same(&format!("{tree} in snapshot {name}"), rows, &found)?;
            }
        }
        Ok(())
    }

    fn reopen(&mut self) -> Result<(), Failure> {
        self.look()?;
        self.db().close()?;
        self.db = None;
        self.open()?;
        self.look()?;
        self.check()
    }

    fn check(&self) -> Result<(), Failure> {
        let report = self.db().check(CheckMode::Full)?;
        if report.is_clean() { Ok(()) } else { fail(format!("check finds damage: {report}")) }
    }

    fn end(&mut self) -> Result<(), Failure> {
        self.check()?;
        self.db().close()?;
        self.db = None;
        match self.vfs.violations().first() {
            None => Ok(()),
            Some(violation) => fail(violation.clone()),
        }
    }
}

/// The code as written in the table of bounds.
fn code_of(code: &str) -> &'static str {
    let codes = BOUNDS.iter().filter_map(|bound| match bound.at {
        At::Refused(known) => Some(known),
        _ => None,
    });
    codes.into_iter().find(|known| *known == code).unwrap_or_default()
}

fn same(what: &str, wanted: &Rows, found: &Rows) -> Result<(), Failure> {
    if wanted == found {
        return Ok(());
    }
    let missing = wanted.iter().find(|(key, value)| found.get(*key) != Some(value));
    let extra = found.iter().find(|(key, value)| wanted.get(*key) != Some(value));
    let show =
        |row: Option<(&Vec<u8>, &Vec<u8>)>| row.map(|(key, value)| (key.clone(), value.len()));
    fail(format!(
        "{what} has {} rows, and should have {}: wanted {:?}, found {:?}",
        found.len(),
        wanted.len(),
        show(missing),
        show(extra)
    ))
}
