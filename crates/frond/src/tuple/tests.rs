//! The module's three invariants, for every type, and for combinations of them.

use std::{borrow::Cow, cmp::Ordering, fmt::Debug};

use proptest::prelude::*;

use super::{
    Desc, Key, KeyReader, TupleDecode, TupleEncode, decode, encode, layout_of, prefix_end,
};
use crate::layout::{End, Hint, Part};

/// Checks invariants 1, 2 and 3 for two values of one type, ordered by `compare`.
fn holds<T>(a: &T, b: &T, compare: impl Fn(&T, &T) -> Ordering) -> Result<(), TestCaseError>
where
    T: TupleEncode + for<'k> TupleDecode<'k> + Debug,
{
    let (key_a, key_b) = (encode(a), encode(b));
    prop_assert_eq!(key_a.cmp(&key_b), compare(a, b), "order of {:?} and {:?}", a, b);
    for (value, key) in [(a, &key_a), (b, &key_b)] {
        let back: T = decode(key).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(
            compare(&back, value),
            Ordering::Equal,
            "{:?} came back as {:?}",
            value,
            back
        );
        prop_assert_eq!(&encode(&back), key);
        let mut ends = Vec::new();
        prop_assert!(layout_of::<T>().split(key, &mut ends), "layout of {:?}", value);
        for cut in 0..key.len() {
            prop_assert!(decode::<T>(&key[..cut]).is_err(), "{:?} cut at {}", value, cut);
        }
    }
    Ok(())
}

/// Byte strings, with special values more likely.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(
        prop_oneof![Just(0u8), Just(1), Just(0xfe), Just(0xff), any::<u8>()],
        0..6,
    )
}

fn string() -> impl Strategy<Value = String> {
    prop::collection::vec(prop_oneof![Just('\0'), Just('\u{1}'), Just('a'), any::<char>()], 0..5)
        .prop_map(String::from_iter)
}

macro_rules! each_type {
    ($($test:ident: $type:ty, $strategy:expr;)+) => {
        proptest! {$(
            #[test]
            fn $test(a in $strategy, b in $strategy, c in $strategy, tail: (u8, u8)) {
                type One = $type;
                holds::<(One,)>(&(a.clone(),), &(b.clone(),), Ord::cmp)?;
                holds::<(Desc<One>,)>(&(Desc(a.clone()),), &(Desc(b.clone()),), Ord::cmp)?;
                holds::<(Option<One>,)>(&(Some(a.clone()),), &(Some(b.clone()),), Ord::cmp)?;
                holds::<(Option<One>,)>(&(None,), &(Some(b.clone()),), Ord::cmp)?;
                holds::<(Desc<Option<One>>,)>(&(Desc(None),), &(Desc(Some(b.clone())),), Ord::cmp)?;
                holds::<(Option<Desc<One>>, u8)>(
                    &(Some(Desc(a.clone())), tail.0), &(None, tail.1), Ord::cmp,
                )?;
                holds::<(Option<Option<One>>,)>(&(Some(None),), &(None,), Ord::cmp)?;
                // Whatever follows or precedes a part, the part decides in its turn.
                holds::<(One, u8)>(&(a.clone(), tail.0), &(b.clone(), tail.1), Ord::cmp)?;
                holds::<(One, One, Desc<One>)>(
                    &(a.clone(), c.clone(), Desc(b.clone())),
                    &(b.clone(), a.clone(), Desc(c.clone())),
                    Ord::cmp,
                )?;
                holds::<(One, One, Desc<One>)>(
                    &(c.clone(), a.clone(), Desc(b.clone())),
                    &(c.clone(), a.clone(), Desc(c.clone())),
                    Ord::cmp,
                )?;
            }
        )+}
    };
}

each_type! {
    u8_keeps_order: u8, any::<u8>();
    u16_keeps_order: u16, any::<u16>();
    u32_keeps_order: u32, any::<u32>();
    u64_keeps_order: u64, any::<u64>();
    u128_keeps_order: u128, any::<u128>();
    i8_keeps_order: i8, any::<i8>();
    i16_keeps_order: i16, any::<i16>();
    i32_keeps_order: i32, any::<i32>();
    i64_keeps_order: i64, any::<i64>();
    i128_keeps_order: i128, any::<i128>();
    bool_keeps_order: bool, any::<bool>();
    bytes_keep_order: Vec<u8>, bytes();
    strings_keep_order: String, string();
    arrays_keep_order: [u8; 3], any::<[u8; 3]>();
}

