//! Natural order of step names: `threads=2` comes before `threads=16`, and a load before all other
//! steps.

use std::cmp::Ordering;

/// The name of a step, in natural order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Natural(pub String);

impl Natural {
    /// Makes a step name.
    pub fn new(name: &str) -> Self {
        Self(name.to_owned())
    }

    fn parts(&self) -> Vec<Part<'_>> {
        let mut parts = Vec::new();
        let mut rest = self.0.as_str();
        while let Some(first) = rest.chars().next() {
            let is_digit = first.is_ascii_digit();
            let end = rest.find(|c: char| c.is_ascii_digit() != is_digit).unwrap_or(rest.len());
            let (part, after) = rest.split_at(end);
            parts.push(match part.parse() {
                Ok(number) if is_digit => Part::Number(number),
                _ => Part::Text(part),
            });
            rest = after;
        }
        parts
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Part<'a> {
    Number(u64),
    Text(&'a str),
}

impl Ord for Natural {
    fn cmp(&self, other: &Self) -> Ordering {
        let is_later = |name: &Self| !(name.0.is_empty() || name.0.starts_with("load"));
        is_later(self)
            .cmp(&is_later(other))
            .then_with(|| self.parts().cmp(&other.parts()))
            .then_with(|| self.0.cmp(&other.0))
    }
}

impl PartialOrd for Natural {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_count_and_loads_come_first() {
        let mut names = ["threads=16", "overwrite", "threads=2", "load", "", "threads=1", "l.i1"]
            .map(Natural::new);
        names.sort();
        let names: Vec<&str> = names.iter().map(|name| name.0.as_str()).collect();
        assert_eq!(
            names,
            ["", "load", "l.i1", "overwrite", "threads=1", "threads=2", "threads=16"]
        );
        let huge = "99999999999999999999999";
        assert_eq!(Natural::new(huge).cmp(&Natural::new(huge)), Ordering::Equal);
    }
}
