//! LMDB as a target: keyspaces are named databases.
//!
//! Invariants
//! 1. There is one writer: a transaction that writes waits until the previous one ends, and has no
//!    conflicts.
//! 2. Reads outside of transactions use one read transaction per client, renewed for each call, so
//!    that they see the last commit.
//!
//! Threads: LMDB ties a write transaction to its thread, so a client belongs to one thread.

mod ffi;

use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::ptr;
use std::sync::Arc;

use libc::{c_int, c_uint};
use serde::Deserialize;

use super::ticker::Ticker;
use super::{
    Attempt, Begin, Clients, Connection, Direction, Durability, Entries, Failure, Result, Setup,
    Target, Visit, settings,
};
use crate::schema::{Keyspace, Table};

const SETTINGS: &str = include_str!("lmdb.settings.toml");
/// Entries of a bulk load in one transaction. LMDB keeps its changed pages in memory until it ends.
const ENTRIES_PER_COMMIT: u64 = 10_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    map_gib: usize,
    no_read_ahead: bool,
    no_tls: bool,
    sync_each_commit: String,
    os_flags: String,
    lazy_flags: String,
}

/// Largest number of clients that read at the same time; LMDB's default is 126.
const CLIENTS_MAX: c_uint = 1_024;

struct Environment(*mut ffi::Env);

// SAFETY: lmdb.h: an environment may be shared by threads; each transaction stays on one thread.
unsafe impl Send for Environment {}
// SAFETY: as above.
unsafe impl Sync for Environment {}

impl Drop for Environment {
    fn drop(&mut self) {
        // SAFETY: sessions borrow the target and are gone; the handle is closed once.
        unsafe { ffi::mdb_env_close(self.0) };
    }
}

fn check(code: c_int) -> Result<()> {
    if code == 0 {
        return Ok(());
    }
    // SAFETY: mdb_strerror returns a static or thread-local zero-terminated string.
    let text = unsafe { CStr::from_ptr(ffi::mdb_strerror(code)) };
    Err(Failure(format!("lmdb: {}", text.to_string_lossy())))
}

/// LMDB under test.
pub struct Lmdb {
    environment: Arc<Environment>,
    databases: Vec<ffi::Dbi>,
    durability: Durability,
    ticker: Option<Ticker>,
}

fn flag(name: &str) -> Result<c_uint> {
    match name {
        "default" => Ok(0),
        "NOSYNC" => Ok(ffi::NOSYNC),
        "NOMETASYNC" => Ok(ffi::NOMETASYNC),
        _ => Err(Failure(format!("lmdb.settings.toml: unknown flag `{name}`"))),
    }
}

impl Lmdb {
    /// Opens a fresh environment.
    pub fn open(setup: &Setup) -> Result<Self> {
        let settings: Settings = settings::parse("lmdb.settings.toml", SETTINGS)?;
        let mut flags = match setup.durability {
            Durability::Sync => flag(&settings.sync_each_commit)?,
            Durability::Os => flag(&settings.os_flags)?,
            Durability::Lazy => flag(&settings.lazy_flags)?,
        };
        flags |= if settings.no_read_ahead { ffi::NORDAHEAD } else { 0 };
        flags |= if settings.no_tls { ffi::NOTLS } else { 0 };
        let failure = |error: std::ffi::NulError| Failure(format!("lmdb: {error}"));
        let path = CString::new(setup.dir.as_os_str().as_bytes()).map_err(failure)?;
        let names: Vec<String> = setup.tables.iter().flat_map(Table::keyspaces).collect();
        let mut env = ptr::null_mut();
        // SAFETY: the out pointer is live; the handle is used only if the call succeeded.
        check(unsafe { ffi::mdb_env_create(&mut env) })?;
        let environment = Arc::new(Environment(env));
        // SAFETY: the handle is fresh; options are set before the open, as lmdb.h demands.
        unsafe {
            check(ffi::mdb_env_set_mapsize(env, settings.map_gib << 30))?;
            check(ffi::mdb_env_set_maxdbs(env, names.len() as c_uint))?;
            check(ffi::mdb_env_set_maxreaders(env, CLIENTS_MAX))?;
            check(ffi::mdb_env_open(env, path.as_ptr(), flags, 0o644))?;
        }
        let mut databases = Vec::new();
        // SAFETY: one transaction of this thread opens all databases and is committed.
        unsafe {
            let mut txn = ptr::null_mut();
            check(ffi::mdb_txn_begin(env, ptr::null_mut(), 0, &mut txn))?;
            for name in names {
                let (name, mut dbi) = (CString::new(name).map_err(failure)?, 0);
                check(ffi::mdb_dbi_open(txn, name.as_ptr(), ffi::CREATE, &mut dbi))?;
                databases.push(dbi);
            }
            check(ffi::mdb_txn_commit(txn))?;
        }
        let ticker = (setup.durability == Durability::Os).then(|| {
            let environment = Arc::clone(&environment);
            Ticker::each_second(move || sync(&environment))
        });
        Ok(Self { environment, databases, durability: setup.durability, ticker })
    }
}

