//! All states in which a power failure can leave a disk (docs/safety.md §4.2), listed
//! systematically.
//!
//! For n pending changes: nothing; everything; every prefix; all but one; only one; each write torn
//! at 4 KiB boundaries and at random 512-byte sectors, after the prefix before it; sizes and names
//! without data (zeros, or old garbage from elsewhere on the disk); then seeded random subsets with
//! random tears. The killed process (page cache survives) is one more state, with stricter
//! requirements.
//!
//! States repeat from point to point; the caller recognizes a disk by its digest and need not open
//! it twice.

use super::{
    image::{Image, PAGE, SECTOR},
    state::{Change, DiskState},
};
use crate::Dice;

/// How many states to list.
#[derive(Clone, Copy, Debug)]
pub struct CrashOptions {
    /// Seed of the random states.
    pub seed: u64,
    /// Number of places at which each write is torn: 4 KiB boundaries, and as many random sectors.
    pub tears_per_write: usize,
    /// Number of random subsets.
    pub random_subsets: usize,
    /// Maximum number of states of each systematic class (prefixes, all but one, only one), spread
    /// by the seed; the newest change is always among them.
    pub class_states_max: usize,
}

impl Default for CrashOptions {
    fn default() -> Self {
        Self { seed: 1, tears_per_write: 4, random_subsets: 4, class_states_max: 24 }
    }
}

impl CrashOptions {
    /// Nothing systematic: only this many random subsets, last in the list.
    pub fn random(subsets: usize) -> Self {
        Self { seed: 1, tears_per_write: 0, random_subsets: subsets, class_states_max: 0 }
    }

    /// A short list: for crashes during recovery, where there are many points.
    pub fn short() -> Self {
        Self { seed: 1, tears_per_write: 1, random_subsets: 1, class_states_max: 3 }
    }

    /// Options with the same classes and other random choices.
    pub fn with_seed(self, seed: u64) -> Self {
        Self { seed: self.seed ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15), ..self }
    }
}

/// One disk that a crash can leave.
#[derive(Debug)]
pub struct CrashState {
    /// The disk, as it is when the machine starts again.
    pub disk: DiskState,
    /// How it came about, in words.
    pub what: String,
    /// Whether the process was killed and the page cache survived; otherwise it was a power
    /// failure.
    pub kill: bool,
}

#[derive(Clone, Copy, Debug)]
enum Fate {
    Lost,
    Whole,
    /// The first bytes, this many.
    Head(u64),
    /// All bytes from this one on.
    Tail(u64),
    /// Each sector or not, at random.
    Sectors(u64),
    /// The file has the new length, and zeros where the bytes should be.
    SizeOnly,
    /// The file has the new length, and old bytes from elsewhere.
    Garbage(u64),
}

/// Lists the states that a crash can leave here. Equal disks are not removed.
pub fn crash_states(disk: &DiskState, options: &CrashOptions) -> Vec<CrashState> {
    let pending = disk.pending();
    let count = pending.len();
    let mut dice = Dice::new(options.seed);
    let mut states = Vec::new();
    states.push(CrashState { disk: disk.after_kill(), what: "killed".into(), kill: true });
    let mut add = |what: String, fates: &dyn Fn(usize) -> Fate| {
        states.push(CrashState { disk: leave(disk, fates), what, kill: false });
    };
    add("nothing pending survives".into(), &|_| Fate::Lost);
    if count == 0 {
        return states;
    }
    add("everything pending survives".into(), &|_| Fate::Whole);
    for keep in spread(&mut dice, count, options.class_states_max) {
        add(format!("the first {keep} of {count}"), &|i| whole_if(i < keep));
    }
    for lost in spread(&mut dice, count, options.class_states_max) {
        add(format!("all of {count} but change {lost}"), &|i| whole_if(i != lost));
    }
    for kept in spread(&mut dice, count, options.class_states_max) {
        add(format!("only change {kept} of {count}"), &|i| whole_if(i == kept));
    }
    for torn in spread(&mut dice, count, options.class_states_max) {
        for fate in tears(&mut dice, &pending[torn], options.tears_per_write) {
            add(format!("changes before {torn}, and of it {fate:?}"), &|i| {
                if i == torn { fate } else { whole_if(i < torn) }
            });
        }
    }
    let seed = dice.bits();
    add("names and sizes without data".into(), &|_| Fate::SizeOnly);
    add("names and sizes with old bytes".into(), &|i| Fate::Garbage(seed ^ i as u64));
    for _ in 0..options.random_subsets {
        let seed = dice.bits();
        let likely = dice.between(1, 7);
        add(format!("subset by seed {seed}, {likely}/8 likely"), &|i| {
            random_fate(&mut Dice::new(seed.wrapping_add(i as u64)), likely)
        });
    }
    states
}

