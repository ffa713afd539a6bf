//! Degrees of nodes, that is numbers of links: LinkBench's empirical distribution, and the rank of
//! each node in it.
//!
//! Invariants
//! 1. The node of rank r among n has the smallest degree d with CCDF(d) ≤ r / n, so all degrees are
//!    a function of n: there is no sampling.
//! 2. Ranks are a permutation of the ids.
//! 3. Below ten million nodes the degrees are capped in proportion to n: the tail of the table does
//!    not shrink with n, and without the cap a single node would have a fifth of all links.
//! 4. A node's degree is split over two types as upstream's loader does: each type gets half of it,
//!    rounded down, and one more if its index is below the remaining half. So most nodes gain a
//!    link or two.

use crate::random::{Purpose, Random};

/// Degree, and the fraction of nodes with more links. Linear in log(d + 1), log(CCDF) in between.
const ANCHORS: [(f64, f64); 40] = [
    (0.0, 0.5467),
    (1.0, 0.2254),
    (2.0, 0.1304),
    (3.0, 0.0801),
    (4.0, 0.0555),
    (5.0, 0.0417),
    (6.0, 0.0328),
    (8.0, 0.0224),
    (10.0, 0.0167),
    (13.0, 0.0117),
    (16.0, 8.92e-3),
    (20.0, 6.73e-3),
    (25.0, 5.30e-3),
    (32.0, 4.17e-3),
    (40.0, 3.39e-3),
    (50.0, 2.78e-3),
    (64.0, 2.29e-3),
    (100.0, 1.69e-3),
    (160.0, 1.29e-3),
    (264.0, 1.00e-3),
    (400.0, 8.13e-4),
    (700.0, 6.06e-4),
    (1_000.0, 4.93e-4),
    (1_500.0, 3.79e-4),
    (2_500.0, 2.53e-4),
    (4_000.0, 1.61e-4),
    (6_051.0, 1.00e-4),
    (8_000.0, 6.88e-5),
    (12_000.0, 3.68e-5),
    (18_000.0, 1.78e-5),
    (24_000.0, 1.00e-5),
    (32_000.0, 5.38e-6),
    (45_000.0, 2.38e-6),
    (65_000.0, 9.94e-7),
    (100_000.0, 3.72e-7),
    (160_000.0, 1.55e-7),
    (250_000.0, 4.61e-8),
    (400_000.0, 1.98e-8),
    (900_000.0, 6.6e-9),
    (DEGREE_MAX, 0.0),
];
const DEGREE_MAX: f64 = 961_963.0;
const NODES_OF_TABLE: f64 = 1e7;
const TYPES: u64 = 2;
/// Number of residue classes of the ids. Each class is rotated by an amount of its own.
const CLASSES: u64 = 1_024;
/// Mean number of links of a node at a million nodes, after Invariant 4.
const LINKS_PER_NODE: f64 = 4.37;

/// A permutation between ids and ranks: within its residue class, an id is rotated by the class's
/// amount.
#[derive(Clone, Debug)]
pub struct Permutation {
    ids: u64,
    turns: Vec<u64>,
}

impl Permutation {
    /// Creates a permutation of the ids 1 … `ids`.
    pub fn new(random: &mut Random, ids: u64) -> Self {
        Self { ids, turns: (0..CLASSES).map(|_| random.next()).collect() }
    }

    /// Returns the size of the class of `place` (counted from 0), its rotation, and the place
    /// within it.
    fn class(&self, place: u64) -> (u64, u64, u64) {
        let class = place % CLASSES;
        let size = (self.ids - class).div_ceil(CLASSES);
        (size, self.turns[class as usize] % size, place / CLASSES)
    }

    /// Returns the rank of an id, from 0 on.
    pub fn rank(&self, id: u64) -> u64 {
        let (size, turn, place) = self.class(id - 1);
        (place + turn) % size * CLASSES + (id - 1) % CLASSES
    }

    /// Returns the id of a rank.
    pub fn id(&self, rank: u64) -> u64 {
        let (size, turn, place) = self.class(rank);
        (place + size - turn) % size * CLASSES + rank % CLASSES + 1
    }
}

/// Degrees of the nodes 1 … n of a graph.
#[derive(Clone, Debug)]
pub struct Degrees {
    nodes: u64,
    ranks: Permutation,
}

impl Degrees {
    /// Returns the degrees of a graph of `nodes` nodes.
    pub fn new(seed: u64, nodes: u64) -> Self {
        let mut random = Random::stream(seed, "linktable", 1, 0, Purpose::Population);
        Self { nodes, ranks: Permutation::new(&mut random, nodes) }
    }

