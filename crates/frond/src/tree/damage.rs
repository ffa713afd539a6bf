//! Damage in a running store: work that needs an unreadable page is set aside, and everything else
//! continues (Rule: I38).
//!
//! A root-changing job that needs such a page leaves that piece of work undone: what waits for a
//! child stays in its parent's buffer, and the job continues with the other children. The page is
//! *marked*, and jobs skip what needs a marked page. A probe reads marked pages again, at growing
//! intervals; when it first succeeds the mark is removed, and the next job resumes what was left.
//!
//! Invariants
//! 1. The mark is on the page's descriptor, which all nodes that link the page share, and ends with
//!    it.
//! 2. A piece of work that fails has changed nothing: neither its node nor the effects of its job.
//! 3. Only a page's own failure is contained (`Error::concerns_a_page`). A full disk, a failed
//!    write, or a contradiction in the space map ends the job.
//! 4. Readers do not look at marks: they read the page, and get its error or its rows.
//!
//! Threads: jobs add marks, one thread probes, all may list. The lock is not held while a page is
//! read. Cost: one relaxed load per child while nothing is marked.

use std::time::Duration;

use crate::{
    error::{Error, Result},
    page::{Link, PageKind},
    run,
    sync::{Arc, AtomicUsize, Mutex, Ordering, Weak},
    types::Lineage,
};

use super::{
    TreeContext,
    apply::{Job, clip},
    node::{Bound, Child, Node, NodeRef, RunHandle, Tier},
};

/// A marked page is tried again after this time, then after twice as long, and so on up to a
/// quarter of an hour: a loose cable is found soon, and a dead sector costs four reads an hour.
const RETRY_MIN: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(15 * 60);

/// A page, by its descriptor.
#[derive(Clone, Debug)]
pub(super) enum PageRef {
    Node(Arc<NodeRef>),
    Run(Arc<RunHandle>),
}

#[derive(Debug)]
enum WeakPage {
    Node(Weak<NodeRef>),
    Run(Weak<RunHandle>),
}

/// What is known about a marked page.
#[derive(Clone, Debug)]
pub(crate) struct Damaged {
    /// The tree whose job found it.
    pub lineage: Lineage,
    /// The keys for which messages wait until the page can be read; `None` is unbounded.
    pub from: Bound,
    pub to: Bound,
    /// The offset at which reading failed.
    pub offset: u64,
    /// The error, with its code.
    pub why: Arc<str>,
}

#[derive(Debug)]
struct Mark {
    page: WeakPage,
    what: Damaged,
    /// When it is tried again; `None` until the probe has seen it.
    due: Option<Duration>,
    wait: Duration,
    /// True if the page can be read but work with it has failed since: then the error lies
    /// elsewhere, for instance in a blob.
    on_trial: bool,
}

/// All marked pages of a store.
#[derive(Debug, Default)]
pub(crate) struct Damage {
    marks: Mutex<Vec<Mark>>,
    /// The number of marks. Stored under the lock; a job that reads a stale value tries the page
    /// once more.
    count: AtomicUsize,
}

impl PageRef {
    fn link(&self) -> Option<&Link> {
        match self {
            Self::Node(node) => node.link(),
            Self::Run(run) => run.link(),
        }
    }

    fn set_marked(&self, marked: bool) {
        match self {
            Self::Node(node) => node.set_marked(marked),
            Self::Run(run) => run.set_marked(marked),
        }
    }

    fn downgrade(&self) -> WeakPage {
        match self {
            Self::Node(node) => WeakPage::Node(Arc::downgrade(node)),
            Self::Run(run) => WeakPage::Run(Arc::downgrade(run)),
        }
    }

    /// Reads every byte of the page from the file, even if some of it is in memory.
    fn read_again(&self, cx: &TreeContext) -> Result<()> {
        let Some(link) = self.link() else { return Ok(()) };
        match self {
            Self::Node(_) => cx.store.read_page(link, PageKind::Node, "node page").map(drop),
            Self::Run(_) => {
                let file = cx.store.file();
                let extent = file.read(link.offset, link.bytes.into(), "a run")?;
                run::verify_extent(file, link, &extent).map(drop)
            }
        }
    }
}

