//! Tests of columns that are differences to others: they are restored, adapt when the rows change,
//! and refer only to allowed columns.

use super::{
    super::{ColumnSelection, ColumnarBlock, ColumnarBuilder, Columns, Plans, check, find},
    Both, Rows, around, build, documented, first_byte, message,
    rows::Noise,
};
use crate::{
    block::{Codec, Pushed},
    coding::put_bytes,
    layout::{End, Hint, Layout, Part},
    message::Tag,
    sync::Arc,
};

const MICROS: Part = Part::Fixed(8, Hint::Microseconds);
const INT: Part = Part::Fixed(4, Hint::Integer);

/// A name, start, end, a number, the time of a change, text.
fn tasks() -> Arc<Columns> {
    let key = Layout::new(vec![Part::Fixed(4, Hint::Integer), MICROS]);
    let value = Layout::new(vec![MICROS, MICROS, INT, MICROS, Part::Var(End::Prefixed)]);
    Arc::new(Columns::new(&key, &value))
}

/// Positions in the directory of these columns of a value.
const BEGIN: usize = 3;
const END: usize = 4;
const CHANGED: usize = 6;

/// Tasks of a day in no order; some end years later, some rows are no Puts, and some values do not
/// fit.
fn rows(noise: &mut Noise, count: u32, mixed: bool) -> Rows {
    let mut rows = Rows::new();
    for id in 0..count {
        let created = 1_790_000_000_000_000 + noise.below(86_400_000_000);
        let begin = created + 500 + noise.below(100);
        let far = if noise.below(50) == 0 { 1 << 40 } else { 0 };
        let end = begin + noise.below(3000) + far;
        let key = [&(id / 3).to_be_bytes()[..], &created.to_be_bytes()].concat();
        let number = (noise.below(400) as u32).to_be_bytes();
        let mut value = [&begin.to_be_bytes()[..], &end.to_be_bytes(), &number].concat();
        value.extend_from_slice(&(end + noise.below(9)).to_be_bytes());
        put_bytes(&mut value, format!("task {}", noise.below(30)).as_bytes());
        rows.insert(key, message(noise, mixed, value));
    }
    rows
}

/// Invariants of `difference.rs`. The start is near a field of the key, the end near the start, and
/// the change near the end, which is itself a difference.
#[test]
fn differences_round_trip() {
    let columns = tasks();
    let mut noise = Noise(4);
    for mixed in [false, true] {
        let plans = Plans::new(&columns);
        let mut builder = ColumnarBuilder::new(columns.clone(), Codec::Raw, plans);
        for _ in 0..3 {
            let both = Both::new(&mut builder, &columns, &[], &rows(&mut noise, 700, mixed));
            both.assert_reads();
            if !mixed {
                let firsts =
                    [BEGIN, END, CHANGED].map(|at| first_byte(&both.columnar, &columns, at));
                assert_eq!(firsts, [71; 3]);
                assert_eq!(both.columnar[..2], [1, 4]);
            }
            for (key, _, _) in both.rows.iter().step_by(29) {
                both.assert_same(key);
            }
            let value = Layout::new(vec![MICROS, MICROS, INT, MICROS, Part::Var(End::Prefixed)]);
            both.assert_projects(&value, &[1, 4]);
            both.assert_projects(&value, &[3]);
        }
    }
}

/// Keys that do not fit remove a column to which others were differences; another encoding is found
/// for that block.
#[test]
fn differences_adapt_when_a_block_lacks_a_column() {
    let columns = tasks();
    let mut noise = Noise(5);
    let plans = Plans::new(&columns);
    let mut builder = ColumnarBuilder::new(columns.clone(), Codec::Raw, plans);
    for misfits in [false, true, false] {
        let mut rows = rows(&mut noise, 300, false);
        if misfits {
            rows.insert(b"key".to_vec(), (Tag::DELETE, vec![]));
        }
        let both = Both::new(&mut builder, &columns, &[], &rows);
        both.assert_reads();
        // With a single key column, those of the value come one earlier.
        let at = BEGIN - usize::from(misfits);
        let firsts = [at, at + 1].map(|at| first_byte(&both.columnar, &columns, at));
        assert_eq!((firsts[0] == 71, firsts[1]), (!misfits, 71));
    }
}

