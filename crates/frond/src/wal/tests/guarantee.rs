//! Guaranteed log space: others leave it free, whatever the disk does.

use super::{disk::*, *};

fn fill_up(log: &Log, payload: &[u8]) -> usize {
    let mut filled = 0;
    while let Some(reservation) = log.try_reserve(payload.len(), LogUse::Rows) {
        log.fill(&reservation, &[payload]);
        filled += 1;
    }
    filled
}

fn take(log: &Log, payload: &[u8], guaranteed: usize) {
    let reservation = log.try_reserve_guaranteed(payload.len(), guaranteed);
    log.fill(&reservation.expect("it was guaranteed"), &[payload]);
}

/// Nothing is written, so all buffers are full of other records: there is still space for what was
/// guaranteed. Rule: I41.
pub(super) fn other_records_leave_a_buffer() {
    for count in [1, 2] {
        let env = env();
        let log = Log::create(env.clone(), DIR, STORE, Durability::Lazy, SMALL).unwrap();
        for _ in 0..count {
            assert!(log.guarantee(300).unwrap().is_ok());
        }
        let filled = fill_up(&log, &[1; 1000]);
        assert!(filled >= 5, "one of three buffers is theirs");
        for number in 0..count {
            take(&log, &[2; 290], 300);
            assert!(number + 1 == count || log.try_reserve(8000, LogUse::Rows).is_none());
        }
        log.sync_through_now().unwrap();
        let records = read(&env, Lsn(0), CRASHED).unwrap().0;
        assert_eq!(records.len(), filled + count);
    }
}

/// A guaranteed record opens the last buffer: the rest of it is also for guaranteed records.
fn other_records_leave_the_rest_of_a_buffer() {
    let env = env();
    let log = Log::create(env.clone(), DIR, STORE, Durability::Lazy, SMALL).unwrap();
    assert!(log.guarantee(300).unwrap().is_ok() && log.guarantee(3000).unwrap().is_ok());
    let filled = fill_up(&log, &[1; 1000]);
    take(&log, &[2; 300], 300);
    let more = fill_up(&log, &[1; 1000]);
    assert!((1..5).contains(&more), "{more}: with 3000 bytes in one of 8 KiB");
    take(&log, &[3; 3000], 3000);
    log.sync_through_now().unwrap();
    assert_eq!(read(&env, Lsn(0), CRASHED).unwrap().0.len(), filled + more + 2);
}

/// No further segment can be made: the current one has space for what was guaranteed, each record
/// in its own group.
pub(super) fn other_records_leave_space_in_the_segment() {
    let env = env();
    let log = Log::create(env.clone(), DIR, STORE, Durability::Sync, SMALL).unwrap();
    let guaranteed = 4;
    for _ in 0..guaranteed {
        assert!(log.guarantee(300).unwrap().is_ok(), "in a segment of 24 KiB");
    }
    while let Some(reservation) = log.try_reserve(1000, LogUse::Rows) {
        log.fill(&reservation, &[&[1; 1000]]);
        log.wait(&reservation, Durability::Sync).unwrap();
    }
    for _ in 0..guaranteed {
        let reservation = log.try_reserve_guaranteed(300, 300).expect("it was guaranteed");
        log.fill(&reservation, &[&[2; 300]]);
        log.wait(&reservation, Durability::Sync).unwrap();
    }
    assert_eq!(log.stats().segments, 0, "all of it in the first one");
    append(&log, b"in the next one").unwrap();
    log.close(false).unwrap();
}

