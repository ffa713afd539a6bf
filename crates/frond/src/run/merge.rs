//! Merging ordered sources, newest first, into one ordered sequence of folded messages.
//!
//! Invariants
//! 1. Sources are in order of age; of one key the newer message is folded over the older.
//! 2. A source's range deletes hide what older sources have, never its own entries (Rule: I26).
//!    Which of them the output keeps is the caller's to say.
//!
//! Threads: one.

use super::{
    Entry, EntrySource,
    fold::{Folded, Folder},
};
use crate::{
    error::Result,
    message::{Message, Tag},
};

/// A merge of sources.
#[derive(Debug)]
pub struct MergeCursor<S> {
    sources: Vec<S>,
    /// Sources that stand on the key yielded last, newest first.
    members: Vec<usize>,
    /// Newest source that has range deletes; `usize::MAX` if none has.
    first_with_ranges: usize,
    folded: Vec<u8>,
    spare: Vec<u8>,
}

impl<S: EntrySource> MergeCursor<S> {
    /// A merge of sources that already stand on their first entries, newest first.
    pub fn new(sources: Vec<S>) -> Self {
        let has_ranges = |source: &S| source.range_deletes().is_some_and(|r| !r.is_empty());
        Self {
            members: Vec::with_capacity(sources.len()),
            first_with_ranges: sources.iter().position(has_ranges).unwrap_or(usize::MAX),
            sources,
            folded: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// The sources, newest first.
    pub fn sources(&self) -> &[S] {
        &self.sources
    }

    /// Goes to the first keys not below `key`.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.members.clear();
        self.sources.iter_mut().try_for_each(|source| source.seek(key))
    }

    /// Goes to the next key; false at the end. [`group`](MergeCursor::group) then gives its messages.
    pub fn next_group(&mut self) -> Result<bool> {
        loop {
            for &member in &self.members {
                self.sources[member].advance()?;
            }
            self.members.clear();
            let mut least: Option<&[u8]> = None;
            for (index, source) in self.sources.iter().enumerate() {
                let Some(entry) = source.entry() else { continue };
                match least.map(|least| entry.key.cmp(least)) {
                    Some(std::cmp::Ordering::Greater) => continue,
                    Some(std::cmp::Ordering::Equal) => {}
                    Some(std::cmp::Ordering::Less) | None => {
                        self.members.clear();
                        least = Some(entry.key);
                    }
                }
                self.members.push(index);
            }
            let Some(key) = least else { return Ok(false) };
            let hider = self.sources.iter().enumerate().skip(self.first_with_ranges);
            let hider = hider
                .filter_map(|(index, source)| Some((index, source.range_deletes()?)))
                .find(|(_, ranges)| ranges.covers(key));
            let Some((hider, _)) = hider else { return Ok(true) };
            // Hidden members are passed over like the others, so they stay in the list, at its end,
            // where `group` does not see them.
            if self.members.first().is_some_and(|&newest| newest <= hider) {
                let visible = self.members.iter().take_while(|&&member| member <= hider).count();
                let hidden = self.members.split_off(visible);
                for member in hidden {
                    self.sources[member].advance()?;
                }
                return Ok(true);
            }
        }
    }

    /// The messages of the key stood on, newest first, each with the number of its source.
    pub fn group(&self) -> impl Iterator<Item = (usize, Entry<'_>)> {
        self.members.iter().filter_map(|&member| Some((member, self.sources[member].entry()?)))
    }

    /// Goes to the next key of which a message remains, and gives it.
    pub fn next_folded(&mut self, folder: &Folder<'_>) -> Result<Option<Entry<'_>>> {
        loop {
            if !self.next_group()? {
                return Ok(None);
            }
            if self.members.len() == 1 {
                break;
            }
            if let Some((tag, made)) = self.fold_group(folder)? {
                let newest = self.members.first().and_then(|&m| self.sources[m].entry());
                let key = newest.map_or(&[][..], |entry| entry.key);
                let payload = match made {
                    Some(member) => self.sources[member].entry().map_or(&[][..], |e| e.payload),
                    None => &self.folded,
                };
                return Ok(Some(Entry { key, tag, payload }));
            }
        }
        Ok(self.members.first().and_then(|&member| self.sources[member].entry()))
    }

    /// Folds the group: the tag, and the member whose payload it is, or `None` for `self.folded`.
    fn fold_group(&mut self, folder: &Folder<'_>) -> Result<Option<(Tag, Option<usize>)>> {
        let mut result: Option<(Tag, Option<usize>)> = None;
        for &member in &self.members {
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
}