/// Tasks by duration, end, start: the start follows from the others. Some rows end at the largest
/// number.
fn by_duration(noise: &mut Noise, count: u64) -> Rows {
    let mut rows = Rows::new();
    for id in 0..count {
        let duration = 1000 + noise.below(60);
        let end = match noise.below(40) {
            0 => u64::MAX - noise.below(3),
            _ => 1_790_000_000_000_000 + noise.below(86_400_000_000),
        };
        let begin = end.wrapping_sub(duration);
        let key = [duration, end, begin, id].map(u64::to_be_bytes).concat();
        rows.insert(key, (Tag::PUT, vec![]));
    }
    rows
}

/// Invariant 2: key columns that are differences are searched, including differences that have
/// wrapped around.
#[test]
fn differences_in_keys_are_searchable() {
    let key = Layout::new(vec![Part::Fixed(8, Hint::Integer), MICROS, MICROS, INT, INT]);
    let columns = Arc::new(Columns::new(&key, &Layout::default()));
    let mut builder = ColumnarBuilder::new(columns.clone(), Codec::Raw, Plans::new(&columns));
    let mut noise = Noise(9);
    for _ in 0..2 {
        let both = Both::new(&mut builder, &columns, &[], &by_duration(&mut noise, 600));
        both.assert_reads();
        assert_eq!(first_byte(&both.columnar, &columns, 3), 71);
        for (key, _, _) in both.rows.iter().step_by(3) {
            around(key).iter().for_each(|sought| both.assert_same(sought));
        }
    }
}

/// Where a field is sometimes below the other and sometimes above it, differences fall once among
/// rows of one value: from those that have wrapped around to those that have not.
#[test]
fn differences_of_either_sign_are_searchable() {
    let key = Layout::new(vec![MICROS, MICROS]);
    let columns = Arc::new(Columns::new(&key, &Layout::default()));
    let mut builder = ColumnarBuilder::new(columns.clone(), Codec::Raw, Plans::new(&columns));
    let mut noise = Noise(10);
    for ends in [false, true] {
        let mut rows = Rows::new();
        for _ in 0..150 {
            let mut first = noise.below(1 << 40) << 20;
            if ends && noise.below(8) == 0 {
                first = [0, 1, u64::MAX, u64::MAX - 1][noise.below(4) as usize];
            }
            for _ in 0..1 + noise.below(6) {
                let second = first.wrapping_add(noise.below(7) * 5).wrapping_sub(15);
                let key = [first, second].map(u64::to_be_bytes).concat();
                rows.insert(key, (Tag::PUT, vec![]));
            }
        }
        let both = Both::new(&mut builder, &columns, &[], &rows);
        both.assert_reads();
        assert_eq!(first_byte(&both.columnar, &columns, 2), 71);
        for (key, _, _) in &both.rows {
            around(key).iter().for_each(|sought| both.assert_same(sought));
            let (first, second) = key.split_at(8);
            let second = u64::from_be_bytes(second.try_into().unwrap());
            for near in [0, 1, 5, 14, 15, 16, 35].map(|far| second.wrapping_add(far)) {
                both.assert_same(&[first, &near.to_be_bytes()].concat());
            }
        }
    }
}

/// A column that is no shorter as a difference stays as it is; what two columns have in common must
/// be worth the second read.
#[test]
fn unrelated_columns_are_encoded_separately() {
    let columns =
        Arc::new(Columns::new(&Layout::new(vec![INT]), &Layout::new(vec![MICROS, MICROS, INT])));
    let mut noise = Noise(6);
    let mut builder = ColumnarBuilder::new(columns.clone(), Codec::Raw, Plans::new(&columns));
    for row in 0..500u32 {
        let times = [noise.below(1 << 40), noise.below(1 << 40)].map(u64::to_be_bytes);
        let value = [&times.concat()[..], &row.to_be_bytes()].concat();
        assert_eq!(builder.push(&row.to_be_bytes(), Tag::PUT, &value, 1 << 20), Pushed::Done);
    }
    let block = builder.finish(&[]);
    assert!((0..5).all(|at| first_byte(block, &columns, at) != 71));
}

