//! Seeded scripts. A [`Swarm`] says which operations a script may contain and how likely each is.
//! Each seed of a campaign draws its own swarm, so that some runs have no deletes and grow, some
//! have nothing but catalog changes, some no restarts (docs/safety.md §4.2).

use std::collections::{BTreeMap, BTreeSet};

use frond::Durability;

mod edges;
mod txns;

pub use edges::{Wear, worn_edges};

use super::{Key, Op, Value, Write};
use crate::Dice;

/// Which operations a script may contain, and how often: weights, 0 = never.
#[derive(Clone, Debug)]
pub struct Swarm {
    /// Number of operations in the script.
    pub length: usize,
    /// Numbers of keys are below this.
    pub keys: u32,
    /// Names of trees are below this.
    pub trees: u32,
    /// Maximum bytes of a value.
    pub value_bytes_max: u32,
    /// One value in this many (first number) has up to this many bytes (second); `(0, 0)`: none.
    pub large_values: (u32, u32),
    /// One key in this many has a tail of up to 600 bytes; 0: none.
    pub long_keys: u32,
    /// Maximum number of entries of a batch.
    pub batch_entries_max: u32,
    /// Entries: put, insert, delete, merges, range delete.
    pub writes: [u32; 5],
    /// Batches.
    pub commit: u32,
    /// Bulk loads.
    pub bulk: u32,
    /// Bulk loads into existing trees, half of which were emptied just before.
    pub fill: u32,
    /// Create, drop, rename.
    pub catalog: u32,
    /// Clones.
    pub clone: u32,
    /// Gets and scans.
    pub read: u32,
    /// Named snapshots.
    pub named: u32,
    /// Held snapshots.
    pub held: u32,
    /// Checkpoints.
    pub checkpoint: u32,
    /// Background steps.
    pub step: u32,
    /// Time passing.
    pub advance: u32,
    /// Clean restarts.
    pub reopen: u32,
    /// Crashes and kills.
    pub crash: u32,
    /// Whether some commits have a level of their own.
    pub levels: bool,
    /// Calls of transactions.
    pub txn: u32,
    /// Decisions of prepared transactions by number. If 0, nothing is prepared.
    pub decide: u32,
    /// Among calls of transactions, those that a handler of a server makes: rows with indexes,
    /// reads of many rows, reads of rows that are not wanted, and ordered commits.
    pub rows: u32,
    /// Steps of draining buffers, which only an idle store does.
    pub drain: u32,
}

impl Swarm {
    /// All kinds of operations.
    pub fn everything(length: usize) -> Self {
        Self {
            length,
            keys: 40,
            trees: 3,
            value_bytes_max: 60,
            large_values: (0, 0),
            long_keys: 12,
            batch_entries_max: 6,
            writes: [10, 3, 4, 4, 1],
            commit: 40,
            bulk: 1,
            fill: 0,
            catalog: 3,
            clone: 1,
            read: 12,
            named: 3,
            held: 3,
            checkpoint: 2,
            step: 6,
            advance: 3,
            reopen: 1,
            crash: 1,
            levels: true,
            txn: 0,
            decide: 0,
            rows: 0,
            drain: 0,
        }
    }

    /// Only what a plain ordered store has: one catalog of trees, puts, deletes, scans, restarts.
    pub fn plain(length: usize) -> Self {
        let mut swarm = Self::everything(length);
        swarm.writes = [10, 0, 4, 0, 0];
        (swarm.bulk, swarm.clone, swarm.named, swarm.held) = (0, 0, 0, 0);
        swarm
    }

    /// Mostly transactions, which often conflict with each other and with batches.
    pub fn with_transactions(mut self, seed: u64) -> Self {
        let dice = &mut Dice::new(seed ^ 0x7a75);
        (self.txn, self.commit, self.decide) = (160, 20, 16);
        self.keys = self.keys.min(*dice.pick(&[3, 8, 20, 60]));
        self.trees = self.trees.min(*dice.pick(&[1, 2, 3]));
        self.rows = *dice.pick(&[0, 0, 8, 25]);
        self
    }

    /// Without restarts of any kind: for campaigns that crash from outside.
    pub fn without_restarts(mut self) -> Self {
        (self.reopen, self.crash) = (0, 0);
        self
    }

