//! Opening and closing a store; creating, opening, changing and listing its trees.

use std::{
    ffi::{c_char, c_void},
    ptr::null,
    sync::Arc,
};

use frond::{Db, Durability, Options, SizeClass, Tree, TreeOptions};

use crate::{bytes::*, error::*, operators::*, projection::*, waits::frond_lock_hooks};

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
pub struct frond_db(pub(crate) Db);

/// A tree of an open store.
pub struct frond_tree(pub(crate) Tree);

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
    /// User-defined merge operators; null for none. Copied by frond_open.
    pub operators: *const frond_operator,
    /// Number of `operators`.
    pub operators_count: usize,
}

/// Options of a new tree. Call frond_tree_options_init, then set fields.
#[repr(C)]
pub struct frond_tree_options {
    /// FROND_FAST, FROND_DEFAULT, FROND_SMALL.
    pub size_class: i32,
    /// Whether keys are mostly inserted with a check that they are absent. A bulk load or an index
    /// build of such a tree fails if a key occurs twice.
    pub unique: bool,
    /// Application data to store with the tree, up to 1 MiB; may be null.
    pub attributes: *const c_void,
    /// Length of `attributes` in bytes.
    pub attributes_length: usize,
    /// Layout of keys; null for none. If keys or values have a layout, rows are stored part by
    /// part, each part in its smallest encoding. Copied by the call that gets the options.
    pub key_parts: *const frond_part,
    /// Number of `key_parts`.
    pub key_parts_count: usize,
    /// Layout of values; null for none.
    pub value_parts: *const frond_part,
    /// Number of `value_parts`.
    pub value_parts_count: usize,
}

/// Returns the version of the library as text.
#[api]
fn frond_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Sets the defaults: 256 MiB, FROND_SYNC, create the store if there is none.
#[api]
fn frond_options_init(options: Option<&mut frond_options>) {
    let Some(options) = options else { return };
    *options = frond_options {
        cache_size: 256 << 20,
        durability: FROND_SYNC,
        create: true,
        read_only: false,
        keep_log: 0,
        lock_hooks: null(),
        operators: null(),
        operators_count: 0,
    };
}

/// Sets the defaults: FROND_DEFAULT, not unique, no attributes, no parts.
#[api]
fn frond_tree_options_init(options: Option<&mut frond_tree_options>) {
    let Some(options) = options else { return };
    *options = frond_tree_options {
        size_class: FROND_DEFAULT,
        unique: false,
        attributes: null(),
        attributes_length: 0,
        key_parts: null(),
        key_parts_count: 0,
        value_parts: null(),
        value_parts_count: 0,
    };
}

/// The durability level of a number; `None` for the store's own.
pub(crate) fn durability(number: i32) -> Done<Option<Durability>> {
    match number {
        FROND_AS_STORE => Ok(None),
        FROND_SYNC => Ok(Some(Durability::Sync)),
        FROND_OS => Ok(Some(Durability::Os)),
        FROND_LAZY => Ok(Some(Durability::Lazy)),
        other => Err(misuse(format!("unknown durability {other}"))),
    }
}

/// Opens the store in directory `path`. `options` may be null. After a crash this replays the log.
#[api]
fn frond_open(path: &str, options: Option<&frond_options>, db: New<frond_db>) -> Done {
    let mut opened = Options::new();
    if let Some(options) = options {
        opened = opened
            .cache_size(options.cache_size)
            .durability(durability(options.durability)?.unwrap_or_default())
            .create(options.create)
            .read_only(options.read_only)
            .keep_log(options.keep_log);
        // SAFETY: see `bytes.rs`.
        if let Some(hooks) = unsafe { options.lock_hooks.as_ref() } {
            opened = opened.lock_hooks(*hooks);
        }
        // SAFETY: likewise.
        for given in unsafe { list(options.operators, options.operators_count, "operators") }? {
            opened = opened.operator(given.number, Arc::new(operator(given)?));
        }
    }
    db.give(frond_db(Db::open(path, opened)?))
}

/// Closes the store: all commits become durable, and the next open needs no recovery. The handle is
/// released, even after an error. All other handles must still be released; until then, their calls
/// fail with FRD-3204, except those of open cursors. Calls of other threads that wait, for locks or
/// for memory, fail with FRD-3204 at once, and open transactions are rolled back.
#[api]
fn frond_close(db: Owned<frond_db>) -> Done {
    Ok(db.take().0.close()?)
}

/// Makes everything committed so far durable in trees, and returns free disk space to the file
/// system.
#[api]
fn frond_checkpoint(db: &frond_db) -> Done {
    Ok(db.0.checkpoint()?)
}

pub(crate) fn tree_options(options: Option<&frond_tree_options>) -> Done<TreeOptions> {
    let mut wanted = TreeOptions::default();
    if let Some(options) = options {
        wanted.size_class = match options.size_class {
            FROND_FAST => SizeClass::Fast,
            FROND_DEFAULT => SizeClass::Default,
            FROND_SMALL => SizeClass::Small,
            other => return Err(misuse(format!("unknown size class {other}"))),
        };
        wanted.unique = options.unique;
        // SAFETY: see `bytes.rs`.
        unsafe {
            let attributes = options.attributes.cast::<u8>();
            let attributes = list(attributes, options.attributes_length, "attributes")?;
            wanted.attributes = attributes.to_vec();
            let key = list(options.key_parts, options.key_parts_count, "key_parts")?;
            let value = list(options.value_parts, options.value_parts_count, "value_parts")?;
            (wanted.key_layout, wanted.value_layout) = (layout(key)?, layout(value)?);
        }
    }
    Ok(wanted)
}

