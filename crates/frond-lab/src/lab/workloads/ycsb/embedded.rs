//! YCSB on embedded stores: the same keys, fields and mixes as in SQL. A record is a row, and an
//! update reads its row first.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::super::pace;
use super::keys::{Keys, Zipf, write_key};
use super::{
    ENTRY, FIELDS, INNODB_RECORD_BYTES, LOADERS, Operation, PARAMS, ROW_BYTES, SCAN_MAX, Streams,
    Ycsb, mix,
};
use crate::lab::embedded::{Batch, Bench, Entry, Rows, Worker, Workload};
use crate::lab::step::Step;
use crate::random::{Purpose, Random};
use crate::schema::{Column, Table, Type, Value};
use crate::targets::{Begin, Result, Span};

pub const EMBEDDED: Entry = Entry {
    name: ENTRY.name,
    about: ENTRY.about,
    headline: ENTRY.headline,
    params: PARAMS,
    make: |params, seed| Ok(Box::new(Ycsb::new(params, seed)?)),
};

const NAMES: [&str; FIELDS] = [
    "field0", "field1", "field2", "field3", "field4", "field5", "field6", "field7", "field8",
    "field9",
];

fn table(name: &'static str) -> Table {
    let fields = NAMES.map(|name| Column::new(name, Type::Text));
    Table {
        name,
        columns: std::iter::once(Column::new("ycsb_key", Type::Text)).chain(fields).collect(),
        primary: vec![0],
        indexes: Vec::new(),
        base: 0,
    }
}

/// A record's key and fields as text.
#[derive(Default)]
struct Record {
    key: String,
    fields: [String; FIELDS],
}

impl Record {
    fn fill(&mut self, ycsb: &Ycsb, record: u64, random: &mut Random) {
        write_key(record, &mut self.key);
        self.fields.iter_mut().for_each(|field| ycsb.write_field(random, field));
    }

    fn row(&self) -> [Value<'_>; FIELDS + 1] {
        std::array::from_fn(|at| match at.checked_sub(1) {
            None => Value::Text(&self.key),
            Some(field) => Value::Text(&self.fields[field]),
        })
    }
}

/// A client of a mix.
struct Client<'y> {
    ycsb: &'y Ycsb,
    keys: &'y Keys,
    latest: Option<Zipf>,
    rows: Rows<'y>,
    record: Record,
}

impl Ycsb {
    fn load_records(&self, bench: &mut Bench<'_>, step_name: &str, table: &Table) -> Result<u64> {
        let mut step = Step::load(step_name, self.records, ROW_BYTES);
        step.clients = LOADERS;
        let (next, inserted) = (AtomicU64::new(0), AtomicU64::new(0));
        bench.step(&step, |worker| {
            let (mut batch, mut record) = (Batch::new(table), Record::default());
            while worker.go_on() {
                let chunk = next.fetch_add(1, Ordering::Relaxed);
                let first = chunk * self.per_commit;
                if first >= self.records {
                    break;
                }
                let mut random = Random::stream(self.seed, "ycsb", 0, chunk, Purpose::Data);
                for number in first..(first + self.per_commit).min(self.records) {
                    record.fill(self, number, &mut random);
                    batch.push(&record.row());
                }
                inserted.fetch_add(worker.insert("commit", &mut batch)?, Ordering::Relaxed);
            }
            Ok(())
        })?;
        Ok(inserted.into_inner())
    }

    /// Runs one mix with one number of clients, and returns the number of rows inserted.
    fn run_records(
        &self,
        bench: &mut Bench<'_>,
        (letter, threads): (char, u64),
        table: &Table,
        keys: &Keys,
    ) -> Result<u64> {
        let name = format!("{letter} threads={threads}");
        let step = Step::timed(&name, self.seconds, self.warm_up, threads);
        let step = Step { writes: letter != 'C', ..step };
        let inserted = AtomicU64::new(0);
        // A client's random streams continue after the warm-up, and in an open loop.
        let streams: Vec<_> = (0..threads)
            .map(|index| Mutex::new(Streams::of(self.seed, letter, threads, index)))
            .collect();
        // Made before the clock runs, since it sums a long series.
        let latest = (letter == 'D').then(|| Zipf::new(keys.records()));
        pace::run(bench, &step, self.rate, |bench, step| {
            bench.step(step, |worker| {
                let mut streams =
                    streams[worker.index as usize].lock().unwrap_or_else(|e| e.into_inner());
                let mut client = Client {
                    ycsb: self,
                    keys,
                    latest: latest.clone(),
                    rows: Rows::new(table),
                    record: Record::default(),
                };
                while worker.go_on() {
                    let more = client.go_on(worker, letter, &mut streams)?;
                    inserted.fetch_add(more, Ordering::Relaxed);
                }
                Ok(())
            })?;
            Ok(())
        })?;
        Ok(inserted.into_inner())
    }
}

