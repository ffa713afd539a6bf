//! Interrupted transactions, and the hooks by which a server observes and influences lock waits
//! (Rule: I53).

use std::sync::{Mutex, mpsc};

use frond::{
    Interrupter, ReadOptions,
    lock::{LockHooks, LockParty},
    operator::MergeOperator,
    transaction::Xid,
};

use super::*;

fn is_interrupted<T: std::fmt::Debug>(outcome: Result<T, Error>) {
    let error = outcome.unwrap_err();
    assert!(matches!(error, Error::Interrupted), "{error}");
}

#[test]
fn an_interrupt_ends_waits_and_all_calls_until_it_is_cleared() {
    let store = store(true);
    let options = TxnOptions::new().lock_timeout(None);
    let (holder, waiter) = (store.begin(Isolation::Snapshot), store.db.begin(options).unwrap());
    holder.put(&store.tree, b"1", b"11").unwrap();
    waiter.put(&store.tree, b"2", b"21").unwrap();
    let interrupter = waiter.control().interrupter().unwrap();
    thread::scope(|scope| {
        let waits = scope.spawn(|| waiter.put(&store.tree, b"1", b"12"));
        store.until_waiting(1);
        interrupter.interrupt();
        is_interrupted(waits.join().unwrap());
    });
    assert!(waiter.control().is_interrupted());
    is_interrupted(waiter.get(&store.tree, b"2"));
    is_interrupted(waiter.put(&store.tree, b"free", b""));
    is_interrupted(waiter.scan(&store.tree, ..));
    // A rollback is not interrupted.
    let savepoint = waiter.savepoint().unwrap();
    waiter.rollback_to(&savepoint).unwrap();
    waiter.release(&savepoint).unwrap();
    waiter.control().clear_interrupt();
    assert_eq!(get(&waiter, &store.tree, "2").as_deref(), Some("21"));
    interrupter.interrupt();
    // The commit has nothing to wait for.
    waiter.commit().unwrap();
    holder.rollback();
    assert_eq!(store.rows(), pairs(&[("1", "10"), ("2", "21")]));
    store.is_idle();
}

/// A session whose transactions follow each other, and a thread that interrupts it.
#[test]
fn a_session_interrupter_stops_each_of_its_transactions() {
    let store = store(true);
    let session = Interrupter::new();
    let begin = || {
        let options = TxnOptions::new().lock_timeout(None);
        let txn = store.db.begin(options).unwrap();
        txn.control().set_interrupter(&session).unwrap();
        txn
    };
    let holder = store.begin(Isolation::Snapshot);
    holder.put(&store.tree, b"1", b"11").unwrap();
    for round in 0..3 {
        let txn = begin();
        thread::scope(|scope| {
            let waits = scope.spawn(|| txn.put(&store.tree, b"1", b"12"));
            store.until_waiting(1);
            session.interrupt();
            is_interrupted(waits.join().unwrap());
        });
        is_interrupted(txn.get(&store.tree, b"2"));
        is_interrupted(txn.count(&store.tree, ..));
        if round == 1 {
            // The interrupt is not cleared: the session's next transaction stops, too.
            drop(txn);
            let next = begin();
            is_interrupted(next.get(&store.tree, b"2"));
            session.clear();
            assert_eq!(get(&next, &store.tree, "2").as_deref(), Some("20"));
            continue;
        }
        session.clear();
        assert!(!txn.control().is_interrupted());
        txn.put(&store.tree, b"2", b"20").unwrap();
        txn.commit().unwrap();
    }
    // Transactions of another session, or of none, go on.
    let (ended, other) = (begin(), store.begin(Isolation::Snapshot));
    drop(ended);
    session.interrupt();
    assert_eq!(get(&other, &store.tree, "2").as_deref(), Some("20"));
    let own = other.control().interrupter().unwrap();
    assert_eq!(other.control().set_interrupter(&own).unwrap_err().kind(), ErrorKind::FixCall);
    drop((holder, other));
    store.is_idle();
}

