//! Reading ahead of a long walk: the store's reader threads bring the pieces that come next into the block
//! cache, while the walk is busy with the rows before them. A device and a second core then work for a walk
//! that alone would wait for the one and keep a single one busy.
//!
//! A walk that has read several pieces has up to [`FLIGHTS_MAX`] of them under way, over the end of its leaf too, and the leaf
//! behind that is opened meanwhile.
//! It meets a flight where it needs a block that is not in the cache yet: it waits if the flight has taken
//! off, and else reads the block itself.
//!
//! Invariants
//! 1. Flights are hints: what they read comes into the cache checked, as for any reader, and what they fail
//!    at is told to whoever comes to read it.
//! 2. A flight holds the version that its walk reads, and only from take-off to landing.
//! 3. Nobody waits for a flight that no thread has taken.
//!
//! Threads: the walk's own, and those of the readers, which share [`Flights`].

use std::collections::VecDeque;

use crate::{
    Result, TreeId,
    block::Chunks,
    page::Link,
    pipeline::{Engine, PieceMemory},
    run::{AheadOfCursor, BULK_BYTES, PinnedBlock, Run},
    sync::{Arc, Condvar, Mutex, MutexGuard, Ordering, Weak, thread},
    tree::{Position, RunHandle, TreeContext},
    version::Version,
};

/// Pieces that are under way or not yet walked over, the one that is being walked over included.
const FLIGHTS_MAX: usize = 8;
/// What a piece may be long once decoded, with what its codecs give.
const PIECE_BYTES_MAX: usize = 1 << 20;

/// The leaf that a walk up is in.
#[derive(Clone, Debug)]
pub(super) struct WalkedLeaf {
    pub run: Arc<RunHandle>,
    /// End of its range.
    pub hi: Option<Box<[u8]>>,
}

/// What is ahead of one walk up.
#[derive(Debug)]
pub(super) struct Ahead {
    flights: Arc<Flights>,
    /// First key that the walk does not want.
    to: Option<Vec<u8>>,
    /// Number of the leaf that the walk is in, and where it lies.
    number: u64,
    at: Option<Link>,
    front: Option<Front>,
    /// What the front was made of, and the flights.
    version: Weak<Version>,
}

/// What the next flight is for.
#[derive(Debug)]
struct Front {
    number: u64,
    leaf: WalkedLeaf,
    block: usize,
    /// Of a leaf that was not open; where that flight ends is where the next begins.
    opening: Option<Arc<Flight>>,
    successor: Successor,
}

/// The leaf behind that of the front. It is opened while the front goes over its own: pieces are known only of a leaf that is
/// open, and each leaf would begin with one flight alone.
#[derive(Debug)]
enum Successor {
    Unknown,
    /// There is none that the walk wants, or none that lies on disk.
    None,
    Leaf(WalkedLeaf),
}

/// The pieces under way, in the order of their keys.
#[derive(Debug)]
pub(super) struct Flights {
    cx: Arc<TreeContext>,
    pieces: Mutex<VecDeque<Arc<Flight>>>,
}

/// A block, its number, and what its codecs gave.
type Brought = (usize, PinnedBlock, Chunks);

/// A piece of a leaf on its way into the cache.
#[derive(Debug)]
struct Flight {
    /// Of the leaf.
    number: u64,
    run: Arc<RunHandle>,
    start: usize,
    /// Memory that it takes.
    bytes: u64,
    state: Mutex<State>,
    /// A block was brought, or the flight has landed.
    arrived: Condvar,
}

#[derive(Debug)]
struct State {
    /// First block that it does not bring; unknown until the leaf is open.
    end: Option<usize>,
    stage: Stage,
    /// What it has brought and the walk has not come for.
    brought: VecDeque<Brought>,
    memory: Option<PieceMemory>,
    panicked: bool,
    /// What a reader is to hold.
    version: Weak<Version>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Waiting,
    Flying,
    Landed,
}

impl Ahead {
    pub fn new(cx: &Arc<TreeContext>, to: Option<Vec<u8>>) -> Self {
        let flights = Flights { cx: cx.clone(), pieces: Mutex::default() };
        Self {
            flights: Arc::new(flights),
            to,
            number: 0,
            at: None,
            front: None,
            version: Weak::new(),
        }
    }

    /// For the walk's cursors to meet.
    pub fn flights(&self) -> Arc<dyn AheadOfCursor> {
        self.flights.clone()
    }

