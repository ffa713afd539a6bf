//! Frond as a target: keyspaces are trees, one batch is a commit, memory and durability are its only
//! settings.
//!
//! Threads: handles are shared; a batch belongs to its session.

mod txn;

use std::ops::Bound;

use frond::{Batch, ColumnOf, ColumnUse, Db, Options, Tree, TreeColumns, TreeOptions};

use super::{
    Clients, Counter, Direction, Durability, Failure, HeldSnapshot, Result, Session, Setup, Target,
    Transactions, Visit,
};
use crate::layout;
use crate::results::PartSize;
use crate::schema::{Keyspace, Table};

/// Statistics that are states now; the others grow.
const STATES: [&str; 10] = [
    "memtable_active_bytes",
    "memtables_frozen",
    "runs_unwritten_bytes",
    "frames_used",
    "frames_limit",
    "memory_mapped_bytes",
    "memory_taken_bytes",
    "trees",
    "seqno_visible",
    "seqno_applied",
];

impl From<frond::Error> for Failure {
    fn from(error: frond::Error) -> Self {
        Self(format!("frond: {error}"))
    }
}

/// Leaves of a tree that are read to say what its columns take: 16 MiB.
const LEAVES_READ: u64 = 32;

fn class(durability: Durability) -> frond::Durability {
    match durability {
        Durability::Sync => frond::Durability::Sync,
        Durability::Os => frond::Durability::Os,
        Durability::Lazy => frond::Durability::Lazy,
    }
}

/// Frond under test.
pub struct Frond {
    db: Db,
    table: Table,
    trees: Vec<Tree>,
    settings: Vec<(String, String)>,
}

impl Frond {
    /// Opens a fresh store.
    pub fn open(setup: &Setup) -> Result<Self> {
        let durability = class(setup.durability);
        let options = Options::new().cache_size(setup.memory.0).durability(durability);
        let db = Db::open(&setup.dir, options)?;
        let names = setup.table.keyspaces();
        let create = |(keyspace, name): (Keyspace, &String)| {
            let options = TreeOptions {
                unique: keyspace == 0 && setup.unique,
                key_layout: Some(layout::key(&setup.table, keyspace)),
                value_layout: layout::value(&setup.table, keyspace),
                ..TreeOptions::default()
            };
            Ok(db.create_tree(name, options)?)
        };
        let trees = names.iter().enumerate().map(create).collect::<Result<Vec<Tree>>>()?;
        let settings = vec![
            ("cache_size".to_owned(), setup.memory.0.to_string()),
            ("durability".to_owned(), format!("{durability:?}").to_lowercase()),
            ("size_class".to_owned(), "default".to_owned()),
        ];
        Ok(Self { db, table: setup.table.clone(), trees, settings })
    }
}

impl Target for Frond {
    fn version(&self) -> String {
        format!("Frond {}", env!("CARGO_PKG_VERSION"))
    }

    fn settings(&self) -> Vec<(String, String)> {
        self.settings.clone()
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(FrondSession { target: self, batch: Batch::new() }))
    }

    fn transactions(&self, clients: Clients) -> Result<Box<dyn Transactions + '_>> {
        let durability = class(clients.durability);
        Ok(Box::new(txn::FrondTransactions::new(&self.db, &self.trees[0], durability)))
    }

    fn hold_snapshot(&self) -> Result<Box<dyn HeldSnapshot + '_>> {
        Ok(Box::new(txn::Held { snapshot: self.db.snapshot(), tree: &self.trees[0] }))
    }

    fn settle(&self) -> Result<()> {
        Ok(self.db.checkpoint()?)
    }

    fn counters(&self) -> Vec<Counter> {
        counters(self.db.stats().iter().map(|(name, value)| (name.to_owned(), value)))
    }

    fn parts(&self) -> Result<Vec<PartSize>> {
        let mut parts = Vec::new();
        for (keyspace, tree) in self.trees.iter().enumerate() {
            let shape = self.db.inspect(&tree.name())?;
            let leaves = shape.levels.last().map_or(0, |leaves| leaves.nodes);
            let columns = self.db.columns(&tree.name(), leaves.div_ceil(LEAVES_READ))?;
            parts.extend(parts_of(&self.table, keyspace, &columns));
        }
        Ok(parts)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.db.close()?)
    }
}

