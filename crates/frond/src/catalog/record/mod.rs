//! Catalog records: what is stored about each tree and named snapshot.
//!
//! A record is one entry of tree 0. Its key is a kind byte and a big-endian number, so that records
//! of a kind are adjacent; its value is a version byte and *fields* (number, length, content) in
//! ascending order of their numbers. Page addresses are never stored here (Rule: I16); they are in
//! the root directory, under the same numbers.
//!
//! Invariants
//! 1. Decoding any bytes gives a record or a [`DecodeError`]; it allocates no more than the bytes
//!    given.
//! 2. Extensible: an unknown field below 64 makes the record unreadable (`TooNew`); one from 64 on
//!    is kept as it is and written again.
//! 3. What decodes, encodes to the same bytes; the key agrees with the numbers inside.
//!
//! Threads: plain values. Bytes: docs/format.md, "Catalog records".

use std::collections::BTreeMap;

use crate::{
    Error, Result, Seqno, SizeClass, TreeId, bounds,
    coding::{put_bytes, put_varint},
    layout::{
        DecodeError, HISTORY_BYTES_MAX, History, LAYOUT_BYTES_MAX, Layout, RowVersions, leb128,
    },
    run::OPERATOR_USER_MIN,
    sync::Arc,
    types::{Lineage, Xid},
};

mod fields;

use fields::{Fields, Reader};

/// Longest name of a tree or snapshot, bytes.
pub const NAME_BYTES_MAX: usize = bounds::NAME_BYTES.default as usize;
/// Longest attributes blob of a tree, bytes.
pub const ATTRIBUTES_BYTES_MAX: usize = bounds::ATTRIBUTES_BYTES.default as usize;
/// Longest record, bytes: attributes, two layouts, the former layouts, and 64 KiB for extensions
/// and the rest, of which merge operators may take 25 KiB.
pub const RECORD_BYTES_MAX: usize =
    ATTRIBUTES_BYTES_MAX + 2 * LAYOUT_BYTES_MAX + HISTORY_BYTES_MAX + (64 << 10);

/// Prefix of the attributes of a tree that holds the rows of a table.
pub const TABLE_ATTRIBUTES: &[u8; 12] = b"frond table\0";
/// The attributes of a tree that an index build makes, until it is published.
pub const BUILD_ATTRIBUTES: &[u8; 12] = b"frond build\0";

const VERSION: u8 = 1;
/// From this number on, an unknown field may be carried along unread.
const CARRIED_FROM: u64 = 64;

/// One entry of the catalog.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Record {
    /// The next numbers to assign.
    Counters(CounterRecord),
    /// A tree.
    Tree(TreeRecord),
    /// A named snapshot.
    Snapshot(SnapshotRecord),
    /// A dropped tree whose pages are not all free yet (Rule: I22).
    Dropped(DroppedRecord),
    /// A piece of the content of a prepared transaction (Rule: I12).
    Prepared(PreparedPiece),
}

/// Numbers that are assigned only once (Rule: I35).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CounterRecord {
    /// The next tree id, which is also the next lineage.
    pub next_tree: TreeId,
    /// The next snapshot number.
    pub next_snapshot: u32,
    /// Fields of a later version.
    pub carried: Carried,
}

/// The stored properties of a tree.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TreeRecord {
    /// The id.
    pub id: TreeId,
    /// The name, unique among trees.
    pub name: String,
    /// The size class.
    pub size_class: SizeClass,
    /// True if it has leaf filters, for checked inserts.
    pub unique: bool,
    /// Arbitrary data of its owner.
    pub attributes: Vec<u8>,
    /// The layout of its keys, if known.
    pub key_layout: Option<Layout>,
    /// The layout of its values, if known.
    pub value_layout: Option<Layout>,
    /// The lineage under which it writes pages (Rule: I19).
    pub lineage: Lineage,
    /// At most the commit that created it, and greater than all that were visible before (Rule:
    /// I43).
    pub birth: Seqno,
    /// What it was cloned from, while it shares pages with that.
    pub parent: Option<Parent>,
    /// The program's own merge operators whose operands its rows may have: numbers and names (Rule:
    /// I17). Recorded before the first commit that uses one.
    pub operators: BTreeMap<u8, String>,
    /// The history of the layout of its values (Rule: I49).
    pub history: History,
    /// Fields of a later version.
    pub carried: Carried,
}

