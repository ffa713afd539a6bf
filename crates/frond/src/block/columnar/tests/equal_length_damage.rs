//! Damaged blocks whose rows are taken many at a time. The check of a shape column decodes no
//! string: a block that passes it must still be readable, and its rows must be the same many at a
//! time and one by one.

use super::{
    super::{
        ColumnSelection, ColumnarBlock, ColumnarBuilder, ColumnarRows, Columns, Models, Plans,
        check, find,
    },
    equal_length::{columns, rows},
    rows::Noise,
    trained,
};
use crate::{
    block::{BadBlock, Codec, Pushed, columnar::EvenLines},
    message::Tag,
};

/// Counts of what was reached.
#[derive(Default, Debug)]
struct Reached {
    /// Blocks that did not pass the check.
    refused: usize,
    /// Damaged blocks that passed.
    passed: usize,
    /// Rows of these that were taken many at a time.
    even: usize,
}

/// Returns all rows, taken as many at a time as possible, and how many were taken in this way.
fn walk(
    columnar: &ColumnarBlock<'_>,
    selection: &ColumnSelection,
) -> Result<(Vec<(Vec<u8>, Tag, Vec<u8>)>, usize), BadBlock> {
    let mut at = ColumnarRows::new(selection.clone());
    at.expect(columnar.rows());
    at.first(columnar)?;
    let (mut walked, mut even) = (Vec::new(), 0);
    loop {
        let taken = at.take_even(|rows, _| {
            for row in 0..rows.rows {
                let line =
                    |lines: EvenLines<'_>| lines.bytes[row * lines.apart..][..lines.width].to_vec();
                walked.push((line(rows.keys), Tag::PUT, line(rows.values)));
            }
            even += rows.rows;
            Some((rows.rows, true))
        });
        if taken.is_none() {
            let taken = at.each_decoded(|key, tag, payload, _| {
                walked.push((key.to_vec(), tag.without_fresh(), payload.to_vec()));
                Ok::<_, ()>(true)
            });
            assert_eq!(taken, Ok(true));
        }
        if !at.next(columnar)? {
            return Ok((walked, even));
        }
    }
}

/// Reads a block in all ways, whether it passes the check or not; if it passes, all ways agree.
fn read_all(block: &[u8], columns: &Columns, models: &Models, reached: &mut Reached) {
    let Ok(columnar) = ColumnarBlock::parse(block, columns, models) else {
        reached.refused += 1;
        return;
    };
    let is_whole = check(&columnar).is_ok();
    *(if is_whole { &mut reached.passed } else { &mut reached.refused }) += 1;
    for selection in [ColumnSelection::All, columns.project(&[2]), columns.project(&[1, 4])] {
        let walked = walk(&columnar, &selection);
        if !is_whole {
            continue;
        }
        let (walked, even) = walked.expect("it passed the check");
        reached.even += even;
        assert_eq!(walked.len(), columnar.rows());
        let (mut one, mut found) = (ColumnarRows::new(selection.clone()), Vec::new());
        for (row, (key, tag, payload)) in walked.iter().enumerate() {
            one.row_at(&columnar, row).expect("it passed the check");
            let alone = (one.key(), one.tag().without_fresh(), one.payload());
            assert_eq!((&key[..], *tag, &payload[..]), alone, "row {row}");
            if row % 5 == 0 {
                let tag_found = find(&columnar, key, &selection, &mut found);
                assert_eq!(tag_found.map(|tag| tag.map(Tag::without_fresh)), Ok(Some(*tag)));
                assert_eq!(&found, payload, "row {row}");
            }
        }
    }
}

#[test]
fn bulk_and_single_decoding_agree_on_damaged_rows() {
    let columns = columns();
    let mut noise = Noise(11);
    for forms in [
        ("99999999999-99999999999-99999999999", "9"),
        ("<99:99:99.999999>", "FFFFF{}FFFFFFFFF"),
        ("9999-99-99", "x"),
        ("999999999999 is a number of an order, and this is its text", "99999999999999999999"),
        ("ffffffff-ffff-ffff", "*9*99"),
    ] {
        let mut reached = Reached::default();
        // Rows of one length only, and with some that are not and become exceptions.
        for (odd, codec) in [(0, Codec::Raw), (0, Codec::Zstd1), (20, Codec::Raw)] {
            let rows = rows(&mut noise, 60, forms, odd);
            let mut plans = Plans::new(&columns);
            let models = trained(&columns, &rows, &mut plans);
            let mut builder = ColumnarBuilder::new(columns.clone(), codec, plans);
            for (key, (tag, value)) in &rows {
                assert_eq!(builder.push(key, *tag, value, 1 << 20), Pushed::Done);
            }
            // Shapes of a model, and of the block's own.
            for with in [&models[..], &[]] {
                let block = builder.finish(with).to_vec();
                for _ in 0..120 {
                    let mut bad = block.clone();
                    for _ in 0..1 + noise.below(3) {
                        let at = noise.below(bad.len() as u64) as usize;
                        bad[at] = match noise.below(4) {
                            0 => noise.below(256) as u8,
                            1 => bad[at] ^ (1 << noise.below(8)),
                            2 => bad[at].wrapping_add(1),
                            _ => bad[at].wrapping_sub(1),
                        };
                    }
                    if bad != block {
                        read_all(&bad, &columns, with, &mut reached);
                    }
                }
            }
        }
        let Reached { refused, passed, even } = reached;
        assert!(refused > 20 && passed > 20 && even > 500, "{forms:?}: {reached:?}");
    }
}
