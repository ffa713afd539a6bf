//! Buffers, and the conversions of arguments, which `#[api]` calls.
//!
//! The `SAFETY` comments of this crate rest on what the caller of each function promises:
//!
//! - A pointer is null, or points to what its type says for as long as the call lasts; so does a
//!   pointer in a struct of the API, which only callers make. A handle is one that this library
//!   made, and still exists.
//! - Of `(data, length)`, that many bytes are there.
//! - What is written to is used by no other thread during the call.

use std::{
    borrow::Cow,
    ffi::{CStr, c_char},
    marker::PhantomData,
    mem::MaybeUninit,
    ops::{Bound, Deref},
    ptr::{NonNull, null, null_mut},
};

pub(crate) use frond_c_macro::api;

use crate::error::{Done, Fail, misuse};

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
#[api]
fn frond_buffer_free(buffer: Option<&mut frond_buffer>) {
    drop(buffer.map(frond_buffer::take));
}

/// Copies bytes into a buffer. Meant for callbacks that return bytes (frond_fold).
#[api]
fn frond_buffer_set(buffer: &mut frond_buffer, #[length(length)] data: &[u8]) {
    buffer.copy(data);
}

impl frond_buffer {
    pub(crate) const EMPTY: Self = Self { data: null_mut(), length: 0, capacity: 0 };

    /// Takes the memory as a vector, and leaves the buffer empty.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        let Self { data, length, capacity } = *self;
        *self = Self::EMPTY;
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
            self.data = null_mut();
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

    /// Lends the memory, emptied, to a read; FROND_NOT_FOUND if that returns false.
    pub(crate) fn fill(
        &mut self,
        read: impl FnOnce(&mut Vec<u8>) -> Result<bool, frond::Error>,
    ) -> Done {
        let mut bytes = self.take();
        bytes.clear();
        let found = read(&mut bytes);
        self.put(bytes);
        if found? { Ok(()) } else { Err(Fail::NotFound) }
    }
}

/// An element of an array of the caller's that receives values; it need not be initialized.
pub(crate) type Place<T> = MaybeUninit<T>;

/// The caller's place for a new handle. It is null until it gets one.
pub(crate) struct New<'a, T>(&'a mut *mut T);

impl<T> New<'_, T> {
    pub(crate) fn give(self, new: T) -> Done {
        *self.0 = handle(new);
        Ok(())
    }
}

/// A handle that the call releases, unless it fails before.
pub(crate) struct Owned<'a, T>(NonNull<T>, PhantomData<&'a T>);

impl<T> Owned<'_, T> {
    pub(crate) fn take(self) -> T {
        // SAFETY: promised above; made by `handle`, and reclaimed once.
        *unsafe { Box::from_raw(self.0.as_ptr()) }
    }
}

impl<T> Deref for Owned<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: promised above; it is not released yet.
        unsafe { self.0.as_ref() }
    }
}

/// A range of keys.
pub(crate) type Keys<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// Makes a handle, which [`Owned::take`] reclaims.
pub(crate) fn handle<T>(new: T) -> *mut T {
    Box::into_raw(Box::new(new))
}

/// A pointer to bytes, and their length; null if there are none.
pub(crate) fn parts(bytes: Option<&[u8]>) -> (*const u8, usize) {
    bytes.map_or((null(), 0), |bytes| (bytes.as_ptr(), bytes.len()))
}

/// Writes to a place of the caller's, if there is one.
pub(crate) fn set<'a, T: 'a>(place: impl Into<Option<&'a mut T>>, value: T) -> Done {
    if let Some(place) = place.into() {
        *place = value;
    }
    Ok(())
}

/// The caller's function; FRD-1001 if it is null.
pub(crate) fn callback<F>(function: Option<F>) -> Done<F> {
    function.ok_or_else(|| misuse("the callback is null"))
}

#[cold]
fn null_error(what: &str) -> Fail {
    misuse(format!("`{what}` is null"))
}

/// FRD-1001 if a pointer is null.
fn not_null<T>(pointer: *const T, what: &str) -> Done<NonNull<T>> {
    NonNull::new(pointer.cast_mut()).ok_or_else(|| null_error(what))
}

pub(crate) unsafe fn given<'a, T>(pointer: *const T, what: &str) -> Done<&'a T> {
    // SAFETY: promised above.
    Ok(unsafe { not_null(pointer, what)?.as_ref() })
}

