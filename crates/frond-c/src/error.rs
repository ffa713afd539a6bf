//! Results of calls: every call returns a code, and describes an error in the caller's struct.

use std::{
    any::Any,
    ffi::c_char,
    panic::{AssertUnwindSafe, catch_unwind},
};

use frond::ErrorKind;

/// The call succeeded.
pub const FROND_OK: i32 = 0;
/// There is no such row, or there are no more rows. Not an error.
pub const FROND_NOT_FOUND: i32 = 1;
/// The library failed internally. Close the store and report the failure; no other call is safe.
pub const FROND_PANIC: i32 = 9001;

/// Kind of error: retry the operation.
pub const FROND_RETRY: i32 = 1;
/// Kind of error: correct the call.
pub const FROND_FIX_CALL: i32 = 2;
/// Kind of error: fix the machine (disk full, I/O error, store in use by another process).
pub const FROND_FIX_MACHINE: i32 = 3;
/// Kind of error: restore from a backup or a replica.
pub const FROND_RESTORE: i32 = 4;
/// Kind of error: the store has stopped; close it and open it again.
pub const FROND_REOPEN: i32 = 5;

/// Size of an error message in bytes, including the terminating zero byte.
pub const FROND_MESSAGE_BYTES: usize = 504;

/// Size of a tree name in an error, in bytes, including the terminating zero byte. Names have up to
/// 512 bytes.
pub const FROND_NAME_BYTES: usize = 520;
/// Maximum number of key bytes in an error.
pub const FROND_KEY_BYTES: usize = 256;

/// Description of an error. A call takes a pointer to one, or null, and fills it in only if the
/// call fails.
#[repr(C)]
pub struct frond_error {
    /// The error code as a number: 1107 is FRD-1107. docs/errors.md explains each code.
    pub code: i32,
    /// What to do about it: FROND_RETRY, FROND_FIX_CALL, …
    pub kind: i32,
    /// Message in UTF-8, terminated by a zero byte; truncated if it is too long.
    pub message: [c_char; FROND_MESSAGE_BYTES],
    /// Name of the tree concerned, terminated by a zero byte; empty if there is none.
    pub tree: [c_char; FROND_NAME_BYTES],
    /// Index, from 0, of the batch entry or the step of a change of trees concerned; -1 if there is
    /// none.
    pub entry: i64,
    /// Whether the error concerns a row whose key is known: a row that is locked, in conflict,
    /// already present, or duplicate. If not, `key_length` is 0.
    pub has_key: bool,
    /// Length of that key in bytes; may be more than `key` holds.
    pub key_length: usize,
    /// Number of leading bytes of that key in `key`: at most FROND_KEY_BYTES, and at most 64 for an
    /// error about a lock (FRD-1101, FRD-1102, FRD-1105).
    pub key_held: usize,
    /// The leading bytes of the key, padded with zeros.
    pub key: [u8; FROND_KEY_BYTES],
}

impl frond_error {
    /// Writes the tree, the batch entry or step, and the key that the error concerns.
    fn place(&mut self, failed: Option<&frond::Error>) {
        write(&mut self.tree, failed.and_then(frond::Error::tree).unwrap_or_default());
        self.entry = match failed {
            Some(frond::Error::DuplicateKey(frond::Duplicate::InBatch {
                entry: index, ..
            })) => *index as i64,
            Some(frond::Error::Step { step, .. }) => *step as i64,
            _ => -1,
        };
        let key = failed.and_then(frond::Error::key);
        let (begin, length) = key.unwrap_or_default();
        (self.has_key, self.key_length, self.key) = (key.is_some(), length, [0; FROND_KEY_BYTES]);
        self.key_held = begin.len().min(FROND_KEY_BYTES);
        self.key.iter_mut().zip(begin).for_each(|(place, byte)| *place = *byte);
    }
}

/// Why a call inside the library did not succeed.
pub(crate) enum Fail {
    Engine(frond::Error),
    NotFound,
}

/// The result of a call, or why it did not succeed.
pub(crate) type Done<T = ()> = Result<T, Fail>;

impl From<frond::Error> for Fail {
    fn from(error: frond::Error) -> Self {
        Self::Engine(error)
    }
}

/// The error for an invalid argument (FRD-1001).
#[cold]
pub(crate) fn misuse(why: impl Into<String>) -> Fail {
    Fail::Engine(frond::Error::InvalidArgument(why.into()))
}

/// Makes a call, and turns its result, or its panic, into a code and the caller's error struct.
///
/// # Safety
/// `error` is null, or points to a `frond_error`.
pub(crate) unsafe fn call(error: *mut frond_error, work: impl FnOnce() -> Done) -> i32 {
    // A panic may leave the engine's data inconsistent, but it poisons the locks of that data:
    // later calls panic, too, and end here.
    let failed = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => return FROND_OK,
        Ok(Err(Fail::NotFound)) => return FROND_NOT_FOUND,
        Ok(Err(Fail::Engine(failed))) => Ok(failed),
        Err(panic) => Err(panic),
    };
    // SAFETY: as the caller promises.
    report(unsafe { error.as_mut() }, failed)
}

