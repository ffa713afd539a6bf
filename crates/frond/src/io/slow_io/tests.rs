//! The watch, with a clock that the test sets and a disk that waits until it is released.

use super::{
    super::{Access, HookedFile, MemoryVfs},
    *,
};
use crate::sync::{Condvar, thread};

#[derive(Debug, Default)]
struct Hands(AtomicU64);

impl Hands {
    fn turn(&self, seconds: u64) {
        self.0.fetch_add(seconds, Ordering::Relaxed);
    }
}

impl Clock for Hands {
    fn now(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::Relaxed))
    }

    fn wall(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep(&self, _: Duration) {}
}

/// Whether writes must wait, and how many do.
#[derive(Debug, Default)]
struct Gate {
    state: Mutex<(bool, usize)>,
    changed: Condvar,
}

impl Gate {
    /// Waits while writes must.
    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.1 += 1;
        self.changed.notify_all();
        while state.0 {
            state = self.changed.wait(state).unwrap();
        }
        state.1 -= 1;
    }
}

/// Promise: P14. Invariants 1 and 2.
#[test]
fn slow_operations_are_reported_and_counted_once() {
    let (hands, gate) = (Arc::new(Hands::default()), Arc::new(Gate::default()));
    hands.turn(1);
    let watch = Watch::new(hands.clone());
    let path = Path::new("/f");
    let mode = OpenMode { write: true, create_new: true, direct: false };
    let file = MemoryVfs::default().open(path, mode).unwrap();
    let alive = Arc::new(());
    let number = watch.number(path, &alive);
    let at_gate = gate.clone();
    let waiting = HookedFile::new(file, move |access| {
        if matches!(access, Access::Write(_)) {
            at_gate.pass();
        }
        Ok(())
    });
    let file = Arc::new(WatchedFile {
        file: Arc::new(waiting),
        number,
        watch: watch.clone(),
        _alive: alive,
    });
    file.write_at(b"quick", 0).unwrap();
    gate.state.lock().unwrap().0 = true;
    let threads: Vec<_> = (0..3)
        .map(|n| {
            let file = file.clone();
            thread::spawn(move || file.write_at(b"slow", 100 * n).unwrap())
        })
        .collect();
    let mut state = gate.state.lock().unwrap();
    while state.1 < 3 {
        state = gate.changed.wait(state).unwrap();
    }
    drop(state);
    hands.turn(9);
    assert_eq!(watch.look(), []);
    hands.turn(2);
    for _ in 0..2 {
        let mut found = watch.look();
        found.sort_by_key(|slow| slow.offset);
        let offsets: Vec<_> = found.iter().map(|slow| slow.offset).collect();
        assert_eq!(offsets, [0, 100, 200]);
        let expected = SlowOperation {
            file: path.into(),
            operation: Operation::Write,
            offset: 0,
            lasts: Duration::from_secs(11),
        };
        assert_eq!(found[0], expected);
        assert_eq!(found[1].to_string(), "write of /f at 100 lasts for 11 s");
        assert_eq!(watch.slow(), 3);
    }
    gate.state.lock().unwrap().0 = false;
    gate.changed.notify_all();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!((watch.look(), watch.slow()), (vec![], 3));
    // An operation that was not seen is counted at its end.
    watch.over(number, Operation::Sync, 0, || hands.turn(60));
    assert_eq!((watch.look(), watch.slow()), (vec![], 4));
    // More operations than slots: the others run unwatched, and later ones are watched again.
    fn deep(watch: &Watch, left: usize) -> usize {
        match left {
            0 => watch.look().len(),
            _ => watch.over(0, Operation::Read, 0, || deep(watch, left - 1)),
        }
    }
    assert_eq!(deep(&watch, SLOTS + 10), 0);
    assert!(watch.slots.iter().all(|slot| slot.began.load(Ordering::Relaxed) == 0));
}

#[test]
fn numbers_of_closed_files_are_reused() {
    let vfs = WatchedVfs::new(Arc::new(MemoryVfs::default()), Arc::new(Hands::default()));
    let mode = OpenMode { write: true, create_new: true, direct: false };
    for n in 0..100 {
        let path = format!("/{n}");
        vfs.open(Path::new(&path), mode).unwrap();
        vfs.sync_dir(Path::new("/")).unwrap();
    }
    assert_eq!(vfs.watch().files.lock().unwrap().len(), 1);
}
