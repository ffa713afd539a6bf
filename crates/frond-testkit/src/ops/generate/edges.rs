//! Scripts that wear trees down. Rows are appended, so that nodes on the right edge have a single
//! child just after a split. Whole stretches of rows are deleted, one by one and by ranges, at the
//! right edge, at the left one and in between, and are inserted again. Deletes get to the leaves in
//! every possible way: applied, rebalanced, drained by an idle store.

use super::super::{Key, Op, Value, Write};
use crate::Dice;

/// The tree that is worn down.
const TREE: &str = "t0";
/// Numbers of keys stay below this, so that keys are ordered by number.
const NUMBER_MAX: u32 = 9_000;

/// What a script may contain besides commits, draining and checkpoints.
#[derive(Clone, Copy, Debug)]
pub struct Wear {
    /// Number of operations in the script.
    pub length: usize,
    /// Maximum number of rows that one commit appends.
    pub rows_max: u32,
    /// Whether it has restarts of all kinds, clones and snapshots.
    pub restarts: bool,
}

/// A script by seed.
pub fn worn_edges(seed: u64, wear: &Wear) -> Vec<Op> {
    let mut edges =
        Edges { dice: Dice::new(seed ^ 0xed6e5), wear: *wear, end: 0, stretch: 40, values: 0 };
    let mut script = vec![Op::Create { tree: TREE.into(), unique: edges.dice.chance(1, 3) }];
    script.push(edges.append());
    while script.len() < wear.length {
        let op = edges.op();
        script.push(op);
    }
    script
}

struct Edges {
    dice: Dice,
    wear: Wear,
    /// The first number above all rows.
    end: u32,
    /// Approximate number of rows of the current stretches: some scripts wear leaves down, others
    /// whole subtrees.
    stretch: u32,
    values: u32,
}

impl Edges {
    fn op(&mut self) -> Op {
        match self.dice.below(if self.wear.restarts { 40 } else { 34 }) {
            0..8 => self.append(),
            8..14 => self.delete_tail(),
            14..17 => self.delete_between(),
            17 => self.delete_head(),
            18..20 => self.refill(),
            20..23 => Op::Drain(1),
            23..27 => Op::Drain(*self.dice.pick(&[2, 5, 200])),
            27..30 => Op::Checkpoint,
            30..32 => Op::Step(self.dice.between(1, 20) as u32),
            32 => Op::Advance(*self.dice.pick(&[150, 600, 1600])),
            33 => {
                self.stretch = *self.dice.pick(&[3, 15, 40, 120, 400]);
                self.append()
            }
            34 => Op::Reopen,
            35..37 => Op::Crash(self.dice.below(1 << 32)),
            37 => Op::Kill,
            38 => Op::Clone(TREE.into(), format!("t{}", self.dice.between(1, 3))),
            _ => Op::Snapshot(format!("s{}", self.dice.below(3))),
        }
    }

    fn value(&mut self) -> Value {
        self.values += 1;
        Value { seed: self.values, bytes: self.dice.between(4, 40) as u32 }
    }

    fn put(&mut self, number: u32) -> Write {
        let value = self.value();
        Write::Put(TREE.into(), Key::plain(number), value)
    }

    fn commit(&mut self, writes: Vec<Write>) -> Op {
        if writes.is_empty() { Op::Drain(1) } else { Op::Commit(None, writes) }
    }

    fn some_rows(&mut self) -> u32 {
        let most = self.stretch.min(self.wear.rows_max).max(1);
        self.dice.between(1, u64::from(most)) as u32
    }

    fn append(&mut self) -> Op {
        let end = (self.end + self.some_rows()).min(NUMBER_MAX);
        let writes = (self.end..end).map(|number| self.put(number)).collect();
        self.end = end;
        self.commit(writes)
    }

    /// Deletes the rows of a stretch one by one or as a range; now and then one in a dozen stays.
    fn delete(&mut self, from: u32, to: u32) -> Op {
        if from >= to {
            return Op::Drain(1);
        }
        if self.dice.chance(1, 3) {
            let range = Write::Range(TREE.into(), Key::plain(from), Key::plain(to));
            return self.commit(vec![range]);
        }
        let spares = self.dice.chance(1, 4);
        let numbers = (from..to).filter(|number| !spares || number % 12 > 0);
        let writes = numbers.map(|number| Write::Delete(TREE.into(), Key::plain(number)));
        Op::Commit(None, writes.collect())
    }

    fn delete_tail(&mut self) -> Op {
        let rows = match self.dice.below(20) {
            0 => self.end,
            _ => (2 * self.some_rows()).min(self.end),
        };
        let from = self.end - rows;
        let op = self.delete(from, self.end);
        // Appended rows continue where the deleted ones were, or after them.
        if self.dice.chance(1, 2) {
            self.end = from;
        }
        op
    }

    fn delete_between(&mut self) -> Op {
        let from = self.dice.below(u64::from(self.end)) as u32;
        let to = from + 3 * self.some_rows();
        self.delete(from, to.min(self.end))
    }

    fn delete_head(&mut self) -> Op {
        let to = (4 * self.some_rows()).min(self.end);
        self.delete(0, to)
    }

    fn refill(&mut self) -> Op {
        let from = self.dice.below(u64::from(self.end)) as u32;
        let to = (from + self.some_rows()).min(self.end);
        let writes = (from..to).map(|number| self.put(number)).collect();
        self.commit(writes)
    }
}
