//! What the lab uses of SQLite's C interface, declared by hand from `sqlite3.h` 3.40.

use libc::{c_char, c_double, c_int, c_void};

/// `sqlite3`
#[repr(C)]
pub struct Database {
    _private: [u8; 0],
}

/// `sqlite3_stmt`
#[repr(C)]
pub struct Statement {
    _private: [u8; 0],
}

pub const OK: c_int = 0;
/// Another connection has the lock.
pub const BUSY: c_int = 5;
/// The same, within one.
pub const LOCKED: c_int = 6;
pub const ROW: c_int = 100;
pub const DONE: c_int = 101;
/// Read and write, create, and no mutex: a connection belongs to one thread at a time.
pub const OPEN_FLAGS: c_int = 0x2 | 0x4 | 0x8000;

/// Destructor argument of the bind functions: the bytes stay valid until the statement is reset.
pub const STATIC: *const c_void = std::ptr::null();

#[link(name = "sqlite3")]
unsafe extern "C" {
    pub fn sqlite3_libversion() -> *const c_char;
    pub fn sqlite3_open_v2(
        path: *const c_char,
        db: *mut *mut Database,
        flags: c_int,
        vfs: *const c_char,
    ) -> c_int;
    pub fn sqlite3_close_v2(db: *mut Database) -> c_int;
    pub fn sqlite3_errmsg(db: *mut Database) -> *const c_char;
    pub fn sqlite3_errcode(db: *mut Database) -> c_int;
    pub fn sqlite3_prepare_v2(
        db: *mut Database,
        sql: *const c_char,
        bytes: c_int,
        statement: *mut *mut Statement,
        tail: *mut *const c_char,
    ) -> c_int;
    pub fn sqlite3_finalize(statement: *mut Statement) -> c_int;
    pub fn sqlite3_step(statement: *mut Statement) -> c_int;
    pub fn sqlite3_reset(statement: *mut Statement) -> c_int;
    pub fn sqlite3_bind_blob(
        statement: *mut Statement,
        index: c_int,
        data: *const c_void,
        bytes: c_int,
        destructor: *const c_void,
    ) -> c_int;
    pub fn sqlite3_bind_text(
        statement: *mut Statement,
        index: c_int,
        data: *const c_char,
        bytes: c_int,
        destructor: *const c_void,
    ) -> c_int;
    pub fn sqlite3_bind_int64(statement: *mut Statement, index: c_int, value: i64) -> c_int;
    pub fn sqlite3_bind_double(statement: *mut Statement, index: c_int, value: c_double) -> c_int;
    pub fn sqlite3_column_int64(statement: *mut Statement, column: c_int) -> i64;
    pub fn sqlite3_column_double(statement: *mut Statement, column: c_int) -> c_double;
    pub fn sqlite3_column_blob(statement: *mut Statement, column: c_int) -> *const c_void;
    pub fn sqlite3_column_bytes(statement: *mut Statement, column: c_int) -> c_int;
}
