//! A sample database that resembles runs of the lab, with invented values, for tests of whole
//! pages, also in a browser. It contains failed, stopped and noisy cells, targets with one repeat,
//! and names that are hostile to HTML.

use super::testing::{Filling, Lab};

const SQL: &[(&str, f64)] = &[
    ("frond", 3.6),
    ("frond-fast", 4.1),
    ("frond-small", 2.7),
    ("innodb", 1.0),
    ("innodb-8k", 0.7),
    ("innodb-4k", 0.45),
    ("innodb-2k", 0.3),
    ("innodb-lz4", 0.8),
    ("innodb-cb", 1.4),
    ("myrocks", 2.2),
    ("blackhole", 9.0),
];
const EMBEDDED: &[(&str, f64)] = &[
    ("frond", 1.3),
    ("frond@1a2b3c4", 1.2),
    ("rocksdb", 1.0),
    ("sqlite", 0.3),
    ("lmdb", 0.8),
    ("tidesdb", 1.5),
    ("null", 20.0),
];

/// A generator of deterministic noise of up to ±`share`.
struct Noise(u64);

impl Noise {
    fn around(&mut self, value: f64, share: f64) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let unit = (self.0 >> 11) as f64 / (1_u64 << 53) as f64;
        value * (1.0 + share * (2.0 * unit - 1.0))
    }
}

/// Size of a target relative to InnoDB.
fn density(target: &str) -> f64 {
    match target {
        "frond" => 0.34,
        "frond-fast" => 0.48,
        "frond-small" => 0.22,
        "innodb-8k" => 0.53,
        "innodb-4k" => 0.5,
        "innodb-2k" => 0.47,
        "innodb-lz4" => 0.66,
        "myrocks" => 0.31,
        "blackhole" | "null" => 0.0001,
        "lmdb" => 1.6,
        "sqlite" => 1.2,
        _ => 1.0,
    }
}

/// Adds the metrics that each step has; `rate` is in operations per second.
fn step(cell: &Filling<'_>, name: &str, rate: f64, target: &str, noise: &mut Noise) {
    let us = 1e6 / rate;
    let p99 = noise.around(us * 6.0, 0.1);
    cell.metrics(
        name,
        &[
            ("ops_s", noise.around(rate, 0.03)),
            ("ops", 2_500_000.0),
            ("p50_us", us * 0.8),
            ("p95_us", us * 2.5),
            ("p99_us", p99),
            ("p999_us", p99 * 8.0),
            ("max_us", p99 * 60.0),
            ("worst_over_mean", 0.4),
            ("stall_s", if target == "myrocks" { 3.0 } else { 0.0 }),
            ("stall_longest_s", if target == "myrocks" { 2.0 } else { 0.0 }),
            ("cpu_us_op", noise.around(us * 0.7, 0.01)),
            ("cpu_user_us_op", us * 0.5),
            ("cpu_sys_us_op", us * 0.2),
            ("client_cpu_us_op", 1.2),
            ("wr_b_op", noise.around(900.0 * density(target) + 40.0, 0.01)),
            ("rd_b_op", noise.around(300.0 * density(target), 0.01)),
            ("write_amp", 12.0 * density(target) + 1.0),
            ("fsync_op", 0.001),
            ("rss_peak_b", noise.around(235e6, 0.04)),
            ("mem_peak_b", 262e6),
        ],
    );
}

fn size(cell: &Filling<'_>, bytes: f64, target: &str, noise: &mut Noise) {
    let bytes = noise.around(bytes * density(target), 0.003).max(4096.0);
    cell.metrics(
        "",
        &[
            ("disk_b", bytes),
            ("disk_load_b", bytes * 1.1),
            ("disk_peak_b", bytes * 1.4),
            ("disk_b_row", bytes / 2.5e6),
            ("space_amp", bytes / 1.1e8),
        ],
    );
}

/// Operations done so far at each second, for a rate that falls to `exit` of the initial one.
fn done(rate: f64, exit: f64, rows: f64, noise: &mut Noise) -> Vec<f64> {
    let mut done = vec![0.0];
    let mut sum = 0.0;
    while sum < rows && done.len() < 900 {
        let share = 1.0 - (1.0 - exit) * (sum / rows).powf(0.5);
        let stalls = done.len() % 97 == 96;
        sum += if stalls { 0.0 } else { noise.around(rate * share, 0.25) };
        done.push(sum.min(rows));
    }
    done
}

