//! Tests of string columns that refer to others: they are restored, adapt when the rows change, and
//! refer only to allowed columns.

use super::{
    super::{ColumnSelection, ColumnarBlock, ColumnarBuilder, Columns, Plans, check, find},
    Both, Rows, around, build, documented, first_byte, message,
    rows::Noise,
};
use crate::{
    block::{BadBlock, Codec, Pushed, encoding::string::Strings},
    coding::put_bytes,
    layout::{End, Hint, Layout, Part},
    message::Tag,
    sync::Arc,
};

const TEXT: Part = Part::Var(End::Prefixed);
const KEY: Part = Part::Var(End::Escaped);

/// A name and a version; a number, a code, the name of a file, text.
fn packages() -> Arc<Columns> {
    let value = vec![Part::Fixed(4, Hint::Integer), Part::Fixed(12, Hint::None), TEXT, TEXT];
    Arc::new(Columns::new(&Layout::new(vec![KEY, KEY]), &Layout::new(value)))
}

/// Positions in the directory of names, numbers, codes, files and texts.
const NAME: usize = 1;
const NUMBER: usize = 3;
const CODE: usize = 4;
const FILE: usize = 5;
const TEXTS: usize = 6;

fn escaped(content: &[u8]) -> Vec<u8> {
    let mut key = Vec::new();
    for &byte in content {
        key.extend_from_slice(if byte == 0 { &[0, 0xff] } else { std::slice::from_ref(&byte) });
    }
    [&key[..], &[0, 1]].concat()
}

/// Packages whose files are named after them. Names are any bytes, including zeros and reference
/// bytes; some rows are no Puts, and some values do not fit.
fn rows(noise: &mut Noise, count: u32, mixed: bool) -> Rows {
    let mut rows = Rows::new();
    for number in 0..count {
        let mut name = format!("lib{:x}-{number}", noise.below(1 << 40)).into_bytes();
        if noise.below(6) == 0 {
            name.push(noise.below(8) as u8 + 248);
            name.push(0);
        }
        let version = format!("{}.{}-{}", noise.below(9), noise.below(90), noise.below(20));
        let key = [escaped(&name), escaped(version.as_bytes())].concat();
        let code: Vec<u8> = format!("{:012}", noise.below(1 << 36)).into_bytes();
        let mut file = b"pool/main/".to_vec();
        // One name in ten is that of another package.
        file.extend_from_slice(if noise.below(10) == 0 { b"another" } else { &name });
        file.extend_from_slice(&[b"/", &name[..], b"_", version.as_bytes(), b"_"].concat());
        file.extend_from_slice(&[&code[..], b".deb"].concat());
        let mut value = (noise.below(400) as u32).to_be_bytes().to_vec();
        value.extend_from_slice(&code);
        put_bytes(&mut value, &file);
        put_bytes(&mut value, format!("text {}", noise.below(1 << 30)).as_bytes());
        rows.insert(key, message(noise, mixed, value));
    }
    rows
}

/// File names refer to names and versions, that is, to two columns of the key and one of the value,
/// and are restored in every way of reading.
#[test]
fn references_round_trip() {
    let columns = packages();
    let mut noise = Noise(4);
    for codec in [Codec::Raw, Codec::Zstd1] {
        for mixed in [false, true] {
            let mut builder = ColumnarBuilder::new(columns.clone(), codec, Plans::new(&columns));
            for _ in 0..3 {
                let both = Both::new(&mut builder, &columns, &[], &rows(&mut noise, 200, mixed));
                both.assert_reads();
                let firsts = [NAME, CODE, FILE, TEXTS]
                    .map(|at| first_byte(&both.columnar, &columns, at) == 15);
                assert_eq!(firsts, [false, false, true, false]);
                for (key, _, _) in both.rows.iter().step_by(19) {
                    around(key).iter().for_each(|sought| both.assert_same(sought));
                }
                let (_, value) = columns.layouts();
                both.assert_projects(value, &[2]);
                both.assert_projects(value, &[0, 3]);
            }
        }
    }
}

