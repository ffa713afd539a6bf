//! The model: the expected content of a store, computed in the simplest way (docs/safety.md §4.3).
//!
//! A map per tree with the full history of every key. Each operation that changes something and is
//! not refused is one step of the commit order. The state after every step can be read, so a
//! snapshot is a step number and a crash is a choice among steps.
//!
//! Invariants
//! 1. Step n's digest equals [`digest`] of the rows at step n.
//! 2. A refused operation changes nothing and is not a step.
//!
//! [`Model::step_of`] is the rule for crashes (P1–P3): the rows found must be the state after some
//! step between the last one that had to survive and the last one that was issued.

pub mod operators;
mod prepared;
pub mod rows;
mod sessions;
mod walk;

pub use sessions::Sessions;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::ops::{Key, Op, Value, Write};

/// A key and its value.
pub type Row = (Vec<u8>, Vec<u8>);
/// The rows of each tree, ascending.
pub type Dump = BTreeMap<String, Vec<Row>>;

/// Everything that a reader can see of a store.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Everything {
    /// The trees.
    pub trees: Dump,
    /// The trees as of each named snapshot.
    pub snapshots: BTreeMap<String, Dump>,
    /// Numbers of in-doubt transactions that have written something.
    pub in_doubt: BTreeSet<u8>,
}

/// Why an operation was refused; it has changed nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// No such tree.
    NoSuchTree,
    /// The tree exists already.
    TreeExists,
    /// The tree to be filled has rows.
    NotEmpty,
    /// The key of an insert exists.
    KeyExists,
    /// An insert into a tree that is not unique.
    BadCall,
    /// No such snapshot.
    NoSuchSnapshot,
    /// The snapshot exists already.
    SnapshotExists,
    /// Another transaction holds the row, or the gap.
    Busy,
    /// Another transaction has committed the row since the snapshot; this one is over.
    Conflict,
    /// The transaction is over.
    Ended,
    /// The tree is younger than the snapshot.
    BornLater,
    /// Another transaction is prepared by this number; this one is over.
    XidExists,
    /// Nothing is prepared by this number.
    NoSuchXid,
    /// The prepared transaction is attached to a slot.
    XidBusy,
}

/// The answer to an operation.
#[derive(Clone, PartialEq, Eq)]
pub enum Answer {
    /// Done.
    Done,
    /// Refused.
    Refused(Refusal),
    /// A value, or none.
    Value(Option<Vec<u8>>),
    /// Rows of a scan.
    Rows(Vec<Row>),
    /// All trees.
    All(Dump),
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Answer::Done => write!(f, "done"),
            Answer::Refused(why) => write!(f, "refused: {why:?}"),
            Answer::Value(None) => write!(f, "no value"),
            Answer::Value(Some(value)) => write!(f, "{}", show(value)),
            Answer::Rows(rows) => {
                write!(f, "{} rows:", rows.len())?;
                let shown = rows.iter().take(20);
                shown.into_iter().try_for_each(|(k, v)| write!(f, " {}={}", show(k), show(v)))
            }
            Answer::All(dump) => {
                let counts: Vec<_> = dump.iter().map(|(name, rows)| (name, rows.len())).collect();
                write!(f, "trees {counts:?}")
            }
        }
    }
}

/// Printable bytes, shortened.
pub fn show(bytes: &[u8]) -> String {
    let text: String = bytes.iter().take(24).map(|&b| b.escape_ascii().to_string()).collect();
    if bytes.len() > 24 { format!("{text}…({} B)", bytes.len()) } else { text }
}

type TreeNumber = u64;
type Names<T> = Arc<BTreeMap<String, T>>;

/// Values of one key by step, oldest first; `None`: deleted.
type Versions = Vec<(u64, Option<Arc<[u8]>>)>;

#[derive(Clone, Debug, Default)]
struct History {
    rows: BTreeMap<Vec<u8>, Versions>,
    /// Range deletes and their steps: they touch a row even if it did not exist.
    ranges: Vec<(u64, Vec<u8>, Vec<u8>)>,
    digest: u64,
    unique: bool,
}

/// The model of a store.
#[derive(Clone, Debug)]
pub struct Model {
    trees: BTreeMap<TreeNumber, History>,
    names: Vec<(u64, Names<TreeNumber>)>,
    snapshots: Vec<(u64, Names<u64>)>,
    /// In-doubt transactions that have written something.
    in_doubt: Vec<(u64, prepared::InDoubt)>,
    digests: Vec<u64>,
    next_tree: TreeNumber,
}

