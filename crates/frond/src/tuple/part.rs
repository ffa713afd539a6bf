//! The types that can be parts of a key, and their encodings.
//!
//! Invariants
//! 1. The bytes that [`KeyPart::write`] appends compare by memcmp as the values do, and no encoding
//!    is a proper prefix of another of its type: so two keys are ordered by the first part in which
//!    they differ, whatever follows.
//! 2. The filler of a null is written and read by the same rule, and fits the layout of the type.
//!
//! Threads: plain functions. Bytes: docs/format.md, "Tuple keys".

use std::borrow::Cow;

use super::{KeyReader, reader::refused};
use crate::{
    Result,
    layout::{End, Hint, Part},
};

/// A type that can be a part of a key.
///
/// It can be implemented for other types in terms of those here:
///
/// ```
/// use frond::tuple::{self, KeyPart};
///
/// struct Cents(i64);
///
/// impl KeyPart for Cents {
///     fn write(&self, out: &mut Vec<u8>) {
///         self.0.write(out);
///     }
///     fn write_filler(out: &mut Vec<u8>) {
///         i64::write_filler(out);
///     }
///     fn describe(descending: bool, parts: &mut Vec<frond::layout::Part>) {
///         i64::describe(descending, parts);
///     }
/// }
/// assert!(tuple::encode(&(Cents(-5),)) < tuple::encode(&(Cents(3),)));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a part of a key",
    note = "parts are integers of a fixed width (`u64`, not `usize`), floats, `bool`, strings, \
            bytes, `Option` and `Desc` of these"
)]
pub trait KeyPart {
    /// Appends the value in ascending form.
    fn write(&self, out: &mut Vec<u8>);
    /// Appends the filler, which replaces the value of a null.
    fn write_filler(out: &mut Vec<u8>);
    /// Appends the layout.
    fn describe(descending: bool, parts: &mut Vec<Part>);
}

/// A type that can be read back from a key, and may borrow from its bytes.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be read from a key",
    note = "strings are read as `String` or `Cow<str>`, bytes as `Vec<u8>` or `Cow<[u8]>`"
)]
pub trait ReadKeyPart<'k>: Sized {
    /// Reads a value.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if the next bytes are not one.
    fn read(reader: &mut KeyReader<'k>) -> Result<Self>;
    /// Reads the filler of a null.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if the next bytes are not the
    /// filler.
    fn read_filler(reader: &mut KeyReader<'k>) -> Result<()>;
}

/// A part in descending order.
///
/// ```
/// use frond::tuple::{self, Desc};
///
/// assert!(tuple::encode(&(Desc(9),)) < tuple::encode(&(Desc(8),)));
/// assert!(tuple::encode(&(Desc("b"),)) < tuple::encode(&(Desc("a"),)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Desc<T>(pub T);

impl<T: Ord> Ord for Desc<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.0.cmp(&self.0)
    }
}

impl<T: PartialOrd> PartialOrd for Desc<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        other.0.partial_cmp(&self.0)
    }
}

/// Implements a part of fixed width: `write` returns its array, `read` takes one.
macro_rules! fixed {
    ($type:ty, $hint:expr, $width:expr, $write:expr, $read:expr) => {
        impl KeyPart for $type {
            #[inline]
            fn write(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&$write(*self));
            }

            fn write_filler(out: &mut Vec<u8>) {
                out.extend_from_slice(&[0; $width]);
            }

            fn describe(_descending: bool, parts: &mut Vec<Part>) {
                parts.push(Part::Fixed($width, $hint));
            }
        }

        impl<'k> ReadKeyPart<'k> for $type {
            fn read(reader: &mut KeyReader<'k>) -> Result<Self> {
                $read(reader.fixed::<{ $width }>()?)
            }

            fn read_filler(reader: &mut KeyReader<'k>) -> Result<()> {
                reader.filler($width)
            }
        }
    };
}

macro_rules! integers {
    ($($unsigned:ty, $signed:ty, $width:expr;)+) => {$(
        fixed!($unsigned, Hint::Integer, $width, <$unsigned>::to_be_bytes, |bytes| {
            Ok(<$unsigned>::from_be_bytes(bytes))
        });
        // Flipping the sign bit puts the negatives, in their order, before the others.
        fixed!(
            $signed, Hint::Integer, $width,
            |value: $signed| (value ^ <$signed>::MIN).to_be_bytes(),
            |bytes| Ok(<$signed>::from_be_bytes(bytes) ^ <$signed>::MIN)
        );
    )+};
}

