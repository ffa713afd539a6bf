//! `ycsb`: the six core workloads of YCSB on one table of ten fields.
//!
//! | | mix | records requested |
//! |---|---|---|
//! | A | 50 % read, 50 % update | scrambled Zipf 0.99 |
//! | B | 95 % read, 5 % update | the same |
//! | C | read | the same |
//! | D | 95 % read, 5 % insert | the latest |
//! | E | 95 % scan of 1 to 100, 5 % insert | scrambled Zipf |
//! | F | 50 % read, 50 % read and modify | the same |
//!
//! They run in the published order: A B C F D, then E on records that are loaded again. Each
//! operation is a transaction.

mod embedded;
mod keys;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::pace::{self, RATE, Rate};
use super::{Entry, Workload, refuse_without_rows};
use crate::lab::params::{Param, Params, once_each};
use crate::lab::sql::{Bench, Connect, InsertText, Session, SqlResult, Statement, Value, Worker};
use crate::lab::step::Step;
use crate::random::{Purpose, Random};
use crate::targets::{Failure, Result};
use keys::{Keys, Zipf, write_key};

pub use embedded::EMBEDDED;

const PARAMS: &[Param] = &[
    Param::sized("records", ["2_000", "94_000", "1_000_000", "10_000_000"], "records loaded"),
    Param::sized("threads", ["4", "4", "1,4,16", "1,4,16"], "numbers of clients"),
    Param::sized("seconds", ["0.5", "0.8", "60", "300"], "duration of a step, seconds"),
    Param::sized("warm_up", ["0", "0.3", "20", "600"], "maximum warm-up before a step, seconds"),
    RATE,
    Param::fixed("mixes", "ABCFDE", "workloads, in this order; E starts with a load"),
    Param::fixed("value_ratio", "1", "fraction of a field that is random; the rest repeats it"),
    Param::fixed("rows_per_commit", "1000", "rows per INSERT of the load"),
    Param::fixed("ratio", "10", "data to cache"),
    Param::sized("time_limit", ["60", "40", "1800", "0"], "seconds, 0 for none"),
];

pub const ENTRY: Entry = Entry {
    name: "ycsb",
    about: "YCSB's core workloads A to F: reads, updates, inserts and scans by key",
    headline: ("A threads=4", "ops_s"),
    params: PARAMS,
    make: |params, seed| Ok(Box::new(Ycsb::new(params, seed)?)),
};

const FIELDS: usize = 10;
const FIELD_BYTES: usize = 100;
/// Bytes of a record: a key of 22 or 23 bytes, and the fields.
const ROW_BYTES: u64 = 1_023;
/// Bytes per record in plain InnoDB, inserted in random order, measured at 100,000 records.
const INNODB_RECORD_BYTES: u64 = 1_800;
/// Number of clients of the load.
const LOADERS: u64 = 4;
/// Expected number of inserts, relative to the number of records.
const INSERTS: f64 = 0.05;
const SCAN_MAX: u64 = 100;

/// An operation of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Operation {
    Read,
    Update,
    Insert,
    Scan,
    Modify,
}

/// Returns the two operations of a mix, and the share of the first in percent.
fn mix(letter: char) -> Option<(Operation, Operation, u32)> {
    use Operation::{Insert, Modify, Read, Scan, Update};
    Some(match letter {
        'A' => (Read, Update, 50),
        'B' => (Read, Update, 95),
        'C' => (Read, Read, 100),
        'D' => (Read, Insert, 95),
        'E' => (Scan, Insert, 95),
        'F' => (Read, Modify, 50),
        _ => return None,
    })
}

struct Ycsb {
    seed: u64,
    records: u64,
    threads: Vec<u64>,
    seconds: f64,
    warm_up: f64,
    rate: Rate,
    mixes: Vec<char>,
    value_ratio: f64,
    per_commit: u64,
}

