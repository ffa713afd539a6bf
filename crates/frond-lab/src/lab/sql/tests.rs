//! Tests of what a bench measures, on real servers.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{Bench, Conditions, InsertText, Place};
use crate::lab::machine::class;
use crate::lab::results::StepResult;
use crate::lab::size::Durability;
use crate::lab::step::Step;
use crate::lab::target::SqlTarget;
use crate::measure::thread_cpu_s;
use crate::targets::Result;

const ROWS: u64 = 4_000;
const ROW_BYTES: u64 = 1_000;

fn start(
    target: &str,
    time_limit: Option<u64>,
    with_rest: bool,
) -> Result<(Bench, tempfile::TempDir)> {
    let (dir, class) = (tempfile::tempdir()?, class::find("host")?);
    let conditions = Conditions {
        disk: None,
        memory: 64 << 20,
        durability: Durability::Relaxed,
        class: &class,
        time_limit,
        with_rest,
        sample_every: Duration::from_secs(10),
        with_crash: false,
    };
    let place = Place::Own(dir.path().to_owned());
    Ok((Bench::start(&place, &SqlTarget::find(target)?, &conditions)?, dir))
}

fn load(bench: &mut Bench) -> Result<()> {
    bench.create("t(id INT PRIMARY KEY, v INT, c VARCHAR(1000))", "")?;
    bench.step(&Step::load("load", ROWS, ROW_BYTES), |worker| {
        let mut insert = InsertText::new("INSERT INTO t VALUES");
        let mut random = crate::random::Random::new(5);
        for id in 0..ROWS {
            let letters = (0..992).map(|_| char::from(b'a' + random.below(26) as u8));
            insert.row().plain(id).plain(0).simple(&letters.collect::<String>());
        }
        worker.insert("commit", &mut insert).map(drop)
    })?;
    bench.loaded((ROWS, ROWS * ROW_BYTES))
}

fn metric(step: &StepResult, name: &str) -> f64 {
    step.metrics.get(name).copied().unwrap_or_else(|| panic!("no {name}: {:?}", step.metrics))
}

fn sources(bench: &Bench) -> BTreeSet<String> {
    let samples = bench.result.steps.iter().flat_map(|step| &step.counters);
    samples.map(|sample| sample.source.clone()).collect()
}

#[test]
fn sql_sizes_are_of_the_rows_that_all_targets_have() -> Result<()> {
    let (mut bench, _dir) = start("frond", None, true)?;
    load(&mut bench)?;
    let loaded = bench.result.steps[0].clone();
    let size = metric(&loaded, "disk_b");
    assert!(size > (ROWS * ROW_BYTES) as f64 / 3.0, "random letters take 4.7 bits: {size}");
    assert_eq!(metric(&loaded, "disk_b_row"), size / ROWS as f64);
    assert!(metric(&loaded, "log_b") > 0.0 && metric(&loaded, "write_amp") > 0.0);
    assert!(metric(&loaded, "sampling_pct") < 1.0, "{:?}", loaded.metrics);

    // Neither the warm-up nor the preparation of clients is measured.
    let (requests, prepared) = (AtomicU64::new(0), AtomicU64::new(0));
    let step = Step { writes: true, ..Step::timed("update", 0.2, 0.2, 2) };
    bench.step_prepared(
        &step,
        |_, session, connect| {
            prepared.fetch_add(1, Ordering::Relaxed);
            connect()?.run("DO 1")?;
            Ok(session.prepare("UPDATE t SET v=v+1 WHERE id=?")?)
        },
        |worker, statement| {
            while worker.go_on() {
                let mut changed = 0;
                worker.request("update", 1, |session| {
                    changed = session.execute(&statement, (7 + worker_number(&requests),))?;
                    Ok(())
                })?;
                worker.changed(changed * ROW_BYTES);
            }
            Ok(())
        },
        &[],
    )?;
    let update = bench.result.steps[1].clone();
    let all = requests.load(Ordering::Relaxed) as f64;
    assert!(metric(&update, "ops") > 0.0 && metric(&update, "ops") < all, "{all}");
    assert!(metric(&update, "warm_up_s") > 0.0 && prepared.load(Ordering::Relaxed) == 4);
    assert!(metric(&update, "changed_b") <= metric(&update, "ops") * ROW_BYTES as f64);
    bench.rest()?;
    assert!(metric(&bench.result.steps[1], "wr_b_op_rested") > 0.0, "charged to what wrote last");
    assert_eq!(metric(&bench.result.steps[0], "rest_s"), metric(&loaded, "rest_s"));

    // The CPU of a client is all that its thread used, including its first request.
    bench.step(&Step::load("spin", 1, 0), |worker| {
        worker.request("spin", 1, |_| {
            let begin = thread_cpu_s();
            while thread_cpu_s() < begin + 0.05 {}
            Ok(())
        })
    })?;
    assert!(metric(&bench.result.steps[2], "client_cpu_us_op") >= 50_000.0);
    assert!(!bench.result.steps[2].metrics.contains_key("write_amp"), "no row was changed");

    for source in
        ["global_status", "engine_status", "frond_cmp", "frond_cmp_per_index", "frond_trees"]
    {
        assert!(sources(&bench).contains(source), "{source} in {:?}", sources(&bench));
    }
    for source in ["proc_io", "proc_status", "proc_stat"] {
        assert!(sources(&bench).contains(source), "{source} in {:?}", sources(&bench));
    }
    // Targets differ in the number of updates they have done, so the final sizes are not of the
    // same rows.
    let result = bench.finish((ROWS, ROWS * ROW_BYTES))?;
    assert!(result.metrics.contains_key("disk_end_b") && result.metrics.contains_key("disk_b_row"));
    assert!(!result.metrics.contains_key("disk_b"), "{:?}", result.metrics);
    Ok(())
}

