//! Tests that every target must pass: range deletes and bulk loads, where it has them.

use super::*;
use crate::schema::Keyspace;

/// The targets that keep rows. TidesDB needs a feature; the others must be there.
const NAMES: &[TargetName] = &[
    TargetName::Frond,
    TargetName::RocksDb(None),
    TargetName::Sqlite,
    TargetName::Lmdb,
    #[cfg(feature = "tidesdb")]
    TargetName::TidesDb,
];

/// Opens each target with two keyspaces.
fn on_all(visit: impl Fn(TargetName, &dyn Target)) {
    for &name in NAMES {
        let dir = tempfile::tempdir().expect("a directory");
        let mut tables = vec![Table::raw("one", 8), Table::raw("two", 8)];
        Table::number(&mut tables);
        let setup = Setup {
            dir: dir.path().to_owned(),
            memory: Bytes::mebi(16),
            write_buffer: None,
            durability: Durability::Lazy,
            tables,
            unique: true,
            transactions: false,
        };
        let target = open(name, None, &setup).unwrap_or_else(|failure| panic!("{failure}"));
        visit(name, target.as_ref());
        target.close().expect("it closes");
    }
}

/// Returns the numbers that a keyspace holds.
fn numbers(target: &dyn Target, keyspace: Keyspace) -> Vec<u64> {
    let mut connection = target.connect(Clients::ONE).expect("connected");
    let mut found = Vec::new();
    let scanned = connection.scan(keyspace, (None, None), Direction::Forward, &mut |key, value| {
        assert_eq!(key, value);
        found.push(u64::from_be_bytes(key.try_into().expect("8 bytes")));
        true
    });
    scanned.expect("scanned");
    found
}

#[test]
fn range_deletes_cover_what_came_before_them_and_nothing_else() {
    on_all(|name, target| {
        let mut connection = target.connect(Clients::ONE).expect("connected");
        let (from, to) = (3u64.to_be_bytes(), 7u64.to_be_bytes());
        let mut run = |puts: [std::ops::Range<u64>; 2], deletes: bool| -> Attempt<()> {
            connection.begin(Begin::Batch)?;
            for (at, numbers) in puts.into_iter().enumerate() {
                for number in numbers.map(u64::to_be_bytes) {
                    connection.put(0, &number, &number)?;
                    connection.put(1, &number, &number)?;
                }
                if deletes && at == 0 {
                    connection.delete_range(0, &from[..]..&to[..])?;
                }
            }
            connection.commit()
        };
        run([0..5, 0..0], false).expect("put");
        // Of the keys 0 to 9, 5 to 9 are put in the batch of the delete, and 4 again after it.
        let done = run([5..10, 4..5], true);
        let expected = if target.deletes_ranges() { vec![0, 1, 2, 4, 7, 8, 9] } else { vec![] };
        match target.deletes_ranges() {
            true => done.expect("deleted"),
            false => assert!(done.is_err(), "{name}"),
        }
        drop(connection);
        if target.deletes_ranges() {
            assert_eq!(numbers(target, 0), expected, "{name}");
            assert_eq!(numbers(target, 1), (0..10).collect::<Vec<_>>(), "{name}");
        }
    });
}

#[test]
fn a_bulk_load_fills_one_keyspace_which_is_written_as_before_afterwards() {
    const ROWS: u64 = 25_000;
    on_all(|name, target| {
        let mut connection = target.connect(Clients::ONE).expect("connected");
        let mut left = 0..ROWS;
        let loaded = connection.bulk_load(0, &mut |key, value| {
            let Some(number) = left.next() else { return false };
            for part in [key, value] {
                part.clear();
                part.extend_from_slice(&number.to_be_bytes());
            }
            true
        });
        if !target.bulk_loads() {
            assert!(loaded.is_err() && name == TargetName::TidesDb, "{name}");
            return;
        }
        loaded.expect("loaded");
        assert_eq!(numbers(target, 0), (0..ROWS).collect::<Vec<_>>(), "{name}");
        // This connection continues, and so does a new one.
        let put = |number: u64, connection: &mut dyn Connection| -> Attempt<()> {
            let number = number.to_be_bytes();
            connection.begin(Begin::Batch)?;
            connection.put(0, &number, &number)?;
            connection.commit()
        };
        put(ROWS, connection.as_mut()).expect("put");
        drop(connection);
        let mut connection = target.connect(Clients::ONE).expect("connected");
        put(ROWS + 1, connection.as_mut()).expect("put");
        drop(connection);
        assert_eq!(numbers(target, 0), (0..ROWS + 2).collect::<Vec<_>>(), "{name}");
        assert!(numbers(target, 1).is_empty(), "{name}");
    });
}
