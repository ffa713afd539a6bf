//! A client of sysbench's tests: its prepared statements, random numbers and events.
//!
//! Invariants
//! 1. A retry of an event repeats the same event: the random generator is restored to its state at
//!    the start of the event.
//! 2. The rows that an event added and changed are counted only after it is committed.
//! 3. The test `delete` ends when it has deleted as many rows as it may.

use std::fmt::Write;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use mysql::Value;

use super::ids::Ids;
use super::statements::{DELTA, KINDS, Kind, LIST, RANGE, Test};
use crate::lab::sql::{Session, SqlResult, Statement, Worker};
use crate::lab::workloads::sbtest::{Fill, INNODB_ROW_BYTES, ROW_BYTES};
use crate::random::{Purpose, Random};
use crate::targets::{Failure, Result};

/// The tables, and the state that all clients share.
pub struct Tables {
    /// Names of the tables.
    pub names: Vec<String>,
    /// Number of rows loaded into each table.
    pub rows: u64,
    /// Name of the distribution of ids.
    pub distribution: String,
    /// Content of the rows that statements write.
    pub fill: Fill,
    seed: u64,
    /// Number of rows that events have added, minus those that they removed, in all tables
    /// together.
    grown: AtomicI64,
    /// Number of rows that the test `delete` has deleted, and the number at which its step ends.
    deleted: AtomicU64,
    deleted_max: AtomicU64,
    /// Random generators of the clients. Each continues where the previous step left it, so that
    /// nothing repeats.
    randoms: Vec<Mutex<Random>>,
}

impl Tables {
    /// Makes `count` tables `NAME1`, `NAME2`, …, or the single table `NAME` if `count` is 0.
    pub fn new(name: &str, count: u64, rows: u64, distribution: &str, seed: u64) -> Self {
        let names = match count {
            0 => vec![name.to_owned()],
            _ => (1..=count).map(|number| format!("{name}{number}")).collect(),
        };
        let (distribution, grown) = (distribution.to_owned(), AtomicI64::new(0));
        let (deleted, deleted_max) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
        let (fill, randoms) = (Fill::Digits, Vec::new());
        Self { names, rows, distribution, fill, seed, grown, deleted, deleted_max, randoms }
    }

    /// Makes the random generators of this many clients.
    pub fn with_clients(mut self, clients: u64) -> Self {
        let stream = |client| Random::stream(self.seed, "sysbench", 0, client, Purpose::Choice);
        self.randoms = (0..clients).map(|client| Mutex::new(stream(client))).collect();
        self
    }

    /// Records that a load ended after this many rows of all tables, perhaps before its end.
    pub fn note_loaded(&self, rows: u64) {
        self.grown.store(rows as i64 - self.all_rows() as i64, Ordering::Relaxed);
    }

    /// Number of rows that are to be loaded into all tables.
    pub fn all_rows(&self) -> u64 {
        self.rows * self.names.len() as u64
    }

    /// Number of rows that the test `delete` has deleted.
    pub fn deleted(&self) -> u64 {
        self.deleted.load(Ordering::Relaxed)
    }

    /// Allows the next step to delete this many more rows. Returns the number deleted before.
    pub fn allow_deletes(&self, more: f64) -> u64 {
        let before = self.deleted();
        self.deleted_max.store(before + (more as u64).max(1), Ordering::Relaxed);
        before
    }

    /// Number of rows in all tables now.
    pub fn rows_now(&self) -> u64 {
        self.all_rows().saturating_add_signed(self.grown.load(Ordering::Relaxed))
    }

    /// Bytes that plain InnoDB needs for the tables.
    pub fn innodb_bytes(&self) -> u64 {
        self.all_rows() * INNODB_ROW_BYTES
    }

    /// Counts what an event of a test has done, once it is committed. Returns whether the test
    /// `delete` has now deleted as many rows as it may.
    pub(super) fn note(&self, test: Test, effect: Effect) -> bool {
        if effect.grown != 0 {
            self.grown.fetch_add(effect.grown, Ordering::Relaxed);
        }
        if test != Test::Delete {
            return false;
        }
        let deleted = self.deleted.fetch_add(effect.changed, Ordering::Relaxed) + effect.changed;
        deleted >= self.deleted_max.load(Ordering::Relaxed)
    }

    pub(super) fn random(&self, client: u64) -> Result<MutexGuard<'_, Random>> {
        let random = self.randoms.get(client as usize);
        let random = random.ok_or_else(|| Failure(format!("sysbench: no client {client}")))?;
        Ok(random.lock().unwrap_or_else(|e| e.into_inner()))
    }
}

/// Effect of statements on the tables: by how many rows they have grown, and how many rows were
/// written or deleted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Effect {
    pub(super) grown: i64,
    pub(super) changed: u64,
}

/// A client with the statements that it has prepared for a test.
pub struct Client<'t> {
    tables: &'t Tables,
    test: Test,
    begin: Option<Statement>,
    commit: Option<Statement>,
    statements: Vec<[Option<Statement>; KINDS]>,
    ids: Ids,
    /// Start of the client's own range of the values that `random_points` and `random_ranges` look
    /// for, and the distribution within it.
    part: (u64, Ids),
    c: String,
    pad: String,
    text: String,
}

