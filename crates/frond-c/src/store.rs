//! Opening and closing a store, its trees, and its statistics.

use std::{
    ffi::{c_char, c_void},
    ptr::null,
    sync::Arc,
};

use frond::{Db, Durability, Options, SizeClass, Tree, TreeOptions};

use crate::{
    bytes::{bytes, frond_buffer, give, given, list, take_back, text},
    error::{Fail, call, frond_error, misuse},
    operators::{frond_operator, operator},
    projection::{frond_part, layout},
    waits::frond_lock_hooks,
};

/// A commit is acknowledged once it is synced: nothing acknowledged is ever lost.
pub const FROND_SYNC: i32 = 1;
/// A commit is acknowledged once the kernel has it: if the process is killed, nothing is lost; a
/// power failure loses at most the last second.
pub const FROND_OS: i32 = 2;
/// A commit is acknowledged once it is in the log's buffer: if the process is killed, at most one
/// second is lost; a power failure loses at most two.
pub const FROND_LAZY: i32 = 3;
/// A commit is acknowledged at the store's level. Meant for transactions and batches.
pub const FROND_AS_STORE: i32 = 0;

/// Leaves are compressed with LZ4: speed before size.
pub const FROND_FAST: i32 = 1;
/// Leaves are compressed with zstd. This is the default.
pub const FROND_DEFAULT: i32 = 2;
/// Leaves are compressed with zstd at a higher level, and with dictionaries: size before speed.
pub const FROND_SMALL: i32 = 3;

/// An open store.
pub struct frond_db {
    pub(crate) db: Db,
}

/// A tree of an open store.
pub struct frond_tree {
    pub(crate) tree: Tree,
}

/// Options for opening a store. Call frond_options_init, then set fields.
#[repr(C)]
pub struct frond_options {
    /// Memory budget for everything, in bytes.
    pub cache_size: u64,
    /// When commits are acknowledged: FROND_SYNC (0 means the same), FROND_OS, FROND_LAZY.
    pub durability: i32,
    /// Whether to create the store if there is none.
    pub create: bool,
    /// Whether to open the store without writing a byte.
    pub read_only: bool,
    /// Bytes of log to keep for followers of the change feed.
    pub keep_log: u64,
    /// Callbacks for lock waits; null for none. Copied by frond_open.
    pub lock_hooks: *const frond_lock_hooks,
    /// Merge operators of the program; null for none. Copied by frond_open.
    pub operators: *const frond_operator,
    /// Number of `operators`.
    pub operators_count: usize,
}

/// Options of a new tree. Call frond_tree_options_init, then set fields.
#[repr(C)]
pub struct frond_tree_options {
    /// FROND_FAST, FROND_DEFAULT, FROND_SMALL.
    pub size_class: i32,
    /// Whether keys are mostly inserted with a check that they are absent.
    pub unique: bool,
    /// Bytes of the owner to store with the tree, up to 1 MiB; may be null.
    pub attributes: *const u8,
    /// Length of `attributes` in bytes.
    pub attributes_length: usize,
    /// Layout of keys; null for none. If keys or values have a layout, rows are stored part by
    /// part, each part in the form that takes least. Copied by the call that gets the options.
    pub key_parts: *const frond_part,
    /// Number of `key_parts`.
    pub key_parts_count: usize,
    /// Layout of values; null for none.
    pub value_parts: *const frond_part,
    /// Number of `value_parts`.
    pub value_parts_count: usize,
}

/// Returns the version of the library as text.
#[unsafe(no_mangle)]
pub extern "C" fn frond_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Sets the defaults: 256 MiB, FROND_SYNC, create the store if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_options_init(options: *mut frond_options) {
    // SAFETY: see `bytes.rs`.
    if let Some(options) = unsafe { options.as_mut() } {
        *options = frond_options {
            cache_size: 256 << 20,
            durability: FROND_SYNC,
            create: true,
            read_only: false,
            keep_log: 0,
            lock_hooks: std::ptr::null(),
            operators: std::ptr::null(),
            operators_count: 0,
        };
    }
}

/// Sets the defaults: FROND_DEFAULT, not unique, no attributes, no parts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_tree_options_init(options: *mut frond_tree_options) {
    // SAFETY: see `bytes.rs`.
    if let Some(options) = unsafe { options.as_mut() } {
        *options = frond_tree_options {
            size_class: FROND_DEFAULT,
            unique: false,
            attributes: std::ptr::null(),
            attributes_length: 0,
            key_parts: std::ptr::null(),
            key_parts_count: 0,
            value_parts: std::ptr::null(),
            value_parts_count: 0,
        };
    }
}

