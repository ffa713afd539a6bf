//! `frond bench sizes`: a small data set, from the command line to the lines that are printed.

mod common;

use common::Place;

/// Cells of the line that starts with these two.
fn cells<'a>(out: &'a str, first: &str, second: &str) -> Vec<&'a str> {
    let lines = out.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut of = lines.filter(|cells| cells.starts_with(&[first, second]));
    of.next().unwrap_or_else(|| panic!("no line of {first} {second} in\n{out}"))
}

fn number(text: &str) -> f64 {
    text.parse().unwrap_or_else(|_| panic!("{text} is no number"))
}

#[test]
fn sizes_are_measured_by_store_and_by_column() {
    let place = Place::new();
    let dir = place.path("bench").display().to_string();
    let json = place.path("sizes.json").display().to_string();
    let sizes = ["bench", "sizes", "--sets", "linktable=20000", "--targets", "null,frond"];
    // It does not matter here whether the store is idle, and waiting for that takes seconds.
    let more = ["--no-quiesce", "--dir", &dir, "--json", &json];
    let out = place.ok(&[&sizes[..], &more].concat());

    let heads =
        "data set target rows raw B loaded flushed settled x settled x frond goal rows/s CPU us";
    let is_head = |line: &str| line.split_whitespace().eq(heads.split_whitespace());
    assert!(out.lines().any(is_head), "{out}");
    let null = cells(&out, "linktable", "null");
    assert_eq!((null[2], null[4], null[6]), ("20000", "-", "-"), "{out}");
    let frond = cells(&out, "linktable", "frond");
    let [raw, loaded, flushed, settled] = [3, 4, 5, 6].map(|cell| number(frond[cell]));
    assert_eq!(frond[2], "20000");
    assert!(settled > 0.0 && settled <= loaded.max(flushed), "{out}");
    assert_eq!(&frond[9..12], ["<=", "18", "B"], "{out}");

    // The raw sizes of the columns add up to the row, plus a byte for the kind of its message.
    let named: Vec<Vec<&str>> = out
        .lines()
        .skip_while(|line| !line.starts_with("of "))
        .skip(1)
        .take_while(|line| !line.is_empty())
        .map(|line| line.split_whitespace().collect())
        .collect();
    let columns =
        ["link_type", "id1", "id2", "visibility", "data", "time", "version"].map(|column| {
            let line = named.iter().find(|line| line[..2] == ["linktable", column]);
            line.unwrap_or_else(|| panic!("no column {column} in\n{out}"))
        });
    let given: f64 = columns.iter().map(|line| number(line[2])).sum();
    assert!((given - raw).abs() < 0.1, "{given} of {raw} in\n{out}");
    assert!(columns.iter().all(|line| number(line[3]) >= 0.0 && line.len() > 5), "{out}");
    let encoded: f64 = columns.iter().map(|line| number(line[3])).sum();
    assert!(encoded < settled && settled < raw, "{encoded} of {settled} of {raw} in\n{out}");

    for metric in ["disk_b_row", "flushed_over_rested"] {
        let begin = format!("goal    linktable {metric}: ");
        let line = out.lines().find(|line| line.starts_with(&begin)).unwrap_or(&out);
        assert!(line.contains(": met (") || line.contains(": not met ("), "{line}");
    }
    let rows: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&json).expect("written")).expect("JSON");
    assert_eq!(rows[1]["target"], "frond");
    assert_eq!(rows[1]["verified"]["keyspaces"], 1, "{rows}");
    assert_eq!(rows[0]["rows_crc"], rows[1]["rows_crc"]);
}
