//! A client of RocksDB: write batches, snapshots, and the transactions of `TransactionDB`, which
//! locks rows as they are written.
//!
//! Invariants
//! 1. A batch's entries are ordered by keyspace and key, and those of one key by the order of the
//!    calls: inserting neighbours of a skiplist one after the other costs RocksDB less. A range
//!    delete comes after what the batch changed before it.
//! 2. Performance counters of the client's thread are off; otherwise RocksDB counts comparisons.
//! 3. A transaction's memory is reused for the next one, as RocksDB's documentation advises.
//!
//! Threads: a connection belongs to one thread.

use std::ffi::CStr;
use std::ops::Range;
use std::ptr;

use libc::c_char;

use super::super::{
    Attempt, Begin, Connection, Direction, Durability, Entries, Failure, Result, Stop, Visit,
};
use super::database::{Handle, Opened};
use super::{check, ffi, ingest};
use crate::schema::Keyspace;

/// An entry of the batch being built; its bytes are in `RocksConnection::bytes`.
struct Pending {
    keyspace: Keyspace,
    begin: usize,
    key_len: usize,
    /// `None` deletes the key.
    value_len: Option<usize>,
}

/// What has been started.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    Nothing,
    Batch,
    Snapshot,
    Txn,
}

/// A client's connection, which owns its pointers.
pub(super) struct RocksConnection<'a> {
    handle: &'a Handle,
    open: Open,
    pending: Vec<Pending>,
    bytes: Vec<u8>,
    batch: *mut ffi::WriteBatch,
    write: *mut ffi::WriteOptions,
    read: *mut ffi::ReadOptions,
    /// The snapshot in `Open::Snapshot`, else null.
    snapshot: *const ffi::Snapshot,
    options: *mut ffi::TransactionOptions,
    /// Null before the first transaction.
    txn: *mut ffi::Transaction,
}

impl Drop for RocksConnection<'_> {
    fn drop(&mut self) {
        self.leave_snapshot();
        // SAFETY: created by `new` or `begin` for this client alone; destroying a transaction that
        // has not ended rolls it back.
        unsafe {
            if !self.txn.is_null() {
                ffi::rocksdb_transaction_destroy(self.txn);
            }
            ffi::rocksdb_transaction_options_destroy(self.options);
            ffi::rocksdb_writebatch_destroy(self.batch);
            ffi::rocksdb_writeoptions_destroy(self.write);
            ffi::rocksdb_readoptions_destroy(self.read);
        }
    }
}

/// Borrows the bytes that RocksDB points at.
///
/// # Safety
/// `data` must point at `len` bytes that stay unchanged for `'a`, or be null.
unsafe fn bytes<'a>(data: *const c_char, len: usize) -> &'a [u8] {
    if data.is_null() {
        return &[];
    }
    // SAFETY: guaranteed by the caller.
    unsafe { std::slice::from_raw_parts(data.cast(), len) }
}

/// Distinguishes an unavailable lock from other errors, and frees the message.
fn attempt(error: *mut c_char) -> Attempt<()> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: not null, so by c.h it is a zero-terminated string; `check` frees it.
    let text = unsafe { CStr::from_ptr(error).to_string_lossy().into_owned() };
    // Status::TimedOut and Status::Busy, as RocksDB prints them.
    let is_lock = ["Operation timed out", "Resource busy"].iter().any(|of| text.starts_with(of));
    let failed = check(error);
    if is_lock { Err(Stop::Conflict) } else { Ok(failed?) }
}

/// Copies the bytes of a slice and destroys it; false for null, which means an absent key.
///
/// # Safety
/// `pinned` must be null, or a slice that nothing else uses.
unsafe fn take(pinned: *mut ffi::Pinned, value: &mut Vec<u8>) -> bool {
    value.clear();
    if pinned.is_null() {
        return false;
    }
    let mut len = 0;
    // SAFETY: guaranteed by the caller; the bytes are copied before the slice is destroyed.
    unsafe {
        let data = ffi::rocksdb_pinnableslice_value(pinned, &mut len);
        value.extend_from_slice(bytes(data, len));
        ffi::rocksdb_pinnableslice_destroy(pinned);
    }
    true
}

