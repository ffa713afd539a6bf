//! Tests in which the n-th write, sync or allocation fails: published versions stay, and nothing
//! more is written.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use super::basics::{L, dir, env, one_tree, publish};
use crate::{
    error::{Error, Result},
    io::{Access, Env, File, HookedFile, HookedVfs, OpenMode, Vfs},
    store::*,
    sync::{Arc, AtomicBool, AtomicU64, Mutex, Ordering, thread},
    types::{Lsn, Seqno, VersionNumber},
};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    /// Writes and syncs fail with an I/O error, from the n-th one on or only that one.
    Io { sticky: bool },
    /// Allocations find the disk full.
    Full,
}

#[derive(Debug)]
struct FaultyVfs {
    below: Arc<dyn Vfs>,
    plan: Arc<Plan>,
}

#[derive(Debug)]
struct Plan {
    fault: Fault,
    /// Calls until the fault.
    left: AtomicU64,
    /// Calls that changed the file after the fault.
    after: AtomicU64,
}

impl Plan {
    fn is_hit(&self) -> bool {
        let before = self.left.load(Ordering::Relaxed);
        if before > 0 {
            self.left.store(before - 1, Ordering::Relaxed);
        }
        before == 1 || (before == 0 && self.fault != Fault::Io { sticky: false })
    }

    fn before(&self, access: &Access) -> io::Result<()> {
        match access {
            Access::Read(_) => Ok(()),
            Access::Allocate if self.fault == Fault::Full && self.is_hit() => {
                Err(io::ErrorKind::StorageFull.into())
            }
            _ => self.io(),
        }
    }

    fn io(&self) -> io::Result<()> {
        if !matches!(self.fault, Fault::Io { .. }) {
            return Ok(());
        }
        if self.left.load(Ordering::Relaxed) == 0 {
            self.after.fetch_add(1, Ordering::Relaxed);
        }
        if self.is_hit() { Err(io::Error::from_raw_os_error(5)) } else { Ok(()) }
    }
}

impl Vfs for FaultyVfs {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let (below, plan) = (self.below.open(path, mode)?, self.plan.clone());
        Ok(Arc::new(HookedFile::new(below, move |access| plan.before(&access))))
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.below.exists(path)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        self.below.list(dir)
    }
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.below.create_dir(dir)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.below.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.below.remove(path)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.plan.io()?;
        self.below.sync_dir(dir)
    }
    fn free_bytes(&self, _dir: &Path) -> io::Result<u64> {
        let full = self.plan.fault == Fault::Full && self.plan.left.load(Ordering::Relaxed) == 0;
        Ok(if full { 0 } else { 1 << 40 })
    }
}

fn faulty(below: &Env, fault: Fault, left: u64) -> (Env, Arc<Plan>) {
    let plan = Arc::new(Plan { fault, left: AtomicU64::new(left), after: AtomicU64::new(0) });
    let vfs = FaultyVfs { below: below.vfs.clone(), plan: plan.clone() };
    (Env { vfs: Arc::new(vfs), ..below.clone() }, plan)
}

/// Opens and publishes five versions, each replacing the one page; returns the published roots.
fn work(
    env: &Env,
    published: &mut Vec<RootDirectory>,
    tried: &mut Vec<RootDirectory>,
) -> Result<()> {
    let store = open(env, dir(), StoreOptions::default())?.store;
    let (mut v, mut old) = (store.counts_from(), None);
    for round in 0..5u8 {
        v = v.next();
        let mut steps = || -> Result<Link> {
            let link = store.put_page(PageKind::Node, v, L, &[&[round; 9000]])?;
            if let Some(old) = old {
                store.die(&old, L, v)?;
            }
            tried.push(one_tree(link));
            store.publish(&checkpoint(v, &DirectoryChange::whole(&one_tree(link))))?;
            Ok(link)
        };
        match steps() {
            Ok(link) => {
                published.push(one_tree(link));
                old = Some(link);
                store.give_back(0)?;
            }
            Err(error) => {
                assert!(matches!(error, Error::Io { .. }), "the first failure says what: {error}");
                let again = store.put_page(PageKind::Node, v, L, &[b"x"]);
                assert!(matches!(again, Err(Error::Failed(_))), "{again:?}");
                assert!(matches!(store.sync(), Err(Error::Failed(_))));
                assert!(store.read_page(&one_root(published), PageKind::Node, "it").is_ok());
                return Err(error);
            }
        }
    }
    Ok(())
}