/// The documented order: NaN last, zeros equal.
fn compare_floats(a: f64, b: f64) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => a.partial_cmp(&b).expect("neither is NaN"),
    }
}

/// All bit patterns, with special values more likely.
fn f64s() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<u64>().prop_map(f64::from_bits),
        prop::sample::select(vec![
            0.0,
            -0.0,
            1.0,
            -1.0,
            f64::MIN_POSITIVE,
            -f64::MIN_POSITIVE,
            f64::from_bits(1),
            f64::MAX,
            f64::MIN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
            -f64::NAN,
            f64::from_bits(0x7ff0_0000_0000_0001),
        ]),
    ]
}

proptest! {
    #[test]
    fn f64_keeps_its_documented_order(a in f64s(), b in f64s()) {
        holds::<(f64,)>(&(a,), &(b,), |a, b| compare_floats(a.0, b.0))?;
        holds::<(Desc<f64>,)>(&(Desc(a),), &(Desc(b),), |a, b| compare_floats(b.0.0, a.0.0))?;
    }

    #[test]
    fn f32_keeps_its_documented_order(a in f64s(), b in f64s(), bits: u32) {
        let compare = |a: &(f32,), b: &(f32,)| compare_floats(a.0.into(), b.0.into());
        holds::<(f32,)>(&(a as f32,), &(b as f32,), compare)?;
        holds::<(f32,)>(&(f32::from_bits(bits),), &(b as f32,), compare)?;
    }

    #[test]
    fn eight_mixed_parts_keep_their_order(
        a: (i8, u16, i32, u64, bool),
        b: (i8, u16, i32, u64, bool),
        texts in (string(), string(), bytes(), bytes()),
        same in 0usize..8,
    ) {
        type Row = (i8, String, Desc<u16>, Option<i32>, Vec<u8>, Desc<String>, bool, Option<Desc<u64>>);
        let row = |v: (i8, u16, i32, u64, bool), s: &str, t: &[u8]| -> Row {
            (v.0, s.into(), Desc(v.1), v.4.then_some(v.2), t.into(), Desc(s.into()), v.4,
             (v.3.is_multiple_of(2)).then_some(Desc(v.3)))
        };
        let one = row(a, &texts.0, &texts.2);
        let mut two = row(b, &texts.1, &texts.3);
        // With equal prefixes, the later parts decide.
        if same > 0 { two.0 = one.0; }
        if same > 1 { two.1 = one.1.clone(); }
        if same > 2 { two.2 = one.2; }
        if same > 3 { two.3 = one.3; }
        if same > 4 { two.4 = one.4.clone(); }
        if same > 5 { two.5 = one.5.clone(); }
        if same > 6 { two.6 = one.6; }
        holds(&one, &two, Ord::cmp)?;
    }

    /// Promise: P20. Invariant 2.
    #[test]
    fn any_bytes_decode_to_what_they_encode_or_are_refused(
        key in prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(0xfe), Just(0xff), any::<u8>()], 0..40),
    ) {
        fn one<'k, T: TupleEncode + TupleDecode<'k>>(key: &'k [u8]) -> Result<(), TestCaseError> {
            if let Ok(tuple) = decode::<T>(key) {
                prop_assert_eq!(encode(&tuple), key);
                let mut ends = Vec::new();
                prop_assert!(layout_of::<T>().split(key, &mut ends));
            }
            Ok(())
        }
        one::<(String,)>(&key)?;
        one::<(Vec<u8>, Desc<Vec<u8>>)>(&key)?;
        one::<(Cow<'_, str>, Option<Cow<'_, [u8]>>, Desc<Cow<'_, str>>)>(&key)?;
        one::<(Option<String>, Option<u32>)>(&key)?;
        one::<(Desc<Option<Vec<u8>>>, bool)>(&key)?;
        one::<(f64, f32)>(&key)?;
        one::<(Desc<f32>,)>(&key)?;
        one::<(Option<Option<Desc<i16>>>, [u8; 5], u128)>(&key)?;
    }

    #[test]
    fn text_is_borrowed_unless_it_is_escaped_or_descends(text in string(), other in bytes()) {
        type Owned = (String, Vec<u8>, Desc<String>, Option<String>, u8);
        type Borrowed<'k> = (Cow<'k, str>, Cow<'k, [u8]>, Desc<Cow<'k, str>>, Option<Cow<'k, str>>, u8);
        let row: Owned = (text.clone(), other, Desc(text.clone()), Some(text), 1);
        let key = encode(&row);
        let back: Borrowed<'_> = decode(&key).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(encode(&back), key.as_slice());
        let layouts = (layout_of::<Borrowed<'_>>(), layout_of::<Owned>());
        prop_assert_eq!(layouts.0.parts(), layouts.1.parts());
        prop_assert_eq!((&*back.0, &*back.1, &*back.2.0), (&*row.0, &*row.1, &*row.2.0));
        prop_assert_eq!(back.3.as_deref(), row.3.as_deref());
        prop_assert_eq!(matches!(back.0, Cow::Borrowed(_)), !row.0.contains('\0'));
        prop_assert_eq!(matches!(back.1, Cow::Borrowed(_)), !row.1.contains(&0));
        prop_assert!(matches!(back.2.0, Cow::Owned(_)));
    }

    #[test]
    fn prefix_end_bounds_exactly_the_prefix(prefix in bytes(), other in bytes()) {
        let inside = other.starts_with(&prefix);
        let bounded = other >= prefix && prefix_end(&prefix).is_none_or(|end| other < end);
        prop_assert_eq!(inside, bounded);
    }

    #[test]
    fn builder_and_tuple_write_the_same_bytes(
        a: u64, b in string(), c: i32, d: Option<bool>, e in bytes(),
    ) {
        let built = Key::new().u64(a).str(&b).desc().i32(c).opt(d).desc().bytes(&e);
        let tuple = encode(&(a, b.as_str(), Desc(c), d, Desc(e.as_slice())));
        prop_assert_eq!(&*built, tuple.as_slice());
        prop_assert_eq!(Key::reuse(built).u8(1).into_bytes(), vec![1]);
    }
}

#[test]
fn encoded_bytes_are_stable() {
    let hex =
        |bytes: Vec<u8>| bytes.iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(" ");
    assert_eq!(hex(encode(&(7u32,))), "00 00 00 07");
    assert_eq!(hex(encode(&(-1i16,))), "7f ff");
    assert_eq!(hex(encode(&(1.0f32, -1.0f32))), "bf 80 00 00 40 7f ff ff");
    assert_eq!(hex(encode(&(-0.0f32, f32::NAN))), "80 00 00 00 ff c0 00 00");
    assert_eq!(hex(encode(&("a\0b",))), "61 00 ff 62 00 01");
    assert_eq!(hex(encode(&(Desc("a\0b"),))), "9e ff 00 9d ff fe");
    assert_eq!(hex(encode(&(Some(1u8), None::<u8>, None::<&str>))), "01 01 00 00 00 00 01");
    assert_eq!(hex(encode(&(Desc(None::<u8>), true))), "ff ff 01");
}

#[test]
fn layouts_name_every_part() {
    assert_eq!(
        layout_of::<(u64, &str, Option<i32>, Desc<String>, f64, [u8; 16])>().parts(),
        [
            Part::Fixed(8, Hint::Integer),
            Part::Var(End::Escaped),
            Part::Fixed(1, Hint::None),
            Part::Fixed(4, Hint::Integer),
            Part::Var(End::EscapedDescending),
            Part::Fixed(8, Hint::Float),
            Part::Fixed(16, Hint::None),
        ]
    );
    assert!(layout_of::<(Desc<Desc<String>>,)>().validate().is_ok());
}

#[test]
fn part_of_a_key_can_be_read_alone() -> crate::Result<()> {
    let key = encode(&(7u64, "oslo", 3u8));
    let mut reader = KeyReader::new(&key);
    assert_eq!(<(u64, String)>::read(&mut reader)?, (7, "oslo".to_owned()));
    assert_eq!(reader.rest(), [3]);
    Ok(())
}
