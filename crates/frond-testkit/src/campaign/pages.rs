//! One page after another goes bad under a running store (F6, F10; P10, P11): operations that need
//! the page fail with an error, and no others do.
//!
//! A store of two deep trees is made once. Then, in a copy of it for each page: open, break the
//! page (before or after that), overwrite half of the keys, apply, drain, checkpoint, read all
//! keys, close, open again. Bad sectors heal before the last step, and must then have left no
//! trace.

use std::{collections::BTreeMap, fmt, path::Path, time::Duration};

use frond::{
    Batch, Db, Durability, Error, ErrorKind, Options, SizeClass, TreeOptions,
    check::{self, CheckMode},
};

use super::guarded;
use crate::{
    DbEngine, Dice,
    db_engine::DIR,
    disk::{DiskState, PAGE, SimVfs},
    drive::{Failure, fail},
};

/// How a page goes bad.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decay {
    /// A bit flips permanently.
    Bit,
    /// The first sector cannot be read for a while.
    Sector,
}

/// What was tried.
#[derive(Clone, Copy, Debug, Default)]
pub struct DecayReport {
    /// Pages broken, one at a time.
    pub pages: u64,
    /// Of these, pages with which the store did not open (space map, root directory, catalog).
    pub refused: u64,
    /// How often the store opened from its older slot.
    pub fell_back: u64,
    /// How often background work met the page.
    pub marked: u64,
    /// Pages that took some rows with them, less than a fifth of their tree.
    pub took_few: u64,
    /// Pages that took more.
    pub took_many: u64,
}

impl fmt::Display for DecayReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pages, refused, fell_back, marked, took_few, took_many } = self;
        write!(
            f,
            "{pages} pages broken: {refused} stores refused, {fell_back} opened from the older slot, \
             {marked} met in the background, rows lost to {took_few} pages, many rows to {took_many}, 0 wrong"
        )
    }
}

const FILE: &str = "/store/store.frond";
const TREES: [&str; 2] = ["a", "b"];
const KEYS: u64 = 900;
/// Superblocks and the owner page end here.
const HEADER_BYTES: u64 = 192 << 10;

/// A row's tree and number.
type Place = (usize, u64);
type Rows = BTreeMap<Place, Vec<u8>>;

/// Breaks about `count` pages of a store, one at a time.
pub fn break_pages(seed: u64, decay: Decay, count: usize) -> Result<DecayReport, Failure> {
    let mut report = DecayReport::default();
    let (disk, rows) = guarded(|| Ok(make_store(seed)))?;
    let mut dice = Dice::new(seed ^ 5);
    let pages = store_pages(&disk);
    for &page in pages.iter().step_by(pages.len() / count + 1) {
        let bit_at = page + dice.below(PAGE as u64);
        let one = || break_page(&disk, &rows, seed, (decay, page, bit_at), &mut report);
        guarded(one).map_err(|failure| failure.during(format!("{decay:?} at {page}")))?;
    }
    Ok(report)
}

/// Breaks every page of a closed store, including those at its head, and opens it: if it reports
/// that it fell back to the older slot, all rows must be there.
pub fn break_newest_version(seed: u64) -> Result<DecayReport, Failure> {
    let mut report = DecayReport::default();
    let (disk, rows) = guarded(|| Ok(make_store(seed)))?;
    let mut dice = Dice::new(seed ^ 6);
    let slots = (0..HEADER_BYTES).step_by(PAGE);
    for page in slots.chain(store_pages(&disk)) {
        let vfs = SimVfs::start(disk.clone());
        // The first bytes of a page are its header; a superblock is shorter than its page.
        vfs.flip(Path::new(FILE), page + dice.below(64));
        report.pages += 1;
        let one = || match Db::open(DIR, options(&vfs)) {
            Ok(db) if db.warnings().is_empty() => Ok(()),
            Ok(db) => {
                report.fell_back += 1;
                let said = db.warnings().join("; ");
                if !said.contains("FRD-2105") || !unreadable(&db, &rows)?.is_empty() {
                    return fail(format!("rows are lost, or the warning is another: {said}"));
                }
                db.close()?;
                let again = Db::open(DIR, options(&vfs))?;
                if !again.warnings().is_empty() || !unreadable(&again, &rows)?.is_empty() {
                    return fail("it does not get over it");
                }
                Ok(again.close()?)
            }
            Err(error) if is_of_the_medium(&error) => {
                report.refused += 1;
                Ok(())
            }
            Err(error) => fail(format!("opening says: {error}")),
        };
        guarded(one).map_err(|failure| failure.during(format!("a bit of page {page}")))?;
    }
    Ok(report)
}

