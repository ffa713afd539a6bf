//! LinkBench's load: loaders take chunks of ids and write their links and counts; one more writes the nodes.
//!
//! Invariants
//! 1. A chunk's rows depend on the seed and its number only: not on the loaders, nor on their number.
//! 2. Nodes are inserted in order of their ids, which AUTO_INCREMENT gives.

use std::sync::atomic::{AtomicU64, Ordering};

use super::NODE_TYPE;
use super::choice::Choices;
use crate::lab::sql::{InsertText, Worker};
use crate::random::{Purpose, Random};
use crate::targets::Result;
use crate::workloads::linktable::{NOW_MILLIS, TYPES};

/// Ids of a chunk.
const CHUNK: u64 = 2_048;
/// Rows of a bulk statement.
const ROWS: u64 = 1_024;

/// What the loaders share.
pub struct Load<'c> {
    seed: u64,
    ids: u64,
    choices: &'c Choices,
    next: AtomicU64,
    link_bytes: AtomicU64,
    node_bytes: AtomicU64,
    links: AtomicU64,
    counts: AtomicU64,
    nodes: AtomicU64,
}

/// Rows loaded, and their bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Loaded {
    /// Links.
    pub links: u64,
    /// Counts.
    pub counts: u64,
    /// Nodes.
    pub nodes: u64,
    /// Bytes of all of them.
    pub bytes: u64,
}

impl<'c> Load<'c> {
    /// One of so many ids.
    pub fn new(seed: u64, ids: u64, choices: &'c Choices) -> Self {
        let zero = AtomicU64::default;
        let (link_bytes, node_bytes) = (zero(), zero());
        let (next, links, counts, nodes) = (zero(), zero(), zero(), zero());
        Self { seed, ids, choices, next, link_bytes, node_bytes, links, counts, nodes }
    }

    /// What has been loaded.
    pub fn loaded(&self) -> Loaded {
        let of = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let (links, counts, nodes) = (of(&self.links), of(&self.counts), of(&self.nodes));
        let bytes =
            links * 37 + of(&self.link_bytes) + counts * 36 + nodes * 24 + of(&self.node_bytes);
        Loaded { links, counts, nodes, bytes }
    }

    /// A loader of links and counts.
    ///
    /// # Errors
    /// The server's.
    pub fn load_links(&self, worker: &mut Worker<'_>) -> Result<()> {
        let mut links = InsertText::new(
            "INSERT INTO linktable(id1,id2,link_type,visibility,data,time,version) VALUES",
        );
        let mut counts =
            InsertText::new("REPLACE INTO counttable(id,link_type,count,time,version) VALUES");
        let (mut data, mut data_bytes) = (Vec::new(), 0);
        while worker.go_on() {
            let chunk = self.next.fetch_add(1, Ordering::Relaxed);
            let first = 1 + chunk * CHUNK;
            if first > self.ids {
                break;
            }
            let mut random = Random::stream(self.seed, "linkbench", 0, chunk, Purpose::Data);
            for id1 in first..(first + CHUNK).min(self.ids + 1) {
                for (kind, link_type) in TYPES.iter().enumerate() {
                    let n = self.choices.degrees.links_of_type(id1, kind as u64);
                    for id2 in id1..id1 + n {
                        self.choices.link_data().write(&mut random, &mut data);
                        let time = NOW_MILLIS - random.below(1 << 32);
                        let text = std::str::from_utf8(&data).unwrap_or_default(); // it is ASCII
                        data_bytes += text.len() as u64;
                        let row = links.row().plain(id1).plain(id2).plain(link_type).plain(1);
                        row.text(text).plain(time).plain(0);
                        if links.len() == ROWS {
                            flush(worker, "links", &mut links, UPSERT, &self.links)?;
                        }
                    }
                    if n > 0 {
                        let row = counts.row().plain(id1).plain(link_type).plain(n);
                        row.plain(NOW_MILLIS).plain(0);
                    }
                    if counts.len() == ROWS {
                        flush(worker, "counts", &mut counts, "", &self.counts)?;
                    }
                }
            }
            flush(worker, "links", &mut links, UPSERT, &self.links)?;
            flush(worker, "counts", &mut counts, "", &self.counts)?;
        }
        self.link_bytes.fetch_add(data_bytes, Ordering::Relaxed);
        Ok(())
    }

    /// The loader of nodes.
    ///
    /// # Errors
    /// The server's.
    pub fn load_nodes(&self, worker: &mut Worker<'_>) -> Result<()> {
        let mut nodes = InsertText::new("INSERT INTO nodetable(type,version,time,data) VALUES");
        let mut random = Random::stream(self.seed, "linkbench", 0, u64::MAX, Purpose::Data);
        let (mut data, mut id, mut data_bytes) = (Vec::new(), 1, 0);
        while id <= self.ids && worker.go_on() {
            let end = (id + ROWS).min(self.ids + 1);
            for _ in id..end {
                self.choices.node_data().write(&mut random, &mut data);
                data_bytes += data.len() as u64;
                let row = nodes.row().plain(NODE_TYPE).plain(1).plain(NOW_MILLIS / 1000);
                row.bytes(&data);
            }
            flush(worker, "nodes", &mut nodes, "", &self.nodes)?;
            id = end;
        }
        self.node_bytes.fetch_add(data_bytes, Ordering::Relaxed);
        Ok(())
    }
}

/// As upstream's bulk statement ends.
const UPSERT: &str = " ON DUPLICATE KEY UPDATE visibility=VALUES(visibility)";

/// Sends what is there, in a transaction of its own.
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
