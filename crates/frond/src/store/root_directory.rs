//! The content of a root directory: where each tree's root is, and which trees named snapshots
//! show.
//!
//! It bypasses the message path: rows of the catalog hold no addresses, because an address changes
//! with every checkpoint (Rule: I16). A tree costs tens of bytes here. `directory.rs` writes the
//! directory in pages; this file also reads and writes the older form, a single page with
//! everything in it.
//!
//! Invariants
//! 1. Tree ids ascend strictly, snapshot ids too; names are UTF-8 of at most [`NAME_BYTES_MAX`].
//! 2. Every link lies below the superblock's end and was born at or before its version.
//! 3. Arbitrary bytes decode to a value or an error (P20). Each decoded entry takes bytes of the
//!    page, so the page's length bounds the memory.
//!
//! Threads: values. Bytes: docs/format.md, "Root directory".

use std::{borrow::Cow, collections::BTreeMap};

use super::{
    codec::{Decoded, Reader},
    space_map::root_fits,
    superblock::Superblock,
};
use crate::{
    coding::{put_bytes, put_varint},
    page::{LINK_BYTES, Link},
    sync::Arc,
    types::{Counts, KEY_BYTES_MAX, Lineage, SUMS, Seqno, Sums, TreeId, VersionNumber},
};

/// Longest name of a snapshot, bytes.
pub const NAME_BYTES_MAX: usize = 1 << 10;
/// Length to which the largest keys are cut: it bounds what 64 trees take in the directory.
const MAX_KEY_KEPT: usize = 4 << 10;
/// A root above this level is damage: a tree stops growing at a lower one (`bounds::LEVELS`).
const LEVEL_MAX: u8 = 64;

/// What a checkpoint records about a tree.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TreeRoot {
    /// The root page; `None` if the tree is empty.
    pub link: Option<Link>,
    /// Level of the root: 0 is a leaf run, above are nodes.
    pub level: u8,
    /// The root is a leaf that lists blobs.
    pub leaf_has_blobs: bool,
    /// The tree holds exactly the commits through this one (Rule: I9).
    pub applied: Seqno,
    /// The lineage in which the tree writes.
    pub lineage: Lineage,
    /// The lineage pins that this tree holds for inherited pages, oldest ancestor first (Rule:
    /// I19).
    pub inherits: Vec<(Lineage, VersionNumber)>,
    /// Number of entries, an upper estimate (Rule: I40).
    pub entries: u64,
    /// Encoded bytes, an estimate.
    pub bytes: u64,
    /// No key is above this one. `None` if that is not known (any key may exist) or the tree is
    /// empty. For a very long largest key this may be a shorter bound that is no key of the tree.
    pub max_key: Option<Vec<u8>>,
    /// For a tree loaded in bulk: the version that adopted pages whose links show an older birth
    /// (Rule: I20). Otherwise 0.
    pub loaded: VersionNumber,
    /// The number of rows, if it is known.
    pub rows: Option<u64>,
    /// The current values of its counters.
    pub counts: Counts,
    /// Sums over its content, if they are known; only for a tree with a page.
    pub sums: Option<Sums>,
}

/// A named snapshot.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NamedSnapshot {
    /// The id, never reused. The catalog stores its name.
    pub id: u64,
    /// The commit it shows.
    pub seqno: Seqno,
    /// The version whose pages it keeps.
    pub publish: VersionNumber,
    /// The trees as it shows them.
    pub trees: SnapshotTrees,
}

/// The roots of a named snapshot's trees.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum SnapshotTrees {
    /// The roots of the version that is being written.
    #[default]
    Own,
    /// The roots are in a page table with this root; `None` if there were no trees.
    Paged(Option<Link>),
    /// The roots themselves: the snapshot was made by a Frond from before page tables.
    Listed(Arc<BTreeMap<TreeId, TreeRoot>>),
}

/// All roots of a version.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RootDirectory {
    /// Roots by tree.
    pub trees: BTreeMap<TreeId, TreeRoot>,
    /// Named snapshots, ids ascending.
    pub snapshots: Vec<NamedSnapshot>,
}

