//! Calls of a transaction, as data and as text.
//!
//! | line | meaning |
//! |---|---|
//! | `begin 0 snapshot sync` | begins in slot 0, at a level (`committed`, `repeatable`, `snapshot`, `serializable`), with the durability of its commit |
//! | `txn 0 put t0 k1 v7*20`, … | a write, as in a batch; no range |
//! | `txn 0 get t0 k1`, `txn 0 lock t0 k1 exclusive fail` | a plain read, a locking read |
//! | `txn 0 look t0 k1 shared wait` | a locking read whose lock is released at once |
//! | `txn 0 many t0 k1 k2 k3`, `txn 0 many exclusive skip t0 k1 k2` | many rows at once, plain and locking |
//! | `txn 0 row t0 R1 v7*20 shared`, `txn 0 row t0 R1 - exclusive` | a row with two indexes is put or deleted; the lock is for a conflicting entry |
//! | `txn 0 scan t0 k1 k9 10`, `txn 0 rscan t0 k1 k9 10 shared skip` | scans, plain and locking |
//! | `txn 0 savepoint 1`, `txn 0 back 1`, `txn 0 release 1` | savepoints, by numbers of the script |
//! | `txn 0 statement`, `txn 0 undo` | starts a statement; rolls it back |
//! | `txn 0 commit`, `txn 0 rollback` | ends the transaction |
//! | `txn 0 prepare 2` | prepares by this number: it stays attached to the slot, and `commit` or `rollback` there decide it |
//! | `txn 0 order` | orders the commit of the prepared transaction attached to the slot |
//! | `txn 0 detach` | detaches the prepared transaction; so does the next `begin` there |
//! | `decide 2 commit`, `decide 2 rollback` | decides a detached transaction by its number |
//!
//! One thread runs all transactions, so none of their calls waits: a busy row is an answer.

use std::fmt;

use frond::{Durability, IfLocked, Isolation, RowLock};

use super::{Key, Op, Value, Write, text};

/// How a read locks the rows that it reaches. `Wait` waits for no time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Locking {
    /// The lock mode.
    pub lock: RowLock,
    /// What it does about rows that another transaction holds.
    pub if_locked: IfLocked,
}

/// A call of a transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TxnOp {
    /// A write of one row.
    Write(Write),
    /// A plain read.
    Get(String, Key),
    /// A locking read.
    Lock(String, Key, Locking),
    /// A locking read of a row that is not wanted: its lock is released at once.
    Look(String, Key, Locking),
    /// A read of many rows.
    ReadMany(String, Vec<Key>, Option<Locking>),
    /// A row with an entry in a plain index and one in a unique index: put, whatever it was, or
    /// deleted, if it exists. See [`rows`](crate::model::rows).
    Row {
        /// The tree of the row and its indexes.
        tree: String,
        /// Key of class [`ROW`](crate::model::rows::ROW).
        key: Key,
        /// The new value; `None` deletes the row.
        value: Option<Value>,
        /// How a conflicting entry is locked.
        lock: RowLock,
    },
    /// Reads up to `limit` rows of `[from, to)`.
    Scan {
        /// The tree.
        tree: String,
        /// First key.
        from: Key,
        /// First key after the range.
        to: Key,
        /// Maximum number of rows.
        limit: u32,
        /// Whether to read from the end.
        reverse: bool,
        /// How it locks what it passes.
        locking: Option<Locking>,
    },
    /// Sets a savepoint with this number, replacing another that had it.
    Savepoint(u8),
    /// Rolls back to a savepoint.
    BackTo(u8),
    /// Forgets a savepoint.
    Release(u8),
    /// Starts a statement.
    Statement,
    /// Rolls back the statement.
    UndoStatement,
    /// Commits; also a prepared transaction that is attached to the slot.
    Commit,
    /// Rolls back; also a prepared transaction that is attached to the slot.
    Rollback,
    /// Prepares by this number, at the transaction's level, or `Sync` if it has none. It stays
    /// attached to the slot.
    Prepare(u8),
    /// Orders the commit of the prepared transaction that is attached to the slot.
    Order,
    /// Detaches the prepared transaction.
    Detach,
}

const LEVELS: [(&str, Isolation); 4] = [
    ("committed", Isolation::ReadCommitted),
    ("repeatable", Isolation::RepeatableRead),
    ("snapshot", Isolation::Snapshot),
    ("serializable", Isolation::Serializable),
];

impl fmt::Display for Locking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lock = lock_name(self.lock);
        let if_locked = match self.if_locked {
            IfLocked::Wait => "wait",
            IfLocked::NoWait => "fail",
            IfLocked::SkipLocked => "skip",
            IfLocked::SemiConsistent => "last",
        };
        write!(f, "{lock} {if_locked}")
    }
}

fn lock_name(lock: RowLock) -> &'static str {
    match lock {
        RowLock::Shared => "shared",
        RowLock::Exclusive => "exclusive",
    }
}

