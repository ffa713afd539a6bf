//! The dependency graph: points of transactions, and an edge for each reason why one must come
//! before another.
//!
//! | edge | from | to |
//! |---|---|---|
//! | ww | the writer of a version | the writer of the next one |
//! | wr | the writer of a version | a reader of it |
//! | rw | a reader of a version | the writer of the next one |
//! | time | a transaction that had ended | one that began after that |
//! | order | a point of a transaction | its next point |
//!
//! The table in `mod.rs` says which points a transaction has, and at which of them dependencies
//! enter.

use std::collections::BTreeMap;

use frond::Isolation;

use super::{
    Call, Key, Number, Outcome,
    versions::{Read, Seen, Versions},
};

/// Why one point comes before another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Why {
    /// It wrote the number right after another one of the same key.
    Ww(What, Number),
    Wr(What, Number),
    /// It did not see the number.
    Rw(What, Number),
    Time,
    Order,
}

/// A list or a register.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum What {
    List(Key),
    Register(Key),
}

/// An edge to a point.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    pub to: usize,
    pub why: Why,
}

/// Points and edges.
pub(super) struct Graph {
    /// The transaction of a point; `None`: a moment of real time.
    pub owner: Vec<Option<usize>>,
    pub edges: Vec<Vec<Edge>>,
    /// The commit of each transaction that counts.
    commits: Vec<usize>,
    /// The snapshot of each transaction, if it is a point of its own.
    snapshots: Vec<Option<usize>>,
    /// The prepare of each transaction, if it released what it had only read.
    prepares: Vec<Option<usize>>,
    /// Points of calls: at `ReadCommitted`, and of glimpses.
    calls: BTreeMap<(usize, u32), usize>,
}

impl Graph {
    pub fn of(versions: &Versions<'_>) -> Self {
        let count = versions.history.txns.len();
        let mut graph = Self {
            owner: Vec::new(),
            edges: Vec::new(),
            commits: vec![usize::MAX; count],
            snapshots: vec![None; count],
            prepares: vec![None; count],
            calls: BTreeMap::new(),
        };
        for at in (0..count).filter(|at| versions.counts[*at]) {
            graph.place(versions, at);
        }
        graph.join_lists(versions);
        graph.join_registers(versions);
        graph.join_time(versions);
        graph
    }

    fn point(&mut self, owner: Option<usize>) -> usize {
        self.owner.push(owner);
        self.edges.push(Vec::new());
        self.owner.len() - 1
    }

    fn edge(&mut self, from: usize, to: usize, why: Why) {
        if from != to {
            self.edges[from].push(Edge { to, why });
        }
    }

    /// Adds the points of a transaction.
    fn place(&mut self, versions: &Versions<'_>, at: usize) {
        let txn = versions.txn(at);
        let mut before: Option<usize> = None;
        for (number, call) in &txn.calls {
            let has_moment = match call {
                Call::Glimpse(..) => true,
                Call::List(_, _, locks) | Call::Register(_, _, locks) => {
                    txn.isolation == Isolation::ReadCommitted && !locks
                }
                _ => false,
            };
            if has_moment && !self.calls.contains_key(&(at, *number)) {
                let point = self.point(Some(at));
                self.calls.insert((at, *number), point);
                if let Some(before) = before.replace(point) {
                    self.edge(before, point, Why::Order);
                }
            }
        }
        let has_snapshot = matches!(txn.isolation, Isolation::RepeatableRead | Isolation::Snapshot);
        if has_snapshot && txn.reads_plainly() {
            self.snapshots[at] = Some(self.point(Some(at)));
        }
        if txn.prepared && txn.isolation != Isolation::Serializable {
            self.prepares[at] = Some(self.point(Some(at)));
        }
        self.commits[at] = self.point(Some(at));
        for before in before.into_iter().chain(self.snapshots[at]).chain(self.prepares[at]) {
            self.edge(before, self.commits[at], Why::Order);
        }
    }

    /// The point of a read, for what comes after it.
    fn point_of(&self, versions: &Versions<'_>, read: &Read<'_>) -> usize {
        let commit = self.commits[read.txn];
        if read.locks {
            let txn = versions.txn(read.txn);
            let is_written = match read.seen {
                Seen::List(_) => txn.last_append(read.key).is_some(),
                Seen::Register(_) => txn.last_set(read.key).is_some(),
            };
            return self.prepares[read.txn].filter(|_| !is_written).unwrap_or(commit);
        }
        let call = self.calls.get(&(read.txn, read.call)).copied();
        call.or(self.snapshots[read.txn]).unwrap_or(commit)
    }

    /// The point at which dependencies on earlier points enter: a snapshot transaction knows of
    /// nothing after its snapshot.
    fn entry_of(&self, versions: &Versions<'_>, at: usize, point: usize) -> usize {
        match versions.txn(at).isolation {
            Isolation::Snapshot => self.snapshots[at].unwrap_or(point),
            _ => point,
        }
    }

