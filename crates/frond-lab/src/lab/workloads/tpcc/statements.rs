//! TPC-C's load in SQL: sends the rows as INSERT statements of many rows.

use super::load::{DATE_MILLIS, Sink};
use super::random::amount;
use super::tables::{Kind, TABLES};
use crate::lab::sql::{InsertText, Worker};
use crate::schema::Value;
use crate::targets::Result;

/// Number of rows per statement.
const ROWS: u64 = 500;
/// `DATE_MILLIS` in SQL.
const DATE: &str = "2011-11-07 00:00:00";

/// The INSERT statements of a loader.
pub struct Statements<'w, 'm> {
    worker: &'w mut Worker<'m>,
    inserts: Vec<InsertText>,
}

impl<'w, 'm> Statements<'w, 'm> {
    /// Makes the statements of a loader.
    pub fn new(worker: &'w mut Worker<'m>) -> Self {
        let insert = |name: &str| InsertText::new(&format!("INSERT INTO {name} VALUES"));
        Self { worker, inserts: TABLES.iter().map(|(name, ..)| insert(name)).collect() }
    }

    fn send(&mut self, table: usize) -> Result<()> {
        let insert = &mut self.inserts[table];
        if insert.len() > 0 {
            self.worker.insert(TABLES[table].0, insert)?;
        }
        Ok(())
    }
}

impl Sink for Statements<'_, '_> {
    fn go_on(&mut self) -> bool {
        self.worker.go_on()
    }

    fn row(&mut self, table: usize, values: &[Value<'_>]) -> Result<()> {
        let columns = TABLES[table].1.iter().zip(values);
        let _ = columns.fold(self.inserts[table].row(), |row, ((_, kind), value)| {
            let number = value.integer();
            match kind {
                Kind::RowNumber => row,
                Kind::Text => row.simple(value.text()),
                Kind::TinyOrNull | Kind::DateOrNull if number == 0 => row.null(),
                Kind::Tiny | Kind::TinyOrNull | Kind::Small | Kind::Int => row.plain(number),
                Kind::Date | Kind::DateOrNull => {
                    debug_assert_eq!(number, DATE_MILLIS as i64);
                    row.simple(DATE)
                }
                Kind::Rate => row.plain(format!("0.{number:04}")),
                Kind::Amount if number < 0 => {
                    row.plain(format!("-{}", amount(number.unsigned_abs())))
                }
                Kind::Amount => row.plain(amount(number.unsigned_abs())),
            }
        });
        if self.inserts[table].len() >= ROWS { self.send(table) } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        (0..TABLES.len()).try_for_each(|table| self.send(table))
    }
}
