//! Buffers, handles, lists and strings that cross the C boundary.
//!
//! The `SAFETY` comments of this crate rest on what the caller of each function promises:
//!
//! - A pointer is null, or points to what its type says for as long as the call lasts. A handle is
//!   one that this library made, and still exists.
//! - Of `(data, length)`, that many bytes are there.
//! - What is written to is used by no other thread during the call.

use std::{
    borrow::Cow,
    ffi::{CStr, c_char},
};

use crate::error::{Fail, call, frond_error, misuse};

/// Memory of the library for a value. Initialise all fields to 0. It can be passed to any number of
/// calls, which reuse its memory (also a call whose key lies in it). Release it with
/// frond_buffer_free. Only the library may write to it.
#[repr(C)]
pub struct frond_buffer {
    /// The bytes; null if there were never any.
    pub data: *mut u8,
    /// Length in bytes.
    pub length: usize,
    /// Allocated size in bytes.
    pub capacity: usize,
}

/// Releases the memory of a buffer and empties it. Null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_buffer_free(buffer: *mut frond_buffer) {
    // SAFETY: promised above.
    if let Some(buffer) = unsafe { buffer.as_mut() } {
        drop(buffer.take());
    }
}

/// Copies bytes into a buffer. Meant for callbacks that return bytes (frond_fold).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_buffer_set(
    buffer: *mut frond_buffer,
    data: *const u8,
    length: usize,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: promised above.
    unsafe {
        call(error, || {
            let buffer = given_mut(buffer, "the buffer")?;
            let data = buffer.apart(bytes(data, length, "what is put into it")?);
            buffer.copy(&data);
            Ok(())
        })
    }
}

impl frond_buffer {
    /// Takes the memory as a vector, and leaves the buffer empty.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        let Self { data, length, capacity } = *self;
        *self = Self { data: std::ptr::null_mut(), length: 0, capacity: 0 };
        if data.is_null() || capacity == 0 || length > capacity {
            return Vec::new();
        }
        // SAFETY: only `put` writes the fields, from a vector; it is taken once.
        unsafe { Vec::from_raw_parts(data, length, capacity) }
    }

    /// Takes the memory, to read values by these keys into it; a new vector if one of the keys lies
    /// in it.
    pub(crate) fn apart_from(&mut self, keys: &[&[u8]]) -> Vec<u8> {
        match keys.iter().any(|key| matches!(self.apart(key), Cow::Owned(_))) {
            true => Vec::new(),
            false => self.take(),
        }
    }

    /// Replaces the memory by these bytes, which the buffer then owns.
    pub(crate) fn put(&mut self, bytes: Vec<u8>) {
        drop(self.take());
        let mut bytes = std::mem::ManuallyDrop::new(bytes);
        (self.data, self.length, self.capacity) =
            (bytes.as_mut_ptr(), bytes.len(), bytes.capacity());
        if self.capacity == 0 {
            self.data = std::ptr::null_mut();
        }
    }

    /// The bytes; a copy if they lie in this buffer's own memory, which is about to be written.
    pub(crate) fn apart<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let (own, theirs) = (self.data.addr(), bytes.as_ptr().addr());
        let overlaps = theirs < own + self.capacity && own < theirs + bytes.len();
        if overlaps { Cow::Owned(bytes.to_vec()) } else { Cow::Borrowed(bytes) }
    }

    /// Copies these bytes into the buffer.
    pub(crate) fn copy(&mut self, bytes: &[u8]) {
        let mut memory = self.take();
        memory.clear();
        memory.extend_from_slice(bytes);
        self.put(memory);
    }

    /// Lends the memory, emptied, to a function that fills it.
    pub(crate) fn fill<T>(
        &mut self,
        fill: impl FnOnce(&mut Vec<u8>) -> Result<T, Fail>,
    ) -> Result<T, Fail> {
        let mut bytes = self.take();
        bytes.clear();
        let filled = fill(&mut bytes);
        self.put(bytes);
        filled
    }
}

/// The target of a handle or a struct pointer; FRD-1001 if it is null.
pub(crate) unsafe fn given<'a, T>(pointer: *const T, what: &str) -> Result<&'a T, Fail> {
    // SAFETY: promised above.
    unsafe { pointer.as_ref() }.ok_or_else(|| misuse(format!("{what} is null")))
}