#[test]
fn an_interrupted_scan_resumes_where_it_stopped() {
    let store = store(true);
    for isolation in [Isolation::Snapshot, Isolation::Serializable] {
        let txn = store.begin(isolation);
        let interrupter = txn.control().interrupter().unwrap();
        let mut cursor = txn.scan(&store.tree, ..).unwrap();
        assert_eq!(cursor.next().unwrap().unwrap().0, b"1");
        interrupter.interrupt();
        is_interrupted(cursor.next());
        is_interrupted(cursor.next());
        txn.control().clear_interrupt();
        assert_eq!(cursor.next().unwrap().unwrap().0, b"2");
    }
    store.is_idle();
}

/// A late interrupt does not reach a later transaction that reuses internal state.
#[test]
fn a_late_interrupt_does_not_reach_a_later_transaction() {
    let store = store(false);
    let mut late = Vec::new();
    for round in 0..100 {
        let txn = store.begin(Isolation::Snapshot);
        late.iter().for_each(Interrupter::interrupt);
        assert!(!txn.control().is_interrupted());
        if round % 2 == 0 {
            late.push(txn.control().interrupter().unwrap());
            late[late.len() - 1].interrupt();
            is_interrupted(txn.put(&store.tree, b"1", b""));
            txn.control().clear_interrupt();
        }
        txn.put(&store.tree, b"1", b"kept").unwrap();
        late.push(txn.control().interrupter().unwrap());
        txn.commit().unwrap();
    }
    store.is_idle();
}

#[derive(Debug, Default)]
struct Server {
    told: Arc<Mutex<Vec<(u64, u64)>>>,
}

/// Tags are positions in a log in whose order all must commit; from 100 on their order is settled
/// elsewhere.
impl LockHooks for Server {
    fn on_wait(&self, waiter: &LockParty, holder: &LockParty) {
        self.told.lock().unwrap().push((waiter.tag(), holder.tag()));
        if (1..100).contains(&waiter.tag()) && holder.tag() > waiter.tag() {
            holder.interrupt();
        }
    }

    fn prefer(&self, a: &LockParty, b: &LockParty) -> Option<u64> {
        Some(if a.tag() > b.tag() { a.id() } else { b.id() })
    }

    fn needs_order(&self, inserter: &LockParty, holder: &LockParty) -> bool {
        inserter.tag() < 100 || holder.tag() < 100
    }
}

type Told = Arc<Mutex<Vec<(u64, u64)>>>;

fn served() -> (Store, Told) {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::default();
    let told = server.told.clone();
    let options = Options::new().cache_size(16 << 20).durability(Durability::Lazy);
    let db = Db::open(dir.path().join("store"), options.lock_hooks(server)).unwrap();
    let tree = db.create_tree("t", TreeOptions::new().unique(true)).unwrap();
    tree.put(b"1", b"10").unwrap();
    tree.put(b"2", b"20").unwrap();
    (Store { db, tree, _dir: dir }, told)
}

fn tagged(store: &Store, tag: u64) -> Txn {
    let isolation = Isolation::RepeatableRead;
    store.db.begin(TxnOptions::new().isolation(isolation).tag(tag)).unwrap()
}

#[test]
fn the_later_transaction_yields_if_commit_order_is_fixed() {
    let (store, told) = served();
    let (early, late) = (tagged(&store, 1), tagged(&store, 2));
    late.put(&store.tree, b"1", b"late").unwrap();
    thread::scope(|scope| {
        let waits = scope.spawn(|| early.put(&store.tree, b"1", b"early"));
        // The later one's server sees that it was interrupted.
        while !late.control().is_interrupted() {
            thread::yield_now();
        }
        is_interrupted(late.put(&store.tree, b"2", b"late"));
        late.rollback();
        waits.join().unwrap().unwrap();
    });
    early.commit().unwrap();
    assert_eq!(*told.lock().unwrap(), [(1, 2)]);
    assert_eq!(store.rows(), pairs(&[("1", "early"), ("2", "20")]));
    store.is_idle();
}

