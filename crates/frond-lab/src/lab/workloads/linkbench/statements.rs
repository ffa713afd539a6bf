//! LinkBench's load in SQL: sends the rows as bulk statements.

use std::sync::atomic::{AtomicU64, Ordering};

use super::NODE_TYPE;
use super::load::{Load, ROWS, Sink};
use crate::lab::sql::{InsertText, Worker};
use crate::targets::Result;

/// The end of upstream's bulk statement of links.
const UPSERT: &str = " ON DUPLICATE KEY UPDATE visibility=VALUES(visibility)";

/// The bulk statements of a loader.
pub struct Statements<'w, 'm, 'l> {
    worker: &'w mut Worker<'m>,
    load: &'l Load<'l>,
    links: InsertText,
    counts: InsertText,
    nodes: InsertText,
}

impl<'w, 'm, 'l> Statements<'w, 'm, 'l> {
    /// Makes the statements of a loader.
    pub fn new(worker: &'w mut Worker<'m>, load: &'l Load<'l>) -> Self {
        let links = InsertText::new(
            "INSERT INTO linktable(id1,id2,link_type,visibility,data,time,version) VALUES",
        );
        let counts =
            InsertText::new("REPLACE INTO counttable(id,link_type,count,time,version) VALUES");
        let nodes = InsertText::new("INSERT INTO nodetable(type,version,time,data) VALUES");
        Self { worker, load, links, counts, nodes }
    }
}

impl Sink for Statements<'_, '_, '_> {
    fn go_on(&mut self) -> bool {
        self.worker.go_on()
    }

    fn link(&mut self, id1: u64, id2: u64, link_type: u64, data: &[u8], time: u64) -> Result<()> {
        let row = self.links.row().plain(id1).plain(id2).plain(link_type).plain(1);
        let text = std::str::from_utf8(data).unwrap_or_default(); // it is ASCII
        row.text(text).plain(time).plain(0);
        match self.links.len() == ROWS {
            true => flush(self.worker, "links", &mut self.links, UPSERT, &self.load.links),
            false => Ok(()),
        }
    }

    fn count(&mut self, id: u64, link_type: u64, count: u64, time: u64) -> Result<()> {
        self.counts.row().plain(id).plain(link_type).plain(count).plain(time).plain(0);
        match self.counts.len() == ROWS {
            true => flush(self.worker, "counts", &mut self.counts, "", &self.load.counts),
            false => Ok(()),
        }
    }

    fn node(&mut self, _: u64, time: u64, data: &[u8]) -> Result<()> {
        // AUTO_INCREMENT assigns the id.
        self.nodes.row().plain(NODE_TYPE).plain(1).plain(time).bytes(data);
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        let (worker, load) = (&mut *self.worker, self.load);
        flush(worker, "links", &mut self.links, UPSERT, &load.links)?;
        flush(worker, "counts", &mut self.counts, "", &load.counts)?;
        flush(worker, "nodes", &mut self.nodes, "", &load.nodes)
    }
}

/// Sends the rows of a statement in a transaction of its own.
fn flush(
    worker: &mut Worker<'_>,
    kind: &'static str,
    insert: &mut InsertText,
    clause: &str,
    done: &AtomicU64,
) -> Result<()> {
    if insert.len() > 0 {
        done.fetch_add(worker.insert_with(kind, insert, clause)?, Ordering::Relaxed);
    }
    Ok(())
}
