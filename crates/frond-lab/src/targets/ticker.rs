//! A thread that acts each second: the log flush for the durability classes `os` and `lazy`, for
//! stores that have none of their own.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use super::{Failure, Result};

/// A thread that runs until it is stopped or dropped.
pub struct Ticker {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    failure: Arc<Mutex<Option<String>>>,
}

impl Ticker {
    /// Calls `act` each second. The first failure ends the thread and is kept.
    pub fn each_second(mut act: impl FnMut() -> Result<()> + Send + 'static) -> Self {
        let (stop, stopped) = channel::<()>();
        let failure = Arc::new(Mutex::new(None));
        let kept = Arc::clone(&failure);
        let thread = std::thread::spawn(move || {
            while stopped.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
                if let Err(error) = act() {
                    if let Ok(mut kept) = kept.lock() {
                        *kept = Some(error.0);
                    }
                    break;
                }
            }
        });
        Self { stop: Some(stop), thread: Some(thread), failure }
    }

    /// Returns the failure of an act, if one failed.
    pub fn check(&self) -> Result<()> {
        let failure = self.failure.lock().ok().and_then(|mut kept| kept.take());
        failure.map_or(Ok(()), |text| Err(Failure(text)))
    }

    /// Ends the thread and reports its failure.
    pub fn stop(mut self) -> Result<()> {
        self.end();
        self.check()
    }

    fn end(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has already been printed; there is nothing to add.
            let _ = thread.join();
        }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.end();
    }
}