    /// The walk stands in this block of this leaf of a version: sends out what is due.
    pub fn send(
        &mut self,
        engine: &Engine,
        (version, tree): (&Arc<Version>, TreeId),
        leaf: &WalkedLeaf,
        block: usize,
    ) {
        if !std::ptr::eq(self.version.as_ptr(), Arc::as_ptr(version)) {
            // Leaves of another version are not this one's.
            self.version = Arc::downgrade(version);
            self.front = None;
        }
        self.arrive(leaf, block);
        while self.flights.lock().len() < FLIGHTS_MAX {
            // A page that cannot be read is for the walk to meet (Invariant 1).
            let Ok(Some(flight)) = self.next(engine, (version, tree)) else { break };
            self.flights.lock().push_back(flight.clone());
            if flight.is_landed() {
                continue;
            }
            let Some(memory) = engine.readers.memory(flight.bytes) else {
                flight.cancel();
                break;
            };
            flight.lock().memory = Some(memory);
            let cx = self.flights.cx.clone();
            engine.readers.spawn(Box::new(move || flight.fly(&cx)));
        }
    }

    /// Forgets what the walk has gone over.
    fn arrive(&mut self, leaf: &WalkedLeaf, block: usize) {
        let link = leaf.run.link().copied();
        let mut pieces = self.flights.lock();
        if link != self.at {
            let sent = pieces.iter().find(|flight| flight.run.link() == link.as_ref());
            let front = self.front.as_ref().filter(|front| front.leaf.run.link() == link.as_ref());
            let number = sent.map(|flight| flight.number).or(front.map(|front| front.number));
            if number.is_none() {
                // The walk went somewhere else.
                self.front = None;
            }
            (self.number, self.at) = (number.unwrap_or(self.number + 1), link);
        }
        let here = self.number;
        match &mut self.front {
            Some(front) => {
                if let Some(end) = front.opening.as_ref().and_then(|opening| opening.end()) {
                    (front.block, front.opening) = (end, None);
                }
                if front.number == here && front.opening.is_none() {
                    front.block = front.block.max(block + 1);
                }
            }
            None => {
                pieces.drain(..).for_each(|flight| flight.cancel());
                let leaf = leaf.clone();
                let (block, opening) = (block + 1, None);
                let successor = Successor::Unknown;
                self.front = Some(Front { number: here, leaf, block, opening, successor });
            }
        }
        pieces.retain(|flight| {
            let is_behind = flight.number < here || flight.number == here && flight.ends_by(block);
            if is_behind {
                flight.cancel();
            }
            !is_behind
        });
    }

    /// The next piece; `None` if there is none, or it is not known yet.
    fn next(
        &mut self,
        engine: &Engine,
        (version, tree): (&Arc<Version>, TreeId),
    ) -> Result<Option<Arc<Flight>>> {
        loop {
            let to = self.to.as_deref();
            let Some(front) = &mut self.front else { return Ok(None) };
            front.find_successor(engine, (version, tree), to)?;
            if front.opening.is_some() {
                return Ok(None);
            }
            let flight = |end, stage, bytes| {
                let (run, version) = (front.leaf.run.clone(), Arc::downgrade(version));
                let state = Mutex::new(State {
                    end,
                    stage,
                    version,
                    brought: VecDeque::new(),
                    memory: None,
                    panicked: false,
                });
                let (number, start, arrived) = (front.number, front.block, Condvar::new());
                Arc::new(Flight { number, run, start, bytes, state, arrived })
            };
            let Some(run) = front.leaf.run.resident() else {
                let bytes = (BULK_BYTES + PIECE_BYTES_MAX) as u64;
                let flight = flight(None, Stage::Waiting, bytes);
                front.opening = Some(flight.clone());
                return Ok(Some(flight));
            };
            let blocks = to.map_or(usize::MAX, |to| run.block_for(to) + 1).min(run.block_count());
            if front.block < blocks {
                let piece = run.piece_from(front.block, BULK_BYTES, PIECE_BYTES_MAX);
                if piece.is_empty() {
                    // A block longer than that is for the walk to read.
                    front.block += 1;
                    continue;
                }
                let (end, (stored, raw)) = (piece.end, run.piece_bytes(piece.clone()));
                let is_there = run.wanted(piece, &*engine.cx.cache).is_empty();
                let stage = if is_there { Stage::Landed } else { Stage::Waiting };
                let flight = flight(Some(end), stage, stored + raw);
                front.block = end;
                return Ok(Some(flight));
            }
            let Successor::Leaf(leaf) = &front.successor else { return Ok(None) };
            (front.leaf, front.successor) = (leaf.clone(), Successor::Unknown);
            front.number += 1;
            front.block = 0;
        }
    }
}

