//! InnoDB as a target: the real table with its indexes in a MariaDB server that runs for the bench alone.
//!
//! It takes the data sets of `sizes`: rows with columns. What is counted as its size is the table's file; the
//! server's own tables, logs and temporary files are not. The server is a process of its own, so that CPU,
//! memory and writes of it are not measured.
//!
//! Invariants
//! 1. Rows are stored as columns; reading gives them back in the lab's encoding, so that checksums agree.
//! 2. The server listens on a socket in a directory of its own, no other way, and ends with this process.
//!
//! Threads: one client process per session.

mod client;
mod server;
mod sql;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::{Direction, Durability, Failure, Result, Session, Setup, Target, Visit, settings};
use crate::schema::{EncodedRow, Keyspace, Table, Value};
use client::Client;
use server::Server;

pub use server::installed;

const SETTINGS: &str = include_str!("innodb.settings.toml");

/// How InnoDB keeps its pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pages {
    /// ROW_FORMAT=DYNAMIC, pages of 16 KiB as they are.
    Dynamic,
    /// ROW_FORMAT=COMPRESSED with pages of so many KiB.
    Compressed(u8),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    flush_log_sync: u8,
    flush_log_os: u8,
    flush_log_lazy: u8,
    log_file_bytes: u64,
    flush_method: String,
    compression_level: u8,
    character_set: String,
    collation: String,
    key_text_chars: u32,
}

/// InnoDB under test.
pub struct Innodb {
    table: Table,
    server: Server,
    version: String,
    settings: Vec<(String, String)>,
}

/// Longest time in which what is written in the background is waited for.
const SETTLE_MAX: Duration = Duration::from_secs(900);

impl Innodb {
    /// Starts a server on an empty directory, and creates the table.
    pub fn open(setup: &Setup, pages: Pages) -> Result<Self> {
        let own: Settings = settings::parse("innodb.settings.toml", SETTINGS)?;
        if setup.table.is_raw() {
            return Err(Failure("innodb takes the data sets of sizes, no plain keys".to_owned()));
        }
        let flush_log = match setup.durability {
            Durability::Sync => own.flush_log_sync,
            Durability::Os => own.flush_log_os,
            Durability::Lazy => own.flush_log_lazy,
        };
        let options = [
            ("innodb-buffer-pool-size", setup.memory.0.to_string()),
            ("innodb-log-file-size", own.log_file_bytes.to_string()),
            ("innodb-flush-log-at-trx-commit", flush_log.to_string()),
            ("innodb-flush-method", own.flush_method),
            ("innodb-compression-level", own.compression_level.to_string()),
            ("character-set-server", own.character_set),
            ("collation-server", own.collation),
        ];
        let server = Server::start(&setup.dir, &options)?;
        let mut client = server.client("")?;
        client.run(&format!("CREATE DATABASE {DATABASE}"))?;
        client.run(&format!("USE {DATABASE}"))?;
        client.run(&sql::create_table(&setup.table, pages, own.key_text_chars))?;
        let mut version = String::new();
        client.query("SELECT VERSION()", &mut |row| {
            version.push_str(&String::from_utf8_lossy(row));
            false
        })?;
        let mut pairs = settings::pairs(SETTINGS);
        pairs.push(("buffer_pool_bytes".to_owned(), setup.memory.0.to_string()));
        pairs.push(("table".to_owned(), sql::format_of(pages)));
        Ok(Self { table: setup.table.clone(), server, version, settings: pairs })
    }

    /// Whether anything waits to be purged or written.
    fn is_busy(client: &mut Client) -> Result<bool> {
        let mut busy = false;
        let states = "SHOW GLOBAL STATUS WHERE Variable_name IN \
                      ('Innodb_buffer_pool_pages_dirty', 'Innodb_history_list_length')";
        client.query(states, &mut |row| {
            let value = row.split(|&byte| byte == b'\t').nth(1).unwrap_or_default();
            busy |= value != b"0";
            true
        })?;
        Ok(busy)
    }
}

/// The database, and its directory.
const DATABASE: &str = "lab";