/// Describes an error or a panic in the caller's struct. It is a separate function to keep the code
/// of each call small.
#[cold]
fn report(to: Option<&mut frond_error>, failed: Result<frond::Error, Box<dyn Any + Send>>) -> i32 {
    let described = |failed: frond::Error| {
        // The message of a failed step is that of its reason, as is its code; `entry` says which
        // step it was.
        let message = match &failed {
            frond::Error::Step { error, .. } => error.to_string(),
            failed => failed.to_string(),
        };
        (failed.code().into(), kind(&failed), message, Some(failed))
    };
    let described = failed.and_then(|failed| catch_unwind(AssertUnwindSafe(|| described(failed))));
    let (code, kind, message, failed) =
        described.unwrap_or_else(|panic| (FROND_PANIC, FROND_REOPEN, words(&*panic), None));
    if let Some(error) = to {
        (error.code, error.kind) = (code, kind);
        write(&mut error.message, &message);
        error.place(failed.as_ref());
    }
    code
}

fn kind(error: &frond::Error) -> i32 {
    match error.kind() {
        ErrorKind::Retry => FROND_RETRY,
        ErrorKind::FixCall => FROND_FIX_CALL,
        ErrorKind::FixMachine => FROND_FIX_MACHINE,
        ErrorKind::Restore => FROND_RESTORE,
        ErrorKind::Reopen => FROND_REOPEN,
    }
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("FRD-9001 internal error in the library: {}", text.unwrap_or("no message"))
}

/// Writes text with a terminating zero byte. Text that is too long is cut between two characters.
fn write(out: &mut [c_char], text: &str) {
    let room = text.len().min(out.len() - 1);
    let bytes = (0..=room).rev().find(|&at| text.is_char_boundary(at)).unwrap_or_default();
    for (place, &byte) in out.iter_mut().zip(&text.as_bytes()[..bytes]) {
        *place = if byte == 0 { b' ' } else { byte } as c_char;
    }
    out[bytes] = 0;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    fn nothing() -> frond_error {
        frond_error {
            code: 7,
            kind: 7,
            message: [1; FROND_MESSAGE_BYTES],
            tree: [1; FROND_NAME_BYTES],
            entry: 7,
            has_key: true,
            key_length: 7,
            key_held: 7,
            key: [7; FROND_KEY_BYTES],
        }
    }

    fn outcome(work: impl FnOnce() -> Done) -> (i32, i32, String) {
        let mut error = nothing();
        // SAFETY: `error` is a `frond_error`.
        let code = unsafe { call(&mut error, work) };
        assert!(error.code == code || code <= FROND_NOT_FOUND);
        // SAFETY: `write` has ended it with a zero byte; it is not read if it was not written.
        let text = (code > FROND_NOT_FOUND)
            .then(|| unsafe { CStr::from_ptr(error.message.as_ptr()) }.to_str().unwrap());
        (code, error.kind, text.unwrap_or_default().into())
    }

    #[test]
    fn outcomes_become_error_codes_and_messages() {
        assert_eq!(outcome(|| Ok(())), (FROND_OK, 7, String::new()));
        assert_eq!(outcome(|| Err(Fail::NotFound)).0, FROND_NOT_FOUND);
        let (code, kind, text) = outcome(|| Err(misuse("no such thing")));
        assert_eq!((code, kind, &*text), (1001, FROND_FIX_CALL, "FRD-1001 no such thing"));
        let (code, kind, text) = outcome(|| panic!("oh {}", 1));
        assert_eq!((code, kind), (FROND_PANIC, FROND_REOPEN));
        assert!(text.ends_with("oh 1"), "{text}");
        let (_, _, text) = outcome(|| Err(misuse("ä".repeat(1000))));
        assert!(text.ends_with('ä') && text.len() < FROND_MESSAGE_BYTES);
        let (mut error, tree) = (nothing(), String::from("t"));
        let key = vec![b'k'; 300];
        let exists = || {
            frond::Error::DuplicateKey(frond::Duplicate::InBatch {
                tree: tree.clone(),
                entry: 3,
                key: key.clone(),
            })
        };
        // SAFETY: `error` is a `frond_error`.
        assert_eq!(unsafe { call(&mut error, || Err(exists().into())) }, 1103);
        assert_eq!((error.tree[..2].to_vec(), error.entry), (vec![b't' as c_char, 0], 3));
        assert!(error.has_key && error.key_length == 300 && error.key == [b'k'; FROND_KEY_BYTES]);
        assert_eq!(error.key_held, FROND_KEY_BYTES);
        // SAFETY: likewise.
        unsafe { call(&mut error, || Err(misuse("no tree, no key"))) };
        assert_eq!(
            (error.tree[0], error.entry, error.has_key, error.key_length),
            (0, -1, false, 0)
        );
        // SAFETY: null is allowed.
        assert_eq!(unsafe { call(std::ptr::null_mut(), || Err(misuse(""))) }, 1001);
    }
}
