//! Merging ordered sources, newest first, into one ordered sequence of folded messages.
//!
//! The merge uses a loser tree: after the winner advances, one comparison on each level between it
//! and the root finds the next winner. Sources are compared by eight bytes of their key after the
//! prefix common to all, kept next to the tree; whole keys are compared only on a tie. A tree node
//! remembers whether its two keys were equal, so that the usual key, which only one source has,
//! costs no further comparison and no copy.
//!
//! Invariants
//! 1. Sources are in order of age; for one key, the newer message is folded over the older.
//! 2. A source's range deletes hide entries of older sources, never its own (Rule: I26). Which
//!    range deletes the output keeps is decided by the caller.
//! 3. Folding uses whole values. A source with a selection returns only the wanted fields while
//!    its message is all that remains of a key; where something is folded onto its value, it
//!    returns whole values from there on.
//!
//! Threads: one. Idea: Knuth, "The Art of Computer Programming", volume 3, § 5.4.1.

use std::cmp::Ordering;

use super::{
    Direction, Entry, EntrySource,
    fold::{Folded, Folder},
    index::head,
};
use crate::{
    block::common_prefix,
    error::Result,
    message::{Message, Tag},
};

/// A merge of sources.
#[derive(Debug)]
pub struct MergeCursor<S> {
    sources: Vec<S>,
    direction: Direction,
    /// Length of a prefix that all keys of all sources share.
    skip: usize,
    /// The head of each source's key, complemented when walking backward; the maximum when
    /// exhausted.
    heads: Vec<u64>,
    /// Node n has children 2n and 2n + 1; sources are the leaves, from node `sources.len()` on.
    losers: Vec<Loser>,
    winner: usize,
    /// Sources that stand on the key yielded last, newest first.
    members: Vec<usize>,
    state: State,
    /// Newest source that has range deletes; `usize::MAX` if none has.
    first_with_ranges: usize,
    folded: Vec<u8>,
    spare: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Loser {
    source: u32,
    /// True if its key equals that of the source which won here.
    equal: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Sources have moved: the tree must be rebuilt.
    Unbuilt,
    /// The winner has not been yielded yet.
    Ready,
    /// The winner alone was yielded.
    One,
    /// `members` were yielded.
    Many,
}

/// What remains of a key after folding.
#[derive(Clone, Copy, Debug)]
enum Left {
    /// The winner's message.
    Winner,
    /// A message with this tag, and the member whose payload it has, or `None` for `folded`.
    Folded(Tag, Option<usize>),
}

impl<S: EntrySource> MergeCursor<S> {
    /// Creates a merge of sources that already stand on their first entries, newest first.
    pub fn new(sources: Vec<S>) -> Self {
        Self::with(sources, Direction::Forward)
    }

    /// Creates a merge in descending order of sources that already stand on their last entries,
    /// newest first.
    pub fn backward(sources: Vec<S>) -> Self {
        Self::with(sources, Direction::Backward)
    }

