//! Forged runs, whose metadata contradicts their content, for tests of the code that must detect
//! that. Their checksums are right: the change is made before the run is written.

use super::{Run, filter::Filter};
use crate::sync::Arc;

fn change(run: Arc<Run>, lie: impl FnOnce(&mut Run)) -> Arc<Run> {
    let mut run = Arc::into_inner(run).expect("a run just built has one owner");
    lie(&mut run);
    Arc::new(run)
}

/// The filter denies all keys but a few.
pub(crate) fn filter_of_nothing(run: Arc<Run>) -> Arc<Run> {
    change(run, |run| run.footer.filter = Some(Filter::build(&[], 10)))
}

/// The index counts a Put as a Delete.
pub(crate) fn miscounted(run: Arc<Run>) -> Arc<Run> {
    change(run, |run| {
        run.footer.counts.deletes += 1;
        if let Some(entry) = run.footer.index.last_mut() {
            entry.deletes += 1;
        }
    })
}

/// The header counts a row that the index does not.
pub(crate) fn with_a_row_too_many(run: Arc<Run>) -> Arc<Run> {
    change(run, |run| run.footer.counts.entries += 1)
}

/// The list of blobs is empty.
pub(crate) fn without_blobs(run: Arc<Run>) -> Arc<Run> {
    change(run, |run| run.footer.blobs.clear())
}
