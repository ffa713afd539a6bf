//! Checksums of rows that both the server and the client compute: the sum of the rows' CRC-32 over
//! their columns as text.
//!
//! The sum depends neither on the engine nor on the order of the rows, so several clients may add
//! to it.
//!
//! Threads: the clients of a cell share a `Ledger`.

use std::collections::BTreeMap;
use std::sync::Mutex;

/// Separates the columns of a row.
const SEPARATOR: u8 = 0x1f;
/// Represents NULL.
const NULL: &str = "\0";
/// A FLOAT enters the sum as a whole number of 1/16384ths: the server would print it with six
/// digits, which are fewer than it has.
const FLOAT_PARTS: f64 = 16_384.0;

/// A column of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Column {
    /// Name.
    pub name: String,
    /// Whether it is a FLOAT.
    pub is_float: bool,
}

/// SQL expression for the checksum of all rows over these columns.
pub fn expression<'c>(columns: impl IntoIterator<Item = &'c Column>) -> String {
    let text = |Column { name, is_float }: &Column| match is_float {
        true => format!("COALESCE(CAST(FLOOR(`{name}`*{FLOAT_PARTS}) AS SIGNED),'\\0')"),
        false => format!("COALESCE(`{name}`,'\\0')"),
    };
    let texts: Vec<String> = columns.into_iter().map(text).collect();
    format!("COALESCE(SUM(CRC32(CONCAT_WS(0x{SEPARATOR:02X},{}))),0)", texts.join(","))
}

/// Checksum of the rows that a client generates.
#[derive(Clone, Debug, Default)]
pub struct RowSum {
    row: Vec<u8>,
    has_value: bool,
    sum: u64,
}

impl RowSum {
    /// Adds the next value of the current row.
    pub fn value(&mut self, text: &[u8]) {
        if std::mem::replace(&mut self.has_value, true) {
            self.row.push(SEPARATOR);
        }
        self.row.extend_from_slice(text);
    }

    /// Adds NULL as the next value.
    pub fn null(&mut self) {
        self.value(NULL.as_bytes());
    }

    /// Adds the next value of a FLOAT column.
    pub fn float(&mut self, value: f32) {
        let parts = (f64::from(value) * FLOAT_PARTS).floor() as i64;
        self.value(parts.to_string().as_bytes());
    }

    /// Ends the current row, if there is one.
    pub fn end_row(&mut self) {
        if std::mem::take(&mut self.has_value) {
            self.sum += u64::from(crc32fast::hash(&self.row));
            self.row.clear();
        }
    }

    /// Returns the sum of the rows that ended since the last call.
    pub fn take(&mut self) -> u64 {
        std::mem::take(&mut self.sum)
    }
}

/// What clients have inserted into a table.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sent {
    /// Columns that the statements name; empty if they name none and insert into all.
    pub columns: Vec<String>,
    /// Rows.
    pub rows: u64,
    /// Checksum over those columns.
    pub sum: u64,
}

/// What clients have inserted, by table.
#[derive(Debug, Default)]
pub struct Ledger(Mutex<BTreeMap<String, Sent>>);

impl Ledger {
    /// Records rows that the server has acknowledged. All statements of a table name the same
    /// columns.
    pub fn add(&self, table: &str, columns: &str, rows: u64, sum: u64) {
        let mut all = self.0.lock().unwrap_or_else(|e| e.into_inner());
        if !all.contains_key(table) {
            let names = columns.split(',').map(str::trim).filter(|name| !name.is_empty());
            let columns = names.map(str::to_owned).collect();
            all.insert(table.to_owned(), Sent { columns, ..Sent::default() });
        }
        if let Some(sent) = all.get_mut(table) {
            sent.rows += rows;
            sent.sum += sum;
        }
    }

    /// Forgets a table, because it was created again and is empty.
    pub fn forget(&self, table: &str) {
        self.0.lock().unwrap_or_else(|e| e.into_inner()).remove(table);
    }

    /// What clients have inserted into this table.
    pub fn of(&self, table: &str) -> Option<Sent> {
        self.0.lock().unwrap_or_else(|e| e.into_inner()).get(table).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_summed_in_any_order() {
        let sum = |rows: &[[&str; 2]]| {
            let mut sum = RowSum::default();
            for row in rows {
                row.iter().for_each(|value| sum.value(value.as_bytes()));
                sum.end_row();
            }
            sum.end_row();
            (sum.take(), sum.take())
        };
        assert_eq!(sum(&[["1", "a"], ["2", ""]]), sum(&[["2", ""], ["1", "a"]]));
        assert_eq!(sum(&[["1", "a"]]), (u64::from(crc32fast::hash(b"1\x1fa")), 0));
        assert_ne!(sum(&[["1", ""]]), sum(&[["", "1"]]));
    }

    #[test]
    fn a_table_that_is_made_again_has_nothing() {
        let ledger = Ledger::default();
        ledger.add("t", "a, b", 2, 7);
        ledger.add("t", "a, b", 1, 3);
        let columns = ["a", "b"].map(str::to_owned).to_vec();
        let sent = Sent { columns, rows: 3, sum: 10 };
        assert_eq!(ledger.of("t"), Some(sent));
        ledger.forget("t");
        assert_eq!(ledger.of("t"), None);
    }
}
