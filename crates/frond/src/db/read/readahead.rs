//! Readahead for long scans: reader threads of the store bring the next blocks into the block cache
//! while the scan processes the rows before them. Without it, a scan would wait for the device and
//! keep only one core busy.
//!
//! A *piece* is a few adjacent blocks of a leaf, and a *request* reads one piece into the
//! cache, on another thread. A scan that has read several pieces keeps up to [`REQUESTS_MAX`] open,
//! also beyond the end of its leaf; the leaf after that is opened meanwhile. When the scan needs a
//! block that is not in the cache yet, it looks for the request that reads it. If a thread has
//! started the request, the scan waits for the block; otherwise it reads the block itself.
//!
//! Invariants
//! 1. Requests are hints. What they read enters the cache checked, as for any reader; an error is
//!    dropped, and the scan gets it when it reads the block itself.
//! 2. A request holds the version that its scan reads, and only while it runs.
//! 3. No scan waits for a request that no thread has started.
//!
//! Threads: the scan's own, and the reader threads, which share [`Requests`].

use std::collections::VecDeque;

use crate::{
    Result, TreeId,
    block::Chunks,
    page::Link,
    pipeline::{Engine, PieceMemory},
    run::{AheadOfCursor, BULK_BYTES, BlockGuard, Run},
    sync::{Arc, Condvar, Mutex, MutexGuard, Ordering, Weak, thread},
    tree::{Position, RunHandle, TreeContext},
    version::Version,
};

/// Pieces that are requested or not yet scanned, including the one being scanned.
const REQUESTS_MAX: usize = 8;
/// Most bytes of a piece: its blocks, and the chunks that their codecs decompress.
const PIECE_BYTES_MAX: usize = 1 << 20;

/// The leaf that a forward scan is in.
#[derive(Clone, Debug)]
pub(in crate::db) struct WalkedLeaf {
    pub run: Arc<RunHandle>,
    /// End of its range.
    pub hi: Option<Box<[u8]>>,
}

/// The readahead of one forward scan.
#[derive(Debug)]
pub(in crate::db) struct Readahead {
    requests: Arc<Requests>,
    /// End of the scan: the first key that it does not want.
    to: Option<Vec<u8>>,
    /// Number of the leaf that the scan is in, and its link.
    number: u64,
    at: Option<Link>,
    front: Option<Front>,
    /// The version that `front` and the requests belong to.
    version: Weak<Version>,
}

/// Where the next request starts.
#[derive(Debug)]
struct Front {
    number: u64,
    leaf: WalkedLeaf,
    block: usize,
    /// A request whose leaf was not open; the next request starts where that one ends.
    opening: Option<Arc<Request>>,
    successor: Successor,
}

/// The leaf after that of the front. It is opened while the front covers its own leaf: pieces are
/// known only of an open leaf, so each leaf would otherwise start with a single request.
#[derive(Debug)]
enum Successor {
    Unknown,
    /// No next leaf: the scan wants none, or it is not on disk.
    None,
    Leaf(WalkedLeaf),
}

/// The requests of one scan, in key order.
#[derive(Debug)]
pub(in crate::db) struct Requests {
    cx: Arc<TreeContext>,
    pieces: Mutex<VecDeque<Arc<Request>>>,
}

/// A block that a request has read: its number, the block, and its decoded chunks.
type LoadedBlock = (usize, BlockGuard, Chunks);

/// A request to read one piece of a leaf into the cache.
#[derive(Debug)]
struct Request {
    /// Number of the leaf.
    number: u64,
    run: Arc<RunHandle>,
    start: usize,
    /// Memory that it takes, bytes.
    bytes: u64,
    state: Mutex<State>,
    /// Signalled when a block was read or the request has ended.
    arrived: Condvar,
}

#[derive(Debug)]
struct State {
    /// First block after the piece; unknown until the leaf is open.
    end: Option<usize>,
    stage: Stage,
    /// Blocks that the request has read and the scan has not taken yet.
    loaded: VecDeque<LoadedBlock>,
    memory: Option<PieceMemory>,
    panicked: bool,
    /// The version that a reader thread must hold.
    version: Weak<Version>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Waiting,
    Running,
    Done,
}

impl Readahead {
    pub fn new(cx: &Arc<TreeContext>, to: Option<Vec<u8>>) -> Self {
        let requests = Requests { cx: cx.clone(), pieces: Mutex::default() };
        Self {
            requests: Arc::new(requests),
            to,
            number: 0,
            at: None,
            front: None,
            version: Weak::new(),
        }
    }

