//! A file system of 48 MiB that the store itself fills, with kills: deletes succeed, and a killed
//! store opens in whatever space there is.
//!
//! The program mounts a tmpfs of its own, which needs root; without root it is skipped. It runs
//! itself as a child that puts rows until the disk is full, deletes some, and continues. A put may
//! be refused with `Full`. A delete may be refused, too, while space is being freed, but not for
//! seconds on end. The parent kills the child and opens the store with the disk as full as it is.
//! Each row carries its number, and a file outside of the disk records what was acknowledged.
//!
//! Exit codes: 0 everything is there; 1 acknowledged changes are lost, deletes stay refused, or the
//! store does not open; 77 a tmpfs cannot be mounted.

use std::{
    env,
    fs::File,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::{Command, exit},
    thread,
    time::{Duration, Instant},
};

use frond::{Db, Durability, Error, Options, TreeOptions};
use frond_break::{Dice, Run};

const CHILD: &str = "FROND_BREAK_CHILD";
const KEYS: u64 = 4000;
/// How long a delete may be refused: much longer than it takes to free space.
const PATIENCE: Duration = Duration::from_secs(10);

fn options() -> Options {
    Options::new().cache_size(4 << 20).durability(Durability::Os)
}

/// The place of a key in the ledger, which has two numbers for each key: that of the value being
/// written, and that of the value acknowledged. 0 means that the row was deleted.
fn place(key: u64) -> u64 {
    key * 16
}

/// Fills the disk until it is killed.
fn fill(store: &Path, ledger: &Path, seed: u64, round: u64) -> frond::Result<()> {
    let db = Db::open(store, options())?;
    let tree = db.open_tree("t")?;
    let ledger = File::options().read(true).write(true).open(ledger).expect("the parent made it");
    let mut dice = Dice::new(seed, round);
    // Deletes start once a put was refused, and continue for a while.
    let mut deletes = 0;
    for number in 1u64.. {
        let (key, is_delete) = (dice.below(KEYS), deletes > 0);
        let said = if is_delete { 0 } else { round << 40 | number };
        let mut acknowledged = [0; 8];
        ledger.read_exact_at(&mut acknowledged, place(key) + 8).expect("the ledger is read");
        ledger.write_all_at(&said.to_le_bytes(), place(key)).expect("the ledger is written");
        let begun = Instant::now();
        let done = loop {
            let done = if is_delete {
                tree.delete(&key.to_be_bytes())
            } else {
                let mut value = said.to_le_bytes().to_vec();
                let most = if dice.one_in(40) { 200_000 } else { 20_000 };
                value.extend(dice.bytes(most));
                tree.put(&key.to_be_bytes(), &value)
            };
            match done {
                Err(Error::Full(why)) if is_delete => {
                    if begun.elapsed() > PATIENCE {
                        return Err(Error::Full(format!(
                            "a delete is refused for {PATIENCE:?}: {why}"
                        )));
                    }
                    thread::sleep(Duration::from_millis(5));
                }
                done => break done,
            }
        };
        match done {
            Ok(_) => {
                ledger
                    .write_all_at(&said.to_le_bytes(), place(key) + 8)
                    .expect("the ledger is written");
                deletes -= i64::from(is_delete);
            }
            Err(Error::Full(_)) => {
                // The refused call has done nothing.
                ledger.write_all_at(&acknowledged, place(key)).expect("the ledger is written");
                deletes = 1 + dice.below(300) as i64;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A mounted tmpfs, unmounted at the end of the run.
struct Disk(PathBuf);

impl Disk {
    fn mount(run: &Run) -> Self {
        let at = run.dir().join("disk");
        run.must(std::fs::create_dir_all(&at), "create the mount point");
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=48m", "frond-break"])
            .arg(&at)
            .output();
        match mount {
            Ok(done) if done.status.success() => Self(at),
            Ok(done) => {
                run.skips(format_args!("mount: {}", String::from_utf8_lossy(&done.stderr).trim()))
            }
            Err(error) => run.skips(format_args!("mount: {error}")),
        }
    }

    fn unmount(self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

/// Checks the store after a kill, and describes what is wrong with it; `None` if nothing is.
fn wrong(store: &Path, ledger: &Path) -> frond::Result<Option<String>> {
    let db = Db::open(store, options())?;
    let tree = db.open_tree("t")?;
    let said = std::fs::read(ledger).expect("the parent made it");
    let number = |at: usize| u64::from_le_bytes(said[at..at + 8].try_into().expect("eight bytes"));
    let mut settled = said.clone();
    for key in 0..KEYS {
        let at = place(key) as usize;
        let value = tree.get(&key.to_be_bytes())?;
        let found =
            value.map_or(0, |value| u64::from_le_bytes(value[..8].try_into().expect("a number")));
        if found != number(at) && found != number(at + 8) {
            return Ok(Some(format!(
                "key {key}: found {found:x}, begun {:x}, acknowledged {:x}",
                number(at),
                number(at + 8)
            )));
        }
        settled[at..at + 8].copy_from_slice(&found.to_le_bytes());
        settled[at + 8..at + 16].copy_from_slice(&found.to_le_bytes());
    }
    std::fs::write(ledger, settled).expect("the ledger is written");
    let report = db.check(frond::check::CheckMode::Full)?;
    Ok((!report.is_clean()).then(|| report.to_string()))
}

fn main() {
    if let Ok(child) = env::var(CHILD) {
        let mut words = child.split(' ').map(|word| word.parse().expect("a number"));
        let (seed, round) = (words.next().unwrap_or(0), words.next().unwrap_or(0));
        let paths: Vec<PathBuf> = env::args_os().skip(1).map(Into::into).collect();
        let error =
            fill(&paths[0], &paths[1], seed, round).expect_err("it fills until it is killed");
        println!("full_disk: the writer ended: {error}");
        exit(1)
    }
    let run = Run::begin("full_disk");
    let mut dice = run.dice(0);
    let disk = Disk::mount(&run);
    let (store, ledger) = (disk.0.join("store"), run.dir().join("ledger"));
    let created = Db::open(&store, options()).and_then(|db| {
        db.create_tree("t", TreeOptions::default())?;
        db.close()
    });
    let written = std::fs::write(&ledger, vec![0; place(KEYS) as usize]);
    let mut round = 1;
    let outcome: Result<(), String> = (|| {
        created.map_err(|error| format!("create the store: {error}"))?;
        written.map_err(|error| format!("make the ledger: {error}"))?;
        while run.goes_on() {
            let program = env::current_exe().map_err(|error| error.to_string())?;
            let mut command = Command::new(program);
            command.args([&store, &ledger]).env(CHILD, format!("{} {round}", run.seed));
            let mut child = command.spawn().map_err(|error| error.to_string())?;
            thread::sleep(Duration::from_millis(200 + dice.below(3000)));
            if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
                return Err(format!("round {round}: the writer ended by itself: {status}"));
            }
            child.kill().and_then(|()| child.wait()).map_err(|error| error.to_string())?;
            match wrong(&store, &ledger) {
                Ok(None) => {}
                Ok(Some(wrong)) => return Err(format!("round {round}: {wrong}")),
                Err(error) => return Err(format!("round {round}, after a kill: {error}")),
            }
            round += 1;
        }
        Ok(())
    })();
    disk.unmount();
    match outcome {
        Ok(()) => run.ends(format_args!("{} kills", round - 1)),
        Err(what) => run.fails(what),
    }
}
