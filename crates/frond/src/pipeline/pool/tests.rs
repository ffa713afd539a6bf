//! Tests of the task pool.

use super::*;
use crate::sync::{AtomicUsize, Ordering};

fn jobs(count: usize, ran: &Arc<AtomicUsize>) -> Vec<Box<dyn FnOnce() -> usize + Send>> {
    let job = |index| -> Box<dyn FnOnce() -> usize + Send> {
        let ran = ran.clone();
        Box::new(move || {
            ran.fetch_add(1, Ordering::Relaxed);
            index * index
        })
    };
    (0..count).map(job).collect()
}

#[test]
fn results_come_in_the_order_of_the_jobs_with_threads_and_without() {
    for threads in [0, 3] {
        let pool = TaskPool::new(threads);
        let ran = Arc::new(AtomicUsize::new(0));
        for _ in 0..20 {
            let results = pool.run(jobs(30, &ran));
            assert_eq!(results, (0..30).map(|index| index * index).collect::<Vec<_>>());
        }
        assert_eq!(ran.load(Ordering::Relaxed), 600, "each ran once");
        assert_eq!(pool.threads(), threads);
        pool.close();
        assert_eq!(pool.threads(), 0);
        assert_eq!(pool.run(jobs(2, &ran)), [0, 1], "submitters work alone after the close");
    }
}

/// Promise: P16. A panic in a job reaches its submitter, and nothing else.
#[test]
fn a_panic_in_a_job_reaches_its_submitter_and_the_pool_goes_on() {
    let pool = TaskPool::new(2);
    let ran = Arc::new(AtomicUsize::new(0));
    let mut bad = jobs(6, &ran);
    bad.insert(3, Box::new(|| panic!("a planted panic")));
    let outcome = panic::catch_unwind(panic::AssertUnwindSafe(|| pool.run(bad)));
    assert!(outcome.is_err());
    assert_eq!(ran.load(Ordering::Relaxed), 6, "the others are done");
    assert_eq!(pool.run(jobs(3, &ran)), [0, 1, 4]);
}
