//! A log that is closed, and one that is idle.

use super::{disk::*, *};
use crate::wal::segment::{SEGMENT_BYTES_MIN, SEGMENT_END_BYTES, SEGMENT_HEADER_BYTES, number_of};

fn env_on(disk: &Disk, seed: u64) -> Env {
    Env {
        vfs: Arc::new(disk.clone()),
        clock: Arc::new(ManualClock::default()),
        rng: Arc::new(SeededRng(AtomicU64::new(seed << 32))),
        workers: Workers::Manual,
    }
}

/// Numbers and lengths of the segments.
fn segments(disk: &Disk) -> Vec<(u64, u64)> {
    let number = |path: &Path| path.file_name().and_then(|name| number_of(Path::new(name)));
    let found = disk.paths().into_iter().filter_map(|path| Some((number(&path)?, path)));
    found.map(|(number, path)| (number, disk.edit(&path, |bytes| bytes.len() as u64))).collect()
}

fn write(log: &Log, records: std::ops::Range<usize>) -> Vec<Vec<u8>> {
    let written: Vec<_> = records.map(record).collect();
    for payload in &written {
        append(log, payload).unwrap();
    }
    log.sync_through_now().unwrap();
    written
}

#[test]
fn a_closed_log_is_one_short_segment_and_resumes_in_a_long_one() {
    for level in [Durability::Sync, Durability::Os] {
        let disk = Disk::default();
        let env = env_on(&disk, 1);
        let mut log = Log::create(env.clone(), DIR, STORE, level, SMALL).unwrap();
        let mut start = Lsn(0);
        for round in 0..5 {
            // The opening kept the segment that the last closing had made; it goes together with
            // what came before it.
            let full = |&(_, bytes): &(u64, u64)| bytes >= SMALL.first_segment_bytes;
            assert!(segments(&disk).last().is_some_and(full), "round {round}");
            log.trim(start).unwrap();
            assert!(segments(&disk).iter().all(full), "round {round}");

            let written = write(&log, round * 100..round * 100 + 100);
            log.tick(env.clock.now()).unwrap();
            let end = log.close(false).unwrap();
            // One slot still starts before the end.
            log.trim(start).unwrap();
            let (records, tail) = read(&env, start, Expect::CleanEnd(end)).unwrap();
            assert!(records == written && tail.end == end && !tail.torn, "round {round}");
            log.trim(end).unwrap();
            let left = segments(&disk);
            assert!(left.len() == 1 && left[0].1 == SEGMENT_BYTES_MIN, "round {round}: {left:?}");
            // The names are on the medium, too.
            assert_eq!(segments(&disk.crash(disk.ops(), Survive::Nothing)), left);

            let (records, tail) = read(&env, end, Expect::CleanEnd(end)).unwrap();
            assert!(records.is_empty() && tail.end == end && !tail.torn);
            let beyond = Expect::CleanEnd(Lsn(end.0 + 4096));
            assert!(matches!(read(&env, end, beyond), Err(Error::WalDamaged { .. })));
            (log, start) = (Log::resume(env.clone(), DIR, STORE, level, SMALL, tail).unwrap(), end);
        }
    }
}

/// Also covers a log that was closed before closing made such a last segment.
#[test]
fn a_log_can_be_closed_on_a_full_disk() {
    let disk = Disk::default();
    let env = env_on(&disk, 2);
    let log = Log::create(env.clone(), DIR, STORE, Durability::Sync, SMALL).unwrap();
    let written = write(&log, 0..100);
    let before = segments(&disk);
    disk.be_full(true);
    let end = log.close(false).unwrap();
    assert_eq!(segments(&disk), before);
    log.trim(end).unwrap();
    let (last, bytes) = *before.last().unwrap();
    assert_eq!((segments(&disk), bytes), (vec![(last, bytes)], SMALL.segment_bytes));
    let (records, tail) = read(&env, end, Expect::CleanEnd(end)).unwrap();
    assert!(records.is_empty() && tail.end == end);

    disk.be_full(false);
    let log = Log::resume(env.clone(), DIR, STORE, Durability::Sync, SMALL, tail).unwrap();
    let more = write(&log, 100..130);
    let end_then = log.close(false).unwrap();
    let (records, _) = read(&env, end, Expect::CleanEnd(end_then)).unwrap();
    assert!(records == more && written.len() == 100);
}

