//! Samples counters at the start and end of a step and at intervals: those that the engine reports
//! through SQL, and those that the kernel keeps for the server's process, control group and disk.
//!
//! The answer of a statement becomes named numbers. A number is named by the texts in its row,
//! followed by its column if the row has several numbers. Multi-line text (SHOW ENGINE … STATUS,
//! files of the kernel) is split at its numbers.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::server::Running;
use super::session::{Row, Session, text_of};
use crate::lab::machine::Volume;
use crate::lab::results::CounterSample;
use crate::lab::target::SqlTarget;
use crate::measure::Meter;

/// Maximum number of values taken from one text.
const NUMBERS_MAX: usize = 1_000;
/// Pressure stall information of the whole machine.
const PRESSURE: [&str; 3] = ["/proc/pressure/cpu", "/proc/pressure/io", "/proc/pressure/memory"];
/// Sections of SHOW ENGINE INNODB STATUS that describe individual transactions.
const SKIPPED: [&str; 3] = ["TRANSACTIONS", "LATEST DETECTED DEADLOCK", "LATEST FOREIGN KEY ERROR"];

/// The counters to sample.
#[derive(Clone, Debug)]
pub struct Counted {
    statements: Vec<String>,
    /// Files of the kernel, each with the source name of its counters.
    files: Vec<(String, PathBuf)>,
    pid: Option<u32>,
    disk: Option<String>,
    /// Interval between two samples.
    pub every: Duration,
}

impl Counted {
    /// The counters of a server that runs this target.
    pub fn new(running: &Running, target: &SqlTarget, every: Duration) -> Self {
        let pid = running.pid();
        let of_process = |name: &str| {
            pid.map(|pid| (format!("proc_{name}"), PathBuf::from(format!("/proc/{pid}/{name}"))))
        };
        let named = |kind: &str, path: &Path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            (format!("{kind}_{name}"), path.to_owned())
        };
        let mut files: Vec<_> = ["io", "status"].into_iter().filter_map(of_process).collect();
        files.extend(running.count_files().iter().map(|path| named("cgroup", path)));
        if pid.is_some() {
            files.extend(PRESSURE.iter().map(|path| named("pressure", Path::new(path))));
        }
        let volume = running.dir().and_then(|dir| Volume::of(dir).ok());
        let disk = volume.and_then(|volume| volume.disk.map(|disk| disk.name));
        Self { statements: target.counters.clone(), files, pid, disk, every }
    }

    /// Reads all counters. Those that the server or the kernel refuses are left out, since a
    /// missing counter is no reason to fail.
    pub fn sample(&self, session: &mut Session, t: f64) -> Vec<CounterSample> {
        let mut all = Vec::new();
        let mut push = |source: &str, found: Vec<(String, f64)>| {
            let source = source.to_owned();
            let sample = |(name, value)| CounterSample { t, source: source.clone(), name, value };
            all.extend(distinct(found).into_iter().map(sample));
        };
        for statement in &self.statements {
            let mut found = Vec::new();
            let _ = session.rows(statement, |row| found.extend(numbers_of_row(row)));
            push(&source(statement), found);
        }
        for (source, path) in &self.files {
            push(source, numbers_of_lines(&std::fs::read_to_string(path).unwrap_or_default()));
        }
        if let Some(pid) = self.pid {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            push("proc_stat", numbers_of_stat(&stat));
        }
        if let Some(disk) = &self.disk {
            let disks = std::fs::read_to_string("/proc/diskstats").unwrap_or_default();
            push("diskstats", numbers_of_disk(&disks, disk));
        }
        all
    }

    /// Samples until the step is over. The caller takes the first sample before it starts, and the
    /// last one after its end.
    pub fn follow(
        &self,
        session: &mut Session,
        meter: &Meter,
        over: &AtomicBool,
    ) -> Vec<CounterSample> {
        let begin = Instant::now();
        let (mut all, mut due) = (Vec::new(), begin + self.every);
        while !over.load(Ordering::Relaxed) {
            // The end of the step unparks this thread; a plain sleep would prolong the step.
            std::thread::park_timeout(due.saturating_duration_since(Instant::now()));
            if Instant::now() >= due {
                if !meter.is_stopped() {
                    all.extend(self.sample(session, begin.elapsed().as_secs_f64()));
                }
                due += self.every;
            }
        }
        all
    }
}

/// Source name of a statement: the information_schema table that it reads, or else the status of
/// the engine or server.
fn source(statement: &str) -> String {
    const SCHEMA: &str = "information_schema.";
    if let Some(at) = statement.find(SCHEMA) {
        let name = statement[at + SCHEMA.len()..].chars();
        let name: String = name.take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        return name.to_lowercase();
    }
    let is_of_engine = statement.starts_with("SHOW ENGINE ");
    if is_of_engine { "engine_status" } else { "global_status" }.to_owned()
}