impl Ycsb {
    fn new(params: &Params, seed: u64) -> Result<Self> {
        let made = Self {
            seed,
            records: params.number("records")?,
            threads: params.numbers("threads")?,
            seconds: params.real("seconds")?,
            warm_up: params.real("warm_up")?,
            rate: Rate::new(params)?,
            mixes: once_each("mixes", params.text("mixes").to_uppercase().chars().collect())?,
            value_ratio: params.real("value_ratio")?,
            per_commit: params.number("rows_per_commit")?,
        };
        let is_right = made.records >= 10
            && !made.threads.is_empty()
            && made.threads.iter().all(|n| (1..=512).contains(n))
            && !made.mixes.is_empty()
            && made.mixes.iter().all(|letter| mix(*letter).is_some())
            && made.value_ratio > 0.0
            && made.value_ratio <= 1.0
            && (1..=100_000).contains(&made.per_commit)
            && made.seconds > 0.0;
        if is_right {
            return Ok(made);
        }
        Err(Failure(
            "ycsb: allowed are records from 10, threads from 1 to 512, mixes of A to F, value_ratio above 0 and up to 1, seconds and \
             rows_per_commit from 1"
                .to_owned(),
        ))
    }

    /// Number of records plus twice the expected number of inserts.
    fn space(&self) -> u64 {
        self.records + (2.0 * INSERTS * self.records as f64) as u64
    }

    /// Writes a field, with six characters from each random word.
    fn write_field(&self, random: &mut Random, out: &mut String) {
        let fresh = ((FIELD_BYTES as f64 * self.value_ratio).round() as usize).max(1);
        out.clear();
        while out.len() < fresh {
            let word = random.next() >> 32;
            for (shift, mask) in [(0, 31), (5, 63), (10, 95), (15, 31), (20, 63), (25, 95)] {
                out.push(char::from((word >> shift & mask) as u8 + b' '));
            }
        }
        out.truncate(fresh);
        while out.len() < FIELD_BYTES {
            let more = fresh.min(FIELD_BYTES - out.len());
            out.extend_from_within(..more);
        }
    }

    fn load(&self, bench: &mut Bench, step_name: &str) -> Result<u64> {
        let fields = (0..FIELDS).map(|n| format!("FIELD{n} VARCHAR({FIELD_BYTES})"));
        let fields = fields.collect::<Vec<_>>().join(",");
        bench.admin().run("DROP TABLE IF EXISTS usertable")?;
        bench.create(&format!("usertable(YCSB_KEY VARCHAR(24) PRIMARY KEY,{fields})"), "")?;
        let mut step = Step::load(step_name, self.records, ROW_BYTES);
        step.clients = LOADERS;
        let (next, inserted) = (AtomicU64::new(0), AtomicU64::new(0));
        bench.step(&step, |worker| {
            let mut statement = InsertText::new("INSERT INTO usertable VALUES");
            let (mut key, mut field) = (String::new(), String::new());
            while worker.go_on() {
                let chunk = next.fetch_add(1, Ordering::Relaxed);
                let first = chunk * self.per_commit;
                if first >= self.records {
                    break;
                }
                let mut random = Random::stream(self.seed, "ycsb", 0, chunk, Purpose::Data);
                for record in first..(first + self.per_commit).min(self.records) {
                    write_key(record, &mut key);
                    let mut row = statement.row().simple(&key);
                    for _ in 0..FIELDS {
                        self.write_field(&mut random, &mut field);
                        row = row.text(&field);
                    }
                }
                let rows = worker.insert("commit", &mut statement)?;
                inserted.fetch_add(rows, Ordering::Relaxed);
            }
            Ok(())
        })?;
        let inserted = inserted.into_inner();
        bench.loaded((inserted, inserted * ROW_BYTES))?;
        bench.verify("usertable", Some(inserted), true)?;
        bench.crash()?;
        Ok(inserted)
    }

    /// Runs one mix with one number of clients, and returns the number of rows inserted.
    fn run_mix(&self, bench: &mut Bench, letter: char, threads: u64, keys: &Keys) -> Result<u64> {
        let name = format!("{letter} threads={threads}");
        let step = Step::timed(&name, self.seconds, self.warm_up, threads);
        let step = Step { writes: letter != 'C', ..step };
        let inserted = AtomicU64::new(0);
        // A client's random streams continue after the warm-up, and in an open loop.
        let streams: Vec<_> = (0..threads)
            .map(|index| Mutex::new(Streams::of(self.seed, letter, threads, index)))
            .collect();
        let serve = |worker: &mut Worker<'_>, mut client: Client<'_>| {
            let mut streams =
                streams[worker.index as usize].lock().unwrap_or_else(|e| e.into_inner());
            while worker.go_on() {
                inserted.fetch_add(client.go_on(worker, &mut streams)?, Ordering::Relaxed);
            }
            Ok(())
        };
        pace::run(bench, &step, self.rate, |bench, step| {
            let prepare =
                |_, session: &mut Session, _: Connect<'_>| Client::new(self, session, keys, letter);
            bench.step_prepared(step, prepare, serve, &[])?;
            Ok(())
        })?;
        Ok(inserted.into_inner())
    }
}

