//! Waits, deadlocks, locks and live transactions as structs; `watch.rs` reports them as text.

use std::{
    ffi::{c_char, c_void},
    ops::Bound,
};

use frond::{
    TreeId,
    lock::{HeldLock, HeldLocks, HeldOn, KeyStart, LockMode, LockOn},
};

use crate::{bytes::*, error::*, store::*, txn::*, whole_tree::*};

/// The lock is on a row.
pub const FROND_ON_ROW: i32 = 1;
/// The lock is on a gap. For a wait: an insert waits because others have locked the gap.
pub const FROND_ON_GAP: i32 = 2;
/// The lock is on a whole tree.
pub const FROND_ON_TREE: i32 = 3;

/// Start of a key. Valid during the callback that receives it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct frond_key_start {
    /// Whether there is a key and it is known.
    pub is_known: bool,
    /// Its first bytes, up to 64; null if it is not known.
    pub data: *const u8,
    /// Length of `data` in bytes.
    pub held: usize,
    /// Length of the whole key in bytes.
    pub length: usize,
}

/// A lock that is held or waited for.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct frond_locked {
    /// FROND_ON_ROW, FROND_ON_GAP, FROND_ON_TREE.
    pub on: i32,
    /// FROND_SHARED, FROND_EXCLUSIVE for a row or a gap; FROND_TREE_SHARED, … for a tree.
    pub mode: i32,
    /// Number of the tree.
    pub tree: u32,
    /// Name of the tree, terminated by a zero byte; empty if the tree no longer exists.
    pub tree_name: *const c_char,
    /// Hash of a row's key, 16 bytes: the same for equal keys, and practically never for different
    /// ones.
    pub key_hash: [u8; 16],
    /// Start of the key of a row, or of the row that waits for a gap.
    pub key: frond_key_start,
}

/// A call that waits for a lock.
#[repr(C)]
pub struct frond_wait {
    /// Number of the waiting transaction (frond_txn_id).
    pub waiter: u64,
    /// Tag of the waiting transaction.
    pub tag: u64,
    /// Numbers of the transactions that it waits for: they hold the lock, or requested it earlier.
    pub holders: *const u64,
    /// Their tags, in the same order.
    pub holder_tags: *const u64,
    /// Number of `holders`.
    pub holders_count: usize,
    /// The lock that it waits for.
    pub lock: frond_locked,
    /// Start of the wait in nanoseconds of the store's clock, which starts anew when a store is
    /// opened.
    pub since_nanos: u64,
    /// Duration of the wait so far, in nanoseconds.
    pub lasts_nanos: u64,
}

/// One transaction of a deadlock cycle. It waited for the one reported next; the last one waited
/// for the first.
#[repr(C)]
pub struct frond_deadlocked {
    /// Number of the transaction.
    pub id: u64,
    /// Tag of the transaction.
    pub tag: u64,
    /// Approximate number of entries that it had written.
    pub writes: u64,
    /// Whether this transaction was ended.
    pub is_victim: bool,
    /// The lock that it waited for.
    pub lock: frond_locked,
    /// How long it had waited, in nanoseconds.
    pub waited_nanos: u64,
}

/// A transaction that holds locks or a snapshot, a batch that holds locks, or a snapshot that
/// belongs to no transaction.
#[repr(C)]
pub struct frond_live {
    /// Number of the transaction; 0 for a snapshot that belongs to none.
    pub id: u64,
    /// Tag of the transaction; 0 for a batch, a snapshot, or a transaction that was prepared before
    /// the store was opened.
    pub tag: u64,
    /// Approximate number of entries that it has written.
    pub writes: u64,
    /// How long it has held locks, in nanoseconds; -1 if it holds none.
    pub locks_nanos: i64,
    /// How long it has held a snapshot, in nanoseconds; -1 if it holds none.
    pub snapshot_nanos: i64,
    /// The last commit that its reads see; 0 if it has no snapshot.
    pub snapshot_seqno: u64,
    /// Whether it waits for a lock.
    pub waits: bool,
}

