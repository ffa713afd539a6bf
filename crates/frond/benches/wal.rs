//! Benchmark of the log's cost per record: `cargo bench -p frond-db --bench wal [RECORDS]`.
//!
//! Budgets: 60 ns per 150-byte record in addition to the copy, including building it; replay ≥ 60
//! MB/s.

use std::{
    hint::black_box,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use frond::{
    Durability, Seqno, TreeId,
    backup::StoreId,
    feed::Tag,
    internals::{
        Lsn,
        io::{Env, MemoryVfs, Vfs},
        wal::{Expect, Log, LogOptions, LogUse, RecordBuilder, decode, recover, trailer},
    },
};

fn main() {
    let records = std::env::args().filter_map(|arg| arg.parse().ok()).next().unwrap_or(2_000_000);
    build();
    let memory = Arc::new(MemoryVfs::new());
    let dir = PathBuf::from("bench");
    memory.create_dir(&dir).expect("an empty file system");
    append("memory", Env { vfs: memory, ..Env::real() }, &dir, records);
    let dir = std::env::temp_dir().join(format!("frond-bench-wal-{}", std::process::id()));
    let env = Env::real();
    env.vfs.create_dir(&dir).expect("a new directory");
    append("disk", env.clone(), &dir, records);
    std::fs::remove_dir_all(&dir).expect("the directory made above");
    env.vfs.create_dir(&dir).expect("a new directory");
    sync_commits(env, &dir);
    std::fs::remove_dir_all(&dir).expect("the directory made above");
}

fn report(what: &str, start: Instant, count: usize, unit: &str) {
    let ns = start.elapsed().as_nanos() as f64 / count as f64;
    println!("{what:<52} {ns:>9.1} ns/{unit}");
}

/// Processor time of this thread, ns: meaningful even on a machine that does other work.
fn cpu_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

fn report_cpu(what: &str, start: u64, count: usize, unit: &str) {
    let ns = (cpu_ns() - start) as f64 / count as f64;
    println!("{what:<52} {ns:>9.1} ns/{unit} of processor time");
}

/// Rows of iiBench: 8-byte key, 34-byte value, three indexes of 16, 20 and 24 bytes.
fn build() {
    let rows = 1000u64;
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let mut toss = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let keys: Vec<[u8; 8]> = (0..rows).map(|row| (1_000_000 + row).to_be_bytes()).collect();
    let values: Vec<Vec<u8>> = (0..rows).map(|_| (0..34).map(|_| toss() as u8).collect()).collect();
    let index = |columns: usize, toss: &mut dyn FnMut() -> u64| -> Vec<Vec<u8>> {
        let mut entries: Vec<Vec<u8>> = keys
            .iter()
            .map(|key| {
                let mut entry: Vec<u8> = (0..columns / 4)
                    .flat_map(|_| ((toss() % 100_000) as u32).to_be_bytes())
                    .collect();
                entry.extend_from_slice(key);
                entry
            })
            .collect();
        entries.sort();
        entries
    };
    let indexes: Vec<Vec<Vec<u8>>> = [8, 12, 16].map(|c| index(c, &mut toss)).into();
    let mut builder = RecordBuilder::new();
    for (what, batch) in
        [("build, 1 row with 3 indexes", 1), ("build, 1000 rows with 3 indexes", 1000)]
    {
        let (start, rounds) = (cpu_ns(), 1_000_000 / batch);
        let mut bytes = 0;
        for round in 0..rounds {
            builder.clear();
            let at = if batch == 1 { round % 1000 } else { 0 };
            builder.tree(TreeId(10));
            for (key, value) in keys[at..at + batch].iter().zip(&values[at..]) {
                builder.entry(key, Tag::PUT_FRESH, value);
            }
            for (tree, index) in (11..).zip(&indexes) {
                builder.tree(TreeId(tree));
                if batch == 1 {
                    let mut key = [0u8; 24];
                    let len = index[at].len();
                    key[..len].copy_from_slice(&index[at]);
                    key[len - 8..len].copy_from_slice(&keys[at]);
                    builder.entry(&key[..len], Tag::PUT_FRESH, &[]);
                } else {
                    index.iter().for_each(|key| builder.entry(key, Tag::PUT_FRESH, &[]));
                }
            }
            bytes += black_box(builder.finish()).len();
        }
        report_cpu(what, start, rounds * batch, "row");
        println!("{:<52} {:>9.1} bytes/row", "", bytes as f64 / (rounds * batch) as f64);
    }
    let payload = [builder.finish(), &trailer(Seqno(1))].concat();
    let start = cpu_ns();
    for _ in 0..200 {
        let Ok(frond::internals::wal::Record::Commit { mut items, .. }) = decode(Lsn(0), &payload)
        else {
            panic!("a commit");
        };
        while let Some(item) = items.next().expect("what was built") {
            black_box(item);
        }
    }
    report_cpu("decode, 1000 rows with 3 indexes", start, 200_000, "row");
}

fn append(what: &str, env: Env, dir: &Path, records: usize) {
    let store = StoreId([1; 16]);
    let options = LogOptions::default();
    let log = Log::create(env.clone(), dir, store, Durability::Lazy, options).expect("a new log");
    let done = AtomicBool::new(false);
    let payload = [7u8; 150];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                log.wait_for_work(Duration::from_millis(50));
                log.tick(env.clock.now()).expect("no failure");
            }
        });
        let (start, cpu) = (Instant::now(), cpu_ns());
        for _ in 0..records {
            let reservation = loop {
                match log.try_reserve(payload.len(), LogUse::Rows) {
                    Some(reservation) => break reservation,
                    None => log.wait_for_room(LogUse::Rows).expect("room"),
                }
            };
            log.fill(&reservation, &[&payload]);
            log.wait(&reservation, Durability::Lazy).expect("no failure");
        }
        report_cpu(&format!("append 150 bytes lazily, {what}"), cpu, records, "record");
        report(&format!("append 150 bytes lazily, {what}"), start, records, "record");
        done.store(true, Ordering::Relaxed);
    });
    let end = log.close(false).expect("no failure");
    println!("{:<52} {:?}", "", log.stats());
    let (start, mut count) = (Instant::now(), 0);
    recover(&env, dir, store, Lsn(0), Expect::CleanEnd(end), &mut |_, payload| {
        count += usize::from(!payload.is_empty());
        Ok(())
    })
    .expect("a clean log");
    let rate = end.0 as f64 / start.elapsed().as_secs_f64() / 1e6;
    println!("{:<52} {rate:>9.0} MB/s, {count} records", format!("recover, {what}"));
}

fn sync_commits(env: Env, dir: &Path) {
    let store = StoreId([1; 16]);
    let options = LogOptions::default();
    let log = Log::create(env, dir, store, Durability::Sync, options).expect("a new log");
    for threads in [1, 8, 32] {
        let (start, each) = (Instant::now(), 1600 / threads);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    for _ in 0..each {
                        let reservation = log.try_reserve(150, LogUse::Rows).expect("room");
                        log.fill(&reservation, &[&[7u8; 150]]);
                        log.wait(&reservation, Durability::Sync).expect("no failure");
                    }
                });
            }
        });
        report(&format!("commit synced, {threads} threads"), start, threads * each, "commit");
    }
}
