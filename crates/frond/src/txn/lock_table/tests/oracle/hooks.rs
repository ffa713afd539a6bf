//! Server hooks that record waits and influence them, and a check that they are notified of exactly
//! what the definition says.
//!
//! When an owner begins to wait, each transaction that it waits for is reported once. An insert
//! that checks again because a gap was released, or an owner that proceeds to one that answers for
//! a spilled row, is reported again. An owner that waits for nothing is not reported: its
//! wait was ended by the search for cycles, or became free because of it. In a deadlock one
//! transaction is aborted and notified, once: the one that the server prefers, or the one that has
//! written least.

use std::collections::{BTreeMap, BTreeSet};

use super::{game::Game, spilled::Edges, *};

/// Whether the order of these two is settled elsewhere: then gaps do not conflict between them.
pub fn is_settled(a: usize, b: usize) -> bool {
    (a + b) % 4 == 1
}

/// The preferred victim of the two.
fn preferred(a: usize, b: usize) -> Option<usize> {
    match (a + b) % 3 {
        0 => Some(a.max(b)),
        1 => Some(a.min(b)),
        _ => None,
    }
}

/// The tag of an owner.
pub fn tag(owner: usize) -> u64 {
    owner as u64 + 100
}

/// Hooks that answer, and record the calls that they get.
#[derive(Debug, Default)]
pub struct Server {
    told: Mutex<Vec<(usize, usize)>>,
    asked: Mutex<Vec<(usize, usize)>>,
}

/// The index of a party; `usize::MAX` if its tag belongs to another.
fn owner(party: &LockParty) -> usize {
    let owner = party.id() as usize;
    if party.tag() == tag(owner) { owner } else { usize::MAX }
}

impl Hooks for Server {
    fn on_wait(&self, waiter: &LockParty, holder: &LockParty) {
        self.told.lock().unwrap().push((owner(waiter), owner(holder)));
    }

    fn prefer(&self, a: &LockParty, b: &LockParty) -> Option<u64> {
        let (a, b) = (owner(a), owner(b));
        self.asked.lock().unwrap().push((a, b));
        preferred(a, b).map(|owner| owner as u64)
    }

    fn needs_order(&self, inserter: &LockParty, holder: &LockParty) -> bool {
        !is_settled(owner(inserter), owner(holder))
    }
}

/// What is reported of one wait.
#[derive(Debug, Default)]
struct Wait {
    told: Vec<usize>,
    /// All owners for which it was reported.
    ever: BTreeSet<usize>,
    /// The owners for which it waited when it began, if it is still the same wait.
    first: Option<BTreeSet<usize>>,
}

impl Wait {
    fn is_notified(&self, of: &BTreeSet<usize>) -> bool {
        let mut told = self.told.clone();
        told.sort_unstable();
        told.iter().eq(of.iter())
    }
}

/// What was reported, and what should be reported in this step.
#[derive(Debug, Default)]
pub struct Heard {
    server: Option<Arc<Server>>,
    waits: BTreeMap<usize, Wait>,
    /// The owner whose wait began.
    began: Option<usize>,
    /// Owners whose inserts check again, because a gap for which they waited was released.
    woken: BTreeSet<usize>,
    /// The victims.
    victims: Vec<usize>,
    /// The waits-for graph when the wait had begun.
    edges: Edges,
    victims_ever: u64,
    last_deadlock: Option<Arc<Deadlock>>,
    /// Number of owners on the longest cycle.
    pub longest: usize,
}

impl Heard {
    pub fn of(server: Option<Arc<Server>>) -> Self {
        Self { server, ..Self::default() }
    }
}

impl Game {
    /// Records that a wait has begun by definition; cycles that it closes are not resolved yet.
    pub fn note_wait_begin(&mut self, owner: usize) {
        self.heard.began = Some(owner);
        self.heard.edges = self.defined();
        self.note_edges();
    }

    /// Records that gaps of an owner are about to be released.
    pub fn note_gap_release(&mut self, owner: usize) {
        self.heard.woken.extend(self.model.inserts_into_gaps_of(owner));
    }

    pub fn heard_victim(&mut self, owner: usize) {
        self.heard.victims.push(owner);
        self.heard.victims_ever += 1;
    }

    fn note_edges(&mut self) {
        for (owner, blockers) in self.defined() {
            self.heard.waits.entry(owner).or_default().ever.extend(blockers);
        }
    }