/// Fills a database with the sample.
pub fn fill(lab: &mut Lab) {
    let mut noise = Noise(7);
    lab.run("0ldrun00", "iibench", "standard", "safe");
    lab.cell("sql", "iibench", "", "frond", 1).metric("load", "exit_velocity", 1.0);

    lab.run("5a3f90c1", "iibench-2011", "standard", "safe");
    for repeat in 1..=3 {
        for (target, speed) in SQL {
            let cell = lab.cell("sql", "iibench", "", target, repeat);
            let exit =
                if target.starts_with("frond") || *target == "blackhole" { 0.7 } else { 0.12 };
            let rate = 9000.0 * speed.powf(0.4);
            step(&cell, "load", rate, target, &mut noise);
            cell.metrics(
                "load",
                &[
                    ("exit_velocity", noise.around(rate * exit, 0.02)),
                    ("exit_velocity_4pct", noise.around(rate * exit * 0.95, 0.02)),
                    ("planned", 2.5e6),
                ],
            );
            cell.series("load", "ops", done(rate, exit, 2.5e6, &mut noise));
            cell.histogram("load", "commit", &[90_000, 120_000, 9_000_000, 44_000_000]);
            size(&cell, 3.5e8, target, &mut noise);
            cell.conditions(("rows", "2500000"), ("innodb_flush_method", "O_DIRECT"), true);
            if *target == "innodb-4k" {
                cell.state("stopped", None, None);
            }
        }
    }
    let log = "2026-11-20 8:01:13 0 [Note] Plugin 'FROND' starts\n\
               2026-11-20 8:03:44 0 [ERROR] </pre><script>alert(1)</script> mysqld got signal 6";
    lab.run("77aa01fe", "sysbench", "standard", "safe");
    for repeat in 1..=3 {
        for (target, speed) in SQL {
            let cell = lab.cell("sql", "sysbench", "", target, repeat);
            if *target == "myrocks" {
                cell.state(
                    "failed",
                    Some("the server did not start: plugin ha_rocksdb is not installed"),
                    Some(log),
                );
                continue;
            }
            step(&cell, "load", 60_000.0 * speed, target, &mut noise);
            for (name, rate, gain) in [
                ("point_select", 21_000.0, -0.15),
                ("read_only", 1_300.0, -0.2),
                ("read_write", 700.0, 0.1),
                ("update_index", 2_400.0, 0.8),
            ] {
                step(&cell, name, rate * f64::powf(*speed, gain), target, &mut noise);
                cell.series(
                    name,
                    "ops",
                    done(rate * speed.powf(gain), 0.95, rate * 30.0, &mut noise),
                );
                cell.histogram(name, name, &[300_000, 410_000, 800_000, 20_000_000]);
            }
            size(&cell, 4.7e8, target, &mut noise);
            cell.conditions(
                ("rows", "2000000"),
                ("frond_cache_size", "1288490188"),
                *target != "innodb-lz4",
            );
        }
    }
    for (target, speed) in SQL {
        let cell = lab.cell("sql", "sweep", "test=read_write", target, 1);
        for at in 0..10 {
            let clients = f64::from(1 << at);
            let rate = 260.0 * f64::powf(*speed, 0.3) * clients.min(8.0) / (1.0 + clients / 700.0);
            step(&cell, &format!("read_write threads={clients}"), rate, target, &mut noise);
        }
    }
    linkbench(lab, &mut noise);
    zip(lab, &mut noise);
    slow_disk(lab, &mut noise);
    uncharted(lab, &mut noise);
    embedded(lab, &mut noise);
    hostile(lab);
}