impl<'a> RocksConnection<'a> {
    /// Creates a client for the calling thread (Invariant 2).
    pub(super) fn new(handle: &'a Handle, durability: Durability) -> Self {
        // SAFETY: plain constructors, destroyed by `drop`; the perf level is the calling thread's.
        unsafe {
            ffi::rocksdb_set_perf_level(ffi::PERF_LEVEL_DISABLE);
            let write = ffi::rocksdb_writeoptions_create();
            ffi::rocksdb_writeoptions_set_sync(write, (durability == Durability::Sync).into());
            let options = ffi::rocksdb_transaction_options_create();
            // Only a transaction that waits pays for it; without it each deadlock lasts for the
            // whole timeout.
            ffi::rocksdb_transaction_options_set_deadlock_detect(options, 1);
            Self {
                handle,
                open: Open::Nothing,
                pending: Vec::new(),
                bytes: Vec::new(),
                batch: ffi::rocksdb_writebatch_create(),
                write,
                read: ffi::rocksdb_readoptions_create(),
                snapshot: ptr::null(),
                options,
                txn: ptr::null_mut(),
            }
        }
    }

    fn append(&mut self, keyspace: Keyspace, key: &[u8], value: Option<&[u8]>) {
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value.unwrap_or_default());
        let value_len = value.map(<[u8]>::len);
        self.pending.push(Pending { keyspace, begin, key_len: key.len(), value_len });
    }

    /// Moves the pending entries to the batch, in order (Invariant 1).
    fn fill_batch(&mut self) {
        let bytes = &self.bytes;
        let key = |entry: &Pending| &bytes[entry.begin..entry.begin + entry.key_len];
        self.pending.sort_unstable_by(|a, b| {
            (a.keyspace, key(a), a.begin).cmp(&(b.keyspace, key(b), b.begin))
        });
        for entry in &self.pending {
            let (family, key) = (self.handle.families[entry.keyspace], key(entry));
            let (data, len) = (key.as_ptr().cast(), key.len());
            // SAFETY: the batch is ours; RocksDB copies key and value during the call.
            unsafe {
                match entry.value_len {
                    Some(value_len) => {
                        let value = &bytes[entry.begin + len..][..value_len];
                        let value = value.as_ptr().cast();
                        ffi::rocksdb_writebatch_put_cf(
                            self.batch, family, data, len, value, value_len,
                        );
                    }
                    None => ffi::rocksdb_writebatch_delete_cf(self.batch, family, data, len),
                }
            }
        }
        self.pending.clear();
        self.bytes.clear();
    }

    fn family(&self, keyspace: Keyspace) -> *mut ffi::Family {
        self.handle.families[keyspace]
    }

    fn leave_snapshot(&mut self) {
        if !self.snapshot.is_null() {
            // SAFETY: taken by `begin`; the read options that refer to it are reset first.
            unsafe {
                ffi::rocksdb_readoptions_set_snapshot(self.read, ptr::null());
                self.handle.release_snapshot(self.snapshot);
            }
            self.snapshot = ptr::null();
        }
    }

    /// Visits the entries of an iterator.
    ///
    /// # Safety
    /// The iterator must be the caller's own.
    unsafe fn walk(
        iter: *mut ffi::Iter,
        (from, to): (Option<&[u8]>, Option<&[u8]>),
        direction: Direction,
        visit: Visit<'_>,
    ) {
        // SAFETY: guaranteed by the caller; key and value are used before the iterator moves.
        unsafe {
            match (direction, from, to) {
                (Direction::Forward, Some(key), _) => {
                    ffi::rocksdb_iter_seek(iter, key.as_ptr().cast(), key.len());
                }
                (Direction::Forward, None, _) => ffi::rocksdb_iter_seek_to_first(iter),
                // With an upper bound set, the last entry is the last one below the bound.
                (Direction::Reverse, ..) => ffi::rocksdb_iter_seek_to_last(iter),
            }
            while ffi::rocksdb_iter_valid(iter) != 0 {
                let (mut key_len, mut value_len) = (0, 0);
                let key = bytes(ffi::rocksdb_iter_key(iter, &mut key_len), key_len);
                let value = ffi::rocksdb_iter_value(iter, &mut value_len);
                if from.is_some_and(|from| key < from) || !visit(key, bytes(value, value_len)) {
                    break;
                }
                match direction {
                    Direction::Forward => ffi::rocksdb_iter_next(iter),
                    Direction::Reverse => ffi::rocksdb_iter_prev(iter),
                }
            }
        }
    }
}

