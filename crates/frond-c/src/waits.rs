//! Interrupts of transactions, and the hooks by which a server observes lock waits and chooses
//! deadlock victims.

use std::ffi::c_void;

use frond::{
    Interrupter,
    lock::{LockHooks, LockParty},
};

use crate::{bytes::*, error::*, store::frond_db, txn::frond_txn};

/// An interrupter cancels one transaction, or all operations that it was set on, from any thread.
/// It may outlive them.
pub struct frond_interrupter(pub(crate) Interrupter);

/// Returns the interrupter of a transaction, with which another thread can cancel its calls. Get it
/// before calls that wait.
#[api]
fn frond_txn_interrupter(txn: &frond_txn, interrupter: New<frond_interrupter>) -> Done {
    interrupter.give(frond_interrupter(txn.txn.control().interrupter()?))
}

/// Interrupts a transaction: its current call ends with FRD-1106 if it waits or scans rows, and so
/// do all later calls until frond_txn_clear_interrupt. Other operations that the interrupter was
/// set on (frond_cursor_set_interrupter and others) end likewise. The call never waits; it does
/// nothing if the transaction is over. Null is allowed.
#[api]
fn frond_interrupt(interrupter: Option<&frond_interrupter>) {
    interrupter.inspect(|given| given.0.interrupt());
}

/// Sets an interrupter that belongs to no transaction (frond_interrupter_new) on this transaction,
/// until the transaction ends. Meant for a session, which calls this for each of its transactions
/// in turn; the interrupter cancels only the last of them. If the interrupter has an interrupt that
/// was not cleared, the transaction is interrupted at once; frond_interrupter_clear lets it
/// continue.
#[api]
fn frond_txn_set_interrupter(txn: &frond_txn, interrupter: &frond_interrupter) -> Done {
    Ok(txn.txn.control().set_interrupter(&interrupter.0)?)
}

/// Releases an interrupter. Null is allowed.
#[api]
fn frond_interrupter_free(interrupter: Option<Box<frond_interrupter>>) {}

/// Clears the interrupt of a transaction, so that its calls work again.
#[api]
fn frond_txn_clear_interrupt(txn: &frond_txn) {
    txn.txn.control().clear_interrupt();
}

/// A transaction that takes part in a lock wait. Valid during the callback that receives it.
pub struct frond_party(LockParty);

/// Returns the number of the transaction; 0 if `party` is null.
#[api]
fn frond_party_id(party: Option<&frond_party>) -> u64 {
    party.map_or(0, |party| party.0.id())
}

/// Returns the tag of the transaction.
#[api]
fn frond_party_tag(party: Option<&frond_party>) -> u64 {
    party.map_or(0, |party| party.0.tag())
}

/// Interrupts the transaction, as frond_interrupt does.
#[api]
fn frond_party_interrupt(party: Option<&frond_party>) {
    party.inspect(|party| party.0.interrupt());
}

/// Callbacks for lock waits; each may be null. They are called by waiting threads, several at once,
/// and may call no functions of the library except those of frond_party. The transactions passed to
/// them may have ended meanwhile.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct frond_lock_hooks {
    /// Passed to each callback.
    pub context: *mut c_void,
    /// Called when `waiter` is about to wait until `holder` has ended, once for each holder.
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
    /// Returns whether the gap lock of `holder` conflicts with an insert of `inserter`. It need not
    /// conflict if the order of the two transactions is settled elsewhere.
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

fn party_of(party: &LockParty) -> frond_party {
    frond_party(party.clone())
}

impl LockHooks for frond_lock_hooks {
    fn on_wait(&self, waiter: &LockParty, holder: &LockParty) {
        if let Some(on_wait) = self.on_wait {
            // SAFETY: the caller's function; both parties are valid until it returns.
            unsafe { on_wait(self.context, &party_of(waiter), &party_of(holder)) }
        }
    }

    fn prefer(&self, a: &LockParty, b: &LockParty) -> Option<u64> {
        // SAFETY: as above.
        let id = unsafe { self.prefer?(self.context, &party_of(a), &party_of(b)) };
        (id != 0).then_some(id)
    }

    fn needs_order(&self, inserter: &LockParty, holder: &LockParty) -> bool {
        let Some(needs_order) = self.needs_order else { return true };
        // SAFETY: as above.
        unsafe { needs_order(self.context, &party_of(inserter), &party_of(holder)) }
    }
}

/// Callback that reports that commits are durable.
// SAFETY: where it is called, the cookie is the one given with it.
pub type frond_synced = Option<unsafe extern "C" fn(cookie: *mut c_void)>;

/// Calls `done` with `cookie`, on a thread of the store, once every commit sequenced so far is
/// durable: within one second, and at the latest before frond_close returns. It is never called if
/// the store has stopped. `done` must not call the library.
#[api]
fn frond_when_synced(db: &frond_db, done: frond_synced, cookie: *mut c_void) -> Done {
    struct Cookie(*mut c_void);
    // SAFETY: the caller promises that the store's thread may use the cookie.
    unsafe impl Send for Cookie {}
    let (done, cookie) = (callback(done)?, Cookie(cookie));
    db.0.when_synced(move || {
        let Cookie(cookie) = { cookie };
        // SAFETY: the caller's function, with the cookie given with it.
        unsafe { done(cookie) }
    })?;
    Ok(())
}
