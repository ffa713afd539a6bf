//! The C API of a library that is loaded at run time: its functions, resolved when it is opened,
//! and safe wrappers with Rust's types. The only unsafe code of this target.
//!
//! Invariants
//! 1. Every function, struct and constant here is declared in the commit's header as in the header
//!    that this file was written for (`header.rs`); otherwise the library is not used.
//! 2. The library is never unloaded: its threads and thread-local destructors may outlive a store.

use std::ffi::{CStr, CString, c_char, c_void};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{NonNull, null, null_mut};

use super::header::{Needed, Same};
use crate::targets::{Failure, Result};

type Db = c_void;
type Tree = c_void;
type Batch = c_void;
type Cursor = c_void;
type Txn = c_void;

const OK: i32 = 0;
const NOT_FOUND: i32 = 1;
const RETRY: i32 = 1;
/// Durability of commits: that of the store.
pub const AS_STORE: i32 = 0;
const NO_LOCK: i32 = 0;
const EXCLUSIVE: i32 = 2;
const WAIT: i32 = 0;

/// Bytes after the known fields: room for the fields that earlier or later commits have there.
const REST: usize = 4096;

#[repr(C, align(8))]
struct Error {
    code: i32,
    kind: i32,
    message: [c_char; 504],
    rest: [u8; REST],
}

#[repr(C, align(8))]
struct Options {
    cache_size: u64,
    durability: i32,
    rest: [u8; REST],
}

#[repr(C, align(8))]
struct TxnOptions {
    isolation: i32,
    read_only: bool,
    lock_timeout_ms: i64,
    durability: i32,
    rest: [u8; REST],
}

/// A part of a layout.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Part {
    pub kind: i32,
    pub width: u16,
    pub hint: i32,
}

#[repr(C)]
struct TreeOptions {
    size_class: i32,
    unique: bool,
    attributes: *const u8,
    attributes_length: usize,
    key_parts: *const Part,
    key_parts_count: usize,
    value_parts: *const Part,
    value_parts_count: usize,
    rest: [u8; REST],
}

#[repr(C)]
struct Buffer {
    data: *mut u8,
    length: usize,
    capacity: usize,
}

#[repr(C)]
struct Row {
    key: *const u8,
    key_length: usize,
    value: *const u8,
    value_length: usize,
    locked: bool,
}

#[repr(C)]
struct Rows {
    rows: *const Row,
    count: usize,
}

const STRUCTS: &[(&str, Same)] = &[
    ("frond_error", Same::First(3)),
    ("frond_options", Same::First(2)),
    ("frond_txn_options", Same::First(4)),
    ("frond_tree_options", Same::First(8)),
    ("frond_part", Same::Whole),
    ("frond_buffer", Same::Whole),
    ("frond_row", Same::Whole),
    ("frond_rows", Same::Whole),
];
const CONSTANTS: &[&str] = &[
    "FROND_OK",
    "FROND_NOT_FOUND",
    "FROND_RETRY",
    "FROND_MESSAGE_BYTES",
    "FROND_SYNC",
    "FROND_OS",
    "FROND_LAZY",
    "FROND_AS_STORE",
    "FROND_NO_LOCK",
    "FROND_EXCLUSIVE",
    "FROND_WAIT",
    "FROND_PART_FIXED",
    "FROND_HINT_INTEGER",
    "FROND_HINT_FLOAT",
];

/// Declares the functions: for each, a field of `Api` that is resolved by its name.
macro_rules! functions {
    ($($name:ident($($kind:ty),* $(,)?) $(-> $returns:ty)?;)*) => {
        /// The functions of a library.
        pub struct Api {
            $($name: unsafe extern "C" fn($($kind),*) $(-> $returns)?,)*
        }

        const FUNCTIONS: &[&str] = &[$(stringify!($name)),*];

        impl Api {
            /// Resolves all functions in a library whose header was compared.
            fn resolve(library: &Loaded, commit: &str) -> Result<Self> {
                $(
                    let address = library.symbol(concat!(stringify!($name), "\0")).ok_or_else(|| {
                        Failure(format!("the library of commit {commit} lacks {}", stringify!($name)))
                    })?;
                    // SAFETY: the header of the commit declares a function of this name and type
                    // (Invariant 1), and a pointer to it has the size of a data pointer, as POSIX
                    // demands of dlsym.
                    let $name = unsafe {
                        std::mem::transmute::<NonNull<c_void>, unsafe extern "C" fn($($kind),*) $(-> $returns)?>(address)
                    };
                )*
                Ok(Self { $($name,)* })
            }
        }
    };
}

