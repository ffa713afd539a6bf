//! Columnar blocks compared with row blocks of the same rows, for any layouts; values that do not
//! fit; projections. Damaged bytes: `damage.rs`, `equal_length_damage.rs`; the size of fixed
//! blocks: `sizes.rs`; rows before they are a block: `pushed_rows.rs`.

mod damage;
mod difference;
mod equal_length;
mod equal_length_damage;
mod pushed_rows;
mod reference;
mod rows;
mod sizes;

use std::collections::BTreeMap;

use proptest::prelude::*;

use self::rows::{Noise, any_layout, part_of, row_of};
use super::{
    ColumnSelection, ColumnarBlock, ColumnarBuilder, ColumnarRows, Columns, Models, Plans, check,
    find, unpack,
};
use crate::{
    block::{
        self, BlockBuilder, Chunks, Codec, Pushed, Shape,
        encoding::string::{Purpose, StrEncoder, StrKind, StringModel, Strings, train},
    },
    layout::{End, Hint, Layout, Part},
    message::{Kind, Tag},
    sync::Arc,
};

type Rows = BTreeMap<Vec<u8>, (Tag, Vec<u8>)>;

/// Rows, encoded both as a columnar and as a row block.
struct Both {
    columns: Arc<Columns>,
    models: Vec<Option<Arc<StringModel>>>,
    columnar: Vec<u8>,
    row_blocks: Vec<u8>,
    rows: Vec<(Vec<u8>, Tag, Vec<u8>)>,
}

impl Both {
    /// Encodes the rows without codecs; `None` if the columnar block had none.
    fn unpacked(&self) -> Option<Self> {
        let (mut out, mut again) = (Vec::new(), Vec::new());
        let columnar = ColumnarBlock::parse(&self.columnar, &self.columns, &self.models).unwrap();
        if !unpack(&columnar, &mut Chunks::default(), &mut out).unwrap() {
            return None;
        }
        let columnar = ColumnarBlock::parse(&out, &self.columns, &self.models).unwrap();
        check(&columnar).unwrap();
        assert!(
            !unpack(&columnar, &mut Chunks::default(), &mut again).unwrap(),
            "nothing is left to be decoded"
        );
        Some(Self {
            columns: self.columns.clone(),
            models: self.models.clone(),
            columnar: out,
            row_blocks: self.row_blocks.clone(),
            rows: self.rows.clone(),
        })
    }
}

/// A Put of the value, or sometimes another message.
fn message(noise: &mut Noise, mixed: bool, value: Vec<u8>) -> (Tag, Vec<u8>) {
    match noise.below(20) {
        0 if mixed => (Tag::DELETE, vec![]),
        1 if mixed => (Tag::MERGE, vec![1, 2, 3]),
        2 if mixed => (Tag::PUT, value[..20].to_vec()),
        _ => (Tag::PUT, value),
    }
}

/// The first byte of a column, which shows how it is encoded.
fn first_byte(block: &[u8], columns: &Columns, at: usize) -> u8 {
    ColumnarBlock::parse(block, columns, &[]).unwrap().bytes(at).unwrap()[0]
}

