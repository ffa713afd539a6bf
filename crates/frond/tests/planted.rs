//! The tests tested: each planted bug must be noticed by a campaign (RELIABILITY §4.12). Runs with
//! `--features planted-bugs`; without it there is nothing to plant and only the sources are read.

use std::path::Path;

use frond::plant::BUGS;

/// Every planted name is in the list; says which of the list wait for their place.
#[test]
fn planted_names_are_listed() {
    let mut sources = String::new();
    read_sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut sources);
    let planted: Vec<&str> = sources
        .split("plant!(\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .filter(|name| name.contains(": "))
        .collect();
    for name in &planted {
        assert!(BUGS.iter().any(|bug| bug.name == *name), "planted, but not in BUGS: {name}");
    }
    for bug in BUGS.iter().filter(|bug| !planted.contains(&bug.name)) {
        println!("waits for its place: {} ({})", bug.name, bug.place);
    }
}

fn read_sources(dir: &Path, into: &mut String) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read_sources(&path, into);
        } else if path.file_name().is_some_and(|name| name != "plant.rs") {
            into.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
}

#[cfg(feature = "planted-bugs")]
mod armed {
    use frond::{Durability, plant};
    use frond_testkit::{
        DbEngine,
        campaign::{
            CrashPlan, FaultPlan, SweepPlan, closed_store, crash_everywhere, fail_each_call,
            model_run, sweep_damage,
        },
        drive::Failure,
        ops::{Op, Swarm, generate},
    };

    const LEVELS: [Durability; 3] = [Durability::Sync, Durability::Os, Durability::Lazy];

    fn script(seed: u64, length: usize) -> Vec<Op> {
        generate(seed, &DbEngine::able(Swarm::thrown(seed, length)).without_restarts())
    }

    fn crash(seed: u64) -> Result<(), Failure> {
        // One thread: what is armed is armed for this thread.
        let plan = CrashPlan { threads: 1, nested_one_in: 0, ..CrashPlan::default() };
        let mut ops = script(seed, 20);
        ops.push(Op::Reopen);
        ops.extend(script(seed + 1, 8));
        let engine = DbEngine::tiny(LEVELS[seed as usize % 3]);
        crash_everywhere(&engine, &ops, seed, &plan).map(drop)
    }

    fn model(seed: u64) -> Result<(), Failure> {
        let ops = generate(seed, &DbEngine::able(Swarm::thrown(seed, 250)));
        model_run(&DbEngine::thrown(seed), &ops, seed).map(drop)
    }

    fn faults(seed: u64) -> Result<(), Failure> {
        let plan = FaultPlan { stride: 2, ..FaultPlan::default() };
        let engine = DbEngine::tiny(LEVELS[seed as usize % 3]);
        fail_each_call(&engine, &script(seed, 12), seed, &plan).map(drop)
    }

    fn damage(seed: u64) -> Result<(), Failure> {
        let engine = DbEngine::tiny(Durability::Sync);
        let (disk, older, model) =
            closed_store(&engine, &script(seed, 60), &script(seed + 1, 30), seed)?;
        let plan = SweepPlan {
            bits: 400,
            every_bit_of_first: 0,
            zeroed: 100,
            swapped: 100,
            stale: 100,
            cut: 10,
            untouched: false,
        };
        sweep_damage(&engine, &disk, &older, &model, seed, &plan).map(drop)
    }

    type Campaign = fn(u64) -> Result<(), Failure>;

    /// Each bug that has its place, by the campaign that claims it first and then by the others.
    /// `FROND_BUG` chooses some by a part of their name.
    #[test]
    #[ignore = "minutes a bug: `make torture` runs it"]
    fn every_planted_bug_is_caught() {
        let wanted = std::env::var("FROND_BUG").unwrap_or_default();
        let (mut caught, mut missed) = (0, Vec::new());
        for bug in plant::BUGS.iter().filter(|bug| bug.name.contains(&wanted)) {
            let mut campaigns: Vec<(&str, Campaign)> = vec![
                ("crash", crash),
                ("model", model),
                ("faults", faults),
                ("corruption", damage),
            ];
            campaigns.sort_by_key(|(name, _)| *name != bug.caught_by);
            plant::arm(Some(bug.name));
            let mut met = 0;
            let found = campaigns.iter().find_map(|(name, campaign)| {
                (0..12).find_map(|seed| {
                    let failure = campaign(seed).err()?;
                    Some(format!("{name}, seed {seed}: {failure}"))
                })
            });
            met += plant::met();
            plant::arm(None);
            match found {
                Some(how) => {
                    caught += 1;
                    println!("caught: {} by {}", bug.name, how.lines().next().unwrap_or_default());
                }
                None if met == 0 => println!("not reached: {}", bug.name),
                None => missed.push(bug.name),
            }
        }
        println!("{caught} caught, {} missed: {missed:?}", missed.len());
        assert!(missed.is_empty());
    }
}