/// File names with references take less than half.
#[test]
fn references_halve_the_encoded_size() {
    let columns = packages();
    let mut builder = ColumnarBuilder::new(columns.clone(), Codec::Zstd1, Plans::new(&columns));
    let both = Both::new(&mut builder, &columns, &[], &rows(&mut Noise(5), 200, false));
    let columnar = ColumnarBlock::parse(&both.columnar, &columns, &[]).unwrap();
    let with_references = columnar.texts(FILE, &mut Vec::new()).unwrap().bytes_used();
    let mut files = Strings::new();
    let decoded = columnar.texts(FILE, &mut Vec::new()).map(|texts| {
        texts.decode(&columnar, 0..columnar.rows(), &mut Default::default(), &mut files)
    });
    assert_eq!(decoded, Ok(Ok(())));
    let mut coded = Vec::new();
    assert_eq!(Codec::Zstd1.encode(files.bytes(), &mut coded), Codec::Zstd1);
    assert!(2 * with_references < coded.len(), "{with_references} and {}", coded.len());
}

/// Keys that do not fit remove the targets: that block's strings are encoded as they are, and those
/// of the next block have references again.
#[test]
fn references_adapt_when_a_block_lacks_a_column() {
    let columns = packages();
    let mut noise = Noise(6);
    let mut builder = ColumnarBuilder::new(columns.clone(), Codec::Raw, Plans::new(&columns));
    for misfits in [false, true, false] {
        let mut rows = rows(&mut noise, 150, false);
        if misfits {
            rows.insert(b"key".to_vec(), (Tag::DELETE, vec![]));
        }
        let both = Both::new(&mut builder, &columns, &[], &rows);
        both.assert_reads();
        let at = FILE - usize::from(misfits);
        assert_eq!(first_byte(&both.columnar, &columns, at) == 15, !misfits);
    }
}

/// Strings that have nothing in common stay as they are, and are measured again when the rows have
/// changed.
#[test]
fn references_are_used_only_where_they_save_bytes() {
    let columns = Arc::new(Columns::new(&Layout::new(vec![KEY]), &Layout::new(vec![TEXT])));
    let mut noise = Noise(8);
    let mut builder = ColumnarBuilder::new(columns.clone(), Codec::Raw, Plans::new(&columns));
    for (alike, after) in [(false, 1), (true, 40), (false, 40)] {
        let mut has_references = None;
        for _ in 0..after {
            let mut rows = Rows::new();
            for _ in 0..60 {
                let name = format!("{:016x}", noise.below(u64::MAX)).into_bytes();
                let other = format!("{:016x}", noise.below(u64::MAX)).into_bytes();
                let text = [&b"of "[..], if alike { &name } else { &other }].concat();
                let mut value = Vec::new();
                put_bytes(&mut value, &text);
                rows.insert(escaped(&name), (Tag::PUT, value));
            }
            let both = Both::new(&mut builder, &columns, &[], &rows);
            both.assert_reads();
            has_references = Some(first_byte(&both.columnar, &columns, 2) == 15);
        }
        assert_eq!(has_references, Some(alike));
    }
}