    /// Switches features off, and sizes up and down, at random.
    pub fn random(seed: u64, length: usize) -> Self {
        let mut swarm = Self::everything(length);
        let dice = &mut Dice::new(seed ^ 0x5a5a);
        let weights = [
            &mut swarm.bulk,
            &mut swarm.catalog,
            &mut swarm.clone,
            &mut swarm.read,
            &mut swarm.named,
            &mut swarm.held,
            &mut swarm.checkpoint,
            &mut swarm.step,
            &mut swarm.advance,
            &mut swarm.reopen,
            &mut swarm.crash,
        ];
        for weight in weights {
            match dice.below(4) {
                0 => *weight = 0,
                1 => *weight *= 4,
                _ => {}
            }
        }
        for weight in &mut swarm.writes[1..] {
            match dice.below(4) {
                0 => *weight = 0,
                1 => *weight *= 3,
                _ => {}
            }
        }
        swarm.keys = *dice.pick(&[4, 12, 40, 200, 1000]);
        swarm.trees = *dice.pick(&[1, 2, 3, 6]);
        swarm.value_bytes_max = *dice.pick(&[0, 10, 60, 300, 3000]);
        swarm.batch_entries_max = *dice.pick(&[1, 3, 10, 60]);
        swarm.long_keys = *dice.pick(&[0, 0, 12, 3]);
        swarm.large_values = *dice.pick(&[(0, 0), (0, 0), (20, 9000), (30, 70_000)]);
        swarm.levels = dice.chance(1, 2);
        swarm
    }
}

/// Maximum number of prepared transactions at a time: their rows block the others.
const XIDS: u64 = 4;

/// A script by seed. Most of it is valid when run from an empty store; some operations use what
/// does not exist, because refusals must be right as well.
pub fn generate(seed: u64, swarm: &Swarm) -> Vec<Op> {
    let mut generator = Generator {
        dice: Dice::new(seed),
        swarm,
        trees: BTreeMap::new(),
        snapshots: BTreeSet::new(),
        held: BTreeSet::new(),
        open: BTreeSet::new(),
        prepared: BTreeMap::new(),
        emptied: None,
        value_seed: 0,
    };
    let mut script = vec![generator.create_some()];
    while script.len() < swarm.length {
        let op = generator.op();
        script.push(op);
    }
    script
}

struct Generator<'a> {
    dice: Dice,
    swarm: &'a Swarm,
    trees: BTreeMap<String, bool>,
    snapshots: BTreeSet<String>,
    held: BTreeSet<u8>,
    /// Slots of transactions that have begun.
    open: BTreeSet<u8>,
    /// Numbers of prepared transactions, and the slot that each is attached to.
    prepared: BTreeMap<u8, Option<u8>>,
    /// A tree that was emptied to be filled.
    emptied: Option<String>,
    value_seed: u32,
}

