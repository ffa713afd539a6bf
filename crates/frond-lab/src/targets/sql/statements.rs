//! The lab's tables and rows in MariaDB's SQL, and its answers as rows again.

use std::fmt::Write;

use jiff::civil::DateTime;
use jiff::tz::Offset;

use crate::schema::{Keyspace, Table, Type, Value};
use crate::targets::{Failure, Result};

/// How a table and its rows are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dialect {
    /// All columns as they are given, times as numbers of eight bytes: comparable with embedded stores.
    AsGiven,
    /// As iiBench was published: the server numbers the rows, times are DATETIME, whole seconds.
    Published,
}

/// Creates a table with its indexes and these options; texts in keys have so many characters at most.
pub fn create_table(
    dialect: Dialect,
    table: &Table,
    table_options: &str,
    key_text_chars: u32,
) -> String {
    let in_key = |column: usize| {
        let mut keys = table.indexes.iter().map(|index| &index.columns).chain([&table.primary]);
        keys.any(|key| key.contains(&column))
    };
    let kind = |column: usize| match table.columns[column].kind {
        Type::I8 => "TINYINT".to_owned(),
        Type::I32 => "INT".to_owned(),
        Type::U32 => "INT UNSIGNED".to_owned(),
        Type::Millis if dialect == Dialect::Published => "DATETIME".to_owned(),
        // Milliseconds too: eight bytes, as in the other stores.
        Type::U64 | Type::Millis => "BIGINT UNSIGNED".to_owned(),
        Type::F32 => "FLOAT".to_owned(),
        Type::Text if in_key(column) => format!("VARCHAR({key_text_chars})"),
        Type::Text => "LONGTEXT".to_owned(),
        Type::Bytes | Type::Number(_) => "LONGBLOB".to_owned(),
    };
    let numbered = numbered(dialect, table);
    let columns = (0..table.columns.len()).map(|column| {
        let (name, kind) = (table.columns[column].name, kind(column));
        match numbered == Some(column) {
            true => format!("`{name}` {kind} NOT NULL AUTO_INCREMENT"),
            false if kind == "DATETIME" => format!("`{name}` {kind}"),
            false => format!("`{name}` {kind} NOT NULL"),
        }
    });
    let key = std::iter::once(format!("PRIMARY KEY({})", names(table, &table.primary)));
    let indexes = table.indexes.iter();
    let indexes =
        indexes.map(|index| format!("KEY {}({})", index.name, names(table, &index.columns)));
    let parts: Vec<String> = columns.chain(key).chain(indexes).collect();
    format!("CREATE TABLE {}({}) {table_options}", table.name, parts.join(","))
}

/// The column that the server numbers, which rows are inserted without.
fn numbered(dialect: Dialect, table: &Table) -> Option<usize> {
    match (dialect, &table.primary[..]) {
        (Dialect::Published, &[column]) => Some(column),
        _ => None,
    }
}

fn names(table: &Table, columns: &[usize]) -> String {
    let names: Vec<String> =
        columns.iter().map(|&column| format!("`{}`", table.columns[column].name)).collect();
    names.join(",")
}

/// An INSERT of many rows, as it grows.
pub struct Insert {
    dialect: Dialect,
    numbered: Option<usize>,
    head: String,
    text: String,
    /// The last time and how it is written: a statement's rows have the same.
    moment: (u64, String),
}

impl Insert {
    /// A statement without rows.
    pub fn new(dialect: Dialect, table: &Table) -> Self {
        let numbered = numbered(dialect, table);
        let given: Vec<usize> =
            (0..table.columns.len()).filter(|column| numbered != Some(*column)).collect();
        let head = format!("INSERT INTO {}({}) VALUES", table.name, names(table, &given));
        Self { dialect, numbered, head, text: String::new(), moment: (u64::MAX, String::new()) }
    }