    /// After a step, checks that the server was notified of exactly what it should be.
    pub fn check_notifications(&mut self) {
        self.deadlocks_are_reported_once();
        if let Some(server) = self.heard.server.clone() {
            self.note_edges();
            // An owner that is about to sleep may not have reported yet.
            let is_notified = (0..1_000_000).any(|round| {
                if round > 0 {
                    thread::yield_now();
                }
                for (waiter, holder) in server.told.lock().unwrap().drain(..) {
                    self.heard.waits.entry(waiter).or_default().told.push(holder);
                }
                self.waiting().all(|owner| self.is_notified(owner))
            });
            if !is_notified {
                self.fail(&format!("by definition is to be told {:?}", self.defined()));
            }
            self.nothing_else_is_reported(&server);
        }
        self.heard.began = None;
        self.heard.woken.clear();
        self.heard.victims.clear();
    }

    /// Whether everything was reported of a wait in progress.
    fn is_notified(&self, owner: usize) -> bool {
        let wait = &self.heard.waits[&owner];
        let blockers = self.model.blockers(owner);
        if self.model.waits_beyond(owner) {
            !wait.told.is_empty()
        } else if self.heard.began == Some(owner) {
            wait.is_notified(&blockers)
        } else if self.heard.woken.contains(&owner) {
            blockers.iter().all(|blocker| wait.told.contains(blocker))
        } else {
            wait.first.as_ref().is_none_or(|first| wait.is_notified(first))
        }
    }

    fn nothing_else_is_reported(&mut self, server: &Server) {
        let mut wrong = Vec::new();
        for (&owner, wait) in &mut self.heard.waits {
            let waits = self.model.is_waiting(owner);
            let began = self.heard.began == Some(owner);
            let moves = self.heard.woken.contains(&owner) || self.model.waits_beyond(owner);
            if waits && began {
                wait.first = Some(self.model.blockers(owner));
            }
            if moves {
                wait.first = None;
            }
            let of_others = wait.told.iter().any(|holder| !wait.ever.contains(holder));
            // Beyond memory it may have waited for one, and then for another.
            let of_nobody = began && !waits && !self.rules.spills && !wait.told.is_empty();
            let twice = wait.first.as_ref().is_some_and(|first| !wait.is_notified(first));
            if of_others || of_nobody || twice {
                wrong.push((owner, format!("{wait:?}")));
            }
        }
        for (a, b) in server.asked.lock().unwrap().drain(..) {
            if a == b || ![a, b].iter().all(|owner| self.on_cycles.contains(owner)) {
                wrong.push((a, format!("or {b}: the server is asked, and they are on no cycle")));
            }
        }
        if !wrong.is_empty() {
            self.fail(&format!("told more than is: {wrong:?}"));
        }
        self.heard.waits.retain(|owner, _| self.model.is_waiting(*owner));
    }

    /// Whether the first of two on a cycle is the preferred victim over the second, the candidate
    /// so far.
    pub fn is_rather_ended(&self, one: usize, so_far: usize) -> bool {
        let writes = |owner: usize| self.players[owner].owner.writes();
        let preferred = self.heard.server.as_ref().and_then(|_| preferred(one, so_far));
        preferred.map_or(writes(one) < writes(so_far), |preferred| preferred == one)
    }

    /// Checks that as many waits ended by a deadlock as owners were notified, and that the report
    /// of the last cycle is right.
    fn deadlocks_are_reported_once(&mut self) {
        let last = self.table.last_deadlock();
        let ended = self.table.stats().deadlocks;
        if ended != self.heard.victims_ever {
            self.fail(&format!("{ended} deadlocks, by definition {}", self.heard.victims_ever));
        }
        let was = std::mem::replace(&mut self.heard.last_deadlock, last.clone());
        let is_new = last.as_ref().map(Arc::as_ptr) != was.as_ref().map(Arc::as_ptr);
        if is_new == self.heard.victims.is_empty() {
            self.fail(&format!("{last:?}, but were ended {:?}", self.heard.victims));
        }
        let Some(deadlock) = last.filter(|_| is_new) else { return };
        let parties: Vec<usize> = deadlock.parties.iter().map(|party| party.id as usize).collect();
        self.heard.longest = self.heard.longest.max(parties.len());
        let next = parties.iter().cycle().skip(1);
        let edges = &self.heard.edges;
        let is_cycle = parties.iter().zip(next).all(|(one, next)| edges[one].contains(next));
        let mut chosen = parties[0];
        for &other in &parties[1..] {
            if self.is_rather_ended(other, chosen) {
                chosen = other;
            }
        }
        let is_so = deadlock.victim as usize == chosen && self.heard.victims.contains(&chosen);
        let tags = deadlock.parties.iter().all(|party| party.tag == tag(party.id as usize));
        if !is_cycle || !is_so || !tags {
            let victims = &self.heard.victims;
            self.fail(&format!("{deadlock:?}: {chosen} of {edges:?}; ended were {victims:?}"));
        }
    }
}