/// The bytes that docs/format.md shows below these words.
fn documented(words: &str) -> Vec<u8> {
    let text = include_str!("../../../../../../docs/format.md");
    let shown = text.split(words).nth(1).expect("documented");
    let lines = shown.lines().skip_while(|line| !line.starts_with("    "));
    let lines = lines.map_while(|line| line.strip_prefix("    "));
    let hex = lines.flat_map(|line| line.get(..36).unwrap_or(line).split_whitespace());
    hex.map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

/// Rows of these layouts: keys that mostly share their first fields, and payloads of all tags.
fn some_rows(noise: &mut Noise, key: &Layout, value: &Layout, count: usize) -> Rows {
    let (misfits, mixed) = (noise.below(4) == 0, noise.below(2) == 0);
    let mut rows = Rows::new();
    for _ in 0..count {
        let mut bytes = row_of(noise, key);
        if misfits && noise.below(20) == 0 {
            bytes = noise.bytes(12);
        }
        let tag = match noise.below(8) {
            0 if mixed => Tag::DELETE,
            1 if mixed => Tag::MERGE,
            2 if mixed => Tag::PUT_BLOB,
            3 if mixed => Tag::VERSIONS,
            4 => Tag::PUT_FRESH,
            _ => Tag::PUT,
        };
        let payload = match tag.kind() {
            Kind::Put if mixed && noise.below(8) == 0 => noise.bytes(20),
            Kind::Put => row_of(noise, value),
            Kind::Delete => Vec::new(),
            Kind::Merge | Kind::PutBlob | Kind::Versions => noise.bytes(20),
        };
        rows.insert(bytes, (tag, payload));
    }
    rows
}

/// Trains every string column on these rows, with models.
fn trained(columns: &Columns, rows: &Rows, plans: &mut Plans) -> Vec<Option<Arc<StringModel>>> {
    let mut models = Vec::new();
    let keys: Vec<&[u8]> = rows.keys().map(Vec::as_slice).collect();
    let puts = rows.values().filter(|(tag, _)| tag.kind() == Kind::Put);
    let values: Vec<&[u8]> = puts.map(|(_, value)| value.as_slice()).collect();
    for (side, from, is_key) in [(&columns.key, &keys, true), (&columns.value, &values, false)] {
        for index in 0..side.columns.len() {
            let mut strings = Strings::new();
            for bytes in from {
                let mut ends = Vec::new();
                if side.cut(bytes, 0, &mut ends) {
                    let start = index.checked_sub(1).map_or(0, |before| ends[before] as usize);
                    strings.push(&bytes[start..ends[index] as usize]);
                }
            }
            let purpose = Purpose { key: is_key, codec: Codec::Zstd1, model_rows: 1 << 16 };
            let trained = train(&mut StrEncoder::new(), &[strings], purpose);
            plans.set(models.len(), &trained);
            models.push(trained.model.map(Arc::new));
        }
    }
    models
}

impl Both {
    /// Encodes as many of the rows as fit into a row block. The builder is reused after writing
    /// other blocks.
    fn new(
        builder: &mut ColumnarBuilder,
        columns: &Arc<Columns>,
        models: &Models,
        from: &Rows,
    ) -> Self {
        let mut row_blocks = BlockBuilder::new();
        let mut rows = Vec::new();
        for (key, (tag, payload)) in from {
            if row_blocks.push(key, *tag, payload, 60_000) != Pushed::Done {
                break;
            }
            assert_eq!(builder.push(key, *tag, payload, 1 << 20), Pushed::Done);
            assert_eq!(builder.push(key, *tag, payload, 1 << 20), Pushed::Unordered);
            assert_eq!(builder.last_key(), key);
            rows.push((key.clone(), *tag, payload.clone()));
        }
        let raw_bytes: usize = rows.iter().map(|(key, _, payload)| key.len() + payload.len()).sum();
        assert_eq!(builder.raw_bytes(), raw_bytes);
        let columnar = builder.finish(models).to_vec();
        builder.clear();
        let row_blocks = row_blocks.finish().to_vec();
        Self { columns: columns.clone(), models: models.to_vec(), columnar, row_blocks, rows }
    }

    fn parse(&self) -> ColumnarBlock<'_> {
        let columnar = ColumnarBlock::parse(&self.columnar, &self.columns, &self.models)
            .expect("a columnar block");
        check(&columnar).expect("a whole block");
        columnar
    }

    /// Checks that walks and jumps return the rows.
    fn assert_reads(&self) {
        let columnar = self.parse();
        assert_eq!(columnar.rows(), self.rows.len());
        let mut at = ColumnarRows::default();
        let here = |at: &ColumnarRows| (at.key().to_vec(), at.tag(), at.payload().to_vec());
        at.first(&columnar).unwrap();
        for (number, row) in self.rows.iter().enumerate() {
            assert_eq!((at.row(), &here(&at)), (number, row));
            assert_eq!(at.next(&columnar).unwrap(), number + 1 < self.rows.len());
        }
        assert!(!at.next(&columnar).unwrap());
        for (number, row) in self.rows.iter().enumerate().rev() {
            assert!(at.prev(&columnar).unwrap());
            assert_eq!((at.row(), &here(&at)), (number, row));
        }
        assert!(!at.prev(&columnar).unwrap());
        for number in [0, self.rows.len() / 3, self.rows.len() - 1] {
            at.row_at(&columnar, number).unwrap();
            assert_eq!(here(&at), self.rows[number]);
            if at.prev(&columnar).unwrap() && at.prev(&columnar).unwrap() {
                assert!(at.next(&columnar).unwrap());
                assert_eq!(here(&at), self.rows[number - 1]);
            }
        }
        at.last(&columnar).unwrap();
        assert_eq!(&here(&at), self.rows.last().unwrap());
    }

    /// Checks that both blocks answer a search for these bytes in the same way.
    fn assert_same(&self, sought: &[u8]) {
        let columnar = self.parse_again();
        let shape = Shape::parse(&self.row_blocks).unwrap();
        let mut payload = b"before".to_vec();
        let found = find(&columnar, sought, &ColumnSelection::All, &mut payload).unwrap();
        let expected = block::find(&self.row_blocks, &shape, sought).unwrap();
        assert_eq!(found, expected.as_ref().map(|(tag, _)| *tag), "{sought:?}");
        if let Some((_, range)) = expected {
            assert_eq!(payload, self.row_blocks[range]);
        }
        let (mut at, mut other) = (ColumnarRows::default(), block::Rows::default());
        for before in [false, true] {
            let (is, was) = if before {
                let was = other.seek_before(&self.row_blocks, &shape, sought).unwrap();
                (at.seek_before(&columnar, sought).unwrap(), was)
            } else {
                let was = other.seek(&self.row_blocks, &shape, sought).unwrap();
                (at.seek(&columnar, sought).unwrap(), was)
            };
            assert_eq!(is, was, "{sought:?}");
            if is {
                assert_eq!((at.row(), at.key()), (other.row(), other.key()), "{sought:?}");
                assert_eq!(
                    (at.tag(), at.payload()),
                    (other.tag(), other.payload(&self.row_blocks))
                );
            }
        }
        // Continues from where a search ended.
        let was = other.seek(&self.row_blocks, &shape, sought).unwrap();
        assert_eq!(at.seek(&columnar, sought).unwrap(), was);
        for forward in [true, false, false, true, true] {
            let (is, was) = if forward {
                (at.next(&columnar).unwrap(), other.next(&self.row_blocks, &shape).unwrap())
            } else {
                (at.prev(&columnar).unwrap(), other.prev(&self.row_blocks, &shape).unwrap())
            };
            assert_eq!(is, was);
            if is {
                assert_eq!((at.row(), at.key()), (other.row(), other.key()));
                assert_eq!(at.payload(), other.payload(&self.row_blocks));
            }
        }
    }

    /// The block, which was already checked.
    fn parse_again(&self) -> ColumnarBlock<'_> {
        ColumnarBlock::parse(&self.columnar, &self.columns, &self.models).expect("a columnar block")
    }

    /// Checks that values in columns are returned with the fields asked for, and others whole.
    fn assert_projects(&self, value: &Layout, parts: &[u16]) {
        let columnar = self.parse_again();
        let selection = self.columns.project(parts);
        let fits = |tag: &Tag, payload: &[u8]| {
            tag.kind() == Kind::Put && value.split(payload, &mut Vec::new())
        };
        // Where no value has a byte, none is in columns.
        let some =
            |(_, tag, payload): &(_, Tag, Vec<u8>)| !payload.is_empty() && fits(tag, payload);
        let in_columns = self.rows.iter().any(some);
        let mut at = ColumnarRows::new(selection.clone());
        at.first(&columnar).unwrap();
        for (key, tag, payload) in &self.rows {
            let mut ends = Vec::new();
            let splits = tag.kind() == Kind::Put && value.split(payload, &mut ends);
            let expected = if splits {
                let part = |index: usize| {
                    let start = index.checked_sub(1).map_or(0, |before| ends[before]);
                    &payload[start..ends[index]]
                };
                let wanted = (0..ends.len()).filter(|&index| parts.contains(&(index as u16)));
                wanted.flat_map(part).copied().collect()
            } else {
                payload.clone()
            };
            assert_eq!((at.key(), at.payload()), (&key[..], &expected[..]));
            assert_eq!(at.is_whole(), !(in_columns && splits));
            let mut found = Vec::new();
            assert_eq!(find(&columnar, key, &selection, &mut found), Ok(Some(*tag)));
            assert_eq!(found, expected);
            at.next(&columnar).unwrap();
        }
    }
}

