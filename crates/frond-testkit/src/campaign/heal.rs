//! A sector that cannot be read during one opening and can be read again after a crash during or
//! after that opening (F6, F10; P5, P10, P11): nothing that was acknowledged is lost, whatever the
//! opening did.
//!
//! A script is run once. Then, for some of its moments: the process is killed, a place of the store
//! goes bad (either slot, the root directory or the space map that a slot links, any page, a block
//! of the log), the store is opened, and does some background work if it opens. For each call that
//! is made meanwhile, whatever a crash at that call leaves is opened with the sector healed. It
//! must have exactly the rows of the store that was killed. The same is done once more: a crash
//! during the opening after the healing, and one more opening.

use std::{
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use super::guarded;
use crate::{
    Dice,
    db_engine::DIR,
    disk::{CrashOptions, DiskState, PAGE, Point, SimVfs, crash_states},
    drive::{Engine, Errors, Failure, Opened, Run, Store, fail, find_step},
    model::Model,
    ops::Op,
};

/// How much to try.
#[derive(Clone, Copy, Debug)]
pub struct HealPlan {
    /// Number of moments of the script at which the process is killed.
    pub kills: usize,
    /// Number of places that go bad after each, in addition to the four that make an opening fall
    /// back.
    pub places: usize,
    /// Number of calls of the opening at which a crash is tried, for each place.
    pub calls: usize,
    /// Crash states at each call.
    pub states: CrashOptions,
}

impl Default for HealPlan {
    fn default() -> Self {
        Self { kills: 2, places: 3, calls: 10, states: CrashOptions::short() }
    }
}

/// What was tried.
#[derive(Clone, Copy, Debug, Default)]
pub struct HealReport {
    /// Places that went bad.
    pub places: u64,
    /// Of these, places with which the store did not open.
    pub refused: u64,
    /// How often the store opened from the slot that it would not have used otherwise.
    pub fell_back: u64,
    /// Disks left by a crash, each opened once the sector could be read again.
    pub crashes: u64,
    /// Of these, disks that crashed once more during that opening.
    pub twice: u64,
}

impl HealReport {
    /// Adds another report.
    pub fn add(&mut self, other: &HealReport) {
        self.places += other.places;
        self.refused += other.refused;
        self.fell_back += other.fell_back;
        self.crashes += other.crashes;
        self.twice += other.twice;
    }
}

impl fmt::Display for HealReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { places, refused, fell_back, crashes, twice } = self;
        write!(
            f,
            "{places} places bad at one opening: {refused} refused, {fell_back} fell back; {crashes} crashes, \
             {twice} of them twice, 0 rows lost"
        )
    }
}

/// A place of a file.
type Place = (PathBuf, u64);

/// Runs the script, then kills, breaks, crashes and heals.
pub fn heal_everywhere<E: Engine>(
    engine: &E,
    script: &[Op],
    seed: u64,
    plan: &HealPlan,
) -> Result<HealReport, Failure> {
    let vfs = SimVfs::new();
    vfs.record();
    let model = guarded(|| {
        let mut run = Run::start(engine, vfs.clone(), seed, Model::new(), Errors::Fail)?;
        run.script(script)?;
        Ok(run.model().clone())
    })?;
    let points = vfs.recorded();
    let mut dice = Dice::new(seed ^ 0x4ea1);
    let mut report = HealReport::default();
    let campaign = Campaign { engine, model: &model, plan, seed };
    for kill in 0..plan.kills {
        // At the last moment the store has most data.
        let index =
            if kill == 0 { points.len() - 1 } else { dice.below(points.len() as u64) as usize };
        let place = format!("killed before {}", points[index].call);
        campaign
            .try_kill(&points[index], &mut dice, &mut report)
            .map_err(|failure| failure.during(place))?;
    }
    Ok(report)
}

struct Campaign<'a, E> {
    engine: &'a E,
    model: &'a Model,
    plan: &'a HealPlan,
    seed: u64,
}

