//! Settings in force: the server's variables, each with its default and, if the target set it, the
//! reason.
//!
//! The settings are read back from the server, because it rounds sizes, and one setting may change
//! another.

use std::collections::BTreeMap;

use super::session::{Session, text_of};
use crate::targets::{Failure, Result};

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

/// Name of the setting that says why the variables could not be read.
const UNREAD: &str = "(variables)";

/// Reads the settings that the target asks for, and all variables that differ from the server's
/// defaults. Variables without a default, such as paths, are left out, since they differ between
/// cells.
///
/// MySQL does not report the defaults, but which variables were set.
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
    let has_defaults = session.value(
        "SELECT COUNT(*) FROM information_schema.TABLES \
         WHERE TABLE_SCHEMA='information_schema' AND TABLE_NAME='SYSTEM_VARIABLES'",
    )?;
    if has_defaults == "0" {
        found.extend(of_mysql(session));
        return Ok(found);
    }
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

/// The variables of a MySQL server that were set. Users without the privilege to read them get a
/// setting that says so.
fn of_mysql(session: &mut Session) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let sql = "SELECT VARIABLE_NAME, VARIABLE_VALUE, LOWER(VARIABLE_SOURCE) \
               FROM performance_schema.global_variables \
               JOIN performance_schema.variables_info USING(VARIABLE_NAME) \
               WHERE VARIABLE_SOURCE<>'COMPILED'";
    let read = session.rows(sql, |row| {
        let text = |at| text_of(row, at).unwrap_or_default();
        found.insert(common(&text(0)), format!("{}  (set: {})", text(1), text(2)));
    });
    if let Err(error) = read {
        found.insert(UNREAD.to_owned(), format!("not read: {}", Failure::from(error)));
    }
    found
}

/// The isolation level of a session.
///
/// # Errors
/// Errors of the server.
pub fn isolation_level(session: &mut Session) -> Result<String> {
    let mut found = None;
    // MariaDB has the first name, MySQL 8 the second one.
    let sql = "SHOW VARIABLES WHERE Variable_name IN ('tx_isolation','transaction_isolation')";
    session.rows(sql, |row| found = text_of(row, 1))?;
    found.ok_or_else(|| Failure("server: it has no isolation level".to_owned()))
}

/// The product and version of the server, such as `MariaDB 10.11.18-MariaDB-0+deb12u1`.
///
/// # Errors
/// Errors of the server.
pub fn server_version(session: &mut Session) -> Result<String> {
    let version = session.value("SELECT VERSION()")?;
    if version.contains("MariaDB") {
        return Ok(format!("MariaDB {version}"));
    }
    // `MySQL Community Server - GPL`, `Percona Server (GPL), Release 27, …`
    let comment = session.value("SELECT @@version_comment")?;
    let product = comment.split([',', '(']).next().unwrap_or_default();
    let product = product.split(" - ").next().unwrap_or_default().trim();
    Ok(format!("{product} {version}"))
}
