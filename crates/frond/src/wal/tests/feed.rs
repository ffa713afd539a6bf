//! The change feed beside a log that goes on, is trimmed and reopened.

use super::*;
use crate::types::TreeId;

fn commit(log: &Log, seqno: u64) {
    let mut builder = RecordBuilder::new();
    builder.tree(TreeId(1));
    builder.entry(&seqno.to_be_bytes(), crate::message::Tag::PUT, &record(seqno as usize % 50));
    let body = builder.finish();
    append(log, &[body, &trailer(Seqno(seqno))].concat()).unwrap();
}

fn poll(feed: &mut LogFeed, log: &Log) -> Result<Vec<u64>> {
    let mut seqnos = Vec::new();
    feed.poll(log, &mut |seqno, mut items| {
        let Some(Item::Entry { key, .. }) = items.next()? else { panic!("one entry") };
        assert_eq!(key, seqno.0.to_be_bytes());
        seqnos.push(seqno.0);
        Ok(())
    })?;
    Ok(seqnos)
}

/// Rule: I30
#[test]
fn a_feed_hands_out_each_durable_commit_once() {
    let env = env();
    let log = Log::create(env.clone(), DIR, STORE, Durability::Lazy, SMALL).unwrap();
    let mut feed = log.feed(Seqno(0)).unwrap();
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
    let end = log.close().unwrap();
    assert!(log.stats().segments > 3);
    let (_, tail) = read(&env, Lsn(0), Expect::CleanEnd(end)).unwrap();
    let log = Log::resume(env.clone(), DIR, STORE, Durability::Lazy, SMALL, tail).unwrap();
    commit(&log, 401);
    log.sync_through_now().unwrap();
    let mut feed = log.feed(Seqno(390)).unwrap();
    let failing = feed.poll(&log, &mut |seqno, _| match seqno {
        Seqno(395) => Err(Error::Full("no room downstream".into())),
        _ => Ok(()),
    });
    assert!(matches!(failing, Err(Error::Full(_))) && feed.next_seqno() == Seqno(396));
    assert_eq!(poll(&mut feed, &log).unwrap(), (396..=401).collect::<Vec<_>>());
    for after in [0, 1, 199, 399, 400, 401, 500] {
        let mut feed = log.feed(Seqno(after)).unwrap();
        let expected: Vec<u64> = (after + 1..=401).collect();
        assert_eq!(poll(&mut feed, &log).unwrap(), expected, "after {after}");
    }
}

#[test]
fn a_feed_that_is_too_slow_or_too_late_loses_its_position() {
    let env = env();
    let log = Log::create(env.clone(), DIR, STORE, Durability::Lazy, SMALL).unwrap();
    for seqno in 1..=50 {
        commit(&log, seqno);
    }
    log.sync_through_now().unwrap();
    let mut slow = log.feed(Seqno(0)).unwrap();
    let mut caught_up = log.feed(Seqno(0)).unwrap();
    assert_eq!(poll(&mut caught_up, &log).unwrap().len(), 50);
    for seqno in 51..=300 {
        commit(&log, seqno);
    }
    log.sync_through_now().unwrap();
    assert_eq!(poll(&mut caught_up, &log).unwrap().len(), 250);
    log.trim(log.position()).unwrap();
    let late = log.feed(Seqno(0)).unwrap_err();
    let Error::PositionLost { wanted: 1, oldest } = late else { panic!("{late}") };
    // It may still read the file it holds open, and then knows that it missed what came next.
    let lost = poll(&mut slow, &log).unwrap_err();
    assert!(matches!(lost, Error::PositionLost { wanted, .. } if wanted < oldest));
    let mut feed = log.feed(Seqno(oldest - 1)).unwrap();
    assert_eq!(poll(&mut feed, &log).unwrap(), (oldest..=300).collect::<Vec<_>>());
    commit(&log, 301);
    log.sync_through_now().unwrap();
    assert_eq!(poll(&mut caught_up, &log).unwrap(), [301]);
}
