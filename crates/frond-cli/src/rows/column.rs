//! Columns of keys and indexes: their names, their types, and how their values are encoded.

use frond::{layout::Part, tuple};
use serde::{Deserialize, Serialize};
use tuple::{Desc, KeyPart, KeyReader, ReadKeyPart};

/// A column of a key or an index.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct KeyColumn {
    /// Its name.
    pub name: String,
    /// How its values are compared.
    #[serde(default)]
    pub kind: ColumnKind,
    /// True if greater values come first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub desc: bool,
}

/// How the values of a column are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ColumnKind {
    /// As text, byte by byte.
    #[default]
    Text,
    /// As 64-bit integers.
    Int,
    /// As 64-bit floating-point numbers.
    Float,
    /// As times, to the microsecond.
    Time,
}

/// Bytes that end a text part of a key, after which the next part starts.
const TEXT_END: usize = 2;

impl KeyColumn {
    /// Reads `NAME`, which one of the types `:text`, `:int`, `:float` and `:time` may follow, and
    /// `:desc`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (mut name, mut kind, mut desc) = (text, None, false);
        while let Some((rest, suffix)) = name.rsplit_once(':') {
            let of_suffix = match suffix {
                "desc" => None,
                "text" => Some(ColumnKind::Text),
                "int" => Some(ColumnKind::Int),
                "float" => Some(ColumnKind::Float),
                "time" => Some(ColumnKind::Time),
                _ => break, // a name may have a colon
            };
            match of_suffix {
                None if desc => return Err(format!("\"{text}\" has :desc twice")),
                None => desc = true,
                Some(_) if kind.is_some() => return Err(format!("\"{text}\" has two types")),
                of_suffix => kind = of_suffix,
            }
            name = rest;
        }
        match name.is_empty() {
            true => Err("a column needs a name".to_owned()),
            false => Ok(Self { name: name.to_owned(), kind: kind.unwrap_or_default(), desc }),
        }
    }

    /// True if a key restores the value: text exactly, integers without a plus sign and leading
    /// zeros.
    pub fn is_restored_from_key(&self) -> bool {
        matches!(self.kind, ColumnKind::Text | ColumnKind::Int)
    }

    /// Appends the value as a part of a key.
    ///
    /// # Errors
    /// The value is not of the column's type.
    pub fn write(&self, value: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        match self.kind {
            ColumnKind::Text => self.write_part(value, out),
            ColumnKind::Int => self.write_part(self.typed(integer(value), value)?, out),
            ColumnKind::Float => self.write_part(self.typed(float(value), value)?, out),
            ColumnKind::Time => self.write_part(self.typed(micros(value), value)?, out),
        }
        Ok(())
    }

    /// Appends the bounds of all values that start with `text` to `first` and `last`. For a time,
    /// `text` is a year, month, day, hour, minute or second.
    ///
    /// # Errors
    /// The column holds numbers, or `text` is not the start of a time.
    pub fn write_prefix(
        &self,
        text: &[u8],
        first: &mut Vec<u8>,
        last: &mut Vec<u8>,
    ) -> Result<(), String> {
        match self.kind {
            ColumnKind::Text => {
                for end in [first, last] {
                    self.write_part(text, end);
                    end.truncate(end.len() - TEXT_END);
                }
            }
            ColumnKind::Int | ColumnKind::Float => return Err(no_prefix(&self.name)),
            ColumnKind::Time => {
                let (from, to) = self.period(text)?;
                self.write_part(from, first);
                self.write_part(to, last);
                if self.desc {
                    std::mem::swap(first, last);
                }
            }
        }
        Ok(())
    }

    /// Appends a part whose value is missing or present; missing values come first.
    ///
    /// # Errors
    /// The value is not of the column's type.
    pub fn write_optional(&self, value: Option<&[u8]>, out: &mut Vec<u8>) -> Result<(), String> {
        match (value, self.kind) {
            (Some(value), _) => {
                out.push(1);
                self.write(value, out)?;
            }
            (None, ColumnKind::Text) => self.write_missing::<&[u8]>(out),
            (None, ColumnKind::Int | ColumnKind::Time) => self.write_missing::<i64>(out),
            (None, ColumnKind::Float) => self.write_missing::<f64>(out),
        }
        Ok(())
    }

    /// Appends the description of the part to a layout.
    pub fn describe(&self, optional: bool, parts: &mut Vec<Part>) {
        match self.kind {
            ColumnKind::Text => self.describe_part::<&[u8]>(optional, parts),
            ColumnKind::Int | ColumnKind::Time => self.describe_part::<i64>(optional, parts),
            ColumnKind::Float => self.describe_part::<f64>(optional, parts),
        }
    }

    /// Reads the part, and returns its value as text.
    pub fn read(&self, reader: &mut KeyReader<'_>) -> frond::Result<Vec<u8>> {
        match self.kind {
            ColumnKind::Text => self.read_part(reader),
            ColumnKind::Int => self.read_part(reader).map(|number: i64| text(number)),
            ColumnKind::Float => self.read_part(reader).map(|number: f64| text(number)),
            ColumnKind::Time => self.read_part(reader).map(time),
        }
    }

    /// Reads a part that may be missing.
    pub fn read_optional(&self, reader: &mut KeyReader<'_>) -> frond::Result<Option<Vec<u8>>> {
        Ok(match self.kind {
            ColumnKind::Text => self.read_optional_part(reader)?,
            ColumnKind::Int => self.read_optional_part::<i64>(reader)?.map(text),
            ColumnKind::Float => self.read_optional_part::<f64>(reader)?.map(text),
            ColumnKind::Time => self.read_optional_part::<i64>(reader)?.map(time),
        })
    }

    /// A value that a range starts or ends at: for a year, month, day, hour, minute or second its
    /// first moment, any other value as it is.
    ///
    /// # Errors
    /// The column holds times, and `text` is not the start of one.
    pub fn bound(&self, text: String) -> Result<String, String> {
        match self.kind {
            ColumnKind::Time if text != "\\N" => {
                let (first, _) = self.period(text.as_bytes())?;
                Ok(String::from_utf8_lossy(&time(first)).into_owned())
            }
            _ => Ok(text),
        }
    }

    fn period(&self, text: &[u8]) -> Result<(i64, i64), String> {
        period(text).ok_or_else(|| {
            format!(
                "\"{}\" is not a time for column \"{}\": use a year (2026), a month (2026-01), a day \
                 (2026-01-31), or a time such as 2026-01-31T23:59:59Z, which may stop at the hour \
                 or minute",
                crate::escape::escape(text.get(..40).unwrap_or(text)),
                self.name
            )
        })
    }

    fn typed<T>(&self, parsed: Option<T>, value: &[u8]) -> Result<T, String> {
        let wanted = match self.kind {
            ColumnKind::Text => "text",
            ColumnKind::Int if integer(value.trim_ascii()).is_some() => {
                "a 64-bit integer: write it without spaces"
            }
            ColumnKind::Int => "a 64-bit integer",
            ColumnKind::Float => "a 64-bit floating-point number",
            ColumnKind::Time => {
                "a time such as 2026-01-31T23:59:59Z, 2026-01-31 23:59 or 2026-01-31"
            }
        };
        parsed.ok_or_else(|| {
            let value = crate::escape::escape(value.get(..40).unwrap_or(value));
            format!("column \"{}\" has \"{value}\", which is not {wanted}", self.name)
        })
    }

    fn write_part<T: KeyPart>(&self, value: T, out: &mut Vec<u8>) {
        match self.desc {
            true => Desc(value).write(out),
            false => value.write(out),
        }
    }

    fn write_missing<T: KeyPart>(&self, out: &mut Vec<u8>) {
        match self.desc {
            true => None::<Desc<T>>.write(out),
            false => None::<T>.write(out),
        }
    }

    fn describe_part<T: KeyPart>(&self, optional: bool, parts: &mut Vec<Part>) {
        match (optional, self.desc) {
            (false, false) => T::describe(false, parts),
            (false, true) => Desc::<T>::describe(false, parts),
            (true, false) => Option::<T>::describe(false, parts),
            (true, true) => Option::<Desc<T>>::describe(false, parts),
        }
    }

    fn read_part<'k, T: ReadKeyPart<'k>>(&self, reader: &mut KeyReader<'k>) -> frond::Result<T> {
        match self.desc {
            true => Desc::<T>::read(reader).map(|value| value.0),
            false => T::read(reader),
        }
    }

    fn read_optional_part<'k, T: ReadKeyPart<'k>>(
        &self,
        reader: &mut KeyReader<'k>,
    ) -> frond::Result<Option<T>> {
        match self.desc {
            true => Option::<Desc<T>>::read(reader).map(|value| value.map(|value| value.0)),
            false => Option::<T>::read(reader),
        }
    }
}

