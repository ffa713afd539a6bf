//! Reads of a transaction's own writes of a key.
//!
//! Point reads, unique checks and reads by position see the newest state. A scan sees the state at
//! the mark of its statement, minus what was deleted since (Rule: I45). So a statement never meets
//! again what it moves ahead of itself, and never returns what it has deleted. A key that was
//! deleted since the mark stays gone for the scan even if it was put again: the row that is there
//! now is not the one that was there then.
//!
//! Threads: one.

use crate::{
    TreeId,
    message::{Kind, Message, Tag},
    txn::WriteSet,
};

use super::{HashedKey, Mark, TxnWrites, chains::Chains};

/// The state of a key according to a transaction's own messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OwnState {
    /// No message: the store's state counts.
    Untouched,
    /// The key has a value, known without a look at the store. `is_fresh` if it was proven absent
    /// before the transaction, when it was first written.
    Put {
        /// The key was absent before.
        is_fresh: bool,
    },
    /// The key does not exist, because of a delete or a range delete of the transaction.
    Deleted {
        /// The key was absent before.
        is_fresh: bool,
    },
    /// Operands to be applied to what the store has.
    Merged,
}

/// The messages of one key, newest first, until nothing older matters. A range delete appears as a
/// Delete at its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnMessages<'a> {
    set: &'a WriteSet,
    chains: &'a Chains,
    next: Option<u32>,
    /// A range delete hides entries below this number.
    hidden: Option<u32>,
}

impl<'a> Iterator for OwnMessages<'a> {
    type Item = Message<'a>;

    #[inline]
    fn next(&mut self) -> Option<Message<'a>> {
        let hidden = self.hidden.unwrap_or(0);
        let Some(slot) = self.next.take().filter(|slot| *slot >= hidden) else {
            return self.hidden.take().map(|_| Message::new(Tag::DELETE, &[]));
        };
        let message = self.set.message_at(slot);
        if message.tag.is_base() {
            self.hidden = None;
        } else {
            self.next = self.chains.previous(slot);
        }
        Some(message)
    }
}

impl TxnWrites {
    /// The transaction's own messages of a key, newest first, up to the first Put or Delete: none
    /// older matters, nor any of the store's. If there is none, or only merges, the store's come
    /// next.
    #[inline]
    pub fn messages(&self, key: HashedKey<'_>) -> impl Iterator<Item = Message<'_>> {
        self.newest_messages(key)
    }

    #[inline]
    fn newest_messages(&self, HashedKey { tree, key, hash }: HashedKey<'_>) -> OwnMessages<'_> {
        let first = self.chains.first(hash, |first| self.set.is_key_at(first, tree, key));
        let next = first.map(|first| self.chains.newest(first));
        let hidden = self.newest_range(tree, key).map(|(_, hidden)| hidden);
        OwnMessages { set: &self.set, chains: &self.chains, next, hidden }
    }

    /// The state of a key according to the transaction's own writes.
    pub fn state_of(&self, key: HashedKey<'_>) -> OwnState {
        let HashedKey { tree, key: bytes, hash } = key;
        let is_fresh = || {
            let first = self.chains.first(hash, |first| self.set.is_key_at(first, tree, bytes));
            first.is_some_and(|first| self.set.is_insert_at(first))
        };
        let mut state = OwnState::Untouched;
        for message in self.newest_messages(key) {
            state = match (message.tag.kind(), state) {
                (Kind::Merge | Kind::Versions, _) => OwnState::Merged,
                (Kind::Delete, OwnState::Untouched) => OwnState::Deleted { is_fresh: is_fresh() },
                // Operands over a Delete make a value, too.
                _ => OwnState::Put { is_fresh: is_fresh() },
            };
        }
        state
    }

    /// True if the transaction deleted the key since a mark: a row that was read before must not be
    /// returned any more.
    pub fn is_deleted_since(
        &self,
        HashedKey { tree, key, hash }: HashedKey<'_>,
        mark: Mark,
    ) -> bool {
        let first = self.chains.first(hash, |first| self.set.is_key_at(first, tree, key));
        self.messages_at(tree, key, first, mark).is_none()
    }

    /// The messages of a key as seen by a scan whose statement started at a mark; `None` if the key
    /// was deleted since. `first` is the key's first entry, if it has one.
    pub(super) fn messages_at(
        &self,
        tree: TreeId,
        key: &[u8],
        first: Option<u32>,
        mark: Mark,
    ) -> Option<OwnMessages<'_>> {
        let mark = self.in_memory(mark);
        let mut next = first.map(|first| self.chains.newest(first));
        while let Some(slot) = next.filter(|slot| *slot >= mark.entries) {
            if plant!("txn: a scan sees past its mark") {
                break;
            }
            if self.set.message_at(slot).tag.kind() == Kind::Delete
                && !plant!("txn: a scan hands out what its statement deleted")
            {
                return None;
            }
            next = self.chains.previous(slot);
        }
        let range = self.newest_range(tree, key);
        if range.is_some_and(|(number, _)| number >= mark.ranges) {
            return None;
        }
        let hidden = range.map(|(_, hidden)| hidden);
        Some(OwnMessages { set: &self.set, chains: &self.chains, next, hidden })
    }

    /// The newest range delete that covers a key: its number, and the number of entries before it.
    #[inline]
    fn newest_range(&self, tree: TreeId, key: &[u8]) -> Option<(u32, u32)> {
        let number = self.trees.get(tree)?.covers.newest(key)?;
        if plant!("txn: a range delete hides what came after it") {
            return Some((number, u32::MAX));
        }
        Some((number, self.set.range_position(number)))
    }
}
