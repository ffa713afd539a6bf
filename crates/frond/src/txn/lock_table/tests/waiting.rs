//! How waits end: by timeout or interrupt; and what a server is notified of.

use super::*;
use RowMode::{Exclusive, Shared};
use WaitPolicy::{For, Forever, NoWait};

#[test]
fn a_wait_times_out_at_its_deadline_and_not_before() {
    let (table, clock) = timed();
    let mut a = table.begin(1);
    table.lock_row(&mut a, TREE, b"k", Exclusive, NoWait).unwrap();
    let spawn = |id: u64, millis: u64| {
        let table = table.clone();
        thread::spawn(move || {
            let mut locks = table.begin(id);
            let time = For(Duration::from_millis(millis));
            let denied = table.lock_row(&mut locks, TREE, b"k", Shared, time);
            assert!(locks.is_empty());
            (denied, table.clock.now())
        })
    };
    let (short, long) = (spawn(2, 50), spawn(3, 1000));
    until_waiting(&table, 2);
    for _ in 0..49 {
        clock.sleep(Duration::from_millis(1));
        table.expire();
        assert_eq!(table.waits().len(), 2);
    }
    clock.sleep(Duration::from_millis(1));
    table.expire();
    let (denied, at) = short.join().unwrap();
    let denied = denied.unwrap_err();
    assert_eq!((denied.reason, denied.holder.map(|holder| holder.id)), (Reason::Timeout, Some(1)));
    assert_eq!(at, Duration::from_millis(50));
    clock.sleep(Duration::from_millis(949));
    table.expire();
    assert_eq!(table.waits().len(), 1);
    clock.sleep(Duration::from_millis(1));
    table.expire();
    assert_eq!(reason(long.join().unwrap().0), Reason::Timeout);
    let stats = table.stats();
    assert_eq!((stats.waits, stats.timeouts), (2, 2));
    let lasted = stats.lasted;
    assert_eq!((lasted.count(), lasted.total()), (2, Duration::from_millis(1050)));
    assert_eq!(lasted.longest(), Duration::from_secs(1));
    let half = lasted.per_mille(500).as_millis();
    assert!((50..=56).contains(&half), "{half}");
    table.release_all(&mut a);
    assert_empty(&table);
}

/// Even if no other thread looks at the clock.
#[test]
fn a_wait_in_real_time_ends_without_another_thread() {
    let table = LockTable::new(Arc::new(crate::io::RealClock::new()));
    let (mut a, mut b) = (table.begin(1), table.begin(2));
    table.lock_row(&mut a, TREE, b"k", Exclusive, NoWait).unwrap();
    let before = table.clock.now();
    let time = Duration::from_millis(30);
    let denied = table.lock_row(&mut b, TREE, b"k", Exclusive, For(time));
    assert_eq!(reason(denied), Reason::Timeout);
    assert!(table.clock.now() - before >= time);
    table.release_all(&mut a);
    assert_empty(&table);
}

/// The one guarantee about time: a wait ends within 10 ms of its deadline. The best of five is
/// checked, so that a busy machine does not fail it.
#[test]
pub(super) fn a_wait_in_real_time_ends_soon_after_its_deadline() {
    let table = LockTable::new(Arc::new(crate::io::RealClock::new()));
    let (mut a, mut b) = (table.begin(1), table.begin(2));
    table.lock_row(&mut a, TREE, b"k", Exclusive, NoWait).unwrap();
    let time = Duration::from_millis(30);
    let best = (0..5).map(|_| {
        let before = table.clock.now();
        b.begin_call();
        let denied = table.lock_row(&mut b, TREE, b"k", Exclusive, For(time));
        assert_eq!(reason(denied), Reason::Timeout);
        table.clock.now() - before
    });
    let best = best.min().unwrap();
    assert!((time..time + Duration::from_millis(10)).contains(&best), "{best:?}");
    table.release_all(&mut a);
    assert_empty(&table);
}

