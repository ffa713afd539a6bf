//! Iterators over the rows of a range, for `for` loops and adapters. A cursor is faster: it lends
//! its rows, an iterator copies each.

use std::fmt::{self, Debug};

use crate::{
    Result,
    db::{Cursor, TemporaryCursor, TxnCursor},
};

/// A row: key and value.
pub(crate) type Row = (Vec<u8>, Vec<u8>);

fn owned(row: Option<(&[u8], &[u8])>) -> Option<Row> {
    row.map(|(key, value)| (key.to_vec(), value.to_vec()))
}

/// The rows of a range in order, from both ends: see [`Tree::range`](crate::Tree::range).
///
/// It ends after the first error.
#[must_use = "iterators read nothing until they are used"]
pub struct Rows {
    /// The cursor of the start; `None` at the end.
    front: Option<Cursor>,
    /// The cursor of the end, from the first row that is taken there.
    back: Option<Cursor>,
    /// The error with which the scan started.
    failed: Option<crate::Error>,
    /// The last keys that were returned from the start and from the end.
    lower: Option<Vec<u8>>,
    upper: Option<Vec<u8>>,
}

short_debug!(Rows, "Rows", |rows| rows.front);

impl Rows {
    pub(in crate::db) fn new(cursor: Result<Cursor>) -> Self {
        let (front, failed) = match cursor {
            Ok(cursor) => (Some(cursor), None),
            Err(error) => (None, Some(error)),
        };
        Self { front, back: None, failed, lower: None, upper: None }
    }

    fn end(&mut self) {
        (self.front, self.back) = (None, None);
    }

    /// Ends the iteration after an error.
    fn returned(&mut self, row: Result<Option<Row>>) -> Option<Result<Row>> {
        if !matches!(row, Ok(Some(_))) {
            self.end();
        }
        row.transpose()
    }
}

impl Iterator for Rows {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(error) = self.failed.take() {
            return Some(Err(error));
        }
        let row = self.front.as_mut()?.next().map(owned);
        if let Ok(Some((key, _))) = &row {
            if self.upper.as_ref().is_some_and(|upper| key >= upper) {
                self.end();
                return None;
            }
            let lower = self.lower.get_or_insert_default();
            lower.clear();
            lower.extend_from_slice(key);
        }
        self.returned(row)
    }
}

impl DoubleEndedIterator for Rows {
    fn next_back(&mut self) -> Option<Self::Item> {
        if let Some(error) = self.failed.take() {
            return Some(Err(error));
        }
        let back = match &mut self.back {
            Some(back) => back,
            none => none.insert(self.front.as_ref()?.at_end()),
        };
        let row = back.prev().map(owned);
        if let Ok(Some((key, _))) = &row {
            if self.lower.as_ref().is_some_and(|lower| key <= lower) {
                self.end();
                return None;
            }
            self.upper = Some(key.clone());
        }
        self.returned(row)
    }
}

impl std::iter::FusedIterator for Rows {}

impl IntoIterator for Cursor {
    type Item = Result<Row>;
    type IntoIter = Rows;

    /// The rows of the cursor's range that follow its position.
    fn into_iter(self) -> Rows {
        Rows::new(Ok(self))
    }
}

/// The place of a cursor after a row, comparable with other places in its range: a key, and which
/// entries with that key were passed.
pub(crate) type RowPlace = (Vec<u8>, Passed);

/// Which entries of a key a cursor has passed. Only scans of indexes may have two entries of one
/// key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Passed {
    Nothing,
    First,
    Second,
}

/// A cursor that an iterator moves from both ends.
pub(crate) trait TwoWay {
    /// The next row in a direction.
    fn step(&mut self, forward: bool) -> Result<Option<Row>>;
    /// The cursor's place; `None` before the first row and after the last.
    fn place(&self) -> Option<RowPlace>;
    /// Moves to `place`, to continue from there in a direction; without a place, to where that
    /// direction starts.
    fn stand(&mut self, place: Option<RowPlace>, forward: bool);
}

/// The rows of one cursor, taken from both ends. Switching to the other end costs a new search. The
/// iteration ends after the first error, including an error with which the scan started.
pub(crate) struct BothEnds<C> {
    cursor: Result<Option<C>>,
    /// The end at which the cursor is.
    forward: bool,
    /// Where the other end is, if rows were taken there.
    other: Option<RowPlace>,
}

impl<C: Debug> Debug for BothEnds<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cursor.fmt(f)
    }
}

impl<C: TwoWay> BothEnds<C> {
    pub fn new(cursor: Result<C>) -> Self {
        Self { cursor: cursor.map(Some), forward: true, other: None }
    }

    /// The next row from the start, or from the end.
    pub fn step(&mut self, forward: bool) -> Option<Result<Row>> {
        let row = match &mut self.cursor {
            Err(error) => Err(error.clone()),
            Ok(cursor) => {
                let cursor = cursor.as_mut()?;
                if self.forward != forward {
                    let there = std::mem::replace(&mut self.other, cursor.place());
                    cursor.stand(there, forward);
                    self.forward = forward;
                }
                let row = cursor.step(forward);
                let is_taken = self.other.is_some() && {
                    let (here, other) = (cursor.place(), &self.other);
                    if forward { here >= *other } else { here <= *other }
                };
                if is_taken { row.map(|_| None) } else { row }
            }
        };
        if !matches!(row, Ok(Some(_))) {
            self.cursor = Ok(None);
        }
        row.transpose()
    }
}