/// Random streams of a client.
struct Streams {
    choice: Random,
    data: Random,
}

impl Streams {
    /// Makes the streams of a client for a mix with this number of clients.
    fn of(seed: u64, letter: char, threads: u64, index: u64) -> Self {
        let table = u64::from(u32::from(letter)) << 32 | threads;
        let stream = |purpose| Random::stream(seed, "ycsb", 1 + table, index, purpose);
        Self { choice: stream(Purpose::Choice), data: stream(Purpose::Data) }
    }
}

/// A client of a step.
struct Client<'y> {
    ycsb: &'y Ycsb,
    keys: &'y Keys,
    letter: char,
    latest: Option<Zipf>,
    read: Statement,
    lock: Statement,
    scan: Statement,
    insert: Statement,
    updates: Vec<Statement>,
    key: String,
    field: String,
}

impl<'y> Client<'y> {
    fn new(ycsb: &'y Ycsb, session: &mut Session, keys: &'y Keys, letter: char) -> Result<Self> {
        let mut updates = Vec::new();
        for n in 0..FIELDS {
            updates.push(
                session.prepare(&format!("UPDATE usertable SET FIELD{n}=? WHERE YCSB_KEY=?"))?,
            );
        }
        Ok(Self {
            ycsb,
            keys,
            letter,
            latest: (letter == 'D').then(|| Zipf::new(keys.records())),
            read: session.prepare("SELECT * FROM usertable WHERE YCSB_KEY=?")?,
            lock: session.prepare("SELECT * FROM usertable WHERE YCSB_KEY=? FOR UPDATE")?,
            scan: session
                .prepare("SELECT * FROM usertable WHERE YCSB_KEY>=? ORDER BY YCSB_KEY LIMIT ?")?,
            insert: session.prepare("INSERT INTO usertable VALUES(?,?,?,?,?,?,?,?,?,?,?)")?,
            updates,
            key: String::new(),
            field: String::new(),
        })
    }

    /// Executes the next operation, and returns the number of rows inserted.
    fn go_on(&mut self, worker: &mut Worker<'_>, streams: &mut Streams) -> Result<u64> {
        let Streams { choice, data } = streams;
        let (first, other, share) =
            mix(self.letter).unwrap_or((Operation::Read, Operation::Read, 100));
        let operation = if choice.below(100) < u64::from(share) { first } else { other };
        let record = match (operation, &mut self.latest) {
            (Operation::Insert, _) => self.keys.take(),
            (_, Some(zipf)) => self.keys.latest(zipf, choice),
            (_, None) => self.keys.scrambled(choice),
        };
        write_key(record, &mut self.key);
        let key = self.key.as_str();
        match operation {
            Operation::Read => {
                let read = &self.read;
                worker
                    .request("read", 1, |session| session.query(read, (key,), |_| ()).map(drop))?;
            }
            Operation::Scan => {
                let (scan, rows) = (&self.scan, choice.between(1, SCAN_MAX));
                worker.request("scan", 1, |session| {
                    session.query(scan, (key, rows), |_| ()).map(drop)
                })?;
            }
            Operation::Update | Operation::Modify => {
                let update = &self.updates[choice.below(FIELDS as u64) as usize];
                self.ycsb.write_field(data, &mut self.field);
                let (lock, field) = (&self.lock, self.field.as_str());
                let write = |session: &mut Session| -> SqlResult<()> {
                    session.execute(update, (field, key)).map(drop)
                };
                match operation {
                    Operation::Update => worker.request("update", 1, write)?,
                    _ => worker.request("read_modify_write", 1, |session| {
                        session.run("BEGIN")?;
                        session.query(lock, (key,), |_| ())?;
                        write(session)?;
                        session.run("COMMIT").map(drop)
                    })?,
                }
                worker.changed(ROW_BYTES);
            }
            Operation::Insert => {
                let mut row: Vec<Value> = vec![key.into()];
                for _ in 0..FIELDS {
                    self.ycsb.write_field(data, &mut self.field);
                    row.push(self.field.as_str().into());
                }
                let (insert, mut inserted) = (&self.insert, 0);
                worker.request("insert", 1, |session| {
                    inserted = session.execute(insert, row.clone())?;
                    Ok(())
                })?;
                self.keys.inserted(record);
                worker.changed(inserted * ROW_BYTES);
                return Ok(inserted);
            }
        }
        Ok(0)
    }
}

