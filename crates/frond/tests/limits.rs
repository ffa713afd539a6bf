//! Tests that every bound of the table is a parameter, is documented, and is reached: what exceeds
//! it is refused before anything is acknowledged.

mod sources;

use frond::internals::bounds::{At, BOUNDS};

/// `docs/operating.md` lists each bound that refuses a call, with its value and error code.
#[test]
fn documents_list_each_bound_with_its_value_and_its_error() {
    let text = sources::file("docs/operating.md").text;
    let limits = text.split("## Limits").nth(1).expect("it has limits");
    let limits = limits.split("\n## ").next().unwrap_or_default();
    let mut wrong = Vec::new();
    for bound in BOUNDS {
        if let At::Refused(code) = bound.at {
            let row = format!("| {} | {} | {code} |", bound.what, bound.shown());
            if !limits.lines().any(|line| line.starts_with(&row)) {
                wrong.push(row);
            }
        }
    }
    let known = |line: &&str| {
        line.contains("| FRD-")
            && !BOUNDS
                .iter()
                .any(|bound| line.starts_with(&format!("| {} | {} |", bound.what, bound.shown())))
    };
    let unknown: Vec<_> = limits.lines().filter(known).collect();
    assert!(
        wrong.is_empty() && unknown.is_empty(),
        "missing:\n{}\nunknown: {unknown:?}",
        wrong.join("\n")
    );
}

/// A row names the source file that checks the bound, and that file names the row or its constant.
#[test]
fn each_bound_is_checked_where_the_table_says() {
    let mut wrong = Vec::new();
    for bound in BOUNDS {
        let path = format!("crates/frond/src/{}", bound.read_at);
        let text = sources::file(&path).text;
        let is_fixed = matches!(bound.at, At::Fixed(_));
        if !is_fixed && !text.contains(&format!("{}.", bound.name)) {
            wrong.push(format!("{} does not name {}", bound.read_at, bound.name));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[cfg(feature = "planted-bugs")]
mod tiny {
    use frond::{
        Db, Error, Options,
        internals::bounds::{LINEAGE_PINS, Tiny},
    };
    use frond_testkit::{
        campaign::{LimitReport, fill_the_map, reach_all_bounds, reach_bound, tunable},
        effort,
    };

    /// Promise: P1, P5, P9.
    #[test]
    fn each_bound_is_reached_and_exceeding_it_is_refused() {
        let mut never = Vec::new();
        for bound in tunable() {
            let mut total = LimitReport::default();
            let seeds = effort::seeds(2);
            for seed in seeds.start..seeds.end + 20 {
                let is_reached = total.reached.get(bound.name).is_some_and(|count| *count > 0);
                if seed >= seeds.end && is_reached {
                    break;
                }
                let report = reach_bound(bound, seed, 500);
                let report =
                    report.unwrap_or_else(|why| panic!("{}, seed {seed}: {why}", bound.name));
                total.add(&report.expect("bounds of this build can be tiny"));
            }
            println!("{:<22} {total}", bound.name);
            if total.reached.get(bound.name).is_none_or(|count| *count == 0) {
                never.push(bound.name);
            }
        }
        assert!(never.is_empty(), "bounds that nothing reaches: {never:?}");
    }

    /// Promise: P5.
    #[test]
    fn named_snapshots_count_against_the_pin_limit() {
        let tiny = Tiny::of(&[(LINEAGE_PINS, 4)]).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path().join("store"), Options::new()).unwrap();
        for number in 0..4 {
            db.create_snapshot(&format!("s{number}")).unwrap();
        }
        let refused = db.create_snapshot("s4");
        assert!(matches!(refused, Err(Error::LimitReached { .. })), "{refused:?}");
        assert_eq!(tiny.reached(LINEAGE_PINS), 1);
        db.drop_snapshot("s1").unwrap();
        // Until no slot needs what it kept.
        (0..3).for_each(|_| db.checkpoint().unwrap());
        db.create_snapshot("s4").unwrap();
        db.close().unwrap();
    }

    /// Promise: P1, P5, P13. Rule: I24.
    #[test]
    fn a_store_with_a_full_space_map_refuses_rows_and_goes_on() {
        for seed in effort::seeds(2) {
            let rows = fill_the_map(seed).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
            assert!(rows.is_some_and(|rows| rows > 50), "{rows:?}");
        }
    }

    /// Promise: P1, P5, P9.
    #[test]
    fn all_bounds_can_be_reached_together() {
        let mut total = LimitReport::default();
        for seed in effort::seeds(8) {
            let report = reach_all_bounds(seed, 500);
            let report = report.unwrap_or_else(|why| panic!("seed {seed}: {why}"));
            total.add(&report.expect("bounds of this build can be tiny"));
        }
        println!("{total}");
        assert!(total.refused.len() >= 5, "{total}");
    }
}
