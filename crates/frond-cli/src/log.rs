//! `frond log`: the contents of the log, record by record.
//!
//! Reads the segments as recovery does, from where the newest superblock slot needs them, and
//! changes nothing. A torn end is reported; damage is an error.

use std::io::Write;

use frond::{
    Result as EngineResult, TreeId,
    feed::{Kind, Message},
    internals::{
        catalog::Record as CatalogRecord,
        io::Env,
        store::{self, StoreOptions},
        wal::{self, Expect, Item, Record, RecordItems},
    },
};

use crate::{
    common::{StoreArgs, output},
    escape::escape,
    fail::{Fail, Result},
};

/// Print the records of the log
///
/// One line per record: position, type, sequence number, and a summary of its
/// content. With --entries, each entry follows on a line of its own: tree number,
/// change, key and value, escaped.
#[derive(clap::Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  frond log shop.db
  frond log shop.db --entries | grep orders"
)]
pub struct Args {
    #[command(flatten)]
    store: StoreArgs,
    /// Also print the entries of each record
    #[arg(long)]
    entries: bool,
}

/// Runs `frond log`.
pub fn run(args: Args) -> Result {
    let (env, dir) = (Env::real(), &args.store.dir);
    let options = StoreOptions { read_only: true, ..StoreOptions::default() };
    if store::probe(&env, dir)? != store::Found::Store {
        return crate::fail::error(format!("{} is not a store", dir.display()));
    }
    let opened = store::open(&env, dir, options)?;
    let slot = opened.superblock;
    let expect = match slot.clean {
        Some(end) => Expect::CleanEnd(end),
        None => Expect::Crashed { synced: slot.log_synced },
    };
    let mut out = output();
    // An error of writing output lines, kept apart from the engine's results.
    let mut failed: Option<Fail> = None;
    let from = opened.store.log_needed_from();
    let end = wal::recover(&env, dir, slot.store, from, expect, &mut |lsn, payload| {
        if failed.is_none() {
            let written = write_record(lsn.0, wal::decode(lsn, payload)?, args.entries, &mut out);
            failed = written.err();
        }
        Ok(())
    })?;
    if let Some(fail) = failed {
        return Err(fail);
    }
    writeln!(
        out,
        "{} records in {} groups, up to position {}{}; the trees contain everything before position {}",
        end.records,
        end.groups,
        end.end,
        if end.torn { ", where a crash cut off the log" } else { "" },
        slot.log_from,
    )?;
    Ok(out.flush()?)
}

fn write_record(lsn: u64, record: Record<'_>, entries: bool, out: &mut impl Write) -> Result {
    match record {
        Record::Checkpoint { sequence } => writeln!(out, "{lsn}\tcheckpoint\t{sequence}")?,
        Record::Keeps { items } => {
            let mut lines = Vec::new();
            read_items(items, entries.then_some(&mut lines))?;
            writeln!(out, "{lsn}\textents of prepared transactions")?;
            out.write_all(&lines)?;
        }
        Record::Commit { seqno, items } => {
            let mut lines = Vec::new();
            let summary = read_items(items, entries.then_some(&mut lines))?;
            writeln!(out, "{lsn}\tcommit\t{seqno}\t{summary}")?;
            out.write_all(&lines)?;
        }
    }
    Ok(())
}

/// Returns a summary of the items, and appends the items themselves if `lines` is given.
fn read_items(mut items: RecordItems<'_>, mut lines: Option<&mut Vec<u8>>) -> EngineResult<String> {
    let (mut entries, mut bytes, mut trees) = (0u64, 0u64, Vec::<TreeId>::new());
    while let Some(item) = items.next()? {
        let (tree, line) = match item {
            Item::Entry { tree, key, tag, payload } => {
                bytes += (key.len() + payload.len()) as u64;
                let message = Message::new(tag, payload);
                (Some(tree), lines.is_some().then(|| entry_line(tree, key, message)))
            }
            Item::DeleteRange { tree, from, to } => {
                bytes += (from.len() + to.len()) as u64;
                let line = || format!("\t{tree}\tdelete range\t{}\t{}", escape(from), escape(to));
                (Some(tree), lines.is_some().then(line))
            }
            Item::Rows { .. } | Item::Counter { .. } => continue,
            Item::Runs { tree, links } => {
                let line = || format!("\t{tree}\truns\t{}", links.len());
                (Some(tree), lines.is_some().then(line))
            }
            Item::Extent(extent) => {
                let line = || format!("\textent\t{}\t{}", extent.offset, extent.bytes);
                (None, lines.is_some().then(line))
            }
            Item::Page { kind, extent } => {
                let line = || format!("\tpage\t{kind:?}\t{}\t{}", extent.offset, extent.bytes);
                (None, lines.is_some().then(line))
            }
            Item::Prepared { xid, at } => {
                let line = || format!("\tcommits prepared transaction\t{}\tat {at}", escape(xid));
                (None, lines.is_some().then(line))
            }
            Item::Root { tree, .. } => {
                (Some(tree), lines.is_some().then(|| format!("\t{tree}\tloaded in bulk")))
            }
        };
        entries += 1;
        if let Some(tree) = tree
            && trees.last() != Some(&tree)
        {
            trees.push(tree);
        }
        if let (Some(lines), Some(line)) = (&mut lines, line) {
            lines.extend_from_slice(line.as_bytes());
            lines.push(b'\n');
        }
    }
    Ok(format!("{entries} entries\t{} trees\t{bytes} bytes", trees.len()))
}

fn entry_line(tree: TreeId, key: &[u8], message: Message<'_>) -> String {
    if tree == TreeId(0)
        && message.tag.is_put()
        && let Ok(record) = CatalogRecord::decode(key, message.payload)
    {
        return format!("\t{tree}\tcatalog\t{}", catalog_line(&record));
    }
    let verb = match (message.tag.kind(), message.tag.is_fresh()) {
        (Kind::Put, false) => "put",
        (Kind::Put, true) => "insert",
        (Kind::Delete, _) => "delete",
        (Kind::Merge, _) => "merge",
        (Kind::PutBlob, _) => "put blob",
        (Kind::Versions, _) => "versions",
    };
    format!("\t{tree}\t{verb}\t{}\t{}", escape(key), escape(message.payload))
}

fn catalog_line(record: &CatalogRecord) -> String {
    match record {
        CatalogRecord::Tree(tree) => {
            let operators = tree.operators.iter();
            let uses =
                operators.map(|(number, name)| format!(", uses operator {number} \"{name}\""));
            format!("tree {} is \"{}\"{}", tree.id, tree.name, uses.collect::<String>())
        }
        CatalogRecord::Snapshot(snapshot) => {
            format!("snapshot \"{}\" at commit {}", snapshot.name, snapshot.seqno)
        }
        CatalogRecord::Dropped(dropped) => format!("tree {} is dropped", dropped.tree),
        CatalogRecord::Prepared(piece) => {
            format!(
                "prepared transaction {}, piece {} of {}",
                piece.xid,
                piece.number + 1,
                piece.count
            )
        }
        CatalogRecord::Counters(counters) => format!("next tree is {}", counters.next_tree),
    }
}
