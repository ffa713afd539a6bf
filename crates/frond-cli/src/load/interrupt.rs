//! Ctrl-C and SIGTERM: the batch in progress is finished; a second one ends the command at once.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::fail::{Fail, INTERRUPTED, Result};

static REQUESTED: AtomicBool = AtomicBool::new(false);

/// Catches the signals from now on.
pub fn catch() -> Result {
    let caught = ctrlc::set_handler(|| {
        if REQUESTED.swap(true, Ordering::Relaxed) {
            std::process::exit(INTERRUPTED.into());
        }
        eprintln!("frond: finishing; press Ctrl-C again to stop at once");
    });
    caught.map_err(|why| Fail::Error(format!("cannot catch signals: {why}")))
}

/// True after a signal.
pub fn is_requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}