/// The waits of a call that needs several locks end together; the next call has its full time
/// again.
#[test]
fn all_waits_of_a_call_share_one_timeout() {
    let (table, clock) = timed();
    let (mut a, mut b) = (table.begin(1), table.begin(2));
    table.lock_row(&mut a, TREE, b"a", Exclusive, NoWait).unwrap();
    table.lock_row(&mut b, TREE, b"b", Exclusive, NoWait).unwrap();
    let waiter = {
        let table = table.clone();
        thread::spawn(move || {
            let mut locks = table.begin(3);
            let time = For(Duration::from_millis(100));
            let mut ended = Vec::new();
            for keys in [&[b"a", b"b"][..], &[b"b"]] {
                locks.begin_call();
                for &key in keys {
                    let taken = table.lock_row(&mut locks, TREE, key, Exclusive, time);
                    ended.push((
                        taken.map_err(|denied| denied.reason),
                        table.clock.now().as_millis(),
                    ));
                }
            }
            table.release_all(&mut locks);
            ended
        })
    };
    let waits_for = |holder: u64| {
        while table.waits().first().map(|wait| wait.holders.clone()) != Some(vec![holder]) {
            thread::yield_now();
        }
    };
    let pass = |millis| {
        clock.sleep(Duration::from_millis(millis));
        table.expire();
    };
    waits_for(1);
    pass(60);
    table.release_all(&mut a);
    waits_for(2);
    pass(39);
    waits_for(2);
    let first = table.stats().timeouts;
    pass(1);
    // 60 of 100 ms had passed before the second wait began: it has timed out, and the next call
    // waits.
    while table.stats().timeouts == first || table.waits().is_empty() {
        thread::yield_now();
    }
    pass(99);
    waits_for(2);
    pass(1);
    let timeout = Err(Reason::Timeout);
    assert_eq!(waiter.join().unwrap(), [(Ok(Taken::New), 60), (timeout, 100), (timeout, 200)]);
    table.release_all(&mut b);
    assert_empty(&table);
}

/// A waiter that leaves the middle of a queue lets those after it advance.
#[test]
fn a_waiter_that_leaves_lets_later_ones_advance() {
    let (table, clock) = timed();
    let mut a = table.begin(1);
    table.lock_row(&mut a, TREE, b"k", Shared, NoWait).unwrap();
    let ask = |id, mode, wait_policy| {
        let table = table.clone();
        thread::spawn(move || {
            let mut locks = table.begin(id);
            let taken = table.lock_row(&mut locks, TREE, b"k", mode, wait_policy);
            table.release_all(&mut locks);
            taken
        })
    };
    let exclusive = ask(2, Exclusive, For(Duration::from_millis(10)));
    until_waiting(&table, 1);
    let shared = ask(3, Shared, Forever);
    until_waiting(&table, 2);
    clock.sleep(Duration::from_millis(10));
    table.expire();
    assert_eq!(reason(exclusive.join().unwrap()), Reason::Timeout);
    assert_eq!(shared.join().unwrap(), Ok(Taken::New));
    table.release_all(&mut a);
    assert_empty(&table);
}

#[test]
pub(super) fn a_killed_waiter_leaves_the_queue_at_once_and_holds_nothing() {
    let table = table();
    let (mut a, mut b) = (table.begin(1), table.begin(2));
    table.lock_row(&mut a, TREE, b"k", Exclusive, NoWait).unwrap();
    let killer = {
        let (table, victim) = (table.clone(), b.owner().clone());
        thread::spawn(move || {
            until_waiting(&table, 1);
            victim.interrupt(2);
        })
    };
    let denied = table.lock_row(&mut b, TREE, b"k", Exclusive, Forever);
    assert_eq!(reason(denied), Reason::Interrupted);
    killer.join().unwrap();
    assert_eq!(b.len(), 0);
    // It stays interrupted until that is cleared; a free lock is still granted.
    assert!(b.owner().is_interrupted());
    b.owner().interrupt(b.owner().id());
    assert_eq!(reason(table.lock_row(&mut b, TREE, b"k", Shared, Forever)), Reason::Interrupted);
    assert_eq!(table.lock_row(&mut b, TREE, b"free", Shared, Forever), Ok(Taken::New));
    b.owner().clear_interrupt();
    table.release_all(&mut b);
    table.release_all(&mut a);
    // No transaction holds it, so it is granted to any.
    let mut c = table.begin(3);
    assert_eq!(table.lock_row(&mut c, TREE, b"k", Exclusive, NoWait), Ok(Taken::New));
    table.release_all(&mut c);
    assert_empty(&table);
}