/// The target of a pointer, to be written to; FRD-1001 if it is null.
pub(crate) unsafe fn given_mut<'a, T>(pointer: *mut T, what: &str) -> Result<&'a mut T, Fail> {
    // SAFETY: promised above.
    unsafe { pointer.as_mut() }.ok_or_else(|| misuse(format!("{what} is null")))
}

/// Reclaims a handle that [`give`] made.
pub(crate) unsafe fn take_back<T>(pointer: *mut T, what: &str) -> Result<Box<T>, Fail> {
    match pointer.is_null() {
        true => Err(misuse(format!("{what} is null"))),
        // SAFETY: promised above; made by `give`, and reclaimed once.
        false => Ok(unsafe { Box::from_raw(pointer) }),
    }
}

/// Makes a handle, and writes it to the caller's place.
pub(crate) unsafe fn give<T>(
    out: *mut *mut T,
    make: impl FnOnce() -> Result<T, Fail>,
) -> Result<(), Fail> {
    // SAFETY: promised above. Checked first: nothing is made that could not be returned.
    let out = unsafe { given_mut(out, "the place for the handle") }?;
    *out = std::ptr::null_mut();
    *out = Box::into_raw(Box::new(make()?));
    Ok(())
}

/// Bytes; a null pointer is allowed with length 0.
pub(crate) unsafe fn bytes<'a>(
    data: *const u8,
    length: usize,
    what: &str,
) -> Result<&'a [u8], Fail> {
    match (data.is_null(), length) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(misuse(format!("{what} is null"))),
        (_, length) if length > isize::MAX as usize => {
            Err(misuse(format!("{what} of {length} bytes does not fit into memory")))
        }
        // SAFETY: promised above.
        _ => Ok(unsafe { std::slice::from_raw_parts(data, length) }),
    }
}

/// Bytes, or none if the pointer is null with length 0. Null with another length is an error: it is
/// what a failed allocation leaves.
pub(crate) unsafe fn bytes_or_none<'a>(
    data: *const u8,
    length: usize,
    what: &str,
) -> Result<Option<&'a [u8]>, Fail> {
    match data.is_null() && length == 0 {
        true => Ok(None),
        // SAFETY: promised above.
        false => unsafe { bytes(data, length, what) }.map(Some),
    }
}

/// A list; a null pointer is allowed with length 0.
pub(crate) unsafe fn list<'a, T>(
    first: *const T,
    count: usize,
    what: &str,
) -> Result<&'a [T], Fail> {
    match (first.is_null(), count) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(misuse(format!("{what} is null"))),
        (_, count) if count > isize::MAX as usize / size_of::<T>().max(1) => {
            Err(misuse(format!("{what}: {count} do not fit into memory")))
        }
        // SAFETY: promised above.
        _ => Ok(unsafe { std::slice::from_raw_parts(first, count) }),
    }
}

/// Memory of the caller, to be written to; a null pointer is allowed with length 0.
pub(crate) unsafe fn list_mut<'a>(
    first: *mut u8,
    count: usize,
    what: &str,
) -> Result<&'a mut [u8], Fail> {
    match (first.is_null(), count) {
        (_, 0) => Ok(&mut []),
        (true, _) => Err(misuse(format!("{what} is null"))),
        (_, count) if count > isize::MAX as usize => {
            Err(misuse(format!("{what} of {count} bytes does not fit into memory")))
        }
        _ => {
            // SAFETY: promised above. The caller need not have initialized it: this does.
            unsafe {
                first.write_bytes(0, count);
                Ok(std::slice::from_raw_parts_mut(first, count))
            }
        }
    }
}

/// Text that ends with a zero byte.
pub(crate) unsafe fn text<'a>(text: *const c_char, what: &str) -> Result<&'a str, Fail> {
    if text.is_null() {
        return Err(misuse(format!("{what} is null")));
    }
    // SAFETY: promised above.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| misuse(format!("{what} is not UTF-8")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_reuses_its_memory() {
        let mut buffer = frond_buffer { data: std::ptr::null_mut(), length: 0, capacity: 0 };
        for text in [&b"some words"[..], b"", b"more"] {
            buffer.copy(text);
            // SAFETY: the buffer was filled by `copy`.
            let found = unsafe { bytes(buffer.data, buffer.length, "") }.ok().unwrap();
            assert_eq!(found, text);
            assert!(buffer.capacity >= 10);
        }
        // SAFETY: a buffer, then null.
        unsafe {
            frond_buffer_free(&mut buffer);
            frond_buffer_free(std::ptr::null_mut());
        }
        assert!(buffer.data.is_null() && buffer.capacity == 0);
    }
}
