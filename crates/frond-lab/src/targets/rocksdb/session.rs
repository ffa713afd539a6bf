//! One client of RocksDB: a write batch, read and write options.
//!
//! Invariants
//! 1. A commit's entries reach the write batch ordered by keyspace and key, of one key in the order of
//!    the calls: neighbours in a skiplist are inserted one after the other, which costs RocksDB less.
//! 2. Performance counters of the client's thread are off: RocksDB counts comparisons otherwise.
//!
//! Threads: one thread.

use std::ptr;

use libc::c_char;

use super::super::{Direction, Durability, Result, Session, Visit};
use super::database::Handle;
use super::{check, ffi};
use crate::schema::Keyspace;

/// An entry of the commit being made; its bytes lie in `RocksSession::bytes`.
struct Pending {
    keyspace: Keyspace,
    begin: usize,
    key_len: usize,
    /// `None` deletes the key.
    value_len: Option<usize>,
}

/// A session; its pointers are its own.
pub(super) struct RocksSession<'a> {
    handle: &'a Handle,
    pending: Vec<Pending>,
    bytes: Vec<u8>,
    batch: *mut ffi::WriteBatch,
    write: *mut ffi::WriteOptions,
    read: *mut ffi::ReadOptions,
}

impl Drop for RocksSession<'_> {
    fn drop(&mut self) {
        // SAFETY: created by `new` for this session alone.
        unsafe {
            ffi::rocksdb_writebatch_destroy(self.batch);
            ffi::rocksdb_writeoptions_destroy(self.write);
            ffi::rocksdb_readoptions_destroy(self.read);
        }
    }
}

impl<'a> RocksSession<'a> {
    /// A session of the calling thread (Invariant 2).
    pub(super) fn new(handle: &'a Handle, durability: Durability) -> Self {
        // SAFETY: plain constructors, destroyed by `drop`; the perf level is the calling thread's.
        let (batch, write, read) = unsafe {
            ffi::rocksdb_set_perf_level(ffi::PERF_LEVEL_DISABLE);
            let write = ffi::rocksdb_writeoptions_create();
            ffi::rocksdb_writeoptions_set_sync(write, (durability == Durability::Sync).into());
            (ffi::rocksdb_writebatch_create(), write, ffi::rocksdb_readoptions_create())
        };
        Self { handle, pending: Vec::new(), bytes: Vec::new(), batch, write, read }
    }

    fn append(&mut self, keyspace: Keyspace, key: &[u8], value: Option<&[u8]>) {
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value.unwrap_or_default());
        let value_len = value.map(<[u8]>::len);
        self.pending.push(Pending { keyspace, begin, key_len: key.len(), value_len });
    }

    /// Invariant 1.
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
}

/// Borrows the bytes RocksDB points at.
///
/// # Safety
/// `data` must point at `len` bytes that stay unchanged for `'a`, or be null.
pub(super) unsafe fn bytes<'a>(data: *const c_char, len: usize) -> &'a [u8] {
    if data.is_null() {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(data.cast(), len) }
}

impl Session for RocksSession<'_> {
    fn put(&mut self, keyspace: Keyspace, key: &[u8], value: &[u8]) -> Result<()> {
        self.append(keyspace, key, Some(value));
        Ok(())
    }

    fn delete(&mut self, keyspace: Keyspace, key: &[u8]) -> Result<()> {
        self.append(keyspace, key, None);
        Ok(())
    }

    fn commit(&mut self) -> Result<()> {
        self.fill_batch();
        let mut error = ptr::null_mut();
        // SAFETY: batch and options are ours, the db is open.
        unsafe {
            self.handle.write(self.write, self.batch, &mut error);
            ffi::rocksdb_writebatch_clear(self.batch);
        }
        check(error)
    }

    fn get(&mut self, keyspace: Keyspace, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        let (family, mut error, mut len) = (self.family(keyspace), ptr::null_mut(), 0);
        // SAFETY: the slice returned (null if the key is absent) is read before it is destroyed.
        let found = unsafe {
            let pinned = self.handle.get_pinned(self.read, family, key, &mut error);
            if !pinned.is_null() {
                let data = ffi::rocksdb_pinnableslice_value(pinned, &mut len);
                value.extend_from_slice(bytes(data, len));
                ffi::rocksdb_pinnableslice_destroy(pinned);
            }
            !pinned.is_null()
        };
        check(error)?;
        Ok(found)
    }

    fn scan(
        &mut self,
        keyspace: Keyspace,
        from: Option<&[u8]>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<()> {
        let (family, mut error) = (self.family(keyspace), ptr::null_mut());
        // SAFETY: the iterator is created and destroyed here; key and value are used before it moves.
        unsafe {
            let iter = self.handle.iterator(self.read, family);
            match (from, direction) {
                (Some(key), Direction::Forward) => {
                    ffi::rocksdb_iter_seek(iter, key.as_ptr().cast(), key.len());
                }
                (Some(key), Direction::Reverse) => {
                    ffi::rocksdb_iter_seek_for_prev(iter, key.as_ptr().cast(), key.len());
                }
                (None, Direction::Forward) => ffi::rocksdb_iter_seek_to_first(iter),
                (None, Direction::Reverse) => ffi::rocksdb_iter_seek_to_last(iter),
            }
            while ffi::rocksdb_iter_valid(iter) != 0 {
                let (mut key_len, mut value_len) = (0, 0);
                let key = ffi::rocksdb_iter_key(iter, &mut key_len);
                let value = ffi::rocksdb_iter_value(iter, &mut value_len);
                if !visit(bytes(key, key_len), bytes(value, value_len)) {
                    break;
                }
                match direction {
                    Direction::Forward => ffi::rocksdb_iter_next(iter),
                    Direction::Reverse => ffi::rocksdb_iter_prev(iter),
                }
            }
            ffi::rocksdb_iter_get_error(iter, &mut error);
            ffi::rocksdb_iter_destroy(iter);
        }
        check(error)
    }
}
