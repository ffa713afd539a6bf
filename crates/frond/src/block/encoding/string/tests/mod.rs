//! Tests of string columns: every kind with all sorts of strings, compared with the plain list; the
//! results of training, and the size of columns of fixed strings. Damaged bytes: `damage.rs`.
//! Properties of a single encoding are tested in its file.

mod damage;
mod templates;

use std::ops::Range;

use proptest::prelude::*;

use super::{
    super::PAD_BYTES, Purpose, StrEncoder, StrKind, StringModel, StringPlan, Strings, Strs,
    alphabet::Alphabet, fsst_training, model::Parts, shape_training::shape_of, template_training,
    train,
};
use crate::block::{BLOCK_RAW_BYTES_MAX, BlockBuilder, Codec, Pushed};
use crate::message::Tag;

/// A model with every part, made from these strings.
fn model_of(strings: &Strings) -> StringModel {
    let mut words: Vec<&[u8]> = strings.iter().step_by(2).collect();
    words.sort_unstable();
    words.dedup();
    let symbols = fsst_training::train(strings);
    let templates = template_training::train(&[strings], 10 * strings.len());
    StringModel::new(Parts {
        dictionary: Some(words.into_iter().collect()),
        symbols,
        shape: shape_of(strings),
        templates: templates.map(|found| (found.bytes, found.templates)),
        alphabet: Alphabet::train(strings),
    })
}

fn plans() -> impl Iterator<Item = StringPlan> {
    let codecs = [Codec::Raw, Codec::Lz4, Codec::Zstd1];
    let of = move |kind: StrKind| codecs.map(|codec| StringPlan { kind, codec });
    StrKind::ALL
        .into_iter()
        .flat_map(of)
        .filter(|plan| plan.codec == Codec::Raw || plan.kind.takes_codec())
}

pub(super) fn encode(strings: &Strings, model: Option<&StringModel>, plan: StringPlan) -> Vec<u8> {
    let mut column = Vec::new();
    let written = StrEncoder::new().encode(strings, model, plan, &mut column);
    assert_eq!(written.bytes, column.len());
    column
}

fn padded(column: &[u8]) -> Vec<u8> {
    [column, &[0xa5; PAD_BYTES]].concat()
}

/// Checks that a column of one kind returns what was encoded; returns its bytes.
pub(super) fn holds(strings: &Strings, parts: Parts, kind: StrKind) -> Vec<u8> {
    let (model, plan) = (StringModel::new(parts), StringPlan { kind, codec: Codec::Raw });
    assert_same(strings, Some(&model), plan);
    let column = encode(strings, Some(&model), plan);
    assert_eq!(column[0] & 15, kind as u8, "another kind was shorter");
    column
}

/// Checks that a column returns what was encoded, through every way of reading it.
fn assert_same(strings: &Strings, model: Option<&StringModel>, plan: StringPlan) {
    let column = padded(&encode(strings, model, plan));
    let mut chunk = Vec::new();
    let strs = Strs::parse(&column, strings.len(), model, BLOCK_RAW_BYTES_MAX, &mut chunk).unwrap();
    assert_eq!(strs.bytes_used() + PAD_BYTES, column.len(), "{plan:?}");
    strs.check().unwrap();
    let mut all = Strings::new();
    strs.decode_all(&mut all).unwrap();
    assert_eq!(&all, strings, "{plan:?}");
    let mut one = Vec::new();
    for (row, string) in strings.iter().enumerate() {
        one.clear();
        strs.get(row, &mut one).unwrap();
        assert_eq!(one, string, "{plan:?}, row {row}");
        for key in around(string) {
            assert_eq!(strs.cmp(row, &key).unwrap(), string.cmp(&key[..]), "{plan:?}, row {row}");
        }
    }
    assert!(strs.get(strings.len(), &mut one).is_err());
    assert!(strs.decode(0..strings.len() + 1, &mut all).is_err());
    let middle = strings.len() / 3..strings.len() * 2 / 3;
    let mut part = Strings::new();
    strs.decode(middle.clone(), &mut part).unwrap();
    assert!(part.iter().eq(strings.iter().skip(middle.start).take(middle.len())));
    if strings.ascends() {
        for range in [0..strings.len(), middle, strings.len()..strings.len()] {
            assert_found(&strs, strings, range);
        }
    }
}