integers! {
    u8, i8, 1;
    u16, i16, 2;
    u32, i32, 4;
    u64, i64, 8;
    u128, i128, 16;
}

macro_rules! floats {
    ($($float:ty, $bits:ty, $width:expr;)+) => {$(
        fixed!(
            $float, Hint::Float, $width,
            |value: $float| {
                const SIGN: $bits = 1 << (<$bits>::BITS - 1);
                // One key for all values that compare equal, and one for all NaNs.
                let value = if value.is_nan() { <$float>::NAN } else { value + 0.0 };
                let bits = value.to_bits() & if value.is_nan() { !SIGN } else { <$bits>::MAX };
                // With the sign set, greater bits mean a lesser number: flip all of them.
                (if bits & SIGN != 0 { !bits } else { bits ^ SIGN }).to_be_bytes()
            },
            |bytes| {
                const SIGN: $bits = 1 << (<$bits>::BITS - 1);
                let stored = <$bits>::from_be_bytes(bytes);
                let bits = if stored & SIGN != 0 { stored ^ SIGN } else { !stored };
                let value = <$float>::from_bits(bits);
                let written = match value.is_nan() {
                    true => bits == <$float>::NAN.to_bits() & !SIGN,
                    false => bits != SIGN, // negative zero
                };
                match written {
                    true => Ok(value),
                    false => Err(refused("a float has a bit pattern that is never encoded")),
                }
            }
        );
    )+};
}

floats! {
    f32, u32, 4;
    f64, u64, 8;
}

fixed!(bool, Hint::None, 1, |value: bool| [u8::from(value)], |bytes: [u8; 1]| match bytes {
    [0] => Ok(false),
    [1] => Ok(true),
    _ => Err(refused("a bool is neither 0 nor 1")),
});

impl<const N: usize> KeyPart for [u8; N] {
    #[inline]
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    fn write_filler(out: &mut Vec<u8>) {
        out.resize(out.len() + N, 0);
    }

    fn describe(_descending: bool, parts: &mut Vec<Part>) {
        const { assert!(N > 0 && N <= u16::MAX as usize, "an array part has 1 to 65535 bytes") };
        parts.push(Part::Fixed(N as u16, Hint::None));
    }
}

impl<'k, const N: usize> ReadKeyPart<'k> for [u8; N] {
    fn read(reader: &mut KeyReader<'k>) -> Result<Self> {
        reader.fixed()
    }

    fn read_filler(reader: &mut KeyReader<'k>) -> Result<()> {
        reader.filler(N)
    }
}

impl KeyPart for [u8] {
    fn write(&self, out: &mut Vec<u8>) {
        out.reserve(self.len() + 2);
        let mut rest = self;
        // Strings rarely contain zeros: usually this is one copy and the terminator.
        while let Some(zero) = rest.iter().position(|byte| *byte == 0) {
            let (plain, after) = rest.split_at(zero + 1);
            out.extend_from_slice(plain);
            out.push(0xff);
            rest = after;
        }
        out.extend_from_slice(rest);
        out.extend_from_slice(&[0x00, 0x01]);
    }

    fn write_filler(out: &mut Vec<u8>) {
        out.extend_from_slice(&[0x00, 0x01]);
    }

    fn describe(descending: bool, parts: &mut Vec<Part>) {
        parts.push(Part::Var(if descending { End::EscapedDescending } else { End::Escaped }));
    }
}

/// Implements types that are encoded as the bytes they contain.
macro_rules! as_bytes {
    ($($type:ty)+) => {$(
        impl KeyPart for $type {
            fn write(&self, out: &mut Vec<u8>) {
                AsRef::<[u8]>::as_ref(self).write(out);
            }

            fn write_filler(out: &mut Vec<u8>) {
                <[u8]>::write_filler(out);
            }

            fn describe(descending: bool, parts: &mut Vec<Part>) {
                <[u8]>::describe(descending, parts);
            }
        }
    )+};
}

as_bytes!(str String Vec<u8>);

impl<'k> ReadKeyPart<'k> for Vec<u8> {
    fn read(reader: &mut KeyReader<'k>) -> Result<Self> {
        reader.escaped().map(Cow::into_owned)
    }

