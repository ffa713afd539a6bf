//! Node pages: encoding and decoding of nodes.
//!
//! Bytes: docs/format.md, "Node page". The store module checks the page's checksum and identity.
//! This file then checks the structure, in release builds too: a node that is not well formed is
//! damage, whatever its checksum says (P20). The same checks are run on a page before it is
//! written.

use crate::{
    bounds,
    coding::{Reader, put_bytes, put_optional, put_varint},
    error::{Error, Result},
    page::{LINK_BYTES, Link, PageKind, StoreFile, sealed},
    store::page_bytes,
    sync::Arc,
    types::{Lineage, VersionNumber},
};

use super::{
    TreeContext,
    meta::{Measured, RunMeta},
    node::{Child, Node, NodeRef, RunHandle, RunSlice, Tier},
};

const FORMAT: u8 = 1;
/// Deeper than any tree can be: 2^40 leaves at a fanout of 2.
pub(super) const LEVEL_MAX: u8 = 40;

fn put_link(out: &mut Vec<u8>, link: &Link) {
    out.extend_from_slice(&link.to_disk());
}

fn read_link(reader: &mut Reader<'_>) -> Option<Link> {
    reader.array::<LINK_BYTES>().map(|bytes| Link::from_disk(&bytes))
}

const HAS_RANGE_DELETES: u8 = 1;
const HAS_BLOBS: u8 = 2;
/// Leaves only: the bytes of the rows follow, and those of the blobs, if there are any.
const IS_MEASURED: u8 = 4;

/// Appends a leaf or a waiting run. The lengths of its rows are stored only for leaves: nothing
/// needs them for a waiting run.
fn put_run(out: &mut Vec<u8>, run: &RunHandle, is_leaf: bool) {
    // A placeholder leaf has a link of zero bytes; its birth and lineage are kept.
    let placeholder = Link { birth: run.birth, lineage: run.lineage, ..Link::default() };
    let link = run.link().copied().unwrap_or(placeholder);
    assert!(
        link.bytes > 0 || run.is_placeholder(),
        "a checkpoint writes runs before the nodes that link them"
    );
    put_link(out, &link);
    put_varint(out, run.meta.entries);
    put_varint(out, run.meta.bytes);
    let measured = run.meta.measured.filter(|_| is_leaf);
    let flags = [
        (run.meta.range_deletes, HAS_RANGE_DELETES),
        (run.meta.blobs, HAS_BLOBS),
        (measured.is_some(), IS_MEASURED),
    ];
    out.push(flags.iter().map(|&(is_set, flag)| if is_set { flag } else { 0 }).sum());
    if let Some(Measured { raw_bytes, blob_bytes }) = measured {
        put_varint(out, raw_bytes);
        if run.meta.blobs {
            put_varint(out, blob_bytes);
        }
    }
}

/// Encodes a node of version `birth` whose children and runs all have addresses. Fails if the page
/// could not be read again: then nothing may be written. The check costs about as much as the
/// encoding.
pub(crate) fn seal_node(node: &Node, birth: VersionNumber) -> Result<Vec<u8>> {
    let bytes = encode_node(node);
    if plant!("tree: a node is written unread") {
        return Ok(bytes);
    }
    let fits = page_bytes(bytes.len()) <= bounds::NODE_PAGE_BYTES.max();
    sealed("a node page", if fits { Ok(()) } else { Err("it exceeds the maximum length") })?;
    // One descriptor for all runs: creating and dropping one for each would cost more than
    // everything else here.
    let shared = RunHandle::placeholder(Lineage(0), VersionNumber(0));
    let mut newest = VersionNumber(0);
    let mut describe = |link: Link, meta| {
        newest = newest.max(link.birth);
        if cfg!(debug_assertions) { RunHandle::on_disk(link, meta, 0) } else { shared.clone() }
    };
    let read = decode_node(&mut describe, &bytes);
    let read = without_flaw(read, birth)
        .and_then(|node| if newest <= birth { Ok(node) } else { Err(YOUNGER_RUN) })
        .and_then(|read| if read.level == node.level { Ok(read) } else { Err(OTHER_LEVEL) })
        .map(|node| debug_assert!(encode_node(&node) == bytes, "it is read as it was written"));
    sealed("a node page", read)?;
    Ok(bytes)
}

