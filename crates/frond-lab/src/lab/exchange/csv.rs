//! Export of metrics as CSV: one line per value, with the cell that it belongs to.

use rusqlite::Row;

use crate::lab::results::Database;
use crate::targets::Result;

/// Formats a field, quoted if necessary (RFC 4180).
fn field(text: &str) -> String {
    match text.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

const HEAD: &str = "run,began,suite,size,class,durability,machine,seed,memory_b,workload,variant,face,target,repeat,state,step,metric,value";

/// Exports all metrics of these runs.
///
/// # Errors
/// Errors of SQLite.
pub fn csv(database: &Database, runs: &[i64]) -> Result<String> {
    let mut out = format!("{HEAD}\n");
    let sql = "SELECT run.uid, cell.began, suite, size, class, durability, machine, seed, memory_b, workload, variant, face, \
               target, repeat, state, step, metric.name, metric.value FROM metric JOIN cell ON cell.id=metric.cell \
               JOIN run ON run.id=cell.run WHERE run.id=? ORDER BY cell.position, step, metric.name";
    let mut line = |row: &Row<'_>| -> rusqlite::Result<()> {
        for at in 0..17 {
            let text = match at {
                7 | 8 | 13 => row.get::<_, i64>(at)?.to_string(),
                _ => row.get::<_, String>(at)?,
            };
            out.push_str(&field(&text));
            out.push(',');
        }
        out.push_str(&row.get::<_, f64>(17)?.to_string());
        out.push('\n');
        Ok(())
    };
    let mut read = || -> rusqlite::Result<()> {
        let mut statement = database.connection.prepare(sql)?;
        for run in runs {
            let mut rows = statement.query([run])?;
            while let Some(row) = rows.next()? {
                line(row)?;
            }
        }
        Ok(())
    };
    read().map_err(|error| database.failure(&error))?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::results::testing::{a_cell, a_database, a_key, a_run};

    #[test]
    fn each_value_is_a_line_and_commas_are_quoted() {
        let (_dir, mut database) = a_database();
        let run = database.begin_run(&a_run("u,1")).expect("begun");
        database.write_cell(run, &a_key("innodb", 1), 0, &a_cell()).expect("written");
        let text = csv(&database, &[run]).expect("exported");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4);
        assert_eq!(lines[0].split(',').count(), 18);
        let value = "\"u,1\",2026-01-01T00:00:01Z,iibench,quick,host,safe,m1,42,67108864,iibench,,sql,innodb,1,done,load,ops_s,1000.5";
        assert!(lines.contains(&value), "{text}");
    }
}
