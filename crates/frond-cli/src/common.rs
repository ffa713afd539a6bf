//! Shared by several subcommands: opening a store, sizes, and standard output.

use std::{
    io::{self, BufWriter, IsTerminal, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use frond::{Cursor, Db, KeyRange, Options, SizeClass, Snapshot, Tree};

use crate::fail::{Fail, Result, error, to_stderr};

/// The store, and the memory that it may use.
#[derive(clap::Args)]
pub struct StoreArgs {
    /// Directory of the store
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Memory limit for the store, e.g. 64M or 2G; at least 4M
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = parse_memory,
        allow_negative_numbers = true)]
    pub memory: u64,
}

impl StoreArgs {
    /// Opens the store for reading; nothing is created or changed.
    pub fn open(&self) -> Result<Db> {
        open(&self.dir, Options::new().cache_size(self.memory).read_only(true).create(false))
    }

    /// Opens the store for changing it; none is created.
    pub fn open_to_write(&self) -> Result<Db> {
        open(&self.dir, Options::new().cache_size(self.memory).create(false))
    }
}

/// True if the directory does not exist, or contains no file of a store.
fn holds_nothing(dir: &Path) -> bool {
    let is_of_store = |name: &str| name == "store.frond" || name.starts_with("log-");
    match std::fs::read_dir(dir) {
        Ok(files) => {
            !files.flatten().any(|file| file.file_name().to_str().is_some_and(is_of_store))
        }
        Err(why) => why.kind() == io::ErrorKind::NotFound,
    }
}

/// Opens a store, and prints its warnings on standard error.
pub fn open(dir: &Path, options: Options) -> Result<Db> {
    let db = Db::open(dir, options).map_err(|error| match error {
        frond::Error::NotAStore { .. } if holds_nothing(dir) => Fail::Error(format!(
            "FRD-{} {}: there is no store here; `frond load` and `frond put --create` create one",
            error.code(),
            dir.display()
        )),
        other => other.into(),
    })?;
    for warning in db.warnings() {
        to_stderr(&format!("warning: {warning}"));
    }
    Ok(db)
}

/// Opens a store, or creates it in a directory that is new or empty. A directory with other files
/// is refused, so that a mistyped path does not put a store among them.
pub fn open_or_create(dir: &Path, options: Options) -> Result<Db> {
    let is_ours = |name: &str| name.starts_with("store.frond") || name.starts_with("log-");
    let files = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let names = files.map(|file| file.file_name().to_string_lossy().into_owned());
    // A new file system contains this directory.
    let mut names: Vec<String> = names.filter(|name| name != "lost+found").collect();
    if !names.is_empty() && !names.iter().any(|name| is_ours(name)) {
        names.sort();
        let more = if names.len() > 3 { ", …" } else { "" };
        names.truncate(3);
        return error(format!(
            "{} is not a store and contains other files: {}{more}; use a new or empty directory",
            dir.display(),
            names.join(", ")
        ));
    }
    parent_must_exist(dir)?;
    open(dir, options)
}

/// Checks that something can be created at this path, and names the directory that is missing.
pub fn parent_must_exist(path: &Path) -> Result {
    match path.parent().filter(|parent| !parent.as_os_str().is_empty() && !parent.exists()) {
        None => Ok(()),
        Some(parent) => error(format!(
            "cannot create {}: the directory {} does not exist",
            path.display(),
            parent.display()
        )),
    }
}

/// The current state of the store, or that of a named snapshot.
#[derive(clap::Args)]
pub struct SnapshotArgs {
    /// Read from this named snapshot instead of the current state
    #[arg(long, value_name = "NAME")]
    snapshot: Option<String>,
}

/// What a command reads: the current store, or a snapshot.
pub enum ReadView {
    Current(Db),
    Snapshot(Snapshot),
}

impl SnapshotArgs {
    /// The view that the arguments select.
    pub fn view(&self, db: &Db) -> Result<ReadView> {
        Ok(match &self.snapshot {
            None => ReadView::Current(db.clone()),
            Some(name) => ReadView::Snapshot(db.open_snapshot(name)?),
        })
    }
}

impl ReadView {
    /// Names of all trees, ascending.
    pub fn names(&self) -> Result<Vec<String>> {
        let trees = match self {
            ReadView::Current(db) => db.trees(),
            ReadView::Snapshot(snapshot) => snapshot.trees()?,
        };
        let mut names: Vec<String> = trees.into_iter().map(|tree| tree.name).collect();
        names.sort();
        Ok(names)
    }

    /// The tree of this name, or an error that lists the existing ones.
    pub fn tree(&self, name: &str) -> Result<Tree> {
        let tree = match self {
            ReadView::Current(db) => db.open_tree(name),
            ReadView::Snapshot(snapshot) => snapshot.open_tree(name),
        };
        match tree {
            Err(frond::Error::NoSuchTree(_)) => match self.names()?.as_slice() {
                [] => error(format!("no tree \"{name}\"; the store has no trees")),
                names => error(format!("no tree \"{name}\"; existing trees: {}", names.join(", "))),
            },
            other => Ok(other?),
        }
    }