/// The other column must be an integer column of a field, come earlier, and be no difference.
#[test]
fn differences_to_forbidden_columns_are_detected() {
    let columns = tasks();
    let mut builder = ColumnarBuilder::new(columns.clone(), Codec::Raw, Plans::new(&columns));
    for (key, (tag, payload)) in &rows(&mut Noise(7), 300, false) {
        assert_eq!(builder.push(key, *tag, payload, 1 << 20), Pushed::Done);
    }
    let block = builder.finish(&[]).to_vec();
    let start = |at: usize| match at {
        0 => 8 + 2 * 8,
        _ => usize::from(u16::from_le_bytes([block[6 + 2 * at], block[7 + 2 * at]])),
    };
    let fails = |block: &[u8]| {
        let columnar = ColumnarBlock::parse(block, &columns, &[]).unwrap();
        let mut payload = Vec::new();
        let key = [&[0; 4][..], &[0xff; 8]].concat();
        let _ = find(&columnar, &key, &ColumnSelection::All, &mut payload);
        check(&columnar).err().map(|bad| bad.0)
    };
    assert_eq!(fails(&block), None);
    let told = "a column is the difference to none that it can be";
    // Tags, itself, a later column, a string column, no column; BEGIN is a difference itself.
    for other in [0, CHANGED, CHANGED + 1, 200, u16::MAX as usize, BEGIN, END] {
        let mut bad = block.clone();
        bad[start(CHANGED) + 1..][..2].copy_from_slice(&(other as u16).to_le_bytes());
        assert_eq!(fails(&bad), Some(told), "{other}");
    }
    // A wrong but allowed column number gives other rows; detecting that is the purpose of
    // checksums.
    let mut bad = block.clone();
    bad[start(CHANGED) + 1] = 1;
    assert_eq!(fails(&bad), None);
    // A key column as the difference to one of the value, to itself, to tags.
    for other in [BEGIN, 2, 0] {
        let mut bad = block.clone();
        bad[start(2)] = 71;
        bad[start(2) + 1..][..2].copy_from_slice(&(other as u16).to_le_bytes());
        assert_eq!(fails(&bad), Some(told), "{other}");
    }
    for at in start(BEGIN)..start(CHANGED + 1) {
        for byte in [0, 0xff, block[at] ^ 1, block[at] ^ 0x80] {
            let mut bad = block.clone();
            bad[at] = byte;
            fails(&bad);
        }
    }
}

/// The bytes that docs/format.md shows.
#[test]
fn the_documented_difference_is_read() {
    let shown = documented("The columnar block with a difference");
    let byte = Layout::new(vec![Part::Fixed(1, Hint::Integer)]);
    let columns = Arc::new(Columns::new(&byte, &Layout::new(vec![INT, INT])));
    let columnar = ColumnarBlock::parse(&shown, &columns, &[]).unwrap();
    check(&columnar).unwrap();
    let rows = [(1000u32, 1005u32), (5000, 5006), (2000, 2005), (9000, 9007)];
    for (key, (begin, end)) in (1..).zip(rows) {
        let mut payload = Vec::new();
        let found = find(&columnar, &[key], &ColumnSelection::All, &mut payload);
        assert_eq!(found, Ok(Some(Tag::PUT)));
        assert_eq!(payload, [begin.to_be_bytes(), end.to_be_bytes()].concat());
    }
    // So few rows are not encoded this way: a difference must save enough.
    let rows: Vec<(Vec<u8>, Vec<u8>)> = (1u8..)
        .zip(rows)
        .map(|(key, (begin, end))| (vec![key], [begin.to_be_bytes(), end.to_be_bytes()].concat()))
        .collect();
    let rows: Vec<(&[u8], Tag, &[u8])> =
        rows.iter().map(|(key, value)| (&key[..], Tag::PUT, &value[..])).collect();
    assert_ne!(first_byte(&build(&columns, &rows), &columns, 3), 71);
}

