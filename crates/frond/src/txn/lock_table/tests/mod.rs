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
        "locks: an insert passes by gaps" => ranges::inserts_of_others_wait_for_a_gap,
        "locks: a cursor that goes back locks nothing" => ranges::a_cursor_has_one_interval_that_grows,
        "locks: what cannot be read is one's own" =>
            oracle::beyond::what_cannot_be_found_out_is_held_against_others_and_not_for_oneself,
        "locks: the killed stay in the queue" => waiting::a_killed_waiter_leaves_at_once_and_leaves_nothing,
        "locks: what was newly taken stays" => rows::unlock_last_gives_back_what_the_last_call_newly_took,
        "locks: a wait that failed keeps the row" => oracle::histories_beyond_memory,
        "locks: rows that left memory are in no filter" => oracle::histories_beyond_memory,
        "locks: a wait outlasts its time" => waiting::a_wait_in_real_time_lasts_no_longer_than_it_is_to,
        "locks: an upgrade queues after others" => rows::an_upgrade_comes_before_those_who_wait,
        "locks: a release wakes no waiter" => rows::a_release_grants_who_came_first,
        "locks: intents of before are not asked for" => tables::tables_are_locked_by_the_usual_modes,
        "locks: an owner that does not wait is in a cycle" => cycles::who_has_no_time_to_wait_is_in_no_cycle,
        "locks: a transaction locks all that there is" => rows::locks_of_what_is_not_written_have_a_part_of_memory,
        "locks: cycles are not searched" => cycles::the_searcher_is_ended_if_it_has_written_least,
    };
    crate::plant::assert_claims_hold("locks", claims);
}
