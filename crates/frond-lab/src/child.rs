//! The child process: runs one workload against one target and reports to the parent as lines on
//! standard output.
//!
//! The lines are `progress STEP OPS SECONDS PLANNED`, `row JSON` after each step, and `final JSON`
//! at the end.
//!
//! Invariants
//! 1. Only `final` has the complete rows; earlier `row` lines are what remains if the child is
//!    killed.
//! 2. Verification reads every keyspace: its count and checksum must be those that the workload
//!    expects.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::measure::{self, Group, Limits};
use crate::results::{Final, Row, Verified};
use crate::schema::{Checksum, Table};
use crate::size::Bytes;
use crate::targets::{self, Clients, Result, Setup, Span, Target, TargetName};
use crate::workloads::{self, Bench, Name, Rest, Spec, Workload};

/// Everything that a child needs to run one target.
#[derive(Clone, Debug)]
pub struct Order {
    /// Target.
    pub target: TargetName,
    /// Workload.
    pub workload: Name,
    /// Its parameters.
    pub spec: Spec,
    /// Memory that the store may use.
    pub memory: Bytes,
    /// Directory of the store.
    pub dir: PathBuf,
    /// How long the store may work in the background after writes.
    pub rest: Rest,
    /// Whether to run a full compaction after the run, if the target has one.
    pub compact: bool,
    /// Whether to report what the rows take in any store. Computed in the null target's child,
    /// after its steps, when nothing is measured.
    pub yardstick: bool,
    /// Whether to read everything back and compare checksums.
    pub verify: bool,
    /// Time limit for all steps together, seconds.
    pub time_limit: Option<u64>,
    /// Peak resident bytes of the same run against the null target.
    pub base_rss: u64,
}

/// Runs the order and prints the report lines. Errors of the store end up in `final`.
pub fn run(order: &Order) -> Result<()> {
    println!("final {}", serde_json::to_string(&collect(order))?);
    Ok(())
}

/// Runs the order and returns the result. An error of the store is part of the result.
fn collect(order: &Order) -> Final {
    let mut result = Final::default();
    if let Err(failure) = fill(order, &mut result) {
        result.failure = Some(failure.0);
    }
    result
}

fn fill(order: &Order, result: &mut Final) -> Result<()> {
    let mut workload = workloads::make(order.workload, &order.spec)?;
    let name = order.target.to_string();
    let write_buffer = match order.target {
        TargetName::RocksDb(share) => share.map(|share| share.of(order.memory)),
        _ => None,
    };
    // Stores that use the page cache are bounded from outside, by a control group.
    let limit = order.target.is_buffered().then(|| {
        let memory = Some(order.memory.0 + order.base_rss);
        Group::enter(std::process::id(), &Limits { memory, ..Limits::default() })
    });
    std::fs::create_dir_all(&order.dir)?;
    let setup = Setup {
        dir: order.dir.clone(),
        memory: order.memory,
        write_buffer,
        durability: order.spec.durability,
        tables: vec![workload.table()],
        unique: workload.unique(),
        transactions: workload.has_transactions(),
    };
    let target = targets::open(order.target, None, &setup)?;
    result.version = target.version();
    result.settings = target.settings();
    let deadline = order.time_limit.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let dir = order.dir.clone();
    let mut bench = Bench::new(target.as_ref(), name, dir, deadline, order.rest, true);
    let outcome = workload.run(&mut bench);
    let outcome = outcome.and_then(|()| bench.quiesce(order.spec.rows));
    result.rows = std::mem::take(&mut bench.rows);
    for row in &result.rows {
        println!("row {}", serde_json::to_string(row)?);
    }
    outcome?;
    let keeps_rows = bench.keeps_rows();
    drop(bench);
    let verified = match order.verify && keeps_rows {
        true => Some(verify(order, target.as_ref(), workload.as_ref())?),
        false => None,
    };
    let mut compacted = None;
    if order.compact && keeps_rows && target.compact()? {
        compacted = Some(measure::allocated_bytes(&order.dir));
    }
    let yardstick = match order.yardstick && !keeps_rows {
        true => workload.yardstick()?,
        false => None,
    };
    let parts = if keeps_rows { target.parts()? } else { Vec::new() };
    target.close()?;
    let mem_peak = limit.as_ref().and_then(|limit| limit.as_ref().ok()?.memory_peak());
    let disk = measure::allocated_bytes(&order.dir);
    let sums = workload.expected();
    let rows = sums.first().map_or(0, |sum| sum.rows);
    let crc = sums.first().filter(|_| workload.is_fixed()).map(Checksum::hex);
    let raw = sums.iter().map(|sum| sum.bytes).sum();
    let volume = workload.volume();
    for row in &mut result.rows {
        row.rows_crc.clone_from(&crc);
        row.mem_peak_b = mem_peak;
        row.raw_b_row = ratio(raw, rows);
        row.yardstick.clone_from(&yardstick);
        if let Some(Err(refusal)) = &limit {
            row.notes.push(format!("page cache not limited: {refusal}"));
        }
        if keeps_rows {
            row.parts.clone_from(&parts);
            row.disk_files_b = measure::allocated_by_kind(&order.dir);
            finish(row, disk, compacted, verified.as_ref(), (volume, rows));
        }
    }
    Ok(())
}

fn finish(
    row: &mut Row,
    disk: u64,
    compacted: Option<u64>,
    verified: Option<&Verified>,
    (volume, rows): (workloads::Volume, u64),
) {
    row.disk_b = Some(disk);
    row.disk_compacted_b = compacted;
    row.space_amp = ratio(disk, volume.live_bytes);
    row.space_amp_ix = ratio(disk, volume.live_bytes_indexed);
    row.disk_b_row = ratio(disk, rows);
    row.disk_flushed_over_end = row.disk_flushed_b.and_then(|flushed| ratio(flushed, disk));
    if let Some(verified) = verified {
        row.verified = Some(verified.clone());
        if verified.keyspaces < verified.of {
            row.errors.insert("verification".to_owned(), (verified.of - verified.keyspaces) as u64);
        }
    }
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// Reads every keyspace and compares it with what the workload expects (Invariant 2).
fn verify(order: &Order, target: &dyn Target, workload: &dyn Workload) -> Result<Verified> {
    let begin = Instant::now();
    let expected = workload.expected();
    let table: Table = workload.table();
    let mut connection = target.connect(Clients::ONE)?;
    let (mut right, mut entries) = (0, 0);
    for (keyspace, expected) in expected.iter().enumerate() {
        let mut sum = Checksum::default();
        connection.range(&table, keyspace, &Span::ALL, &mut |key, value| {
            sum.add(key, value);
            true
        })?;
        entries += sum.rows;
        right += usize::from(sum == *expected);
        println!("progress verify {entries} {:.1} 0", begin.elapsed().as_secs_f64());
        if sum != *expected {
            eprintln!(
                "{}: keyspace {keyspace} of {} holds {} entries with checksum {}, not {} with {}",
                order.target,
                table.name,
                sum.rows,
                sum.hex(),
                expected.rows,
                expected.hex()
            );
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    Ok(Verified { keyspaces: right, of: expected.len(), entries, seconds })
}
