//! Debug output of handles: a name or a number, never keys and never what is behind the handle, so
//! that `dbg!(&tree)` in a program prints one short line.

/// Implements `Debug` for a handle: `Tree("people")`.
macro_rules! short_debug {
    ($handle:ty, $name:literal, |$this:ident| $field:expr) => {
        impl std::fmt::Debug for $handle {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let $this = self;
                f.debug_tuple($name).field(&$field).finish()
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use crate::{
        Batch, Db, Durability, IndexSpec, Interrupter, Options, TableSpec, TreeOptions, TxnOptions,
        types::Xid,
    };

    fn assert_short(handle: &dyn Debug) {
        for text in [format!("{handle:?}"), format!("{handle:#?}")] {
            assert!(text.len() < 200, "{} bytes: {text:.200}", text.len());
            assert!(!text.to_lowercase().contains("secret"), "{text}");
        }
    }

    #[test]
    fn handles_are_short_and_contain_no_keys() {
        let dir = tempfile::tempdir().expect("a directory");
        let options = Options::new().durability(Durability::Lazy);
        assert_short(&options);
        let db = Db::open(dir.path().join("s"), options).expect("opens");
        let tree = db.create_tree("t", TreeOptions::default()).expect("new");
        for number in 0..1000 {
            tree.put(format!("SECRET{number}").as_bytes(), b"secret").expect("put");
        }
        let mut batch = Batch::new();
        batch.put(&tree, b"SECRET", b"secret").expect("put");
        let by_row = IndexSpec::new("by_row", |_, row, out| {
            out.extend_from_slice(row);
            Ok(true)
        });
        let table = db.table(TableSpec::new("table").index(by_row)).expect("new");
        let txn = db.begin(TxnOptions::default()).expect("begins");
        txn.put(&tree, b"SECRET", b"secret").expect("put");
        let mut cursor = tree.scan(&b"SECRET1"[..]..).expect("a cursor");
        assert!(cursor.next().expect("a row").is_some());
        let mut scan = txn.scan(&tree, &b"SECRET1"[..]..).expect("a cursor");
        assert!(scan.next().expect("a row").is_some());
        let mut load = db.bulk_load("u", TreeOptions::default()).expect("new");
        load.put(b"SECRET", b"secret").expect("put");
        table.put(&txn, b"SECRET", b"secret").expect("put");
        let index = table.index("by_row").expect("there");
        let mut found = index.scan(&txn, ..).expect("a cursor");
        assert!(found.next().expect("a row").is_some());
        let temporary = db.create_temporary(TreeOptions::default()).expect("new");
        temporary.put(&txn, b"SECRET", b"secret").expect("put");
        let interrupter = txn.control().interrupter().expect("there");
        let (mut all, mut rows) = (tree.range(..), txn.range(&tree, ..));
        assert!(all.next().is_some() && all.next_back().is_some());
        assert!(rows.next().is_some() && rows.next_back().is_some());
        let found_rows = index.range(&txn, ..);
        let handles: [&dyn Debug; 23] = [
            &db,
            &tree,
            &batch,
            &txn,
            &cursor,
            &scan,
            &load,
            &table,
            &index,
            &found,
            &db.snapshot(),
            &txn.savepoint().expect("set"),
            &db.stats().commits,
            &db.change_trees(),
            &txn.statement(),
            &txn.row_writer(),
            &txn.control(),
            &all,
            &rows,
            &found_rows,
            &temporary,
            &interrupter,
            &Interrupter::new(),
        ];
        handles.into_iter().for_each(assert_short);
        assert_eq!(format!("{tree:?}"), "Tree(\"t\")");
        drop((scan, found, rows, found_rows));
        let xid = Xid::new(b"x").expect("short");
        assert_short(&txn.prepare(&xid).expect("prepares"));
    }

    #[test]
    fn errors_print_their_message_and_have_a_code() {
        let dir = tempfile::tempdir().expect("a directory");
        let db = Db::open(dir.path().join("s"), Options::new()).expect("opens");
        let error = db.open_tree("x").expect_err("no such tree");
        assert_eq!(format!("{error:?}"), error.to_string());
        assert_eq!(error.to_string().get(..8), Some(&*format!("FRD-{}", error.code())));
    }
}