/// Search keys derived from a key: itself, its prefixes, and its neighbours.
fn around(key: &[u8]) -> Vec<Vec<u8>> {
    let some = || (0..key.len()).step_by(1 + key.len() / 16);
    let mut sought: Vec<Vec<u8>> = some().map(|cut| key[..cut].to_vec()).collect();
    sought.push(key.to_vec());
    for at in some() {
        for byte in [key[at].wrapping_add(1), key[at].wrapping_sub(1), 0, 1, 0xff] {
            let mut other = key.to_vec();
            other[at] = byte;
            sought.push(other);
        }
    }
    for more in [&[0u8][..], &[0, 1], &[0, 0xff], &[0xff, 0xfe], &[0x61], &[0; 9]] {
        sought.push([key, more].concat());
        sought.push([&key[..key.len() / 2], more].concat());
    }
    sought
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Invariants 1 and 3.
    #[test]
    fn columnar_blocks_answer_like_row_blocks(
        seed: u64,
        key in any_layout(true),
        value in any_layout(false),
        count in prop_oneof![1usize..4, 1usize..60, 200usize..700],
        with_models: bool,
    ) {
        let mut noise = Noise(seed);
        let columns = Arc::new(Columns::new(&key, &value));
        let mut plans = Plans::new(&columns);
        let first = some_rows(&mut noise, &key, &value, count);
        let models = if with_models { trained(&columns, &first, &mut plans) } else { vec![] };
        let codec = if with_models { Codec::Zstd1 } else { Codec::Raw };
        let mut builder = ColumnarBuilder::new(columns.clone(), codec, plans);
        // The second block is encoded by the plans of the first.
        let second = some_rows(&mut noise, &key, &value, count);
        for rows in [&first, &second] {
            let both = Both::new(&mut builder, &columns, &models, rows);
            // As it is written, and as a cache with free space keeps it.
            for both in [both.unpacked(), Some(both)].into_iter().flatten() {
                both.assert_reads();
                for _ in 0..6 {
                    let (chosen, _, _) = &both.rows[noise.below(both.rows.len() as u64) as usize];
                    around(chosen).iter().for_each(|sought| both.assert_same(sought));
                    both.assert_same(&row_of(&mut noise, &key));
                    both.assert_same(&noise.bytes(20));
                }
                let parts: Vec<u16> =
                    (0..value.parts().len() as u16).filter(|_| noise.below(2) == 0).collect();
                both.assert_projects(&value, &parts);
                both.assert_walks(&mut noise, &ColumnSelection::All);
                both.assert_walks(&mut noise, &columns.project(&parts));
            }
        }
    }
}

