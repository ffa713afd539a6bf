//! Memory of a server without that of its engine, measured on the empty one before its cell, by statements on a BLACKHOLE table:
//! long ones of a few clients that load, then those of many that ask.

use super::insert::InsertText;
use super::session::Session;
use crate::targets::{Failure, Result};

/// Clients that load.
const LOADERS: u64 = 4;
/// Clients that ask.
const CLIENTS: u64 = 8;
/// Rows of a statement, each of so many columns and bytes: a MiB of text, as the longest of the loads.
const ROWS: u64 = 1_000;
const COLUMNS: usize = 11;
const COLUMN_BYTES: usize = 95;
/// Statements that a client prepares.
const PREPARED: usize = 20;

/// Bytes of a server that are not its engine's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Own {
    /// With any number of connections.
    pub fixed_b: u64,
    /// For each of them.
    pub connection_b: u64,
}

impl Own {
    /// With so many connections.
    pub fn of(self, connections: u64) -> u64 {
        self.fixed_b + connections * self.connection_b
    }

    /// Measures it; `rss` is the server's resident size now.
    ///
    /// # Errors
    /// The server's.
    pub fn measure(
        connect: &(dyn Fn() -> Result<Session> + Sync),
        rss: impl Fn() -> u64,
    ) -> Result<Self> {
        let columns: Vec<String> = (0..COLUMNS).map(|n| format!("c{n} VARCHAR(100)")).collect();
        let mut session = connect()?;
        let table = format!("CREATE TABLE lab_own({}) ENGINE=BLACKHOLE", columns.join(","));
        session.run(&table)?;
        let mut statement = InsertText::new("INSERT INTO lab_own VALUES");
        let value = "x".repeat(COLUMN_BYTES);
        for _ in 0..ROWS {
            (0..COLUMNS).fold(statement.row(), |row, _| row.simple(&value));
        }
        statement.close("");
        let text = statement.text();
        let before = rss();
        let loaders = at_once(LOADERS, connect, |session| load(session, text))?;
        let loaded = rss();
        let clients = at_once(CLIENTS, connect, ask)?;
        let asked = rss();
        drop((loaders, clients));
        session.run("DROP TABLE lab_own")?;
        let fixed_b = loaded.saturating_sub(before);
        Ok(Self { fixed_b, connection_b: asked.saturating_sub(loaded) / CLIENTS })
    }
}

/// Has so many clients work at the same time; gives their connections, which are still there.
fn at_once(
    clients: u64,
    connect: &(dyn Fn() -> Result<Session> + Sync),
    work: impl Fn(&mut Session) -> Result<()> + Sync,
) -> Result<Vec<Session>> {
    std::thread::scope(|scope| {
        let client = || -> Result<Session> {
            let mut session = connect()?;
            work(&mut session)?;
            Ok(session)
        };
        let clients: Vec<_> = (0..clients).map(|_| scope.spawn(client)).collect();
        let panicked = |_| Err(Failure("a client panicked".to_owned()));
        let sessions = clients.into_iter().map(|client| client.join().unwrap_or_else(panicked));
        sessions.collect()
    })
}

/// A client that loads: long statements; and sorts and temporary tables of more than their buffers.
fn load(session: &mut Session, insert: &str) -> Result<()> {
    session.run(insert)?;
    session.run("SELECT MAX(x) FROM (SELECT MD5(seq) x FROM seq_1_to_20000 ORDER BY x) sorted")?;
    session.run(
        "SELECT COUNT(*) FROM (SELECT MD5(seq) x, COUNT(*) FROM seq_1_to_5000 GROUP BY x) grouped",
    )?;
    Ok(())
}

/// A client that asks: prepared statements, and a small sort.
fn ask(session: &mut Session) -> Result<()> {
    for _ in 0..PREPARED {
        let select =
            session.prepare("SELECT * FROM lab_own WHERE c0=? AND c1>? ORDER BY c2 LIMIT 10")?;
        session.skim(&select, ("x", "y"))?;
    }
    session.run("SELECT MD5(seq) x FROM seq_1_to_100 ORDER BY x")?;
    Ok(())
}