fn whole_if(survives: bool) -> Fate {
    if survives { Fate::Whole } else { Fate::Lost }
}

fn random_fate(dice: &mut Dice, likely: u64) -> Fate {
    match (dice.chance(likely, 8), dice.below(8)) {
        (true, 0) => Fate::Sectors(dice.bits()),
        (true, _) => Fate::Whole,
        (false, 0) => Fate::SizeOnly,
        (false, 1) => Fate::Garbage(dice.bits()),
        (false, _) => Fate::Lost,
    }
}

/// At most `max` of 0..count, including the last.
fn spread(dice: &mut Dice, count: usize, max: usize) -> Vec<usize> {
    if count <= max || max == 0 {
        return (0..count.min(max)).collect();
    }
    let mut chosen: Vec<usize> =
        (1..max).map(|_| dice.below(count as u64) as usize).chain([count - 1]).collect();
    chosen.sort_unstable();
    chosen.dedup();
    chosen
}

fn tears(dice: &mut Dice, change: &Change, count: usize) -> Vec<Fate> {
    let Change::Write { offset, data, .. } = change else { return Vec::new() };
    let bytes = data.len() as u64;
    let mut fates = Vec::new();
    let pages: Vec<u64> = bounds(*offset, bytes, PAGE as u64).collect();
    for index in spread(dice, pages.len(), count) {
        fates.extend([Fate::Head(pages[index]), Fate::Tail(pages[index])]);
    }
    let sectors: Vec<u64> = bounds(*offset, bytes, SECTOR as u64).collect();
    for _ in 0..count.min(sectors.len()) {
        let at = *dice.pick(&sectors);
        fates.push(if dice.chance(1, 2) { Fate::Head(at) } else { Fate::Tail(at) });
    }
    if !sectors.is_empty() {
        fates.push(Fate::Sectors(dice.bits()));
    }
    fates
}

/// Distances from the start of a write to the boundaries of this size inside it.
fn bounds(offset: u64, bytes: u64, size: u64) -> impl Iterator<Item = u64> {
    let first = (offset / size + 1) * size;
    (first..offset + bytes).step_by(size as usize).map(move |bound| bound - offset)
}

fn leave(disk: &DiskState, fates: &dyn Fn(usize) -> Fate) -> DiskState {
    disk.after_power_loss(|index, change, surviving| {
        let fate = fates(index);
        let Change::Write { file, offset, data } = change else {
            // Names and sizes are one journal record each: there or not.
            if !matches!(fate, Fate::Lost) {
                surviving.whole(change);
            }
            return;
        };
        match fate {
            Fate::Lost => {}
            Fate::Whole => surviving.whole(change),
            Fate::Head(bytes) => {
                with(surviving, *file, |image| image.write(*offset, &data[..bytes as usize]));
            }
            Fate::Tail(bytes) => with(surviving, *file, |image| {
                image.write(offset + bytes, &data[bytes as usize..]);
            }),
            Fate::Sectors(seed) => with(surviving, *file, |image| {
                let mut dice = Dice::new(seed);
                let cuts = bounds(*offset, data.len() as u64, SECTOR as u64);
                let mut from = 0;
                for to in cuts.chain([data.len() as u64]) {
                    if dice.chance(1, 2) {
                        image.write(offset + from, &data[from as usize..to as usize]);
                    }
                    from = to;
                }
            }),
            Fate::SizeOnly => with(surviving, *file, |image| {
                image.set_len(image.len().max(offset + data.len() as u64));
            }),
            Fate::Garbage(seed) => {
                let garbage = old_bytes(disk, seed);
                with(surviving, *file, |image| {
                    let (old_end, new_end) = (image.len(), offset + data.len() as u64);
                    image.set_len(old_end.max(new_end));
                    if new_end > old_end {
                        let from = old_end.max(*offset);
                        let fill: Vec<u8> = garbage
                            .iter()
                            .copied()
                            .cycle()
                            .take((new_end - from) as usize)
                            .collect();
                        image.write(from, &fill);
                    }
                });
            }
        }
    })
}

