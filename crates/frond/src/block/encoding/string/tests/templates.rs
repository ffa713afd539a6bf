//! Tests of templates: strings of every kind that they represent and strings that look similar,
//! with models that know them and models that do not; how much they save; and each rule of their
//! format broken by itself.

use proptest::prelude::*;

use super::{
    super::{
        Purpose, StrEncoder, StrKind, StringModel, StringPlan, Strings, Strs, model::Parts,
        template_training, template_walk::TemplateWalk, templates::Templates, tokens::Tokens,
        train,
    },
    assert_same,
    damage::{assert_rule_is_detected, ints},
    encode, fixture, padded,
};
use crate::block::Codec;

const PLAN: StringPlan = StringPlan { kind: StrKind::Templates, codec: Codec::Raw };

fn list<'a>(strings: impl IntoIterator<Item = &'a str>) -> Strings {
    strings.into_iter().map(str::as_bytes).collect()
}

/// A model trained on these strings, with symbols or without.
fn model_of(strings: &Strings, with_symbols: bool) -> StringModel {
    let found = template_training::train(&[strings], 100 * strings.len()).expect("they have some");
    let symbols = with_symbols.then(|| super::fsst_training::train(strings)).flatten();
    let templates = Some((found.bytes, found.templates));
    StringModel::new(Parts { symbols, templates, ..Parts::default() })
}

/// Values that a slot can hold, and values that only look like it.
const STRANGE: [&str; 40] = [
    "",
    "@Id=7",
    "@Id=007",
    "@Id=0",
    "@Id=00",
    "@Id=",
    "@Id=-7",
    "@Id=99999999999999999999999",
    "@Id=18446744073709551615",
    "@Id=18446744073709551616",
    "@Id=1844674407370955161",
    "@Id=4294967296",
    "@Id=12345678901234567890123456789012345678901234567890",
    "@Id=seven",
    "@Id=7,@State=N'open'",
    "@Id=7,@State=N'unheard of'",
    "@Id=7,@State=N''",
    "@Id=7,@State=N'open",
    "@Id=7,@State=N'op''en'",
    "@Id=7,@State=N'5 of them'",
    "@Day='2026-01-05',@Id=5",
    "@Day='2026-1-5',@Id=5",
    "@Day='02026-01-05',@Id=5",
    "@Day='2026-01-99',@Id=5",
    "@Key='12345678-1234-4234-A234-123456789012'",
    "@Key='ABCDEF01-ABCD-4BCD-ABCD-ABCDEF012345'",
    "@Key='abcdef01-abcd-4bcd-abcd-abcdef012345'",
    "@Key='ABCDEF01-abcd-4BCD-ABCD-ABCDEF012345'",
    "@Key='ABCDEF01-ABCD-4BCD-ABCD-ABCDEF0123456'",
    "@Key='ABCDEF01-ABCD-4BCD-ABCD-ABCDEF01234'",
    "@Key='ABCDEF01-ABCD-4BCD-ABCD-ABCDEF01234G'",
    "@Key='ABCDEF01ABCD-4BCD-ABCD-ABCDEF0123456'",
    "@Key='ABCDEF0-1ABCD-4BCD-ABCD-ABCDEF012345'",
    "@Key=ABCDEF01-ABCD-4BCD-ABCD-ABCDEF012345",
    "@Key='deadbeef0123456789'",
    "@Key='DEADbeef0123456789'",
    "{\"name\":\"oak\",\"height\":12,\"id\":\"5e0f9a4411\"}",
    "GET /trees/17?from=ash&to=oak_2 200 1043us",
    "\u{e9}t\u{e9} 2026, 'l'\u{e9}t\u{e9}'",
    "=9=9=9=9=9=9=9=9=9=9=9=9=9=9=9=9=9=9=9=9=9=9=9=9=9=9=9=9=9=9=9=9=9=9=9=9=9=9=9=9=9=9=9=9=9=9=9=9=9=9",
];

