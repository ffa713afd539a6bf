//! The root directory on disk: a head page, and page tables of trees' roots and of named snapshots.
//!
//! ```text
//! head ─► trees      page table: roots of 64 trees a payload, by tree id
//!      ─► snapshots  page table: 256 named snapshots a payload; each links its version's `trees`
//!      ─► listed     one page: snapshots of a store from before page tables, with all their roots
//! ```
//!
//! A named snapshot costs one entry, because the pages of its version's table stay: it pins that
//! version (`pins.rs`), and pages of the directory die as other pages do.
//!
//! Invariants
//! 1. A checkpoint writes the groups of trees that changed, the snapshots that changed, and the
//!    head.
//! 2. A checkpoint that fails on a full disk leaves the state as it was, except for the deaths of
//!    pages that it was to replace; those are not reported to the space map again
//!    (`Directory::dead`).
//! 3. A root is applied through the boundary of its version; entries do not repeat it (Rule: I9).
//!
//! Threads: under the checkpoint's lock. Bytes: docs/format.md, "Root directory".

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
};

use super::{
    codec::{Decoded, Reader},
    file::Store,
    page_table::{
        Bounds, PageTable, PutPage, ReadPage, WHAT, malformed, page_link, put_page_link, seal,
    },
    root_directory::{
        NamedSnapshot, RootDirectory, SnapshotTrees, TreeRoot, decode_tree, put_tree,
    },
    space::STORE_LINEAGE,
    superblock::{Superblock, Totals},
};
use crate::{
    coding::put_varint,
    error::Result,
    page::{FEATURE_PAGED_DIRECTORY, Link, PageKind},
    sync::Arc,
    types::{Seqno, TreeId, VersionNumber},
};

/// Number of trees whose roots share a page.
pub const GROUP_TREES: u32 = 64;
const SNAPSHOTS_A_PAGE: u64 = 256;

const HEAD_PAGE: u8 = 1;
const TREES_PAGE: u8 = 3;
const SNAPSHOTS_PAGE: u8 = 4;

/// The roots of some trees.
pub type Group = BTreeMap<TreeId, TreeRoot>;

/// The group of a tree.
pub fn group_of(tree: TreeId) -> u32 {
    tree.0 / GROUP_TREES
}

/// The tree ids of a group.
pub fn trees_of(group: u32) -> RangeInclusive<u32> {
    let first = group * GROUP_TREES;
    first..=first + (GROUP_TREES - 1)
}

/// The difference between the root directory of a version and the newest slot's.
#[derive(Clone, Debug, Default)]
pub struct DirectoryChange {
    /// The groups that differ, each whole; an empty group means that its trees are gone.
    pub groups: BTreeMap<u32, Group>,
    /// If true, groups that are not in `groups` have no trees; otherwise they are unchanged.
    pub is_whole: bool,
    /// All named snapshots of the version, ids ascending.
    pub snapshots: Vec<NamedSnapshot>,
}

impl DirectoryChange {
    /// A change that writes all of a directory.
    pub fn whole(directory: &RootDirectory) -> Self {
        let mut groups: BTreeMap<u32, Group> = BTreeMap::new();
        for (&tree, root) in &directory.trees {
            groups.entry(group_of(tree)).or_default().insert(tree, root.clone());
        }
        Self { groups, is_whole: true, snapshots: directory.snapshots.clone() }
    }
}

/// The root directory of the newest slot: the places of its pages.
#[derive(Clone, Debug, Default)]
pub(super) struct Directory {
    head: Option<Link>,
    trees: PageTable,
    snapshots: PageTable,
    listed: Option<Link>,
    /// The content of `snapshots` and `listed`.
    named: Vec<NamedSnapshot>,
    /// Pages of this state whose death is already recorded in the space map (invariant 2).
    pub dead: BTreeSet<u64>,
}

impl Directory {
    /// The directory of a store from before page tables: one page.
    fn of_one_page(head: Link) -> Self {
        Self { head: Some(head), ..Self::default() }
    }

    /// The root of the page table of the trees' roots.
    pub fn trees_root(&self) -> Option<Link> {
        self.trees.root()
    }

    /// True if the pages of the trees' roots are known, so that a change may leave groups out.
    pub fn is_paged(&self) -> bool {
        self.head.is_none() || self.trees.root().is_some()
    }

    /// Writes the changes of version `at`; returns the state of that version and its head page.
    pub fn write(&self, change: &DirectoryChange, pages: &mut dyn PutPage) -> Result<(Self, Link)> {
        let mut next = Self { dead: BTreeSet::new(), ..self.clone() };
        let mut groups: BTreeMap<u32, Option<Vec<u8>>> = BTreeMap::new();
        if change.is_whole {
            groups.extend(self.trees.numbers().map(|number| (number, None)));
        }
        for (&number, group) in &change.groups {
            let payload = (!group.is_empty()).then(|| seal_group(number, group));
            groups.insert(number, payload.transpose()?);
        }
        next.trees.update(groups, pages)?;
        next.write_snapshots(&change.snapshots, pages)?;
        self.head.into_iter().for_each(|link| pages.replaced(link));
        let head = pages.put(&seal(next.encode_head(), decode_head)?)?;
        next.head = Some(head);
        Ok((next, head))
    }

