//! The change feed of a log that is written to, trimmed and reopened meanwhile.

use super::*;
use crate::types::TreeId;

fn commit(log: &Log, seqno: u64) {
    let mut builder = RecordBuilder::new();
    builder.tree(TreeId(1));
    builder.entry(&seqno.to_be_bytes(), crate::message::Tag::PUT, &record(seqno as usize % 50));
    let body = builder.finish();
    append(log, &[body, &trailer(Seqno(seqno))].concat()).unwrap();
}

/// All commits that are durable so far and were not read before.
fn poll(feed: &mut LogFeed, log: &Log) -> Result<Vec<u64>> {
    let mut seqnos = Vec::new();
    while feed
        .read(log, &mut |seqno, lsn, payload| {
            let Ok(Record::Commit { mut items, .. }) = decode(lsn, payload) else { panic!() };
            let Ok(Some(Item::Entry { key, .. })) = items.next() else { panic!("one entry") };
            assert_eq!(key, seqno.0.to_be_bytes());
            seqnos.push(seqno.0);
        })?
        .is_some()
    {}
    Ok(seqnos)
}

/// An empty log that syncs nothing by itself.
fn lazy_log() -> (Env, Log) {
    let env = env();
    let log = Log::create(env.clone(), DIR, STORE, Durability::Lazy, SMALL).unwrap();
    (env, log)
}

/// Rule: I30
#[test]
fn a_feed_delivers_each_durable_commit_once() {
    let (env, log) = lazy_log();
    let mut feed = log.feed(Seqno(0), Seqno(0)).unwrap();
    assert!(poll(&mut feed, &log).unwrap().is_empty());
    let mut seen = Vec::new();
    for seqno in 1..=400 {
        commit(&log, seqno);
        if seqno % 7 == 0 {
            let durable = seen.len();
            assert_eq!(poll(&mut feed, &log).unwrap().len(), 0, "after {durable}");
            log.sync_through_now().unwrap();
            seen.extend(poll(&mut feed, &log).unwrap());
            assert_eq!(seen.len() as u64, seqno);
        }
    }
    let end = log.close(false).unwrap();
    assert!(log.stats().segments > 3);
    let (_, tail) = read(&env, Lsn(0), Expect::CleanEnd(end)).unwrap();
    let log = Log::resume(env.clone(), DIR, STORE, Durability::Lazy, SMALL, tail).unwrap();
    commit(&log, 401);
    log.sync_through_now().unwrap();
    for from in [0, 1, 2, 200, 400, 401, 402, 500] {
        let mut feed = log.feed(Seqno(from), Seqno(0)).unwrap();
        let expected: Vec<u64> = (from.max(1)..=401).collect();
        assert_eq!(poll(&mut feed, &log).unwrap(), expected, "from {from}");
    }
}

#[test]
fn a_feed_that_is_too_slow_or_too_late_loses_its_position() {
    let (_, log) = lazy_log();
    for seqno in 1..=50 {
        commit(&log, seqno);
    }
    log.sync_through_now().unwrap();
    let mut slow = log.feed(Seqno(0), Seqno(0)).unwrap();
    let mut caught_up = log.feed(Seqno(0), Seqno(0)).unwrap();
    assert_eq!(poll(&mut caught_up, &log).unwrap().len(), 50);
    for seqno in 51..=300 {
        commit(&log, seqno);
    }
    log.sync_through_now().unwrap();
    assert_eq!(poll(&mut caught_up, &log).unwrap().len(), 250);
    log.trim(log.position()).unwrap();
    let late = log.feed(Seqno(1), Seqno(300)).unwrap_err();
    let Error::PositionLost { wanted: 1, oldest, .. } = late else { panic!("{late}") };
    let lost = poll(&mut slow, &log).unwrap_err();
    assert!(matches!(lost, Error::PositionLost { wanted, .. } if wanted < oldest));
    let mut feed = log.feed(Seqno(oldest), Seqno(300)).unwrap();
    assert_eq!(poll(&mut feed, &log).unwrap(), (oldest..=300).collect::<Vec<_>>());
    commit(&log, 301);
    log.sync_through_now().unwrap();
    assert_eq!(poll(&mut caught_up, &log).unwrap(), [301]);
}

/// A log without a commit either waits for the wanted one, or had it and was trimmed past it.
#[test]
fn an_empty_log_distinguishes_lost_from_future_positions() {
    let (_, log) = lazy_log();
    let lost = log.feed(Seqno(7), Seqno(7)).unwrap_err();
    assert!(matches!(lost, Error::PositionLost { wanted: 7, oldest: 8, .. }), "{lost}");
    let mut feed = log.feed(Seqno(8), Seqno(7)).unwrap();
    assert!(poll(&mut feed, &log).unwrap().is_empty());
    commit(&log, 8);
    log.sync_through_now().unwrap();
    assert_eq!(poll(&mut feed, &log).unwrap(), [8]);
}

/// Without threads the wait runs the log's timers: what was written becomes durable, on the clock
/// of the environment.
#[test]
fn waiting_makes_a_lazy_commit_durable() {
    let (env, log) = lazy_log();
    let seen = log.durable();
    commit(&log, 1);
    let before = env.clock.now();
    assert!(!log.wait_durable(seen, Duration::from_millis(10)).unwrap());
    assert!(log.wait_durable(seen, Duration::from_secs(60)).unwrap());
    assert!(
        env.clock.now() - before < Duration::from_secs(2),
        "P1: within the level's second or two"
    );
    // The idle log's mark may follow; after it nothing comes by itself.
    while log.wait_durable(log.durable(), Duration::from_secs(5)).unwrap() {}
    let idle = env.clock.now();
    assert!(!log.wait_durable(log.durable(), Duration::from_secs(5)).unwrap());
    assert!(env.clock.now() - idle >= Duration::from_secs(5), "it waits its whole time");
}
