//! Operations as data: what a script does to a store and to the model.
//!
//! A script is text, one operation per line, `#` begins a comment; what a campaign found stands as
//! such a script in `tests/seeds/*.seed` and is run for ever. Keys and values are written as short
//! names (`k12`, `v7*20`) and expanded by [`Key::bytes`] and [`Value::bytes`], so that a script is
//! readable and a value of a megabyte takes no room in it.
//!
//! | line | meaning |
//! |---|---|
//! | `create t0` / `create t0 unique` / `drop t0` / `rename t0 t1` / `clone t0 t1` | catalog |
//! | `commit LEVEL: put t0 k1 v7*20; insert t0 k2 v1*3; delete t0 k3; add t0 a1 -5; max t0 x1 v2*4; min t0 n1 v3*4; append t0 p1 v5*6; range t0 k1 k9` | one atomic batch; LEVEL is `default`, `sync`, `os` or `lazy` |
//! | `bulk t0 v7*20 k1 k2 k3` / `bulk t0 unique v7*20 k1 k2 k3` | bulk load of a new tree: these keys, with values v7, v8, v9 |
//! | `fill t0 v7*20 k1 k2 k3` | the same into a tree that is there and empty |
//! | `get t0 k1`, `scan t0 k1 k9 10`, `rscan t0 k1 k9 10` | reads; the number is a limit |
//! | `snapshot s0`, `unsnapshot s0`, `resnapshot s0` | named snapshots: create, drop, read all |
//! | `begin 0 snapshot default` / `txn 0 put t0 k1 v7*20` … / `txn 0 commit` | transactions, several open at once: see [`TxnOp`] |
//! | `decide 2 commit`, `decide 2 rollback` | what is prepared is decided: see [`TxnOp`] |
//! | `hold 0`, `held 0`, `release 0` | a snapshot held in memory: take, read all, let go |
//! | `checkpoint`, `step 5`, `advance 700`, `reopen`, `crash 99`, `kill` | background, milliseconds, restarts |

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
/// The class says which operations may meet the key, so that every operator finds a base of its own
/// form: `k` plain, `a` add, `x` max, `n` min, `p` append.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Key {
    /// Class letter; keys of class `z` begin with bytes FF, and their tail is of them, too.
    pub class: u8,
    /// Number, four digits in the key.
    pub number: u32,
    /// So many bytes follow.
    pub tail: u32,
}

impl Key {
    /// A plain key.
    pub fn plain(number: u32) -> Self {
        Self { class: b'k', number, tail: 0 }
    }

    /// The bytes. Order of plain keys is that of their numbers below 10 000.
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
    /// What the bytes are.
    pub seed: u32,
    /// How many.
    pub bytes: u32,
}

impl Value {
    /// The value of the `index`-th row of a bulk load that begins with this one.
    pub fn of_row(self, index: usize) -> Self {
        Self { seed: self.seed.wrapping_add(index as u32), ..self }
    }

    /// The bytes: text that a codec shrinks by about half, different for each seed.
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
    /// Put.
    Put(String, Key, Value),
    /// Insert: the whole commit fails if the key exists.
    Insert(String, Key, Value),
    /// Delete.
    Delete(String, Key),
    /// Merge: add to an i64.
    Add(String, Key, i64),
    /// Merge: the greater of the two, by bytes.
    Max(String, Key, Value),
    /// Merge: the smaller of the two, by bytes.
    Min(String, Key, Value),
    /// Merge: append.
    Append(String, Key, Value),
    /// Delete `[from, to)`.
    Range(String, Key, Key),
}

impl Write {
    /// The tree it is for.
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

    /// True of a range without keys.
    pub fn is_nothing(&self) -> bool {
        matches!(self, Write::Range(_, from, to) if from.bytes() >= to.bytes())
    }

    /// The one key it is for; a range has none.
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

    /// Whether there is a row of this key after it, in its tree; `None` if it is not of this key.
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
    /// Create a tree.
    Create {
        /// Its name.
        tree: String,
        /// With leaf filters, and checked inserts.
        unique: bool,
    },
    /// Drop a tree.
    Drop(String),
    /// Rename a tree.
    Rename(String, String),
    /// Clone a tree.
    Clone(String, String),
    /// Commit a batch; `None`: at the store's own level.
    Commit(Option<Durability>, Vec<Write>),
    /// Create a tree by loading rows in bulk.
    Bulk {
        /// Its name.
        tree: String,
        /// Whether a key may come only once.
        unique: bool,
        /// The first row's value; each following one has the next seed.
        value: Value,
        /// The keys, in the order in which they are put.
        keys: Vec<Key>,
    },
    /// Fill a tree that is there and empty by loading rows in bulk.
    Fill {
        /// Its name.
        tree: String,
        /// As of [`Op::Bulk`].
        value: Value,
        /// The keys, in the order in which they are put.
        keys: Vec<Key>,
    },
    /// Begin a transaction in a slot; one that is open there is rolled back. Its commit has this level;
    /// `None`: the store's own.
    Begin(u8, Isolation, Option<Durability>),
    /// A call of the transaction in a slot; nothing if there is none.
    InTxn(u8, TxnOp),
    /// Decide what was prepared by a number and is in no slot's hands: committed, or not.
    Decide(u8, bool),
    /// Read one key.
    Get(String, Key),
    /// Read up to `limit` rows of `[from, to)`.
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
    },
    /// Create a named snapshot.
    Snapshot(String),
    /// Drop a named snapshot.
    Unsnapshot(String),
    /// Read every tree as of a named snapshot.
    ReadSnapshot(String),
    /// Take a snapshot and hold it.
    Hold(u8),
    /// Read every tree as of a held snapshot.
    ReadHeld(u8),
    /// Let a held snapshot go.
    Release(u8),
    /// Make everything so far durable.
    Checkpoint,
    /// Up to so many steps of background work.
    Step(u32),
    /// Up to so many steps of draining buffers, as an idle store does.
    Drain(u32),
    /// Let so many milliseconds pass, with background work in between.
    Advance(u32),
    /// Close and open.
    Reopen,
    /// Lose power with a random part of what is pending, by this seed, and open.
    Crash(u64),
    /// Kill the process and open.
    Kill,
}

impl Op {
    /// True if the operation changes what a reader of the store sees, when it succeeds: each such
    /// operation is one step of the commit order. Of calls of transactions, [`Sessions::step_of`] says it.
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
