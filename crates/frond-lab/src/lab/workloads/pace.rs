//! The pace of requests: as fast as they are served (a closed loop), at a fixed rate, or at a share
//! of the target's own rate (open loops).
//!
//! In an open loop the latency of a request counts from when it was due, so that a stall is charged
//! to every request that it delays. Requests that were due but not served when the step ended are
//! counted as `unserved`.

use crate::lab::params::{Param, Params};
use crate::lab::results::StepResult;
use crate::lab::step::Step;
use crate::lab::{embedded, sql};
use crate::targets::{Failure, Result};

/// The parameter `rate`.
pub const RATE: Param = Param::fixed(
    "rate",
    "0",
    "open loop: requests per second, or `70%` of the target's own rate, measured just before; 0: closed loop",
);

/// How requests are issued.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Rate {
    /// Closed loop: a client issues its next request when the last one has ended.
    Closed,
    /// Open loop with this many requests per second.
    Fixed(f64),
    /// A closed loop, and then a second step at this share of its rate.
    Part(f64),
}

impl Rate {
    /// Parses the parameter.
    ///
    /// # Errors
    /// It is neither a number nor a percentage.
    pub fn new(params: &Params) -> Result<Self> {
        let text = params.text("rate").trim();
        let number = |text: &str| {
            let value: Option<f64> = text.replace('_', "").parse().ok();
            value.filter(|value| value.is_finite() && *value >= 0.0).ok_or_else(|| {
                Failure(format!("--set rate={text}: expected requests per second, or 70%"))
            })
        };
        let rate = match text.strip_suffix('%') {
            Some(percent) => Self::Part(number(percent.trim())? / 100.0),
            None => Self::Fixed(number(text)?),
        };
        Ok(if matches!(rate, Self::Fixed(0.0) | Self::Part(0.0)) { Self::Closed } else { rate })
    }

    /// Number of steps that one step becomes at this rate.
    pub fn steps(self) -> u64 {
        if matches!(self, Self::Part(_)) { 2 } else { 1 }
    }
}

/// Runs steps: the bench of either face.
pub trait Paced {
    /// The steps that have ended.
    fn steps(&self) -> &[StepResult];
    /// Whether the time limit, or Ctrl-C, has ended the cell.
    fn is_over(&self) -> bool;
}

impl Paced for sql::Bench {
    fn steps(&self) -> &[StepResult] {
        &self.result.steps
    }

    fn is_over(&self) -> bool {
        Self::is_over(self)
    }
}

impl Paced for embedded::Bench<'_> {
    fn steps(&self) -> &[StepResult] {
        &self.result.steps
    }

    fn is_over(&self) -> bool {
        Self::is_over(self)
    }
}

/// Runs a step at a rate, by calling `once` for each step. The name of the second step of
/// [`Rate::Part`] ends in `open`.
///
/// # Errors
/// Those of `once`.
pub fn run<B: Paced>(
    bench: &mut B,
    step: &Step<'_>,
    rate: Rate,
    once: impl FnMut(&mut B, &Step<'_>) -> Result<()>,
) -> Result<()> {
    run_batches(bench, step, rate, 1, once)
}

/// Like [`run`], for requests that each perform `per_request` operations of the step. The own rate
/// of a load is that at its end.
///
/// # Errors
/// Those of `once`.
pub fn run_batches<B: Paced>(
    bench: &mut B,
    step: &Step<'_>,
    rate: Rate,
    per_request: u64,
    mut once: impl FnMut(&mut B, &Step<'_>) -> Result<()>,
) -> Result<()> {
    match rate {
        Rate::Closed => once(bench, step),
        Rate::Fixed(rate) => once(bench, &Step { rate: Some(rate), ..step.clone() }),
        Rate::Part(part) => {
            once(bench, step)?;
            let metrics = bench.steps().last().map(|step| &step.metrics);
            let rate = metrics.and_then(|found| found.get("exit_velocity").or(found.get("ops_s")));
            let own = rate.map_or(0.0, |rate| rate / per_request.max(1) as f64);
            if own <= 0.0 || bench.is_over() {
                return Ok(()); // nothing to take a part of
            }
            let name = format!("{} open", step.name);
            once(bench, &Step { name: &name, rate: Some(own * part), ..step.clone() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::size::Size;

    #[test]
    fn a_rate_is_a_number_or_a_percentage() {
        let rate = |text: &str| {
            let change = [("rate".to_owned(), text.to_owned())];
            Rate::new(&Params::new("x", &[RATE], Size::Tiny, &change).expect("a known name"))
        };
        for (text, expected) in [
            ("0", Rate::Closed),
            ("0%", Rate::Closed),
            ("1_500", Rate::Fixed(1500.0)),
            ("70%", Rate::Part(0.7)),
            ("12.5 %", Rate::Part(0.125)),
        ] {
            assert_eq!(rate(text).ok(), Some(expected), "{text}");
        }
        for bad in ["", "x", "-1", "inf", "%", "NaN%"] {
            assert!(rate(bad).is_err_and(|failure| failure.0.contains("rate=")), "{bad}");
        }
    }
}