impl Connection for RocksConnection<'_> {
    fn begin(&mut self, what: Begin) -> Attempt<()> {
        self.open = match what {
            Begin::Batch => Open::Batch,
            Begin::Read => {
                // SAFETY: the database is open; `leave_snapshot` releases the snapshot.
                unsafe {
                    self.snapshot = self.handle.snapshot();
                    ffi::rocksdb_readoptions_set_snapshot(self.read, self.snapshot);
                }
                Open::Snapshot
            }
            Begin::Write => {
                let Opened::Transactions(db) = self.handle.opened else {
                    return Err(Failure("rocksdb: opened without transactions".to_owned()).into());
                };
                // SAFETY: all are this client's or open; the last transaction has ended, or is null
                // (Invariant 3).
                self.txn = unsafe {
                    ffi::rocksdb_transaction_begin(db, self.write, self.options, self.txn)
                };
                Open::Txn
            }
        };
        Ok(())
    }

    fn get(&mut self, keyspace: Keyspace, key: &[u8], value: &mut Vec<u8>) -> Attempt<bool> {
        let (family, mut error) = (self.family(keyspace), ptr::null_mut());
        let (data, len) = (key.as_ptr().cast(), key.len());
        // SAFETY: in `Open::Txn` a transaction was started; the slice is destroyed here.
        let found = unsafe {
            let pinned = match self.open {
                Open::Txn => ffi::rocksdb_transaction_get_pinned_cf(
                    self.txn, self.read, family, data, len, &mut error,
                ),
                _ => self.handle.get_pinned(self.read, family, key, &mut error),
            };
            take(pinned, value)
        };
        attempt(error).map(|()| found)
    }

    fn get_for_update(
        &mut self,
        keyspace: Keyspace,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Attempt<bool> {
        if self.open != Open::Txn {
            return Err(Failure("rocksdb: a lock without a transaction".to_owned()).into());
        }
        let (data, len, mut error) = (key.as_ptr().cast(), key.len(), ptr::null_mut());
        let family = self.family(keyspace);
        // SAFETY: the transaction was started; the slice is destroyed here.
        let found = unsafe {
            let pinned = ffi::rocksdb_transaction_get_pinned_for_update_cf(
                self.txn, self.read, family, data, len, 1, &mut error,
            );
            take(pinned, value)
        };
        attempt(error).map(|()| found)
    }

    fn put(&mut self, keyspace: Keyspace, key: &[u8], value: &[u8]) -> Attempt<()> {
        if self.open != Open::Txn {
            self.append(keyspace, key, Some(value));
            return Ok(());
        }
        let mut error = ptr::null_mut();
        // SAFETY: the transaction was started; RocksDB copies key and value during the call.
        unsafe {
            ffi::rocksdb_transaction_put_cf(
                self.txn,
                self.family(keyspace),
                key.as_ptr().cast(),
                key.len(),
                value.as_ptr().cast(),
                value.len(),
                &mut error,
            );
        }
        attempt(error)
    }

    fn delete(&mut self, keyspace: Keyspace, key: &[u8]) -> Attempt<()> {
        if self.open != Open::Txn {
            self.append(keyspace, key, None);
            return Ok(());
        }
        let (data, len, mut error) = (key.as_ptr().cast(), key.len(), ptr::null_mut());
        let family = self.family(keyspace);
        // SAFETY: as above.
        unsafe { ffi::rocksdb_transaction_delete_cf(self.txn, family, data, len, &mut error) };
        attempt(error)
    }

    fn delete_range(&mut self, keyspace: Keyspace, range: Range<&[u8]>) -> Attempt<()> {
        let (Opened::Plain(_), Open::Batch) = (self.handle.opened, self.open) else {
            return Err(Failure("rocksdb: a range delete outside of a batch".to_owned()).into());
        };
        self.fill_batch(); // Invariant 1
        let (from, to) = (range.start, range.end);
        // SAFETY: the batch is ours; RocksDB copies both keys during the call.
        unsafe {
            ffi::rocksdb_writebatch_delete_range_cf(
                self.batch,
                self.family(keyspace),
                from.as_ptr().cast(),
                from.len(),
                to.as_ptr().cast(),
                to.len(),
            );
        }
        Ok(())
    }

    fn bulk_load(&mut self, keyspace: Keyspace, next: Entries<'_>) -> Attempt<()> {
        Ok(ingest::bulk_load(self.handle, keyspace, next)?)
    }

    fn scan(
        &mut self,
        keyspace: Keyspace,
        bounds: (Option<&[u8]>, Option<&[u8]>),
        direction: Direction,
        visit: Visit<'_>,
    ) -> Attempt<()> {
        let (family, mut error) = (self.family(keyspace), ptr::null_mut());
        // SAFETY: the iterator is created and destroyed here, and so are its options if it has a
        // bound, which outlives both; in `Open::Txn` a transaction was started.
        unsafe {
            let bounded = bounds.1.map(|to| {
                let read = ffi::rocksdb_readoptions_create();
                let (data, len) = (to.as_ptr().cast(), to.len());
                ffi::rocksdb_readoptions_set_iterate_upper_bound(read, data, len);
                if !self.snapshot.is_null() {
                    ffi::rocksdb_readoptions_set_snapshot(read, self.snapshot);
                }
                read
            });
            let read = bounded.unwrap_or(self.read);
            let iter = match self.open {
                Open::Txn => ffi::rocksdb_transaction_create_iterator_cf(self.txn, read, family),
                _ => self.handle.iterator(read, family),
            };
            Self::walk(iter, bounds, direction, visit);
            ffi::rocksdb_iter_get_error(iter, &mut error);
            ffi::rocksdb_iter_destroy(iter);
            if let Some(read) = bounded {
                ffi::rocksdb_readoptions_destroy(read);
            }
        }
        attempt(error)
    }

    fn commit(&mut self) -> Attempt<()> {
        let mut error = ptr::null_mut();
        match std::mem::replace(&mut self.open, Open::Nothing) {
            Open::Nothing => {}
            Open::Snapshot => self.leave_snapshot(),
            Open::Batch => {
                self.fill_batch();
                // SAFETY: batch and options are ours, the database is open.
                unsafe {
                    self.handle.write(self.write, self.batch, &mut error);
                    ffi::rocksdb_writebatch_clear(self.batch);
                }
            }
            Open::Txn => {
                // SAFETY: the transaction was started.
                unsafe { ffi::rocksdb_transaction_commit(self.txn, &mut error) };
                if !error.is_null() {
                    self.open = Open::Txn; // the caller must roll it back
                }
            }
        }
        attempt(error)
    }

    fn rollback(&mut self) -> Result<()> {
        let mut error = ptr::null_mut();
        self.pending.clear();
        self.bytes.clear();
        match std::mem::replace(&mut self.open, Open::Nothing) {
            Open::Nothing => {}
            // SAFETY: the batch is ours.
            Open::Batch => unsafe { ffi::rocksdb_writebatch_clear(self.batch) },
            Open::Snapshot => self.leave_snapshot(),
            // SAFETY: the transaction was started.
            Open::Txn => unsafe { ffi::rocksdb_transaction_rollback(self.txn, &mut error) },
        }
        check(error)
    }
}