impl Default for Model {
    fn default() -> Self {
        Self {
            trees: BTreeMap::new(),
            names: vec![(0, Names::default())],
            snapshots: vec![(0, Names::default())],
            in_doubt: vec![(0, prepared::InDoubt::default())],
            digests: vec![0],
            next_tree: 1,
        }
    }
}

fn row_digest(key: &[u8], value: &[u8]) -> u64 {
    xxh3_64_with_seed(value, xxh3_64_with_seed(key, 1))
}

fn tree_digest(name: &str, rows: u64) -> u64 {
    xxh3_64_with_seed(&rows.to_le_bytes(), xxh3_64_with_seed(name.as_bytes(), 2))
}

/// Digest of what a reader sees: rows of trees, names of snapshots, in-doubt transactions.
pub fn digest(everything: &Everything) -> u64 {
    let rows = |rows: &Vec<Row>| {
        rows.iter().fold(0, |sum: u64, (k, v)| sum.wrapping_add(row_digest(k, v)))
    };
    let trees = everything.trees.iter().map(|(name, all)| tree_digest(name, rows(all)));
    let names = everything.snapshots.keys().map(|name| snapshot_digest(name));
    let in_doubt = everything.in_doubt.iter().map(|number| in_doubt_digest(*number));
    trees.chain(names).chain(in_doubt).fold(0, u64::wrapping_add)
}

fn snapshot_digest(name: &str) -> u64 {
    xxh3_64_with_seed(name.as_bytes(), 3)
}

fn in_doubt_digest(number: u8) -> u64 {
    xxh3_64_with_seed(&[number], 4)
}

impl History {
    fn at(&self, key: &[u8], step: u64) -> Option<&Arc<[u8]>> {
        let versions = self.rows.get(key)?;
        versions.iter().rev().find(|(at, _)| *at <= step)?.1.as_ref()
    }

    fn put(&mut self, key: Vec<u8>, step: u64, value: Option<Arc<[u8]>>) {
        let old = self.at(&key, u64::MAX).map(|value| row_digest(&key, value));
        let new = value.as_ref().map(|value| row_digest(&key, value));
        self.digest = self.digest.wrapping_sub(old.unwrap_or(0)).wrapping_add(new.unwrap_or(0));
        let versions = self.rows.entry(key).or_default();
        match versions.last_mut() {
            Some(last) if last.0 == step => last.1 = value,
            _ => versions.push((step, value)),
        }
    }

    fn rows_at(&self, step: u64) -> impl DoubleEndedIterator<Item = (&Vec<u8>, &Arc<[u8]>)> {
        self.rows.keys().filter_map(move |key| Some((key, self.at(key, step)?)))
    }

    fn dump_at(&self, step: u64) -> Vec<Row> {
        self.rows_at(step).map(|(key, value)| (key.clone(), value.to_vec())).collect()
    }

    fn forget_after(&mut self, step: u64) {
        self.ranges.retain(|(at, ..)| *at <= step);
        self.rows.retain(|_, versions| {
            versions.retain(|(at, _)| *at <= step);
            !versions.is_empty()
        });
        let rows = self.rows_at(u64::MAX).map(|(key, value)| row_digest(key, value));
        self.digest = rows.fold(0, u64::wrapping_add);
    }
}

impl Model {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Steps made so far; also the number of the newest state.
    pub fn step(&self) -> u64 {
        self.digests.len() as u64 - 1
    }

    /// The model as it was after this step.
    pub fn fork_at(&self, step: u64) -> Model {
        let mut fork = self.clone();
        if step == self.step() {
            return fork;
        }
        fork.digests.truncate(step as usize + 1);
        fork.names.retain(|(at, _)| *at <= step);
        fork.snapshots.retain(|(at, _)| *at <= step);
        fork.in_doubt.retain(|(at, _)| *at <= step);
        fork.trees.values_mut().for_each(|tree| tree.forget_after(step));
        fork
    }

    /// The newest step in `[floor, issued]` whose state has this digest.
    pub fn step_of(&self, digest: u64, floor: u64, issued: u64) -> Option<u64> {
        (floor..=issued.min(self.step())).rev().find(|&step| self.digests[step as usize] == digest)
    }

    /// The digest after a step.
    pub fn digest_at(&self, step: u64) -> u64 {
        self.digests[step as usize]
    }

    fn names_at(&self, step: u64) -> &Names<TreeNumber> {
        at_step(&self.names, step)
    }

