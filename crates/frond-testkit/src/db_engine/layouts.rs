//! What the trees of scripts say of their rows, so that every encoding meets merges, range deletes, snapshots, clones
//! and crashes: layouts that the rows fit, some that few fit, and none.

use frond::{End, Hint, Layout, Part};

use crate::Dice;

const BYTE: Part = Part::Fixed(1, Hint::None);
const NUMBER: Part = Part::Fixed(4, Hint::Integer);
const REST: Part = Part::Var(End::Rest);
/// The first byte of a value is `<`, the length 60.
const TEXT: Part = Part::Var(End::Prefixed);

/// Layouts of key and value. Key and value are a letter and four digits, and text, with tails of any length.
pub(super) fn thrown(dice: &mut Dice) -> (Option<Layout>, Option<Layout>) {
    let keys: [Option<&[Part]>; 7] = [
        None,
        Some(&[BYTE, NUMBER]),
        Some(&[BYTE, NUMBER, REST]),
        Some(&[Part::Fixed(5, Hint::None)]),
        Some(&[BYTE, Part::Fixed(2, Hint::None), Part::Fixed(2, Hint::Integer), REST]),
        Some(&[REST]),
        // No key ends so: each stands as it is, beside the columns.
        Some(&[BYTE, Part::Var(End::Escaped), REST]),
    ];
    let values: [Option<&[Part]>; 7] = [
        None,
        Some(&[BYTE, NUMBER, REST]),
        Some(&[Part::Fixed(8, Hint::Float)]),
        Some(&[Part::Fixed(8, Hint::Microseconds), REST]),
        Some(&[TEXT, REST]),
        Some(&[TEXT, TEXT, NUMBER, REST]),
        Some(&[BYTE, BYTE, BYTE, BYTE, NUMBER, NUMBER, Part::Fixed(8, Hint::Integer), REST]),
    ];
    let layout = |parts: Option<&[Part]>| parts.map(|parts| Layout::new(parts.to_vec()));
    (layout(*dice.pick(&keys)), layout(*dice.pick(&values)))
}
