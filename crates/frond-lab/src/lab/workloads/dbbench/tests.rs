//! Tests of db_bench on every store that is built in, and of its checks.

use super::*;
use crate::lab::embedded::testing::{make, on_all, step_of};
use crate::lab::size::Size;

#[test]
fn embedded_tests_run_in_one_store_and_find_what_was_put() {
    let quick = [("tests", QUICK), ("threads", "2")];
    on_all("dbbench", &quick, |target, result| {
        let names: Vec<_> = result.steps.iter().map(|step| step.name.as_str()).collect();
        let fixed = ["lmdb", "tidesdb"].contains(&target);
        assert_eq!(names.len(), if fixed { 10 } else { 11 }, "{target}: {names:?}");
        assert_eq!((names[0], names[7]), ("fillseq", "fillrandom"));
        let scan = step_of(result, "readreverse");
        assert!(target == "null" || scan.metrics["ops"] == 5_000.0, "{target}");
        let concurrent = step_of(result, "readwhilewriting threads=2");
        assert!(concurrent.latencies.contains_key("put") && concurrent.metrics["changed_b"] > 0.0);
        // Seven tests check what they read, and two or three tables are read back.
        let verified = if fixed { 9 } else { 10 };
        assert_eq!(result.verified.len(), if target == "null" { 0 } else { verified });
    });
}

#[test]
fn embedded_keys_are_put_once_each_and_half_of_them_deleted() {
    let tests = "filluniquerandom,revrange,overwritesome,fwdrangewhilewriting,deleteseq,fillseq,deleterandom";
    let changes = [("tests", tests), ("threads", "1,2"), ("seconds", "0.1")];
    on_all("dbbench", &changes, |target, result| {
        let names: Vec<_> = result.steps.iter().map(|step| step.name.as_str()).collect();
        let expected = [
            "filluniquerandom",
            "revrange",
            "revrange threads=2",
            "overwritesome",
            "fwdrangewhilewriting",
            "fwdrangewhilewriting threads=2",
            "deleteseq",
            "deleteseq seekrandom",
            "fillseq",
            "deleterandom",
            "deleterandom seekrandom",
        ];
        assert_eq!(names, expected, "{target}");
        let ops = |name: &str| step_of(result, name).metrics["ops"];
        assert_eq!((ops("overwritesome"), ops("deleteseq")), (500.0, 2_500.0), "{target}");
        let concurrent = step_of(result, "fwdrangewhilewriting threads=2");
        assert!(concurrent.latencies.contains_key("put"), "{target}");
        if target != "null" {
            let left = &result.facts["entries of filluniquerandom"];
            assert!(left.starts_with("2500 entries"), "{target}: {left}");
            // Some of the random keys are deleted twice.
            let left: u64 = result.facts["entries of fillseq"]
                .split(' ')
                .next()
                .and_then(|rows| rows.parse().ok())
                .expect("a number");
            assert!((2_600..3_500).contains(&left), "{target}: {left}");
            // Six steps check what they read, and two tables are read back.
            assert_eq!(result.verified.len(), 8, "{target}");
        }
    });
}

#[test]
fn embedded_bulk_loads_put_the_rows_of_a_fill_and_are_left_out_where_there_are_none() {
    let changes =
        [("tests", "fillseq,readmissing,bulkload,readrandom,readseq"), ("seconds", "0.1")];
    on_all("dbbench", &changes, |target, result| {
        let names: Vec<_> = result.steps.iter().map(|step| step.name.as_str()).collect();
        if target == "tidesdb" {
            assert_eq!(names, ["fillseq", "readmissing"]);
            assert!(result.settings["(readseq)"].starts_with("left out"), "{target}");
            return;
        }
        let all = ["fillseq", "readmissing", "bulkload", "readrandom", "readseq"];
        assert_eq!(names, all, "{target}");
        let load = step_of(result, "bulkload");
        assert_eq!((load.metrics["ops"], load.latencies["load"].count), (5_000.0, 1));
        if target != "null" {
            assert_eq!(step_of(result, "readseq").metrics["ops"], 5_000.0, "{target}");
            let loaded = result.verified.iter().find(|one| one.name == "entries of bulkload");
            assert!(loaded.is_some_and(|one| one.detail.starts_with("5000 entries")));
        }
    });
}

