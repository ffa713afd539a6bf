//! The background threads: one applies memtables, one makes checkpoints, one does timed work.
//!
//! The first two look for work, do it, and otherwise wait for the signal. The third wakes at short
//! intervals for the timers of snapshots and of the log, requested syncs, and the balance of
//! memory. An error or a panic stops the store immediately, and nothing is retried (P12, P16). A
//! full disk is not an error (`admission.rs`), nor is an unreadable page (`tree/damage.rs`).

use std::{panic, time::Duration};

use crate::{
    Result,
    error::Error,
    io::Workers,
    sync::{Arc, AtomicBool, Mutex, Ordering, thread},
};

use super::Engine;

/// How long the store must have been idle before buffers are drained.
const IDLE_MILLIS: u64 = 1000;

/// What a thread does until the flag is set.
type Work = fn(&Engine, &AtomicBool) -> Result<()>;

/// Handles of the running threads.
#[derive(Debug, Default)]
pub(crate) struct Background {
    stop: Arc<AtomicBool>,
    threads: Mutex<Vec<thread::JoinHandle<()>>>,
}

impl Background {
    /// Starts the threads that the engine's environment asks for.
    pub fn start(engine: &Arc<Engine>) -> Result<Self> {
        let background = Self::default();
        if let Workers::Threads(_) = engine.env.workers {
            let spawn = |name, work| background.spawn(engine, name, work);
            spawn("frond-apply", Engine::apply_loop as Work)
                .and_then(|()| spawn("frond-checkpoint", Engine::checkpoint_loop))
                .and_then(|()| spawn("frond-log", Engine::log_loop))
                .inspect_err(|_| background.stop(engine))?;
        }
        Ok(background)
    }

    fn spawn(&self, engine: &Arc<Engine>, name: &'static str, work: Work) -> Result<()> {
        let (engine, stop) = (engine.clone(), self.stop.clone());
        let run = move || {
            let outcome = panic::catch_unwind(panic::AssertUnwindSafe(|| work(&engine, &stop)));
            match outcome {
                Ok(Ok(())) => {}
                Ok(Err(error)) => engine.health.fail(error.to_string()),
                Err(_) => engine.health.fail(format!("thread {name} panicked")),
            }
            engine.signal.notify();
        };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(run);
        let thread = thread.map_err(|error| Error::io(name, "start thread", 0, error))?;
        self.threads.lock().unwrap().push(thread);
        Ok(())
    }

    /// Makes the threads end soon, without waiting for them. They hold the engine, and with it the
    /// lock on the store. Takes no lock.
    pub fn abandon(&self) {
        self.stop.store(true, Ordering::Release);
    }

    /// Ends the threads; work in progress is finished.
    pub fn stop(&self, engine: &Engine) {
        self.stop.store(true, Ordering::Release);
        engine.signal.notify();
        for thread in self.threads.lock().unwrap().drain(..) {
            // A panic in it was recorded by the thread itself.
            let _ = thread.join();
        }
    }
}

impl Engine {
    fn apply_loop(&self, stop: &AtomicBool) -> Result<()> {
        let mut idle_since = self.env.clock.now();
        let mut last_seen = self.sequencer.visible();
        while !stop.load(Ordering::Acquire) && self.health.check().is_ok() {
            let seen = self.signal.epoch();
            self.probe_damage();
            let room = self.unwritten_bytes() < self.limits.unwritten_bytes;
            if room && self.with_room(|| self.apply_oldest())? {
                self.idle.store(false, Ordering::Relaxed);
                idle_since = self.env.clock.now();
                continue;
            }
            let now = self.env.clock.now();
            let visible = self.sequencer.visible();
            if visible != last_seen {
                last_seen = visible;
                idle_since = now;
            }
            let idle = now.saturating_sub(idle_since) >= Duration::from_millis(IDLE_MILLIS);
            if room && idle && self.with_room(|| self.drain_some())? {
                continue;
            }
            self.idle.store(room && idle, Ordering::Relaxed);
            self.signal.wait(seen, if idle { 100 } else { 20 });
        }
        Ok(())
    }

    fn checkpoint_loop(&self, stop: &AtomicBool) -> Result<()> {
        while !stop.load(Ordering::Acquire) && self.health.check().is_ok() {
            let seen = self.signal.epoch();
            // In every round: under load a checkpoint is due again as soon as one is done.
            if self.spill_pinned()? {
                self.signal.notify();
            }
            if self.with_room(|| self.checkpoint_some())? {
                self.signal.notify();
            } else {
                self.signal.wait(seen, 20);
            }
        }
        Ok(())
    }

    fn log_loop(&self, stop: &AtomicBool) -> Result<()> {
        while !stop.load(Ordering::Acquire) && self.health.check().is_ok() {
            let now = self.env.clock.now();
            self.snapshots.tick(now);
            self.log().tick(now)?;
            self.answer_sync_requests()?;
            self.balance_memory();
            self.env.clock.sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}
