//! The server of a cell: one that the lab starts for it, or an existing one given by its URL.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::guard::Guard;
use super::process::{PLUGINS, PRELOAD, Plugin, Server, log_tail};
use super::session::{Session, SqlResult};
use crate::lab::machine::class::Confined;
use crate::lab::machine::virtual_disk::Kind;
use crate::lab::machine::{Class, Group};
use crate::lab::size::Durability;
use crate::lab::target::SqlTarget;
use crate::measure::{self, Space, Subject};
use crate::targets::{Failure, Result};

/// Name of the database that cells use.
pub const DATABASE: &str = "lab";

/// Options of every server, with their reasons.
const COMMON: [(&str, &str, &str); 7] = [
    (
        "transaction-isolation",
        "REPEATABLE-READ",
        "the server's default, and the same on all engines",
    ),
    ("character-set-server", "latin1", "as in the published schemas: CHAR(120) is 120 bytes"),
    ("collation-server", "latin1_swedish_ci", "the default of latin1, as published"),
    ("max-connections", "1100", "sweeps have 512 clients, with two connections each at most"),
    ("max-prepared-stmt-count", "1000000", "each connection prepares its statements"),
    ("table-open-cache", "8192", "tables of all connections stay open"),
    ("skip-name-resolve", "ON", "nothing comes over a network"),
];

/// Gives a session of a server that the lab did not start the same isolation level.
const ISOLATION: &str = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ";

const BLACKHOLE: &str = "ha_blackhole.so";

/// Files that do not count as data: logs of InnoDB and Aria, the log of commits that span engines,
/// and temporary tables, which a shutdown deletes.
const NO_DATA: [&str; 4] = ["ib_logfile*", "aria_log.*", "tc.log", "ibtmp*"];

/// Where the server of a target is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// A server that the lab starts, in this directory.
    Own(PathBuf),
    /// A server that already runs: its database is dropped and created again.
    Url(String),
}

/// A running server, with all that the lab measures and limits on it.
pub struct Running {
    own: Option<Server>,
    place: Place,
    log: PathBuf,
    class: Class,
    disk: Option<Kind>,
    /// How its process is limited and counted.
    pub confined: Confined,
    guard: Option<Guard>,
    /// Name, value and reason of each setting.
    pub settings: Vec<(String, String, String)>,
}

impl Running {
    /// Starts a server for this target or connects to one, and creates an empty database.
    ///
    /// # Errors
    /// Something is not installed, or the server does not start; the message has the last lines of
    /// its log.
    pub fn start(
        place: &Place,
        target: &SqlTarget,
        memory: u64,
        durability: Durability,
        (class, disk): (&Class, Option<Kind>),
    ) -> Result<Self> {
        let (mut own, mut log, mut settings) = (None, PathBuf::new(), Vec::new());
        let mut confined = Confined::default();
        if let Place::Own(dir) = place {
            settings = target.options(memory, durability)?;
            let common = COMMON
                .map(|(name, value, why)| (name.to_owned(), value.to_owned(), why.to_owned()));
            settings.extend(common);
            let options: Vec<(&str, String)> =
                settings.iter().map(|(name, value, _)| (name.as_str(), value.clone())).collect();
            log = dir.join("server.log");
            let mut plugins = target.plugins()?;
            // The server's own memory is measured with BLACKHOLE.
            if plugins.iter().all(|plugin| plugin.file != BLACKHOLE) {
                let path = Path::new(PLUGINS).join(BLACKHOLE);
                plugins.push(Plugin { file: BLACKHOLE.to_owned(), path });
            }
            let allocator = target.allocator()?;
            let library = allocator.as_ref().map(|(library, _)| library.as_path());
            let started = Server::start(dir, &options, &plugins, library);
            let server = started.map_err(|failure| {
                Failure(format!("{failure}\nlast lines of its log:\n{}", log_tail(&log, 15)))
            })?;
            confined = class.confine(server.pid(), dir, disk, None)?;
            own = Some(server);
            let shown =
                allocator.map(|(file, why)| (PRELOAD.to_owned(), file.display().to_string(), why));
            settings.extend(shown);
        }
        let (place, class) = (place.clone(), class.clone());
        let mut running = Self { own, place, log, class, disk, confined, guard: None, settings };
        running.guard = Some(Guard::start(running.connect("")?));
        let mut session = running.connect("")?;
        session.run(&format!("DROP DATABASE IF EXISTS {DATABASE}"))?;
        session.run(&format!("CREATE DATABASE {DATABASE} CHARACTER SET latin1"))?;
        Ok(running)
    }

