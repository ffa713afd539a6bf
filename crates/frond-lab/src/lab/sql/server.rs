//! The server of a cell: started for it, or somebody's, by its URL.

use std::path::{Path, PathBuf};

use super::guard::Guard;
use super::process::{PLUGINS, Plugin, Server, log_tail};
use super::session::{Session, SqlResult};
use crate::lab::machine::class::Confined;
use crate::lab::machine::virtual_disk::Kind;
use crate::lab::machine::{Class, Disk, Group, Reading, Volume};
use crate::lab::size::Durability;
use crate::lab::target::SqlTarget;
use crate::measure::{self, Space, Subject};
use crate::targets::{Failure, Result};

/// Database of the cells.
pub const DATABASE: &str = "lab";

/// Options of every server, with why.
const COMMON: [(&str, &str, &str); 6] = [
    ("character-set-server", "latin1", "as in the published schemas: CHAR(120) is 120 bytes"),
    ("collation-server", "latin1_swedish_ci", "the default of latin1, as published"),
    ("max-connections", "1100", "sweeps have 512 clients, with two connections each at most"),
    ("max-prepared-stmt-count", "1000000", "each connection prepares its statements"),
    ("table-open-cache", "8192", "tables of all connections stay open"),
    ("skip-name-resolve", "ON", "nothing comes over a network"),
];

const BLACKHOLE: &str = "ha_blackhole.so";

/// What is no data of any engine: logs of InnoDB, Aria, and of commits of several engines; temporary tables, which a close
/// deletes.
const NO_DATA: [&str; 4] = ["ib_logfile*", "aria_log.*", "tc.log", "ibtmp*"];

/// Where a target is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// A server of the lab's own, in this directory.
    Own(PathBuf),
    /// A server that runs already: its database is dropped and made again.
    Url(String),
}

/// A server that runs.
pub struct Running {
    own: Option<Server>,
    place: Place,
    log: PathBuf,
    /// What its process is limited and counted by.
    pub confined: Confined,
    /// The disk of its own that it is on.
    disk: Option<Disk>,
    guard: Option<Guard>,
    /// Name, value and reason of its settings.
    pub settings: Vec<(String, String, String)>,
}

impl Running {
    /// Starts a server with this target, or connects; then makes an empty database.
    ///
    /// # Errors
    /// What is missing, or the last lines of the log of a server that does not start.
    pub fn start(
        place: &Place,
        target: &SqlTarget,
        memory: u64,
        durability: Durability,
        (class, disk): (&Class, Option<Kind>),
    ) -> Result<Self> {
        let (mut own, mut log, mut settings) = (None, PathBuf::new(), Vec::new());
        let (mut confined, mut own_disk) = (Confined::default(), None);
        if let Place::Own(dir) = place {
            settings = target.options(memory, durability)?;
            let common = COMMON
                .map(|(name, value, why)| (name.to_owned(), value.to_owned(), why.to_owned()));
            settings.extend(common);
            let options: Vec<(&str, String)> =
                settings.iter().map(|(name, value, _)| (name.as_str(), value.clone())).collect();
            log = dir.join("server.log");
            let mut plugins = target.plugins()?;
            // What the server itself takes is measured on it.
            if plugins.iter().all(|plugin| plugin.file != BLACKHOLE) {
                let path = Path::new(PLUGINS).join(BLACKHOLE);
                plugins.push(Plugin { file: BLACKHOLE.to_owned(), path });
            }
            let started = Server::start(dir, &options, &plugins);
            let server = started.map_err(|failure| {
                Failure(format!("{failure}\nlast lines of its log:\n{}", log_tail(&log, 15)))
            })?;
            confined = class.confine(server.pid(), dir, disk)?;
            if disk.is_some() {
                own_disk = Volume::of(dir)?.disk;
            }
            own = Some(server);
        }
        let (place, disk) = (place.clone(), own_disk);
        let mut running = Self { own, place, log, confined, disk, guard: None, settings };
        running.guard = Some(Guard::start(running.connect("")?));
        let mut session = running.connect("")?;
        session.run(&format!("DROP DATABASE IF EXISTS {DATABASE}"))?;
        session.run(&format!("CREATE DATABASE {DATABASE} CHARACTER SET latin1"))?;
        Ok(running)
    }

    fn connect(&self, database: &str) -> SqlResult<Session> {
        let session = match (&self.own, &self.place) {
            (Some(server), _) => Session::connect(&server.socket(), database)?,
            (None, Place::Url(url)) => {
                let mut session = Session::connect_url(url)?;
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

    /// What ends statements that run on when the cell is to end.
    pub fn guard(&self) -> Option<&Guard> {
        self.guard.as_ref()
    }

    /// A connection in the database of the cells.
    ///
    /// # Errors
    /// The server's.
    pub fn session(&self) -> SqlResult<Session> {
        self.connect(DATABASE)
    }

    /// The process to be measured, if it is ours.
    pub fn pid(&self) -> Option<u32> {
        self.own.as_ref().map(Server::pid)
    }

    /// What is measured: without a process of ours nothing can be but times.
    pub fn subject(&self) -> Subject {
        self.pid().map_or(Subject::Server(u32::MAX), Subject::Server)
    }

    /// What its control group counts; of a disk of its own, what that counts of I/O: everything.
    pub fn counts(&self) -> Option<Reading> {
        let reading = self.confined.group.as_ref().map(Group::read);
        let of_disk = self.disk.as_ref().and_then(Disk::count).map(|count| count.io);
        match of_disk {
            Some(io) => Some(Reading { io: Some(io), ..reading.unwrap_or_default() }),
            None => reading,
        }
    }

    /// Starts a new peak of the memory that its control group counts.
    pub fn reset_memory_peak(&self) {
        self.confined.group.as_ref().map(Group::reset_memory_peak);
    }

    /// Its own directory.
    pub fn dir(&self) -> Option<&Path> {
        match &self.place {
            Place::Own(dir) => Some(dir),
            Place::Url(_) => None,
        }
    }

    /// Directory below the data directory whose bytes count.
    pub fn files(&self, target: &SqlTarget) -> Option<PathBuf> {
        self.own.as_ref().map(|server| server.data_dir().join(&target.files))
    }

    /// What counts as the size of a target: all of its data directory but logs, beyond what is there now. Logs are of a
    /// size that settings say (InnoDB), or have what a rest has written elsewhere too (the others).
    pub fn space(&self, target: &SqlTarget) -> Option<Space> {
        let logs: Vec<&str> = target.logs.iter().map(String::as_str).collect();
        self.own.as_ref().map(|server| Space::grown(server.data_dir(), &logs, &NO_DATA))
    }

    /// Files in which its control group counts.
    pub fn count_files(&self) -> Vec<PathBuf> {
        self.confined.group.as_ref().map(Group::count_files).unwrap_or_default()
    }

    /// Last lines of its log.
    pub fn log_tail(&self) -> String {
        if self.log == Path::new("") { String::new() } else { log_tail(&self.log, 40) }
    }

    /// Ends it cleanly; a server that is not ours goes on. After Ctrl-C it is not waited for until it has written its memory.
    ///
    /// # Errors
    /// It does not end, or with an error.
    pub fn stop(self) -> Result<()> {
        drop(self.guard); // its connection is in use until then
        match self.own.filter(|_| !measure::is_interrupted()) {
            Some(server) => server.stop(),
            None => Ok(()),
        }
    }
}
