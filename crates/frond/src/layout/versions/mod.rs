//! Row versions: mapping rows of a tree whose layout of values has changed. Each row names the
//! version of the layout in which it is stored, and a pure function of its bytes converts it to
//! another version (Rule: I49).
//!
//! The naive way to change a layout is to rewrite every row. Here nothing is rewritten. The catalog
//! keeps the older layouts and, for each of them, where each part of the next layout comes from. A
//! reader maps the rows that it returns to the version that it knows. When a run is rewritten, its
//! rows are mapped to the newest version, where a default is a column with one value, which takes
//! no bits. Blocks that are not rewritten stay as they are.
//!
//! ```text
//! history  count | each older layout, the oldest first: length, layout | length, step
//! step     each part of the next one after its version: 0 | number of a part  or 1 | length, bytes
//! ```
//!
//! Invariants
//! 1. Version n is the n-th layout of the tree, from 0: no number ever means two layouts in a tree.
//!    A clone has the versions of its parent up to where it branched off, and so can read the pages
//!    that both share.
//! 2. A mapped row fits the layout to which it is mapped.
//! 3. A row that does not fit the layout that it names, or names none, is never changed.
//! 4. Any bytes decode to a history or a [`DecodeError`]; what decodes, encodes to the same bytes.
//!
//! Threads: plain values. Bytes: docs/format.md, "Layouts". Why rows name their version:
//! docs/design/027-rows-name-their-layout.md.

use super::{DecodeError, Layout, Part, VERSION_BYTES};
use crate::{
    Error, Result, bounds,
    coding::{Reader, put_bytes, put_varint},
    sync::Arc,
};

/// Longest encoded history, bytes.
pub const HISTORY_BYTES_MAX: usize = bounds::LAYOUT_HISTORY_BYTES.default as usize;

const KEPT: u8 = 0;
const ADDED: u8 = 1;
const WHAT: &str = "history of layouts";

/// A part of the next version of a layout, after the version itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NewPart {
    /// The part that has this number now. Part 0 is the version, which is added automatically.
    Keep(usize),
    /// A new part: existing rows have `default` in it, as the part is stored in a value (for a part
    /// with a length prefix, including that).
    Add {
        /// The type of the part.
        part: Part,
        /// The bytes in all existing rows.
        default: Vec<u8>,
    },
}

/// The origin of a part of the next version.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Origin {
    /// The part with this number.
    Part(u16),
    /// None: existing rows get these bytes.
    Default(Arc<[u8]>),
}

/// One change: the layout before it, and the origin of each part of the next one after its version.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Change {
    before: Layout,
    step: Vec<Origin>,
}

/// The changes of a layout of values, oldest first, as stored in the catalog.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct History {
    changes: Vec<Change>,
}

/// The mapping of rows of all versions to the newest one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RowVersions {
    newest: u16,
    /// The change that each older version needs, by version.
    older: Vec<Change>,
}

/// The relation of a row to a version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// The row has this version, or names none that applies: it stays as it is.
    AsItIs,
    /// The row is older, and was mapped.
    Mapped,
    /// The row names a version that is not known here.
    Newer(u16),
}

/// The version that a row names.
fn named(row: &[u8]) -> Option<u16> {
    row.first_chunk::<VERSION_BYTES>().map(|bytes| u16::from_be_bytes(*bytes))
}

impl History {
    /// True if the layout has never changed.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// The layout that follows `now`, and the history extended by this change.
    ///
    /// # Errors
    /// `InvalidArgument`: `now` has no version or has had too many changes, a part is kept twice or
    /// does not exist, a default does not fit its part, or no layout can have such parts.
    pub fn change(&self, now: &Layout, parts: &[NewPart]) -> Result<(Layout, Self)> {
        let refuse =
            |why: String| Err(Error::InvalidArgument(format!("change of a layout: {why}")));
        let Some(version) = now.version() else {
            return refuse(
                "its rows do not name their version; make a tree with Layout::versioned, and copy them as rows of version 0".into(),
            );
        };
        if !bounds::LAYOUT_CHANGES.admits(usize::from(version) + 1) {
            return refuse(format!(
                "it was changed {version} times; copy the rows, as ones of version 0, into a new tree"
            ));
        }
        let mut next = vec![Part::Version(version + 1)];
        let mut step = Vec::with_capacity(parts.len());
        for new in parts {
            match new {
                NewPart::Keep(number) => {
                    let there = now.parts().get(*number).filter(|_| *number > 0);
                    let Some(part) = there else {
                        let last = now.parts().len() - 1;
                        return refuse(format!("there is no part {number}; parts are 1 to {last}"));
                    };
                    let origin = Origin::Part(*number as u16);
                    if step.contains(&origin) {
                        return refuse(format!("part {number} is kept twice"));
                    }
                    next.push(*part);
                    step.push(origin);
                }
                NewPart::Add { part, default } => {
                    if part.bytes_in(default) != Some(default.len()) {
                        return refuse(format!(
                            "a default of {} bytes does not fit {part:?}",
                            default.len()
                        ));
                    }
                    next.push(*part);
                    step.push(Origin::Default(default.as_slice().into()));
                }
            }
        }
        let next = Layout::new(next);
        next.validate()?;
        let mut history = self.clone();
        history.changes.push(Change { before: now.clone(), step });
        let mut bytes = Vec::new();
        history.encode(&mut bytes);
        if !bounds::LAYOUT_HISTORY_BYTES.admits(bytes.len()) {
            return refuse(
                "the older layouts together are too long; copy the rows into a new tree".into(),
            );
        }
        match history.versions(&next) {
            Ok(_) => Ok((next, history)),
            Err(why) => refuse(why.into()),
        }
    }

