//! Engines of a MariaDB server as targets: the real table with its indexes in a server that runs for the bench alone.
//!
//! Invariants
//! 1. Every engine gets the same statements from the same client, with the memory and the durability of the run.
//! 2. Rows are stored as columns; reading gives them back in the lab's encoding, so that checksums agree.
//! 3. The server listens on a socket in a directory of its own, no other way, and ends with this process.
//!
//! Threads: one connection per session.

mod client;
pub mod engine;
pub mod server;
mod statements;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::registry::{Engine, Pages};
use super::{Counter, Direction, Failure, Result, Session, Setup, Target, Visit};
use crate::schema::{EncodedRow, Keyspace, Table, Value};
use client::Client;
use engine::Settings;
use server::Server;
use statements::{Dialect, Insert};

/// Fails, naming the package or the target of the Makefile, where the server or the engine is missing.
pub fn available(engine: Engine) -> Result<()> {
    server::installed()?;
    engine.plugin().map(drop)
}

/// A server with one engine under test.
pub struct Sql {
    engine: Engine,
    dialect: Dialect,
    table: Table,
    server: Server,
    version: String,
    settings: Vec<(String, String)>,
}

/// Longest time in which what is written in the background is waited for.
const SETTLE_MAX: Duration = Duration::from_secs(900);

/// The database, and its directory.
const DATABASE: &str = "lab";

impl Sql {
    /// A target beside embedded stores: the same columns, and nothing is measured but sizes.
    pub fn beside_embedded(setup: &Setup, pages: Pages) -> Result<Self> {
        Self::open(setup, Engine::Innodb(pages), Dialect::AsGiven)
    }

    /// A target beside other engines of a server.
    pub fn beside_sql(setup: &Setup, engine: Engine) -> Result<Self> {
        Self::open(setup, engine, Dialect::Published)
    }

    /// Starts a server on an empty directory, and creates the table.
    fn open(setup: &Setup, engine: Engine, dialect: Dialect) -> Result<Self> {
        let own = Settings::read()?;
        if setup.table.is_raw() {
            return Err(Failure(format!("{} takes rows with columns, no plain keys", engine)));
        }
        let options = engine.options(&own, setup);
        let plugins: Vec<_> = engine.plugin()?.into_iter().collect();
        let server = Server::start(&setup.dir, &options, &plugins)?;
        let mut client = server.client("")?;
        client.run(&format!("CREATE DATABASE {DATABASE}"))?;
        client.run(&format!("USE {DATABASE}"))?;
        let table_options = engine.table_options();
        client.run(&statements::create_table(
            dialect,
            &setup.table,
            &table_options,
            own.key_text_chars,
        ))?;
        // The server may take another engine for one that it does not have.
        let made = client.value(&format!(
            "SELECT ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA='{DATABASE}'"
        ))?;
        if !table_options.to_lowercase().contains(&format!("={}", made.to_lowercase())) {
            return Err(Failure(format!("the table was made with {made}, not {table_options}")));
        }
        let version = client.value("SELECT VERSION()")?;
        let mut pairs = vec![("table".to_owned(), table_options)];
        pairs.extend(options.into_iter().map(|(name, value)| (name.to_owned(), value)));
        let version = format!("{} of MariaDB {version}", engine);
        Ok(Self { engine, dialect, table: setup.table.clone(), server, version, settings: pairs })
    }
}

/// Numbers that SHOW GLOBAL STATUS has under names like this.
fn status(client: &mut Client, like: &str) -> Result<Vec<Counter>> {
    let mut all = Vec::new();
    client.query(&format!("SHOW GLOBAL STATUS LIKE '{like}'"), &mut |row| {
        let text = |at: usize| row.get(at).copied().flatten().map(String::from_utf8_lossy);
        if let (Some(name), Some(Ok(value))) = (text(0), text(1).map(|text| text.parse())) {
            all.push((name.into_owned(), value));
        }
        true
    })?;
    Ok(all)
}

