//! Sentences below charts: which target is best, which is last, and how Frond compares with the
//! base.

use super::number;
use super::palette;
use crate::lab::metric::Better;

/// A target with its value.
pub struct Entry<'a> {
    pub target: &'a str,
    pub value: f64,
}

/// A sentence that names the best and the last target, and Frond relative to the base. Targets that
/// store nothing are not ranked.
pub fn ranking(entries: &[Entry<'_>], unit: &str, better: Better, base: &str) -> String {
    let mut ranked: Vec<&Entry<'_>> =
        entries.iter().filter(|entry| !palette::is_null(entry.target)).collect();
    ranked.sort_by(|a, b| a.value.total_cmp(&b.value));
    if better == Better::Higher {
        ranked.reverse();
    }
    let show = |entry: &Entry<'_>| format!("{} {}", entry.target, number::human(entry.value, unit));
    let (first, last) = match (ranked.first(), ranked.last()) {
        (Some(first), Some(last)) if ranked.len() > 1 => (first, last),
        (Some(only), _) => return format!("Measured only on {}.", show(only)),
        _ => return entries.first().map_or(String::new(), |entry| format!("{}.", show(entry))),
    };
    if first.value == last.value {
        let names: Vec<&str> = ranked.iter().map(|entry| entry.target).collect();
        return format!("{}: {} each.", list(&names), number::human(first.value, unit));
    }
    let (best, worst) = match better {
        Better::Neither => ("Least", "most"),
        _ => ("Best", "last"),
    };
    let mut text = format!("{best}: {}; {worst}: {}.", show(first), show(last));
    let find = |name: &str| entries.iter().find(|entry| entry.target == name);
    if let Some((frond, base)) = find("frond").zip(find(base)).filter(|(_, b)| b.value > 0.0) {
        let ratio = number::ratio(frond.value / base.value);
        let is_named = [first, last].iter().any(|entry| entry.target == frond.target);
        let name = if is_named { frond.target.to_owned() } else { show(frond) };
        match frond.value == 0.0 {
            true => text.push_str(&format!(" {name} has none.")),
            false => text.push_str(&format!(" {name} is {ratio} {}.", base.target)),
        }
    }
    text
}

/// Names in a sentence: `a`, `a and b`, `a, b and c`.
pub fn list(names: &[&str]) -> String {
    match names.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => String::new(),
    }
}

/// A number with its noun: `1 repeat`, `3 repeats`.
pub fn count(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ranking_names_the_best_the_last_and_frond() {
        let entries = [("innodb", 10.0), ("blackhole", 99.0), ("frond", 30.0), ("myrocks", 20.0)]
            .map(|(target, value)| Entry { target, value });
        let said = ranking(&entries, "1/s", Better::Higher, "innodb");
        assert_eq!(said, "Best: frond 30/s; last: innodb 10/s. frond is 3.00× innodb.");
        let middle = [("innodb", 10.0), ("frond", 30.0), ("innodb-8k", 40.0)]
            .map(|(target, value)| Entry { target, value });
        let said = ranking(&middle, "", Better::Lower, "innodb");
        assert_eq!(said, "Best: innodb 10; last: innodb-8k 40. frond 30 is 3.00× innodb.");
        let said = ranking(&entries, "B", Better::Lower, "innodb");
        assert!(said.starts_with("Best: innodb 10 B; last: frond 30 B."), "{said}");
        assert_eq!(
            ranking(&entries[..1], "1/s", Better::Higher, "innodb"),
            "Measured only on innodb 10/s."
        );
        assert_eq!(ranking(&[], "1/s", Better::Higher, "innodb"), "");
        let equal = [("innodb", 10.0), ("frond", 10.0), ("myrocks", 10.0)]
            .map(|(target, value)| Entry { target, value });
        let said = ranking(&equal, "s", Better::Lower, "innodb");
        assert_eq!(said, "innodb, frond and myrocks: 10 s each.");
        let none =
            [("innodb", 10.0), ("frond", 0.0)].map(|(target, value)| Entry { target, value });
        let said = ranking(&none, "s", Better::Lower, "innodb");
        assert_eq!(said, "Best: frond 0 s; last: innodb 10 s. frond has none.");
    }
}