impl Generator<'_> {
    fn op(&mut self) -> Op {
        let swarm = self.swarm;
        let weights = [
            swarm.commit,
            swarm.bulk,
            swarm.catalog,
            swarm.clone,
            swarm.read,
            swarm.named,
            swarm.held,
            swarm.checkpoint,
            swarm.step,
            swarm.advance,
            swarm.reopen,
            swarm.crash,
            swarm.txn,
            swarm.decide,
            swarm.fill,
            swarm.drain,
        ];
        match self.weighted(&weights) {
            0 => self.commit(),
            1 => self.bulk(),
            2 => self.catalog(),
            3 => {
                let (from, to) = (self.tree(), self.any_tree_name());
                if self.trees.contains_key(&from) {
                    let unique = self.trees[&from];
                    self.trees.entry(to.clone()).or_insert(unique);
                }
                Op::Clone(from, to)
            }
            4 => self.read(),
            5 => self.named(),
            6 => self.held(),
            7 => Op::Checkpoint,
            8 => Op::Step(self.dice.between(1, 20) as u32),
            9 => Op::Advance(*self.dice.pick(&[20, 150, 600, 1100, 2500])),
            10 => {
                self.forget_open();
                Op::Reopen
            }
            12 => self.txn(),
            13 => self.decide(),
            14 => self.fill(),
            15 => Op::Drain(*self.dice.pick(&[1, 2, 5, 100])),
            _ => {
                self.forget_open();
                if self.dice.chance(1, 4) { Op::Kill } else { Op::Crash(self.dice.below(1 << 32)) }
            }
        }
    }

    /// Forgets what a restart ends.
    fn forget_open(&mut self) {
        self.held.clear();
        self.open.clear();
        self.prepared.values_mut().for_each(|hand| *hand = None);
    }

    fn weighted(&mut self, weights: &[u32]) -> usize {
        let total: u32 = weights.iter().sum();
        let mut left = self.dice.below(u64::from(total)) as u32;
        for (index, &weight) in weights.iter().enumerate() {
            if left < weight {
                return index;
            }
            left -= weight;
        }
        0
    }

    fn any_tree_name(&mut self) -> String {
        format!("t{}", self.dice.below(u64::from(self.swarm.trees)))
    }

    /// Usually a tree that exists.
    fn tree(&mut self) -> String {
        let names: Vec<String> = self.trees.keys().cloned().collect();
        if names.is_empty() || self.dice.chance(1, 50) {
            self.any_tree_name()
        } else {
            self.dice.pick(&names).clone()
        }
    }

    fn create_some(&mut self) -> Op {
        let tree = self.any_tree_name();
        let unique = self.dice.chance(1, 3);
        self.trees.entry(tree.clone()).or_insert(unique);
        Op::Create { tree, unique }
    }

    fn catalog(&mut self) -> Op {
        match self.dice.below(5) {
            0 if self.trees.len() > 1 => {
                let tree = self.tree();
                self.trees.remove(&tree);
                Op::Drop(tree)
            }
            1 => {
                let (from, to) = (self.tree(), self.any_tree_name());
                if !self.trees.contains_key(&to)
                    && let Some(unique) = self.trees.remove(&from)
                {
                    self.trees.insert(to.clone(), unique);
                }
                Op::Rename(from, to)
            }
            _ => self.create_some(),
        }
    }

    fn key_of(&mut self, class: u8) -> Key {
        let number = self.dice.below(u64::from(self.swarm.keys)) as u32;
        let long = self.swarm.long_keys;
        // The tail follows from the number, so that the key comes again.
        let tail = match number.checked_rem(long) {
            // Longer than what the root directory stores of a key.
            Some(1) if class == b'z' => 4000 + number * 37 % 560,
            Some(1) => 40 + number * 37 % 560,
            _ => 0,
        };
        Key { class, number, tail }
    }

    fn any_key(&mut self) -> Key {
        let class = *self.dice.pick(b"kkkkkkkkkkkkaaaxxxnnnpppz");
        self.key_of(class)
    }

    fn value(&mut self) -> Value {
        self.value_seed += 1;
        let (one_in, bytes_max) = self.swarm.large_values;
        let large = one_in > 0 && self.dice.chance(1, u64::from(one_in));
        let bytes_max = if large { bytes_max } else { self.swarm.value_bytes_max };
        Value { seed: self.value_seed, bytes: self.dice.between(0, u64::from(bytes_max)) as u32 }
    }

    fn level(&mut self) -> Option<Durability> {
        if self.swarm.levels && self.dice.chance(1, 4) {
            Some(*self.dice.pick(&[Durability::Sync, Durability::Os, Durability::Lazy]))
        } else {
            None
        }
    }

    fn commit(&mut self) -> Op {
        let level = self.level();
        let count = self.dice.between(1, u64::from(self.swarm.batch_entries_max.max(1)));
        let mut writes: Vec<Write> = Vec::new();
        // In one batch out of four, an insert may come before and after other changes of its key.
        // In the others, a key that an insert names is named only by it, so that most commits pass.
        let mixes = self.value_seed.is_multiple_of(4);
        let mut touched: BTreeSet<(String, Key)> = BTreeSet::new();
        let mut ranged: BTreeSet<String> = BTreeSet::new();
        let mut inserted: BTreeSet<(String, Key)> = BTreeSet::new();
        for _ in 0..count {
            let write = self.write();
            if mixes {
                writes.push(write);
                continue;
            }
            let tree = write.tree().to_owned();
            let Some(key) = write.key() else {
                if inserted.iter().any(|(name, _)| *name == tree) {
                    continue;
                }
                ranged.insert(tree);
                writes.push(write);
                continue;
            };
            let place = (tree.clone(), key);
            if inserted.contains(&place) {
                continue;
            }
            if matches!(write, Write::Insert(..)) {
                if touched.contains(&place) || ranged.contains(&tree) {
                    continue;
                }
                inserted.insert(place.clone());
            }
            touched.insert(place);
            writes.push(write);
        }
        Op::Commit(level, writes)
    }

    fn write(&mut self) -> Write {
        let tree = self.tree();
        match self.weighted(&self.swarm.writes) {
            0 => {
                let class = *self.dice.pick(b"kkkxnp");
                Write::Put(tree, self.key_of(class), self.value())
            }
            1 => {
                let unique = self.trees.iter().find(|(_, unique)| **unique);
                let tree = match unique {
                    Some((name, _)) if self.dice.chance(19, 20) => name.clone(),
                    _ => tree,
                };
                Write::Insert(tree, self.key_of(b'k'), self.value())
            }
            2 => Write::Delete(tree, self.any_key()),
            3 => match self.dice.below(4) {
                0 => Write::Add(tree, self.key_of(b'a'), self.dice.below(2000) as i64 - 1000),
                1 => Write::Max(tree, self.key_of(b'x'), self.value()),
                2 => Write::Min(tree, self.key_of(b'n'), self.value()),
                _ => {
                    let mut value = self.value();
                    value.bytes = value.bytes.min(12);
                    Write::Append(tree, self.key_of(b'p'), value)
                }
            },
            _ => {
                let (a, b) = (self.any_key(), self.any_key());
                let (from, to) = if a.bytes() <= b.bytes() { (a, b) } else { (b, a) };
                Write::Range(tree, from, to)
            }
        }
    }

    /// Every other call empties the tree that the next one fills.
    fn fill(&mut self) -> Op {
        let Some(tree) = self.emptied.take() else {
            let tree = self.tree();
            self.emptied = Some(tree.clone());
            let last = Key { class: b'z', number: 9999, tail: 9999 };
            let first = Key { class: b'a', number: 0, tail: 0 };
            return Op::Commit(None, vec![Write::Range(tree, first, last)]);
        };
        let (value, unique) = (self.value(), self.trees.get(&tree).is_some_and(|unique| *unique));
        let count = *self.dice.pick(&[1, 5, 40, 300]);
        let keys = self.loaded(unique, count);
        Op::Fill { tree, value, keys }
    }

    fn bulk(&mut self) -> Op {
        let (tree, value) = (self.any_tree_name(), self.value());
        let unique = self.dice.chance(1, 3);
        let count = *self.dice.pick(&[0, 1, 5, 40, 300]);
        let keys = self.loaded(unique, count);
        self.trees.entry(tree.clone()).or_insert(unique);
        Op::Bulk { tree, unique, value, keys }
    }

    /// Keys of a load.
    fn loaded(&mut self, unique: bool, count: u32) -> Vec<Key> {
        let mut keys: Vec<Key> = (0..count).map(|_| self.key_of(b'k')).collect();
        if unique && !self.dice.chance(1, 6) {
            let mut met = BTreeSet::new();
            keys.retain(|key| met.insert(*key));
        }
        match self.dice.below(4) {
            0 => keys.sort_by_key(|key| key.bytes()),
            // In order, except at the end.
            1 => {
                let tail = keys.split_off(keys.len() - keys.len() / 8);
                keys.sort_by_key(|key| key.bytes());
                keys.extend(tail);
            }
            _ => {}
        }
        self.value_seed += count;
        keys
    }

    fn read(&mut self) -> Op {
        let tree = self.tree();
        if self.dice.chance(1, 2) {
            return Op::Get(tree, self.any_key());
        }
        let (from, to) = (self.any_key(), self.any_key());
        let limit = *self.dice.pick(&[1, 3, 10, 1000]);
        Op::Scan { tree, from, to, limit, reverse: self.dice.chance(1, 2) }
    }

    fn named(&mut self) -> Op {
        let name = format!("s{}", self.dice.below(3));
        match self.dice.below(4) {
            0 => {
                self.snapshots.insert(name.clone());
                Op::Snapshot(name)
            }
            1 => {
                self.snapshots.remove(&name);
                Op::Unsnapshot(name)
            }
            _ => match self.snapshots.first() {
                Some(name) => Op::ReadSnapshot(name.clone()),
                None => Op::Snapshot(name),
            },
        }
    }

    fn held(&mut self) -> Op {
        let slot = self.dice.below(3) as u8;
        if !self.held.contains(&slot) {
            self.held.insert(slot);
            return Op::Hold(slot);
        }
        if self.dice.chance(1, 3) {
            self.held.remove(&slot);
            return Op::Release(slot);
        }
        Op::ReadHeld(slot)
    }
}
