//! Damage anywhere in a closed store gives an error or the right rows, never a wrong one
//! (docs/safety.md: P9, P20).

use frond_testkit::{
    DbEngine,
    campaign::{SweepPlan, SweepReport, closed_store, sweep_damage},
    drive::Failure,
    effort,
    ops::{Swarm, generate},
};

/// The amount of damage; `FROND_EFFORT` multiplies it. A failed open still writes the owner page
/// and a slot, so `untouched` cannot be asserted yet.
fn plan() -> SweepPlan {
    let more = effort::factor();
    SweepPlan {
        bits: 300 * more,
        every_bit_of_first: 16,
        zeroed: 60 * more,
        swapped: 60 * more,
        stale: 60 * more,
        cut: 20 * more,
        untouched: false,
    }
}

fn sweep(seed: u64) -> Result<SweepReport, Failure> {
    let engine = DbEngine::random(seed);
    let script = |seed, length| {
        generate(seed, &DbEngine::with_long_values(Swarm::random(seed, length)).without_restarts())
    };
    let (disk, older, model) =
        closed_store(&engine, &script(seed, 100), &script(seed + 1, 50), seed)?;
    sweep_damage(&engine, &disk, &older, &model, seed, &plan())
}

/// Bits, zeroed sectors and pages, swapped and copied pages, stale pages, cut files. Promise: P9,
/// P19, P20.
#[test]
fn damage_is_reported_or_harmless() {
    for seed in effort::seeds(3) {
        let report = sweep(seed).unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        println!("seed {seed}: {report}");
        assert!(report.refused + report.found > 0);
    }
}
