//! The lab's tables and rows in MariaDB's SQL, and its answers as rows again.

use super::Pages;
use crate::schema::{Keyspace, Table, Type, Value};
use crate::targets::{Failure, Result};

/// The options of a table that keeps its pages so.
pub fn format_of(pages: Pages) -> String {
    match pages {
        Pages::Dynamic => "ROW_FORMAT=DYNAMIC".to_owned(),
        Pages::Compressed(kib) => format!("ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE={kib}"),
    }
}

/// Creates a table with its indexes; texts in keys have so many characters at most.
pub fn create_table(table: &Table, pages: Pages, key_text_chars: u32) -> String {
    let in_key = |column: usize| {
        let mut keys = table.indexes.iter().map(|index| &index.columns).chain([&table.primary]);
        keys.any(|key| key.contains(&column))
    };
    let kind = |column: usize| match table.columns[column].kind {
        Type::I8 => "TINYINT".to_owned(),
        Type::I32 => "INT".to_owned(),
        Type::U32 => "INT UNSIGNED".to_owned(),
        // Milliseconds too: eight bytes, as in the other stores.
        Type::U64 | Type::Millis => "BIGINT UNSIGNED".to_owned(),
        Type::F32 => "FLOAT".to_owned(),
        Type::Text if in_key(column) => format!("VARCHAR({key_text_chars})"),
        Type::Text => "LONGTEXT".to_owned(),
        Type::Bytes | Type::Number(_) => "LONGBLOB".to_owned(),
    };
    let columns = (0..table.columns.len())
        .map(|column| format!("`{}` {} NOT NULL", table.columns[column].name, kind(column)));
    let key = std::iter::once(format!("PRIMARY KEY({})", names(table, &table.primary)));
    let indexes = table.indexes.iter();
    let indexes =
        indexes.map(|index| format!("KEY {}({})", index.name, names(table, &index.columns)));
    let parts: Vec<String> = columns.chain(key).chain(indexes).collect();
    format!("CREATE TABLE {}({}) ENGINE=InnoDB {}", table.name, parts.join(","), format_of(pages))
}

fn names(table: &Table, columns: &[usize]) -> String {
    let names: Vec<String> =
        columns.iter().map(|&column| format!("`{}`", table.columns[column].name)).collect();
    names.join(",")
}

/// Appends a row as a list of literals in brackets.
pub fn append_row(row: &[Value<'_>], out: &mut String) {
    out.push('(');
    for (at, value) in row.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        append_literal(value, out);
    }
    out.push(')');
}

fn append_literal(value: &Value<'_>, out: &mut String) {
    match value {
        Value::I8(number) => out.push_str(&number.to_string()),
        Value::I32(number) => out.push_str(&number.to_string()),
        Value::U32(number) => out.push_str(&number.to_string()),
        Value::U64(number) | Value::Millis(number) => out.push_str(&number.to_string()),
        // The shortest form that reads back as the same number.
        Value::F32(number) => out.push_str(&number.to_string()),
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
            out.push('\'');
        }
    }
}

/// Columns of a keyspace as it is read: those of its key, then those of its value.
fn columns_read(table: &Table, keyspace: Keyspace) -> (Vec<usize>, Vec<usize>) {
    let value = if keyspace == 0 { table.value_columns().collect() } else { Vec::new() };
    (table.key_columns(keyspace), value)
}

