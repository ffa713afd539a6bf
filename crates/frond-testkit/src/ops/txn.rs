//! Calls of a transaction, as data and as text.
//!
//! | line | meaning |
//! |---|---|
//! | `begin 0 snapshot sync` | begins in slot 0, at a level (`committed`, `repeatable`, `snapshot`, `serializable`), and says how durable its commit is to be |
//! | `txn 0 put t0 k1 v7*20`, … | a write, as in a batch; no range |
//! | `txn 0 get t0 k1`, `txn 0 lock t0 k1 exclusive fail` | a plain read, a locking one |
//! | `txn 0 scan t0 k1 k9 10`, `txn 0 rscan t0 k1 k9 10 shared skip` | scans, plain and locking |
//! | `txn 0 savepoint 1`, `txn 0 back 1`, `txn 0 release 1` | savepoints, by numbers of the script's |
//! | `txn 0 statement`, `txn 0 undo` | a statement begins; what it wrote is taken back |
//! | `txn 0 commit`, `txn 0 rollback` | its end |
//! | `txn 0 prepare 2` | prepared by this number: the slot has it in hand, and `commit` or `rollback` there decide it |
//! | `txn 0 detach` | the slot lets go of what is prepared; so does the next `begin` there |
//! | `decide 2 commit`, `decide 2 rollback` | decided by its number, from no slot |
//!
//! One thread plays all transactions, so none of their calls waits: what is busy is an answer.

use std::fmt;

use frond::{Durability, IfLocked, Isolation, RowLock};

use super::{Key, Op, Write, text};

/// How a read locks what it meets. `Wait` is a wait of no time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Locking {
    /// Against whom.
    pub lock: RowLock,
    /// What it does about rows that another has.
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
    /// Up to `limit` rows of `[from, to)`.
    Scan {
        /// The tree.
        tree: String,
        /// First key.
        from: Key,
        /// First key no more wanted.
        to: Key,
        /// At most so many rows.
        limit: u32,
        /// From the end.
        reverse: bool,
        /// Locking what it goes over.
        locking: Option<Locking>,
    },
    /// Mark a savepoint by this number, instead of another that had it.
    Savepoint(u8),
    /// Go back to a savepoint.
    BackTo(u8),
    /// Forget a savepoint.
    Release(u8),
    /// Begin a statement.
    Statement,
    /// Take back what the statement wrote.
    UndoStatement,
    /// Commit; also of what is prepared and in the slot's hands.
    Commit,
    /// Roll back; the same.
    Rollback,
    /// Prepare by this number, at the transaction's level, `Sync` if it has none. It stays in the slot's hands.
    Prepare(u8),
    /// Let go of what is prepared.
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
        let lock = match self.lock {
            RowLock::Shared => "shared",
            RowLock::Exclusive => "exclusive",
        };
        let if_locked = match self.if_locked {
            IfLocked::Wait => "wait",
            IfLocked::Fail => "fail",
            IfLocked::Skip => "skip",
            IfLocked::LastCommit => "last",
        };
        write!(f, "{lock} {if_locked}")
    }
}

impl fmt::Display for TxnOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TxnOp::Write(entry) => write!(f, "{entry}"),
            TxnOp::Get(tree, key) => write!(f, "get {tree} {key}"),
            TxnOp::Lock(tree, key, locking) => write!(f, "lock {tree} {key} {locking}"),
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
            TxnOp::Detach => write!(f, "detach"),
        }
    }
}

/// The line that begins a transaction.
pub(super) fn begin_text(slot: u8, isolation: Isolation, level: Option<Durability>) -> String {
    let name = LEVELS.iter().find(|(_, of)| *of == isolation).map_or("", |(name, _)| name);
    format!("begin {slot} {name} {}", text::level_name(level))
}

/// `begin SLOT ISOLATION LEVEL`, its words.
pub(super) fn parse_begin(words: &[&str]) -> Option<Op> {
    let isolation = LEVELS.iter().find(|(name, _)| words.get(2) == Some(name))?.1;
    Some(Op::Begin(words.get(1)?.parse().ok()?, isolation, text::parse_level(words.get(3)?)?))
}

/// `txn SLOT CALL`, behind its first word.
pub(super) fn parse_call(rest: &str) -> Option<Op> {
    let (slot, call) = rest.trim().split_once(' ')?;
    let words: Vec<&str> = call.split_whitespace().collect();
    let key = |at: usize| words.get(at).and_then(|word| text::parse_key(word));
    let number = || words.get(1).and_then(|word| word.parse().ok());
    let tree = || words.get(1).map(|word| (*word).to_owned());
    let call = match *words.first()? {
        "get" => TxnOp::Get(tree()?, key(2)?),
        "lock" => TxnOp::Lock(tree()?, key(2)?, parse_locking(words.get(3..)?)?),
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
        "detach" => TxnOp::Detach,
        "range" => return None,
        _ => TxnOp::Write(text::parse_write(call)?),
    };
    Some(Op::InTxn(slot.parse().ok()?, call))
}

fn parse_locking(words: &[&str]) -> Option<Locking> {
    let [lock, if_locked] = words else { return None };
    let lock = match *lock {
        "shared" => RowLock::Shared,
        "exclusive" => RowLock::Exclusive,
        _ => return None,
    };
    let if_locked = match *if_locked {
        "wait" => IfLocked::Wait,
        "fail" => IfLocked::Fail,
        "skip" => IfLocked::Skip,
        "last" => IfLocked::LastCommit,
        _ => return None,
    };
    Some(Locking { lock, if_locked })
}
