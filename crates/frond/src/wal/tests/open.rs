//! Groups that stay open for small commits at level `os`.

use super::{crash::env_on, disk::*, *};

fn commit(log: &Log, payload: &[u8], level: Durability) {
    let reservation = append(log, payload).unwrap();
    log.wait(&reservation, level).unwrap();
}

/// Promise: P3
#[test]
fn small_commits_share_pages_and_each_is_in_the_file() {
    let env = env();
    let options = LogOptions::default();
    let log = Log::create(env.clone(), DIR, STORE, Durability::Os, options).unwrap();
    let mut expected = Vec::new();
    // The first group starts a segment after an idle period, and is written whole.
    for i in 0..200usize {
        expected.push(format!("commit {i} {}", "x".repeat(150)).into_bytes());
        commit(&log, &expected[i], Durability::Os);
        assert_eq!(read(&env, Lsn(0), CRASHED).unwrap().0, expected, "after commit {i}");
    }
    let bytes: usize = expected.iter().map(|payload| payload.len() + 16).sum();
    assert!(log.written().0 < 2 * bytes as u64, "{:?} of {bytes}", log.written());
    assert_eq!(log.stats().syncs, 0);
    // A commit that syncs closes the group; the next one does not touch its page.
    commit(&log, b"synced", Durability::Sync);
    let durable = log.durable();
    assert!(durable.0.is_multiple_of(4096) && log.written() == durable);
    commit(&log, b"behind it", Durability::Os);
    assert!(log.position() >= durable);
    expected.extend([b"synced".to_vec(), b"behind it".to_vec()]);
    let end = log.close(false).unwrap();
    let (records, tail) = read(&env, Lsn(0), Expect::CleanEnd(end)).unwrap();
    assert_eq!((records, tail.torn), (expected, false));
}

/// A process is killed between any two operations, and between any two pages of a write: what was
/// acknowledged is there. Promise: P3
#[test]
pub(super) fn acknowledged_commits_survive_a_kill_at_any_page() {
    for seed in 0..6u64 {
        let disk = Disk::default();
        let env = env_on(&disk, seed);
        let log = Log::create(env.clone(), DIR, STORE, Durability::Os, SMALL).unwrap();
        let (mut records, mut acknowledged) = (Vec::new(), vec![(disk.ops(), 0)]);
        for i in 0..60usize {
            let toss = xxhash_rust::xxh3::xxh3_64_with_seed(&i.to_le_bytes(), seed);
            let bytes = [40, 200, 900, 3300, 5000][(toss % 9).min(4) as usize];
            records.push(vec![i as u8; bytes]);
            let level = match toss >> 8 & 15 {
                0 => Durability::Sync,
                1..4 => Durability::Lazy,
                _ => Durability::Os,
            };
            commit(&log, &records[i], level);
            if level != Durability::Lazy {
                acknowledged.push((disk.ops(), records.len()));
            }
            if toss >> 16 & 7 == 0 {
                env.clock.sleep(Duration::from_millis(toss >> 20 & 255));
                log.tick(env.clock.now()).unwrap();
            }
        }
        for at in acknowledged[0].0..disk.ops() {
            let made = acknowledged.iter().take_while(|(ops, _)| *ops <= at).last();
            let promised = made.map_or(0, |&(_, count)| count);
            for pages in 0..3 {
                let killed = disk.killed(at, pages);
                let (found, _) = read(&env_on(&killed, 0), Lsn(0), CRASHED).unwrap();
                let place = format!("seed {seed}, after {at} operations and {pages} pages");
                assert!(found.len() >= promised, "{place}: {} of {promised}", found.len());
                assert!(found[..] == records[..found.len()], "{place}");
            }
        }
    }
}

/// The clock syncs while a group is open and closes it first: what is acknowledged does not wait
/// for the next sync, and no later write touches its page, which a power failure may tear. Promise:
/// P1. Rule: I14.
#[test]
pub(super) fn synced_pages_are_never_rewritten() {
    let disk = Disk::default();
    let env = env_on(&disk, 1);
    let log = Log::create(env.clone(), DIR, STORE, Durability::Os, SMALL).unwrap();
    // The clock has just written, and syncs before it writes again.
    log.tick(Duration::from_millis(410)).unwrap();
    let records: Vec<Vec<u8>> = (1..5u8).map(|i| vec![i; 300]).collect();
    append_alone(&log, &records[0]).unwrap();
    append(&log, &records[1]).map(|first| log.wait(&first, Durability::Os)).unwrap().unwrap();
    log.tick(Duration::from_millis(505)).unwrap();
    assert!(log.stats().syncs > 0);
    let durable = log.durable();
    assert_eq!(durable, log.written());
    let before = disk.ops();
    for record in &records[2..] {
        append(&log, record).map(|last| log.wait(&last, Durability::Os)).unwrap().unwrap();
    }
    for at in before..=disk.ops() {
        for seed in 0..64 {
            let crashed = disk.crash(at, Survive::Coin(seed));
            let expect = Expect::Crashed { synced: durable };
            let (found, _) = read(&env_on(&crashed, 0), Lsn(0), expect).unwrap();
            assert!(found.len() >= 2 && found[..] == records[..found.len()]);
        }
    }
}