impl Target for Innodb {
    fn version(&self) -> String {
        format!("InnoDB of MariaDB {}", self.version)
    }

    fn settings(&self) -> Vec<(String, String)> {
        self.settings.clone()
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        let client = self.server.client(DATABASE)?;
        Ok(Box::new(InnodbSession { table: &self.table, client, insert: String::new() }))
    }

    /// Purges what deletes and updates left, and writes all pages out.
    fn settle(&self) -> Result<()> {
        let mut client = self.server.client(DATABASE)?;
        client.run("SET GLOBAL innodb_max_purge_lag_wait = 0")?;
        client.run("SET GLOBAL innodb_max_dirty_pages_pct_lwm = 0")?;
        client.run("SET GLOBAL innodb_max_dirty_pages_pct = 0")?;
        let begin = Instant::now();
        while Self::is_busy(&mut client)? && begin.elapsed() < SETTLE_MAX {
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(())
    }

    fn counted_dir(&self, _: &Path) -> PathBuf {
        self.server.data_dir().join(DATABASE)
    }

    fn is_outside(&self) -> bool {
        true
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.server.stop()
    }
}

struct InnodbSession<'a> {
    table: &'a Table,
    client: Client,
    /// Rows of the commit to come, as one statement.
    insert: String,
}

const NO_PLAIN_KEYS: &str = "innodb takes rows with columns only";

impl Session for InnodbSession<'_> {
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

    fn insert_row(&mut self, table: &Table, row: &[Value<'_>], _: &EncodedRow) -> Result<()> {
        if self.insert.is_empty() {
            self.insert.push_str(&format!("INSERT INTO {} VALUES", table.name));
        } else {
            self.insert.push(',');
        }
        sql::append_row(row, &mut self.insert);
        Ok(())
    }

    /// One statement is one transaction.
    fn commit(&mut self) -> Result<()> {
        if self.insert.is_empty() {
            return Ok(());
        }
        let done = self.client.run(&self.insert);
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
        let query = sql::range(self.table, keyspace, from, limit);
        let (mut key, mut value) = (Vec::new(), Vec::new());
        let mut wrong = None;
        let table = self.table;
        self.client.query(&query, &mut |row| match sql::encode(
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

    fn setup(dir: &Path) -> Setup {
        let column = |name, kind| Column { name, kind };
        let table = Table {
            name: "t",
            columns: vec![
                column("id", Type::I32),
                column("price", Type::F32),
                column("note", Type::Text),
            ],
            primary: vec![0],
            indexes: vec![Index { name: "by_price", columns: vec![1] }],
        };
        let (dir, durability) = (dir.to_owned(), Durability::Lazy);
        let memory = Bytes::mebi(16);
        Setup {
            dir,
            memory,
            write_buffer: None,
            durability,
            table,
            unique: false,
            transactions: false,
        }
    }

    /// Where MariaDB is installed: rows and index entries as they were given, bytes on disk that are the table's,
    /// and nothing left behind.
    #[test]
    fn rows_come_back_from_a_server_of_its_own() {
        if let Err(missing) = installed() {
            eprintln!("not tested: {missing}");
            return;
        }
        let dir = tempfile::tempdir().expect("a directory");
        let setup = setup(dir.path());
        let target = Box::new(Innodb::open(&setup, Pages::Compressed(8)).expect("a server"));
        let (table, mut expected) = (&setup.table, vec![Checksum::default(); 2]);
        let mut session = target.session().expect("a session");
        for id in 0..700 {
            let note = format!("it's {id} \\ \t\n é\0");
            let row = [Value::I32(id), Value::F32(id as f32 / 7.0), Value::Text(&note)];
            let mut encoded = EncodedRow::default();
            encoded.encode(table, &row);
            encoded.add_to(&mut expected);
            session.insert_row(table, &row, &encoded).expect("a row");
            if id % 100 == 99 {
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
        let counted = target.counted_dir(dir.path());
        let run_dir = target.server.run_dir().to_owned();
        target.close().expect("closed");
        assert!(counted.join("t.ibd").metadata().is_ok_and(|file| file.len() > 0));
        assert!(!run_dir.exists());
    }
}
