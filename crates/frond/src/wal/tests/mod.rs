//! Tests of the log as a whole, on files in memory.

mod crash;
mod damage;
mod disk;
mod feed;
mod full;
mod guarantee;
mod idle;
#[cfg(shuttle)]
mod interleavings;
mod open;
#[cfg(feature = "planted-bugs")]
mod planted;
#[cfg(not(shuttle))]
mod threads;

use std::{path::Path, time::Duration};

use super::*;
use crate::{
    error::{Error, Result},
    io::{Clock, Env, MemoryVfs, Rng, Vfs, Workers},
    sync::{Arc, AtomicU64, Mutex, Ordering},
    types::{Durability, Lsn, Seqno, StoreId},
};

const STORE: StoreId = StoreId([7; 16]);
const DIR: &str = "store";
const SMALL: LogOptions = LogOptions {
    segment_bytes: 32 << 10,
    first_segment_bytes: 24 << 10,
    group_bytes: 8 << 10,
    groups: 3,
};

#[derive(Debug, Default)]
struct ManualClock(Mutex<Duration>);

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        *self.0.lock().unwrap()
    }
    fn wall(&self) -> Duration {
        self.now()
    }
    fn sleep(&self, time: Duration) {
        *self.0.lock().unwrap() += time;
    }
}

#[derive(Debug, Default)]
struct SeededRng(AtomicU64);

impl Rng for SeededRng {
    fn next_u64(&self) -> u64 {
        let step = self.0.fetch_add(1, Ordering::Relaxed);
        xxhash_rust::xxh3::xxh3_64(&step.to_le_bytes())
    }
}

fn env() -> Env {
    let vfs = MemoryVfs::new();
    vfs.create_dir(Path::new(DIR)).unwrap();
    Env {
        vfs: Arc::new(vfs),
        clock: Arc::new(ManualClock::default()),
        rng: Arc::new(SeededRng::default()),
        workers: Workers::Manual,
    }
}

fn append(log: &Log, payload: &[u8]) -> Result<Reservation> {
    let reservation = loop {
        match log.try_reserve(payload.len(), LogUse::Rows) {
            Some(reservation) => break reservation,
            None => log.wait_for_room(LogUse::Rows)?,
        }
    };
    log.fill(&reservation, &[payload]);
    Ok(reservation)
}

/// Appends a record, writes it, and closes its group.
fn append_alone(log: &Log, payload: &[u8]) -> Result<Reservation> {
    let reservation = append(log, payload)?;
    log.wait(&reservation, Durability::Os)?;
    log.end().map(|_| reservation)
}

fn read(env: &Env, from: Lsn, expect: Expect) -> Result<(Vec<Vec<u8>>, RecoveredTail)> {
    let mut records = Vec::new();
    let mut last = Lsn(0);
    let tail = recover(env, Path::new(DIR), STORE, from, expect, &mut |lsn, payload| {
        assert!(lsn >= from && lsn > last);
        last = lsn;
        records.push(payload.to_vec());
        Ok(())
    })?;
    Ok((records, tail))
}

fn record(i: usize) -> Vec<u8> {
    format!("record {i} {}", "x".repeat(i * 37 % 900)).into_bytes()
}

const CRASHED: Expect = Expect::Crashed { synced: Lsn(0) };

/// Promise: P1, P3
#[test]
fn records_are_read_in_order_across_segments_and_restarts() {
    for level in [Durability::Sync, Durability::Os, Durability::Lazy] {
        let env = env();
        let mut log = Log::create(env.clone(), DIR, STORE, level, SMALL).unwrap();
        let mut expected = Vec::new();
        for round in 0..4 {
            for i in 0..150 {
                let payload = record(round * 1000 + i);
                let reservation = append(&log, &payload).unwrap();
                log.wait(&reservation, level).unwrap();
                expected.push(payload);
            }
            let end = log.close(false).unwrap();
            let (records, tail) = read(&env, Lsn(0), Expect::CleanEnd(end)).unwrap();
            assert_eq!((records == expected, tail.end, tail.torn), (true, end, false));
            log = Log::resume(env.clone(), DIR, STORE, level, SMALL, tail).unwrap();
            assert_eq!((log.durable(), log.written()), (end, end));
        }
        assert!(log.stats().segments == 0 && log.position() > Lsn(150_000));
    }
}

/// The log does not fill the page cache, which is memory outside the budget: what is synced leaves
/// it, except for the segment that is still written to.
#[test]
fn complete_segments_leave_the_page_cache() {
    let disk = disk::Disk::default();
    let env = crash::env_on(&disk, 1);
    let log = Log::create(env, DIR, STORE, Durability::Lazy, SMALL).unwrap();
    let mut reservation = append(&log, &[0; 4000]).unwrap();
    while log.stats().segments < 3 {
        reservation = append(&log, &[1; 4000]).unwrap();
        log.wait(&reservation, Durability::Os).unwrap();
    }
    assert_eq!(disk.evicted().len(), 0);
    log.wait(&reservation, Durability::Sync).unwrap();
    let path = |number| Path::new(DIR).join(segment::file_name(number));
    assert_eq!(disk.evicted(), [1, 2, 3].map(path));
    log.wait(&append(&log, b"more").unwrap(), Durability::Sync).unwrap();
    assert_eq!(disk.evicted().len(), 3);
}

