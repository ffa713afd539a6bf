//! Deadlocks: found when the last wait begins, and only if there is one.

use std::ops::Bound::{Included, Unbounded};

use super::*;
use RowMode::{Exclusive, Shared, Write};
use WaitPolicy::{Forever, NoWait};

type Step = Box<dyn Fn(&LockTable, &mut LockSet) -> Result<(), LockError> + Send>;

/// Each party takes its own lock, then, one after the other, requests one that makes it wait; the
/// last one closes the cycle. Returns the victims and the report.
fn cycle(parties: Vec<(u64, Step, Step)>) -> (Vec<u64>, Arc<Deadlock>) {
    let table = table();
    let count = parties.len();
    let mut sets: Vec<LockSet> = (0..count).map(|id| table.begin(id as u64)).collect();
    for (locks, (writes, own, _)) in sets.iter_mut().zip(&parties) {
        locks.owner().set_writes(*writes);
        own(&table, locks).unwrap();
    }
    let mut threads = Vec::new();
    for (at, (mut locks, (.., other))) in sets.into_iter().zip(parties).enumerate() {
        let party = table.clone();
        threads.push(thread::spawn(move || {
            let asked = other(&party, &mut locks);
            // Rolled back or committed: either way the others can continue.
            party.release_all(&mut locks);
            asked
        }));
        if at + 1 < count {
            until_waiting(&table, at + 1);
        }
    }
    let mut ended = Vec::new();
    for (at, thread) in threads.into_iter().enumerate() {
        if let Err(denied) = thread.join().unwrap() {
            assert_eq!(denied.reason, Reason::Deadlock);
            assert!(denied.into_error("t").to_string().starts_with("FRD-1102 "));
            ended.push(at as u64);
        }
    }
    assert_empty(&table);
    (ended, table.last_deadlock().expect("a cycle"))
}

fn row(key: usize, mode: RowMode) -> Step {
    Box::new(move |table, locks| table.lock_row(locks, TREE, &[key as u8], mode, Forever).map(drop))
}

fn whole(tree: u32, mode: TableMode) -> Step {
    Box::new(move |table, locks| table.lock_table(locks, TreeId(tree), mode, Forever).map(drop))
}

fn gap(key: usize) -> Step {
    Box::new(move |table, locks| {
        let key = [key as u8];
        table.lock_range(locks, OTHER, (Included(&key), Included(&key)));
        Ok(())
    })
}

fn insert(key: usize) -> Step {
    Box::new(move |table, locks| {
        let mark = locks.mark();
        table.lock_row(locks, OTHER, &[key as u8], Write, Forever)?;
        table.before_insert(locks, OTHER, &[key as u8], mark, Forever).map(drop)
    })
}

#[test]
fn the_victim_of_a_cycle_is_the_transaction_that_wrote_least() {
    for count in 2..=8 {
        for least in 0..count {
            let parties = (0..count).map(|at| {
                let writes = if at == least { 1 } else { 10 };
                (writes, row(at, Exclusive), row((at + 1) % count, Shared))
            });
            let (ended, deadlock) = cycle(parties.collect());
            assert_eq!(ended, [least as u64], "of {count}");
            assert_eq!((deadlock.victim, deadlock.parties.len()), (least as u64, count));
        }
    }
}

#[test]
fn among_equals_the_transaction_that_closed_the_cycle_is_the_victim() {
    let parties = (0..4).map(|at| (5, row(at, Exclusive), row((at + 1) % 4, Exclusive)));
    let (ended, deadlock) = cycle(parties.collect());
    assert_eq!(ended, [3]);
    let words = deadlock.to_string();
    for id in 0..4 {
        assert!(words.contains(&format!("transaction {id} (5 writes) waits")), "{words}");
    }
    assert!(words.ends_with("transaction 3 was ended"), "{words}");
}

