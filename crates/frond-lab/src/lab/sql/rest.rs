//! Waits until the background work of an engine has ended.

use std::time::{Duration, Instant};

use super::session::{Session, text_of};
use crate::lab::target::SqlTarget;
use crate::measure::{self, Space, Subject, Usage};
use crate::targets::{Failure, Result};

/// Seconds without writes and without a change of size after which a server counts as idle.
const STILL_SECONDS: u32 = 3;

/// Result of waiting for background work.
#[derive(Clone, Copy, Debug)]
pub struct Rested {
    /// Resources that the server used meanwhile.
    pub paid: Usage,
    /// Seconds until the server became idle.
    pub seconds: f64,
}

/// Asks the engine to write out what it holds in memory, and waits until it is idle, or for
/// `longest`.
///
/// # Errors
/// Errors of the server.
pub fn rest(
    admin: &mut Session,
    target: &SqlTarget,
    subject: Subject,
    space: Option<&Space>,
    longest: Duration,
) -> Result<Rested> {
    let (begin, before) = (Instant::now(), subject.usage());
    let mut usual = usual_values(admin, &target.settle_variables)?;
    usual.reverse();
    let waited = set_global(admin, &target.settle_variables)
        .and_then(|()| wait_until_idle(admin, target, subject, space, begin + longest));
    // The server may be one that the lab did not start, so it gets its own values back even after
    // an error, which is the one to report.
    let restored = set_global(admin, &usual);
    let seconds = begin.elapsed().as_secs_f64() - f64::from(waited?);
    restored?;
    Ok(Rested { paid: subject.usage().since(&before), seconds })
}

/// Waits until the server is idle, or until `end`; returns how many of the seconds waited only
/// confirmed that it was idle.
fn wait_until_idle(
    admin: &mut Session,
    target: &SqlTarget,
    subject: Subject,
    space: Option<&Space>,
    end: Instant,
) -> Result<u32> {
    let begin = Instant::now();
    let now = || (subject.usage().write_bytes, space.map_or(0, Space::bytes));
    let (mut last, mut waited) = (now(), 0);
    // Two rounds: background work after the first request reserves disk space again (Frond). The
    // second request, made when nothing is left to do, gives it back.
    for seconds_wanted in [STILL_SECONDS, 1] {
        for statement in &target.settle {
            admin.run(statement)?;
        }
        let mut still = 0;
        while Instant::now() < end && still < seconds_wanted && !measure::is_interrupted() {
            println!("progress rest 0 {} 0", begin.elapsed().as_secs());
            std::thread::sleep(Duration::from_secs(1));
            let seen = std::mem::replace(&mut last, now());
            let is_settled = zero(admin, &target.zero_when_settled)?;
            still = if seen == last && is_settled { still + 1 } else { 0 };
        }
        waited += still;
        if target.settle.is_empty() {
            break;
        }
    }
    Ok(waited)
}

/// Sets global variables: all that can be set, even if one fails.
///
/// # Errors
/// The first error of the server.
fn set_global(session: &mut Session, values: &[(String, String)]) -> Result<()> {
    let set = |(name, value): &(String, String)| {
        Ok(session.run(&format!("SET GLOBAL {name} = {value}")).map(drop)?)
    };
    values.iter().map(set).fold(Ok(()), Result::and)
}

/// Reads the current values of global variables.
fn usual_values(
    session: &mut Session,
    variables: &[(String, String)],
) -> Result<Vec<(String, String)>> {
    let mut usual = Vec::new();
    for (name, _) in variables {
        usual.push((name.clone(), session.value(&format!("SELECT @@GLOBAL.{name}"))?));
    }
    Ok(usual)
}

/// Whether all these status variables are zero.
fn zero(session: &mut Session, names: &[String]) -> Result<bool> {
    for name in names {
        let mut found = None;
        let sql = format!("SHOW GLOBAL STATUS WHERE Variable_name='{name}'");
        session.rows(&sql, |row| found = text_of(row, 1))?;
        let value = found.ok_or_else(|| Failure(format!("server: no status variable {name}")))?;
        if value.parse::<f64>().is_ok_and(|value| value > 0.0) {
            return Ok(false);
        }
    }
    Ok(true)
}