fn one_root(published: &[RootDirectory]) -> Link {
    *published.last().unwrap().links().next().unwrap()
}

fn checkpoint(publish: VersionNumber, roots: &DirectoryChange) -> Checkpoint<'_> {
    Checkpoint {
        publish,
        applied: Seqno(publish.0),
        log_from: Lsn(0),
        log_synced: Lsn(0),
        clean: None,
        roots,
    }
}

/// Promises: P11, P12. Rule: I10.
#[test]
pub(super) fn a_failed_write_stops_all_writes_and_the_last_version_opens() {
    for sticky in [true, false] {
        let mut passed = false;
        for n in 1..200 {
            let below = env();
            let opened = create(&below, dir(), StoreOptions::default()).unwrap();
            let v = opened.counts_from().next();
            let first = opened.store.put_page(PageKind::Node, v, L, &[b"first"]).unwrap();
            publish(&opened.store, v, &one_tree(first));
            drop(opened);
            let (env, plan) = faulty(&below, Fault::Io { sticky }, n);
            let (mut published, mut tried) = (vec![one_tree(first)], vec![]);
            let outcome = work(&env, &mut published, &mut tried);
            let after = plan.after.load(Ordering::Relaxed);
            assert_eq!(after, 0, "no call reaches a file after fault {n}");
            let opened = open(&below, dir(), StoreOptions::default()).unwrap();
            let last = [published.last(), tried.last()];
            assert!(last.contains(&Some(&opened.roots)), "fault {n}: {:?}", opened.roots);
            let root = *opened.roots.links().next().unwrap();
            opened.store.read_page(&root, PageKind::Node, "the root").unwrap();
            if outcome.is_ok() {
                passed = true;
                break;
            }
        }
        assert!(passed, "the work passes when the fault comes after its end");
    }
}

/// Promise: P12.
#[test]
pub(super) fn a_failed_write_is_reported_at_once() {
    let below = env();
    drop(create(&below, dir(), StoreOptions::default()).unwrap());
    let mut failures = 0;
    for n in 1..100 {
        let (env, _) = faulty(&below, Fault::Io { sticky: false }, n);
        let Ok(opened) = open(&env, dir(), StoreOptions::default()) else { continue };
        let reported = Arc::new(Mutex::new(None));
        let report = reported.clone();
        opened
            .store
            .on_failure(Box::new(move |why| *report.lock().unwrap() = Some(why.to_owned())));
        let v = opened.counts_from().next();
        let done = opened.store.put_page(PageKind::Node, v, L, &[b"page"]).is_ok();
        let reason = match opened.store.check_writable() {
            Err(Error::Failed(why)) => Some(why),
            _ => None,
        };
        assert_eq!(reason, *reported.lock().unwrap(), "fault {n}");
        failures += usize::from(reason.is_some());
        if done {
            break;
        }
    }
    assert!(failures > 0, "no fault came after the open");
}

