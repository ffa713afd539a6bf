//! Parameters of a workload. Each has a default for each size, which `--set name=value` overrides.

use std::collections::BTreeMap;

use super::size::Size;
use super::suggest::unknown;
use crate::targets::{Failure, Result};

/// A parameter with its defaults.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// Name.
    pub name: &'static str,
    /// Description, with the unit.
    pub what: &'static str,
    /// Defaults at tiny, quick, standard, published.
    pub defaults: [&'static str; 4],
}

impl Param {
    /// A parameter whose default depends on the size.
    pub const fn sized(
        name: &'static str,
        defaults: [&'static str; 4],
        what: &'static str,
    ) -> Self {
        Self { name, what, defaults }
    }

    /// A parameter with the same default at all sizes.
    pub const fn fixed(name: &'static str, default: &'static str, what: &'static str) -> Self {
        Self::sized(name, [default; 4], what)
    }
}

/// The parameters in force for a cell.
#[derive(Clone, Debug, Default)]
pub struct Params(BTreeMap<String, String>);

impl Params {
    /// The defaults of the parameters `all` of a workload at a size, overridden by `changes` (name,
    /// value).
    ///
    /// # Errors
    /// A change names a parameter that the workload does not have.
    pub fn new(
        workload: &str,
        all: &[Param],
        size: Size,
        changes: &[(String, String)],
    ) -> Result<Self> {
        let of_size = |param: &Param| param.defaults[size as usize].to_owned();
        let mut values: BTreeMap<String, String> =
            all.iter().map(|param| (param.name.to_owned(), of_size(param))).collect();
        for (name, value) in changes {
            let Some(known) = values.get_mut(name) else {
                let names: Vec<&str> = all.iter().map(|param| param.name).collect();
                return Err(unknown(&format!("parameter of {workload}"), name, &names));
            };
            known.clone_from(value);
        }
        Ok(Self(values))
    }

    /// Names and values of all parameters.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// A value as text. Empty for a name that the workload does not have, which its tests would
    /// detect.
    pub fn text(&self, name: &str) -> &str {
        debug_assert!(self.0.contains_key(name), "no parameter {name}");
        self.0.get(name).map_or("", String::as_str)
    }

    fn parsed<T: std::str::FromStr>(&self, name: &str, what: &str) -> Result<T> {
        let text = self.text(name);
        text.replace('_', "")
            .parse()
            .map_err(|_| Failure(format!("--set {name}={text}: expected {what}")))
    }

    /// The value as a whole number.
    pub fn number(&self, name: &str) -> Result<u64> {
        self.parsed(name, "an integer")
    }

    /// The value as a finite number that is not negative.
    pub fn real(&self, name: &str) -> Result<f64> {
        let value: f64 = self.parsed(name, "a number")?;
        if value.is_finite() && value >= 0.0 {
            return Ok(value);
        }
        Err(Failure(format!("--set {name}={value}: expected a number that is not negative")))
    }

    /// The value as a list of different whole numbers, separated by commas or spaces.
    pub fn numbers(&self, name: &str) -> Result<Vec<u64>> {
        let text = self.text(name);
        let numbers = words_of(text).map(|word| {
            word.parse().map_err(|_| {
                Failure(format!("--set {name}={text}: expected integers separated by commas"))
            })
        });
        once_each(name, numbers.collect::<Result<_>>()?)
    }

    /// The value as a list of different words, separated by commas or spaces.
    pub fn list(&self, name: &str) -> Result<Vec<&str>> {
        once_each(name, words_of(self.text(name)).collect())
    }

    /// The value as a boolean.
    pub fn flag(&self, name: &str) -> Result<bool> {
        match self.text(name) {
            "1" | "yes" | "true" | "on" => Ok(true),
            "0" | "no" | "false" | "off" => Ok(false),
            other => Err(Failure(format!("--set {name}={other}: expected yes or no"))),
        }
    }

    /// The value as one of these words.
    pub fn word<'a>(&self, name: &str, words: &[&'a str]) -> Result<&'a str> {
        let text = self.text(name);
        let found = words.iter().find(|word| **word == text);
        found.copied().ok_or_else(|| unknown(&format!("value of {name}"), text, words))
    }
}

fn words_of(text: &str) -> impl Iterator<Item = &str> {
    text.split([',', ' ']).filter(|word| !word.is_empty())
}

/// The first value that occurs twice in a list.
pub fn twice<T: PartialEq>(list: &[T]) -> Option<&T> {
    (1..list.len()).find(|&at| list[..at].contains(&list[at])).map(|at| &list[at])
}

/// Refuses a list that contains a value twice: each value is a step with a name of its own.
///
/// # Errors
/// A value is listed twice.
pub fn once_each<T: PartialEq + std::fmt::Debug>(name: &str, list: Vec<T>) -> Result<Vec<T>> {
    match twice(&list) {
        None => Ok(list),
        Some(value) => Err(Failure(format!("--set {name}: {value:?} is listed twice"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &[Param] = &[
        Param::sized("rows", ["10", "100", "1_000", "10000"], "rows"),
        Param::fixed("poll", "0.25", "fraction"),
        Param::fixed("threads", "1,2 4", "clients"),
    ];

    #[test]
    fn defaults_depend_on_the_size_and_unknown_parameters_are_refused() {
        let change = |text: &[(&str, &str)]| -> Vec<(String, String)> {
            text.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect()
        };
        let make =
            |changes: &[(&str, &str)]| Params::new("weblog", ALL, Size::Standard, &change(changes));
        let made = make(&[("poll", "0.75")]).expect("both are known");
        assert_eq!(made.number("rows").ok(), Some(1000));
        assert_eq!(made.real("poll").ok(), Some(0.75));
        assert_eq!(made.numbers("threads").ok(), Some(vec![1, 2, 4]));
        let doubled = make(&[("threads", "1,2,1")]).expect("known").numbers("threads");
        assert!(doubled.is_err_and(|failure| failure.0.contains("1 is listed twice")));
        let failure = make(&[("pol", "1")]).expect_err("an unknown name");
        assert!(failure.0.contains("pol") && failure.0.contains("poll"), "{failure}");
        for bad in ["x", "-1", "NaN", "inf", ""] {
            let made = make(&[("poll", bad)]).expect("known");
            assert!(made.real("poll").is_err(), "{bad}");
        }
    }
}
