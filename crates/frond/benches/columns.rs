//! Benchmark of columns and columnar blocks: their size, and the cost of encoding, reading and
//! searching them. `cargo bench -p frond-db --bench columns`, or a part of it: `-- blocks`,
//! `integers`, `strings`, `references`, `trying`, `logs`, `rows`; with `--strict` it fails if
//! anything takes twice its budget.

use std::process::ExitCode;

#[path = "columns/blocks.rs"]
mod blocks;
#[path = "columns/integers.rs"]
mod integers;
mod judge;
#[path = "columns/leaf.rs"]
mod leaf;
#[path = "columns/logs.rs"]
mod logs;
#[path = "columns/references.rs"]
mod references;
#[path = "columns/rows.rs"]
mod rows;
#[path = "columns/strings.rs"]
mod strings;

const PARTS: [(&str, fn()); 7] = [
    ("blocks", blocks::print),
    ("integers", integers::print),
    ("strings", strings::print),
    ("references", references::print),
    ("trying", logs::print_trying),
    ("logs", logs::print_logs),
    ("rows", rows::print),
];

fn main() -> ExitCode {
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|part| part == name);
    for (number, (_, print)) in PARTS.iter().filter(|(name, _)| is_wanted(name)).enumerate() {
        if number > 0 {
            println!();
        }
        print();
    }
    judge::verdict()
}