/// A write that began before the store was released ends before another process can
/// own the store.
#[test]
fn a_release_waits_for_writes_in_progress() {
    let below = env();
    drop(create(&below, dir(), StoreOptions::default()).unwrap());
    let (begun, proceed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let is_slow = Arc::new(AtomicBool::new(false));
    let hook = {
        let (begun, proceed, is_slow) = (begun.clone(), proceed.clone(), is_slow.clone());
        move |access| {
            if is_slow.load(Ordering::SeqCst) && matches!(access, Access::Write(_)) {
                begun.store(true, Ordering::SeqCst);
                while !proceed.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
            }
            Ok(())
        }
    };
    let vfs = HookedVfs::new(below.vfs.clone())
        .on_open(move |file| Arc::new(HookedFile::new(file, hook.clone())));
    let env = Env { vfs: Arc::new(vfs), ..below.clone() };
    let opened = open(&env, dir(), StoreOptions::default()).unwrap();
    let v = opened.counts_from().next();
    is_slow.store(true, Ordering::SeqCst);
    std::thread::scope(|threads| {
        let store = &opened.store;
        let writing = threads.spawn(move || store.put_page(PageKind::Node, v, L, &[b"page"]));
        while !begun.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        let releasing = threads.spawn(|| store.release());
        // Long enough for a release that does not wait.
        std::thread::sleep(Duration::from_millis(50));
        let other = open(&below, dir(), StoreOptions::default());
        assert!(matches!(other, Err(Error::Locked { .. })), "while a write is in progress");
        proceed.store(true, Ordering::SeqCst);
        writing.join().unwrap().unwrap();
        releasing.join().unwrap().unwrap();
    });
    assert!(matches!(opened.store.check_writable(), Err(Error::Closed)));
    let late = opened.store.put_page(PageKind::Node, v, L, &[b"page"]);
    assert!(late.is_err(), "after the release");
    open(&below, dir(), StoreOptions::default()).unwrap();
}

/// Promise: P13. A full disk refuses allocations and checkpoints; the store continues once there is
/// space again, without reopening.
#[test]
pub(super) fn a_full_disk_does_not_stop_the_store_permanently() {
    for n in 1..20 {
        let below = env();
        drop(create(&below, dir(), StoreOptions::default()).unwrap());
        let (env, plan) = faulty(&below, Fault::Full, n);
        let store = open(&env, dir(), StoreOptions::default()).unwrap().store;
        let (mut v, mut links, mut refused) = (store.counts_from(), vec![], 0);
        let mut fill = |rounds: usize, refused: &mut usize| {
            for _ in 0..rounds {
                v = v.next();
                match store.put_page(PageKind::Node, v, L, &[&[7; 600 << 10]]) {
                    Ok(link) => links.push(link),
                    Err(Error::Full(_)) => *refused += 1,
                    Err(error) => panic!("{error}"),
                }
                let last = links.last().copied();
                let roots = last.map(one_tree).unwrap_or_default();
                match store.publish(&checkpoint(v, &DirectoryChange::whole(&roots))) {
                    Ok(_) => {}
                    Err(Error::Full(_)) => *refused += 1,
                    Err(error) => panic!("{error}"),
                }
            }
        };
        fill(12, &mut refused);
        assert!(refused > 0 || n > 8, "the disk was full");
        assert!(
            matches!(store.admit(1 << 20), Err(Error::Full(_)))
                || plan.left.load(Ordering::Relaxed) > 0
        );
        plan.left.store(u64::MAX, Ordering::Relaxed);
        store.admit(1 << 20).unwrap();
        store.release_admitted(1 << 20);
        let mut none = 0;
        fill(3, &mut none);
        assert_eq!(none, 0, "space is back");
        for link in &links {
            store.read_page(link, PageKind::Node, "a page").unwrap();
        }
        let stats = store.stats().space;
        drop(store);
        let reopened = open(&below, dir(), StoreOptions::default()).unwrap().store.stats().space;
        assert_eq!(reopened.live, stats.live, "nothing leaked through refused checkpoints");
    }
}

/// Rule: I24. With the disk full, background work uses the reserve.
#[test]
pub(super) fn checkpoints_use_the_reserve_on_a_full_disk() {
    let below = env();
    drop(create(&below, dir(), StoreOptions::default()).unwrap());
    let (env, plan) = faulty(&below, Fault::Full, u64::MAX);
    let store = open(&env, dir(), StoreOptions::default()).unwrap().store;
    let reserve = store.set_reserve(1 << 20).unwrap();
    assert_eq!(reserve.target, 4 << 20, "4 MiB and a sixteenth of nothing");
    plan.left.store(0, Ordering::Relaxed);
    store.set_reserve(1 << 20).unwrap(); // as after each checkpoint: asks the disk again
    assert!(matches!(store.admit(1 << 20), Err(Error::Full(_))), "commits do not touch it");
    let mut v = store.counts_from();
    let mut old: Option<Link> = None;
    for _ in 0..20 {
        v = v.next();
        let link = store.put_page(PageKind::Node, v, L, &[&[1; 100 << 10]]).unwrap();
        if let Some(old) = old.replace(link) {
            store.die(&old, L, v).unwrap();
        }
        publish(&store, v, &one_tree(link));
    }
}

/// Rule: I24. Small commits are admitted in advance, many at once: this credit is reserved for none
/// of them, does not keep a store from becoming idle, and is no reason to refuse a commit that
/// needs it.
#[test]
fn credit_admitted_in_advance_is_reclaimed() {
    let below = env();
    drop(create(&below, dir(), StoreOptions::default()).unwrap());
    let (env, plan) = faulty(&below, Fault::Full, u64::MAX);
    let store = open(&env, dir(), StoreOptions::default()).unwrap().store;
    store.set_reserve(1 << 20).unwrap();
    let admitted = || store.reserve_stats().admitted;
    // From several threads, so that several stripes have credit.
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..100).for_each(|_| store.admit(10).unwrap()));
        }
    });
    assert_eq!(admitted(), 8 * 100 * 20);
    store.release_admitted(8 * 100 * 10);
    assert_eq!(admitted(), 0);
    store.go_idle().unwrap();
    assert!(store.reserve_stats().backed_free < 2 << 20, "nothing is under way");

    // What is free beyond the reserve goes to the first request, to the last byte, however much
    // credit others have.
    let was_ahead = store.admit(10).is_ok();
    plan.left.store(0, Ordering::Relaxed);
    store.set_reserve(1 << 20).unwrap();
    let ReserveStats { target, admitted: promised, backed_free, disk_free } = store.reserve_stats();
    let left = (backed_free + disk_free - target - promised) / 2;
    assert!(was_ahead && left > 0, "{:?}", store.reserve_stats());
    thread::scope(|scope| {
        scope.spawn(|| store.admit(left).unwrap());
    });
    assert!(matches!(store.admit(1), Err(Error::Full(_))), "{:?}", store.reserve_stats());
}