    fn follow(&mut self, versions: &Versions<'_>, from: usize, to: usize, why: Why) {
        let entry = self.entry_of(versions, to, self.commits[to]);
        if from != to {
            self.edge(self.commits[from], entry, why);
        }
    }

    /// The writer of a number, if it counts.
    fn writer(versions: &Versions<'_>, number: Number) -> Option<usize> {
        versions.writer.get(&number).copied().filter(|at| versions.counts[*at])
    }

    fn saw(&mut self, versions: &Versions<'_>, read: &Read<'_>, what: What, number: Number) {
        let Some(writer) = Self::writer(versions, number).filter(|at| *at != read.txn) else {
            return;
        };
        let point = self.point_of(versions, read);
        let entry = if read.is_glimpse { point } else { self.entry_of(versions, read.txn, point) };
        self.edge(self.commits[writer], entry, Why::Wr(what, number));
    }

    fn missed(&mut self, versions: &Versions<'_>, read: &Read<'_>, what: What, number: Number) {
        let Some(writer) = Self::writer(versions, number).filter(|at| *at != read.txn) else {
            return;
        };
        let (from, to) = (self.point_of(versions, read), self.commits[writer]);
        self.edge(from, to, Why::Rw(what, number));
    }

    fn join_lists(&mut self, versions: &Versions<'_>) {
        for (key, order) in &versions.lists {
            for pair in order.windows(2) {
                let (one, two) = (Self::writer(versions, pair[0]), Self::writer(versions, pair[1]));
                if let (Some(one), Some(two)) = (one, two) {
                    self.follow(versions, one, two, Why::Ww(What::List(*key), pair[1]));
                }
            }
        }
        for read in &versions.reads {
            let Seen::List(seen) = read.seen else { continue };
            let what = What::List(read.key);
            if let Some(last) = seen.last() {
                self.saw(versions, read, what, *last);
            }
            // Its own number may come next; then it has not seen the writer after that, either.
            let order = versions.lists[&read.key].get(seen.len()..).unwrap_or_default();
            let other = order.iter().find(|next| versions.writer.get(next) != Some(&read.txn));
            if let Some(next) = other {
                self.missed(versions, read, what, *next);
            }
        }
    }

    fn join_registers(&mut self, versions: &Versions<'_>) {
        let mut next: BTreeMap<(Key, Option<Number>), Vec<Number>> = BTreeMap::new();
        for (key, before, after) in &versions.registers {
            // A writer that has not read the register follows no version, and only later versions
            // follow it.
            next.entry((*key, *before)).or_default().push(*after);
            let Some(before) = before else { continue };
            let ends = (Self::writer(versions, *before), Self::writer(versions, *after));
            if let (Some(one), Some(two)) = ends {
                self.follow(versions, one, two, Why::Ww(What::Register(*key), *after));
            }
        }
        for read in &versions.reads {
            let Seen::Register(seen) = read.seen else { continue };
            let what = What::Register(read.key);
            if let Some(seen) = seen {
                self.saw(versions, read, what, seen);
            }
            for number in next.get(&(read.key, seen)).into_iter().flatten() {
                self.missed(versions, read, what, *number);
            }
        }
    }

    /// Adds a chain of the moments at which transactions ended; each transaction that began later
    /// follows the last moment before its start.
    fn join_time(&mut self, versions: &Versions<'_>) {
        let counts = |at: &usize| versions.counts[*at];
        let txns: Vec<usize> = (0..versions.history.txns.len()).filter(counts).collect();
        let known = |at: &usize| versions.txn(*at).outcome == Outcome::Committed;
        let mut ended: Vec<usize> = txns.iter().copied().filter(known).collect();
        ended.sort_by_key(|at| versions.txn(*at).ended);
        let mut moments: Vec<(u64, usize)> = Vec::new();
        for at in ended {
            let point = self.point(None);
            self.edge(self.commits[at], point, Why::Time);
            if let Some((_, before)) = moments.last() {
                self.edge(*before, point, Why::Time);
            }
            moments.push((versions.txn(at).ended, point));
        }
        for at in txns {
            let begun = versions.txn(at).begun;
            let before = moments.partition_point(|(moment, _)| *moment < begun);
            let Some((_, moment)) = before.checked_sub(1).map(|last| moments[last]) else {
                continue;
            };
            let calls = self.calls.range((at, 0)..=(at, u32::MAX)).next().map(|(_, point)| *point);
            let first = calls.into_iter().chain(self.snapshots[at]);
            let first: Vec<usize> = first.chain(self.prepares[at]).collect();
            self.edge(moment, self.commits[at], Why::Time);
            first.into_iter().for_each(|point| self.edge(moment, point, Why::Time));
        }
    }
}
