//! `frond stats`: the engine's counters and sizes.

use std::io::Write;

use crate::{
    common::{StoreArgs, grouped, output, size, store_bytes},
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
        if let Some(why) = &stats.failed {
            writeln!(out, "the store has stopped: {why}")?;
        }
    }
    Ok(out.flush()?)
}

fn words(name: &str) -> String {
    name.replace('_', " ")
}
