//! The open database, plain or with transactions; RocksDB's C interface has separate functions for
//! the two.
//!
//! Threads: any. According to rocksdb/c.h, a database and its column families may be used from any
//! thread.

use std::ffi::CStr;
use std::path::PathBuf;
use std::ptr;

use libc::{c_char, c_int};

use super::super::Result;
use super::{check, ffi};

/// The handle of a plain database or of one with transactions.
#[derive(Clone, Copy)]
pub(super) enum Opened {
    Plain(*mut ffi::Db),
    Transactions(*mut ffi::TransactionDb),
}

/// The open database; closed when the last user drops it.
pub(super) struct Handle {
    pub opened: Opened,
    pub families: Vec<*mut ffi::Family>,
    pub cache: *mut ffi::Cache,
    /// The options with which it was opened: those of its tables, too.
    pub options: *mut ffi::Options,
    pub dir: PathBuf,
    /// Size of a table that is written for a bulk load.
    pub table_bytes: u64,
}

// SAFETY: rocksdb/c.h guarantees that a DB and its column families may be used from any thread.
unsafe impl Send for Handle {}
// SAFETY: rocksdb/c.h: "Multiple threads can invoke const and non-const methods without
// synchronization".
unsafe impl Sync for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the handles come from the open of this database, and nothing else holds them (the
        // connections borrow the target, the ticker has ended). They are destroyed before the db.
        unsafe {
            self.families.iter().for_each(|&f| ffi::rocksdb_column_family_handle_destroy(f));
            match self.opened {
                Opened::Plain(db) => ffi::rocksdb_close(db),
                Opened::Transactions(db) => ffi::rocksdb_transactiondb_close(db),
            }
            ffi::rocksdb_options_destroy(self.options);
            ffi::rocksdb_cache_destroy(self.cache);
        }
    }
}

impl Handle {
    pub fn flush_wal(&self) -> Result<()> {
        let mut error = ptr::null_mut();
        // SAFETY: db is open as long as self lives.
        unsafe {
            match self.opened {
                Opened::Plain(db) => ffi::rocksdb_flush_wal(db, 1, &mut error),
                Opened::Transactions(db) => ffi::rocksdb_transactiondb_flush_wal(db, 1, &mut error),
            }
        }
        check(error)
    }

    /// Flushes the memtables of a family.
    pub fn flush(&self, family: *mut ffi::Family) -> Result<()> {
        let mut error = ptr::null_mut();
        // SAFETY: options are created and destroyed here; db and family are open.
        unsafe {
            let options = ffi::rocksdb_flushoptions_create();
            ffi::rocksdb_flushoptions_set_wait(options, 1);
            match self.opened {
                Opened::Plain(db) => ffi::rocksdb_flush_cf(db, options, family, &mut error),
                Opened::Transactions(db) => {
                    ffi::rocksdb_transactiondb_flush_cf(db, options, family, &mut error);
                }
            }
            ffi::rocksdb_flushoptions_destroy(options);
        }
        check(error)
    }

    /// Compacts a family completely; false if the interface has no such call.
    pub fn compact(&self, family: *mut ffi::Family) -> bool {
        let Opened::Plain(db) = self.opened else { return false };
        let (null, none) = (ptr::null(), 0);
        // SAFETY: null bounds mean the whole key range (c.h); db and family are open.
        unsafe { ffi::rocksdb_compact_range_cf(db, family, null, none, null, none) };
        true
    }

    /// Returns the sum of an integer property over the column families; `None` if the interface
    /// does not provide it.
    pub fn property(&self, name: &CStr) -> Option<f64> {
        let Opened::Plain(db) = self.opened else { return None };
        let of = |family: &*mut ffi::Family| {
            let mut value = 0;
            // SAFETY: db and family are open, `name` is zero-terminated, `value` outlives the call.
            unsafe { ffi::rocksdb_property_int_cf(db, *family, name.as_ptr(), &mut value) };
            value as f64
        };
        Some(self.families.iter().map(of).sum())
    }

    pub fn stats_text(&self) -> String {
        let name = c"rocksdb.dbstats".as_ptr();
        // SAFETY: db is open; the result is null or a malloc'ed string, copied and freed here.
        unsafe {
            let text = match self.opened {
                Opened::Plain(db) => ffi::rocksdb_property_value(db, name),
                Opened::Transactions(db) => ffi::rocksdb_transactiondb_property_value(db, name),
            };
            if text.is_null() {
                return String::new();
            }
            let copy = CStr::from_ptr(text).to_string_lossy().into_owned();
            ffi::rocksdb_free(text.cast());
            copy
        }
    }

