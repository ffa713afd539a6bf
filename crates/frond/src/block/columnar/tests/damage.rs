//! Damaged bytes are detected, or read as some rows, and never cause a panic.

use super::{
    super::{
        ColumnSelection, ColumnarBlock, ColumnarBuilder, ColumnarRows, Columns, Models, Plans,
        check, find,
    },
    rows::Noise,
    some_rows, trained,
};
use crate::{
    block::{
        Codec, Pushed,
        encoding::{
            PAD_BYTES,
            string::{StrEncoder, StrKind, StringPlan, Strings},
        },
    },
    layout::{End, Hint, Layout, Part},
    sync::Arc,
};

/// Queries everything; a block that passed the check must answer.
fn use_all(block: &[u8], columns: &Columns, models: &Models) {
    let Ok(columnar) = ColumnarBlock::parse(block, columns, models) else { return };
    let is_whole = check(&columnar).is_ok();
    let holds = |answered: bool| assert!(answered || !is_whole, "checked, and not read");
    let sought: [&[u8]; 4] = [b"", &[0; 9], &[0, 0, 0, 1, b'a', 0, 1], &[0xff; 30]];
    let (mut at, mut payload) = (ColumnarRows::default(), Vec::new());
    for key in sought {
        holds(find(&columnar, key, &ColumnSelection::All, &mut payload).is_ok());
        holds(at.seek_before(&columnar, key).is_ok());
        holds(at.seek(&columnar, key).is_ok());
        holds(at.prev(&columnar).is_ok());
    }
    if at.first(&columnar).is_err() {
        return holds(false);
    }
    let mut walked = 1;
    let mut last: Option<Vec<u8>> = None;
    loop {
        if is_whole {
            assert!(last.is_none_or(|last| *last < *at.key()), "checked, and descends");
            last = Some(at.key().to_vec());
            let found = find(&columnar, at.key(), &ColumnSelection::All, &mut payload);
            assert_eq!(found, Ok(Some(at.tag())));
            assert_eq!(payload, at.payload());
        }
        match at.next(&columnar) {
            Ok(true) => walked += 1,
            Ok(false) => break,
            Err(_) => return holds(false),
        }
    }
    assert_eq!(walked, columnar.rows());
}

#[test]
fn any_flipped_or_cut_byte_gives_rows_or_an_error() {
    let key = Layout::new(vec![
        Part::Fixed(4, Hint::Integer),
        Part::Var(End::Escaped),
        Part::Fixed(1, Hint::None),
    ]);
    let value = Layout::new(vec![
        Part::Fixed(8, Hint::Float),
        Part::Var(End::Prefixed),
        Part::Fixed(16, Hint::None),
        Part::Var(End::Rest),
    ]);
    let columns = Arc::new(Columns::new(&key, &value));
    // With keys that do not fit, and without; with models, and without.
    let mut seen = [false; 2];
    for seed in 0..8 {
        let mut noise = Noise(seed);
        let rows = some_rows(&mut noise, &key, &value, 40);
        let mut plans = Plans::new(&columns);
        let models = if seed % 2 == 0 { trained(&columns, &rows, &mut plans) } else { Vec::new() };
        let mut builder = ColumnarBuilder::new(columns.clone(), Codec::Zstd1, plans);
        for (key, (tag, payload)) in &rows {
            assert_eq!(builder.push(key, *tag, payload, 1 << 20), Pushed::Done);
        }
        let block = builder.finish(&models).to_vec();
        seen[usize::from(block[1] & 1)] = true;
        use_all(&block, &columns, &models);
        // Reading it requires its models, and its own columns.
        use_all(&block, &columns, &[]);
        use_all(&block, &Columns::new(&value, &key), &models);
        for at in 0..block.len() {
            let mut bad = block.clone();
            for byte in [0, 0x7f, 0xff, block[at] ^ 1, block[at] ^ 0x10, block[at].wrapping_add(3)]
            {
                bad[at] = byte;
                use_all(&bad, &columns, &models);
            }
            use_all(&block[..at], &columns, &models);
            use_all(&block[at..], &columns, &models);
        }
    }
    assert_eq!(seen, [true, true], "blocks of both sorts");
}