impl<E: Engine> Campaign<'_, E> {
    fn try_kill(
        &self,
        point: &Point,
        dice: &mut Dice,
        report: &mut HealReport,
    ) -> Result<(), Failure> {
        // Everything in the page cache is on the medium: a later crash loses nothing of it.
        let states = crash_states(&point.disk, &CrashOptions::random(0));
        let whole = states.into_iter().find(|state| state.what.starts_with("everything"));
        let disk = whole.map_or_else(|| point.disk.after_kill(), |state| state.disk);
        let step = match guarded(|| self.open(&disk, (0, point.note.issued), None)) {
            Ok(step) => step,
            Err(failure) => return Err(failure.during("with nothing broken")),
        };
        for (path, at) in places(&disk, dice, self.plan.places) {
            let what = format!("{} unreadable at {at} once", path.display());
            report.places += 1;
            self.try_place(&disk, (&path, at), step, dice, report)
                .map_err(|failure| failure.during(what))?;
        }
        Ok(())
    }

    fn try_place(
        &self,
        disk: &DiskState,
        (path, at): (&Path, u64),
        step: u64,
        dice: &mut Dice,
        report: &mut HealReport,
    ) -> Result<(), Failure> {
        let vfs = SimVfs::start(disk.clone());
        vfs.break_sectors(path, at..at + PAGE as u64);
        vfs.record();
        let before = guarded(|| Ok(self.work(&vfs, report)))?;
        let points = vfs.recorded();
        if let Some(violation) = vfs.violations().first() {
            return fail(violation.clone());
        }
        let mut chosen: Vec<usize> = (0..self.plan.calls)
            // Half of them in the first calls, before a checkpoint has settled everything.
            .map(|n| match n % 2 {
                0 => dice.below(before.min(points.len()) as u64 + 1) as usize,
                _ => dice.below(points.len() as u64) as usize,
            })
            .map(|index| index.min(points.len() - 1))
            .collect();
        chosen.sort_unstable();
        chosen.dedup();
        for index in chosen {
            let point = &points[index];
            let options = self.plan.states.with_seed(self.seed ^ point.change_number);
            for (number, state) in crash_states(&point.disk, &options).into_iter().enumerate() {
                report.crashes += 1;
                let again = (number as u64 % 4 == dice.below(4)).then(|| dice.bits());
                report.twice += u64::from(again.is_some());
                let place = || format!("crash before {}: {}", point.call, state.what);
                guarded(|| self.open(&state.disk, (step, step), again))
                    .map_err(|failure| failure.during(place()))?;
            }
        }
        Ok(())
    }

    /// Opens the store with the bad sector and lets it work. Returns how many calls had changed
    /// something by the end of the opening.
    fn work(&self, vfs: &SimVfs, report: &mut HealReport) -> usize {
        let opened = self.engine.open(&vfs.env(self.seed ^ 0xbad));
        let by_then = vfs.changes() as usize;
        match opened {
            Err(_) => report.refused += 1,
            Ok(mut store) => {
                report.fell_back += u64::from(store.fell_back());
                for _ in 0..3 {
                    vfs.advance(Duration::from_millis(1600));
                    // Errors from the bad sector do not matter here.
                    (0..20).for_each(|_| drop(store.step()));
                }
                vfs.halt();
                drop(store);
            }
        }
        by_then
    }

    /// Opens a readable disk: its rows must be those of a step between these two, and it must be
    /// whole. With a seed, crashes somewhere during that opening, and opens what is left.
    fn open(
        &self,
        disk: &DiskState,
        (floor, issued): (u64, u64),
        again: Option<u64>,
    ) -> Result<u64, Failure> {
        let vfs = SimVfs::start(disk.clone());
        if again.is_some() {
            vfs.record();
        }
        let opened = Opened::open(self.engine, &vfs.env(self.seed ^ 0x600d));
        let mut store = opened.map_err(|error| Failure(format!("does not open: {error}")))?;
        let points = again.map(|_| vfs.recorded()).unwrap_or_default();
        let step = find_step(self.model, &store.read_everything()?, floor, issued)?;
        store.check().map_err(|damage| Failure(format!("check finds damage: {damage}")))?;
        drop(store);
        if let Some(seed) = again {
            let point = &points[Dice::new(seed).below(points.len() as u64) as usize];
            let options = CrashOptions::random(1).with_seed(seed);
            if let Some(state) = crash_states(&point.disk, &options).pop() {
                let place =
                    format!("then in the next opening before {}: {}", point.call, state.what);
                self.open(&state.disk, (step, step), None)
                    .map_err(|failure| failure.during(place))?;
            }
        }
        Ok(step)
    }
}

/// Both slots, what the newest one links, and some other places.
fn places(disk: &DiskState, dice: &mut Dice, count: usize) -> Vec<Place> {
    let store = PathBuf::from(DIR).join("store.frond");
    let used = |path: &Path| {
        let file = disk.find(path).and_then(|inode| disk.file(inode));
        file.map(|file| (file.seen.clone(), file.seen.used_pages()))
    };
    let Some((image, pages)) = used(&store) else { return Vec::new() };
    let word = |at: u64| {
        let mut bytes = [0; 8];
        if at + 8 <= image.len() {
            image.read(at, &mut bytes);
        }
        u64::from_le_bytes(bytes)
    };
    // docs/format.md: the sequence is at 56, the links of root directory and space map at 128 and
    // 164.
    let slots = [0, 64 << 10];
    let newest = if word(slots[0] + 56) > word(slots[1] + 56) { slots[0] } else { slots[1] };
    let linked = [word(newest + 128), word(newest + 164)].into_iter().filter(|&at| at > 0);
    let mut places: Vec<Place> =
        slots.into_iter().chain(linked).map(|at| (store.clone(), at)).collect();
    let mut files: Vec<(PathBuf, Vec<u64>)> = disk
        .paths()
        .into_iter()
        .filter_map(|(path, _)| used(&path).map(|(_, pages)| (path, pages)))
        .filter(|(path, pages)| *path != store && !pages.is_empty())
        .collect();
    files.push((store, pages));
    for _ in 0..count {
        let (path, pages) = dice.pick(&files);
        places.push((path.clone(), dice.pick(pages) * PAGE as u64));
    }
    places
}