/// That these columns are not below these values: said in a way that the server makes a range of, which it does
/// not of a comparison of rows.
fn not_below(table: &Table, columns: &[usize], from: &[Value<'_>]) -> String {
    let (Some((&column, columns)), Some((value, from))) =
        (columns.split_first(), from.split_first())
    else {
        return "TRUE".to_owned();
    };
    let name = table.columns[column].name;
    let mut literal = String::new();
    append_row(std::slice::from_ref(value), &mut literal);
    match from.is_empty() {
        true => format!("`{name}`>={literal}"),
        false => {
            let rest = not_below(table, columns, from);
            format!("`{name}`>={literal} AND (`{name}`>{literal} OR ({rest}))")
        }
    }
}

/// Selects a keyspace's columns in its order, from the first of these values on.
pub fn range(table: &Table, keyspace: Keyspace, from: &[Value<'_>], limit: u64) -> String {
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
            format!(" WHERE {}", not_below(table, columns, from))
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

/// A row as the client prints it, in the lab's encoding.
pub fn encode(
    table: &Table,
    keyspace: Keyspace,
    row: &[u8],
    key: &mut Vec<u8>,
    value: &mut Vec<u8>,
) -> Result<()> {
    key.clear();
    value.clear();
    let (keys, values) = columns_read(table, keyspace);
    let mut fields = row.split(|&byte| byte == b'\t');
    let all = keys.iter().map(|column| (column, true)).chain(values.iter().map(|c| (c, false)));
    for (&column, is_key) in all {
        let bad =
            || Failure(format!("innodb: column {} is not as it was", table.columns[column].name));
        let text =
            String::from_utf8(unescaped(fields.next().ok_or_else(bad)?)).map_err(|_| bad())?;
        let bad = |_| bad();
        let parsed = match table.columns[column].kind {
            Type::I8 => Value::I8(text.parse().map_err(|_| bad(()))?),
            Type::I32 => Value::I32(text.parse().map_err(|_| bad(()))?),
            Type::U32 => Value::U32(text.parse().map_err(|_| bad(()))?),
            Type::U64 => Value::U64(text.parse().map_err(|_| bad(()))?),
            Type::Millis => Value::Millis(text.parse().map_err(|_| bad(()))?),
            Type::F32 => Value::F32(text.parse::<f64>().map_err(|_| bad(()))? as f32),
            Type::Text => Value::Text(&text),
            Type::Bytes | Type::Number(_) => return Err(bad(())),
        };
        match is_key {
            true => parsed.append_key(key),
            false => parsed.append_value(value),
        }
    }
    Ok(())
}

/// A field without the escapes that the client puts into it.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut bytes = field.iter().copied();
    let mut out = Vec::with_capacity(field.len());
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'\\' => match bytes.next() {
                Some(b't') => b'\t',
                Some(b'n') => b'\n',
                Some(b'0') => 0,
                Some(other) => other,
                None => b'\\',
            },
            byte => byte,
        });
    }
    out
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
    fn tables_are_created_with_their_keys_and_pages() {
        let sql = create_table(&table(), Pages::Compressed(4), 255);
        assert_eq!(
            sql,
            "CREATE TABLE t(`id` INT NOT NULL,`price` FLOAT NOT NULL,`name` VARCHAR(255) NOT NULL,\
             `story` LONGTEXT NOT NULL,PRIMARY KEY(`id`),KEY ix(`name`,`price`)) ENGINE=InnoDB \
             ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=4"
        );
        assert!(create_table(&table(), Pages::Dynamic, 9).ends_with("InnoDB ROW_FORMAT=DYNAMIC"));
    }

    #[test]
    fn ranges_begin_where_they_are_told_to() {
        assert_eq!(
            range(&table(), 1, &[Value::Text("a'b")], 7),
            "SELECT `name`,CAST(`price` AS DOUBLE),`id` FROM t FORCE INDEX(ix) WHERE \
             `name`>=('a''b') ORDER BY `name`,`price`,`id` LIMIT 7"
        );
        assert!(
            range(&table(), 1, &[Value::Text("a"), Value::F32(0.5)], 7)
                .contains(" WHERE `name`>=('a') AND (`name`>('a') OR (`price`>=(0.5))) ORDER BY ")
        );
        assert!(range(&table(), 0, &[], 1).contains(" FROM t FORCE INDEX(PRIMARY) ORDER BY `id`"));
    }

    #[test]
    fn rows_come_back_as_they_were_given() {
        let row =
            [Value::I32(-7), Value::F32(0.1), Value::Text("it's \\ a\tname\n"), Value::Text("é\0")];
        let mut literals = String::new();
        append_row(&row, &mut literals);
        assert_eq!(literals, "(-7,0.1,'it''s \\\\ a\tname\\n','é\\0')");
        // What the client prints of it.
        let shown = "-7\t0.10000000149011612\tit's \\\\ a\\tname\\n\té\\0".as_bytes();
        let mut encoded = crate::schema::EncodedRow::default();
        encoded.encode(&table(), &row);
        let (mut key, mut value) = (Vec::new(), Vec::new());
        encode(&table(), 0, shown, &mut key, &mut value).expect("a row");
        assert_eq!((key, value), (encoded.key, encoded.value));
        let (mut key, mut value) = (Vec::new(), Vec::new());
        assert!(encode(&table(), 0, b"x\t1\ta\tb", &mut key, &mut value).is_err());
        assert!(encode(&table(), 0, b"1\t1\ta", &mut key, &mut value).is_err());
    }
}
