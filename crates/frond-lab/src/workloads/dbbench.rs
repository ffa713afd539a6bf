//! The db_bench workloads: one keyspace, small operations.
//!
//! Invariants
//! 1. A key is an 8-byte big-endian number padded with '0'. An absent key differs in its last byte,
//!    so it lies between existing keys.
//! 2. A value depends only on (key, version). Every 100 bytes of it are 50 random bytes repeated,
//!    so it compresses to half, and no value repeats another.
//! 3. What the store must hold follows from two bits per key: present and overwritten.

use std::time::{Duration, Instant};

use super::{Bench, Shape, Spec, Volume, Workload};
use crate::measure::Meter;
use crate::random::{Purpose, Random};
use crate::schema::{Checksum, Table};
use crate::targets::{Begin, Clients, Connection, Direction, Result, Target};

/// The test that runs after the load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Test {
    /// Ascending puts.
    FillSeq,
    /// Random puts.
    FillRandom,
    /// Random puts over existing keys.
    Overwrite,
    /// Gets of existing keys.
    ReadRandom,
    /// Gets of absent keys.
    ReadMissing,
    /// Everything, forwards.
    ReadSeq,
    /// Everything, backwards.
    ReadReverse,
    /// Seek and ten rows.
    SeekRandom,
    /// Gets concurrently with one writer.
    ReadWhileWriting,
}

/// Rows a seek reads.
const ROWS_PER_SEEK: u64 = 10;
/// Bytes per second of the writer that runs concurrently with readers. The tool's script uses
/// 2 MB/s.
const BESIDE_BYTES_PER_SECOND: u64 = 2_000_000;
/// Longest time of the scan that warms the caches before a scan is measured.
const WARM_UP_MAX: Duration = Duration::from_secs(10);
/// Rows after which a scan checks the clock.
const SCAN_CHUNK: u64 = 1_000;

/// A db_bench workload.
pub struct DbBench {
    spec: Spec,
    test: Test,
    present: Bits,
    overwritten: Bits,
}

#[derive(Clone, Debug)]
struct Bits(Vec<u64>);

impl Bits {
    fn new(n: u64) -> Self {
        Self(vec![0; (n as usize).div_ceil(64)])
    }

    fn get(&self, i: u64) -> bool {
        self.0[(i / 64) as usize] >> (i % 64) & 1 == 1
    }

    fn set(&mut self, i: u64) {
        self.0[(i / 64) as usize] |= 1 << (i % 64);
    }

    fn clear(&mut self, i: u64) {
        self.0[(i / 64) as usize] &= !(1 << (i % 64));
    }
}

impl Shape {
    /// Bytes of a key.
    pub fn key_bytes(self) -> usize {
        match self {
            Self::Classic => 16,
            Self::Script => 20,
        }
    }

    /// Bytes of a value.
    pub fn value_bytes(self) -> usize {
        match self {
            Self::Classic => 100,
            Self::Script => 400,
        }
    }

    /// Writes the key of a number (Invariant 1).
    pub fn key(self, number: u64, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&number.to_be_bytes());
        out.resize(self.key_bytes(), b'0');
    }

    /// Writes the key of no number, which lies right after that of this one (Invariant 1).
    pub fn absent_key(self, number: u64, out: &mut Vec<u8>) {
        self.key(number, out);
        if let Some(last) = out.last_mut() {
            *last = b'1';
        }
    }

    /// Writes the value of a number and version (Invariant 2). Numbers are below 2^56.
    pub fn value(self, number: u64, version: u8, out: &mut Vec<u8>) {
        let mut random = Random::new(number << 8 | u64::from(version));
        out.resize(self.value_bytes(), 0);
        for fragment in out.chunks_exact_mut(100) {
            let (first, second) = fragment.split_at_mut(50);
            random.fill(first);
            second.copy_from_slice(first);
        }
    }
}

/// Puts a row in its own commit.
fn put_one(connection: &mut dyn Connection, key: &[u8], value: &[u8]) -> Result<()> {
    connection.begin(Begin::Batch)?;
    connection.put(0, key, value)?;
    Ok(connection.commit()?)
}

impl DbBench {
    /// Creates the workload for `test`.
    pub fn new(spec: &Spec, test: Test) -> Self {
        let bits = Bits::new(spec.rows);
        Self { spec: spec.clone(), test, present: bits.clone(), overwritten: bits }
    }

