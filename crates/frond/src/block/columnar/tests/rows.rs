//! Layouts and rows for tests: fields of all kinds, with few or many values each.

use proptest::prelude::*;

use crate::{
    coding::put_bytes,
    layout::{End, Hint, Layout, Part},
};

/// Numbers without a pattern.
pub(super) struct Noise(pub u64);

impl Noise {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 24) % end
    }

    /// Up to `most` bytes, often ones with a special meaning.
    pub fn bytes(&mut self, most: u64) -> Vec<u8> {
        let count = self.below(most + 1);
        let byte = |noise: &mut Self| match noise.below(6) {
            0 => 0,
            1 => 1,
            2 => 0xff,
            3 => 0xfe,
            _ => b'a' + noise.below(3) as u8,
        };
        (0..count).map(|_| byte(self)).collect()
    }
}

/// A layout of a key, or of a value.
pub(super) fn any_layout(of_key: bool) -> impl Strategy<Value = Layout> {
    let hint = prop_oneof![
        Just(Hint::None),
        Just(Hint::Integer),
        Just(Hint::Float),
        Just(Hint::Microseconds)
    ];
    let width = prop_oneof![Just(1u16), Just(2), Just(4), Just(8), Just(16), 1u16..40];
    let part = prop_oneof![
        4 => (width, hint).prop_map(|(width, hint)| Part::Fixed(width, hint)),
        1 => Just(Part::Var(End::Escaped)),
        1 => Just(Part::Var(End::EscapedDescending)),
        1 => Just(Part::Var(End::Prefixed)),
    ];
    let most = if of_key { 5 } else { 8 };
    let version = prop::option::weighted(0.3, 0u16..300);
    let parts = prop::collection::vec(part, 0..most);
    (parts, any::<bool>(), version).prop_map(move |(mut parts, rest, version)| {
        if rest || parts.is_empty() {
            parts.push(Part::Var(End::Rest));
        }
        let version = version.filter(|_| !of_key);
        version.into_iter().for_each(|version| parts.insert(0, Part::Version(version)));
        Layout::new(parts)
    })
}

/// A key or value that fits.
pub(super) fn row_of(noise: &mut Noise, layout: &Layout) -> Vec<u8> {
    let parts = (0..).zip(layout.parts());
    parts.flat_map(|(number, &part)| part_of(noise, part, number)).collect()
}

/// A field; how many distinct values it has depends on its number, so that first fields repeat.
pub(super) fn part_of(noise: &mut Noise, part: Part, number: usize) -> Vec<u8> {
    match part {
        Part::Fixed(width, Hint::Float)
            if (width == 4 || width == 8) && (number > 0 || noise.below(9) > 0) =>
        {
            let tenths = noise.below(400) as f64 / 10.0 - if number == 0 { 0.0 } else { 9.0 };
            let double = tenths.to_bits();
            let single = (tenths as f32).to_bits();
            match (width, tenths.is_sign_negative()) {
                (4, false) => (single ^ 1 << 31).to_be_bytes().to_vec(),
                (4, true) => (!single).to_be_bytes().to_vec(),
                (_, false) => (double ^ 1 << 63).to_be_bytes().to_vec(),
                (_, true) => (!double).to_be_bytes().to_vec(),
            }
        }
        Part::Fixed(width, _) => {
            let values = [5, 300, 70_000, 1 << 40][number % 4];
            let value = noise.below(values).to_be_bytes();
            let high = noise.below(2) as u8;
            let mut bytes = vec![0; usize::from(width)];
            bytes.iter_mut().rev().zip(value.iter().rev()).for_each(|(to, from)| *to = *from);
            if width > 8 {
                bytes[0] = high;
            }
            bytes
        }
        Part::Version(version) => version.to_be_bytes().to_vec(),
        Part::Var(End::Rest) => noise.bytes(7),
        Part::Var(End::Escaped) => escaped(&noise.bytes(5)),
        Part::Var(End::EscapedDescending) => {
            escaped(&noise.bytes(5)).iter().map(|byte| !byte).collect()
        }
        Part::Var(End::Prefixed) => {
            let mut bytes = Vec::new();
            let long = noise.below(30) == 0;
            put_bytes(&mut bytes, &noise.bytes(if long { 300 } else { 6 }));
            bytes
        }
    }
}

fn escaped(content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for &byte in content {
        bytes.push(byte);
        if byte == 0 {
            bytes.push(0xff);
        }
    }
    bytes.extend_from_slice(&[0, 1]);
    bytes
}
