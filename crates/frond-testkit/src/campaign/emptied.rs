//! A full disk, from which one batch deletes most rows (P13; I24).
//!
//! Rows are long keys without values, so that deletes are as large as the rows: their records and
//! their apply compete for the disk with the apply of the rows. The store must not get into a state
//! in which no checkpoint finds space any more.

use std::sync::Arc;

use frond::{
    Batch, Db, Durability, Error, Options, Tree, TreeOptions,
    internals::io::{Env, Workers},
};

use super::guarded;
use crate::{
    Dice,
    db_engine::DIR,
    disk::SimVfs,
    drive::{Failure, fail},
};

/// Rows that are left, one in this many.
const LEFT_ONE_IN: u64 = 8;

/// A key of 4000 bytes that cannot be compressed.
fn key(number: u64) -> Vec<u8> {
    let mut dice = Dice::new(number);
    let noise = (0..500).flat_map(|_| dice.bits().to_le_bytes());
    number.to_be_bytes().into_iter().chain(noise).collect()
}

fn rows(tree: &Tree) -> Result<u64, Error> {
    let (mut rows, mut cursor) = (0, tree.scan(..)?);
    while cursor.next()?.is_some() {
        rows += 1;
    }
    Ok(rows)
}

const DISK_BYTES: u64 = 96 << 20;

/// Fills a disk with rows, the first `written` of which are written by a checkpoint, and deletes
/// most of them in one batch, or in small ones if that is refused. The store is then closed, and
/// opened and closed again.
pub fn empty_in_one_batch(workers: Workers, written: u64) -> Result<(), Failure> {
    guarded(|| fill_and_empty(workers, written).unwrap_or_else(|error| fail(error.to_string())))
}

fn fill_and_empty(workers: Workers, written: u64) -> Result<Result<(), Failure>, Error> {
    let vfs = SimVfs::new();
    let env = Env { vfs: Arc::new(vfs.clone()), workers, ..Env::real() };
    let options = || {
        let options = Options::new().cache_size(512 << 20).durability(Durability::Os);
        options.env(env.clone())
    };
    let db = Db::open(DIR, options())?;
    let tree = db.create_tree("t", TreeOptions::default())?;
    vfs.set_capacity(Some(vfs.allocated_bytes() + DISK_BYTES));
    let mut count = 0;
    loop {
        if count == written {
            db.checkpoint()?;
        }
        match tree.put(key(count), b"") {
            Ok(_) => count += 1,
            Err(Error::Full(_)) => break,
            Err(error) => return Err(error),
        }
    }
    let delete = |numbers: &[u64]| {
        let mut batch = Batch::new();
        numbers.iter().try_for_each(|number| batch.delete(&tree, key(*number)))?;
        db.commit(&mut batch).map(drop)
    };
    let numbers: Vec<u64> = (0..count).filter(|number| number % LEFT_ONE_IN != 0).collect();
    match delete(&numbers) {
        // With the record, its apply would find no space. Smaller batches need none.
        Err(Error::Full(_)) => numbers.chunks(100).try_for_each(delete)?,
        other => other?,
    }
    let left = count.div_ceil(LEFT_ONE_IN);
    if rows(&tree)? != left {
        return Ok(fail(format!("{} rows of {left} are left", rows(&tree)?)));
    }
    // The last checkpoint may find no space: then the log has what was done.
    match db.close() {
        Ok(()) | Err(Error::Full(_)) => {}
        Err(error) => return Err(error),
    }
    drop((tree, db));
    let db = Db::open(DIR, options())?;
    let found = rows(&db.open_tree("t")?)?;
    if found != left {
        return Ok(fail(format!("{found} rows of {left} are there after reopening")));
    }
    db.close()?;
    Ok(Ok(()))
}
