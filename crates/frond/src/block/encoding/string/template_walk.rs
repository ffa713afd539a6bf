//! Finding the template of a string by walking from literal to literal: a tree whose edges are the
//! literals that may come next and the slots after them.
//!
//! Most strings have known templates. Their literals say where slots start, so the bytes between
//! them need no examination. A string without a path through the tree is cut into tokens
//! (`tokens.rs`), which also recognize slots by their contents; so the tree need not be complete,
//! and gives up early.
//!
//! Invariants
//! 1. A template that is found has the literals of the string, and the slots are what lies between
//!    them.
//! 2. The path depends only on the templates and the string.

use super::{
    strings::equal_short,
    templates::{Field, Span, Templates},
    tokens::{
        GUID_BYTES, HEX_MAX, Slot, SlotKind, TEXT_BYTES_MAX, Tokens, name_end, run_end, word_end,
    },
};
use crate::block::bytes::{leading_digits, short_word};

/// A node with more edges than this gets none: each edge is compared on every visit.
const EDGES_MAX: usize = 64;

/// The tree of one set of templates, which must be passed to every call.
#[derive(Debug, Default)]
pub(super) struct TemplateWalk {
    nodes: Vec<Node>,
    /// First bytes of the edges' literals, and masks of the bytes that exist.
    heads: Vec<(u64, u64)>,
    edges: Vec<Edge>,
    /// True if every template has a path.
    is_complete: bool,
}

/// The edges from a node, longest literals first.
#[derive(Clone, Copy, Debug)]
struct Node {
    first: u32,
    count: u8,
}

#[derive(Clone, Copy, Debug)]
struct Edge {
    literal: Span,
    /// The slot after the literal; `None`: the string ends.
    slot: Option<SlotKind>,
    /// The number of a node, or of a template.
    to: u32,
}

impl TemplateWalk {
    /// Builds the tree of these templates.
    pub fn of(templates: &Templates) -> Self {
        let mut nodes: Vec<Vec<Edge>> = vec![Vec::new()];
        for number in 0..templates.len() {
            let pieces = templates.pieces(number);
            // Strings that are templates as a whole have a table of their own.
            let pieces = if pieces.len() > 1 { pieces } else { &[] };
            let mut at = 0;
            for piece in pieces {
                let slot = (piece.field != Field::End).then_some(piece.kind);
                let is_same = |edge: &Edge| {
                    edge.slot == slot
                        && templates.text(edge.literal) == templates.text(piece.literal)
                };
                if let Some(edge) = nodes[at].iter().find(|edge| is_same(edge)) {
                    at = if slot.is_some() { edge.to as usize } else { at };
                    continue;
                }
                if nodes[at].len() > EDGES_MAX {
                    break;
                }
                let to = if slot.is_some() { nodes.len() } else { number };
                nodes[at].push(Edge { literal: piece.literal, slot, to: to as u32 });
                if slot.is_some() {
                    nodes.push(Vec::new());
                    at = to;
                }
            }
        }
        let mut walk = Self { is_complete: true, ..Self::default() };
        for mut edges in nodes {
            edges.sort_by_key(|edge| {
                (std::cmp::Reverse(edge.literal.len), edge.slot.map(|kind| kind as u8))
            });
            // A node with too many edges may lack some.
            walk.is_complete &= edges.len() <= EDGES_MAX;
            edges.truncate(if edges.len() > EDGES_MAX { 0 } else { EDGES_MAX });
            walk.nodes.push(Node { first: walk.edges.len() as u32, count: edges.len() as u8 });
            walk.heads.extend(edges.iter().map(|edge| {
                let literal = templates.text(edge.literal);
                (short_word(literal), short_word(&[u8::MAX; 8][..literal.len().min(8)]))
            }));
            walk.edges.append(&mut edges);
        }
        walk
    }

    /// True if each template has a path: then a string without one has no template, except through
    /// slots that are recognized by their contents.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Memory that it holds.
    pub fn memory_bytes(&self) -> usize {
        self.nodes.len() * size_of::<Node>()
            + self.heads.len() * (size_of::<(u64, u64)>() + size_of::<Edge>())
    }

    /// The template of `text`, with its slots in `tokens`.
    pub fn find(&self, templates: &Templates, text: &[u8], tokens: &mut Tokens) -> Option<u32> {
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        tokens.clear();
        let (mut at, mut node) = (0, 0);
        loop {
            let Node { first, count } = *self.nodes.get(node)?;
            let edges = first as usize..first as usize + usize::from(count);
            let rest = text.get(at..)?;
            let head = short_word(rest);
            let mut fits = 0u64;
            for (bit, (literal, mask)) in self.heads.get(edges.clone())?.iter().enumerate() {
                fits |= u64::from((head ^ literal) & mask == 0) << bit;
            }
            let edges = self.edges.get(edges)?;
            (at, node) = loop {
                let edge = edges.get(fits.trailing_zeros() as usize)?;
                fits &= fits - 1;
                let literal = templates.text(edge.literal);
                let Some((begin, after)) = rest.split_at_checked(literal.len()) else { continue };
                if !equal_short(begin, literal) {
                    continue;
                }
                let Some(kind) = edge.slot else {
                    if after.is_empty() {
                        return Some(edge.to);
                    }
                    continue;
                };
                let start = at + literal.len();
                if let Some(end) = slot_end(kind, text, start) {
                    if !tokens.add(Slot { start: start as u16, end: end as u16, kind }) {
                        return None;
                    }
                    break (end, edge.to as usize);
                }
            };
        }
    }
}

/// The end of a slot of this kind that starts at `start`.
#[inline]
fn slot_end(kind: SlotKind, text: &[u8], start: usize) -> Option<usize> {
    let end = match kind {
        SlotKind::Digits => digits_end(text, start),
        SlotKind::Hex => run_end(text, start).min(start + HEX_MAX + 1),
        SlotKind::Guid => (start + GUID_BYTES).min(text.len()),
        SlotKind::Word => match text.get(start.checked_sub(1)?) {
            Some(&quote @ (b'\'' | b'"')) => word_end(text, start, quote)?,
            _ => name_end(text, start),
        },
    };
    (end > start).then_some(end)
}

/// The end of the digits from `start` on.
#[inline]
fn digits_end(text: &[u8], mut start: usize) -> usize {
    loop {
        let count = leading_digits(text.get(start..).unwrap_or_default());
        start += count;
        if count < 8 {
            return start;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_end_at_the_first_other_byte() {
        for len in 0..20 {
            for byte in (0..=255u8).filter(|byte| !byte.is_ascii_digit()) {
                let mut text = vec![b'.'; 3];
                text.extend((0..len).map(|at| b'0' + at as u8 % 10));
                assert_eq!(digits_end(&text, 3), 3 + len);
                text.extend([byte, b'7']);
                assert_eq!(digits_end(&text, 3), 3 + len, "{byte} behind {len}");
            }
        }
    }
}
