//! Reads a rival's settings file: TOML in which a comment gives the reason for each setting.

use serde::de::DeserializeOwned;

use super::{Failure, Result};

/// Parses the settings in `text`, which is the content of the file `name`.
pub fn parse<S: DeserializeOwned>(name: &str, text: &str) -> Result<S> {
    toml::from_str(text).map_err(|error| Failure(format!("{name}: {error}")))
}

/// Returns the settings as pairs for the report.
pub fn pairs(text: &str) -> Vec<(String, String)> {
    let table: toml::Table = text.parse().unwrap_or_default();
    table.into_iter().map(|(key, value)| (key, value.to_string())).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_setting_of_a_rival_has_its_reason_on_the_line() {
        let files = [
            ("rocksdb", include_str!("rocksdb/rocksdb.settings.toml")),
            ("sqlite", include_str!("sqlite/sqlite.settings.toml")),
            ("lmdb", include_str!("lmdb/lmdb.settings.toml")),
            ("tidesdb", include_str!("tidesdb/tidesdb.settings.toml")),
        ];
        for (name, text) in files {
            let settings = text.lines().filter(|line| line.contains('=') && !line.starts_with('#'));
            for line in settings {
                let reason = line.split_once('#').map(|(_, reason)| reason.trim()).unwrap_or("");
                assert!(reason.len() > 10, "{name}: no reason given: {line}");
            }
        }
    }
}