/// Writes the column as it is given on the command line.
impl std::fmt::Display for KeyColumn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)?;
        f.write_str(match self.kind {
            ColumnKind::Text => "",
            ColumnKind::Int => ":int",
            ColumnKind::Float => ":float",
            ColumnKind::Time => ":time",
        })?;
        f.write_str(if self.desc { ":desc" } else { "" })
    }
}

/// The columns as they are given on the command line.
pub fn list(columns: &[KeyColumn]) -> String {
    match columns.is_empty() {
        true => "none".to_owned(),
        false => columns.iter().map(KeyColumn::to_string).collect::<Vec<_>>().join(", "),
    }
}

/// The message for a column that does not exist, for example because its type is unknown.
pub fn no_column(name: &str, existing: &[String]) -> String {
    let existing = existing.join(", ");
    match name.rsplit_once(':') {
        None => format!("no column \"{name}\"; existing columns: {existing}"),
        Some((_, kind)) => format!(
            "\":{kind}\" is neither a type (:int, :float, :time, :text) nor :desc; and there is \
             no column \"{name}\"; existing columns: {existing}"
        ),
    }
}

/// The message for a prefix of a number.
pub fn no_prefix(column: &str) -> String {
    format!(
        "\"{column}\" is a number, which has no prefix: add a comma after the whole number, or use \
         --from and --to"
    )
}

