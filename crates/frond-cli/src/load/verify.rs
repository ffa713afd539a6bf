//! Verification against a ledger: everything that it lists as acknowledged must be in the store.
//!
//! The input is read again, from its start or after the records that `--skip` skips, and each row
//! up to the last acknowledged one is looked up, in the tree and in every index. Then everything is
//! counted: beyond what was acknowledged there may be the one batch that was in progress when the
//! loader ended, completely or not at all.

use std::path::Path;

use frond::{Options, Tree};

use crate::{
    common::{grouped, open, say},
    fail::{Fail, Result},
};

use super::{Args, batches::Loader, input::Input, ledger, target::Target};

/// Runs the verification; a difference results in exit code 1.
pub fn run(args: &Args, input: &mut Input, path: &Path) -> Result {
    let ledger = ledger::read(path)?;
    // Records that a later load skipped had been loaded before it, even if not acknowledged.
    let acknowledged = ledger.records.saturating_sub(args.skip);
    // Opening recovers from the log, which requires write access.
    let options = Options::new().cache_size(args.store.memory).create(false);
    let db = open(&args.store.dir, options)?;
    let target = Target::existing(&db, args)?;
    let mut loader = Loader::new(&target, args, input)?;
    loader.count_from_zero();
    let mut index_key = Vec::new();
    for row in 0..acknowledged {
        let Some((record, names)) = input.next()? else {
            return differs(format!("the ledger has {acknowledged} rows, but the input has {row}"));
        };
        let built = loader.build(record, names)?;
        if target.tree.get(built.key())?.as_deref() != Some(built.row()) {
            return differs(format!(
                "line {}: the row is missing or differs (the options of the load, such as --null, must \
                 be given here, too)",
                record.line
            ));
        }
        for (at, index) in target.indexes.iter().enumerate() {
            built.index_key(&target.header, at, &mut index_key).map_err(Fail::Error)?;
            if !index.contains(&index_key)? {
                let name = index.name();
                return differs(format!("line {}: the row is missing in \"{name}\"", record.line));
            }
        }
    }
    while !loader.is_full() {
        let Some((record, names)) = input.next()? else { break };
        loader.add(record, names)?;
    }
    let next_batch = loader.rows();
    let rows = count(&target.tree)?;
    let surplus = rows.checked_sub(acknowledged);
    if !surplus.is_some_and(|surplus| surplus == 0 || surplus == next_batch) {
        return differs(format!(
            "\"{}\" has {rows} rows; {acknowledged} were acknowledged, and the next batch has \
             {next_batch}",
            args.tree()
        ));
    }
    for index in &target.indexes {
        let entries = count(index)?;
        if entries != rows {
            return differs(format!("\"{}\" has {entries} entries for {rows} rows", index.name()));
        }
    }
    db.close()?;
    let more = match surplus.unwrap_or_default() {
        0 => "none of the next batch".to_owned(),
        surplus => format!("all {} rows of the next batch", grouped(surplus)),
    };
    say(&format!(
        "{} rows in {} batches were acknowledged: all are present, with {} index entries, and {more}",
        grouped(ledger.rows),
        grouped(ledger.batches),
        grouped(ledger.rows * target.indexes.len() as u64),
    ))
}

fn differs(why: String) -> Result {
    Err(Fail::Negative(why))
}

fn count(tree: &Tree) -> Result<u64> {
    let mut cursor = tree.scan(..)?;
    let mut entries = 0;
    while cursor.next()?.is_some() {
        entries += 1;
    }
    Ok(entries)
}
