//! Lines of bounded length, counted, without a byte order mark before the first.
//!
//! Invariant: a line and what is appended to it never hold more than [`RECORD_BYTES_MAX`], whatever
//! the input.

use std::io::BufRead;

use super::{ParseError, wrong};

/// Maximum length of a record, in bytes of text.
pub const RECORD_BYTES_MAX: usize = 16 << 20;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A reader of lines.
pub struct Lines {
    input: Box<dyn BufRead>,
    /// Lines read.
    count: u64,
    bytes: u64,
}

impl Lines {
    pub fn new(input: Box<dyn BufRead>) -> Self {
        Self { input, count: 0, bytes: 0 }
    }

    /// Number of the line read last, from 1.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Bytes read.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Replaces `line` by the next line, including its end; false at the end of the input.
    pub fn next(&mut self, line: &mut Vec<u8>) -> Result<bool, ParseError> {
        line.clear();
        let first = self.count == 0;
        let more = self.append(line)?;
        if first && line.starts_with(BYTE_ORDER_MARK) {
            line.drain(..BYTE_ORDER_MARK.len());
        }
        Ok(more)
    }

    /// Appends the next line, including its end; false at the end of the input.
    pub fn append(&mut self, line: &mut Vec<u8>) -> Result<bool, ParseError> {
        let number = self.count + 1;
        let before = line.len();
        loop {
            let piece = match self.input.fill_buf() {
                Ok(piece) => piece,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(wrong(number, format!("cannot read: {error}"))),
            };
            let ends = memchr::memchr(b'\n', piece).map(|at| at + 1);
            let taken = ends.unwrap_or(piece.len());
            if line.len() + taken > RECORD_BYTES_MAX {
                return Err(wrong(
                    number,
                    format!("a record has more than {RECORD_BYTES_MAX} bytes"),
                ));
            }
            line.extend_from_slice(piece.get(..taken).unwrap_or_default());
            self.input.consume(taken);
            self.bytes += taken as u64;
            if ends.is_some() || taken == 0 {
                break;
            }
        }
        let more = line.len() > before;
        self.count += u64::from(more);
        Ok(more)
    }
}

/// The line without its end, LF or CRLF.
pub fn trim_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}
