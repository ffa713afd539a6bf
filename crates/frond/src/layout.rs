//! Layouts: what the engine may know about the bytes of a key or a value.
//!
//! A layout is a list of parts, each of a fixed width (a big-endian unsigned integer, sign bits
//! flipped by the caller) or variable. Key order is always memcmp of the whole; a layout changes how
//! blocks encode rows, never what they mean. The layout of an unknown value is one variable part.
//!
//! Bytes: docs/format.md, "Layouts".

/// What a fixed part holds, as a hint to the encodings. Never needed to read it back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Hint {
    /// Nothing is known.
    #[default]
    None = 0,
    /// An integer.
    Integer = 1,
    /// An IEEE float in order-preserving form.
    Float = 2,
    /// Microseconds.
    Microseconds = 3,
}

/// One part of a key or value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// So many bytes, big-endian. A null flag is `Fixed(1)`.
    Fixed(u16, Hint),
    /// Any number of bytes; only the last part may be, or its end must follow from its content.
    Var,
}

/// The parts of a key or a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    parts: Vec<Part>,
}

impl Default for Layout {
    fn default() -> Self {
        Self { parts: vec![Part::Var] }
    }
}

impl Layout {
    /// A layout of these parts.
    pub fn new(parts: Vec<Part>) -> Self {
        Self { parts }
    }

    /// The parts.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }
}
