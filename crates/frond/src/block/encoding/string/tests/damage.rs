//! Damaged columns and models: flips of every byte of real ones, meaningless bytes, and each rule
//! of the format broken by itself.

use super::{
    super::super::IntEncoder, FIXTURES, Noise, assert_same, encode, fixture, model_of, padded,
    plans,
};
use crate::block::{
    BLOCK_RAW_BYTES_MAX, Codec,
    encoding::string::{
        StrKind, StringModel, StringPlan, Strings, Strs, alphabet::Alphabet, fsst_training,
        model::Parts,
    },
};

/// Calls everything on a column that may be anything. A column that passes its check has all rows.
pub(super) fn read_everything(column: &[u8], rows: usize, model: &StringModel) {
    let mut chunk = Vec::new();
    let Ok(strs) = Strs::parse(column, rows, Some(model), BLOCK_RAW_BYTES_MAX, &mut chunk) else {
        return;
    };
    let sound = strs.check().is_ok();
    let (mut one, mut all) = (Vec::new(), Strings::new());
    for row in 0..rows + 2 {
        one.clear();
        let read = strs.get(row, &mut one);
        assert!(!sound || read.is_ok() == (row < rows), "{:?}: row {row} {read:?}", strs.kind());
        assert!(one.len() <= BLOCK_RAW_BYTES_MAX);
        let order = strs.cmp(row, b"customer-1");
        assert!(!sound || order.is_ok() == (row < rows));
        if sound && row < rows {
            assert_eq!(order.unwrap(), one[..].cmp(b"customer-1"));
        }
    }
    let read = strs.decode_all(&mut all);
    assert!(!sound || read.is_ok(), "{:?}", strs.kind());
    let key: &[u8] = b"host-140";
    for range in [0..rows, rows / 2..rows, rows..rows] {
        let _ = strs.lower_bound(range.clone(), key);
        let _ = strs.equal_range(range, key);
    }
}

#[test]
fn damaged_columns_give_strings_or_errors() {
    let mut noise = Noise(3);
    for name in FIXTURES {
        let strings: Strings = fixture(name).iter().take(37).collect();
        // Half of the words, and a shape that some strings do not have: with exceptions.
        let model = model_of(&strings.iter().chain([&b"stranger"[..]]).collect());
        let strings: Strings = strings.iter().chain([&b"an exception"[..], &b""[..]]).collect();
        for plan in plans() {
            let column = encode(&strings, Some(&model), plan);
            for at in 0..column.len() {
                for value in [0, 1, 0x7f, 0x80, 0xff, column[at] ^ 1, column[at] ^ 0x40] {
                    let mut bad = padded(&column);
                    bad[at] = value;
                    read_everything(&bad, strings.len(), &model);
                }
                if at % 3 == 0 {
                    read_everything(&padded(&column[..at]), strings.len(), &model);
                    read_everything(&column[at..], strings.len(), &model);
                }
            }
            for _ in 0..100 {
                let mut bad = padded(&column);
                for _ in 0..1 + noise.below(6) {
                    let at = noise.below(bad.len() as u64) as usize;
                    bad[at] = noise.next() as u8;
                }
                let rows = [strings.len(), 0, 1, 65_535][noise.below(4) as usize];
                read_everything(&bad, rows, &model);
            }
        }
    }
}

#[test]
fn random_bytes_give_strings_or_errors() {
    let model = model_of(&fixture("hosts"));
    let mut noise = Noise(11);
    for _ in 0..20_000 {
        let mut column: Vec<u8> = (0..noise.below(90)).map(|_| noise.next() as u8).collect();
        if let Some(head) = column.first_mut() {
            *head %= StrKind::ALL.len() as u8;
        }
        read_everything(&padded(&column), noise.below(70) as usize, &model);
    }
}

#[test]
fn damaged_models_are_models_or_errors() {
    for name in FIXTURES {
        let model = model_of(&fixture(name).iter().take(50).collect());
        let bytes = model.as_bytes();
        for at in 0..bytes.len() {
            for value in [0, 0x7f, 0xff, bytes[at] ^ 1, bytes[at] ^ 0x10] {
                let mut bad = bytes.to_vec();
                bad[at] = value;
                if let Ok(read) = StringModel::parse(&bad) {
                    // Whatever it is, columns can be written and read with it.
                    assert_eq!(read.as_bytes(), bad);
                    let strings: Strings = fixture("hosts").iter().take(5).collect();
                    for kind in StrKind::ALL {
                        assert_same(&strings, Some(&read), StringPlan { kind, codec: Codec::Raw });
                    }
                }
            }
            assert!(StringModel::parse(&bytes[..at]).is_err());
        }
        assert!(StringModel::parse(&padded(bytes)).is_err());
    }
    // Rules that a flipped byte may miss: versions, parts, the order of words and of symbols.
    let model = |bytes: &[u8]| StringModel::parse(bytes).is_ok();
    let words = |shared: u8, rest: &[u8]| {
        let part = [&[2, 0, 1, b'm', shared, rest.len() as u8], rest].concat();
        [&[1, 1, part.len() as u8], &part[..]].concat()
    };
    assert!(model(&words(0, b"n")) && model(&words(1, b"a")));
    assert!(!model(&words(0, b"l")) && !model(&words(0, b"m")) && !model(&words(2, b"a")));
    let symbols =
        |bytes: &[u8]| [&[1, 2, 8 + bytes.len() as u8, 2, 0, 0, 0, 0, 0, 0, 0], bytes].concat();
    assert!(model(&symbols(b"ab")) && !model(&symbols(b"ba")) && !model(&symbols(b"abc")));
    assert!(model(&[1, 0]) && model(&[2, 0]) && model(&[3, 0]) && !model(&[4, 0]));
    assert!(!model(&[1, 8]) && !model(&[2, 16]) && !model(&[3, 32]) && !model(&[1]));
}

