//! Schedules of the real log under a model checker: writers and waiting threads, a failing sync,
//! few buffers, a log thread that trims.
//!
//! Run: `make schedules`.

use super::{disk::*, *};
use crate::sync::{explore, thread};

const TINY: LogOptions = LogOptions {
    segment_bytes: 16 << 10,
    first_segment_bytes: 16 << 10,
    group_bytes: 4 << 10,
    groups: 3,
};

fn env_on(disk: &Disk) -> Env {
    Env {
        vfs: Arc::new(disk.clone()),
        clock: Arc::new(ManualClock::default()),
        rng: Arc::new(SeededRng::default()),
        workers: Workers::Threads(2),
    }
}

fn commit(log: &Log, sequencer: &Mutex<Vec<Vec<u8>>>, payload: Vec<u8>) -> Result<Reservation> {
    let reservation = loop {
        let mut order = sequencer.lock().unwrap();
        if let Some(reservation) = log.try_reserve(payload.len(), LogUse::Rows) {
            order.push(payload.clone());
            break reservation;
        }
        drop(order);
        log.wait_for_room(LogUse::Rows)?;
    };
    log.fill(&reservation, &[&payload]);
    Ok(reservation)
}

/// Promise: P1, P3, P12
fn commits_with(fail_at: Option<usize>) {
    let disk = Disk::default();
    let env = env_on(&disk);
    let log = Log::create(env.clone(), DIR, STORE, Durability::Sync, TINY).unwrap();
    if let Some(fail_at) = fail_at {
        disk.fail_at(disk.ops() + fail_at);
    }
    let log = Arc::new(log);
    let order = Arc::new(Mutex::new(Vec::new()));
    let threads: Vec<_> = (0..3u8)
        .map(|n| {
            let (log, order) = (log.clone(), order.clone());
            thread::spawn(move || {
                let mut acknowledged = Vec::new();
                for i in 0..2u8 {
                    let level = [Durability::Sync, Durability::Os][usize::from(n == 2)];
                    let payload = vec![n * 16 + i; 700 * (n as usize + 1)];
                    let reservation = match commit(&log, &order, payload.clone()) {
                        Ok(reservation) => reservation,
                        Err(Error::Failed(_)) => break,
                        Err(other) => panic!("{other}"),
                    };
                    match log.wait(&reservation, level) {
                        Ok(()) if level == Durability::Sync => {
                            assert!(log.durable() > reservation.lsn());
                            acknowledged.push(payload);
                        }
                        Ok(()) => assert!(log.written() > reservation.lsn()),
                        Err(Error::OutcomeUnknown(_)) => break,
                        Err(other) => panic!("{other}"),
                    }
                }
                acknowledged
            })
        })
        .collect();
    let ticking = {
        let log = log.clone();
        thread::spawn(move || {
            for i in 1..3 {
                match log.tick(Duration::from_millis(600 * i)) {
                    Ok(()) | Err(Error::Failed(_)) => {}
                    Err(other) => panic!("{other}"),
                }
            }
        })
    };
    let acknowledged: Vec<_> =
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    ticking.join().unwrap();
    let order = order.lock().unwrap().clone();
    for survive in [Survive::Nothing, Survive::Everything] {
        let after = env_on(&disk.crash(disk.ops(), survive));
        let expect = Expect::Crashed { synced: log.durable() };
        let (records, _) = read(&after, Lsn(0), expect).unwrap();
        assert!(records == order[..records.len()], "a prefix of the sequencer's order");
        assert!(acknowledged.iter().all(|payload| records.contains(payload)));
    }
}

#[test]
fn leaders_and_followers_acknowledge_only_what_is_durable() {
    explore(1500, || commits_with(None));
}

#[test]
fn a_failing_write_or_sync_wakes_all_waiters() {
    for fail_at in 0..12 {
        explore(100, move || commits_with(Some(fail_at)));
    }
}

/// Rule: I13
#[test]
fn append_checkpoint_and_recycle_run_concurrently() {
    let model = || {
        let disk = Disk::default();
        let env = env_on(&disk);
        let log = Arc::new(Log::create(env, DIR, STORE, Durability::Sync, TINY).unwrap());
        let order = Arc::new(Mutex::new(Vec::new()));
        let trimming = {
            let (log, order) = (log.clone(), order.clone());
            thread::spawn(move || {
                let mut kept = (Lsn(0), 0);
                for _ in 0..2 {
                    let at = {
                        let order = order.lock().unwrap();
                        (log.position(), order.len())
                    };
                    log.sync_through_now().unwrap();
                    log.trim(at.0).unwrap();
                    kept = at;
                }
                kept
            })
        };
        for i in 0..8u8 {
            let reservation = commit(&log, &order, vec![i; 3000]).unwrap();
            log.wait(&reservation, Durability::Os).unwrap();
        }
        let (from, before) = trimming.join().unwrap();
        let end = log.close(false).unwrap();
        let after = env_on(&disk.crash(disk.ops(), Survive::Nothing));
        let (records, _) = read(&after, from, Expect::CleanEnd(end)).unwrap();
        let order = order.lock().unwrap();
        assert!(records.len() >= order.len() - before && order.ends_with(&records));
    };
    explore(500, model);
}