    /// The requests, as the scan's cursors see them.
    pub fn requests(&self) -> Arc<dyn AheadOfCursor> {
        self.requests.clone()
    }

    /// Starts the requests that are due; the scan is at `block` of `leaf` of this version.
    pub fn send(
        &mut self,
        engine: &Engine,
        (version, tree): (&Arc<Version>, TreeId),
        leaf: &WalkedLeaf,
        block: usize,
    ) {
        if !std::ptr::eq(self.version.as_ptr(), Arc::as_ptr(version)) {
            // Leaves of another version are different leaves.
            self.version = Arc::downgrade(version);
            self.front = None;
        }
        self.arrive(leaf, block);
        while self.requests.lock().len() < REQUESTS_MAX {
            // An unreadable page is left to the scan (invariant 1).
            let Ok(Some(request)) = self.next(engine, (version, tree)) else { break };
            self.requests.lock().push_back(request.clone());
            if request.is_done() {
                continue;
            }
            let Some(memory) = engine.readers.memory(request.bytes) else {
                request.cancel();
                break;
            };
            request.lock().memory = Some(memory);
            let cx = self.requests.cx.clone();
            engine.readers.spawn(Box::new(move || request.run(&cx)));
        }
    }

    /// Drops requests for what the scan has passed.
    fn arrive(&mut self, leaf: &WalkedLeaf, block: usize) {
        let link = leaf.run.link().copied();
        let mut pieces = self.requests.lock();
        if link != self.at {
            let sent = pieces.iter().find(|request| request.run.link() == link.as_ref());
            let front = self.front.as_ref().filter(|front| front.leaf.run.link() == link.as_ref());
            let number = sent.map(|request| request.number).or(front.map(|front| front.number));
            if number.is_none() {
                // The scan moved elsewhere.
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
                pieces.drain(..).for_each(|request| request.cancel());
                let leaf = leaf.clone();
                let (block, opening) = (block + 1, None);
                let successor = Successor::Unknown;
                self.front = Some(Front { number: here, leaf, block, opening, successor });
            }
        }
        pieces.retain(|request| {
            let is_behind =
                request.number < here || request.number == here && request.ends_by(block);
            if is_behind {
                request.cancel();
            }
            !is_behind
        });
    }

    /// The next request; `None` if there is none, or if its start is not known yet.
    fn next(
        &mut self,
        engine: &Engine,
        (version, tree): (&Arc<Version>, TreeId),
    ) -> Result<Option<Arc<Request>>> {
        loop {
            let to = self.to.as_deref();
            let Some(front) = &mut self.front else { return Ok(None) };
            front.find_successor(engine, (version, tree), to)?;
            if front.opening.is_some() {
                return Ok(None);
            }
            let request = |end, stage, bytes| {
                let (run, version) = (front.leaf.run.clone(), Arc::downgrade(version));
                let state = Mutex::new(State {
                    end,
                    stage,
                    version,
                    loaded: VecDeque::new(),
                    memory: None,
                    panicked: false,
                });
                let (number, start, arrived) = (front.number, front.block, Condvar::new());
                Arc::new(Request { number, run, start, bytes, state, arrived })
            };
            let Some(run) = front.leaf.run.resident() else {
                let bytes = (BULK_BYTES + PIECE_BYTES_MAX) as u64;
                let request = request(None, Stage::Waiting, bytes);
                front.opening = Some(request.clone());
                return Ok(Some(request));
            };
            let blocks = to.map_or(usize::MAX, |to| run.block_for(to) + 1).min(run.block_count());
            if front.block < blocks {
                let piece = run.piece_from(front.block, BULK_BYTES, PIECE_BYTES_MAX);
                if piece.is_empty() {
                    // A block longer than that is left to the scan.
                    front.block += 1;
                    continue;
                }
                let (end, (stored, raw)) = (piece.end, run.piece_bytes(piece.clone()));
                let is_there = run.wanted(piece, &*engine.cx.cache).is_empty();
                let stage = if is_there { Stage::Done } else { Stage::Waiting };
                let request = request(Some(end), stage, stored + raw);
                front.block = end;
                return Ok(Some(request));
            }
            let Successor::Leaf(leaf) = &front.successor else { return Ok(None) };
            (front.leaf, front.successor) = (leaf.clone(), Successor::Unknown);
            front.number += 1;
            front.block = 0;
        }
    }
}