pub(crate) unsafe fn given_mut<'a, T>(pointer: *mut T, what: &str) -> Done<&'a mut T> {
    // SAFETY: promised above.
    Ok(unsafe { not_null(pointer, what)?.as_mut() })
}

pub(crate) unsafe fn place<'a, T>(out: *mut *mut T, what: &str) -> Done<New<'a, T>> {
    // SAFETY: promised above.
    let out = unsafe { given_mut(out, what) }?;
    *out = null_mut();
    Ok(New(out))
}

pub(crate) unsafe fn owned<'a, T>(handle: *mut T, what: &str) -> Done<Owned<'a, T>> {
    Ok(Owned(not_null(handle, what)?, PhantomData))
}

/// The first element of a list; a null pointer is allowed if the list is empty.
fn first<T>(data: *const T, count: usize, what: &str) -> Done<NonNull<T>> {
    match count {
        0 => Ok(NonNull::dangling()),
        count if count > isize::MAX as usize / size_of::<T>().max(1) => {
            Err(misuse(format!("`{what}`: {count} do not fit into memory")))
        }
        _ => not_null(data, what),
    }
}

pub(crate) unsafe fn list<'a, T>(data: *const T, count: usize, what: &str) -> Done<&'a [T]> {
    // SAFETY: promised above.
    Ok(unsafe { NonNull::slice_from_raw_parts(first(data, count, what)?, count).as_ref() })
}

pub(crate) unsafe fn places<'a, T>(
    data: *mut T,
    count: usize,
    what: &str,
) -> Done<&'a mut [Place<T>]> {
    let first = first(data, count, what)?.cast();
    // SAFETY: promised above.
    Ok(unsafe { NonNull::slice_from_raw_parts(first, count).as_mut() })
}

/// Bytes to be written to, which the caller need not have initialized: this does.
pub(crate) unsafe fn list_mut<'a>(data: *mut u8, count: usize, what: &str) -> Done<&'a mut [u8]> {
    let first = first(data, count, what)?;
    // SAFETY: promised above.
    unsafe {
        first.write_bytes(0, count);
        Ok(NonNull::slice_from_raw_parts(first, count).as_mut())
    }
}

/// Text that ends with a zero byte.
pub(crate) unsafe fn text<'a>(text: *const c_char, what: &str) -> Done<&'a str> {
    // SAFETY: promised above.
    let text = unsafe { CStr::from_ptr(not_null(text, what)?.as_ptr()) };
    text.to_str().map_err(|_| misuse(format!("`{what}` is not UTF-8")))
}

/// A bound is missing if its pointer is null with length 0. Null with another length is an error:
/// it is what a failed allocation leaves. So is a bound much longer than a key; it is not copied.
pub(crate) unsafe fn range<'a>(
    (from, from_length): (*const u8, usize),
    (to, to_length): (*const u8, usize),
) -> Done<Keys<'a>> {
    let bound = |data: *const u8, length, what, bound: fn(&'a [u8]) -> Bound<&'a [u8]>| {
        let max = 2 * frond::KEY_BYTES_MAX;
        if length > max {
            return Err(frond::Error::KeyTooLong { bytes: length, max }.into());
        }
        // SAFETY: promised above.
        let key = unsafe { list(data, length, what) };
        if data.is_null() && length == 0 { Ok(Bound::Unbounded) } else { key.map(bound) }
    };
    Ok((
        bound(from, from_length, "from", Bound::Included)?,
        bound(to, to_length, "to", Bound::Excluded)?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_far_longer_than_keys_are_refused_unread() {
        let (one, none) = ((b"k".as_ptr(), 1), (null(), 0));
        let absurd = (b"k".as_ptr(), usize::MAX / 4);
        // SAFETY: as many bytes as the bounds say are there, or they are not read.
        unsafe {
            assert!(range(one, none).is_ok());
            assert!(range(absurd, none).is_err() && range(none, absurd).is_err());
        }
    }

    #[test]
    fn a_buffer_reuses_its_memory() {
        let mut buffer = frond_buffer::EMPTY;
        for text in [&b"some words"[..], b"", b"more"] {
            buffer.copy(text);
            // SAFETY: the buffer was filled by `copy`.
            let found = unsafe { list(buffer.data, buffer.length, "") }.ok().unwrap();
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