/// An integer column, as a part of columns assembled by hand.
pub(super) fn ints(values: &[u64]) -> Vec<u8> {
    let mut column = Vec::new();
    IntEncoder::new().encode(values, &mut column);
    column
}

fn concatenated(strings: &[&str]) -> Vec<u8> {
    let ends = strings.iter().scan(0, |end, string| {
        *end += string.len() as u64;
        Some(*end)
    });
    let ends: Vec<u64> = ends.collect();
    [&[*ends.last().unwrap() as u8], &ints(&ends)[..], strings.concat().as_bytes()].concat()
}

/// Each rule of the format: a column that keeps it, and one that breaks only this rule.
#[test]
fn the_check_detects_every_broken_rule() {
    let words: Strings = ["no", "yes"].map(str::as_bytes).into_iter().collect();
    let symbol = fsst_training::train(&["aaaaaaaa"; 4].map(str::as_bytes).into_iter().collect());
    let symbols = symbol.unwrap();
    let unused = symbols.iter().count() as u8;
    let model = StringModel::new(Parts {
        dictionary: Some(words),
        symbols: Some(symbols),
        alphabet: Alphabet::parse(b"az").ok(),
        ..Parts::default()
    });
    let exceptions = |rows: &[u64]| {
        [&[rows.len() as u8], &ints(rows)[..], &concatenated(&["?", "!"][..rows.len()])].concat()
    };
    let shape = |bits: u8, runs: &[u8]| [&[4, 3, bits, runs.len() as u8], runs, &[0]].concat();
    let pairs: [(&str, usize, Vec<u8>, Vec<u8>); 19] = [
        (
            "all bytes belong to a row",
            2,
            [&[0, 4][..], &ints(&[2, 4]), b"abcd"].concat(),
            [&[0, 5][..], &ints(&[2, 4]), b"abcde"].concat(),
        ),
        (
            "ends ascend",
            2,
            [&[0, 4][..], &ints(&[2, 4]), b"abcd"].concat(),
            [&[0, 4][..], &ints(&[4, 2]), b"abcd"].concat(),
        ),
        (
            "kinds are known",
            1,
            [&[0][..], &concatenated(&["a"])].concat(),
            [&[9][..], &concatenated(&["a"])].concat(),
        ),
        (
            "codecs are known",
            1,
            [&[0][..], &concatenated(&["a"])].concat(),
            [&[0x40][..], &concatenated(&["a"])].concat(),
        ),
        (
            "a codec stands where there is a chunk",
            2,
            [&[2, 2][..], &concatenated(&["a", "b"]), &ints(&[1, 0])].concat(),
            [&[0x12, 2][..], &concatenated(&["a", "b"]), &ints(&[1, 0])].concat(),
        ),
        (
            "words ascend",
            2,
            [&[2, 2][..], &concatenated(&["a", "b"]), &ints(&[1, 0])].concat(),
            [&[2, 2][..], &concatenated(&["b", "a"]), &ints(&[1, 0])].concat(),
        ),
        (
            "words exist",
            2,
            [&[2, 2][..], &concatenated(&["a", "b"]), &ints(&[1, 0])].concat(),
            [&[2, 2][..], &concatenated(&["a", "b"]), &ints(&[2, 0])].concat(),
        ),
        (
            "exceptions ascend",
            3,
            [&[3][..], &ints(&[0, 2, 2]), &exceptions(&[1, 2])].concat(),
            [&[3][..], &ints(&[0, 2, 0]), &exceptions(&[1, 1])].concat(),
        ),
        (
            "exceptions have no word",
            2,
            [&[3][..], &ints(&[0, 2]), &exceptions(&[1])].concat(),
            [&[3][..], &ints(&[0, 2]), &exceptions(&[0, 1])].concat(),
        ),
        (
            "digits are below ten",
            1,
            [&shape(10, &[1, 3])[..], &[0xe7, 3]].concat(),
            [&shape(10, &[1, 3])[..], &[0xe8, 3]].concat(),
        ),
        (
            "a shape is as long as its runs",
            1,
            [&shape(10, &[1, 3])[..], &[1, 0]].concat(),
            [&shape(11, &[1, 3])[..], &[1, 0]].concat(),
        ),
        (
            "runs have positions",
            1,
            [&shape(10, &[1, 3])[..], &[0xe7, 3]].concat(),
            [&shape(10, &[1, 3, 4, 0, 4, 0, 4, 0, 4, 0, 4, 0])[..], &[0xe7, 3]].concat(),
        ),
        (
            "a string shares what there is",
            2,
            [&[1, 0, 8][..], &ints(&[0]), b"\x10a\x11b"].concat(),
            [&[1, 0, 8][..], &ints(&[0]), b"\x10a\x12b"].concat(),
        ),
        (
            "restarts are where they should",
            2,
            [&[1, 0, 8][..], &ints(&[0]), b"\x10a\x11b"].concat(),
            [&[1, 0, 8][..], &ints(&[2]), b"\x10a\x11b"].concat(),
        ),
        (
            "exceptions have no characters",
            2,
            [&[8, 0][..], &exceptions(&[0]), &ints(&[0, 1]), &[25]].concat(),
            [&[8, 0][..], &exceptions(&[0]), &ints(&[1, 1]), &[25]].concat(),
        ),
        (
            "ends of characters ascend",
            2,
            [&[8, 0, 0][..], &ints(&[1, 1]), &[25]].concat(),
            [&[8, 0, 0][..], &ints(&[2, 1]), &[25]].concat(),
        ),
        ("the last bits are zeros", 2, vec![8, 2, 25, 3], vec![8, 2, 25, 7]),
        (
            "codes have symbols",
            1,
            [&[6, 1][..], &ints(&[1]), &[0]].concat(),
            [&[6, 1][..], &ints(&[1]), &[unused]].concat(),
        ),
        (
            "escapes have a byte",
            1,
            [&[6, 2][..], &ints(&[2]), &[255, 7]].concat(),
            [&[6, 1][..], &ints(&[1]), &[255]].concat(),
        ),
    ];
    for (rule, rows, good, bad) in pairs {
        assert_rule_is_detected(rule, rows, &model, [&good, &bad]);
    }
    // Reading does not trust it any more than the check does.
    let mut chunk = Vec::new();
    let column = padded(&[&[1, 0, 8][..], &ints(&[0]), b"\x10a\x12b"].concat());
    let strs = Strs::parse(&column, 2, None, BLOCK_RAW_BYTES_MAX, &mut chunk).unwrap();
    assert!(strs.get(1, &mut Vec::new()).is_err() && strs.cmp(1, b"a").is_err());
    assert!(strs.decode_all(&mut Strings::new()).is_err() && strs.lower_bound(0..2, b"b").is_err());
}