    /// Writes a batch.
    ///
    /// # Safety
    /// `options` and `batch` must be the caller's own, and alive.
    pub unsafe fn write(
        &self,
        options: *const ffi::WriteOptions,
        batch: *mut ffi::WriteBatch,
        error: &mut *mut c_char,
    ) {
        // SAFETY: guaranteed by the caller; db is open.
        unsafe {
            match self.opened {
                Opened::Plain(db) => ffi::rocksdb_write(db, options, batch, error),
                Opened::Transactions(db) => {
                    ffi::rocksdb_transactiondb_write(db, options, batch, error);
                }
            }
        }
    }

    /// Takes a snapshot of the database, which the caller must release.
    ///
    /// # Safety
    /// The snapshot must be released before the database is closed.
    pub unsafe fn snapshot(&self) -> *const ffi::Snapshot {
        // SAFETY: db is open.
        unsafe {
            match self.opened {
                Opened::Plain(db) => ffi::rocksdb_create_snapshot(db),
                Opened::Transactions(db) => ffi::rocksdb_transactiondb_create_snapshot(db),
            }
        }
    }

    /// Releases a snapshot.
    ///
    /// # Safety
    /// The snapshot must be of this database, and no reader may use it any more.
    pub unsafe fn release_snapshot(&self, snapshot: *const ffi::Snapshot) {
        // SAFETY: guaranteed by the caller; db is open.
        unsafe {
            match self.opened {
                Opened::Plain(db) => ffi::rocksdb_release_snapshot(db, snapshot),
                Opened::Transactions(db) => {
                    ffi::rocksdb_transactiondb_release_snapshot(db, snapshot);
                }
            }
        }
    }

    /// Reads a key; null if it is absent.
    ///
    /// # Safety
    /// `options` must be the caller's own, and alive; `family` must belong to this database.
    pub unsafe fn get_pinned(
        &self,
        options: *const ffi::ReadOptions,
        family: *mut ffi::Family,
        key: &[u8],
        error: &mut *mut c_char,
    ) -> *mut ffi::Pinned {
        let (data, len) = (key.as_ptr().cast(), key.len());
        // SAFETY: guaranteed by the caller; db is open, and the key is not kept.
        unsafe {
            match self.opened {
                Opened::Plain(db) => {
                    ffi::rocksdb_get_pinned_cf(db, options, family, data, len, error)
                }
                Opened::Transactions(db) => {
                    ffi::rocksdb_transactiondb_get_pinned_cf(db, options, family, data, len, error)
                }
            }
        }
    }

    /// Creates an iterator, which the caller must destroy.
    ///
    /// # Safety
    /// As for [`get_pinned`](Self::get_pinned).
    pub unsafe fn iterator(
        &self,
        options: *const ffi::ReadOptions,
        family: *mut ffi::Family,
    ) -> *mut ffi::Iter {
        // SAFETY: guaranteed by the caller; db is open.
        unsafe {
            match self.opened {
                Opened::Plain(db) => ffi::rocksdb_create_iterator_cf(db, options, family),
                Opened::Transactions(db) => {
                    ffi::rocksdb_transactiondb_create_iterator_cf(db, options, family)
                }
            }
        }
    }
}

/// Parameters with which a database is opened.
pub(super) struct Opening<'a> {
    pub options: *const ffi::Options,
    pub path: &'a CStr,
    pub names: &'a [*const c_char],
    /// How long a transaction waits for a row lock, ms; `None` for a database without transactions.
    pub lock_timeout_ms: Option<i64>,
}

/// Opens a database.
///
/// # Safety
/// `options` must be alive; `names` must be zero-terminated and outlive the call.
pub(super) unsafe fn open(
    opening: &Opening<'_>,
    families: &mut [*mut ffi::Family],
    error: &mut *mut c_char,
) -> Opened {
    let Opening { options, path, names, lock_timeout_ms } = *opening;
    let family_options = vec![options; names.len()];
    let (count, path) = (names.len() as c_int, path.as_ptr());
    let (names, each, out) = (names.as_ptr(), family_options.as_ptr(), families.as_mut_ptr());
    // SAFETY: guaranteed by the caller; the vectors outlive the calls.
    unsafe {
        let Some(timeout) = lock_timeout_ms else {
            let db =
                ffi::rocksdb_open_column_families(options, path, count, names, each, out, error);
            return Opened::Plain(db);
        };
        let with = ffi::rocksdb_transactiondb_options_create();
        ffi::rocksdb_transactiondb_options_set_transaction_lock_timeout(with, timeout);
        ffi::rocksdb_transactiondb_options_set_default_lock_timeout(with, timeout);
        let db = ffi::rocksdb_transactiondb_open_column_families(
            options, with, path, count, names, each, out, error,
        );
        ffi::rocksdb_transactiondb_options_destroy(with);
        Opened::Transactions(db)
    }
}