/// A lock that is held.
#[repr(C)]
pub struct frond_held {
    /// Number of the transaction that holds it.
    pub owner: u64,
    /// Tag of that transaction.
    pub tag: u64,
    /// The lock. The key of a row is known if the transaction has written it recently, or if
    /// another transaction waits for it.
    pub lock: frond_locked,
    /// For a gap: start of the key where it begins; not known if it begins before all keys.
    pub from: frond_key_start,
    /// For a gap: start of the key where it ends; not known if it ends after all keys.
    pub to: frond_key_start,
    /// For a gap: whether it includes the key `from`.
    pub with_from: bool,
    /// For a gap: whether it includes the key `to`.
    pub with_to: bool,
}

/// Callback that receives a wait for a lock, which is valid during the call.
// SAFETY: where it is called, here and below, its arguments are valid until it returns.
pub type frond_wait_callback =
    Option<unsafe extern "C" fn(context: *mut c_void, wait: *const frond_wait)>;

/// Callback that receives one transaction of a deadlock cycle, which is valid during the call.
// SAFETY: as above.
pub type frond_deadlocked_callback =
    Option<unsafe extern "C" fn(context: *mut c_void, one: *const frond_deadlocked)>;

/// Callback that receives a live transaction, which is valid during the call.
// SAFETY: as above.
pub type frond_live_callback =
    Option<unsafe extern "C" fn(context: *mut c_void, live: *const frond_live)>;

/// Callback that receives a lock that is held, which is valid during the call.
// SAFETY: as above.
pub type frond_held_callback =
    Option<unsafe extern "C" fn(context: *mut c_void, held: *const frond_held)>;

