//! The library of this checkout in place of another commit's.

use std::path::Path;

use super::*;
use crate::schema::Table;
use crate::size::Bytes;

/// The library of this checkout, which cargo built for the tests.
fn built() -> Version {
    let program = std::env::current_exe().expect("a program");
    Version {
        commit: "1a2b3c4".to_owned(),
        library: program.with_file_name("libfrond_c.so"),
        header: Path::new(env!("CARGO_MANIFEST_DIR")).join("../frond-c/include/frond.h"),
    }
}

fn open(version: &Version, dir: &Path) -> Result<Box<Library>> {
    let setup = Setup {
        dir: dir.to_owned(),
        memory: Bytes::mebi(64),
        write_buffer: None,
        durability: Durability::Os,
        table: Table::raw("t", 8),
        unique: false,
        transactions: true,
    };
    Library::open(version, &setup).map(Box::new)
}

#[test]
fn a_library_stores_what_it_is_given_and_reads_it_both_ways() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let store = open(&built(), dir.path())?;
    assert!(store.version().ends_with("of commit 1a2b3c4"), "{}", store.version());
    let held = {
        let mut session = store.session()?;
        for n in 0..1000_u64 {
            session.put(0, &n.to_be_bytes(), format!("value {n}").as_bytes())?;
        }
        session.commit()?;
        session.delete(0, &7_u64.to_be_bytes())?;
        let held = store.hold_snapshot()?;
        session.commit()?;
        let mut value = Vec::new();
        assert!(session.get(0, &8_u64.to_be_bytes(), &mut value)? && value == b"value 8");
        assert!(!session.get(0, &7_u64.to_be_bytes(), &mut value)? && value.is_empty());
        for (from, direction, first, count) in [
            (None, Direction::Forward, 0, 999),
            (Some(500_u64), Direction::Forward, 500, 500),
            (Some(6), Direction::Reverse, 6, 7),
            (None, Direction::Reverse, 999, 999),
        ] {
            let mut keys = Vec::new();
            let from = from.map(u64::to_be_bytes);
            session.scan(
                0,
                from.as_ref().map(<[u8; 8]>::as_slice),
                direction,
                &mut |key, value| {
                    let key = u64::from_be_bytes(key.try_into().expect("eight bytes"));
                    assert_eq!(value, format!("value {key}").as_bytes());
                    keys.push(key);
                    true
                },
            )?;
            assert_eq!((keys.first(), keys.len()), (Some(&first), count));
        }
        held
    };
    let (mut held, mut value) = (held, Vec::new());
    assert!(held.get(&7_u64.to_be_bytes(), &mut value)? && value == b"value 7");
    drop(held);
    assert!(store.counters().iter().any(|(name, _)| name == "syncs"));
    store.settle()?;
    store.close()
}

#[test]
fn transactions_of_a_library_are_taken_back_and_conflict() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let store = open(&built(), dir.path())?;
    let clients = Clients { count: 2, durability: Durability::Os };
    let failed = |stop: Stop| Failure(format!("{stop:?}"));
    {
        let mut one = store.transactions(clients)?;
        let mut value = Vec::new();
        one.begin(Begin::Write).map_err(failed)?;
        one.put(b"key 0001", b"a").map_err(failed)?;
        one.commit().map_err(failed)?;
        one.begin(Begin::Write).map_err(failed)?;
        assert!(one.get_for_update(b"key 0001", &mut value).map_err(failed)? && value == b"a");
        one.put(b"key 0002", b"b").map_err(failed)?;
        one.delete(b"key 0001").map_err(failed)?;
        let mut keys = Vec::new();
        let mut visit = |key: &[u8], _: &[u8]| {
            keys.push(key.to_vec());
            true
        };
        one.list(b"key 0000", b"key 0009", &mut visit).map_err(failed)?;
        assert_eq!(keys, [b"key 0002"]);
        one.rollback()?;
        one.begin(Begin::ReadOnce).map_err(failed)?;
        assert!(one.get(b"key 0001", &mut value).map_err(failed)?, "it was taken back");
        assert!(matches!(one.put(b"key 0003", b"c"), Err(Stop::Failed(_))), "it only reads");
        one.rollback()?;
    }
    store.close()
}

#[test]
fn a_commit_without_a_function_is_refused_by_its_name() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let header = std::fs::read_to_string(&built().header)?;
    let path = dir.path().join("frond.h");
    std::fs::write(&path, header.replace("frond_txn_scan(", "frond_txn_walk("))?;
    let older = Version { header: path, ..built() };
    let refused = open(&older, &dir.path().join("store")).err().map(|failure| failure.0);
    assert_eq!(refused.as_deref(), Some("commit 1a2b3c4 lacks in its C API: frond_txn_scan"));
    Ok(())
}