fn build(columns: &Arc<Columns>, rows: &[(&[u8], Tag, &[u8])]) -> Vec<u8> {
    let mut builder = ColumnarBuilder::new(columns.clone(), Codec::Raw, Plans::new(columns));
    for (key, tag, payload) in rows {
        assert_eq!(builder.push(key, *tag, payload, 1 << 20), Pushed::Done);
    }
    builder.finish(&[]).to_vec()
}

#[test]
fn a_block_refuses_a_row_beyond_its_limit_but_not_its_first() {
    let columns = Arc::new(Columns::new(&Layout::default(), &Layout::default()));
    let mut builder = ColumnarBuilder::new(columns.clone(), Codec::Raw, Plans::new(&columns));
    assert_eq!(builder.push(b"k", Tag::PUT, &[7; 100_000], 16384), Pushed::Done);
    assert_eq!(builder.push(b"l", Tag::PUT, b"", 16384), Pushed::Full);
    let block = builder.finish(&[]).to_vec();
    let columnar = ColumnarBlock::parse(&block, &columns, &[]).unwrap();
    check(&columnar).unwrap();
    let mut payload = Vec::new();
    assert_eq!(find(&columnar, b"k", &ColumnSelection::All, &mut payload), Ok(Some(Tag::PUT)));
    assert_eq!(payload, [7; 100_000]);
    builder.clear();
    for row in 0..65_535u32 {
        let key = row.to_be_bytes();
        assert_eq!(builder.push(&key, Tag::PUT, b"", usize::MAX), Pushed::Done);
    }
    assert_eq!(builder.push(&[9; 4], Tag::PUT, b"", usize::MAX), Pushed::Full);
}

/// Deletes next to a value of 60 KB, in columns that repeat words, do not repeat the value.
#[test]
fn placeholders_are_short() {
    let columns = Arc::new(Columns::new(&Layout::default(), &Layout::default()));
    let mut builder = ColumnarBuilder::new(columns.clone(), Codec::Raw, Plans::new(&columns));
    let long = vec![b'x'; 60_000];
    for block in 0..2 {
        for row in 0..60_000u32 {
            let (tag, payload) =
                if row % 20_000 == 0 { (Tag::PUT, &long[..]) } else { (Tag::DELETE, &[][..]) };
            let pushed = builder.push(&row.to_be_bytes(), tag, payload, usize::MAX);
            assert_eq!(pushed, Pushed::Done);
        }
        let block_bytes = builder.finish(&[]).len();
        assert!(block_bytes < 260_000, "block {block}: {block_bytes}");
        builder.clear();
    }
}

