//! Ctrl-C and SIGTERM: the command ends as soon as it can. A second signal ends it immediately.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::fail::{Fail, INTERRUPTED, Result};

static REQUESTED: AtomicBool = AtomicBool::new(false);

/// Catches the signals from now on. On the first one, prints `says`.
pub fn catch(says: &'static str) -> Result {
    let caught = ctrlc::set_handler(move || {
        if REQUESTED.swap(true, Ordering::Relaxed) {
            std::process::exit(INTERRUPTED.into());
        }
        eprintln!("frond: {says}");
    });
    caught.map_err(|why| Fail::Error(format!("cannot catch signals: {why}")))
}

/// True after a signal.
pub fn is_requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}
