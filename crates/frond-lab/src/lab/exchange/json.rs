//! Export and import of runs as JSON: the rows of each table as objects, with blobs in hexadecimal.

use rusqlite::types::{Value as Sql, ValueRef};
use rusqlite::{Connection, Transaction, params_from_iter};
use serde_json::{Map, Value, json};

use crate::lab::results::{Database, PARTS};
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

fn columns(transaction: &Transaction<'_>, table: &str) -> rusqlite::Result<Vec<String>> {
    let statement = transaction.prepare(&format!("SELECT * FROM {table} LIMIT 0"))?;
    Ok(statement.column_names().map(str::to_owned).collect())
}

/// Inserts an object as a row, with the columns `own` in place of its own; returns the row id.
fn insert(
    transaction: &Transaction<'_>,
    table: &str,
    object: &Object,
    own: &[(&str, Sql)],
) -> std::result::Result<i64, Refused> {
    let mut values = Vec::new();
    for column in columns(transaction, table)? {
        let given = own.iter().find(|(name, _)| *name == column).map(|(_, value)| value.clone());
        let value = given.or_else(|| sql_of(object.get(&column)?));
        values.push(
            value.ok_or_else(|| Refused::Text(format!("{table} without a good `{column}`")))?,
        );
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
    objects.ok_or_else(|| Refused::Text(format!("`{name}` has something that is no object")))
}

fn take(transaction: &Transaction<'_>, text: &str) -> std::result::Result<usize, Refused> {
    let file: Value =
        serde_json::from_str(text).map_err(|error| Refused::Text(error.to_string()))?;
    let file = file.as_object().filter(|file| file.get("format") == Some(&json!(FORMAT)));
    let file = file.ok_or_else(|| Refused::Text("this is no export of the lab".to_owned()))?;
    match file.get("version").and_then(Value::as_u64) {
        Some(VERSION) => {}
        other => {
            let said = other.map_or("none".to_owned(), |version| version.to_string());
            return Err(Refused::Text(format!("version {said}, and this lab reads {VERSION}")));
        }
    }
    let mut taken = 0;
    for entry in objects(file, "runs")? {
        let run = entry.get("run").and_then(Value::as_object);
        let run = run.ok_or_else(|| Refused::Text("a run without `run`".to_owned()))?;
        let uid = run.get("uid").and_then(Value::as_str);
        let uid = uid.ok_or_else(|| Refused::Text("a run without `uid`".to_owned()))?;
        let sql = "SELECT COUNT(*) FROM run WHERE uid=?";
        if transaction.query_row(sql, [uid], |row| row.get::<_, i64>(0))? > 0 {
            continue; // Invariant 2
        }
        let id = insert(transaction, "run", run, &[("id", Sql::Null)])?;
        for object in objects(entry, "environment")? {
            insert(transaction, "environment", object, &[("run", Sql::Integer(id))])?;
        }
        for cell in objects(entry, "cells")? {
            let own = [("id", Sql::Null), ("run", Sql::Integer(id))];
            let number = insert(transaction, "cell", cell, &own)?;
            for part in PARTS {
                for object in objects(cell, part)? {
                    insert(transaction, part, object, &[("cell", Sql::Integer(number))])?;
                }
            }
        }
        taken += 1;
    }
    Ok(taken)
}

/// Imports the runs of an export; returns the number of new ones. `file` is the name of the export,
/// for error messages.
///
/// # Errors
/// The file is not an export or is damaged; nothing is imported then.
pub fn import(database: &mut Database, file: &str, text: &str) -> Result<usize> {
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
    use crate::lab::results::testing::{a_cell, a_key, a_run};

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
        let text = export(&one, &[run]).expect("exported");
        assert_eq!(import(&mut other, "f", &text).ok(), Some(1));
        assert_eq!(import(&mut other, "f", &text).ok(), Some(0), "it is there");
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
}
