//! Chooses LinkBench's requests: the mix of requests, and the ids, links and lists that they ask
//! for.
//!
//! Three things follow upstream's source where it differs from its configuration:
//! 1. Writes of links use the settings of reads: the ids of 99.5 % of them follow Zipf 0.8,
//!    independent of degrees. The parameter `strict_config` selects the configured 95 % and Zipf
//!    0.741.
//! 2. A multiget asks for 2 to 127 links, since the minimum is added to a draw that starts at 1.
//! 3. A list that hit its limit is continued by the requester that had asked for it.
//!
//! Threads: `Choices` is shared; a `Requester` belongs to one client.

use crate::data::linktable::TYPES;
use crate::data::linktable::degree::{Degrees, Permutation};
use crate::data::linktable::payload::Payload;
use crate::data::linktable::requests::{Request, SHARES};
use crate::random::{GrayZipf, Purpose, Random};

/// Maximum number of links in a list.
pub const LIST_MAX: u64 = 10_000;
/// Maximum number of lists that a requester remembers in order to continue them.
const HISTORY_MAX: usize = 2_048;
const CONTINUES: f64 = 0.003;
/// Shares of link requests whose ids are independent of degrees.
const UNCORRELATED: f64 = 0.995;
const UNCORRELATED_STRICT: f64 = 0.95;
/// Shares of the requested links that exist. The ranges of `id2` are chosen to give these shares.
const EXIST_ADD: f64 = 0.05;
const EXIST_GET: f64 = 0.5;
const EXIST_CHANGE: f64 = 0.9;
/// Size of a multiget: the parameter of its geometric distribution, and the maximum number of
/// links.
const MULTIGET_P: f64 = 0.382;
const MULTIGET_MAX: usize = 127;

/// The distributions from which the requests on a graph are drawn.
pub struct Choices {
    ids: u64,
    /// Degrees of the nodes, as loaded.
    pub degrees: Degrees,
    uncorrelated: Permutation,
    nodes: Permutation,
    links: GrayZipf,
    link_writes: GrayZipf,
    node_reads: GrayZipf,
    node_updates: GrayZipf,
    strict: bool,
    link_data: Payload,
    node_data: Payload,
}

/// A list that hit its limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct List {
    /// The list's node.
    pub id1: u64,
    /// Type of its links.
    pub link_type: u64,
    /// Time of the last link that it returned.
    pub time: u64,
}

/// A request with all that was drawn for it, so that a retry asks for the same.
#[derive(Clone, Debug)]
pub struct Drawn {
    /// Kind of the request.
    pub request: Request,
    /// The node.
    pub id1: u64,
    /// Type of the link.
    pub link_type: u64,
    /// Second ids of the links, one or several.
    pub id2s: Vec<u64>,
    /// New data of the link or node.
    pub data: Vec<u8>,
    /// The list that is continued.
    pub continued: Option<List>,
}

/// A client's random streams, and the lists that it remembers.
pub struct Requester {
    choice: Random,
    data: Random,
    history: Vec<List>,
    /// The current request.
    pub drawn: Drawn,
}

impl Requester {
    /// Makes the requester of client `index`.
    pub fn new(seed: u64, index: u64) -> Self {
        let stream = |purpose| Random::stream(seed, "linkbench", 1, index, purpose);
        let drawn = Drawn {
            request: Request::GetNode,
            id1: 1,
            link_type: TYPES[0],
            id2s: Vec::new(),
            data: Vec::new(),
            continued: None,
        };
        let (choice, data) = (stream(Purpose::Choice), stream(Purpose::Data));
        Self { choice, data, history: Vec::new(), drawn }
    }

    /// Remembers a list that hit its limit.
    pub fn remember(&mut self, list: List) {
        match self.history.len() {
            HISTORY_MAX => {
                let at = self.choice.below(HISTORY_MAX as u64) as usize;
                self.history[at] = list;
            }
            _ => self.history.push(list),
        }
    }
}

impl Choices {
    /// Makes the distributions for a graph with this many nodes.
    pub fn new(seed: u64, ids: u64, strict: bool) -> Self {
        let mut random = Random::stream(seed, "linkbench", 2, 0, Purpose::Population);
        Self {
            ids,
            degrees: Degrees::new(seed, ids),
            uncorrelated: Permutation::new(&mut random, ids),
            nodes: Permutation::new(&mut random, ids),
            links: GrayZipf::new(ids, 0.8),
            link_writes: GrayZipf::new(ids, 0.741),
            node_reads: GrayZipf::new(ids, 0.625),
            node_updates: GrayZipf::new(ids, 0.606),
            strict,
            link_data: Payload::links(&mut random),
            node_data: Payload::nodes(&mut random),
        }
    }

    /// The generator of link data.
    pub fn link_data(&self) -> &Payload {
        &self.link_data
    }

    /// The generator of node data.
    pub fn node_data(&self) -> &Payload {
        &self.node_data
    }

    fn read_id(&self, random: &mut Random) -> u64 {
        match random.chance(UNCORRELATED) {
            true => self.uncorrelated.id(self.links.draw(random)),
            false => self.degrees.ranks().id(self.links.draw(random)),
        }
    }

