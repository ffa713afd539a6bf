//! Encoding of a prepared transaction: what it will do, and what it keeps locked.
//!
//! Most transactions keep only those rows locked that they write, which the entries name. Only a
//! transaction that must stay serializable, or that has locked whole trees, has a list of locks
//! (Rules: I12, I54).
//!
//! Invariants
//! 1. Reading returns what was written.
//! 2. Any bytes are decoded or refused; decoding takes no more memory than a small multiple of
//!    their length (Promise: P20).
//!
//! Threads: plain values. Bytes: docs/format.md, "Prepared transactions".

use std::ops::Bound;

use crate::{
    KEY_BYTES_MAX, Seqno, TreeId,
    coding::{Reader, put_bytes, put_varint},
    layout::DecodeError,
    txn::lock_table::{LockList, RangeEntry, RowEntry, RowMode, TableMode},
};

const VERSION: u8 = 1;
/// Version of content whose body names runs.
const VERSION_OF_RUNS: u8 = 2;

const ROW_MODES: [RowMode; 3] = [RowMode::Shared, RowMode::Exclusive, RowMode::Write];
const TABLE_MODES: [TableMode; 4] =
    [TableMode::IntentShared, TableMode::IntentExclusive, TableMode::Shared, TableMode::Exclusive];

/// The decoded content of the pieces.
#[derive(PartialEq, Eq, Debug)]
pub(in crate::db) struct Content {
    /// The last commit that was visible before the prepare; the pieces' own commit comes after it.
    pub since: Seqno,
    /// All its locks, if there are more than those of the rows that it writes.
    pub locks: Option<LockList>,
    /// Whether its body names runs.
    pub has_runs: bool,
    /// The body of a commit record: what the transaction will do.
    pub body: Vec<u8>,
}

/// Encodes the content: a commit's body, which may name runs, and locks if they must be listed.
pub(super) fn write(
    since: Seqno,
    locks: Option<&LockList>,
    (body, has_runs): (&[u8], bool),
) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.len() + 16);
    let version = if has_runs { VERSION_OF_RUNS } else { VERSION };
    out.extend_from_slice(&[version, locks.is_some().into()]);
    put_varint(&mut out, since.0);
    if let Some(list) = locks {
        write_locks(list, &mut out);
    }
    out.extend_from_slice(body);
    out
}

/// Decodes the content.
pub(super) fn read(content: &[u8]) -> Result<Content, DecodeError> {
    let bad =
        |why: &str| DecodeError::Malformed { what: "prepared transaction", why: why.to_owned() };
    let (head, rest) = content.split_first_chunk::<2>().ok_or_else(|| bad("it is cut short"))?;
    match head {
        [version @ VERSION..=VERSION_OF_RUNS, flag @ 0..=1] => {
            let mut reader = Reader::new(rest);
            let since = reader.varint().ok_or_else(|| bad("it is cut short"))?;
            let locks = match flag {
                0 => None,
                _ => Some(read_locks(&mut reader).ok_or_else(|| bad("its locks cannot be read"))?),
            };
            let has_runs = *version == VERSION_OF_RUNS;
            Ok(Content { since: Seqno(since), locks, has_runs, body: reader.rest().to_vec() })
        }
        [VERSION..=VERSION_OF_RUNS, _] => Err(bad("it has a flag that there is not")),
        [version, _] => {
            Err(DecodeError::TooNew { what: format!("prepared transactions of version {version}") })
        }
    }
}