/// Promise: P1, P3, P5
#[test]
fn a_crash_anywhere_in_closing_and_opening_loses_nothing() {
    let mut states = 0;
    for records in [0, 1, 40] {
        let disk = Disk::default();
        let env = env_on(&disk, 3);
        let log = Log::create(env.clone(), DIR, STORE, Durability::Os, SMALL).unwrap();
        let written = write(&log, 0..records);
        let (synced, first) = (log.durable(), disk.ops());
        let end = log.close(false).unwrap();
        let closed = disk.ops();
        log.trim(end).unwrap();
        let trimmed = disk.ops();
        let (_, tail) = read(&env, end, Expect::CleanEnd(end)).unwrap();
        drop(Log::resume(env, DIR, STORE, Durability::Os, SMALL, tail).unwrap());
        for at in first..=disk.ops() {
            for survive in [
                Survive::Nothing,
                Survive::Everything,
                Survive::Coin(1),
                Survive::Coin(2),
                Survive::AllBut(0),
                Survive::Only(0),
            ] {
                let crashed = disk.crash(at, survive);
                let env = env_on(&crashed, 4);
                // What the slots may contain by then, and how many records follow.
                let mut slots = Vec::new();
                if at <= closed {
                    slots.push((Lsn(0), Expect::Crashed { synced }, &written[..]));
                    slots.push((synced, Expect::Crashed { synced }, &[]));
                }
                if at >= closed {
                    slots.push((end, Expect::CleanEnd(end), &[]));
                }
                for (from, expect, expected) in slots {
                    let (found, tail) = read(&env, from, expect).unwrap_or_else(|error| {
                        panic!("{records} records, {at} of {trimmed}, {survive:?}: {error}")
                    });
                    assert!(found == expected && tail.end == end, "{at} of {trimmed}");
                    // Work on a copy, since every slot is tried.
                    let copy = crashed.settled();
                    let env = env_on(&copy, 5);
                    let log =
                        Log::resume(env.clone(), DIR, STORE, Durability::Os, SMALL, tail).unwrap();
                    let more = write(&log, 500..540);
                    let crashed = copy.crash(copy.ops(), Survive::Nothing);
                    let (found, _) = read(&env_on(&crashed, 6), from, CRASHED).unwrap();
                    assert!(found == [expected, &more].concat(), "{at} of {trimmed}");
                    states += 1;
                }
            }
        }
    }
    assert!(states > 200, "{states} states");
}

/// A workload that continues, however slowly, with checkpoints that free segments in pairs.
struct Load {
    log: Log,
    env: Env,
    disk: Disk,
    written: Vec<Vec<u8>>,
    slots: [(Lsn, usize); 2],
}

impl Load {
    fn new() -> Self {
        let disk = Disk::default();
        let env = env_on(&disk, 7);
        let log = Log::create(env.clone(), DIR, STORE, Durability::Sync, SMALL).unwrap();
        Self { log, env, disk, written: Vec::new(), slots: [(Lsn(0), 0); 2] }
    }

    fn rest(&self, time: Duration) {
        for _ in 0..time.as_millis() / 50 {
            self.env.clock.sleep(Duration::from_millis(50));
            self.log.tick(self.env.clock.now()).unwrap();
        }
    }

    fn append(&mut self, payload: &[u8]) {
        let reservation = append(&self.log, payload).unwrap();
        self.written.push(payload.to_vec());
        self.log.wait(&reservation, Durability::Sync).unwrap();
    }

    /// Writes two records every four seconds, each in its own group, `times` times; then a
    /// checkpoint.
    fn go_on(&mut self, times: usize) {
        for _ in 0..times {
            for _ in 0..2 {
                self.append(&[7; 3500]);
            }
            let files = self.files();
            self.rest(Duration::from_secs(4));
            assert!(
                self.files() >= files,
                "a load that goes on, however slowly, keeps its segments"
            );
        }
        self.log.sync_through_now().unwrap();
        self.slots = [self.slots[1], (self.log.position(), self.written.len())];
        self.log.trim(self.slots[0].0).unwrap();
        self.append(b"checkpoint");
    }

    fn files(&self) -> usize {
        segments(&self.disk).len()
    }

