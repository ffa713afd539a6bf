//! Interrupts of transactions, and the hooks by which a server observes lock waits and has a say in
//! deadlocks.

use std::ffi::c_void;

use frond::{Interrupter, LockHooks, LockParty};

use crate::{
    bytes::{give, given, take_back},
    error::{call, frond_error},
    store::frond_db,
    txn::frond_txn,
};

/// An interrupter: cancels one transaction, or all operations that it was set on, from any thread.
/// It may outlive them.
pub struct frond_interrupter {
    pub(crate) interrupter: Interrupter,
}

/// Returns the interrupter of a transaction, with which another thread can cancel its calls. Get it
/// before calls that wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_txn_interrupter(
    txn: *const frond_txn,
    interrupter: *mut *mut frond_interrupter,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`, here and below.
    unsafe {
        call(error, || {
            give(interrupter, || {
                let txn = &given(txn, "the transaction")?.txn;
                Ok(frond_interrupter { interrupter: txn.interrupter()? })
            })
        })
    }
}

/// Interrupts a transaction: its current call ends with FRD-1106 if it waits or scans rows, and so
/// do all later calls until frond_txn_clear_interrupt. Other operations that the interrupter was
/// set on (frond_cursor_set_interrupter and others) end likewise. Never waits; does nothing if the
/// transaction is over. Null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_interrupt(interrupter: *const frond_interrupter) {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(std::ptr::null_mut(), || {
            given(interrupter, "what it is stopped by")?.interrupter.interrupt();
            Ok(())
        });
    }
}

/// Makes an interrupter that belongs to no transaction (frond_interrupter_new) cancel this one,
/// from now on until the transaction ends. It is meant for a session, which calls this for each of
/// its transactions in turn; the interrupter cancels only the last of them. If it was interrupted
/// before and not cleared since, the transaction is interrupted at once; frond_interrupter_clear
/// lets it go on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_txn_set_interrupter(
    txn: *const frond_txn,
    interrupter: *const frond_interrupter,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let session = &given(interrupter, "what it is stopped by")?.interrupter;
            Ok(given(txn, "the transaction")?.txn.set_interrupter(session)?)
        })
    }
}

/// Releases an interrupter. Null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_interrupter_free(interrupter: *mut frond_interrupter) {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(std::ptr::null_mut(), || take_back(interrupter, "what it is stopped by").map(drop))
    };
}

/// Clears the interrupt of a transaction, so that its calls can go on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_txn_clear_interrupt(
    txn: *const frond_txn,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            given(txn, "the transaction")?.txn.clear_interrupt();
            Ok(())
        })
    }
}

/// A transaction that takes part in a lock wait. Valid during the callback that receives it.
pub struct frond_party {
    party: LockParty,
}

/// Returns the number of the transaction; 0 if `party` is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_party_id(party: *const frond_party) -> u64 {
    // SAFETY: see `bytes.rs`.
    unsafe { party.as_ref() }.map_or(0, |party| party.party.id())
}

/// Returns the tag of the transaction.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_party_tag(party: *const frond_party) -> u64 {
    // SAFETY: see `bytes.rs`.
    unsafe { party.as_ref() }.map_or(0, |party| party.party.tag())
}

/// Interrupts the transaction, as frond_interrupt does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_party_interrupt(party: *const frond_party) {
    // SAFETY: see `bytes.rs`.
    unsafe { party.as_ref() }.inspect(|party| party.party.interrupt());
}

/// Callbacks for lock waits; each may be null. They are called by waiting threads, several at once,
/// and may call nothing of the library but the frond_party calls. The transactions passed to them
/// may have ended meanwhile.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct frond_lock_hooks {
    /// Passed to each callback.
    pub context: *mut c_void,
    /// Called when `waiter` is about to sleep until `holder` has ended; once for each holder.
    // SAFETY: where it is called, both parties are valid until it returns.
    pub on_wait: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            waiter: *const frond_party,
            holder: *const frond_party,
        ),
    >,
    /// Returns the id of the one of two transactions in a deadlock cycle that should be ended; 0
    /// for no preference.
    // SAFETY: as above.
    pub prefer: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            a: *const frond_party,
            b: *const frond_party,
        ) -> u64,
    >,
    /// Tells whether the gap lock of `holder` conflicts with an insert of `inserter`. It does not
    /// if the order of the two is settled elsewhere.
    // SAFETY: as above.
    pub needs_order: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            inserter: *const frond_party,
            holder: *const frond_party,
        ) -> bool,
    >,
}

// SAFETY: the caller promises that all threads may call its functions with their context.
unsafe impl Send for frond_lock_hooks {}
// SAFETY: likewise.
unsafe impl Sync for frond_lock_hooks {}

fn told(party: &LockParty) -> frond_party {
    frond_party { party: party.clone() }
}

impl LockHooks for frond_lock_hooks {
    fn on_wait(&self, waiter: &LockParty, holder: &LockParty) {
        if let Some(on_wait) = self.on_wait {
            // SAFETY: the caller's function; both parties are valid until it returns.
            unsafe { on_wait(self.context, &told(waiter), &told(holder)) }
        }
    }

    fn prefer(&self, a: &LockParty, b: &LockParty) -> Option<u64> {
        // SAFETY: as above.
        let id = unsafe { self.prefer?(self.context, &told(a), &told(b)) };
        (id != 0).then_some(id)
    }

    fn needs_order(&self, inserter: &LockParty, holder: &LockParty) -> bool {
        let Some(needs_order) = self.needs_order else { return true };
        // SAFETY: as above.
        unsafe { needs_order(self.context, &told(inserter), &told(holder)) }
    }
}

/// Callback that reports that commits are durable.
// SAFETY: where it is called, the cookie is the one given with it.
pub type frond_synced = Option<unsafe extern "C" fn(cookie: *mut c_void)>;

/// Calls `tell` with `cookie`, on a thread of the store, once every commit sequenced so far is
/// durable: within one second, and at the latest before frond_close returns. It is never called if
/// the store has stopped. `tell` must not call the library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_when_synced(
    db: *const frond_db,
    tell: frond_synced,
    cookie: *mut c_void,
    error: *mut frond_error,
) -> i32 {
    struct Cookie(*mut c_void);
    // SAFETY: the caller promises that the store's thread may use the cookie.
    unsafe impl Send for Cookie {}
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let tell = tell.ok_or_else(|| crate::error::misuse("the callback is null"))?;
            let cookie = Cookie(cookie);
            given(db, "the store")?.db.when_synced(move || {
                let Cookie(cookie) = { cookie };
                // SAFETY: the caller's function, with the cookie given with it.
                tell(cookie)
            })?;
            Ok(())
        })
    }
}
