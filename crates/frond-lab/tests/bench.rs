//! `frond bench sizes`: a small data set, from the command line to the tables that are printed.
#![cfg(feature = "lab")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a directory") }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn bench(&self, words: &[&str]) -> Output {
        let program = Path::new(env!("CARGO_BIN_EXE_frond-bench"));
        Command::new(program).args(words).output().expect("the program starts")
    }
}

/// The cells of a table, of the line of this target.
fn cells(out: &str, table: &str, target: &str) -> Vec<(String, String)> {
    let mut lines = out.lines().skip_while(|line| *line != table).skip(2);
    let split = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let heads = split(lines.next().unwrap_or_else(|| panic!("no {table} in\n{out}")));
    let line = lines.find(|line| line.starts_with(&format!("| {target} |")));
    let line = line.unwrap_or_else(|| panic!("no line of {target} in\n{out}"));
    heads.into_iter().zip(split(line)).collect()
}

fn number(cells: &[(String, String)], name: &str) -> f64 {
    let found = cells.iter().find(|(head, _)| head.starts_with(name));
    let text = found.map(|(_, value)| value.as_str()).unwrap_or_default();
    text.parse().unwrap_or_else(|_| panic!("{name} is no number in {cells:?}"))
}

#[test]
fn sizes_are_measured_by_store_and_by_column() {
    let place = Place::new();
    let dir = place.path("bench").display().to_string();
    let json = place.path("sizes.json").display().to_string();
    let sizes = ["sizes", "--sets", "linktable=20000", "--targets", "frond"];
    let answer = place.bench(&[&sizes[..], &["--dir", &dir, "--json", &json]].concat());
    assert!(answer.status.success(), "{answer:?}");
    let out = String::from_utf8(answer.stdout).expect("text");

    let table = "**load · rows=20000 set=linktable time_limit=0 · embedded · linktable**";
    let frond = cells(&out, table, "frond");
    let [raw, settled, columns] =
        ["raw_b_row", "disk_b_row", "columns_b_row"].map(|name| number(&frond, name));
    assert!(0.0 < columns && columns < settled && settled < raw, "{frond:?}");
    cells(&out, table, "null"); // it runs first: its CPU is that of the clients

    // The raw sizes of the columns add up to the row, plus a byte for the kind of its message.
    let given: f64 = ["link_type", "id1", "id2", "visibility", "data", "time", "version"]
        .map(|column| {
            let begin = format!("- (column linktable.{column}) = ");
            let line = out.lines().find_map(|line| line.strip_prefix(&begin));
            let line = line.unwrap_or_else(|| panic!("no column {column} in\n{out}"));
            let words: Vec<&str> = line.split(' ').collect(); // STORED B of RAW per row, ENCODING
            words[3].parse::<f64>().unwrap_or_else(|_| panic!("{line}"))
        })
        .iter()
        .sum();
    assert!((given - raw).abs() < 0.1, "{given} of {raw} in\n{out}");

    for goal in ["bytes a row on disk", "size right after the load, of that at rest"] {
        let begin = format!("goal    {goal} in linktable: ");
        let line = out.lines().find(|line| line.starts_with(&begin)).unwrap_or(&out);
        assert!(line.contains(": met") || line.contains(": not met"), "{line}");
    }
    let exported: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&json).expect("written")).expect("JSON");
    assert!(exported.to_string().contains("\"disk_b_row\""), "{exported}");
}

#[test]
fn an_unknown_store_or_workload_is_refused() {
    let place = Place::new();
    let dir = place.path("bench").display().to_string();
    for words in [["iibunch", "--dir", &dir], ["queue", "--targets", "rockdb"]] {
        let answer = place.bench(&words);
        let said = String::from_utf8_lossy(&answer.stderr);
        assert!(answer.status.code() == Some(2) && said.contains('`'), "{answer:?}");
    }
}
