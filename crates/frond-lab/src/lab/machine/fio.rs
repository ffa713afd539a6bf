//! Measures the device of a directory with fio, without limits or under a storage class.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::fingerprint::Pair;
use super::packages::{Package, apt_get};
use super::probe::Aligned;
use crate::measure::{Group, Owner};
use crate::random::Random;
use crate::targets::{Failure, Result};

/// Size of the file that is read and written: small enough for a slow class, and large enough that
/// a short job does not read it twice.
const FILE_BYTES: u64 = 256 << 20;

/// Result of one job.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Rate {
    /// I/Os per second.
    pub ios_s: f64,
    /// Bytes per second.
    pub bytes_s: f64,
    /// Mean latency, µs; includes the sync if each I/O has one.
    pub mean_us: f64,
    /// Median latency, µs.
    pub p50_us: f64,
    /// 99th percentile of the latency, µs.
    pub p99_us: f64,
}

/// Results of all jobs.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Fio {
    /// Version of fio.
    pub version: String,
    /// Random reads of 4 KiB, one at a time.
    pub random_read_1: Rate,
    /// Random reads of 4 KiB, 32 at a time.
    pub random_read_32: Rate,
    /// Random writes of 4 KiB, 32 at a time.
    pub random_write_32: Rate,
    /// Random writes of 4 KiB, each with `fdatasync`.
    pub sync_write: Rate,
    /// Sequential reads of 1 MiB, 4 at a time.
    pub read: Rate,
    /// Sequential writes of 1 MiB, 4 at a time.
    pub write: Rate,
}

impl Fio {
    /// Names and values for the environment of a run.
    pub fn pairs(&self) -> Vec<Pair> {
        let mut pairs = vec![("fio.version".to_owned(), self.version.clone())];
        for (name, rate) in [
            ("random_read_1", &self.random_read_1),
            ("random_read_32", &self.random_read_32),
            ("random_write_32", &self.random_write_32),
            ("sync_write", &self.sync_write),
            ("read", &self.read),
            ("write", &self.write),
        ] {
            let mut put = |unit, value: f64| {
                pairs.push((format!("fio.{name}.{unit}"), format!("{value:.0}")));
            };
            put("ios_s", rate.ios_s);
            put("bytes_s", rate.bytes_s);
            put("mean_us", rate.mean_us);
            put("p50_us", rate.p50_us);
            put("p99_us", rate.p99_us);
        }
        pairs
    }
}

/// Why there is no measurement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FioError {
    /// fio is not installed.
    Missing,
    /// fio ended with an error; its last line on standard error.
    Failed(String),
    /// The output is not the JSON of fio.
    Foreign(String),
    /// The output ends too early.
    Truncated,
    /// A job failed with this error number.
    Job(String, i32),
    /// The file to read and write could not be made.
    File(String),
}

impl fmt::Display for FioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => write!(f, "fio is not installed: {}", apt_get(&["fio"])),
            Self::Failed(words) => write!(f, "fio failed: {words}"),
            Self::Foreign(what) => write!(f, "the output of fio was not understood: {what}"),
            Self::Truncated => f.write_str("the output of fio ends too early"),
            Self::Job(name, error) => {
                let text = std::io::Error::from_raw_os_error(*error);
                write!(f, "job {name} of fio failed: {text}")
            }
            Self::File(what) => write!(f, "no file for fio: {what}"),
        }
    }
}

impl std::error::Error for FioError {}

impl From<FioError> for Failure {
    fn from(error: FioError) -> Self {
        Self(error.to_string())
    }
}

#[derive(serde::Deserialize)]
struct Output {
    #[serde(rename = "fio version")]
    version: String,
    jobs: Vec<Job>,
}

#[derive(serde::Deserialize)]
struct Job {
    jobname: String,
    error: i32,
    read: Side,
    write: Side,
    sync: Option<Sync>,
}

#[derive(serde::Deserialize)]
struct Side {
    total_ios: u64,
    bw_bytes: f64,
    iops: f64,
    clat_ns: Latency,
}

#[derive(serde::Deserialize)]
struct Sync {
    total_ios: u64,
    lat_ns: Latency,
}

#[derive(serde::Deserialize, Default)]
struct Latency {
    #[serde(default)]
    mean: f64,
    #[serde(default)]
    percentile: BTreeMap<String, f64>,
}

impl Latency {
    fn at(&self, percentile: &str) -> f64 {
        self.percentile.get(percentile).copied().unwrap_or(0.0)
    }
}

