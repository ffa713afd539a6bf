//! Formats times for SQL and for the results.

use jiff::Timestamp;
use jiff::tz::Offset;

/// Formats milliseconds since 1970 as a DATETIME without quotes, in whole seconds.
pub fn date_time(millis: u64) -> String {
    formatted(millis, "%Y-%m-%d %H:%M:%S")
}

fn formatted(millis: u64, format: &str) -> String {
    let time = Timestamp::from_millisecond(millis as i64).unwrap_or_default();
    Offset::UTC.to_datetime(time).strftime(format).to_string()
}

/// The current time in milliseconds since 1970.
pub fn millis() -> u64 {
    Timestamp::now().as_millisecond() as u64
}

/// The current time in ISO 8601, in whole seconds.
pub fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_sql_reads_them() {
        assert_eq!(date_time(1_306_886_400_999), "2011-06-01 00:00:00");
        assert_eq!(now().len(), 20);
    }
}
