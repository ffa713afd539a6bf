//! Pins: what keeps dead pages from being freed.
//!
//! A **version pin** (reader, job, checkpoint, the two superblock slots) keeps the pages of all
//! lineages that were alive in that version, and ends with the process. A **named pin** (a named
//! snapshot) keeps the same, is in the space map, and costs one entry however many trees there are.
//! A **lineage pin** (a clone) keeps the pages of one lineage. The last two are born and die with
//! versions as pages do, so that a reader of a version before a clone was dropped, or the older
//! slot, still finds what the clone inherited (Rules: I18, I19).
//!
//! A named snapshot need not pin what its clones inherited: the pins of those clones are in force
//! as long as the snapshot's version has the clones (invariant 2).
//!
//! Invariants
//! 1. A page [birth, death) is kept while that interval contains a version pin, a named pin that is
//!    in force, or a lineage pin of its lineage that is in force. Pages of the space map are kept
//!    by version pins alone: no snapshot reads them.
//! 2. A lineage pin [from, until) is in force while it is open, or while the interval contains a
//!    version pin or a named pin in force.
//! 3. A named pin [from, until) is in force while it is open or while the interval contains a
//!    version pin.
//! 4. In the space map a named pin is a pin of the store's own lineage.
//!
//! Threads: under the lock of [`Space`](super::Space).

use std::collections::{BTreeMap, BTreeSet};

use super::space::STORE_LINEAGE;
use crate::types::{Lineage, VersionNumber};

/// The `until` of an open pin and the `death` of a live page.
pub(super) const NEVER: VersionNumber = VersionNumber(u64::MAX);

/// A pin of one lineage.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct LineagePin {
    pub lineage: Lineage,
    pub publish: VersionNumber,
    /// The first version in which the holder exists.
    pub from: VersionNumber,
    /// The first version in which it no longer exists.
    pub until: VersionNumber,
}

/// What keeps a dead page.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) enum Keeper {
    Lineage(Lineage, VersionNumber),
    Named(VersionNumber),
    Version(VersionNumber),
}

/// All pins of a store.
#[derive(Debug, Default)]
pub(super) struct Pins {
    versions: BTreeMap<VersionNumber, u32>,
    /// Number of lineage pins and named pins.
    count: usize,
    /// (from, until) of each lineage pin.
    lineages: BTreeMap<(Lineage, VersionNumber), Vec<(VersionNumber, VersionNumber)>>,
    /// The keys with a closed pin.
    closing: BTreeSet<(Lineage, VersionNumber)>,
    /// (from, until) of each named pin, by the version that it keeps.
    named: BTreeMap<VersionNumber, Vec<(VersionNumber, VersionNumber)>>,
    /// The named versions with a closed pin.
    closing_named: BTreeSet<VersionNumber>,
}

impl Pins {
    pub fn pin_version(&mut self, version: VersionNumber) {
        *self.versions.entry(version).or_insert(0) += 1;
    }

    /// Removes one pin of a version; true if it was the last. Panics if there was none.
    pub fn unpin_version(&mut self, version: VersionNumber) -> bool {
        let count = self.versions.get_mut(&version);
        let count = count.expect("I18: a version is unpinned once for each pin");
        *count -= 1;
        let last = *count == 0;
        if last {
            self.versions.remove(&version);
        }
        last
    }

    /// Pins a lineage; the store's own lineage means a whole version.
    pub fn pin_lineage(&mut self, pin: LineagePin) {
        self.count += 1;
        if pin.lineage == STORE_LINEAGE {
            self.named.entry(pin.publish).or_default().push((pin.from, pin.until));
            if pin.until != NEVER {
                self.closing_named.insert(pin.publish);
            }
            return;
        }
        let key = (pin.lineage, pin.publish);
        self.lineages.entry(key).or_default().push((pin.from, pin.until));
        if pin.until != NEVER {
            self.closing.insert(key);
        }
    }

    /// Closes the oldest open pin; false if there is none. Which one is closed does not matter: the
    /// versions covered by all of them together stay the same.
    pub fn close_lineage(
        &mut self,
        lineage: Lineage,
        publish: VersionNumber,
        until: VersionNumber,
    ) -> bool {
        let is_named = lineage == STORE_LINEAGE;
        let spans = match is_named {
            true => self.named.get_mut(&publish),
            false => self.lineages.get_mut(&(lineage, publish)),
        };
        let open = spans.and_then(|spans| {
            spans.iter_mut().filter(|(_, end)| *end == NEVER).min_by_key(|(from, _)| *from)
        });
        let Some(span) = open else { return false };
        span.1 = until;
        match is_named {
            true => self.closing_named.insert(publish),
            false => self.closing.insert((lineage, publish)),
        };
        true
    }