/// Rule: I24. An idle store keeps little of the reserve backed; all of it is backed again before
/// the next commit is admitted.
#[test]
pub(super) fn the_reserve_of_an_idle_store_is_small() {
    let below = env();
    drop(create(&below, dir(), StoreOptions::default()).unwrap());
    let (env, plan) = faulty(&below, Fault::Full, u64::MAX);
    let store = open(&env, dir(), StoreOptions::default()).unwrap().store;
    store.set_reserve(1 << 20).unwrap();
    store.admit(1 << 20).unwrap();
    store.go_idle().unwrap();
    assert!(store.reserve_stats().backed_free >= 4 << 20, "a commit is under way");
    store.release_admitted(1 << 20);
    store.go_idle().unwrap();
    let idle = store.reserve_stats();
    assert!((1 << 20..2 << 20).contains(&idle.backed_free), "{idle:?}");
    assert_eq!(idle.target, 4 << 20, "commits keep as much free as ever");
    store.admit(1).unwrap();
    assert!(store.reserve_stats().backed_free >= 4 << 20, "{:?}", store.reserve_stats());
    store.release_admitted(1);
    // The disk was filled meanwhile.
    store.go_idle().unwrap();
    plan.left.store(0, Ordering::Relaxed);
    assert!(matches!(store.admit(1), Err(Error::Full(_))));
    let v = store.counts_from().next();
    let link = store.put_page(PageKind::Node, v, L, &[&[1; 100 << 10]]).unwrap();
    publish(&store, v, &one_tree(link));
}