/// The named numbers of a row. The multi-line text in SHOW ENGINE … STATUS is parsed as a status.
fn numbers_of_row(row: &Row) -> Vec<(String, f64)> {
    let (mut texts, mut numbers) = (Vec::new(), Vec::new());
    for (at, column) in row.columns_ref().iter().enumerate() {
        let Some(text) = text_of(row, at) else { continue };
        match text.parse::<f64>() {
            Ok(value) if value.is_finite() => numbers.push((column.name_str().into_owned(), value)),
            _ if text.contains('\n') => return numbers_of_status(&text),
            _ if !text.is_empty() => texts.push(text),
            _ => {}
        }
    }
    let key = texts.join(".");
    match (key.is_empty(), numbers.len()) {
        (true, _) => numbers,
        (false, 1) => vec![(key, numbers[0].1)],
        (false, _) => numbers.into_iter().map(|(n, value)| (format!("{key}.{n}"), value)).collect(),
    }
}

/// The numbers of SHOW ENGINE … STATUS, named by the words around them, without those of individual
/// transactions.
fn numbers_of_status(text: &str) -> Vec<(String, f64)> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let is_rule = |line: &str| line.len() > 2 && line.chars().all(|c| c == '-' || c == '=');
    let (mut found, mut section, mut closing) = (Vec::new(), "", 0);
    for (at, line) in lines.iter().enumerate() {
        let above = at.checked_sub(1).map_or("", |at| lines[at]);
        let below = lines.get(at + 1).copied().unwrap_or("");
        // The rule below one title does not count as the rule above the next.
        if is_rule(above) && is_rule(below) && at != closing + 1 {
            (section, closing) = (line, at + 1);
        }
        if SKIPPED.contains(&section) || found.len() >= NUMBERS_MAX {
            continue;
        }
        found.extend(cut_at_numbers(line));
    }
    found
}

/// The numbers of a line. Each is named by the line with `#` in place of its numbers, followed by
/// the number's position if there are several.
fn cut_at_numbers(line: &str) -> Vec<(String, f64)> {
    let (mut name, mut numbers) = (String::new(), Vec::new());
    let mut rest = line;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, from) = rest.split_at(at);
        // Digits in a name are not a number.
        let is_name = before.chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_');
        let length = from.find(|c: char| !(c.is_ascii_digit() || c == '.'));
        let (number, after) = from.split_at(length.unwrap_or(from.len()));
        name.push_str(before);
        match number.trim_end_matches('.').parse() {
            Ok(value) if !is_name => {
                name.push('#');
                numbers.push(value);
            }
            _ => name.push_str(number),
        }
        rest = after;
    }
    name.push_str(rest);
    let several = numbers.len() > 1;
    let named = |(place, value)| match several {
        true => (format!("{name} [{place}]"), value),
        false => (name.clone(), value),
    };
    (1..).zip(numbers).map(named).collect()
}

/// The named numbers of a kernel file with lines like `VmRSS: 5 kB`, `7:1 Read 4096`, `some
/// avg10=0.00 total=7`, or a single number.
fn numbers_of_lines(text: &str) -> Vec<(String, f64)> {
    let mut found = Vec::new();
    for line in text.lines() {
        let mut head = String::new();
        for word in line.split_whitespace() {
            let (name, value) = word.split_once('=').unwrap_or(("", word));
            let full = match (head.is_empty(), name.is_empty()) {
                (_, true) => head.clone(),
                (true, false) => name.to_owned(),
                (false, false) => format!("{head}.{name}"),
            };
            match value.parse::<f64>() {
                Ok(value) if value.is_finite() => {
                    let full = if full.is_empty() { "value".to_owned() } else { full };
                    found.push((full, value));
                    if name.is_empty() {
                        break; // further numbers have no names
                    }
                }
                _ => {
                    head = [head.as_str(), word.trim_end_matches(':')].join(".");
                    head = head.trim_start_matches('.').to_owned();
                }
            }
        }
    }
    found
}

/// The counters of /proc/PID/stat; times are in ticks.
fn numbers_of_stat(stat: &str) -> Vec<(String, f64)> {
    const FIELDS: [(&str, usize); 8] = [
        ("minflt", 10),
        ("majflt", 12),
        ("utime", 14),
        ("stime", 15),
        ("num_threads", 20),
        ("vsize", 23),
        ("rss_pages", 24),
        ("delayacct_blkio_ticks", 42),
    ];
    let Some((_, rest)) = stat.rsplit_once(')') else { return Vec::new() };
    let fields: Vec<&str> = rest.split_whitespace().collect(); // from the third field on
    let value = |place: usize| fields.get(place - 3)?.parse::<f64>().ok();
    FIELDS.iter().filter_map(|(name, at)| Some(((*name).to_owned(), value(*at)?))).collect()
}

