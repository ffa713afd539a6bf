//! The conditions that are needed to interpret the figures of a run: the loaded rows, and the
//! settings of each target.

use crate::lab::results::{Database, RunInfo};
use crate::targets::Result;

/// Formats the checksums of the rows and the settings of the targets.
///
/// # Errors
/// Errors of SQLite.
pub fn conditions(database: &Database, run: &RunInfo) -> Result<String> {
    let mut out = String::new();
    for [workload, table, rows] in database.checksums(run.id)? {
        if out.is_empty() {
            out += "\n**Rows, the same on all targets**\n\n";
        }
        out += &format!("- {workload}: {table}: {rows}\n");
    }
    let mut last = String::new();
    for [target, name, value, workloads, repeats] in database.settings(run.id)? {
        if target != last {
            out += &format!("\n**Settings of {target}**\n\n");
            last = target;
        }
        let repeats = if repeats.is_empty() { repeats } else { format!("repeat {repeats}") };
        let of = [workloads, repeats].into_iter().filter(|part| !part.is_empty());
        let of = of.collect::<Vec<String>>().join(", ");
        let of = if of.is_empty() { of } else { format!(" [{of}]") };
        out += &format!("- {name} = {value}{of}\n");
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::results::testing::{a_cell, a_database, a_key, a_run};

    #[test]
    fn settings_and_rows_are_shown_once() {
        let (_dir, mut database) = a_database();
        let run = database.begin_run(&a_run("u1")).expect("begun");
        let mut cell = a_cell();
        cell.facts.insert("t by PRIMARY".to_owned(), "2001 rows, sum 7".to_owned());
        for (target, repeat) in [("innodb", 1), ("frond", 1), ("innodb", 2)] {
            database.write_cell(run, &a_key(target, repeat), 0, &cell).expect("written");
        }
        let mut other = a_key("innodb", 1);
        "weblog".clone_into(&mut other.workload);
        cell.settings = [("innodb-x".to_owned(), "2".to_owned())].into();
        database.write_cell(run, &other, 1, &cell).expect("written");
        let run = database.find_run("last").expect("it is there");
        let text = conditions(&database, &run).expect("shown");
        assert_eq!(
            text.matches("- iibench: t by PRIMARY: 2001 rows, sum 7\n").count(),
            1,
            "{text}"
        );
        assert!(text.contains("**Settings of frond**\n\n- innodb-x = 1\n"), "{text}");
        let parts = "- innodb-x = 1 [iibench]\n- innodb-x = 2 [weblog, repeat 1]\n";
        assert!(text.contains(parts), "{text}");
    }
}