    fn with(sources: Vec<S>, direction: Direction) -> Self {
        Self {
            direction,
            skip: shared_prefix(&sources),
            heads: vec![0; sources.len()],
            losers: vec![Loser::default(); sources.len()],
            winner: 0,
            members: Vec::with_capacity(sources.len()),
            state: State::Unbuilt,
            first_with_ranges: sources.iter().position(S::has_range_deletes).unwrap_or(usize::MAX),
            sources,
            folded: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// The sources, newest first.
    pub fn sources(&self) -> &[S] {
        &self.sources
    }

    /// Moves to the first keys not below `key`; backward, to the first keys below it.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.state = State::Unbuilt;
        for source in &mut self.sources {
            match self.direction {
                Direction::Forward => source.seek(key)?,
                Direction::Backward => source.seek_before(key)?,
            }
        }
        Ok(())
    }

    /// Moves to the next key; false at the end. [`group`](MergeCursor::group) then returns its
    /// messages.
    pub fn next_group(&mut self) -> Result<bool> {
        if !self.next_key()? {
            return Ok(false);
        }
        if self.state == State::One {
            self.members.clear();
            self.members.push(self.winner);
        }
        Ok(true)
    }

    /// The messages of the current key, newest first, each with the number of its source.
    pub fn group(&self) -> impl Iterator<Item = (usize, Entry<'_>)> {
        self.members.iter().filter_map(|&member| Some((member, self.sources[member].entry()?)))
    }

    /// Moves to the next key of which a message remains, and returns it.
    #[inline]
    pub fn next_folded(&mut self, folder: &Folder<'_>) -> Result<Option<Entry<'_>>> {
        let left = self.next_left(folder)?;
        Ok(left.and_then(|left| self.left_entry(left)))
    }

    /// Moves on as [`next_folded`](Self::next_folded) does, and also returns whether the payload is
    /// the whole value, and not only the wanted fields.
    #[inline]
    pub fn next_part_folded(&mut self, folder: &Folder<'_>) -> Result<Option<(Entry<'_>, bool)>> {
        let left = self.next_left(folder)?;
        let holder = match left {
            None => return Ok(None),
            Some(Left::Winner) => Some(self.winner),
            Some(Left::Folded(_, holder)) => holder,
        };
        let is_whole = holder.is_none_or(|member| self.sources[member].is_whole());
        Ok(left.and_then(|left| self.left_entry(left)).map(|entry| (entry, is_whole)))
    }

    /// Moves to the next key of which a message remains.
    #[inline]
    fn next_left(&mut self, folder: &Folder<'_>) -> Result<Option<Left>> {
        loop {
            if !self.next_key()? {
                return Ok(None);
            }
            if self.state == State::One {
                return Ok(Some(Left::Winner));
            }
            if let Some((tag, holder)) = self.fold_group(folder)? {
                return Ok(Some(Left::Folded(tag, holder)));
            }
        }
    }

    #[inline]
    fn left_entry(&self, left: Left) -> Option<Entry<'_>> {
        match left {
            Left::Winner => self.sources[self.winner].entry(),
            Left::Folded(tag, holder) => Some(self.folded_entry(tag, holder)),
        }
    }

    fn folded_entry(&self, tag: Tag, holder: Option<usize>) -> Entry<'_> {
        let of = |member: usize| self.sources[member].entry();
        let key = self.members.first().and_then(|&m| of(m)).map_or(&[][..], |entry| entry.key);
        let payload = match holder {
            Some(member) => of(member).map_or(&[][..], |entry| entry.payload),
            None => &self.folded,
        };
        Entry { key, tag, payload }
    }

    /// Folds the group: returns the tag, and the member that has the payload, or `None` for
    /// `self.folded`.
    fn fold_group(&mut self, folder: &Folder<'_>) -> Result<Option<(Tag, Option<usize>)>> {
        let mut result: Option<(Tag, Option<usize>)> = None;
        for &member in &self.members {
            if let Some((newer, _)) = result
                && !newer.is_base()
                && !self.sources[member].is_whole()
            {
                self.sources[member].make_whole()?;
            }
            let Some(older) = self.sources[member].entry() else { continue };
            let Some((tag, holder)) = result else {
                result = Some((older.tag, Some(member)));
                continue;
            };
            let payload = match holder {
                Some(member) => self.sources[member].entry().map_or(&[][..], |e| e.payload),
                None => &self.folded,
            };
            let newer = Message::new(tag, payload);
            result = match folder.fold(newer, older.message(), &mut self.spare)? {
                Folded::Newer(tag) => Some((tag, holder)),
                Folded::Made(tag) => {
                    std::mem::swap(&mut self.folded, &mut self.spare);
                    Some((tag, None))
                }
                Folded::Nothing => None,
            };
        }
        Ok(result)
    }

    /// Moves to the next key that is not completely hidden: the state is then `One` or `Many`.
    #[inline]
    fn next_key(&mut self) -> Result<bool> {
        loop {
            match self.state {
                State::One => {
                    self.step(self.winner)?;
                    self.replay(self.winner);
                }
                State::Ready => {}
                State::Many | State::Unbuilt => self.rebuild()?,
            }
            self.state = State::Ready;
            if self.heads.get(self.winner).is_none_or(|&head| head == u64::MAX)
                && self.sources.get(self.winner).is_none_or(|source| source.entry().is_none())
            {
                return Ok(false);
            }
            self.state = State::One;
            if self.is_shared() {
                self.gather();
            }
            if self.first_with_ranges == usize::MAX || self.hide() {
                return Ok(true);
            }
        }
    }

    /// True if another source stands on the winner's key: it then lost to the winner directly,
    /// somewhere on the winner's path.
    #[inline]
    fn is_shared(&self) -> bool {
        let mut node = (self.winner + self.sources.len()) / 2;
        while node > 0 {
            if self.losers[node].equal {
                return true;
            }
            node /= 2;
        }
        false
    }

    /// Collects all sources that stand on the winner's key.
    fn gather(&mut self) {
        self.state = State::Many;
        self.members.clear();
        let Some(wanted) = self.sources[self.winner].entry() else { return };
        for (index, source) in self.sources.iter().enumerate() {
            if self.heads[index] == self.heads[self.winner]
                && source.entry().is_some_and(|entry| entry.key == wanted.key)
            {
                self.members.push(index);
            }
        }
        if plant!("run: merge takes the older of two") {
            self.members.reverse();
        }
    }

