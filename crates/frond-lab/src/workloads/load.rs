//! Loads a table from a generator: one client, whole commits, rows in the generator's order.
//!
//! Invariants
//! 1. Rows are generated before a commit's clock runs, and are the same for every target.
//! 2. A load ends after the rows that were asked for, or when the source has no more.

use super::{Bench, Spec, Volume, Workload};
use crate::measure::Meter;
use crate::results::Yardstick;
use crate::schema::{Checksum, EncodedRow, Table, Value};
use crate::targets::{Begin, Clients, Result, Target};

/// A generator of rows.
pub trait Source {
    /// The data of a row; reused for later rows.
    type Record: Default;
    /// The columns of a row in DDL order.
    type Columns<'a>: AsRef<[Value<'a>]>
    where
        Self: 'a;
    /// Name of the step.
    const STEP: &'static str;
    /// Number of rows in a commit.
    const ROWS_PER_COMMIT: usize;

    /// Returns the table.
    fn table() -> Table;
    /// Generates the next row; false if there is none.
    fn next(&mut self, record: &mut Self::Record) -> bool;
    /// Returns what is known of the size of the rows in any store.
    fn yardstick(&self) -> Option<Yardstick> {
        None
    }
    /// Returns the columns of a row.
    fn columns<'a>(&'a self, record: &'a Self::Record) -> Self::Columns<'a>;
}

/// A workload that loads the rows of a source.
pub struct Load<S> {
    source: S,
    rows: u64,
    table: Table,
    sums: Vec<Checksum>,
    volume: Volume,
}

impl<S: Source> Load<S> {
    /// Creates a load of `spec.rows` rows of `source`.
    pub fn new(spec: &Spec, source: S) -> Self {
        let table = S::table();
        let sums = vec![Checksum::default(); table.indexes.len() + 1];
        Self { source, rows: spec.rows, table, sums, volume: Volume::default() }
    }

    fn load(&mut self, meter: &Meter, target: &dyn Target) -> Result<()> {
        let (mut connection, mut client) = (target.connect(Clients::ONE)?, meter.client("commit"));
        let mut records: Vec<S::Record> = Vec::new();
        records.resize_with(S::ROWS_PER_COMMIT, S::Record::default);
        let mut encoded = vec![EncodedRow::default(); S::ROWS_PER_COMMIT];
        let mut left = self.rows;
        while client.go_on() {
            let wanted = left.min(S::ROWS_PER_COMMIT as u64) as usize;
            let mut made = 0;
            while made < wanted && self.source.next(&mut records[made]) {
                let row = self.source.columns(&records[made]);
                encoded[made].encode(&self.table, row.as_ref());
                encoded[made].add_to(&mut self.sums);
                self.volume.add(&self.table, row.as_ref());
                made += 1;
            }
            if made == 0 {
                break;
            }
            left -= made as u64;
            client.time(made as u64, || {
                connection.begin(Begin::Batch)?;
                for (record, encoded) in records.iter().zip(&encoded).take(made) {
                    let row = self.source.columns(record);
                    connection.insert_row(&self.table, row.as_ref(), encoded)?;
                }
                connection.commit()
            })?;
        }
        Ok(())
    }
}

impl<S: Source> Workload for Load<S> {
    fn table(&self) -> Table {
        self.table.clone()
    }

    fn unique(&self) -> bool {
        false
    }

    fn run(&mut self, bench: &mut Bench<'_>) -> Result<()> {
        let rows = self.rows;
        bench.step(S::STEP, "row", rows, None, |meter, target| {
            self.load(meter, target)?;
            Ok(self.volume)
        })?;
        Ok(())
    }

    fn expected(&self) -> Vec<Checksum> {
        self.sums.clone()
    }

    fn volume(&self) -> Volume {
        self.volume
    }

    fn yardstick(&self) -> Result<Option<Yardstick>> {
        Ok(self.source.yardstick())
    }
}
