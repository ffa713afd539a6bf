//! `frond stats`: a summary of a store; its counters, and for each tree the size of its rows and
//! the cost of encoding.

use std::io::Write;

use frond::{
    Db,
    check::TreeColumns,
    stats::{DamagedRange, DecodeStats, EncodeStats, TreeSizes, TreeStats},
};

use crate::{
    columns,
    common::{StoreArgs, count_of, grouped, output, size, store_bytes},
    escape::escape,
    fail::Result,
    trees::{self, Listed},
};

/// Number of leaves of a tree that are read to report the size of its rows: 2 MiB or a little more.
const LEAVES_READ: u64 = 4;

/// Print a summary of a store: trees, files, log, memory
///
/// --counters adds all counters, and the size of each tree's columns, estimated
/// from a sample of its leaves (`frond inspect --columns` reads all of them).
/// Counters of work start at 0 when a store is opened. This command opens the store
/// itself, so they show only its own work.
#[derive(clap::Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  frond stats shop.db
  frond stats shop.db --counters
  frond stats shop.db --json | jq .space_free_bytes"
)]
pub struct Args {
    #[command(flatten)]
    store: StoreArgs,
    /// Also print all counters, and the size of the columns of each tree
    #[arg(long, conflicts_with = "json")]
    counters: bool,
    /// Print everything as one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs `frond stats`.
pub fn run(args: Args) -> Result {
    let db = args.store.open()?;
    let mut out = output();
    match args.json {
        true => print_json(&db, &args, &mut out)?,
        false => {
            print_summary(&db, &args, &mut out)?;
            if args.counters {
                writeln!(out)?;
                print_counters(&db, &mut out)?;
            }
        }
    }
    Ok(out.flush()?)
}

fn print_summary(db: &Db, args: &Args, out: &mut impl Write) -> Result {
    let stats = db.stats();
    let counter = |name| stats.get(name).unwrap_or_default();
    let trees = Listed::all(db)?;
    if !trees.is_empty() {
        trees::print(&trees, out)?;
        writeln!(out)?;
    }
    let files = store_bytes(&args.store.dir, |_| true);
    let log = store_bytes(&args.store.dir, |name| name.starts_with("log-"));
    let (free, kept) = (counter("space_free_bytes"), counter("snapshot_kept_bytes"));
    // Most free space is not allocated, and takes no space on disk.
    let free = free.saturating_sub(files.holes);
    writeln!(
        out,
        "files       {} on disk, {} of it free for reuse",
        size(files.on_disk),
        size(free)
    )?;
    // The command has just opened the store, so what is applied is what the last checkpoint has.
    let (visible, applied) = (counter("seqno_visible"), counter("seqno_applied"));
    writeln!(
        out,
        "log         {}, {} after the last checkpoint",
        size(log.on_disk),
        count_of(visible.saturating_sub(applied), "commit")
    )?;
    writeln!(out, "checkpoint  everything through commit {}", grouped(applied))?;
    writeln!(
        out,
        "memory      {} in use, {} allowed",
        size(counter("memory_taken_bytes")),
        size(args.store.memory)
    )?;
    writeln!(out, "snapshots   {}, {} kept for them", counter("snapshots"), size(kept))?;
    for range in &stats.damaged {
        writeln!(out, "damaged     {}", line(range))?;
    }
    if let Some(why) = &stats.failed {
        writeln!(out, "the store has stopped: {why}")?;
    }
    Ok(())
}

fn print_counters(db: &Db, out: &mut impl Write) -> Result {
    let stats = db.stats();
    // `publish` counts nothing: opening a store skips many versions.
    for (name, value) in stats.iter().filter(|(name, _)| *name != "publish") {
        match name.strip_suffix("_bytes") {
            Some(_) => writeln!(out, "{name:<30}{:>16}  {}", grouped(value), size(value))?,
            None => writeln!(out, "{name:<30}{:>16}", grouped(value))?,
        }
    }
    for tree in db.tree_stats() {
        print_tree(&tree, Look::at(db, &tree).as_ref(), out)?;
    }
    for operation in &stats.slow {
        writeln!(out, "slow: {operation}")?;
    }
    Ok(())
}

fn print_json(db: &Db, args: &Args, out: &mut impl Write) -> Result {
    let stats = db.stats();
    let mut object: serde_json::Map<String, serde_json::Value> =
        stats.iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
    let files = store_bytes(&args.store.dir, |_| true);
    object.insert("files_bytes".to_owned(), files.length.into());
    object.insert("files_disk_bytes".to_owned(), files.on_disk.into());
    object.insert("failed".to_owned(), stats.failed.clone().into());
    let damaged: Vec<serde_json::Value> = stats.damaged.iter().map(to_json).collect();
    object.insert("damaged".to_owned(), damaged.into());
    object.insert("warnings".to_owned(), db.warnings().into());
    let trees = db.tree_stats();
    let trees = trees.iter().map(|tree| tree_json(tree, Look::at(db, tree).as_ref()));
    object.insert("by_tree".to_owned(), trees.collect());
    Ok(writeln!(out, "{}", serde_json::Value::from(object))?)
}

/// Sizes and columns of the part of a tree that is in pages.
enum Look {
    Seen {
        sizes: TreeSizes,
        columns: TreeColumns,
    },
    /// The reason why nothing can be reported.
    Unreadable(String),
}

impl Look {
    /// Examines a tree other than the catalog; `None` if it has no page.
    fn at(db: &Db, tree: &TreeStats) -> Option<Self> {
        if tree.tree.is_empty() {
            return None;
        }
        let look = || {
            let tree = db.open_tree(&tree.tree)?;
            let sizes = tree.sizes()?;
            if sizes.depth == 0 {
                return Ok(None);
            }
            let columns = tree.column_sizes(sizes.leaves.div_ceil(LEAVES_READ))?;
            Ok(Some(Self::Seen { sizes, columns }))
        };
        look().unwrap_or_else(|error: frond::Error| Some(Self::Unreadable(error.to_string())))
    }
}

/// Prints a tree for people; nothing if it has no page and no work was done on it.
fn print_tree(tree: &TreeStats, look: Option<&Look>, out: &mut impl Write) -> Result {
    let done = [("leaves", &tree.leaves), ("buffers", &tree.buffers)];
    let done = done.map(|(name, work)| (name, work_line(work)));
    let decoded = decoded_line(&tree.decoded);
    let is_silent = done.iter().all(|(_, line)| line.is_empty()) && decoded.is_empty();
    if is_silent && look.is_none() {
        return Ok(());
    }
    match tree.tree.as_str() {
        "" => writeln!(out, "catalog")?,
        name => writeln!(out, "tree \"{name}\"")?,
    }
    match look {
        Some(Look::Seen { sizes, columns }) => {
            writeln!(out, "  {}", sizes_line(sizes, tree.size_class.codec_name()))?;
            columns::print(columns, out)?;
        }
        Some(Look::Unreadable(why)) => writeln!(out, "  part of it cannot be read: {why}")?,
        None => {}
    }
    for (name, line) in done.iter().filter(|(_, line)| !line.is_empty()) {
        writeln!(out, "  {name}: {line}")?;
    }
    if !decoded.is_empty() {
        writeln!(out, "  {decoded}")?;
    }
    Ok(())
}

/// Describes the size of a tree.
fn sizes_line(sizes: &TreeSizes, codec: &str) -> String {
    let (raw, encoded, disk) =
        [sizes.raw_bytes, sizes.encoded_bytes, sizes.disk_bytes].map(size).into();
    let (rows, leaves) = (count_of(sizes.leaf_rows, "row"), grouped(sizes.leaves));
    let mut line =
        format!("{rows} in {leaves} leaves: {raw} encoded as {encoded} ({codec}), {disk} on disk");
    let more = [
        (sizes.blob_bytes, "of it in long values"),
        (sizes.buffered_bytes, "waiting in buffers"),
        (sizes.memory_bytes, "in memory only"),
    ];
    for (bytes, what) in more.into_iter().filter(|(bytes, _)| *bytes > 0) {
        line += &format!(", {} {what}", size(bytes));
    }
    line + &format!("; {} levels", sizes.depth)
}

/// Describes the cost and result of encoding runs; empty if there were none.
fn work_line(work: &EncodeStats) -> String {
    let EncodeStats { blocks, from_bytes, bytes, nanos, .. } = *work;
    if work.runs == 0 {
        return String::new();
    }
    let (from, to, took) = (size(from_bytes), size(bytes), millis(nanos));
    let mut line = format!("{} blocks encoded, {from} to {to} in {took}", grouped(blocks));
    if work.carried_blocks > 0 {
        line += &format!("; {} copied unchanged", grouped(work.carried_blocks));
    }
    if work.chunks_coded + work.chunks_raw > 0 {
        let (from, to) = (size(work.chunks_coded_from_bytes), size(work.chunks_coded_bytes));
        line += &format!("; {} chunks compressed, {from} to {to}", grouped(work.chunks_coded));
        line += &format!(", {} stored raw", grouped(work.chunks_raw));
    }
    if work.trainings > 0 {
        let (times, took) = (grouped(work.trainings), millis(work.training_nanos));
        line += &format!("; models trained {times} times in {took}");
    }
    line
}

fn decoded_line(decoded: &DecodeStats) -> String {
    let DecodeStats { chunks, bytes, nanos } = *decoded;
    match chunks {
        0 => String::new(),
        _ => format!(
            "{} chunks decompressed to {} in {}",
            grouped(chunks),
            size(bytes),
            millis(nanos)
        ),
    }
}

fn millis(nanos: u64) -> String {
    format!("{:.1} ms", nanos as f64 / 1e6)
}

fn tree_json(tree: &TreeStats, look: Option<&Look>) -> serde_json::Value {
    type Numbers = serde_json::Map<String, serde_json::Value>;
    let numbers = |numbers: &mut dyn Iterator<Item = (&'static str, u64)>| -> Numbers {
        numbers.map(|(name, value)| (name.to_owned(), value.into())).collect()
    };
    let mut object = serde_json::json!({
        "tree": tree.tree,
        "id": tree.id.0,
        "codec": tree.size_class.codec_name(),
        "leaves": numbers(&mut tree.leaves.iter()),
        "buffers": numbers(&mut tree.buffers.iter()),
        "decoded": numbers(&mut tree.decoded.iter()),
    });
    match look {
        Some(Look::Seen { sizes, columns }) => {
            object["rows"] = sizes.leaf_rows.into();
            object["leaf_bytes"] = sizes.encoded_bytes.into();
            object["sizes"] = sizes_json(sizes);
            object["columns"] = columns::json(columns);
        }
        Some(Look::Unreadable(why)) => object["unreadable"] = why.as_str().into(),
        None => {}
    }
    object
}

fn sizes_json(sizes: &TreeSizes) -> serde_json::Value {
    let TreeSizes { rows, rows_exact, leaf_rows, leaves, raw_bytes, encoded_bytes, .. } = *sizes;
    let TreeSizes { disk_bytes, blob_bytes, buffered_bytes, memory_bytes, depth, .. } = *sizes;
    serde_json::json!({
        "rows": rows, "rows_exact": rows_exact, "leaf_rows": leaf_rows, "leaves": leaves, "raw_bytes": raw_bytes,
        "encoded_bytes": encoded_bytes, "disk_bytes": disk_bytes, "blob_bytes": blob_bytes,
        "buffered_bytes": buffered_bytes, "memory_bytes": memory_bytes, "depth": depth,
    })
}

/// Describes a damaged range for people.
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