impl Client<'_> {
    /// Executes the next operation, and returns the number of rows inserted.
    fn go_on(
        &mut self,
        worker: &mut Worker<'_>,
        letter: char,
        streams: &mut Streams,
    ) -> Result<u64> {
        let Streams { choice, data } = streams;
        let (first, other, share) = mix(letter).unwrap_or((Operation::Read, Operation::Read, 100));
        let operation = if choice.below(100) < u64::from(share) { first } else { other };
        let number = match (operation, &mut self.latest) {
            (Operation::Insert, _) => self.keys.take(),
            (_, Some(zipf)) => self.keys.latest(zipf, choice),
            (_, None) => self.keys.scrambled(choice),
        };
        write_key(number, &mut self.record.key);
        let (rows, record) = (&mut self.rows, &mut self.record);
        let key = [Value::Text(&record.key)];
        match operation {
            Operation::Read => worker.request("read", 1, |connection| {
                std::hint::black_box(rows.read(connection, &key)?);
                Ok(())
            })?,
            Operation::Scan => {
                let limit = choice.between(1, SCAN_MAX);
                let span = Span { from: &key, limit, ..Span::ALL };
                let table = rows.table;
                worker.request("scan", 1, |connection| {
                    connection.range(table, 0, &span, &mut |key, value| {
                        std::hint::black_box((key, value));
                        true
                    })
                })?;
            }
            Operation::Update | Operation::Modify => {
                let field = choice.below(FIELDS as u64) as usize;
                self.ycsb.write_field(data, &mut record.fields[field]);
                let change = [(1 + field, Value::Text(&record.fields[field]))];
                let kind = match operation {
                    Operation::Update => "update",
                    _ => "read_modify_write",
                };
                let mut changed = 0;
                worker.request(kind, 1, |connection| {
                    connection.begin(Begin::Write)?;
                    let is_there = rows.lock(connection, &key)?;
                    if is_there {
                        rows.update(connection, &change)?;
                    }
                    connection.commit()?;
                    changed = u64::from(is_there);
                    Ok(())
                })?;
                worker.changed(changed * ROW_BYTES);
            }
            Operation::Insert => {
                record.fill(self.ycsb, number, data);
                let row = record.row();
                let mut inserted = 0;
                worker.request("insert", 1, |connection| {
                    connection.begin(Begin::Batch)?;
                    rows.insert(connection, &row)?;
                    connection.commit()?;
                    inserted = 1;
                    Ok(())
                })?;
                self.keys.inserted(number);
                worker.changed(inserted * ROW_BYTES);
                return Ok(inserted);
            }
        }
        Ok(0)
    }
}

impl Workload for Ycsb {
    fn tables(&self) -> Vec<Table> {
        // E runs on records that are loaded again, into a table of their own, since tables of
        // embedded stores cannot be dropped here.
        let mut tables = vec![table("usertable")];
        if self.mixes.iter().skip(1).any(|letter| *letter == 'E') {
            tables.push(table("usertable_e"));
        }
        tables
    }

    fn innodb_bytes(&self) -> u64 {
        self.records * INNODB_RECORD_BYTES
    }

    fn run(&mut self, bench: &mut Bench<'_>) -> Result<(u64, u64)> {
        let space = self.space();
        let mut table = bench.table("usertable")?;
        let (mut rows, mut keys, mut before) = (0, Keys::new(self.records, space), (0, 0));
        for (at, letter) in self.mixes.iter().enumerate() {
            if at > 0 && *letter == 'E' && table.name == "usertable" {
                before = bench.verify(table, Some(rows), false)?;
                table = bench.table("usertable_e")?;
                (rows, keys) = (0, Keys::new(self.records, space));
            }
            if rows == 0 {
                let name = if at == 0 { "load" } else { "reload" };
                rows = self.load_records(bench, name, table)?;
                let all = before.0 + rows;
                bench.loaded((all, all * ROW_BYTES))?;
                bench.verify(table, Some(rows), true)?;
            }
            for threads in &self.threads {
                if bench.is_over() {
                    break;
                }
                rows += self.run_records(bench, (*letter, *threads), table, &keys)?;
            }
        }
        bench.rest()?;
        let last = bench.verify(table, Some(rows), false)?;
        Ok((before.0 + last.0, before.1 + last.1))
    }
}

#[cfg(test)]
mod tests {
    use super::super::ROW_BYTES;
    use crate::lab::embedded::testing::{on_all, step_of};

    #[test]
    fn embedded_all_mixes_end_with_the_rows_that_were_inserted() {
        on_all("ycsb", &[("threads", "3")], |target, result| {
            let names: Vec<_> = result.steps.iter().map(|step| step.name.as_str()).collect();
            assert_eq!(names.len(), 2 + 6, "{names:?}");
            assert_eq!(names[5..], ["D threads=3", "reload", "E threads=3"]);
            let modify = step_of(result, "F threads=3");
            assert!(modify.latencies.contains_key("read_modify_write"), "{target}");
            assert!(modify.metrics["ops"] > 10.0 && modify.metrics["cpu_fg_us_op"] > 0.0);
            // `changed_b` covers the rows that were updated, as the clients counted them.
            let a = step_of(result, "A threads=3");
            let updates = a.latencies["update"].count as f64;
            let changed = a.metrics.get("changed_b").copied().unwrap_or(0.0);
            assert!(target == "null" || changed == updates * ROW_BYTES as f64, "{target}");
            assert!(!step_of(result, "C threads=3").metrics.contains_key("changed_b"));
            assert_eq!(result.facts.len(), if target == "null" { 0 } else { 2 });
        });
    }
}
