//! Access to the rows of a table for a client, with reused buffers.

use crate::decode;
use crate::schema::{Checksum, EncodedRow, Table, Value};
use crate::targets::{Attempt, Connection, Failure, Result};

/// Reads and changes rows of one table, one at a time.
pub struct Rows<'t> {
    /// The table.
    pub table: &'t Table,
    key: Vec<u8>,
    value: Vec<u8>,
    old: EncodedRow,
    new: EncodedRow,
}

/// The error for a missing row that the workload had inserted.
pub fn missing(table: &Table) -> Failure {
    Failure(format!("{}: there is no such row, which was inserted", table.name))
}

fn strange(table: &Table) -> Failure {
    Failure(format!("{}: a row that is not one of this table", table.name))
}

impl<'t> Rows<'t> {
    /// Access to the rows of this table.
    pub fn new(table: &'t Table) -> Self {
        let (old, new) = (EncodedRow::default(), EncodedRow::default());
        Self { table, key: Vec::new(), value: Vec::new(), old, new }
    }

    fn set_key(&mut self, key: &[Value<'_>]) {
        self.key.clear();
        key.iter().for_each(|value| value.append_key(&mut self.key));
    }

    /// Reads the row with this primary key; returns false if there is none.
    pub fn read(&mut self, connection: &mut dyn Connection, key: &[Value<'_>]) -> Attempt<bool> {
        self.set_key(key);
        connection.get_row(self.table, key, &self.key, &mut self.value)
    }

    /// Locks and reads the row with this primary key; returns false if there is none.
    pub fn lock(&mut self, connection: &mut dyn Connection, key: &[Value<'_>]) -> Attempt<bool> {
        self.set_key(key);
        connection.lock_row(self.table, key, &self.key, &mut self.value)
    }

    /// Decodes the columns of the row that was read.
    ///
    /// # Errors
    /// The bytes are not a row of this table.
    pub fn columns(&self) -> Result<Vec<Value<'_>>> {
        decode::row(self.table, &self.key, &self.value).ok_or_else(|| strange(self.table))
    }

    /// Sets columns of the row that was read.
    pub fn update(
        &mut self,
        connection: &mut dyn Connection,
        changes: &[(usize, Value<'_>)],
    ) -> Attempt<()> {
        let table = self.table;
        let mut row = decode::row(table, &self.key, &self.value).ok_or_else(|| strange(table))?;
        if !table.indexes.is_empty() {
            self.old.encode(table, &row);
        }
        let mut columns = [0; 16];
        for (at, (column, value)) in changes.iter().enumerate() {
            row[*column] = *value;
            columns[at] = *column;
        }
        self.new.encode(table, &row);
        connection.update_row(table, &columns[..changes.len()], &row, (&self.old, &self.new))
    }

    /// Deletes the row that was read.
    pub fn delete(&mut self, connection: &mut dyn Connection) -> Attempt<()> {
        let row = decode::row(self.table, &self.key, &self.value);
        let row = row.ok_or_else(|| strange(self.table))?;
        self.old.encode(self.table, &row);
        connection.delete_row(self.table, &row, &self.old)
    }

    /// Inserts a row.
    pub fn insert(&mut self, connection: &mut dyn Connection, row: &[Value<'_>]) -> Attempt<()> {
        self.new.encode(self.table, row);
        connection.insert_row(self.table, row, &self.new)
    }
}

/// Rows of a load, encoded before the clock of their commit starts.
pub struct Batch<'t> {
    /// The table.
    pub table: &'t Table,
    rows: Vec<EncodedRow>,
    used: usize,
    /// Checksum of the rows.
    pub sum: Checksum,
}

impl<'t> Batch<'t> {
    /// An empty batch.
    pub fn new(table: &'t Table) -> Self {
        Self { table, rows: Vec::new(), used: 0, sum: Checksum::default() }
    }

    /// Adds a row.
    pub fn push(&mut self, row: &[Value<'_>]) {
        if self.used == self.rows.len() {
            self.rows.push(EncodedRow::default());
        }
        let encoded = &mut self.rows[self.used];
        encoded.encode(self.table, row);
        self.sum.add(&encoded.key, &encoded.value);
        self.used += 1;
    }

    /// Number of rows.
    pub fn len(&self) -> u64 {
        self.used as u64
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Inserts all rows.
    pub fn insert(&self, connection: &mut dyn Connection) -> Attempt<()> {
        let mut row = Vec::new();
        for encoded in &self.rows[..self.used] {
            if !decode::row_into(self.table, &encoded.key, &encoded.value, &mut row) {
                return Err(strange(self.table).into());
            }
            connection.insert_row(self.table, &row, encoded)?;
        }
        Ok(())
    }

    /// Removes all rows, and keeps the buffers.
    pub fn clear(&mut self) {
        self.used = 0;
        self.sum = Checksum::default();
    }
}