/// Parses an integer; it may have a sign and leading zeros.
pub fn integer(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Parses a floating-point number. One that is too large is refused; infinity is written as `inf`.
fn float(text: &[u8]) -> Option<f64> {
    let number: f64 = std::str::from_utf8(text).ok()?.trim().parse().ok()?;
    let is_too_large = number.is_infinite() && text.iter().any(u8::is_ascii_digit);
    (!is_too_large).then_some(number)
}

/// Parses a time, in UTC unless it has an offset: microseconds since 1970.
fn micros(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?.trim();
    if let Ok(time) = text.parse::<jiff::Timestamp>() {
        return Some(time.as_microsecond());
    }
    in_utc(text.parse().ok()?)
}

fn in_utc(time: jiff::civil::DateTime) -> Option<i64> {
    Some(time.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_microsecond())
}

/// First and last microsecond of a year, month, day, hour, minute or second in UTC. For a complete
/// time, both are that time.
fn period(text: &[u8]) -> Option<(i64, i64)> {
    use jiff::{Span, civil::DateTime};
    let text = std::str::from_utf8(text).ok()?.trim();
    let (start, span) = match text.len() {
        4 => (format!("{text}-01-01"), Span::new().years(1)),
        7 => (format!("{text}-01"), Span::new().months(1)),
        8 | 10 => (text.to_owned(), Span::new().days(1)),
        13 if text.contains('-') => (text.to_owned(), Span::new().hours(1)),
        16 => (text.to_owned(), Span::new().minutes(1)),
        19 => (text.to_owned(), Span::new().seconds(1)),
        _ => return micros(text.as_bytes()).map(|moment| (moment, moment)),
    };
    let Ok(start) = start.parse::<DateTime>() else {
        return micros(text.as_bytes()).map(|moment| (moment, moment));
    };
    let end = start.checked_add(span).ok()?;
    Some((in_utc(start)?, in_utc(end)? - 1))
}

fn time(micros: i64) -> Vec<u8> {
    match jiff::Timestamp::from_microsecond(micros) {
        Ok(time) => text(time),
        Err(_) => text(micros),
    }
}

fn text(value: impl ToString) -> Vec<u8> {
    value.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encoded values, from the one that comes first.
    fn sorted(column: &str, values: &[&str]) -> Vec<String> {
        let column = KeyColumn::parse(column).expect("a column");
        let mut keys: Vec<Vec<u8>> = Vec::new();
        for value in values {
            let mut key = Vec::new();
            column.write_optional(Some(value.as_bytes()), &mut key).expect("of its type");
            keys.push(key);
        }
        let mut missing = Vec::new();
        column.write_optional(None, &mut missing).expect("no value");
        keys.push(missing);
        keys.sort();
        let read = keys.iter().map(|key| {
            let value = column.read_optional(&mut KeyReader::new(key)).expect("its own output");
            value.map_or("-".to_owned(), |value| String::from_utf8(value).expect("text"))
        });
        read.collect()
    }

    #[test]
    fn values_are_in_the_order_of_their_type() {
        assert_eq!(sorted("c", &["9", "10", ""]), ["-", "", "10", "9"]);
        assert_eq!(sorted("c:int", &["9", "10", "-1"]), ["-", "-1", "9", "10"]);
        assert_eq!(sorted("c:int:desc", &["9", "10", "-1"]), ["-", "10", "9", "-1"]);
        assert_eq!(sorted("c:float", &["9.50", "100", "-1e3"]), ["-", "-1000", "9.5", "100"]);
        assert_eq!(sorted("c:desc", &["a", "b"]), ["-", "b", "a"]);
        let times = ["2026-01-02 00:00:00", "2026-01-01T23:59:59.5Z", "2025-12-31"];
        let expected =
            ["-", "2025-12-31T00:00:00Z", "2026-01-01T23:59:59.5Z", "2026-01-02T00:00:00Z"];
        assert_eq!(sorted("c:time", &times), expected);
    }

    #[test]
    fn columns_are_printed_as_they_are_given() {
        for text in ["a", "a:int", "a:b:float:desc", "a:time", "a:desc"] {
            assert_eq!(KeyColumn::parse(text).map(|column| column.to_string()), Ok(text.into()));
        }
        assert!(KeyColumn::parse(":int").is_err() && KeyColumn::parse("").is_err());
    }

    #[test]
    fn a_value_of_another_type_is_named() {
        let column = KeyColumn::parse("id:int").expect("a column");
        for (bad, remedy) in
            [("ten", ""), ("1.5", ""), ("", ""), ("++1", ""), (" 4", ": write it without spaces")]
        {
            let error = column.write(bad.as_bytes(), &mut Vec::new()).expect_err("no integer");
            let says =
                format!("column \"id\" has \"{bad}\", which is not a 64-bit integer{remedy}");
            assert_eq!(error, says);
        }
    }

    #[test]
    fn numbers_may_have_a_sign_and_zeros_but_not_exceed_their_type() {
        assert_eq!(sorted("c:int", &["0004", "+5", "-0"]), ["-", "0", "4", "5"]);
        assert_eq!(float(b"inf"), Some(f64::INFINITY));
        for too_large in ["1e400", "-1e400"] {
            assert_eq!(float(too_large.as_bytes()), None);
        }
    }

    /// A year, month, day, hour, minute or second stands for all times in it, a complete time for
    /// itself.
    #[test]
    fn the_prefix_of_a_time_is_a_period() {
        let moment = |text: &str| micros(text.as_bytes()).expect("a time");
        for (text, first, next) in [
            ("2024", "2024-01-01", "2025-01-01"),
            ("2024-02", "2024-02-01", "2024-03-01"),
            ("2024-12-31", "2024-12-31", "2025-01-01"),
            ("20241231", "2024-12-31", "2025-01-01"),
            ("2024-12-31 23", "2024-12-31T23:00", "2025-01-01"),
            ("2024-12-31 23:59", "2024-12-31T23:59", "2025-01-01"),
            ("2024-12-31T23:59:59", "2024-12-31T23:59:59", "2025-01-01"),
        ] {
            assert_eq!(period(text.as_bytes()), Some((moment(first), moment(next) - 1)), "{text}");
        }
        let exact = moment("2024-12-31T23:59:59.5Z");
        assert_eq!(period(b"2024-12-31T23:59:59.5Z"), Some((exact, exact)));
        let exact = moment("2024-12-31T22:00Z");
        assert_eq!(period(b"20241231T220000Z"), Some((exact, exact)));
        for bad in ["", "202", "2024-13", "17000000", "9999"] {
            assert_eq!(period(bad.as_bytes()), None, "{bad}");
        }
    }
}
