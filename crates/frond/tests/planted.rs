//! Tests of the tests: each planted bug must be noticed by the test that claims it (docs/safety.md
//! §4.12). Modules prove their own claims; here the campaigns over the whole engine prove theirs,
//! with `--features planted-bugs`. Without that feature there is nothing to plant and only the
//! sources are read.

mod sources;

use std::collections::BTreeSet;

use frond::internals::plant::BUGS;

/// The campaigns in this file.
const CAMPAIGNS: [&str; 15] = [
    "crash",
    "model",
    "transactions",
    "their crashes",
    "scenarios",
    "pages",
    "full",
    "log",
    "slot heals",
    "filled",
    "emptied",
    "occupied",
    "cached",
    "edges",
    "limits",
];

#[test]
fn planted_names_are_listed_placed_and_claimed() {
    let sources = sources::files("crates/frond/src", ".rs");
    let placed: BTreeSet<&str> = sources
        .iter()
        .filter(|source| !source.path.ends_with("/plant.rs"))
        .flat_map(|source| source.text.split("plant!(\"").skip(1))
        .filter_map(|rest| rest.split('"').next())
        .collect();
    let mut wrong = Vec::new();
    for name in &placed {
        if !BUGS.iter().any(|bug| bug.name == *name) {
            wrong.push(format!("planted, but not in BUGS: {name}"));
        }
    }
    for bug in BUGS {
        if !placed.contains(bug.name) {
            wrong.push(format!("in BUGS, but not planted: {}", bug.name));
        }
        let claimed = format!("\"{}\" =>", bug.name);
        let is_claimed = CAMPAIGNS.contains(&bug.caught_by)
            || sources.iter().any(|source| source.text.contains(&claimed));
        if !is_claimed {
            wrong.push(format!(
                "{} is claimed by {}, which does not check for it",
                bug.name, bug.caught_by
            ));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[cfg(feature = "planted-bugs")]
#[path = "planted/scenarios.rs"]
mod scenarios;

#[cfg(feature = "planted-bugs")]
mod armed {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::scenarios;
    use frond::{
        Db, Durability, Isolation, Options,
        internals::{
            io::{Env, Workers},
            plant,
        },
    };
    use frond_testkit::{
        DbEngine,
        campaign::{
            CachedPlan, CrashPlan, Decay, FilledPlan, HealPlan, OccupiedPlan, bound_the_log,
            break_pages, crash_everywhere, edge_engine, empty_in_one_batch, fill_and_reopen,
            fill_the_disk, fill_the_map, forget_the_cache, heal_everywhere, model_run,
            occupied_engine, open_occupied, reach_bound, tunable, wear_edges, with_growing_values,
        },
        disk::{CrashOptions, SimVfs},
        drive::Failure,
        effort,
        history::{Recorder, Workload},
        ops::{Op, Swarm, Wear, generate, worn_edges},
    };

    const LEVELS: [Durability; 3] = [Durability::Sync, Durability::Os, Durability::Lazy];
    /// The most scripts that a campaign may need to notice a bug.
    const SEEDS: u64 = 24;

    fn crash(seed: u64) -> Result<(), Failure> {
        let script = |seed, length| {
            generate(
                seed,
                &DbEngine::with_long_values(Swarm::random(seed, length)).without_restarts(),
            )
        };
        // One thread, because a bug is armed for one thread.
        let states = CrashOptions::short();
        let plan = CrashPlan { states, threads: 1, nested_one_in: 0, ..CrashPlan::default() };
        let mut ops = script(seed, 12);
        ops.push(Op::Reopen);
        ops.extend(script(seed + 1, 6));
        let engine = DbEngine::tiny(LEVELS[seed as usize % 3]);
        crash_everywhere(&engine, &ops, seed, &plan).map(drop)
    }

    fn model(seed: u64) -> Result<(), Failure> {
        let mut swarm = DbEngine::with_long_values(Swarm::random(seed, 250));
        let mut engine = DbEngine::random(seed);
        if seed % 2 == 1 {
            // Deep trees.
            (swarm.keys, swarm.batch_entries_max, swarm.commit) = (3000, 150, 80);
            engine = DbEngine::tiny(Durability::Lazy);
        }
        model_run(&engine, &generate(seed, &swarm), seed).map(drop)
    }

    /// Transactions under all sizes, some of which are spilled with every row or after a few.
    fn transactions(seed: u64) -> Result<(), Failure> {
        for seed in 4 * seed..4 * seed + 4 {
            let swarm =
                DbEngine::with_long_values(Swarm::random(seed, 300)).with_transactions(seed);
            let swarm = Swarm { rows: 0, ..swarm };
            model_run(&DbEngine::random(seed), &generate(seed, &swarm), seed)?;
        }
        let swarm = DbEngine::with_long_values(Swarm::random(seed, 400)).with_transactions(seed);
        model_run(&small(Durability::Lazy, seed), &generate(seed, &swarm), seed).map(drop)
    }

    fn small(level: Durability, seed: u64) -> DbEngine {
        let mut engine = DbEngine::tiny(level);
        let bytes = [1, 80, 160][seed as usize % 3];
        engine.tuning.limits.iter_mut().for_each(|limits| limits.own_writes_bytes = bytes);
        engine
    }

    fn their_crashes(seed: u64) -> Result<(), Failure> {
        let swarm = DbEngine::with_long_values(Swarm::everything(60)).with_transactions(seed);
        let ops = generate(seed, &swarm.without_restarts());
        let states = CrashOptions::short();
        let plan = CrashPlan { states, threads: 1, nested_one_in: 0, ..CrashPlan::default() };
        crash_everywhere(&small(Durability::Sync, seed), &ops, seed, &plan).map(drop)
    }

    /// Scenarios that no campaign covers; each one passes unless a bug is armed.
    fn scenarios(seed: u64) -> Result<(), Failure> {
        let told = std::panic::catch_unwind(|| scenarios::all(seed));
        told.map_err(|_| Failure("a scenario failed".into()))
    }

    #[test]
    fn scenarios_hold_without_planted_bugs() {
        scenarios::all(0);
    }

    #[test]
    fn planted_bugs_that_scenarios_show() {
        assert_caught("scenarios", scenarios);
    }

    fn pages(seed: u64) -> Result<(), Failure> {
        break_pages(seed, Decay::Bit, 40)?;
        break_pages(seed, Decay::Sector, 40).map(drop)
    }

    fn edges(seed: u64) -> Result<(), Failure> {
        let script = worn_edges(seed, &Wear { length: 200, rows_max: 120, restarts: true });
        wear_edges(&edge_engine(seed), &script, seed).map(drop)
    }

    #[test]
    fn planted_bugs_that_worn_edges_show() {
        assert_caught("edges", edges);
    }

    /// Tests each bound of the table alone.
    fn limits(seed: u64) -> Result<(), Failure> {
        fill_the_map(seed)?;
        tunable().try_for_each(|bound| reach_bound(bound, seed, 300).map(drop))
    }

    #[test]
    fn planted_bugs_that_tiny_bounds_show() {
        assert_caught("limits", limits);
    }

    fn full(seed: u64) -> Result<(), Failure> {
        let script =
            generate(seed, &DbEngine::with_long_values(Swarm::random(seed, 60)).without_restarts());
        fill_the_disk(&DbEngine::random(seed), &script, seed, 64 << 10).map(drop)
    }

    fn slot_heals(seed: u64) -> Result<(), Failure> {
        let script =
            generate(seed, &DbEngine::with_long_values(Swarm::random(seed, 60)).without_restarts());
        let engine = DbEngine::tiny(Durability::Os);
        heal_everywhere(&engine, &script, seed, &HealPlan::default()).map(drop)
    }

    fn filled(seed: u64) -> Result<(), Failure> {
        fill_and_reopen(seed, &FilledPlan { emptied_one_in: 1, ..FilledPlan::default() }).map(drop)
    }

    fn emptied(seed: u64) -> Result<(), Failure> {
        empty_in_one_batch(Workers::Manual, seed * 500)
    }

    fn occupied(seed: u64) -> Result<(), Failure> {
        let script =
            generate(seed, &DbEngine::with_long_values(Swarm::random(seed, 40)).without_restarts());
        let engine = occupied_engine(small(LEVELS[seed as usize % 3], seed));
        let script = with_growing_values(script, seed);
        open_occupied(&engine, &script, seed, &OccupiedPlan::default()).map(drop)
    }

    fn cached(seed: u64) -> Result<(), Failure> {
        let script =
            generate(seed, &DbEngine::with_long_values(Swarm::random(seed, 20)).without_restarts());
        let engine = DbEngine::tiny(LEVELS[seed as usize % 3]);
        for is_full in [false, true] {
            let plan = CachedPlan { is_full, ..CachedPlan::default() };
            forget_the_cache(&engine, &script, seed, &plan)?;
        }
        Ok(())
    }

    /// Runs threads, each with the bug armed, on a store whose background work these threads do.
    fn history(seed: u64, arm: fn()) -> Vec<String> {
        let vfs = SimVfs::new();
        let tiny = DbEngine::tiny(Durability::Lazy);
        let options = Options::new().cache_size(tiny.cache_bytes).tuning(tiny.tuning);
        let options = options
            .durability(Durability::Lazy)
            .env(Env { clock: Env::real().clock, ..vfs.env(seed) });
        let db = Db::open("/store", options).unwrap();
        let recorder = Recorder::new();
        let levels = [
            Isolation::ReadCommitted,
            Isolation::RepeatableRead,
            Isolation::Snapshot,
            Isolation::Serializable,
        ];
        let workload = Workload { prepare: arm, ..Workload::of(&levels, 400, seed) };
        let has_ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // Rows are applied from memtables while the history runs.
            scope.spawn(|| {
                while !has_ended.load(Ordering::Relaxed) {
                    if !db.step().unwrap() {
                        std::thread::yield_now();
                    }
                }
            });
            recorder.run(&db, &workload).unwrap();
            has_ended.store(true, Ordering::Relaxed);
        });
        assert!(db.stats().get("apply_batches").is_some_and(|count| count > 10));
        let findings = recorder.finish(&db).unwrap().check();
        findings.iter().map(ToString::to_string).collect()
    }

    /// Bugs that only show between threads are noticed by the checker of histories too, not only by
    /// the campaigns that claim them.
    #[test]
    fn planted_bugs_that_histories_show() {
        for seed in effort::seeds(20) {
            let findings = history(seed, || plant::arm(None));
            assert_eq!(findings, Vec::<String>::new(), "seed {seed}, and nothing is planted");
        }
        let bugs: [(&str, fn()); 5] = [
            ("txn: a prepare releases its write locks", || {
                plant::arm(Some("txn: a prepare releases its write locks"));
            }),
            ("txn: rows of trees have never changed", || {
                plant::arm(Some("txn: rows of trees have never changed"));
            }),
            ("txn: the second committer wins", || {
                plant::arm(Some("txn: the second committer wins"));
            }),
            ("txn: batches pass a closed gate", || {
                plant::arm(Some("txn: batches pass a closed gate"));
            }),
            ("locks: an insert passes by gaps", || {
                plant::arm(Some("locks: an insert passes by gaps"));
            }),
        ];
        let mut missed = Vec::new();
        for (bug, arm) in bugs {
            let found = (0..SEEDS).find_map(|seed| {
                // The recorder itself compares rows with their indexes, and panics if they differ.
                let findings = std::panic::catch_unwind(|| history(seed, arm));
                let findings = findings.unwrap_or_else(|panic| {
                    let told = panic.downcast_ref::<String>().cloned();
                    vec![told.unwrap_or_else(|| "a panic".into())]
                });
                findings.into_iter().next().map(|finding| (seed, finding))
            });
            match found {
                Some((seed, finding)) => println!("{bug:<60} history, seed {seed}: {finding:.160}"),
                None => missed.push(bug),
            }
        }
        assert!(missed.is_empty(), "histories do not show:\n{}", missed.join("\n"));
    }

    /// Asserts that a campaign catches its bugs. A bug is armed for one thread, so each thread
    /// takes bugs of its own.
    fn assert_caught(campaign: &str, run: fn(u64) -> Result<(), Failure>) {
        std::panic::set_hook(Box::new(|_| {}));
        let bugs: Vec<_> = plant::BUGS.iter().filter(|bug| bug.caught_by == campaign).collect();
        let next = AtomicUsize::new(0);
        let work = || {
            let mut told = Vec::new();
            while let Some(bug) = bugs.get(next.fetch_add(1, Ordering::Relaxed)) {
                told.push(caught(campaign, bug.name, run));
            }
            told
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(4);
        let told: Vec<Result<String, String>> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
        });
        // Do not print the panics.
        told.iter().for_each(|(Ok(line) | Err(line))| println!("{line}"));
        assert_eq!(told.len(), bugs.len());
        assert!(told.iter().all(Result::is_ok));
    }

    /// Seeds that showed bugs which the first seeds do not show. The search begins with them,
    /// because a seed takes seconds, and continues with all others.
    const SHOWN_BY: [(&str, u64); 5] = [
        ("store: a full disk hides the reserve", 8),
        ("db: a full disk fails a recovery", 2),
        ("db: range deletes are not logged", 7),
        ("load: recovery does not claim what the log names", 5),
        ("load: record before the pages are synced", 5),
    ];

    fn caught(
        campaign: &str,
        bug: &'static str,
        run: fn(u64) -> Result<(), Failure>,
    ) -> Result<String, String> {
        plant::arm(Some(bug));
        let mut met = 0;
        let first = SHOWN_BY.iter().find(|(name, _)| *name == bug).map_or(0, |(_, seed)| *seed);
        let found = (first..SEEDS).chain(0..first).find_map(|seed| {
            let failure = run(seed).err();
            met += plant::met();
            plant::arm(Some(bug));
            failure.map(|failure| (seed, failure.to_string()))
        });
        plant::arm(None);
        let (seed, how) =
            found.ok_or_else(|| format!("{campaign} does not see {bug} (met {met} times)"))?;
        let how = how.lines().next().unwrap_or_default();
        Ok(format!("{bug:<60} {campaign}, seed {seed}: {how:.120}"))
    }

    #[test]
    fn planted_bugs_that_crashes_show() {
        assert_caught("crash", crash);
    }

    #[test]
    fn planted_bugs_that_transactions_show() {
        assert_caught("transactions", transactions);
    }

    #[test]
    fn planted_bugs_that_their_crashes_show() {
        assert_caught("their crashes", their_crashes);
    }

    #[test]
    fn planted_bugs_that_a_long_log_shows() {
        assert_caught("log", bound_the_log);
    }

    #[test]
    fn planted_bugs_that_bad_pages_show() {
        assert_caught("pages", pages);
    }

    #[test]
    fn planted_bugs_that_a_full_disk_shows() {
        assert_caught("full", full);
    }

    #[test]
    fn planted_bugs_that_a_slot_that_heals_shows() {
        assert_caught("slot heals", slot_heals);
    }

    #[test]
    fn planted_bugs_that_a_filled_disk_shows() {
        assert_caught("filled", filled);
    }

    #[test]
    fn planted_bugs_that_an_emptied_disk_shows() {
        assert_caught("emptied", emptied);
    }

    #[test]
    fn planted_bugs_that_a_disk_filled_by_others_shows() {
        assert_caught("occupied", occupied);
    }

    #[test]
    fn planted_bugs_that_a_page_cache_shows() {
        assert_caught("cached", cached);
    }

    #[test]
    fn planted_bugs_that_the_model_shows() {
        assert_caught("model", model);
    }
}
