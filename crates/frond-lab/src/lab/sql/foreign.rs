//! The target on a server that the lab did not start. The server may be MariaDB or MySQL of any
//! version, with any engine, so it is asked what it has.

use std::collections::BTreeSet;

use super::session::{Session, text_of};
use crate::lab::cell_spec::{split_engine, without_passwords};
use crate::lab::suggest::unknown;
use crate::lab::target::SqlTarget;
use crate::targets::Result;

/// Connects to the server and describes its target: the engine that the URL names, or else the
/// server's default engine. Variables of the engine that the server does not have are left out.
///
/// # Errors
/// The server cannot be reached, or does not have the engine.
pub fn target(url: &str) -> Result<SqlTarget> {
    let mut session = Session::connect_url(url)?;
    let engine = engine(&mut session, split_engine(url).1)?;
    let mut target = SqlTarget::of_engine(&without_passwords(url), &engine)?;
    let variables = names(&mut session, "SHOW GLOBAL VARIABLES")?;
    for list in [&mut target.settle_variables, &mut target.bulk_variables] {
        list.retain(|(name, _)| variables.contains(&name.to_lowercase()));
    }
    let counters = names(&mut session, "SHOW GLOBAL STATUS")?;
    target.zero_when_settled.retain(|name| counters.contains(&name.to_lowercase()));
    target.syncs.retain(|name| counters.contains(&name.to_lowercase()));
    Ok(target)
}

/// The engine's name as the server spells it.
fn engine(session: &mut Session, named: Option<&str>) -> Result<String> {
    let wanted = match named {
        Some(name) => name.to_owned(),
        None => session.value("SELECT @@default_storage_engine")?,
    };
    let mut known = Vec::new();
    let sql = "SELECT ENGINE FROM information_schema.ENGINES WHERE SUPPORT IN ('YES','DEFAULT')";
    session.rows(sql, |row| known.extend(text_of(row, 0)))?;
    let found = known.iter().find(|engine| engine.eq_ignore_ascii_case(&wanted)).cloned();
    let names: Vec<&str> = known.iter().map(String::as_str).collect();
    found.ok_or_else(|| unknown("engine", &wanted, &names))
}

/// The first column of a statement's rows, in lower case.
fn names(session: &mut Session, sql: &str) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    session.rows(sql, |row| found.extend(text_of(row, 0).map(|name| name.to_lowercase())))?;
    Ok(found)
}