    fn row_bytes(&self) -> u64 {
        (self.spec.shape.key_bytes() + self.spec.shape.value_bytes()) as u64
    }

    fn choice(&self, client: u64) -> Random {
        Random::stream(self.spec.seed, "dbbench", self.test as u64, client, Purpose::Choice)
    }

    /// Puts one row per commit; `next` chooses the row.
    fn put_each(
        &mut self,
        bench: &mut Bench<'_>,
        step: &str,
        (count, seconds): (u64, Option<u64>),
        version: u8,
        mut next: impl FnMut(&Bits, u64) -> u64,
    ) -> Result<()> {
        let (shape, row_bytes) = (self.spec.shape, self.row_bytes());
        let (present, overwritten) = (&mut self.present, &mut self.overwritten);
        bench.step(step, "put", count, seconds, |meter, target| {
            let mut connection = target.connect(Clients::ONE)?;
            let mut client = meter.client("put");
            let (mut key, mut value, mut done) = (Vec::new(), Vec::new(), 0);
            while done < count && client.go_on() {
                let number = next(present, done);
                shape.key(number, &mut key);
                shape.value(number, version, &mut value);
                client.time(1, || put_one(connection.as_mut(), &key, &value))?;
                present.set(number);
                match version {
                    0 => overwritten.clear(number),
                    _ => overwritten.set(number),
                }
                done += 1;
            }
            Ok(Volume { changed_bytes: done * row_bytes, ..Volume::default() })
        })?;
        Ok(())
    }

    fn fill_random(&mut self, bench: &mut Bench<'_>) -> Result<()> {
        let (rows, mut choice) =
            (self.spec.rows, Random::stream(self.spec.seed, "fillrandom", 0, 0, Purpose::Choice));
        self.put_each(bench, "fillrandom", (rows, None), 0, move |_, _| choice.below(rows))
    }

    fn existing(present: &Bits, rows: u64, choice: &mut Random) -> u64 {
        loop {
            let number = choice.below(rows);
            if present.get(number) {
                return number;
            }
        }
    }

    fn overwrite(&mut self, bench: &mut Bench<'_>) -> Result<()> {
        let (rows, mut choice) = (self.spec.rows, self.choice(0));
        let limits = (rows, Some(self.spec.seconds));
        self.put_each(bench, "overwrite", limits, 1, move |present, _| {
            Self::existing(present, rows, &mut choice)
        })
    }

    /// Gets rows until the rates of three successive seconds differ by less than 5 %, at most 10 s.
    fn warm_up(&self, bench: &Bench<'_>) -> Result<()> {
        if !bench.keeps_rows() {
            return Ok(());
        }
        let (mut connection, mut choice) =
            (bench.target.connect(Clients::ONE)?, self.choice(u64::MAX));
        let (mut key, mut value, mut rates) = (Vec::new(), Vec::new(), Vec::new());
        while rates.len() < 10 {
            let (begin, mut gets) = (Instant::now(), 0u32);
            while begin.elapsed() < Duration::from_secs(1) {
                let number = Self::existing(&self.present, self.spec.rows, &mut choice);
                self.spec.shape.key(number, &mut key);
                connection.get(0, &key, &mut value)?;
                gets += 1;
            }
            rates.push(f64::from(gets));
            if let [.., a, b, c] = rates[..]
                && a.max(b).max(c) < 1.05 * a.min(b).min(c)
            {
                break;
            }
        }
        Ok(())
    }