/// Encodes a node without checking it.
pub(crate) fn encode_node(node: &Node) -> Vec<u8> {
    let too_high = plant!("tree: a node is encoded a level too high")
        || (node.level > 1 && plant!("tree: a node is sealed at another level"));
    let mut out = vec![FORMAT, node.level + u8::from(too_high)];
    put_varint(&mut out, node.children.len() as u64);
    for pivot in &node.pivots {
        put_bytes(&mut out, pivot);
    }
    for child in &node.children {
        match child {
            Child::Leaf(run) => put_run(&mut out, run, true),
            Child::Node(child) => put_link(
                &mut out,
                child.link().expect("a checkpoint writes children before their parents"),
            ),
        }
    }
    put_varint(&mut out, node.tiers.len() as u64);
    for tier in &node.tiers {
        put_varint(&mut out, tier.slices.len() as u64);
        for slice in &tier.slices {
            put_run(&mut out, &slice.run, false);
            put_optional(&mut out, slice.lo.as_deref());
            put_optional(&mut out, slice.hi.as_deref());
            slice.live.iter().for_each(|&bytes| put_varint(&mut out, u64::from(bytes)));
        }
    }
    out
}

/// Upper bounds of the bytes that a run, and the length of a key, take in a page.
const RUN_BYTES: usize = LINK_BYTES + 41;
const LENGTH_BYTES: usize = 4;

impl Node {
    /// An upper bound of the bytes of its page.
    pub(super) fn page_bytes(&self) -> usize {
        let count = self.children.len();
        let pivots: usize = self.pivots.iter().map(|pivot| pivot.len() + LENGTH_BYTES).sum();
        let end = |key: &Option<Box<[u8]>>| key.as_ref().map_or(1, |key| key.len() + LENGTH_BYTES);
        let slice = |slice: &RunSlice| RUN_BYTES + end(&slice.lo) + end(&slice.hi) + 5 * count;
        let slices: usize = self.tiers.iter().flat_map(|tier| &tier.slices).map(slice).sum();
        64 + pivots + count * RUN_BYTES + self.tiers.len() * LENGTH_BYTES + slices
    }
}

/// Reads the page of a node of this level: checksum, identity, then structure.
pub(crate) fn read_node(cx: &TreeContext, link: &Link, level: u8) -> Result<Arc<Node>> {
    let file = cx.store.file();
    if u64::from(link.bytes) > bounds::NODE_PAGE_BYTES.max() {
        let why = "it exceeds the maximum length";
        return Err(file.malformed(link.offset, link.bytes.into(), "node page", why));
    }
    let bytes = cx.store.read_page(link, PageKind::Node, "node page")?;
    let node = decode_node(&mut |link, meta| cx.run_handle(link, meta), &bytes);
    let node = check_node(file, link, node)?;
    if node.level != level && !plant!("tree: the level of a node is not checked") {
        return Err(malformed(file, link, OTHER_LEVEL));
    }
    Ok(Arc::new(node))
}

/// Decodes a node from a verified page, for callers that only walk over pages: what it links gets
/// separate descriptors, whose reference counts are not known.
pub(crate) fn parse_node(file: &StoreFile, link: &Link, payload: &[u8]) -> Result<Node> {
    let node = decode_node(&mut |link, meta| RunHandle::on_disk(link, meta, 0), payload);
    check_node(file, link, node)
}

fn check_node(file: &StoreFile, link: &Link, node: Option<Node>) -> Result<Node> {
    without_flaw(node, link.birth).map_err(|why| malformed(file, link, why))
}

fn malformed(file: &StoreFile, link: &Link, why: &str) -> Error {
    file.malformed(link.offset, u64::from(link.bytes), "node page", why)
}