#[test]
fn embedded_tests_run_in_an_open_loop_at_a_part_of_their_own_rate() {
    let tests = "fillrandom,multireadrandom,fillseq,overwrite";
    let changes = [("tests", tests), ("rate", "50%"), ("seconds", "0.2")];
    on_all("dbbench", &changes, |target, result| {
        for (name, per_request) in [("multireadrandom", 10.0), ("overwrite", 1.0)] {
            let (own, open) = (step_of(result, name), step_of(result, &format!("{name} open")));
            let wanted = open.metrics["wanted_s"] * per_request;
            assert!((wanted / own.metrics["ops_s"] - 0.5).abs() < 1e-6, "{target}: {name}");
            assert!(open.metrics.contains_key("unserved"), "{target}: {name}");
        }
        assert_eq!(result.steps.len(), 6, "fills have no open loop");
    });
}

#[test]
fn tests_are_known_run_once_and_have_rows_to_read() {
    let tests = |text: &str| {
        let changes = [("tests".to_owned(), text.to_owned())];
        let params = Params::new("dbbench", EMBEDDED.params, Size::Tiny, &changes);
        DbBench::new(&params.expect("known"), 42).map(|made| made.tests)
    };
    assert_eq!(tests("readseq").ok(), Some(vec![Test::FillSeq, Test::ReadSeq]));
    assert_eq!(tests("fillsync").ok(), Some(vec![Test::FillSync]));
    assert_eq!(tests("bulkload deleteseq").ok().map(|tests| tests.len()), Some(2));
    assert_eq!(tests(ALL).ok().map(|tests| tests.len()), Some(TESTS.len()));
    assert!(tests("readsec").is_err_and(|failure| failure.0.contains("readseq")));
    assert!(tests("fillseq,fillseq").is_err() && tests("").is_err());
    assert!(make("dbbench", &[("shape", "classic")]).innodb_bytes() < 5_000 * 425);
}

#[test]
fn each_test_puts_a_version_of_its_own() {
    let changes = [("tests", "fillseq,overwrite,readseq,overwritesome"), ("threads", "1,4")];
    let changes = changes.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let params = Params::new("dbbench", EMBEDDED.params, Size::Tiny, &changes).expect("known");
    let rounds = DbBench::new(&params, 42).expect("allowed").rounds();
    let found: Vec<_> = rounds.iter().map(|round| (round.name(), round.version)).collect();
    let expected = ["fillseq", "overwrite", "overwrite threads=4", "readseq", "overwritesome"];
    assert_eq!(
        found,
        (1..).zip(expected).map(|(n, name)| (name.to_owned(), n)).collect::<Vec<_>>()
    );
}

#[test]
fn a_seek_that_skips_an_entry_or_finds_a_deleted_one_is_wrong() {
    let table = Table::raw("fillseq", 20);
    let filled = Filled::new(&table, 100);
    (0..100).filter(|number| *number != 40).for_each(|number| filled.set(number, 1));
    let run = |number: u64, direction, numbers: &[u64]| {
        let mut run = Run::new(number, direction);
        numbers.iter().for_each(|number| run.visit(&number.to_be_bytes(), &filled));
        run.is_complete(&filled)
    };
    assert!(run(95, Direction::Forward, &[95, 96, 97, 98, 99]));
    assert!(!run(95, Direction::Forward, &[95, 96, 97, 98]), "the last is missing");
    assert!(!run(20, Direction::Forward, &[20, 21, 22, 24, 25, 26, 27, 28, 29, 30]));
    assert!(!run(95, Direction::Forward, &[95, 97, 96, 98, 99]), "not in order");
    assert!(!run(40, Direction::Forward, &[40, 41, 42, 43, 44, 45, 46, 47, 48, 49]));
    assert!(run(40, Direction::Forward, &[41, 42, 43, 44, 45, 46, 47, 48, 49, 50]));
    assert!(run(2, Direction::Reverse, &[2, 1, 0]) && !run(2, Direction::Reverse, &[3, 2, 1]));
}
