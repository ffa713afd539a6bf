//! Frond as a target: keyspaces are trees; memory and durability are the only settings.
//!
//! Threads: handles are shared.

mod connection;

use std::sync::{Mutex, MutexGuard};

use frond::{
    Db, Options, Tree, TreeOptions,
    check::{ColumnOf, ColumnUse, TreeColumns},
};

use super::{Clients, Connection, Counter, Durability, Failure, PartSize, Result, Setup, Target};
use crate::layout;
use crate::schema::{Keyspace, Table};

/// Statistics that are current states; all others are growing counters.
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

/// Number of leaves of a tree that are read to determine what its columns take: 16 MiB.
const LEAVES_READ: u64 = 32;

fn class(durability: Durability) -> frond::Durability {
    match durability {
        Durability::Sync => frond::Durability::Sync,
        Durability::Os => frond::Durability::Os,
        Durability::Lazy => frond::Durability::Lazy,
    }
}

fn lock(trees: &Mutex<Vec<Tree>>) -> MutexGuard<'_, Vec<Tree>> {
    trees.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Frond under test.
pub struct Frond {
    db: Db,
    tables: Vec<Table>,
    /// The tree of each keyspace. A bulk load replaces an empty tree by another one.
    trees: Mutex<Vec<Tree>>,
    settings: Vec<(String, String)>,
}

impl Frond {
    /// Opens a fresh store.
    pub fn open(setup: &Setup) -> Result<Self> {
        let durability = class(setup.durability);
        let options = Options::new().cache_size(setup.memory.0).durability(durability);
        let db = Db::open(&setup.dir, options)?;
        let mut trees = Vec::new();
        for table in &setup.tables {
            for (keyspace, name) in table.keyspaces().iter().enumerate() {
                let options = TreeOptions::new()
                    .unique(keyspace == 0 && setup.unique)
                    .key_layout(layout::key(table, keyspace))
                    .value_layout(layout::value(table, keyspace));
                trees.push(db.create_tree(name, options)?);
            }
        }
        let settings = vec![
            ("cache_size".to_owned(), setup.memory.0.to_string()),
            ("durability".to_owned(), format!("{durability:?}").to_lowercase()),
            ("size_class".to_owned(), "default".to_owned()),
        ];
        Ok(Self { db, tables: setup.tables.clone(), trees: Mutex::new(trees), settings })
    }
}

impl Target for Frond {
    fn version(&self) -> String {
        format!("Frond {}", env!("CARGO_PKG_VERSION"))
    }

    fn settings(&self) -> Vec<(String, String)> {
        self.settings.clone()
    }

    fn connect(&self, clients: Clients) -> Result<Box<dyn Connection + '_>> {
        let durability = clients.durability.map(class);
        Ok(Box::new(connection::FrondConnection::new(&self.db, &self.trees, durability)))
    }

    fn deletes_ranges(&self) -> bool {
        true
    }

    fn bulk_loads(&self) -> bool {
        true
    }

    fn settle(&self) -> Result<()> {
        Ok(self.db.checkpoint()?)
    }

    fn counters(&self) -> Vec<Counter> {
        counters(self.db.stats().iter().map(|(name, value)| (name.to_owned(), value)))
    }

    fn parts(&self) -> Result<Vec<PartSize>> {
        let (mut parts, trees) = (Vec::new(), lock(&self.trees));
        for table in &self.tables {
            for keyspace in 0..=table.indexes.len() {
                let tree = &trees[table.base + keyspace];
                let shape = tree.shape()?;
                let leaves = shape.levels.last().map_or(0, |leaves| leaves.nodes);
                let columns = tree.column_sizes(leaves.div_ceil(LEAVES_READ))?;
                parts.extend(parts_of(table, keyspace, &columns));
            }
        }
        Ok(parts)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.db.close()?)
    }
}

/// Converts statistics to counters: the names of states are marked as such, and all syncs are
/// summed.
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

/// Converts the statistics of a keyspace's columns into sizes per row.
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
    parts.extend((found.row_blocks.bytes > 0).then(|| size("(whole rows)", &found.row_blocks)));
    let in_parts: u64 =
        found.columns.values().map(|column| column.bytes).sum::<u64>() + found.row_blocks.bytes;
    let rest = ColumnUse { bytes: found.bytes.saturating_sub(in_parts), ..ColumnUse::default() };
    parts.push(size("(models, headers, index)", &rest));
    parts
}

/// Returns the encoding of most blocks, and how many other encodings there are.
fn encoding(column: &ColumnUse) -> String {
    let most = column.encodings.iter().max_by_key(|(_, blocks)| **blocks);
    match (most, column.encodings.len()) {
        (None, _) => String::new(),
        (Some((name, _)), 1) => (*name).to_owned(),
        (Some((name, _)), 2) => format!("{name} and another"),
        (Some((name, _)), forms) => format!("{name} and {} others", forms - 1),
    }
}