/// Offsets of the pages of the store file that hold anything, except those at its head.
pub fn store_pages(disk: &DiskState) -> Vec<u64> {
    let file = disk.find(Path::new(FILE)).and_then(|inode| disk.file(inode));
    let pages = file.map(|file| file.durable.used_pages()).unwrap_or_default();
    pages.into_iter().map(|page| page * PAGE as u64).filter(|&at| at >= HEADER_BYTES).collect()
}

fn break_page(
    disk: &DiskState,
    rows: &Rows,
    seed: u64,
    (decay, page, bit_at): (Decay, u64, u64),
    report: &mut DecayReport,
) -> Result<(), Failure> {
    let vfs = SimVfs::start(disk.clone());
    let break_it = || match decay {
        Decay::Bit => vfs.flip(Path::new(FILE), bit_at),
        Decay::Sector => vfs.break_sectors(Path::new(FILE), page..page + 512),
    };
    // Every other page goes bad while the store is open.
    let while_open = (page / PAGE as u64).is_multiple_of(2);
    if !while_open {
        break_it();
    }
    report.pages += 1;
    let db = match Db::open(DIR, options(&vfs)) {
        Ok(db) => db,
        Err(error) if is_of_the_medium(&error) => {
            report.refused += 1;
            return Ok(());
        }
        Err(error) => return fail(format!("opening says: {error}")),
    };
    if while_open {
        break_it();
    }
    let mut rows = rows.clone();
    let lost = live_with_it(&db, &vfs, &mut rows, seed)?;
    let damaged = db.stats().damaged;
    let odd = |range: &&frond::stats::DamagedRange| {
        let (least, most) = (page.saturating_sub(64 << 10), page + PAGE as u64);
        !range.why.contains("FRD-")
            || !TREES.contains(&&*range.tree)
            || !(least..=most).contains(&range.offset)
    };
    if let Some(range) = damaged.iter().find(odd) {
        return fail(format!("a strange range: {range:?}"));
    }
    report.marked += u64::from(!damaged.is_empty());
    report.took_few += u64::from(!lost.is_empty() && lost.len() < KEYS as usize / 5);
    report.took_many += u64::from(lost.len() >= KEYS as usize / 5);
    let lost = match decay {
        Decay::Bit => lost,
        Decay::Sector => {
            heal(&db, &vfs, &rows)?;
            Vec::new()
        }
    };
    db.close()?;
    let verdict = check::store_in(&vfs.env(1), DIR, CheckMode::Full)?;
    let harmed = decay == Decay::Bit && !(lost.is_empty() && damaged.is_empty());
    if harmed == verdict.is_clean() && (harmed || decay == Decay::Sector) {
        return fail(format!("{} rows lost, and the check says: {verdict}", lost.len()));
    }
    let again = match Db::open(DIR, options(&vfs)) {
        // What only an opening reads: the space map, the catalog.
        Err(error) if while_open && lost.is_empty() && is_of_the_medium(&error) => {
            report.refused += 1;
            return Ok(());
        }
        again => again?,
    };
    if unreadable(&again, &rows)? != lost {
        return fail("other rows are lost after a restart");
    }
    Ok(again.close()?)
}

/// Writes, applies, drains, checkpoints and reads; returns the rows that cannot be read.
fn live_with_it(db: &Db, vfs: &SimVfs, rows: &mut Rows, seed: u64) -> Result<Vec<Place>, Failure> {
    let mut dice = Dice::new(seed);
    let mut written = write(db, &mut dice, 400, rows)?;
    work(db)?;
    written.extend(write(db, &mut dice, 200, rows)?);
    work(db)?;
    db.checkpoint()?;
    vfs.advance(Duration::from_secs(3));
    work(db)?;
    if let Some(why) = db.stats().failed {
        return fail(format!("P10: the store has stopped: {why}"));
    }
    let lost = unreadable(db, rows)?;
    if lost.iter().any(|place| place.0 != lost[0].0) {
        return fail("a page belongs to one tree, and both have lost rows");
    }
    // What was written later waits above the damage, and is found first.
    match lost.iter().find(|place| written.contains(place)) {
        Some(place) => fail(format!("a row written after the damage is lost: {place:?}")),
        None => Ok(lost),
    }
}

