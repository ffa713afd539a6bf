//! Settings in force: the server's variables, each with its default and, if the target set it, the
//! reason.
//!
//! The settings are read back from the server, because it rounds sizes, and one setting may change
//! another.

use std::collections::BTreeMap;

use super::session::{Session, text_of};
use crate::targets::Result;

/// Normalizes a name, which servers and target files write differently.
fn common(name: &str) -> String {
    name.replace('-', "_").to_lowercase()
}

/// The name of the option that sets a variable. It differs from the variable's name in one case.
fn named(variable: &str) -> String {
    match common(variable).as_str() {
        "tx_isolation" => "transaction_isolation".to_owned(),
        name => name.to_owned(),
    }
}

/// Reads the settings that the target asks for, and all variables that differ from the server's
/// defaults. Variables without a default, such as paths, are left out, since they differ between
/// cells.
///
/// # Errors
/// Errors of the server.
pub fn effective(
    session: &mut Session,
    asked: &[(String, String, String)],
) -> Result<BTreeMap<String, String>> {
    let mut found: BTreeMap<String, String> = asked
        .iter()
        .map(|(name, value, why)| (common(name), format!("{value}  ({why})")))
        .collect();
    let why: BTreeMap<String, &str> =
        asked.iter().map(|(name, _, why)| (common(name), why.as_str())).collect();
    let sql = "SELECT VARIABLE_NAME, GLOBAL_VALUE, DEFAULT_VALUE, GLOBAL_VALUE_ORIGIN \
               FROM information_schema.SYSTEM_VARIABLES WHERE GLOBAL_VALUE IS NOT NULL AND DEFAULT_VALUE IS NOT NULL";
    session.rows(sql, |row| {
        let text = |at| text_of(row, at).unwrap_or_default();
        let (name, value, default) = (named(&text(0)), text(1), text(2));
        let is_default = value == default;
        let remark = match (why.get(&name), is_default) {
            (Some(why), true) => format!("{why}; the default"),
            (Some(why), false) => format!("{why}; default {default}"),
            (None, is_default) if is_default || default.is_empty() => return,
            (None, _) if text(3) == "AUTO" => format!("chosen by the server; default {default}"),
            (None, _) => format!("default {default}"),
        };
        found.insert(name, format!("{value}  ({remark})"));
    })?;
    Ok(found)
}