fn sync(environment: &Environment) -> Result<()> {
    // SAFETY: the environment is open; mdb_env_sync may be called by any thread.
    check(unsafe { ffi::mdb_env_sync(environment.0, 1) })
}

impl Target for Lmdb {
    fn version(&self) -> String {
        // SAFETY: a constant zero-terminated string; null pointers mean that the numbers are not
        // wanted.
        let text = unsafe {
            CStr::from_ptr(ffi::mdb_version(ptr::null_mut(), ptr::null_mut(), ptr::null_mut()))
        };
        text.to_string_lossy().split(':').next().unwrap_or_default().to_owned()
    }

    fn settings(&self) -> Vec<(String, String)> {
        settings::pairs(SETTINGS)
    }

    fn connect(&self, clients: Clients) -> Result<Box<dyn Connection + '_>> {
        if clients.durability.is_some_and(|durability| durability != self.durability) {
            return Err(Failure("lmdb has the same durability for all commits".to_owned()));
        }
        let (txn, read) = (ptr::null_mut(), ptr::null_mut());
        Ok(Box::new(LmdbConnection { target: self, txn, read }))
    }

    fn bulk_loads(&self) -> bool {
        true
    }

    fn settle(&self) -> Result<()> {
        sync(&self.environment)
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        self.ticker.take().map_or(Ok(()), Ticker::stop)?;
        sync(&self.environment)
    }
}

struct LmdbConnection<'a> {
    target: &'a Lmdb,
    /// The current transaction, or null.
    txn: *mut ffi::Txn,
    /// The transaction for reads outside of one, or null.
    read: *mut ffi::Txn,
}

impl Drop for LmdbConnection<'_> {
    fn drop(&mut self) {
        // SAFETY: both transactions are this client's; a null one is skipped.
        unsafe {
            for txn in [self.txn, self.read].into_iter().filter(|txn| !txn.is_null()) {
                ffi::mdb_txn_abort(txn);
            }
        }
    }
}

fn val(bytes: &[u8]) -> ffi::Val {
    ffi::Val { size: bytes.len(), data: bytes.as_ptr().cast_mut().cast() }
}

/// # Safety
/// `val` must come from LMDB within a transaction that outlives `'a`.
unsafe fn bytes<'a>(val: &ffi::Val) -> &'a [u8] {
    if val.data.is_null() {
        return &[];
    }
    // SAFETY: guaranteed by the caller; LMDB points into its map.
    unsafe { std::slice::from_raw_parts(val.data.cast(), val.size) }
}

impl LmdbConnection<'_> {
    /// Runs `act` in the current transaction, or else in one that sees the last commit (Invariant
    /// 2).
    fn reading<T>(&mut self, act: impl FnOnce(*mut ffi::Txn) -> Result<T>) -> Result<T> {
        if !self.txn.is_null() {
            return act(self.txn);
        }
        // SAFETY: the transaction is this client's; it is reset after each use and renewed here.
        unsafe {
            match self.read.is_null() {
                true => {
                    let env = self.target.environment.0;
                    check(ffi::mdb_txn_begin(env, ptr::null_mut(), ffi::RDONLY, &mut self.read))?;
                }
                false => check(ffi::mdb_txn_renew(self.read))?,
            }
        }
        let result = act(self.read);
        // SAFETY: as above; nothing that `act` borrowed from the map is in use any more.
        unsafe { ffi::mdb_txn_reset(self.read) };
        result
    }

    fn writing(&self) -> Result<*mut ffi::Txn> {
        match self.txn.is_null() {
            true => Err(Failure("lmdb: no transaction was begun".to_owned())),
            false => Ok(self.txn),
        }
    }
}