impl WeakPage {
    fn upgrade(&self) -> Option<PageRef> {
        match self {
            Self::Node(node) => node.upgrade().map(PageRef::Node),
            Self::Run(run) => run.upgrade().map(PageRef::Run),
        }
    }

    fn is(&self, page: &PageRef) -> bool {
        match (self, page) {
            (Self::Node(own), PageRef::Node(page)) => std::ptr::eq(own.as_ptr(), Arc::as_ptr(page)),
            (Self::Run(own), PageRef::Run(page)) => std::ptr::eq(own.as_ptr(), Arc::as_ptr(page)),
            _ => false,
        }
    }
}

impl Damage {
    /// True if any page is marked.
    pub fn any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Lists all marked pages that are still linked.
    pub fn list(&self) -> Vec<Damaged> {
        let mut marks = self.marks.lock().unwrap();
        marks.retain(|mark| mark.page.upgrade().is_some());
        self.count.store(marks.len(), Ordering::Relaxed);
        marks.iter().map(|mark| mark.what.clone()).collect()
    }

    fn note(&self, page: &PageRef, what: Damaged) {
        let mut marks = self.marks.lock().unwrap();
        page.set_marked(true);
        match marks.iter_mut().find(|mark| mark.page.is(page)) {
            Some(mark) => {
                (mark.what, mark.due, mark.on_trial) = (what, None, false);
                mark.wait = (mark.wait * 2).min(RETRY_MAX);
            }
            None => marks.push(Mark {
                page: page.downgrade(),
                what,
                due: None,
                wait: RETRY_MIN,
                on_trial: false,
            }),
        }
        self.count.store(marks.len(), Ordering::Relaxed);
    }

    /// Records that work which needed these pages has succeeded.
    fn worked(&self, pages: &[PageRef]) {
        let mut marks = self.marks.lock().unwrap();
        marks.retain(|mark| !pages.iter().any(|page| mark.page.is(page)));
        pages.iter().for_each(|page| page.set_marked(false));
        self.count.store(marks.len(), Ordering::Relaxed);
    }

    /// Reads marked pages that are due again. True if work can continue somewhere.
    pub fn probe(&self, cx: &TreeContext, now: Duration) -> bool {
        if !self.any() || plant!("tree: what is damaged is tried no more") {
            return false;
        }
        let due: Vec<PageRef> = {
            let mut marks = self.marks.lock().unwrap();
            marks.retain(|mark| mark.page.upgrade().is_some());
            self.count.store(marks.len(), Ordering::Relaxed);
            let due = marks.iter_mut().filter_map(|mark| {
                let at = *mark.due.get_or_insert(now + mark.wait);
                (at <= now && !mark.on_trial).then(|| mark.page.upgrade()).flatten()
            });
            due.collect()
        };
        let mut any = false;
        for page in due {
            let read = page.read_again(cx);
            any |= read.is_ok();
            let mut marks = self.marks.lock().unwrap();
            let Some(index) = marks.iter().position(|mark| mark.page.is(&page)) else { continue };
            let mark = &mut marks[index];
            match read {
                Ok(()) if page.link().is_some_and(|link| lies_in(link, mark.what.offset)) => {
                    marks.swap_remove(index);
                    page.set_marked(false);
                }
                // It was not this page that failed: the next job will show whether its work
                // succeeds now.
                Ok(()) => {
                    mark.on_trial = true;
                    page.set_marked(false);
                }
                Err(_) => {
                    mark.wait = (mark.wait * 2).min(RETRY_MAX);
                    mark.due = Some(now + mark.wait);
                }
            }
            self.count.store(marks.len(), Ordering::Relaxed);
        }
        any
    }
}

fn lies_in(link: &Link, offset: u64) -> bool {
    link.offset <= offset && offset < link.offset + u64::from(link.bytes)
}

