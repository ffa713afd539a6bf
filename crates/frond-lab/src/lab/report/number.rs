//! Formats numbers for people: three or four digits, thousands separated, bytes in powers of 1024.

/// Formats a value with its unit.
pub fn human(value: f64, unit: &str) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    match unit {
        "B" => scaled(value, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB"]),
        "µs" => scaled(value, 1000.0, &["µs", "ms", "s"]),
        "1/s" => format!("{}/s", plain(value)),
        "" | "×" => format!("{}{unit}", plain(value)),
        _ => format!("{} {unit}", plain(value)),
    }
}

/// Formats a ratio with two decimals, one from 10 and none from 100.
pub fn ratio(value: f64) -> String {
    match value {
        v if !v.is_finite() => "–".to_owned(),
        v if v >= 99.95 => format!("{}×", thousands(v)),
        v if v >= 9.995 => format!("{v:.1}×"),
        v if v >= 0.095 => format!("{v:.2}×"),
        v => format!("{}×", significant(v, 2)),
    }
}

fn scaled(value: f64, step: f64, units: &[&str]) -> String {
    let mut value = value;
    let mut at = 0;
    // The largest unit in which the value is at least 1.
    while value.abs() >= step && at + 1 < units.len() {
        value /= step;
        at += 1;
    }
    format!("{} {}", plain(value), units.get(at).copied().unwrap_or_default())
}

/// Formats a value with three significant digits, or all digits of its integer part.
fn plain(value: f64) -> String {
    if value.abs() >= 99.95 { thousands(value) } else { significant(value, 3) }
}

fn significant(value: f64, digits: i32) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let decimals = digits - 1 - value.abs().log10().floor() as i32;
    if decimals > 9 {
        return format!("{value:.1e}");
    }
    let text = format!("{value:.*}", usize::try_from(decimals).unwrap_or(0));
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

fn thousands(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    if digits.len() > 15 {
        return format!("{value:.2e}");
    }
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0.0 { format!("−{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_have_their_unit() {
        assert_eq!(human(31_234.5, "1/s"), "31,234/s");
        assert_eq!(human(2_247_098_368.0, "B"), "2.09 GiB");
        assert_eq!(human(12_400.0, "µs"), "12.4 ms");
        assert_eq!(human(0.0, "B"), "0 B");
        assert_eq!(human(0.5, ""), "0.5");
        assert_eq!(human(51.0, "%"), "51 %");
        assert_eq!(human(-1234.0, ""), "−1,234");
        assert_eq!(human(f64::NAN, "B"), "–");
        assert_eq!(human(1e300, "1/s"), "1.00e300/s");
        assert_eq!([33.41, 2.345, 0.0123, 123.0].map(ratio), ["33.4×", "2.35×", "0.012×", "123×"]);
    }
}
