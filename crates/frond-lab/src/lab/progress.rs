//! The progress display of a run: which cell of how many, how far it has come, and the estimated
//! time left.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::results::{CellKey, CellResult};

/// A progress line at the bottom of the terminal. Without a terminal, one line per finished cell.
pub struct Progress {
    bar: ProgressBar,
    is_shown: bool,
}

impl Progress {
    /// Starts the display of a run of `cells` cells.
    pub fn new(cells: usize) -> Self {
        let bar = ProgressBar::new(cells as u64);
        let style = ProgressStyle::with_template("[{elapsed}, {eta} left] cell {pos}/{len} {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let is_shown = std::io::stderr().is_terminal();
        if !is_shown {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        bar.enable_steady_tick(Duration::from_millis(500));
        Self { bar, is_shown }
    }

    /// Shows that a cell starts.
    pub fn cell(&self, position: usize, key: &CellKey) {
        self.bar.set_position(position as u64);
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
    pub fn ended(&self, key: &CellKey, result: &CellResult) {
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
        match self.is_shown {
            true => self.bar.println(line),
            false => eprintln!("{line}"),
        }
    }

    /// Removes the progress line.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
