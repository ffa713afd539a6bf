//! Export and import of runs as JSON: the rows of each table as objects, with blobs in hexadecimal.

use clap::ValueEnum;
use rusqlite::types::{Value as Sql, ValueRef};
use rusqlite::{Connection, OptionalExtension, Transaction, params, params_from_iter};
use serde_json::{Map, Value, json};

use crate::lab::machine::class;
use crate::lab::results::{CellKey, Database, OWNER, PARTS, State, remove_cell};
use crate::lab::size::{Durability, Face, Size};
use crate::targets::{Failure, Result};

const FORMAT: &str = "frond-lab";
const VERSION: u64 = 1;

type Object = Map<String, Value>;

fn value_of(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => json!(number),
        ValueRef::Real(number) => json!(number),
        ValueRef::Text(text) => json!(String::from_utf8_lossy(text)),
        ValueRef::Blob(bytes) => {
            json!({ "hex": bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>() })
        }
    }
}

fn sql_of(value: &Value) -> Option<Sql> {
    match value {
        Value::Null => Some(Sql::Null),
        Value::Bool(yes) => Some(Sql::Integer((*yes).into())),
        Value::Number(number) => {
            number.as_i64().map(Sql::Integer).or_else(|| number.as_f64().map(Sql::Real))
        }
        Value::String(text) => Some(Sql::Text(text.clone())),
        Value::Object(object) => {
            let hex = object.get("hex")?.as_str()?;
            let bytes = hex
                .as_bytes()
                .chunks(2)
                .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
            bytes.collect::<Option<Vec<u8>>>().filter(|_| hex.len() % 2 == 0).map(Sql::Blob)
        }
        Value::Array(_) => None,
    }
}

/// Columns with row ids, which differ between files.
const NUMBERS: [&str; 3] = ["id", "run", "cell"];

/// Reads the rows of a table that belong to a run or cell, without their row ids.
fn rows(
    connection: &Connection,
    table: &str,
    owner: &str,
    id: i64,
) -> rusqlite::Result<Vec<Object>> {
    let sql = format!("SELECT * FROM {table} WHERE {owner}=?");
    let mut statement = connection.prepare(&sql)?;
    let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let found = statement.query_map([id], |row| {
        let is_kept = |name: &String| !NUMBERS.contains(&name.as_str());
        let kept = names.iter().enumerate().filter(|(_, name)| is_kept(name));
        let pairs = kept.map(|(at, name)| Ok((name.clone(), value_of(row.get_ref(at)?))));
        pairs.collect::<rusqlite::Result<Object>>()
    })?;
    found.collect()
}

/// Exports these runs.
///
/// # Errors
/// Errors of SQLite.
pub fn export(database: &Database, runs: &[i64]) -> Result<String> {
    let connection = &database.connection;
    let of_run = |id: i64| -> rusqlite::Result<Value> {
        let run = rows(connection, "run", "id", id)?.pop().unwrap_or_default();
        let environment = rows(connection, "environment", "run", id)?;
        let mut statement =
            connection.prepare("SELECT id FROM cell WHERE run=? ORDER BY position, id")?;
        let numbers = statement.query_map([id], |row| row.get::<_, i64>(0))?;
        let mut cells = Vec::new();
        for number in numbers {
            let number = number?;
            let mut cell = rows(connection, "cell", "id", number)?.pop().unwrap_or_default();
            for part in PARTS {
                cell.insert(part.to_owned(), json!(rows(connection, part, "cell", number)?));
            }
            cells.push(cell);
        }
        Ok(json!({ "run": run, "environment": environment, "cells": cells }))
    };
    let all: rusqlite::Result<Vec<Value>> = runs.iter().map(|id| of_run(*id)).collect();
    let all = all.map_err(|error| database.failure(&error))?;
    Ok(serde_json::to_string(&json!({ "format": FORMAT, "version": VERSION, "runs": all }))?)
}

/// Why a file is refused.
enum Refused {
    Sqlite(rusqlite::Error),
    Text(String),
}