/// The rows of a range as a transaction sees them, from both ends: see
/// [`Txn::range`](crate::Txn::range).
///
/// It ends after the first error.
#[derive(Debug)]
#[must_use = "iterators read nothing until they are used"]
pub struct TxnRows<'t> {
    rows: BothEnds<TxnCursor<'t>>,
}

/// The rows of a range of a temporary tree, from both ends: see
/// [`TemporaryTree::range`](crate::TemporaryTree::range).
///
/// It ends after the first error.
#[derive(Debug)]
#[must_use = "iterators read nothing until they are used"]
pub struct TemporaryRows<'t> {
    rows: BothEnds<TemporaryCursor<'t>>,
}

macro_rules! iterates {
    ($($rows:ident over $cursor:ident)+) => {$(
        impl<'t> $rows<'t> {
            pub(in crate::db) fn new(cursor: Result<$cursor<'t>>) -> Self {
                Self { rows: BothEnds::new(cursor) }
            }
        }

        impl Iterator for $rows<'_> {
            type Item = Result<Row>;

            fn next(&mut self) -> Option<Self::Item> {
                self.rows.step(true)
            }
        }

        impl DoubleEndedIterator for $rows<'_> {
            fn next_back(&mut self) -> Option<Self::Item> {
                self.rows.step(false)
            }
        }

        impl std::iter::FusedIterator for $rows<'_> {}

        impl<'t> IntoIterator for $cursor<'t> {
            type Item = Result<Row>;
            type IntoIter = $rows<'t>;

            /// The rows of the cursor's range that follow its position.
            fn into_iter(self) -> $rows<'t> {
                $rows::new(Ok(self))
            }
        }

        impl TwoWay for $cursor<'_> {
            fn step(&mut self, forward: bool) -> Result<Option<Row>> {
                let row = if forward { self.next() } else { self.prev() };
                row.map(owned)
            }

            fn place(&self) -> Option<RowPlace> {
                self.passed()
            }

            fn stand(&mut self, place: Option<RowPlace>, forward: bool) {
                match place {
                    Some((mut key, passed)) => {
                        if forward && passed != Passed::Nothing {
                            key.push(0);
                        }
                        self.seek(&key);
                    }
                    None if forward => self.seek_first(),
                    None => self.seek_last(),
                }
            }
        }
    )+};
}

iterates!(TxnRows over TxnCursor TemporaryRows over TemporaryCursor);

#[cfg(test)]
mod tests {
    use crate::{Db, Options, Tree};

    fn tree(dir: &std::path::Path, keys: u8) -> (Db, Tree) {
        let db = Db::open(dir.join("s"), Options::new()).expect("opens");
        let tree = db.tree("t", Default::default()).expect("new");
        for key in 0..keys {
            tree.put(&[key], b"v").expect("put");
        }
        (db, tree)
    }

    /// Each row is returned once, whichever ends are taken in which order.
    #[test]
    fn both_ends_meet_in_the_middle() {
        let dir = tempfile::tempdir().expect("a directory");
        let (_db, tree) = tree(dir.path(), 9);
        for pattern in 0u16..1 << 10 {
            let mut rows = tree.range([1]..=[7]);
            let (mut low, mut high) = (Vec::new(), Vec::new());
            for step in 0..10 {
                let is_front = pattern >> step & 1 == 0;
                let row = if is_front { rows.next() } else { rows.next_back() };
                let Some(row) = row else { continue };
                let key = row.expect("a row").0[0];
                if is_front { low.push(key) } else { high.push(key) }
            }
            high.reverse();
            assert_eq!([low, high].concat(), (1..=7).collect::<Vec<u8>>(), "{pattern:b}");
        }
        let last = tree.range(..).next_back().expect("a row").expect("read");
        assert_eq!(last, (vec![8], b"v".to_vec()));
    }

    /// Rows are those of the moment at which the iterator was made, at both ends.
    #[test]
    fn an_iterator_shows_one_moment() {
        let dir = tempfile::tempdir().expect("a directory");
        let (db, tree) = tree(dir.path(), 3);
        let mut rows = tree.range(..);
        tree.put(&[3], b"v").expect("put");
        let last = rows.next_back().expect("a row").expect("read");
        assert_eq!(last.0, [2]);
        assert_eq!(rows.count(), 2);
        let txn = db.begin(Default::default()).expect("begins");
        txn.put(&tree, &[4], b"v").expect("put");
        let keys: Result<Vec<_>, _> =
            txn.range(&tree, [2]..).map(|row| row.map(|row| row.0[0])).collect();
        assert_eq!(keys.expect("rows"), [2, 3, 4]);
    }

    #[test]
    fn an_error_is_returned_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let (db, tree) = tree(dir.path(), 3);
        assert!(matches!(tree.scan([2]..[1]), Err(crate::Error::InvalidArgument(_))));
        assert!(tree.range([2]..[1]).next().is_none());
        db.drop_tree("t").expect("drops");
        let mut rows = tree.range(..);
        assert!(matches!(rows.next(), Some(Err(crate::Error::NoSuchTree(_)))));
        assert!(rows.next().is_none() && rows.next_back().is_none());
    }
}