    /// Drops members that a newer source's range deletes hide; false if none is left. Hidden
    /// members advance with the others, because the tree is rebuilt.
    #[cold]
    fn hide(&mut self) -> bool {
        let Some(entry) = self.sources[self.winner].entry() else { return false };
        if plant!("run: range delete does not hide older puts") {
            return true;
        }
        let covers = |source: &S| source.covers(entry.key);
        let hider = self.sources.iter().skip(self.first_with_ranges).position(covers);
        let Some(hider) = hider.map(|position| position + self.first_with_ranges) else {
            return true;
        };
        if self.state == State::One {
            return self.winner <= hider;
        }
        self.members.iter().any(|&member| member <= hider) && {
            // Sources that are not in the list are not yielded; `rebuild` finds them again by their
            // key.
            self.members.retain(|&member| member <= hider);
            true
        }
    }

    /// Advances the yielded members, and rebuilds the tree.
    #[cold]
    fn rebuild(&mut self) -> Result<()> {
        if self.state == State::Many
            && let Some(&newest) = self.members.first()
        {
            // All sources on that key, including hidden ones.
            self.winner = newest;
            self.gather();
            let members = std::mem::take(&mut self.members);
            members.iter().try_for_each(|&member| self.step(member))?;
            self.members = members;
        }
        for index in 0..self.sources.len() {
            self.take_head(index);
        }
        self.winner = match self.sources.len() {
            0 | 1 => 0,
            _ => self.build(1),
        };
        Ok(())
    }

    /// Compares all sources below `node` and returns the winner; the recursion is as deep as the
    /// tree.
    fn build(&mut self, node: usize) -> usize {
        let sources = self.sources.len();
        if node >= sources {
            return node - sources;
        }
        let (a, b) = (self.build(2 * node), self.build(2 * node + 1));
        let (winner, loser, equal) = self.play(a, b);
        self.losers[node] = Loser { source: loser as u32, equal };
        winner
    }

    #[inline]
    fn step(&mut self, index: usize) -> Result<()> {
        match self.direction {
            Direction::Forward => self.sources[index].advance()?,
            Direction::Backward => self.sources[index].retreat()?,
        }
        self.take_head(index);
        Ok(())
    }

    #[inline]
    fn take_head(&mut self, index: usize) {
        let head = self.sources[index].entry().map(|entry| head(entry.key, self.skip));
        self.heads[index] = match (head, self.direction) {
            (None, _) => u64::MAX,
            (Some(head), Direction::Forward) => head,
            (Some(head), Direction::Backward) => !head,
        };
    }

    /// Compares `index`, the last winner, with the losers on its path.
    #[inline]
    fn replay(&mut self, index: usize) {
        let mut winner = index;
        let mut node = (index + self.sources.len()) / 2;
        while node > 0 {
            let other = self.losers[node].source as usize;
            let (best, loser, equal) = self.play(winner, other);
            self.losers[node] = Loser { source: loser as u32, equal };
            winner = best;
            node /= 2;
        }
        self.winner = winner;
    }

    /// Returns which of two sources comes first, the other one, and whether they stand on the same
    /// key.
    #[inline]
    fn play(&self, a: usize, b: usize) -> (usize, usize, bool) {
        match self.heads[a].cmp(&self.heads[b]) {
            Ordering::Less => (a, b, false),
            Ordering::Greater => (b, a, false),
            Ordering::Equal => self.play_by_keys(a, b),
        }
    }

    fn play_by_keys(&self, a: usize, b: usize) -> (usize, usize, bool) {
        let key = |index: usize| self.sources[index].entry().map(|entry| entry.key);
        let order = match (key(a), key(b)) {
            (None, None) => return (a, b, false),
            (None, Some(_)) => Ordering::Greater,
            (Some(_), None) => Ordering::Less,
            (Some(a), Some(b)) => match self.direction {
                Direction::Forward => a.cmp(b),
                Direction::Backward => b.cmp(a),
            },
        };
        match order {
            Ordering::Less => (a, b, false),
            Ordering::Greater => (b, a, false),
            // The newer source wins.
            Ordering::Equal => (a.min(b), a.max(b), true),
        }
    }
}

/// Length of the prefix shared by all keys that the sources can ever stand on.
fn shared_prefix<S: EntrySource>(sources: &[S]) -> usize {
    let mut enclosing: Option<(&[u8], &[u8])> = None;
    for source in sources {
        let Some((first, last)) = source.bounds() else { return 0 };
        enclosing = Some(match enclosing {
            None => (first, last),
            Some((lo, hi)) => (lo.min(first), hi.max(last)),
        });
    }
    enclosing.map_or(0, |(lo, hi)| common_prefix(lo, hi))
}