/// A log that becomes idle while it is closed: neither waits for the other, and nothing follows the
/// end that the close returns.
#[test]
fn a_close_and_a_log_becoming_idle_do_not_block_each_other() {
    const GROWING: LogOptions = LogOptions {
        segment_bytes: 64 << 10,
        first_segment_bytes: 24 << 10,
        group_bytes: 8 << 10,
        groups: 3,
    };
    let model = || {
        let disk = Disk::default();
        let env = env_on(&disk);
        let log = Arc::new(Log::create(env, DIR, STORE, Durability::Sync, GROWING).unwrap());
        // Move to a longer segment than the one that the log idles in.
        while log.stats().segments == 0 {
            let reservation = append(&log, &[1; 5000]).unwrap();
            log.wait(&reservation, Durability::Sync).unwrap();
        }
        let idling = {
            let log = log.clone();
            thread::spawn(move || match log.go_idle() {
                Ok(()) | Err(Error::Closed) => {}
                Err(other) => panic!("{other}"),
            })
        };
        let end = log.close(false).unwrap();
        idling.join().unwrap();
        assert!(log.written() <= end);
        read(&env_on(&disk.crash(disk.ops(), Survive::Everything)), end, Expect::CleanEnd(end))
            .unwrap();
    };
    explore(500, model);
}

/// Space is guaranteed while the log becomes idle: it is there in whichever segment the log
/// continues. Rule: I41
#[test]
fn guaranteed_space_survives_a_log_becoming_idle() {
    const GROWING: LogOptions = LogOptions {
        segment_bytes: 64 << 10,
        first_segment_bytes: 24 << 10,
        group_bytes: 8 << 10,
        groups: 3,
    };
    let model = || {
        let disk = Disk::default();
        let env = env_on(&disk);
        let log = Arc::new(Log::create(env, DIR, STORE, Durability::Sync, GROWING).unwrap());
        // Move to a longer segment than the one that the log idles in.
        while log.stats().segments == 0 {
            let reservation = append(&log, &[1; 5000]).unwrap();
            log.wait(&reservation, Durability::Sync).unwrap();
        }
        let resting = {
            let log = log.clone();
            thread::spawn(move || log.go_idle().unwrap())
        };
        let mut guaranteed = 0;
        for _ in 0..4 {
            guaranteed += usize::from(log.guarantee(300).unwrap().is_ok());
        }
        resting.join().unwrap();
        assert_eq!(guaranteed, 4);
        disk.be_full(true);
        // Each in a group of its own, as if each were synced.
        for _ in 0..guaranteed {
            let reservation = log.try_reserve_guaranteed(300, 300).expect("it was guaranteed");
            log.fill(&reservation, &[&[2; 300]]);
            log.wait(&reservation, Durability::Sync).unwrap();
        }
    };
    explore(500, model);
}

/// While others fill and write all they get, and the clock ticks, a thread that uses guaranteed
/// space finds it, in a segment that ends and in the next. Rule: I41
#[test]
fn a_guaranteed_reservation_waits_for_no_write() {
    const RECORD: usize = 2500;
    let model = || {
        let env = env_on(&Disk::default());
        let log = Arc::new(Log::create(env, DIR, STORE, Durability::Lazy, SMALL).unwrap());
        let mut others = Vec::new();
        for _ in 0..3 {
            assert!(log.guarantee(RECORD).unwrap().is_ok(), "three of them fit a group");
        }
        for bytes in [1000, 6000] {
            let log = log.clone();
            others.push(thread::spawn(move || {
                for _ in 0..4 {
                    let reservation = append(&log, &vec![1; bytes]).unwrap();
                    log.wait(&reservation, Durability::Os).unwrap();
                }
            }));
        }
        let syncing = log.clone();
        others.push(thread::spawn(move || {
            let durable = syncing.sync_through_now().unwrap();
            assert_eq!(durable.0 % 4096, 0, "a log may begin there");
        }));
        for number in 0..3 {
            let reservation =
                log.try_reserve_guaranteed(RECORD, RECORD).expect("it was guaranteed");
            log.fill(&reservation, &[&[2; RECORD]]);
            if number == 1 {
                log.wait(&reservation, Durability::Os).unwrap();
            }
        }
        others.into_iter().for_each(|other| other.join().unwrap());
        log.sync_through_now().unwrap();
    };
    explore(1000, model);
}

#[cfg(feature = "planted-bugs")]
#[test]
fn planted_bugs_are_caught() {
    let claims = claims! {
        "wal: sample the covered position after the sync" =>
            leaders_and_followers_acknowledge_only_what_is_durable,
    };
    crate::plant::assert_claims_hold("schedules of wal", claims);
}