    fn write_id(&self, random: &mut Random) -> u64 {
        let share = if self.strict { UNCORRELATED_STRICT } else { UNCORRELATED };
        match (random.chance(share), self.strict) {
            (false, _) => self.degrees.ranks().id(self.link_writes.draw(random)),
            (true, true) => self.uncorrelated.id(self.link_writes.draw(random)),
            (true, false) => self.uncorrelated.id(self.links.draw(random)),
        }
    }

    /// Number of values from which `id2` is drawn.
    fn range(&self, id1: u64, kind: usize, exist: f64) -> u64 {
        let degree = self.degrees.links_of_type(id1, kind as u64);
        ((degree as f64 / exist).ceil() as u64).max(1)
    }

    /// Draws the requester's next request.
    pub fn draw(&self, requester: &mut Requester) {
        let Requester { choice, data, history, drawn } = requester;
        let (request, _) = SHARES[choice.weighted(&SHARES.map(|(_, share)| share))];
        let kind = choice.below(TYPES.len() as u64) as usize;
        drawn.request = request;
        drawn.link_type = TYPES[kind];
        drawn.id2s.clear();
        drawn.data.clear();
        drawn.continued = None;
        match request {
            Request::AddLink | Request::UpdateLink | Request::DeleteLink => {
                drawn.id1 = self.write_id(choice);
                let exist = if request == Request::AddLink { EXIST_ADD } else { EXIST_CHANGE };
                let range = self.range(drawn.id1, kind, exist);
                drawn.id2s.push(drawn.id1 + choice.below(range));
                if request != Request::DeleteLink {
                    self.link_data.write(data, &mut drawn.data);
                }
            }
            Request::CountLink => drawn.id1 = self.read_id(choice),
            Request::MultigetLink => {
                drawn.id1 = self.read_id(choice);
                let range = self.range(drawn.id1, kind, EXIST_GET);
                draw_distinct(choice, drawn.id1, range, &mut drawn.id2s);
            }
            Request::GetLinksList => {
                if choice.chance(CONTINUES) && !history.is_empty() {
                    let at = choice.below(history.len() as u64) as usize;
                    drawn.continued = Some(history.swap_remove(at));
                } else {
                    drawn.id1 = self.read_id(choice);
                }
            }
            Request::AddNode => self.node_data.write(data, &mut drawn.data),
            Request::UpdateNode => {
                drawn.id1 = self.nodes.id(self.node_updates.draw(choice));
                self.node_data.write(data, &mut drawn.data);
            }
            Request::DeleteNode => drawn.id1 = 1 + choice.below(self.ids),
            Request::GetNode => drawn.id1 = self.nodes.id(self.node_reads.draw(choice)),
        }
    }
}

/// Draws the links of a multiget: distinct ones from the range, or consecutive ones from its start
/// if it is too small.
fn draw_distinct(random: &mut Random, id1: u64, range: u64, out: &mut Vec<u64>) {
    let wanted = multiget_size(random);
    if range <= wanted as u64 {
        out.extend((0..wanted as u64).map(|n| id1 + n));
        return;
    }
    while out.len() < wanted {
        let id2 = id1 + random.below(range);
        if !out.contains(&id2) {
            out.push(id2);
        }
    }
}

fn multiget_size(random: &mut Random) -> usize {
    let draw = 1.0 + ((1.0 - random.unit()).ln() / (1.0 - MULTIGET_P).ln()).floor();
    (1 + draw as usize).min(MULTIGET_MAX)
}

