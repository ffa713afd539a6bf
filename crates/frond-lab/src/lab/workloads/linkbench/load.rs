//! LinkBench's load: loaders take chunks of ids and write their links and counts; one more loader
//! writes the nodes. The rows go to a [`Sink`].
//!
//! Invariants
//! 1. A chunk's rows depend only on the seed and the chunk's number, not on the loaders or on how
//!    many there are.
//! 2. Nodes are inserted in the order of their ids, which AUTO_INCREMENT assigns.

use std::sync::atomic::{AtomicU64, Ordering};

use super::choice::Choices;
use crate::data::linktable::{NOW_MILLIS, TYPES};
use crate::random::{Purpose, Random};
use crate::targets::Result;

/// Number of ids in a chunk.
const CHUNK: u64 = 2_048;
/// Number of rows in a bulk statement.
pub const ROWS: u64 = 1_024;

/// Takes the rows of a loader, and writes every [`ROWS`] rows of a kind in a transaction of their
/// own.
pub trait Sink {
    /// Returns false when the step ends.
    fn go_on(&mut self) -> bool;
    /// Takes a visible link of version 0.
    ///
    /// # Errors
    /// The store reports an error.
    fn link(&mut self, id1: u64, id2: u64, link_type: u64, data: &[u8], time: u64) -> Result<()>;
    /// Takes a count of version 0.
    ///
    /// # Errors
    /// The store reports an error.
    fn count(&mut self, id: u64, link_type: u64, count: u64, time: u64) -> Result<()>;
    /// Takes a node of version 1; `time` is in seconds.
    ///
    /// # Errors
    /// The store reports an error.
    fn node(&mut self, id: u64, time: u64, data: &[u8]) -> Result<()>;
    /// Writes the rows that have been taken.
    ///
    /// # Errors
    /// The store reports an error.
    fn flush(&mut self) -> Result<()>;
}

/// The state that the loaders share.
pub struct Load<'c> {
    seed: u64,
    ids: u64,
    choices: &'c Choices,
    next: AtomicU64,
    link_bytes: AtomicU64,
    node_bytes: AtomicU64,
    /// Number of links written.
    pub links: AtomicU64,
    /// Number of counts written.
    pub counts: AtomicU64,
    /// Number of nodes written.
    pub nodes: AtomicU64,
}

/// Numbers of rows loaded, and their bytes.
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
    /// Makes the load of a graph with this many ids.
    pub fn new(seed: u64, ids: u64, choices: &'c Choices) -> Self {
        let zero = AtomicU64::default;
        let (link_bytes, node_bytes) = (zero(), zero());
        let (next, links, counts, nodes) = (zero(), zero(), zero(), zero());
        Self { seed, ids, choices, next, link_bytes, node_bytes, links, counts, nodes }
    }

    /// Returns what has been loaded so far.
    pub fn loaded(&self) -> Loaded {
        let of = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let (links, counts, nodes) = (of(&self.links), of(&self.counts), of(&self.nodes));
        let bytes =
            links * 37 + of(&self.link_bytes) + counts * 36 + nodes * 24 + of(&self.node_bytes);
        Loaded { links, counts, nodes, bytes }
    }

    /// Number of rows that a complete load has.
    pub fn planned(&self) -> u64 {
        let rows = |id| {
            let links = [0, 1].map(|kind| self.choices.degrees.links_of_type(id, kind));
            links.map(|n| n + u64::from(n > 0)).iter().sum::<u64>() + 1
        };
        (1..=self.ids).map(rows).sum()
    }

    /// Runs a loader of links and counts.
    ///
    /// # Errors
    /// The store reports an error.
    pub fn load_links(&self, sink: &mut impl Sink) -> Result<()> {
        let (mut data, mut data_bytes) = (Vec::new(), 0);
        while sink.go_on() {
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
                        data_bytes += data.len() as u64;
                        sink.link(id1, id2, *link_type, &data, time)?;
                    }
                    if n > 0 {
                        sink.count(id1, *link_type, n, NOW_MILLIS)?;
                    }
                }
            }
            sink.flush()?;
        }
        self.link_bytes.fetch_add(data_bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Runs the loader of nodes.
    ///
    /// # Errors
    /// The store reports an error.
    pub fn load_nodes(&self, sink: &mut impl Sink) -> Result<()> {
        let mut random = Random::stream(self.seed, "linkbench", 0, u64::MAX, Purpose::Data);
        let (mut data, mut id, mut data_bytes) = (Vec::new(), 1, 0);
        while id <= self.ids && sink.go_on() {
            let end = (id + ROWS).min(self.ids + 1);
            for id in id..end {
                self.choices.node_data().write(&mut random, &mut data);
                data_bytes += data.len() as u64;
                sink.node(id, NOW_MILLIS / 1000, &data)?;
            }
            sink.flush()?;
            id = end;
        }
        self.node_bytes.fetch_add(data_bytes, Ordering::Relaxed);
        Ok(())
    }
}