/// Checks that searches agree with a linear scan.
fn assert_found(strs: &Strs<'_>, strings: &Strings, rows: Range<usize>) {
    for key in strings.iter().step_by(1 + strings.len() / 40).flat_map(around) {
        let part = || rows.clone().map(|row| strings.get(row));
        let low = rows.start + part().filter(|string| *string < &key[..]).count();
        let high = low + part().filter(|string| *string == &key[..]).count();
        assert_eq!(strs.lower_bound(rows.clone(), &key).unwrap(), low, "{:?}", strs.kind());
        assert_eq!(strs.equal_range(rows.clone(), &key).unwrap(), low..high, "{:?}", strs.kind());
    }
    assert!(strs.lower_bound(0..strings.len() + 1, b"").is_err());
}

/// A string and its neighbours in the order.
fn around(string: &[u8]) -> Vec<Vec<u8>> {
    let mut keys = vec![string.to_vec(), [string, &[0]].concat(), vec![]];
    if let Some((last, front)) = string.split_last() {
        keys.push(front.to_vec());
        keys.push([front, &[last.wrapping_sub(1)]].concat());
        keys.push([front, &[last.wrapping_add(1), 7]].concat());
    }
    keys
}

/// Strings of one kind, as tables have them, and sometimes of a few kinds.
fn some_strings() -> impl Strategy<Value = Strings> {
    let word = prop_oneof![Just("alpha"), Just("beta"), Just("gamma delta"), Just("")];
    let sort = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        prop::collection::vec(any::<u8>(), 17),
        word.prop_map(|word| word.as_bytes().to_vec()),
        "[0-9]{1,25}".prop_map(String::into_bytes),
        "[0-9]{3}-[0-9a-f]{5} [A-F0-9]{2}.".prop_map(String::into_bytes),
        "(https?://)(www[.])?[a-d]{1,3}[.]example/[a-c]{0,9}".prop_map(String::into_bytes),
        (0..400u32).prop_map(|n| format!("customer-{n:08}-of-a-long-common-prefix").into_bytes()),
        (0..3usize, any::<u8>()).prop_map(|(size, byte)| vec![byte; [15, 300, 5000][size]]),
    ]
    .boxed();
    let list = (prop::collection::vec(sort.clone(), 1..3), 0..130usize, any::<bool>());
    let list = list.prop_flat_map(|(seeds, count, mixed)| {
        // All rows of the kind of the first seed, or some from anywhere.
        let one = seeds[0].clone();
        let row = move |noise: u8| {
            let mut string = one.clone();
            let at = usize::from(noise) % string.len().max(1);
            if let Some(byte) = string.get_mut(at)
                && byte.is_ascii_digit()
            {
                *byte = b'0' + noise % 10;
            }
            string
        };
        let alike = any::<u8>().prop_map(row).boxed();
        let any_sort = sort_again();
        let of_row = if mixed { prop_oneof![3 => alike, 1 => any_sort].boxed() } else { alike };
        prop::collection::vec(of_row, count)
    });
    let own = prop::collection::vec(sort, 0..130);
    (prop_oneof![list, own], any::<bool>()).prop_map(|(mut strings, sorted)| {
        if sorted {
            strings.sort();
        }
        strings.iter().map(Vec::as_slice).collect()
    })
}

