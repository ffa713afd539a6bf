//! A task pool that runs the tree jobs of one apply in parallel.
//!
//! The submitter of a set of tasks works on it, too, so a pool without threads (`Workers::Manual`)
//! runs everything on the caller, in order.

use std::{collections::VecDeque, fmt, panic};

use crate::sync::{Arc, Condvar, Mutex, thread};

pub(super) type Task = Box<dyn FnOnce() + Send>;

/// A queue of tasks and the threads that take from it.
pub(crate) struct TaskPool {
    shared: Arc<Shared>,
    threads: Mutex<Vec<thread::JoinHandle<()>>>,
    /// The pool never had threads.
    is_empty: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    more: Condvar,
}

#[derive(Default)]
struct State {
    tasks: VecDeque<Task>,
    closed: bool,
}

impl fmt::Debug for TaskPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TaskPool")
    }
}

impl TaskPool {
    /// A pool with this many threads besides the submitters.
    pub fn new(threads: usize) -> Self {
        Self::named("job", threads)
    }

    /// A pool with this many threads besides the submitters; `kind` is part of the threads' names.
    pub fn named(kind: &str, threads: usize) -> Self {
        let shared = Arc::new(Shared::default());
        let spawn = |n: usize| {
            let shared = shared.clone();
            let name = format!("frond-{kind}-{n}");
            thread::Builder::new().name(name).spawn(move || shared.work()).ok()
        };
        // Fewer threads than asked for is slower, not wrong: submitters do the work.
        let threads: Vec<_> = (0..threads).filter_map(spawn).collect();
        Self { shared, is_empty: threads.is_empty(), threads: Mutex::new(threads) }
    }

    /// Threads besides the submitters.
    pub fn threads(&self) -> usize {
        self.threads.lock().unwrap().len()
    }

    /// Runs all `jobs` on this thread and the pool's, and returns their results in order. A panic
    /// in a job is resumed here.
    pub fn run<T: Send + 'static>(&self, jobs: Vec<Box<dyn FnOnce() -> T + Send>>) -> Vec<T> {
        let results: Arc<Mutex<Vec<Option<thread::Result<T>>>>> =
            Arc::new(Mutex::new(jobs.iter().map(|_| None).collect()));
        let finished = Arc::new((Mutex::new(0usize), Condvar::new()));
        let count = jobs.len();
        {
            let mut state = self.shared.state.lock().unwrap();
            for (index, job) in jobs.into_iter().enumerate() {
                let (results, finished) = (results.clone(), finished.clone());
                state.tasks.push_back(Box::new(move || {
                    let result = panic::catch_unwind(panic::AssertUnwindSafe(job));
                    results.lock().unwrap()[index] = Some(result);
                    *finished.0.lock().unwrap() += 1;
                    finished.1.notify_all();
                }));
            }
        }
        self.shared.more.notify_all();
        while let Some(task) = self.shared.take_now() {
            task();
        }
        let mut done = finished.0.lock().unwrap();
        while *done < count {
            done = finished.1.wait(done).unwrap();
        }
        drop(done);
        let mut results = results.lock().unwrap();
        let unwrap = |result: Option<thread::Result<T>>| match result {
            Some(Ok(value)) => value,
            Some(Err(panicked)) => panic::resume_unwind(panicked),
            None => unreachable!("every task leaves a result"),
        };
        results.drain(..).map(unwrap).collect()
    }

    /// Queues a task for a thread of the pool and ignores its outcome. The task is dropped if the
    /// pool has no threads or is closed.
    pub fn spawn(&self, task: Task) {
        let mut state = self.shared.state.lock().unwrap();
        if state.closed || self.is_empty {
            return;
        }
        let caught = move || drop(panic::catch_unwind(panic::AssertUnwindSafe(task)));
        state.tasks.push_back(Box::new(caught));
        drop(state);
        self.shared.more.notify_one();
    }

    /// Ends the threads once the queue is empty.
    pub fn close(&self) {
        self.shared.state.lock().unwrap().closed = true;
        self.shared.more.notify_all();
        for thread in self.threads.lock().unwrap().drain(..) {
            // A task's panic was already passed to its submitter.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn take_now(&self) -> Option<Task> {
        self.state.lock().unwrap().tasks.pop_front()
    }

    fn work(&self) {
        loop {
            let mut state = self.state.lock().unwrap();
            let task = loop {
                if let Some(task) = state.tasks.pop_front() {
                    break task;
                }
                if state.closed {
                    return;
                }
                state = self.more.wait(state).unwrap();
            };
            drop(state);
            task();
        }
    }
}

impl Drop for TaskPool {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