#[test]
fn the_server_chooses_the_deadlock_victim() {
    let (store, _) = served();
    let (keeps, goes) = (tagged(&store, 101), tagged(&store, 102));
    keeps.put(&store.tree, b"1", b"kept").unwrap();
    for key in [b"2", b"3", b"4"] {
        goes.put(&store.tree, key, b"more was written").unwrap();
    }
    thread::scope(|scope| {
        let waits = scope.spawn(|| goes.put(&store.tree, b"1", b""));
        store.until_waiting(1);
        keeps.put(&store.tree, b"2", b"kept").unwrap();
        let error = waits.join().unwrap().unwrap_err();
        assert!(matches!(error, Error::Deadlock { .. }), "{error}");
    });
    keeps.commit().unwrap();
    drop(goes);
    assert_eq!(store.rows(), pairs(&[("1", "kept"), ("2", "kept")]));
    store.is_idle();
}

#[test]
fn gap_locks_do_not_block_transactions_of_settled_order() {
    let (store, told) = served();
    let (scanner, other) = (tagged(&store, 101), tagged(&store, 102));
    let mut cursor =
        scanner.scan_with(&store.tree, .., &ReadOptions::new().lock(RowLock::Shared)).unwrap();
    while cursor.next().unwrap().is_some() {}
    drop(cursor);
    other.insert(&store.tree, b"15", b"").unwrap();
    assert!(told.lock().unwrap().is_empty());
    let stranger = tagged(&store, 3);
    thread::scope(|scope| {
        let waits = scope.spawn(|| stranger.insert(&store.tree, b"16", b""));
        store.until_waiting(1);
        scanner.rollback();
        waits.join().unwrap().unwrap();
    });
    assert_eq!(*told.lock().unwrap(), [(3, 101)]);
    other.commit().unwrap();
    stranger.commit().unwrap();
    store.is_idle();
}

/// A hook that waits until another pair of waiters has started and ended its wait.
#[derive(Debug)]
struct Slow {
    asked: Mutex<mpsc::Sender<bool>>,
    done: Mutex<mpsc::Receiver<()>>,
    questions: Arc<AtomicU64>,
    missed: Arc<AtomicU64>,
}

