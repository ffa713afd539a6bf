//! `queue`: each request puts a row at the right end, deletes the leftmost one, and reads the
//! first. It shows what a store pays for entries that were deleted but are still there.
//!
//! Invariants
//! 1. Each commit puts one row and deletes the oldest, so the queue keeps its length.
//! 2. The first row found must be the oldest alive.

use std::sync::Mutex;

use crate::lab::embedded::{Bench, Entry, Worker, Workload};
use crate::lab::params::{Param, Params};
use crate::lab::step::Step;
use crate::random::Random;
use crate::schema::{Checksum, Table};
use crate::targets::{Begin, Direction, Failure, Result};

pub const EMBEDDED: Entry = Entry {
    name: "queue",
    about: "put at the right end, delete at the left end, read the first row",
    headline: ("turns", "ops_s"),
    params: &[
        Param::sized("rows", ["5_000", "1_120_000", "4_000_000", "4_000_000"], "turns"),
        Param::fixed("length", "1000", "rows in the queue"),
        Param::fixed("ratio", "10", "data to cache, if no row were deleted"),
        Param::sized("time_limit", ["60", "12", "600", "0"], "seconds, 0 for none"),
    ],
    make: |params, seed| Ok(Box::new(Queue::new(params, seed)?)),
};

const VALUE_BYTES: usize = 100;
const ROW_BYTES: u64 = 8 + VALUE_BYTES as u64;
/// Bytes per row in plain InnoDB.
const INNODB_ROW_BYTES: u64 = 150;

struct Queue {
    turns: u64,
    length: u64,
    seed: u64,
}

/// Numbers of the first row alive, and of the row after the last; and how often another row than
/// the oldest was the first.
#[derive(Clone, Copy, Default)]
struct Alive {
    first: u64,
    end: u64,
    wrong: u64,
}

impl Queue {
    fn new(params: &Params, seed: u64) -> Result<Self> {
        let (turns, length) = (params.number("rows")?, params.number("length")?);
        if turns > 0 && (1..=1_000_000).contains(&length) {
            return Ok(Self { turns, length, seed });
        }
        Err(Failure("queue: allowed are rows from 1, length from 1 to 1000000".to_owned()))
    }

    fn row(&self, number: u64, value: &mut [u8; VALUE_BYTES]) -> [u8; 8] {
        Random::new(self.seed.wrapping_add(number)).fill(value);
        number.to_be_bytes()
    }

    /// Fills the queue in one commit.
    fn fill(&self, worker: &mut Worker<'_>, base: usize, alive: &mut Alive) -> Result<()> {
        let mut value = [0; VALUE_BYTES];
        worker.request("fill", self.length, |connection| {
            connection.begin(Begin::Batch)?;
            for number in 0..self.length {
                let key = self.row(number, &mut value);
                connection.put(base, &key, &value)?;
            }
            connection.commit()?;
            alive.end = self.length;
            Ok(())
        })
    }

    fn turn(&self, worker: &mut Worker<'_>, base: usize, alive: &mut Alive) -> Result<()> {
        let mut value = [0; VALUE_BYTES];
        let (key, oldest) = (self.row(alive.end, &mut value), alive.first.to_be_bytes());
        worker.request("commit", 1, |connection| {
            connection.begin(Begin::Batch)?;
            connection.put(base, &key, &value)?;
            connection.delete(base, &oldest)?;
            connection.commit()?;
            (alive.first, alive.end) = (alive.first + 1, alive.end + 1);
            Ok(())
        })?;
        let mut found = None;
        worker.request("first", 0, |connection| {
            connection.scan(base, (None, None), Direction::Forward, &mut |key, _| {
                found = key.try_into().ok().map(u64::from_be_bytes);
                false
            })
        })?;
        alive.wrong += u64::from(found != Some(alive.first));
        Ok(())
    }

    fn expected(&self, alive: Alive) -> Checksum {
        let (mut sum, mut value) = (Checksum::default(), [0; VALUE_BYTES]);
        for number in alive.first..alive.end {
            let key = self.row(number, &mut value);
            sum.add(&key, &value);
        }
        sum
    }
}

impl Workload for Queue {
    fn tables(&self) -> Vec<Table> {
        vec![Table::raw("queue", 8)]
    }

    fn innodb_bytes(&self) -> u64 {
        self.turns * INNODB_ROW_BYTES
    }

    fn has_transactions(&self) -> bool {
        false
    }

    fn run(&mut self, bench: &mut Bench<'_>) -> Result<(u64, u64)> {
        let (table, alive) = (bench.table("queue")?, Mutex::new(Alive::default()));
        let lock = || alive.lock().unwrap_or_else(|e| e.into_inner());
        bench.step(&Step::load("load", self.length, ROW_BYTES), |worker| {
            self.fill(worker, table.base, &mut lock())
        })?;
        bench.step(&Step::load("turns", self.turns, ROW_BYTES), |worker| {
            let (mut alive, mut left) = (lock(), self.turns);
            while left > 0 && worker.go_on() {
                self.turn(worker, table.base, &mut alive)?;
                left -= 1;
            }
            Ok(())
        })?;
        bench.rest()?;
        let alive = *lock();
        if bench.keeps_rows() {
            let detail = format!("another row than the oldest {} times", alive.wrong);
            bench.result.verify("first row of the queue", alive.wrong == 0, detail);
        }
        bench.verify_raw(table, self.expected(alive), true)
    }
}

#[cfg(test)]
mod tests {
    use crate::lab::embedded::testing::{on_all, step_of};

    #[test]
    fn embedded_queues_keep_their_length_and_start_with_the_oldest_row() {
        on_all("queue", &[("rows", "2000"), ("length", "300")], |target, result| {
            let turns = step_of(result, "turns");
            assert_eq!(turns.metrics["ops"], 2_000.0, "{target}");
            for kind in ["commit", "first"] {
                assert_eq!(turns.latencies[kind].count, 2_000, "{target}: {kind}");
            }
            assert_eq!(result.verified.len(), if target == "null" { 0 } else { 2 });
            let fact = result.facts.values().next();
            assert!(target == "null" || fact.is_some_and(|fact| fact.starts_with("300 entries")));
        });
    }
}
