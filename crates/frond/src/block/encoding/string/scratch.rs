//! Memory that the encoders of all kinds share, kept from one column to the next.

use super::{super::IntEncoder, bit_writer::BitWriter, exceptions::ExceptionList};

/// Memory of an encoder of strings. Nothing in it outlives a column, except its capacity.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    pub ints: IntEncoder,
    pub values: Vec<u64>,
    pub ends: Vec<u64>,
    pub bytes: Vec<u8>,
    pub chunk: Vec<u8>,
    pub exceptions: ExceptionList,
    pub bits: BitWriter,
}