    /// [`versions`](Self::versions) of values that may have no layout.
    pub fn of_values(
        &self,
        newest: Option<&Layout>,
    ) -> std::result::Result<Option<Arc<RowVersions>>, &'static str> {
        match newest {
            Some(layout) => self.versions(layout),
            None if self.is_empty() => Ok(None),
            None => Err("a history of layouts for values without a layout"),
        }
    }

    /// The mapping of rows to the newest layout, if they name their version; an error if this is
    /// not a history of that layout.
    pub fn versions(
        &self,
        newest: &Layout,
    ) -> std::result::Result<Option<Arc<RowVersions>>, &'static str> {
        let Some(version) = newest.version() else {
            return if self.is_empty() {
                Ok(None)
            } else {
                Err("a history of layouts for rows that do not name their version")
            };
        };
        if usize::from(version) != self.changes.len()
            || self.changes.len() > bounds::LAYOUT_CHANGES.len()
        {
            return Err("its number of changes differs from the version of the layout");
        }
        if !bounds::LAYOUT_MAPPED_PARTS.admits(self.changes.len() * newest.parts().len()) {
            return Err("there are too many changes of too many parts");
        }
        let mut older: Vec<Change> = Vec::with_capacity(self.changes.len());
        let mut next = newest;
        for (number, change) in self.changes.iter().enumerate().rev() {
            if change.before.version() != u16::try_from(number).ok() {
                return Err("the version of a layout does not match its position");
            }
            check(change, next)?;
            // The mapping from this version to the newest goes through the next version, whose
            // mapping was added last.
            let step: Vec<Origin> = match older.last() {
                None => change.step.clone(),
                Some(on) => on.step.iter().map(|origin| through(change, origin)).collect(),
            };
            let added = step.iter().map(|origin| match origin {
                Origin::Part(_) => 0,
                Origin::Default(bytes) => bytes.len(),
            });
            if !bounds::LAYOUT_DEFAULTS_BYTES.admits(added.sum::<usize>()) {
                return Err("the defaults of a row together are too long");
            }
            next = &change.before;
            older.push(Change { before: change.before.clone(), step });
        }
        older.reverse();
        Ok(Some(Arc::new(RowVersions { newest: version, older })))
    }

    /// Appends the history in the catalog's encoding.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.changes.len() as u64);
        let mut part = Vec::new();
        for Change { before, step } in &self.changes {
            part.clear();
            before.encode(&mut part);
            put_bytes(out, &part);
            part.clear();
            for origin in step {
                match origin {
                    Origin::Part(number) => {
                        part.push(KEPT);
                        put_varint(&mut part, (*number).into());
                    }
                    Origin::Default(bytes) => {
                        part.push(ADDED);
                        put_bytes(&mut part, bytes);
                    }
                }
            }
            put_bytes(out, &part);
        }
    }

    /// Decodes what [`encode`](Self::encode) wrote, which must fill `bytes`.
    /// [`versions`](Self::versions) checks whether it is the history of a layout.
    pub fn decode(bytes: &[u8]) -> std::result::Result<Self, DecodeError> {
        let short = || malformed("it is cut short");
        let mut reader = Reader::new(bytes);
        let count = reader.varint().ok_or_else(short)?;
        if bytes.len() > bounds::LAYOUT_HISTORY_BYTES.len() || count > bounds::LAYOUT_CHANGES.max()
        {
            return Err(malformed("it exceeds the maximum length or number of changes"));
        }
        let mut changes = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let before = Layout::decode(reader.bytes().ok_or_else(short)?)?;
            let mut steps = Reader::new(reader.bytes().ok_or_else(short)?);
            let mut step = Vec::new();
            while !steps.rest().is_empty() {
                step.push(match steps.u8().ok_or_else(short)? {
                    KEPT => {
                        let number = u16::try_from(steps.varint().ok_or_else(short)?);
                        Origin::Part(
                            number.map_err(|_| malformed("a part number is out of range"))?,
                        )
                    }
                    ADDED => Origin::Default(steps.bytes().ok_or_else(short)?.into()),
                    other => {
                        return Err(DecodeError::TooNew {
                            what: format!("origin {other} of a part"),
                        });
                    }
                });
            }
            changes.push(Change { before, step });
        }
        match reader.rest() {
            [] => Ok(Self { changes }),
            _ => Err(malformed("bytes follow its end")),
        }
    }
}

