//! The n-th call fails; the device lies; the disk is full (RELIABILITY §4.2).

use frond_testkit::{
    DbEngine,
    campaign::{FaultPlan, FullReport, fail_each_call, fill_the_disk, hold},
    effort,
    ops::{Op, Swarm, generate},
};

fn script(seed: u64, length: usize) -> Vec<Op> {
    generate(seed, &DbEngine::able(Swarm::thrown(seed, length)).without_restarts())
}

/// EIO, short transfers and three kinds of failing syncs at every call, of the run and of the
/// recovery after it: an error, never a lie, and nothing is written after it. Promise: P6, P11, P12.
#[test]
fn every_failing_call_is_an_error() {
    for seed in effort::seeds(2) {
        let engine = DbEngine::thrown(seed);
        let report = hold("faults", seed, &script(seed, 6), |script| {
            fail_each_call(&engine, script, seed, &FaultPlan::default())
        });
        println!("seed {seed}: {report}");
        assert_eq!(report.percent_tried(), 100, "a call never failed");
        assert!(report.struck > 100 && report.reported > 50);
    }
}

/// Lost, misdirected and torn writes, stale reads and flipped bits: no wrong row. Promise: P8, P9.
#[test]
fn a_lying_device_yields_no_wrong_row() {
    for seed in effort::seeds(4) {
        let engine = DbEngine::thrown(seed);
        let report = hold("silent", seed, &script(seed, 20), |script| {
            fail_each_call(&engine, script, seed, &FaultPlan::silent())
        });
        println!("seed {seed}: {report}");
    }
}

/// Disks of every size: statements are refused, reads go on, and when the space is back so is the
/// service, without a restart. Promise: P13.
#[test]
fn a_full_disk_refuses_and_recovers() {
    let mut refused = 0;
    for seed in effort::seeds(12) {
        let engine = DbEngine::thrown(seed);
        let report: FullReport = hold("full", seed, &script(seed, 60), |script| {
            fill_the_disk(&engine, script, seed, 64 << 10)
        });
        refused += report.refused;
    }
    println!("{refused} statements refused");
    assert!(refused > 0);
}
