//! Power failures at every write, sync and directory operation, with every kind of torn and
//! reordered remainder; the log is recovered, written to again, and crashed again.

use super::{disk::*, *};

/// The guarantees that a run of the log gave: how many records were reserved, and, after each disk
/// operation, how many of them were acknowledged as synced.
struct Run {
    disk: Disk,
    records: Vec<Vec<u8>>,
    /// (operations done, records synced, position synced), ascending.
    promises: Vec<(usize, usize, Lsn)>,
    /// What superblock slots would contain: (operations done, start position, records before it).
    slots: Vec<(usize, Lsn, usize)>,
}

impl Run {
    fn promised(&self, ops: usize) -> (usize, Lsn) {
        let made = self.promises.iter().take_while(|promise| promise.0 <= ops).last();
        made.map_or((0, Lsn(0)), |&(_, records, lsn)| (records, lsn))
    }

    fn slot(&self, ops: usize) -> (Lsn, usize) {
        let written = self.slots.iter().take_while(|slot| slot.0 <= ops).last();
        written.map_or((Lsn(0), 0), |&(_, from, records)| (from, records))
    }
}

pub(super) fn env_on(disk: &Disk, seed: u64) -> Env {
    Env {
        vfs: Arc::new(disk.clone()),
        clock: Arc::new(ManualClock::default()),
        rng: Arc::new(SeededRng(AtomicU64::new(seed << 32))),
        workers: Workers::Manual,
    }
}

/// Writes records of all sizes at all levels, with ticks, large records and checkpoints in between.
fn work(
    disk: Disk,
    env: &Env,
    log: &Log,
    mut records: Vec<Vec<u8>>,
    slot: (Lsn, usize),
    seed: u64,
) -> Run {
    let already = records.len();
    let mut slots = vec![(0, slot.0, slot.1)];
    let mut promises = vec![(0, already, log.durable())];
    for i in 0..45usize {
        let toss = xxhash_rust::xxh3::xxh3_64_with_seed(&i.to_le_bytes(), seed);
        let payload = record(already + toss as usize % 500);
        let reservation = if toss.is_multiple_of(13) {
            let body = vec![toss as u8; 9000];
            let (fragments, rest) = log
                .append_fragments(&body, LogUse::Rows, &mut || log.wait_for_room(LogUse::Rows))
                .unwrap();
            let last = loop {
                match log.try_reserve_last(&fragments, rest.len()) {
                    Some(last) => break last,
                    None => log.wait_for_room(LogUse::Rows).unwrap(),
                }
            };
            log.fill(&last, &[rest]);
            records.push(body);
            last
        } else {
            records.push(payload.clone());
            append(log, &payload).unwrap()
        };
        let level = [Durability::Sync, Durability::Os, Durability::Lazy][(toss >> 8) as usize % 3];
        log.wait(&reservation, level).unwrap();
        if level == Durability::Sync {
            promises.push((disk.ops(), records.len(), log.durable()));
        }
        if toss >> 32 & 15 == 0 {
            log.sync_through_now().unwrap();
            let older = slots[slots.len() - 1].1;
            promises.push((disk.ops(), records.len(), log.durable()));
            slots.push((disk.ops(), log.position(), records.len()));
            // The older slot may still be the one that is read.
            log.trim(older).unwrap();
        }
        if toss >> 16 & 3 == 0 {
            env.clock.sleep(Duration::from_millis(toss >> 20 & 511));
            log.tick(env.clock.now()).unwrap();
        }
    }
    Run { disk, records, promises, slots }
}

fn check(run: &Run, at: usize, survive: Survive) -> (Disk, RecoveredTail, Vec<Vec<u8>>) {
    let disk = run.disk.crash(at, survive);
    let (promised, synced) = run.promised(at);
    let expect = Expect::Crashed { synced };
    let (from, before) = run.slot(at);
    let (found, tail) = read(&env_on(&disk, 0), from, expect)
        .unwrap_or_else(|error| panic!("crash after {at} operations, {survive:?}: {error}"));
    let records = [&run.records[..before], &found].concat();
    let kept = records.len();
    assert!(kept >= promised, "crash after {at}, {survive:?}: {kept} of {promised} acknowledged");
    assert!(records == run.records[..kept], "crash after {at}, {survive:?}: not a prefix");
    (disk, tail, records)
}

/// Promise: P1, P2, P3, P5, P8
#[test]
pub(super) fn a_power_failure_leaves_a_prefix_with_all_synced_records() {
    let mut states = 0;
    for seed in 0..4u64 {
        let disk = Disk::default();
        let env = env_on(&disk, seed);
        let log = Log::create(env.clone(), DIR, STORE, Durability::Sync, SMALL).unwrap();
        let created = disk.ops();
        let run = work(disk, &env, &log, Vec::new(), (Lsn(0), 0), seed);
        for at in created..=run.disk.ops() {
            for survive in [
                Survive::Nothing,
                Survive::Everything,
                Survive::Coin(1),
                Survive::Coin(2),
                Survive::AllBut(0),
                Survive::AllBut(1),
                Survive::Only(1),
                Survive::Only(2),
            ] {
                check(&run, at, survive);
                states += 1;
            }
        }
    }
    assert!(states > 3000, "{states} crash states");
}

