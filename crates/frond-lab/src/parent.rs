//! The parent process: runs one target as a child process, which is this binary with the same
//! options.
//!
//! Invariants
//! 1. A child that dies or hangs loses only its own rows; what it has reported so far is kept.
//! 2. The child is always reaped, and the control groups that it left behind are removed.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::child::Order;
use crate::measure::Group;
use crate::results::{Final, Row};
use crate::targets::{self, Failure, Result};

/// Runs the child for the target at `index` of the plan.
pub fn run(index: usize, order: &Order, show: bool) -> Result<Final> {
    let binary = std::env::current_exe()?;
    let mut child = Command::new(binary)
        .args(std::env::args_os().skip(1))
        .arg(format!("--as-child={index}"))
        .arg(format!("--base-rss={}", order.base_rss))
        .envs(targets::environment(order.target)?)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let outcome = follow(&mut child, order, show);
    if outcome.is_err() {
        let _ = child.kill(); // it may have ended by itself
    }
    let status = child.wait()?;
    Group::remove_stale(); // what it left, if it was killed
    if show {
        eprint!("\r\x1b[K");
    }
    let mut outcome = outcome?;
    if outcome.failure.is_none() && !status.success() {
        outcome.failure = Some(format!("its process ended with {status}"));
    }
    Ok(outcome)
}

/// Time after which a child counts as hung: 1.5 times its time limit, plus a minute for opening,
/// verifying and closing, plus two quiesce periods. `None` without a time limit.
fn patience(order: &Order) -> Option<Duration> {
    let quiesces = 2 * order.rest.at_most(order.spec.rows);
    order.time_limit.map(|limit| Duration::from_secs(limit * 3 / 2 + 60) + quiesces)
}

fn follow(child: &mut Child, order: &Order, show: bool) -> Result<Final> {
    let out = child.stdout.take().ok_or_else(|| Failure("child without output".to_owned()))?;
    let (send, lines) = channel();
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(std::result::Result::ok) {
            if send.send(line).is_err() {
                break;
            }
        }
    });
    let until = patience(order).map(|patience| Instant::now() + patience);
    let mut outcome = Final::default();
    let mut complete = false;
    loop {
        let wait = until.map_or(Duration::from_secs(3600), |until| {
            until.saturating_duration_since(Instant::now())
        });
        let line = match lines.recv_timeout(wait) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) if until.is_none() => continue,
            Err(RecvTimeoutError::Timeout) => {
                outcome.failure = Some("did not stop at its time limit and was killed".to_owned());
                let _ = child.kill(); // the reader then reaches the end of the output
                complete = true;
                break;
            }
        };
        match line.split_once(' ') {
            Some(("final", json)) => {
                outcome = serde_json::from_str(json)?;
                complete = true;
            }
            Some(("row", json)) => outcome.rows.push(serde_json::from_str::<Row>(json)?),
            Some(("progress", text)) if show => progress(order, text),
            _ => {}
        }
    }
    let _ = reader.join(); // it only forwards lines
    if !complete {
        outcome.failure = Some("its process ended without a result".to_owned());
    }
    Ok(outcome)
}

/// Prints a progress line over the previous one.
fn progress(order: &Order, text: &str) {
    let words: Vec<&str> = text.split(' ').collect();
    let [step, ops, seconds, planned] = words[..] else { return };
    let number = |text: &str| text.parse::<f64>().unwrap_or(0.0);
    let (ops, seconds, planned) = (number(ops), number(seconds), number(planned));
    let part =
        if planned > 0.0 { format!("{:3.0} %", 100.0 * ops / planned) } else { String::new() };
    let rate = ops / seconds.max(0.1);
    let mut err = std::io::stderr();
    let line =
        format!("\r\x1b[K{} {step} {part} {ops:.0} in {seconds:.0} s, {rate:.0}/s", order.target);
    let _ = err.write_all(line.as_bytes()).and_then(|()| err.flush()); // progress is a courtesy
}