/// Rows in the wrong order, repeated, or of another length than the header says are detected.
#[test]
fn contradictions_are_detected() {
    let layout = Layout::new(vec![Part::Fixed(2, Hint::Integer), Part::Fixed(2, Hint::Integer)]);
    let columns = Arc::new(Columns::new(&layout, &Layout::default()));
    let build = || {
        let mut builder = ColumnarBuilder::new(columns.clone(), Codec::Raw, Plans::new(&columns));
        for key in [[0, 1, 0, 9], [0, 1, 0, 17], [0, 3, 0, 4], [0, 3, 1, 0]] {
            assert_eq!(builder.push(&key, crate::message::Tag::PUT, b"v", 1 << 20), Pushed::Done);
        }
        builder.finish(&[]).to_vec()
    };
    let fails = |block: &[u8]| match ColumnarBlock::parse(block, &columns, &[]) {
        Ok(columnar) => check(&columnar).err().map(|bad| bad.0),
        Err(bad) => Some(bad.0),
    };
    let block = build();
    assert_eq!(fails(&block), None);
    let mut longer = block.clone();
    longer[4] += 1;
    assert_eq!(fails(&longer), Some("its rows are not as long as it says"));
    // Some flip in the key columns puts the rows out of order, which is reported.
    let told =
        (0..block.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))).filter(|&(at, bit)| {
            let mut bad = block.clone();
            bad[at] ^= 1 << bit;
            fails(&bad) == Some("its keys do not ascend")
        });
    assert!(told.count() > 2);
}

/// A block of `deletes` deletes after one Put whose value has `parts` fields, all empty; then each
/// field's column has this string in every row.
fn with_fillers(parts: usize, deletes: u32, string: &[u8]) -> Result<(), &'static str> {
    let key = Layout::new(vec![Part::Fixed(4, Hint::Integer)]);
    let value = Layout::new(vec![Part::Var(End::Prefixed); parts]);
    let columns = Arc::new(Columns::new(&key, &value));
    let mut builder = ColumnarBuilder::new(columns.clone(), Codec::Raw, Plans::new(&columns));
    let mut push = |key: u32, tag, payload: &[u8]| {
        assert_eq!(builder.push(&key.to_be_bytes(), tag, payload, 1 << 20), Pushed::Done);
    };
    push(0, crate::message::Tag::PUT, &vec![0; parts]);
    (1..=deletes).for_each(|row| push(row, crate::message::Tag::DELETE, &[]));
    let block = builder.finish(&[]).to_vec();
    let columnar = ColumnarBlock::parse(&block, &columns, &[]).unwrap();
    let row = |row: u32| if row == 0 { &[][..] } else { string };
    let strings: Strings = (0..=deletes).map(row).collect();
    let plan = StringPlan { kind: StrKind::Dictionary, codec: Codec::Raw };
    let mut column = Vec::new();
    StrEncoder::new().encode(&strings, None, plan, &mut column);
    let (mut body, mut ends) = (Vec::new(), Vec::new());
    let start = 8 + 4 * columnar.column_count();
    for at in 0..columnar.column_count() {
        let bytes = columnar.bytes(at).unwrap();
        let own = &bytes[..bytes.len() - PAD_BYTES];
        body.extend_from_slice(if at < 2 { own } else { &column });
        ends.extend_from_slice(&((start + body.len()) as u32).to_le_bytes());
    }
    let head = [&block[..1], &[block[1] | 2], &block[2..8]].concat();
    let forged = [&head[..], &ends, &body, &[0; PAD_BYTES]].concat();
    let columnar = ColumnarBlock::parse(&forged, &columns, &[]).map_err(|bad| bad.0)?;
    check(&columnar).map_err(|bad| bad.0)
}

/// Rows without a value have placeholders in its columns, whose total length must be bounded.
#[test]
fn placeholders_of_missing_values_are_bounded() {
    let told = Err("what stands for missing values is too long");
    assert_eq!(with_fillers(1, 2000, &[b'x'; 64]), Ok(()));
    assert_eq!(with_fillers(1, 2000, &[b'x'; 65]), told);
    assert_eq!(with_fillers(8, 2048, &[b'x'; 64]), Ok(()));
    assert_eq!(with_fillers(9, 2048, &[b'x'; 64]), told);
    let longer = Err("the strings of a column are longer than its block's rows");
    assert_eq!(with_fillers(300, 16_000, &[b'x'; 4096]), longer);
}
