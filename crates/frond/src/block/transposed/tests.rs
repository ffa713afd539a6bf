//! Transposed forms compared with the blocks that they are made from.

use proptest::prelude::*;

use super::*;
use crate::{
    block::{BLOCK_RAW_BYTES_TARGET, BlockBuilder, Packing, Pushed},
    coding::put_varint,
};

const CODECS: [Codec; 3] = [Codec::Lz4, Codec::Zstd1, Codec::Zstd3];

fn block(rows: &[(Vec<u8>, Vec<u8>)], tag: Tag) -> Vec<u8> {
    let mut builder = BlockBuilder::new();
    for (key, value) in rows {
        assert_eq!(builder.push(key, tag, value, usize::MAX), Pushed::Done);
    }
    builder.finish().to_vec()
}

/// Rebuilds a form without a codec: codecs are not tested here.
fn rebuilt(form: &[u8], block_bytes: usize) -> Result<Vec<u8>, BadBlock> {
    let mut out = vec![0; block_bytes];
    let (mut keys, mut values) = (Vec::new(), Vec::new());
    Form::parse(form).ok_or(BAD)?.rebuild(&mut keys, &mut values, &mut out)?;
    Ok(out)
}

/// Rows in order with keys of one length, and values of one length or of several.
fn rows() -> impl Strategy<Value = Vec<(Vec<u8>, Vec<u8>)>> {
    let bytes = prop_oneof![Just(0u8), Just(1), Just(0xff), any::<u8>()];
    let value = prop_oneof![3 => (0usize..40).prop_map(|n| n..n + 1), 1 => Just(0..20)];
    (1usize..40, value, 8usize..150).prop_flat_map(move |(key, value, rows)| {
        let keys = prop::collection::vec(prop::collection::vec(bytes.clone(), key), rows);
        let values = prop::collection::vec(prop::collection::vec(any::<u8>(), value), rows);
        (keys, values).prop_map(|(mut keys, values)| {
            keys.sort();
            keys.dedup();
            keys.into_iter().zip(values).collect()
        })
    })
}

proptest! {
    /// Invariant 3, for valid forms: wherever sums end, the block is restored.
    #[test]
    fn a_transposed_form_restores_its_block(rows in rows(), fresh: bool) {
        let tag = if fresh { Tag::PUT_FRESH } else { Tag::PUT };
        let block = block(&rows, tag);
        let mut taken = Taken::default();
        if rows.len() >= 8 && taken.take(&block) {
            let (shared, best) = (taken.shared(), taken.best_summed());
            prop_assert!((shared..=rows[0].0.len()).contains(&best));
            for summed_to in [0, shared, shared + 1, best, usize::MAX] {
                let Some(form) = taken.form(summed_to) else { continue };
                prop_assert_eq!(rebuilt(form, block.len()), Ok(block.clone()));
            }
        }
    }

    /// Invariants 2 and 3: any bytes give rows in order or an error.
    #[test]
    fn damaged_forms_give_ordered_rows_or_an_error(
        rows in rows(),
        strikes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let block = block(&rows, Tag::PUT);
        let mut taken = Taken::default();
        prop_assume!(rows.len() >= 8 && taken.take(&block));
        let best = taken.best_summed();
        let Some(form) = taken.form(best) else { return Ok(()) };
        let mut struck = form.to_vec();
        for (at, byte) in strikes {
            // Mostly in the head, which has all lengths.
            let len = struck.len();
            struck[at.index(if byte & 1 == 0 { 12.min(len) } else { len })] ^= byte;
        }
        for form in [&struck[..], &form[..cut.index(form.len())]] {
            if let Ok(block) = rebuilt(form, block.len()) {
                let shape = crate::block::Shape::parse(&block).unwrap();
                crate::block::check(&block, &shape).unwrap();
            }
        }
    }
}

fn numbered(count: u32, value: impl Fn(u32) -> Vec<u8>) -> Vec<(Vec<u8>, Vec<u8>)> {
    (0..count).map(|row| ((row * 3).to_be_bytes().to_vec(), value(row))).collect()
}