fn sort_again() -> BoxedStrategy<Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..20).boxed()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn every_string_encoding_round_trips(strings in some_strings(), other in some_strings()) {
        let (own, foreign) = (model_of(&strings), model_of(&other));
        for plan in plans() {
            for model in [None, Some(&own), Some(&foreign)] {
                assert_same(&strings, model, plan);
            }
        }
    }

    #[test]
    fn trained_models_and_plans_round_trip(
        strings in some_strings(), other in some_strings(), key in any::<bool>(), codec in 0..3u8,
        model_rows in prop_oneof![Just(0), Just(5000usize)],
    ) {
        let codec = Codec::from_disk(codec).unwrap();
        let mut encoder = StrEncoder::new();
        let trained = train(&mut encoder, std::slice::from_ref(&strings), Purpose { key, codec, model_rows });
        prop_assert!(model_rows > 0 || trained.model.is_none());
        prop_assert!(!key || trained.plan.kind.may_be_key() && trained.plan.codec == Codec::Raw);
        // For the sample, and for strings that the model never saw.
        for strings in [&strings, &other] {
            assert_same(strings, trained.model.as_ref(), trained.plan);
            // The encoder gives the same result as a new one.
            let mut column = Vec::new();
            encoder.encode(strings, trained.model.as_ref(), trained.plan, &mut column);
            prop_assert_eq!(column, encode(strings, trained.model.as_ref(), trained.plan));
        }
    }

    #[test]
    fn no_encoding_is_longer_than_raw(strings in some_strings(), other in some_strings()) {
        let model = model_of(&other);
        let raw = encode(&strings, None, StringPlan::RAW).len();
        for plan in plans() {
            prop_assert!(encode(&strings, Some(&model), plan).len() <= raw.max(strings.bytes().len() + 1));
        }
    }

    #[test]
    fn models_of_any_content_round_trip(strings in some_strings()) {
        let model = model_of(&strings);
        let read = StringModel::parse(model.as_bytes()).unwrap();
        prop_assert_eq!(&read, &model);
        prop_assert_eq!(read.dictionary(), model.dictionary());
        prop_assert_eq!(read.symbols(), model.symbols());
        prop_assert_eq!(read.templates().is_some(), model.templates().is_some());
    }
}

/// Numbers without a pattern, the same in every run.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 >> 24
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// Typical data sets of tables, by name.
pub(super) fn fixture(name: &str) -> Strings {
    let mut noise = Noise(7);
    let mut strings = Strings::new();
    let words = ["the", "package", "library", "of", "shared", "files", "and", "documentation for"];
    for row in 0..400u64 {
        let string = match name {
            "digits" => (0..5)
                .map(|_| format!("{:011}", noise.below(100_000_000_000)))
                .collect::<Vec<_>>()
                .join("-"),
            "guids" => {
                let (a, b) = (noise.next() << 24 | noise.next(), noise.next());
                format!(
                    "{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}",
                    a >> 32,
                    a & 0xffff,
                    b & 0xfff,
                    b >> 12 & 0xfff,
                    noise.next()
                )
            }
            "hosts" => format!("host-{:03}.example.org", noise.below(40) * 7),
            "text" => {
                let count = 3 + noise.below(9);
                (0..count).map(|_| words[noise.below(8) as usize]).collect::<Vec<_>>().join(" ")
            }
            "keys" => format!("user:{:010}:profile", row * 13),
            "constant" => "pending".to_owned(),
            "empty" => String::new(),
            "calls" => {
                let state = ["open", "closed", "waiting for an answer"][noise.below(3) as usize];
                let (id, page) = (noise.below(1 << 30), noise.below(40));
                let (high, low) = (noise.next() << 24, noise.next() << 24);
                match noise.below(4) {
                    0 => format!("@Id={id},@State=N'{state}'"),
                    1 => format!("@Id={id},@Page={page},@Rows=25"),
                    2 => format!("@Day='2026-{:02}-{:02}',@Id={id}", 1 + page % 12, 1 + page % 28),
                    _ => format!(
                        "@Key='{:08X}-{:04X}-4{:03X}-A{:03X}-{:012X}'",
                        high >> 32,
                        high >> 28 & 0xffff,
                        low >> 52,
                        low >> 40 & 0xfff,
                        noise.next()
                    ),
                }
            }
            "tokens" => {
                const CHARACTERS: &[u8; 64] =
                    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
                let length = if row % 9 == 0 { 43 } else { 22 };
                (0..length).map(|_| CHARACTERS[noise.below(64) as usize] as char).collect()
            }
            "noise" => {
                let bytes: Vec<u8> = (0..20).map(|_| noise.next() as u8).collect();
                strings.push(&bytes);
                continue;
            }
            _ => unreachable!("no such data"),
        };
        strings.push(string.as_bytes());
    }
    strings
}

const FIXTURES: [&str; 10] =
    ["digits", "guids", "hosts", "text", "keys", "constant", "empty", "noise", "calls", "tokens"];