/// An owner that is no transaction's, and observes a transaction's interrupts: time stands still,
/// so only the interrupt ends the wait.
#[test]
fn an_interrupt_ends_a_wait_at_once() {
    let table = table();
    let (mut a, mut b) = (table.begin(1), table.begin(2));
    table.lock_row(&mut a, TREE, b"k", Exclusive, NoWait).unwrap();
    let stop = Arc::new(Stop::default());
    let mut cancel = CancelToken::default();
    cancel.set(stop.clone());
    b.owner().cancel_on(cancel);
    for wait_policy in [Forever, For(Duration::from_secs(1))] {
        let killer = {
            let (table, stop) = (table.clone(), stop.clone());
            thread::spawn(move || {
                until_waiting(&table, 1);
                stop.ask();
            })
        };
        b.begin_call();
        let denied = table.lock_row(&mut b, TREE, b"k", Exclusive, wait_policy);
        assert_eq!(reason(denied), Reason::Interrupted);
        killer.join().unwrap();
        stop.0.store(false, Ordering::SeqCst);
    }
    table.release_all(&mut b);
    table.release_all(&mut a);
    assert_empty(&table);
}

#[test]
fn a_killed_insert_leaves_the_queue_at_once() {
    let table = table();
    let (mut a, mut b) = (table.begin(1), table.begin(2));
    table.lock_range(&mut a, TREE, (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded));
    let killer = {
        let (table, victim) = (table.clone(), b.owner().clone());
        thread::spawn(move || {
            until_waiting(&table, 1);
            victim.interrupt(2);
        })
    };
    let mark = b.mark();
    table.lock_row(&mut b, TREE, b"k", RowMode::Write, NoWait).unwrap();
    let denied = table.before_insert(&mut b, TREE, b"k", mark, Forever);
    assert_eq!(reason(denied), Reason::Interrupted);
    killer.join().unwrap();
    assert!(b.is_empty(), "the row was given back for the wait");
    table.release_all(&mut a);
    assert_empty(&table);
}

/// An owner is reused from one transaction to the next.
#[test]
fn a_late_interrupt_does_not_reach_the_next_transaction() {
    let table = table();
    let (mut a, mut b) = (table.begin(1), table.begin(2));
    table.lock_row(&mut a, TREE, b"k", Exclusive, NoWait).unwrap();
    let party = b.owner().party();
    b.renew(7, 70);
    party.interrupt();
    assert!(!b.owner().is_interrupted());
    let denied = table.lock_row(&mut b, TREE, b"k", Shared, WaitPolicy::For(Duration::ZERO));
    assert_eq!(reason(denied), Reason::Timeout);
    let party = b.owner().party();
    assert_eq!((party.id(), party.tag()), (7, 70));
    party.interrupt();
    assert_eq!(reason(table.lock_row(&mut b, TREE, b"k", Shared, Forever)), Reason::Interrupted);
    // A late interrupt does not undo a timely one.
    b.owner().interrupt(2);
    assert!(b.owner().is_interrupted());
    table.release_all(&mut a);
    assert_empty(&table);
}