fn linkbench(lab: &mut Lab, noise: &mut Noise) {
    lab.run("c4d20b77", "linkbench-2015", "standard", "safe");
    for repeat in 1..=2 {
        for (target, speed) in SQL.iter().filter(|(target, _)| *target != "blackhole") {
            let cell = lab.cell("sql", "linkbench", "", target, repeat);
            let rate = 11_000.0 * f64::powf(*speed, 0.35);
            step(&cell, "load", rate * 7.0, target, noise);
            step(&cell, "requests", rate, target, noise);
            let ops = done(rate, 0.9, rate * 360.0, noise);
            cell.series("requests", "add_link", ops.iter().map(|ops| ops * 0.0899));
            cell.series("requests", "cpu_s", (0..ops.len()).map(|t| t as f64 * 1.3));
            cell.series("requests", "ops", ops);
            cell.histogram("requests", "ADD_LINK", &[800_000, 1_200_000, 30_000_000]);
            cell.histogram("requests", "GET_LINKS_LIST", &[200_000, 250_000, 9_000_000]);
            size(&cell, 1.2e9, target, noise);
        }
    }
    for repeat in 1..=3 {
        for (target, speed) in SQL {
            let cell = lab.cell("sql", "weblog", "poll=0.25", target, repeat);
            step(&cell, "load", 14_000.0 * f64::powf(*speed, 0.5), target, noise);
            cell.metric("load", "seconds", 350.0 / f64::powf(*speed, 0.5));
            size(&cell, 2.1e9, target, noise);
        }
    }
}

/// Adds a rebuild with the counters of compressed pages and the lengths of tables.
fn zip(lab: &mut Lab, noise: &mut Noise) {
    lab.run("21b21b21", "zip-levels-2016", "standard", "safe");
    for (target, speed) in SQL.iter().filter(|(target, _)| *target != "blackhole") {
        for (workload, name) in [("zip", "rebuild"), ("rowformats", "load")] {
            let cell = lab.cell("sql", workload, "", target, 1);
            step(&cell, name, 20_000.0 * f64::powf(*speed, 0.5), target, noise);
            cell.metrics(
                name,
                &[("data_length_b", 9e8 * density(target)), ("index_length_b", 6e7)],
            );
            cell.metric(name, "seconds", 60.0);
            cell.series(name, "cpu_s", (0..60).map(|t| f64::from(t) * 0.9));
            let is_compressed = ["innodb-8k", "innodb-4k", "innodb-2k"].contains(target);
            let ops = if is_compressed { 446_198.0 } else { 0.0 };
            cell.metrics(
                name,
                &[
                    ("compress_ops", ops),
                    ("compress_ops_ok", ops * 0.93),
                    ("compress_s", ops / 6e3),
                ],
            );
            if is_compressed {
                cell.metrics(
                    name,
                    &[
                        ("compress_failed_pct", 7.0),
                        ("compress_us_page", noise.around(150.0, 0.2)),
                        ("uncompress_us_page", 31.0),
                        ("uncompress_ops", 300.0),
                        ("compress_too_short", 1.0),
                        ("uncompress_too_short", 1.0),
                    ],
                );
            }
            size(&cell, 9e8, target, noise);
            counters(&cell, name, target, ops);
        }
    }
}

/// Adds counters that were sampled every 10 s.
fn counters(cell: &Filling<'_>, step: &str, target: &str, ops: f64) {
    let (misses, level) = match target {
        _ if target.starts_with("frond") => ("Frond_cache_misses", "Frond_memtables_bytes"),
        "myrocks" => ("Rocksdb_block_cache_miss", "Rocksdb_memtable_unflushed"),
        _ => ("Innodb_buffer_pool_reads", "Innodb_buffer_pool_bytes_dirty"),
    };
    for at in 0..=6 {
        let (t, part) = (f64::from(at) * 10.0, f64::from(at) / 6.0);
        let status = |name: &str, value: f64| {
            cell.counter(step, t, "global_status", name, value);
        };
        status("Uptime", t + 5.0);
        status(misses, 90_000.0 * part * part * density(target));
        status(level, 30e6 * (part * (1.5 - part)));
        if target.starts_with("frond") {
            status("Frond_zip_zstd1_compressed_primary", 80_000.0 * part);
            status("Frond_zip_zstd1_compressed_secondary", 9_000.0 * part);
        } else if ops > 0.0 {
            cell.counter(step, t, "innodb_cmp", "8192 B.compress_ops", ops * part);
            cell.counter(step, t, "innodb_cmp", "8192 B.compress_ops_ok", ops * part * 0.93);
        }
    }
}

