//! `frond stats`: the engine's counters and sizes.

use std::io::Write;

use frond::DamagedRange;

use crate::{
    common::{StoreArgs, grouped, output, size, store_bytes},
    escape::escape,
    fail::Result,
};

/// Print counters and sizes
///
/// Counters are those since the store was opened, which is now; sizes are those of the store.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    store: StoreArgs,
    /// As one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub fn run(args: Args) -> Result {
    let db = args.store.open()?;
    let stats = db.stats();
    let files = store_bytes(&args.store.dir);
    let mut out = output();
    if args.json {
        let mut object: serde_json::Map<String, serde_json::Value> =
            stats.iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
        object.insert("files_bytes".to_owned(), files.into());
        object.insert("failed".to_owned(), stats.failed.clone().into());
        let damaged: Vec<serde_json::Value> = stats.damaged.iter().map(to_json).collect();
        object.insert("damaged".to_owned(), damaged.into());
        object.insert("warnings".to_owned(), db.warnings().into());
        writeln!(out, "{}", serde_json::Value::from(object))?;
    } else {
        let all = stats.iter().chain([("files_bytes", files)]);
        for (name, value) in all {
            match name.strip_suffix("_bytes") {
                Some(what) => {
                    writeln!(out, "{:<26}{:>16}  {}", words(what), size(value), grouped(value))?;
                }
                None => writeln!(out, "{:<26}{:>16}", words(name), grouped(value))?,
            }
        }
        for range in &stats.damaged {
            writeln!(out, "degraded: {}", line(range))?;
        }
        for operation in &stats.slow {
            writeln!(out, "slow: {operation}")?;
        }
        if let Some(why) = &stats.failed {
            writeln!(out, "the store has stopped: {why}")?;
        }
    }
    Ok(out.flush()?)
}

/// A damaged range for people.
pub fn line(range: &DamagedRange) -> String {
    let bound = |key: &Option<Vec<u8>>| key.as_deref().map_or("…".to_owned(), escape);
    let tree = if range.tree.is_empty() { "(catalog)" } else { &range.tree };
    let DamagedRange { from, to, offset, why, .. } = range;
    format!("tree {tree}, keys {} to {}, byte {offset}: {why}", bound(from), bound(to))
}

fn to_json(range: &DamagedRange) -> serde_json::Value {
    let DamagedRange { tree, from, to, offset, why } = range;
    let bound = |key: &Option<Vec<u8>>| key.as_deref().map(escape);
    serde_json::json!({
        "tree": tree, "from": bound(from), "to": bound(to), "offset": offset, "why": why,
    })
}

fn words(name: &str) -> String {
    name.replace('_', " ")
}
