//! A first program: open a store, write, read, scan, and count in a transaction.
//!
//! `cargo run -p frond-db --example quick_start [DIRECTORY]`

use std::path::{Path, PathBuf};

use frond::{Db, Options};

fn main() -> frond::Result<()> {
    let default = std::env::temp_dir().join("frond-quick-start");
    run(&std::env::args_os().nth(1).map_or(default, PathBuf::from))
}

pub fn run(dir: &Path) -> frond::Result<()> {
    // `cache_size` is all the memory that the store uses: cache, buffers, filters.
    let db = Db::open(dir, Options::new().cache_size(64 << 20))?;

    // A tree is an ordered map from keys to values, both of them bytes. This opens it, or creates
    // it. A store may have any number of trees.
    let people = db.tree("people", Default::default())?;
    let counters = db.tree("counters", Default::default())?;

    // Each write is durable when it returns.
    people.put(b"ada", b"London")?;
    people.put(b"bob", b"Oslo")?;
    people.put(b"eve", b"Rome")?;
    people.delete(b"eve")?;

    let city = people.get(b"ada")?.expect("it was just written");
    println!("ada lives in {}", String::from_utf8_lossy(&city));
    println!("eve is unknown: {:?}", people.get(b"eve")?);

    // Rows come in the order of their keys. `.rev()` goes the other way.
    for row in people.range("a".."c") {
        let (name, city) = row?;
        println!("{}: {}", String::from_utf8_lossy(&name), String::from_utf8_lossy(&city));
    }

    // A transaction reads, decides and writes, over all trees. If another one is in its way, the
    // closure runs again.
    let runs = db.transact(|txn| {
        let last = txn.get_for_update(&counters, b"runs")?.unwrap_or_else(|| vec![0; 8]);
        let runs = 1 + u64::from_be_bytes(last.try_into().expect("eight bytes"));
        txn.put(&counters, b"runs", &runs.to_be_bytes())?;
        Ok(runs)
    })?;
    println!("this is run {runs} in {}", dir.display());
    db.close()
}
