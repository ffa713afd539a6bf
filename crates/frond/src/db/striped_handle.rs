//! Striped reference counts by which transactions hold the store open.
//!
//! A transaction keeps its store open. If each cloned the one `Arc` of all handles, threads that
//! begin and end one-row transactions would contend for that reference count's cache line, which
//! costs more than what they read. So the handles of a store own several striped handles, each
//! of which holds the store, and a transaction clones the one of its thread.
//!
//! Invariants
//! 1. The store itself holds no striped handle, and neither does what it keeps of ended
//!    transactions (`session/pool.rs`): so nothing that the store owns keeps it open.
//! 2. A striped handle is dropped with the last [`Db`](super::Db) and the last transaction that
//!    uses it, whichever is later; the store closes with its last holder, striped handles included.
//!
//! Threads: all. Cost of a transaction: an increment and a decrement, on a cache line that few
//! threads share.

use std::{fmt, ops::Deref};

use crate::{
    db::Shared,
    sync::{Arc, thread_number},
};

/// Number of stripes: as many as the transaction pool has slots.
const STRIPES: usize = if cfg!(shuttle) { 2 } else { 64 };

/// One stripe: holds the store, with a reference count on a cache line of its own.
#[repr(align(64))]
pub(super) struct StripedHandle(Arc<Shared>);

/// All striped handles of a store, held by handles that can begin transactions.
#[derive(Clone)]
pub(super) struct StripedHandles(Arc<[Arc<StripedHandle>]>);

impl StripedHandles {
    pub fn new(shared: &Arc<Shared>) -> Self {
        Self((0..STRIPES).map(|_| Arc::new(StripedHandle(shared.clone()))).collect())
    }

    /// The striped handle of the calling thread.
    pub fn own(&self) -> Arc<StripedHandle> {
        self.0[thread_number() % STRIPES].clone()
    }
}

impl StripedHandle {
    /// The store, for a handle that is not a transaction.
    pub fn store(&self) -> Arc<Shared> {
        self.0.clone()
    }
}

impl Deref for StripedHandle {
    type Target = Arc<Shared>;

    #[inline]
    fn deref(&self) -> &Arc<Shared> {
        &self.0
    }
}

impl fmt::Debug for StripedHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StripedHandle").field(&self.0).finish()
    }
}

impl fmt::Debug for StripedHandles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StripedHandles").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use std::path::Path;

    use crate::{
        Db, Error, Isolation, Options, Tree, TxnOptions,
        sync::{Arc, Weak, thread},
    };

    /// What must be dropped with a store: the state that its handles share, and the engine that its
    /// threads hold.
    struct Remains(Weak<super::Shared>, Weak<crate::pipeline::Engine>);

    impl Remains {
        fn of(db: &Db) -> Self {
            Self(Arc::downgrade(&db.shared), Arc::downgrade(&db.shared.engine))
        }

        fn must_be_none(&self, dir: &Path) {
            assert_eq!(self.0.strong_count(), 0, "no handle holds the store");
            assert_eq!(self.1.strong_count(), 0, "its threads have ended");
            // Its files are closed, and it needs no recovery.
            Db::open(dir, Options::new()).unwrap().close().unwrap();
        }
    }

    fn open(dir: &Path) -> (Db, Tree) {
        let db = Db::open(dir, Options::new()).unwrap();
        let tree = db.create_tree("t", Default::default()).unwrap();
        tree.put(b"k", b"v").unwrap();
        (db, tree)
    }

    /// Runs one transaction of each kind that leaves something in the pool.
    fn use_it(db: &Db, tree: &Tree, key: &[u8]) {
        for isolation in [Isolation::ReadCommitted, Isolation::Snapshot] {
            for read_only in [true, false] {
                let options = TxnOptions::new().isolation(isolation).read_only(read_only);
                let txn = db.begin(options).unwrap();
                txn.get(tree, key).unwrap();
                if !read_only {
                    txn.put(tree, key, b"w").unwrap();
                }
                txn.commit().unwrap();
            }
        }
    }

    #[test]
    fn a_store_with_pooled_transaction_state_closes_with_its_last_handle() {
        let dir = tempfile::tempdir().unwrap();
        let (db, tree) = open(dir.path());
        use_it(&db, &tree, b"k");
        let remains = Remains::of(&db);
        let other = db.clone();
        drop((db, tree));
        assert!(matches!(Db::open(dir.path(), Options::new()), Err(Error::Locked { .. })));
        drop(other);
        remains.must_be_none(dir.path());
    }

    #[test]
    fn a_store_closes_after_threads_have_used_it_and_ended() {
        let dir = tempfile::tempdir().unwrap();
        let (db, tree) = open(dir.path());
        let threads: Vec<_> = (0..8u8)
            .map(|key| {
                let (db, tree) = (db.clone(), tree.clone());
                thread::spawn(move || (0..16).for_each(|_| use_it(&db, &tree, &[key])))
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let remains = Remains::of(&db);
        drop((db, tree));
        remains.must_be_none(dir.path());
    }

    /// A transaction may also be begun by another thread than the one that ends it.
    #[test]
    fn a_transaction_outlives_the_handles_and_then_the_store_closes() {
        for ends_elsewhere in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let (db, tree) = open(dir.path());
            use_it(&db, &tree, b"k");
            let remains = Remains::of(&db);
            let txn = db.begin(Default::default()).unwrap();
            txn.put(&tree, b"k", b"last").unwrap();
            drop((db, tree));
            assert!(matches!(Db::open(dir.path(), Options::new()), Err(Error::Locked { .. })));
            let _seqno = match ends_elsewhere {
                true => thread::spawn(move || txn.commit().unwrap()).join().unwrap(),
                false => txn.commit().unwrap(),
            };
            remains.must_be_none(dir.path());
            let db = Db::open(dir.path(), Options::new()).unwrap();
            let tree = db.open_tree("t").unwrap();
            assert_eq!(tree.get(b"k").unwrap().as_deref(), Some(&b"last"[..]));
        }
    }

    /// Handles that cannot begin transactions hold the store without a striped handle.
    #[test]
    fn a_tree_and_a_cursor_outlive_the_striped_handles() {
        let dir = tempfile::tempdir().unwrap();
        let (db, tree) = open(dir.path());
        use_it(&db, &tree, b"k");
        let remains = Remains::of(&db);
        let mut cursor = tree.scan(..).unwrap();
        drop(db);
        assert!(tree.get(b"k").unwrap().is_some());
        drop(tree);
        assert!(cursor.next().unwrap().is_some());
        drop(cursor);
        remains.must_be_none(dir.path());
    }

    /// Threads count in striped handles of their own, not in the reference count of the handles.
    #[test]
    fn transactions_are_not_counted_among_the_handles() {
        let dir = tempfile::tempdir().unwrap();
        let (db, tree) = open(dir.path());
        let handles = Arc::strong_count(&db.shared);
        let options = TxnOptions::new().read_only(true);
        let txn = db.begin(options).unwrap();
        assert!(txn.get(&tree, b"k").unwrap().is_some());
        assert_eq!(Arc::strong_count(&db.shared), handles);
        let elsewhere = thread::spawn({
            let db = db.clone();
            move || {
                let handles = Arc::strong_count(&db.shared);
                let txn = db.begin(Default::default()).unwrap();
                assert_eq!(Arc::strong_count(&db.shared), handles);
                drop(txn);
            }
        });
        elsewhere.join().unwrap();
        drop(txn);
        db.close().unwrap();
        assert!(matches!(db.begin(Default::default()), Err(Error::Closed)));
    }
}
