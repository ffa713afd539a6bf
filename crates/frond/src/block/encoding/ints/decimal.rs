//! The decimal column: floats that are whole numbers divided by a power of ten.
//!
//! Prices, rates and measures are floats by type, but were written with a few digits: 12.34 is 1234
//! / 100. IEEE division is exact to the last bit and the same on every machine, so whole numbers
//! and one exponent restore the floats, and whole numbers pack well. Each value is verified; what
//! is not restored bit for bit (NaN, −0, infinities, the placeholder of a null, more digits than
//! the others) is an *exception*, stored in a list.
//!
//! Values are the floats in the form whose order as integers is that of the numbers
//! (docs/format.md, "Tuple keys").
//!
//! ```text
//! decimal = 69 | exponent, +128 for 32-bit floats, u8 | length of least u8 | exceptions u16
//!         | least, signed | if there are exceptions: their rows, their values as a packed column
//!         | whole numbers - least, a column of any other kind but scaled
//! ```
//! The row of an exception has a neighbour's whole number, so that it costs nothing there. Idea:
//! Afroozeh, Kuffo, Boncz, "ALP: Adaptive Lossless floating-Point Compression", 2023.

use std::ops::Range;

use super::super::{
    super::BadBlock,
    bits::{Codes, pack, packed_bytes, partition},
};
use super::{
    IntKind, Ints,
    bit_packed::{self, BitPacked},
    head::{cut_signed, put_low, row_width, signed_bytes},
    tag,
    traits::{IntColumn, IntPlan, any_decoded, equal_rows},
};

const HEAD_BYTES: usize = 5;
/// Flag in the byte of the exponent: 32-bit floats.
const SINGLE: u8 = 0x80;

/// All powers that a whole number below [`WHOLE_MAX`] may be divided by.
const POWERS: [f64; 16] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];
/// Whole numbers stay below this, so that adding [`ROUND`] rounds them.
const WHOLE_MAX: f64 = (1u64 << 51) as f64;
/// A number so large that the next float is larger by 1.
const ROUND: f64 = (3u64 << 51) as f64;

/// Number of values that determine the exponent.
const SAMPLES: usize = 32;

/// The type of a column's floats.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Float {
    /// 32-bit floats.
    Single,
    /// 64-bit floats.
    Double,
}

impl Float {
    /// The number with these order-preserving bits.
    #[inline]
    fn number(self, bits: u64) -> f64 {
        match self {
            Float::Single => {
                let bits = bits as u32;
                let flip = if bits >> 31 == 0 { u32::MAX } else { 1 << 31 };
                f32::from_bits(bits ^ flip).into()
            }
            Float::Double => {
                let flip = if bits >> 63 == 0 { u64::MAX } else { 1 << 63 };
                f64::from_bits(bits ^ flip)
            }
        }
    }

    /// The order-preserving bits of a number.
    #[inline]
    fn bits(self, number: f64) -> u64 {
        match self {
            Float::Single => {
                let bits = (number as f32).to_bits();
                let flip = if bits >> 31 == 0 { 1 << 31 } else { u32::MAX };
                (bits ^ flip).into()
            }
            Float::Double => {
                let bits = number.to_bits();
                bits ^ if bits >> 63 == 0 { 1 << 63 } else { u64::MAX }
            }
        }
    }

    /// The whole number that, divided by `power`, has these order-preserving bits, if there is one.
    #[inline]
    fn whole(self, bits: u64, power: f64) -> Option<i64> {
        let rounded = self.number(bits) * power + ROUND;
        let whole = rounded - ROUND;
        // A NaN compares false.
        let fits = whole.abs() < WHOLE_MAX && self.bits(whole / power) == bits;
        // Within that range the bits of floats count up like the numbers.
        fits.then_some(rounded.to_bits().wrapping_sub(ROUND.to_bits()) as i64)
    }
}

/// A decimal column, for reading.
#[derive(Clone, Copy, Debug)]
pub struct Decimal<'a> {
    float: Float,
    power: f64,
    least: i64,
    numbers: Ints<'a>,
    exceptions: usize,
    rows: Codes<'a>,
    bits: BitPacked<'a>,
}