    fn write_snapshots(&mut self, named: &[NamedSnapshot], pages: &mut dyn PutPage) -> Result<()> {
        let own = SnapshotTrees::Paged(self.trees.root());
        let mut new = named.to_vec();
        for snapshot in new.iter_mut().filter(|one| matches!(one.trees, SnapshotTrees::Own)) {
            snapshot.trees = own.clone();
        }
        if new == self.named {
            return Ok(());
        }
        let (before, after) = (paged_pages(&self.named), paged_pages(&new));
        let mut changes: BTreeMap<u32, Option<Vec<u8>>> = BTreeMap::new();
        for (&number, page) in &after {
            if before.get(&number) != Some(page) {
                changes.insert(number, Some(seal_snapshots(number, page)?));
            }
        }
        changes.extend(before.keys().filter(|n| !after.contains_key(n)).map(|&n| (n, None)));
        self.snapshots.update(changes, pages)?;
        let listed = |of: &[NamedSnapshot]| -> Vec<_> {
            of.iter().filter(|one| is_listed(one)).cloned().collect()
        };
        let (before, listed) = (listed(&self.named), listed(&new));
        if listed != before {
            self.listed.take().into_iter().for_each(|link| pages.replaced(link));
            if !listed.is_empty() {
                let page = RootDirectory { trees: BTreeMap::new(), snapshots: listed };
                self.listed = Some(pages.put(&seal(page.encode(), RootDirectory::decode)?)?);
            }
        }
        self.named = new;
        Ok(())
    }

    fn encode_head(&self) -> Vec<u8> {
        let mut out = vec![HEAD_PAGE];
        for link in [self.trees.root(), self.snapshots.root(), self.listed] {
            out.push(u8::from(link.is_some()));
            link.into_iter().for_each(|link| put_page_link(&mut out, &link));
        }
        out
    }
}

fn is_listed(snapshot: &NamedSnapshot) -> bool {
    matches!(snapshot.trees, SnapshotTrees::Listed(_))
}

/// Snapshots with a table, by the number of the page that lists them.
fn paged_pages(named: &[NamedSnapshot]) -> BTreeMap<u32, Vec<&NamedSnapshot>> {
    let mut pages: BTreeMap<u32, Vec<&NamedSnapshot>> = BTreeMap::new();
    for snapshot in named.iter().filter(|one| !is_listed(one)) {
        // Ids have 32 bits, and ids read from disk belong to a number of a page table.
        let number = (snapshot.id / SNAPSHOTS_A_PAGE) as u32;
        pages.entry(number).or_default().push(snapshot);
    }
    pages
}

fn seal_group(number: u32, group: &Group) -> Result<Vec<u8>> {
    seal(encode_group(number, group), |page| {
        decode_group(page, number, Seqno(0), &mut Group::new())
    })
}

fn encode_group(number: u32, group: &Group) -> Vec<u8> {
    let mut out = Vec::with_capacity(16 + group.len() * 96);
    out.push(TREES_PAGE);
    for (tree, root) in group {
        assert_eq!(group_of(*tree), number, "a tree is in its own group");
        out.push((tree.0 % GROUP_TREES) as u8);
        put_tree(&mut out, root, None);
    }
    out
}

fn decode_group(page: &[u8], number: u32, applied: Seqno, into: &mut Group) -> Decoded<()> {
    let mut reader = Reader::new(page);
    if reader.u8()? != TREES_PAGE {
        return Err("it is no page of roots".into());
    }
    let mut least = 0;
    while !reader.is_empty() {
        let place = u32::from(reader.u8()?);
        if place < least || place >= GROUP_TREES {
            return Err("trees do not ascend".into());
        }
        least = place + 1;
        let tree = number.checked_mul(GROUP_TREES).ok_or("a tree id of more than 32 bits")?;
        into.insert(TreeId(tree + place), decode_tree(&mut reader, Some(applied))?);
    }
    if least == 0 { Err("a page of no roots".into()) } else { Ok(()) }
}

fn seal_snapshots(number: u32, page: &[&NamedSnapshot]) -> Result<Vec<u8>> {
    seal(encode_snapshots(page), |page| decode_snapshots(page, number, &mut Vec::new()))
}