const HAS_LINK: u8 = 1;
const HAS_MAX_KEY: u8 = 2;
const LEAF_HAS_BLOBS: u8 = 4;
const IS_LOADED: u8 = 8;
const HAS_ROWS: u8 = 16;
const HAS_COUNTS: u8 = 32;
const HAS_SUMS: u8 = 64;

impl TreeRoot {
    /// Encodes a single root, for the log.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_tree(&mut out, self, Some(self.applied));
        out
    }

    /// Decodes what [`to_bytes`](Self::to_bytes) returned; on failure, the reason in words.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let mut reader = Reader::new(bytes);
        let root = decode_tree(&mut reader, None)?;
        reader.end()?;
        Ok(root)
    }
}

impl RootDirectory {
    /// The payload of one page with everything in it, the form of older stores. Names of snapshots
    /// are left empty.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + self.trees.len() * 80);
        put_trees(&mut out, &self.trees);
        put_varint(&mut out, self.snapshots.len() as u64);
        for snapshot in &self.snapshots {
            put_varint(&mut out, snapshot.id);
            put_bytes(&mut out, b"");
            put_varint(&mut out, snapshot.seqno.0);
            put_varint(&mut out, snapshot.publish.0);
            match &snapshot.trees {
                SnapshotTrees::Listed(trees) => put_trees(&mut out, trees),
                paged => unreachable!("{paged:?} is not listed in one page"),
            }
        }
        out
    }

    /// Decodes what [`encode`](Self::encode) returned; on failure, the reason in words.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        let mut reader = Reader::new(bytes);
        let trees = decode_trees(&mut reader)?;
        let mut snapshots: Vec<NamedSnapshot> = Vec::new();
        for _ in 0..reader.number()? {
            let id = reader.number()?;
            if snapshots.last().is_some_and(|last| last.id >= id) {
                return Err("snapshots do not ascend".into());
            }
            let name = reader.bytes(NAME_BYTES_MAX)?;
            str::from_utf8(name).map_err(|_| "a name that is no UTF-8")?;
            let seqno = Seqno(reader.number()?);
            let publish = VersionNumber(reader.number()?);
            let trees = SnapshotTrees::Listed(Arc::new(decode_trees(&mut reader)?));
            snapshots.push(NamedSnapshot { id, seqno, publish, trees });
        }
        reader.end()?;
        Ok(Self { trees, snapshots })
    }

    /// The links of the roots listed here; those of snapshots with a page table are not included.
    pub fn links(&self) -> impl Iterator<Item = &Link> {
        let snapshots = self.snapshots.iter().filter_map(|snapshot| match &snapshot.trees {
            SnapshotTrees::Listed(trees) => Some(&**trees),
            _ => None,
        });
        let all = std::iter::once(&self.trees).chain(snapshots);
        all.flat_map(|trees| trees.values()).filter_map(|root| root.link.as_ref())
    }

    /// Fails, with the reason in words, if a root lies at an impossible place.
    pub(super) fn check_links(&self, superblock: &Superblock) -> Decoded<()> {
        match self.links().find(|root| !root_fits(superblock, root)) {
            Some(root) => Err(format!("a root at {} cannot be", root.offset)),
            None => Ok(()),
        }
    }
}

fn put_trees(out: &mut Vec<u8>, trees: &BTreeMap<TreeId, TreeRoot>) {
    put_varint(out, trees.len() as u64);
    let mut expected = 0;
    for (id, root) in trees {
        put_varint(out, u64::from(id.0) - expected);
        expected = u64::from(id.0) + 1;
        put_tree(out, root, Some(root.applied));
    }
}

