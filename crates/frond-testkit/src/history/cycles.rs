//! Cycles: strongly connected components by Tarjan; for each, the cycle with the fewest rw edges,
//! its name, and a description.

use std::collections::{BTreeMap, VecDeque};

use super::{
    Anomaly, Finding,
    graph::{Edge, Graph, What, Why},
    versions::Versions,
};

/// Maximum number of points of a component from which cycles are searched: in a component of
/// thousands, any cycle will do.
const STARTS_MAX: usize = 200;

/// Adds a finding for each component that has a cycle.
pub(super) fn find(versions: &Versions<'_>, graph: &Graph, findings: &mut Vec<Finding>) {
    for component in components(graph) {
        if component.len() < 2 {
            continue;
        }
        let starts = component.iter().take(STARTS_MAX);
        let cycles = starts.filter_map(|start| shortest(graph, &component, *start));
        if let Some(cycle) = cycles.min_by_key(|cycle| (reads_before(cycle), cycle.len())) {
            let anomaly = name(graph, &cycle);
            findings.push(Finding { anomaly, story: tell(versions, graph, &cycle) });
        }
    }
}

/// A cycle: each point, and the edge that leaves it.
type Cycle = Vec<(usize, Edge)>;

fn reads_before(cycle: &Cycle) -> usize {
    cycle.iter().filter(|(_, edge)| matches!(edge.why, Why::Rw(..))).count()
}

/// Strongly connected components, without recursion. Tarjan 1972.
fn components(graph: &Graph) -> Vec<Vec<usize>> {
    const NEW: usize = usize::MAX;
    let count = graph.edges.len();
    let (mut index, mut low, mut on_stack) = (vec![NEW; count], vec![0; count], vec![false; count]);
    let (mut stack, mut found, mut next) = (Vec::new(), Vec::new(), 0);
    for root in 0..count {
        if index[root] != NEW {
            continue;
        }
        let mut work = vec![(root, 0)];
        while let Some((point, edge)) = work.pop() {
            if edge == 0 {
                (index[point], low[point]) = (next, next);
                next += 1;
                stack.push(point);
                on_stack[point] = true;
            } else {
                // Returns from the previous edge.
                let to = graph.edges[point][edge - 1].to;
                low[point] = low[point].min(low[to]);
            }
            let (mut edge, mut descends) = (edge, false);
            while let Some(Edge { to, .. }) = graph.edges[point].get(edge).copied() {
                edge += 1;
                if index[to] == NEW {
                    work.push((point, edge));
                    work.push((to, 0));
                    descends = true;
                    break;
                }
                if on_stack[to] {
                    low[point] = low[point].min(index[to]);
                }
            }
            if descends {
                continue;
            }
            if low[point] == index[point] {
                let at = stack.iter().rposition(|on| *on == point).unwrap_or(0);
                let component = stack.split_off(at);
                component.iter().for_each(|point| on_stack[*point] = false);
                found.push(component);
            }
        }
    }
    found
}

/// The cycle through a point with the fewest rw edges, and then the fewest edges.
fn shortest(graph: &Graph, component: &[usize], start: usize) -> Option<Cycle> {
    let inside: BTreeMap<usize, ()> = component.iter().map(|point| (*point, ())).collect();
    let mut before: BTreeMap<usize, (usize, Edge)> = BTreeMap::new();
    let mut best: BTreeMap<usize, usize> = BTreeMap::from([(start, 0)]);
    let mut queue = VecDeque::from([(0, start)]);
    let mut end: Option<(usize, usize, Edge)> = None;
    while let Some((cost, point)) = queue.pop_front() {
        if best.get(&point).is_some_and(|best| *best < cost) {
            continue;
        }
        for edge in &graph.edges[point] {
            let weight = usize::from(matches!(edge.why, Why::Rw(..)));
            let cost = cost + weight;
            if edge.to == start {
                if end.is_none_or(|(least, ..)| cost < least) {
                    end = Some((cost, point, *edge));
                }
                continue;
            }
            if !inside.contains_key(&edge.to) || best.get(&edge.to).is_some_and(|b| *b <= cost) {
                continue;
            }
            best.insert(edge.to, cost);
            before.insert(edge.to, (point, *edge));
            if weight == 0 {
                queue.push_front((cost, edge.to));
            } else {
                queue.push_back((cost, edge.to));
            }
        }
    }
    let (_, mut point, edge) = end?;
    let mut cycle = vec![(point, edge)];
    while point != start {
        let (from, edge) = before[&point];
        cycle.push((from, edge));
        point = from;
    }
    cycle.reverse();
    Some(cycle)
}

/// The steps from transaction to transaction, with moments of real time left out.
fn hops(graph: &Graph, cycle: &Cycle) -> Vec<(usize, Why, usize)> {
    let mut hops = Vec::new();
    let mut from = None;
    let mut through_time = false;
    // Start at a point that belongs to a transaction.
    let start = cycle.iter().position(|(point, _)| graph.owner[*point].is_some()).unwrap_or(0);
    for (point, edge) in cycle.iter().cycle().skip(start).take(cycle.len()) {
        from = graph.owner[*point].or(from);
        through_time |= edge.why == Why::Time;
        let (Some(one), Some(other)) = (from, graph.owner[edge.to]) else { continue };
        if one != other {
            hops.push((one, if through_time { Why::Time } else { edge.why }, other));
        }
        through_time = false;
    }
    hops
}

fn name(graph: &Graph, cycle: &Cycle) -> Anomaly {
    let hops = hops(graph, cycle);
    let is_rw = |at: usize| matches!(hops[at % hops.len()].1, Why::Rw(..));
    let what = |why: &Why| match why {
        Why::Ww(what, _) | Why::Wr(what, _) | Why::Rw(what, _) => Some(*what),
        Why::Time | Why::Order => None,
    };
    match reads_before(cycle) {
        0 if hops.iter().all(|(_, why, _)| matches!(why, Why::Ww(..))) => Anomaly::G0,
        0 => Anomaly::G1c,
        1 => {
            let first = hops.first().and_then(|(_, why, _)| what(why));
            let one_key = hops.iter().all(|(_, why, _)| what(why) == first);
            let round_trips =
                (0..hops.len()).any(|at| is_rw(at + 1) && matches!(hops[at].1, Why::Ww(..)));
            if one_key && round_trips { Anomaly::P4 } else { Anomaly::GSingle }
        }
        _ if (0..hops.len()).any(|at| is_rw(at) && is_rw(at + 1)) => Anomaly::G2,
        _ => Anomaly::GNonadjacent,
    }
}

fn tell(versions: &Versions<'_>, graph: &Graph, cycle: &Cycle) -> String {
    let place = |what: &What| match what {
        What::List(key) => format!("list {key}"),
        What::Register(key) => format!("register {key}"),
    };
    let steps = hops(graph, cycle).into_iter().map(|(one, why, other)| {
        let (one, other) = (versions.name(one), versions.name(other));
        match why {
            Why::Ww(what, number) => {
                format!("{other} wrote {number} over what {one} wrote, {} (ww)", place(&what))
            }
            Why::Wr(what, number) => {
                format!("{other} read {number} of {one}, {} (wr)", place(&what))
            }
            Why::Rw(what, number) => {
                format!("{one} did not see {number} of {other}, {} (rw)", place(&what))
            }
            Why::Time | Why::Order => format!("{one} had ended before {other} began"),
        }
    });
    steps.collect::<Vec<_>>().join("; ")
}