impl From<rusqlite::Error> for Refused {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

/// Names and declared types of the columns of a table.
fn columns(transaction: &Transaction<'_>, table: &str) -> rusqlite::Result<Vec<(String, String)>> {
    let sql = "SELECT name, type FROM pragma_table_info(?) ORDER BY cid";
    let mut statement = transaction.prepare(sql)?;
    statement.query_map([table], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

/// Whether a column may have this value. SQLite would store a value of any type, and reading it
/// would fail later.
fn is_valid(column: &str, kind: &str, value: &Sql) -> bool {
    match (kind, value) {
        (_, Sql::Null) | ("BLOB", Sql::Blob(_)) => true,
        ("REAL", Sql::Real(number)) => number.is_finite(),
        ("REAL", Sql::Integer(_)) => true,
        ("INTEGER", Sql::Integer(number)) => match column {
            "repeat" => (1..=i64::from(u32::MAX)).contains(number),
            "position" | "memory_b" | "count" => *number >= 0,
            _ => true,
        },
        ("TEXT", Sql::Text(text)) => match column {
            "uid" => {
                // `lab show last` and `lab compare UID:TARGET` must stay unambiguous.
                let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric());
                is_plain && !text.is_empty() && text != "last"
            }
            "size" => Size::from_str(text, false).is_ok(),
            "durability" => Durability::from_str(text, false).is_ok(),
            "face" => Face::from_str(text, false).is_ok(),
            "class" => class::find(text).is_ok(),
            "state" => State::ALL.iter().any(|state| state.name() == text),
            "began" | "ended" => is_time(text),
            "log_tail" | "failure" | "detail" | "value" | "command" => true,
            // Names are printed.
            _ => !text.chars().any(char::is_control),
        },
        _ => false,
    }
}

/// Whether a text has the form of the lab's times, such as `2026-01-31T12:00:00Z`.
fn is_time(text: &str) -> bool {
    const FORM: &str = "0000-00-00T00:00:00Z";
    let fits = |(own, form): (u8, u8)| match form {
        b'0' => own.is_ascii_digit(),
        _ => own == form,
    };
    text.len() == FORM.len() && text.bytes().zip(FORM.bytes()).all(fits)
}

/// Inserts an object as a row, with the columns `own` in place of its own; returns the row id.
fn insert(
    transaction: &Transaction<'_>,
    table: &str,
    object: &Object,
    own: &[(&str, Sql)],
) -> std::result::Result<i64, Refused> {
    let mut values = Vec::new();
    for (column, kind) in columns(transaction, table)? {
        let given = own.iter().find(|(name, _)| *name == column).map(|(_, value)| value.clone());
        let read = || sql_of(object.get(&column)?).filter(|sql| is_valid(&column, &kind, sql));
        let value = given.or_else(read).ok_or_else(|| {
            let name = object.get("name").and_then(Value::as_str);
            let name = name.map_or(String::new(), |name| format!(" `{}`", name.escape_debug()));
            Refused::Text(format!("{table}{name} without a good `{column}`"))
        })?;
        values.push(value);
    }
    let places = vec!["?"; values.len()].join(",");
    transaction
        .execute(&format!("INSERT INTO {table} VALUES({places})"), params_from_iter(values))?;
    Ok(transaction.last_insert_rowid())
}

fn objects<'a>(of: &'a Object, name: &str) -> std::result::Result<Vec<&'a Object>, Refused> {
    let list = of.get(name).and_then(Value::as_array);
    let list = list.ok_or_else(|| Refused::Text(format!("there is no list `{name}`")))?;
    let objects: Option<Vec<&Object>> = list.iter().map(Value::as_object).collect();
    objects
        .ok_or_else(|| Refused::Text(format!("`{name}` contains something that is not an object")))
}

fn take(transaction: &Transaction<'_>, text: &str) -> std::result::Result<Taken, Refused> {
    let file: Value =
        serde_json::from_str(text).map_err(|error| Refused::Text(error.to_string()))?;
    let file = file.as_object().filter(|file| file.get("format") == Some(&json!(FORMAT)));
    let file = file.ok_or_else(|| Refused::Text("this is not an export of the lab".to_owned()))?;
    match file.get("version").and_then(Value::as_u64) {
        Some(VERSION) => {}
        other => {
            let said = other.map_or("none".to_owned(), |version| version.to_string());
            return Err(Refused::Text(format!("version {said}, and this lab reads {VERSION}")));
        }
    }
    let mut taken = Taken::default();
    for entry in objects(file, "runs")? {
        let run = entry.get("run").and_then(Value::as_object);
        let run = run.ok_or_else(|| Refused::Text("a run without `run`".to_owned()))?;
        let uid = run.get("uid").and_then(Value::as_str);
        let uid = uid.ok_or_else(|| Refused::Text("a run without `uid`".to_owned()))?;
        take_run(transaction, entry, run, uid, &mut taken).map_err(|refused| match refused {
            Refused::Text(what) => Refused::Text(format!("run `{}`: {what}", uid.escape_debug())),
            error => error,
        })?;
    }
    Ok(taken)
}