#[test]
fn every_codec_round_trips_transposed_blocks() {
    let alike = |row: u32| [row.to_le_bytes(), [7; 4]].concat();
    let differ = |row: u32| vec![b'v'; row as usize % 17];
    for rows in [numbered(700, alike), numbered(700, differ), numbered(700, |_| Vec::new())] {
        let block = block(&rows, Tag::PUT);
        for codec in CODECS {
            let mut taken = Taken::default();
            assert!(taken.take(&block));
            let best = taken.best_summed();
            let mut encoded = Vec::new();
            assert_eq!(codec.encode(taken.form(best).unwrap(), &mut encoded), codec);
            let packing = Packing { codec, is_transposed: true, has_dictionary: false };
            let mut out = vec![0; block.len()];
            packing.decode(None, &encoded, &mut out).unwrap();
            assert!(out == block, "{codec:?}");
            for wrong in [block.len() - 1, block.len() + 1, block.len() / 3, 0] {
                assert!(packing.decode(None, &encoded, &mut vec![0; wrong]).is_err(), "{wrong}");
            }
        }
    }
}

/// Lengths that take two bytes in a block's rows and in a form's head, and one that takes three.
#[test]
fn long_keys_and_values_round_trip() {
    let key = |row: u32, bytes: usize| {
        let mut key: Vec<u8> = (0..bytes).map(|at| at as u8).collect();
        // In the middle, so that keys share a long prefix and have equal ends.
        key[bytes / 3..bytes / 3 + 4].copy_from_slice(&(row * 300).to_be_bytes());
        key
    };
    for (key_bytes, value_bytes) in
        [(127, 128), (128, 127), (128, 128), (300, 0), (9, 129), (200, 16_383), (8, 16_384)]
    {
        for differ in [0, 1] {
            let value = |row: u32| vec![row as u8; value_bytes + differ * (row as usize % 3)];
            // No restart may be beyond 64 KiB of rows.
            let count = if value_bytes > 1000 { 12 } else { 40 };
            let rows: Vec<_> = (0..count).map(|row| (key(row, key_bytes), value(row))).collect();
            let block = block(&rows, Tag::PUT);
            let mut taken = Taken::default();
            assert!(taken.take(&block), "{key_bytes} {value_bytes}");
            let (shared, best) = (taken.shared(), taken.best_summed());
            for summed_to in [shared, best, key_bytes] {
                let Some(form) = taken.form(summed_to) else { continue };
                assert_eq!(rebuilt(form, block.len()), Ok(block.clone()));
            }
            for codec in CODECS {
                let mut encoded = Vec::new();
                assert_eq!(codec.encode(taken.form(best).unwrap(), &mut encoded), codec);
                let mut out = vec![0; block.len()];
                Packing { codec, is_transposed: true, has_dictionary: false }
                    .decode(None, &encoded, &mut out)
                    .unwrap();
                assert!(out == block, "{codec:?}: {key_bytes} {value_bytes}");
            }
        }
    }
}

/// Keys that ascend carry information only in their differences.
#[test]
fn sums_are_used_for_ascending_keys_and_not_for_noise() {
    let noise = |row: u32| xxhash_rust::xxh3::xxh3_64(&row.to_le_bytes()).to_be_bytes();
    let number = |row: u32| row * 8 + u32::from(noise(row)[0] % 8);
    let key = |row: u32| [&number(row).to_be_bytes()[..], &noise(row)].concat();
    let rows: Vec<_> = (70_000..70_900).map(|row| (key(row), Vec::new())).collect();
    let mut taken = Taken::default();
    assert!(taken.take(&block(&rows, Tag::PUT)));
    assert_eq!(taken.best_summed(), 4);
    let (mut summed, mut plain) = (Vec::new(), Vec::new());
    Codec::Zstd1.encode(taken.form(4).unwrap(), &mut summed);
    Codec::Zstd1.encode(taken.form(0).unwrap(), &mut plain);
    // Only the last byte of a number carries much information, and less when it is a difference.
    assert!(summed.len() < plain.len(), "{} {}", summed.len(), plain.len());
}

/// The bytes that docs/format.md shows.
#[test]
fn the_documented_form_is_what_codecs_compress() {
    let text = include_str!("../../../../../docs/format.md");
    let shown = text.split("The form of eight rows").nth(1).unwrap();
    let shown = shown.split("\n## ").next().unwrap();
    let lines = shown.lines().filter_map(|line| line.strip_prefix("    "));
    let hex = lines.flat_map(|line| line.get(..36).unwrap_or(line).split_whitespace());
    let shown: Vec<u8> = hex.map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
    let row = |row: u32| ((0x1fe + 2 * row).to_be_bytes().to_vec(), format!("a{}", row + 1).into());
    let block = block(&(0..8).map(row).collect::<Vec<_>>(), Tag::PUT);
    let mut taken = Taken::default();
    assert!(taken.take(&block));
    assert_eq!(taken.form(4), Some(&shown[..]));
    assert_eq!(rebuilt(&shown, block.len()), Ok(block));
}