fn malformed(why: &str) -> DecodeError {
    DecodeError::Malformed { what: WHAT, why: why.to_owned() }
}

/// Checks whether a change leads to `next`.
fn check(change: &Change, next: &Layout) -> std::result::Result<(), &'static str> {
    let parts = next.parts().get(1..).unwrap_or_default();
    if parts.len() != change.step.len() {
        return Err("a change and the next layout differ in their number of parts");
    }
    let mut kept = vec![false; change.before.parts().len()];
    for (part, origin) in parts.iter().zip(&change.step) {
        let fits = match origin {
            Origin::Part(0) => false,
            Origin::Part(number) => {
                let number = usize::from(*number);
                let is_same = change.before.parts().get(number) == Some(part);
                is_same && kept.get_mut(number).is_some_and(|kept| !std::mem::replace(kept, true))
            }
            Origin::Default(bytes) => part.bytes_in(bytes) == Some(bytes.len()),
        };
        if !fits {
            return Err("a change and the next layout differ in their parts");
        }
    }
    Ok(())
}

/// The origin, before a change, of a part of a later version, given its origin after that change.
fn through(change: &Change, origin: &Origin) -> Origin {
    match origin {
        Origin::Default(_) => origin.clone(),
        // Checked before: it is a part of the next version, after that version's own.
        Origin::Part(number) => change.step[usize::from(*number) - 1].clone(),
    }
}

impl RowVersions {
    /// The version to which rows are mapped.
    pub fn newest(&self) -> u16 {
        self.newest
    }

    /// True if there is no older version: nothing is ever mapped.
    pub fn is_first(&self) -> bool {
        self.older.is_empty()
    }

    /// The version that a row names, if it is newer than all known here.
    #[inline]
    pub fn beyond(&self, row: &[u8]) -> Option<u16> {
        named(row).filter(|version| *version > self.newest)
    }

    /// True if a row names the newest version known here.
    #[inline]
    pub fn has(&self, row: &[u8]) -> bool {
        named(row) == Some(self.newest)
    }

    /// Maps a row to the newest version known here: an older one is written to `mapped` in that
    /// form. For a row that need not be mapped, this only compares two bytes.
    #[inline]
    pub fn map(&self, row: &[u8], mapped: &mut Vec<u8>) -> Standing {
        match named(row) {
            Some(version) if version < self.newest => self.map_from(version, row, mapped),
            Some(version) if version > self.newest => Standing::Newer(version),
            _ => Standing::AsItIs,
        }
    }

    #[cold]
    fn map_from(&self, version: u16, row: &[u8], mapped: &mut Vec<u8>) -> Standing {
        let mut ends = Vec::new();
        let change = self.older.get(usize::from(version));
        let Some(change) = change.filter(|change| change.before.split(row, &mut ends)) else {
            return Standing::AsItIs;
        };
        mapped.clear();
        mapped.extend_from_slice(&self.newest.to_be_bytes());
        for origin in &change.step {
            match origin {
                Origin::Default(bytes) => mapped.extend_from_slice(bytes),
                Origin::Part(number) => {
                    let number = usize::from(*number);
                    // Part 0, the version, is no origin.
                    mapped.extend_from_slice(&row[ends[number - 1]..ends[number]]);
                }
            }
        }
        if plant!("layout: a row that is mapped keeps the version that it had") {
            mapped[..VERSION_BYTES].copy_from_slice(&version.to_be_bytes());
        }
        Standing::Mapped
    }
}

#[cfg(test)]
mod tests;