fn write_locks(LockList { rows, ranges, tables }: &LockList, out: &mut Vec<u8>) {
    for count in [tables.len(), rows.len(), ranges.len()] {
        put_varint(out, count as u64);
    }
    for (tree, mode) in tables {
        put_varint(out, tree.0.into());
        out.extend(place(&TABLE_MODES, mode));
    }
    for RowEntry { tree, key_hash, mode } in rows {
        put_varint(out, tree.0.into());
        out.extend_from_slice(&key_hash.to_le_bytes());
        out.extend(place(&ROW_MODES, mode));
    }
    for RangeEntry { tree, from, to } in ranges {
        put_varint(out, tree.0.into());
        for end in [from, to] {
            let (kind, key): (u8, &[u8]) = match end {
                Bound::Unbounded => (0, &[]),
                Bound::Included(key) => (1, key),
                Bound::Excluded(key) => (2, key),
            };
            out.push(kind);
            put_bytes(out, key);
        }
    }
}

/// The number of a mode on disk.
fn place<T: PartialEq>(modes: &[T], mode: &T) -> Option<u8> {
    modes.iter().position(|other| other == mode).map(|place| place as u8)
}

fn read_locks(reader: &mut Reader<'_>) -> Option<LockList> {
    let mut list = LockList::default();
    let [tables, rows, ranges] = [reader.varint()?, reader.varint()?, reader.varint()?];
    for _ in 0..tables {
        let tree = tree(reader)?;
        list.tables.push((tree, *TABLE_MODES.get(usize::from(reader.u8()?))?));
    }
    for _ in 0..rows {
        let tree = tree(reader)?;
        let key_hash = u128::from_le_bytes(reader.take(16)?.try_into().ok()?);
        list.rows.push(RowEntry {
            tree,
            key_hash,
            mode: *ROW_MODES.get(usize::from(reader.u8()?))?,
        });
    }
    for _ in 0..ranges {
        let tree = tree(reader)?;
        let [from, to] = [bound(reader)?, bound(reader)?];
        list.ranges.push(RangeEntry { tree, from, to });
    }
    Some(list)
}

fn tree(reader: &mut Reader<'_>) -> Option<TreeId> {
    u32::try_from(reader.varint()?).ok().map(TreeId)
}

fn bound(reader: &mut Reader<'_>) -> Option<Bound<Vec<u8>>> {
    let kind = reader.u8()?;
    let key = reader.bytes().filter(|key| key.len() <= KEY_BYTES_MAX + 1)?;
    match kind {
        0 if key.is_empty() => Some(Bound::Unbounded),
        1 => Some(Bound::Included(key.to_vec())),
        2 => Some(Bound::Excluded(key.to_vec())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list() -> LockList {
        let key = |byte| vec![byte; 3];
        LockList {
            rows: ROW_MODES
                .map(|mode| RowEntry { tree: TreeId(300), key_hash: u128::MAX / 3, mode })
                .to_vec(),
            ranges: vec![
                RangeEntry { tree: TreeId(1), from: Bound::Unbounded, to: Bound::Included(key(7)) },
                RangeEntry { tree: TreeId(2), from: Bound::Excluded(key(0)), to: Bound::Unbounded },
            ],
            tables: TABLE_MODES.map(|mode| (TreeId(u32::MAX), mode)).to_vec(),
        }
    }

    #[test]
    fn prepared_content_round_trips() {
        for locks in [None, Some(LockList::default()), Some(list())] {
            for has_runs in [false, true] {
                let content = write(Seqno(300), locks.as_ref(), (b"body", has_runs));
                let (since, locks) = (Seqno(300), locks.clone());
                let expected = Content { since, locks, has_runs, body: b"body".to_vec() };
                assert_eq!(read(&content), Ok(expected));
            }
        }
    }

    #[test]
    fn any_bytes_decode_without_a_panic() {
        let content = write(Seqno(7), Some(&list()), (b"", false));
        for cut in 0..content.len() {
            assert!(read(&content[..cut]).is_err(), "cut at {cut}");
        }
        for bit in 0..content.len() * 8 {
            let mut bad = content.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let _ = read(&bad);
        }
        let huge = [&[VERSION, 1, 0][..], &[0xff; 9], &[1, 0, 0]].concat();
        assert!(read(&huge).is_err());
        assert!(matches!(read(&[3, 0]), Err(DecodeError::TooNew { .. })));
    }
}