    /// Gets rows with `threads` clients; with `beside`, one more thread writes until they are done.
    fn read(&self, bench: &mut Bench<'_>, step: &str, beside: bool) -> Result<u64> {
        let missing = self.test == Test::ReadMissing;
        let (rows, threads) = (self.spec.rows, self.spec.threads.max(1));
        let mut found = 0;
        let row = bench.step(step, "get", rows, Some(self.spec.seconds), |meter, target| {
            std::thread::scope(|scope| {
                let reader = |client: u64| {
                    let share = rows / threads + u64::from(client < rows % threads);
                    move || self.get_some(meter, target, client, share, missing)
                };
                let readers: Vec<_> =
                    (0..threads).map(|client| scope.spawn(reader(client))).collect();
                let writer = beside.then(|| scope.spawn(|| self.write_beside(meter, target)));
                let join = |reader: std::thread::ScopedJoinHandle<'_, Result<u64>>| {
                    reader.join().expect("a panic of a client ends the run")
                };
                let ends: Vec<Result<u64>> = readers.into_iter().map(join).collect();
                meter.stop_side_clients(); // before any error returns: the writer would never end
                let written = writer.map_or(Ok(0), join)?;
                for end in ends {
                    found += end?;
                }
                Ok(Volume { changed_bytes: written, ..Volume::default() })
            })
        })?;
        row.found = Some(found);
        let lost = row.ops.saturating_sub(found);
        let wrong = if missing { found } else { lost };
        if wrong > 0 && row.target != "null" {
            row.errors.insert("other".to_owned(), wrong);
        }
        Ok(found)
    }

    fn get_some(
        &self,
        meter: &Meter,
        target: &dyn Target,
        client: u64,
        share: u64,
        missing: bool,
    ) -> Result<u64> {
        let threads = Clients::many(self.spec.threads);
        let (mut connection, mut choice) = (target.connect(threads)?, self.choice(client));
        let (shape, rows, mut meter) = (self.spec.shape, self.spec.rows, meter.client("get"));
        let (mut key, mut value, mut found, mut done) = (Vec::new(), Vec::new(), 0, 0);
        while done < share && meter.go_on() {
            let number = Self::existing(&self.present, rows, &mut choice);
            match missing {
                true => shape.absent_key(number, &mut key),
                false => shape.key(number, &mut key),
            }
            found += u64::from(meter.time(1, || connection.get(0, &key, &mut value))?);
            done += 1;
        }
        Ok(found)
    }

    /// Overwrites rows at a fixed rate with the values that they have, so that the checksum does
    /// not change. Latency counts from the scheduled start.
    fn write_beside(&self, meter: &Meter, target: &dyn Target) -> Result<u64> {
        let threads = Clients::many(self.spec.threads + 1);
        let (mut connection, mut choice) = (target.connect(threads)?, self.choice(1 << 32));
        let mut client = meter.side_client("put");
        let pause =
            Duration::from_secs_f64(self.row_bytes() as f64 / BESIDE_BYTES_PER_SECOND as f64);
        let (mut key, mut value) = (Vec::new(), Vec::new());
        let (mut due, mut written) = (Instant::now(), 0);
        while client.go_on() {
            let number = Self::existing(&self.present, self.spec.rows, &mut choice);
            self.spec.shape.key(number, &mut key);
            self.spec.shape.value(number, 0, &mut value);
            if let Some(early) = due.checked_duration_since(Instant::now()) {
                std::thread::sleep(early);
            }
            client.time_from(due, || put_one(connection.as_mut(), &key, &value))?;
            due += pause;
            written += self.row_bytes();
        }
        Ok(written)
    }

    /// Scans everything, once before the measurement, so that the caches are as a scan leaves them.
    fn scan_all(&self, bench: &mut Bench<'_>, step: &str, direction: Direction) -> Result<()> {
        let rows = self.expected_rows();
        let mut sum = 0u64;
        if bench.keeps_rows() {
            let begin = Instant::now();
            bench.target.connect(Clients::ONE)?.scan(
                0,
                (None, None),
                direction,
                &mut |_, value| {
                    sum ^= xxhash_rust::xxh3::xxh3_64(value);
                    begin.elapsed() < WARM_UP_MAX
                },
            )?;
        }
        let row = bench.step(step, "row", rows, Some(self.spec.seconds), |meter, target| {
            let (mut connection, mut client) =
                (target.connect(Clients::ONE)?, meter.client("scan"));
            let mut pending = 0;
            connection.scan(0, (None, None), direction, &mut |_, value| {
                sum ^= xxhash_rust::xxh3::xxh3_64(value);
                pending += 1;
                if pending == SCAN_CHUNK {
                    client.count(pending);
                    pending = 0;
                }
                client.go_on()
            })?;
            client.count(pending);
            Ok(Volume::default())
        })?;
        std::hint::black_box(sum);
        row.found = Some(row.ops);
        if row.target != "null" && row.finished && row.ops > rows {
            row.errors.insert("other".to_owned(), row.ops - rows);
        }
        Ok(())
    }

    fn seek_random(&self, bench: &mut Bench<'_>) -> Result<()> {
        let (shape, rows, mut choice) = (self.spec.shape, self.spec.rows, self.choice(0));
        let mut visited = 0;
        let row =
            bench.step("seekrandom", "seek", rows, Some(self.spec.seconds), |meter, target| {
                let (mut connection, mut client) =
                    (target.connect(Clients::ONE)?, meter.client("seek"));
                let (mut key, mut done) = (Vec::new(), 0);
                while done < rows && client.go_on() {
                    shape.key(choice.below(rows), &mut key);
                    let mut left = ROWS_PER_SEEK;
                    client.time(1, || {
                        connection.scan(
                            0,
                            (Some(&key), None),
                            Direction::Forward,
                            &mut |key, value| {
                                std::hint::black_box((key, value));
                                left -= 1;
                                left > 0
                            },
                        )
                    })?;
                    visited += ROWS_PER_SEEK - left;
                    done += 1;
                }
                Ok(Volume::default())
            })?;
        row.found = Some(visited);
        Ok(())
    }

    fn expected_rows(&self) -> u64 {
        self.present.0.iter().map(|word| u64::from(word.count_ones())).sum()
    }
}

