//! Transactions that are asked to stop, and what a server hears of waits and has a say in (Rule: I53).

use std::sync::{Mutex, mpsc};

use frond::{LockHooks, LockParty};

use super::*;

fn is_interrupted<T: std::fmt::Debug>(outcome: Result<T, Error>) {
    let error = outcome.unwrap_err();
    assert!(matches!(error, Error::Interrupted), "{error}");
}

#[test]
fn a_wait_ends_at_once_and_so_does_all_that_comes_until_it_is_cleared() {
    let store = store(true);
    let options = TxnOptions { lock_timeout: None, ..Default::default() };
    let (holder, waiter) = (store.begin(Isolation::Snapshot), store.db.begin(options).unwrap());
    holder.put(&store.tree, b"1", b"11").unwrap();
    waiter.put(&store.tree, b"2", b"21").unwrap();
    let interrupter = waiter.interrupter().unwrap();
    thread::scope(|scope| {
        let waits = scope.spawn(|| waiter.put(&store.tree, b"1", b"12"));
        store.until_waiting(1);
        interrupter.interrupt();
        is_interrupted(waits.join().unwrap());
    });
    assert!(waiter.is_interrupted());
    is_interrupted(waiter.get(&store.tree, b"2"));
    is_interrupted(waiter.put(&store.tree, b"free", b""));
    is_interrupted(waiter.scan(&store.tree, ..));
    // What takes back is not what it was asked to stop.
    let savepoint = waiter.savepoint().unwrap();
    waiter.rollback_to(&savepoint).unwrap();
    waiter.release(&savepoint).unwrap();
    waiter.clear_interrupt();
    assert_eq!(get(&waiter, &store.tree, "2").as_deref(), Some("21"));
    interrupter.interrupt();
    // The commit has nothing to wait for.
    waiter.commit().unwrap();
    holder.rollback();
    assert_eq!(store.rows(), pairs(&[("1", "10"), ("2", "21")]));
    store.is_at_rest();
}

#[test]
fn scans_stop_where_they_are_and_go_on_from_there() {
    let store = store(true);
    for isolation in [Isolation::Snapshot, Isolation::Serializable] {
        let txn = store.begin(isolation);
        let interrupter = txn.interrupter().unwrap();
        let mut cursor = txn.scan(&store.tree, ..).unwrap();
        assert_eq!(cursor.next().unwrap().unwrap().0, b"1");
        interrupter.interrupt();
        is_interrupted(cursor.next());
        is_interrupted(cursor.next());
        txn.clear_interrupt();
        assert_eq!(cursor.next().unwrap().unwrap().0, b"2");
    }
    store.is_at_rest();
}

/// What transactions are made of goes from one to the next.
#[test]
fn an_interrupt_that_comes_late_is_for_nobody() {
    let store = store(false);
    let mut late = Vec::new();
    for round in 0..100 {
        let txn = store.begin(Isolation::Snapshot);
        late.iter().for_each(frond::Interrupter::interrupt);
        assert!(!txn.is_interrupted());
        if round % 2 == 0 {
            late.push(txn.interrupter().unwrap());
            late[late.len() - 1].interrupt();
            is_interrupted(txn.put(&store.tree, b"1", b""));
            txn.clear_interrupt();
        }
        txn.put(&store.tree, b"1", b"kept").unwrap();
        late.push(txn.interrupter().unwrap());
        txn.commit().unwrap();
    }
    store.is_at_rest();
}

#[derive(Debug, Default)]
struct Server {
    told: Arc<Mutex<Vec<(u64, u64)>>>,
}

/// Tags are numbers of a log in whose order all must commit; from 100 on their order is settled elsewhere.
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
    let tree = db.create_tree("t", TreeOptions { unique: true, ..Default::default() }).unwrap();
    tree.put(b"1", b"10").unwrap();
    tree.put(b"2", b"20").unwrap();
    (Store { db, tree, _dir: dir }, told)
}

fn tagged(store: &Store, tag: u64) -> Txn {
    let isolation = Isolation::RepeatableRead;
    store.db.begin(TxnOptions { isolation, tag, ..Default::default() }).unwrap()
}

#[test]
fn the_later_one_gives_way_where_commits_must_come_in_order() {
    let (store, told) = served();
    let (early, late) = (tagged(&store, 1), tagged(&store, 2));
    late.put(&store.tree, b"1", b"late").unwrap();
    thread::scope(|scope| {
        let waits = scope.spawn(|| early.put(&store.tree, b"1", b"early"));
        // The server of the later one sees that it was asked to stop.
        while !late.is_interrupted() {
            thread::yield_now();
        }
        is_interrupted(late.put(&store.tree, b"2", b"late"));
        late.rollback();
        waits.join().unwrap().unwrap();
    });
    early.commit().unwrap();
    assert_eq!(*told.lock().unwrap(), [(1, 2)]);
    assert_eq!(store.rows(), pairs(&[("1", "early"), ("2", "20")]));
    store.is_at_rest();
}

#[test]
fn the_server_says_who_of_a_circle_goes() {
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
    store.is_at_rest();
}

#[test]
fn gaps_do_not_stand_between_those_whose_order_is_settled() {
    let (store, told) = served();
    let (scanner, other) = (tagged(&store, 101), tagged(&store, 102));
    let mut cursor = scanner.scan_locked(&store.tree, .., RowLock::Shared, IfLocked::Wait).unwrap();
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
    store.is_at_rest();
}

/// Whoever is asked waits until others have begun a wait elsewhere and ended it.
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
        // Were others kept away they would be so for ever.
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

/// Rule: I53: a server that is asked takes its time, and nobody else's.
#[test]
fn others_wait_and_end_their_waits_while_a_server_is_asked() {
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
    let tree = db.create_tree("t", TreeOptions { unique: true, ..Default::default() }).unwrap();
    for key in [b"1", b"2", b"3", b"9"] {
        tree.put(key, b"").unwrap();
    }
    let store = Store { db, tree, _dir: dir };
    let isolation = Isolation::ReadCommitted;
    let blocker = store.begin(isolation);
    blocker.put(&store.tree, b"9", b"").unwrap();
    let lock_timeout = Some(Duration::ZERO);
    let asks = TxnOptions { isolation, lock_timeout, ..Default::default() };
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
        let mut scan = holds.scan_locked(tree, range, RowLock::Shared, IfLocked::Wait).unwrap();
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