/// Checks what was decoded from a page of version `birth`, and says what is wrong if it is not well
/// formed.
fn without_flaw(node: Option<Node>, birth: VersionNumber) -> Result<Node, &'static str> {
    let node = node.ok_or("it ends too early, or in bytes that mean nothing")?;
    match flaw_below(&node, birth).or_else(|| node.flaw()) {
        None => Ok(node),
        Some(why) => Err(why),
    }
}

pub(crate) const OTHER_LEVEL: &str = "its level is not the one that its parent states";
const YOUNGER_RUN: &str = "it links a run that was born after it";

/// Says what a node links that is younger than the node, if anything (Rule: I20).
fn flaw_below(node: &Node, birth: VersionNumber) -> Option<&'static str> {
    let runs_fit = node.run_refs().all(|run| run.birth <= birth);
    let nodes_fit = node.children.iter().all(|child| match child {
        Child::Node(child) => child.birth <= birth,
        Child::Leaf(_) => true,
    });
    let rules = [(runs_fit, YOUNGER_RUN), (nodes_fit, "it links a node that was born after it")];
    rules.into_iter().find(|(holds, _)| !holds).map(|(_, why)| why)
}

/// Returns the descriptor of a run.
type Describe<'a> = dyn FnMut(Link, RunMeta) -> Arc<RunHandle> + 'a;

fn read_run(describe: &mut Describe<'_>, reader: &mut Reader<'_>) -> Option<Arc<RunHandle>> {
    let link = read_link(reader)?;
    let (entries, bytes) = (reader.varint()?, reader.varint()?);
    let known = HAS_RANGE_DELETES | HAS_BLOBS | IS_MEASURED;
    let flags = reader.u8().filter(|flags| flags & !known == 0)?;
    let (range_deletes, blobs) = (flags & HAS_RANGE_DELETES != 0, flags & HAS_BLOBS != 0);
    let mut measured = None;
    if flags & IS_MEASURED != 0 {
        let raw_bytes = reader.varint()?;
        let blob_bytes = if blobs { reader.varint()? } else { 0 };
        measured = Some(Measured { raw_bytes, blob_bytes });
    }
    let meta = RunMeta { entries, deletes: 0, bytes, range_deletes, blobs, measured };
    if link.bytes == 0 {
        let placeholder = RunHandle::placeholder(link.lineage, link.birth);
        return (meta == RunMeta::default()).then_some(placeholder);
    }
    Some(describe(link, meta))
}

fn decode_node(describe: &mut Describe<'_>, bytes: &[u8]) -> Option<Node> {
    let mut reader = Reader::new(bytes);
    let (format, level) = (reader.u8()?, reader.u8()?);
    if format != FORMAT || level == 0 || level > LEVEL_MAX {
        return None;
    }
    let count = reader.count(LINK_BYTES)?;
    let mut node = Node { level, ..Node::default() };
    for _ in 1..count {
        node.pivots.push(reader.bytes()?.into());
    }
    for _ in 0..count {
        node.children.push(if level == 1 {
            Child::Leaf(read_run(describe, &mut reader)?)
        } else {
            Child::Node(NodeRef::on_disk(read_link(&mut reader)?, level - 1))
        });
    }
    for _ in 0..reader.count(1)? {
        let mut tier = Tier::default();
        for _ in 0..reader.count(LINK_BYTES)? {
            let run = read_run(describe, &mut reader)?;
            let lo = reader.optional()?.map(Box::from);
            let hi = reader.optional()?.map(Box::from);
            let mut live = Vec::with_capacity(count);
            for _ in 0..count {
                live.push(u32::try_from(reader.varint()?).ok()?);
            }
            tier.slices.push(RunSlice { run, lo, hi, live });
        }
        node.tiers.push(tier);
    }
    // The page is padded to whole sectors; the rest must be padding.
    reader.rest().iter().all(|&byte| byte == 0).then_some(node)
}
