//! Tests that lock waits end exactly by the store's clock: waits for a row, and waits for batches
//! that passed the gate before it was closed.

use std::time::Duration;

use super::*;
use crate::{
    Durability, Options,
    io::{Clock, Env, MemoryVfs, Workers},
    sync::{AtomicU64, Ordering, thread},
};

/// A clock that advances only when told to, and counts how often it is read.
#[derive(Debug, Default)]
struct Hands(Mutex<Duration>, AtomicU64);

impl Clock for Hands {
    fn now(&self) -> Duration {
        self.1.fetch_add(1, Ordering::SeqCst);
        *self.0.lock().unwrap()
    }
    fn wall(&self) -> Duration {
        self.now()
    }
    fn sleep(&self, time: Duration) {
        *self.0.lock().unwrap() += time;
    }
}

const TICK: Duration = Duration::from_nanos(1);
const TIMEOUT: Duration = Duration::from_millis(20);

fn open() -> (Db, Tree, Arc<Hands>) {
    let clock = Arc::new(Hands::default());
    let vfs = Arc::new(MemoryVfs::new());
    let env = Env { vfs, clock: clock.clone(), workers: Workers::Manual, ..Env::real() };
    let options = Options::new().cache_size(8 << 20).durability(Durability::Lazy).env(env);
    let db = Db::open("/store", options).unwrap();
    let tree = db.create_tree("t", Default::default()).unwrap();
    (db, tree, clock)
}

/// The result of a call of a transaction, and when it ended.
fn waits(db: &Db, tree: &Tree) -> (Result<()>, Duration) {
    let options = TxnOptions::new().lock_timeout(Some(TIMEOUT));
    let txn = db.begin(options).unwrap();
    let put = txn.put(tree, b"k", b"");
    (put, db.shared.engine.env.clock.now())
}

/// Lets other threads run: a wait that ends too early does so here.
fn rest() {
    for _ in 0..20 {
        std::thread::sleep(Duration::from_micros(100));
    }
}

#[test]
fn a_wait_for_a_row_ends_by_the_clock() {
    let (db, tree, clock) = open();
    let holder = db.begin(Default::default()).unwrap();
    holder.put(&tree, b"k", b"").unwrap();
    let begin = clock.now();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| waits(&db, &tree));
        while db.lock_waits().is_empty() {
            thread::yield_now();
        }
        clock.sleep(TIMEOUT - TICK);
        db.shared.locking.table.expire();
        rest();
        assert_eq!(db.lock_waits().len(), 1, "there is a tick left");
        clock.sleep(TICK);
        db.shared.locking.table.expire();
        let (put, at) = waiter.join().unwrap();
        assert!(matches!(put, Err(Error::LockTimeout { .. })), "{put:?}");
        assert_eq!(at - begin, TIMEOUT);
    });
}

/// The time spent waiting at the gate is not available again for the row.
#[test]
fn a_wait_at_the_gate_ends_by_the_clock() {
    let (db, tree, clock) = open();
    let batch = db.shared.locking.gate.pass(0).expect("no transaction holds locks");
    let begin = clock.now();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| waits(&db, &tree));
        while db.shared.locking.gate.pass(0).is_some() {
            thread::yield_now();
        }
        // The gate is closed: from here on only that wait reads the clock.
        let reads = clock.1.load(Ordering::SeqCst);
        while clock.1.load(Ordering::SeqCst) < reads + 3 {
            thread::yield_now();
        }
        clock.sleep(TIMEOUT - TICK);
        rest();
        assert!(!waiter.is_finished(), "there is a tick left");
        clock.sleep(TICK);
        let (put, at) = waiter.join().unwrap();
        assert!(matches!(put, Err(Error::LockTimeout { .. })), "{put:?}");
        assert_eq!(at - begin, TIMEOUT);
    });
    drop(batch);
    let holder = db.begin(Default::default()).unwrap();
    holder.put(&tree, b"k", b"").unwrap();
    let late = db.begin(TxnOptions::new().lock_timeout(Some(Duration::ZERO)));
    let put = late.unwrap().put(&tree, b"k", b"");
    assert!(matches!(put, Err(Error::LockTimeout { .. })), "{put:?}");
}