    /// Kills the server with SIGKILL and starts it again on the same directory, with the same
    /// limits. Returns the time from its start until it answered.
    ///
    /// # Errors
    /// The lab did not start the server, or it does not start again.
    pub fn crash(&mut self) -> Result<Duration> {
        let (Some(server), Place::Own(dir)) = (&mut self.own, &self.place) else {
            return Err(Failure("only a server that the lab started can be killed".to_owned()));
        };
        self.guard = None; // its connection ends with the server
        server.kill()?;
        let begin = Instant::now();
        server.restart()?;
        // Recovery has the limits of the class, too.
        self.confined = self.class.confine(server.pid(), dir, self.disk, None)?;
        let started = server.wait_until_ready();
        started.map_err(|failure| {
            let log = log_tail(&self.log, 15);
            Failure(format!("after kill -9: {failure}\nlast lines of its log:\n{log}"))
        })?;
        let mut session = self.connect("")?;
        session.run("DO 1")?;
        let took = begin.elapsed();
        self.guard = Some(Guard::start(session));
        Ok(took)
    }

    fn connect(&self, database: &str) -> SqlResult<Session> {
        let session = match (&self.own, &self.place) {
            (Some(server), _) => Session::connect(&server.socket(), database)?,
            (None, Place::Url(url)) => {
                let mut session = Session::connect_url(url)?;
                session.run(ISOLATION)?;
                if !database.is_empty() {
                    session.run(&format!("USE {database}"))?;
                }
                session
            }
            (None, Place::Own(_)) => return Err(Failure("the server has ended".to_owned()).into()),
        };
        if let Some(guard) = &self.guard {
            guard.watch(session.id());
        }
        Ok(session)
    }

    /// The guard, which ends statements that still run when the cell has to end.
    pub fn guard(&self) -> Option<&Guard> {
        self.guard.as_ref()
    }

    /// Opens a connection to the cells' database.
    ///
    /// # Errors
    /// Errors of the server.
    pub fn session(&self) -> SqlResult<Session> {
        self.connect(DATABASE)
    }

    /// Pid of the server to measure; `None` if the lab did not start it.
    pub fn pid(&self) -> Option<u32> {
        self.own.as_ref().map(Server::pid)
    }

    /// The process to measure. Nothing but times can be measured on a server that the lab did not
    /// start.
    pub fn subject(&self) -> Subject {
        self.pid().map_or(Subject::Server(u32::MAX), Subject::Server)
    }

    /// Directory of a server that the lab started.
    pub fn dir(&self) -> Option<&Path> {
        match &self.place {
            Place::Own(dir) => Some(dir),
            Place::Url(_) => None,
        }
    }

    /// Directory with the target's files, below the data directory.
    pub fn files(&self, target: &SqlTarget) -> Option<PathBuf> {
        self.own.as_ref().map(|server| server.data_dir().join(&target.files))
    }

    /// What counts as the size of a target: the growth of its data directory from now on, without
    /// logs. The size of logs is a setting (InnoDB), or they only hold what idle-time work has also
    /// written elsewhere (other engines).
    pub fn space(&self, target: &SqlTarget) -> Option<Space> {
        let logs: Vec<&str> = target.logs.iter().map(String::as_str).collect();
        self.own.as_ref().map(|server| Space::grown(server.data_dir(), &logs, &NO_DATA))
    }

    /// Files with the counters of the control group.
    pub fn count_files(&self) -> Vec<PathBuf> {
        self.confined.group.as_ref().map(Group::count_files).unwrap_or_default()
    }

    /// Last lines of the server's log.
    pub fn log_tail(&self) -> String {
        if self.log == Path::new("") { String::new() } else { log_tail(&self.log, 40) }
    }

    /// Shuts the server down cleanly; a server that the lab did not start keeps running. After
    /// Ctrl-C the server is killed instead, since writing out its memory may take long.
    ///
    /// # Errors
    /// The server does not end, or ends with an error.
    pub fn stop(self) -> Result<()> {
        drop(self.guard); // until then it uses a connection
        match self.own.filter(|_| !measure::is_interrupted()) {
            Some(server) => server.stop(),
            None => Ok(()),
        }
    }
}
