//! Compares measurements with their budgets; reports at the end, and with `--strict` by the exit
//! code.
//!
//! Budgets are for the design's reference machine when nothing else runs on it: figures over budget
//! are listed, and those of twice the budget or more fail a strict run.

use std::{process::ExitCode, sync::Mutex};

/// Multiple of its budget at which a figure is a defect.
const DEFECT: f64 = 2.0;

struct Over {
    what: String,
    measured: f64,
    budget: f64,
}

/// Number of figures compared, and those over budget.
static JUDGED: Mutex<(usize, Vec<Over>)> = Mutex::new((0, Vec::new()));

/// Compares a figure with its budget, both in the same unit.
pub fn judge(what: impl Into<String>, measured: f64, budget: f64) {
    let (judged, over) = &mut *JUDGED.lock().unwrap();
    *judged += 1;
    if measured > budget {
        over.push(Over { what: what.into(), measured, budget });
    }
}

/// Prints what is over budget. Fails if the arguments contain `--strict` and anything takes twice
/// as much.
pub fn verdict() -> ExitCode {
    let (judged, over) = &*JUDGED.lock().unwrap();
    if *judged == 0 {
        return ExitCode::SUCCESS;
    }
    println!("\n{} of {judged} figures are within their budgets", judged - over.len());
    let mut defects = 0;
    for Over { what, measured, budget } in over {
        let times = measured / budget;
        defects += usize::from(times >= DEFECT);
        let mark = if times >= DEFECT { "DEFECT" } else { "over" };
        println!("{mark:<7} {what}: {measured:.1}, {budget:.1} budgeted, {times:.2} x");
    }
    let is_strict = std::env::args().any(|arg| arg == "--strict");
    if is_strict && defects > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