    fn names(&self) -> &Names<TreeNumber> {
        self.names_at(u64::MAX)
    }

    fn snapshots(&self) -> &Names<u64> {
        at_step(&self.snapshots, u64::MAX)
    }

    /// The current names of the trees.
    pub fn tree_names(&self) -> Vec<String> {
        self.names().keys().cloned().collect()
    }

    /// Everything that a reader sees now.
    pub fn everything(&self) -> Everything {
        let trees = self.read_all_at(self.step());
        let snapshots = self.snapshots().iter();
        let snapshots = snapshots.map(|(name, &step)| (name.clone(), self.read_named_at(step)));
        let in_doubt = self.in_doubt().keys().copied().collect();
        Everything { trees, snapshots: snapshots.collect(), in_doubt }
    }

    /// The trees that exist now, as they were after a step; younger trees are left out.
    pub fn read_all_at(&self, step: u64) -> Dump {
        let then = self.names_at(step);
        let born = |number: &TreeNumber| then.values().any(|old| old == number);
        let trees = self.names().iter().filter(|(_, number)| born(number));
        trees.map(|(name, number)| (name.clone(), self.trees[number].dump_at(step))).collect()
    }

    /// All trees as they were after a step, including dropped ones, by the names that they had:
    /// what a named snapshot shows.
    pub fn read_named_at(&self, step: u64) -> Dump {
        let then = self.names_at(step).iter();
        then.map(|(name, number)| (name.clone(), self.trees[number].dump_at(step))).collect()
    }

    /// Carries out an operation, and returns the answer that the engine must give. Operations about
    /// background work, restarts and held snapshots change nothing here and return `Done`; the
    /// driver knows the step of a held snapshot.
    pub fn apply(&mut self, op: &Op) -> Answer {
        match self.try_apply(op) {
            Ok(answer) => answer,
            Err(refusal) => Answer::Refused(refusal),
        }
    }

    fn try_apply(&mut self, op: &Op) -> Result<Answer, Refusal> {
        match op {
            Op::Create { tree, unique } => {
                self.absent(tree)?;
                self.name_tree(|names, new| names.insert(tree.clone(), new));
                let history = History { unique: *unique, ..History::default() };
                self.trees.insert(self.next_tree, history);
                self.next_tree += 1;
                self.finish_step();
            }
            Op::Drop(tree) => {
                self.tree(tree)?;
                self.name_tree(|names, _| names.remove(tree));
                self.finish_step();
            }
            Op::Rename(from, to) => {
                let number = self.tree(from)?;
                self.absent(to)?;
                self.name_tree(|names, _| {
                    names.remove(from);
                    names.insert(to.clone(), number)
                });
                self.finish_step();
            }
            Op::Clone(from, to) => {
                let number = self.tree(from)?;
                self.absent(to)?;
                let step = self.step() + 1;
                let unique = self.trees[&number].unique;
                let mut copy = History { unique, ..History::default() };
                for (key, value) in self.trees[&number].rows_at(u64::MAX) {
                    copy.put(key.clone(), step, Some(value.clone()));
                }
                self.name_tree(|names, new| names.insert(to.clone(), new));
                self.trees.insert(self.next_tree, copy);
                self.next_tree += 1;
                self.finish_step();
            }
            Op::Commit(_, writes) => {
                self.commit(writes)?;
                self.finish_step();
            }
            Op::Bulk { tree, unique, value, keys } => {
                self.absent(tree)?;
                self.load(tree, *unique, (*value, keys))?;
            }
            Op::Fill { tree, value, keys } => {
                let old = &self.trees[&self.tree(tree)?];
                if old.rows_at(u64::MAX).next().is_some() {
                    return Err(Refusal::NotEmpty);
                }
                // A new tree takes its place.
                self.load(tree, old.unique, (*value, keys))?;
            }
            Op::Snapshot(name) => {
                if self.snapshots().contains_key(name) {
                    return Err(Refusal::SnapshotExists);
                }
                let step = self.step();
                self.name_snapshot(|names| names.insert(name.clone(), step));
                self.finish_step();
            }
            Op::Unsnapshot(name) => {
                if !self.snapshots().contains_key(name) {
                    return Err(Refusal::NoSuchSnapshot);
                }
                self.name_snapshot(|names| names.remove(name));
                self.finish_step();
            }
            Op::Get(..) | Op::Scan { .. } | Op::ReadSnapshot(_) => return self.read(op),
            _ => {}
        }
        Ok(Answer::Done)
    }