    /// The value of a key.
    pub fn get(&self, tree: &Tree, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(match self {
            ReadView::Current(_) => tree.get(key),
            ReadView::Snapshot(snapshot) => snapshot.get(tree, key),
        }?)
    }

    /// A cursor over a range.
    pub fn scan(&self, tree: &Tree, range: impl KeyRange) -> Result<Cursor> {
        Ok(match self {
            ReadView::Current(_) => tree.scan(range),
            ReadView::Snapshot(snapshot) => snapshot.scan(tree, range),
        }?)
    }
}

/// The tree of this name, or an error that lists the existing ones.
pub fn open_tree(db: &Db, name: &str) -> Result<Tree> {
    ReadView::Current(db.clone()).tree(name)
}

fn parse_memory(text: &str) -> Result<u64, String> {
    match parse_size(text)? {
        bytes if bytes < frond::CACHE_BYTES_MIN => Err("must be at least 4M".to_owned()),
        bytes => Ok(bytes),
    }
}

/// Parses a number of rows or entries.
pub fn parse_count(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "must be a number, 0 or more".to_owned())
}

/// Parses the name of a size class.
pub fn parse_class(text: &str) -> Result<SizeClass, String> {
    let classes = [SizeClass::Fast, SizeClass::Default, SizeClass::Small];
    let class = classes.into_iter().find(|class| class_name(*class) == text);
    class.ok_or_else(|| "must be fast, default or small".to_owned())
}

/// The name of a size class.
pub fn class_name(class: SizeClass) -> &'static str {
    match class {
        SizeClass::Fast => "fast",
        SizeClass::Default => "default",
        SizeClass::Small => "small",
    }
}

/// Parses a size in bytes, such as `64M`, `2G` or `4096`. Units are powers of 1024.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text[digits.len()..].to_ascii_uppercase();
    let shift = match unit.trim_end_matches("IB").trim_end_matches('B') {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err(format!("\"{text}\" is not a size such as 64M")),
    };
    digits
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(1 << shift))
        .ok_or_else(|| format!("\"{text}\" is not a size such as 64M"))
}

/// Formats a size for people: three digits and a unit.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KB", "MB", "GB", "TB"];
    let (mut value, mut unit) = (bytes as f64, 0);
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    match (unit, value) {
        (0, _) => format!("{bytes} B"),
        (_, value) if value < 9.995 => format!("{value:.2} {}", UNITS[unit]),
        (_, value) if value < 99.95 => format!("{value:.1} {}", UNITS[unit]),
        (_, value) => format!("{value:.0} {}", UNITS[unit]),
    }
}

/// Formats a number: 1,234,567 on a terminal, 1234567 otherwise.
pub fn grouped(number: u64) -> String {
    match io::stdout().is_terminal() {
        true => with_commas(number),
        false => number.to_string(),
    }
}

/// Formats a number and what it counts: 1 row, 2 rows, 2 entries.
pub fn count_of(number: u64, what: &str) -> String {
    let count = grouped(number);
    match (number, what.strip_suffix('y')) {
        (1, _) => format!("{count} {what}"),
        (_, Some(stem)) => format!("{count} {stem}ies"),
        (_, None) => format!("{count} {what}s"),
    }
}

fn with_commas(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Bytes of files.
#[derive(Default)]
pub struct FileBytes {
    /// Space that they take on disk.
    pub on_disk: u64,
    /// The part of their length that takes no space.
    pub holes: u64,
    /// The sum of their lengths.
    pub length: u64,
}

/// Bytes of the files of a store whose names are selected.
pub fn store_bytes(dir: &Path, is_selected: impl Fn(&str) -> bool) -> FileBytes {
    let files = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let files = files.filter(|file| file.file_name().to_str().is_some_and(&is_selected));
    let files = files.filter_map(|file| file.metadata().ok()).filter(|about| about.is_file());
    let mut bytes = FileBytes::default();
    for file in files {
        // The unit is always 512 bytes.
        let on_disk = file.blocks() * 512;
        bytes.on_disk += on_disk;
        bytes.holes += file.len().saturating_sub(on_disk);
        bytes.length += file.len();
    }
    bytes
}

/// Buffered standard output. If the reader closes the pipe, the command ends without a message.
pub fn output() -> BufWriter<io::StdoutLock<'static>> {
    BufWriter::with_capacity(64 << 10, io::stdout().lock())
}

/// Prints one line.
pub fn say(line: &str) -> Result {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_written() {
        assert_eq!(parse_size("64M"), Ok(64 << 20));
        assert_eq!(parse_size("2GiB"), Ok(2 << 30));
        assert_eq!(parse_size("100"), Ok(100));
        for bad in ["", "M", "1.5G", "-1", "9X", "99999999999T"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
        assert_eq!([size(999), size(1000), size(12_345_678)], ["999 B", "1.00 KB", "12.3 MB"]);
        assert_eq!([7, 1234, 1234567].map(with_commas), ["7", "1,234", "1,234,567"]);
    }
}