fn encode_snapshots(page: &[&NamedSnapshot]) -> Vec<u8> {
    let mut out = vec![SNAPSHOTS_PAGE];
    for snapshot in page {
        put_varint(&mut out, snapshot.id);
        put_varint(&mut out, snapshot.seqno.0);
        put_varint(&mut out, snapshot.publish.0);
        let SnapshotTrees::Paged(root) = &snapshot.trees else {
            unreachable!("the trees of a new snapshot have been written");
        };
        out.push(u8::from(root.is_some()));
        root.iter().for_each(|root| put_page_link(&mut out, root));
    }
    out
}

fn decode_snapshots(page: &[u8], number: u32, into: &mut Vec<NamedSnapshot>) -> Decoded<()> {
    let mut reader = Reader::new(page);
    if reader.u8()? != SNAPSHOTS_PAGE {
        return Err("it is no page of snapshots".into());
    }
    while !reader.is_empty() {
        let id = reader.number()?;
        let ascends = into.last().is_none_or(|last| last.id < id);
        if !ascends || id / SNAPSHOTS_A_PAGE != u64::from(number) {
            return Err("snapshots do not ascend".into());
        }
        let seqno = Seqno(reader.number()?);
        let publish = VersionNumber(reader.number()?);
        let trees = SnapshotTrees::Paged(optional_link(&mut reader)?);
        into.push(NamedSnapshot { id, seqno, publish, trees });
    }
    Ok(())
}

/// Decodes the links of a head page: trees, snapshots, and the page of snapshots without a table.
fn decode_head(page: &[u8]) -> Decoded<[Option<Link>; 3]> {
    let mut reader = Reader::new(page);
    if reader.u8()? != HEAD_PAGE {
        return Err("it is no head of a root directory".into());
    }
    let mut links = [None; 3];
    for link in &mut links {
        *link = optional_link(&mut reader)?;
    }
    reader.end()?;
    Ok(links)
}

fn optional_link(reader: &mut Reader<'_>) -> Decoded<Option<Link>> {
    match reader.u8()? {
        0 => Ok(None),
        1 => page_link(reader).map(Some),
        _ => Err("a link that is neither there nor not".into()),
    }
}

/// Reads the root directory of a slot, and the places of its pages. The content of pages that
/// `read` leaves out is missing.
pub(super) fn load(
    superblock: &Superblock,
    read: &mut ReadPage<'_, '_>,
) -> Result<(RootDirectory, Directory)> {
    let mut roots = RootDirectory::default();
    let Some(link) = superblock.roots else { return Ok((roots, Directory::default())) };
    let Some((file, page)) = read(&link)? else {
        return Ok((roots, Directory::of_one_page(link)));
    };
    let bad = |why| malformed(file, &link, why);
    if superblock.incompat & FEATURE_PAGED_DIRECTORY == 0 {
        roots = RootDirectory::decode(&page).map_err(bad)?;
        roots.check_links(superblock).map_err(bad)?;
        return Ok((roots, Directory::of_one_page(link)));
    }
    let mut bounds = Bounds::of(superblock);
    let links = decode_head(&page).and_then(|links| {
        links.iter().flatten().try_for_each(|one| bounds.check(one, link.birth))?;
        Ok(links)
    });
    let [trees, snapshots, listed] = links.map_err(bad)?;
    drop(page);
    let mut named = Vec::new();
    let trees = load_trees(trees, superblock.applied, &mut bounds, read, &mut roots.trees)?;
    let snapshots = PageTable::load(snapshots, &mut bounds, read, &mut |number, own, page| {
        let from = named.len();
        decode_snapshots(page, number, &mut named)?;
        let tables = named.iter().skip(from).filter_map(|one| match one.trees {
            SnapshotTrees::Paged(Some(root)) => Some((root, one.publish)),
            _ => None,
        });
        for (root, publish) in tables {
            // Tables share pages, so each is checked by itself.
            Bounds::of(superblock).check(&root, publish.min(own.birth))?;
        }
        Ok(())
    })?;
    if let Some(link) = listed
        && let Some((file, page)) = read(&link)?
    {
        let bad = |why| malformed(file, &link, why);
        let page = RootDirectory::decode(&page).map_err(bad)?;
        page.check_links(superblock).map_err(bad)?;
        named.extend(page.snapshots);
        named.sort_by_key(|snapshot| snapshot.id);
        if named.windows(2).any(|two| two[0].id == two[1].id) {
            return Err(bad("a snapshot that is listed twice".into()));
        }
    }
    roots.snapshots = named.clone();
    let dead = BTreeSet::new();
    Ok((roots, Directory { head: Some(link), trees, snapshots, listed, named, dead }))
}

