//! Output of the size and savings of each part of a tree's rows, as text and as JSON.

use std::io::Write;

use frond::check::{ColumnOf, ColumnUse, TreeColumns};

use crate::{common::grouped, fail::Result};

/// Prints a line for the leaves that were read, and one for each part of their rows.
pub fn print(columns: &TreeColumns, out: &mut impl Write) -> Result {
    let rows = columns.rows.max(1) as f64;
    writeln!(
        out,
        "  rows in {} of {} leaves: {:.2} bytes each, {:.2} before encoding{}",
        grouped(columns.leaves_read),
        grouped(columns.leaves),
        columns.bytes as f64 / rows,
        columns.row_bytes as f64 / rows,
        match saved(columns.saved_bytes(), columns.row_bytes) {
            saved if saved.is_empty() => saved,
            saved => format!(", {saved}"),
        }
    )?;
    for (&of, column) in &columns.columns {
        print_part(&name_of(of), column, rows, out)?;
    }
    if columns.row_blocks.bytes > 0 {
        print_part("whole blocks", &columns.row_blocks, rows, out)?;
    }
    let in_columns: u64 = columns.columns.values().map(|column| column.bytes).sum();
    let known = [("filters", columns.filter_bytes), ("models", columns.model_bytes)];
    let known_bytes: u64 = known.iter().map(|(_, bytes)| bytes).sum();
    let overhead =
        columns.bytes.saturating_sub(in_columns + columns.row_blocks.bytes + known_bytes);
    for (name, bytes) in known.into_iter().chain([("headers, index", overhead)]) {
        if bytes > 0 {
            writeln!(out, "    {name:<15}{:>9.2}", bytes as f64 / rows)?;
        }
    }
    Ok(())
}

fn print_part(name: &str, column: &ColumnUse, rows: f64, out: &mut impl Write) -> Result {
    let line = format!(
        "    {name:<15}{:>9.2} of {:>8.2}  {:<14}{}",
        column.bytes as f64 / rows,
        column.row_bytes as f64 / rows,
        saved(column.saved_bytes(), column.row_bytes),
        encodings(column)
    );
    Ok(writeln!(out, "{}", line.trim_end())?)
}

/// What the columns contain, as a JSON object; bytes are those of the leaves that were read.
pub fn json(columns: &TreeColumns) -> serde_json::Value {
    let part = |of: String, column: &ColumnUse| {
        serde_json::json!({
            "of": of,
            "row_bytes": column.row_bytes,
            "bytes": column.bytes,
            "saved_bytes": column.saved_bytes(),
            "encodings": column.encodings,
        })
    };
    let parts = columns.columns.iter().map(|(&of, column)| part(name_of(of), column));
    let row_blocks =
        (columns.row_blocks.bytes > 0).then(|| part("whole blocks".into(), &columns.row_blocks));
    serde_json::json!({
        "leaves": columns.leaves,
        "leaves_read": columns.leaves_read,
        "rows": columns.rows,
        "row_bytes": columns.row_bytes,
        "bytes": columns.bytes,
        "saved_bytes": columns.saved_bytes(),
        "filter_bytes": columns.filter_bytes,
        "model_bytes": columns.model_bytes,
        "parts": parts.chain(row_blocks).collect::<Vec<_>>(),
    })
}

/// The part of `bytes` that is saved, if any.
pub fn saved(saved_bytes: u64, bytes: u64) -> String {
    match saved_bytes {
        0 => String::new(),
        _ => format!("saved {:.1} %", 100.0 * saved_bytes as f64 / bytes as f64),
    }
}

/// How often each encoding was chosen, the most frequent first.
fn encodings(column: &ColumnUse) -> String {
    let mut encodings: Vec<_> = column.encodings.iter().collect();
    encodings.sort_by_key(|&(_, &blocks)| std::cmp::Reverse(blocks));
    let blocks: u64 = column.encodings.values().sum();
    let named = encodings.iter().map(|&(name, &times)| match times == blocks {
        true => (*name).to_owned(),
        false => format!("{name} {:.0} %", 100.0 * times as f64 / blocks as f64),
    });
    named.collect::<Vec<_>>().join(", ")
}

fn name_of(of: ColumnOf) -> String {
    match of {
        ColumnOf::Tags => "tags".into(),
        ColumnOf::Key(part) => format!("key {part}"),
        ColumnOf::WholeKey => "other keys".into(),
        ColumnOf::Value(part) => format!("value {part}"),
        ColumnOf::Others => "other payloads".into(),
    }
}