impl<'a> IntColumn<'a> for Decimal<'a> {
    const KIND: IntKind = IntKind::Decimal;

    fn cut(rest: &mut &'a [u8], rows: usize) -> Option<Self> {
        let decimal = Self::open(rest, rows)?;
        let numbers = Ints::parse(rest, rows).ok()?;
        *rest = rest.get(numbers.bytes_used()..)?;
        Some(decimal)
    }

    // Reads the header, up to the whole numbers, which may be incomplete.
    fn open(rest: &mut &'a [u8], rows: usize) -> Option<Self> {
        let [_, form, least_bytes, low, high, ..] = **rest else { return None };
        let float = if form & SINGLE == 0 { Float::Double } else { Float::Single };
        let power = *POWERS.get(usize::from(form & !SINGLE))?;
        *rest = rest.get(HEAD_BYTES..)?;
        let least = cut_signed(rest, least_bytes.into())?;
        let exceptions = usize::from(u16::from_le_bytes([low, high]));
        let (mut exception_rows, mut bits) = (Codes::default(), BitPacked::default());
        if exceptions > 0 {
            exception_rows = Codes::cut(rest, row_width(rows), exceptions)?;
            bits = BitPacked::cut(rest, exceptions)?;
        }
        if matches!(rest.first(), Some(&(tag::DECIMAL | tag::SCALED))) {
            // This also forbids nesting of arbitrary depth.
            return None;
        }
        let numbers = Ints::open(rest, rows)?;
        Some(Self { float, power, least, numbers, exceptions, rows: exception_rows, bits })
    }

    // Checks that the exceptions' rows ascend and exist, and the whole numbers.
    fn check(&self, rows: usize) -> Result<(), BadBlock> {
        let mut next = 0;
        for exception in 0..self.exceptions {
            let row = self.rows.get(exception) as usize;
            if row < next || row >= rows {
                return Err(BadBlock("the exceptions of a decimal column do not ascend"));
            }
            next = row + 1;
        }
        self.numbers.check()?;
        let decode = |first, out: &mut [u64]| self.numbers.decode(first, out);
        if any_decoded(rows, decode, |number| self.least.checked_add_unsigned(number).is_none()) {
            return Err(BadBlock("a decimal column leads beyond all numbers"));
        }
        Ok(())
    }

    #[inline]
    fn get(&self, row: usize) -> u64 {
        if self.exceptions > 0 {
            let exception = self.rows.lower_bound(0..self.exceptions, row as u64);
            if exception < self.exceptions && self.rows.get(exception) == row as u64 {
                return self.bits.get(exception);
            }
        }
        self.divided(self.least.wrapping_add(self.numbers.get(row) as i64))
    }

    fn decode(&self, first: usize, out: &mut [u64]) {
        self.numbers.decode(first, out);
        for value in out.iter_mut() {
            *value = self.divided(self.least.wrapping_add(*value as i64));
        }
        let exception = self.rows.lower_bound(0..self.exceptions, first as u64);
        for exception in exception..self.exceptions {
            let row = self.rows.get(exception) as usize;
            let Some(value) = out.get_mut(row.wrapping_sub(first)) else { break };
            *value = self.bits.get(exception);
        }
    }

    fn lower_bound(&self, rows: Range<usize>, value: u64) -> usize {
        match self.least_not_below(value).filter(|_| !self.has_exceptions(&rows)) {
            Some(whole) => match self.number(whole) {
                Some(number) => self.numbers.lower_bound(rows, number),
                None => rows.start,
            },
            None => partition(rows, |row| self.get(row) < value),
        }
    }

    fn equal_range(&self, rows: Range<usize>, value: u64) -> Range<usize> {
        if !self.has_exceptions(&rows)
            && let Some(whole) = self.near(value)
        {
            // Its neighbours divide to other values, so no other number has this value.
            let [below, at, above] = [whole - 1, whole, whole + 1].map(|whole| self.divided(whole));
            if below < value && at == value && value < above {
                return match self.number(whole) {
                    Some(number) => self.numbers.equal_range(rows, number),
                    None => rows.start..rows.start,
                };
            }
        }
        let (first, end) = (self.lower_bound(rows.clone(), value), rows.end);
        equal_rows(first, end, |row| self.get(row) == value)
    }
}

impl Decimal<'_> {
    /// The order-preserving bits of a whole number divided by the power.
    #[inline]
    fn divided(&self, whole: i64) -> u64 {
        self.float.bits(whole as f64 / self.power)
    }

    fn has_exceptions(&self, rows: &Range<usize>) -> bool {
        let exception = |row: usize| self.rows.lower_bound(0..self.exceptions, row as u64);
        self.exceptions > 0 && exception(rows.start) < exception(rows.end)
    }

    /// The stored number of a whole number; `None` if it is below all stored ones.
    fn number(&self, whole: i64) -> Option<u64> {
        u64::try_from(i128::from(whole) - i128::from(self.least)).ok()
    }

    /// The whole number nearest to `value` times the power, unless it is too large.
    #[inline]
    fn near(&self, value: u64) -> Option<i64> {
        let near = self.float.number(value) * self.power + ROUND - ROUND;
        // A NaN compares false.
        (near.abs() < WHOLE_MAX).then_some(near as i64)
    }

    /// The least whole number whose quotient is not below `value`, if it is near its expected
    /// place.
    fn least_not_below(&self, value: u64) -> Option<i64> {
        let near = self.near(value)?;
        (near - 1..=near + 1)
            .find(|&whole| self.divided(whole) >= value && self.divided(whole - 1) < value)
    }
}

