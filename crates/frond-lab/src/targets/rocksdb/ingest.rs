//! Bulk loads: tables are written outside of the database, and then become tables of it.
//!
//! RocksDB compresses them like its bottommost level and moves them there without rewriting them.
//! They are written through the page cache, since the C interface has no option for direct I/O; the
//! writer tells the kernel to drop what has been written.
//!
//! Threads: one bulk load at a time.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;

use libc::c_char;

use super::super::{Entries, Failure, Result};
use super::database::{Handle, Opened};
use super::{check, ffi, path_error};
use crate::schema::Keyspace;

/// Directory of the tables before they are ingested, within that of the database, which ignores
/// it.
const DIR: &str = "bulk";

fn path_text(path: &Path) -> Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(path_error)
}

/// Fills an empty column family.
pub(super) fn bulk_load(handle: &Handle, keyspace: Keyspace, next: Entries<'_>) -> Result<()> {
    let Opened::Plain(db) = handle.opened else {
        return Err(Failure("rocksdb: a bulk load of a database with transactions".to_owned()));
    };
    let dir = handle.dir.join(DIR);
    std::fs::create_dir_all(&dir)?;
    let tables = write_tables(handle, &dir, next)?;
    if !tables.is_empty() {
        ingest(db, handle.families[keyspace], &tables)?;
    }
    Ok(std::fs::remove_dir_all(&dir)?)
}

/// Writes tables.
struct Writer(*mut ffi::TableWriter);

impl Writer {
    fn new(handle: &Handle) -> Self {
        // SAFETY: the options of the database live as long as the handle; the writer copies both.
        unsafe {
            let file = ffi::rocksdb_envoptions_create();
            let writer = ffi::rocksdb_sstfilewriter_create(file, handle.options);
            ffi::rocksdb_envoptions_destroy(file);
            Self(writer)
        }
    }

    /// Starts a table.
    fn open(&mut self, path: &Path) -> Result<()> {
        let (path, mut error) = (path_text(path)?, ptr::null_mut());
        // SAFETY: the writer is ours; the path is zero-terminated and copied.
        unsafe { ffi::rocksdb_sstfilewriter_open(self.0, path.as_ptr(), &mut error) };
        check(error)
    }

    /// Adds an entry, and returns the size of the table so far.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<u64> {
        let (mut error, mut bytes) = (ptr::null_mut(), 0);
        let (data, len): (*const c_char, _) = (value.as_ptr().cast(), value.len());
        // SAFETY: the writer is ours and has an open table; it copies key and value.
        unsafe {
            let key_data = key.as_ptr().cast();
            ffi::rocksdb_sstfilewriter_put(self.0, key_data, key.len(), data, len, &mut error);
            ffi::rocksdb_sstfilewriter_file_size(self.0, &mut bytes);
        }
        check(error).map(|()| bytes)
    }

    /// Completes and syncs the table.
    fn finish(&mut self) -> Result<()> {
        let mut error = ptr::null_mut();
        // SAFETY: the writer is ours and has an open table.
        unsafe { ffi::rocksdb_sstfilewriter_finish(self.0, &mut error) };
        check(error)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // SAFETY: created by `new`, destroyed once.
        unsafe { ffi::rocksdb_sstfilewriter_destroy(self.0) };
    }
}

/// Writes all entries to tables in `dir`, and returns their paths.
fn write_tables(handle: &Handle, dir: &Path, next: Entries<'_>) -> Result<Vec<PathBuf>> {
    let (mut writer, mut tables) = (Writer::new(handle), Vec::new());
    let (mut key, mut value, mut is_open) = (Vec::new(), Vec::new(), false);
    while next(&mut key, &mut value) {
        if !is_open {
            let path = dir.join(format!("{}.sst", tables.len()));
            writer.open(&path)?;
            tables.push(path);
        }
        is_open = writer.put(&key, &value)? < handle.table_bytes;
        if !is_open {
            writer.finish()?;
        }
    }
    if is_open {
        writer.finish()?;
    }
    Ok(tables)
}

fn ingest(db: *mut ffi::Db, family: *mut ffi::Family, tables: &[PathBuf]) -> Result<()> {
    let paths = tables.iter().map(|path| path_text(path)).collect::<Result<Vec<_>>>()?;
    let pointers: Vec<*const c_char> = paths.iter().map(|path| path.as_ptr()).collect();
    let mut error = ptr::null_mut();
    // SAFETY: db and family are open; paths and options outlive the call.
    unsafe {
        let options = ffi::rocksdb_ingestexternalfileoptions_create();
        ffi::rocksdb_ingestexternalfileoptions_set_move_files(options, 1);
        let (list, count) = (pointers.as_ptr(), pointers.len());
        ffi::rocksdb_ingest_external_file_cf(db, family, list, count, options, &mut error);
        ffi::rocksdb_ingestexternalfileoptions_destroy(options);
    }
    check(error)
}
