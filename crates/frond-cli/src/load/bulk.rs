//! `--bulk`: loads all rows into a new tree and its indexes, sorted first and written once.
//!
//! Invariant: the trees are created completely, by one commit at the end, or not at all.

use frond::{Db, load::BulkLoad};

use crate::{
    escape::escape,
    fail::{Fail, Result, error},
};

use super::{
    Args, Input,
    input::nothing_loaded,
    records::Records,
    target::{drop_left_over_index, index_options, new_header, note_integers, tree_options},
};

/// Loads everything, and returns the number of rows. Calls `progress` from time to time.
pub fn load(
    args: &Args,
    db: &Db,
    input: &mut Input,
    mut progress: impl FnMut(&Input, u64),
) -> Result<u64> {
    let header = new_header(args, input)?;
    if db.open_tree(args.tree()).is_ok() {
        return error(format!(
            "tree \"{}\" already exists; --bulk loads only new trees",
            args.tree()
        ));
    }
    note_integers(args, input);
    let mut loads = Vec::with_capacity(1 + header.indexes.len());
    for column in &header.indexes {
        let name = drop_left_over_index(db, args.tree(), column)?;
        let options = index_options(args.class, args.tree(), &header, column);
        loads.push(db.bulk_load(&name, options)?);
    }
    let mut tree = db.bulk_load(args.tree(), tree_options(args, &header))?;
    let mut records = Records::new(&header, input.null_hint());
    let mut rows = 0;
    while let Some((record, names)) = input.next()? {
        let line = record.line;
        let built = records.build(record, names)?;
        let at_line = |why: String| Fail::Error(format!("line {line}: {why}"));
        let put = |load: &mut BulkLoad, key: &[u8], row: &[u8]| {
            load.put(key, row).map_err(|why| at_line(why.to_string()))
        };
        put(&mut tree, built.key(), built.row())?;
        for (at, load) in loads.iter_mut().enumerate() {
            put(load, records.index_key(at).map_err(at_line)?, b"")?;
        }
        rows += 1;
        if rows % 1000 == 0 {
            if crate::interrupt::is_requested() {
                return Err(nothing_loaded());
            }
            progress(input, rows);
        }
    }
    loads.push(tree);
    BulkLoad::finish_all(loads).map_err(|why| match why {
        frond::Error::DuplicateKey(frond::Duplicate::InLoad { key, .. }) => {
            let columns = header.decode_key(&key).unwrap_or_else(|_| vec![key]);
            let columns: Vec<String> = columns.iter().map(|value| escape(value)).collect();
            Fail::Error(format!("two rows have the key {}", columns.join(" ")))
        }
        other => other.into(),
    })?;
    Ok(rows)
}
