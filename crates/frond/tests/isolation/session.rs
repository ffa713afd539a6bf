//! Statements of a session, and ways to find its rows: the same statements by the table's own key,
//! by indexes, and without an index.
//!
//! A row is a text, `name,value`. The name of row 1 is always `n1`; the value is a number, to which
//! predicates refer.
//!
//! Threads: a statement is executed by its session's thread, which may wait.

use std::ops::Range;

use frond::{
    Db, Error, IfLocked, IndexSpec, Isolation, ReadOptions, Result, RowLock, Table, TableSpec, Txn,
};

use Way::{Backward, LastCommit, NoIndex, Primary, Secondary, Unique};

/// A way to find rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// By the key, and by a range of keys.
    Primary,
    /// By non-unique indexes on names and values.
    Secondary,
    /// By unique indexes.
    Unique,
    /// By scanning the table and looking at each row.
    NoIndex,
    /// By scanning the table from its end.
    Backward,
    /// Like `NoIndex`, but updates read rows that others have locked as last committed, and lock
    /// them only if they are wanted ([`IfLocked::SemiConsistent`]); locks of unwanted rows are
    /// released. For `ReadCommitted` only: at other levels this would break their guarantees.
    LastCommit,
}

/// All ways at a level.
pub fn ways(isolation: Isolation) -> &'static [Way] {
    match isolation {
        Isolation::ReadCommitted => &[Primary, Secondary, Unique, NoIndex, Backward, LastCommit],
        _ => &[Primary, Secondary, Unique, NoIndex, Backward],
    }
}

/// The rows to which a statement applies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Which {
    Id(u32),
    Value(u32),
    MultiplesOf(u32),
    All,
}

impl Which {
    fn wants(self, (id, value): (u32, u32)) -> bool {
        match self {
            Self::Id(of) => id == of,
            Self::Value(of) => value == of,
            Self::MultiplesOf(of) => value % of == 0,
            Self::All => true,
        }
    }
}

/// A statement of one transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Statement {
    /// A plain read.
    Read(Which),
    /// A read with an exclusive lock, or with a shared one.
    Lock(Which, bool),
    Set(u32, u32),
    Add(Which, u32),
    Delete(Which),
    Insert(u32, u32),
    /// Starts a server's statement, which consists of several of these.
    Begin,
    Commit,
    Rollback,
}

/// The result of a statement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Number of rows written; 1 for the end of a transaction.
    Done(usize),
    Rows(Vec<(u32, u32)>),
    Conflict,
    Deadlock,
    /// The transaction had ended before.
    Over,
}

fn name(id: u32) -> String {
    format!("n{id}")
}

fn row(id: u32, value: u32) -> String {
    format!("{},{value:04}", name(id))
}

fn key(id: u32) -> Vec<u8> {
    id.to_string().into_bytes()
}

fn number(bytes: &[u8]) -> u32 {
    std::str::from_utf8(bytes).unwrap().parse().unwrap()
}

fn value_of(row: &[u8]) -> u32 {
    number(row.split(|byte| *byte == b',').nth(1).unwrap())
}

fn extracted(value: u32) -> Vec<u8> {
    format!("{value:04}").into_bytes()
}

fn index(part: usize, name: &str) -> IndexSpec {
    IndexSpec::new(name, move |_, row, out| {
        out.extend_from_slice(row.split(|byte| *byte == b',').nth(part).unwrap());
        Ok(true)
    })
}

/// Opens or creates the table for a way.
pub fn open(db: &Db, way: Way) -> Table {
    let indexes = [index(0, "name"), index(1, "value")];
    let spec = match way {
        Primary | NoIndex | Backward | LastCommit => TableSpec::new("test"),
        Secondary => indexes.into_iter().fold(TableSpec::new("test"), TableSpec::index),
        Unique => {
            let unique = indexes.map(IndexSpec::unique);
            unique.into_iter().fold(TableSpec::new("test"), TableSpec::index)
        }
    };
    db.table(spec).unwrap()
}

/// Inserts row 1 with value 10 and row 2 with value 20, the start of each case.
pub fn fill(db: &Db, table: &Table) {
    db.transact(|txn| {
        [(1, 10), (2, 20)]
            .into_iter()
            .try_for_each(|(id, value)| table.insert(txn, key(id), row(id, value).as_bytes()))
    })
    .unwrap();
}

/// One session, with one transaction.
pub struct Session {
    pub table: Table,
    pub way: Way,
    pub txn: Option<Txn>,
}

impl Session {
    pub fn say(&mut self, statement: Statement) -> Answer {
        match self.carry_out(statement) {
            Ok(answer) => answer,
            Err(Error::Conflict { .. }) => Answer::Conflict,
            Err(Error::Deadlock { .. }) => Answer::Deadlock,
            Err(Error::TxnEnded) => Answer::Over,
            Err(error) => panic!("{statement:?}: {error}"),
        }
    }

