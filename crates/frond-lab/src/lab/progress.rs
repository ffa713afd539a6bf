//! The progress display of a run: which cell of how many, how far it has come, and the estimated
//! time left. The estimate weighs cells by the longest time that each may take.

use std::cell::Cell;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::results::{CellKey, CellResult};

/// A progress line at the bottom of the terminal. Without a terminal, one line per finished cell.
pub struct Progress {
    bar: ProgressBar,
    is_shown: bool,
    /// Weight of each cell.
    weights: Vec<u64>,
    begin: Instant,
    /// Weight of the cells that have ended since then.
    ended: Cell<u64>,
}

/// The time left, if cells of the weight `ended` took this long and those of the weight `left`
/// remain; `None` before the first one has ended.
fn time_left(elapsed: Duration, ended: u64, left: u64) -> Option<Duration> {
    (ended > 0).then(|| elapsed.mul_f64(left as f64 / ended as f64))
}

impl Progress {
    /// Starts the display of a run whose cells have these weights.
    pub fn new(weights: Vec<u64>) -> Self {
        let bar = ProgressBar::new(weights.len() as u64);
        let style = ProgressStyle::with_template("[{elapsed}{prefix}] cell {pos}/{len} {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let is_shown = std::io::stderr().is_terminal();
        if !is_shown {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        bar.enable_steady_tick(Duration::from_millis(500));
        Self { bar, is_shown, weights, begin: Instant::now(), ended: Cell::new(0) }
    }

    /// Shows that a cell starts.
    pub fn cell(&self, position: usize, key: &CellKey) {
        self.bar.set_position(position as u64);
        let left = self.weights[position..].iter().sum();
        if let Some(left) = time_left(self.begin.elapsed(), self.ended.get(), left) {
            let left = HumanDuration(left);
            self.bar.set_prefix(format!(", about {left} left"));
        }
        self.bar.set_message(format!("{} on {}", key.workload, key.target));
    }

    /// Shows the progress that the cell's process reports: `STEP OPS SECONDS PLANNED`. The name of
    /// a step may contain spaces.
    pub fn step(&self, words: &str) {
        let mut numbers = words.rsplitn(4, ' ');
        let (planned, seconds, ops) = (numbers.next(), numbers.next(), numbers.next());
        let step = numbers.next().unwrap_or_default();
        let number = |text: Option<&str>| text.and_then(|t| t.parse::<f64>().ok()).unwrap_or(0.0);
        let (ops, seconds, planned) = (number(ops), number(seconds), number(planned));
        let part =
            if planned > 0.0 { format!(" {:.0} %", 100.0 * ops / planned) } else { String::new() };
        let message = self.bar.message();
        let cell = message.split(':').next().unwrap_or_default();
        let rate = ops / seconds.max(0.1);
        self.bar.set_message(format!("{cell}: {step}{part} {rate:.0}/s"));
    }

    /// Reports a finished cell.
    pub fn ended(&self, position: usize, key: &CellKey, result: &CellResult) {
        self.ended.set(self.ended.get() + self.weights[position]);
        let steps = result.steps.iter().map(|step| {
            let rate = step.metrics.get("ops_s").copied().unwrap_or(0.0);
            format!("{} {rate:.0}/s", step.name)
        });
        let steps: Vec<String> = steps.collect();
        let state = result.failure.as_deref().unwrap_or(result.state.name());
        let line = format!(
            "{:12} {:14} {} {:6.1} s  {state}  {}",
            key.workload,
            key.target,
            key.repeat,
            result.seconds,
            steps.join(", ")
        );
        self.print(line);
    }

    /// Prints a line above the progress line.
    pub fn print(&self, line: impl AsRef<str>) {
        match self.is_shown {
            true => self.bar.println(line),
            false => eprintln!("{}", line.as_ref()),
        }
    }

    /// Removes the progress line.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_cells_count_more_than_short_ones() {
        let minute = Duration::from_secs(60);
        assert_eq!(time_left(minute, 0, 100), None);
        assert_eq!(time_left(minute, 20, 60), Some(3 * minute));
        assert_eq!(time_left(minute, 20, 0), Some(Duration::ZERO));
    }
}
