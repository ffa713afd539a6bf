//! Transactions of RocksDB's `TransactionDB`: rows are locked as they are written.
//!
//! Invariants
//! 1. A transaction's memory is used again for the next one, as its documentation advises.
//!
//! Threads: one session each.

use std::ffi::CStr;
use std::ptr;

use libc::c_char;

use super::super::{
    Attempt, Begin, Clients, Durability, Failure, HeldSnapshot, Result, Stop, Transactions, Visit,
};
use super::database::{Handle, Opened};
use super::session::bytes;
use super::{check, ffi};

/// One thread's.
pub(super) struct RocksTransactions<'a> {
    handle: &'a Handle,
    db: *mut ffi::TransactionDb,
    /// Null before the first.
    current: *mut ffi::Transaction,
    options: *mut ffi::TransactionOptions,
    write: *mut ffi::WriteOptions,
    read: *mut ffi::ReadOptions,
}

/// The database with transactions, if it was opened so.
fn of(handle: &Handle) -> Result<*mut ffi::TransactionDb> {
    match handle.opened {
        Opened::Transactions(db) => Ok(db),
        Opened::Plain(_) => Err(Failure("rocksdb: opened without transactions".to_owned())),
    }
}

/// Tells a lock that was not to be had from other errors, and frees the message.
fn attempt(error: *mut c_char) -> Attempt<()> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: not null, so by c.h it is a zero-terminated string; `check` frees it.
    let text = unsafe { CStr::from_ptr(error).to_string_lossy().into_owned() };
    // Status::TimedOut and Status::Busy, as they are printed.
    let is_lock = ["Operation timed out", "Resource busy"].iter().any(|of| text.starts_with(of));
    let failed = check(error);
    if is_lock { Err(Stop::Conflict) } else { Ok(failed?) }
}

/// Takes what a slice points at, and the slice away; false for null, the absent key.
///
/// # Safety
/// `pinned` is null, or a slice that nobody else has.
unsafe fn take(pinned: *mut ffi::Pinned, value: &mut Vec<u8>) -> bool {
    value.clear();
    if pinned.is_null() {
        return false;
    }
    let mut len = 0;
    // SAFETY: the caller's promise; the bytes are copied before the slice is destroyed.
    unsafe {
        let data = ffi::rocksdb_pinnableslice_value(pinned, &mut len);
        value.extend_from_slice(bytes(data, len));
        ffi::rocksdb_pinnableslice_destroy(pinned);
    }
    true
}

impl<'a> RocksTransactions<'a> {
    pub(super) fn new(handle: &'a Handle, clients: Clients) -> Result<Self> {
        let db = of(handle)?;
        // SAFETY: plain constructors, destroyed by `drop`; the perf level is the calling thread's.
        let (options, write, read) = unsafe {
            ffi::rocksdb_set_perf_level(ffi::PERF_LEVEL_DISABLE);
            let write = ffi::rocksdb_writeoptions_create();
            let is_synced = clients.durability == Durability::Sync;
            ffi::rocksdb_writeoptions_set_sync(write, is_synced.into());
            (ffi::rocksdb_transaction_options_create(), write, ffi::rocksdb_readoptions_create())
        };
        Ok(Self { handle, db, current: ptr::null_mut(), options, write, read })
    }

    fn family(&self) -> *mut ffi::Family {
        self.handle.families[0]
    }
}

