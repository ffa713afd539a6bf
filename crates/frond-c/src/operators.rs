//! User-defined merge operators.
//!
//! Threads: readers and the store's own threads call the functions, several threads at once.

use std::ffi::{c_char, c_void};

use frond::operator::MergeOperator;

use crate::{bytes::*, error::*};

/// Callback that folds `operand` into `value`, which is null if the key has no value. It stores the
/// result in `out` with frond_buffer_set; if it does not, the result is an empty value. It must not
/// fail, and must not call any other function of the library.
// SAFETY: where it is called, its arguments are valid until it returns.
pub type frond_fold = Option<
    unsafe extern "C" fn(
        context: *mut c_void,
        value: *const u8,
        value_length: usize,
        operand: *const u8,
        operand_length: usize,
        out: *mut frond_buffer,
    ),
>;

/// A user-defined merge operator, for frond_txn_merge. The store's background threads apply it too,
/// at any time after the commit. So it must be deterministic and associative, and must never
/// change. Once a tree has used it, the store does not open without it (FRD-1013).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct frond_operator {
    /// Number of the operator, 64 or above.
    pub number: u8,
    /// Name of the operator: 1 to 128 bytes, no control characters. Stored with each tree that uses
    /// it.
    pub name: *const c_char,
    /// Passed to the functions.
    pub context: *mut c_void,
    /// Computes the new value from the previous value, if there is one, and an operand.
    pub fold: frond_fold,
    /// Combines two operands into one that has the same effect; the older one is passed as the
    /// value. If this is null, `fold` is called instead.
    pub combine: frond_fold,
}

struct Operator {
    name: String,
    given: frond_operator,
}

// SAFETY: the caller promises that all threads may call its functions with their context.
unsafe impl Send for Operator {}
// SAFETY: likewise.
unsafe impl Sync for Operator {}

/// Makes a merge operator from the caller's struct, whose functions accept its context.
pub(crate) fn operator(given: &frond_operator) -> Done<impl MergeOperator + use<>> {
    // SAFETY: see `bytes.rs`.
    let name = unsafe { text(given.name, "name of an operator") }?.to_owned();
    match given.fold {
        None => Err(misuse("the fold function of the operator is null")),
        Some(_) => Ok(Operator { name, given: *given }),
    }
}

impl Operator {
    fn make(&self, by: frond_fold, value: Option<&[u8]>, operand: &[u8]) -> Vec<u8> {
        let mut out = frond_buffer::EMPTY;
        if let Some(make) = by {
            let (value, value_length) = parts(value);
            let (operand, length) = (operand.as_ptr(), operand.len());
            // SAFETY: the caller's function; its arguments are valid until it returns.
            unsafe { make(self.given.context, value, value_length, operand, length, &mut out) };
        }
        out.take()
    }
}

impl MergeOperator for Operator {
    fn name(&self) -> &str {
        &self.name
    }

    fn merge(&self, base: Option<&[u8]>, operand: &[u8]) -> Vec<u8> {
        self.make(self.given.fold, base, operand)
    }

    fn combine(&self, older: &[u8], newer: &[u8]) -> Vec<u8> {
        self.make(self.given.combine.or(self.given.fold), Some(older), newer)
    }
}
