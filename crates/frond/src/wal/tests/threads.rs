//! Concurrent committers, a log thread and a checkpoint that trims.

use super::*;
use crate::sync::{AtomicBool, thread};

const OPTIONS: LogOptions = LogOptions {
    segment_bytes: 256 << 10,
    first_segment_bytes: 64 << 10,
    group_bytes: 32 << 10,
    groups: 3,
};

/// Promise: P1, P3. Each thread's records come back in its order, all of them, and positions ascend
/// in the order given by the sequencer.
#[test]
fn committers_on_all_levels_share_groups_and_lose_nothing() {
    let env = env();
    let log = Log::create(env.clone(), DIR, STORE, Durability::Os, OPTIONS).unwrap();
    let sequencer = Mutex::new(0u64);
    let done = AtomicBool::new(false);
    let (threads, commits) = (4u64, 1500u64);
    thread::scope(|scope| {
        let (log, env) = (&log, &env);
        let ticking = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                log.wait_for_work(Duration::from_millis(1));
                env.clock.sleep(Duration::from_millis(20));
                log.tick(env.clock.now()).unwrap();
            }
        });
        let committers: Vec<_> = (0..threads)
            .map(|thread| {
                let sequencer = &sequencer;
                scope.spawn(move || {
                    for i in 0..commits {
                        let body = vec![thread as u8; (i * 131 % 700) as usize];
                        let (reservation, number) = loop {
                            let mut last = sequencer.lock().unwrap();
                            match log.try_reserve(body.len() + 17, LogUse::Rows) {
                                Some(reservation) => {
                                    *last += 1;
                                    break (reservation, *last);
                                }
                                None => {
                                    drop(last);
                                    log.wait_for_room(LogUse::Rows).unwrap();
                                }
                            }
                        };
                        log.fill(
                            &reservation,
                            &[&body, &number.to_le_bytes(), &i.to_le_bytes(), &[thread as u8]],
                        );
                        let level = match i % 97 {
                            0 => Durability::Sync,
                            1..20 => Durability::Os,
                            _ => Durability::Lazy,
                        };
                        log.wait(&reservation, level).unwrap();
                    }
                })
            })
            .collect();
        committers.into_iter().for_each(|committer| committer.join().unwrap());
        done.store(true, Ordering::Relaxed);
        ticking.join().unwrap();
    });
    let end = log.close(false).unwrap();
    let (records, _) = read(&env, Lsn(0), Expect::CleanEnd(end)).unwrap();
    assert_eq!(records.len() as u64, threads * commits);
    let mut next = vec![0u64; threads as usize];
    for (n, record) in records.iter().enumerate() {
        let tail = &record[record.len() - 17..];
        let word = |at: usize| u64::from_le_bytes(tail[at..at + 8].try_into().unwrap());
        let thread = tail[16] as usize;
        assert_eq!((word(0), word(8)), (n as u64 + 1, next[thread]));
        next[thread] += 1;
    }
    let stats = log.stats();
    assert!(stats.groups < threads * commits / 4 && stats.segments > 5, "{stats:?}");
}

/// Rule: I13. Trimming and recycling while others write never takes what is still needed.
#[test]
fn trimming_runs_concurrently_with_commits() {
    let env = env();
    let log = Log::create(env.clone(), DIR, STORE, Durability::Lazy, OPTIONS).unwrap();
    let kept_from = Mutex::new(Lsn(0));
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let from = log.position();
                log.sync_through_now().unwrap();
                *kept_from.lock().unwrap() = from;
                log.trim(from).unwrap();
            }
        });
        for i in 0..20_000 {
            append(&log, &record(i % 100)).unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    let end = log.close(false).unwrap();
    assert!(log.stats().recycled > 0, "{:?}", log.stats());
    let from = *kept_from.lock().unwrap();
    let (records, _) = read(&env, from, Expect::CleanEnd(end)).unwrap();
    let expected: Vec<_> = (20_000 - records.len()..20_000).map(|i| record(i % 100)).collect();
    assert!(records == expected);
}