/// Free regions are only partly backed: allocations during and after the punching of the other
/// parts find whole regions.
#[test]
pub(super) fn allocations_continue_while_free_space_is_punched() {
    let env = env();
    let store = create(&env, dir(), StoreOptions::default()).unwrap().store;
    let mut v = store.counts_from().next();
    let links: Vec<Link> = (0..12)
        .map(|_| store.put_page(PageKind::Node, v, L, &[&[3; 900 << 10]]).unwrap())
        .collect();
    publish(&store, v, &one_tree(links[11]));
    for link in &links[..11] {
        store.die(link, L, v.next()).unwrap();
    }
    for _ in 0..5 {
        v = v.next();
        publish(&store, v, &one_tree(links[11]));
    }
    let mut space = store.space().lock();
    let open = space.alloc.ranges_by_class().filter(|(class, ..)| class.is_none());
    let open: Vec<(u64, u64)> = open.map(|(_, start, end)| (start, end)).collect();
    assert!(open.iter().any(|(start, end)| end - start >= 4 << 20), "{open:?}");
    for (start, end) in open {
        for region in (start..end).step_by(1 << 20) {
            space.backed.remove(region + (300 << 10), region + (700 << 10));
        }
    }
    let held = space.hold_free(u64::MAX, 64 << 10);
    assert!(!held.is_empty());
    let request =
        |bytes| Request { class: Class::Node, kind: PageKind::Node, bytes, birth: v, lineage: L };
    let allocate = |space: &mut crate::store::space::Inner, bytes: u32| {
        space.allocate(&request(bytes.into()), bytes, true)
    };
    for bytes in [100 << 10, 300 << 10, 1 << 20, 4 << 10] {
        allocate(&mut space, bytes);
    }
    space.put_back(held);
    for bytes in [100 << 10, 300 << 10, 1 << 20, 4 << 10].repeat(4) {
        allocate(&mut space, bytes);
    }
}

/// The reserve is a fraction of the live bytes and may end within a page. What is taken out of the
/// allocator for punching does not: extents that are allocated meanwhile start where it ends.
#[test]
pub(super) fn free_space_is_taken_for_punching_in_whole_pages() {
    let env = env();
    let store = create(&env, dir(), StoreOptions::default()).unwrap().store;
    let v = store.counts_from().next();
    let links: Vec<Link> =
        (0..8).map(|_| store.put_page(PageKind::Node, v, L, &[&[3; 200 << 10]]).unwrap()).collect();
    for link in links.iter().step_by(2) {
        store.space().lock().undo_allocation(link.offset);
    }
    let mut space = store.space().lock();
    let free: Vec<(u64, u64)> = space
        .alloc
        .ranges_by_class()
        .filter(|(class, ..)| *class == Some(Class::Node))
        .map(|(_, start, end)| (start, end))
        .collect();
    assert!(free.len() > 2, "{free:?}");
    space.backed.remove(0, u64::MAX);
    for &(start, end) in &free {
        space.backed.insert(start, (start + (100 << 10) + 256).min(end));
    }
    let held = space.hold_free(u64::MAX, 4 << 10);
    assert!(held.len() > 2, "each range is held by what is backed of it");
    let bytes = 4 << 10;
    let request = Request { class: Class::Node, kind: PageKind::Node, bytes, birth: v, lineage: L };
    for _ in 0..10 {
        let extent = space.allocate(&request, bytes as u32, true);
        assert!(extent.offset.is_multiple_of(4 << 10), "{extent:?}");
    }
    space.put_back(held);
}

#[test]
pub(super) fn released_space_shrinks_the_file() {
    let env = env();
    let store = create(&env, dir(), StoreOptions::default()).unwrap().store;
    let mut v = store.counts_from().next();
    let links: Vec<Link> = (0..40)
        .map(|_| store.put_page(PageKind::Node, v, L, &[&[3; 900 << 10]]).unwrap())
        .collect();
    publish(&store, v, &one_tree(links[0]));
    let full = store.stats().file_bytes;
    for link in &links[1..] {
        store.die(link, L, v.next()).unwrap();
    }
    // Two until the slots have released the pages, during which their own pages lie at the end;
    // then three until neither slot lists those any more, alive or pending.
    for _ in 0..5 {
        v = v.next();
        publish(&store, v, &one_tree(links[0]));
        store.give_back(0).unwrap();
    }
    let (after, last) = (store.stats(), links[39]);
    assert!(full >= 36 << 20 && after.file_bytes < 3 << 20, "{full} then {after:?}");
    assert!(store.read_page(&last, PageKind::Node, "gone").is_err());
    assert_eq!(store.reserve_stats().backed_free / (1 << 20), 0, "large holes are punched");
}
