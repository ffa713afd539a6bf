//! What was measured, held against its budget; told in the end, and with `--strict` by the exit code.
//!
//! A budget is for the design's machine when nothing else runs on it: figures over it are listed, and those of twice as
//! much fail a strict run.

use std::{process::ExitCode, sync::Mutex};

/// Times its budget at which a figure is a defect.
const DEFECT: f64 = 2.0;

struct Over {
    what: String,
    measured: f64,
    budget: f64,
}

/// How many were held against theirs, and which are over.
static JUDGED: Mutex<(usize, Vec<Over>)> = Mutex::new((0, Vec::new()));

/// Holds a figure against its budget, both in the same unit.
pub fn judge(what: impl Into<String>, measured: f64, budget: f64) {
    let (judged, over) = &mut *JUDGED.lock().unwrap();
    *judged += 1;
    if measured > budget {
        over.push(Over { what: what.into(), measured, budget });
    }
}

/// Prints what is over its budget. Fails with `--strict` among the arguments if anything takes twice as much.
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
