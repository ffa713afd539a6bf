//! Text of an INSERT with many rows, in a buffer that is reused.

use std::fmt::Write;

use super::sum::RowSum;

/// An INSERT statement under construction.
#[derive(Clone, Debug, Default)]
pub struct InsertText {
    head: String,
    text: String,
    rows: u64,
    sum: RowSum,
}

/// A row being appended to a statement.
pub struct RowText<'a> {
    text: &'a mut String,
    sum: &'a mut RowSum,
    is_first: bool,
}

impl InsertText {
    /// A statement that starts with `head`, such as `INSERT INTO t(a,b) VALUES`.
    pub fn new(head: &str) -> Self {
        Self { head: head.to_owned(), ..Self::default() }
    }

    /// The table and the columns that the statement names; the columns are empty if it names none.
    pub fn table(&self) -> (&str, &str) {
        let words = self.head.split_once("INTO ").map_or("", |(_, words)| words);
        let named = words.rsplit_once("VALUES").map_or(words, |(named, _)| named).trim();
        let (table, columns) = named.split_once('(').unwrap_or((named, ""));
        (table.trim(), columns.trim_end_matches(')'))
    }

    /// Starts a row, whose values the caller appends.
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
        self.sum.end_row();
        RowText { text: &mut self.text, sum: &mut self.sum, is_first: true }
    }

    /// Number of rows in the statement.
    pub fn len(&self) -> u64 {
        self.rows
    }

    /// Length of the statement in bytes.
    pub fn bytes(&self) -> usize {
        if self.rows == 0 { 0 } else { self.text.len() }
    }

    /// Ends the statement, which must have rows, and appends a clause; returns the number and the
    /// checksum of its rows. The next row starts a new statement.
    pub fn close(&mut self, clause: &str) -> (u64, u64) {
        assert!(self.rows > 0, "an INSERT has rows");
        self.text.push(')');
        self.text.push_str(clause);
        self.sum.end_row();
        (std::mem::take(&mut self.rows), self.sum.take())
    }

    /// The text of the closed statement.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl RowText<'_> {
    fn comma(&mut self) {
        if !std::mem::replace(&mut self.is_first, false) {
            self.text.push(',');
        }
    }

    /// Appends a whole number, or a decimal number with the digits of its column.
    pub fn plain(mut self, value: impl std::fmt::Display) -> Self {
        self.comma();
        let begin = self.text.len();
        write!(self.text, "{value}").expect("a string takes all that is written");
        self.sum.value(&self.text.as_bytes()[begin..]);
        self
    }

    /// Appends a value of a FLOAT column.
    pub fn float(mut self, value: f32) -> Self {
        self.comma();
        write!(self.text, "{value}").expect("a string takes all that is written");
        self.sum.float(value);
        self
    }

    /// Appends NULL.
    pub fn null(mut self) -> Self {
        self.comma();
        self.text.push_str("NULL");
        self.sum.null();
        self
    }

    /// Appends text without quotes and backslashes, such as dates or digits.
    pub fn simple(mut self, value: &str) -> Self {
        self.comma();
        debug_assert!(!value.contains(['\'', '\\', '\0']), "{value}");
        self.text.push('\'');
        self.text.push_str(value);
        self.text.push('\'');
        self.sum.value(value.as_bytes());
        self
    }

    /// Appends any text.
    pub fn text(mut self, value: &str) -> Self {
        self.comma();
        self.sum.value(value.as_bytes());
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

    /// Appends bytes as a hexadecimal literal.
    pub fn bytes(mut self, value: &[u8]) -> Self {
        self.comma();
        self.sum.value(value);
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
        insert.row().float(2.5).bytes(&[0, 0xfe]).bytes(&[]);
        assert_eq!((insert.len(), insert.bytes() > 40), (2, true));
        let expected = "INSERT INTO t VALUES(-1,'2011-06-01','it''s \\\\ a\\0'),(2.5,0x00FE,'')";
        assert_eq!((insert.close("").0, insert.text()), (2, expected));
        assert_eq!((insert.len(), insert.bytes()), (0, 0));
        insert.row().plain(3);
        let expected = "INSERT INTO t VALUES(3) ON DUPLICATE KEY UPDATE a=1";
        assert_eq!(insert.close(" ON DUPLICATE KEY UPDATE a=1").0, 1);
        assert_eq!(insert.text(), expected);
    }

    #[test]
    fn a_statement_knows_its_table_its_columns_and_the_sum_of_its_rows() {
        for (head, table, columns) in [
            ("INSERT INTO t VALUES", "t", ""),
            ("REPLACE INTO t(a) VALUES", "t", "a"),
            ("INSERT INTO t (a, b) VALUES", "t", "a, b"),
        ] {
            assert_eq!(InsertText::new(head).table(), (table, columns));
        }
        let mut insert = InsertText::new("INSERT INTO t VALUES");
        insert.row().plain(7).text("it's").null();
        insert.row().float(1.5).bytes(b"x").simple("");
        let crc = |row: &[u8]| u64::from(crc32fast::hash(row));
        let sum = crc(b"7\x1fit's\x1f\0") + crc(b"24576\x1fx\x1f");
        assert_eq!(insert.close(""), (2, sum));
        assert_eq!(insert.text(), "INSERT INTO t VALUES(7,'it''s',NULL),(1.5,0x78,'')");
    }
}