impl Connection for LmdbConnection<'_> {
    fn begin(&mut self, what: Begin) -> Attempt<()> {
        let env = self.target.environment.0;
        let flags = if what == Begin::Read { ffi::RDONLY } else { 0 };
        // SAFETY: the environment is open; the transaction stays on this thread.
        Ok(check(unsafe { ffi::mdb_txn_begin(env, ptr::null_mut(), flags, &mut self.txn) })?)
    }

    fn get(&mut self, keyspace: Keyspace, key: &[u8], value: &mut Vec<u8>) -> Attempt<bool> {
        value.clear();
        let dbi = self.target.databases[keyspace];
        Ok(self.reading(|txn| {
            let (mut key, mut found) = (val(key), val(&[]));
            // SAFETY: the transaction is live; `found` points into the map until it ends or writes.
            match unsafe { ffi::mdb_get(txn, dbi, &mut key, &mut found) } {
                ffi::NOTFOUND => Ok(false),
                code => {
                    check(code)?;
                    // SAFETY: the call succeeded within this transaction.
                    value.extend_from_slice(unsafe { bytes(&found) });
                    Ok(true)
                }
            }
        })?)
    }

    fn get_for_update(
        &mut self,
        keyspace: Keyspace,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Attempt<bool> {
        self.writing()?; // it is the only writer of the store (Invariant 1)
        self.get(keyspace, key, value)
    }

    fn put(&mut self, keyspace: Keyspace, key: &[u8], value: &[u8]) -> Attempt<()> {
        let txn = self.writing()?;
        let (mut key, mut value) = (val(key), val(value));
        let dbi = self.target.databases[keyspace];
        // SAFETY: LMDB copies key and value during the call.
        Ok(check(unsafe { ffi::mdb_put(txn, dbi, &mut key, &mut value, 0) })?)
    }

    fn delete(&mut self, keyspace: Keyspace, key: &[u8]) -> Attempt<()> {
        let txn = self.writing()?;
        let mut key = val(key);
        // SAFETY: as in `put`; a null value deletes the key.
        let code = unsafe {
            ffi::mdb_del(txn, self.target.databases[keyspace], &mut key, ptr::null_mut())
        };
        if code == ffi::NOTFOUND { Ok(()) } else { Ok(check(code)?) }
    }

    fn bulk_load(&mut self, keyspace: Keyspace, next: Entries<'_>) -> Attempt<()> {
        let (mut key, mut value, mut has_more) = (Vec::new(), Vec::new(), true);
        let dbi = self.target.databases[keyspace];
        while has_more {
            self.begin(Begin::Batch)?;
            let txn = self.writing()?;
            for _ in 0..ENTRIES_PER_COMMIT {
                has_more = next(&mut key, &mut value);
                if !has_more {
                    break;
                }
                let (mut key, mut value) = (val(&key), val(&value));
                // SAFETY: LMDB copies key and value during the call. It checks that the key comes
                // after all others.
                check(unsafe { ffi::mdb_put(txn, dbi, &mut key, &mut value, ffi::APPEND) })?;
            }
            self.commit()?;
        }
        Ok(())
    }

    fn scan(
        &mut self,
        keyspace: Keyspace,
        bounds: (Option<&[u8]>, Option<&[u8]>),
        direction: Direction,
        visit: Visit<'_>,
    ) -> Attempt<()> {
        let dbi = self.target.databases[keyspace];
        Ok(self.reading(|txn| {
            let mut cursor = ptr::null_mut();
            // SAFETY: the transaction is live; the cursor is closed below, before it ends.
            check(unsafe { ffi::mdb_cursor_open(txn, dbi, &mut cursor) })?;
            let outcome = walk(cursor, bounds, direction, visit);
            // SAFETY: opened above, closed once.
            unsafe { ffi::mdb_cursor_close(cursor) };
            outcome
        })?)
    }

    fn commit(&mut self) -> Attempt<()> {
        let txn = std::mem::replace(&mut self.txn, ptr::null_mut());
        // SAFETY: commit frees the transaction in every case; it was ours.
        if txn.is_null() { Ok(()) } else { Ok(check(unsafe { ffi::mdb_txn_commit(txn) })?) }
    }

    fn rollback(&mut self) -> Result<()> {
        let txn = std::mem::replace(&mut self.txn, ptr::null_mut());
        if !txn.is_null() {
            // SAFETY: it was ours.
            unsafe { ffi::mdb_txn_abort(txn) };
        }
        Ok(())
    }
}

fn walk(
    cursor: *mut ffi::Cursor,
    (from, to): (Option<&[u8]>, Option<&[u8]>),
    direction: Direction,
    visit: Visit<'_>,
) -> Result<()> {
    let first = if direction == Direction::Forward { from } else { to };
    let (mut key, mut value) = (val(first.unwrap_or_default()), val(&[]));
    // SAFETY: the cursor is open while this function runs.
    let mut step =
        |key: &mut ffi::Val, op| unsafe { ffi::mdb_cursor_get(cursor, key, &mut value, op) };
    let next = if direction == Direction::Forward { ffi::NEXT } else { ffi::PREV };
    // LMDB has no empty keys: an empty bound is no bound.
    let mut code = match (first.filter(|first| !first.is_empty()), direction) {
        (None, Direction::Forward) => step(&mut key, ffi::FIRST),
        (None, Direction::Reverse) => step(&mut key, ffi::LAST),
        (Some(_), Direction::Forward) => step(&mut key, ffi::SET_RANGE),
        // The last key before the bound, which is exclusive.
        (Some(_), Direction::Reverse) => match step(&mut key, ffi::SET_RANGE) {
            ffi::NOTFOUND => step(&mut key, ffi::LAST),
            0 => step(&mut key, ffi::PREV),
            code => code,
        },
    };
    loop {
        if code == ffi::NOTFOUND {
            return Ok(());
        }
        check(code)?;
        // SAFETY: key and value point into the map, unchanged while the transaction writes nothing.
        let (key_bytes, value_bytes) = unsafe { (bytes(&key), bytes(&value)) };
        let is_past = match direction {
            Direction::Forward => to.is_some_and(|to| key_bytes >= to),
            Direction::Reverse => from.is_some_and(|from| key_bytes < from),
        };
        if is_past || !visit(key_bytes, value_bytes) {
            return Ok(());
        }
        // SAFETY: as in `step`, whose borrow of `value` has ended.
        code = unsafe { ffi::mdb_cursor_get(cursor, &mut key, &mut value, next) };
    }
}
