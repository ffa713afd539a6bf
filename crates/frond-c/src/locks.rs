//! Waits, deadlocks and live transactions as programs read them: in fields, where `watch.rs` tells them in words.

use std::ffi::{c_char, c_void};

use frond::{KeyStart, LockMode, LockOn, TreeId};

use crate::{
    bytes::given,
    error::{Fail, call, frond_error, misuse},
    store::frond_db,
};

/// What is locked is a row.
pub const FROND_ON_ROW: i32 = 1;
/// What is waited for is leave to insert a row where others have locked the gap; what is locked is a gap.
pub const FROND_ON_GAP: i32 = 2;
/// What is locked is a tree as a whole.
pub const FROND_ON_TREE: i32 = 3;

/// The begin of a key; good for the call that is told of it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct frond_key_start {
    /// There is a key, and it is known.
    pub is_known: bool,
    /// Its first bytes, up to 64; null if it is not known.
    pub data: *const u8,
    /// How many.
    pub held: usize,
    /// Length of the whole key.
    pub length: usize,
}

/// What is locked, or waited for.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct frond_locked {
    /// FROND_ON_ROW, FROND_ON_GAP, FROND_ON_TREE.
    pub on: i32,
    /// Of a row or a gap FROND_SHARED, FROND_EXCLUSIVE; of a tree FROND_TREE_SHARED, …
    pub mode: i32,
    /// The number of the tree.
    pub tree: u32,
    /// Its name, ends with a zero byte; empty if it is gone.
    pub tree_name: *const c_char,
    /// 16 bytes that stand for the key, of a row: equal only if the keys are.
    pub key_hash: [u8; 16],
    /// The begin of the key, of a row, or of one that waits for a gap.
    pub key: frond_key_start,
}

/// Somebody who waits for a lock.
#[repr(C)]
pub struct frond_wait {
    /// The number of the transaction (frond_txn_id).
    pub waiter: u64,
    /// The tag that it was begun with.
    pub tag: u64,
    /// The numbers of those it waits for: who holds the lock, or came first.
    pub holders: *const u64,
    /// Their tags, in the same order.
    pub holder_tags: *const u64,
    /// How many.
    pub holders_count: usize,
    /// For what it waits.
    pub lock: frond_locked,
    /// Since when, nanoseconds by the store's clock, which begins anew when a store is opened.
    pub since_nanos: u64,
    /// For how long.
    pub lasts_nanos: u64,
}

/// One transaction of a circle of waits; it waited for the next one that is told, the last for the first.
#[repr(C)]
pub struct frond_deadlocked {
    /// Its number.
    pub id: u64,
    /// The tag that it was begun with.
    pub tag: u64,
    /// About how many entries it had written.
    pub writes: u64,
    /// It was ended.
    pub is_victim: bool,
    /// For what it waited.
    pub lock: frond_locked,
    /// For how long it had.
    pub waited_nanos: u64,
}

/// A transaction that holds locks or a snapshot, a batch that holds locks, or a snapshot that is no transaction's.
#[repr(C)]
pub struct frond_live {
    /// Its number; 0 for a snapshot that is no transaction's.
    pub id: u64,
    /// The tag that it was begun with; 0 for a batch, a snapshot, and what was prepared before the store was opened.
    pub tag: u64,
    /// About how many entries it has written.
    pub writes: u64,
    /// For how long it has held locks, nanoseconds; -1 if it holds none.
    pub locks_nanos: i64,
    /// For how long it has held a snapshot; -1 if it holds none.
    pub snapshot_nanos: i64,
    /// The last commit that its reads see; 0 if it has no snapshot.
    pub snapshot_seqno: u64,
    /// It waits for a lock.
    pub waits: bool,
}

/// Is told of a wait, which is good for as long as the call lasts.
// SAFETY: where it is called, here and below, the caller's function takes what it is told for as long as the call lasts.
pub type frond_wait_told =
    Option<unsafe extern "C" fn(context: *mut c_void, wait: *const frond_wait)>;

/// Is told of one of a circle of waits, which is good for as long as the call lasts.
// SAFETY: as above.
pub type frond_deadlocked_told =
    Option<unsafe extern "C" fn(context: *mut c_void, one: *const frond_deadlocked)>;

/// Is told of a live transaction, which is good for as long as the call lasts.
// SAFETY: as above.
pub type frond_live_told =
    Option<unsafe extern "C" fn(context: *mut c_void, live: *const frond_live)>;

