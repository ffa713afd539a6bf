//! The null target: accepts everything but keeps only one entry of each keyspace. The cost of a
//! workload on it is the cost of the workload itself, which is subtracted from the figures of the
//! other targets.
//!
//! Invariants
//! 1. Every read finds the entry that was put last into its keyspace, so a client decodes and
//!    changes rows as it does with a store.
//! 2. A scan to the end of a keyspace finds that entry once for every put, so a client that reads
//!    many rows reads as many as of a store, and its cost per row is comparable. A scan with a
//!    limit at its end finds it once: the number of rows in the range is unknown.
//!
//! Threads: a connection has its own entries; they are shared only when it opens and when it
//! closes.

use std::hint::black_box;
use std::ops::Range;
use std::sync::Mutex;

use super::{
    Attempt, Begin, Clients, Connection, Direction, Entries, Result, Setup, Target, Visit,
};
use crate::schema::Keyspace;

/// What is kept of a keyspace.
#[derive(Clone, Default)]
struct Sample {
    /// The entry that reads find; `None` before the first put.
    entry: Option<(Vec<u8>, Vec<u8>)>,
    /// Number of puts.
    puts: u64,
}

/// A target that keeps no rows.
pub struct Null {
    samples: Mutex<Vec<Sample>>,
}

struct NullConnection<'a> {
    target: &'a Null,
    samples: Vec<Sample>,
    /// Puts of each keyspace when the connection was opened.
    puts_before: Vec<u64>,
}

impl Null {
    /// Opens a target with the keyspaces of these tables.
    pub fn open(setup: &Setup) -> Self {
        let keyspaces = setup.tables.iter().map(|table| table.keyspaces().len()).sum();
        Self { samples: Mutex::new(vec![Sample::default(); keyspaces]) }
    }
}

impl Target for Null {
    fn version(&self) -> String {
        "no store".to_owned()
    }

    fn settings(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    fn connect(&self, _: Clients) -> Result<Box<dyn Connection + '_>> {
        let samples = self.samples.lock().unwrap_or_else(|e| e.into_inner()).clone();
        let puts_before = samples.iter().map(|sample| sample.puts).collect();
        Ok(Box::new(NullConnection { target: self, samples, puts_before }))
    }

    fn keeps_rows(&self) -> bool {
        false
    }

    fn deletes_ranges(&self) -> bool {
        true
    }

    fn bulk_loads(&self) -> bool {
        true
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

impl Drop for NullConnection<'_> {
    fn drop(&mut self) {
        let mut shared = self.target.samples.lock().unwrap_or_else(|e| e.into_inner());
        let own = self.samples.iter_mut().zip(&self.puts_before);
        for (shared, (own, before)) in shared.iter_mut().zip(own) {
            shared.puts += own.puts - before;
            if own.entry.is_some() {
                shared.entry = own.entry.take();
            }
        }
    }
}

impl Connection for NullConnection<'_> {
    fn begin(&mut self, what: Begin) -> Attempt<()> {
        black_box(what);
        Ok(())
    }

    fn get(&mut self, keyspace: Keyspace, key: &[u8], value: &mut Vec<u8>) -> Attempt<bool> {
        black_box(key);
        value.clear();
        let Some((_, sample)) = &self.samples[keyspace].entry else { return Ok(false) };
        value.extend_from_slice(sample);
        Ok(true)
    }

    fn get_for_update(
        &mut self,
        keyspace: Keyspace,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Attempt<bool> {
        self.get(keyspace, key, value)
    }

    fn put(&mut self, keyspace: Keyspace, key: &[u8], value: &[u8]) -> Attempt<()> {
        let sample = &mut self.samples[keyspace];
        sample.puts += 1;
        let (k, v) = sample.entry.get_or_insert_default();
        k.clear();
        k.extend_from_slice(key);
        v.clear();
        v.extend_from_slice(value);
        Ok(())
    }

    fn delete(&mut self, keyspace: Keyspace, key: &[u8]) -> Attempt<()> {
        black_box((keyspace, key));
        Ok(())
    }

    fn scan(
        &mut self,
        keyspace: Keyspace,
        bounds: (Option<&[u8]>, Option<&[u8]>),
        direction: Direction,
        visit: Visit<'_>,
    ) -> Attempt<()> {
        let end = match direction {
            Direction::Forward => bounds.1,
            Direction::Reverse => bounds.0,
        };
        let Sample { entry, puts } = &self.samples[keyspace];
        let Some((key, value)) = entry else { return Ok(()) };
        let rows = if black_box(end).is_none() { *puts } else { 1 };
        for _ in 0..rows {
            if !visit(black_box(key), black_box(value)) {
                break;
            }
        }
        Ok(())
    }

    fn delete_range(&mut self, keyspace: Keyspace, range: Range<&[u8]>) -> Attempt<()> {
        black_box((keyspace, range));
        Ok(())
    }

    fn bulk_load(&mut self, keyspace: Keyspace, next: Entries<'_>) -> Attempt<()> {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        while next(&mut key, &mut value) {
            self.put(keyspace, &key, &value)?;
        }
        Ok(())
    }

    fn commit(&mut self) -> Attempt<()> {
        Ok(())
    }

    fn rollback(&mut self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Table;
    use crate::size::Bytes;
    use crate::targets::Durability;

    #[test]
    fn a_scan_to_the_end_visits_as_many_rows_as_were_put() {
        let null = Null::open(&Setup {
            dir: std::path::PathBuf::new(),
            memory: Bytes::mebi(16),
            write_buffer: None,
            durability: Durability::Lazy,
            tables: vec![Table::raw("t", 8)],
            unique: false,
            transactions: false,
        });
        let rows = |bounds: (Option<&[u8]>, Option<&[u8]>), direction, most: u64| {
            let (mut connection, mut rows) = (null.connect(Clients::ONE).expect("none fails"), 0);
            let mut visit = |_: &[u8], _: &[u8]| {
                rows += 1;
                rows < most
            };
            connection.scan(0, bounds, direction, &mut visit).expect("none fails");
            rows
        };
        assert_eq!(rows((None, None), Direction::Forward, 9), 0);
        for puts in [2, 3] {
            let mut connection = null.connect(Clients::ONE).expect("none fails");
            for key in 0..puts {
                connection.put(0, &[key; 8], b"value").expect("none fails");
            }
        }
        let key: Option<&[u8]> = Some(&[1; 8]);
        assert_eq!(rows((None, None), Direction::Forward, 9), 5);
        assert_eq!(rows((key, None), Direction::Forward, 3), 3);
        assert_eq!(rows((key, key), Direction::Forward, 9), 1);
        assert_eq!(rows((None, key), Direction::Reverse, 9), 5);
        assert_eq!(rows((key, None), Direction::Reverse, 9), 1);
    }
}
