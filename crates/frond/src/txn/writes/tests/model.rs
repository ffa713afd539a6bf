//! Random histories compared with a map that applies the same operations one by one, with a copy
//! per mark.

use std::{collections::BTreeSet, rc::Rc};

use super::*;
use crate::run::{Direction, MergeCursor, operands};

/// The rows of both trees.
type Rows = [BTreeMap<Vec<u8>, Vec<u8>>; 2];

struct Toss(u64);

impl Toss {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) as usize % end
    }
}

#[derive(Clone)]
struct ModelMark {
    mark: Mark,
    rows: Rc<Rows>,
    deleted_since: BTreeSet<(usize, Vec<u8>)>,
}

/// The state at one moment. A mark's copy is all of it.
#[derive(Clone, Default)]
struct Model {
    now: Rows,
    deltas: [i64; 2],
    maxima: [Option<Vec<u8>>; 2],
    /// For each key with an entry, whether the first one proved it absent.
    entries: [BTreeMap<Vec<u8>, bool>; 2],
    /// The keys with entries that were deleted, except by range deletes, whatever came after.
    deleted: [BTreeSet<Vec<u8>>; 2],
    /// The state of each key: put, deleted or merged; range deletes count, too.
    states: [BTreeMap<Vec<u8>, Word>; 2],
    marks: Vec<ModelMark>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Word {
    Put,
    Deleted,
    Merged,
}

struct Run {
    live: LiveWrites,
    base: Rows,
    keys: [Vec<Vec<u8>>; 2],
    model: Model,
    saved: Vec<Model>,
    toss: Toss,
    /// Use hashes that often collide.
    weak: bool,
}

impl Run {
    fn new(live: LiveWrites, seed: u64) -> Self {
        let mut toss = Toss(seed);
        // Keys with a common prefix, and keys that differ only by zeros.
        let alike = (0..24).map(|n: u8| [b"all alike until ".as_slice(), &[n]].concat());
        let zeros = (0..24).map(|n: u8| [vec![n / 3], vec![0; usize::from(n % 3)]].concat());
        let keys: [Vec<Vec<u8>>; 2] = [alike.collect(), zeros.collect()];
        let mut base = Rows::default();
        for (tree, keys) in keys.iter().enumerate() {
            for key in keys {
                if toss.below(3) == 0 {
                    base[tree].insert(key.clone(), b"base".to_vec());
                }
            }
        }
        let model = Model { now: base.clone(), ..Model::default() };
        Self { live, base, keys, model, saved: Vec::new(), toss, weak: seed.is_multiple_of(4) }
    }

    fn pick(&mut self) -> (usize, Vec<u8>) {
        let tree = self.toss.below(2);
        let key = self.toss.below(self.keys[tree].len());
        (tree, self.keys[tree][key].clone())
    }

