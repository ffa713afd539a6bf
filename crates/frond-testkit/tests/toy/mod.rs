//! A toy store: a write-ahead log of operations in text, and a checkpoint that holds all of them.
//! It exists to be broken: each [`Bug`] is a mistake that real stores have made, and the campaigns
//! must find every one.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use frond::{
    Durability, Error, Result,
    internals::io::{Env, File, OpenMode},
};
use frond_testkit::{
    drive::{Engine, Store},
    model::{Answer, Everything, Model},
    ops::{Op, parse_script},
};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Bugs that can be planted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bug {
    AckBeforeSync,
    NoDirectorySync,
    NoParentSync,
    NoChecksum,
    AppendBehindTail,
    CheckpointNotSynced,
    OldLogRemovedFirst,
    RetrySync,
    IgnoreWriteError,
    TrustPageCache,
    ReadErrorIsEnd,
    TimerForgotten,
    DamageIsEmpty,
    BatchInTwoRecords,
    SnapshotSeesLater,
    FullStopsForEver,
}

pub struct Toy {
    pub level: Durability,
    pub bug: Option<Bug>,
}

pub struct OpenToy {
    env: Env,
    level: Durability,
    bug: Option<Bug>,
    model: Model,
    history: Vec<String>,
    generation: u64,
    log: Arc<dyn File>,
    end: u64,
    allocated: u64,
    buffer: Vec<u8>,
    dirty: bool,
    synced_at: Duration,
    held: Vec<(u8, u64)>,
    failed: bool,
}

const DIR: &str = "/store";
const HEADER: usize = 12;

fn path(name: &str) -> PathBuf {
    Path::new(DIR).join(name)
}

fn log_name(generation: u64) -> PathBuf {
    path(&format!("log-{generation}"))
}

fn io<T>(action: &'static str, result: std::io::Result<T>) -> Result<T> {
    result.map_err(|error| Error::io(DIR, action, 0, error))
}