impl Slow {
    fn meanwhile(&self) {
        self.questions.fetch_add(1, Ordering::Relaxed);
        let _ = self.asked.lock().unwrap().send(true);
        // If the hook blocked the others, this would wait forever.
        if self.done.lock().unwrap().recv_timeout(Duration::from_secs(60)).is_err() {
            self.missed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl LockHooks for Slow {
    fn prefer(&self, a: &LockParty, b: &LockParty) -> Option<u64> {
        self.meanwhile();
        Some(if a.tag() > b.tag() { a.id() } else { b.id() })
    }

    fn needs_order(&self, inserter: &LockParty, holder: &LockParty) -> bool {
        self.meanwhile();
        inserter.tag() < 100 || holder.tag() < 100
    }
}

/// A slow hook does not delay other waits. Rule: I53.
#[test]
fn a_slow_server_hook_delays_no_other_wait() {
    let dir = tempfile::tempdir().unwrap();
    let ((asked, hears), (tells, done)) = (mpsc::channel(), mpsc::channel());
    let (questions, missed) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
    let hooks = Slow {
        asked: Mutex::new(asked.clone()),
        done: Mutex::new(done),
        questions: questions.clone(),
        missed: missed.clone(),
    };
    let options = Options::new().cache_size(16 << 20).durability(Durability::Lazy);
    let db = Db::open(dir.path().join("store"), options.lock_hooks(hooks)).unwrap();
    let tree = db.create_tree("t", TreeOptions::new().unique(true)).unwrap();
    for key in [b"1", b"2", b"3", b"9"] {
        tree.put(key, b"").unwrap();
    }
    let store = Store { db, tree, _dir: dir };
    let isolation = Isolation::ReadCommitted;
    let blocker = store.begin(isolation);
    blocker.put(&store.tree, b"9", b"").unwrap();
    let lock_timeout = Some(Duration::ZERO);
    let asks = TxnOptions::new().isolation(isolation).lock_timeout(lock_timeout);
    let asks = store.db.begin(asks).unwrap();
    let asked_by_now = || questions.load(Ordering::Relaxed);
    thread::scope(|scope| {
        let tree = &store.tree;
        scope.spawn(move || {
            while hears.recv().unwrap() {
                assert!(asks.get_for_update(tree, b"9").is_err(), "another has it");
                let _ = tells.send(());
            }
        });
        let (keeps, goes) = (tagged(&store, 101), tagged(&store, 102));
        keeps.put(tree, b"1", b"kept").unwrap();
        goes.put(tree, b"2", b"").unwrap();
        thread::scope(|scope| {
            let waits = scope.spawn(|| goes.put(tree, b"1", b""));
            store.until_waiting(1);
            keeps.put(tree, b"2", b"kept").unwrap();
            assert!(matches!(waits.join().unwrap(), Err(Error::Deadlock { .. })));
        });
        let of_circle = asked_by_now();
        assert!(of_circle > 0);
        keeps.commit().unwrap();
        drop(goes);
        let (holds, inserts) = (tagged(&store, 1), tagged(&store, 2));
        let range = &b"1"[..]..&b"8"[..];
        let mut scan =
            holds.scan_with(tree, range, &ReadOptions::new().lock(RowLock::Shared)).unwrap();
        while scan.next().unwrap().is_some() {}
        drop(scan);
        thread::scope(|scope| {
            let waits = scope.spawn(|| inserts.put(tree, b"4", b"new"));
            while store.db.lock_waits().is_empty() {
                thread::sleep(Duration::from_millis(1));
            }
            holds.commit().unwrap();
            waits.join().unwrap().unwrap();
        });
        assert!(asked_by_now() > of_circle);
        inserts.commit().unwrap();
        assert_eq!(missed.load(Ordering::Relaxed), 0, "others were kept away");
        asked.send(false).unwrap();
    });
    blocker.rollback();
}

const INTERRUPTS: u8 = 70;

/// An operator whose fold onto a value interrupts a transaction: the work that folds is interrupted
/// in the middle.
#[derive(Default)]
struct Interrupts(Mutex<Option<Interrupter>>);

impl MergeOperator for Interrupts {
    fn name(&self) -> &str {
        "interrupts"
    }

    fn merge(&self, base: Option<&[u8]>, operand: &[u8]) -> Vec<u8> {
        self.0.lock().unwrap().iter().for_each(Interrupter::interrupt);
        [base.unwrap_or_default(), operand].concat()
    }

    fn combine(&self, older: &[u8], newer: &[u8]) -> Vec<u8> {
        [older, newer].concat()
    }
}

/// A store whose transactions spill after some hundred rows, and the operator that interrupts one
/// of them.
fn interrupting() -> (Store, Arc<Interrupts>) {
    let (dir, interrupts) = (tempfile::tempdir().unwrap(), Arc::new(Interrupts::default()));
    let options = large::small_options(8 << 10).operator(INTERRUPTS, interrupts.clone());
    let db = Db::open(dir.path().join("store"), options).unwrap();
    let tree = db.create_tree("t", TreeOptions::default()).unwrap();
    (Store { db, tree, _dir: dir }, interrupts)
}

impl Store {
    /// Checks that nothing is left of a transaction that had spilled.
    fn has_nothing(&self) {
        assert!(self.rows().is_empty());
        self.db.checkpoint().unwrap();
        assert_eq!(self.db.stats().space_temporary_bytes, 0);
        self.is_idle();
    }
}

const MANY: u32 = 2000;

fn key(row: u32) -> Vec<u8> {
    format!("{row:06}").into_bytes()
}

/// Writes pieces of values, and of operands onto them, more than a commit takes. Savepoints keep
/// them from being merged earlier.
fn write_pieces(txn: &Txn, tree: &Tree) {
    for begin in (0..8 * MANY).step_by(MANY as usize) {
        let _ = txn.savepoint().unwrap();
        for row in begin..begin + MANY {
            txn.put(tree, &key(row), b"value").unwrap();
        }
        let _ = txn.savepoint().unwrap();
        for row in begin..begin + MANY {
            txn.merge(tree, &key(row), INTERRUPTS, b"operand").unwrap();
        }
    }
}

/// Enough rows for some four pieces: so few that pieces of operands are merged with them.
const FEW: u32 = 800;

/// An interrupt ends a merge of pieces where it is; the call is undone, and the transaction
/// continues. Rule: I53.
#[test]
fn an_interrupt_stops_a_call_that_merges_spilled_pieces() {
    let (store, interrupts) = interrupting();
    let txn = store.begin(Isolation::Snapshot);
    for row in 0..FEW {
        txn.put(&store.tree, &key(row), b"value").unwrap();
    }
    *interrupts.0.lock().unwrap() = Some(txn.control().interrupter().unwrap());
    let merge = |row: u32| txn.merge(&store.tree, &key(row % FEW), INTERRUPTS, b".");
    let mut row = 0;
    let stopped = loop {
        // If the transaction is interrupted, then by the call itself.
        assert!(!txn.control().is_interrupted(), "row {row}");
        match merge(row) {
            Ok(()) => row += 1,
            Err(error) => break error,
        }
    };
    is_interrupted::<()>(Err(stopped));
    assert!(!txn.is_over(), "nothing is lost");
    assert!(row < 3 * FEW, "{row}");
    *interrupts.0.lock().unwrap() = None;
    txn.control().clear_interrupt();
    for row in row..3 * FEW {
        merge(row).unwrap();
    }
    txn.commit().unwrap();
    let rows = store.rows();
    assert_eq!(rows.len(), FEW as usize);
    assert!(rows.iter().all(|(_, value)| value == "value..."));
    store.is_idle();
}

/// After an interrupted commit or prepare nothing is left of it. Rule: I53.
#[test]
fn an_interrupt_stops_a_commit_that_merges_spilled_pieces() {
    for prepares in [false, true] {
        let (store, interrupts) = interrupting();
        let txn = store.begin(Isolation::Snapshot);
        write_pieces(&txn, &store.tree);
        *interrupts.0.lock().unwrap() = Some(txn.control().interrupter().unwrap());
        let xid = Xid::new(b"stopped").unwrap();
        match prepares {
            false => is_interrupted(txn.commit()),
            true => is_interrupted(txn.prepare(&xid)),
        }
        assert!(store.db.prepared().is_empty());
        store.has_nothing();
        // The name is free again.
        let again = store.begin(Isolation::Snapshot);
        again.put(&store.tree, &key(1), b"again").unwrap();
        again.prepare(&xid).unwrap().commit().unwrap();
        assert_eq!(store.tree.get(&key(1)).unwrap().as_deref(), Some(&b"again"[..]));
    }
}

/// An interrupted prepare gives up what it still has to spill. Rule: I53.
#[test]
fn an_interrupt_stops_a_prepare_that_spills() {
    let (store, interrupts) = interrupting();
    let stats = |name: &str| store.db.stats().get(name).unwrap();
    // Writes until just before the call that would spill; the number of calls for that is found by
    // a first transaction.
    let write = |txn: &Txn, calls: u32| {
        let left = (0..calls).find(|call| {
            match call % 2 {
                0 => txn.put(&store.tree, &key(call / 2), b"value"),
                _ => txn.merge(&store.tree, &key(call / 2), INTERRUPTS, b"operand"),
            }
            .unwrap();
            stats("space_temporary_bytes") > 0
        });
        left.unwrap_or(calls)
    };
    let txn = store.begin(Isolation::Snapshot);
    let calls = write(&txn, u32::MAX);
    drop(txn);
    store.db.checkpoint().unwrap();
    let txn = store.begin(Isolation::Snapshot);
    assert_eq!(write(&txn, calls), calls);
    let written = stats("store_writes");
    *interrupts.0.lock().unwrap() = Some(txn.control().interrupter().unwrap());
    is_interrupted(txn.prepare(&Xid::new(b"stopped").unwrap()));
    assert_eq!(stats("store_writes"), written);
    assert!(store.db.prepared().is_empty());
    store.has_nothing();
}
