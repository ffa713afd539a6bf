//! SQL texts of the statements for SQLite: creating the real tables, and reading and changing them.

use crate::schema::{Keyspace, Table, Type};
use crate::targets::{Direction, Span};

/// Statements of a table.
pub(super) struct Statements {
    pub insert: String,
    pub delete: String,
    pub get: String,
}

fn names(table: &Table, columns: &[usize]) -> Vec<&'static str> {
    columns.iter().map(|&column| table.columns[column].name).collect()
}

/// Joins conditions: `a=? AND b=?`
fn equal(names: &[&str]) -> String {
    names.iter().map(|name| format!("{name}=?")).collect::<Vec<_>>().join(" AND ")
}

impl Statements {
    pub(super) fn new(table: &Table) -> Self {
        let name = table.name;
        let marks = vec!["?"; table.columns.len()].join(",");
        let key = equal(&names(table, &table.primary));
        let values: Vec<usize> = table.value_columns().collect();
        let values = match values.is_empty() {
            true => "1".to_owned(),
            false => names(table, &values).join(","),
        };
        let verb = if table.is_raw() { "INSERT OR REPLACE" } else { "INSERT" };
        Self {
            insert: format!("{verb} INTO {name} VALUES({marks})"),
            delete: format!("DELETE FROM {name} WHERE {key}"),
            get: format!("SELECT {values} FROM {name} WHERE {key}"),
        }
    }
}

/// Returns the statements that create the table and its indexes.
pub(super) fn ddl(table: &Table) -> Vec<String> {
    let name = table.name;
    if table.is_raw() {
        return vec![format!("CREATE TABLE {name}(k BLOB PRIMARY KEY, v BLOB) WITHOUT ROWID")];
    }
    let kind = |kind| match kind {
        Type::F32 => "REAL",
        Type::Text => "TEXT",
        Type::Blob | Type::Bytes | Type::Number(_) => "BLOB",
        Type::I8 | Type::I16 | Type::I32 | Type::I64 => "INTEGER",
        Type::U32 | Type::U64 | Type::Millis => "INTEGER",
    };
    let columns = table.columns.iter().map(|c| format!("{} {} NOT NULL", c.name, kind(c.kind)));
    let columns = columns.collect::<Vec<_>>().join(", ");
    // A single integer as the key is SQLite's row number, its fastest form. Other keys are
    // clustered.
    let is_rowid = matches!(table.primary[..], [one] if kind(table.columns[one].kind) == "INTEGER");
    let tail = if is_rowid { "" } else { " WITHOUT ROWID" };
    let key = names(table, &table.primary).join(", ");
    let mut sql = vec![format!("CREATE TABLE {name}({columns}, PRIMARY KEY({key})){tail}")];
    sql.extend(table.indexes.iter().map(|index| {
        let columns = names(table, &index.columns).join(", ");
        format!("CREATE INDEX {} ON {name}({columns})", index.name)
    }));
    sql
}

/// Returns the statement that updates these columns of one row.
pub(super) fn update(table: &Table, columns: &[usize]) -> String {
    let set = names(table, columns).iter().map(|name| format!("{name}=?")).collect::<Vec<_>>();
    let key = equal(&names(table, &table.primary));
    format!("UPDATE {} SET {} WHERE {key}", table.name, set.join(","))
}

/// The properties of a [`Span`] that its statement depends on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct SpanShape {
    equal: usize,
    from: usize,
    to: usize,
    is_reverse: bool,
}

impl SpanShape {
    pub(super) fn of(span: &Span<'_>) -> Self {
        Self {
            equal: span.equal.len(),
            from: span.from.len(),
            to: span.to.len(),
            is_reverse: span.direction == Direction::Reverse,
        }
    }
}

/// Returns the query for a keyspace's columns in its order.
pub(super) fn range(table: &Table, keyspace: Keyspace, shape: SpanShape) -> String {
    let key = names(table, &table.key_columns(keyspace));
    let rest: Vec<usize> = if keyspace == 0 { table.value_columns().collect() } else { Vec::new() };
    let all: Vec<&str> = key.iter().copied().chain(names(table, &rest)).collect();
    let index = keyspace.checked_sub(1).and_then(|index| table.indexes.get(index));
    let hint = index.map(|index| format!("INDEXED BY {}", index.name)).unwrap_or_default();
    let (fixed, free) = key.split_at(shape.equal.min(key.len()));
    let mut conditions: Vec<String> = fixed.iter().map(|name| format!("{name}=?")).collect();
    for (count, operator) in [(shape.from, ">="), (shape.to, "<=")] {
        match free.get(..count) {
            Some([one]) => conditions.push(format!("{one}{operator}?")),
            Some(several @ [_, ..]) => {
                let marks = vec!["?"; count].join(",");
                conditions.push(format!("({}){operator}({marks})", several.join(",")));
            }
            _ => {}
        }
    }
    let condition = match conditions.is_empty() {
        true => String::new(),
        false => format!("WHERE {}", conditions.join(" AND ")),
    };
    let way = if shape.is_reverse { " DESC" } else { "" };
    let order = key.iter().map(|name| format!("{name}{way}")).collect::<Vec<_>>().join(",");
    let columns = all.join(",");
    format!("SELECT {columns} FROM {} {hint} {condition} ORDER BY {order} LIMIT ?", table.name)
}

/// Returns the query for a raw table's rows in order.
pub(super) fn raw_scan(table: &Table, from: bool, to: bool, direction: Direction) -> String {
    let bounds: Vec<&str> =
        [from.then_some("k>=?"), to.then_some("k<?")].into_iter().flatten().collect();
    let condition = match bounds.is_empty() {
        true => String::new(),
        false => format!("WHERE {}", bounds.join(" AND ")),
    };
    let way = if direction == Direction::Reverse { "DESC" } else { "ASC" };
    format!("SELECT k,v FROM {} {condition} ORDER BY k {way}", table.name)
}