/// Statistics as counters: states are named as such, and all syncs are one number.
pub(super) fn counters(stats: impl IntoIterator<Item = (String, u64)>) -> Vec<Counter> {
    let mut syncs = 0;
    let named = stats.into_iter().map(|(name, value)| {
        syncs += if ["log_syncs", "store_syncs"].contains(&name.as_str()) { value } else { 0 };
        let is_state = STATES.contains(&name.as_str()) || name.starts_with("space_");
        (if is_state { format!("{name}_now") } else { name }, value as f64)
    });
    let mut all: Vec<Counter> = named.collect();
    all.push(("syncs".to_owned(), syncs as f64));
    all
}

/// What was found of a keyspace's columns, a row.
fn parts_of(table: &Table, keyspace: Keyspace, found: &TreeColumns) -> Vec<PartSize> {
    let name = match keyspace.checked_sub(1).and_then(|index| table.indexes.get(index)) {
        Some(index) => index.name,
        None => table.name,
    };
    let (keys, values) = (layout::key_columns(table, keyspace), layout::value_columns(table));
    let part_of = |of: ColumnOf| match of {
        ColumnOf::Key(part) => keys.get(usize::from(part)).copied().unwrap_or("key"),
        ColumnOf::Value(part) => values.get(usize::from(part)).copied().unwrap_or("value"),
        ColumnOf::Tags => "(kinds of messages)",
        ColumnOf::WholeKey => "(other keys)",
        ColumnOf::Others => "(other payloads)",
    };
    let rows = found.rows.max(1) as f64;
    let size = |part: &str, column: &ColumnUse| PartSize {
        keyspace: name.to_owned(),
        part: part.to_owned(),
        raw_b_row: column.row_bytes as f64 / rows,
        b_row: column.bytes as f64 / rows,
        encoding: encoding(column),
    };
    let mut parts: Vec<PartSize> =
        found.columns.iter().map(|(&of, column)| size(part_of(of), column)).collect();
    parts.extend((found.opaque.bytes > 0).then(|| size("(whole rows)", &found.opaque)));
    let in_parts: u64 =
        found.columns.values().map(|column| column.bytes).sum::<u64>() + found.opaque.bytes;
    let rest = ColumnUse { bytes: found.bytes.saturating_sub(in_parts), ..ColumnUse::default() };
    parts.push(size("(models, headers, index)", &rest));
    parts
}

/// The form that most blocks have, and how many others there are.
fn encoding(column: &ColumnUse) -> String {
    let most = column.encodings.iter().max_by_key(|(_, blocks)| **blocks);
    match (most, column.encodings.len()) {
        (None, _) => String::new(),
        (Some((name, _)), 1) => (*name).to_owned(),
        (Some((name, _)), 2) => format!("{name} and another"),
        (Some((name, _)), forms) => format!("{name} and {} others", forms - 1),
    }
}

struct FrondSession<'a> {
    target: &'a Frond,
    batch: Batch,
}

impl Session for FrondSession<'_> {
    fn put(&mut self, keyspace: Keyspace, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.batch.put(&self.target.trees[keyspace], key, value)?)
    }

    fn delete(&mut self, keyspace: Keyspace, key: &[u8]) -> Result<()> {
        Ok(self.batch.delete(&self.target.trees[keyspace], key)?)
    }

    fn commit(&mut self) -> Result<()> {
        self.target.db.commit(&mut self.batch)?;
        Ok(())
    }

    fn get(&mut self, keyspace: Keyspace, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        Ok(self.target.trees[keyspace].get_into(key, value)?)
    }

    fn scan(
        &mut self,
        keyspace: Keyspace,
        from: Option<&[u8]>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<()> {
        let tree = &self.target.trees[keyspace];
        let bound = from.map_or(Bound::Unbounded, Bound::Included);
        match direction {
            Direction::Forward => {
                let mut cursor = tree.scan((bound, Bound::Unbounded))?;
                while let Some((key, value)) = cursor.next()? {
                    if !visit(key, value) {
                        break;
                    }
                }
            }
            Direction::Reverse => {
                let mut cursor = tree.scan((Bound::Unbounded, bound))?;
                cursor.seek_last();
                while let Some((key, value)) = cursor.prev()? {
                    if !visit(key, value) {
                        break;
                    }
                }
            }
        }
        Ok(())
    }
}