    /// Drops closed pins that no version needs; returns the keys that lost their last pin.
    pub fn expire(&mut self) -> Vec<Keeper> {
        let mut gone = Vec::new();
        let (named, versions, count) = (&mut self.named, &self.versions, &mut self.count);
        self.closing_named.retain(|&publish| {
            let Some(spans) = named.get_mut(&publish) else { return false };
            *count -= spans.len();
            spans.retain(|&(from, until)| {
                until == NEVER || versions.range(from..until.max(from)).next().is_some()
            });
            *count += spans.len();
            let closing = spans.iter().any(|&(_, until)| until != NEVER);
            if spans.is_empty() {
                named.remove(&publish);
                gone.push(Keeper::Named(publish));
            }
            closing
        });
        let (lineages, named, count) = (&mut self.lineages, &self.named, &mut self.count);
        self.closing.retain(|key| {
            let Some(spans) = lineages.get_mut(key) else { return false };
            *count -= spans.len();
            spans.retain(|&(from, until)| {
                let lived = from..until.max(from);
                until == NEVER
                    || versions.range(lived.clone()).next().is_some()
                    || (named.range(lived).next().is_some()
                        && !plant!("store: a named pin lets the pins of dropped clones go"))
            });
            *count += spans.len();
            let closing = spans.iter().any(|&(_, until)| until != NEVER);
            if spans.is_empty() {
                lineages.remove(key);
                gone.push(Keeper::Lineage(key.0, key.1));
            }
            closing
        });
        gone
    }

    /// The keeper of a page of `lineage` that lived in [birth, death): a lineage pin if there is
    /// one, else a named pin, because those last longest; within a kind the newest.
    pub fn keeper(
        &self,
        lineage: Lineage,
        birth: VersionNumber,
        death: VersionNumber,
    ) -> Option<Keeper> {
        if birth >= death {
            return None;
        }
        let pin = self.lineages.range((lineage, birth)..(lineage, death)).next_back();
        if let Some((&(lineage, publish), _)) = pin {
            return Some(Keeper::Lineage(lineage, publish));
        }
        let named = self.named.range(birth..death).next_back();
        if let Some((&publish, _)) = named
            && !plant!("store: a named pin keeps nothing")
        {
            return Some(Keeper::Named(publish));
        }
        self.keeper_of_map(birth, death)
    }

    /// The keeper of a page of the space map that lived in [birth, death).
    pub fn keeper_of_map(&self, birth: VersionNumber, death: VersionNumber) -> Option<Keeper> {
        if birth >= death {
            return None;
        }
        let version = self.versions.range(birth..death).next_back();
        version.map(|(&version, _)| Keeper::Version(version))
    }

    /// The lineage pins and named pins in force in version `at` or in the older slot's `previous`,
    /// as a map written for `at` lists them.
    pub fn standing(&self, at: VersionNumber, previous: VersionNumber) -> Vec<LineagePin> {
        let lives =
            |from, until| from <= at && (until > at || (from <= previous && previous < until));
        let mut pins = Vec::new();
        let mut list = |lineage, publish, from, until| {
            let until = if until > at { NEVER } else { until };
            pins.push(LineagePin { lineage, publish, from, until });
        };
        let mut named = BTreeSet::new();
        for (&publish, spans) in &self.named {
            for &(from, until) in spans.iter().filter(|&&(from, until)| lives(from, until)) {
                list(STORE_LINEAGE, publish, from, until);
                named.insert(publish);
            }
        }
        for (&(lineage, publish), spans) in &self.lineages {
            for &(from, until) in spans {
                let is_read = || from <= at && named.range(from..until.max(from)).next().is_some();
                if lives(from, until) || is_read() {
                    list(lineage, publish, from, until);
                }
            }
        }
        pins.sort_unstable();
        pins
    }

    /// Number of lineage pins and named pins that the directory of the space map lists at most.
    pub fn lineage_pins(&self) -> usize {
        self.count
    }