/// On one thread until the cycle closes: the main thread is the searcher.
#[test]
pub(super) fn the_detecting_transaction_is_the_victim_if_it_wrote_least() {
    let (table, clock) = timed();
    let (mut a, mut b) = (table.begin(1), table.begin(2));
    b.owner().set_writes(3);
    table.lock_row(&mut a, TREE, b"a", Exclusive, NoWait).unwrap();
    table.lock_row(&mut b, TREE, b"b", Exclusive, NoWait).unwrap();
    let other = {
        let table = table.clone();
        thread::spawn(move || {
            let taken = table.lock_row(&mut b, TREE, b"a", Exclusive, Forever);
            table.release_all(&mut b);
            taken
        })
    };
    until_waiting(&table, 1);
    // A cycle that is missed ends by timeout.
    let watch = {
        let table = table.clone();
        thread::spawn(move || {
            while table.stats().waits < 2 {
                thread::yield_now();
            }
            clock.sleep(Duration::from_secs(1));
            table.expire();
        })
    };
    let wait_policy = WaitPolicy::For(Duration::from_secs(1));
    let denied = table.lock_row(&mut a, TREE, b"b", Exclusive, wait_policy);
    watch.join().unwrap();
    table.release_all(&mut a);
    assert_eq!(other.join().unwrap(), Ok(Taken::New));
    assert_eq!(reason(denied), Reason::Deadlock);
    assert_empty(&table);
}

/// Row, gap and table in one cycle.
#[test]
fn cycles_through_rows_gaps_and_tables_are_detected() {
    let parties = vec![
        (9, row(1, Exclusive), whole(50, TableMode::Exclusive)),
        (9, whole(50, TableMode::IntentExclusive), insert(5)),
        (1, gap(5), row(1, Shared)),
    ];
    let (ended, deadlock) = cycle(parties);
    assert_eq!(ended, [2]);
    let mut on: Vec<LockOn> = deadlock.parties.iter().map(|party| party.on).collect();
    on.sort_by_key(|on| format!("{on:?}"));
    assert_eq!(on, [LockOn::Insert, LockOn::Row, LockOn::Table]);
}

#[test]
fn two_readers_that_upgrade_the_same_row_are_a_cycle() {
    let parties = vec![(2, row(1, Shared), row(1, Write)), (1, row(1, Shared), row(1, Write))];
    assert_eq!(cycle(parties).0, [1]);
}

#[test]
fn two_gaps_and_an_insert_into_each_are_a_cycle() {
    let parties = vec![(2, gap(1), insert(2)), (1, gap(2), insert(1))];
    assert_eq!(cycle(parties).0, [1]);
}

/// One transaction waits for two, and is on a cycle with each: both are aborted if they have
/// written less.
#[test]
fn a_wait_that_closes_two_cycles_ends_both() {
    let parties = vec![
        (1, row(1, Shared), row(2, Shared)),
        (1, row(1, Shared), row(2, Shared)),
        (9, row(2, Exclusive), row(1, Exclusive)),
    ];
    assert_eq!(cycle(parties).0, [0, 1]);
}

/// A cycle through a transaction that only came first: it waits in the queue and holds nothing
/// there.
#[test]
fn a_cycle_through_an_earlier_waiter_is_detected() {
    let table = table();
    let mut sets: Vec<LockSet> = (0..3).map(|id| table.begin(id)).collect();
    table.lock_row(&mut sets[0], TREE, b"k", Shared, NoWait).unwrap();
    table.lock_row(&mut sets[2], TREE, b"own", Exclusive, NoWait).unwrap();
    sets[0].owner().set_writes(5);
    sets[2].owner().set_writes(5);
    let spawn = |mut locks: LockSet, key: &'static [u8], mode| {
        let table = table.clone();
        thread::spawn(move || {
            let asked = table.lock_row(&mut locks, TREE, key, mode, Forever);
            table.release_all(&mut locks);
            asked
        })
    };
    let (third, second, first) = (sets.pop().unwrap(), sets.pop().unwrap(), sets.pop().unwrap());
    let second = spawn(second, b"k", Exclusive);
    until_waiting(&table, 1);
    // It is compatible with the holder, and waits after the exclusive one.
    let third = spawn(third, b"k", Shared);
    until_waiting(&table, 2);
    let first = spawn(first, b"own", Shared);
    // The one in the middle has written nothing: without it there is no cycle.
    assert_eq!(reason(second.join().unwrap()), Reason::Deadlock);
    assert_eq!(third.join().unwrap(), Ok(Taken::New));
    assert_eq!(first.join().unwrap(), Ok(Taken::New));
    assert_empty(&table);
}