/// Inserts a run, or what is missing of it.
fn take_run(
    transaction: &Transaction<'_>,
    entry: &Object,
    run: &Object,
    uid: &str,
    taken: &mut Taken,
) -> std::result::Result<(), Refused> {
    let sql = "SELECT id, ended FROM run WHERE uid=?";
    let found = transaction.query_row(sql, [uid], |row| Ok((row.get(0)?, row.get(1)?)));
    let found: Option<(i64, Option<String>)> = found.optional()?;
    let id = match found {
        None => {
            let id = insert(transaction, "run", run, &[("id", Sql::Null)])?;
            for object in objects(entry, "environment")? {
                // The process that ran it is not one of this machine.
                if object.get("name") != Some(&json!(OWNER)) {
                    insert(transaction, "environment", object, &[("run", Sql::Integer(id))])?;
                }
            }
            taken.new += 1;
            id
        }
        Some((_, Some(_))) => return Ok(()), // Invariant 2
        Some((id, None)) => {
            let ended = run.get("ended").and_then(sql_of).unwrap_or(Sql::Null);
            if !is_valid("ended", "TEXT", &ended) {
                return Err(Refused::Text("run without a good `ended`".to_owned()));
            }
            let sql = "UPDATE run SET ended=? WHERE id=? AND NOT EXISTS \
                       (SELECT 1 FROM environment WHERE run=run.id AND name=?)";
            if transaction.execute(sql, params![ended, id, OWNER])? == 0 {
                return Ok(()); // It belongs to a process on this machine.
            }
            taken.completed += usize::from(ended != Sql::Null);
            id
        }
    };
    for cell in objects(entry, "cells")? {
        if found.is_some() && !make_room(transaction, id, cell)? {
            continue;
        }
        let own = [("id", Sql::Null), ("run", Sql::Integer(id))];
        let number = insert(transaction, "cell", cell, &own)?;
        for part in PARTS {
            for object in objects(cell, part)? {
                insert(transaction, part, object, &[("cell", Sql::Integer(number))])?;
            }
        }
    }
    Ok(())
}

/// Removes the cell from the run here if it has failed, since it may have been run again. Returns
/// false if it is here and did not fail.
fn make_room(transaction: &Transaction<'_>, run: i64, cell: &Object) -> rusqlite::Result<bool> {
    let text = |name: &str| cell.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let repeat = cell.get("repeat").and_then(Value::as_u64);
    let key = CellKey {
        workload: text("workload"),
        variant: text("variant"),
        face: text("face"),
        target: text("target"),
        repeat: repeat.and_then(|repeat| repeat.try_into().ok()).unwrap_or(0),
    };
    let sql = "SELECT state FROM cell WHERE run=? AND workload=? AND variant=? AND face=? AND target=? AND repeat=?";
    let values = params![run, key.workload, key.variant, key.face, key.target, key.repeat];
    let state: Option<String> = transaction.query_row(sql, values, |row| row.get(0)).optional()?;
    match state {
        Some(state) if state != State::Failed.name() => return Ok(false),
        Some(_) => remove_cell(transaction, run, &key)?,
        None => {}
    }
    Ok(true)
}

/// Numbers of runs that an import changed.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Taken {
    /// Runs that were not in the database.
    pub new: usize,
    /// Runs that were in the database, unfinished.
    pub completed: usize,
}