/// Adds a study on a slow disk of its own.
fn slow_disk(lab: &mut Lab, noise: &mut Noise) {
    lab.run("5d5d5d5d", "iibench-2011-hdd", "standard", "safe");
    lab.change_run("class='hdd'");
    lab.environment("disk", "virtual");
    for repeat in 1..=3 {
        for (target, speed) in [("innodb", 1.0), ("innodb-4k", 0.5), ("frond", 9.0)] {
            let cell = lab.cell("sql", "iibench", "", target, repeat);
            step(&cell, "load", 700.0 * speed, target, noise);
            cell.metric("load", "exit_velocity", noise.around(90.0 * speed, 0.02));
            cell.metric("", "disk_cpu_s", 4.0);
            size(&cell, 3.5e8, target, noise);
        }
    }
}

/// Adds what no chart shows: a run of size tiny, and targets that were throttled only in part.
fn uncharted(lab: &mut Lab, noise: &mut Noise) {
    lab.run("71117111", "iibench-2011", "tiny", "safe");
    for target in ["innodb", "frond"] {
        step(&lab.cell("sql", "iibench", "", target, 1), "load", 9000.0, target, noise);
    }
    lab.run("4dd04dd0", "linkbench", "standard", "safe");
    lab.change_run("class='hdd'");
    for repeat in 1..=3 {
        for target in ["innodb", "frond"] {
            let cell = lab.cell("sql", "linkbench", "", target, repeat);
            step(&cell, "requests", if target == "frond" { 400.0 } else { 90.0 }, target, noise);
            let throttle = if target == "frond" { "partial" } else { "full" };
            cell.setting("throttle", throttle);
        }
    }
}

fn embedded(lab: &mut Lab, noise: &mut Noise) {
    lab.run("e1e2e3e4", "embedded", "standard", "relaxed");
    for repeat in 1..=3 {
        for (target, speed) in EMBEDDED {
            let cell = lab.cell("embedded", "dbbench", "", target, repeat);
            for (name, rate) in
                [("fillrandom", 90_000.0), ("overwrite", 70_000.0), ("readrandom", 40_000.0)]
            {
                let spread = if *target == "sqlite" { 0.3 } else { 0.02 };
                let gain = if name == "readrandom" { -0.4 } else { 1.0 };
                let rate = noise.around(rate * f64::powf(*speed, gain), spread);
                step(&cell, name, rate, target, noise);
                cell.series(name, "ops", done(rate, 0.6, 4e6, noise));
            }
            size(&cell, 1.7e9, target, noise);
            let cell = lab.cell("embedded", "ycsb", "", target, repeat);
            for name in ["A", "B", "C", "D", "E", "F"] {
                step(&cell, name, 30_000.0 * f64::powf(*speed, 0.2), target, noise);
            }
            // The base has everything in memory and reads nothing.
            cell.metric("G", "rd_b_op", if *target == "rocksdb" { 0.0 } else { 8192.0 });
            size(&cell, 1.1e9, target, noise);
        }
    }
}

/// Adds names and values that must not break a page.
pub fn hostile(lab: &mut Lab) {
    let name = r#"</script><img src=x onerror=alert(1)>"'&{{ 7*7 }}{% raw %}"#;
    lab.run("h0571le0", name, "quick", name);
    for target in [name, "innodb", "../../etc/passwd"] {
        let cell = lab.cell("sql", name, name, target, 1);
        cell.metrics(
            name,
            &[("ops_s", -5.0), ("disk_b", f64::INFINITY), (name, 1.0), ("p99_us", 0.0)],
        );
        cell.metrics(
            "load",
            &[("ops_s", 1e300), ("cpu_us_op", f64::NEG_INFINITY), ("disk_b", -1.0)],
        );
        cell.metrics("threads=0", &[("ops_s", 1.0)]);
        cell.metrics("threads=99999999999", &[("ops_s", 1.0)]);
        cell.series(name, "ops", [0.0, f64::INFINITY, 5.0, -3.0, 1e300, 7.0]);
        cell.series("load", "ops", [0.0, 0.0, 0.0, 0.0]);
        cell.bytes("load", name, b"no histogram");
        cell.histogram("load", "empty", &[]);
        cell.conditions((name, name), (name, name), false);
    }
    lab.cell("sql", "nothing", "", "frond", 1);
    lab.cell("sql", "nothing", "", "innodb", 1).state("failed", None, None);
    lab.cell("neither", "odd face", "", "frond", 1).state("odd state", Some(name), Some(name));
}