/// The durability level of a number; `None` for the store's own.
pub(crate) fn durability(number: i32) -> Result<Option<Durability>, Fail> {
    match number {
        FROND_AS_STORE => Ok(None),
        FROND_SYNC => Ok(Some(Durability::Sync)),
        FROND_OS => Ok(Some(Durability::Os)),
        FROND_LAZY => Ok(Some(Durability::Lazy)),
        other => Err(misuse(format!("unknown durability {other}"))),
    }
}

/// Opens the store in directory `path`. `options` may be null. After a crash this replays the log.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_open(
    path: *const c_char,
    options: *const frond_options,
    db: *mut *mut frond_db,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`, here and below.
    unsafe {
        call(error, || {
            give(db, || {
                let path = text(path, "the path")?;
                let mut opened = Options::new();
                if let Some(options) = options.as_ref() {
                    let level = durability(options.durability)?;
                    opened = opened
                        .cache_size(options.cache_size)
                        .durability(level.unwrap_or_default())
                        .create(options.create)
                        .read_only(options.read_only)
                        .keep_log(options.keep_log);
                    if let Some(hooks) = options.lock_hooks.as_ref() {
                        opened = opened.lock_hooks(*hooks);
                    }
                    let given = (options.operators, options.operators_count);
                    for given in list(given.0, given.1, "the operators")? {
                        opened = opened.operator(given.number, Arc::new(operator(given)?))?;
                    }
                }
                Ok(frond_db { db: Db::open(path, opened)? })
            })
        })
    }
}

/// Closes the store: all commits become durable, and the next open needs no recovery. The handle is
/// released, also after an error. Other handles that are left fail with FRD-3204 when they write;
/// they must still be released.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_close(db: *mut frond_db, error: *mut frond_error) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe { call(error, || Ok(take_back(db, "the store")?.db.close()?)) }
}

/// Makes everything committed so far durable in trees, and returns free disk space to the file
/// system.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_checkpoint(db: *const frond_db, error: *mut frond_error) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe { call(error, || Ok(given(db, "the store")?.db.checkpoint()?)) }
}

/// Copies the store to the directory `path`, which must not exist. Writers can go on meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_backup(
    db: *const frond_db,
    path: *const c_char,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            given(db, "the store")?.db.backup(text(path, "the path")?)?;
            Ok(())
        })
    }
}

pub(crate) unsafe fn tree_options(options: *const frond_tree_options) -> Result<TreeOptions, Fail> {
    let mut wanted = TreeOptions::default();
    // SAFETY: see `bytes.rs`.
    if let Some(options) = unsafe { options.as_ref() } {
        let class = u8::try_from(options.size_class).ok();
        let class = class.and_then(SizeClass::from_disk);
        wanted.size_class = class.ok_or_else(|| misuse("unknown size class"))?;
        wanted.unique = options.unique;
        let (data, length) = (options.attributes, options.attributes_length);
        // SAFETY: see `bytes.rs`.
        wanted.attributes = unsafe { bytes(data, length, "attributes") }?.to_vec();
        // SAFETY: see `bytes.rs`.
        unsafe {
            wanted.key_layout = layout(options.key_parts, options.key_parts_count)?;
            wanted.value_layout = layout(options.value_parts, options.value_parts_count)?;
        }
    }
    Ok(wanted)
}

/// Creates a tree, which is synced when this returns. `options` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_tree_create(
    db: *const frond_db,
    name: *const c_char,
    options: *const frond_tree_options,
    tree: *mut *mut frond_tree,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            give(tree, || {
                let db = &given(db, "the store")?.db;
                let wanted = tree_options(options)?;
                Ok(frond_tree { tree: db.create_tree(text(name, "the name")?, wanted)? })
            })
        })
    }
}

/// Opens a tree.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_tree_open(
    db: *const frond_db,
    name: *const c_char,
    tree: *mut *mut frond_tree,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            give(tree, || {
                let db = &given(db, "the store")?.db;
                Ok(frond_tree { tree: db.open_tree(text(name, "the name")?)? })
            })
        })
    }
}

/// Releases the handle of a tree. Null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_tree_free(tree: *mut frond_tree) {
    // SAFETY: see `bytes.rs`.
    unsafe { call(std::ptr::null_mut(), || take_back(tree, "the tree").map(drop)) };
}

/// Drops a tree with all its rows. Waits for transactions that have locked rows of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_tree_drop(
    db: *const frond_db,
    name: *const c_char,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe { call(error, || Ok(given(db, "the store")?.db.drop_tree(text(name, "the name")?)?)) }
}

/// Renames a tree; handles stay valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_tree_rename(
    db: *const frond_db,
    from: *const c_char,
    to: *const c_char,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let (from, to) = (text(from, "the old name")?, text(to, "the new name")?);
            Ok(given(db, "the store")?.db.rename_tree(from, to)?)
        })
    }
}

/// Creates a tree with the current content of another one. Copies nothing; after that, changes of
/// one do not affect the other.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_tree_clone(
    db: *const frond_db,
    from: *const c_char,
    to: *const c_char,
    tree: *mut *mut frond_tree,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            give(tree, || {
                let (from, to) = (text(from, "the old name")?, text(to, "the new name")?);
                Ok(frond_tree { tree: given(db, "the store")?.db.clone_tree(from, to)? })
            })
        })
    }
}

/// Returns the number of a tree, which no other tree of the store ever has; 0 if `tree` is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_tree_id(tree: *const frond_tree) -> u32 {
    // SAFETY: see `bytes.rs`.
    unsafe { tree.as_ref() }.map_or(0, |tree| tree.tree.id().0)
}

/// Returns the commit that created the tree (older snapshots do not show the tree), and its
/// attributes, which are written to `attributes`. Both may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_tree_info(
    tree: *const frond_tree,
    birth: *mut u64,
    attributes: *mut frond_buffer,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let info = given(tree, "the tree")?.tree.info();
            if let Some(birth) = birth.as_mut() {
                *birth = info.birth.0;
            }
            if let Some(attributes) = attributes.as_mut() {
                attributes.copy(&info.options.attributes);
            }
            Ok(())
        })
    }
}

/// Callback that receives a line of text of `length` bytes, followed by a zero byte.
// SAFETY: where it is called, its arguments are valid until it returns.
pub type frond_line =
    Option<unsafe extern "C" fn(context: *mut c_void, text: *const c_char, length: usize)>;

/// Lists the names of all trees, in order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_trees(
    db: *const frond_db,
    tell: frond_line,
    context: *mut c_void,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let trees = given(db, "the store")?.db.trees();
            tell_lines(tell, context, trees.into_iter().map(|tree| tree.name))
        })
    }
}

/// Description of a tree in a listing.
#[repr(C)]
pub struct frond_tree_listed {
    /// Number of the tree, which no other tree of the store ever has.
    pub id: u32,
    /// Name of the tree, terminated by a zero byte.
    pub name: *const c_char,
    /// FROND_FAST, FROND_DEFAULT, FROND_SMALL.
    pub size_class: i32,
    /// Whether keys are mostly inserted with a check that they are absent.
    pub unique: bool,
    /// The commit that created the tree.
    pub birth: u64,
    /// Attributes of the tree; null if there are none.
    pub attributes: *const u8,
    /// Length of `attributes` in bytes.
    pub attributes_length: usize,
}

/// Callback that receives the description of a tree, which is valid during the call.
// SAFETY: where it is called, its arguments are valid until it returns.
pub type frond_tree_told =
    Option<unsafe extern "C" fn(context: *mut c_void, tree: *const frond_tree_listed)>;

/// Lists all trees, ordered by name, as structs; frond_trees lists only their names. Opens none of
/// them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_each_tree(
    db: *const frond_db,
    tell: frond_tree_told,
    context: *mut c_void,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let trees = given(db, "the store")?.db.trees();
            let tell = tell.ok_or_else(|| misuse("the callback is null"))?;
            for tree in trees {
                let name = format!("{}\0", tree.name);
                let attributes = &tree.options.attributes;
                let listed = frond_tree_listed {
                    id: tree.id.0,
                    name: name.as_ptr().cast(),
                    size_class: tree.options.size_class as i32,
                    unique: tree.options.unique,
                    birth: tree.birth.0,
                    attributes: if attributes.is_empty() { null() } else { attributes.as_ptr() },
                    attributes_length: attributes.len(),
                };
                // SAFETY: the caller's function; its arguments are valid until it returns.
                tell(context, &raw const listed);
            }
            Ok(())
        })
    }
}

/// Reports problems that opening met, which lost nothing but need attention: one sentence each,
/// with its code (FRD-2105, FRD-1303, FRD-1304). Usually there are none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_warnings(
    db: *const frond_db,
    tell: frond_line,
    context: *mut c_void,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let warnings = given(db, "the store")?.db.warnings();
            tell_lines(tell, context, warnings.iter().cloned())
        })
    }
}

pub(crate) unsafe fn tell_lines(
    tell: frond_line,
    context: *mut c_void,
    lines: impl Iterator<Item = String>,
) -> Result<(), Fail> {
    let tell = tell.ok_or_else(|| misuse("the callback is null"))?;
    for line in lines {
        let length = line.len();
        let line = format!("{line}\0");
        // SAFETY: the caller's function; the text is valid until it returns.
        unsafe { tell(context, line.as_ptr().cast(), length) };
    }
    Ok(())
}
