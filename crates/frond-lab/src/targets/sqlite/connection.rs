//! A connection and its prepared statements, with SQLite's conventions turned into ours.
//!
//! Invariants
//! 1. Bound bytes outlive the step that uses them: every statement is reset before its caller returns.
//! 2. A connection is used by one thread at a time; it may move between steps.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::ptr;

use libc::c_int;

use super::ffi;
use crate::schema::Value;
use crate::targets::{Failure, Result};

/// A connection.
pub struct Connection {
    db: *mut ffi::Database,
    statements: HashMap<String, *mut ffi::Statement>,
}

// SAFETY: sqlite3.h: without its mutex a connection may be used by any thread, one at a time, which
// ownership guarantees.
unsafe impl Send for Connection {}

/// A parameter of a statement.
#[derive(Clone, Copy)]
pub enum Parameter<'a> {
    /// A blob.
    Blob(&'a [u8]),
    /// A column's value.
    Value(Value<'a>),
    /// An integer.
    Integer(i64),
}

impl Connection {
    /// Opens the database at `path`.
    pub fn open(path: &CStr) -> Result<Self> {
        let mut db = ptr::null_mut();
        // SAFETY: path is zero-terminated; db receives a handle even on failure.
        let code =
            unsafe { ffi::sqlite3_open_v2(path.as_ptr(), &mut db, ffi::OPEN_FLAGS, ptr::null()) };
        let connection = Self { db, statements: HashMap::new() };
        connection.check(code).map(|()| connection)
    }

    fn check(&self, code: c_int) -> Result<()> {
        if matches!(code, ffi::OK | ffi::ROW | ffi::DONE) {
            return Ok(());
        }
        // SAFETY: db is a handle; the message is a zero-terminated string, copied at once.
        let text = unsafe { CStr::from_ptr(ffi::sqlite3_errmsg(self.db)) };
        Err(Failure(format!("sqlite: {} (code {code})", text.to_string_lossy())))
    }

    /// Gives all memory back that it can do without, to the system: with sixty connections that wait, what the allocator
    /// keeps of theirs is more than the store may have.
    pub fn rest(&mut self) -> Result<()> {
        self.execute("PRAGMA shrink_memory")?;
        // SAFETY: it moves nothing that anybody has, and asks for no state of the caller's.
        #[cfg(target_env = "gnu")]
        unsafe {
            libc::malloc_trim(0)
        };
        Ok(())
    }

    /// The code of the last call that failed.
    pub fn code(&self) -> c_int {
        // SAFETY: db is a handle.
        unsafe { ffi::sqlite3_errcode(self.db) }
    }

    fn prepare(&mut self, sql: &str) -> Result<*mut ffi::Statement> {
        if let Some(&statement) = self.statements.get(sql) {
            return Ok(statement);
        }
        let mut statement = ptr::null_mut();
        // SAFETY: the text is given with its length; `statement` receives the handle.
        let code = unsafe {
            ffi::sqlite3_prepare_v2(
                self.db,
                sql.as_ptr().cast(),
                sql.len() as c_int,
                &mut statement,
                ptr::null_mut(),
            )
        };
        self.check(code)?;
        self.statements.insert(sql.to_owned(), statement);
        Ok(statement)
    }

    /// Runs `sql` with `parameters`; `visit` sees each row and ends the statement with false.
    pub fn run<'p>(
        &mut self,
        sql: &str,
        parameters: impl Iterator<Item = Parameter<'p>>,
        visit: &mut dyn FnMut(&Row) -> bool,
    ) -> Result<()> {
        let statement = self.prepare(sql)?;
        for (index, parameter) in (1..).zip(parameters) {
            // SAFETY: the statement is ours; the bytes live until it is reset below (Invariant 1).
            let code = unsafe { bind(statement, index, parameter) };
            self.check(code)?;
        }
        let outcome = loop {
            // SAFETY: the statement is ours.
            match unsafe { ffi::sqlite3_step(statement) } {
                ffi::ROW if visit(&Row(statement)) => {}
                ffi::ROW | ffi::DONE => break Ok(()),
                code => break self.check(code),
            }
        };
        // SAFETY: as above. Its code repeats the step's.
        unsafe { ffi::sqlite3_reset(statement) };
        outcome
    }

    /// Runs a statement without parameters and rows.
    pub fn execute(&mut self, sql: &str) -> Result<()> {
        self.run(sql, std::iter::empty(), &mut |_| true)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: all statements are finalized once, then the handle is closed.
        unsafe {
            self.statements.values().for_each(|&s| {
                ffi::sqlite3_finalize(s);
            });
            ffi::sqlite3_close_v2(self.db);
        }
    }
}

/// # Safety
/// The bytes of `parameter` must outlive the statement's next reset.
unsafe fn bind(statement: *mut ffi::Statement, index: c_int, parameter: Parameter<'_>) -> c_int {
    // SAFETY: the caller's promise covers blob and text; numbers are copied.
    unsafe {
        let integer = |value| ffi::sqlite3_bind_int64(statement, index, value);
        match parameter {
            Parameter::Blob(bytes) => {
                let (data, len) = (bytes.as_ptr().cast(), bytes.len() as c_int);
                ffi::sqlite3_bind_blob(statement, index, data, len, ffi::STATIC)
            }
            Parameter::Integer(value) => integer(value),
            Parameter::Value(Value::I8(value)) => integer(value.into()),
            Parameter::Value(Value::I32(value)) => integer(value.into()),
            Parameter::Value(Value::U32(value)) => integer(value.into()),
            Parameter::Value(Value::U64(value) | Value::Millis(value)) => integer(value as i64),
            Parameter::Value(Value::F32(value)) => {
                ffi::sqlite3_bind_double(statement, index, value.into())
            }
            Parameter::Value(Value::Text(text)) => {
                let (data, len) = (text.as_ptr().cast(), text.len() as c_int);
                ffi::sqlite3_bind_text(statement, index, data, len, ffi::STATIC)
            }
        }
    }
}

/// The current row of a statement.
pub struct Row(*mut ffi::Statement);

impl Row {
    /// An integer column.
    pub fn integer(&self, column: c_int) -> i64 {
        // SAFETY: the statement stands on a row while `visit` runs.
        unsafe { ffi::sqlite3_column_int64(self.0, column) }
    }

    /// A float column.
    pub fn float(&self, column: c_int) -> f64 {
        // SAFETY: as above.
        unsafe { ffi::sqlite3_column_double(self.0, column) }
    }

    /// A text or blob column.
    pub fn bytes(&self, column: c_int) -> &[u8] {
        // SAFETY: as above; the bytes stay until the statement moves on, which needs `visit` to return.
        unsafe {
            let data = ffi::sqlite3_column_blob(self.0, column);
            let len = ffi::sqlite3_column_bytes(self.0, column);
            if data.is_null() { &[] } else { std::slice::from_raw_parts(data.cast(), len as usize) }
        }
    }
}

/// Version of the library.
pub fn version() -> String {
    // SAFETY: a constant zero-terminated string.
    unsafe { CStr::from_ptr(ffi::sqlite3_libversion()).to_string_lossy().into_owned() }
}

/// A path as SQLite takes it.
pub fn path(path: &std::path::Path) -> Result<CString> {
    use std::os::unix::ffi::OsStrExt;
    CString::new(path.as_os_str().as_bytes()).map_err(|error| Failure(format!("sqlite: {error}")))
}
