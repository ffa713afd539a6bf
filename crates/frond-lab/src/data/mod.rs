//! The data of the workloads: generators of rows, keys and values.
//!
//! A generator depends only on its seed and parameters, so that all targets get the same rows in
//! the same order.

pub mod iibench;
pub mod linktable;
pub mod packages;
pub mod sbtest;
pub mod shape;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
pub mod weblog;

use crate::schema::{Table, Value};
use crate::targets::Result;

/// A generator of the rows of a table.
pub trait Source {
    /// The data of a row; reused for later rows.
    type Record: Default;
    /// The columns of a row in DDL order.
    type Columns<'a>: AsRef<[Value<'a>]>
    where
        Self: 'a;
    /// Name of the data set.
    const NAME: &'static str;
    /// Number of rows in a commit of a load.
    const ROWS_PER_COMMIT: u64;
    /// Bytes per row in plain InnoDB, with the indexes.
    const INNODB_ROW_BYTES: u64;

    /// Returns the table.
    fn table() -> Table;
    /// Generates the next row; false if there is none.
    fn next(&mut self, record: &mut Self::Record) -> bool;
    /// Returns the columns of a row.
    fn columns<'a>(&'a self, record: &'a Self::Record) -> Self::Columns<'a>;
    /// Returns, as a metric, what is known about the size of these rows in any store. May generate
    /// all rows again.
    fn yardstick(_seed: u64, _rows: u64) -> Result<Option<(&'static str, f64)>> {
        Ok(None)
    }
}
