//! Layouts of the trees of scripts, so that every encoding meets merges, range deletes, snapshots,
//! clones and crashes: layouts that the rows fit, some that few rows fit, and none.

use frond::layout::{End, Hint, Layout, Part};

use crate::Dice;

const BYTE: Part = Part::Fixed(1, Hint::None);
const NUMBER: Part = Part::Fixed(4, Hint::Integer);
const REST: Part = Part::Var(End::Rest);
/// The first byte of a value is `<`, which means length 60.
const TEXT: Part = Part::Var(End::Prefixed);

/// Random layouts of key and value. A key is a letter, four digits, and a tail of any length; a
/// value is text.
pub(super) fn random(dice: &mut Dice) -> (Option<Layout>, Option<Layout>) {
    let keys: [Option<&[Part]>; 7] = [
        None,
        Some(&[BYTE, NUMBER]),
        Some(&[BYTE, NUMBER, REST]),
        Some(&[Part::Fixed(5, Hint::None)]),
        Some(&[BYTE, Part::Fixed(2, Hint::None), Part::Fixed(2, Hint::Integer), REST]),
        Some(&[REST]),
        // No key has such an end: each is stored unchanged, outside the columns.
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
