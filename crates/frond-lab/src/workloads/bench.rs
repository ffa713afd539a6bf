//! The run of a workload against one target: its steps, their meter, and the wait after writes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::Volume;
use crate::measure::{self, Meter, Plan, Subject};
use crate::results::Row;
use crate::targets::{Counter, Result, Target};

/// How long to let a store work in the background after writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rest {
    /// No time.
    None,
    /// 60 s plus 1 s per million rows, at most 1200 s: what published runs grant a server.
    Granted,
    /// Until the store is still, but at most the time of `Granted`.
    UntilStill,
}

/// Number of seconds without a written byte or a change of size after which a store counts as
/// still.
const STILL_SECONDS: u32 = 5;

impl Rest {
    /// Returns the longest wait after this many rows.
    pub fn at_most(self, rows: u64) -> Duration {
        match self {
            Self::None => Duration::ZERO,
            Self::Granted | Self::UntilStill => {
                Duration::from_secs((60 + rows / 1_000_000).min(1200))
            }
        }
    }
}

/// A run against one target.
pub struct Bench<'a> {
    /// The store under test.
    pub target: &'a dyn Target,
    name: String,
    dir: PathBuf,
    deadline: Option<Instant>,
    rest: Rest,
    keeps_rows: bool,
    progress: bool,
    /// Rows so far.
    pub rows: Vec<Row>,
    unsettled: bool,
}

impl<'a> Bench<'a> {
    /// Prepares a run of `target`, whose files are in `dir`.
    pub fn new(
        target: &'a dyn Target,
        name: String,
        dir: PathBuf,
        deadline: Option<Instant>,
        rest: Rest,
        progress: bool,
    ) -> Self {
        let keeps_rows = target.keeps_rows();
        let rows = Vec::new();
        Self { target, name, dir, deadline, rest, keeps_rows, progress, rows, unsettled: false }
    }

    /// Whether the target keeps what it is given.
    pub fn keeps_rows(&self) -> bool {
        self.keeps_rows
    }

    /// Runs a step of `planned` operations, for at most `seconds`, and adds its row.
    pub fn step(
        &mut self,
        step: &str,
        op: &str,
        planned: u64,
        seconds: Option<u64>,
        body: impl FnOnce(&Meter, &dyn Target) -> Result<Volume>,
    ) -> Result<&mut Row> {
        let own = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
        let deadline = match (own, self.deadline) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        let plan = Plan {
            step: step.to_owned(),
            planned,
            deadline,
            space: measure::Space::whole(&self.dir),
            progress: self.progress,
            subject: Subject::Own,
            kinds: Vec::new(),
        };
        let before = self.target.counters();
        let mut volume = Volume::default();
        let target = self.target;
        let taken = measure::run(&plan, |meter| {
            volume = body(meter, target)?;
            Ok(())
        })?;
        let mut row = Row::new(&self.name, step, op, planned, &taken, volume);
        // A step that ran for its whole time is finished, whatever the count.
        row.finished |= seconds.is_some() && taken.ops > 0;
        if self.keeps_rows {
            row.disk_load_b = Some(measure::allocated_bytes(&self.dir));
            row.engine = difference(&before, &self.target.counters());
            let syncs = row.engine.get("wal_syncs").or_else(|| row.engine.get("syncs"));
            row.fsync_op = syncs.map(|syncs| syncs / taken.ops.max(1) as f64);
        }
        self.unsettled |= volume.changed_bytes > 0;
        self.rows.push(row);
        Ok(self.rows.last_mut().expect("just pushed"))
    }

    /// Lets the store work in the background after writes. This work is charged to the last step
    /// that wrote.
    pub fn quiesce(&mut self, rows: u64) -> Result<()> {
        if !std::mem::take(&mut self.unsettled) || !self.keeps_rows {
            return Ok(());
        }
        let (begin, before) = (Instant::now(), Subject::Own.usage());
        self.target.settle()?;
        let flushed = measure::allocated_bytes(&self.dir);
        self.wait(rows, begin);
        let paid = Subject::Own.usage().since(&before);
        let disk = measure::allocated_bytes(&self.dir);
        let Some(row) = self.rows.iter_mut().rev().find(|row| row.write_amp.is_some()) else {
            return Ok(());
        };
        let ops = row.ops.max(1) as f64;
        let written = row.wr_b_op.unwrap_or(0.0) * ops;
        let all = (written + paid.write_bytes as f64).max(1.0);
        row.wr_b_op_quiesced = Some(all / ops);
        row.cpu_us_op_quiesced = row.cpu_us_op.map(|cpu| cpu + paid.cpu_s * 1e6 / ops);
        row.write_amp = row.write_amp.map(|amp| amp * all / written.max(1.0));
        row.disk_flushed_b = Some(flushed);
        row.disk_end_b = Some(disk);
        Ok(())
    }

    fn wait(&self, rows: u64, begin: Instant) {
        let rest = self.rest.at_most(rows);
        let subject = Subject::Own;
        let now = || (subject.usage().write_bytes, measure::allocated_bytes(&self.dir));
        let (mut last, mut still) = (now(), 0);
        while let Some(left) = rest.checked_sub(begin.elapsed()).filter(|d| !d.is_zero()) {
            if self.progress {
                println!("progress quiesce {} 0 0", begin.elapsed().as_secs());
            }
            std::thread::sleep(left.min(Duration::from_secs(1)));
            let seen = std::mem::replace(&mut last, now());
            still = if seen == last { still + 1 } else { 0 };
            if self.rest == Rest::UntilStill && still == STILL_SECONDS {
                break;
            }
        }
    }
}

/// Returns by how much counters grew. Names that end in `_b`, `_now` or `_files` are states and
/// keep their value.
fn difference(before: &[Counter], after: &[Counter]) -> BTreeMap<String, f64> {
    let before: BTreeMap<&str, f64> = before.iter().map(|(name, n)| (name.as_str(), *n)).collect();
    let grown = |(name, now): &Counter| {
        let state = ["_b", "_now", "_files"].iter().any(|end| name.ends_with(end));
        let base = if state { 0.0 } else { before.get(name.as_str()).copied().unwrap_or(0.0) };
        (name.clone(), now - base)
    };
    after.iter().map(grown).collect()
}