functions! {
    frond_version() -> *const c_char;
    frond_options_init(*mut Options);
    frond_open(*const c_char, *const Options, *mut *mut Db, *mut Error) -> i32;
    frond_close(*mut Db, *mut Error) -> i32;
    frond_checkpoint(*const Db, *mut Error) -> i32;
    frond_stats(*const Db, extern "C" fn(*mut c_void, *const c_char, u64), *mut c_void, *mut Error) -> i32;
    frond_tree_options_init(*mut TreeOptions);
    frond_tree_create(*const Db, *const c_char, *const TreeOptions, *mut *mut Tree, *mut Error) -> i32;
    frond_tree_free(*mut Tree);
    frond_get(*const Tree, *const u8, usize, *mut Buffer, *mut Error) -> i32;
    frond_buffer_free(*mut Buffer);
    frond_batch_new(*mut *mut Batch, *mut Error) -> i32;
    frond_batch_free(*mut Batch);
    frond_batch_put(*mut Batch, *const Tree, *const u8, usize, *const u8, usize, *mut Error) -> i32;
    frond_batch_delete(*mut Batch, *const Tree, *const u8, usize, *mut Error) -> i32;
    frond_batch_delete_range(*mut Batch, *const Tree, *const u8, usize, *const u8, usize, *mut Error) -> i32;
    frond_batch_commit(*const Db, *mut Batch, i32, *mut u64, *mut Error) -> i32;
    frond_scan(*const Tree, *const u8, usize, *const u8, usize, *mut *mut Cursor, *mut Error) -> i32;
    frond_cursor_next(*mut Cursor, usize, *mut Rows, *mut Error) -> i32;
    frond_cursor_prev(*mut Cursor, usize, *mut Rows, *mut Error) -> i32;
    frond_cursor_seek_last(*mut Cursor, *mut Error) -> i32;
    frond_cursor_free(*mut Cursor);
    frond_txn_options_init(*mut TxnOptions);
    frond_txn_begin(*const Db, *const TxnOptions, *mut *mut Txn, *mut Error) -> i32;
    frond_txn_get(*const Txn, *const Tree, *const u8, usize, i32, i32, *mut Buffer, *mut Error) -> i32;
    frond_txn_put(*const Txn, *const Tree, *const u8, usize, *const u8, usize, *mut Error) -> i32;
    frond_txn_delete(*const Txn, *const Tree, *const u8, usize, *mut Error) -> i32;
    frond_txn_scan(
        *const Txn, *const Tree, *const u8, usize, *const u8, usize, i32, i32, *mut *mut Cursor, *mut Error
    ) -> i32;
    frond_txn_commit(*mut Txn, *mut u64, *mut Error) -> i32;
    frond_txn_rollback(*mut Txn, *mut Error) -> i32;
}

/// A loaded library, which stays loaded while the process lives (Invariant 2).
struct Loaded(NonNull<c_void>);

impl Loaded {
    fn open(path: &Path) -> Result<Self> {
        let name = CString::new(path.as_os_str().as_bytes())
            .map_err(|_| Failure(format!("{}: a zero byte in its name", path.display())))?;
        // SAFETY: the name ends with a zero byte. The library's initializers run now; they are
        // Rust's, and of a commit of this repository that was built from source.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        NonNull::new(handle).map(Self).ok_or_else(|| {
            // SAFETY: dlerror returns null or a string that is valid until this thread's next dl*
            // call.
            let said = unsafe { libc::dlerror().as_ref().map(|text| CStr::from_ptr(text)) };
            let said = said.map_or_else(String::new, |text| text.to_string_lossy().into_owned());
            Failure(format!("{}: {said}", path.display()))
        })
    }

    /// Returns the address of a symbol, whose name ends with a zero byte.
    fn symbol(&self, name: &'static str) -> Option<NonNull<c_void>> {
        // SAFETY: the library of the handle is never closed, and the name ends with a zero byte.
        NonNull::new(unsafe { libc::dlsym(self.0.as_ptr(), name.as_ptr().cast()) })
    }
}