impl Workload for Ycsb {
    fn innodb_bytes(&self) -> u64 {
        self.records * INNODB_RECORD_BYTES
    }

    fn run(&mut self, bench: &mut Bench) -> Result<(u64, u64)> {
        refuse_without_rows(bench, "ycsb")?;
        let space = self.space();
        let (mut rows, mut keys) = (0, Keys::new(self.records, space));
        for (at, letter) in self.mixes.iter().enumerate() {
            if at == 0 || *letter == 'E' {
                rows = self.load(bench, if at == 0 { "load" } else { "reload" })?;
                keys = Keys::new(self.records, space);
            }
            for threads in &self.threads {
                if bench.is_over() {
                    return Ok((rows, rows * ROW_BYTES));
                }
                rows += self.run_mix(bench, *letter, *threads, &keys)?;
            }
        }
        bench.rest()?;
        bench.verify("usertable", Some(rows), false)?;
        Ok((rows, rows * ROW_BYTES))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{must_fail, on_both, step};
    use super::*;
    use crate::lab::size::Size;

    fn ycsb(changes: &[(&str, &str)]) -> Ycsb {
        let changes: Vec<_> =
            changes.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        let params = Params::new("ycsb", ENTRY.params, Size::Tiny, &changes).expect("its own");
        Ycsb::new(&params, 42).expect("right")
    }

    #[test]
    fn fields_have_upstreams_characters_and_repeat_as_configured() {
        let (whole, half) = (ycsb(&[]), ycsb(&[("value_ratio", "0.5")]));
        let (mut random, mut field) = (Random::new(1), String::new());
        for _ in 0..1_000 {
            whole.write_field(&mut random, &mut field);
            assert!(field.len() == FIELD_BYTES && field.bytes().all(|b| (32..128).contains(&b)));
            // The first of six characters has five random bits.
            assert!(field.bytes().step_by(6).all(|byte| byte < 64), "{field}");
            half.write_field(&mut random, &mut field);
            assert_eq!(field[..50], field[50..]);
        }
        for bad in [("mixes", "AX"), ("mixes", ""), ("value_ratio", "0"), ("threads", "0")] {
            let changes = [(bad.0.to_owned(), bad.1.to_owned())];
            let params = Params::new("ycsb", ENTRY.params, Size::Tiny, &changes).expect("its own");
            assert!(Ycsb::new(&params, 42).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn sql_all_mixes_run_in_their_order_and_a_lost_record_fails() {
        on_both("ycsb", &[("threads", "3")], |bench| {
            // `changed_b` covers the rows that were updated or inserted, as the clients counted
            // them.
            let a = step(bench, "A threads=3");
            let updates = a.latencies["update"].count as f64;
            assert_eq!(a.metrics["changed_b"], updates * ROW_BYTES as f64);
            assert!(!step(bench, "C threads=3").metrics.contains_key("write_amp"));
            let names: Vec<_> = bench.result.steps.iter().map(|step| step.name.as_str()).collect();
            assert_eq!(names.len(), 2 + 6, "{names:?}");
            assert_eq!(names[..2], ["load", "A threads=3"]);
            assert_eq!(names[5..], ["D threads=3", "reload", "E threads=3"]);
            assert!(step(bench, "F threads=3").latencies.contains_key("read_modify_write"));
            assert!(step(bench, "E threads=3").latencies.contains_key("scan"));
            let rows = bench.admin().value("SELECT COUNT(*) FROM usertable").expect("a count");
            let rows = rows.parse().expect("a number");
            must_fail(bench, "DELETE FROM usertable LIMIT 1", |bench| {
                bench.verify("usertable", Some(rows), false)
            });
        });
    }
}