    /// Returns the degrees of a graph that has at least `links` links and not many more.
    pub fn with_links(seed: u64, links: u64) -> Self {
        let mut nodes = (links as f64 / LINKS_PER_NODE) as u64 + 1;
        loop {
            let degrees = Self::new(seed, nodes);
            let all = |rank| (0..TYPES).map(|kind| share(degrees.of_rank(rank), kind)).sum::<u64>();
            if (0..nodes).map(all).sum::<u64>() >= links {
                return degrees;
            }
            nodes += nodes / 20 + 1;
        }
    }

    /// Number of nodes.
    pub fn nodes(&self) -> u64 {
        self.nodes
    }

    /// Returns the number of links of node `id` (from 1 on) of the type with index `kind`.
    pub fn links_of_type(&self, id: u64, kind: u64) -> u64 {
        share(self.of_rank(self.ranks.rank(id)), kind)
    }

    /// Returns which node has which rank (Invariant 2); rank 0 has the most links.
    pub fn ranks(&self) -> &Permutation {
        &self.ranks
    }

    /// Returns the degree of a rank (Invariants 1 and 3).
    fn of_rank(&self, rank: u64) -> u64 {
        let cap = (DEGREE_MAX * (self.nodes as f64 / NODES_OF_TABLE).min(1.0)).max(1.0);
        let more = rank as f64 / self.nodes as f64;
        let after = ANCHORS.partition_point(|&(_, ccdf)| ccdf > more);
        let degree = match (after.checked_sub(1).map(|before| ANCHORS[before]), ANCHORS.get(after))
        {
            (None, _) => 0.0,
            (Some((d0, c0)), Some(&(d1, c1))) if c1 > 0.0 => {
                let part = (c0 / more).ln() / (c0 / c1).ln();
                let log = (1.0 - part) * (d0 + 1.0).ln() + part * (d1 + 1.0).ln();
                // A degree at an anchor must not be rounded up beyond the anchor.
                (log.exp() - 1.0 - 1e-9).ceil()
            }
            _ => DEGREE_MAX,
        };
        degree.min(cap.floor()) as u64
    }
}

/// Returns the part of a degree that falls to the type with index `kind` (Invariant 4).
fn share(degree: u64, kind: u64) -> u64 {
    let half = degree / TYPES;
    half + u64::from(kind < degree - half)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_nodes_have_the_published_mean() {
        const NODES: u64 = 1_000_000;
        let degrees = Degrees::new(42, NODES);
        let (mut links, mut all, mut none, mut most) = (0, 0, 0, 0);
        for id in 1..=NODES {
            let degree = degrees.of_rank(degrees.ranks.rank(id));
            all += degree;
            none += u64::from(degree == 0);
            most = most.max(degree);
            links += degrees.links_of_type(id, 0) + degrees.links_of_type(id, 1);
        }
        let (mean, mean_links) = (all as f64 / NODES as f64, links as f64 / NODES as f64);
        println!("{mean} degree, {mean_links} links a node, {none} without, {most} at most");
        assert!((4.05..4.15).contains(&mean), "{mean} links of a node before the split");
        assert!((4.3..4.45).contains(&mean_links), "{mean_links} links a node");
        assert!(none.abs_diff(453_300) < 10, "{none} nodes without links");
        assert_eq!(most, 96_196, "the cap");
    }

    #[test]
    fn ranks_are_a_permutation() {
        for nodes in [1, 2, 1_023, 1_024, 1_025, 50_000] {
            let degrees = Degrees::new(3, nodes);
            let mut seen = vec![false; nodes as usize];
            for id in 1..=nodes {
                let rank = degrees.ranks.rank(id) as usize;
                assert_eq!(degrees.ranks.id(rank as u64), id);
                assert!(!std::mem::replace(&mut seen[rank], true), "rank {rank} of {nodes} twice");
            }
        }
    }

    #[test]
    fn degrees_are_split_as_upstream_does() {
        let split = |degree| [share(degree, 0), share(degree, 1)];
        assert_eq!([0, 1, 2, 3, 4, 5].map(split), [[0, 0], [1, 0], [2, 1], [2, 2], [3, 3], [3, 3]]);
    }

    #[test]
    fn degrees_match_their_anchors_exactly() {
        let nodes = 10_000_000;
        let degrees = Degrees::new(1, nodes);
        for &(degree, ccdf) in &ANCHORS[..27] {
            let rank = (ccdf * nodes as f64).round() as u64;
            assert_eq!(degrees.of_rank(rank), degree as u64, "CCDF {ccdf}");
            assert!(rank == 0 || degrees.of_rank(rank - 1) > degree as u64, "CCDF {ccdf}");
        }
        assert_eq!(degrees.of_rank(0), DEGREE_MAX as u64);
    }
}