/// Appends a root. Without `applied`, the commit through which it is applied is left out, and a
/// very long largest key is replaced by a bound.
pub(super) fn put_tree(out: &mut Vec<u8>, root: &TreeRoot, applied: Option<Seqno>) {
    let max_key = match (&root.max_key, applied) {
        (Some(key), None) => bound_of(key),
        (key, _) => key.as_deref().map(Cow::Borrowed),
    };
    let flags = [
        (root.link.is_some(), HAS_LINK),
        (max_key.is_some(), HAS_MAX_KEY),
        (root.leaf_has_blobs, LEAF_HAS_BLOBS),
        (root.loaded.0 > 0, IS_LOADED),
        (root.rows.is_some(), HAS_ROWS),
        (root.counts != Counts::default(), HAS_COUNTS),
        (root.sums.is_some(), HAS_SUMS),
    ];
    out.push(flags.iter().map(|&(is_set, flag)| if is_set { flag } else { 0 }).sum());
    if let Some(link) = &root.link {
        out.extend_from_slice(&link.to_disk());
    }
    out.push(root.level);
    applied.into_iter().for_each(|applied| put_varint(out, applied.0));
    put_varint(out, u64::from(root.lineage.0));
    put_varint(out, root.inherits.len() as u64);
    for (lineage, publish) in &root.inherits {
        put_varint(out, u64::from(lineage.0));
        put_varint(out, publish.0);
    }
    put_varint(out, root.entries);
    put_varint(out, root.bytes);
    if root.loaded.0 > 0 {
        put_varint(out, root.loaded.0);
    }
    if let Some(rows) = root.rows {
        put_varint(out, rows);
    }
    if root.counts != Counts::default() {
        root.counts.iter().for_each(|&count| put_varint(out, count));
    }
    for number in root.sums.iter().flat_map(|sums| sums.to_array()) {
        put_varint(out, number);
    }
    if let Some(key) = &max_key {
        put_bytes(out, key);
    }
}

/// A key of bounded length that is not below `key`; `None` if there is none.
fn bound_of(key: &[u8]) -> Option<Cow<'_, [u8]>> {
    let Some(head) = key.get(..MAX_KEY_KEPT).filter(|_| key.len() > MAX_KEY_KEPT) else {
        return Some(Cow::Borrowed(key));
    };
    let last = head.iter().rposition(|&byte| byte != 0xff)?;
    let mut bound = head[..=last].to_vec();
    bound[last] += 1;
    Some(Cow::Owned(bound))
}

fn decode_trees(reader: &mut Reader<'_>) -> Decoded<BTreeMap<TreeId, TreeRoot>> {
    let mut trees = BTreeMap::new();
    let mut expected = 0u64;
    for _ in 0..reader.number()? {
        let id = reader.number()?.checked_add(expected);
        let id =
            id.and_then(|id| u32::try_from(id).ok()).ok_or("a tree id of more than 32 bits")?;
        expected = u64::from(id) + 1;
        trees.insert(TreeId(id), decode_tree(reader, None)?);
    }
    Ok(trees)
}