impl Front {
    /// Finds the next leaf and has a reader open it.
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
        // The leaf is the last of the runs with entries there, and the only one without bounds.
        let leaf = stretch.runs.last().filter(|part| part.lo.is_none() && part.hi.is_none());
        // A leaf without a link is in memory anyway.
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

impl Drop for Readahead {
    fn drop(&mut self) {
        // Requests that have not started need not run.
        self.requests.lock().drain(..).for_each(|request| request.cancel());
    }
}

impl Requests {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<Request>>> {
        self.pieces.lock().unwrap()
    }

    /// The request that reads this block.
    fn of(&self, run: &Run, block: usize) -> Option<Arc<Request>> {
        let link = run.link();
        let holds = |request: &&Arc<Request>| {
            request.run.link() == link.as_ref() && request.start <= block && !request.ends_by(block)
        };
        self.lock().iter().find(holds).cloned()
    }
}

impl AheadOfCursor for Requests {
    fn wait_for(&self, run: &Run, block: usize) -> Option<(BlockGuard, Chunks)> {
        self.of(run, block).and_then(|request| request.wait_for(block))
    }

    fn loaded(&self, run: &Run, block: usize) -> Option<(BlockGuard, Chunks)> {
        self.of(run, block).and_then(|request| request.lock().take(block))
    }
}

impl Request {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn end(&self) -> Option<usize> {
        self.lock().end
    }

    /// True if the request ends at or before this block.
    fn ends_by(&self, block: usize) -> bool {
        self.end().is_some_and(|end| end <= block)
    }

    /// Reads the piece, on a reader thread.
    fn run(&self, cx: &TreeContext) {
        let version = {
            let mut state = self.lock();
            if state.stage != Stage::Waiting {
                return;
            }
            // A version that is gone has no readers.
            let Some(version) = state.version.upgrade() else { return state.finish(self.start) };
            state.stage = Stage::Running;
            version
        };
        let end_on_drop = EndOnDrop(self);
        self.load_blocks(cx);
        drop(end_on_drop);
        drop(version);
    }

    /// Reads the blocks. Errors are dropped: the scan gets them when it reads the blocks itself
    /// (invariant 1).
    fn load_blocks(&self, cx: &TreeContext) {
        let Ok(run) = self.run.open(cx) else { return };
        let end = self.end();
        let piece = match end {
            Some(end) => self.start..end,
            None => run.piece_from(self.start, BULK_BYTES, PIECE_BYTES_MAX),
        };
        self.lock().end = Some(piece.end);
        let piece = run.wanted(piece, &*cx.cache);
        cx.counters.pieces_ahead.fetch_add(1, Ordering::Relaxed);
        run.load_together(piece, &*cx.cache, |block, loaded, chunks| {
            self.lock().loaded.push_back((block, loaded, chunks));
            self.arrived.notify_all();
        });
    }

    fn is_done(&self) -> bool {
        self.lock().stage == Stage::Done
    }

    /// Waits for a block of this request that the scan needs.
    fn wait_for(&self, block: usize) -> Option<(BlockGuard, Chunks)> {
        let mut state = self.lock();
        if state.stage == Stage::Waiting {
            // Not started: reading it here is as fast.
            state.finish(self.start);
        }
        loop {
            if let Some(loaded) = state.take(block) {
                return Some(loaded);
            }
            // The panic is repeated here, as if this thread had read the block itself.
            assert!(!state.panicked, "a thread that read ahead panicked");
            if state.stage != Stage::Running {
                return None;
            }
            state = self.arrived.wait(state).unwrap();
        }
    }

    /// Cancels the request unless a thread has started it.
    fn cancel(&self) {
        let mut state = self.lock();
        if state.stage == Stage::Waiting {
            state.finish(self.start);
        }
    }
}

impl State {
    /// Takes this block if the request has read it. The scan goes in order, so blocks before it are
    /// dropped.
    fn take(&mut self, block: usize) -> Option<(BlockGuard, Chunks)> {
        while let Some((index, ..)) = self.loaded.front()
            && *index <= block
        {
            let loaded = self.loaded.pop_front().filter(|(index, ..)| *index == block);
            if let Some((_, loaded, chunks)) = loaded {
                return Some((loaded, chunks));
            }
        }
        None
    }

    /// Ends the request. If the leaf was not opened, the request has read nothing from block
    /// `start` on.
    fn finish(&mut self, start: usize) {
        self.end.get_or_insert(start);
        self.stage = Stage::Done;
    }
}

/// Marks a request as done when dropped, also during a panic.
struct EndOnDrop<'a>(&'a Request);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.finish(self.0.start);
        state.panicked = thread::panicking();
        drop(state);
        self.0.arrived.notify_all();
    }
}
