//! Damage to the files of a closed store: bits, zeros, swapped and stale pages, cut files (F6–F8,
//! F18). Whatever is damaged, opening, reading and checking must return an error, or the right
//! rows.

use std::fmt;

use super::guarded;
use crate::{
    Dice,
    disk::{DiskState, Image, Inode, PAGE, SimVfs},
    drive::{Engine, Errors, Failure, Opened, Run, find_step},
    model::Model,
    ops::Op,
};

/// How much to damage.
#[derive(Clone, Copy, Debug)]
pub struct SweepPlan {
    /// Number of single bits, spread over all files.
    pub bits: u64,
    /// Also every bit of this many bytes at the start of each file.
    pub every_bit_of_first: u64,
    /// Number of sectors and pages that are zeroed.
    pub zeroed: u64,
    /// Number of pairs of pages that are swapped, and of pages copied over others.
    pub swapped: u64,
    /// Number of pages that are replaced by older versions of themselves.
    pub stale: u64,
    /// Number of files that are cut short.
    pub cut: u64,
    /// Whether a failed open must leave every byte unchanged (P21).
    pub untouched: bool,
}

/// One kind of damage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Damage {
    /// A bit flipped at this bit offset.
    Bit(u64),
    /// A range zeroed.
    Zero(u64, u64),
    /// Two pages swapped.
    Swap(u64, u64),
    /// One page copied over another.
    Copy(u64, u64),
    /// A page from an older state of the file.
    Stale(u64),
    /// Cut to this length.
    Cut(u64),
}

/// What was tried.
#[derive(Clone, Copy, Debug, Default)]
pub struct SweepReport {
    /// Damages tried.
    pub cases: u64,
    /// Detected by opening.
    pub refused: u64,
    /// Detected by reading or checking.
    pub found: u64,
    /// Not detected; the rows were right all the same.
    pub harmless: u64,
}

impl fmt::Display for SweepReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cases, refused, found, harmless } = self;
        write!(
            f,
            "{cases} damages: {refused} refused at open, {found} found later, {harmless} harmless, 0 wrong"
        )
    }
}

/// Makes a closed store to damage. Returns its disk, the disk as it was after `before` alone (for
/// stale pages), and the model of its rows.
pub fn closed_store<E: Engine>(
    engine: &E,
    before: &[Op],
    after: &[Op],
    seed: u64,
) -> Result<(DiskState, DiskState, Model), Failure> {
    let vfs = SimVfs::new();
    let mut run = Run::start(engine, vfs.clone(), seed, Model::new(), Errors::Fail)?;
    run.script(before)?;
    run.reopen()?;
    let older = vfs.disk();
    run.script(after)?;
    run.close()?;
    Ok((vfs.disk(), older, run.model().clone()))
}

/// Damages a closed store in many ways. `older` is the same store at an earlier time, for stale
/// pages. The model has the right rows.
pub fn sweep_damage<E: Engine>(
    engine: &E,
    disk: &DiskState,
    older: &DiskState,
    model: &Model,
    seed: u64,
    plan: &SweepPlan,
) -> Result<SweepReport, Failure> {
    let mut dice = Dice::new(seed);
    let mut report = SweepReport::default();
    let files: Vec<_> = disk.paths();
    let images: Vec<&Image> = files
        .iter()
        .filter_map(|(_, inode)| disk.file(*inode).map(|file| &*file.durable))
        .collect();
    for (index, damage) in damages(&mut dice, &images, plan) {
        let (path, inode) = &files[index];
        let Some(damaged) = apply(disk, older, *inode, damage) else { continue };
        report.cases += 1;
        let place = format!("{damage:?} in {}", path.display());
        let before = damaged.digest();
        let verdict = guarded(|| judge(engine, damaged, model, before, seed, plan));
        match verdict.map_err(|failure| failure.during(place))? {
            Verdict::Refused => report.refused += 1,
            Verdict::Found => report.found += 1,
            Verdict::Harmless => report.harmless += 1,
        }
    }
    Ok(report)
}