    fn hashed<'k>(&self, tree: usize, key: &'k [u8]) -> HashedKey<'k> {
        let key = HashedKey::new(TREES[tree], key);
        if self.weak { HashedKey { hash: key.hash & 3, ..key } } else { key }
    }

    fn entry(&mut self, tree: usize, key: &[u8], is_insert: bool, word: Word, to: Option<Vec<u8>>) {
        let model = &mut self.model;
        let is_untouched = !model.states[tree].contains_key(key);
        model.entries[tree].entry(key.to_vec()).or_insert(is_insert && is_untouched);
        model.states[tree].insert(key.to_vec(), word);
        if word != Word::Deleted {
            model.maxima[tree] = model.maxima[tree].take().max(Some(key.to_vec()));
        } else {
            model.delete(tree, key);
            model.deleted[tree].insert(key.to_vec());
        }
        match to {
            Some(value) => drop(model.now[tree].insert(key.to_vec(), value)),
            None => drop(model.now[tree].remove(key)),
        }
    }

    fn write(&mut self) {
        let (tree, key) = self.pick();
        let value = vec![self.toss.below(256) as u8; self.toss.below(4)];
        let old = self.model.now[tree].get(&key).cloned();
        let hashed = self.hashed(tree, &key);
        let appears = i8::from(old.is_none());
        let mut own = self.live.lock();
        let word = match self.toss.below(9) {
            0..2 => {
                own.put(hashed, &value, appears).unwrap();
                Some((false, Word::Put, Some(value)))
            }
            2..4 if old.is_none() => {
                own.insert(hashed, &value, 1).unwrap();
                Some((true, Word::Put, Some(value)))
            }
            4..6 => {
                own.delete(hashed, appears - 1).unwrap();
                Some((false, Word::Deleted, None))
            }
            6..8 => {
                own.merge(hashed, OPERATOR_APPEND, &value, appears).unwrap();
                let word = match self.model.states[tree].get(&key) {
                    None | Some(Word::Merged) => Word::Merged,
                    Some(Word::Put | Word::Deleted) => Word::Put,
                };
                Some((false, word, Some([old.unwrap_or_default(), value].concat())))
            }
            8 => {
                let to = &self.keys[tree][self.toss.below(self.keys[tree].len())];
                if key < *to {
                    let model = &mut self.model;
                    let gone = model.now[tree].range(key.clone()..to.clone()).count() as i64;
                    model.deltas[tree] -= gone;
                    own.delete_range(TREES[tree], &key, to, -gone).unwrap();
                    for key in self.keys[tree].iter().filter(|own| **own >= key && *own < to) {
                        model.delete(tree, key);
                        model.deleted[tree].remove(key);
                        model.now[tree].remove(key);
                        model.states[tree].insert(key.clone(), Word::Deleted);
                    }
                }
                None
            }
            _ => None,
        };
        drop(own);
        if let Some((is_insert, word, to)) = word {
            let before = self.model.now[tree].len() as i64;
            self.entry(tree, &key, is_insert, word, to);
            self.model.deltas[tree] += self.model.now[tree].len() as i64 - before;
        }
    }

    fn mark(&mut self) {
        let mark = self.live.lock().mark();
        let rows = Rc::new(self.model.now.clone());
        self.model.marks.push(ModelMark { mark, rows, deleted_since: BTreeSet::new() });
        self.saved.push(self.model.clone());
    }

    fn roll_back(&mut self) {
        let Some(to) = self.saved.len().checked_sub(self.toss.below(3) + 1) else { return };
        self.model = self.saved[to].clone();
        self.live.lock().rollback_to(self.model.marks[to].mark);
        self.saved.truncate(to + 1);
    }

    fn check_key(&mut self) {
        let (tree, key) = self.pick();
        let hashed = self.hashed(tree, &key);
        let own = self.live.lock();
        let base = self.base[tree].get(&key);
        let found = value(own.messages(hashed), base.map(Vec::as_slice));
        assert_eq!(found.as_ref(), self.model.now[tree].get(&key), "{tree} {key:?}");
        let is_fresh = self.model.entries[tree].get(&key).copied().unwrap_or(false);
        let expected = match self.model.states[tree].get(&key) {
            None => OwnState::Untouched,
            Some(Word::Put) => OwnState::Put { is_fresh },
            Some(Word::Deleted) => OwnState::Deleted { is_fresh },
            Some(Word::Merged) => OwnState::Merged,
        };
        assert_eq!(own.state_of(hashed), expected, "{tree} {key:?}");
        for mark in &self.model.marks {
            let deleted = mark.deleted_since.contains(&(tree, key.clone()));
            assert_eq!(own.is_deleted_since(hashed, mark.mark), deleted, "{tree} {key:?}");
        }
    }

    fn check_sums(&self) {
        let own = self.live.lock();
        for (at, tree) in TREES.into_iter().enumerate() {
            let delta = own.row_deltas().find(|(of, _)| *of == tree).map_or(0, |(_, rows)| rows);
            assert_eq!(delta, self.model.deltas[at]);
            assert_eq!(own.maximum(tree), self.model.maxima[at].as_deref());
        }
    }

    fn check_pending(&mut self) {
        let (tree, from) = self.pick();
        let to = self.keys[tree][self.toss.below(self.keys[tree].len())].clone();
        let to = (self.toss.below(4) > 0).then_some(to);
        let (mut key, mut found, mut keys) = (from.clone(), Vec::new(), Vec::new());
        while self.live.pending_key(TREES[tree], &key, to.as_deref(), &mut found) {
            keys.push(found.clone());
            key.clone_from(&found);
            key.push(0);
        }
        let expected = self.model.entries[tree].keys();
        let inside = |key: &&Vec<u8>| **key >= from && to.as_ref().is_none_or(|to| *key < to);
        assert!(expected.filter(inside).eq(&keys), "{keys:?}");
        let range = (from.as_slice(), to.as_deref());
        let last = self.live.pending(TREES[tree], range, Direction::Backward, &mut found);
        assert_eq!(last.0.then_some(&found), keys.last());
    }

    /// Checks what a scan of a statement that started at some mark sees, in both directions.
    fn check_scan(&mut self) {
        let (tree, from) = self.pick();
        let (_, to) = self.pick();
        let lo = (self.toss.below(3) > 0).then_some(from);
        let hi = (self.toss.below(3) > 0).then_some(to);
        let (now, none) = (self.live.lock().mark(), BTreeSet::new());
        let (mark, rows, deleted) = match self.toss.below(self.model.marks.len() + 1) {
            0 => (now, &self.model.now, &none),
            at => {
                let ModelMark { mark, rows, deleted_since } = &self.model.marks[at - 1];
                (*mark, &**rows, deleted_since)
            }
        };
        let inside = |key: &Vec<u8>| {
            lo.as_ref().is_none_or(|lo| lo <= key) && hi.as_ref().is_none_or(|hi| key < hi)
        };
        let seen = rows[tree].iter().filter(|(key, _)| inside(key));
        let seen = seen.filter(|(key, _)| !deleted.contains(&(tree, (*key).clone())));
        let expected: Vec<_> = seen.map(|(key, value)| (key.clone(), value.clone())).collect();
        let base: Vec<_> =
            self.base[tree].clone().into_iter().filter(|(key, _)| inside(key)).collect();
        let operators = Operators::new();
        let folder = Folder::new(&operators);
        for forward in [true, false] {
            let range = (lo.as_deref(), hi.as_deref());
            let mut cursor = OwnCursor::new(&self.live, TREES[tree], mark, folder, range);
            let rest = BaseSource {
                rows: &base,
                at: if forward { 0 } else { base.len().wrapping_sub(1) },
            };
            if forward { cursor.seek_first() } else { cursor.seek_last() }.unwrap();
            let sources: Vec<Box<dyn EntrySource + '_>> = vec![Box::new(cursor), Box::new(rest)];
            let mut merge =
                if forward { MergeCursor::new(sources) } else { MergeCursor::backward(sources) };
            let mut found = Vec::new();
            while let Some(entry) = merge.next_folded(&folder).unwrap() {
                let row = value(std::iter::once(entry.message()), None);
                found.extend(row.map(|value| (entry.key.to_vec(), value)));
            }
            if !forward {
                found.reverse();
            }
            assert_eq!(found, expected, "tree {tree}, {mark:?}, [{lo:?}, {hi:?}), up: {forward}");
        }
    }

    /// Checks that the sealed set does to the store what the history did, and marks as fresh what
    /// was proven absent.
    fn check_sealed(&mut self) {
        let mut own = self.live.lock();
        own.seal(&Folder::new(&Operators::new())).unwrap();
        let set = own.sealed();
        for (at, tree) in TREES.into_iter().enumerate() {
            let mut rows = self.base[at].clone();
            for (from, to) in set.ranges(tree) {
                rows.retain(|key, _| key.as_slice() < from || key.as_slice() >= to);
            }
            for entry in set.entries(tree) {
                let base = rows.remove(entry.key);
                let message = Message::new(entry.tag, entry.payload);
                let after = value(std::iter::once(message), base.as_deref());
                rows.extend(after.map(|value| (entry.key.to_vec(), value)));
                let was_insert = self.model.entries[at][entry.key];
                let allowed = was_insert && !self.base[at].contains_key(entry.key);
                assert!(allowed || !entry.tag.is_fresh(), "Rule I7: {:?}", entry.key);
                let deletes = entry.hides_delete || entry.tag.kind() == Kind::Delete;
                let is_deleted = self.model.deleted[at].contains(entry.key);
                assert_eq!(deletes, is_deleted, "Rule I45: {:?}", entry.key);
            }
            assert_eq!(rows, self.model.now[at]);
        }
        drop(own);
        self.check_pending_sealed();
    }

    /// Checks that a pending key of the sealed set has an entry in the model.
    fn check_pending_sealed(&self) {
        for (at, tree) in TREES.into_iter().enumerate() {
            let mut found = Vec::new();
            let any = self.live.pending_key(tree, b"", None, &mut found);
            assert!(!any || self.model.entries[at].contains_key(&found));
        }
    }
}

