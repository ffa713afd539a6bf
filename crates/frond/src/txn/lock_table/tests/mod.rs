//! Tests of the lock table as a whole. `oracle` compares it with the definition; the others test
//! named properties.

#[cfg(not(shuttle))]
mod cycles;
#[cfg(not(shuttle))]
mod held;
#[cfg(shuttle)]
mod interleavings;
#[cfg(not(shuttle))]
mod oracle;
#[cfg(not(shuttle))]
mod ranges;
#[cfg(not(shuttle))]
mod rows;
#[cfg(not(shuttle))]
mod storm;
#[cfg(not(shuttle))]
mod tables;
#[cfg(not(shuttle))]
mod waiting;

use std::time::Duration;

use super::*;
#[cfg(not(shuttle))]
use crate::sync::thread;
use crate::{
    TreeId,
    cancel::{CancelSource, CancelToken, Sleepers},
    io::Clock,
    sync::{AtomicBool, Ordering},
};

const TREE: TreeId = TreeId(7);
#[cfg(not(shuttle))]
const OTHER: TreeId = TreeId(8);

/// A clock that advances only when told to.
#[derive(Debug, Default)]
struct ManualClock(Mutex<Duration>);

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        *self.0.lock().unwrap()
    }
    fn wall(&self) -> Duration {
        self.now()
    }
    fn sleep(&self, time: Duration) {
        *self.0.lock().unwrap() += time;
    }
}

/// A cancellation source that a test triggers.
#[derive(Debug, Default)]
struct Stop(AtomicBool, Sleepers);

impl Stop {
    fn ask(&self) {
        self.0.store(true, Ordering::SeqCst);
        self.1.wake();
    }
}

impl CancelSource for Arc<Stop> {
    fn is_interrupted(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
    fn sleepers(&self) -> &Sleepers {
        &self.1
    }
}

fn table() -> Arc<LockTable> {
    Arc::new(LockTable::new(Arc::new(ManualClock::default())))
}

fn timed() -> (Arc<LockTable>, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    (Arc::new(LockTable::new(clock.clone())), clock)
}

/// Returns when `count` owners wait.
#[cfg(not(shuttle))]
fn until_waiting(table: &LockTable, count: usize) {
    while table.waits().len() != count {
        thread::yield_now();
    }
}

/// Asserts that nothing is left in the table.
fn assert_empty(table: &LockTable) {
    let stats = table.stats();
    assert_eq!((stats.locks, stats.ranges), (0, 0), "lock table, invariant 1");
    assert!(table.waits().is_empty());
    assert!(table.strong.iter().all(|count| count.load(Ordering::SeqCst) == 0));
}

fn reason<T: std::fmt::Debug>(result: Result<T, LockError>) -> Reason {
    result.unwrap_err().reason
}

/// Rules: I3, I32, I33, I46, I52, I53, I54.
#[cfg(all(feature = "planted-bugs", not(shuttle)))]
#[test]
fn planted_bugs_are_caught() {
    let claims = claims! {
        "locks: an insert passes by gaps" => ranges::inserts_into_a_locked_gap_wait_for_its_holder,
        "locks: a cursor that goes back locks nothing" =>
            ranges::a_cursor_extends_a_single_interval,
        "locks: what cannot be read is one's own" =>
            oracle::spilled::unreadable_spilled_writes_block_only_other_transactions,
        "locks: the killed stay in the queue" =>
            waiting::a_killed_waiter_leaves_the_queue_at_once_and_holds_nothing,
        "locks: what was newly taken stays" =>
            rows::unlock_last_releases_only_what_the_last_call_acquired,
        "locks: a wait that failed keeps the row" => oracle::histories_beyond_memory,
        "locks: rows that left memory are in no filter" => oracle::histories_beyond_memory,
        "locks: a wait outlasts its time" =>
            waiting::a_wait_in_real_time_ends_soon_after_its_deadline,
        "locks: an upgrade queues after others" =>
            rows::an_upgrade_is_granted_before_waiting_requests,
        "locks: a release wakes no waiter" => rows::a_release_grants_requests_in_arrival_order,
        "locks: intents of before are not asked for" =>
            tables::tables_are_locked_in_the_standard_modes,
        "locks: an owner that does not wait is in a cycle" =>
            cycles::a_call_without_wait_time_is_in_no_cycle,
        "locks: a transaction locks all that there is" =>
            rows::locks_of_unwritten_rows_have_a_memory_limit,
        "locks: cycles are not searched" =>
            cycles::the_detecting_transaction_is_the_victim_if_it_wrote_least,
    };
    crate::plant::assert_claims_hold("locks", claims);
}