/// Waits until InnoDB has purged and written all.
fn flush_innodb(client: &mut Client) -> Result<()> {
    client.run("SET GLOBAL innodb_max_purge_lag_wait = 0")?;
    client.run("SET GLOBAL innodb_max_dirty_pages_pct_lwm = 0")?;
    client.run("SET GLOBAL innodb_max_dirty_pages_pct = 0")?;
    let begin = Instant::now();
    while begin.elapsed() < SETTLE_MAX {
        let waiting = [
            status(client, "Innodb_buffer_pool_pages_dirty")?,
            status(client, "Innodb_history_list_length")?,
        ];
        if waiting.iter().flatten().all(|(_, waiting)| *waiting == 0.0) {
            break;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    Ok(())
}

impl Target for Sql {
    fn version(&self) -> String {
        self.version.clone()
    }

    fn settings(&self) -> Vec<(String, String)> {
        self.settings.clone()
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        let client = self.server.client(DATABASE)?;
        let insert = Insert::new(self.dialect, &self.table);
        Ok(Box::new(SqlSession { target: self, client, insert }))
    }

    /// Writes out what is in memory, and purges what deletes and updates left.
    fn settle(&self) -> Result<()> {
        let mut client = self.server.client(DATABASE)?;
        match self.engine {
            Engine::Blackhole => Ok(()),
            Engine::Frond => client.run("FLUSH ENGINE LOGS"), // a checkpoint
            Engine::Innodb(_) => flush_innodb(&mut client),
            Engine::MyRocks => client.run("SET GLOBAL rocksdb_force_flush_memtable_now = 1"),
        }
    }

    fn keeps_rows(&self) -> bool {
        self.engine != Engine::Blackhole
    }

    fn counted_dir(&self, _: &Path) -> PathBuf {
        self.engine.files(self.server.data_dir(), DATABASE)
    }

    fn is_outside(&self) -> bool {
        self.dialect == Dialect::AsGiven
    }

    fn server(&self) -> Option<u32> {
        (self.dialect == Dialect::Published).then(|| self.server.pid())
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.server.stop()
    }
}

struct SqlSession<'a> {
    target: &'a Sql,
    client: Client,
    /// Rows of the commit to come, as one statement.
    insert: Insert,
}

const NO_PLAIN_KEYS: &str = "a server takes rows with columns only";

impl Session for SqlSession<'_> {
    fn put(&mut self, _: Keyspace, _: &[u8], _: &[u8]) -> Result<()> {
        Err(Failure(NO_PLAIN_KEYS.to_owned()))
    }

    fn delete(&mut self, _: Keyspace, _: &[u8]) -> Result<()> {
        Err(Failure(NO_PLAIN_KEYS.to_owned()))
    }

    fn get(&mut self, _: Keyspace, _: &[u8], _: &mut Vec<u8>) -> Result<bool> {
        Err(Failure(NO_PLAIN_KEYS.to_owned()))
    }

    fn scan(&mut self, _: Keyspace, _: Option<&[u8]>, _: Direction, _: Visit<'_>) -> Result<()> {
        Err(Failure(NO_PLAIN_KEYS.to_owned()))
    }

    fn insert_row(&mut self, _: &Table, row: &[Value<'_>], _: &EncodedRow) -> Result<()> {
        self.insert.push(row);
        Ok(())
    }

    /// One statement is one transaction.
    fn commit(&mut self) -> Result<()> {
        let done = self.insert.statement().map_or(Ok(()), |sql| self.client.run(sql));
        self.insert.clear();
        done
    }

    fn range(
        &mut self,
        _: &Table,
        keyspace: Keyspace,
        from: &[Value<'_>],
        _: &[u8],
        limit: u64,
        visit: Visit<'_>,
    ) -> Result<()> {
        let table = &self.target.table;
        let query = statements::range(self.target.dialect, table, keyspace, from, limit);
        let (mut key, mut value) = (Vec::new(), Vec::new());
        let mut wrong = None;
        self.client.query(&query, &mut |row| match statements::encode(
            table, keyspace, row, &mut key, &mut value,
        ) {
            Ok(()) => visit(&key, &value),
            Err(failure) => {
                wrong = Some(failure);
                false
            }
        })?;
        wrong.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Checksum, Column, Index, Type};
    use crate::size::Bytes;
    use crate::targets::Durability;

    fn setup(dir: &Path) -> Setup {
        let column = |name, kind| Column { name, kind };
        let table = Table {
            name: "t",
            columns: vec![
                column("id", Type::I32),
                column("price", Type::F32),
                column("at", Type::Millis),
                column("note", Type::Text),
            ],
            primary: vec![0],
            indexes: vec![Index { name: "by_price", columns: vec![1, 2] }],
        };
        Setup {
            dir: dir.to_owned(),
            memory: Bytes::mebi(16),
            write_buffer: None,
            durability: Durability::Lazy,
            table,
            unique: false,
            transactions: false,
        }
    }

    /// Rows and index entries come back as they were given, the bytes on disk are the engine's, the process that is
    /// measured is the server, and nothing is left behind.
    fn keeps_rows(engine: Engine, dialect: Dialect) {
        if let Err(missing) = available(engine) {
            eprintln!("not tested: {missing}");
            return;
        }
        let dir = tempfile::tempdir().expect("a directory");
        let setup = setup(dir.path());
        let target = Box::new(Sql::open(&setup, engine, dialect).expect("a server"));
        let (table, mut expected) = (&setup.table, vec![Checksum::default(); 2]);
        let mut session = target.session().expect("a session");
        for id in 1..=700 {
            let note = format!("it's {id} \\ \t\n é\0");
            let at = 1_306_886_400_000 + id as u64 / 100 * 1000;
            let price = Value::F32(id as f32 / 7.0);
            let row = [Value::I32(id), price, Value::Millis(at), Value::Text(&note)];
            let mut encoded = EncodedRow::default();
            encoded.encode(table, &row);
            encoded.add_to(&mut expected);
            session.insert_row(table, &row, &encoded).expect("a row");
            if id % 100 == 0 {
                session.commit().expect("a commit");
            }
        }
        for (keyspace, expected) in expected.iter().enumerate() {
            let mut sum = Checksum::default();
            let all = session.range(table, keyspace, &[], &[], u64::MAX, &mut |key, value| {
                sum.add(key, value);
                true
            });
            all.expect("all rows");
            assert_eq!(sum, *expected, "keyspace {keyspace}");
        }
        assert!(session.put(0, b"k", b"v").is_err());
        drop(session);
        target.settle().expect("settled");
        assert_eq!(target.server(), (!target.is_outside()).then(|| target.server.pid()));
        let counted = target.counted_dir(dir.path());
        let run_dir = target.server.run_dir().to_owned();
        target.close().expect("closed");
        assert!(crate::measure::allocated_bytes(&counted) > 8192, "{}", counted.display());
        assert!(!run_dir.exists());
    }

    #[test]
    fn innodb_beside_embedded_stores() {
        keeps_rows(Engine::Innodb(Pages::Compressed(8)), Dialect::AsGiven);
    }

    #[test]
    fn innodb_in_sql() {
        keeps_rows(Engine::Innodb(Pages::Dynamic), Dialect::Published);
    }

    #[test]
    fn frond_in_sql() {
        keeps_rows(Engine::Frond, Dialect::Published);
    }

    #[test]
    fn myrocks_in_sql() {
        keeps_rows(Engine::MyRocks, Dialect::Published);
    }

    #[test]
    fn each_durability_is_an_option_of_the_engine() {
        let own = Settings::read().expect("settings");
        let dir = tempfile::tempdir().expect("a directory");
        let option = |engine: Engine, durability, name: &str| {
            let setup = Setup { durability, ..setup(dir.path()) };
            let options = engine.options(&own, &setup);
            options.into_iter().find(|(option, _)| *option == name).map(|(_, value)| value)
        };
        let engines = [
            (Engine::Innodb(Pages::Dynamic), "innodb-flush-log-at-trx-commit", ["1", "2", "0"]),
            (Engine::MyRocks, "rocksdb-flush-log-at-trx-commit", ["1", "2", "0"]),
            (Engine::Frond, "frond-durability", ["sync", "os", "lazy"]),
        ];
        for (engine, name, values) in engines {
            let classes = [Durability::Sync, Durability::Os, Durability::Lazy];
            for (durability, value) in classes.into_iter().zip(values) {
                assert_eq!(option(engine, durability, name).as_deref(), Some(value), "{engine:?}");
            }
        }
        let memory = [
            (Engine::Innodb(Pages::Compressed(4)), "innodb-buffer-pool-size"),
            (Engine::Frond, "frond-cache-size"),
        ];
        for (engine, name) in memory {
            let bytes = Bytes::mebi(16).0.to_string();
            assert_eq!(option(engine, Durability::Lazy, name), Some(bytes));
        }
        let part = |name| option(Engine::MyRocks, Durability::Lazy, name);
        let parts = ["rocksdb-block-cache-size", "rocksdb-db-write-buffer-size"].map(part);
        let sum: u64 = parts.iter().flatten().filter_map(|part| part.parse::<u64>().ok()).sum();
        assert_eq!(sum, Bytes::mebi(16).0, "the memtables are within the memory");
    }
}