/// Neither a codec nor repeated words make a column longer than its block allows.
#[test]
fn a_column_is_no_longer_than_its_rows() {
    let strings: Strings = (0..300).map(|_| &b"the same words again and again"[..]).collect();
    let bytes = strings.bytes().len();
    for (kind, codec) in [
        (StrKind::Raw, Codec::Zstd1),
        (StrKind::Raw, Codec::Lz4),
        (StrKind::Dictionary, Codec::Raw),
        (StrKind::Prefix, Codec::Raw),
        (StrKind::Shape, Codec::Raw),
    ] {
        let column = padded(&encode(&strings, None, StringPlan { kind, codec }));
        assert!(column.len() < bytes / 4);
        for (bytes_max, fits) in [(bytes, true), (bytes - 1, false)] {
            let (mut chunk, mut all) = (Vec::new(), Strings::new());
            let strs = Strs::parse(&column, strings.len(), None, bytes_max, &mut chunk);
            let read = strs.and_then(|strs| strs.decode_all(&mut all));
            assert_eq!(read.is_ok(), fits, "{kind:?}");
            assert!(all.bytes().len() <= bytes_max && chunk.len() <= bytes_max);
        }
    }
}

/// A column whose strings are together longer than any block is refused, not built.
#[test]
fn columns_do_not_grow_beyond_a_block() {
    let long = vec![b'x'; 60_000];
    let strings: Strings = (0..1500).map(|_| &long[..]).collect();
    for kind in [StrKind::Dictionary, StrKind::Prefix] {
        let column = padded(&encode(&strings, None, StringPlan { kind, codec: Codec::Raw }));
        let mut chunk = Vec::new();
        let strs =
            Strs::parse(&column, strings.len(), None, BLOCK_RAW_BYTES_MAX, &mut chunk).unwrap();
        let mut all = Strings::new();
        assert!(strs.decode_all(&mut all).is_err());
        assert!(all.bytes().len() <= BLOCK_RAW_BYTES_MAX);
    }
}

/// The first column keeps the rule, the other one breaks it.
pub(super) fn assert_rule_is_detected(
    rule: &str,
    rows: usize,
    model: &StringModel,
    [good, bad]: [&[u8]; 2],
) {
    let [good, bad] = [padded(good), padded(bad)];
    let mut chunk = Vec::new();
    Strs::parse(&good, rows, Some(model), BLOCK_RAW_BYTES_MAX, &mut chunk)
        .and_then(|strs| strs.check())
        .expect(rule);
    let strs = Strs::parse(&bad, rows, Some(model), BLOCK_RAW_BYTES_MAX, &mut chunk);
    assert!(strs.and_then(|strs| strs.check()).is_err(), "not seen: {rule}");
    read_everything(&bad, rows, model);
}
