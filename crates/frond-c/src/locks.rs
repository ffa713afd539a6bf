//! Waits, deadlocks, locks and live transactions as structs; `watch.rs` has them as text.

use std::{
    ffi::{c_char, c_void},
    ops::Bound,
};

use frond::{HeldLock, HeldLocks, HeldOn, KeyStart, LockMode, LockOn, TreeId};

use crate::{
    bytes::{bytes, given, list_mut},
    error::{Fail, call, frond_error, misuse},
    store::{frond_db, frond_tree},
    txn::frond_txn,
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

/// A lock that is held.
#[repr(C)]
pub struct frond_held {
    /// The number of the transaction that holds it.
    pub owner: u64,
    /// The tag that it was begun with.
    pub tag: u64,
    /// What is locked. The key of a row is told if its transaction has written it lately, or if another waits for it.
    pub lock: frond_locked,
    /// Of a gap: the begin of the key where it begins; not known if it begins before all keys.
    pub from: frond_key_start,
    /// Of a gap: the begin of the key where it ends; not known if it ends behind all keys.
    pub to: frond_key_start,
    /// Of a gap: it begins at `from`, not behind it.
    pub with_from: bool,
    /// Of a gap: it ends at `to`, not before it.
    pub with_to: bool,
}

/// Is told of a wait, which is good for as long as the call lasts.
// SAFETY: where it is called, here and below, its arguments are valid until it returns.
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

/// Is told of a lock that is held, which is good for as long as the call lasts.
// SAFETY: as above.
pub type frond_held_told =
    Option<unsafe extern "C" fn(context: *mut c_void, held: *const frond_held)>;

fn nanos(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The start of a key for C; valid as long as `key` is.
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

/// Tells who waits for a lock now, longest first. As frond_lock_waits, in fields; waits that are not for locks are not told.
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
                // SAFETY: the caller's function; its arguments are valid until it returns.
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

unsafe fn tell_held(
    found: &HeldLocks,
    tell: frond_held_told,
    context: *mut c_void,
    more: *mut usize,
) -> Result<(), Fail> {
    let tell = tell.ok_or_else(|| misuse("the function to be told is null"))?;
    // SAFETY: see `bytes.rs`.
    unsafe { more.as_mut() }.into_iter().for_each(|more| *more = found.more);
    for one in &found.locks {
        let name = ended(&one.tree_name);
        // SAFETY: the caller's function; its arguments are valid until it returns.
        unsafe { tell(context, &held(one, &name)) };
    }
    Ok(())
}

/// Tells up to `max` locks that are held now, in the order of their owners, trees as a whole first, then gaps, then rows; `more`,
/// which may be null, gets about how many there are beside. It is no single moment, for others go on meanwhile. Rows that a transaction beyond
/// memory has written are locked without being told.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_each_lock(
    db: *const frond_db,
    max: usize,
    tell: frond_held_told,
    context: *mut c_void,
    more: *mut usize,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || tell_held(&given(db, "the store")?.db.locks(max), tell, context, more))
    }
}

/// The same of one transaction, by the thread that has it; rows in the order in which they were locked.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_txn_each_lock(
    txn: *const frond_txn,
    max: usize,
    tell: frond_held_told,
    context: *mut c_void,
    more: *mut usize,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let found = given(txn, "the transaction")?.txn.locks(max)?;
            tell_held(&found, tell, context, more)
        })
    }
}

/// What stands for a key of a tree in `key_hash` of frond_locked: 16 bytes, into `hash`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_tree_key_hash(
    tree: *const frond_tree,
    key: *const u8,
    key_length: usize,
    hash: *mut u8,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let (tree, key) = (&given(tree, "the tree")?.tree, bytes(key, key_length, "the key")?);
            let hash = list_mut(hash, 16, "the place for the hash")?;
            hash.copy_from_slice(&tree.key_hash(key).to_be_bytes());
            Ok(())
        })
    }
}