/// Name of a request in series and latencies.
pub fn name(request: Request) -> &'static str {
    match request {
        Request::AddLink => "add_link",
        Request::DeleteLink => "delete_link",
        Request::UpdateLink => "update_link",
        Request::CountLink => "count_link",
        Request::MultigetLink => "multiget_link",
        Request::GetLinksList => "get_links_list",
        Request::AddNode => "add_node",
        Request::UpdateNode => "update_node",
        Request::DeleteNode => "delete_node",
        Request::GetNode => "get_node",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    const IDS: u64 = 20_000;

    fn drawn(strict: bool, draws: u32, mut visit: impl FnMut(&Choices, &Drawn)) {
        let (choices, mut requester) = (Choices::new(42, IDS, strict), Requester::new(42, 0));
        for _ in 0..draws {
            choices.draw(&mut requester);
            visit(&choices, &requester.drawn);
        }
    }

    #[test]
    fn a_million_requests_have_the_published_mix() {
        const DRAWS: u32 = 1_000_000;
        let mut counts = BTreeMap::new();
        drawn(false, DRAWS, |_, drawn| *counts.entry(name(drawn.request)).or_insert(0u32) += 1);
        let published = [
            ("add_link", 8.9886601),
            ("delete_link", 2.9907664),
            ("update_link", 8.0122125),
            ("count_link", 4.8863567),
            ("multiget_link", 0.5261142),
            ("get_links_list", 50.7119145),
            ("add_node", 2.5732789),
            ("update_node", 7.366437),
            ("delete_node", 1.0115914),
            ("get_node", 12.9326683),
        ];
        for (name, percent) in published {
            let found = f64::from(counts[name]) * 100.0 / f64::from(DRAWS);
            assert!((found - percent).abs() < 0.1, "{name}: {found} % for {percent} %");
        }
    }

    #[test]
    fn id2_is_drawn_so_that_the_published_share_exists() {
        let (mut counts, mut existing) = ([0u32; 3], [0u32; 3]);
        drawn(false, 300_000, |choices, drawn| {
            let (at, exist) = match drawn.request {
                Request::AddLink => (0, EXIST_ADD),
                Request::DeleteLink | Request::UpdateLink => (1, EXIST_CHANGE),
                Request::MultigetLink => (2, EXIST_GET),
                _ => return,
            };
            let kind = TYPES.iter().position(|one| *one == drawn.link_type).unwrap_or(0) as u64;
            let degree = choices.degrees.links_of_type(drawn.id1, kind);
            let range = ((degree as f64 / exist).ceil() as u64).max(drawn.id2s.len() as u64);
            for id2 in &drawn.id2s {
                assert!((drawn.id1..drawn.id1 + range).contains(id2), "{drawn:?} of {degree}");
                counts[at] += u32::from(degree > 0 && range > drawn.id2s.len() as u64);
                existing[at] +=
                    u32::from(range > drawn.id2s.len() as u64 && *id2 < drawn.id1 + degree);
            }
        });
        let share = |at: usize| f64::from(existing[at]) / f64::from(counts[at]);
        // Rounding the range up lowers the shares where degrees are small.
        assert!((0.04..=0.055).contains(&share(0)), "{}", share(0));
        assert!((0.5..=0.9).contains(&share(1)), "{}", share(1));
        assert!((0.45..=0.55).contains(&share(2)), "{}", share(2));
    }

    #[test]
    fn multigets_have_upstreams_sizes_and_distinct_links() {
        let (mut random, mut sum, mut most) = (Random::new(3), 0, 0);
        const DRAWS: usize = 200_000;
        for _ in 0..DRAWS {
            let size = multiget_size(&mut random);
            assert!((2..=127).contains(&size));
            sum += size;
            most = most.max(size);
        }
        let mean = sum as f64 / DRAWS as f64;
        assert!((3.58..3.66).contains(&mean), "{mean}"); // 1 + 1/0.382
        assert!(most > 15, "{most}");
        drawn(false, 200_000, |_, drawn| {
            if drawn.request == Request::MultigetLink {
                let distinct: BTreeSet<_> = drawn.id2s.iter().collect();
                assert!(drawn.id2s.len() >= 2 && distinct.len() == drawn.id2s.len());
            }
        });
    }

    /// Share of the most frequent id among the nodes of these requests.
    fn hottest(strict: bool, requests: &[Request]) -> f64 {
        let (mut counts, mut all) = (BTreeMap::new(), 0u32);
        drawn(strict, 300_000, |_, drawn| {
            if requests.contains(&drawn.request) {
                *counts.entry(drawn.id1).or_insert(0u32) += 1;
                all += 1;
            }
        });
        f64::from(counts.into_values().max().unwrap_or(0)) / f64::from(all)
    }

    #[test]
    fn the_skew_of_ids_matches_upstream() {
        let first =
            |theta: f64| 1.0 / (1..=IDS).map(|rank| (rank as f64).powf(-theta)).sum::<f64>();
        let near = |found: f64, exact: f64| (found / exact - 1.0).abs() < 0.15;
        let writes = [Request::AddLink, Request::UpdateLink, Request::DeleteLink];
        for (strict, requests, exact) in [
            (false, &writes[..], 0.995 * first(0.8)),
            (true, &writes[..], 0.95 * first(0.741)),
            (false, &[Request::CountLink, Request::GetLinksList], 0.995 * first(0.8)),
            (false, &[Request::GetNode], first(0.625)),
        ] {
            let found = hottest(strict, requests);
            assert!(near(found, exact), "{requests:?}: {found} for {exact}");
        }
        assert!(hottest(false, &[Request::DeleteNode]) < 0.01, "uniform");
    }

    #[test]
    fn lists_that_hit_their_limit_are_continued() {
        let (choices, mut requester) = (Choices::new(42, IDS, false), Requester::new(42, 0));
        let list = List { id1: 7, link_type: TYPES[1], time: 5 };
        for _ in 0..3 * HISTORY_MAX {
            requester.remember(list);
        }
        assert_eq!(requester.history.len(), HISTORY_MAX);
        let (mut lists, mut continued) = (0u32, 0u32);
        for _ in 0..200_000 {
            choices.draw(&mut requester);
            lists += u32::from(requester.drawn.request == Request::GetLinksList);
            if requester.drawn.continued == Some(list) {
                continued += 1;
                requester.remember(list);
            }
        }
        let share = f64::from(continued) / f64::from(lists);
        assert!((0.002..0.004).contains(&share), "{share}");
    }
}