fn nanos(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The begin of a key as C reads it, for as long as `key` is there.
fn start(key: Option<&KeyStart>) -> frond_key_start {
    let bytes = key.map(KeyStart::as_bytes);
    frond_key_start {
        is_known: key.is_some(),
        data: bytes.map_or(std::ptr::null(), <[u8]>::as_ptr),
        held: bytes.map_or(0, <[u8]>::len),
        length: key.map_or(0, KeyStart::key_bytes),
    }
}

fn mode(on: i32, mode: LockMode) -> i32 {
    use crate::{txn, whole_tree};
    match (on, mode) {
        (FROND_ON_TREE, LockMode::IntentShared) => whole_tree::FROND_TREE_INTENT_SHARED,
        (FROND_ON_TREE, LockMode::IntentExclusive) => whole_tree::FROND_TREE_INTENT_EXCLUSIVE,
        (FROND_ON_TREE, LockMode::Shared) => whole_tree::FROND_TREE_SHARED,
        (FROND_ON_TREE, LockMode::SharedIntentExclusive) => {
            whole_tree::FROND_TREE_SHARED_INTENT_EXCLUSIVE
        }
        (FROND_ON_TREE, LockMode::Exclusive) => whole_tree::FROND_TREE_EXCLUSIVE,
        (_, LockMode::Shared) => txn::FROND_SHARED,
        _ => txn::FROND_EXCLUSIVE,
    }
}

/// Text with its end, as C reads it.
fn ended(text: &str) -> String {
    text.replace('\0', " ") + "\0"
}

/// What is locked as C reads it, for as long as `tree_name`, which has its end, and `key` are there.
fn locked(
    on: i32,
    held: LockMode,
    (tree, tree_name): (TreeId, &str),
    (hash, key): (u128, Option<&KeyStart>),
) -> frond_locked {
    frond_locked {
        on,
        mode: mode(on, held),
        tree: tree.0,
        tree_name: tree_name.as_ptr().cast(),
        key_hash: if on == FROND_ON_ROW { hash.to_be_bytes() } else { [0; 16] },
        key: start(key),
    }
}

fn on(on: LockOn) -> i32 {
    match on {
        LockOn::Row => FROND_ON_ROW,
        LockOn::Insert => FROND_ON_GAP,
        LockOn::Table => FROND_ON_TREE,
    }
}

/// Tells who waits for a lock now, longest first. As frond_lock_waits, in fields.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_each_wait(
    db: *const frond_db,
    tell: frond_wait_told,
    context: *mut c_void,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`, here and below.
    unsafe {
        call(error, || {
            let db = &given(db, "the store")?.db;
            let tell = tell.ok_or_else(|| misuse("the function to be told is null"))?;
            for wait in db.lock_waits() {
                let name = ended(&wait.tree_name);
                let key = (wait.key_hash, wait.key.as_ref());
                let told = frond_wait {
                    waiter: wait.waiter,
                    tag: wait.tag,
                    holders: wait.holders.as_ptr(),
                    holder_tags: wait.holder_tags.as_ptr(),
                    holders_count: wait.holders.len(),
                    lock: locked(on(wait.on), wait.mode, (wait.tree, &name), key),
                    since_nanos: nanos(wait.since),
                    lasts_nanos: nanos(wait.lasts),
                };
                // SAFETY: the caller's function; what it is told lasts as long as the call.
                tell(context, &told);
            }
            Ok(())
        })
    }
}

/// Tells who was on the last circle of waits, each before the one it waited for. `at_nanos`, which may be null, gets when it was
/// ended, by the clock of `since_nanos` of frond_wait. FROND_NOT_FOUND if there was none. As frond_last_deadlock, in fields.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_each_deadlocked(
    db: *const frond_db,
    tell: frond_deadlocked_told,
    context: *mut c_void,
    at_nanos: *mut u64,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let db = &given(db, "the store")?.db;
            let tell = tell.ok_or_else(|| misuse("the function to be told is null"))?;
            let last = db.last_deadlock().ok_or(Fail::NotFound)?;
            at_nanos.as_mut().into_iter().for_each(|at| *at = nanos(last.at));
            for one in &last.parties {
                let name = ended(&one.tree_name);
                let key = (one.key_hash, one.key.as_ref());
                let told = frond_deadlocked {
                    id: one.id,
                    tag: one.tag,
                    writes: one.writes,
                    is_victim: one.id == last.victim,
                    lock: locked(on(one.on), one.mode, (one.tree, &name), key),
                    waited_nanos: nanos(one.waited),
                };
                // SAFETY: as above.
                tell(context, &told);
            }
            Ok(())
        })
    }
}

/// Tells who holds locks or a snapshot now, longest first. As frond_transactions, in fields.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_each_transaction(
    db: *const frond_db,
    tell: frond_live_told,
    context: *mut c_void,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let db = &given(db, "the store")?.db;
            let tell = tell.ok_or_else(|| misuse("the function to be told is null"))?;
            let lasted = |time| i64::try_from(nanos(time)).unwrap_or(i64::MAX);
            for one in db.transactions() {
                let told = frond_live {
                    id: one.id,
                    tag: one.tag,
                    writes: one.writes,
                    locks_nanos: one.locks.map_or(-1, lasted),
                    snapshot_nanos: one.snapshot.map_or(-1, |(_, time)| lasted(time)),
                    snapshot_seqno: one.snapshot.map_or(0, |(at, _)| at.0),
                    waits: one.waits,
                };
                // SAFETY: as above.
                tell(context, &told);
            }
            Ok(())
        })
    }
}