/// Many short placeholders do not exceed a MiB either: what is built passes the check.
#[test]
fn placeholders_of_many_columns_are_bounded() {
    let value = Layout::new(vec![Part::Var(End::Prefixed); 40]);
    let columns = Arc::new(Columns::new(&Layout::default(), &value));
    let mut builder = ColumnarBuilder::new(columns.clone(), Codec::Raw, Plans::new(&columns));
    // By the second block it is known that the columns repeat words.
    for _ in 0..2 {
        for row in 0..6000u32 {
            let word = [&[40][..], &[b'a' + (row / 200 % 3) as u8; 40]].concat();
            let (tag, payload) =
                if row % 200 < 6 { (Tag::PUT, word.repeat(40)) } else { (Tag::DELETE, vec![]) };
            let pushed = builder.push(&row.to_be_bytes(), tag, &payload, usize::MAX);
            assert_eq!(pushed, Pushed::Done);
        }
        let block = builder.finish(&[]).to_vec();
        check(&ColumnarBlock::parse(&block, &columns, &[]).unwrap()).unwrap();
        builder.clear();
    }
}

/// If a run's models lack a part that the tree's last run had, its blocks are as short as those of
/// a new tree.
#[test]
fn a_plan_without_its_model_is_measured_at_once() {
    let layout = Layout::new(vec![Part::Var(End::Prefixed)]);
    let columns = Arc::new(Columns::new(&Layout::default(), &layout));
    let mut noise = Noise(11);
    let rows: Rows = (0..2000u32)
        .map(|row| {
            let word = format!("state-{:02}-of-many", noise.below(40));
            let value = [&[word.len() as u8], word.as_bytes()].concat();
            (row.to_be_bytes().to_vec(), (Tag::PUT, value))
        })
        .collect();
    let mut plans = Plans::new(&columns);
    let models = trained(&columns, &rows, &mut plans);
    assert_eq!(plans.string(1).unwrap().kind, StrKind::ModelDictionary);
    let bytes = |plans: Plans, models: &Models| {
        let mut builder = ColumnarBuilder::new(columns.clone(), Codec::Zstd1, plans);
        Both::new(&mut builder, &columns, models, &rows).columnar.len()
    };
    let new = bytes(Plans::new(&columns), &[]);
    assert!(bytes(plans.clone(), &models) < new);
    assert_eq!(bytes(plans, &[]), new);
}

/// The bytes that docs/format.md shows.
#[test]
fn the_documented_block_matches_the_written_bytes() {
    let shown = documented("The columnar block of the rows");
    let key = Layout::new(vec![Part::Fixed(4, Hint::Integer)]);
    let value = Layout::new(vec![Part::Fixed(2, Hint::Integer), Part::Var(End::Prefixed)]);
    let columns = Arc::new(Columns::new(&key, &value));
    let written = build(
        &columns,
        &[
            (&[0, 0, 0, 7], Tag::PUT, b"\x01\x00\x03ash"),
            (&[0, 0, 0, 8], Tag::DELETE, b""),
            (&[0, 0, 0, 9], Tag::PUT_FRESH, b"\x01\x05\x03oak"),
            (&[0, 0, 0, 10], Tag::PUT, b"?"),
        ],
    );
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02X} ")).collect::<String>();
    assert_eq!(hex(&written), hex(&shown));
    let columnar = ColumnarBlock::parse(&shown, &columns, &[]).unwrap();
    check(&columnar).unwrap();
    let mut payload = Vec::new();
    assert_eq!(
        find(&columnar, &[0, 0, 0, 9], &ColumnSelection::All, &mut payload),
        Ok(Some(Tag::PUT_FRESH))
    );
    assert_eq!(payload, b"\x01\x05\x03oak");
}

/// Keys with a field that differs from its neighbours by as little as possible are ordered by every
/// kind of field alone.
#[test]
fn each_key_part_alone_keeps_key_order() {
    for part in [
        Part::Fixed(1, Hint::None),
        Part::Fixed(3, Hint::Integer),
        Part::Fixed(8, Hint::Float),
        Part::Fixed(16, Hint::Integer),
        Part::Fixed(16, Hint::None),
        Part::Var(End::Rest),
        Part::Var(End::Escaped),
        Part::Var(End::EscapedDescending),
        Part::Var(End::Prefixed),
    ] {
        let layout = Layout::new(vec![part]);
        let columns = Arc::new(Columns::new(&layout, &Layout::default()));
        let mut noise = Noise(3);
        let mut rows = Rows::new();
        for row in 0..90 {
            rows.insert(part_of(&mut noise, part, 0), (Tag::PUT, vec![row]));
        }
        let mut builder = ColumnarBuilder::new(columns.clone(), Codec::Raw, Plans::new(&columns));
        let both = Both::new(&mut builder, &columns, &[], &rows);
        both.assert_reads();
        for (key, _, _) in &both.rows {
            around(key).iter().for_each(|sought| both.assert_same(sought));
        }
    }
}