#[test]
fn strings_that_resemble_templates_round_trip() {
    let strange: Strings = list(STRANGE).iter().chain([&b"@Id=\xff7"[..], &[0; 3]]).collect();
    let known = fixture("calls");
    // Often enough to become templates themselves.
    let often: Strings = (0..3).flat_map(|_| strange.iter()).collect();
    for model in [model_of(&known, false), model_of(&known, true), model_of(&often, true)] {
        for strings in [&strange, &often, &known] {
            assert_same(strings, Some(&model), PLAN);
        }
        for string in strange.iter() {
            assert_same(&[string].into_iter().collect(), Some(&model), PLAN);
        }
        assert_same(&Strings::new(), Some(&model), PLAN);
    }
}

/// Every coder, with values that it has codes for and others.
#[test]
fn every_slot_coder_round_trips() {
    let sorts: [fn(u64) -> String; 8] = [
        |n| format!("n={}", n * n),
        |n| format!("padded {:03}.{:09}", n % 1000, n * 7919),
        |n| format!("long {:025}", n * 0x9e37_79b9),
        |n| format!("w={}", ["ash", "oak", "elm", "a word of its own"][n as usize % 4]),
        |n| format!("hex {:016x} {:08X}a", n.wrapping_mul(0x9e37_79b9_7f4a_7c15), n | 0xa000_0000),
        |n| format!("id 5e0f9a44-11aa-4bcd-8001-{:012x}", n * 0x9e37_79b9),
        |n| format!("text='{}'", "lorem ipsum dolor sit amet".get(..1 + n as usize % 26).unwrap()),
        |n| format!("always=1,a='same',n={n}"),
    ];
    for sort in sorts {
        let strings: Vec<String> = (0..300).map(sort).collect();
        let strings = list(strings.iter().map(String::as_str));
        let model = model_of(&strings, false);
        assert_same(&strings, Some(&model), PLAN);
        let bytes = encode(&strings, Some(&model), PLAN).len();
        assert!(bytes * 10 < strings.bytes().len() * 9, "{bytes} of {}", strings.bytes().len());
        let others: Vec<String> = (0..300).map(|n| sort(n * 7_777_777)).collect();
        assert_same(&list(others.iter().map(String::as_str)), Some(&model), PLAN);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn templated_and_nearly_templated_strings_round_trip(
        picks in prop::collection::vec((0..400usize, any::<u16>(), any::<u8>(), 0..4u8), 0..90),
        with_symbols in any::<bool>(),
    ) {
        let known = fixture("calls");
        let model = model_of(&known, with_symbols);
        let strings: Strings = picks.iter().map(|&(row, at, byte, change)| {
            let mut string = known.get(row).to_vec();
            let at = usize::from(at) % (string.len() + 1);
            match change {
                0 => {}
                1 => string.insert(at, byte),
                2 => string.truncate(at),
                _ => string.splice(at..at, *b"00000000").for_each(drop),
            }
            string
        }).collect::<Vec<_>>().iter().map(Vec::as_slice).collect();
        assert_same(&strings, Some(&model), PLAN);
    }
}

/// Walking from literal to literal is the fast path: losing it would cost only speed, so other
/// tests would not notice.
#[test]
fn strings_of_templates_are_found_by_their_literals() {
    let known: Strings = calls(12).iter().flat_map(Strings::iter).collect();
    for strings in [&known, &fixture("calls")] {
        let model = model_of(strings, false);
        let templates = model.templates().expect("it has some");
        let walk = TemplateWalk::of(templates);
        let (mut walked, mut cut) = (Tokens::default(), Tokens::default());
        let (mut found, mut all) = (0, 0);
        for string in strings.iter() {
            assert!(cut.find(string));
            let has_hash = |&number: &usize| {
                templates.pieces(number).len() > 1 && templates.hash(number) == cut.hash()
            };
            let Some(by_hash) = (0..templates.len()).find(has_hash) else { continue };
            all += 1;
            if let Some(number) = walk.find(templates, string, &mut walked) {
                assert_eq!(number as usize, by_hash);
                let ends = |of: &Tokens| -> Vec<_> {
                    of.slots().iter().map(|slot| (slot.start, slot.end)).collect()
                };
                assert_eq!(ends(&walked), ends(&cut), "{}", String::from_utf8_lossy(string));
                found += 1;
            }
        }
        assert!(all > 100 && 20 * found >= 19 * all, "{found} of {all}");
    }
}

/// Blocks of calls, some of which are the same in all of them.
fn calls(blocks: u64) -> Vec<Strings> {
    let mut noise = super::Noise(3);
    let mut row = || match noise.below(5) {
        0 => {
            format!("@Monitor='disk {}',@Host='db-{:02}',@Limit=95", noise.below(9), noise.below(4))
        }
        1 => format!(
            "@Key='{:08X}-0000-4000-8000-00000000CAFE'",
            noise.below(30) * 0x8080_8080 % (1 << 32)
        ),
        _ => format!("@User={},@Page={},@Sort='name'", noise.below(1 << 20), noise.below(20)),
    };
    (0..blocks)
        .map(|_| (0..80).map(|_| row()).collect::<Vec<_>>())
        .map(|rows| list(rows.iter().map(String::as_str)))
        .collect()
}

/// Frequent strings and words take only their number.
#[test]
fn frequent_strings_are_stored_in_the_model() {
    let blocks = calls(16);
    let purpose = Purpose { key: false, codec: Codec::Zstd1, model_rows: 10_000 };
    let trained = train(&mut StrEncoder::new(), &blocks, purpose);
    assert_eq!(trained.plan, PLAN);
    let model = trained.model.as_ref().unwrap();
    let bytes = |strings: &Strings| encode(strings, Some(model), PLAN).len();
    let same = |string: &str| list((0..80).map(|_| string));
    // Constant numbers, and offsets that lie on a line.
    for string in
        ["@Monitor='disk 3',@Host='db-02',@Limit=95", "@Key='80808080-0000-4000-8000-00000000CAFE'"]
    {
        assert!(bytes(&same(string)) < 20 + 80, "{}", bytes(&same(string)));
    }
    let row_bytes = bytes(&blocks[3]) as f64 / 80.0;
    assert!((trained.row_bytes - row_bytes).abs() < 1.0, "{} and {row_bytes}", trained.row_bytes);
}

#[test]
fn text_has_no_templates() {
    for name in ["text", "noise", "empty"] {
        let strings = fixture(name);
        let found = template_training::train(&[&strings], 4000);
        let slots = found.map_or(0, |found| {
            (0..found.templates.len()).map(|number| found.templates.pieces(number).len() - 1).sum()
        });
        assert_eq!(slots, 0, "{name}");
    }
}

/// A string of many templates may be as long as the limit, and the templates of a model are
/// bounded.
#[test]
fn templates_are_within_their_bounds() {
    let field = [0x09 | 3 << 4];
    let of = |templates: &[u8]| Templates::parse(&[&[1][..], &field, templates].concat()).is_ok();
    assert!(of(&[0]) && of(&[1, 0, 1, b'x']) && of(&[1, 1, 0, 0, 1, b'x']));
    assert!(
        !of(&[]) && !of(&[1, 0, 1]) && !of(&[1, 1, 0, 1, 0]) && !of(&[0, 0]),
        "cut, field 1, more"
    );
    let slots = |count: u8| [&[1, count][..], &[0, 0].repeat(count.into()), &[0]].concat();
    assert!(of(&slots(48)) && !of(&slots(49)));
    let literal = |bytes: usize| {
        let mut template = vec![1, 0];
        crate::coding::put_bytes(&mut template, &vec![b'x'; bytes]);
        template
    };
    assert!(of(&literal(4096)) && !of(&literal(4097)));
    let two = |bytes: usize| {
        let mut template = vec![1, 1];
        crate::coding::put_bytes(&mut template, &vec![b'x'; bytes]);
        template.push(0);
        crate::coding::put_bytes(&mut template, &vec![b'x'; 4000]);
        template
    };
    assert!(of(&two(96)) && !of(&two(97)));
    let all = |count: usize| {
        let mut templates = Vec::new();
        crate::coding::put_varint(&mut templates, count as u64);
        (0..count).for_each(|_| templates.extend_from_slice(&literal(4096)[1..]));
        templates
    };
    assert!(of(&all(256)) && !of(&all(257)), "a MiB of literals");
    // Coders and their parameters.
    let coder = |bytes: &[u8]| Templates::parse(&[&[1], bytes, &[0]].concat()).is_ok();
    for (good, bad) in [
        (&[0x00, 56][..], &[0x00, 57][..]),
        (&[0x00, 1], &[0x00, 0]),
        (&[0x01, 3, 10], &[0x01, 3, 11]),
        (&[0x01, 16, 54], &[0x01, 17, 54]),
        (&[0x02, 255], &[0x02, 0]),
        (&[0x13, 64], &[0x13, 65]),
        (&[0x25], &[0x45]),
        (&[0x37, 1, 1, b'a'], &[0x37, 0]),
        (&[0x38, 1, b'a'], &[0x38, 2, b'a']),
        (&[0x39], &[0x3a]),
    ] {
        assert!(coder(good) && !coder(bad), "{good:?}, {bad:?}");
    }
}

/// Numbers of one digit, two words and then a text, three digits.
fn by_hand() -> StringModel {
    let fields = [
        &[4, 0x01, 1, 4, 0x37, 2, 2][..],
        b"no\x03yes",
        &[0x39, 0x02, 3],
        b"\x03\x01\x01n\x00\x00\x02\x01w\x01\x00\x02\x01.\x01\x00\x03\x00",
    ];
    let templates = fields.concat();
    StringModel::parse(&[&[2, 8, templates.len() as u8], &templates[..]].concat()).unwrap()
}

/// A model may contain a thousand duplicates; one is found, and finding others does not visit all
/// of them.
#[test]
fn a_model_with_duplicates_packs_correctly() {
    const WORDS: u64 = 60_000;
    const TEMPLATES: u64 = 16_000;
    let mut bytes = vec![1, 0x37];
    crate::coding::put_varint(&mut bytes, WORDS + 1);
    (0..WORDS).for_each(|_| bytes.extend_from_slice(b"\x02no"));
    bytes.extend_from_slice(b"\x03yes");
    crate::coding::put_varint(&mut bytes, TEMPLATES + 1);
    (0..TEMPLATES).for_each(|_| bytes.extend_from_slice(b"\x01\x03@a=\x00\x00"));
    bytes.extend_from_slice(b"\x01\x03@b=\x00\x00");
    let mut model = vec![2, 8];
    crate::coding::put_bytes(&mut model, &bytes);
    let model = StringModel::parse(&model).unwrap();
    let strings = list(["@a='no'", "@b='yes'", "@a='yes'", "@a=no", "@b=yes", "@a=maybe"]);
    assert_same(&strings, Some(&model), PLAN);
}

fn column(numbers: &[u64], restarts: &[u64], bits: &[u8], texts: &[(u64, &[u8])]) -> Vec<u8> {
    let mut all = vec![texts.len() as u8];
    if !texts.is_empty() {
        let rows: Vec<u64> = texts.iter().map(|(row, _)| *row).collect();
        let bytes: Vec<u8> = texts.iter().flat_map(|(_, text)| text.to_vec()).collect();
        let ends = texts.iter().scan(0, |end, (_, text)| {
            *end += text.len() as u64;
            Some(*end)
        });
        let ends: Vec<u64> = ends.collect();
        all.extend([&ints(&rows)[..], &[bytes.len() as u8], &ints(&ends), &bytes].concat());
    }
    let bits = [&[bits.len() as u8], bits].concat();
    [&[7][..], &ints(numbers), &ints(restarts), &bits, &[all.len() as u8], &all].concat()
}

#[test]
fn the_check_detects_every_broken_template_rule() {
    let model = by_hand();
    let text: &[u8] = b"\x04?";
    let guid = [&[2][..], &[7; 16]].concat();
    let no_guid = [&[6][..], &[7; 16]].concat();
    let pairs: [(&str, usize, Vec<u8>, Vec<u8>); 12] = [
        (
            "templates exist",
            1,
            column(&[3], &[0], &[], &[(0, text)]),
            column(&[4], &[0], &[], &[(0, text)]),
        ),
        (
            "numbers have their digits",
            1,
            column(&[0], &[0], &[9], &[]),
            column(&[0], &[0], &[10], &[]),
        ),
        (
            "words exist",
            1,
            column(&[1], &[0], &[1], &[(0, text)]),
            column(&[1], &[0], &[3], &[(0, text)]),
        ),
        (
            "rows begin where they should",
            1,
            column(&[0], &[0], &[9], &[]),
            column(&[0], &[1], &[18], &[]),
        ),
        ("bits belong to rows", 1, column(&[0], &[0], &[9], &[]), column(&[0], &[0], &[9, 0], &[])),
        (
            "texts are there",
            1,
            column(&[1], &[0], &[1], &[(0, text)]),
            column(&[1], &[0], &[1], &[]),
        ),
        (
            "both texts are there",
            1,
            column(&[1], &[0], &[2], &[(0, b"\x04?\x04!")]),
            column(&[1], &[0], &[2], &[(0, text)]),
        ),
        (
            "texts are wanted",
            1,
            column(&[0], &[0], &[15], &[(0, text)]),
            column(&[0], &[0], &[9], &[(0, text)]),
        ),
        (
            "texts belong to slots",
            1,
            column(&[0], &[0], &[15], &[(0, text)]),
            column(&[0], &[0], &[15], &[(0, b"\x04?\x04!")]),
        ),
        (
            "digits are below ten",
            1,
            column(&[2], &[0], &[0xe7, 3], &[]),
            column(&[2], &[0], &[0xe8, 3], &[]),
        ),
        (
            "a GUID has no length",
            1,
            column(&[3], &[0], &[], &[(0, &guid)]),
            column(&[3], &[0], &[], &[(0, &no_guid)]),
        ),
        (
            "symbols have a table",
            1,
            column(&[3], &[0], &[], &[(0, text)]),
            column(&[3], &[0], &[], &[(0, b"\x05?")]),
        ),
    ];
    for (rule, rows, good, bad) in pairs {
        assert_rule_is_detected(rule, rows, &model, [&good, &bad]);
    }
}

/// A few bits may stand for many long strings: neither the check nor a reader produces more than is
/// allowed.
#[test]
fn a_column_of_templates_is_no_longer_than_its_rows() {
    let string = "x".repeat(4000);
    let strings = list((0..40_000).map(|_| string.as_str()));
    let model = model_of(&list((0..3).map(|_| string.as_str())), false);
    let column = padded(&encode(&strings, Some(&model), PLAN));
    assert!(column.len() < 100);
    let (mut chunk, mut all) = (Vec::new(), Strings::new());
    let strs = Strs::parse(&column, 40_000, Some(&model), 100_000, &mut chunk).unwrap();
    assert!(strs.check().is_err() && strs.decode_all(&mut all).is_err());
    assert!(all.bytes().len() <= 100_000);
}

/// The bytes that docs/format.md shows.
#[test]
fn the_documented_templates_match_the_written_bytes() {
    let text = include_str!("../../../../../../../docs/format.md");
    let shown = text.split("A model of two fields").nth(1).expect("documented");
    let lines = shown.lines().filter_map(|line| line.strip_prefix("    "));
    let byte = |hex: &str| u8::from_str_radix(hex, 16).unwrap_or(0xee);
    let bytes = |line: &str| line.get(..49).unwrap_or(line).split_whitespace().map(byte).collect();
    let lines: Vec<Vec<u8>> = lines.take(6).map(bytes).collect();
    let (model, column) = (lines[..2].concat(), lines[2..].concat());
    let model = StringModel::parse(&model).expect("a model");
    let strings = list(["n=7,w=yes;", "n=12,w=maybe;", "none"]);
    let written = encode(&strings, Some(&model), PLAN);
    let hex: Vec<String> = written.iter().map(|byte| format!("{byte:02X}")).collect();
    assert_eq!(written, column, "{}", hex.join(" "));
    assert_same(&strings, Some(&model), PLAN);
}

/// Models without templates have the old version; a Frond without support for templates refuses the
/// others.
#[test]
fn only_models_with_templates_have_the_newer_version() {
    let known = fixture("calls");
    assert_eq!(model_of(&known, true).as_bytes()[..2], [2, 2 | 8]);
    let symbols = super::fsst_training::train(&known);
    let plain = StringModel::new(Parts { symbols, ..Parts::default() });
    assert_eq!(plain.as_bytes()[..2], [1, 2]);
}
