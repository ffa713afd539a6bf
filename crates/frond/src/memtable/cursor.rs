//! Cursors: a tree's keys in order, forward and backward, with the versions of each.
//!
//! Concurrent inserts may or may not be seen. This is harmless: they belong to commits above the
//! cursor's seqno, as every commit up to it was in the memtable before it became possible to read
//! at that seqno.
//!
//! Where mini-runs are attached, the cursor keeps one position in each and proceeds by least (or
//! greatest) key; versions of one key come from all sources, by seqno (Rule: I6).
//!
//! Invariants
//! 1. Forward, every source stands at its first key not below the cursor's; backward, at its last
//!    key not above it. On a change of direction all sources seek again.
//! 2. `runs` is ordered newest first.
//!
//! Threads: a cursor belongs to one thread at a time; it can be sent.

use super::{
    LATEST, Memtable, RangeDelete, Table,
    arena::{At, RecordHead},
    mem_run::{Attached, MemRun},
    place::Place,
    tree::Tree,
    versions::Versions,
};
use crate::{Seqno, TreeId, message::Message, sync::Arc};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

/// A mini-run and the cursor's position in it.
struct RunPlace {
    seqno: Seqno,
    run: Arc<MemRun>,
    place: Place,
}

/// The source whose record gives the cursor its key: the memtable's own tree, or a run.
#[derive(Clone, Copy)]
struct Current {
    run: Option<usize>,
    record: At<RecordHead>,
}

/// A cursor over the keys of one tree that have a version up to a seqno.
pub struct MemCursor {
    tree: TreeId,
    at: Seqno,
    direction: Direction,
    /// Set once the tree has had a message.
    table: Option<At<Table>>,
    own: Place,
    runs: Vec<RunPlace>,
    current: Option<Current>,
    /// The key that is being left; used only with runs.
    leaving: Vec<u8>,
    memtable: Arc<Memtable>,
}

impl MemCursor {
    pub(super) fn new(memtable: Arc<Memtable>, tree: TreeId, at: Seqno) -> Self {
        Self {
            tree,
            at,
            direction: Direction::Forward,
            table: None,
            own: Place::nowhere(),
            runs: Vec::new(),
            current: None,
            leaving: Vec::new(),
            memtable,
        }
    }

    /// Moves to the first key.
    pub fn seek_first(&mut self) {
        self.seek_all(Direction::Forward, Place::seek_first);
    }

    /// Moves to the last key.
    pub fn seek_last(&mut self) {
        self.seek_all(Direction::Backward, Place::seek_last);
    }

    /// Moves to the first key not below `key`.
    pub fn seek(&mut self, key: &[u8]) {
        self.seek_all(Direction::Forward, |place, tree| place.seek(tree, key));
    }

    /// Moves to the last key not above `key`.
    pub fn seek_for_prev(&mut self, key: &[u8]) {
        self.seek_all(Direction::Backward, |place, tree| place.seek_for_prev(tree, key));
    }

    /// Moves to the last key below `key`.
    pub fn seek_below(&mut self, key: &[u8]) {
        self.seek_all(Direction::Backward, |place, tree| place.seek_below(tree, key));
    }