#[test]
fn dissimilar_rows_are_not_transposed() {
    let mut rows = numbered(100, |_| vec![1, 2, 3]);
    let mut taken = Taken::default();
    assert!(taken.take(&block(&rows, Tag::PUT)));
    assert!(!taken.take(&block(&rows, Tag::DELETE)), "no Puts");
    assert!(!taken.take(&block(&rows, Tag::PUT_BLOB)));
    assert!(!taken.take(&block(&rows[..5], Tag::PUT)), "too few");
    let mut mixed = BlockBuilder::new();
    for (row, (key, value)) in rows.iter().enumerate() {
        let tag = if row == 50 { Tag::DELETE } else { Tag::PUT };
        assert_eq!(mixed.push(key, tag, value, usize::MAX), Pushed::Done);
    }
    assert!(!taken.take(mixed.finish()), "a Delete among them");
    rows[99].0.push(0);
    assert!(!taken.take(&block(&rows, Tag::PUT)), "a longer key");
    // A key shares all but its last byte with the previous one, but not with the first.
    let long = |row: u8| [vec![u8::from(row > 1); 4000], vec![row]].concat();
    let rows: Vec<_> = (0..100).map(|row| (long(row), Vec::new())).collect();
    assert!(!taken.take(&block(&rows, Tag::PUT)), "far longer than their block");
}

/// Invariant 2. Each number of a head claims something that exceeds the limits.
#[test]
fn headers_with_excessive_lengths_are_refused() {
    let rows = numbered(20, |_| vec![9; 5]);
    let block = block(&rows, Tag::PUT);
    let mut taken = Taken::default();
    assert!(taken.take(&block));
    let form = taken.form(4).unwrap().to_vec();
    assert_eq!(rebuilt(&form, block.len()), Ok(block.clone()));
    // Tag, rows, key length, shared, summed, value length: a byte each.
    let good = [form[1], form[2], form[3], form[4], form[5]].map(u64::from);
    assert_eq!(good, [20, 4, 3, 4, 6]);
    for place in 0..5 {
        for lie in
            [0, 1, 2, 3, 5, 7, 19, 21, 127, 65_535, 65_536, 1 << 31, u32::MAX.into(), 1 << 40]
        {
            let mut said = good;
            if said[place] == lie {
                continue;
            }
            said[place] = lie;
            let mut lied = vec![form[0]];
            said.iter().for_each(|&number| put_varint(&mut lied, number));
            lied.extend_from_slice(&form[6..]);
            // Sums may start later: the keys are then different, in order or not.
            let fits = rebuilt(&lied, block.len()).is_ok();
            assert!(!fits || place == 3, "number {place} is {lie}");
        }
    }
    let short = rebuilt(&form, block.len() - 1).unwrap_err();
    assert_eq!(short.0, "its transposed rows are longer than its block");
    let long = rebuilt(&form, block.len() + 1).unwrap_err();
    assert_eq!(long.0, "its transposed rows are not as long as its block");
    for (tag, fits) in [(Tag::PUT_FRESH, true), (Tag::DELETE, false), (Tag::MERGE, false)] {
        let lied = [&[tag.to_disk()], &form[1..]].concat();
        assert_eq!(rebuilt(&lied, block.len()).is_ok(), fits);
    }
    assert_eq!(rebuilt(&[&form[..], &[0]].concat(), block.len()), Err(BAD));
    // A form must not be as long as a codec can make it from a few bytes.
    let zeros = vec![0; 3 * BLOCK_RAW_BYTES_TARGET];
    let mut encoded = Vec::new();
    Codec::Zstd1.encode(&zeros, &mut encoded);
    let bad = decode(Codec::Zstd1, None, &encoded, &mut vec![0; BLOCK_RAW_BYTES_TARGET]);
    assert_eq!(bad.unwrap_err().0, "its codec rejects it");
}