/// Opens a tree, or creates it with these options if there is none of that name. FRD-1001 if the
/// existing tree has other layouts, or another value of `unique`. `options` may be null.
#[api]
fn frond_tree_ensure(
    db: &frond_db,
    name: &str,
    options: Option<&frond_tree_options>,
    tree: New<frond_tree>,
) -> Done {
    tree.give(frond_tree(db.0.tree(name, tree_options(options)?)?))
}

/// Creates a tree. The tree is synced when this returns; FRD-1005 if there is one of that name.
/// `options` may be null.
#[api]
fn frond_tree_create(
    db: &frond_db,
    name: &str,
    options: Option<&frond_tree_options>,
    tree: New<frond_tree>,
) -> Done {
    tree.give(frond_tree(db.0.create_tree(name, tree_options(options)?)?))
}

/// Opens a tree.
#[api]
fn frond_tree_open(db: &frond_db, name: &str, tree: New<frond_tree>) -> Done {
    tree.give(frond_tree(db.0.open_tree(name)?))
}

/// Releases the handle of a tree. Null is allowed.
#[api]
fn frond_tree_free(tree: Option<Box<frond_tree>>) {}

/// Drops a tree with all its rows. Waits for transactions that have locked rows of the tree.
#[api]
fn frond_tree_drop(db: &frond_db, name: &str) -> Done {
    Ok(db.0.drop_tree(name)?)
}

/// Renames a tree; handles stay valid.
#[api]
fn frond_tree_rename(db: &frond_db, from: &str, to: &str) -> Done {
    Ok(db.0.rename_tree(from, to)?)
}

/// Creates a tree with the current content of another one. Copies nothing. Later changes of one do
/// not affect the other.
#[api]
fn frond_tree_clone(db: &frond_db, from: &str, to: &str, tree: New<frond_tree>) -> Done {
    tree.give(frond_tree(db.0.clone_tree(from, to)?))
}

/// Returns the number of a tree, which no other tree of the store ever has; 0 if `tree` is null.
#[api]
fn frond_tree_id(tree: Option<&frond_tree>) -> u32 {
    tree.map_or(0, |tree| tree.0.id().0)
}

/// Returns the commit that created the tree (older snapshots do not show the tree), and its
/// attributes, which are written to `attributes`. Both may be null.
#[api]
fn frond_tree_info(
    tree: &frond_tree,
    birth: Option<&mut u64>,
    attributes: Option<&mut frond_buffer>,
) -> Done {
    let info = tree.0.info();
    attributes.into_iter().for_each(|out| out.copy(&info.options.attributes));
    set(birth, info.birth.0)
}

/// Callback that receives a line of text of `length` bytes, followed by a zero byte.
// SAFETY: where it is called, its arguments are valid until it returns.
pub type frond_line =
    Option<unsafe extern "C" fn(context: *mut c_void, text: *const c_char, length: usize)>;

/// Lists the names of all trees, in order.
#[api]
fn frond_trees(db: &frond_db, visit: frond_line, context: *mut c_void) -> Done {
    visit_lines(visit, context, db.0.trees().into_iter().map(|tree| tree.name))
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
pub type frond_tree_callback =
    Option<unsafe extern "C" fn(context: *mut c_void, tree: *const frond_tree_listed)>;

/// Lists all trees, ordered by name, as structs; frond_trees lists only their names. Opens none of
/// them.
#[api]
fn frond_each_tree(db: &frond_db, visit: frond_tree_callback, context: *mut c_void) -> Done {
    let visit = callback(visit)?;
    for tree in db.0.trees() {
        let name = format!("{}\0", tree.name);
        let given = Some(&tree.options.attributes[..]).filter(|given| !given.is_empty());
        let (attributes, attributes_length) = parts(given);
        let listed = frond_tree_listed {
            id: tree.id.0,
            name: name.as_ptr().cast(),
            size_class: tree.options.size_class as i32,
            unique: tree.options.unique,
            birth: tree.birth.0,
            attributes,
            attributes_length,
        };
        // SAFETY: the caller's function; its arguments are valid until it returns.
        unsafe { visit(context, &raw const listed) };
    }
    Ok(())
}

/// Reports problems that were found when the store was opened. They lost nothing, but need
/// attention. Each is one sentence with a code (FRD-2105, FRD-1303, FRD-1304). Usually there are
/// none.
#[api]
fn frond_warnings(db: &frond_db, visit: frond_line, context: *mut c_void) -> Done {
    visit_lines(visit, context, db.0.warnings().iter().cloned())
}

pub(crate) fn visit_lines(
    visit: frond_line,
    context: *mut c_void,
    lines: impl Iterator<Item = String>,
) -> Done {
    let visit = callback(visit)?;
    for line in lines {
        let length = line.len();
        let line = format!("{line}\0");
        // SAFETY: the caller's function; the text is valid until it returns.
        unsafe { visit(context, line.as_ptr().cast(), length) };
    }
    Ok(())
}