/// Strings and their bytes; then the size of each kind, raw and symbols also with zstd, templates
/// and alphabet last; and that of a model with all parts.
const SIZES: &str = "\
digits 23600: 23608 10448 23608 23608 12215 9278 9252 11483 11483 9261 11802, model 12588
guids 14400: 14407 7381 14407 14407 7615 5631 5602 7829 7829 6411 9002, model 7969
hosts 8000: 8007 769 6514 1110 304 528 502 1781 867 308 5002, model 1781
text 19615: 20132 3866 20024 20132 10475 20132 20132 4027 2424 20132 12776, model 7968
keys 9200: 9207 469 4539 9207 5015 730 702 2007 1283 660 5752, model 3493
constant 2800: 2807 32 414 15 4 14 2 407 27 8 1052, model 66
empty 0: 4 4 4 4 4 4 4 4 4 4 4, model 11
noise 8000: 8007 8007 8007 8007 4415 8007 8002 8007 8007 8007 8007, model 4616
calls 13673: 14032 5301 13454 14032 7494 14032 14032 5459 5459 3023 10614, model 6256
tokens 9745: 10004 7612 10004 10004 5404 10004 10004 9072 7723 10004 7568, model 5619
";

/// Encoded sizes of fixed strings: a change that makes one longer shows here.
#[test]
fn encoded_sizes_of_fixed_strings_are_stable() {
    let mut sizes = String::new();
    for name in FIXTURES {
        let strings = fixture(name);
        let model = model_of(&strings);
        sizes += &format!("{name} {}:", strings.bytes().len());
        for plan in plans().filter(|plan| plan.codec != Codec::Lz4) {
            sizes += &format!(" {}", encode(&strings, Some(&model), plan).len());
        }
        sizes += &format!(", model {}\n", model.as_bytes().len());
    }
    assert_eq!(sizes, SIZES, "these are now:\n{sizes}");
}

/// Where neighbours are similar, a word that one block repeats says nothing about other blocks.
#[test]
fn words_local_to_one_block_are_not_in_the_model() {
    let block = |of: u64| {
        let mut noise = Noise(of);
        let words: Vec<String> = (0..5).map(|_| format!("{:x} {}", noise.next(), of % 7)).collect();
        words.iter().map(|word| word.as_bytes()).cycle().take(100).collect()
    };
    let sample: Vec<Strings> = (1..5).map(block).collect();
    let purpose = Purpose { key: false, codec: Codec::Raw, model_rows: 4000 };
    let trained = train(&mut StrEncoder::new(), &sample, purpose);
    assert_eq!(trained.plan.kind, StrKind::Dictionary);
    // Where blocks have the same words, one dictionary serves all.
    let sample = vec![block(1); 4];
    let trained = train(&mut StrEncoder::new(), &sample, purpose);
    assert_eq!(trained.plan.kind, StrKind::ModelDictionary);
}

/// Blocks without a model contain what they need.
#[test]
fn blocks_without_a_model_are_self_contained() {
    let states = ["pending", "done", "failed: no answer", ""].map(str::as_bytes);
    let states: Strings = states.into_iter().cycle().take(100).collect();
    for (strings, kind) in [(states, StrKind::Dictionary), (fixture("digits"), StrKind::Shape)] {
        let purpose = Purpose { key: false, codec: Codec::Raw, model_rows: 0 };
        let trained = train(&mut StrEncoder::new(), &[strings], purpose);
        assert_eq!(trained.plan, StringPlan { kind, codec: Codec::Raw });
        assert!(trained.model.is_none());
    }
}