    fn read_filler(reader: &mut KeyReader<'k>) -> Result<()> {
        Cow::<[u8]>::read_filler(reader)
    }
}

impl<'k> ReadKeyPart<'k> for String {
    fn read(reader: &mut KeyReader<'k>) -> Result<Self> {
        Cow::<str>::read(reader).map(Cow::into_owned)
    }

    fn read_filler(reader: &mut KeyReader<'k>) -> Result<()> {
        Cow::<str>::read_filler(reader)
    }
}

/// Borrowed from the key, unless it has a zero byte or is in descending order.
impl<'k> ReadKeyPart<'k> for Cow<'k, [u8]> {
    fn read(reader: &mut KeyReader<'k>) -> Result<Self> {
        reader.escaped()
    }

    fn read_filler(reader: &mut KeyReader<'k>) -> Result<()> {
        match reader.escaped()?.is_empty() {
            true => Ok(()),
            false => Err(refused("the filler of a null is not empty")),
        }
    }
}

/// Borrowed from the key, unless it has a zero byte or is in descending order.
impl<'k> ReadKeyPart<'k> for Cow<'k, str> {
    fn read(reader: &mut KeyReader<'k>) -> Result<Self> {
        let no_text = || refused("a string is not UTF-8");
        match reader.escaped()? {
            Cow::Borrowed(bytes) => str::from_utf8(bytes).map(Cow::Borrowed).map_err(|_| no_text()),
            Cow::Owned(bytes) => String::from_utf8(bytes).map(Cow::Owned).map_err(|_| no_text()),
        }
    }

    fn read_filler(reader: &mut KeyReader<'k>) -> Result<()> {
        Cow::<[u8]>::read_filler(reader)
    }
}

/// Implements a part that is written as the part that it borrows.
macro_rules! borrows {
    ($type:ty, $($bound:path),*) => {
        impl<T: KeyPart $(+ $bound)* + ?Sized> KeyPart for $type {
            #[inline]
            fn write(&self, out: &mut Vec<u8>) {
                T::write(self, out);
            }

            fn write_filler(out: &mut Vec<u8>) {
                T::write_filler(out);
            }

            fn describe(descending: bool, parts: &mut Vec<Part>) {
                T::describe(descending, parts);
            }
        }
    };
}

borrows!(Cow<'_, T>, ToOwned);
borrows!(&T,);

impl<T: KeyPart> KeyPart for Option<T> {
    fn write(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.is_some()));
        match self {
            Some(value) => value.write(out),
            None => T::write_filler(out),
        }
    }

    fn write_filler(out: &mut Vec<u8>) {
        out.push(0);
        T::write_filler(out);
    }

    fn describe(descending: bool, parts: &mut Vec<Part>) {
        parts.push(Part::Fixed(1, Hint::None));
        T::describe(descending, parts);
    }
}

impl<'k, T: ReadKeyPart<'k>> ReadKeyPart<'k> for Option<T> {
    fn read(reader: &mut KeyReader<'k>) -> Result<Self> {
        match bool::read(reader)? {
            true => T::read(reader).map(Some),
            false => T::read_filler(reader).map(|()| None),
        }
    }

    fn read_filler(reader: &mut KeyReader<'k>) -> Result<()> {
        reader.filler(1)?;
        T::read_filler(reader)
    }
}

impl<T: KeyPart> KeyPart for Desc<T> {
    fn write(&self, out: &mut Vec<u8>) {
        let from = out.len();
        self.0.write(out);
        complement(out, from);
    }

    fn write_filler(out: &mut Vec<u8>) {
        let from = out.len();
        T::write_filler(out);
        complement(out, from);
    }

    fn describe(descending: bool, parts: &mut Vec<Part>) {
        T::describe(!descending, parts);
    }
}

impl<'k, T: ReadKeyPart<'k>> ReadKeyPart<'k> for Desc<T> {
    fn read(reader: &mut KeyReader<'k>) -> Result<Self> {
        reader.reversed(T::read).map(Desc)
    }

    fn read_filler(reader: &mut KeyReader<'k>) -> Result<()> {
        reader.reversed(T::read_filler)
    }
}

/// Complements everything written from `from` on.
pub(super) fn complement(out: &mut [u8], from: usize) {
    // As a slice, so that the compiler vectorizes it.
    out.get_mut(from..).unwrap_or_default().iter_mut().for_each(|byte| *byte ^= 0xff);
}