/// More is guaranteed than the current segment can hold, and no further one can be made after the
/// next: other records stop, and each guaranteed record finds its place, in its own group. Rule:
/// I41.
fn other_records_leave_space_in_the_segments() {
    let env = env();
    let log = Log::create(env.clone(), DIR, STORE, Durability::Sync, SMALL).unwrap();
    let (mut guaranteed, mut filled) = (0, 0);
    while log.guarantee(300).unwrap().is_ok() {
        guaranteed += 1;
    }
    assert!(guaranteed > 6, "{guaranteed}: more than a segment has room for");
    while let Some(reservation) = log.try_reserve(1000, LogUse::Rows) {
        log.fill(&reservation, &[&[1; 1000]]);
        log.wait(&reservation, Durability::Sync).unwrap();
        filled += 1;
    }
    for _ in 0..guaranteed {
        let reservation = log.try_reserve_guaranteed(300, 300).expect("it was guaranteed");
        log.fill(&reservation, &[&[2; 300]]);
        log.wait(&reservation, Durability::Sync).unwrap();
    }
    append(&log, b"in the next one").unwrap();
    log.sync_through_now().unwrap();
    assert_eq!(read(&env, Lsn(0), CRASHED).unwrap().0.len(), filled + guaranteed + 1);
}

#[test]
fn other_appends_leave_guaranteed_space_free() {
    other_records_leave_space_in_the_segments();
    other_records_leave_a_buffer();
    other_records_leave_the_rest_of_a_buffer();
    other_records_leave_space_in_the_segment();
}

#[test]
fn guarantees_end_and_are_bounded() {
    let env = env();
    let log = Log::create(env, DIR, STORE, Durability::Lazy, SMALL).unwrap();
    assert!(log.guarantee(SMALL.group_bytes).unwrap().is_err(), "longer than a group");
    let mut guaranteed = 0;
    while log.guarantee(100).unwrap().is_ok() {
        guaranteed += 1;
    }
    for _ in 0..guaranteed {
        log.end_guarantee(100);
    }
    assert!(log.guarantee(3000).unwrap().is_ok());
    log.end_guarantee(3000);
    let filled = fill_up(&log, &[1; 1000]);
    assert!(filled >= 12, "{filled}: both buffers");
    log.close(false).unwrap();
    assert!(log.guarantee(100).is_err());
}

/// A request that finds no space on a full disk is refused, with no other effect: a record that
/// needs no segment does not try to make one.
#[test]
fn a_refusal_for_lack_of_a_segment_affects_no_other_request() {
    let disk = Disk::default();
    disk.be_full(false);
    let env = Env { vfs: Arc::new(disk.clone()), ..env() };
    let log = Log::create(env, DIR, STORE, Durability::Sync, SMALL).unwrap();
    disk.be_full(true);
    let mut guaranteed = 0;
    let refused = loop {
        match log.guarantee(300) {
            Ok(Ok(())) => guaranteed += 1,
            Ok(Err(_)) => {
                panic!("there is room for {guaranteed} and no more, and segments to make")
            }
            Err(refused) => break refused,
        }
    };
    assert!(matches!(refused, Error::Full(_)) && guaranteed > 2, "{refused}");
    // The segment has space for an unguaranteed record, and buffers are free: no record has to
    // wait.
    log.end_guarantee(300);
    log.wait_for_room(LogUse::Rows).unwrap();
    append(&log, b"small").unwrap();
    disk.be_full(false);
    log.close(false).unwrap();
}

/// The reason for a refusal describes the moment of the refusal: guarantees that end, or are
/// refused, meanwhile do not change it.
#[test]
fn a_refusal_describes_the_moment_of_the_refusal() {
    let log = Log::create(env(), DIR, STORE, Durability::Lazy, SMALL).unwrap();
    let alone = log.guarantee(SMALL.group_bytes).unwrap().unwrap_err();
    assert!(alone.is_alone && alone.bytes > alone.max);
    let mut guaranteed = 0;
    let refused = loop {
        match log.guarantee(100).unwrap() {
            Ok(()) => guaranteed += 1,
            Err(refused) => break refused,
        }
    };
    let again = log.guarantee(5000).unwrap().unwrap_err();
    (0..guaranteed).for_each(|_| log.end_guarantee(100));
    for refused in [refused, again] {
        assert!(!refused.is_alone && refused.bytes > refused.max, "{refused:?}");
    }
    assert_ne!(refused, again, "each has its own");
    assert!(log.guarantee(100).unwrap().is_ok());
}