#[test]
fn training_picks_the_encoding_that_suits_a_column() {
    use StrKind::{Alphabet, ModelDictionary, ModelShape, Prefix, Raw, Symbols, Templates};
    let expected = [
        // As a value, as a value of size class `default`, as a key.
        ("digits", [(ModelShape, Codec::Raw), (ModelShape, Codec::Raw), (ModelShape, Codec::Raw)]),
        ("guids", [(ModelShape, Codec::Raw), (ModelShape, Codec::Raw), (ModelShape, Codec::Raw)]),
        ("hosts", [(ModelDictionary, Codec::Raw); 3]),
        ("text", [(Symbols, Codec::Raw), (Symbols, Codec::Zstd1), (Alphabet, Codec::Raw)]),
        ("keys", [(ModelShape, Codec::Raw), (Raw, Codec::Zstd1), (ModelShape, Codec::Raw)]),
        ("noise", [(Raw, Codec::Raw); 3]),
        ("empty", [(Raw, Codec::Raw); 3]),
        ("tokens", [(Alphabet, Codec::Raw); 3]),
        ("calls", [(Templates, Codec::Raw), (Templates, Codec::Raw), (Prefix, Codec::Raw)]),
    ];
    for (name, plans) in expected {
        let mut strings: Vec<Vec<u8>> = fixture(name).iter().map(<[u8]>::to_vec).collect();
        for (purpose, (kind, codec)) in plans.into_iter().enumerate() {
            let key = purpose == 2;
            if key {
                strings.sort();
            }
            let sample: Strings = strings.iter().map(Vec::as_slice).collect();
            let purpose = Purpose {
                key,
                codec: if purpose == 1 { Codec::Zstd1 } else { Codec::Raw },
                model_rows: 4000,
            };
            let trained = train(&mut StrEncoder::new(), &[sample], purpose);
            assert_eq!(trained.plan, StringPlan { kind, codec }, "{name}, {purpose:?}");
            assert_eq!(trained.model.is_some(), kind.needs_model());
        }
    }
}

/// Random bytes take only the space of their ends in addition, and none if all strings have one
/// length.
#[test]
fn noise_takes_less_than_one_percent_extra() {
    let strings = fixture("noise");
    let model = model_of(&strings);
    for plan in plans() {
        let bytes = encode(&strings, Some(&model), plan).len();
        assert!(bytes <= strings.bytes().len() + strings.bytes().len() / 100, "{plan:?}: {bytes}");
    }
}

#[test]
fn a_single_key_is_shorter_than_in_a_row_block() {
    for name in ["keys", "digits", "text", "hosts"] {
        let mut keys: Vec<Vec<u8>> = fixture(name).iter().map(<[u8]>::to_vec).collect();
        keys.sort();
        keys.dedup();
        let mut builder = BlockBuilder::new();
        for key in &keys {
            assert_eq!(builder.push(key, Tag::PUT, &[], 1 << 16), Pushed::Done);
        }
        // Without the bytes of the tag and of the payload's length.
        let row_blocks = builder.finish().len() - 2 * keys.len();
        let keys: Strings = keys.iter().map(Vec::as_slice).collect();
        let plan = StringPlan { kind: StrKind::Prefix, codec: Codec::Raw };
        let bytes = encode(&keys, None, plan).len();
        assert!(bytes < row_blocks, "{name}: {bytes} against {row_blocks}");
    }
}

/// The bytes that docs/format.md shows.
#[test]
fn the_documented_columns_match_the_written_bytes() {
    let text = include_str!("../../../../../../../docs/format.md");
    let shown = text.split("The columns of `ash`").nth(1).expect("documented");
    let shown = shown.split("\n\n").nth(1).expect("columns");
    // A column takes one to three lines; words follow the bytes of a line.
    let byte = |hex: &str| u8::from_str_radix(hex, 16).expect("hexadecimal");
    let bytes = |line: &str| line[..52.min(line.len())].split_whitespace().map(byte).collect();
    let lines: Vec<Vec<u8>> = shown.lines().map(bytes).collect();
    let shown = [0..1, 1..3, 3..5, 5..8].map(|column| lines[column].concat());
    let columns: [(StrKind, &[&str]); 4] = [
        (StrKind::Raw, &["ash", "oak"]),
        (StrKind::Dictionary, &["evergreen", "oak", "evergreen"]),
        (StrKind::Prefix, &["apple", "apples", "apply"]),
        (StrKind::Shape, &["2024-10-31", "2026-07-01", "1999-02-28"]),
    ];
    let mut written = Vec::new();
    for (kind, strings) in columns {
        let strings: Strings = strings.iter().map(|string| string.as_bytes()).collect();
        let mut column = Vec::new();
        let plan = StringPlan { kind, codec: Codec::Raw };
        StrEncoder::new().encode(&strings, None, plan, &mut column);
        written.push(column.clone());
        let (column, mut chunk) = (padded(&column), Vec::new());
        let read =
            Strs::parse(&column, strings.len(), None, BLOCK_RAW_BYTES_MAX, &mut chunk).unwrap();
        let mut back = Strings::new();
        read.decode_all(&mut back).unwrap();
        assert_eq!((read.kind(), back), (kind, strings));
    }
    assert_eq!(written, shown, "{written:02X?}");
}
