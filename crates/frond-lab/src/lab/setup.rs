//! Conditions of a run that only its environment describes: the kind of disk, calibrated limits,
//! and whether the cells rested. Values of runs that differ in them are not comparable.

use super::storage::{CALIBRATED, Calibration};

/// Name of the entry of the environment that says whether cells waited for background work.
pub const REST: &str = "rest";
/// Value of that entry if they did not.
pub const NO_REST: &str = "no";
/// The option that asks for that, for runs without the entry.
const OPTION: &str = "--no-rest";

/// Disk, limits and rest of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Setup {
    /// Whether cells did not wait for background work.
    pub is_unrested: bool,
    /// Kind of the private disk of each cell; empty for the host's disk.
    pub disk: String,
    /// The limits that a calibration found; empty if the class has limits of its own, or none.
    pub limits: String,
}

impl Setup {
    /// The setup of a run, from its environment and its command.
    pub fn new<'e>(environment: impl Fn(&str) -> Option<&'e str>, command: &str) -> Self {
        let rest = environment(REST).map(|value| value == NO_REST);
        let limits = environment(CALIBRATED).map(|text| match serde_json::from_str(text) {
            Ok(Calibration { limits, .. }) => limits.to_string(),
            Err(_) => text.to_owned(),
        });
        Self {
            is_unrested: rest.unwrap_or_else(|| command.split_whitespace().any(|w| w == OPTION)),
            disk: environment("disk").unwrap_or_default().to_owned(),
            limits: limits.unwrap_or_default(),
        }
    }

    /// Storage class with disk and limits, and whether the cells did not rest, in a phrase.
    pub fn describe(&self, class: &str) -> String {
        let mut text = class.to_owned();
        if !self.limits.is_empty() {
            text.push_str(&format!(" ({})", self.limits));
        }
        if !self.disk.is_empty() {
            text.push_str(&format!(" on a {} disk", self.disk));
        }
        if self.is_unrested {
            text.push_str(", without rest");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disk_limits_and_rest_are_read_from_the_environment_or_the_command() {
        let none = Setup::new(|_| None, "lab run iibench --no-restart");
        assert_eq!((none.describe("host").as_str(), none.is_unrested), ("host", false));
        assert!(Setup::new(|_| None, "lab run iibench --no-rest").is_unrested);
        let limits = r#"{"limits":{"read_bytes_s":null,"write_bytes_s":null,"read_ios_s":900,"write_ios_s":null},"ratio":0.2,"probes":3}"#;
        let of = |name: &str| match name {
            REST => Some(NO_REST),
            "disk" => Some("virtual"),
            CALIBRATED => Some(limits),
            _ => None,
        };
        let found = Setup::new(of, "");
        let said = found.describe("sata-2015");
        assert!(said.starts_with("sata-2015 (") && said.contains("900"), "{said}");
        assert!(said.ends_with(") on a virtual disk, without rest"), "{said}");
    }
}