    fn seek_all(&mut self, direction: Direction, mut seek: impl FnMut(&mut Place, Tree<'_>)) {
        self.take_sources();
        self.direction = direction;
        self.current = None;
        let Some(table) = self.table else { return };
        let arena = &self.memtable.arena;
        seek(&mut self.own, arena.get(table).tree(arena));
        for run in &mut self.runs {
            seek(&mut run.place, run.run.tree());
        }
        self.find_visible();
    }

    /// Finds the tree's table and runs. A cursor at the latest seqno sees new ones at its next
    /// seek.
    fn take_sources(&mut self) {
        let memtable = &self.memtable;
        if self.table.is_none() {
            self.table = memtable.directory.find(&memtable.arena, self.tree);
        }
        let Some(table) = self.table else { return };
        if memtable.arena.get(table).has_runs() && (self.runs.is_empty() || self.at == LATEST) {
            let place = |attached: &Attached| RunPlace {
                seqno: attached.seqno,
                run: attached.run.clone(),
                place: Place::nowhere(),
            };
            self.runs = memtable.runs.of_tree(self.tree, self.at).into_iter().map(place).collect();
        }
    }

    /// True if the cursor stands at a key.
    pub fn is_valid(&self) -> bool {
        self.current.is_some()
    }

    /// The key.
    #[inline]
    pub fn key(&self) -> Option<&[u8]> {
        self.current.map(|current| self.key_of(current))
    }

    #[inline]
    fn key_of(&self, current: Current) -> &[u8] {
        let arena = match current.run {
            None => &self.memtable.arena,
            Some(run) => self.runs[run].run.tree().arena,
        };
        arena.record(current.record).key()
    }

    /// The key's versions up to the cursor's seqno, newest first; ignores range deletes.
    #[inline]
    pub fn versions(&self) -> KeyVersions<'_> {
        let arena = &self.memtable.arena;
        let key = self.key().unwrap_or(&[]);
        let own = match self.current {
            None => None,
            Some(Current { run: None, record }) => Some(arena.record(record)),
            Some(_) => self.own.at().map(|at| arena.record(at)).filter(|own| own.key() == key),
        };
        let runs: &[RunPlace] = if self.current.is_some() { &self.runs } else { &[] };
        let mut own = own.map(|first| Versions::new(arena, first, self.at));
        let own_next = own.as_mut().and_then(Iterator::next);
        KeyVersions { own, own_next, runs, key }
    }

    /// The newest range delete up to the cursor's seqno that covers its key: versions below it are
    /// hidden.
    #[inline]
    pub fn cover(&self) -> Option<Seqno> {
        self.cover_of(self.key()?)
    }

    #[inline]
    fn cover_of(&self, key: &[u8]) -> Option<Seqno> {
        let memtable = &self.memtable;
        let table = memtable.arena.get(self.table?);
        memtable.ranges.cover(&table.ranges, &memtable.arena, key, self.at)
    }

    /// True if a range delete up to the cursor's seqno covers `key`, which need not be present.
    #[inline]
    pub fn covers(&self, key: &[u8]) -> bool {
        self.cover_of(key).is_some()
    }

    /// True if range deletes up to the cursor's seqno cover any key of `[lo, hi)`; may also be true
    /// if only later ones do. To be called after a seek.
    pub fn deletes_in(&self, lo: Option<&[u8]>, hi: Option<&[u8]>) -> bool {
        let memtable = &self.memtable;
        let Some(table) = self.table else { return false };
        let table = memtable.arena.get(table);
        memtable.ranges.may_delete_in(&table.ranges, &memtable.arena, (lo, hi), self.at)
    }

    /// Passes the key's versions to `visit` as [`Memtable::get`] does.
    #[inline]
    pub fn visit(&self, visit: &mut dyn FnMut(Seqno, Message<'_>) -> bool) {
        super::show(self.versions(), self.cover(), visit);
    }

    /// Moves to the next key. A cursor past an end stays there until it seeks.
    #[inline]
    pub fn next(&mut self) {
        self.step(Direction::Forward);
    }

    /// Moves to the previous key. A cursor past an end stays there until it seeks.
    #[inline]
    pub fn prev(&mut self) {
        self.step(Direction::Backward);
    }

    #[inline]
    fn step(&mut self, direction: Direction) {
        if self.current.is_some() {
            if self.direction == direction {
                self.leave_key();
            } else {
                self.turn(direction);
            }
            self.find_visible();
        }
    }

    /// Moves to the nearest key that has a visible version, from where the sources stand.
    #[inline]
    fn find_visible(&mut self) {
        loop {
            self.current = if self.runs.is_empty() {
                self.own.at().map(|record| Current { run: None, record })
            } else {
                self.outermost_source()
            };
            // At the latest seqno every key has a visible version; it is not read before it is
            // asked for.
            if self.current.is_none() || self.at == LATEST || self.versions().next().is_some() {
                return;
            }
            self.leave_key();
        }
    }

    /// The source with the least key; backward, with the greatest.
    fn outermost_source(&self) -> Option<Current> {
        let own = self.own.at().map(|record| Current { run: None, record });
        let of_runs = self.runs.iter().enumerate().filter_map(|(run, source)| {
            source.place.at().map(|record| Current { run: Some(run), record })
        });
        own.into_iter().chain(of_runs).reduce(|best, other| {
            let below = self.key_of(other) < self.key_of(best);
            let above = self.key_of(other) > self.key_of(best);
            let better = if self.direction == Direction::Forward { below } else { above };
            if better { other } else { best }
        })
    }

    /// Advances every source that stands at the cursor's key by one key.
    #[inline]
    fn leave_key(&mut self) {
        let Some(table) = self.table else { return };
        let forward = self.direction == Direction::Forward;
        let step = |place: &mut Place, tree: Tree<'_>| {
            if forward { place.next(tree) } else { place.prev(tree) }
        };
        if self.runs.is_empty() {
            let arena = &self.memtable.arena;
            return step(&mut self.own, arena.get(table).tree(arena));
        }
        self.for_each_source(|place, tree, key| {
            if place.record(tree).is_some_and(|record| record.key() == key) {
                step(place, tree);
            }
        });
    }