/// Where a clone branched off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parent {
    /// The cloned tree; it may have been dropped since.
    pub tree: TreeId,
    /// The lineage whose pages are shared.
    pub lineage: Lineage,
    /// The last commit that was visible when the clone was requested; both trees have it.
    pub at: Seqno,
}

/// The stored properties of a named snapshot.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SnapshotRecord {
    /// The number, under which the root directory stores its roots.
    pub id: u32,
    /// The name, unique among snapshots.
    pub name: String,
    /// The last commit that was visible when it was requested. What it shows is in the root
    /// directory.
    pub seqno: Seqno,
    /// Wall-clock time of its creation, microseconds since 1970; for display only (P17).
    pub created_micros: u64,
    /// Fields of a later version.
    pub carried: Carried,
}

/// A tree that is no longer visible to users, and whose pages are being freed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DroppedRecord {
    /// The id, under which the root directory still has its root.
    pub tree: TreeId,
    /// The lineage.
    pub lineage: Lineage,
    /// The commit that dropped it.
    pub at: Seqno,
    /// Fields of a later version.
    pub carried: Carried,
}

/// A piece of a prepared transaction, which is stored in pieces so that the log need not keep it.
/// Together the pieces are its content: docs/format.md, "Prepared transactions".
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PreparedPiece {
    /// The name.
    pub xid: Xid,
    /// The index of this piece, from 0.
    pub number: u32,
    /// The number of pieces.
    pub count: u32,
    /// The next bytes of the content.
    pub content: Vec<u8>,
    /// Fields of a later version.
    pub carried: Carried,
}

/// Fields of a later version, which an older one may carry along unread, as stored.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Carried(Vec<u8>);

/// Checks the name of a tree or snapshot.
///
/// # Errors
/// [`Error::InvalidArgument`]: the name is empty, longer than [`NAME_BYTES_MAX`], or has control
/// characters.
pub fn validate_name(name: &str) -> Result<()> {
    match name_flaw(name) {
        None => Ok(()),
        Some(why) => Err(Error::InvalidArgument(format!("name: {why}"))),
    }
}

fn name_flaw(name: &str) -> Option<String> {
    if name.is_empty() {
        Some("it is empty".into())
    } else if !bounds::NAME_BYTES.admits(name.len()) {
        Some(format!(
            "it has {} bytes; names may have up to {}",
            name.len(),
            bounds::NAME_BYTES.len()
        ))
    } else if name.chars().any(char::is_control) {
        Some("it has control characters".into())
    } else {
        None
    }
}

const COUNTERS: u8 = 0;
const TREE: u8 = 1;
const SNAPSHOT: u8 = 2;
const DROPPED: u8 = 4;
const PREPARED: u8 = 5;

impl Record {
    /// The key under which this record is stored.
    pub fn key(&self) -> Vec<u8> {
        let (kind, number) = match self {
            Record::Prepared(piece) => return Self::prepared_key(&piece.xid, piece.number),
            Record::Counters(_) => (COUNTERS, 0),
            Record::Tree(tree) => (TREE, tree.id.0),
            Record::Snapshot(snapshot) => (SNAPSHOT, snapshot.id),
            Record::Dropped(dropped) => (DROPPED, dropped.tree.0),
        };
        let mut key = vec![kind];
        key.extend_from_slice(&number.to_be_bytes());
        key
    }

    /// The key of a tree's record.
    pub fn tree_key(tree: TreeId) -> Vec<u8> {
        Record::Tree(TreeRecord { id: tree, ..TreeRecord::default() }).key()
    }

    /// The tree whose record is stored under `key`, if it is such a key.
    pub fn tree_of_key(key: &[u8]) -> Option<TreeId> {
        let number = key.strip_prefix(&[TREE])?;
        Some(TreeId(u32::from_be_bytes(number.try_into().ok()?)))
    }

