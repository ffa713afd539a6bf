//! The writers of a tree: transactions that have entries of it and have not ended.
//!
//! There is one list per tree. A transaction enters at its first write of the tree, after that
//! entry is in its write set, and leaves when it is visible or rolled back. A transaction that
//! locks a range finds here which writers to ask for pending keys (Rule: I33, [`LiveWrites`]).
//!
//! Invariant: a writer appends a key, enters the list, and then looks for locks; a locker registers
//! its range and then looks at the list. So at least one finds the other.
//!
//! Threads: all. Writers are spread over a few lists, each with its own lock, held for a push or a
//! copy; a search skips lists without writers at the cost of one load.

use super::LiveWrites;
use crate::{
    striped::Striped,
    sync::{Arc, AtomicUsize, Mutex, OnceLock, Ordering, fence},
};

/// Number of lists. A short transaction is listed for some microseconds and takes the list's lock
/// twice for about ten nanoseconds: four lists suffice for a hundred threads. A search reads one
/// cache line per list.
const LISTS: usize = 4;

/// A list of writers.
#[derive(Debug, Default)]
struct List {
    count: AtomicUsize,
    writers: Mutex<Vec<Arc<LiveWrites>>>,
}

/// The writers of one tree.
#[derive(Debug, Default)]
pub struct TreeWriters {
    /// Allocated for the first writer: if a store has very many trees, most have none.
    lists: OnceLock<Striped<List, LISTS>>,
}

impl TreeWriters {
    /// Lists a writer that has appended its first entry of the tree. Called once.
    pub fn enter(&self, writer: &Arc<LiveWrites>) {
        let list = self.lists.get_or_init(Striped::default).at(writer.place());
        let mut writers = list.writers.lock().unwrap();
        writers.push(writer.clone());
        // Pairs with the load in `others`: the fence below comes before the search for range locks.
        list.count.store(writers.len(), Ordering::Release);
        drop(writers);
        fence(Ordering::SeqCst);
    }

    /// Removes a writer: what it wrote is visible, or rolled back.
    pub fn leave(&self, writer: &Arc<LiveWrites>) {
        let Some(lists) = self.lists.get() else { return };
        let list = lists.at(writer.place());
        let mut writers = list.writers.lock().unwrap();
        if let Some(at) = writers.iter().position(|own| Arc::ptr_eq(own, writer)) {
            writers.swap_remove(at);
        }
        list.count.store(writers.len(), Ordering::Release);
    }

    /// Appends all writers except `own` to `out`. The caller must already have published what they
    /// must see.
    pub fn others(&self, own: Option<&Arc<LiveWrites>>, out: &mut Vec<Arc<LiveWrites>>) {
        fence(Ordering::SeqCst);
        // No lists: no writer has entered before the fence.
        let Some(lists) = self.lists.get() else { return };
        let lists = lists.iter().filter(|list| {
            // Pairs with the stores in `enter` and `leave`.
            list.count.load(Ordering::Acquire) > 0
        });
        for list in lists.skip(usize::from(plant!("txn: some writers are not asked"))) {
            let writers = list.writers.lock().unwrap();
            let is_own = |writer: &Arc<LiveWrites>| own.is_some_and(|own| Arc::ptr_eq(own, writer));
            out.extend(writers.iter().filter(|writer| !is_own(writer)).cloned());
        }
    }
}