fn damages(dice: &mut Dice, images: &[&Image], plan: &SweepPlan) -> Vec<(usize, Damage)> {
    let mut list = Vec::new();
    for (index, image) in images.iter().enumerate() {
        let bits = plan.every_bit_of_first.min(image.len()) * 8;
        list.extend((0..bits).map(|bit| (index, Damage::Bit(bit))));
    }
    // Pages in use are hit much more often than holes: a bit set in a hole that nothing refers to
    // proves nothing.
    let used: Vec<(usize, u64)> = images
        .iter()
        .enumerate()
        .flat_map(|(index, image)| image.used_pages().into_iter().map(move |page| (index, page)))
        .collect();
    if used.is_empty() {
        return list;
    }
    let page = PAGE as u64;
    for _ in 0..plan.bits {
        let &(index, number) = dice.pick(&used);
        let within = dice.below(page.min(images[index].len() - number * page));
        list.push((index, Damage::Bit((number * page + within) * 8 + dice.below(8))));
    }
    for _ in 0..plan.zeroed {
        let &(index, number) = dice.pick(&used);
        let sector = dice.below(8) * 512;
        let (at, bytes) = if dice.chance(1, 2) { (0, page) } else { (sector, 512) };
        list.push((index, Damage::Zero(number * page + at, bytes)));
    }
    for _ in 0..plan.swapped {
        let (&(index, a), &(other, b)) = (dice.pick(&used), dice.pick(&used));
        if index == other && a != b {
            let swap = dice.chance(1, 2);
            list.push((index, if swap { Damage::Swap(a, b) } else { Damage::Copy(a, b) }));
        }
    }
    for _ in 0..plan.stale {
        let &(index, number) = dice.pick(&used);
        list.push((index, Damage::Stale(number)));
    }
    for _ in 0..plan.cut {
        let index = dice.below(images.len() as u64) as usize;
        list.push((index, Damage::Cut(dice.below(images[index].len().max(1)))));
    }
    list
}

/// The disk with the damage; `None` if that changes nothing.
fn apply(disk: &DiskState, older: &DiskState, inode: Inode, damage: Damage) -> Option<DiskState> {
    let mut image = (*disk.file(inode)?.durable).clone();
    let digest = image.digest();
    let page = PAGE as u64;
    let read = |image: &Image, number: u64| {
        let mut bytes = vec![0; PAGE];
        image.read(number * page, &mut bytes);
        bytes
    };
    match damage {
        Damage::Bit(bit) => {
            let mut byte = [0];
            image.read(bit / 8, &mut byte);
            image.write(bit / 8, &[byte[0] ^ 1 << (bit % 8)]);
        }
        Damage::Zero(at, bytes) => image.write(at, &vec![0; bytes as usize]),
        Damage::Swap(a, b) => {
            let (first, second) = (read(&image, a), read(&image, b));
            image.write(a * page, &second);
            image.write(b * page, &first);
        }
        Damage::Copy(from, to) => {
            let bytes = read(&image, from);
            image.write(to * page, &bytes);
        }
        Damage::Stale(number) => {
            let bytes = read(&older.file(inode)?.durable, number);
            image.write(number * page, &bytes);
        }
        Damage::Cut(len) => image.set_len(len),
    }
    if image.digest() == digest {
        return None;
    }
    let mut damaged = disk.clone();
    damaged.replace_content(inode, image);
    Some(damaged)
}

enum Verdict {
    Refused,
    Found,
    Harmless,
}

fn judge<E: Engine>(
    engine: &E,
    damaged: DiskState,
    model: &Model,
    before: u64,
    seed: u64,
    plan: &SweepPlan,
) -> Result<Verdict, Failure> {
    let vfs = SimVfs::start(damaged);
    let Ok(mut store) = Opened::open(engine, &vfs.env(seed)) else {
        let untouched = !plan.untouched || vfs.disk().digest() == before;
        return match untouched {
            true => Ok(Verdict::Refused),
            false => crate::drive::fail("P21: a failed open changed the files"),
        };
    };
    let step = model.step();
    if let Ok(found) = store.read_everything() {
        find_step(model, &found, step, step)
            .map_err(|failure| failure.during("wrong rows from a damaged store"))?;
    } else {
        return Ok(Verdict::Found);
    }
    Ok(if store.check().is_err() { Verdict::Found } else { Verdict::Harmless })
}
