//! Operations as data: what a script does to a store and to the model.
//!
//! A script is text, one operation per line; `#` starts a comment. A script with which a campaign
//! has failed is kept in `tests/seeds/*.seed` and is run with the tests from then on. Keys and
//! values are written as short names (`k12`, `v7*20`) and expanded by [`Key::bytes`] and
//! [`Value::bytes`], so that a script is readable and a value of a megabyte takes no space in it.
//!
//! | line | meaning |
//! |---|---|
//! | `create t0` / `create t0 unique` / `drop t0` / `rename t0 t1` / `clone t0 t1` | catalog |
//! | `commit LEVEL: put t0 k1 v7*20; insert t0 k2 v1*3; delete t0 k3; add t0 a1 -5; max t0 x1 v2*4; min t0 n1 v3*4; append t0 p1 v5*6; range t0 k1 k9` | one atomic batch; LEVEL is `default`, `sync`, `os` or `lazy` |
//! | `bulk t0 v7*20 k1 k2 k3` / `bulk t0 unique v7*20 k1 k2 k3` | bulk load of a new tree: these keys, with values v7, v8, v9 |
//! | `fill t0 v7*20 k1 k2 k3` | bulk load into an existing empty tree |
//! | `get t0 k1`, `scan t0 k1 k9 10`, `rscan t0 k1 k9 10` | reads; the number is a limit |
//! | `snapshot s0`, `unsnapshot s0`, `resnapshot s0` | named snapshots: create, drop, read all |
//! | `begin 0 snapshot default` / `txn 0 put t0 k1 v7*20` … / `txn 0 commit` | transactions, several open at once: see [`TxnOp`] |
//! | `decide 2 commit`, `decide 2 rollback` | decides a prepared transaction: see [`TxnOp`] |
//! | `hold 0`, `held 0`, `release 0` | a snapshot held in memory: take, read all, release |
//! | `checkpoint`, `step 5`, `advance 700`, `reopen`, `crash 99`, `kill` | background work, milliseconds, restarts |

mod generate;
mod shrink;
mod text;
mod txn;

pub use generate::{Swarm, Wear, generate, worn_edges};
pub use shrink::shrink;
pub use text::{parse_script, script_text};
pub use txn::{Locking, TxnOp};

use frond::{Durability, Isolation};

use crate::Dice;

/// A key by name: class letter, number, length of a tail.
///
/// The class says which operations may use the key, so that every operator finds a base of its own
/// form: `k` plain, `a` add, `x` max, `n` min, `p` append.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Key {
    /// Class letter; keys of class `z` start with bytes FF, and so does their tail.
    pub class: u8,
    /// Number, four digits in the key.
    pub number: u32,
    /// Number of bytes that follow.
    pub tail: u32,
}

impl Key {
    /// A plain key.
    pub fn plain(number: u32) -> Self {
        Self { class: b'k', number, tail: 0 }
    }

    /// The bytes of the key. Plain keys are ordered by number below 10 000.
    pub fn bytes(self) -> Vec<u8> {
        let number = format!("{:04}", self.number);
        if self.class == b'z' {
            return [&vec![0xff; 1 + self.tail as usize][..], number.as_bytes()].concat();
        }
        let mut bytes = format!("{}{number}", char::from(self.class)).into_bytes();
        let mut dice = Dice::new(u64::from(self.number));
        bytes.extend((0..self.tail).map(|_| b'a' + dice.below(26) as u8));
        bytes
    }
}

/// A value by seed and length.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Value {
    /// Determines the bytes.
    pub seed: u32,
    /// Number of bytes.
    pub bytes: u32,
}

impl Value {
    /// The value of the `index`-th row of a bulk load that starts with this one.
    pub fn of_row(self, index: usize) -> Self {
        Self { seed: self.seed.wrapping_add(index as u32), ..self }
    }

    /// The bytes of the value: text that a codec shrinks by about half, different for each seed.
    pub fn bytes(self) -> Vec<u8> {
        let mut dice = Dice::new(u64::from(self.seed));
        let mut bytes = format!("<{}>", self.seed).into_bytes();
        while bytes.len() < self.bytes as usize {
            bytes.extend_from_slice(&dice.bits().to_le_bytes()[..5]);
            bytes.extend_from_slice(b"-row-");
        }
        bytes.truncate(self.bytes as usize);
        bytes
    }
}

/// One entry of a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Write {
    /// A put.
    Put(String, Key, Value),
    /// An insert: the whole commit fails if the key exists.
    Insert(String, Key, Value),
    /// A delete.
    Delete(String, Key),
    /// A merge: adds to an i64.
    Add(String, Key, i64),
    /// A merge: keeps the greater value, by bytes.
    Max(String, Key, Value),
    /// A merge: keeps the smaller value, by bytes.
    Min(String, Key, Value),
    /// A merge: appends.
    Append(String, Key, Value),
    /// A delete of the range `[from, to)`.
    Range(String, Key, Key),
}

