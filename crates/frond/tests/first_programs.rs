//! Tests that the first programs of a new user compile and work: keys and ranges of any type that
//! is bytes, loops over rows, trees that are opened or created, errors of one's own.

use frond::{Db, Error, Options, ReadOptions, RowLock, Tree, TreeOptions, tuple};

type Row = (Vec<u8>, Vec<u8>);

fn store() -> (tempfile::TempDir, Db, Tree) {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("store"), Options::new()).unwrap();
    let tree = db.tree("words", TreeOptions::new()).unwrap();
    for word in ["ash", "beech", "birch", "cedar"] {
        tree.put(word, word.to_uppercase()).unwrap();
    }
    (dir, db, tree)
}

fn keys(rows: impl Iterator<Item = frond::Result<Row>>) -> Vec<String> {
    rows.map(|row| String::from_utf8(row.unwrap().0).unwrap()).collect()
}

#[test]
fn keys_and_values_are_anything_that_is_bytes() {
    let (_dir, db, tree) = store();
    tree.put("text", String::from("owned")).unwrap();
    tree.put(String::from("string"), "borrowed").unwrap();
    tree.put(vec![1u8], [2u8]).unwrap();
    tree.put([1u8, 2], b"array").unwrap();
    tree.put(7u64.to_be_bytes(), &[][..]).unwrap();
    tree.put(tuple::Key::new().str("de").i64(7), "tuple").unwrap();
    assert_eq!(tree.get("text").unwrap().as_deref(), Some(&b"owned"[..]));
    assert!(tree.contains(tuple::encode(&("de", 7i64))).unwrap());
    assert_eq!(tree.get_many(&["ash", "oak"]).unwrap(), [Some(b"ASH".to_vec()), None]);
    assert_eq!(db.snapshot().get(&tree, vec![1u8]).unwrap(), Some(vec![2]));
    db.transact(|txn| {
        txn.put(&tree, "oak", "OAK")?;
        txn.delete(&tree, String::from("ash"))?;
        assert_eq!(txn.get_for_update(&tree, "oak")?, Some(b"OAK".to_vec()));
        let options = ReadOptions::new().lock(RowLock::Shared);
        assert_eq!(txn.get_with(&tree, "ash", &options)?.into_value(), None);
        Ok(())
    })
    .unwrap();
}

#[test]
fn ranges_are_of_anything_that_is_bytes() {
    let (_dir, db, tree) = store();
    let (from, to) = (b"b".to_vec(), b"c".to_vec());
    let both = ["beech", "birch"];
    assert_eq!(keys(tree.range(from.clone()..to.clone())), both);
    assert_eq!(keys(tree.range(&from..&to)), both);
    assert_eq!(keys(tree.range(b"b"..b"c")), both);
    assert_eq!(keys(tree.range("b".."c")), both);
    assert_eq!(keys(tree.range("beech"..="birch")), both);
    assert_eq!(keys(tree.range(frond::prefix("b"))), both);
    assert_eq!(keys(tree.range(from.clone()..=b"birch".to_vec())), both);
    assert_eq!(keys(tree.range(to.clone()..)), ["cedar"]);
    assert_eq!(keys(tree.range(..from.clone())), ["ash"]);
    assert_eq!(keys(tree.range(..).rev()), ["cedar", "birch", "beech", "ash"]);
    assert_eq!(keys(db.snapshot().range(&tree, frond::prefix("b"))), both);
    let of_txn = db.transact(|txn| Ok(keys(txn.range(&tree, frond::prefix("b"))))).unwrap();
    assert_eq!(of_txn, both);
}

#[test]
fn rows_are_looped_over_and_collected() {
    let (_dir, db, tree) = store();
    let mut letters = 0;
    for row in tree.range(..) {
        let (key, value) = row.unwrap();
        assert!(key.eq_ignore_ascii_case(&value));
        letters += key.len();
    }
    assert_eq!(letters, 18);
    let all: frond::Result<Vec<Row>> = tree.range(..).collect();
    assert_eq!(all.unwrap().len(), 4);

    // A cursor ends with its last use, so a transaction can be committed after it.
    let txn = db.begin(Default::default()).unwrap();
    let mut cursor = txn.scan(&tree, ..).unwrap();
    assert!(cursor.next().unwrap().is_some());
    drop(cursor);
    txn.commit().unwrap();
}

#[test]
fn a_tree_is_opened_or_created() {
    let (_dir, db, tree) = store();
    let again = db.tree("words", TreeOptions::new()).unwrap();
    assert_eq!(again.id(), tree.id());
}

#[test]
fn a_transaction_returns_an_error_of_the_program() {
    #[derive(Debug)]
    enum Failed {
        Missing(&'static str),
        Store(Error),
    }
    impl From<Error> for Failed {
        fn from(error: Error) -> Self {
            Self::Store(error)
        }
    }

    let (_dir, db, tree) = store();
    let outcome = db.try_transact(|txn| {
        txn.put(&tree, "fir", "FIR")?;
        txn.get(&tree, "yew")?.ok_or(Failed::Missing("yew"))
    });
    match outcome {
        Err(Failed::Missing(word)) => assert_eq!(word, "yew"),
        Err(Failed::Store(error)) => panic!("{error}"),
        Ok(_) => panic!("there is no yew"),
    }
    assert!(!tree.contains("fir").unwrap(), "rolled back");
}

#[test]
fn ranges_are_counted_and_deleted_in_one_call() {
    let (_dir, db, tree) = store();
    let snapshot = db.snapshot();
    assert_eq!(tree.count(..).unwrap(), 4);
    assert_eq!(tree.count(frond::prefix("b")).unwrap(), 2);
    assert_eq!(tree.count("x".."y").unwrap(), 0);
    assert!(matches!(tree.count("y".."x"), Err(Error::InvalidArgument(_))));
    assert_eq!(tree.range("y".."x").count(), 0);
    tree.delete_range("b".."b").unwrap();
    assert!(matches!(tree.delete_range("c".."b"), Err(Error::InvalidArgument(_))));
    assert_eq!(tree.count(..).unwrap(), 4);
    tree.delete_range("b"..="beech").unwrap();
    assert_eq!(keys(tree.range(..)), ["ash", "birch", "cedar"]);
    // Without an upper bound: the greatest possible key goes, too.
    let greatest = vec![0xff; frond::KEY_BYTES_MAX];
    tree.put(&greatest, "").unwrap();
    tree.put([0xff; 300], "").unwrap();
    assert_eq!(tree.count("b"..).unwrap(), 4);
    tree.delete_range("c"..).unwrap();
    assert_eq!(keys(tree.range(..)), ["ash", "birch"]);
    tree.put(&greatest, "").unwrap();
    tree.delete_range(&greatest..).unwrap();
    tree.delete_range(..="ash").unwrap();
    assert_eq!(keys(tree.range(..)), ["birch"]);
    db.checkpoint().unwrap();
    assert_eq!(keys(tree.range(..)), ["birch"]);
    tree.delete_range(..).unwrap();
    assert_eq!(tree.count(..).unwrap(), 0);
    assert_eq!(snapshot.count(&tree, "b"..).unwrap(), 3);
    assert!(snapshot.contains(&tree, "ash").unwrap() && !tree.contains("ash").unwrap());
    let mut value = b"old".to_vec();
    assert!(snapshot.get_into(&tree, "ash", &mut value).unwrap() && value == b"ASH");
    assert!(!snapshot.get_into(&tree, "oak", &mut value).unwrap() && value.is_empty());
}