/// Imports the runs of an export. `file` is the name of the export, for error messages.
///
/// # Errors
/// The file is not an export or is damaged; nothing is imported then.
pub fn import(database: &mut Database, file: &str, text: &str) -> Result<Taken> {
    let failed = |database: &Database, error: Refused| match error {
        Refused::Text(what) => Failure(format!("{file}: {what}; nothing was imported")),
        Refused::Sqlite(error) => {
            let error = database.failure(&error);
            Failure(format!("{file}: {error}; nothing was imported"))
        }
    };
    let outcome = (|| {
        let transaction = database.connection.transaction()?;
        let taken = take(&transaction, text)?;
        transaction.commit()?;
        Ok(taken)
    })();
    outcome.map_err(|error| failed(database, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::results::CellResult;
    use crate::lab::results::testing::{a_cell, a_database, a_key, a_run};

    #[test]
    fn an_exported_run_can_be_imported_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let open = |name: &str| Database::open(&dir.path().join(name)).expect("a new file");
        let (mut one, mut other) = (open("one"), open("other"));
        let run = one.begin_run(&a_run("u1")).expect("begun");
        let mut cell = a_cell();
        // One of many numbers that a fast but inexact parser would not round-trip.
        cell.metrics.insert("cpu_us_op".to_owned(), 423.209_170_872_713_23);
        one.write_cell(run, &a_key("innodb", 1), 0, &cell).expect("written");
        one.end_run(run, "2026-01-01T00:09:00Z").expect("ended");
        let text = export(&one, &[run]).expect("exported");
        let new = |new| Some(Taken { new, completed: 0 });
        assert_eq!(import(&mut other, "f", &text).ok(), new(1));
        assert_eq!(import(&mut other, "f", &text).ok(), new(0), "it is there");
        assert_eq!(export(&other, &[1]).ok(), Some(text.clone()));
        // Every prefix is refused, and changes nothing.
        let mut third = open("third");
        for end in [0, 1, text.len() / 2, text.len() - 1] {
            assert!(import(&mut third, "f", &text[..end]).is_err());
        }
        let wrong = [
            text.replace("frond-lab", "another"),
            text.replace("\"version\":1", "\"version\":2"),
            text.replace("\"uid\":\"u1\"", "\"uid\":7"),
            text.replace("\"metric\":[", "\"metrics\":["),
            text.replace("\"hex\":\"", "\"hex\":\"x"),
        ];
        for wrong in wrong {
            assert_ne!(wrong, text);
            let failure = import(&mut third, "f", &wrong).expect_err("it is wrong");
            assert!(failure.0.contains("nothing was imported"), "{failure}");
        }
        let runs: i64 = third
            .connection
            .query_row("SELECT COUNT(*) FROM run", [], |row| row.get(0))
            .expect("counted");
        assert_eq!(runs, 0);
    }

    #[test]
    fn an_unfinished_run_is_completed_by_a_later_export() {
        let ((_one, mut one), (_other, mut other)) = (a_database(), a_database());
        let run = one.begin_run(&a_run("u1")).expect("begun");
        one.acquire(run).expect("it has no owner");
        let failed = CellResult { state: State::Failed, ..a_cell() };
        one.write_cell(run, &a_key("innodb", 1), 0, &failed).expect("written");
        let early = export(&one, &[run]).expect("exported");
        assert_eq!(import(&mut other, "f", &early).ok(), Some(Taken { new: 1, completed: 0 }));
        for (at, target) in ["innodb", "frond"].into_iter().enumerate() {
            one.write_cell(run, &a_key(target, 1), at, &a_cell()).expect("written");
        }
        one.end_run(run, "2026-01-01T00:09:00Z").expect("ended");
        one.release(run).expect("released");
        let late = export(&one, &[run]).expect("exported");
        assert_eq!(import(&mut other, "f", &late).ok(), Some(Taken { new: 0, completed: 1 }));
        assert_eq!(export(&other, &[1]).ok(), Some(late.clone()));
        assert_eq!(import(&mut other, "f", &early).ok(), Some(Taken::default()), "it has ended");
        assert_eq!(export(&other, &[1]).ok(), Some(late.clone()));
        // A run that a process here is running is left alone.
        let (_running, mut running) = a_database();
        let run = running.begin_run(&a_run("u1")).expect("begun");
        running.acquire(run).expect("it has no owner");
        assert_eq!(import(&mut running, "f", &late).ok(), Some(Taken::default()));
        assert_eq!(running.measured(run).map(|values| values.len()).ok(), Some(0));
    }

    #[test]
    fn values_that_could_not_be_read_back_are_refused() {
        let ((_one, mut one), (_other, mut other)) = (a_database(), a_database());
        let run = one.begin_run(&a_run("u1")).expect("begun");
        one.write_cell(run, &a_key("innodb", 1), 0, &a_cell()).expect("written");
        let text = export(&one, &[run]).expect("exported");
        let wrong = [
            ("\"seed\":42", "\"seed\":1.5", "seed"),
            ("\"seed\":42", "\"seed\":18446744073709551616", "seed"),
            ("\"repeat\":1", "\"repeat\":-3", "repeat"),
            ("\"value\":1000.5", "\"value\":\"fast\"", "metric `ops_s` without a good `value`"),
            ("\"state\":\"done\"", "\"state\":\"great\"", "state"),
            ("\"face\":\"sql\"", "\"face\":\"odd\"", "face"),
            ("\"size\":\"quick\"", "\"size\":\"huge\"", "size"),
            ("\"class\":\"host\"", "\"class\":\"tape\"", "class"),
            ("\"uid\":\"u1\"", "\"uid\":\"\"", "uid"),
            ("\"uid\":\"u1\"", "\"uid\":\"last\"", "uid"),
            ("\"uid\":\"u1\"", "\"uid\":\"a:b\"", "uid"),
            ("\"began\":\"2026-01-01T00:00:00Z\"", "\"began\":\"yesterday\"", "began"),
            ("\"target\":\"innodb\"", "\"target\":\"inno\\u001bdb\"", "target"),
        ];
        for (from, to, said) in wrong {
            let wrong = text.replacen(from, to, 1);
            assert_ne!(wrong, text, "{from} is not in {text}");
            let failure = import(&mut other, "f", &wrong).expect_err(to);
            assert!(failure.0.contains(said) && failure.0.contains("run `"), "{to}: {failure}");
        }
        assert_eq!(other.runs().map(|runs| runs.len()).ok(), Some(0));
    }
}
