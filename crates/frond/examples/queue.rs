//! A job queue: several workers take jobs, none twice, and none waits for another.
//!
//! `cargo run -p frond-db --example queue [DIRECTORY]`; each run adds jobs and does all that there
//! are.

use std::path::{Path, PathBuf};

use frond::{Db, IfLocked, Options, ReadOptions, RowLock, Tree};

const JOBS: u64 = 200;
const WORKERS: usize = 4;

fn main() -> frond::Result<()> {
    let default = std::env::temp_dir().join("frond-queue");
    run(&std::env::args_os().nth(1).map_or(default, PathBuf::from))
}

pub fn run(dir: &Path) -> frond::Result<()> {
    let db = Db::open(dir, Options::new().cache_size(64 << 20))?;
    let jobs = db.tree("jobs", Default::default())?;

    // `reserve` gives out numbers, each once, also after a crash.
    let numbers = jobs.reserve(0, 1, JOBS)?;
    db.transact(|txn| {
        numbers
            .clone()
            .try_for_each(|number| txn.put(&jobs, number.to_be_bytes(), format!("job {number}")))
    })?;
    println!("{JOBS} jobs added, the first has number {}", numbers.start);

    let done = std::thread::scope(|scope| {
        let work = || work(&db, &jobs);
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(work)).collect();
        let done = workers.into_iter().map(|worker| worker.join().expect("no panic"));
        done.collect::<frond::Result<Vec<_>>>()
    })?;
    println!("jobs done by each of {WORKERS} workers: {done:?}");
    assert!(done.iter().sum::<u64>() >= JOBS);
    assert_eq!(jobs.range(..).count(), 0);
    db.close()
}

/// Does jobs until there are no more; returns how many it did.
fn work(db: &Db, jobs: &Tree) -> frond::Result<u64> {
    let mut done = 0;
    loop {
        let found = db.transact(|txn| {
            // As SELECT ... FOR UPDATE SKIP LOCKED LIMIT 1: the first job that no other worker has.
            let job = {
                let free = ReadOptions::new().lock(RowLock::Exclusive);
                let free = free.if_locked(IfLocked::SkipLocked);
                let mut queue = txn.scan_with(jobs, .., &free)?;
                queue.next()?.map(|(number, job)| (number.to_vec(), job.to_vec()))
            };
            let Some((number, job)) = job else { return Ok(false) };
            // If the worker dies here, the transaction is rolled back, and another takes the job.
            std::hint::black_box(job);
            txn.delete(jobs, &number)?;
            Ok(true)
        })?;
        match found {
            true => done += 1,
            false => return Ok(done),
        }
    }
}