/// Targets hold strings, come earlier, have no references, and use no codec; and a reference byte
/// must name one of them.
#[test]
fn references_to_forbidden_columns_are_detected() {
    let columns = packages();
    let mut builder = ColumnarBuilder::new(columns.clone(), Codec::Zstd1, Plans::new(&columns));
    for (key, (tag, payload)) in &rows(&mut Noise(7), 150, false) {
        assert_eq!(builder.push(key, *tag, payload, 1 << 20), Pushed::Done);
    }
    let block = builder.finish(&[]).to_vec();
    let start = |at: usize| match at {
        0 => 8 + 2 * 7,
        _ => usize::from(u16::from_le_bytes([block[6 + 2 * at], block[7 + 2 * at]])),
    };
    let last = |at: &mut super::ColumnarRows, columnar: &ColumnarBlock<'_>| {
        at.last(columnar).map(|()| at.key().to_vec())
    };
    let fails = |block: &[u8]| {
        let columnar = ColumnarBlock::parse(block, &columns, &[]).unwrap();
        if let Ok(key) = last(&mut super::ColumnarRows::default(), &columnar) {
            let _ = find(&columnar, &key, &ColumnSelection::All, &mut Vec::new());
        }
        check(&columnar).err()
    };
    assert_eq!(fails(&block), None);
    let file = start(FILE);
    assert_eq!((block[file], block[file + 1] > 1), (15, true));
    let told = Some(BadBlock("a column refers to one that it cannot"));
    // Tags, numbers, itself, a later column, no column.
    for other in [0, NUMBER, FILE, TEXTS, 200, u16::MAX as usize] {
        let mut bad = block.clone();
        bad[file + 2..][..2].copy_from_slice(&(other as u16).to_le_bytes());
        assert_eq!(fails(&bad), told, "{other}");
    }
    // No columns, and more than allowed.
    for count in [0, 5, 255] {
        let mut bad = block.clone();
        bad[file + 1] = count;
        assert_eq!(fails(&bad), told, "{count}");
    }
    // A column that itself has references, or uses a codec.
    for first in [15, 0x20] {
        let mut bad = block.clone();
        bad[start(CODE)] = first;
        assert!(fails(&bad).is_some());
        let of_code = [2, 4, 6].into_iter().find(|&at| bad[file + at] == CODE as u8);
        assert!(of_code.is_some(), "file names refer to codes");
        let columnar = ColumnarBlock::parse(&bad, &columns, &[]).unwrap();
        assert_eq!(columnar.texts(FILE, &mut Vec::new()).err(), told);
    }
    // A key column has no references.
    let mut bad = block.clone();
    bad[start(2)] = 15;
    assert_eq!(fails(&bad), Some(BadBlock("a string column of unknown kind")));
    for at in file..start(TEXTS) {
        for byte in [0, 248, 0xff, block[at] ^ 1, block[at] ^ 0x80] {
            let mut bad = block.clone();
            bad[at] = byte;
            fails(&bad);
        }
    }
}

/// The bytes that docs/format.md shows.
#[test]
fn the_documented_references_are_read() {
    let shown = documented("The columnar block with references");
    let columns = Arc::new(Columns::new(&Layout::new(vec![KEY]), &Layout::new(vec![TEXT])));
    let rows: [(&[u8], &[u8]); 3] = [
        (b"ash\0\x01", b"\x07ash.txt"),
        (b"elm\0\x01", b"\x08elm\xF8.txt"),
        (b"oak\0\x01", b"\x0Aoak-oak.md"),
    ];
    let columnar = ColumnarBlock::parse(&shown, &columns, &[]).unwrap();
    check(&columnar).unwrap();
    for (key, value) in rows {
        let mut payload = Vec::new();
        let found = find(&columnar, key, &ColumnSelection::All, &mut payload);
        assert_eq!((found, &payload[..]), (Ok(Some(Tag::PUT)), value));
    }
    // A string that ends within an escape, and a reference to a column that does not exist.
    let last = shown.len() - 8 - 1;
    for (at, byte) in [(last, 0xff), (last - 5, 0xf9)] {
        let mut bad = shown.clone();
        bad[at] = byte;
        let bad = check(&ColumnarBlock::parse(&bad, &columns, &[]).unwrap());
        let told = ["a string ends within a byte", "a column refers to one that it cannot"];
        assert!(bad.is_err_and(|bad| told.contains(&bad.0)), "{at}");
    }
    let rows = rows.map(|(key, value)| (key, Tag::PUT, value));
    assert_eq!(first_byte(&build(&columns, &rows), &columns, 2), 15);
}
