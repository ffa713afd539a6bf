//! Tests with the library of this checkout instead of another commit's.

use std::path::Path;
use std::sync::Barrier;

use super::*;
use crate::schema::Table;
use crate::size::Bytes;
use crate::targets::{Begin, Direction, Stop};

/// Returns the library of this checkout, which cargo built for the tests.
fn built() -> Version {
    let program = std::env::current_exe().expect("a program");
    Version {
        commit: "1a2b3c4".to_owned(),
        library: program.with_file_name("libfrond_c.so"),
        header: Path::new(env!("CARGO_MANIFEST_DIR")).join("../frond-c/include/frond.h"),
    }
}

fn open(version: &Version, dir: &Path) -> Result<Box<Library>> {
    let mut tables = vec![Table::raw("t", 8), Table::raw("u", 8)];
    Table::number(&mut tables);
    let setup = Setup {
        dir: dir.to_owned(),
        memory: Bytes::mebi(64),
        write_buffer: None,
        durability: Durability::Os,
        tables,
        unique: false,
        transactions: true,
    };
    Library::open(version, &setup).map(Box::new)
}

/// Scans the keys between these bounds and returns them as numbers.
fn numbers(
    connection: &mut dyn Connection,
    (from, to): (Option<u64>, Option<u64>),
    direction: Direction,
) -> Result<Vec<u64>> {
    let mut numbers = Vec::new();
    let [from, to] = [from, to].map(|bound| bound.map(u64::to_be_bytes));
    let bounds = (from.as_ref().map(<[u8; 8]>::as_slice), to.as_ref().map(<[u8; 8]>::as_slice));
    connection.scan(0, bounds, direction, &mut |key, value| {
        let key = u64::from_be_bytes(key.try_into().expect("eight bytes"));
        assert_eq!(value, format!("value {key}").as_bytes());
        numbers.push(key);
        true
    })?;
    Ok(numbers)
}

#[test]
fn a_library_stores_rows_and_reads_them_in_both_directions() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let store = open(&built(), dir.path())?;
    assert!(store.version().ends_with("of commit 1a2b3c4"), "{}", store.version());
    {
        let (mut one, mut held) = (store.connect(Clients::ONE)?, store.connect(Clients::ONE)?);
        let mut value = Vec::new();
        assert!(one.put(0, b"a", b"b").is_err(), "nothing was begun");
        one.begin(Begin::Batch)?;
        for n in 0..1000_u64 {
            one.put(0, &n.to_be_bytes(), format!("value {n}").as_bytes())?;
        }
        assert!(!one.get(0, &8_u64.to_be_bytes(), &mut value)?, "it is not committed");
        one.commit()?;
        held.begin(Begin::Read)?;
        assert!(
            held.get(0, &8_u64.to_be_bytes(), &mut value)?,
            "the first read takes the snapshot"
        );
        one.begin(Begin::Batch)?;
        one.delete(0, &7_u64.to_be_bytes())?;
        one.commit()?;
        one.begin(Begin::Batch)?;
        one.delete(0, &8_u64.to_be_bytes())?;
        one.rollback()?;
        one.begin(Begin::Batch)?;
        one.commit()?;
        assert!(one.get(0, &8_u64.to_be_bytes(), &mut value)? && value == b"value 8");
        assert!(!one.get(0, &7_u64.to_be_bytes(), &mut value)? && value.is_empty());
        for begun in [None, Some(Begin::Read)] {
            if let Some(begun) = begun {
                one.begin(begun)?;
            }
            for (bounds, direction, first, count) in [
                ((None, None), Direction::Forward, 0, 999),
                ((Some(500), None), Direction::Forward, 500, 500),
                ((Some(5), Some(9)), Direction::Forward, 5, 3),
                ((Some(5), Some(9)), Direction::Reverse, 8, 3),
                ((None, None), Direction::Reverse, 999, 999),
            ] {
                let found = numbers(one.as_mut(), bounds, direction)?;
                assert_eq!((found.first(), found.len()), (Some(&first), count));
            }
        }
        assert!(held.get(0, &7_u64.to_be_bytes(), &mut value)? && value == b"value 7");
    }
    assert!(store.counters().iter().any(|(name, _)| name == "syncs"));
    store.settle()?;
    store.close()
}

#[test]
fn library_transactions_span_trees_and_roll_back() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let store = open(&built(), dir.path())?;
    {
        let clients = Clients { count: 2, durability: Some(Durability::Sync) };
        let (mut one, mut value) = (store.connect(clients)?, Vec::new());
        one.begin(Begin::Write)?;
        one.put(0, b"key 0001", b"a")?;
        one.put(1, b"key 0001", b"b")?;
        one.commit()?;
        one.begin(Begin::Write)?;
        assert!(one.get_for_update(1, b"key 0001", &mut value)? && value == b"b");
        one.put(0, b"key 0002", b"c")?;
        one.delete(0, b"key 0001")?;
        let mut keys = Vec::new();
        one.scan(0, (None, None), Direction::Reverse, &mut |key, _| {
            keys.push(key.to_vec());
            true
        })?;
        assert_eq!(keys, [b"key 0002"], "it sees its own writes");
        assert!(one.get(1, b"key 0001", &mut value)?, "the other tree has it");
        one.rollback()?;
        one.begin(Begin::Read)?;
        assert!(one.get(0, b"key 0001", &mut value)?, "it was rolled back");
        assert!(matches!(one.put(0, b"key 0003", b"c"), Err(Stop::Failed(_))), "it only reads");
        one.rollback()?;
    }
    store.close()
}

#[test]
fn one_of_two_deadlocked_transactions_must_be_retried() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let store = open(&built(), dir.path())?;
    let both_have_a_lock = Barrier::new(2);
    let client = |first: &[u8], second: &[u8]| -> Result<bool> {
        let (mut connection, mut value) = (store.connect(Clients::many(2))?, Vec::new());
        connection.begin(Begin::Write)?;
        connection.get_for_update(1, first, &mut value)?;
        both_have_a_lock.wait();
        match connection.get_for_update(1, second, &mut value) {
            Ok(_) => connection.commit().map(|()| true).map_err(Failure::from),
            Err(Stop::Conflict) => connection.rollback().map(|()| false),
            Err(Stop::Failed(failure)) => Err(failure),
        }
    };
    let [one, other] = std::thread::scope(|scope| {
        let one = scope.spawn(|| client(b"key 0001", b"key 0002"));
        let other = scope.spawn(|| client(b"key 0002", b"key 0001"));
        [one, other].map(|client| client.join().expect("it does not panic"))
    });
    assert!(one? != other?, "one gets both locks, and the other is refused");
    store.close()
}

#[test]
fn a_commit_lacking_a_function_is_refused_with_its_name() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let header = std::fs::read_to_string(&built().header)?;
    let path = dir.path().join("frond.h");
    std::fs::write(&path, header.replace("frond_txn_scan(", "frond_txn_walk("))?;
    let older = Version { header: path, ..built() };
    let refused = open(&older, &dir.path().join("store")).err().map(|failure| failure.0);
    assert_eq!(refused.as_deref(), Some("commit 1a2b3c4 lacks in its C API: frond_txn_scan"));
    Ok(())
}