/// Hooks that record every reported holder, let inserts pass gaps whose order is settled, and
/// choose victims.
#[derive(Debug, Default)]
struct Server {
    told: Arc<Mutex<Vec<(u64, u64)>>>,
}

impl Hooks for Server {
    fn on_wait(&self, waiter: &LockParty, holder: &LockParty) {
        self.told.lock().unwrap().push((waiter.id(), holder.id()));
        // The later one is aborted, as on a replica.
        if holder.id() > waiter.id() {
            holder.interrupt();
        }
    }
    fn prefer(&self, a: &LockParty, b: &LockParty) -> Option<u64> {
        Some(a.id().max(b.id()))
    }
    fn needs_order(&self, inserter: &LockParty, holder: &LockParty) -> bool {
        inserter.id() / 10 != holder.id() / 10
    }
}

fn served() -> (Arc<LockTable>, Arc<Mutex<Vec<(u64, u64)>>>) {
    let server = Server::default();
    let told = server.told.clone();
    let clock = Arc::new(ManualClock::default());
    (Arc::new(LockTable::with_hooks(clock, Arc::new(server))), told)
}

/// Rule: I53.
#[test]
fn the_server_is_notified_of_each_holder_and_may_abort_it() {
    let (table, told) = served();
    let (mut early, mut late) = (table.begin(1), table.begin(30));
    table.lock_row(&mut early, TREE, b"a", Shared, NoWait).unwrap();
    table.lock_row(&mut late, TREE, b"a", Shared, NoWait).unwrap();
    let waiter = {
        let table = table.clone();
        thread::spawn(move || {
            let mut locks = table.begin(20);
            let taken = table.lock_row(&mut locks, TREE, b"a", Exclusive, Forever);
            table.release_all(&mut locks);
            taken
        })
    };
    while !late.owner().is_interrupted() {
        thread::yield_now();
    }
    assert!(!early.owner().is_interrupted());
    let mut heard = told.lock().unwrap().clone();
    heard.sort_unstable();
    assert_eq!(heard, [(20, 1), (20, 30)]);
    table.release_all(&mut late);
    table.release_all(&mut early);
    assert_eq!(waiter.join().unwrap(), Ok(Taken::New));
    assert_empty(&table);
}

/// Rule: I53.
#[test]
fn transactions_of_settled_order_ignore_gap_locks() {
    let (table, _) = served();
    let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
    let (mut a, mut b, mut c) = (table.begin(11), table.begin(12), table.begin(21));
    table.lock_range(&mut a, TREE, all);
    let mark = b.mark();
    assert_eq!(table.before_insert(&mut b, TREE, b"k", mark, NoWait), Ok(false));
    let mark = c.mark();
    assert_eq!(reason(table.before_insert(&mut c, TREE, b"k", mark, NoWait)), Reason::Busy);
    table.release_all(&mut a);
    assert_empty(&table);
}

/// Rule: I53. The one that wrote more is aborted, because the server says so.
#[test]
fn the_server_may_choose_the_deadlock_victim() {
    let (table, _) = served();
    let (mut a, mut b) = (table.begin(1), table.begin(2));
    b.owner().set_writes(1000);
    table.lock_row(&mut a, TREE, b"a", Exclusive, NoWait).unwrap();
    table.lock_row(&mut b, TREE, b"b", Exclusive, NoWait).unwrap();
    let other = {
        let table = table.clone();
        thread::spawn(move || {
            let denied = table.lock_row(&mut b, TREE, b"a", Exclusive, Forever);
            table.release_all(&mut b);
            denied
        })
    };
    until_waiting(&table, 1);
    assert_eq!(table.lock_row(&mut a, TREE, b"b", Exclusive, Forever), Ok(Taken::New));
    let ended = other.join().unwrap();
    // By the cycle, or by the server's interrupt if it is notified of the wait first.
    assert!(matches!(reason(ended), Reason::Deadlock | Reason::Interrupted));
    table.release_all(&mut a);
    assert_empty(&table);
}