impl<'t> Client<'t> {
    /// Prepares the statements of a test.
    ///
    /// # Errors
    /// The server reports an error.
    pub fn new(
        tables: &'t Tables,
        test: Test,
        (index, clients): (u64, u64),
        session: &mut Session,
    ) -> Result<Self> {
        let prepare = |session: &mut Session, text: &str| session.prepare(text).map(Some);
        let (mut begin, mut commit) = (None, None);
        if test.is_transaction() {
            begin = prepare(session, "BEGIN")?;
            commit = prepare(session, "COMMIT")?;
        }
        let mut statements = Vec::new();
        for table in &tables.names {
            let mut of_table = [const { None }; KINDS];
            for kind in test.kinds() {
                of_table[kind as usize] = prepare(session, &kind.text(table))?;
            }
            statements.push(of_table);
        }
        let length = tables.rows / clients.max(1);
        Ok(Self {
            tables,
            test,
            begin,
            commit,
            statements,
            ids: Ids::new(&tables.distribution, tables.rows),
            part: (length * index, Ids::new(&tables.distribution, length + 1)),
            c: String::new(),
            pad: String::new(),
            text: String::new(),
        })
    }

    /// Runs events until the step ends or `count` of them are done.
    ///
    /// # Errors
    /// The server reports an error other than a deadlock or lock timeout.
    pub fn run(&mut self, worker: &mut Worker<'_>, count: Option<u64>) -> Result<()> {
        let tables = self.tables;
        let mut random = tables.random(worker.index)?;
        let name = self.test.name();
        let mut left = count.unwrap_or(u64::MAX);
        while left > 0 && worker.go_on() {
            let (begin, mut effect) = (random.clone(), Effect::default());
            worker.request(name, 1, |session| {
                effect = Effect::default();
                random.clone_from(&begin); // Invariant 1
                effect = self.event(session, &mut random)?;
                Ok(())
            })?;
            // Invariant 2
            worker.changed(effect.changed * ROW_BYTES);
            if tables.note(self.test, effect) {
                worker.stop(); // Invariant 3
            }
            left -= 1;
        }
        Ok(())
    }

    /// Runs one event.
    fn event(&mut self, session: &mut Session, random: &mut Random) -> SqlResult<Effect> {
        if self.test == Test::Insert {
            return self.insert_as_text(session, random);
        }
        let mut all = Effect::default();
        if let Some(begin) = &self.begin {
            session.execute(begin, ())?;
        }
        for &(kind, times) in self.test.groups() {
            let table = random.below(self.tables.names.len() as u64) as usize;
            for _ in 0..times {
                let effect = self.statement(session, random, table, kind)?;
                all.grown += effect.grown;
                all.changed += effect.changed;
            }
        }
        if let Some(commit) = &self.commit {
            session.execute(commit, ())?;
        }
        Ok(all)
    }

    fn statement(
        &mut self,
        session: &mut Session,
        random: &mut Random,
        table: usize,
        kind: Kind,
    ) -> SqlResult<Effect> {
        let prepared = |kind: Kind| -> Result<&Statement> {
            let found = self.statements[table][kind as usize].as_ref();
            found.ok_or_else(|| Failure(format!("sysbench: {kind:?} is not prepared")))
        };
        let (statement, ids) = (prepared(kind)?, &self.ids);
        let mut id = || ids.draw(random) + 1;
        match kind {
            Kind::Point => session.skim(statement, (id(),))?,
            Kind::Range | Kind::Sum | Kind::Order | Kind::Distinct => {
                let first = id();
                session.skim(statement, (first, first + RANGE - 1))?
            }
            Kind::UpdateIndex => {
                let changed = session.execute(statement, (id(),))?;
                return Ok(Effect { grown: 0, changed });
            }
            Kind::UpdateNonIndex => {
                self.tables.fill.write(random, 0, &mut self.c);
                let id = ids.draw(random) + 1;
                let changed = session.execute(statement, (self.c.as_bytes(), id))?;
                return Ok(Effect { grown: 0, changed });
            }
            Kind::Delete => {
                let id = id();
                let deleted = session.execute(statement, (id,))?;
                if self.test == Test::Delete {
                    return Ok(Effect { grown: -(deleted as i64), changed: deleted });
                }
                let insert = prepared(Kind::Insert)?;
                let k = ids.draw(random) + 1;
                self.tables.fill.write(random, 0, &mut self.c);
                self.tables.fill.write(random, 1, &mut self.pad);
                let row = (id, k, self.c.as_bytes(), self.pad.as_bytes());
                let inserted = session.execute(insert, row)?;
                let grown = inserted as i64 - deleted as i64;
                return Ok(Effect { grown, changed: inserted + deleted });
            }
            Kind::Insert => 0, // belongs to the DELETE
            Kind::Points | Kind::Ranges => {
                let (from, of_part) = (self.part.0, &self.part.1);
                let mut values = Vec::with_capacity(2 * LIST);
                for _ in 0..LIST {
                    let value = from + of_part.draw(random);
                    values.push(Value::UInt(value));
                    if kind == Kind::Ranges {
                        values.push(Value::UInt(value + DELTA));
                    }
                }
                session.skim(statement, values)?
            }
        };
        Ok(Effect::default())
    }

    /// Runs an event of the test `insert`, which prepares nothing: the text contains the values,
    /// and 0 for the id, which the server assigns.
    fn insert_as_text(&mut self, session: &mut Session, random: &mut Random) -> SqlResult<Effect> {
        let table = &self.tables.names[random.below(self.tables.names.len() as u64) as usize];
        let k = self.ids.draw(random) + 1;
        self.tables.fill.write(random, 0, &mut self.c);
        self.tables.fill.write(random, 1, &mut self.pad);
        self.text.clear();
        let (c, pad) = (&self.c, &self.pad);
        let written = write!(
            self.text,
            "INSERT INTO {table} (id, k, c, pad) VALUES (0, {k}, '{c}', '{pad}')"
        );
        debug_assert!(written.is_ok(), "a string takes all that is written");
        let changed = session.run(&self.text)?;
        Ok(Effect { grown: changed as i64, changed })
    }
}
