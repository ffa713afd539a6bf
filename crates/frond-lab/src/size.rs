//! Sizes in bytes as users write them: `70MB` is decimal, `70MiB` and `70M` are binary.

use std::fmt;
use std::str::FromStr;

/// A number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Bytes(pub u64);

impl Bytes {
    /// `n` mebibytes.
    pub const fn mebi(n: u64) -> Self {
        Self(n << 20)
    }
}

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let number: f64 = number.parse().map_err(|_| format!("`{text}` is not a size"))?;
        let scale = match unit.trim() {
            "" | "B" => 1u64,
            "kB" | "KB" => 1000,
            "MB" => 1_000_000,
            "GB" => 1_000_000_000,
            "K" | "KiB" => 1 << 10,
            "M" | "MiB" => 1 << 20,
            "G" | "GiB" => 1 << 30,
            _ => return Err(format!("`{text}`: unknown unit `{unit}` (kB MB GB KiB MiB GiB)")),
        };
        Ok(Self((number * scale as f64) as u64))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (n, unit) = match self.0 {
            n if n >= 1_000_000_000 => (n as f64 / 1e9, "GB"),
            n if n >= 1_000_000 => (n as f64 / 1e6, "MB"),
            n if n >= 1_000 => (n as f64 / 1e3, "kB"),
            n => return write!(f, "{n} B"),
        };
        let decimals = if n < 10.0 && n.fract() > 0.05 { 2 } else { usize::from(n < 100.0) };
        write!(f, "{n:.decimals$} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_parsed_and_printed_with_units() {
        for (text, bytes) in [("70MB", 70_000_000), ("1.5KiB", 1536), ("2G", 2 << 30), ("17", 17)] {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
        for text in ["", "MB", "7 parsecs", "-3MB"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
        assert_eq!(Bytes(70_000_000).to_string(), "70.0 MB");
    }
}
