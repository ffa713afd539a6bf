//! Waiting until an engine's background work has ended.

use std::time::{Duration, Instant};

use super::session::Session;
use crate::lab::target::SqlTarget;
use crate::measure::{self, Space, Subject, Usage};
use crate::targets::Result;

/// Seconds in which a server that rests writes nothing and does not change its size.
const STILL_SECONDS: u32 = 3;

/// What a rest came to.
#[derive(Clone, Copy, Debug)]
pub struct Rested {
    /// What the server used.
    pub paid: Usage,
    /// How long it took until it was still.
    pub seconds: f64,
}

/// Asks the engine to write out what waits in memory, and waits until it is still, or for `longest`.
///
/// # Errors
/// The server's.
pub fn rest(
    admin: &mut Session,
    target: &SqlTarget,
    subject: Subject,
    space: Option<&Space>,
    longest: Duration,
) -> Result<Rested> {
    let (begin, before) = (Instant::now(), subject.usage());
    let usual = usual_values(admin, &target.settle_variables)?;
    for (name, value) in &target.settle_variables {
        admin.run(&format!("SET GLOBAL {name} = {value}"))?;
    }
    let now = || (subject.usage().write_bytes, space.map_or(0, Space::bytes));
    let (mut last, mut waited) = (now(), 0);
    // Background work after the first request takes disk space in reserve again (Frond). The second request, when nothing
    // is left to do, gives it back.
    for seconds_wanted in [STILL_SECONDS, 1] {
        for statement in &target.settle {
            admin.run(statement)?;
        }
        let mut still = 0;
        while begin.elapsed() < longest && still < seconds_wanted && !measure::is_interrupted() {
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
    for (name, value) in usual.iter().rev() {
        admin.run(&format!("SET GLOBAL {name} = {value}"))?;
    }
    let seconds = begin.elapsed().as_secs_f64() - f64::from(waited);
    Ok(Rested { paid: subject.usage().since(&before), seconds })
}

/// The values of global variables now.
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

/// Whether all of these status variables are zero.
fn zero(session: &mut Session, names: &[String]) -> Result<bool> {
    for name in names {
        let value = session.value(&format!(
            "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME='{name}'"
        ))?;
        if value.parse::<f64>().is_ok_and(|value| value > 0.0) {
            return Ok(false);
        }
    }
    Ok(true)
}
