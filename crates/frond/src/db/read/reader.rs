//! Readers: one interface for reads of the current state, of a snapshot, or of what a transaction
//! sees.
//!
//! Threads: as the reader.

use crate::{
    Error, KeyRange, Result,
    db::{Cursor, Db, Rows, Snapshot, Tree, Txn, TxnCursor, TxnRows},
    key_range::OrEmpty,
    sync::Arc,
};

/// What trees and tables are read through: [`Db`] for the current state, [`Snapshot`] for an
/// earlier one, [`Txn`] for what the transaction sees.
///
/// Every read of a [`Table`](crate::Table) takes one. Functions over readers work in a transaction
/// and without:
///
/// ```
/// # fn main() -> frond::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
/// use frond::{Reader, Tree};
///
/// fn count(reader: &impl Reader, tree: &Tree) -> frond::Result<usize> {
///     reader.range(tree, ..).try_fold(0, |rows, row| row.map(|_| rows + 1))
/// }
///
/// let words = db.tree("words", Default::default())?;
/// words.put(b"fern", b"")?;
/// let txn = db.begin(Default::default())?;
/// txn.put(&words, b"frond", b"")?;
/// assert_eq!((count(&txn, &words)?, count(&db, &words)?), (2, 1));
/// # drop(txn);
/// # db.close()
/// # }
/// ```
pub trait Reader: seal::Source {
    /// A [`Cursor`], or a [`TxnCursor`] of a transaction.
    type Cursor<'r>
    where
        Self: 'r;
    /// The iterator [`Rows`], or [`TxnRows`] of a transaction.
    type Rows<'r>: DoubleEndedIterator<Item = Result<(Vec<u8>, Vec<u8>)>>
    where
        Self: 'r;

    /// The value of a key.
    ///
    /// # Errors
    /// As [`Tree::get`], [`Snapshot::get`], [`Txn::get`].
    fn get(&self, tree: &Tree, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>>;

    /// The values of many keys, all as of one moment, in the order of the keys.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    fn get_many<K: AsRef<[u8]>>(&self, tree: &Tree, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>>;

    /// A cursor over a range of keys, before its first row.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    fn scan<'r>(&'r self, tree: &Tree, range: impl KeyRange) -> Result<Self::Cursor<'r>>;

    /// The rows of a range, from both ends. Each row is copied: a [`scan`](Self::scan) is faster.
    /// Errors are items, and end the iteration. A range that ends before it begins has no rows.
    fn range<'r>(&'r self, tree: &Tree, range: impl KeyRange) -> Self::Rows<'r>;
}

/// Which of the three a reader is. In a private module, so that no other type can be a reader.
pub(crate) mod seal {
    use crate::db::{Db, Snapshot, Txn};

    #[derive(Debug)]
    pub enum Which<'r> {
        Now(&'r Db),
        Then(&'r Snapshot),
        Txn(&'r Txn),
    }

    pub trait Source {
        fn which(&self) -> Which<'_>;
    }
}

use seal::{Source, Which};

impl Source for Db {
    fn which(&self) -> Which<'_> {
        Which::Now(self)
    }
}

impl Source for Snapshot {
    fn which(&self) -> Which<'_> {
        Which::Then(self)
    }
}

impl Source for Txn {
    fn which(&self) -> Which<'_> {
        Which::Txn(self)
    }
}

impl Db {
    /// Fails if a tree belongs to another store.
    fn must_own(&self, tree: &Tree) -> Result<()> {
        match Arc::ptr_eq(&tree.shared, &self.shared) {
            true => Ok(()),
            false => {
                let why = format!("tree \"{}\" is of another store", tree.name());
                Err(Error::InvalidArgument(why))
            }
        }
    }
}

impl Reader for Db {
    type Cursor<'r> = Cursor;
    type Rows<'r> = Rows;

    fn get(&self, tree: &Tree, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.must_own(tree).and_then(|()| tree.get(key.as_ref()))
    }

    fn get_many<K: AsRef<[u8]>>(&self, tree: &Tree, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        self.must_own(tree).and_then(|()| tree.get_many(keys))
    }

    fn scan(&self, tree: &Tree, range: impl KeyRange) -> Result<Cursor> {
        self.must_own(tree).and_then(|()| tree.scan(range))
    }

    fn range(&self, tree: &Tree, range: impl KeyRange) -> Rows {
        Rows::new(Reader::scan(self, tree, OrEmpty(range)))
    }
}

impl Reader for Snapshot {
    type Cursor<'r> = Cursor;
    type Rows<'r> = Rows;

    fn get(&self, tree: &Tree, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.get(tree, key.as_ref())
    }

    fn get_many<K: AsRef<[u8]>>(&self, tree: &Tree, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        self.get_many(tree, keys)
    }

    fn scan(&self, tree: &Tree, range: impl KeyRange) -> Result<Cursor> {
        self.scan(tree, range)
    }

    fn range(&self, tree: &Tree, range: impl KeyRange) -> Rows {
        self.range(tree, range)
    }
}

impl Reader for Txn {
    type Cursor<'r> = TxnCursor<'r>;
    type Rows<'r> = TxnRows<'r>;

    fn get(&self, tree: &Tree, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.get(tree, key.as_ref())
    }

    fn get_many<K: AsRef<[u8]>>(&self, tree: &Tree, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        self.get_many(tree, keys)
    }

    fn scan<'r>(&'r self, tree: &Tree, range: impl KeyRange) -> Result<TxnCursor<'r>> {
        self.scan(tree, range)
    }

    fn range<'r>(&'r self, tree: &Tree, range: impl KeyRange) -> TxnRows<'r> {
        self.range(tree, range)
    }
}
