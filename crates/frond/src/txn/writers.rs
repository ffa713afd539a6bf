//! Who is writing a tree: transactions that have entries of it and are not done.
//!
//! One a tree. A transaction enters at its first write of the tree, after that entry is in its write set,
//! and leaves when it is visible or rolled back. Who locks a range finds here whom to ask for pending keys
//! (Rule: I33, [`LiveWrites`]).
//!
//! Invariant: of a writer that has appended a key and then entered, and a locker that has registered its
//! range and then looks, the locker finds the writer, or the writer afterwards finds the lock.
//!
//! Threads: all. Writers are spread over a few lists, each with its own lock, held for a push or a copy; a
//! look passes by lists without writers with one load.

use super::LiveWrites;
use crate::sync::{Arc, AtomicUsize, Mutex, OnceLock, Ordering, fence};

/// A short transaction is in a list for some microseconds, and takes its lock twice for some ten
/// nanoseconds: four lists bear a hundred threads. Who looks reads one cache line each.
const LISTS: usize = 4;

/// One list on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct List {
    count: AtomicUsize,
    writers: Mutex<Vec<Arc<LiveWrites>>>,
}

/// The writers of one tree.
#[derive(Debug, Default)]
pub struct TreeWriters {
    /// Made for the first writer: most of very many trees have none.
    lists: OnceLock<Box<[List; LISTS]>>,
}

impl TreeWriters {
    /// Lists a writer, which has appended its first entry of the tree. Once.
    pub fn enter(&self, writer: &Arc<LiveWrites>) {
        let list = Self::list(self.lists.get_or_init(Box::default), writer);
        let mut writers = list.writers.lock().unwrap();
        writers.push(writer.clone());
        // Pairs with the load in `others`: the fence below is between it and the look for range locks.
        list.count.store(writers.len(), Ordering::Release);
        drop(writers);
        fence(Ordering::SeqCst);
    }

    /// Takes a writer off: what it wrote is visible, or rolled back.
    pub fn leave(&self, writer: &Arc<LiveWrites>) {
        let Some(lists) = self.lists.get() else { return };
        let list = Self::list(lists, writer);
        let mut writers = list.writers.lock().unwrap();
        if let Some(at) = writers.iter().position(|own| Arc::ptr_eq(own, writer)) {
            writers.swap_remove(at);
        }
        list.count.store(writers.len(), Ordering::Release);
    }

    /// All writers but `own`, appended to `out`. For who has registered what they must see before.
    pub fn others(&self, own: Option<&Arc<LiveWrites>>, out: &mut Vec<Arc<LiveWrites>>) {
        fence(Ordering::SeqCst);
        // Not there: no writer has entered before the fence.
        let Some(lists) = self.lists.get() else { return };
        let lists = lists.iter().filter(|list| {
            // Pairs with the stores of `enter` and `leave`.
            list.count.load(Ordering::Acquire) > 0
        });
        for list in lists.skip(usize::from(plant!("txn: some writers are not asked"))) {
            let writers = list.writers.lock().unwrap();
            let is_own = |writer: &Arc<LiveWrites>| own.is_some_and(|own| Arc::ptr_eq(own, writer));
            out.extend(writers.iter().filter(|writer| !is_own(writer)).cloned());
        }
    }

    fn list<'a>(lists: &'a [List; LISTS], writer: &LiveWrites) -> &'a List {
        &lists[writer.place() % LISTS]
    }
}