fn frame(seed: u64, text: &str) -> Vec<u8> {
    let mut bytes = (text.len() as u32).to_le_bytes().to_vec();
    bytes.extend(xxh3_64_with_seed(text.as_bytes(), seed + 1).to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes
}

/// The text at this place, if there is a complete and valid record.
fn unframe(bytes: &[u8], seed: u64, bug: Option<Bug>) -> Option<&str> {
    let length = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
    let stored = u64::from_le_bytes(bytes.get(4..HEADER)?.try_into().ok()?);
    let text = bytes.get(HEADER..HEADER.checked_add(length)?)?;
    let right = bug == Some(Bug::NoChecksum) || stored == xxh3_64_with_seed(text, seed + 1);
    if length == 0 || !right { None } else { std::str::from_utf8(text).ok() }
}

const WRITE_NEW: OpenMode = OpenMode { write: true, create_new: true, direct: false };
const WRITE: OpenMode = OpenMode { write: true, create_new: false, direct: false };

impl Toy {
    /// The checkpoint: its generation and its operations; `None` if there never was one.
    fn read_checkpoint(&self, env: &Env) -> Result<Option<(u64, Vec<String>)>> {
        if !io("look", env.vfs.exists(&path("checkpoint")))? {
            return Ok(None);
        }
        let file = io("open", env.vfs.open(&path("checkpoint"), OpenMode::default()))?;
        let mut bytes = vec![0; io("measure", file.len())? as usize];
        io("read", file.read_at(&mut bytes, 0))?;
        let Some(text) = unframe(&bytes, 77, None) else {
            if self.bug == Some(Bug::DamageIsEmpty) {
                return Ok(None);
            }
            return Err(Error::NotAStore { path: DIR.into(), why: "damaged checkpoint".into() });
        };
        let mut lines = text.lines().map(str::to_owned);
        let generation = lines.next().and_then(|line| line.parse().ok()).unwrap_or(0);
        Ok(Some((generation, lines.collect())))
    }

    /// The operations in the log, and where it ends.
    fn read_log(&self, env: &Env, generation: u64) -> Result<(Vec<String>, u64)> {
        let mut found = Vec::new();
        if !io("look", env.vfs.exists(&log_name(generation)))? {
            return Ok((found, 0));
        }
        let file = io("open", env.vfs.open(&log_name(generation), OpenMode::default()))?;
        let mut bytes = vec![0; io("measure", file.len())? as usize];
        match file.read_at(&mut bytes, 0) {
            Err(_) if self.bug == Some(Bug::ReadErrorIsEnd) => return Ok((found, 0)),
            other => io("read", other)?,
        }
        let mut at = 0;
        while let Some(text) = unframe(&bytes[at..], generation, self.bug) {
            found.push(text.to_owned());
            at += HEADER + text.len();
        }
        Ok((found, at as u64))
    }
}

impl Engine for Toy {
    type Store = OpenToy;

    fn open(&self, env: &Env) -> Result<OpenToy> {
        let dir = Path::new(DIR);
        if !io("look", env.vfs.exists(dir))? {
            io("create", env.vfs.create_dir(dir))?;
        }
        if self.bug != Some(Bug::NoParentSync) {
            io("sync", env.vfs.sync_dir(Path::new("/")))?;
        }
        let (mut generation, mut history) = self.read_checkpoint(env)?.unwrap_or_default();
        let (replayed, end) = self.read_log(env, generation)?;
        history.extend(replayed);
        let mut model = Model::new();
        for op in parse_script(&history.join("\n")).unwrap_or_default() {
            model.apply(&op);
        }
        let keeps_log = matches!(self.bug, Some(Bug::AppendBehindTail | Bug::TrustPageCache));
        let keeps_log = keeps_log && io("look", env.vfs.exists(&log_name(generation)))?;
        if !keeps_log {
            generation += 1;
        }
        let mode = if keeps_log { WRITE } else { WRITE_NEW };
        // Logs of checkpoints that were not completed, or that were cut short.
        for name in io("list", env.vfs.list(dir))? {
            let other = name.to_str().and_then(|name| name.strip_prefix("log-"));
            let other = other.and_then(|number| number.parse::<u64>().ok());
            if other.is_some_and(|number| number >= generation && !keeps_log) {
                io("remove", env.vfs.remove(&dir.join(name)))?;
            }
        }
        let log = io("open", env.vfs.open(&log_name(generation), mode))?;
        let end = match (keeps_log, self.bug) {
            (false, _) => 0,
            (true, Some(Bug::AppendBehindTail)) => io("measure", log.len())?,
            (true, _) => end,
        };
        let mut toy = OpenToy {
            env: env.clone(),
            level: self.level,
            bug: self.bug,
            model,
            history,
            generation,
            log,
            end,
            allocated: end,
            buffer: Vec::new(),
            dirty: false,
            synced_at: env.clock.now(),
            held: Vec::new(),
            failed: false,
        };
        if !keeps_log {
            toy.write_checkpoint()?;
        }
        Ok(toy)
    }

    fn level(&self) -> Durability {
        self.level
    }
}

impl OpenToy {
    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    fn stop<T>(&mut self, what: std::io::Error) -> Result<T> {
        self.failed = true;
        Err(Error::Failed(what.to_string()))
    }

    /// Writes everything so far to a new checkpoint that refers to the current, empty log.
    fn write_checkpoint(&mut self) -> Result<()> {
        let vfs = self.env.vfs.clone();
        let (new, old) = (path("checkpoint.new"), log_name(self.generation - 1));
        let text = format!("{}\n{}", self.generation, self.history.join("\n"));
        let bytes = frame(77, &text);
        let write = || -> std::io::Result<()> {
            if vfs.exists(&new)? {
                vfs.remove(&new)?;
            }
            let file = vfs.open(&new, WRITE_NEW)?;
            file.write_at(&bytes, 0)?;
            if !self.has(Bug::CheckpointNotSynced) {
                file.sync_all()?;
            }
            if self.has(Bug::OldLogRemovedFirst) && vfs.exists(&old)? {
                vfs.remove(&old)?;
            }
            vfs.rename(&new, &path("checkpoint"))?;
            if !self.has(Bug::NoDirectorySync) {
                vfs.sync_dir(Path::new(DIR))?;
            }
            if vfs.exists(&old)? {
                vfs.remove(&old)?;
            }
            Ok(())
        };
        match write() {
            Ok(()) => Ok(()),
            Err(error) => self.stop(error),
        }
    }

    fn checkpoint(&mut self) -> Result<()> {
        self.flush(true)?;
        let next = log_name(self.generation + 1);
        match self.env.vfs.open(&next, WRITE_NEW) {
            Ok(log) => self.log = log,
            Err(error) if error.raw_os_error() == Some(28) => return full(),
            Err(error) => return self.stop(error),
        }
        self.generation += 1;
        (self.end, self.allocated) = (0, 0);
        self.write_checkpoint()
    }

    /// Reserves space for a record, so that writing it cannot hit a full disk.
    fn reserve(&mut self, bytes: u64) -> Result<()> {
        let needed = self.end + self.buffer.len() as u64 + bytes;
        if needed <= self.allocated {
            return Ok(());
        }
        let to = needed.next_multiple_of(4096);
        match self.log.allocate(self.allocated, to - self.allocated) {
            Ok(()) => self.allocated = to,
            Err(error) if error.raw_os_error() == Some(28) && !self.has(Bug::FullStopsForEver) => {
                return full();
            }
            Err(error) => return self.stop(error),
        }
        Ok(())
    }

    fn flush(&mut self, sync: bool) -> Result<()> {
        if !self.buffer.is_empty() {
            let bytes = std::mem::take(&mut self.buffer);
            match self.log.write_at(&bytes, self.end) {
                Err(error) if !self.has(Bug::IgnoreWriteError) => return self.stop(error),
                _ => {}
            }
            self.end += bytes.len() as u64;
            self.dirty = true;
        }
        if sync && self.dirty {
            let mut synced = self.log.sync_data();
            if synced.is_err() && self.has(Bug::RetrySync) {
                synced = self.log.sync_data();
            }
            if let Err(error) = synced {
                return self.stop(error);
            }
            self.dirty = false;
            self.synced_at = self.env.clock.now();
        }
        Ok(())
    }

    fn append(&mut self, op: &Op) -> Result<()> {
        let halves = match op {
            Op::Commit(level, writes) if self.has(Bug::BatchInTwoRecords) && writes.len() > 1 => {
                let (a, b) = writes.split_at(writes.len() / 2);
                vec![Op::Commit(*level, a.to_vec()), Op::Commit(*level, b.to_vec())]
            }
            _ => vec![op.clone()],
        };
        let records: Vec<_> =
            halves.iter().map(|op| frame(self.generation, &op.to_string())).collect();
        self.reserve(records.iter().map(|record| record.len() as u64).sum())?;
        let level = match op {
            Op::Commit(level, _) => level.unwrap_or(self.level),
            _ => Durability::Sync,
        };
        self.history.push(op.to_string());
        for record in records {
            self.buffer.extend(record);
            if level != Durability::Lazy {
                self.flush(false)?;
            }
        }
        match level {
            Durability::Sync => self.flush(!self.has(Bug::AckBeforeSync)),
            _ => Ok(()),
        }
    }
}

fn full<T>() -> Result<T> {
    Err(Error::Full("no space for the log".into()))
}

impl Store for OpenToy {
    fn apply(&mut self, op: &Op) -> Result<Answer> {
        match op {
            Op::Hold(slot) => {
                self.held.retain(|(held, _)| held != slot);
                self.held.push((*slot, self.model.step()));
                return Ok(Answer::Done);
            }
            Op::ReadHeld(slot) => {
                let held = self.held.iter().find(|(held, _)| held == slot);
                let step = held.map_or(0, |(_, step)| *step);
                let step = if self.has(Bug::SnapshotSeesLater) { self.model.step() } else { step };
                return Ok(Answer::All(self.model.read_all_at(step)));
            }
            _ => {}
        }
        if self.failed {
            return Err(Error::Failed("stopped before".into()));
        }
        if *op == Op::Checkpoint {
            return self.checkpoint().map(|()| Answer::Done);
        }
        let mut next = self.model.clone();
        let answer = next.apply(op);
        if op.is_change() && answer == Answer::Done {
            self.append(op)?;
        }
        self.model = next;
        Ok(answer)
    }

    fn read_everything(&mut self) -> Result<Everything> {
        Ok(self.model.everything())
    }

    fn check(&mut self) -> std::result::Result<(), String> {
        Ok(())
    }

    fn step(&mut self) -> Result<bool> {
        let age = self.env.clock.now().saturating_sub(self.synced_at);
        let due = age >= Duration::from_millis(900) && (self.dirty || !self.buffer.is_empty());
        if due && !self.failed && !self.has(Bug::TimerForgotten) {
            self.flush(true)?;
        }
        Ok(false)
    }

    fn close(mut self) -> Result<()> {
        if self.failed {
            return Err(Error::Failed("stopped before".into()));
        }
        match self.checkpoint() {
            Err(Error::Full(_)) => self.flush(true), // the log has everything
            other => other,
        }
    }
}