    /// Appends a row.
    pub fn push(&mut self, row: &[Value<'_>]) {
        if self.text.is_empty() {
            self.text.push_str(&self.head);
        } else {
            self.text.push(',');
        }
        let mut before = '(';
        for (at, value) in row.iter().enumerate() {
            if self.numbered == Some(at) {
                continue;
            }
            self.text.push(before);
            before = ',';
            match (self.dialect, value) {
                (Dialect::Published, &Value::Millis(millis)) => {
                    if self.moment.0 != millis {
                        self.moment = (millis, date_time(millis));
                    }
                    self.text.push_str(&self.moment.1);
                }
                _ => append_literal(self.dialect, value, &mut self.text),
            }
        }
        self.text.push(')');
    }

    /// The statement, if it has rows.
    pub fn statement(&self) -> Option<&str> {
        (!self.text.is_empty()).then_some(&self.text)
    }

    /// Begins anew.
    pub fn clear(&mut self) {
        self.text.clear();
    }
}

/// A time as a literal, whole seconds.
fn date_time(millis: u64) -> String {
    let time = jiff::Timestamp::from_millisecond(millis as i64).unwrap_or_default();
    Offset::UTC.to_datetime(time).strftime("'%Y-%m-%d %H:%M:%S'").to_string()
}

fn millis_of(text: &str) -> Option<u64> {
    let time = text.parse::<DateTime>().ok()?;
    u64::try_from(Offset::UTC.to_timestamp(time).ok()?.as_millisecond()).ok()
}

fn append_literal(dialect: Dialect, value: &Value<'_>, out: &mut String) {
    let written = match value {
        Value::I8(number) => write!(out, "{number}"),
        Value::I32(number) => write!(out, "{number}"),
        Value::U32(number) => write!(out, "{number}"),
        Value::Millis(number) if dialect == Dialect::Published => {
            out.write_str(&date_time(*number))
        }
        Value::U64(number) | Value::Millis(number) => write!(out, "{number}"),
        // The shortest form that reads back as the same number.
        Value::F32(number) => write!(out, "{number}"),
        Value::Text(text) => {
            out.push('\'');
            for letter in text.chars() {
                match letter {
                    '\'' => out.push_str("''"),
                    '\\' => out.push_str("\\\\"),
                    '\0' => out.push_str("\\0"),
                    '\n' => out.push_str("\\n"),
                    '\r' => out.push_str("\\r"),
                    letter => out.push(letter),
                }
            }
            out.write_char('\'')
        }
    };
    written.expect("a string takes all that is written");
}

/// Columns of a keyspace as it is read: those of its key, then those of its value.
fn columns_read(table: &Table, keyspace: Keyspace) -> (Vec<usize>, Vec<usize>) {
    let value = if keyspace == 0 { table.value_columns().collect() } else { Vec::new() };
    (table.key_columns(keyspace), value)
}

/// That these columns are not below these values: said in a way that the server makes a range of, which it does
/// not of a comparison of rows.
fn not_below(dialect: Dialect, table: &Table, columns: &[usize], from: &[Value<'_>]) -> String {
    let (Some((&column, columns)), Some((value, from))) =
        (columns.split_first(), from.split_first())
    else {
        return "TRUE".to_owned();
    };
    let name = table.columns[column].name;
    let mut literal = String::new();
    append_literal(dialect, value, &mut literal);
    match from.is_empty() {
        true => format!("`{name}`>={literal}"),
        false => {
            let rest = not_below(dialect, table, columns, from);
            format!("`{name}`>={literal} AND (`{name}`>{literal} OR ({rest}))")
        }
    }
}

/// Selects a keyspace's columns in its order, from the first of these values on.
pub fn range(
    dialect: Dialect,
    table: &Table,
    keyspace: Keyspace,
    from: &[Value<'_>],
    limit: u64,
) -> String {
    let (key, value) = columns_read(table, keyspace);
    let select = |&column: &usize| match table.columns[column].kind {
        // As a double all of its digits are shown.
        Type::F32 => format!("CAST(`{}` AS DOUBLE)", table.columns[column].name),
        _ => format!("`{}`", table.columns[column].name),
    };
    let selected: Vec<String> = key.iter().chain(&value).map(select).collect();
    let index = keyspace.checked_sub(1).and_then(|index| table.indexes.get(index));
    let index = index.map_or("PRIMARY", |index| index.name);
    let condition = match key.get(..from.len()) {
        Some(columns @ [_, ..]) => {
            format!(" WHERE {}", not_below(dialect, table, columns, from))
        }
        _ => String::new(),
    };
    format!(
        "SELECT {} FROM {} FORCE INDEX({index}){condition} ORDER BY {} LIMIT {limit}",
        selected.join(","),
        table.name,
        names(table, &key)
    )
}

/// A row of `range` in the lab's encoding.
pub fn encode(
    table: &Table,
    keyspace: Keyspace,
    row: &[Option<&[u8]>],
    key: &mut Vec<u8>,
    value: &mut Vec<u8>,
) -> Result<()> {
    key.clear();
    value.clear();
    let (keys, values) = columns_read(table, keyspace);
    let mut fields = row.iter().copied();
    let all = keys.iter().map(|column| (column, true)).chain(values.iter().map(|c| (c, false)));
    for (&column, is_key) in all {
        let bad =
            || Failure(format!("mariadbd: column {} is not as it was", table.columns[column].name));
        let field = fields.next().flatten().ok_or_else(bad)?;
        let text = std::str::from_utf8(field).map_err(|_| bad())?;
        let parsed = match table.columns[column].kind {
            Type::I8 => text.parse().ok().map(Value::I8),
            Type::I32 => text.parse().ok().map(Value::I32),
            Type::U32 => text.parse().ok().map(Value::U32),
            Type::U64 => text.parse().ok().map(Value::U64),
            // As a number or as a DATETIME: either has no digits of the other.
            Type::Millis => text.parse().ok().or_else(|| millis_of(text)).map(Value::Millis),
            Type::F32 => text.parse::<f64>().ok().map(|number| Value::F32(number as f32)),
            Type::Text => Some(Value::Text(text)),
            Type::Bytes | Type::Number(_) => None,
        };
        let parsed = parsed.ok_or_else(bad)?;
        match is_key {
            true => parsed.append_key(key),
            false => parsed.append_value(value),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Column, Index};

    fn table() -> Table {
        let column = |name, kind| Column { name, kind };
        Table {
            name: "t",
            columns: vec![
                column("id", Type::I32),
                column("price", Type::F32),
                column("name", Type::Text),
                column("story", Type::Text),
            ],
            primary: vec![0],
            indexes: vec![Index { name: "ix", columns: vec![2, 1] }],
        }
    }

    #[test]
    fn tables_are_created_with_their_keys_and_options() {
        let sql = create_table(Dialect::AsGiven, &table(), "ENGINE=InnoDB ROW_FORMAT=DYNAMIC", 255);
        assert_eq!(
            sql,
            "CREATE TABLE t(`id` INT NOT NULL,`price` FLOAT NOT NULL,`name` VARCHAR(255) NOT NULL,\
             `story` LONGTEXT NOT NULL,PRIMARY KEY(`id`),KEY ix(`name`,`price`)) ENGINE=InnoDB \
             ROW_FORMAT=DYNAMIC"
        );
    }

    #[test]
    fn iibench_is_as_it_was_published() {
        let table = Table {
            columns: vec![
                Column { name: "id", kind: Type::I32 },
                Column { name: "at", kind: Type::Millis },
            ],
            indexes: vec![Index { name: "ix", columns: vec![1] }],
            ..table()
        };
        assert_eq!(
            create_table(Dialect::Published, &table, "ENGINE=FROND", 255),
            "CREATE TABLE t(`id` INT NOT NULL AUTO_INCREMENT,`at` DATETIME,PRIMARY KEY(`id`),\
             KEY ix(`at`)) ENGINE=FROND"
        );
        let mut insert = Insert::new(Dialect::Published, &table);
        assert_eq!(insert.statement(), None);
        for (id, millis) in [(1, 1_306_886_400_000), (2, 1_306_886_400_000), (3, 1_306_972_801_000)]
        {
            insert.push(&[Value::I32(id), Value::Millis(millis)]);
        }
        let rows = "('2011-06-01 00:00:00'),('2011-06-01 00:00:00'),('2011-06-02 00:00:01')";
        let expected = format!("INSERT INTO t(`at`) VALUES{rows}");
        assert_eq!(insert.statement(), Some(expected.as_str()));
        insert.clear();
        assert_eq!(insert.statement(), None);
        assert_eq!(millis_of("2011-06-02 00:00:01"), Some(1_306_972_801_000));
        let from = range(Dialect::Published, &table, 1, &[Value::Millis(1_306_886_400_000)], 1);
        assert!(from.contains(" WHERE `at`>='2011-06-01 00:00:00' ORDER BY "), "{from}");
    }

    #[test]
    fn ranges_begin_where_they_are_told_to() {
        let range = |keyspace, from: &[Value<'_>], limit| {
            range(Dialect::AsGiven, &table(), keyspace, from, limit)
        };
        assert_eq!(
            range(1, &[Value::Text("a'b")], 7),
            "SELECT `name`,CAST(`price` AS DOUBLE),`id` FROM t FORCE INDEX(ix) WHERE \
             `name`>='a''b' ORDER BY `name`,`price`,`id` LIMIT 7"
        );
        assert!(
            range(1, &[Value::Text("a"), Value::F32(0.5)], 7)
                .contains(" WHERE `name`>='a' AND (`name`>'a' OR (`price`>=0.5)) ORDER BY ")
        );
        assert!(range(0, &[], 1).contains(" FROM t FORCE INDEX(PRIMARY) ORDER BY `id`"));
    }

    #[test]
    fn rows_come_back_as_they_were_given() {
        let row =
            [Value::I32(-7), Value::F32(0.1), Value::Text("it's \\ a\tname\n"), Value::Text("é\0")];
        let mut insert = Insert::new(Dialect::AsGiven, &table());
        insert.push(&row);
        let statement = insert.statement().unwrap_or_default();
        assert_eq!(
            statement,
            "INSERT INTO t(`id`,`price`,`name`,`story`) \
             VALUES(-7,0.1,'it''s \\\\ a\tname\\n','é\\0')"
        );
        // What the server answers.
        let fields = ["-7", "0.10000000149011612", "it's \\ a\tname\n", "é\0"];
        let shown = fields.map(|field| Some(field.as_bytes()));
        let mut encoded = crate::schema::EncodedRow::default();
        encoded.encode(&table(), &row);
        let (mut key, mut value) = (Vec::new(), Vec::new());
        encode(&table(), 0, &shown, &mut key, &mut value).expect("a row");
        assert_eq!((key, value), (encoded.key, encoded.value));
        let (mut key, mut value) = (Vec::new(), Vec::new());
        let mut fails =
            |row: &[Option<&[u8]>]| encode(&table(), 0, row, &mut key, &mut value).is_err();
        assert!(fails(&[Some(b"x"), shown[1], shown[2], shown[3]]));
        assert!(fails(&[None, shown[1], shown[2], shown[3]]));
        assert!(fails(&shown[..3]));
    }
}
