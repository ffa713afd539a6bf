//! An INSERT of many rows as text, built without allocating once it has its size.

use std::fmt::Write;

/// A statement that grows.
#[derive(Clone, Debug, Default)]
pub struct InsertText {
    head: String,
    text: String,
    rows: u64,
}

/// The row that is being appended.
pub struct RowText<'a> {
    text: &'a mut String,
    is_first: bool,
}

impl InsertText {
    /// A statement that begins like this: `INSERT INTO t(a,b) VALUES`.
    pub fn new(head: &str) -> Self {
        Self { head: head.to_owned(), text: String::new(), rows: 0 }
    }

    /// Appends a row; its values follow.
    pub fn row(&mut self) -> RowText<'_> {
        match self.rows {
            0 => {
                self.text.clear();
                self.text.push_str(&self.head);
            }
            _ => self.text.push_str("),"),
        }
        self.rows += 1;
        self.text.push('(');
        RowText { text: &mut self.text, is_first: true }
    }

    /// Rows in it.
    pub fn len(&self) -> u64 {
        self.rows
    }

    /// Bytes of text in it.
    pub fn bytes(&self) -> usize {
        if self.rows == 0 { 0 } else { self.text.len() }
    }

    /// The statement with all of its rows, of which there must be one; the next row begins a new one.
    pub fn finish(&mut self) -> &str {
        assert!(self.rows > 0, "an INSERT has rows");
        self.finish_with("")
    }

    /// The same with a clause after the rows.
    pub fn finish_with(&mut self, clause: &str) -> &str {
        self.text.push(')');
        self.text.push_str(clause);
        self.rows = 0;
        &self.text
    }
}

impl RowText<'_> {
    fn comma(&mut self) {
        if !std::mem::replace(&mut self.is_first, false) {
            self.text.push(',');
        }
    }

    /// A number, or whatever is written without quotes.
    pub fn plain(mut self, value: impl std::fmt::Display) -> Self {
        self.comma();
        write!(self.text, "{value}").expect("a string takes all that is written");
        self
    }

    /// Text that has neither quotes nor backslashes: a date, digits.
    pub fn simple(mut self, value: &str) -> Self {
        self.comma();
        debug_assert!(!value.contains(['\'', '\\', '\0']), "{value}");
        self.text.push('\'');
        self.text.push_str(value);
        self.text.push('\'');
        self
    }

    /// Any text.
    pub fn text(mut self, value: &str) -> Self {
        self.comma();
        self.text.push('\'');
        for letter in value.chars() {
            match letter {
                '\'' => self.text.push_str("''"),
                '\\' => self.text.push_str("\\\\"),
                '\0' => self.text.push_str("\\0"),
                letter => self.text.push(letter),
            }
        }
        self.text.push('\'');
        self
    }

    /// Bytes, as a hexadecimal literal.
    pub fn bytes(mut self, value: &[u8]) -> Self {
        self.comma();
        push_hexadecimal(self.text, value);
        self
    }
}

/// Appends bytes as a hexadecimal literal.
pub fn push_hexadecimal(text: &mut String, value: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    if value.is_empty() {
        text.push_str("''");
        return;
    }
    text.push_str("0x");
    for byte in value {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_written_as_literals() {
        let mut insert = InsertText::new("INSERT INTO t VALUES");
        insert.row().plain(-1).simple("2011-06-01").text("it's \\ a\0");
        insert.row().plain(2.5_f32).bytes(&[0, 0xfe]).bytes(&[]);
        assert_eq!((insert.len(), insert.bytes() > 40), (2, true));
        let expected = "INSERT INTO t VALUES(-1,'2011-06-01','it''s \\\\ a\\0'),(2.5,0x00FE,'')";
        assert_eq!(insert.finish(), expected);
        assert_eq!((insert.len(), insert.bytes()), (0, 0));
        insert.row().plain(3);
        let expected = "INSERT INTO t VALUES(3) ON DUPLICATE KEY UPDATE a=1";
        assert_eq!(insert.finish_with(" ON DUPLICATE KEY UPDATE a=1"), expected);
    }
}