impl Model {
    fn delete(&mut self, tree: usize, key: &[u8]) {
        for mark in &mut self.marks {
            mark.deleted_since.insert((tree, key.to_vec()));
        }
    }
}

/// The value that messages, newest first, make of the value below them.
fn value<'m>(messages: impl Iterator<Item = Message<'m>>, below: Option<&[u8]>) -> Option<Vec<u8>> {
    let mut merged: Vec<Vec<u8>> = Vec::new();
    let mut base = below;
    for message in messages {
        match message.tag.kind() {
            Kind::Put => base = Some(message.payload),
            Kind::Delete => base = None,
            _ => {
                let list = operands(message.payload);
                merged.push(list.flat_map(|operand| operand.unwrap().1.to_vec()).collect());
            }
        }
    }
    let exists = base.is_some() || !merged.is_empty();
    let parts = base.map(<[u8]>::to_vec).into_iter().chain(merged.into_iter().rev());
    exists.then(|| parts.flatten().collect())
}

/// The rows of the store as an entry source.
struct BaseSource<'a> {
    rows: &'a [(Vec<u8>, Vec<u8>)],
    at: usize,
}

impl EntrySource for BaseSource<'_> {
    fn entry(&self) -> Option<Entry<'_>> {
        let (key, payload) = self.rows.get(self.at)?;
        Some(Entry { key, tag: Tag::PUT, payload })
    }

    fn advance(&mut self) -> Result<()> {
        self.at += 1;
        Ok(())
    }

    fn retreat(&mut self) -> Result<()> {
        self.at = self.at.wrapping_sub(1);
        Ok(())
    }

    fn seek(&mut self, _: &[u8]) -> Result<()> {
        unreachable!("a walk of all")
    }
}

/// Rules: I5, I7, I26, I33, I44, I45. One write set serves all histories, as a session reuses one
/// for all its transactions.
#[test]
pub(super) fn random_histories_read_scan_roll_back_and_seal_as_the_map_does() {
    let mut live = LiveWrites::new(0);
    for seed in 1..=histories() {
        let mut run = Run::new(live, seed);
        for _ in 0..run.toss.below(120) {
            match run.toss.below(20) {
                0..10 => run.write(),
                10 => run.mark(),
                11 => run.roll_back(),
                12..15 => run.check_key(),
                15..18 => run.check_scan(),
                18 => run.check_pending(),
                _ => run.check_sums(),
            }
        }
        run.check_sums();
        (0..8).for_each(|_| run.check_key());
        run.check_scan();
        run.check_sealed();
        run.live.lock().clear();
        assert_eq!(run.live.lock().len(), 0);
        live = run.live;
    }
}

/// Number of histories; `FROND_EFFORT` multiplies it.
fn histories() -> u64 {
    let effort = std::env::var("FROND_EFFORT").ok().and_then(|effort| effort.parse().ok());
    1000 * effort.unwrap_or(1)
}