impl Front {
    /// Finds the next leaf, and has it opened.
    fn find_successor(
        &mut self,
        engine: &Engine,
        (version, tree): (&Arc<Version>, TreeId),
        to: Option<&[u8]>,
    ) -> Result<()> {
        if !matches!(self.successor, Successor::Unknown) {
            return Ok(());
        }
        self.successor = Successor::None;
        let (Some(hi), Some(root)) = (&self.leaf.hi, version.roots.get(&tree)) else {
            return Ok(());
        };
        if to.is_some_and(|to| **hi >= *to) {
            return Ok(());
        }
        let stretch = root.stretch(&engine.cx, Position::At(hi))?;
        // The leaf is the last of what has entries there, and the only one without bounds.
        let leaf = stretch.runs.last().filter(|part| part.lo.is_none() && part.hi.is_none());
        // Not on disk: it lies in memory, and is not held there.
        let Some(leaf) = leaf.filter(|part| part.run.link().is_some()) else { return Ok(()) };
        let leaf = WalkedLeaf { run: leaf.run.clone(), hi: stretch.hi };
        if leaf.run.resident().is_none()
            && let Some(memory) = engine.readers.memory(BULK_BYTES as u64)
        {
            let (cx, run, version) = (engine.cx.clone(), leaf.run.clone(), Arc::downgrade(version));
            engine.readers.spawn(Box::new(move || {
                // Invariants 1 and 2.
                let _held = version.upgrade().map(|version| (version, run.open(&cx)));
                drop(memory);
            }));
        }
        self.successor = Successor::Leaf(leaf);
        Ok(())
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        // What has not taken off need not.
        self.flights.lock().drain(..).for_each(|flight| flight.cancel());
    }
}

impl Flights {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<Flight>>> {
        self.pieces.lock().unwrap()
    }

    /// The one that brings this block.
    fn of(&self, run: &Run, block: usize) -> Option<Arc<Flight>> {
        let link = run.link();
        let holds = |flight: &&Arc<Flight>| {
            flight.run.link() == link.as_ref() && flight.start <= block && !flight.ends_by(block)
        };
        self.lock().iter().find(holds).cloned()
    }
}

impl AheadOfCursor for Flights {
    fn meet(&self, run: &Run, block: usize) -> Option<(PinnedBlock, Chunks)> {
        self.of(run, block).and_then(|flight| flight.meet(block))
    }

    fn brought(&self, run: &Run, block: usize) -> Option<(PinnedBlock, Chunks)> {
        self.of(run, block).and_then(|flight| flight.lock().take(block))
    }
}

impl Flight {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn end(&self) -> Option<usize> {
        self.lock().end
    }

    /// Whether it ends before this block does.
    fn ends_by(&self, block: usize) -> bool {
        self.end().is_some_and(|end| end <= block)
    }

    /// Brings its blocks, on a reader's thread.
    fn fly(&self, cx: &TreeContext) {
        let version = {
            let mut state = self.lock();
            if state.stage != Stage::Waiting {
                return;
            }
            // Nobody reads a version any more that is gone.
            let Some(version) = state.version.upgrade() else { return state.land(self.start) };
            state.stage = Stage::Flying;
            version
        };
        let landing = Landing(self);
        self.bring(cx);
        drop(landing);
        drop(version);
    }

    /// Invariant 1: whoever comes here meets the same error.
    fn bring(&self, cx: &TreeContext) {
        let Ok(run) = self.run.open(cx) else { return };
        let end = self.end();
        let piece = match end {
            Some(end) => self.start..end,
            None => run.piece_from(self.start, BULK_BYTES, PIECE_BYTES_MAX),
        };
        self.lock().end = Some(piece.end);
        let piece = run.wanted(piece, &*cx.cache);
        cx.counters.pieces_ahead.fetch_add(1, Ordering::Relaxed);
        run.bring(piece, &*cx.cache, |block, brought, chunks| {
            self.lock().brought.push_back((block, brought, chunks));
            self.arrived.notify_all();
        });
    }

    fn is_landed(&self) -> bool {
        self.lock().stage == Stage::Landed
    }

    /// The walk needs this block of those that it brings.
    fn meet(&self, block: usize) -> Option<(PinnedBlock, Chunks)> {
        let mut state = self.lock();
        if state.stage == Stage::Waiting {
            // The walk is as quick itself.
            state.land(self.start);
        }
        loop {
            if let Some(brought) = state.take(block) {
                return Some(brought);
            }
            // As it would have done here.
            assert!(!state.panicked, "a thread that read ahead panicked");
            if state.stage != Stage::Flying {
                return None;
            }
            state = self.arrived.wait(state).unwrap();
        }
    }

    /// Nobody wants it any more.
    fn cancel(&self) {
        let mut state = self.lock();
        if state.stage == Stage::Waiting {
            state.land(self.start);
        }
    }
}

impl State {
    /// This block, if it was brought; in order: what comes before it has been walked over.
    fn take(&mut self, block: usize) -> Option<(PinnedBlock, Chunks)> {
        while let Some((index, ..)) = self.brought.front()
            && *index <= block
        {
            let brought = self.brought.pop_front().filter(|(index, ..)| *index == block);
            if let Some((_, brought, chunks)) = brought {
                return Some((brought, chunks));
            }
        }
        None
    }

    /// Of a leaf that was not opened, nothing from block `start` on was brought.
    fn land(&mut self, start: usize) {
        self.end.get_or_insert(start);
        self.stage = Stage::Landed;
    }
}

/// Says that a flight has landed, whatever became of it.
struct Landing<'a>(&'a Flight);

impl Drop for Landing<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.land(self.0.start);
        state.panicked = thread::panicking();
        drop(state);
        self.0.arrived.notify_all();
    }
}
