//! Tests of rows as a builder holds them: the cuts equal those of each row by itself; columns read
//! at a fixed distance equal those read row by row; keys compare as memcmp.

use proptest::prelude::*;

use super::{
    super::{
        Columns,
        columns::{Holds, Side, word_at},
        pushed_rows::{Cuts, Held, Length, ascends, strings_apart, words_apart},
    },
    rows::{Noise, any_layout, row_of},
};
use crate::{
    block::encoding::string::Strings,
    layout::{End, Hint, Layout, Part},
};

fn hold(rows: &[Vec<u8>]) -> Held {
    let mut held = Held::default();
    rows.iter().for_each(|row| held.push(row));
    held
}

/// Cuts these rows, compares with cutting each by itself, and reads columns. Returns whether they
/// were cut alike.
fn assert_cut(side: &Side, rows: &[Vec<u8>]) -> bool {
    let held = hold(rows);
    let mut cuts = Cuts::default();
    let fit = rows.iter().all(|row| side.cut(row, 0, &mut Vec::new()));
    // Previous rows are removed.
    for _ in 0..2 {
        assert_eq!(cuts.cut_all(side, &held), fit);
    }
    let one_by_one = {
        let mut cuts = Cuts::default();
        cuts.clear(side);
        (0..rows.len()).all(|row| cuts.cut(side, &held, row)).then_some(cuts)
    };
    assert_eq!(one_by_one.is_some(), fit);
    let Some(one_by_one) = one_by_one else { return false };
    for (number, row) in rows.iter().enumerate() {
        let mut ends = Vec::new();
        side.cut(row, 0, &mut ends);
        for (index, &end) in ends.iter().enumerate() {
            let start = index.checked_sub(1).map_or(0, |before| ends[before]);
            for cuts in [&cuts, &one_by_one] {
                let found = (cuts.start(number, index), cuts.end(number, index));
                assert_eq!(found, (start as usize, end as usize), "row {number}, column {index}");
            }
        }
    }
    let Length::All(apart) = held.length() else {
        assert!(rows.iter().any(|row| row.len() != rows[0].len()));
        return false;
    };
    for (index, column) in side.columns.iter().enumerate() {
        let Some(part) = cuts.same_part(index) else { return false };
        let from = &held.padded()[part.start..];
        match column.holds {
            Holds::Word(bytes, _) => {
                let mut words = Vec::new();
                words_apart(from, apart, rows.len(), bytes, &mut words);
                let word = |row: &Vec<u8>| word_at(&row[part.start..], 0, bytes);
                assert_eq!(words, rows.iter().map(word).collect::<Vec<u64>>());
            }
            Holds::String(_) | Holds::Content => {
                let mut strings = Strings::new();
                strings_apart(from, apart, rows.len(), part.len(), &mut strings);
                let expected: Strings = rows.iter().map(|row| &row[part.clone()]).collect();
                assert_eq!(strings, expected);
            }
        }
    }
    true
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Invariant 1 of the file.
    #[test]
    fn rows_are_split_alike_in_bulk_and_singly(
        seed: u64,
        layout in any_layout(false),
        count in 1usize..80,
        misfit in 0usize..400,
    ) {
        let mut noise = Noise(seed);
        let columns = Columns::new(&layout, &layout);
        let mut rows: Vec<Vec<u8>> = (0..count).map(|_| row_of(&mut noise, &layout)).collect();
        if let Some(row) = rows.get_mut(misfit) {
            *row = noise.bytes(12);
        }
        // Rows of one length: neighbours are cut alike, or not.
        let even: Vec<Vec<u8>> =
            rows.iter().filter(|row| row.len() == rows[0].len()).cloned().collect();
        for side in [&columns.key, &columns.value, &columns.whole_key] {
            assert_cut(side, &rows);
            assert_cut(side, &even);
        }
    }

    #[test]
    fn keys_ascend_in_memcmp_order(seed: u64, shared in 0usize..20) {
        let mut noise = Noise(seed);
        let front = vec![noise.below(3) as u8; shared];
        for _ in 0..40 {
            let (a, b) = ([&front[..], &noise.bytes(12)].concat(), [&front[..], &noise.bytes(12)].concat());
            prop_assert_eq!(ascends(&a, &b), a < b, "{:?} {:?}", a, b);
            prop_assert!(!ascends(&a, &a));
        }
    }
}

/// Two strings in a row of fixed length: the end of the first moves, and the row's length does not.
#[test]
fn field_ends_that_move_within_equal_row_lengths_are_detected() {
    let layout = Layout::new(vec![
        Part::Fixed(3, Hint::Integer),
        Part::Var(End::Escaped),
        Part::Fixed(5, Hint::None),
        Part::Var(End::Prefixed),
        Part::Fixed(8, Hint::Integer),
        Part::Var(End::Rest),
    ]);
    let columns = Columns::new(&layout, &layout);
    let row = |number: u8, name: &[u8], text: &[u8], rest: &[u8]| {
        let length = [text.len() as u8];
        let head = [&[9, 8, number], name, &[0, 1, 4, 4, 4, number, 4]].concat();
        [&head[..], &length, text, &[number; 8], rest].concat()
    };
    let alike = |last: Vec<u8>| {
        let rows = |number| row(number, b"name", b"some text", b"rest");
        let rows: Vec<Vec<u8>> = (0..5).map(rows).chain([last]).chain((6..9).map(rows)).collect();
        let sides = [&columns.key, &columns.value].map(|side| assert_cut(side, &rows));
        assert_eq!(sides[0], sides[1]);
        sides[0]
    };
    assert!(alike(row(5, b"name", b"some text", b"rest")));
    assert!(alike(row(5, b"NAME", b"SOME TEXT", b"REST")));
    // One string ends earlier, and another later.
    assert!(!alike(row(5, b"nam", b"some text", b"rests")));
    assert!(!alike(row(5, b"name", b"some texts", b"res")));
    assert!(!alike(row(5, b"n", b"some text and", b"res")));
    let long = |number| row(number, b"name", &[number; 100], b"rest");
    assert!(assert_cut(&columns.value, &[long(1), long(2), long(3)]));
}
