// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who may still read what is dead: pins of versions, and pins of lineages.
//!
//! A **version pin** (reader, job, checkpoint, the two superblock slots) keeps the pages of all
//! lineages that were alive in that version. A **lineage pin** (a clone, a named snapshot) keeps the
//! pages of one lineage, for as long as its holder stands in some version: it is born and dies with
//! versions as a page does, so that a reader of a version before a clone was dropped, or the older
//! slot, still finds what the clone inherited (Rules: I18, I19).
//!
//! Invariants
//! 1. A page [birth, death) is kept while a version pin lies in it, or a lineage pin of its lineage
//!    that is in force.
//! 2. A lineage pin [from, until) is in force while it is open or a version pin lies in it.
//!
//! Threads: under the lock of [`Space`](super::Space).

use std::collections::{BTreeMap, BTreeSet};

use crate::types::{Lineage, Publish};

/// `until` of a pin, `death` of a page, that has not come.
pub(super) const NEVER: Publish = Publish(u64::MAX);

/// One lineage pin.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct LineagePin {
    pub lineage: Lineage,
    pub publish: Publish,
    /// The first version in which the holder stands.
    pub from: Publish,
    /// The first version in which it no longer does.
    pub until: Publish,
}

/// What keeps a dead page.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) enum Keeper {
    Lineage(Lineage, Publish),
    Version(Publish),
}

/// All pins.
#[derive(Debug, Default)]
pub(super) struct Pins {
    versions: BTreeMap<Publish, u32>,
    /// (from, until) of each pin.
    lineages: BTreeMap<(Lineage, Publish), Vec<(Publish, Publish)>>,
    /// Those with a closed pin.
    closing: BTreeSet<(Lineage, Publish)>,
}

impl Pins {
    pub fn pin_version(&mut self, version: Publish) {
        *self.versions.entry(version).or_insert(0) += 1;
    }

    /// True if this was the last pin of the version; panics if there was none.
    pub fn unpin_version(&mut self, version: Publish) -> bool {
        let count = self.versions.get_mut(&version);
        let count = count.expect("I18: a version is unpinned by whoever pinned it");
        *count -= 1;
        let last = *count == 0;
        if last {
            self.versions.remove(&version);
        }
        last
    }

    pub fn pin_lineage(&mut self, pin: LineagePin) {
        let key = (pin.lineage, pin.publish);
        self.lineages.entry(key).or_default().push((pin.from, pin.until));
        if pin.until != NEVER {
            self.closing.insert(key);
        }
    }

    /// Closes one open pin, the oldest; false if there is none. Which one is closed does not matter:
    /// the versions covered by all of them together stay the same.
    pub fn close_lineage(&mut self, lineage: Lineage, publish: Publish, until: Publish) -> bool {
        let spans = self.lineages.get_mut(&(lineage, publish));
        let open = spans.and_then(|spans| {
            spans.iter_mut().filter(|(_, end)| *end == NEVER).min_by_key(|(from, _)| *from)
        });
        match open {
            Some(span) => {
                span.1 = until;
                self.closing.insert((lineage, publish));
                true
            }
            None => false,
        }
    }

    /// Drops closed pins that no version needs; the keys that lost their last pin.
    pub fn expire(&mut self) -> Vec<Keeper> {
        let (lineages, versions) = (&mut self.lineages, &self.versions);
        let mut gone = Vec::new();
        self.closing.retain(|key| {
            let Some(spans) = lineages.get_mut(key) else { return false };
            spans.retain(|&(from, until)| {
                until == NEVER || versions.range(from..until.max(from)).next().is_some()
            });
            let closing = spans.iter().any(|&(_, until)| until != NEVER);
            if spans.is_empty() {
                lineages.remove(key);
                gone.push(Keeper::Lineage(key.0, key.1));
            }
            closing
        });
        gone
    }

    /// What keeps a page of `lineage` that lived in [birth, death): a lineage pin if there is one,
    /// for those last; of each kind the newest.
    pub fn keeper(&self, lineage: Lineage, birth: Publish, death: Publish) -> Option<Keeper> {
        if birth >= death {
            return None;
        }
        let pin = self.lineages.range((lineage, birth)..(lineage, death)).next_back();
        if let Some((&(lineage, publish), _)) = pin {
            return Some(Keeper::Lineage(lineage, publish));
        }
        let version = self.versions.range(birth..death).next_back();
        version.map(|(&version, _)| Keeper::Version(version))
    }

    /// The lineage pins that stand in version `at` or in the older slot's `previous`, as a map
    /// written for `at` lists them.
    pub fn standing(&self, at: Publish, previous: Publish) -> Vec<LineagePin> {
        let mut pins = Vec::new();
        for (&(lineage, publish), spans) in &self.lineages {
            for &(from, until) in spans {
                if from <= at && (until > at || (from <= previous && previous < until)) {
                    let until = if until > at { NEVER } else { until };
                    pins.push(LineagePin { lineage, publish, from, until });
                }
            }
        }
        pins.sort_unstable();
        pins
    }

    /// Versions pinned, oldest first.
    pub fn versions(&self) -> impl Iterator<Item = Publish> + '_ {
        self.versions.keys().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const L: Lineage = Lineage(3);

    /// Rule: I19. A reader of a version with the clone keeps the clone's pin alive.
    #[test]
    fn a_dropped_clone_stays_pinned_for_versions_that_had_it() {
        let mut pins = Pins::default();
        let pin = LineagePin { lineage: L, publish: Publish(5), from: Publish(6), until: NEVER };
        pins.pin_lineage(pin);
        pins.pin_version(Publish(8));
        assert_eq!(
            pins.keeper(L, Publish(2), Publish(6)),
            Some(Keeper::Lineage(L, Publish(5))),
            "alive in 5, dead before 8"
        );
        assert_eq!(pins.keeper(Lineage(4), Publish(2), Publish(6)), None, "another lineage");
        assert!(pins.close_lineage(L, Publish(5), Publish(9)));
        assert!(!pins.close_lineage(L, Publish(5), Publish(9)), "closed once");
        assert!(pins.expire().is_empty(), "version 8 still has the clone");
        assert!(pins.unpin_version(Publish(8)));
        assert_eq!(pins.expire(), [Keeper::Lineage(L, Publish(5))]);
        assert_eq!(pins.keeper(L, Publish(2), Publish(6)), None);
    }

    #[test]
    fn the_map_lists_pins_of_its_version_and_of_the_older_slot() {
        let mut pins = Pins::default();
        let pin = |from, until| LineagePin {
            lineage: L,
            publish: Publish(1),
            from: Publish(from),
            until: Publish(until),
        };
        pins.pin_lineage(pin(3, 12)); // dropped after the map's version: open in it
        pins.pin_lineage(pin(4, 9)); // dropped between the slots
        pins.pin_lineage(pin(5, 7)); // dropped before both
        pins.pin_lineage(pin(11, u64::MAX)); // made after
        let listed = pins.standing(Publish(10), Publish(7));
        assert_eq!(listed, [pin(3, u64::MAX), pin(4, 9)]);
    }
}
