//! Tests of first-committer-wins, also for a transaction that waits for the first (Rule: I27).

use super::*;
use crate::{
    Durability, Options,
    io::{Env, MemoryVfs},
    sync::thread,
};

/// The second writer has seen the old row and waits for the first writer. It must not use
/// what it has seen, and can know that only once it has the lock. This thread is the one that
/// waits, so that the planted bug is armed for it.
#[test]
fn a_row_is_checked_again_after_a_wait_for_its_lock() {
    for gives_up in [false, true] {
        let env = Env { vfs: Arc::new(MemoryVfs::new()), ..Env::real() };
        let options = Options::new().cache_size(8 << 20).durability(Durability::Lazy).env(env);
        let db = Db::open("/store", options).unwrap();
        let tree = db.create_tree("t", Default::default()).unwrap();
        tree.put(b"row", b"1").unwrap();
        let begin = || db.begin(TxnOptions::new().lock_timeout(None)).unwrap();
        let (first, second) = (begin(), begin());
        assert_eq!(second.get(&tree, b"row").unwrap().as_deref(), Some(&b"1"[..]));
        first.put(&tree, b"row", b"2").unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                while db.lock_waits().is_empty() {
                    thread::yield_now();
                }
                match gives_up {
                    true => first.rollback(),
                    false => drop(first.commit().unwrap()),
                }
            });
            let put = second.put(&tree, b"row", b"3");
            match gives_up {
                true => put.unwrap(),
                false => assert!(matches!(put, Err(Error::Conflict { .. })), "I27: {put:?}"),
            }
        });
    }
}

#[cfg(feature = "planted-bugs")]
#[test]
fn planted_bugs_are_caught() {
    let claims = claims! {
        "txn: a conflict is looked for before the lock" =>
            a_row_is_checked_again_after_a_wait_for_its_lock,
    };
    crate::plant::assert_claims_hold("conflicts", claims);
}