/// A plan to encode floats as a decimal column.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    float: Float,
    exponent: u8,
    least: i64,
    bits: bit_packed::Plan,
}

/// Floats split into whole numbers and exceptions.
#[derive(Debug, Default)]
pub struct Parts {
    /// Whole numbers, minus the least of them.
    pub numbers: Vec<u64>,
    exception_rows: Vec<u64>,
    exception_bits: Vec<u64>,
}

impl Plan {
    /// Splits the floats, if at least half of them are decimals of one exponent.
    pub fn of(float: Float, values: &[u64], parts: &mut Parts) -> Option<Self> {
        let exponent = exponent_of(float, values)?;
        let power = *POWERS.get(usize::from(exponent))?;
        let Parts { numbers, exception_rows, exception_bits } = parts;
        numbers.clear();
        exception_rows.clear();
        exception_bits.clear();
        // The substitute for exceptions: the previous number; for the first rows, the first one
        // that exists.
        let mut last = values.iter().find_map(|&value| float.whole(value, power))?;
        let mut least = last;
        numbers.extend(values.iter().enumerate().map(|(row, &value)| {
            match float.whole(value, power) {
                Some(whole) => (last, least) = (whole, least.min(whole)),
                None => {
                    exception_rows.push(row as u64);
                    exception_bits.push(value);
                }
            }
            last as u64
        }));
        if exception_rows.len() > values.len() / 2 {
            return None;
        }
        numbers.iter_mut().for_each(|number| *number = number.wrapping_sub(least as u64));
        let bits = bit_packed::Plan::shortest(exception_bits);
        Some(Self { float, exponent, least, bits })
    }

    /// Length of everything but the whole numbers.
    pub fn bytes(&self, parts: &Parts) -> usize {
        let (rows, exceptions) = (parts.numbers.len(), parts.exception_rows.len());
        let list = match exceptions {
            0 => 0,
            _ => packed_bytes(exceptions, row_width(rows)) + self.bits.bytes(exceptions),
        };
        HEAD_BYTES + signed_bytes(self.least) as usize + list
    }

    /// Appends everything but the whole numbers.
    pub fn write(&self, parts: &Parts, out: &mut Vec<u8>) {
        let form = if self.float == Float::Single { SINGLE } else { 0 } | self.exponent;
        let least_bytes = signed_bytes(self.least);
        out.extend_from_slice(&[tag::DECIMAL, form, least_bytes as u8]);
        out.extend_from_slice(&(parts.exception_rows.len() as u16).to_le_bytes());
        put_low(self.least as u64, least_bytes, out);
        if !parts.exception_rows.is_empty() {
            let rows = parts.exception_rows.iter().copied();
            pack(rows, row_width(parts.numbers.len()), out);
            self.bits.put(&parts.exception_bits, out);
        }
    }
}

/// The smallest exponent at which most of a sample are whole numbers; placeholders of nulls, NaNs
/// and infinities do not count.
fn exponent_of(float: Float, values: &[u64]) -> Option<u8> {
    let every = values.len().div_ceil(SAMPLES).max(1);
    let finite = |value: &&u64| float.number(**value).is_finite();
    let sample = || values.iter().step_by(every).filter(finite);
    let most = sample().count() - sample().count() / 8;
    let whole =
        |power: &f64| sample().filter(|value| float.whole(**value, *power).is_some()).count();
    (0..)
        .zip(&POWERS)
        .find(|(_, power)| most > 0 && whole(power) >= most)
        .map(|(exponent, _)| exponent)
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{are_refused, contains, contradictions_are_detected, ordered},
        *,
    };

    #[test]
    fn prices_round_trip_and_survive_damage() {
        let price = |row: u64| if row % 9 == 4 { 0 } else { ordered(row as f64 / 100.0) };
        contains(IntKind::Decimal, &(0..150).map(price).collect::<Vec<u64>>());
    }

    #[test]
    fn contradictions_are_found() {
        contradictions_are_detected(&[
            // A sum beyond 2^64, which a search would not find.
            (
                1,
                "45 00 08 00 00 FF FF FF FF FF FF FF 7F 08 00 00",
                "45 00 08 00 00 FF FF FF FF FF FF FF 7F 08 00 01",
            ),
            // An exception at no row; two exceptions in one row.
            (3, "45 00 00 01 00 02 00 00 00 00", "45 00 00 01 00 03 00 00 00 00"),
            (3, "45 00 00 02 00 09 00 00 00 00", "45 00 00 02 00 0A 00 00 00 00"),
        ]);
        // An exponent too large, decimals of decimals, decimals of steps.
        are_refused(&[
            "45 10 00 00 00 00 00",
            "45 00 00 00 00 45 00 00 00 00 00 00",
            "45 00 00 00 00 48 10 02 00 00",
        ]);
    }
}