impl Write {
    /// The tree that is written.
    pub fn tree(&self) -> &str {
        match self {
            Write::Put(tree, ..)
            | Write::Insert(tree, ..)
            | Write::Delete(tree, ..)
            | Write::Add(tree, ..)
            | Write::Max(tree, ..)
            | Write::Min(tree, ..)
            | Write::Append(tree, ..)
            | Write::Range(tree, ..) => tree,
        }
    }

    /// True for a range without keys.
    pub fn is_nothing(&self) -> bool {
        matches!(self, Write::Range(_, from, to) if from.bytes() >= to.bytes())
    }

    /// The one key that is written; `None` for a range.
    pub fn key(&self) -> Option<Key> {
        match self {
            Write::Put(_, key, _)
            | Write::Insert(_, key, _)
            | Write::Delete(_, key)
            | Write::Add(_, key, _)
            | Write::Max(_, key, _)
            | Write::Min(_, key, _)
            | Write::Append(_, key, _) => Some(*key),
            Write::Range(..) => None,
        }
    }

    /// Whether a row with this key exists after the write, in its tree; `None` if the write does
    /// not concern this key.
    pub fn leaves_row(&self, key: &[u8]) -> Option<bool> {
        match self {
            Write::Range(_, from, to) => {
                let (from, to) = (from.bytes(), to.bytes());
                (from.as_slice() <= key && key < to.as_slice()).then_some(false)
            }
            _ => (self.key()?.bytes() == key).then_some(!matches!(self, Write::Delete(..))),
        }
    }
}

/// One operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Op {
    /// Creates a tree.
    Create {
        /// The name.
        tree: String,
        /// Whether it has leaf filters and checked inserts.
        unique: bool,
    },
    /// Drops a tree.
    Drop(String),
    /// Renames a tree.
    Rename(String, String),
    /// Clones a tree.
    Clone(String, String),
    /// Commits a batch; `None`: at the store's own level.
    Commit(Option<Durability>, Vec<Write>),
    /// Creates a tree by a bulk load.
    Bulk {
        /// The name.
        tree: String,
        /// Whether a key may come only once.
        unique: bool,
        /// The first row's value; each following one has the next seed.
        value: Value,
        /// The keys, in the order in which they are put.
        keys: Vec<Key>,
    },
    /// Fills an existing empty tree by a bulk load.
    Fill {
        /// The name.
        tree: String,
        /// As for [`Op::Bulk`].
        value: Value,
        /// The keys, in the order in which they are put.
        keys: Vec<Key>,
    },
    /// Begins a transaction in a slot; an open one there is rolled back. Its commit has this level;
    /// `None`: the store's own.
    Begin(u8, Isolation, Option<Durability>),
    /// A call of the transaction in a slot; does nothing if there is none.
    InTxn(u8, TxnOp),
    /// Decides a detached prepared transaction by its number: commits it, or not.
    Decide(u8, bool),
    /// Reads one key.
    Get(String, Key),
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
    },
    /// Creates a named snapshot.
    Snapshot(String),
    /// Drops a named snapshot.
    Unsnapshot(String),
    /// Reads every tree in a named snapshot.
    ReadSnapshot(String),
    /// Takes a snapshot and holds it.
    Hold(u8),
    /// Reads every tree in a held snapshot.
    ReadHeld(u8),
    /// Releases a held snapshot.
    Release(u8),
    /// Makes everything so far durable.
    Checkpoint,
    /// Does up to this many steps of background work.
    Step(u32),
    /// Does up to this many steps of draining buffers, as an idle store does.
    Drain(u32),
    /// Lets this many milliseconds pass, with background work in between.
    Advance(u32),
    /// Closes and opens the store.
    Reopen,
    /// Loses power, with a random part of what is pending, by this seed, and opens the store.
    Crash(u64),
    /// Kills the process and opens the store.
    Kill,
}

impl Op {
    /// True if the operation changes what a reader of the store sees, when it succeeds: each such
    /// operation is one step of the commit order. For calls of transactions, use
    /// [`Sessions::step_of`].
    ///
    /// [`Sessions::step_of`]: crate::model::Sessions::step_of
    pub fn is_change(&self) -> bool {
        matches!(
            self,
            Op::Create { .. }
                | Op::Drop(_)
                | Op::Rename(..)
                | Op::Clone(..)
                | Op::Commit(..)
                | Op::Bulk { .. }
                | Op::Fill { .. }
                | Op::Snapshot(_)
                | Op::Unsnapshot(_)
        )
    }
}
