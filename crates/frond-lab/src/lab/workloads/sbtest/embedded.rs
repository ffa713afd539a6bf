//! sysbench's table on embedded stores: the same rows as in SQL, with `c` and `pad` padded as CHAR
//! is. Its index on `k` exists before the rows, or is created afterwards.
//!
//! Invariants
//! 1. A table without its index is followed by a table whose rows are the entries of that index. So
//!    the entries have the keyspace that they have if the index exists from the start.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Batch, Load, ROW_BYTES, Row, Rows};
use crate::data::Source;
use crate::data::sbtest::Sbtest;
use crate::lab::embedded::{self, Bench};
use crate::lab::step::Step;
use crate::schema::{Column, Index, Table, Type, Value};
use crate::targets::{Attempt, Begin, Connection, Failure, Result, Span};

/// Positions of columns in a row.
pub const K: usize = 1;
pub const C: usize = 2;
/// Length of `c` and of `pad`.
const LENGTHS: [usize; 2] = [120, 60];
/// Number of entries in a commit of CREATE INDEX.
const ENTRIES_PER_COMMIT: usize = 1_000;

/// Defines tables with these names, each with the index on `k` or with a place for it. The names
/// live as long as the process, which runs one cell.
pub fn tables(names: &[String], with_index: bool) -> Vec<Table> {
    let mut tables = Vec::new();
    for (number, name) in (1..).zip(names) {
        let index = Index { name: format!("k_{number}").leak(), columns: vec![K] };
        let entries = format!("{name}_{}", index.name).leak();
        let indexes = if with_index { vec![index] } else { Vec::new() };
        tables.push(Table { name: name.clone().leak(), indexes, ..Sbtest::table() });
        if !with_index {
            tables.push(Table {
                name: entries,
                columns: vec![Column::new("k", Type::I32), Column::new("id", Type::I32)],
                primary: vec![0, 1],
                indexes: Vec::new(),
                base: 0,
            });
        }
    }
    tables
}

/// Returns a table with its index, whether that exists yet or not (Invariant 1).
///
/// # Errors
/// There is no such table.
pub fn indexed(bench: &Bench<'_>, name: &str) -> Result<Table> {
    let mut table = bench.table(name)?.clone();
    if table.indexes.is_empty() {
        let entries = bench.tables().iter().find(|entries| entries.base == table.base + 1);
        let index = entries.and_then(|entries| entries.name.strip_prefix(table.name));
        let index = index.and_then(|index| index.strip_prefix('_'));
        let index = index.ok_or_else(|| Failure(format!("{name} has no place for an index")))?;
        table.indexes.push(Index { name: index, columns: vec![K] });
    }
    Ok(table)
}

/// Pads `c` (column 0) or `pad` (column 1) with spaces, as CHAR is.
pub fn pad(column: usize, text: &mut String) {
    text.extend(std::iter::repeat_n(' ', LENGTHS[column].saturating_sub(text.len())));
}

/// Generates the next row, padded.
pub fn next_padded(rows: &mut Rows, row: &mut Row) {
    rows.next(row);
    pad(0, &mut row.c);
    pad(1, &mut row.pad);
}

/// Returns the columns of a row.
pub fn columns(row: &Row) -> [Value<'_>; 4] {
    [Value::I32(row.id as i32), Value::I32(row.k), Value::Text(&row.c), Value::Text(&row.pad)]
}

/// Loads a table, and returns the number of rows inserted.
///
/// # Errors
/// Errors of the store.
pub fn load(bench: &mut Bench<'_>, table: &Table, load: Load<'_>) -> Result<u64> {
    let (rows, loaded) = (Mutex::new(Rows::new(load)), AtomicU64::new(0));
    let per_commit = match load.batch {
        Batch::Bytes => Sbtest::ROWS_PER_COMMIT,
        Batch::Rows(rows) => rows,
    };
    bench.step(&Step::load(load.step, load.rows, ROW_BYTES), |worker| {
        let mut rows = rows.lock().unwrap_or_else(|e| e.into_inner());
        let (mut batch, mut row) = (embedded::Batch::new(table), Row::default());
        let mut left = load.rows;
        while left > 0 && worker.go_on() {
            let n = left.min(per_commit);
            for _ in 0..n {
                next_padded(&mut rows, &mut row);
                batch.push(&columns(&row));
            }
            left -= n;
            loaded.fetch_add(worker.insert("commit", &mut batch)?, Ordering::Relaxed);
        }
        Ok(())
    })?;
    Ok(loaded.into_inner())
}

/// Creates the index of a table, as a step whose operations are the rows. A store without indexes
/// of its own gets the sorted entries: in its own way to fill an empty keyspace if it has one and
/// `in_bulk` is set, otherwise in commits of a thousand.
///
/// # Errors
/// Errors of the store.
pub fn create_index(
    bench: &mut Bench<'_>,
    step: &str,
    table: &Table,
    rows: u64,
    in_bulk: bool,
) -> Result<()> {
    let in_bulk = in_bulk && bench.target.bulk_loads();
    bench.step(&Step { name: step, ..Step::load("", rows, 0) }, |worker| {
        worker.request("create_index", rows, |connection| {
            match connection.create_index(table, 0)? {
                true => Ok(()),
                false => put_entries(connection, table, in_bulk),
            }
        })
    })?;
    Ok(())
}

/// Puts the entries of the index in ascending order. An entry is `k` and `id`, eight bytes, so that
/// the entries of a table that is larger than the memory can be sorted in memory.
fn put_entries(connection: &mut dyn Connection, table: &Table, in_bulk: bool) -> Attempt<()> {
    let (mut entries, mut strange) = (Vec::new(), 0u64);
    connection.range(table, 0, &Span::ALL, &mut |id, value| {
        // `k` is the first column of the value.
        match (value.first_chunk::<4>(), id.try_into()) {
            (Some(k), Ok(id)) => {
                entries.push(
                    u64::from(u32::from_be_bytes(*k)) << 32 | u64::from(u32::from_be_bytes(id)),
                );
            }
            _ => strange += 1,
        }
        true
    })?;
    if strange > 0 {
        return Err(Failure(format!("{}: {strange} rows that are none", table.name)).into());
    }
    entries.sort_unstable();
    let keyspace = table.base + 1;
    if in_bulk {
        let mut entries = entries.into_iter();
        return connection.bulk_load(keyspace, &mut |key, value| {
            let Some(entry) = entries.next() else { return false };
            key.clear();
            key.extend_from_slice(&entry.to_be_bytes());
            value.clear();
            true
        });
    }
    for entries in entries.chunks(ENTRIES_PER_COMMIT) {
        connection.begin(Begin::Batch)?;
        for entry in entries {
            connection.put(keyspace, &entry.to_be_bytes(), &[])?;
        }
        connection.commit()?;
    }
    Ok(())
}