fn heal(db: &Db, vfs: &SimVfs, rows: &Rows) -> Result<(), Failure> {
    vfs.heal_sectors();
    if !unreadable(db, rows)?.is_empty() {
        return fail("P11: an error of a read is remembered");
    }
    for _ in 0..6 {
        vfs.advance(Duration::from_secs(600));
        work(db)?;
    }
    if let Some(range) = db.stats().damaged.first() {
        return fail(format!("still degraded after healing: {range:?}"));
    }
    let verdict = db.check(CheckMode::Full)?;
    if verdict.is_clean() { Ok(()) } else { fail(format!("after healing: {verdict}")) }
}

/// Two trees, several levels deep, with messages waiting in their buffers; closed.
fn make_store(seed: u64) -> (DiskState, Rows) {
    let vfs = SimVfs::new();
    let made = || -> Result<Rows, Failure> {
        let db = Db::open(DIR, options(&vfs))?;
        let (mut dice, mut rows) = (Dice::new(seed), Rows::new());
        for name in TREES {
            let options = TreeOptions::new().size_class(SizeClass::Fast);
            db.create_tree(name, options)?;
        }
        let mut places: Vec<Place> =
            (0..TREES.len()).flat_map(|tree| (0..KEYS).map(move |number| (tree, number))).collect();
        for n in (1..places.len()).rev() {
            places.swap(n, dice.below(n as u64 + 1) as usize);
        }
        put(&db, &mut dice, &places, &mut rows)?;
        write(&db, &mut dice, 200, &mut rows)?;
        for name in TREES {
            assert!(
                db.open_tree(name)?.shape()?.levels.len() >= 3,
                "deep enough for inner nodes to go bad"
            );
        }
        db.close()?;
        Ok(rows)
    };
    let rows = made().unwrap_or_else(|failure| panic!("making a store: {failure}"));
    (vfs.disk(), rows)
}

fn options(vfs: &SimVfs) -> Options {
    let DbEngine { tuning, cache_bytes, level, .. } = DbEngine::tiny(Durability::Lazy);
    Options::new().cache_size(cache_bytes).durability(level).tuning(tuning).env(vfs.env(7))
}

/// Puts rows with even numbers, and returns which.
fn write(db: &Db, dice: &mut Dice, count: u64, rows: &mut Rows) -> Result<Vec<Place>, Failure> {
    let place = |dice: &mut Dice| (dice.below(2) as usize, dice.below(KEYS / 2) * 2);
    let places: Vec<Place> = (0..count).map(|_| place(dice)).collect();
    put(db, dice, &places, rows)?;
    Ok(places)
}

fn put(db: &Db, dice: &mut Dice, places: &[Place], rows: &mut Rows) -> Result<(), Failure> {
    let mut batch = Batch::new();
    for some in places.chunks(20) {
        for &(tree, number) in some {
            let value: Vec<u8> = (0..20 + dice.below(60)).map(|_| dice.bits() as u8).collect();
            batch.put(&db.open_tree(TREES[tree])?, &key(number), &value)?;
            rows.insert((tree, number), value);
        }
        db.commit(&mut batch)?;
        db.step()?;
    }
    Ok(())
}

/// Does background work until there is none.
fn work(db: &Db) -> Result<(), Failure> {
    for _ in 0..500 {
        if !db.step()? && !db.drain_step()? {
            return Ok(());
        }
    }
    fail("background work does not come to an end")
}

/// Compares all rows; returns those that cannot be read.
fn unreadable(db: &Db, rows: &Rows) -> Result<Vec<Place>, Failure> {
    let mut lost = Vec::new();
    for (tree, name) in TREES.iter().enumerate() {
        let open = db.open_tree(name)?;
        for number in 0..KEYS {
            match open.get(&key(number)) {
                Ok(found) if found.as_ref() == rows.get(&(tree, number)) => {}
                Ok(_) => return fail(format!("a wrong row: {name}, {number}")),
                Err(error) if is_of_the_medium(&error) => lost.push((tree, number)),
                Err(error) => return fail(format!("reading says: {error}")),
            }
        }
    }
    Ok(lost)
}

fn is_of_the_medium(error: &Error) -> bool {
    error.kind() == ErrorKind::Restore || matches!(error, Error::Io { action: "read", .. })
}

fn key(number: u64) -> Vec<u8> {
    format!("key{number:06}").into_bytes()
}
