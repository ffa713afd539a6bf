//! Reads at a seqno: memtables newest first, then the tree.

use crate::{
    Error, Kind, Message, Result, Seqno, Tag, TreeId, pipeline::Engine, run::Folder,
    version::Version,
};

/// One moment of the store: a version and the last commit to be seen in it.
pub(crate) struct ReadView<'a> {
    pub engine: &'a Engine,
    pub version: &'a Version,
    pub at: Seqno,
}

/// Messages of one key, newest first, until a base is met.
#[derive(Default)]
pub(crate) struct Messages {
    /// Merge payloads, newest first.
    operands: Vec<Vec<u8>>,
    base: Base,
}

#[derive(Default, PartialEq, Eq)]
enum Base {
    #[default]
    None,
    Value,
    Blob,
    Deleted,
}

impl Messages {
    /// Takes the next older message; true if nothing older matters. A value goes into `value`.
    pub fn take(&mut self, message: Message<'_>, value: &mut Vec<u8>) -> bool {
        self.base = match message.tag.kind() {
            Kind::Put => Base::Value,
            Kind::PutBlob => Base::Blob,
            Kind::Delete => Base::Deleted,
            Kind::Merge | Kind::Versions => {
                self.operands.push(message.payload.to_vec());
                return false;
            }
        };
        value.clear();
        value.extend_from_slice(message.payload);
        true
    }

    /// The outcome in `value`; false if the key does not exist.
    pub fn finish(self, view: &ReadView<'_>, value: &mut Vec<u8>) -> Result<bool> {
        if self.base == Base::Blob {
            view.engine.read_blob(value)?;
        }
        let exists = matches!(self.base, Base::Value | Base::Blob);
        if self.operands.is_empty() {
            if !exists {
                value.clear();
            }
            return Ok(exists);
        }
        let folder = Folder::new(&view.engine.cx.operators);
        let mut made = Vec::new();
        let mut exists = exists;
        for operands in self.operands.iter().rev() {
            let base = if exists { Tag::PUT } else { Tag::DELETE };
            let newer = Message::new(Tag::MERGE, operands);
            folder.fold(newer, Message::new(base, value), &mut made)?;
            std::mem::swap(value, &mut made);
            exists = true;
        }
        Ok(true)
    }
}

impl ReadView<'_> {
    /// The value of `key` in `value`; false if it does not exist.
    pub fn get(&self, tree: TreeId, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        let mut messages = Messages::default();
        let mut done = false;
        for slot in self.version.memtables() {
            slot.table.get(tree, key, self.at, &mut |_, message| {
                done = messages.take(message, value);
                !done
            });
            if done {
                return messages.finish(self, value);
            }
        }
        if let Some(root) = self.version.roots.get(&tree) {
            root.get(&self.engine.cx, key, &mut |lookup| {
                let (tag, payload) = lookup.message();
                messages.take(Message::new(tag, payload), value);
                Ok(())
            })?;
        }
        messages.finish(self, value)
    }

    /// True if `key` exists, at the newest inserted version (Rule: I3).
    pub fn exists(&self, tree: TreeId, key: &[u8]) -> Result<bool> {
        let mut value = Vec::new();
        self.get(tree, key, &mut value)
    }
}

impl Engine {
    /// Replaces a blob reference by the blob.
    pub fn read_blob(&self, _value: &mut Vec<u8>) -> Result<()> {
        Err(Error::InvalidArgument("blobs".into()))
    }
}