impl Workload for DbBench {
    fn table(&self) -> Table {
        Table::raw("usertable", self.spec.shape.key_bytes())
    }

    fn unique(&self) -> bool {
        true
    }

    fn run(&mut self, bench: &mut Bench<'_>) -> Result<()> {
        let rows = self.spec.rows;
        if self.test == Test::FillSeq {
            return self.put_each(bench, "fillseq", (rows, None), 0, |_, done| done);
        }
        self.fill_random(bench)?;
        if self.expected_rows() == 0 || self.test == Test::FillRandom {
            return Ok(());
        }
        // Seeks are measured right after the load, before background work is done; the others after
        // it.
        if self.test != Test::SeekRandom {
            bench.quiesce(rows)?;
        }
        match self.test {
            Test::Overwrite => self.overwrite(bench),
            Test::ReadRandom => {
                self.warm_up(bench)?;
                self.read(bench, "readrandom", false).map(drop)
            }
            Test::ReadMissing => self.read(bench, "readmissing", false).map(drop),
            Test::ReadWhileWriting => {
                self.warm_up(bench)?;
                self.read(bench, "readwhilewriting", true).map(drop)
            }
            Test::ReadSeq => self.scan_all(bench, "readseq", Direction::Forward),
            Test::ReadReverse => self.scan_all(bench, "readreverse", Direction::Reverse),
            Test::SeekRandom => self.seek_random(bench),
            Test::FillSeq | Test::FillRandom => Ok(()),
        }
    }

    fn expected(&self) -> Vec<Checksum> {
        let (mut sum, mut key, mut value) = (Checksum::default(), Vec::new(), Vec::new());
        for number in (0..self.spec.rows).filter(|&number| self.present.get(number)) {
            self.spec.shape.key(number, &mut key);
            self.spec.shape.value(number, self.overwritten.get(number).into(), &mut value);
            sum.add(&key, &value);
        }
        vec![sum]
    }

    fn volume(&self) -> Volume {
        let bytes = self.expected_rows() * self.row_bytes();
        Volume { changed_bytes: bytes, live_bytes: bytes, live_bytes_indexed: bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_depend_on_key_and_version_and_repeat_their_content() {
        for shape in [Shape::Classic, Shape::Script] {
            let make = |number, version| {
                let mut value = Vec::new();
                shape.value(number, version, &mut value);
                value
            };
            let value = make(7, 0);
            assert_eq!(value.len(), shape.value_bytes());
            assert!(value.chunks(100).all(|part| part[..50] == part[50..]));
            if shape == Shape::Script {
                assert_ne!(value[..50], value[100..150], "fragments differ from each other");
            }
            assert_eq!(value, make(7, 0));
            assert_ne!(value, make(7, 1));
            assert_ne!(value, make(8, 0));
        }
    }

    #[test]
    fn absent_keys_lie_between_existing_ones() {
        let (mut key, mut absent, mut next) = (Vec::new(), Vec::new(), Vec::new());
        for number in [0, 1, 255, 256, 1 << 40] {
            Shape::Script.key(number, &mut key);
            Shape::Script.absent_key(number, &mut absent);
            Shape::Script.key(number + 1, &mut next);
            assert!(key < absent && absent < next && key.len() == 20);
        }
    }
}
