//! Frond as a target: keyspaces are trees, one batch is a commit, memory and durability are its only
//! settings.
//!
//! Threads: handles are shared; a batch belongs to its session.

use std::ops::Bound;

use frond::{Batch, Db, Options, Tree, TreeOptions};

use super::{Counter, Direction, Durability, Failure, Result, Session, Setup, Target, Visit};
use crate::layout;
use crate::schema::Keyspace;

/// Statistics that are states now; the others grow.
const STATES: [&str; 8] = [
    "memtable_active_bytes",
    "memtables_frozen",
    "runs_unwritten_bytes",
    "frames_used",
    "frames_limit",
    "trees",
    "seqno_visible",
    "seqno_applied",
];

impl From<frond::Error> for Failure {
    fn from(error: frond::Error) -> Self {
        Self(format!("frond: {error}"))
    }
}

/// Frond under test.
pub struct Frond {
    db: Db,
    trees: Vec<Tree>,
    settings: Vec<(String, String)>,
}

impl Frond {
    /// Opens a fresh store.
    pub fn open(setup: &Setup) -> Result<Self> {
        let durability = match setup.durability {
            Durability::Sync => frond::Durability::Sync,
            Durability::Os => frond::Durability::Os,
            Durability::Lazy => frond::Durability::Lazy,
        };
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
        Ok(Self { db, trees, settings })
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

    fn settle(&self) -> Result<()> {
        Ok(self.db.checkpoint()?)
    }

    fn counters(&self) -> Vec<Counter> {
        let stats = self.db.stats();
        let named = |(name, value): (&'static str, u64)| {
            let state = STATES.contains(&name) || name.starts_with("space_");
            let name = if state { format!("{name}_now") } else { name.to_owned() };
            (name, value as f64)
        };
        let syncs = ["log_syncs", "store_syncs"].iter().filter_map(|name| stats.get(name)).sum();
        stats.iter().chain([("syncs", syncs)]).map(named).collect()
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.db.close()?)
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