/// Parses the version and the only job of an output. Lines before the JSON are notes that fio
/// prints.
fn parse(text: &str) -> std::result::Result<(String, Rate), FioError> {
    let start = match text.starts_with('{') {
        true => Some(0),
        false => text.find("\n{").map(|at| at + 1),
    };
    let foreign = || FioError::Foreign(text.lines().next().unwrap_or("nothing").to_owned());
    let json = &text[start.ok_or_else(foreign)?..];
    let output: Output = serde_json::from_str(json).map_err(|error| match error.is_eof() {
        true => FioError::Truncated,
        false => FioError::Foreign(error.to_string()),
    })?;
    let job = output.jobs.first();
    let job = job.ok_or_else(|| FioError::Foreign("it has no jobs".to_owned()))?;
    if job.error != 0 {
        return Err(FioError::Job(job.jobname.clone(), job.error));
    }
    let side = if job.read.total_ios > 0 { &job.read } else { &job.write };
    if side.total_ios == 0 {
        return Err(FioError::Foreign(format!("job {} did no I/O", job.jobname)));
    }
    let sync = job.sync.as_ref().filter(|sync| sync.total_ios > 0);
    let synced = |of: fn(&Latency) -> f64| of(&side.clat_ns) + sync.map_or(0.0, |s| of(&s.lat_ns));
    let rate = Rate {
        ios_s: side.iops,
        bytes_s: side.bw_bytes,
        mean_us: synced(|latency| latency.mean) / 1e3,
        p50_us: synced(|latency| latency.at("50.000000")) / 1e3,
        p99_us: synced(|latency| latency.at("99.000000")) / 1e3,
    };
    Ok((output.version, rate))
}

/// A file of random bytes, removed when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(dir: &Path) -> std::io::Result<Self> {
        let path = dir.join(Owner::own().name("frond-lab-fio-"));
        let mut options = OpenOptions::new();
        let options = options.write(true).create_new(true).custom_flags(libc::O_DIRECT);
        let mut file = options.open(&path)?;
        let scratch = Self(path);
        let mut chunk = Aligned::new(1 << 20);
        Random::new(1).fill(&mut chunk);
        for n in 0..FILE_BYTES / chunk.len() as u64 {
            chunk[..8].copy_from_slice(&n.to_le_bytes()); // makes every chunk different
            file.write_all(&chunk)?;
        }
        file.sync_all()?;
        Ok(scratch)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0); // a leftover has this process in its name
    }
}

/// Measures the device of `dir`, in a control group or without limits. Writes a file of 256 MiB
/// without limits, then runs six jobs, each for the time `job`.
pub fn run(dir: &Path, group: Option<&Group>, job: Duration) -> Result<Fio> {
    let missing = || FioError::Missing;
    let installed = Package::named("fio").and_then(Package::version);
    installed.ok_or_else(missing)?;
    let file =
        Scratch::new(dir).map_err(|error| FioError::File(format!("{}: {error}", dir.display())))?;
    let run = |name: &str, words: &[&str]| run_job(name, words, &file.0, group, job);
    let random = |rw, depth| ["--bs=4k", rw, "--ioengine=libaio", depth];
    let (version, random_read_1) = run("random_read_1", &random("--rw=randread", "--iodepth=1"))?;
    let large = |rw| ["--bs=1m", rw, "--ioengine=libaio", "--iodepth=4"];
    let synced = ["--bs=4k", "--rw=randwrite", "--ioengine=psync", "--fdatasync=1"];
    Ok(Fio {
        version,
        random_read_1,
        random_read_32: run("random_read_32", &random("--rw=randread", "--iodepth=32"))?.1,
        random_write_32: run("random_write_32", &random("--rw=randwrite", "--iodepth=32"))?.1,
        sync_write: run("sync_write", &synced)?.1,
        read: run("read", &large("--rw=read"))?.1,
        write: run("write", &large("--rw=write"))?.1,
    })
}