/// The error of a call.
pub struct Refusal {
    /// Whether the transaction may be run again.
    pub is_retry: bool,
    /// The error message.
    pub message: String,
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self(format!("frond: {}", refusal.message))
    }
}

type Called<T> = std::result::Result<T, Refusal>;

/// Makes a call with an error struct; returns false for FROND_NOT_FOUND.
fn called(call: impl FnOnce(*mut Error) -> i32) -> Called<bool> {
    let mut error = Error { code: 0, kind: 0, message: [0; 504], rest: [0; REST] };
    match call(&raw mut error) {
        OK => Ok(true),
        NOT_FOUND => Ok(false),
        code => {
            let bytes: Vec<u8> = error
                .message
                .iter()
                .map(|c| c.cast_unsigned())
                .take_while(|byte| *byte != 0)
                .collect();
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let message = if text.is_empty() { format!("error {code}") } else { text };
            Err(Refusal { is_retry: error.kind == RETRY, message })
        }
    }
}

/// An open store.
pub struct Store {
    api: Api,
    db: NonNull<Db>,
    trees: Vec<NonNull<Tree>>,
}

// SAFETY: frond.h: handles of stores and trees may be used by all threads concurrently.
unsafe impl Send for Store {}
// SAFETY: as above.
unsafe impl Sync for Store {}

/// Options of a tree to create.
pub struct TreeParts {
    /// Whether keys are mostly inserted with a check that they are absent.
    pub unique: bool,
    /// The parts of its keys.
    pub keys: Vec<Part>,
    /// The parts of its values; if empty, values are stored as they are.
    pub values: Vec<Part>,
}

fn text(name: &str) -> Result<CString> {
    CString::new(name).map_err(|_| Failure(format!("{name}: a zero byte in a name")))
}

fn handle<T>(pointer: *mut T) -> Called<NonNull<T>> {
    let none = || Refusal { is_retry: false, message: "no handle was given back".to_owned() };
    NonNull::new(pointer).ok_or_else(none)
}

// SAFETY of all calls below: the functions are those of the header (Invariant 1). Handles come from
// the same library and are freed once, when their owner is dropped. Slices are passed with their
// lengths. Structs that the library fills are at least as long as its own (`REST`), and the library
// initializes them before they are changed. Pointers to locals are used only during the call, since
// frond.h says that options and parts are copied.
impl Store {
    /// Loads a library, whose header is `header`, and opens a new store.
    pub fn open(
        library: &Path,
        (commit, header): (&str, &str),
        dir: &Path,
        (cache_size, durability): (u64, i32),
    ) -> Result<Self> {
        Needed { functions: FUNCTIONS, structs: STRUCTS, constants: CONSTANTS }
            .check(commit, header)?;
        let api = Api::resolve(&Loaded::open(library)?, commit)?;
        let path = text(&dir.to_string_lossy())?;
        let mut options = Options { cache_size: 0, durability: 0, rest: [0; REST] };
        let mut db: *mut Db = null_mut();
        // SAFETY: see above the impl.
        unsafe { (api.frond_options_init)(&raw mut options) };
        (options.cache_size, options.durability) = (cache_size, durability);
        // SAFETY: see above the impl.
        called(|error| unsafe {
            (api.frond_open)(path.as_ptr(), &raw const options, &raw mut db, error)
        })?;
        Ok(Self { api, db: handle(db)?, trees: Vec::new() })
    }

    /// Returns the library's version.
    pub fn version(&self) -> String {
        // SAFETY: frond.h: the version is a string that lives as long as the library.
        unsafe { CStr::from_ptr((self.api.frond_version)()) }.to_string_lossy().into_owned()
    }

    /// Creates the next tree.
    pub fn create(&mut self, name: &str, parts: &TreeParts) -> Result<()> {
        let name = text(name)?;
        let mut options = TreeOptions {
            size_class: 0,
            unique: false,
            attributes: null(),
            attributes_length: 0,
            key_parts: null(),
            key_parts_count: 0,
            value_parts: null(),
            value_parts_count: 0,
            rest: [0; REST],
        };
        // SAFETY: see above the impl.
        unsafe { (self.api.frond_tree_options_init)(&raw mut options) };
        options.unique = parts.unique;
        (options.key_parts, options.key_parts_count) = (parts.keys.as_ptr(), parts.keys.len());
        if !parts.values.is_empty() {
            (options.value_parts, options.value_parts_count) =
                (parts.values.as_ptr(), parts.values.len());
        }
        let mut tree: *mut Tree = null_mut();
        // SAFETY: see above the impl.
        called(|error| unsafe {
            (self.api.frond_tree_create)(
                self.db.as_ptr(),
                name.as_ptr(),
                &raw const options,
                &raw mut tree,
                error,
            )
        })?;
        self.trees.push(handle(tree)?);
        Ok(())
    }