/// Many waits and no cycle: no transaction is aborted.
#[test]
fn waits_without_a_cycle_abort_no_transaction() {
    let table = table();
    let mut first = table.begin(100);
    table.lock_row(&mut first, TREE, b"0", Exclusive, NoWait).unwrap();
    let mut threads = Vec::new();
    for id in 1..=12_u64 {
        let party = table.clone();
        threads.push(thread::spawn(move || {
            let mut locks = party.begin(id);
            let own = [b'0' + (id % 4) as u8];
            if id < 4 {
                party.lock_row(&mut locks, TREE, &own, Exclusive, Forever).unwrap();
            }
            party.lock_range(&mut locks, OTHER, (Unbounded, Unbounded));
            let mode = if id % 3 == 0 { Exclusive } else { Shared };
            party.lock_row(&mut locks, TREE, b"0", mode, Forever).unwrap();
            party.release_all(&mut locks);
        }));
        until_waiting(&table, id as usize);
    }
    assert_eq!(table.stats().deadlocks, 0);
    table.release_all(&mut first);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(table.last_deadlock().is_none());
    assert_empty(&table);
}

/// Records the reported waits.
#[derive(Debug, Default)]
struct Told(Mutex<Vec<(u64, u64)>>);

impl Hooks for Told {
    fn on_wait(&self, waiter: &LockParty, holder: &LockParty) {
        self.0.lock().unwrap().push((waiter.id(), holder.id()));
    }
}

/// A call that must not wait waits for nothing: it closes no cycle, however little it has written,
/// and is not reported to the server.
#[test]
pub(super) fn a_call_without_wait_time_is_in_no_cycle() {
    let now = WaitPolicy::For(Duration::ZERO);
    for (writes_of_waiter, writes_of_asker) in [(5, 1), (1, 5)] {
        let told = Arc::new(Told::default());
        let table = Arc::new(LockTable::with_hooks(Arc::new(ManualClock::default()), told.clone()));
        let (mut waiter, mut asker) = (table.begin(1), table.begin(2));
        waiter.owner().set_writes(writes_of_waiter);
        asker.owner().set_writes(writes_of_asker);
        table.lock_row(&mut waiter, TREE, b"1", Write, NoWait).unwrap();
        table.lock_range(&mut waiter, OTHER, (Unbounded, Unbounded));
        table.lock_table(&mut waiter, TreeId(9), TableMode::Shared, NoWait).unwrap();
        table.lock_row(&mut asker, TREE, b"2", Write, NoWait).unwrap();
        let party = table.clone();
        let thread = thread::spawn(move || {
            let taken = party.lock_row(&mut waiter, TREE, b"2", Write, Forever);
            party.release_all(&mut waiter);
            taken
        });
        until_waiting(&table, 1);
        let refused = |denied: LockError| {
            assert_eq!(
                (denied.reason, denied.holder.map(|holder| holder.id)),
                (Reason::Timeout, Some(1)),
                "{denied:?}"
            );
        };
        refused(table.lock_row(&mut asker, TREE, b"1", Write, now).unwrap_err());
        asker.begin_call();
        let (mark, held) = (asker.mark(), asker.len());
        table.lock_row(&mut asker, OTHER, b"new", Write, NoWait).unwrap();
        refused(table.before_insert(&mut asker, OTHER, b"new", mark, now).unwrap_err());
        assert_eq!(asker.len(), held, "a row that is not inserted is not locked");
        asker.begin_call();
        let whole = table.lock_table(&mut asker, TreeId(9), TableMode::Exclusive, now);
        refused(whole.unwrap_err());
        assert_eq!(table.waits().len(), 1);
        assert_eq!(*told.0.lock().unwrap(), [(1, 2)]);
        assert_eq!((table.stats().deadlocks, table.stats().timeouts), (0, 3));
        table.release_all(&mut asker);
        assert!(thread.join().unwrap().is_ok());
        assert_empty(&table);
    }
}