/// Promise: P5, P6
#[test]
pub(super) fn a_recovered_log_survives_further_writes_and_crashes() {
    let mut lost_something = 0;
    for seed in 0..24u64 {
        let disk = Disk::default();
        let env = env_on(&disk, seed);
        let log = Log::create(env.clone(), DIR, STORE, Durability::Os, SMALL).unwrap();
        let mut run = work(disk, &env, &log, Vec::new(), (Lsn(0), 0), seed);
        for round in 0..3u64 {
            let toss = xxhash_rust::xxh3::xxh3_64_with_seed(&round.to_le_bytes(), seed) as usize;
            let first = if round == 0 { 20 } else { 0 };
            let at = first + toss % (run.disk.ops() - first + 1);
            let slot = run.slot(at);
            let (disk, tail, records) = check(&run, at, Survive::Coin(seed));
            lost_something += usize::from(records.len() < run.records.len());
            let env = env_on(&disk, seed + 1000 * round);
            let log = Log::resume(env.clone(), DIR, STORE, Durability::Os, SMALL, tail).unwrap();
            // Whatever recovery handed out must stay: the next check covers a crash in `resume`,
            // since its crash point may fall into it.
            run = work(disk, &env, &log, records, slot, seed + 77 * round);
            // Before this run's first acknowledgement, the disk held what recovery found or more of
            // it.
            run.promises[0].0 = 0;
        }
        check(&run, run.disk.ops(), Survive::Nothing);
    }
    assert!(lost_something > 30, "the crashes lost nothing: {lost_something}");
}

/// Promise: P12
#[test]
pub(super) fn a_failed_operation_stops_acknowledgements_and_loses_no_acknowledged_commit() {
    let mut failures = 0;
    for fail_at in 0..200 {
        let disk = Disk::default();
        let env = env_on(&disk, 5);
        disk.fail_at(fail_at);
        let Ok(log) = Log::create(env.clone(), DIR, STORE, Durability::Sync, SMALL) else {
            failures += 1;
            continue;
        };
        let mut acknowledged = 0;
        let mut records = Vec::new();
        let mut failed = None;
        for i in 0..60 {
            let payload = record(i);
            match append(&log, &payload) {
                Ok(reservation) => {
                    records.push(payload);
                    match log.wait(&reservation, Durability::Sync) {
                        Ok(()) if failed.is_none() => acknowledged = records.len(),
                        Ok(()) => panic!("acknowledged after {failed:?}"),
                        Err(Error::OutcomeUnknown(why)) => failed = Some(why),
                        Err(other) => panic!("{other}"),
                    }
                }
                Err(Error::Failed(why)) => failed = Some(why),
                Err(other) => panic!("{other}"),
            }
        }
        let ops = disk.ops();
        if failed.is_some() {
            failures += 1;
            assert!(matches!(log.sync_through_now(), Err(Error::Failed(_))));
            assert!(matches!(log.close(false), Err(Error::Failed(_))));
            assert!(matches!(log.tick(Duration::from_secs(9)), Err(Error::Failed(_))));
            assert!(matches!(log.trim(log.durable()), Err(Error::Failed(_))));
            assert_eq!(disk.ops(), ops, "nothing is written after a failure");
        }
        for survive in [Survive::Nothing, Survive::Everything, Survive::Coin(3)] {
            let after = env_on(&disk.crash(ops, survive), 6);
            let expect = Expect::Crashed { synced: log.durable() };
            let (kept, _) = read(&after, Lsn(0), expect).unwrap();
            assert!(kept.len() >= acknowledged && kept == records[..kept.len()]);
        }
    }
    assert!(failures > 100, "{failures} failures");
}

/// The log is needed from the start of a segment whose header is written but not synced. After a
/// power failure recovery finds only the segment before it.
#[test]
pub(super) fn a_segment_is_kept_until_its_successor_is_synced() {
    let disk = Disk::default();
    let env = Env { vfs: Arc::new(disk.clone()), ..env() };
    let log = Log::create(env, DIR, STORE, Durability::Os, SMALL).unwrap();
    let mut begun = 0;
    for i in 0..600 {
        log.sync_through_now().unwrap();
        let (from, segments, oldest) = (log.position(), log.stats().segments, log.oldest_segment());
        append_alone(&log, &record(i)).unwrap();
        if log.stats().segments == segments {
            continue;
        }
        begun += 1;
        log.trim(from).unwrap();
        let crashed = disk.crash(disk.ops(), Survive::Nothing);
        let env = Env { vfs: Arc::new(crashed), ..super::env() };
        let (_, tail) = read(&env, from, Expect::Crashed { synced: from }).unwrap();
        assert_eq!(tail.end, from);
        log.sync_through_now().unwrap();
        log.trim(from).unwrap();
        assert!(log.oldest_segment() > oldest, "it stays for ever");
    }
    assert!(begun > 3);
}