    fn tree(&self, tree: usize) -> Called<*const Tree> {
        let none = || Refusal { is_retry: false, message: format!("there is no tree {tree}") };
        self.trees.get(tree).map(|tree| tree.as_ptr().cast_const()).ok_or_else(none)
    }

    /// Writes out everything that is only in memory.
    pub fn checkpoint(&self) -> Called<()> {
        // SAFETY: see above the impl.
        called(|error| unsafe { (self.api.frond_checkpoint)(self.db.as_ptr(), error) }).map(drop)
    }

    /// Returns the store's counters.
    pub fn stats(&self) -> Vec<(String, u64)> {
        extern "C" fn tell(found: *mut c_void, name: *const c_char, value: u64) {
            // SAFETY: `stats` passes its vector, which nothing else uses meanwhile; names are
            // strings (frond.h).
            let (found, name) =
                unsafe { (&mut *found.cast::<Vec<(String, u64)>>(), CStr::from_ptr(name)) };
            found.push((name.to_string_lossy().into_owned(), value));
        }
        let mut found: Vec<(String, u64)> = Vec::new();
        let context = (&raw mut found).cast();
        // SAFETY: see above the impl; `tell` is called by this thread before the call returns.
        let all = called(|error| unsafe {
            (self.api.frond_stats)(self.db.as_ptr(), tell, context, error)
        });
        if all.is_ok() { found } else { Vec::new() }
    }

    /// Reads a value into a buffer; false if the key is absent.
    pub fn get(&self, tree: usize, key: &[u8], buffer: &mut Held<'_>) -> Called<bool> {
        let (tree, out) = (self.tree(tree)?, &raw mut buffer.buffer);
        // SAFETY: see above the impl.
        called(|error| unsafe { (self.api.frond_get)(tree, key.as_ptr(), key.len(), out, error) })
    }

    /// Visits the rows of `[from, to)`, in reverse if wanted, until `visit` returns false.
    pub fn scan(
        &self,
        tree: usize,
        (from, to): (Option<&[u8]>, Option<&[u8]>),
        is_reverse: bool,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Called<()> {
        let tree = self.tree(tree)?;
        let mut cursor: *mut Cursor = null_mut();
        let ((from, from_length), (to, to_length)) = (bound(from), bound(to));
        // SAFETY: see above the impl.
        called(|error| unsafe {
            (self.api.frond_scan)(tree, from, from_length, to, to_length, &raw mut cursor, error)
        })?;
        Walk { api: &self.api, cursor: handle(cursor)? }.run(is_reverse, visit)
    }

    /// Creates a batch.
    pub fn batch(&self) -> Called<WriteBatch<'_>> {
        let mut batch: *mut Batch = null_mut();
        // SAFETY: see above the impl.
        called(|error| unsafe { (self.api.frond_batch_new)(&raw mut batch, error) })?;
        Ok(WriteBatch { store: self, batch: handle(batch)? })
    }

    /// Creates a buffer for values.
    pub fn buffer(&self) -> Held<'_> {
        Held { api: &self.api, buffer: Buffer { data: null_mut(), length: 0, capacity: 0 } }
    }

    /// Starts a transaction.
    pub fn begin(&self, read_only: bool, durability: i32) -> Called<Transaction<'_>> {
        let mut options = TxnOptions {
            isolation: 0,
            read_only,
            lock_timeout_ms: 0,
            durability: 0,
            rest: [0; REST],
        };
        // SAFETY: see above the impl.
        unsafe { (self.api.frond_txn_options_init)(&raw mut options) };
        (options.read_only, options.durability) = (read_only, durability);
        let mut txn: *mut Txn = null_mut();
        // SAFETY: see above the impl.
        called(|error| unsafe {
            (self.api.frond_txn_begin)(self.db.as_ptr(), &raw const options, &raw mut txn, error)
        })?;
        Ok(Transaction { store: self, txn: Some(handle(txn)?) })
    }

    /// Closes the store cleanly.
    pub fn close(self) -> Called<()> {
        for tree in &self.trees {
            // SAFETY: see above the impl; nothing borrows the store any more.
            unsafe { (self.api.frond_tree_free)(tree.as_ptr()) };
        }
        // SAFETY: as above.
        called(|error| unsafe { (self.api.frond_close)(self.db.as_ptr(), error) }).map(drop)
    }
}