impl fmt::Display for TxnOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TxnOp::Write(entry) => write!(f, "{entry}"),
            TxnOp::Get(tree, key) => write!(f, "get {tree} {key}"),
            TxnOp::Lock(tree, key, locking) => write!(f, "lock {tree} {key} {locking}"),
            TxnOp::Look(tree, key, locking) => write!(f, "look {tree} {key} {locking}"),
            TxnOp::ReadMany(tree, keys, locking) => {
                write!(f, "many")?;
                locking.iter().try_for_each(|locking| write!(f, " {locking}"))?;
                write!(f, " {tree}")?;
                keys.iter().try_for_each(|key| write!(f, " {key}"))
            }
            TxnOp::Row { tree, key, value: Some(value), lock } => {
                write!(f, "row {tree} {key} {value} {}", lock_name(*lock))
            }
            TxnOp::Row { tree, key, value: None, lock } => {
                write!(f, "row {tree} {key} - {}", lock_name(*lock))
            }
            TxnOp::Scan { tree, from, to, limit, reverse, locking } => {
                let verb = if *reverse { "rscan" } else { "scan" };
                write!(f, "{verb} {tree} {from} {to} {limit}")?;
                locking.iter().try_for_each(|locking| write!(f, " {locking}"))
            }
            TxnOp::Savepoint(number) => write!(f, "savepoint {number}"),
            TxnOp::BackTo(number) => write!(f, "back {number}"),
            TxnOp::Release(number) => write!(f, "release {number}"),
            TxnOp::Statement => write!(f, "statement"),
            TxnOp::UndoStatement => write!(f, "undo"),
            TxnOp::Commit => write!(f, "commit"),
            TxnOp::Rollback => write!(f, "rollback"),
            TxnOp::Prepare(number) => write!(f, "prepare {number}"),
            TxnOp::Order => write!(f, "order"),
            TxnOp::Detach => write!(f, "detach"),
        }
    }
}

/// The line that begins a transaction.
pub(super) fn begin_text(slot: u8, isolation: Isolation, level: Option<Durability>) -> String {
    let name = LEVELS.iter().find(|(_, of)| *of == isolation).map_or("", |(name, _)| name);
    format!("begin {slot} {name} {}", text::level_name(level))
}

/// Parses the words of `begin SLOT ISOLATION LEVEL`.
pub(super) fn parse_begin(words: &[&str]) -> Option<Op> {
    let isolation = LEVELS.iter().find(|(name, _)| words.get(2) == Some(name))?.1;
    Some(Op::Begin(words.get(1)?.parse().ok()?, isolation, text::parse_level(words.get(3)?)?))
}

/// Parses `txn SLOT CALL`, after its first word.
pub(super) fn parse_call(rest: &str) -> Option<Op> {
    let (slot, call) = rest.trim().split_once(' ')?;
    let words: Vec<&str> = call.split_whitespace().collect();
    let key = |at: usize| words.get(at).and_then(|word| text::parse_key(word));
    let number = || words.get(1).and_then(|word| word.parse().ok());
    let tree = || words.get(1).map(|word| (*word).to_owned());
    let call = match *words.first()? {
        "get" => TxnOp::Get(tree()?, key(2)?),
        "lock" => TxnOp::Lock(tree()?, key(2)?, parse_locking(words.get(3..)?)?),
        "look" => TxnOp::Look(tree()?, key(2)?, parse_locking(words.get(3..)?)?),
        "many" => {
            let locking = words.get(1..3).and_then(parse_locking);
            let (tree, keys) =
                words.get(if locking.is_some() { 3.. } else { 1.. })?.split_first()?;
            let keys = keys.iter().map(|word| text::parse_key(word)).collect::<Option<_>>()?;
            TxnOp::ReadMany((*tree).to_owned(), keys, locking)
        }
        "row" => TxnOp::Row {
            tree: tree()?,
            key: key(2)?,
            value: match *words.get(3)? {
                "-" => None,
                value => Some(text::parse_value(value)?),
            },
            lock: parse_lock(words.get(4)?)?,
        },
        verb @ ("scan" | "rscan") => TxnOp::Scan {
            tree: tree()?,
            from: key(2)?,
            to: key(3)?,
            limit: words.get(4)?.parse().ok()?,
            reverse: verb == "rscan",
            locking: match words.get(5..)? {
                [] => None,
                locking => Some(parse_locking(locking)?),
            },
        },
        "savepoint" => TxnOp::Savepoint(number()?),
        "back" => TxnOp::BackTo(number()?),
        "release" => TxnOp::Release(number()?),
        "statement" => TxnOp::Statement,
        "undo" => TxnOp::UndoStatement,
        "commit" => TxnOp::Commit,
        "rollback" => TxnOp::Rollback,
        "prepare" => TxnOp::Prepare(number()?),
        "order" => TxnOp::Order,
        "detach" => TxnOp::Detach,
        "range" => return None,
        _ => TxnOp::Write(text::parse_write(call)?),
    };
    Some(Op::InTxn(slot.parse().ok()?, call))
}

fn parse_lock(word: &str) -> Option<RowLock> {
    match word {
        "shared" => Some(RowLock::Shared),
        "exclusive" => Some(RowLock::Exclusive),
        _ => None,
    }
}

fn parse_locking(words: &[&str]) -> Option<Locking> {
    let [lock, if_locked] = words else { return None };
    let lock = parse_lock(lock)?;
    let if_locked = match *if_locked {
        "wait" => IfLocked::Wait,
        "fail" => IfLocked::NoWait,
        "skip" => IfLocked::SkipLocked,
        "last" => IfLocked::SemiConsistent,
        _ => return None,
    };
    Some(Locking { lock, if_locked })
}
