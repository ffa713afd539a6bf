//! sysbench's table in SQL and its load, by statements as long as sysbench's or with a given number
//! of rows.

pub mod embedded;

use std::sync::atomic::{AtomicU64, Ordering};

use crate::data::Source;
use crate::data::sbtest::{GROUPS, Record, Sbtest, write_digits};
use crate::lab::sql::{Bench, Connect, InsertText, Session, Worker};
use crate::lab::step::Step;
use crate::random::{Purpose, Random, Shuffle};
use crate::targets::Result;

/// Bytes of a row's columns: 4 + 4 + 120 + 60.
pub const ROW_BYTES: u64 = 188;
/// Bytes per row in plain InnoDB, loaded as sysbench does: 226 B of data and 16 B of index at
/// 100,000 rows.
pub const INNODB_ROW_BYTES: u64 = <Sbtest as Source>::INNODB_ROW_BYTES;
/// Length of a statement of sysbench's loader, in bytes.
const STATEMENT_BYTES: usize = 512 << 10;
/// Maximum length of a row as text.
const TEXT_BYTES: usize = 220;

/// Content of `c` and `pad`, which determines how well they can be compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fill {
    /// Random digits in groups, as in sysbench: 3.3 bits each.
    Digits,
    /// Random letters: 4.7 bits each.
    Letters,
    /// The 50 letters that sysbench 0.4 wrote into each row.
    Constant,
}

/// Names of the fills.
pub const FILLS: [&str; 3] = ["digits", "letters", "constant"];

impl Fill {
    /// Returns the fill with this name, which is one of `FILLS`.
    pub fn new(name: &str) -> Self {
        match name {
            "letters" => Self::Letters,
            "constant" => Self::Constant,
            _ => Self::Digits,
        }
    }

    /// Writes `c` (column 0) or `pad` (column 1).
    pub fn write(self, random: &mut Random, column: usize, out: &mut String) {
        match self {
            Self::Digits => write_digits(random, GROUPS[column], out),
            Self::Letters => {
                out.clear();
                let letters = if column == 0 { 119 } else { 59 };
                for _ in 0..letters {
                    out.push(char::from(b'a' + random.below(26) as u8));
                }
            }
            Self::Constant => {
                out.clear();
                // sysbench writes a space into `c`, which CHAR does not keep.
                if column == 1 {
                    ["a", "f", "r", "e", "y"].iter().for_each(|s| *out += &s.repeat(10));
                }
            }
        }
    }
}

/// How many rows one statement of a load inserts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Batch {
    /// As many rows as fit into 512 KiB of text.
    Bytes,
    /// This number of rows.
    Rows(u64),
}

/// A load of one table.
#[derive(Clone, Copy, Debug)]
pub struct Load<'a> {
    /// Name of the step.
    pub step: &'a str,
    /// Name of the table.
    pub table: &'a str,
    /// Number of rows.
    pub rows: u64,
    /// Seed of the rows.
    pub seed: u64,
    /// Rows per statement.
    pub batch: Batch,
    /// Content of the rows.
    pub fill: Fill,
    /// Whether statements contain the ids; otherwise the server assigns them.
    pub with_ids: bool,
    /// Whether ids come in random order instead of ascending. Then statements contain them,
    /// whatever `with_ids` is.
    pub is_shuffled: bool,
}

impl<'a> Load<'a> {
    /// Makes the load that sysbench does.
    pub fn new(step: &'a str, table: &'a str, rows: u64, seed: u64) -> Self {
        let (batch, fill) = (Batch::Bytes, Fill::Digits);
        Self { step, table, rows, seed, batch, fill, with_ids: false, is_shuffled: false }
    }

    /// Runs the load, and returns the number of rows inserted.
    ///
    /// # Errors
    /// The server reports an error.
    pub fn run(self, bench: &mut Bench) -> Result<u64> {
        let loaded = AtomicU64::new(0);
        let step = Step::load(self.step, self.rows, ROW_BYTES);
        let prepare = |_, _: &mut Session, _: Connect<'_>| Ok(Rows::new(self));
        let load = |worker: &mut Worker<'_>, mut rows: Rows| {
            let (mut row, mut left) = (Row::default(), self.rows);
            let with_ids = self.with_ids || self.is_shuffled;
            let columns = if with_ids { "id, k, c, pad" } else { "k, c, pad" };
            let mut statement =
                InsertText::new(&format!("INSERT INTO {}({columns}) VALUES", self.table));
            while left > 0 && worker.go_on() {
                let most = if let Batch::Rows(most) = self.batch { most.min(left) } else { left };
                while statement.len() < most && statement.bytes() + TEXT_BYTES < STATEMENT_BYTES {
                    rows.next(&mut row);
                    let text = statement.row();
                    let text = if with_ids { text.plain(row.id) } else { text };
                    text.plain(row.k).simple(&row.c).simple(&row.pad);
                }
                let n = statement.len();
                left -= n;
                loaded.fetch_add(worker.insert("commit", &mut statement)?, Ordering::Relaxed);
            }
            Ok(())
        };
        bench.step_prepared(&step, prepare, load, &[])?;
        Ok(loaded.into_inner())
    }
}

