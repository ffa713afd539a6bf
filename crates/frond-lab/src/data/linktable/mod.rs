//! The data set `linktable`: LinkBench's links, as its loader writes them.
//!
//! Invariants
//! 1. Nodes are in order of their ids; a node's links are grouped by type, with `id2` counting up
//!    from `id1`.
//! 2. `time` and `data` of rows differ only as the loader's do: nothing is constant in order to
//!    compress well, and what the loader leaves constant (visibility, version) stays constant.

pub mod degree;
pub mod payload;
pub mod requests;

use super::Source;
use crate::random::{Purpose, Random};
use crate::schema::{Column, Table, Type, Value};
use degree::Degrees;
use payload::Payload;

/// The two link types.
pub const TYPES: [u64; 2] = [123_456_789, 123_456_790];
/// 2015-07-01 00:00:00 UTC in milliseconds: links were made in the 2³² ms before it.
pub const NOW_MILLIS: u64 = 1_435_708_800_000;

/// A link.
#[derive(Clone, Debug, Default)]
pub struct Link {
    id1: u64,
    id2: u64,
    link_type: u64,
    data: Vec<u8>,
    time: u64,
}

/// Generator of the links.
pub struct LinkTable {
    degrees: Degrees,
    payload: Payload,
    random: Random,
    /// Position: node (from 1 on), index of the type, links of that type still to come.
    id1: u64,
    kind: usize,
    left: u64,
    id2: u64,
}

impl LinkTable {
    /// Creates a generator of the links of a graph that has at least `rows` links.
    pub fn new(seed: u64, rows: u64) -> Self {
        let degrees = Degrees::with_links(seed, rows);
        let mut random = Random::stream(seed, "linktable", 0, 0, Purpose::Data);
        let payload = Payload::links(&mut random);
        // Before the first node: `next` advances to it.
        Self { degrees, payload, random, id1: 0, kind: TYPES.len() - 1, left: 0, id2: 0 }
    }
}

impl Source for LinkTable {
    type Record = Link;
    type Columns<'a> = [Value<'a>; 7];
    const NAME: &'static str = "linktable";
    // Rows of one of the loader's bulk statements.
    const ROWS_PER_COMMIT: u64 = 1_024;
    const INNODB_ROW_BYTES: u64 = 100;

    fn table() -> Table {
        Table {
            name: "linktable",
            base: 0,
            columns: vec![
                Column::new("id1", Type::U64),
                Column::new("id2", Type::U64),
                Column::new("link_type", Type::U64),
                Column::new("visibility", Type::I8),
                Column::new("data", Type::Text),
                Column::new("time", Type::U64),
                Column::new("version", Type::U32),
            ],
            primary: vec![2, 0, 1],
            indexes: Vec::new(),
        }
    }

    fn next(&mut self, link: &mut Link) -> bool {
        while self.left == 0 {
            self.kind = (self.kind + 1) % TYPES.len();
            self.id1 += u64::from(self.kind == 0);
            if self.id1 > self.degrees.nodes() {
                return false;
            }
            self.left = self.degrees.links_of_type(self.id1, self.kind as u64);
            self.id2 = self.id1;
        }
        (link.id1, link.id2, link.link_type) = (self.id1, self.id2, TYPES[self.kind]);
        link.time = NOW_MILLIS - self.random.below(1 << 32);
        self.payload.write(&mut self.random, &mut link.data);
        self.left -= 1;
        self.id2 += 1;
        true
    }

    fn columns<'a>(&'a self, link: &'a Link) -> [Value<'a>; 7] {
        [
            Value::U64(link.id1),
            Value::U64(link.id2),
            Value::U64(link.link_type),
            Value::I8(1),
            Value::Text(std::str::from_utf8(&link.data).unwrap_or_default()), // it is ASCII
            Value::U64(link.time),
            Value::U32(0),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::testing::{packed, zlib_ratio};

    #[test]
    fn links_are_grouped_by_node_and_match_the_requested_count() {
        for rows in [1, 10, 5_000, 100_000] {
            let mut links = LinkTable::new(7, rows);
            let (mut link, mut last, mut counts) = (Link::default(), (0, 0, 0), [0u64; 2]);
            for row in 0..rows {
                assert!(links.next(&mut link), "{row} of {rows}");
                let at = (link.id1, link.link_type, link.id2);
                assert!(at > last, "{at:?} after {last:?}");
                let continues = last.0 == at.0 && last.1 == at.1;
                assert_eq!(link.id2, if continues { last.2 + 1 } else { link.id1 });
                assert!((1..=254).contains(&link.data.len()) || link.data.is_empty());
                assert!(NOW_MILLIS - link.time < 1 << 32);
                counts[(link.link_type - TYPES[0]) as usize] += 1;
                last = at;
            }
            assert!(counts[0] >= counts[1] && (rows < 1_000 || counts[1] > rows / 4), "{counts:?}");
        }
    }

    #[test]
    fn rows_compress_as_the_reference_does() {
        const ROWS: usize = 50_000;
        let bytes = packed(LinkTable::new(42, ROWS as u64), ROWS);
        let width = bytes.len() as f64 / ROWS as f64;
        assert!((49.0..53.0).contains(&width), "{width} bytes a row");
        for (block, reference) in [(16 << 10, 3.0), (64 << 10, 3.2)] {
            let ratio = zlib_ratio(&bytes, block);
            println!("{ratio:.2}x at {block}, {width:.1} B a row");
            assert!((ratio / reference - 1.0).abs() < 0.15, "{ratio} for {reference} at {block}");
        }
    }
}
