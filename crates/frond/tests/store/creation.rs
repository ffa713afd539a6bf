//! A store is created whole or not at all, and a store whose log is lost is never read as a new
//! one.

use crate::common;

use std::path::{Path, PathBuf};

use frond::{
    Db, Durability, Error, Options, TreeOptions,
    check::{CheckMode, CheckReport, store_in},
    internals::io::OpenMode,
};
use frond_testkit::{
    disk::{CrashOptions, Note, SimVfs, crash_states},
    effort,
};

const STORE: &str = "/store";
const FIRST_LOG: &str = "log-0000000001.frond";

fn options(vfs: &SimVfs) -> Options {
    common::options().env(vfs.env(3)).durability(Durability::Sync)
}

fn check(vfs: &SimVfs) -> Result<CheckReport, Error> {
    store_in(&vfs.env(3), STORE, CheckMode::Full)
}

fn put(db: &Db, key: &[u8]) {
    db.tree("t", TreeOptions::new()).expect("the tree").put(key, b"value").expect("written");
}

fn has(db: &Db, key: &[u8]) -> bool {
    db.open_tree("t").is_ok_and(|tree| tree.get(key).expect("read").is_some())
}

fn files(vfs: &SimVfs) -> Vec<PathBuf> {
    vfs.env(3).vfs.list(Path::new(STORE)).expect("listed")
}

fn remove(vfs: &SimVfs, is_removed: impl Fn(&str) -> bool) {
    for name in files(vfs).iter().filter(|name| is_removed(&name.to_string_lossy())) {
        vfs.env(3).vfs.remove(&Path::new(STORE).join(name)).expect("removed");
    }
}

/// What open and check say must agree. Returns true if there is a store.
fn is_store(vfs: &SimVfs, what: &str) -> bool {
    let before = vfs.changes();
    let opened = Db::open(STORE, options(vfs).read_only(true)).map(drop);
    let is_store = match (opened, check(vfs)) {
        (Ok(()), Ok(report)) => {
            assert!(report.is_clean(), "{what}: {report}");
            true
        }
        (Err(Error::NotAStore { .. }), Err(Error::NotAStore { .. })) => false,
        (opened, checked) => panic!("{what}: opened {opened:?}, checked {checked:?}"),
    };
    assert_eq!(vfs.changes(), before, "{what}");
    is_store
}

/// The store must open for writing, and keep what is written.
fn must_work(vfs: &SimVfs, what: &str) {
    let db = Db::open(STORE, options(vfs)).expect(what);
    put(&db, b"next");
    let killed = SimVfs::start(vfs.disk().after_kill());
    assert!(is_store(&killed, what));
    let db = Db::open(STORE, options(&killed)).expect(what);
    assert!(has(&db, b"next"), "{what}");
    db.close().expect(what);
}

/// Wherever a creation is interrupted, open and check agree on what is there, the creation can be
/// repeated, and a commit that was acknowledged is there. Promises: P1, P5, P19.
#[test]
fn a_creation_survives_crashes_everywhere() {
    let vfs = SimVfs::new();
    vfs.record();
    let db = Db::open(STORE, options(&vfs)).expect("made");
    put(&db, b"first");
    vfs.set_note(Note { floor_power: 1, ..Note::default() });
    put(&db, b"second");
    let (mut absent, mut empty, mut written) = (0, 0, 0);
    for point in vfs.recorded() {
        let is_acknowledged = point.note.floor_power > 0;
        for state in crash_states(&point.disk, &CrashOptions::default()) {
            let what = format!("before {}, {}", point.call, state.what);
            let vfs = SimVfs::start(state.disk);
            let is_there = is_store(&vfs, &what);
            assert!(is_there || !is_acknowledged, "{what}");
            let db = Db::open(STORE, options(&vfs)).expect(&what);
            let has_first = has(&db, b"first");
            assert!(has_first || !is_acknowledged, "{what}");
            drop(db);
            must_work(&vfs, &what);
            match (is_there, has_first) {
                (false, false) => absent += 1,
                (true, false) => empty += 1,
                (true, true) => written += 1,
                (false, true) => panic!("{what}: no store, with a row"),
            }
        }
    }
    assert!(absent > 0 && empty > 0 && written > 0, "{absent} {empty} {written}");
}

/// A creation that is interrupted repeatedly still ends. Promises: P5, P19.
#[test]
fn a_repeated_creation_survives_crashes_everywhere() {
    let first = SimVfs::new();
    first.record();
    let _killed = Db::open(STORE, options(&first)).expect("made");
    for point in first.recorded() {
        for state in crash_states(&point.disk, &CrashOptions::short()) {
            let again = SimVfs::start(state.disk);
            again.record();
            let _killed = Db::open(STORE, options(&again)).expect("made again");
            for second in again.recorded() {
                let what = format!("before {}, then before {}", point.call, second.call);
                let vfs = SimVfs::start(second.disk.after_kill());
                is_store(&vfs, &what);
                must_work(&vfs, &what);
            }
        }
    }
}

/// A store that lost its log before the first checkpoint has lost commits. Promise: P1.
#[test]
fn a_store_whose_log_is_lost_is_not_new() {
    for level in [Durability::Sync, Durability::Os, Durability::Lazy] {
        for is_written in [false, true] {
            let vfs = SimVfs::new();
            let db = Db::open(STORE, options(&vfs).durability(level)).expect("made");
            if is_written {
                (0..100u8).for_each(|row| put(&db, &[row]));
            }
            let vfs = SimVfs::start(vfs.disk().after_kill());
            remove(&vfs, |name| name.starts_with("log-0"));
            for options in
                [options(&vfs), options(&vfs).create(false), options(&vfs).read_only(true)]
            {
                let opened = Db::open(STORE, options);
                assert!(matches!(opened, Err(Error::WalMissing { .. })), "{opened:?}");
            }
            let report = check(&vfs).expect("checked");
            assert!(report.to_string().contains("FRD-2202"), "{report}");
            remove(&vfs, |name| name.starts_with("log-"));
            let opened = Db::open(STORE, options(&vfs));
            assert!(matches!(opened, Err(Error::WalMissing { .. })), "{opened:?}");
        }
    }
}