fn with(
    surviving: &mut super::state::Surviving<'_>,
    file: super::Inode,
    change: impl FnOnce(&mut Image),
) {
    if let Some(image) = surviving.image(file) {
        change(image);
    }
}

/// A page that some file held, also a removed one: what a block of the device may still hold when
/// it is given to another file.
fn old_bytes(disk: &DiskState, seed: u64) -> Vec<u8> {
    let mut dice = Dice::new(seed);
    let files: Vec<_> = disk.all_files().collect();
    let mut page = vec![0xa5; PAGE];
    if files.is_empty() {
        return page;
    }
    let file = dice.pick(&files);
    let image = if dice.chance(1, 2) { &file.older } else { &file.seen };
    let pages = image.used_pages();
    if !pages.is_empty() {
        image.read(dice.pick(&pages) * PAGE as u64, &mut page);
    }
    page
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, path::Path};

    use frond::internals::io::{OpenMode, Vfs};

    use super::{super::SimVfs, *};

    fn digests(vfs: &SimVfs) -> BTreeSet<u64> {
        let options = CrashOptions { tears_per_write: 8, ..CrashOptions::default() };
        crash_states(&vfs.disk(), &options).iter().map(|state| state.disk.digest()).collect()
    }

    fn contents(vfs: &SimVfs, path: &str) -> BTreeSet<Option<Vec<u8>>> {
        crash_states(&vfs.disk(), &CrashOptions::default())
            .iter()
            .filter(|state| !state.kill)
            .map(|state| {
                let inode = state.disk.find(Path::new(path))?;
                state.disk.file(inode).map(|file| file.durable.to_vec())
            })
            .collect()
    }

    fn create(vfs: &SimVfs, path: &str) -> std::sync::Arc<dyn frond::internals::io::File> {
        let mode = OpenMode { write: true, create_new: true, direct: false };
        vfs.open(Path::new(path), mode).unwrap()
    }

    #[test]
    fn a_synced_file_in_an_unsynced_directory_may_vanish() {
        let vfs = SimVfs::new();
        let file = create(&vfs, "/a");
        file.write_at(b"x", 0).unwrap();
        file.sync_data().unwrap();
        assert!(contents(&vfs, "/a").contains(&None));
        vfs.sync_dir(Path::new("/")).unwrap();
        assert_eq!(contents(&vfs, "/a"), BTreeSet::from([Some(b"x".to_vec())]));
    }

    #[test]
    fn unsynced_writes_survive_in_any_combination() {
        let vfs = SimVfs::new();
        let file = create(&vfs, "/a");
        file.write_at(b"..", 0).unwrap();
        file.sync_all().unwrap();
        vfs.sync_dir(Path::new("/")).unwrap();
        file.write_at(b"x", 0).unwrap();
        file.write_at(b"y", 1).unwrap();
        let found = contents(&vfs, "/a");
        for expected in [b"..", b"x.", b".y", b"xy"] {
            assert!(found.contains(&Some(expected.to_vec())), "{found:?}");
        }
        file.sync_data().unwrap();
        assert_eq!(contents(&vfs, "/a"), BTreeSet::from([Some(b"xy".to_vec())]));
    }

    #[test]
    fn a_large_write_tears_at_sectors_and_a_rename_is_whole() {
        let vfs = SimVfs::new();
        let file = create(&vfs, "/a");
        file.write_at(&vec![1; 16_384], 0).unwrap();
        file.sync_all().unwrap();
        vfs.sync_dir(Path::new("/")).unwrap();
        file.write_at(&vec![2; 16_384], 0).unwrap();
        assert!(digests(&vfs).len() > 8);
        file.sync_all().unwrap();
        vfs.rename(Path::new("/a"), Path::new("/b")).unwrap();
        assert_eq!(digests(&vfs).len(), 2);
    }

    #[test]
    fn metadata_can_be_durable_without_its_data() {
        let vfs = SimVfs::new();
        let file = create(&vfs, "/a");
        vfs.sync_dir(Path::new("/")).unwrap();
        file.write_at(&[7; 1000], 0).unwrap();
        assert!(contents(&vfs, "/a").contains(&Some(vec![0; 1000])));
    }
}