fn run_job(
    name: &str,
    words: &[&str],
    file: &Path,
    group: Option<&Group>,
    time: Duration,
) -> std::result::Result<(String, Rate), FioError> {
    let mut all = group.map(Group::prefix).unwrap_or_default();
    all.push("fio".to_owned());
    let mut command = Command::new(&all[0]);
    command
        .args(&all[1..])
        .args(["--output-format=json", "--eta=never", "--direct=1", "--overwrite=1"])
        .args(["--time_based", "--norandommap", "--randrepeat=0", "--invalidate=0"])
        .arg(format!("--runtime={}ms", time.as_millis()))
        .arg(format!("--size={FILE_BYTES}"))
        .arg(format!("--name={name}"))
        .args(words)
        .arg({
            let mut word = std::ffi::OsString::from("--filename=");
            word.push(file);
            word
        });
    let output = command.output().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => FioError::Missing,
        _ => FioError::Failed(error.to_string()),
    })?;
    let text = String::from_utf8_lossy(&output.stdout);
    match parse(&text) {
        // The error number of a job says more than the exit status of fio.
        Err(FioError::Job(name, error)) => Err(FioError::Job(name, error)),
        _ if !output.status.success() => {
            let words = String::from_utf8_lossy(&output.stderr);
            let last = words.lines().rev().find(|line| !line.trim().is_empty());
            Err(FioError::Failed(last.map_or_else(|| output.status.to_string(), str::to_owned)))
        }
        parsed => parsed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(ios: u64) -> String {
        format!(
            "{{\"total_ios\": {ios}, \"bw_bytes\": 8192, \"iops\": 2.0, \"clat_ns\": {{\"mean\": 1000.0, \
             \"percentile\": {{\"50.000000\": 900, \"99.000000\": 5000}}}}}}"
        )
    }

    fn output(error: i32, read: u64, write: u64, sync: &str) -> String {
        format!(
            "{{\"fio version\": \"fio-3.33\", \"jobs\": [{{\"jobname\": \"a\", \"error\": {error}, \
             \"read\": {}, \"write\": {}{sync}}}], \"disk_util\": []}}",
            side(read),
            side(write)
        )
    }

    #[test]
    fn the_direction_with_io_is_parsed_and_sync_latency_is_added() {
        let (version, rate) = parse(&output(0, 7, 0, "")).unwrap();
        assert_eq!(version, "fio-3.33");
        let expected = Rate { ios_s: 2.0, bytes_s: 8192.0, mean_us: 1.0, p50_us: 0.9, p99_us: 5.0 };
        assert_eq!(rate, expected);
        let sync = ", \"sync\": {\"total_ios\": 7, \"lat_ns\": {\"mean\": 4000.0, \
                    \"percentile\": {\"50.000000\": 3100, \"99.000000\": 9000}}}";
        let (_, rate) = parse(&output(0, 0, 7, sync)).unwrap();
        assert_eq!((rate.mean_us, rate.p50_us, rate.p99_us), (5.0, 4.0, 14.0));
        let noted = format!("note: both iodepth >= 1 and synchronous\n{}", output(0, 7, 0, ""));
        assert!(parse(&noted).is_ok());
    }

    #[test]
    fn foreign_and_truncated_output_are_distinct_errors() {
        assert!(matches!(parse(""), Err(FioError::Foreign(_))));
        assert!(matches!(parse("fio: engine libaio not loadable"), Err(FioError::Foreign(_))));
        assert!(matches!(parse("{\"jobs\": []}"), Err(FioError::Foreign(_))));
        assert!(matches!(parse("{\"fio version\": 3}"), Err(FioError::Foreign(_))));
        let none = "{\"fio version\": \"fio-3.33\", \"jobs\": []}";
        assert_eq!(parse(none), Err(FioError::Foreign("it has no jobs".to_owned())));
        let whole = output(0, 7, 0, "");
        for end in 1..whole.len() {
            assert_eq!(parse(&whole[..end]), Err(FioError::Truncated), "{end} bytes");
        }
        assert!(matches!(parse(&output(0, 0, 0, "")), Err(FioError::Foreign(_))));
        assert_eq!(parse(&output(28, 7, 0, "")), Err(FioError::Job("a".to_owned(), 28)));
    }

    #[test]
    fn a_missing_fio_is_reported_with_its_package() {
        assert!(FioError::Missing.to_string().contains("apt-get install fio"));
    }

    #[test]
    fn fio_measures_a_directory_and_leaves_no_files() -> Result<()> {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR"))?;
        if Package::named("fio").and_then(Package::version).is_none() {
            eprintln!("not tested: {}", FioError::Missing);
            return Ok(());
        }
        let fio = run(dir.path(), None, Duration::from_millis(100))?;
        assert_eq!(fs::read_dir(dir.path())?.count(), 0);
        let pairs = fio.pairs();
        assert_eq!(pairs.len(), 31);
        for (name, value) in pairs.iter().filter(|(name, _)| name.ends_with("ios_s")) {
            assert!(value.parse::<f64>().is_ok_and(|value| value > 0.0), "{name} = {value}");
        }
        assert!(run(Path::new("/nonexistent"), None, Duration::from_millis(1)).is_err());
        Ok(())
    }
}
