//! A full disk: recovery continues in existing files, and deletes have space of their own.

use super::{crash::env_on, disk::*, *};

fn append_relief(log: &Log, payload: &[u8]) -> Result<Reservation> {
    let log_use = LogUse::relief_if(true);
    let reservation = loop {
        match log.try_reserve(payload.len(), log_use) {
            Some(reservation) => break reservation,
            None => log.wait_for_room(log_use)?,
        }
    };
    log.fill(&reservation, &[payload]);
    Ok(reservation)
}

/// Crashes, recoveries on a full disk, crashes in and after those, again on a full disk. Promise:
/// P5. Rule: I24.
#[test]
pub(super) fn recovery_needs_no_free_disk_space() {
    let (mut in_place, mut went_on) = (0, 0);
    for seed in 0..40u64 {
        let toss =
            |round: u64| xxhash_rust::xxh3::xxh3_64_with_seed(&round.to_le_bytes(), seed) as usize;
        let mut disk = Disk::default();
        let env = env_on(&disk, seed);
        let log = Log::create(env, DIR, STORE, Durability::Os, SMALL).unwrap();
        let created = disk.ops();
        let mut written = Vec::new();
        // (Operations done, records that must survive from then on.)
        let mut floors = vec![(0, 0)];
        for i in 0..toss(9) % 120 {
            let payload = record(i);
            let reservation = append(&log, &payload).unwrap();
            written.push(payload);
            let level = [Durability::Os, Durability::Os, Durability::Sync][toss(i as u64) % 3];
            log.wait(&reservation, level).unwrap();
            if level == Durability::Sync {
                floors.push((disk.ops(), written.len()));
            }
        }
        let mut first = created;
        for round in 0..5u64 {
            let at = first + toss(100 + round) % (disk.ops() - first + 1);
            let floor = floors.iter().filter(|(ops, _)| *ops <= at).map(|&(_, count)| count).max();
            let crashed = disk.crash(at, Survive::Coin(seed + round));
            let env = env_on(&crashed, seed + 1000 * round);
            let (found, tail) = read(&env, Lsn(0), CRASHED).unwrap();
            let place = format!("seed {seed}, round {round}, crash after {at}");
            assert!(found.len() >= floor.unwrap(), "{place}: synced records are gone");
            assert!(written.starts_with(&found), "{place}: not a prefix of what was written");
            crashed.be_full(true);
            let files = crashed.paths().len();
            let log = Log::resume(env, DIR, STORE, Durability::Os, SMALL, tail).unwrap();
            in_place += u64::from(crashed.paths().len() <= files);
            (disk, written, first) = (crashed, found, 0);
            floors = vec![(0, written.len())];
            for i in 0..toss(200 + round) % 25 {
                // Write the same record again, as a caller repeats what was lost.
                let payload = record(written.len());
                let Ok(reservation) = append_relief(&log, &payload) else { break };
                written.push(payload);
                went_on += 1;
                let level = [Durability::Os, Durability::Sync][toss(i as u64) % 2];
                log.wait(&reservation, level).unwrap();
                if level == Durability::Sync {
                    floors.push((disk.ops(), written.len()));
                }
            }
        }
    }
    assert!(in_place > 100 && went_on > 500, "{in_place} recoveries, {went_on} records");
}

/// A group is torn, and the one after it is whole. The first is written again, unchanged, in its
/// place: the second must not follow it then.
#[test]
pub(super) fn groups_after_the_truncation_point_do_not_reappear() {
    let disk = Disk::default();
    let env = env_on(&disk, 1);
    let log = Log::create(env, DIR, STORE, Durability::Os, SMALL).unwrap();
    let first = append(&log, b"first").unwrap();
    log.wait(&first, Durability::Sync).unwrap();
    for payload in [b"torn", b"late"] {
        append_alone(&log, payload).unwrap();
    }
    let crashed = disk.crash(disk.ops(), Survive::AllBut(0));
    crashed.be_full(true);
    let env = env_on(&crashed, 2);
    let (found, tail) = read(&env, Lsn(0), CRASHED).unwrap();
    assert_eq!((found, tail.torn), (vec![b"first".to_vec()], true));
    let log = Log::resume(env, DIR, STORE, Durability::Os, SMALL, tail).unwrap();
    let again = append_relief(&log, b"torn").unwrap();
    log.wait(&again, Durability::Sync).unwrap();
    let env = env_on(&crashed.settled(), 3);
    assert_eq!(read(&env, Lsn(0), CRASHED).unwrap().0, [&b"first"[..], b"torn"]);
}

/// Rule: I24.
#[test]
pub(super) fn deletes_have_log_space_on_a_full_disk() {
    let disk = Disk::default();
    let env = env_on(&disk, 1);
    let log = Log::create(env.clone(), DIR, STORE, Durability::Os, SMALL).unwrap();
    let write = |payload: &[u8], relief: bool| {
        let reservation = if relief { append_relief(&log, payload) } else { append(&log, payload) };
        let reservation = reservation?;
        log.wait(&reservation, Durability::Os).unwrap();
        // Each record in a group of its own.
        log.end().map(drop)
    };
    let mut all: Vec<Vec<u8>> = Vec::new();
    disk.be_full(true);
    let mut needed = Lsn(0);
    let (mut rows, mut deletes, mut waits) = (0, 0, 0);
    for round in 0..200 {
        let payload = record(round);
        match write(&payload, false) {
            Ok(()) => {
                all.push(payload.clone());
                rows += 1;
            }
            Err(Error::Full(_)) => {}
            Err(other) => panic!("{other}"),
        }
        for attempt in 0.. {
            match write(&payload, true) {
                Ok(()) => break,
                // Two checkpoints: the log is needed from the position of the first one on.
                Err(Error::Full(_)) => {
                    assert!(attempt < 2, "round {round}: a shorter log is no help");
                    waits += 1;
                    let from = log.sync_through_now().unwrap();
                    log.trim(needed).unwrap();
                    log.trim(from).unwrap();
                    needed = from;
                    all.clear();
                }
                Err(other) => panic!("{other}"),
            }
        }
        all.push(payload);
        deletes += 1;
    }
    assert!((1..20).contains(&rows), "rows are refused while there is no reserve: {rows}");
    assert!(deletes == 200 && waits > 5, "{waits} waits");
    log.sync_through_now().unwrap();
    let env = env_on(&disk.settled(), 2);
    assert!(read(&env, needed, CRASHED).unwrap().0 == all);
    // Once there is room it is made again, and a closed log has no reserve.
    disk.be_full(false);
    write(b"row", false).unwrap();
    assert!(disk.paths().iter().any(|path| path.ends_with("log-reserve.new")));
    let end = log.close(false).unwrap();
    log.trim(end).unwrap();
    assert_eq!(disk.paths().len(), 1);
}
