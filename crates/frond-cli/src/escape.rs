//! Converts bytes to printable text and back: what `dump` prints and `get` accepts.
//!
//! Printable UTF-8 stays as it is. A backslash, control characters and bytes that are not UTF-8
//! become `\\`, `\t`, `\n`, `\r` or `\xNN`.
//!
//! Invariant: [`unescape`] of [`escape`] returns the same bytes, and escaped text contains no tab
//! or line end.

use std::fmt::Write;

/// Appends the printable form of `bytes`.
pub fn escape_into(bytes: &[u8], out: &mut String) {
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\\' => out.push_str("\\\\"),
                '\t' => out.push_str("\\t"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                control if control.is_control() => {
                    for byte in control.encode_utf8(&mut [0; 4]).bytes() {
                        push_hex(out, byte);
                    }
                }
                printable => out.push(printable),
            }
        }
        for byte in chunk.invalid() {
            push_hex(out, *byte);
        }
    }
}

/// The printable form of `bytes`.
pub fn escape(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    escape_into(bytes, &mut out);
    out
}

fn push_hex(out: &mut String, byte: u8) {
    // Writing to a string cannot fail.
    let _ = write!(out, "\\x{byte:02x}");
}

/// The bytes of a printable form, or a message saying what is wrong with it.
pub fn unescape(text: &str) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((plain, escape)) = rest.split_once('\\') {
        out.extend_from_slice(plain.as_bytes());
        let mut characters = escape.chars();
        let byte = match characters.next() {
            Some('\\') => b'\\',
            Some('t') => b'\t',
            Some('n') => b'\n',
            Some('r') => b'\r',
            Some('x') => {
                let digits = characters.as_str().get(..2).unwrap_or_default();
                characters = characters.as_str().get(2..).unwrap_or_default().chars();
                u8::from_str_radix(digits, 16)
                    .map_err(|_| format!("\\x needs two hexadecimal digits in {text:?}"))?
            }
            _ => {
                return Err(format!(
                    "a backslash in {text:?} must be followed by \\, t, n, r or x"
                ));
            }
        };
        out.push(byte);
        rest = characters.as_str();
    }
    out.extend_from_slice(rest.as_bytes());
    Ok(out)
}

/// The bytes of a printable form; `None` for null, which is printed as `\N`.
pub fn unescape_or_null(text: &str) -> Result<Option<Vec<u8>>, String> {
    match text {
        "\\N" => Ok(None),
        text => unescape(text).map(Some),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn escaped_bytes_round_trip(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let text = escape(&bytes);
            prop_assert!(!text.contains(['\t', '\n', '\r', '\0']));
            prop_assert_eq!(unescape(&text), Ok(bytes));
        }

        #[test]
        fn any_text_is_bytes_or_an_error(text in ".{0,20}|(\\\\x?[0-9a-g]?){0,5}") {
            let _ = unescape(&text);
        }
    }

    #[test]
    fn text_stays_readable() {
        assert_eq!(escape("zsh é\t5\\9\u{85}".as_bytes()), "zsh é\\t5\\\\9\\xc2\\x85");
        assert_eq!(escape(b"\xff\0"), "\\xff\\x00");
        assert!(unescape("\\q").is_err() && unescape("\\x4").is_err() && unescape("a\\").is_err());
    }
}