impl Job<'_> {
    /// Runs a piece of work that may be left undone. `None`: one of the pages that it needs cannot
    /// be read, and is now marked; the first page is blamed if the error is at none of them. `from`
    /// and `to` bound the keys concerned, within the current node. The work itself must change
    /// nothing but the job's effects until nothing in it can fail any more (invariant 2).
    pub(super) fn contained<T>(
        &mut self,
        pages: &[PageRef],
        (from, to): (Option<&[u8]>, Option<&[u8]>),
        work: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<Option<T>> {
        let before = self.effects.mark();
        match work(self) {
            Ok(done) => {
                if self.cx.damage.any() {
                    self.cx.damage.worked(pages);
                }
                Ok(Some(done))
            }
            Err(error) if error.concerns_a_page() && !plant!("tree: damage ends the job") => {
                self.effects.rewind(before);
                self.blame(pages, (from, to), &error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Marks the page among `pages` that an error is about, or else the first of them.
    pub(super) fn blame(
        &self,
        pages: &[PageRef],
        (from, to): (Option<&[u8]>, Option<&[u8]>),
        error: &Error,
    ) {
        let offset = error.offset().unwrap_or_default();
        let is_there = |page: &&PageRef| page.link().is_some_and(|link| lies_in(link, offset));
        let Some(page) = pages.iter().find(is_there).or(pages.first()) else { return };
        let (low, high) = &self.bounds;
        let (from, to) = clip((low.as_deref(), high.as_deref()), (from, to));
        let what = Damaged {
            lineage: self.traits.lineage,
            from: from.map(Box::from),
            to: to.map(Box::from),
            offset,
            why: error.to_string().into(),
        };
        self.cx.damage.note(page, what);
    }

    /// Returns the bytes that can be handed down to each child: 0 for a child that needs a marked
    /// page.
    pub(super) fn movable_by_child(&self, node: &Node) -> Vec<u64> {
        let mut pending = node.pending_by_child();
        if self.cx.damage.any() {
            for (c, bytes) in pending.iter_mut().enumerate().filter(|(_, bytes)| **bytes > 0) {
                if node.is_stuck(c) {
                    *bytes = 0;
                }
            }
        }
        pending
    }
}

impl Node {
    /// True if what waits for child `c` cannot be handed down: the child, or something that waits
    /// for it, is marked.
    pub(super) fn is_stuck(&self, c: usize) -> bool {
        let marked = match self.children.get(c) {
            Some(Child::Node(child)) => child.is_marked(),
            Some(Child::Leaf(leaf)) => leaf.is_marked(),
            None => false,
        };
        marked || self.waiting_for(c, c).any(|run| run.is_marked())
    }

    /// Returns the pages that are needed to move what waits for children `first..=last`; the
    /// children come first.
    pub(super) fn pages_for(&self, first: usize, last: usize) -> Vec<PageRef> {
        let children = self.children.get(first..=last).unwrap_or_default();
        let children = children.iter().map(|child| match child {
            Child::Node(child) => PageRef::Node(child.clone()),
            Child::Leaf(leaf) => PageRef::Run(leaf.clone()),
        });
        children.chain(self.waiting_for(first, last).cloned().map(PageRef::Run)).collect()
    }

    /// The keys of children `first..=last`, as bounds within the node.
    pub(super) fn range_of(&self, first: usize, last: usize) -> (Option<&[u8]>, Option<&[u8]>) {
        (self.child_range(first).0, self.child_range(last).1)
    }

    /// Runs with anything live for children `first..=last`.
    fn waiting_for(&self, first: usize, last: usize) -> impl Iterator<Item = &Arc<RunHandle>> {
        let slices = self.tiers.iter().flat_map(|tier| &tier.slices);
        let lives = move |live: &[u32]| {
            live.get(first..=last).is_some_and(|live| live.iter().any(|&bytes| bytes > 0))
        };
        slices.filter(move |slice| lives(&slice.live)).map(|slice| &slice.run)
    }
}

impl Tier {
    /// The runs of the tier.
    pub(super) fn pages(&self) -> impl Iterator<Item = PageRef> {
        self.slices.iter().map(|slice| PageRef::Run(slice.run.clone()))
    }

    /// True if one of its runs is marked.
    pub(super) fn is_stuck(&self) -> bool {
        self.slices.iter().any(|slice| slice.run.is_marked())
    }
}