    /// The pinned versions, oldest first.
    pub fn versions(&self) -> impl Iterator<Item = VersionNumber> + '_ {
        self.versions.keys().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const L: Lineage = Lineage(3);

    fn named(publish: u64) -> LineagePin {
        let publish = VersionNumber(publish);
        LineagePin { lineage: STORE_LINEAGE, publish, from: publish, until: NEVER }
    }

    /// Rule: I19. One pin keeps the pages of all lineages, and what a clone inherited that was
    /// dropped since.
    #[test]
    fn a_named_pin_keeps_its_version_and_pages_of_dropped_clones() {
        let mut pins = Pins::default();
        let pin = LineagePin {
            lineage: L,
            publish: VersionNumber(5),
            from: VersionNumber(6),
            until: NEVER,
        };
        pins.pin_lineage(pin);
        pins.pin_lineage(named(10));
        for lineage in [L, Lineage(4), STORE_LINEAGE] {
            let keeper = pins.keeper(lineage, VersionNumber(8), VersionNumber(11));
            assert_eq!(keeper, Some(Keeper::Named(VersionNumber(10))));
        }
        assert_eq!(
            pins.keeper_of_map(VersionNumber(8), VersionNumber(11)),
            None,
            "maps are for no snapshot"
        );
        assert!(pins.close_lineage(L, VersionNumber(5), VersionNumber(12)), "the clone is dropped");
        assert!(pins.expire().is_empty(), "version 10 has the clone");
        let closed = LineagePin { until: VersionNumber(12), ..pin };
        assert_eq!(pins.standing(VersionNumber(20), VersionNumber(18)), [closed, named(10)]);
        assert!(pins.close_lineage(STORE_LINEAGE, VersionNumber(10), VersionNumber(21)));
        pins.pin_version(VersionNumber(20));
        assert!(pins.expire().is_empty(), "version 20 has the snapshot");
        assert!(pins.unpin_version(VersionNumber(20)));
        let gone = [Keeper::Named(VersionNumber(10)), Keeper::Lineage(L, VersionNumber(5))];
        assert_eq!(pins.expire(), gone);
        assert!(
            !pins.close_lineage(STORE_LINEAGE, VersionNumber(10), VersionNumber(22)),
            "closed once"
        );
    }

    /// Rule: I19. A reader of a version with the clone keeps the clone's pin alive.
    #[test]
    fn a_dropped_clone_stays_pinned_while_older_versions_show_it() {
        let mut pins = Pins::default();
        let pin = LineagePin {
            lineage: L,
            publish: VersionNumber(5),
            from: VersionNumber(6),
            until: NEVER,
        };
        pins.pin_lineage(pin);
        pins.pin_version(VersionNumber(8));
        assert_eq!(
            pins.keeper(L, VersionNumber(2), VersionNumber(6)),
            Some(Keeper::Lineage(L, VersionNumber(5))),
            "alive in 5, dead before 8"
        );
        assert_eq!(
            pins.keeper(Lineage(4), VersionNumber(2), VersionNumber(6)),
            None,
            "another lineage"
        );
        assert!(pins.close_lineage(L, VersionNumber(5), VersionNumber(9)));
        assert!(!pins.close_lineage(L, VersionNumber(5), VersionNumber(9)), "closed once");
        assert!(pins.expire().is_empty(), "version 8 still has the clone");
        assert!(pins.unpin_version(VersionNumber(8)));
        assert_eq!(pins.expire(), [Keeper::Lineage(L, VersionNumber(5))]);
        assert_eq!(pins.keeper(L, VersionNumber(2), VersionNumber(6)), None);
    }

    #[test]
    fn the_map_lists_pins_of_its_version_and_of_the_older_slot() {
        let mut pins = Pins::default();
        let pin = |from, until| LineagePin {
            lineage: L,
            publish: VersionNumber(1),
            from: VersionNumber(from),
            until: VersionNumber(until),
        };
        pins.pin_lineage(pin(3, 12)); // dropped after the map's version: open in it
        pins.pin_lineage(pin(4, 9)); // dropped between the slots
        pins.pin_lineage(pin(5, 7)); // dropped before both
        pins.pin_lineage(pin(11, u64::MAX)); // made after
        let listed = pins.standing(VersionNumber(10), VersionNumber(7));
        assert_eq!(listed, [pin(3, u64::MAX), pin(4, 9)]);
    }
}