    fn assert_whole(&self) {
        let disk = self.disk.crash(self.disk.ops(), Survive::Nothing);
        let (records, _) = read(&env_on(&disk, 8), self.slots[0].0, CRASHED).unwrap();
        assert!(records == self.written[self.slots[0].1..]);
    }
}

#[test]
pub(super) fn an_idle_log_shrinks_to_a_short_segment_and_a_busy_one_keeps_all() {
    let mut load = Load::new();
    (0..3).for_each(|_| load.go_on(15));
    // Two segments are ready, and the last mark is made.
    load.rest(Duration::from_millis(500));
    for _ in 0..20 {
        if load.log.state.lock().unwrap().spares.len() == 2 {
            break;
        }
        load.go_on(1);
        load.rest(Duration::from_millis(500));
    }
    let (busy, used) = (load.files(), load.log.stats().segments);
    load.rest(Duration::from_secs(4));
    assert_eq!(load.files(), busy, "nothing goes before its time");
    load.rest(Duration::from_secs(2));
    assert_eq!(load.files(), busy - 1, "two go that were ready, a short one comes");
    assert_eq!(segments(&load.disk).last().unwrap().1, SMALL.first_segment_bytes);
    assert!(load.log.has_passed(load.slots[0].0));
    let operations = load.disk.ops();
    load.rest(Duration::from_secs(60));
    assert_eq!(load.disk.ops(), operations, "and no more: an idle log is silent");
    load.assert_whole();

    // Once the slots have followed it, that segment is all there is.
    load.slots = [(load.log.position(), load.written.len()); 2];
    load.log.trim(load.slots[0].0).unwrap();
    assert_eq!(segments(&load.disk).len(), 1);
    assert!(!load.log.has_passed(load.slots[0].0));
    load.assert_whole();

    // The log continues there, and then in longer segments with the next numbers.
    for _ in 0..30 {
        load.go_on(1);
        let numbers: Vec<u64> =
            segments(&load.disk).into_iter().map(|(number, _)| number).collect();
        assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "a gap: {numbers:?}");
    }
    assert!(load.log.stats().segments > used + 4);
    assert_eq!(segments(&load.disk).last().unwrap().1, SMALL.segment_bytes);
    load.assert_whole();
}

/// Promise: P1, P3, P5
#[test]
fn a_crash_anywhere_while_a_log_becomes_idle_loses_nothing() {
    let mut states = 0;
    for (records, longer) in [(0, false), (1, false), (40, true)] {
        let disk = Disk::default();
        let env = env_on(&disk, 11);
        let log = Log::create(env.clone(), DIR, STORE, Durability::Sync, SMALL).unwrap();
        let mut written = write(&log, 0..records);
        log.tick(env.clock.now()).unwrap();
        let (synced, first) = (log.durable(), disk.ops());
        log.go_idle().unwrap();
        let rested = disk.ops();
        assert_eq!(log.state.lock().unwrap().segment_bytes, SMALL.first_segment_bytes);
        assert_eq!(log.has_passed(Lsn(0)), longer);
        let more = write(&log, 500..560);
        for at in first..=disk.ops() {
            for survive in
                [Survive::Nothing, Survive::Everything, Survive::Coin(1), Survive::Coin(2)]
            {
                let crashed = disk.crash(at, survive);
                let found = read(&env_on(&crashed, 12), Lsn(0), Expect::Crashed { synced });
                let (found, tail) = found.unwrap_or_else(|error| {
                    panic!("{records} records, {at} of {rested}, {survive:?}: {error}")
                });
                assert!(found.starts_with(&written) && found.len() <= written.len() + more.len());
                let env = env_on(&crashed, 13);
                let log =
                    Log::resume(env.clone(), DIR, STORE, Durability::Os, SMALL, tail).unwrap();
                let after = write(&log, 700..740);
                let crashed = crashed.crash(crashed.ops(), Survive::Nothing);
                let (again, _) = read(&env_on(&crashed, 14), Lsn(0), CRASHED).unwrap();
                assert!(again == [found, after].concat(), "{at} of {rested}");
                states += 1;
            }
        }
        written.extend(more);
        let (found, _) = read(&env, Lsn(0), CRASHED).unwrap();
        assert!(found == written);
    }
    assert!(states > 100, "{states} states");
}