/// The counters of a disk in /proc/diskstats, named as in the kernel's documentation.
fn numbers_of_disk(text: &str, disk: &str) -> Vec<(String, f64)> {
    const FIELDS: [&str; 17] = [
        "reads",
        "reads_merged",
        "read_sectors",
        "read_ms",
        "writes",
        "writes_merged",
        "written_sectors",
        "write_ms",
        "in_flight",
        "io_ms",
        "weighted_io_ms",
        "discards",
        "discards_merged",
        "discarded_sectors",
        "discard_ms",
        "flushes",
        "flush_ms",
    ];
    let mut lines = text.lines().map(|line| line.split_whitespace().skip(2));
    let Some(words) = lines.find(|words| words.clone().next() == Some(disk)) else {
        return Vec::new();
    };
    let named = FIELDS.iter().zip(words.skip(1));
    named.filter_map(|(name, word)| Some(((*name).to_owned(), word.parse().ok()?))).collect()
}

/// Numbers repeated names, so that each name occurs once in a sample.
fn distinct(mut found: Vec<(String, f64)>) -> Vec<(String, f64)> {
    let mut seen: HashMap<String, u32> = HashMap::new();
    for (name, _) in &mut found {
        let times = seen.entry(name.clone()).or_insert(0);
        *times += 1;
        if *times > 1 {
            *name = format!("{name} ({times})");
        }
    }
    found
}

/// Drops samples that repeat the previous value of their counter, and zeros at its start. The rest
/// is stored.
pub fn changes(samples: Vec<CounterSample>) -> Vec<CounterSample> {
    let mut last: HashMap<(String, String), f64> = HashMap::new();
    let is_new = |sample: &CounterSample| {
        let key = (sample.source.clone(), sample.name.clone());
        last.insert(key, sample.value).unwrap_or(0.0) != sample.value
    };
    samples.into_iter().filter(is_new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::step::measured::growth;

    fn named(expected: &[(&str, f64)]) -> Vec<(String, f64)> {
        expected.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }

    #[test]
    fn status_text_is_split_at_numbers_and_transactions_are_omitted() {
        let text = "\n=====\nX MONITOR OUTPUT\n=====\n---\nTRANSACTIONS\n---\n---TRANSACTION 421, ACTIVE 3 sec\n\
                    ---\nLOG\n---\nLog sequence number 44894\n0.50 log i/o's/second, 2 pending\nutf8mb4 is a name\n\
                    Last checkpoint at 7.\n";
        let expected = [
            ("Log sequence number #", 44894.0),
            ("# log i/o's/second, # pending [1]", 0.5),
            ("# log i/o's/second, # pending [2]", 2.0),
            ("Last checkpoint at #", 7.0),
        ];
        assert_eq!(numbers_of_status(text), named(&expected));
    }

    #[test]
    fn files_of_the_kernel_are_names_and_numbers() {
        let text = "rchar: 12\nVmRSS:\t  34 kB\n7:1 Read 4096\nsome avg10=0.50 total=7\n99\nanon 5\n\
                    8:0 rbytes=1 wios=2\n";
        let expected = [
            ("rchar", 12.0),
            ("VmRSS", 34.0),
            ("7:1.Read", 4096.0),
            ("some.avg10", 0.5),
            ("some.total", 7.0),
            ("value", 99.0),
            ("anon", 5.0),
            ("8:0.rbytes", 1.0),
            ("8:0.wios", 2.0),
        ];
        assert_eq!(numbers_of_lines(text), named(&expected));
        let disks = " 254 0 vda 1 2 3 4 5 6 7 8 9 10 11\n 254 1 vda1 20 0 0\n";
        let found = numbers_of_disk(disks, "vda1");
        assert_eq!(found[0], ("reads".to_owned(), 20.0));
        assert_eq!(numbers_of_disk(disks, "vda")[9], ("io_ms".to_owned(), 10.0));
        assert!(numbers_of_disk(disks, "sda").is_empty());
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194304 1250 0 13 0 150 50 0 0 20 0 33 0 0 0 0";
        assert_eq!(
            numbers_of_stat(stat)[..3],
            named(&[("minflt", 1250.0), ("majflt", 13.0), ("utime", 150.0)])
        );
    }

    #[test]
    fn only_changes_are_kept_and_names_are_distinct() {
        let sample = |t: f64, name: &str, value: f64| CounterSample {
            t,
            source: "s".to_owned(),
            name: name.to_owned(),
            value,
        };
        let all = vec![
            sample(0.0, "a", 0.0),
            sample(0.0, "b", 5.0),
            sample(10.0, "a", 0.0),
            sample(10.0, "b", 5.0),
            sample(20.0, "a", 3.0),
            sample(20.0, "b", 0.0),
        ];
        assert_eq!(growth(&all, "A"), Some(3.0));
        let kept = vec![sample(0.0, "b", 5.0), sample(20.0, "a", 3.0), sample(20.0, "b", 0.0)];
        assert_eq!(changes(all), kept);
        let twice = distinct(named(&[("a", 1.0), ("a", 2.0)]));
        assert_eq!(twice, named(&[("a", 1.0), ("a (2)", 2.0)]));
    }

    #[test]
    fn sources_are_tables() {
        assert_eq!(source("SHOW GLOBAL STATUS"), "global_status");
        assert_eq!(source("SHOW ENGINE FROND STATUS"), "engine_status");
        assert_eq!(source("SELECT * FROM information_schema.INNODB_CMPMEM"), "innodb_cmpmem");
    }
}
