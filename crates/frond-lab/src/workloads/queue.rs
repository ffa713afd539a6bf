//! `queue`: each turn puts a row at the right end, deletes the leftmost and reads the first
//! (tombstone cost).
//!
//! Invariants
//! 1. Each commit puts one row and deletes the oldest, so the queue keeps its length.
//! 2. The first row found must be the oldest alive; anything else is counted as an error.

use super::{Bench, Spec, Volume, Workload};
use crate::random::Random;
use crate::schema::{Checksum, Table};
use crate::targets::{Begin, Clients, Connection, Direction, Result};

/// Number of rows in the queue.
const LENGTH: u64 = 1_000;
const VALUE_BYTES: usize = 100;
const ROW_BYTES: u64 = 8 + VALUE_BYTES as u64;

/// The `queue` workload.
pub struct Queue {
    spec: Spec,
    /// Number of the first row alive, and the number after the last.
    alive: (u64, u64),
}

fn row(number: u64, value: &mut [u8; VALUE_BYTES]) -> [u8; 8] {
    Random::new(number).fill(value);
    number.to_be_bytes()
}

fn first(connection: &mut dyn Connection) -> Result<Option<u64>> {
    let mut found = None;
    connection.scan(0, (None, None), Direction::Forward, &mut |key, _| {
        found = key.try_into().ok().map(u64::from_be_bytes);
        false
    })?;
    Ok(found)
}

impl Queue {
    /// Creates the workload.
    pub fn new(spec: &Spec) -> Self {
        Self { spec: spec.clone(), alive: (0, 0) }
    }
}

impl Workload for Queue {
    fn table(&self) -> Table {
        Table::raw("queue", 8)
    }

    fn unique(&self) -> bool {
        false
    }

    fn run(&mut self, bench: &mut Bench<'_>) -> Result<()> {
        let (rows, alive) = (self.spec.rows, &mut self.alive);
        let mut value = [0; VALUE_BYTES];
        let mut wrong = 0;
        let result = bench.step("queue", "turn", rows, None, |meter, target| {
            let mut connection = target.connect(Clients::ONE)?;
            connection.begin(Begin::Batch)?;
            while alive.1 < LENGTH {
                let key = row(alive.1, &mut value);
                connection.put(0, &key, &value)?;
                alive.1 += 1;
            }
            connection.commit()?;
            let (mut put, mut get) = (meter.client("commit"), meter.second_client("first"));
            let mut done = 0;
            while done < rows && put.go_on() {
                let key = row(alive.1, &mut value);
                let oldest = alive.0.to_be_bytes();
                put.time(1, || {
                    connection.begin(Begin::Batch)?;
                    connection.put(0, &key, &value)?;
                    connection.delete(0, &oldest)?;
                    connection.commit()
                })?;
                *alive = (alive.0 + 1, alive.1 + 1);
                let found = get.time(1, || first(connection.as_mut()))?;
                wrong += u64::from(found != Some(alive.0));
                done += 1;
            }
            Ok(Volume { changed_bytes: done * ROW_BYTES, ..Volume::default() })
        })?;
        if wrong > 0 && result.target != "null" {
            result.errors.insert("wrong_first".to_owned(), wrong);
        }
        Ok(())
    }

    fn expected(&self) -> Vec<Checksum> {
        let (mut sum, mut value) = (Checksum::default(), [0; VALUE_BYTES]);
        for number in self.alive.0..self.alive.1 {
            let key = row(number, &mut value);
            sum.add(&key, &value);
        }
        vec![sum]
    }

    fn volume(&self) -> Volume {
        let bytes = (self.alive.1 - self.alive.0) * ROW_BYTES;
        Volume { changed_bytes: bytes, live_bytes: bytes, live_bytes_indexed: bytes }
    }
}