fn load_trees(
    root: Option<Link>,
    applied: Seqno,
    bounds: &mut Bounds,
    read: &mut ReadPage<'_, '_>,
    into: &mut Group,
) -> Result<PageTable> {
    let superblock = bounds.superblock();
    PageTable::load(root, bounds, read, &mut |number, own, page| {
        let mut group = Group::new();
        decode_group(page, number, applied, &mut group)?;
        for link in group.values().filter_map(|root| root.link.as_ref()) {
            if !super::space_map::root_fits(&superblock, link) || link.birth > own.birth {
                return Err(format!("a root at {} cannot be", link.offset));
            }
        }
        // Not `append`, which rebuilds the whole map.
        into.extend(group);
        Ok(())
    })
}

/// The roots of the trees that a named snapshot shows, and the pages that list them.
pub(super) fn load_snapshot(
    superblock: &Superblock,
    snapshot: &NamedSnapshot,
    read: &mut ReadPage<'_, '_>,
) -> Result<(Arc<Group>, Vec<Link>)> {
    match &snapshot.trees {
        SnapshotTrees::Listed(trees) => Ok((trees.clone(), Vec::new())),
        SnapshotTrees::Own => {
            unreachable!("only a version that is being written has its own trees")
        }
        SnapshotTrees::Paged(root) => {
            let mut trees = Group::new();
            let mut bounds = Bounds::of(superblock);
            let table = load_trees(*root, snapshot.seqno, &mut bounds, read, &mut trees)?;
            Ok((Arc::new(trees), table.links().copied().collect()))
        }
    }
}

impl Directory {
    /// All its pages, except those of the tables of snapshots of earlier versions.
    pub fn links(&self) -> impl Iterator<Item = &Link> {
        let tables = self.trees.links().chain(self.snapshots.links());
        self.head.iter().chain(tables).chain(&self.listed)
    }
}

impl Store {
    /// Writes the root directory and the space map. Returns the directory's new state and head, and
    /// the map's directory page and sums.
    pub(super) fn write_directory(
        &self,
        change: &DirectoryChange,
        pages: &mut DirectoryPages<'_>,
        previous: VersionNumber,
    ) -> Result<(Directory, Link, Link, Totals)> {
        self.file().require(FEATURE_PAGED_DIRECTORY);
        let at = pages.at;
        let mut directory = self.directory.lock().unwrap();
        let (next, roots) = directory.write(change, pages)?;
        for link in &pages.replaced {
            // Reported only once, even if this checkpoint is repeated because of a full disk.
            let lives_on = plant!("store: replaced pages of the directory never die");
            if directory.dead.insert(link.offset) && !lives_on {
                self.die(link, STORE_LINEAGE, at)?;
            }
        }
        drop(directory);
        let (map, totals) = self.write_map(at, previous)?;
        Ok((next, roots, map, totals))
    }

    /// The root of the page table of the trees' roots in the newest slot's version.
    pub fn trees_root(&self) -> Option<Link> {
        self.directory.lock().unwrap().trees_root()
    }

    /// True if a checkpoint may leave out groups of trees that did not change.
    pub fn has_paged_directory(&self) -> bool {
        self.directory.lock().unwrap().is_paged()
    }

    /// The roots of the trees that a named snapshot of the newest slot's version shows.
    ///
    /// Costs one read per page of its table, with 64 trees per page.
    pub fn snapshot_trees(&self, snapshot: &NamedSnapshot) -> Result<Arc<Group>> {
        Ok(self.snapshot_directory(&self.newest(), snapshot)?.0)
    }

    /// The roots of the trees that a named snapshot of any slot shows, with the pages of its table.
    pub fn snapshot_directory(
        &self,
        superblock: &Superblock,
        snapshot: &NamedSnapshot,
    ) -> Result<(Arc<Group>, Vec<Link>)> {
        load_snapshot(superblock, snapshot, &mut |link| {
            let page = self.read_page(link, PageKind::Directory, WHAT)?;
            Ok(Some((&**self.file(), page)))
        })
    }
}

/// The pages of the root directory that a checkpoint has written, and those that they replace.
pub(super) struct DirectoryPages<'a> {
    store: &'a Store,
    at: VersionNumber,
    written: Vec<Link>,
    replaced: Vec<Link>,
}

impl<'a> DirectoryPages<'a> {
    /// The pages of a checkpoint of version `at`, none so far.
    pub fn new(store: &'a Store, at: VersionNumber) -> Self {
        Self { store, at, written: Vec::new(), replaced: Vec::new() }
    }

    /// Frees the written pages: the checkpoint is given up, and no version has them.
    pub fn undo_allocation(&self) {
        let mut space = self.store.space().lock();
        self.written.iter().for_each(|link| space.undo_allocation(link.offset));
    }
}

impl PutPage for DirectoryPages<'_> {
    fn put(&mut self, payload: &[u8]) -> Result<Link> {
        let link = self.store.put_page(PageKind::Directory, self.at, STORE_LINEAGE, &[payload])?;
        self.written.push(link);
        Ok(link)
    }

    fn replaced(&mut self, link: Link) {
        self.replaced.push(link);
    }
}