    fn read(&self, op: &Op) -> Result<Answer, Refusal> {
        match op {
            Op::Get(tree, key) => {
                let tree = &self.trees[&self.tree(tree)?];
                Ok(Answer::Value(tree.at(&key.bytes(), u64::MAX).map(|value| value.to_vec())))
            }
            Op::Scan { tree, from, to, limit, reverse } => {
                let tree = &self.trees[&self.tree(tree)?];
                let (from, to) = (from.bytes(), to.bytes());
                let rows = tree.rows_at(u64::MAX);
                let rows = rows.filter(|(key, _)| **key >= from && **key < to);
                let rows = rows.map(|(key, value)| (key.clone(), value.to_vec()));
                let limit = *limit as usize;
                let rows = if *reverse {
                    rows.rev().take(limit).collect()
                } else {
                    rows.take(limit).collect()
                };
                Ok(Answer::Rows(rows))
            }
            Op::ReadSnapshot(name) => {
                let step = self.snapshots().get(name).ok_or(Refusal::NoSuchSnapshot)?;
                Ok(Answer::All(self.read_named_at(*step)))
            }
            _ => Ok(Answer::Done),
        }
    }

    fn load(&mut self, tree: &str, unique: bool, rows: (Value, &[Key])) -> Result<(), Refusal> {
        let (step, (value, keys)) = (self.step() + 1, rows);
        let mut loaded = History { unique, ..History::default() };
        for (row, key) in keys.iter().enumerate() {
            let key = key.bytes();
            if unique && loaded.rows.contains_key(&key) {
                return Err(Refusal::KeyExists);
            }
            loaded.put(key, step, Some(value.of_row(row).bytes().into()));
        }
        self.name_tree(|names, new| names.insert(tree.to_owned(), new));
        self.trees.insert(self.next_tree, loaded);
        self.next_tree += 1;
        self.finish_step();
        Ok(())
    }

    fn commit(&mut self, writes: &[Write]) -> Result<(), Refusal> {
        for write in writes {
            // As the batch is made: in order.
            let tree = self.tree(write.tree())?;
            if matches!(write, Write::Insert(..)) && !self.trees[&tree].unique {
                return Err(Refusal::BadCall);
            }
        }
        for (number, write) in writes.iter().enumerate() {
            if let Write::Insert(tree, key, _) = write {
                let key = key.bytes();
                // The batch's own last change of the key before the insert.
                let before = writes[..number].iter().rev().filter(|one| one.tree() == tree);
                let by_batch = before.filter_map(|one| one.leaves_row(&key)).next();
                let in_store = || Ok(self.trees[&self.tree(tree)?].at(&key, u64::MAX).is_some());
                if by_batch.map_or_else(in_store, Ok)? {
                    return Err(Refusal::KeyExists);
                }
            }
        }
        for write in writes {
            self.write(write)?;
        }
        Ok(())
    }

    fn write(&mut self, write: &Write) -> Result<(), Refusal> {
        let step = self.step() + 1;
        let number = self.tree(write.tree())?;
        let tree = self.history(number);
        if let Some(key) = write.key() {
            let key = key.bytes();
            let base = tree.at(&key, u64::MAX).cloned();
            tree.put(key, step, effect(write, base.as_deref()).map(Into::into));
        } else if let Write::Range(_, from, to) = write {
            let (from, to) = (from.bytes(), to.bytes());
            if from < to {
                let keys: Vec<_> =
                    tree.rows.range(from.clone()..to.clone()).map(|(key, _)| key.clone()).collect();
                keys.into_iter().for_each(|key| tree.put(key, step, None));
                tree.ranges.push((step, from, to));
            }
        }
        Ok(())
    }

    /// Sets rows of trees, given by number, for the next step.
    fn set_rows(&mut self, rows: impl Iterator<Item = (TreeNumber, Vec<u8>, Option<Vec<u8>>)>) {
        let step = self.step() + 1;
        for (tree, key, value) in rows {
            self.history(tree).put(key, step, value.map(Into::into));
        }
    }

    fn tree(&self, name: &str) -> Result<TreeNumber, Refusal> {
        self.names().get(name).copied().ok_or(Refusal::NoSuchTree)
    }

    fn absent(&self, name: &str) -> Result<(), Refusal> {
        if self.names().contains_key(name) { Err(Refusal::TreeExists) } else { Ok(()) }
    }

    fn history(&mut self, number: TreeNumber) -> &mut History {
        self.trees.entry(number).or_default()
    }