fn bound(bytes: Option<&[u8]>) -> (*const u8, usize) {
    bytes.map_or((null(), 0), |bytes| (bytes.as_ptr(), bytes.len()))
}

/// A buffer for values, in the library's memory.
pub struct Held<'s> {
    api: &'s Api,
    buffer: Buffer,
}

impl Held<'_> {
    /// Returns the value that was read last.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the library keeps `length` bytes at `data` until the buffer's next use, which
        // needs a mutable borrow.
        unsafe { slice(self.buffer.data, self.buffer.length) }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // SAFETY: see above `impl Store`.
        unsafe { (self.api.frond_buffer_free)(&raw mut self.buffer) };
    }
}

/// Returns a slice of bytes, which may be absent.
///
/// # Safety
/// `data` must be null or point at `length` bytes for as long as the result is used.
unsafe fn slice<'b>(data: *const u8, length: usize) -> &'b [u8] {
    if data.is_null() || length == 0 {
        return &[];
    }
    // SAFETY: guaranteed by the caller.
    unsafe { std::slice::from_raw_parts(data, length) }
}

/// A cursor over rows.
struct Walk<'s> {
    api: &'s Api,
    cursor: NonNull<Cursor>,
}

impl Walk<'_> {
    fn run(&mut self, is_reverse: bool, visit: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Called<()> {
        let cursor = self.cursor.as_ptr();
        let mut next = self.api.frond_cursor_next;
        if is_reverse {
            next = self.api.frond_cursor_prev;
            // SAFETY: see above `impl Store`.
            called(|error| unsafe { (self.api.frond_cursor_seek_last)(cursor, error) })?;
        }
        let mut rows = Rows { rows: null(), count: 0 };
        // SAFETY: see above `impl Store`.
        while called(|error| unsafe { next(cursor, 0, &raw mut rows, error) })? {
            for at in 0..rows.count {
                // SAFETY: frond.h: `count` rows are at `rows`, with their bytes, until the next
                // call on the cursor.
                let (key, value) = unsafe {
                    let row = &*rows.rows.add(at);
                    (slice(row.key, row.key_length), slice(row.value, row.value_length))
                };
                if !visit(key, value) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

impl Drop for Walk<'_> {
    fn drop(&mut self) {
        // SAFETY: see above `impl Store`.
        unsafe { (self.api.frond_cursor_free)(self.cursor.as_ptr()) };
    }
}

/// A batch; belongs to one thread.
pub struct WriteBatch<'s> {
    store: &'s Store,
    batch: NonNull<Batch>,
}

impl WriteBatch<'_> {
    /// Adds a put.
    pub fn put(&mut self, tree: usize, key: &[u8], value: &[u8]) -> Called<()> {
        let (tree, batch) = (self.store.tree(tree)?, self.batch.as_ptr());
        let put = self.store.api.frond_batch_put;
        // SAFETY: see above `impl Store`.
        called(|error| unsafe {
            put(batch, tree, key.as_ptr(), key.len(), value.as_ptr(), value.len(), error)
        })
        .map(drop)
    }

    /// Adds a delete.
    pub fn delete(&mut self, tree: usize, key: &[u8]) -> Called<()> {
        let (tree, batch) = (self.store.tree(tree)?, self.batch.as_ptr());
        let delete = self.store.api.frond_batch_delete;
        // SAFETY: see above `impl Store`.
        called(|error| unsafe { delete(batch, tree, key.as_ptr(), key.len(), error) }).map(drop)
    }

    /// Adds a delete of the keys in a range.
    pub fn delete_range(&mut self, tree: usize, range: Range<&[u8]>) -> Called<()> {
        let (tree, batch) = (self.store.tree(tree)?, self.batch.as_ptr());
        let delete = self.store.api.frond_batch_delete_range;
        let Range { start, end } = range;
        // SAFETY: see above `impl Store`.
        called(|error| unsafe {
            delete(batch, tree, start.as_ptr(), start.len(), end.as_ptr(), end.len(), error)
        })
        .map(drop)
    }

    /// Commits the batch.
    pub fn commit(&mut self) -> Called<()> {
        let (db, batch) = (self.store.db.as_ptr(), self.batch.as_ptr());
        let commit = self.store.api.frond_batch_commit;
        // SAFETY: see above `impl Store`.
        called(|error| unsafe { commit(db, batch, AS_STORE, null_mut(), error) }).map(drop)
    }
}

impl Drop for WriteBatch<'_> {
    fn drop(&mut self) {
        // SAFETY: see above `impl Store`.
        unsafe { (self.store.api.frond_batch_free)(self.batch.as_ptr()) };
    }
}