impl Transactions for RocksTransactions<'_> {
    fn begin(&mut self, _: Begin) -> Attempt<()> {
        // SAFETY: all are ours or open; the last transaction has ended, or is null (Invariant 1).
        self.current = unsafe {
            ffi::rocksdb_transaction_begin(self.db, self.write, self.options, self.current)
        };
        Ok(())
    }

    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Attempt<bool> {
        let (data, len, mut error) = (key.as_ptr().cast(), key.len(), ptr::null_mut());
        // SAFETY: `begin` came before; the slice is taken here.
        let found = unsafe {
            let (txn, family) = (self.current, self.family());
            let pinned = ffi::rocksdb_transaction_get_pinned_cf(
                txn, self.read, family, data, len, &mut error,
            );
            take(pinned, value)
        };
        attempt(error).map(|()| found)
    }

    fn get_for_update(&mut self, key: &[u8], value: &mut Vec<u8>) -> Attempt<bool> {
        let (data, len, mut error) = (key.as_ptr().cast(), key.len(), ptr::null_mut());
        // SAFETY: `begin` came before; the slice is taken here.
        let found = unsafe {
            let (txn, family) = (self.current, self.family());
            let pinned = ffi::rocksdb_transaction_get_pinned_for_update_cf(
                txn, self.read, family, data, len, 1, &mut error,
            );
            take(pinned, value)
        };
        attempt(error).map(|()| found)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Attempt<()> {
        let mut error = ptr::null_mut();
        // SAFETY: `begin` came before; RocksDB copies key and value during the call.
        unsafe {
            ffi::rocksdb_transaction_put_cf(
                self.current,
                self.family(),
                key.as_ptr().cast(),
                key.len(),
                value.as_ptr().cast(),
                value.len(),
                &mut error,
            );
        }
        attempt(error)
    }

    fn delete(&mut self, key: &[u8]) -> Attempt<()> {
        let (data, len, mut error) = (key.as_ptr().cast(), key.len(), ptr::null_mut());
        // SAFETY: as above.
        unsafe {
            ffi::rocksdb_transaction_delete_cf(self.current, self.family(), data, len, &mut error);
        }
        attempt(error)
    }

    fn list(&mut self, from: &[u8], to: &[u8], visit: Visit<'_>) -> Attempt<()> {
        let mut error = ptr::null_mut();
        // SAFETY: `begin` came before; the iterator and its options are made and destroyed here, the bound
        // outlives both; key and value are used before the iterator moves.
        unsafe {
            let read = ffi::rocksdb_readoptions_create();
            ffi::rocksdb_readoptions_set_iterate_upper_bound(read, to.as_ptr().cast(), to.len());
            let iter =
                ffi::rocksdb_transaction_create_iterator_cf(self.current, read, self.family());
            ffi::rocksdb_iter_seek(iter, from.as_ptr().cast(), from.len());
            while ffi::rocksdb_iter_valid(iter) != 0 {
                let (mut key_len, mut value_len) = (0, 0);
                let key = ffi::rocksdb_iter_key(iter, &mut key_len);
                let value = ffi::rocksdb_iter_value(iter, &mut value_len);
                if !visit(bytes(key, key_len), bytes(value, value_len)) {
                    break;
                }
                ffi::rocksdb_iter_next(iter);
            }
            ffi::rocksdb_iter_get_error(iter, &mut error);
            ffi::rocksdb_iter_destroy(iter);
            ffi::rocksdb_readoptions_destroy(read);
        }
        attempt(error)
    }

    fn commit(&mut self) -> Attempt<()> {
        let mut error = ptr::null_mut();
        // SAFETY: `begin` came before.
        unsafe { ffi::rocksdb_transaction_commit(self.current, &mut error) };
        attempt(error)
    }

    fn rollback(&mut self) -> Result<()> {
        let mut error = ptr::null_mut();
        if !self.current.is_null() {
            // SAFETY: not null, so it was begun.
            unsafe { ffi::rocksdb_transaction_rollback(self.current, &mut error) };
        }
        check(error)
    }
}

impl Drop for RocksTransactions<'_> {
    fn drop(&mut self) {
        // SAFETY: created for this session alone; one that is not over is rolled back by its end.
        unsafe {
            if !self.current.is_null() {
                ffi::rocksdb_transaction_destroy(self.current);
            }
            ffi::rocksdb_transaction_options_destroy(self.options);
            ffi::rocksdb_writeoptions_destroy(self.write);
            ffi::rocksdb_readoptions_destroy(self.read);
        }
    }
}

/// A snapshot.
pub(super) struct Held<'a> {
    handle: &'a Handle,
    db: *mut ffi::TransactionDb,
    snapshot: *const ffi::Snapshot,
    read: *mut ffi::ReadOptions,
}

impl<'a> Held<'a> {
    pub(super) fn new(handle: &'a Handle) -> Result<Self> {
        let db = of(handle)?;
        // SAFETY: db is open; snapshot and options are given back by `drop`.
        let (snapshot, read) = unsafe {
            let snapshot = ffi::rocksdb_transactiondb_create_snapshot(db);
            let read = ffi::rocksdb_readoptions_create();
            ffi::rocksdb_readoptions_set_snapshot(read, snapshot);
            (snapshot, read)
        };
        Ok(Self { handle, db, snapshot, read })
    }
}

impl HeldSnapshot for Held<'_> {
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let mut error = ptr::null_mut();
        // SAFETY: options and family are ours; the slice is taken here.
        let found = unsafe {
            let family = self.handle.families[0];
            take(self.handle.get_pinned(self.read, family, key, &mut error), value)
        };
        check(error)?;
        Ok(found)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // SAFETY: made by `new`, and nobody else's.
        unsafe {
            ffi::rocksdb_readoptions_destroy(self.read);
            ffi::rocksdb_transactiondb_release_snapshot(self.db, self.snapshot);
        }
    }
}