#[test]
fn each_durability_level_waits_for_its_guarantee() {
    let env = env();
    let log = Log::create(env.clone(), DIR, STORE, Durability::Lazy, SMALL).unwrap();
    let lazy = append(&log, b"lazy").unwrap();
    log.wait(&lazy, Durability::Lazy).unwrap();
    assert_eq!((log.written(), log.stats().groups), (Lsn(0), 0));
    let os = append(&log, b"os").unwrap();
    log.wait(&os, Durability::Os).unwrap();
    assert!(log.written() > os.lsn() && log.stats().syncs == 0);
    let sync = append(&log, b"sync").unwrap();
    log.wait(&sync, Durability::Sync).unwrap();
    assert!(log.durable() > sync.lsn() && log.stats().syncs == 1);
    log.wait(&os, Durability::Sync).unwrap();
    assert_eq!(log.stats().syncs, 1);
}

#[test]
fn the_clock_triggers_writes_syncs_and_marks() {
    let env = env();
    let log = Log::create(env.clone(), DIR, STORE, Durability::Lazy, SMALL).unwrap();
    let lazy = append(&log, b"lazy").unwrap();
    log.tick(Duration::from_millis(50)).unwrap();
    assert_eq!(log.written(), Lsn(0));
    log.tick(Duration::from_millis(100)).unwrap();
    assert!(log.written() > lazy.lsn() && log.durable() == Lsn(0));
    env.clock.sleep(Duration::from_millis(550));
    log.tick(env.clock.now()).unwrap();
    assert_eq!(log.durable(), log.written());
    let groups = log.stats().groups;
    env.clock.sleep(Duration::from_millis(50));
    log.tick(env.clock.now()).unwrap();
    assert_eq!((log.stats().groups, log.durable()), (groups + 1, log.written()));
    // The mark is written once; then the log is silent.
    let stats = log.stats();
    env.clock.sleep(Duration::from_secs(10));
    log.tick(env.clock.now()).unwrap();
    assert_eq!(log.stats(), stats);
    assert_eq!(read(&env, Lsn(0), CRASHED).unwrap().0, [b"lazy"]);
}

#[test]
fn a_large_record_exists_only_with_its_last_fragment() {
    let env = env();
    let log = Log::create(env.clone(), DIR, STORE, Durability::Sync, SMALL).unwrap();
    let body: Vec<u8> = (0..100_000u32).flat_map(u32::to_le_bytes).collect();
    append(&log, b"before").unwrap();
    let started = log.position();
    let (fragments, _) =
        log.append_fragments(&body, LogUse::Rows, &mut || log.wait_for_room(LogUse::Rows)).unwrap();
    let from = log.position();
    append(&log, b"between").unwrap();
    assert!(from <= Lsn(started.0 + 8192) && log.position() == from);
    drop(fragments);
    let (fragments, rest) =
        log.append_fragments(&body, LogUse::Rows, &mut || log.wait_for_room(LogUse::Rows)).unwrap();
    let from = log.position();
    let number = trailer(Seqno(5));
    let last = loop {
        match log.try_reserve_last(&fragments, rest.len() + number.len()) {
            Some(reservation) => break reservation,
            None => log.wait_for_room(LogUse::Rows).unwrap(),
        }
    };
    drop(fragments);
    log.fill(&last, &[rest, &number]);
    append(&log, b"after").unwrap();
    assert!(from < last.lsn() && log.position() > from);
    log.close(false).unwrap();
    let whole = [&body[..], &number].concat();
    let (records, _) = read(&env, Lsn(0), CRASHED).unwrap();
    assert!(records == [&b"before"[..], b"between", &whole, b"after"]);
    let (records, _) = read(&env, from, CRASHED).unwrap();
    assert!(records == [&whole[..], b"after"]);
    // Read from a later position, its remaining fragments are no record.
    let (records, _) = read(&env, Lsn(last.lsn().0 / 4096 * 4096 - 8192), CRASHED)
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(records, [b"after"]);
}

#[test]
fn trimming_recycles_segments_and_recovery_starts_after_them() {
    let env = env();
    let log = Log::create(env.clone(), DIR, STORE, Durability::Os, SMALL).unwrap();
    let mut all = Vec::new();
    // The contents of the older and the newer superblock slot.
    let mut slots = [(Lsn(0), 0); 2];
    for i in 0..600 {
        let payload = record(i);
        if i % 100 == 50 {
            log.sync_through_now().unwrap();
            slots = [slots[1], (log.position(), all.len())];
            log.trim(slots[0].0).unwrap();
        }
        append(&log, &payload).unwrap();
        all.push(payload);
    }
    let end = log.close(false).unwrap();
    assert!(log.stats().recycled > 2, "{:?}", log.stats());
    for (from, before) in slots {
        let (records, tail) = read(&env, from, Expect::CleanEnd(end)).unwrap();
        assert!(records == all[before..] && tail.end == end);
    }
    assert!(env.vfs.list(Path::new(DIR)).unwrap().len() < 16);
    assert!(matches!(read(&env, Lsn(0), CRASHED), Err(Error::WalMissing { .. })));
}