    /// The named snapshot whose record is stored under `key`, if it is such a key.
    pub fn snapshot_of_key(key: &[u8]) -> Option<u32> {
        let number = key.strip_prefix(&[SNAPSHOT])?;
        Some(u32::from_be_bytes(number.try_into().ok()?))
    }

    /// The key of a named snapshot's record.
    pub fn snapshot_key(id: u32) -> Vec<u8> {
        Record::Snapshot(SnapshotRecord { id, ..SnapshotRecord::default() }).key()
    }

    /// The key of a piece of a prepared transaction.
    pub fn prepared_key(xid: &Xid, number: u32) -> Vec<u8> {
        let xid = xid.as_bytes();
        [&[PREPARED, xid.len() as u8][..], xid, &number.to_be_bytes()].concat()
    }

    /// The name of the prepared transaction whose piece is stored under `key`, and the piece's
    /// number, if it is such a key.
    pub fn prepared_of_key(key: &[u8]) -> Option<(Xid, u32)> {
        let (&length, rest) = key.strip_prefix(&[PREPARED])?.split_first()?;
        let (xid, number) = rest.split_at_checked(length.into())?;
        Some((Xid::new(xid).ok()?, u32::from_be_bytes(number.try_into().ok()?)))
    }

    /// The value of the entry: version and fields.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if a name, the attributes or a layout exceeds its bounds; nothing
    /// that cannot be read back is ever written.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let mut out = Fields { out: vec![VERSION] };
        match self {
            Record::Counters(counters) => {
                out.number(1, counters.next_tree.0.into());
                out.number(2, counters.next_snapshot.into());
                out.carry(&counters.carried);
            }
            Record::Tree(tree) => tree.encode(&mut out)?,
            Record::Snapshot(snapshot) => {
                validate_name(&snapshot.name)?;
                out.number(1, snapshot.id.into());
                out.bytes(2, snapshot.name.as_bytes());
                out.number(3, snapshot.seqno.0);
                out.number(4, snapshot.created_micros);
                out.carry(&snapshot.carried);
            }
            Record::Dropped(dropped) => {
                out.number(1, dropped.tree.0.into());
                out.number(2, dropped.lineage.0.into());
                out.number(3, dropped.at.0);
                out.carry(&dropped.carried);
            }
            Record::Prepared(piece) => {
                out.bytes(1, piece.xid.as_bytes());
                out.number(2, piece.number.into());
                out.number(3, piece.count.into());
                out.bytes(4, &piece.content);
                out.carry(&piece.carried);
            }
        }
        Ok(out.out)
    }

    /// Decodes the entry (`key`, `value`) of the catalog.
    ///
    /// # Errors
    /// A [`DecodeError`]: malformed, or written by a newer version. [`DecodeError::at`] turns it
    /// into an error.
    pub fn decode(key: &[u8], value: &[u8]) -> Result<Self, DecodeError> {
        let kind = *key.first().ok_or_else(|| malformed("its key is empty"))?;
        let fields = Reader::new(value)?;
        let record = match kind {
            COUNTERS => {
                let mut fields = fields;
                Record::Counters(CounterRecord {
                    next_tree: TreeId(fields.number32(1)?),
                    next_snapshot: fields.number32(2)?,
                    carried: fields.carried()?,
                })
            }
            TREE => Record::Tree(TreeRecord::decode(fields)?),
            SNAPSHOT => {
                let mut fields = fields;
                Record::Snapshot(SnapshotRecord {
                    id: fields.number32(1)?,
                    name: fields.name(2)?,
                    seqno: Seqno(fields.number(3)?),
                    created_micros: fields.number(4)?,
                    carried: fields.carried()?,
                })
            }
            DROPPED => {
                let mut fields = fields;
                Record::Dropped(DroppedRecord {
                    tree: TreeId(fields.number32(1)?),
                    lineage: Lineage(fields.number32(2)?),
                    at: Seqno(fields.number(3)?),
                    carried: fields.carried()?,
                })
            }
            PREPARED => {
                let mut fields = fields;
                let xid = Xid::new(fields.bytes(1)?);
                let piece = PreparedPiece {
                    xid: xid.map_err(|_| malformed("its xid is empty or too long"))?,
                    number: fields.number32(2)?,
                    count: fields.number32(3)?,
                    content: fields.bytes(4)?.to_vec(),
                    carried: fields.carried()?,
                };
                if piece.number >= piece.count {
                    return Err(malformed("its number is not below the number of pieces"));
                }
                Record::Prepared(piece)
            }
            other => {
                return Err(DecodeError::TooNew {
                    what: format!("catalog records of kind {other}"),
                });
            }
        };
        match record.key() == key {
            true => Ok(record),
            false => Err(malformed("its key is not that of the record")),
        }
    }
}

