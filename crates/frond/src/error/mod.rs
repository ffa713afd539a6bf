//! The error enum. A caller matches on the variant, or asks [`Error::kind`] what to do next.
//!
//! Every variant has a stable code (`FRD-…`) that `docs/errors.md` explains. Messages name the file
//! and the offset, if any, and say what to do unless that is obvious; they never contain keys or
//! values.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::types::{KeyStart, Xid};

mod duplicate;
mod holder;
mod place;

/// What a lock request for a tree as a whole was to lock, as worded in messages.
pub(crate) const WHOLE_TREE: &str = "the whole tree";

pub use duplicate::Duplicate;
pub use holder::LockHolder;
pub use place::Place;

/// `Result` with Frond's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What the caller should do about an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// Try the operation again.
    Retry,
    /// Change the call.
    FixCall,
    /// Fix the machine: disk full, I/O error, locked by another process.
    FixMachine,
    /// Restore from a backup or a replica.
    Restore,
    /// The store has stopped after a failure; close and open it again.
    Reopen,
}

/// An error of the engine.
///
/// Its debug output is its message, so that a `main` that returns it prints the code, what happened
/// and what to do.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The call cannot be carried out as made (FRD-1001).
    #[error("FRD-1001 {0}")]
    InvalidArgument(String),
    /// A key is longer than [`KEY_BYTES_MAX`](crate::KEY_BYTES_MAX) (FRD-1002).
    #[error("FRD-1002 the key has {bytes} bytes; a key can have at most {max}")]
    KeyTooLong {
        /// The given length.
        bytes: usize,
        /// The allowed length.
        max: usize,
    },
    /// A value is longer than [`VALUE_BYTES_MAX`](crate::VALUE_BYTES_MAX) (FRD-1003).
    #[error("FRD-1003 the value has {bytes} bytes; a value can have at most {max}")]
    ValueTooLong {
        /// The given length.
        bytes: usize,
        /// The allowed length.
        max: usize,
    },
    /// A lock was not granted in time (FRD-1101). The call had no effect.
    #[error(
        "FRD-1101 lock wait timeout: {} is locked by {holder}{}", of_tree(.what, .tree), .holder.advice()
    )]
    LockTimeout {
        /// The tree.
        tree: String,
        /// What was to be locked, in words.
        what: String,
        /// The holder of the conflicting lock.
        holder: LockHolder,
        /// The key, if a row was to be locked.
        key: Option<KeyStart>,
    },
    /// The transaction is the victim of a deadlock (FRD-1102): everything is rolled back.
    #[error(
        "FRD-1102 deadlock: this transaction waited for {}, locked by {holder}, which waits for this one; it was rolled back: retry in a new transaction", of_tree(.what, .tree)
    )]
    Deadlock {
        /// The tree.
        tree: String,
        /// What was to be locked, in words.
        what: String,
        /// The holder of the conflicting lock.
        holder: LockHolder,
        /// The key, if a row was to be locked.
        key: Option<KeyStart>,
    },
    /// Another transaction holds the lock, and the call must not wait (FRD-1105). Nothing was done.
    #[error("FRD-1105 {} is locked by {holder}", of_tree(.what, .tree))]
    LockBusy {
        /// The tree.
        tree: String,
        /// What was to be locked, in words.
        what: String,
        /// The holder of the conflicting lock.
        holder: LockHolder,
        /// The key, if a row was to be locked.
        key: Option<KeyStart>,
    },
    /// The call was interrupted (FRD-1106). Nothing of it was done.
    #[error("FRD-1106 interrupted; the call had no effect")]
    Interrupted,
    /// Another transaction has changed a row since this transaction's snapshot (FRD-1107): this
    /// transaction is rolled back.
    #[error(
        "FRD-1107 conflict: another transaction changed a row of tree \"{tree}\" after this transaction's snapshot; this transaction was rolled back: retry in a new transaction"
    )]
    Conflict {
        /// The tree.
        tree: String,
        /// The row's key.
        key: Vec<u8>,
    },
    /// The transaction was ended by a deadlock, by a conflict, or because it could not be spilled
    /// (FRD-1109): everything is rolled back. A temporary tree that could not be spilled is lost.
    #[error(
        "FRD-1109 this transaction or temporary tree has ended, and its changes were rolled back; an earlier call returned the reason: start a new one"
    )]
    TxnEnded,
    /// No transaction is prepared under this name (FRD-1110).
    #[error(
        "FRD-1110 no prepared transaction {0}; it was committed or rolled back, or never prepared"
    )]
    NoSuchXid(Xid),
    /// A transaction is already prepared under this name (FRD-1111).
    #[error("FRD-1111 a transaction {0} is already prepared; commit it or roll it back first")]
    XidExists(Xid),
    /// The transaction prepared under this name is in use by another session (FRD-1112).
    #[error(
        "FRD-1112 the prepared transaction {0} is attached to another session; end or detach it there"
    )]
    XidBusy(Xid),
    /// In-doubt transactions leave no space to prepare this one (FRD-1115).
    #[error(
        "FRD-1115 prepared transactions would need {bytes} bytes, more than {max}: {limit}; retry after others in `Db::prepared` are committed or rolled back"
    )]
    TooMuchPrepared {
        /// The total that would be prepared.
        bytes: u64,
        /// The maximum of that.
        max: u64,
        /// What imposes the maximum.
        limit: &'static str,
    },
    /// Locks on rows that were only read use all the memory for them (FRD-1116). Nothing was done.
    #[error(
        "FRD-1116 no memory for another row lock on tree \"{tree}\": transactions hold too many locks on rows that they only read; the call had no effect: lock fewer rows, end other transactions, or give the store a larger cache"
    )]
    TooManyLocks {
        /// The tree of the row.
        tree: String,
    },
    /// A key that had to be new already exists; the variant says what it conflicts with.
    #[error(transparent)]
    DuplicateKey(#[from] Duplicate),
    /// The function of an index failed for a row (FRD-1117). Nothing was written.
    #[error(
        "FRD-1117 the function of index \"{index}\" of table \"{table}\" failed for a row: {source}; nothing was written"
    )]
    IndexFunction {
        /// The table.
        table: String,
        /// The index.
        index: String,
        /// The key of the row.
        row: Vec<u8>,
        /// The error that the function returned.
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// No tree has this name (FRD-1004).
    #[error("FRD-1004 no tree \"{0}\"")]
    NoSuchTree(String),
    /// A tree with this name exists (FRD-1005).
    #[error("FRD-1005 tree \"{0}\" already exists")]
    TreeExists(String),
    /// The tree changed since the snapshot, or its layout since the handle was opened (FRD-1006).
    #[error(
        "FRD-1006 tree \"{0}\" was created, replaced or given another layout after this snapshot was taken or this handle was opened; take a new snapshot or open the tree again"
    )]
    DefinitionChanged(String),
    /// No snapshot has this name (FRD-1007).
    #[error("FRD-1007 no snapshot \"{0}\"")]
    NoSuchSnapshot(String),
    /// A snapshot with this name exists (FRD-1008).
    #[error("FRD-1008 snapshot \"{0}\" already exists")]
    SnapshotExists(String),
    /// The store is open read-only (FRD-1009).
    #[error("FRD-1009 the store is open read-only")]
    ReadOnly,
    /// A merge names an operator that is not registered in `Options` (FRD-1010).
    #[error("FRD-1010 merge operator {0} is not registered; add it to Options")]
    MissingOperator(u8),
    /// The change feed can no longer read this commit (FRD-1011).
    #[error(
        "FRD-1011 commit {wanted} cannot be read any more: {why}. The feed can start at {oldest}: read the trees again, then follow from there"
    )]
    PositionLost {
        /// The requested seqno.
        wanted: u64,
        /// The oldest seqno that is still there.
        oldest: u64,
        /// "the log does not hold it any more", or which part of it was freed.
        why: &'static str,
    },
    /// An increment of a backup does not continue what comes before it (FRD-1012).
    #[error(
        "FRD-1012 {file}: an increment from {wanted} does not continue {found}; pass the full backup, then its increments in the order in which they were made"
    )]
    WrongBase {
        /// The increment.
        file: PathBuf,
        /// What it continues, in words.
        wanted: String,
        /// What comes before it, in words.
        found: String,
    },
    /// A tree uses an operator that `Options` does not have (FRD-1013). The store was not opened.
    #[error(
        "FRD-1013 tree \"{tree}\" uses merge operator {operator}, \"{name}\"; this number is registered for {found}. Add the operator to Options"
    )]
    OperatorNeeded {
        /// The tree.
        tree: String,
        /// The operator's number.
        operator: u8,
        /// The name.
        name: String,
        /// What is registered under the number, in words.
        found: String,
    },
    /// A batch is larger than the log or the memory allows (FRD-1014). Nothing of it was done.
    #[error(
        "FRD-1014 the batch has {bytes} bytes; {limit} takes at most {max}: commit smaller batches"
    )]
    BatchTooLarge {
        /// The length, bytes.
        bytes: u64,
        /// The allowed length.
        max: u64,
        /// What imposes the limit, in words.
        limit: &'static str,
    },
    /// A table does not match its definition (FRD-1015). Nothing was done.
    #[error("FRD-1015 table \"{table}\" does not match its definition: {why}")]
    TableMismatch {
        /// The table.
        table: String,
        /// What does not fit, and what to do.
        why: String,
    },
    /// A step of a change of trees cannot be made (FRD-1016). The change had no effect.
    #[error("FRD-1016 step {step} of the change failed, and nothing was done: {error}")]
    Step {
        /// The position in the change, from 0.
        step: usize,
        /// The reason.
        error: Box<Error>,
    },
    /// The tree that a load was to fill has rows (FRD-1017). Nothing of the load remains.
    #[error(
        "FRD-1017 tree \"{0}\" has rows; a bulk load fills empty trees only: truncate the tree first, or put the rows one by one"
    )]
    TreeNotEmpty(String),
    /// The format allows no more of something (FRD-1018). The call had no effect.
    #[error(
        "FRD-1018 limit reached: at most {max} {what}; nothing was done: drop some, unless dropped ones count, or load the data into a new store"
    )]
    LimitReached {
        /// The things that the store can have no more of, in words.
        what: &'static str,
        /// The maximum number.
        max: u64,
    },
    /// The disk is full (FRD-1301). The call had no effect; reads and deletes still work.
    #[error("FRD-1301 the disk is full: {0}; free space or delete data, then try again")]
    Full(String),
    /// Memory for a row, a blob or a file's content could not be allocated (FRD-1302).
    #[error("FRD-1302 out of memory: cannot allocate {bytes} bytes for {what}")]
    NoMemory {
        /// The requested length.
        bytes: usize,
        /// The purpose.
        what: &'static str,
    },
    /// A checksum does not match (FRD-2101).
    #[error(
        "FRD-2101 {place}: {what} fails its checksum (stored {stored:016x}, computed {computed:016x}); run `frond check`, then restore from a backup or a replica"
    )]
    Checksum {
        /// The place.
        place: Place,
        /// What was read.
        what: &'static str,
        /// The checksum found.
        stored: u64,
        /// The checksum computed.
        computed: u64,
    },
    /// The checksum is right but the content is malformed (FRD-2102).
    #[error(
        "FRD-2102 {place}: {what} is malformed: {why}; run `frond check`, then restore from a backup or a replica"
    )]
    Malformed {
        /// The place.
        place: Place,
        /// What was read.
        what: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// A page is not the one its parent names (FRD-2103).
    #[error(
        "FRD-2103 {place}: {what} is not the one its parent names (a lost or misdirected write); run `frond check`, then restore from a backup or a replica"
    )]
    WrongPage {
        /// The place.
        place: Place,
        /// What was read.
        what: &'static str,
    },
    /// No superblock slot is valid (FRD-2104).
    #[error(
        "FRD-2104 {file}: neither superblock slot is valid ({why}); this is a damaged store, not a new one: restore from a backup"
    )]
    NoSuperblock {
        /// The store file.
        file: PathBuf,
        /// What is wrong with each slot.
        why: String,
    },
    /// Acknowledged commits in the log are damaged (FRD-2201).
    #[error(
        "FRD-2201 {place}: the log is damaged between position {first_lost} and {last_known}, a range that was synced; restore from a backup"
    )]
    WalDamaged {
        /// The place.
        place: Place,
        /// The first lost position.
        first_lost: u64,
        /// The last position known to have been durable.
        last_known: u64,
    },
    /// A needed log segment is missing or cut short (FRD-2202).
    #[error(
        "FRD-2202 {file}: a log segment that is needed is {what}; put it back, or restore from a backup"
    )]
    WalMissing {
        /// The segment.
        file: PathBuf,
        /// "missing", "cut short", "replaced by another segment".
        what: &'static str,
    },
    /// A file belongs to another store (FRD-2203).
    #[error("FRD-2203 {file}: belongs to store {found}, not to {expected}")]
    ForeignFile {
        /// The file.
        file: PathBuf,
        /// The id in it.
        found: String,
        /// The id of this store.
        expected: String,
    },
    /// Another process, or this one, has the store open (FRD-3101).
    #[error(
        "FRD-3101 {dir} is in use by {owner}; close it there: only read-only opens can share a store"
    )]
    Locked {
        /// The store directory.
        dir: PathBuf,
        /// The owner, in words.
        owner: String,
    },
    /// The format is newer than this version of Frond (FRD-3102).
    #[error("FRD-3102 {file}: written by a newer Frond (needs {what}); upgrade Frond to open it")]
    TooNew {
        /// The file.
        file: PathBuf,
        /// The version or feature needed.
        what: String,
    },
    /// A file is shorter than it must be (FRD-3103).
    #[error(
        "FRD-3103 {file}: has {found} bytes, must have at least {expected}; restore from a backup"
    )]
    Truncated {
        /// The file.
        file: PathBuf,
        /// Length found.
        found: u64,
        /// Length needed.
        expected: u64,
    },
    /// The path is not a store of Frond (FRD-3104).
    #[error("FRD-3104 {path}: {why}")]
    NotAStore {
        /// Directory or file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The operating system refused an operation (FRD-3201).
    #[error("FRD-3201 {file}: cannot {action}{}: {source}", place::at(action, *offset))]
    Io {
        /// The file.
        file: PathBuf,
        /// "read", "write", "sync", …
        action: &'static str,
        /// Byte offset; 0 for actions that have none, such as "open".
        offset: u64,
        /// The cause.
        source: Arc<io::Error>,
    },
    /// A write or sync failed, or a worker died; only close and statistics still work (FRD-3202).
    #[error("FRD-3202 the store has stopped: {0}; close it, fix the cause, and open it again")]
    Failed(String),
    /// The store stopped while a commit was waiting; after reopening the commit may or may not be
    /// there (FRD-3203).
    #[error(
        "FRD-3203 the store stopped during this commit ({0}); after the store is opened again, the commit is there completely or not at all"
    )]
    OutcomeUnknown(String),
    /// The store is closed, or is being closed (FRD-3204). A call that was waiting when that began
    /// has done nothing.
    #[error("FRD-3204 the store is closed")]
    Closed,
    /// A page that could not have been read back was about to be written (FRD-3205). The fields are
    /// the kind of page and the reason. It was not written; if this happened in a checkpoint, the
    /// store has stopped.
    #[error(
        "FRD-3205 {0} was not written, because it could not be read back: {1}; acknowledged commits are in the log, and nothing is lost. This is a bug in Frond: keep a copy of the store, open it again, and report it"
    )]
    Unreadable(&'static str, String),
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What was to be locked, with its tree.
fn of_tree(what: &str, tree: &str) -> String {
    match what {
        WHOLE_TREE => format!("{what} \"{tree}\""),
        _ => format!("{what} of tree \"{tree}\""),
    }
}

impl Error {
    /// The error code as a number: 1107 for FRD-1107. `docs/errors.md` explains each code. The code
    /// of a failed step of a change of trees is that of its reason.
    pub fn code(&self) -> u16 {
        if let Self::Step { error, .. } = self {
            return error.code();
        }
        // Each message begins with its code (tests/tidy.rs checks it).
        let message = self.to_string();
        message.get(4..8).and_then(|code| code.parse().ok()).unwrap_or_default()
    }

    /// What the caller should do next.
    pub fn kind(&self) -> ErrorKind {
        use Error::*;
        match self {
            Step { error, .. } => error.kind(),
            LockTimeout { .. }
            | Deadlock { .. }
            | LockBusy { .. }
            | Conflict { .. }
            | TooMuchPrepared { .. }
            | XidBusy(_) => ErrorKind::Retry,
            InvalidArgument(_)
            | KeyTooLong { .. }
            | ValueTooLong { .. }
            | DuplicateKey(_)
            | NoSuchTree(_)
            | TreeExists(_)
            | TreeNotEmpty(_)
            | LimitReached { .. }
            | DefinitionChanged(_)
            | NoSuchSnapshot(_)
            | SnapshotExists(_)
            | ReadOnly
            | MissingOperator(_)
            | PositionLost { .. }
            | WrongBase { .. }
            | OperatorNeeded { .. }
            | BatchTooLarge { .. }
            | Interrupted
            | IndexFunction { .. }
            | TableMismatch { .. }
            | TxnEnded
            | NoSuchXid(_)
            | XidExists(_)
            | Closed => ErrorKind::FixCall,
            Full(_)
            | NoMemory { .. }
            | TooManyLocks { .. }
            | Locked { .. }
            | TooNew { .. }
            | Io { .. }
            | NotAStore { .. } => ErrorKind::FixMachine,
            Checksum { .. }
            | Malformed { .. }
            | WrongPage { .. }
            | NoSuperblock { .. }
            | WalDamaged { .. }
            | WalMissing { .. }
            | ForeignFile { .. }
            | Truncated { .. } => ErrorKind::Restore,
            Failed(_) | OutcomeUnknown(_) | Unreadable(..) => ErrorKind::Reopen,
        }
    }

    /// The name of the tree or table that the error concerns, if any.
    pub fn tree(&self) -> Option<&str> {
        use Error::*;
        match self {
            Step { error, .. } => error.tree(),
            LockTimeout { tree, .. }
            | Deadlock { tree, .. }
            | LockBusy { tree, .. }
            | Conflict { tree, .. }
            | TooManyLocks { tree }
            | OperatorNeeded { tree, .. }
            | NoSuchTree(tree)
            | TreeExists(tree)
            | TreeNotEmpty(tree)
            | DefinitionChanged(tree) => Some(tree),
            DuplicateKey(duplicate) => Some(duplicate.tree()),
            IndexFunction { table, .. } | TableMismatch { table, .. } => Some(table),
            _ => None,
        }
    }

    /// The start of the key that the error concerns, and the whole key's length, if any; for a
    /// duplicate in an index of a table, the key of the row that was there first. Messages never
    /// contain it.
    pub fn key(&self) -> Option<(&[u8], usize)> {
        use Error::*;
        let key = match self {
            Step { error, .. } => return error.key(),
            LockTimeout { key, .. } | Deadlock { key, .. } | LockBusy { key, .. } => {
                return key.as_ref().map(|key| (key.as_bytes(), key.key_bytes()));
            }
            Conflict { key, .. } | IndexFunction { row: key, .. } => key,
            DuplicateKey(duplicate) => duplicate.key()?,
            _ => return None,
        };
        Some((key, key.len()))
    }

    /// True if the error concerns a page and not the store: the page cannot be read now, ever, or
    /// by this version of Frond, or memory for it could not be allocated. Operations that do not
    /// need that page continue (P10, P11).
    pub(crate) fn concerns_a_page(&self) -> bool {
        use Error::*;
        match self {
            Checksum { .. } | Malformed { .. } | WrongPage { .. } => true,
            TooNew { .. } | NoMemory { .. } => true,
            Io { action, .. } => *action == "read",
            _ => false,
        }
    }

    /// True if there is no space for a write: the disk is full, or must not be written to.
    pub(crate) fn is_no_space(&self) -> bool {
        matches!(self, Error::Full(_) | Error::ReadOnly)
    }

    /// The offset in its file that the error concerns, if any.
    pub(crate) fn offset(&self) -> Option<u64> {
        use Error::*;
        match self {
            Checksum { place, .. } | Malformed { place, .. } => Some(place.offset),
            WrongPage { place, .. } => Some(place.offset),
            Io { offset, .. } => Some(*offset),
            _ => None,
        }
    }

    /// Creates an [`Error::NotAStore`].
    pub(crate) fn not_a_store(path: &Path, why: &str) -> Self {
        Self::NotAStore { path: path.to_owned(), why: why.to_owned() }
    }

    /// Creates an [`Error::Io`].
    pub fn io(
        file: impl Into<PathBuf>,
        action: &'static str,
        offset: u64,
        source: io::Error,
    ) -> Self {
        Self::Io { file: file.into(), action, offset, source: Arc::new(source) }
    }
}