fn nanos(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The start of a key for C; valid as long as `key` is.
fn start(key: Option<&KeyStart>) -> frond_key_start {
    let (data, held) = parts(key.map(KeyStart::as_bytes));
    let length = key.map_or(0, KeyStart::key_bytes);
    frond_key_start { is_known: key.is_some(), data, held, length }
}

fn mode(on: i32, mode: LockMode) -> i32 {
    match (on, mode) {
        (FROND_ON_TREE, LockMode::IntentShared) => FROND_TREE_INTENT_SHARED,
        (FROND_ON_TREE, LockMode::IntentExclusive) => FROND_TREE_INTENT_EXCLUSIVE,
        (FROND_ON_TREE, LockMode::Shared) => FROND_TREE_SHARED,
        (FROND_ON_TREE, LockMode::SharedIntentExclusive) => FROND_TREE_SHARED_INTENT_EXCLUSIVE,
        (FROND_ON_TREE, LockMode::Exclusive) => FROND_TREE_EXCLUSIVE,
        (_, LockMode::Shared) => FROND_SHARED,
        _ => FROND_EXCLUSIVE,
    }
}

/// Text for C, with a zero byte at its end.
fn ended(text: &str) -> String {
    text.replace('\0', " ") + "\0"
}

/// What is locked, for C; valid as long as `key` and `tree_name` are. The name ends with a zero
/// byte.
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

/// Reports the calls that currently wait for locks, longest first, as structs; frond_lock_waits
/// reports them as text. Waits for anything else are not reported.
#[api]
fn frond_each_wait(db: &frond_db, visit: frond_wait_callback, context: *mut c_void) -> Done {
    let visit = callback(visit)?;
    for wait in db.0.lock_waits() {
        let name = ended(&wait.tree_name);
        let key = (wait.key_hash, wait.key.as_ref());
        let record = frond_wait {
            waiter: wait.waiter,
            tag: wait.tag,
            holders: wait.holders.as_ptr(),
            holder_tags: wait.holder_tags.as_ptr(),
            holders_count: wait.holders.len(),
            lock: locked(on(wait.on), wait.mode, (wait.tree, &name), key),
            since_nanos: nanos(wait.since),
            lasts_nanos: nanos(wait.lasts),
        };
        // SAFETY: the caller's function; its arguments are valid until it returns.
        unsafe { visit(context, &record) };
    }
    Ok(())
}

/// Reports the transactions of the last deadlock cycle, each before the one it waited for;
/// frond_last_deadlock reports them as text. `at_nanos`, which may be null, receives the time when
/// the cycle was resolved, by the clock of `since_nanos` in frond_wait. FROND_NOT_FOUND if there
/// was none.
#[api]
fn frond_each_deadlocked(
    db: &frond_db,
    visit: frond_deadlocked_callback,
    context: *mut c_void,
    at_nanos: Option<&mut u64>,
) -> Done {
    let visit = callback(visit)?;
    let last = db.0.last_deadlock().ok_or(Fail::NotFound)?;
    set(at_nanos, nanos(last.at))?;
    for one in &last.parties {
        let name = ended(&one.tree_name);
        let key = (one.key_hash, one.key.as_ref());
        let record = frond_deadlocked {
            id: one.id,
            tag: one.tag,
            writes: one.writes,
            is_victim: one.id == last.victim,
            lock: locked(on(one.on), one.mode, (one.tree, &name), key),
            waited_nanos: nanos(one.waited),
        };
        // SAFETY: as above.
        unsafe { visit(context, &record) };
    }
    Ok(())
}

/// Reports the current holders of locks or snapshots, longest first, as structs; frond_transactions
/// reports them as text.
#[api]
fn frond_each_transaction(db: &frond_db, visit: frond_live_callback, context: *mut c_void) -> Done {
    let visit = callback(visit)?;
    let lasted = |time| i64::try_from(nanos(time)).unwrap_or(i64::MAX);
    for one in db.0.transactions() {
        let record = frond_live {
            id: one.id,
            tag: one.tag,
            writes: one.writes,
            locks_nanos: one.locks.map_or(-1, lasted),
            snapshot_nanos: one.snapshot.map_or(-1, |(_, time)| lasted(time)),
            snapshot_seqno: one.snapshot.map_or(0, |(at, _)| at.0),
            waits: one.waits,
        };
        // SAFETY: as above.
        unsafe { visit(context, &record) };
    }
    Ok(())
}

fn key_of(bound: &Bound<KeyStart>) -> Option<&KeyStart> {
    match bound {
        Bound::Included(key) | Bound::Excluded(key) => Some(key),
        Bound::Unbounded => None,
    }
}

/// A lock for C; valid as long as `one` and `name` are.
fn held(one: &HeldLock, name: &str) -> frond_held {
    let open = &Bound::Unbounded;
    let (on, key, (from, to)) = match &one.on {
        HeldOn::Row { key_hash, key } => (FROND_ON_ROW, (*key_hash, key.as_ref()), (open, open)),
        HeldOn::Gap { from, to } => (FROND_ON_GAP, (0, None), (from, to)),
        HeldOn::Tree => (FROND_ON_TREE, (0, None), (open, open)),
    };
    frond_held {
        owner: one.owner,
        tag: one.tag,
        lock: locked(on, one.mode, (one.tree, name), key),
        from: start(key_of(from)),
        to: start(key_of(to)),
        with_from: matches!(from, Bound::Included(_)),
        with_to: matches!(to, Bound::Included(_)),
    }
}

fn visit_held(
    found: &HeldLocks,
    visit: frond_held_callback,
    context: *mut c_void,
    more: Option<&mut usize>,
) -> Done {
    let visit = callback(visit)?;
    set(more, found.more)?;
    for one in &found.locks {
        let name = ended(&one.tree_name);
        // SAFETY: the caller's function; its arguments are valid until it returns.
        unsafe { visit(context, &held(one, &name)) };
    }
    Ok(())
}

/// Reports up to `max` locks that are currently held, ordered by owner: whole trees first, then
/// gaps, then rows. `more`, which may be null, receives about how many others there are. This is
/// not a consistent snapshot: locks are acquired and released meanwhile. Rows whose writes were
/// spilled from memory are locked without being reported.
#[api]
fn frond_each_lock(
    db: &frond_db,
    max: usize,
    visit: frond_held_callback,
    context: *mut c_void,
    more: Option<&mut usize>,
) -> Done {
    visit_held(&db.0.locks(max), visit, context, more)
}

/// Reports the locks of one transaction, like frond_each_lock, with rows in the order in which they
/// were locked. Call it from the thread that uses the transaction.
#[api]
fn frond_txn_each_lock(
    txn: &frond_txn,
    max: usize,
    visit: frond_held_callback,
    context: *mut c_void,
    more: Option<&mut usize>,
) -> Done {
    visit_held(&txn.txn.control().locks(max)?, visit, context, more)
}

/// Computes the hash that stands for a key of a tree in `key_hash` of frond_locked: 16 bytes,
/// written to `hash`.
#[api]
fn frond_tree_key_hash(tree: &frond_tree, key: &[u8], hash: *mut u8) -> Done {
    // SAFETY: see `bytes.rs`: there are 16 bytes.
    let hash = unsafe { list_mut(hash, 16, "hash") }?;
    hash.copy_from_slice(&tree.0.key_hash(key).to_be_bytes());
    Ok(())
}