/// Counts a request, and chooses its row.
fn worker_number(requests: &AtomicU64) -> u64 {
    requests.fetch_add(1, Ordering::Relaxed) % 100
}

#[test]
fn sql_a_step_whose_warm_up_reached_the_time_limit_has_no_metrics() -> Result<()> {
    let (mut bench, _dir) = start("innodb", Some(2), false)?;
    load(&mut bench)?;
    // The warm-up cannot be steady before three of its six intervals are over.
    bench.step(&Step::timed("late", 1.0, 30.0, 1), |worker| {
        while worker.go_on() {
            worker.request("select", 1, |session| session.run("DO SLEEP(0.01)").map(drop))?;
        }
        Ok(())
    })?;
    let late = bench.result.steps.last().expect("a step");
    assert!(late.name == "late" && late.metrics.is_empty(), "{late:?}");
    for source in ["innodb_metrics", "engine_status", "diskstats", "pressure_cpu"] {
        let has = sources(&bench).contains(source);
        let is_missing_here =
            source.starts_with("pressure") && !std::path::Path::new("/proc/pressure").exists();
        assert!(has || is_missing_here, "{source} in {:?}", sources(&bench));
    }
    Ok(())
}

#[test]
fn sql_undo_is_part_of_the_size_and_a_log_is_not() -> Result<()> {
    let (mut bench, _dir) = start("innodb", None, false)?;
    load(&mut bench)?;
    let space = bench.space().expect("a server of ours");
    let (before, files) = (space.bytes(), bench.files().expect("its tables"));
    let of_tables = || crate::measure::allocated_bytes(&files);
    let tables = of_tables();
    let admin = bench.admin();
    admin.run("BEGIN")?;
    for _ in 0..3 {
        admin.run("UPDATE t SET c=REVERSE(c)")?; // 12 MB of undo
    }
    admin.run("COMMIT")?;
    for (name, _) in bench.target.settle_variables.clone() {
        bench.admin().run(&format!("SET GLOBAL {name}=0"))?;
    }
    let grown = (space.bytes() - before) as i64 - (of_tables() as i64 - tables as i64);
    assert!(grown > 8 << 20, "{grown} bytes outside of the tables' files");
    assert!(space.log_bytes() >= 1 << 30, "the redo log is not counted");
    Ok(())
}

#[test]
fn sql_statements_that_write_a_whole_table_run_in_the_bulk_mode_of_myrocks() -> Result<()> {
    let (mut bench, _dir) = start("myrocks", None, false)?;
    load(&mut bench)?;
    let variables = bench.target.bulk_variables.clone();
    let admin = bench.admin();
    admin.run(&format!("SET SESSION rocksdb_max_row_locks={}", ROWS / 2))?;
    let rebuild = "ALTER TABLE t FORCE";
    let error = admin.run(rebuild).expect_err("more rows than it may lock");
    assert!(format!("{error:?}").contains("rocksdb_max_row_locks"), "{error:?}");
    admin.with_variables(&variables, |admin| admin.run(rebuild))?;
    let mode = "SELECT @@rocksdb_bulk_load + @@rocksdb_bulk_load_allow_unsorted";
    assert_eq!(admin.value(mode)?, "0", "the mode is left after the statement");
    let failed = admin.with_variables(&variables, |admin| admin.run("ALTER TABLE none FORCE"));
    assert!(failed.is_err(), "there is no such table");
    assert_eq!(admin.value(mode)?, "0", "and after one that fails");
    assert_eq!(admin.value("SELECT COUNT(*) FROM t")?, ROWS.to_string());
    Ok(())
}