/// A row of the table.
#[derive(Clone, Debug, Default)]
pub struct Row {
    pub id: u64,
    pub k: i32,
    pub c: String,
    pub pad: String,
}

/// A generator of the rows of a load.
pub struct Rows {
    source: Sbtest,
    record: Record,
    random: Random,
    fill: Fill,
    shuffle: Option<Shuffle>,
    next: u64,
}

impl Rows {
    /// Makes a generator that starts at the first row.
    pub fn new(load: Load<'_>) -> Self {
        Self {
            source: Sbtest::new(load.seed, load.rows),
            record: Record::default(),
            random: Random::stream(load.seed, "sbtest", 1, 0, Purpose::Data),
            fill: load.fill,
            shuffle: load.is_shuffled.then(|| Shuffle::new(load.seed, load.rows)),
            next: 0,
        }
    }

    /// Writes the next row to `row`. Must not be called more often than the load has rows.
    pub fn next(&mut self, row: &mut Row) {
        self.source.next(&mut self.record);
        row.id = 1 + self.shuffle.as_ref().map_or(self.next, |shuffle| shuffle.of(self.next));
        self.next += 1;
        row.k = self.record.k;
        if self.fill != Fill::Digits {
            self.fill.write(&mut self.random, 0, &mut row.c);
            self.fill.write(&mut self.random, 1, &mut row.pad);
            return;
        }
        // Without the spaces with which CHAR is padded.
        for (to, from) in [(&mut row.c, &self.record.c), (&mut row.pad, &self.record.pad)] {
            to.clear();
            to.push_str(from.trim_end());
        }
    }
}

/// The definition of the table for CREATE TABLE. It includes the index `index` if that is to exist
/// before the rows.
pub fn definition(table: &str, index: Option<&str>) -> String {
    let index = index.map(|name| format!(", KEY {name} (k)")).unwrap_or_default();
    format!(
        "{table}(id INTEGER NOT NULL AUTO_INCREMENT, k INTEGER DEFAULT '0' NOT NULL, \
         c CHAR(120) DEFAULT '' NOT NULL, pad CHAR(60) DEFAULT '' NOT NULL, PRIMARY KEY (id){index})"
    )
}

/// Creates an index, as a step whose operations are the rows.
///
/// # Errors
/// The server reports an error.
pub fn create_index(bench: &mut Bench, step: &str, rows: u64, sql: &str) -> Result<()> {
    bench.step(&Step { name: step, ..Step::load("", rows, 0) }, |worker| {
        worker.request("create_index", rows, |session| session.run(sql).map(drop))
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(fill: Fill, is_shuffled: bool) -> Vec<Row> {
        let load = Load { fill, is_shuffled, ..Load::new("load", "t", 1_000, 42) };
        let (mut rows, mut row) = (Rows::new(load), Row::default());
        let mut next = || {
            rows.next(&mut row);
            row.clone()
        };
        (0..1_000).map(|_| next()).collect()
    }

    #[test]
    fn rows_have_no_trailing_space_and_every_fill_has_the_same_keys() {
        let digits = rows(Fill::Digits, false);
        assert!(digits.iter().all(|row| (row.c.len(), row.pad.len()) == (119, 59)));
        for fill in FILLS.map(Fill::new) {
            let others = rows(fill, false);
            assert!(others.iter().zip(&digits).all(|(a, b)| (a.id, a.k) == (b.id, b.k)));
        }
        let letters = rows(Fill::Letters, false);
        assert!(letters[0].c.bytes().all(|b| b.is_ascii_lowercase()) && letters[0].c.len() == 119);
        assert!(rows(Fill::Constant, false).iter().all(|row| row.pad.len() == 50));
    }

    #[test]
    fn shuffled_rows_have_each_id_once() {
        let mut ids: Vec<u64> = rows(Fill::Digits, true).iter().map(|row| row.id).collect();
        assert!(!ids.is_sorted());
        ids.sort_unstable();
        assert!(ids.into_iter().eq(1..=1_000));
    }
}