/// Decodes what [`put_tree`] wrote; `applied` must be given if it was left out.
pub(super) fn decode_tree(reader: &mut Reader<'_>, applied: Option<Seqno>) -> Decoded<TreeRoot> {
    let flags = reader.u8()?;
    let known =
        HAS_LINK | HAS_MAX_KEY | LEAF_HAS_BLOBS | IS_LOADED | HAS_ROWS | HAS_COUNTS | HAS_SUMS;
    if flags & !known != 0 {
        return Err("a root with unknown flags".into());
    }
    let link = match flags & HAS_LINK {
        0 => None,
        _ => Some(Link::from_disk(&reader.array::<LINK_BYTES>()?)),
    };
    let level = reader.u8()?;
    if level > LEVEL_MAX {
        return Err(format!("a tree of {level} levels"));
    }
    let applied = match applied {
        Some(applied) => applied,
        None => Seqno(reader.number()?),
    };
    let lineage = Lineage(reader.number_u32()?);
    let mut inherits = Vec::new();
    for _ in 0..reader.number()? {
        inherits.push((Lineage(reader.number_u32()?), VersionNumber(reader.number()?)));
    }
    let (entries, bytes) = (reader.number()?, reader.number()?);
    let loaded = match flags & IS_LOADED {
        0 => VersionNumber(0),
        _ => match reader.number()? {
            0 => return Err("a tree that no version loaded is listed as loaded".into()),
            loaded => VersionNumber(loaded),
        },
    };
    let rows = match flags & HAS_ROWS {
        0 => None,
        _ => Some(reader.number()?),
    };
    let mut counts = Counts::default();
    if flags & HAS_COUNTS != 0 {
        for count in &mut counts {
            *count = reader.number()?;
        }
        if counts == Counts::default() {
            return Err("counters that were never used are listed as used".into());
        }
    }
    let mut sums = None;
    if flags & HAS_SUMS != 0 {
        let mut numbers = [0; SUMS];
        for number in &mut numbers {
            *number = reader.number()?;
        }
        sums = Some(Sums::from_array(numbers));
    }
    let max_key = match flags & HAS_MAX_KEY {
        0 => None,
        _ => Some(reader.bytes(KEY_BYTES_MAX)?.to_vec()),
    };
    let leaf_has_blobs = flags & LEAF_HAS_BLOBS != 0;
    if leaf_has_blobs && (link.is_none() || level > 0) {
        return Err("a root that lists blobs and is no leaf".into());
    }
    Ok(TreeRoot {
        link,
        level,
        leaf_has_blobs,
        applied,
        lineage,
        inherits,
        entries,
        bytes,
        max_key,
        loaded,
        rows,
        counts,
        sums,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    fn link() -> impl Strategy<Value = Link> {
        any::<(u64, u32, u32, u64, u64, u32)>().prop_map(|(o, b, t, hash, birth, lineage)| Link {
            offset: o,
            bytes: b,
            footer_bytes: t,
            hash,
            birth: VersionNumber(birth),
            lineage: Lineage(lineage),
        })
    }

    fn tree() -> impl Strategy<Value = TreeRoot> {
        (
            proptest::option::of(link()),
            0u8..=LEVEL_MAX,
            any::<(u64, u32, u64, u64, bool, u64, Option<u64>, [u64; 4])>(),
            proptest::collection::vec(any::<(u32, u64)>(), 0..3),
            proptest::option::of(proptest::collection::vec(any::<u8>(), 0..40)),
            any::<Option<[u64; SUMS]>>(),
        )
            .prop_map(
                |(
                    link,
                    level,
                    (applied, lineage, entries, bytes, blobs, loaded, rows, counts),
                    inherits,
                    max_key,
                    sums,
                )| {
                    TreeRoot {
                        loaded: VersionNumber(loaded),
                        rows,
                        counts,
                        sums: sums.map(Sums::from_array),
                        link,
                        level,
                        leaf_has_blobs: blobs && link.is_some() && level == 0,
                        applied: Seqno(applied),
                        lineage: Lineage(lineage),
                        inherits: inherits
                            .into_iter()
                            .map(|(l, p)| (Lineage(l), VersionNumber(p)))
                            .collect(),
                        entries,
                        bytes,
                        max_key,
                    }
                },
            )
    }

    fn trees() -> impl Strategy<Value = BTreeMap<TreeId, TreeRoot>> {
        proptest::collection::btree_map(any::<u32>().prop_map(TreeId), tree(), 0..6)
    }

    pub(in crate::store) fn directory() -> impl Strategy<Value = RootDirectory> {
        let snapshot = (any::<(u64, u64)>(), trees());
        let snapshots = proptest::collection::vec(snapshot, 0..3);
        (trees(), snapshots).prop_map(|(trees, snapshots)| RootDirectory {
            trees,
            snapshots: (1u64..)
                .zip(snapshots)
                .map(|(id, ((seqno, publish), trees))| NamedSnapshot {
                    id,
                    seqno: Seqno(seqno),
                    publish: VersionNumber(publish),
                    trees: SnapshotTrees::Listed(Arc::new(trees)),
                })
                .collect(),
        })
    }

    proptest! {
        #[test]
        fn single_roots_round_trip(root in tree()) {
            prop_assert_eq!(TreeRoot::from_bytes(&root.to_bytes()), Ok(root));
        }

        #[test]
        fn directories_round_trip(directory in directory()) {
            prop_assert_eq!(RootDirectory::decode(&directory.encode()), Ok(directory));
        }

        /// Promise: P20.
        #[test]
        fn damaged_directories_never_panic(
            directory in directory(),
            flips in proptest::collection::vec(any::<(prop::sample::Index, u8)>(), 1..5),
            cut in proptest::option::of(any::<prop::sample::Index>()),
        ) {
            let mut bytes = directory.encode();
            for (at, xor) in flips {
                let at = at.index(bytes.len());
                bytes[at] ^= xor;
            }
            if let Some(cut) = cut {
                bytes.truncate(cut.index(bytes.len()));
            }
            drop(RootDirectory::decode(&bytes));
        }
    }
}