/// Prices, times, customers and ids: ids are assigned as time passes, a number of them per time
/// unit. In the order of prices neither column shows any of that.
fn by_price(noise: &mut Noise, count: u64, ids_a_milli: f64) -> Rows {
    let mut rows = Rows::new();
    for _ in 0..count {
        let at = noise.below(4_000_000);
        let millis = 1_790_000_000_000 + at / 50 * 50;
        let far = if noise.below(40) == 0 { noise.below(1 << 30) } else { 0 };
        let id = (at as f64 * ids_a_milli) as u64 + noise.below(30) + far;
        let price = (noise.below(12) as u32).to_be_bytes();
        let customer = (noise.below(3) as u32).to_be_bytes();
        let mut key = [&price[..], &millis.to_be_bytes(), &customer].concat();
        key.extend_from_slice(&(id as u32).to_be_bytes());
        rows.insert(key, (Tag::PUT, vec![]));
    }
    rows
}

/// Ids are differences to a line over times, and are found in keys that are equal up to them.
#[test]
fn differences_to_lines_round_trip_and_are_searchable() {
    let key = Layout::new(vec![INT, Part::Fixed(8, Hint::Integer), INT, INT]);
    let columns = Arc::new(Columns::new(&key, &Layout::default()));
    let mut noise = Noise(14);
    // One id per time unit is a difference without a line.
    for (ids_a_milli, kind) in [(20.0, 73), (1.0, 71), (0.37, 73), (3.75, 73)] {
        let mut builder = ColumnarBuilder::new(columns.clone(), Codec::Raw, Plans::new(&columns));
        for _ in 0..2 {
            let rows = by_price(&mut noise, 700, ids_a_milli);
            let both = Both::new(&mut builder, &columns, &[], &rows);
            both.assert_reads();
            assert_eq!(first_byte(&both.columnar, &columns, 4), kind, "{ids_a_milli}");
            for (key, _, _) in both.rows.iter().step_by(11) {
                around(key).iter().for_each(|sought| both.assert_same(sought));
            }
        }
        // Many ids for one time and customer, some below the line's value.
        let mut rows = by_price(&mut noise, 500, ids_a_milli);
        for id in (0..u32::MAX).step_by(1 << 27) {
            let key = [&[0, 0, 0, 5][..], &1_790_002_000_000u64.to_be_bytes(), &[0; 4]].concat();
            rows.insert([&key[..], &id.to_be_bytes()].concat(), (Tag::PUT, vec![]));
        }
        let both = Both::new(&mut builder, &columns, &[], &rows);
        both.assert_reads();
        assert_eq!(first_byte(&both.columnar, &columns, 4), kind, "{ids_a_milli}");
        for (key, _, _) in both.rows.iter().filter(|(key, _, _)| key[..4] == [0, 0, 0, 5]) {
            around(key).iter().for_each(|sought| both.assert_same(sought));
        }
    }
}

/// The bytes that docs/format.md shows; and an invalid line.
#[test]
fn the_documented_line_is_read() {
    let shown = documented("The columnar block with a line");
    let byte = Layout::new(vec![Part::Fixed(1, Hint::Integer)]);
    let columns = Arc::new(Columns::new(&byte, &Layout::new(vec![INT, INT])));
    let columnar = ColumnarBlock::parse(&shown, &columns, &[]).unwrap();
    check(&columnar).unwrap();
    for (key, (other, word)) in
        (1..).zip([(100u32, 1001u32), (130, 1600), (110, 1203), (150, 2002)])
    {
        let mut payload = Vec::new();
        let found = find(&columnar, &[key], &ColumnSelection::All, &mut payload);
        assert_eq!(found, Ok(Some(Tag::PUT)));
        assert_eq!(payload, [other.to_be_bytes(), word.to_be_bytes()].concat());
    }
    let head = shown.iter().position(|&byte| byte == 73).unwrap();
    let mut bad = shown.clone();
    bad[head + 3] = 33;
    let told = check(&ColumnarBlock::parse(&bad, &columns, &[]).unwrap()).err().map(|bad| bad.0);
    assert_eq!(told, Some("a column is the difference to no line"));
    for at in head..shown.len() {
        for byte in [0, 0xff, shown[at] ^ 1, shown[at] ^ 0x80] {
            let mut bad = shown.clone();
            bad[at] = byte;
            let Ok(columnar) = ColumnarBlock::parse(&bad, &columns, &[]) else { continue };
            let _ = check(&columnar);
            let _ = find(&columnar, &[3], &ColumnSelection::All, &mut Vec::new());
        }
    }
}