impl TreeRecord {
    fn encode(&self, out: &mut Fields) -> Result<()> {
        validate_name(&self.name)?;
        if !bounds::ATTRIBUTES_BYTES.admits(self.attributes.len()) {
            return Err(Error::InvalidArgument(format!(
                "tree \"{}\": attributes of {} bytes; they may have up to {}",
                self.name,
                self.attributes.len(),
                bounds::ATTRIBUTES_BYTES.max()
            )));
        }
        out.number(1, self.id.0.into());
        out.bytes(2, self.name.as_bytes());
        out.number(3, self.size_class as u64);
        out.number(4, self.unique.into());
        out.bytes(5, &self.attributes);
        out.layout(6, self.key_layout.as_ref())?;
        out.layout(7, self.value_layout.as_ref())?;
        out.number(8, self.lineage.0.into());
        out.number(9, self.birth.0);
        if let Some(parent) = &self.parent {
            out.number(10, parent.tree.0.into());
            out.number(11, parent.lineage.0.into());
            out.number(12, parent.at.0);
        }
        if !self.operators.is_empty() {
            out.operators(13, &self.operators);
        }
        if !self.history.is_empty() {
            let mut content = Vec::new();
            self.history.encode(&mut content);
            out.bytes(14, &content);
        }
        out.carry(&self.carried);
        Ok(())
    }

    fn decode(mut fields: Reader<'_>) -> Result<Self, DecodeError> {
        let record = Self {
            id: TreeId(fields.number32(1)?),
            name: fields.name(2)?,
            size_class: SizeClass::from_disk(fields.number8(3)?)
                .ok_or_else(|| DecodeError::TooNew { what: "another size class".to_owned() })?,
            unique: match fields.number(4)? {
                0 => false,
                1 => true,
                _ => return Err(malformed("unique is neither 0 nor 1")),
            },
            attributes: match fields.bytes(5)? {
                long if long.len() > bounds::ATTRIBUTES_BYTES.len() => {
                    return Err(malformed("its attributes are too long"));
                }
                attributes => attributes.to_vec(),
            },
            key_layout: fields.layout(6)?,
            value_layout: fields.layout(7)?,
            lineage: Lineage(fields.number32(8)?),
            birth: Seqno(fields.number(9)?),
            parent: match fields.has(10) {
                false => None,
                true => Some(Parent {
                    tree: TreeId(fields.number32(10)?),
                    lineage: Lineage(fields.number32(11)?),
                    at: Seqno(fields.number(12)?),
                }),
            },
            operators: fields.operators(13)?,
            history: fields.history(14)?,
            carried: fields.carried()?,
        };
        match record.versions() {
            Ok(_) => Ok(record),
            Err(why) => Err(malformed(why)),
        }
    }

    /// The mapping of its rows to its layout, if they name their version; or an error if its
    /// history does not match its layout.
    pub fn versions(&self) -> Result<Option<Arc<RowVersions>>, &'static str> {
        self.history.of_values(self.value_layout.as_ref())
    }
}

fn malformed(why: &str) -> DecodeError {
    DecodeError::Malformed { what: "catalog record", why: why.to_owned() }
}

#[cfg(test)]
mod tests;