    /// Leaves the key in the other direction.
    fn turn(&mut self, direction: Direction) {
        self.direction = direction;
        self.for_each_source(|place, tree, key| match direction {
            Direction::Backward => place.seek_below(tree, key),
            Direction::Forward => {
                place.seek(tree, key);
                if place.record(tree).is_some_and(|record| record.key() == key) {
                    place.next(tree);
                }
            }
        });
    }

    fn for_each_source(&mut self, mut act: impl FnMut(&mut Place, Tree<'_>, &[u8])) {
        let mut leaving = std::mem::take(&mut self.leaving);
        leaving.clear();
        leaving.extend_from_slice(self.key().unwrap_or(&[]));
        if let Some(table) = self.table {
            let arena = &self.memtable.arena;
            act(&mut self.own, arena.get(table).tree(arena), &leaving);
        }
        for run in &mut self.runs {
            act(&mut run.place, run.run.tree(), &leaving);
        }
        self.leaving = leaving;
    }
}

/// The versions of a cursor's key, newest first.
pub struct KeyVersions<'a> {
    own: Option<Versions<'a>>,
    own_next: Option<(Seqno, Message<'a>)>,
    runs: &'a [RunPlace],
    key: &'a [u8],
}

impl<'a> Iterator for KeyVersions<'a> {
    type Item = (Seqno, Message<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        while let Some((run, older)) = self.runs.split_first() {
            let record = run.place.record(run.run.tree()).filter(|found| found.key() == self.key);
            let own = self.own_next.map(|(seqno, _)| seqno);
            match record {
                Some(_) if own.is_some_and(|own| own > run.seqno) => break,
                Some(record) if own != Some(run.seqno) => {
                    self.runs = older;
                    return Some((run.seqno, record.message()));
                }
                _ => self.runs = older,
            }
        }
        let next = self.own_next.take();
        if next.is_some() {
            self.own_next = self.own.as_mut().and_then(Iterator::next);
        }
        next
    }
}

/// A walk over all keys of one tree of a frozen memtable, in order, with all versions up to a
/// seqno.
pub struct ApplyCursor {
    cursor: MemCursor,
    begun: bool,
}

/// A key, its versions and its covering range delete.
pub struct KeyToApply<'a> {
    /// The key.
    pub key: &'a [u8],
    /// All versions up to the cursor's seqno, newest first, including those that range deletes
    /// hide.
    pub versions: KeyVersions<'a>,
    /// The newest range delete that covers the key: older versions are hidden to every reader that
    /// sees it.
    pub cover: Option<Seqno>,
}

impl ApplyCursor {
    pub(super) fn new(memtable: Arc<Memtable>, tree: TreeId, at: Seqno) -> Self {
        Self { cursor: MemCursor::new(memtable, tree, at), begun: false }
    }

    /// The next key.
    #[expect(clippy::should_implement_trait, reason = "a cursor lends, an iterator cannot")]
    #[inline]
    pub fn next(&mut self) -> Option<KeyToApply<'_>> {
        if std::mem::replace(&mut self.begun, true) {
            self.cursor.next();
        } else {
            self.cursor.seek_first();
        }
        let key = self.cursor.key()?;
        Some(KeyToApply { key, versions: self.cursor.versions(), cover: self.cursor.cover() })
    }

    /// Returns the ranges that are deleted by commits above `above`, up to the cursor's seqno. They
    /// are in no particular order, and some may occur twice.
    pub fn range_deletes(&self, above: Seqno) -> Vec<RangeDelete<'_>> {
        self.cursor.memtable.range_deletes(self.cursor.tree, (above, self.cursor.at))
    }
}