    fn name_tree<T>(
        &mut self,
        change: impl FnOnce(&mut BTreeMap<String, TreeNumber>, TreeNumber) -> T,
    ) {
        let mut names = self.names().clone();
        change(Arc::make_mut(&mut names), self.next_tree);
        self.names.push((self.step() + 1, names));
    }

    fn name_snapshot<T>(&mut self, change: impl FnOnce(&mut BTreeMap<String, u64>) -> T) {
        let mut names = self.snapshots().clone();
        change(Arc::make_mut(&mut names));
        self.snapshots.push((self.step() + 1, names));
    }

    fn finish_step(&mut self) {
        let names = self.names_at(u64::MAX).iter();
        let trees = names.map(|(name, number)| tree_digest(name, self.trees[number].digest));
        let snapshots = self.snapshots().keys().map(|name| snapshot_digest(name));
        let in_doubt = self.in_doubt().keys().map(|number| in_doubt_digest(*number));
        let digest = trees.chain(snapshots).chain(in_doubt).fold(0, u64::wrapping_add);
        self.digests.push(digest);
    }
}

/// The value of a row after a write.
fn effect(write: &Write, base: Option<&[u8]>) -> Option<Vec<u8>> {
    let merge = |operator, operand: Vec<u8>| Some(operators::merge(operator, base, &operand));
    match write {
        Write::Put(_, _, value) | Write::Insert(_, _, value) => Some(value.bytes()),
        Write::Delete(..) | Write::Range(..) => None,
        Write::Add(_, _, number) => merge(operators::ADD, number.to_be_bytes().to_vec()),
        Write::Max(_, _, value) => merge(operators::MAX, value.bytes()),
        Write::Min(_, _, value) => merge(operators::MIN, value.bytes()),
        Write::Append(_, _, value) => merge(operators::APPEND, value.bytes()),
    }
}

fn at_step<T>(history: &[(u64, T)], step: u64) -> &T {
    let found = history.iter().rev().find(|(at, _)| *at <= step);
    &found.expect("a model's histories begin at step 0").1
}

/// Describes the first differences; empty if there are none.
pub fn difference(expected: &Everything, found: &Everything) -> String {
    let mut lines = dump_difference("", &expected.trees, &found.trees);
    let names = expected.snapshots.keys().chain(found.snapshots.keys());
    for name in names.collect::<BTreeSet<_>>() {
        match (expected.snapshots.get(name), found.snapshots.get(name)) {
            (Some(expected), Some(found)) => {
                lines.extend(dump_difference(&format!("snapshot {name}: "), expected, found));
            }
            (Some(_), None) => lines.push(format!("snapshot {name} is missing")),
            _ => lines.push(format!("snapshot {name} should not be there")),
        }
    }
    lines.truncate(12);
    if expected.in_doubt != found.in_doubt {
        let (expected, found) = (&expected.in_doubt, &found.in_doubt);
        lines.push(format!("prepared are {found:?}, and should be {expected:?}"));
    }
    lines.join("\n")
}

/// Describes the first differences between two sets of trees.
pub fn dump_difference(prefix: &str, expected: &Dump, found: &Dump) -> Vec<String> {
    let mut lines = Vec::new();
    let names = expected.keys().chain(found.keys());
    for name in names.collect::<BTreeSet<_>>() {
        let (Some(want), Some(have)) = (expected.get(name), found.get(name)) else {
            let what =
                if expected.contains_key(name) { "is missing" } else { "should not be there" };
            lines.push(format!("{prefix}tree {name} {what}"));
            continue;
        };
        if !have.windows(2).all(|pair| pair[0].0 < pair[1].0) {
            lines.push(format!("{prefix}tree {name}: keys do not ascend"));
        }
        let want: BTreeMap<_, _> = want.iter().map(|(k, v)| (k, v)).collect();
        let have: BTreeMap<_, _> = have.iter().map(|(k, v)| (k, v)).collect();
        for (key, value) in &want {
            match have.get(key) {
                None => lines.push(format!("{prefix}{name}/{}: missing", show(key))),
                Some(other) if other != value => lines.push(format!(
                    "{prefix}{name}/{}: expected {}, found {}",
                    show(key),
                    show(value),
                    show(other)
                )),
                _ => {}
            }
        }
        let surplus = have.keys().filter(|key| !want.contains_key(*key));
        lines.extend(
            surplus.map(|key| format!("{prefix}{name}/{}: should not be there", show(key))),
        );
    }
    lines
}

#[cfg(test)]
mod tests;
