//! The built-in merge operators in the model, written from their description and not from the
//! engine's code.

/// Adds 64-bit integers, big-endian, with wraparound.
pub const ADD: u8 = 1;
/// Keeps the greater value, compared by bytes.
pub const MAX: u8 = 2;
/// Keeps the smaller value, compared by bytes.
pub const MIN: u8 = 3;
/// Appends.
pub const APPEND: u8 = 4;

/// The value after a merge. Without a base the operand becomes the value.
pub fn merge(operator: u8, base: Option<&[u8]>, operand: &[u8]) -> Vec<u8> {
    let Some(base) = base else { return operand.to_vec() };
    match operator {
        ADD => number(base).wrapping_add(number(operand)).to_be_bytes().to_vec(),
        MAX => base.max(operand).to_vec(),
        MIN => base.min(operand).to_vec(),
        _ => [base, operand].concat(),
    }
}

fn number(bytes: &[u8]) -> i64 {
    bytes.try_into().map(i64::from_be_bytes).unwrap_or(0)
}