    fn carry_out(&mut self, statement: Statement) -> Result<Answer> {
        let txn = self.txn.as_ref().expect("a session has one transaction");
        let lock = |alone| if alone { RowLock::Exclusive } else { RowLock::Shared };
        let found = match statement {
            Statement::Begin => return txn.statement().begin().map(|()| Answer::Done(1)),
            Statement::Commit => {
                let txn = self.txn.take().expect("asked for above");
                return txn.commit().map(|_| Answer::Done(1));
            }
            Statement::Rollback => {
                drop(self.txn.take());
                return Ok(Answer::Done(1));
            }
            Statement::Read(which) => return self.find(txn, which, None).map(Answer::Rows),
            Statement::Lock(which, alone) => {
                return self.find(txn, which, Some(lock(alone))).map(Answer::Rows);
            }
            Statement::Insert(id, value) => {
                self.table.insert(txn, key(id), row(id, value).as_bytes())?;
                return Ok(Answer::Done(1));
            }
            Statement::Set(id, _) => self.find_to_update(txn, Which::Id(id))?,
            Statement::Add(which, _) => self.find_to_update(txn, which)?,
            Statement::Delete(which) => self.find(txn, which, Some(RowLock::Exclusive))?,
        };
        // From the last row on, so that no row gets a unique value that the next one is about to
        // give up.
        for &(id, before) in found.iter().rev() {
            let changed = match statement {
                Statement::Set(_, value) => self.put(txn, id, value)?,
                Statement::Add(_, more) => self.put(txn, id, before + more)?,
                _ => self.table.delete(txn, key(id))?,
            };
            assert!(changed, "what is locked is there");
        }
        Ok(Answer::Done(found.len()))
    }

    fn put(&self, txn: &Txn, id: u32, value: u32) -> Result<bool> {
        self.table.update(txn, key(id), row(id, value).as_bytes())
    }

    /// Ids and values, in the order in which the way finds them.
    fn find(&self, txn: &Txn, which: Which, lock: Option<RowLock>) -> Result<Vec<(u32, u32)>> {
        let mut rows = match (self.way, which) {
            (Primary, Which::Id(id)) => {
                let options = ReadOptions::new().lock(lock);
                let row = self.table.get_with(txn, key(id), &options)?.into_value();
                row.into_iter().map(|row| (id, value_of(&row))).collect()
            }
            (Primary, _) => self.walk(txn, Some(b"0".as_slice()..b":".as_slice()), lock)?,
            (NoIndex | Backward | LastCommit, _) => self.walk(txn, None, lock)?,
            (Secondary | Unique, Which::Id(id)) => {
                self.by_index(txn, "name", Some(name(id).as_bytes()), lock)?
            }
            (Secondary | Unique, Which::Value(value)) => {
                self.by_index(txn, "value", Some(&extracted(value)), lock)?
            }
            (Secondary | Unique, _) => self.by_index(txn, "value", None, lock)?,
        };
        rows.retain(|row| which.wants(*row));
        Ok(rows)
    }

    /// Finds and locks the rows that an update changes.
    fn find_to_update(&self, txn: &Txn, which: Which) -> Result<Vec<(u32, u32)>> {
        if self.way != LastCommit {
            return self.find(txn, which, Some(RowLock::Exclusive));
        }
        let pair = |(key, row): (&[u8], &[u8])| (number(key), value_of(row));
        let options = ReadOptions::new().lock(RowLock::Exclusive);
        let options = options.if_locked(IfLocked::SemiConsistent);
        let mut cursor = self.table.scan_with(txn, .., &options)?;
        let mut rows = Vec::new();
        while let Some(seen) = cursor.next()?.map(pair) {
            let was_locked = cursor.is_locked();
            let found = match which.wants(seen) {
                true if !was_locked => {
                    cursor.relock(None)?.map(pair).filter(|row| which.wants(*row))
                }
                wants => wants.then_some(seen),
            };
            match found {
                Some(row) => rows.push(row),
                None if cursor.is_locked() => txn.control().unlock_last()?,
                None => {}
            }
        }
        Ok(rows)
    }

    fn walk(
        &self,
        txn: &Txn,
        range: Option<Range<&[u8]>>,
        lock: Option<RowLock>,
    ) -> Result<Vec<(u32, u32)>> {
        let options = ReadOptions::new().lock(lock);
        let mut cursor = match range {
            None => self.table.scan_with(txn, .., &options)?,
            Some(range) => self.table.scan_with(txn, range, &options)?,
        };
        let mut rows = Vec::new();
        let is_backward = self.way == Backward;
        if is_backward {
            cursor.seek_last();
        }
        while let Some((key, row)) = if is_backward { cursor.prev()? } else { cursor.next()? } {
            rows.push((number(key), value_of(row)));
        }
        if is_backward {
            rows.reverse();
        }
        Ok(rows)
    }

    fn by_index(
        &self,
        txn: &Txn,
        name: &str,
        wanted: Option<&[u8]>,
        lock: Option<RowLock>,
    ) -> Result<Vec<(u32, u32)>> {
        let index = self.table.index(name)?;
        let options = ReadOptions::new().lock(lock);
        let pair = |key: &[u8], row: &[u8]| (number(key), value_of(row));
        if let (Unique, Some(wanted)) = (self.way, wanted) {
            let found = index.get_with(txn, wanted, &options)?;
            return Ok(found.iter().map(|(key, row)| pair(key, row)).collect());
        }
        let range = (
            wanted.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Included),
            wanted.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Included),
        );
        let mut scan = index.scan_with(txn, range, &options)?;
        let mut rows = Vec::new();
        while let Some(found) = scan.next()? {
            rows.push(pair(found.key, found.row));
        }
        Ok(rows)
    }
}

/// All current rows, by the table and by its indexes, which must be in step.
pub fn rows(db: &Db, table: &Table, way: Way) -> Vec<(u32, u32)> {
    let txn = db.begin(frond::TxnOptions::default()).unwrap();
    assert_eq!(txn.control().isolation(), Isolation::Snapshot);
    let mut session = Session { table: table.clone(), way: NoIndex, txn: Some(txn) };
    let Answer::Rows(found) = session.say(Statement::Read(Which::All)) else { unreachable!() };
    session.way = way;
    let Answer::Rows(mut by_way) = session.say(Statement::Read(Which::All)) else { unreachable!() };
    by_way.sort_unstable();
    assert_eq!(by_way, found, "{way:?}");
    found
}