/// Log segments without their store file are damage, unless a whole new store file waits for its
/// name. Promise: P19.
#[test]
fn a_log_without_its_store_file_is_not_an_unfinished_store() {
    let vfs = SimVfs::new();
    let db = Db::open(STORE, options(&vfs)).expect("made");
    put(&db, b"first");
    let vfs = SimVfs::start(vfs.disk().after_kill());
    drop(db);
    let (store, new) =
        (Path::new(STORE).join("store.frond"), Path::new(STORE).join("store.frond.new"));
    vfs.env(3).vfs.rename(&store, &new).expect("renamed");
    // As an interrupted creation leaves it: what the log has is kept.
    let db = Db::open(STORE, options(&vfs)).expect("finished");
    assert!(has(&db, b"first"));
    db.close().expect("closed");
    drop(db);
    // A store that has had a checkpoint was not being created.
    vfs.env(3).vfs.rename(&store, &new).expect("renamed");
    for options in [options(&vfs), options(&vfs).read_only(true)] {
        let opened = Db::open(STORE, options);
        let Err(Error::NotAStore { .. }) = opened else { panic!("{opened:?}") };
    }
    assert!(check(&vfs).is_err());
    vfs.env(3).vfs.rename(&new, &store).expect("renamed");
    assert!(has(&Db::open(STORE, options(&vfs)).expect("opened"), b"first"));
}

/// A whole new store file does not get its name if the log next to it is that of another store, or
/// is not its beginning. Promise: P19.
#[test]
fn an_unfinished_store_gets_its_name_only_with_its_own_log() {
    let dir = tempfile::tempdir().expect("a directory");
    let [path, other] = ["store", "other"].map(|name| dir.path().join(name));
    // As after a kill: no checkpoint, and no clean end.
    for path in [&path, &other] {
        let db = Db::open(path, common::options()).expect("made");
        for file in ["store.frond", FIRST_LOG] {
            std::fs::copy(path.join(file), path.join(file).with_extension("kept")).expect("copied");
        }
        drop(db);
        for file in std::fs::read_dir(path).expect("listed").flatten() {
            if file.path().extension().is_none_or(|extension| extension != "kept") {
                std::fs::remove_file(file.path()).expect("removed");
            }
        }
    }
    let (kept, new) = (path.join("store.kept"), path.join("store.frond.new"));
    let first = path.join(FIRST_LOG);
    std::fs::rename(&kept, &new).expect("renamed");
    let own_log = first.with_extension("kept");
    let other_log = other.join(FIRST_LOG).with_extension("kept");
    let beyond = path.join("log-0000000007.frond");
    for (log, name) in [(&other_log, &first), (&own_log, &beyond)] {
        std::fs::copy(log, name).expect("copied");
        let opened = Db::open(&path, common::options());
        let Err(Error::NotAStore { .. }) = opened else { panic!("{opened:?}") };
        assert!(!path.join("store.frond").exists() && new.exists());
        std::fs::remove_file(name).expect("removed");
    }
    std::fs::rename(&own_log, &first).expect("renamed");
    Db::open(&path, common::options()).expect("finished").close().expect("closed");
}

/// While a store is being created, others find no store, a locked one, or the store; never one that
/// has lost a file.
#[test]
fn openers_meet_no_half_created_store() {
    let dir = tempfile::tempdir().expect("a directory");
    for round in 0..60 * effort::factor() {
        let path = dir.path().join(round.to_string());
        let opener = |is_reader: bool| {
            let options = common::options().durability(Durability::Lazy).read_only(is_reader);
            match Db::open(&path, options) {
                Ok(db) => Some(db),
                Err(Error::Locked { .. }) => None,
                Err(Error::NotAStore { why, .. }) if is_reader && why.contains("create") => None,
                Err(error) => panic!("round {round}, reader {is_reader}: {error}"),
            }
        };
        std::thread::scope(|scope| {
            let readers =
                [(); 2].map(|()| scope.spawn(|| (0..40).filter_map(|_| opener(true)).count()));
            let writers = [(); 2].map(|()| scope.spawn(|| opener(false).is_some()));
            readers.into_iter().for_each(|reader| _ = reader.join().expect("it ends"));
            writers.into_iter().for_each(|writer| _ = writer.join().expect("it ends"));
        });
    }
}

/// Stores were once given their names before their logs: one whose first segment has no name yet is
/// new, for open and check alike.
#[test]
fn a_store_whose_first_segment_was_being_made_is_new() {
    for is_empty in [false, true] {
        let vfs = SimVfs::new();
        let _killed = Db::open(STORE, options(&vfs)).expect("made");
        let vfs = SimVfs::start(vfs.disk().after_kill());
        let (log, new) = (FIRST_LOG, "log-0000000001.new");
        remove(&vfs, |name| name.starts_with("log-") && name != log);
        let path = |name| Path::new(STORE).join(name);
        let files = vfs.env(3).vfs;
        files.rename(&path(log), &path(new)).expect("renamed");
        if is_empty {
            let mode = OpenMode { write: true, create_new: false, direct: false };
            files.open(&path(new), mode).and_then(|file| file.set_len(0)).expect("cut");
        }
        let what = format!("half created, empty: {is_empty}");
        assert!(is_store(&vfs, &what));
        must_work(&vfs, &what);
    }
}