#[test]
fn a_log_becomes_idle_on_a_full_disk() {
    let disk = Disk::default();
    let env = env_on(&disk, 15);
    let log = Log::create(env.clone(), DIR, STORE, Durability::Sync, SMALL).unwrap();
    let mut written = write(&log, 0..100);
    disk.be_full(true);
    let before = segments(&disk).len();
    log.go_idle().unwrap();
    assert!(segments(&disk).len() <= before && !log.has_passed(log.durable()));
    // It is not retried at every tick, fifty times a second.
    let operations = disk.ops();
    for _ in 0..40 {
        env.clock.sleep(Duration::from_millis(50));
        log.tick(env.clock.now()).unwrap();
    }
    assert!(disk.ops() - operations < 20, "{} operations in 2 s", disk.ops() - operations);
    disk.be_full(false);
    written.extend(write(&log, 100..200));
    let (found, _) = read(&env, Lsn(0), CRASHED).unwrap();
    assert!(found == written);
}

/// Small commits at intervals longer than a log takes to become idle: a segment that was made is
/// kept until it is used.
#[test]
fn infrequent_commits_do_not_create_unused_segments() {
    let mut load = Load::new();
    let begun = load.log.stats().segments;
    for _ in 0..40 {
        load.append(&[7; 100]);
        load.rest(Duration::from_secs(6));
    }
    let made = segments(&load.disk).last().unwrap().0;
    // Each commit takes two pages, with its mark: a segment of 24 KiB has space for two.
    let used = load.log.stats().segments - begun;
    assert!(made <= 2 * used + 4, "number {made} was made, {used} were begun");
    load.assert_whole();
}

/// Only a header: the last segment contains no group.
#[test]
fn the_last_segment_of_a_closed_log_costs_a_few_pages() {
    let disk = Disk::default();
    let log = Log::create(env_on(&disk, 9), DIR, STORE, Durability::Sync, SMALL).unwrap();
    write(&log, 0..10);
    let end = log.close(false).unwrap();
    log.trim(end).unwrap();
    let path = disk.paths().remove(0);
    let used = disk.edit(&path, |bytes| bytes.iter().rposition(|&byte| byte != 0)).unwrap();
    assert!((used as u64) < SEGMENT_HEADER_BYTES, "byte {used} is used");
    assert!(matches!(append(&log, b"more"), Err(Error::Closed)));
}

/// The current segment is used up and the disk is full: the guaranteed record fits in the segment
/// that is ready, and in no other. Rule: I41.
#[test]
fn an_idle_log_keeps_the_guaranteed_segment() {
    let disk = Disk::default();
    let env = env_on(&disk, 16);
    let log = Log::create(env.clone(), DIR, STORE, Durability::Sync, SMALL).unwrap();
    let left = || {
        let state = log.state.lock().unwrap();
        let is_long = state.segment_bytes > SMALL.first_segment_bytes;
        let room = state.segment_bytes - SEGMENT_HEADER_BYTES - SEGMENT_END_BYTES;
        (is_long, room - (state.end.0 - state.segment_first.0))
    };
    let mut written = 0;
    while !matches!(left(), (true, ..8192)) {
        let reservation = append(&log, &[1; 1000]).unwrap();
        log.wait(&reservation, Durability::Sync).unwrap();
        written += 1;
    }
    for _ in 0..2 {
        assert!(log.guarantee(300).unwrap().is_ok());
    }
    assert_eq!(log.state.lock().unwrap().spares.len(), 1, "one is needed");
    disk.be_full(true);
    log.sync_through_now().unwrap();
    log.go_idle().unwrap();
    let operations = disk.ops();
    for _ in 0..200 {
        env.clock.sleep(Duration::from_millis(50));
        log.tick(env.clock.now()).unwrap();
    }
    assert!(disk.ops() - operations < 20, "{} operations in 10 s", disk.ops() - operations);
    for _ in 0..2 {
        let reservation = log.try_reserve_guaranteed(300, 300).expect("it was guaranteed");
        log.fill(&reservation, &[&[2; 300]]);
        log.wait(&reservation, Durability::Sync).unwrap();
    }
    disk.be_full(false);
    let (found, _) = read(&env, Lsn(0), CRASHED).unwrap();
    assert_eq!(found.len(), written + 2);
    // With nothing guaranteed it becomes idle.
    log.go_idle().unwrap();
    assert_eq!(log.state.lock().unwrap().segment_bytes, SMALL.first_segment_bytes);
}
