//! The part of LMDB's interface that the lab uses, declared by hand from `lmdb.h` 0.9.24.

use libc::{c_char, c_int, c_uint, c_void, mode_t, size_t};

macro_rules! opaque {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        $($(#[$doc])* #[repr(C)] pub struct $name { _private: [u8; 0] })+
    };
}

opaque! {
    /// `MDB_env`
    Env,
    /// `MDB_txn`
    Txn,
    /// `MDB_cursor`
    Cursor,
}

/// `MDB_dbi`
pub type Dbi = c_uint;

/// `MDB_val`
#[repr(C)]
pub struct Val {
    pub size: size_t,
    pub data: *mut c_void,
}

pub const NOSYNC: c_uint = 0x1_0000;
pub const RDONLY: c_uint = 0x2_0000;
pub const NOMETASYNC: c_uint = 0x4_0000;
pub const CREATE: c_uint = 0x4_0000;
pub const NOTLS: c_uint = 0x20_0000;
pub const NORDAHEAD: c_uint = 0x80_0000;
pub const APPEND: c_uint = 0x2_0000;
pub const NOTFOUND: c_int = -30798;

pub const FIRST: c_int = 0;
pub const LAST: c_int = 6;
pub const NEXT: c_int = 8;
pub const PREV: c_int = 12;
pub const SET_RANGE: c_int = 17;

#[link(name = "lmdb")]
unsafe extern "C" {
    pub fn mdb_version(major: *mut c_int, minor: *mut c_int, patch: *mut c_int) -> *const c_char;
    pub fn mdb_strerror(code: c_int) -> *const c_char;
    pub fn mdb_env_create(env: *mut *mut Env) -> c_int;
    pub fn mdb_env_set_mapsize(env: *mut Env, bytes: size_t) -> c_int;
    pub fn mdb_env_set_maxdbs(env: *mut Env, n: c_uint) -> c_int;
    pub fn mdb_env_set_maxreaders(env: *mut Env, n: c_uint) -> c_int;
    pub fn mdb_env_open(env: *mut Env, path: *const c_char, flags: c_uint, mode: mode_t) -> c_int;
    pub fn mdb_env_sync(env: *mut Env, force: c_int) -> c_int;
    pub fn mdb_env_close(env: *mut Env);
    pub fn mdb_txn_begin(
        env: *mut Env,
        parent: *mut Txn,
        flags: c_uint,
        txn: *mut *mut Txn,
    ) -> c_int;
    pub fn mdb_txn_commit(txn: *mut Txn) -> c_int;
    pub fn mdb_txn_abort(txn: *mut Txn);
    pub fn mdb_txn_reset(txn: *mut Txn);
    pub fn mdb_txn_renew(txn: *mut Txn) -> c_int;
    pub fn mdb_dbi_open(txn: *mut Txn, name: *const c_char, flags: c_uint, dbi: *mut Dbi) -> c_int;
    pub fn mdb_get(txn: *mut Txn, dbi: Dbi, key: *mut Val, value: *mut Val) -> c_int;
    pub fn mdb_put(txn: *mut Txn, dbi: Dbi, key: *mut Val, value: *mut Val, flags: c_uint)
    -> c_int;
    pub fn mdb_del(txn: *mut Txn, dbi: Dbi, key: *mut Val, value: *mut Val) -> c_int;
    pub fn mdb_cursor_open(txn: *mut Txn, dbi: Dbi, cursor: *mut *mut Cursor) -> c_int;
    pub fn mdb_cursor_close(cursor: *mut Cursor);
    pub fn mdb_cursor_get(cursor: *mut Cursor, key: *mut Val, value: *mut Val, op: c_int) -> c_int;
}
