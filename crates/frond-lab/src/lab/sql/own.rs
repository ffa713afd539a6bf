//! Measures the memory that a server needs without its engine. Runs statements on a BLACKHOLE table
//! of the empty server before the cell: long statements from a few loading clients, then queries
//! from more clients.

use super::insert::InsertText;
use super::session::Session;
use crate::targets::{Failure, Result};

/// Number of loading clients.
const LOADERS: u64 = 4;
/// Number of querying clients.
const CLIENTS: u64 = 8;
/// Rows, columns, and bytes per column of a load statement: 1 MiB of text, like the longest
/// statements of the workloads' loads.
const ROWS: u64 = 1_000;
const COLUMNS: usize = 11;
const COLUMN_BYTES: usize = 95;
/// Statements that a querying client prepares.
const PREPARED: usize = 20;

/// Memory of a server without its engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Own {
    /// Bytes independent of the number of connections.
    pub fixed_b: u64,
    /// Bytes per connection.
    pub connection_b: u64,
}

impl Own {
    /// Memory with this many connections, bytes.
    pub fn of(self, connections: u64) -> u64 {
        self.fixed_b + connections * self.connection_b
    }

    /// Measures the memory; `rss` returns the current resident size of the server.
    ///
    /// # Errors
    /// Errors of the server.
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

/// Runs `work` on this many clients concurrently; returns their connections, still open.
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

/// Work of a loading client: long statements, and sorts and temporary tables that exceed their
/// buffers.
fn load(session: &mut Session, insert: &str) -> Result<()> {
    session.run(insert)?;
    session.run("SELECT MAX(x) FROM (SELECT MD5(seq) x FROM seq_1_to_20000 ORDER BY x) sorted")?;
    session.run(
        "SELECT COUNT(*) FROM (SELECT MD5(seq) x, COUNT(*) FROM seq_1_to_5000 GROUP BY x) grouped",
    )?;
    Ok(())
}

/// Work of a querying client: prepared statements, and a small sort.
fn ask(session: &mut Session) -> Result<()> {
    for _ in 0..PREPARED {
        let select =
            session.prepare("SELECT * FROM lab_own WHERE c0=? AND c1>? ORDER BY c2 LIMIT 10")?;
        session.skim(&select, ("x", "y"))?;
    }
    session.run("SELECT MD5(seq) x FROM seq_1_to_100 ORDER BY x")?;
    Ok(())
}