/// A transaction; belongs to one thread.
pub struct Transaction<'s> {
    store: &'s Store,
    txn: Option<NonNull<Txn>>,
}

impl Transaction<'_> {
    fn txn(&self) -> Called<*const Txn> {
        let none = || Refusal { is_retry: false, message: "the transaction has ended".to_owned() };
        self.txn.map(|txn| txn.as_ptr().cast_const()).ok_or_else(none)
    }

    /// Reads a value, and locks its row if `locks`.
    pub fn get(&self, tree: usize, key: &[u8], locks: bool, buffer: &mut Held<'_>) -> Called<bool> {
        let (txn, tree) = (self.txn()?, self.store.tree(tree)?);
        let lock = if locks { EXCLUSIVE } else { NO_LOCK };
        let (get, out) = (self.store.api.frond_txn_get, &raw mut buffer.buffer);
        // SAFETY: see above `impl Store`.
        called(|error| unsafe { get(txn, tree, key.as_ptr(), key.len(), lock, WAIT, out, error) })
    }

    /// Sets a value.
    pub fn put(&self, tree: usize, key: &[u8], value: &[u8]) -> Called<()> {
        let (txn, tree) = (self.txn()?, self.store.tree(tree)?);
        let put = self.store.api.frond_txn_put;
        // SAFETY: see above `impl Store`.
        called(|error| unsafe {
            put(txn, tree, key.as_ptr(), key.len(), value.as_ptr(), value.len(), error)
        })
        .map(drop)
    }

    /// Deletes a key.
    pub fn delete(&self, tree: usize, key: &[u8]) -> Called<()> {
        let (txn, tree) = (self.txn()?, self.store.tree(tree)?);
        let delete = self.store.api.frond_txn_delete;
        // SAFETY: see above `impl Store`.
        called(|error| unsafe { delete(txn, tree, key.as_ptr(), key.len(), error) }).map(drop)
    }

    /// Visits the rows of `[from, to)`, in reverse if wanted, until `visit` returns false.
    pub fn scan(
        &self,
        tree: usize,
        (from, to): (Option<&[u8]>, Option<&[u8]>),
        is_reverse: bool,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Called<()> {
        let (txn, tree) = (self.txn()?, self.store.tree(tree)?);
        let mut cursor: *mut Cursor = null_mut();
        let ((from, from_length), (to, to_length)) = (bound(from), bound(to));
        let scan = self.store.api.frond_txn_scan;
        // SAFETY: see above `impl Store`; the cursor is freed within this call, before the
        // transaction.
        called(|error| unsafe {
            let out = &raw mut cursor;
            scan(txn, tree, from, from_length, to, to_length, NO_LOCK, WAIT, out, error)
        })?;
        Walk { api: &self.store.api, cursor: handle(cursor)? }.run(is_reverse, visit)
    }

    /// Commits the transaction.
    pub fn commit(mut self) -> Called<()> {
        let Some(txn) = self.txn.take() else { return Ok(()) };
        let commit = self.store.api.frond_txn_commit;
        // SAFETY: see above `impl Store`; this call frees the handle.
        called(|error| unsafe { commit(txn.as_ptr(), null_mut(), error) }).map(drop)
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if let Some(txn) = self.txn.take() {
            let rollback = self.store.api.frond_txn_rollback;
            // SAFETY: see above `impl Store`. What a failed rollback leaves is rolled back when the
            // store closes.
            let _ = called(|error| unsafe { rollback(txn.as_ptr(), error) });
        }
    }
}
