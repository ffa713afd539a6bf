//! `clients`: the lab's client against others that send the same statements to the same server.
//!
//! | step | |
//! |---|---|
//! | `load` | iiBench's inserts, made and sent by the lab |
//! | `load by mariadb` | the same statements, ready-made in a file, sent by the C client |
//! | `sysbench TEST` | a test of sysbench, by the lab |
//! | `sysbench TEST by Debian` | the same, by Debian's sysbench |
//!
//! A target that keeps no rows runs the first two, since the client costs most there. Others run
//! the rest.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::sbtest::{INNODB_ROW_BYTES, ROW_BYTES};
use super::sysbench::{self, Client, Tables, Test};
use super::{Entry, Workload, iibench};
use crate::lab::params::{Param, Params};
use crate::lab::sql::Bench;
use crate::lab::step::Step;
use crate::targets::{Failure, Result};

pub const ENTRY: Entry = Entry {
    name: "clients",
    about: "the lab's client against the C client (on blackhole) and Debian's sysbench",
    headline: ("", "client_ratio"),
    params: &[
        Param::sized("rows", ["5_000", "400_000", "2_000_000", "10_000_000"], "rows of the load"),
        Param::fixed(
            "tests",
            "point_select,read_only,read_write,update_index",
            "tests of sysbench",
        ),
        Param::sized("seconds", ["1", "2", "30", "60"], "duration of each test, whole seconds"),
        Param::sized("warm_up", ["0", "0.3", "20", "60"], "maximum warm-up of each, seconds"),
        Param::fixed("ratio", "0.4", "data to cache"),
        Param::sized("time_limit", ["60", "60", "1200", "0"], "seconds, 0 for none"),
    ],
    make: |params, seed| Ok(Box::new(Clients::new(params, seed)?)),
};

struct Clients {
    rows: u64,
    tests: Vec<Test>,
    seconds: u64,
    warm_up: f64,
    seed: u64,
}

impl Clients {
    fn new(params: &Params, seed: u64) -> Result<Self> {
        let (rows, seconds) = (params.number("rows")?, params.number("seconds")?);
        sysbench::check(rows, 1, &[1])?;
        let tests = sysbench::tests(params)?;
        Ok(Self { rows, tests, seconds: seconds.max(1), warm_up: params.real("warm_up")?, seed })
    }

    fn load(&self, bench: &mut Bench, socket: &Path) -> Result<()> {
        let mut iibench = iibench::Iibench::plain(self.rows, self.seed);
        iibench.run(bench)?;
        let ours = rate(bench);
        let file = Removed(std::env::temp_dir().join(format!("lab-{}.sql", std::process::id())));
        let mut out = BufWriter::new(File::create(&file.0)?);
        iibench.statements(|text| Ok(writeln!(out, "{text};")?))?;
        out.flush()?;
        let step = Step::load("load by mariadb", self.rows, 0);
        bench.step(&step, |worker| {
            worker.request("file", self.rows, |_| Ok(send(&file.0, socket)?))
        })?;
        let theirs = rate(bench);
        note(bench, ours, theirs);
        Ok(())
    }

    fn sysbench(&self, bench: &mut Bench, socket: &Path) -> Result<(u64, u64)> {
        let tables = Tables::new("sbtest", 1, self.rows, "uniform", self.seed).with_clients(1);
        if !sysbench::load(bench, &tables, self.seed)? {
            return Ok((0, 0));
        }
        let time = format!("--time={}", self.seconds);
        for &test in &self.tests {
            if bench.is_over() {
                break;
            }
            let name = format!("sysbench {}", test.name());
            let step = Step::timed(&name, self.seconds as f64, self.warm_up, 1);
            let step = Step { writes: test.writes(), ..step };
            bench.step_prepared(
                &step,
                |index, session, _| Client::new(&tables, test, (index, 1), session),
                |worker, mut client| client.run(worker, None),
                &[],
            )?;
            let ours = rate(bench);
            let name = format!("{name} by Debian");
            let step = Step { writes: test.writes(), ..Step::load(&name, 0, 0) };
            bench.step(&step, |worker| {
                worker.request_of("run", |_| {
                    let said = debians(socket, test, self.rows, &[&time], "run")?;
                    Ok(events(&said).unwrap_or_default())
                })
            })?;
            let theirs = rate(bench);
            note(bench, ours, theirs);
        }
        bench.rest()?;
        bench.verify("sbtest1", Some(self.rows), false)?;
        Ok((self.rows, self.rows * ROW_BYTES))
    }
}

/// A file that is removed in the end.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0); // it may not have been made
    }
}

/// Rate of the last step.
fn rate(bench: &Bench) -> Option<f64> {
    bench.result.steps.last()?.metrics.get("ops_s").copied()
}

/// Adds the ratio of the rates to the step before the last one.
fn note(bench: &mut Bench, ours: Option<f64>, theirs: Option<f64>) {
    let theirs = theirs.filter(|rate| *rate > 0.0);
    if let ([.., step, _], Some((ours, theirs))) =
        (bench.result.steps.as_mut_slice(), ours.zip(theirs))
    {
        step.metrics.insert("client_ratio".to_owned(), ours / theirs);
    }
}

/// Sends the statements of a file with the C client.
fn send(file: &Path, socket: &Path) -> Result<()> {
    let mut client = Command::new("mariadb");
    client.args(["--no-defaults", "--user=root", "--batch", "lab"]);
    client.arg(format!("--socket={}", socket.display())).stdin(File::open(file)?);
    output(client, "mariadb-client").map(drop)
}

/// Runs a client, and returns its output. `package` is the one that has it.
fn output(mut client: Command, package: &str) -> Result<String> {
    let name = client.get_program().display().to_string();
    let output = client.stderr(Stdio::piped()).output().map_err(|error| {
        Failure(format!("{name}: {error}; `apt-get install {package}` installs it"))
    })?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.success() {
        true => Ok(text),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(Failure(format!("{name}: {}: {text} {said}", output.status)))
        }
    }
}

/// Runs a command of a script of Debian's sysbench, and returns its output.
///
/// # Errors
/// It is missing, or fails.
pub fn debians(
    socket: &Path,
    test: Test,
    rows: u64,
    more: &[&str],
    command: &str,
) -> Result<String> {
    let script = match test {
        Test::RandomPoints | Test::RandomRanges => format!("select_{}", test.name()),
        _ => format!("oltp_{}", test.name()),
    };
    let mut sysbench = Command::new("sysbench");
    sysbench
        .args([&script, "--db-driver=mysql", "--mysql-user=root", "--mysql-db=lab"])
        .arg(format!("--mysql-socket={}", socket.display()))
        .args(["--tables=1", "--rand-type=uniform", "--threads=1"])
        .arg(format!("--table-size={rows}"))
        .args(more)
        .arg(command);
    output(sysbench, "sysbench")
}

/// The number of transactions that sysbench reports: `transactions: 1234 (123.4 per sec.)`.
fn events(said: &str) -> Option<u64> {
    let line = said.lines().find_map(|line| line.trim_start().strip_prefix("transactions:"))?;
    line.split_whitespace().next()?.parse().ok()
}

impl Workload for Clients {
    fn innodb_bytes(&self) -> u64 {
        self.rows * INNODB_ROW_BYTES
    }

    fn run(&mut self, bench: &mut Bench) -> Result<(u64, u64)> {
        let socket = PathBuf::from(bench.admin().value("SELECT @@socket")?);
        if bench.keeps_rows() {
            return self.sysbench(bench, &socket);
        }
        self.load(bench, &socket)?;
        Ok((0, 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_from_the_output_of_sysbench() {
        let said = "SQL statistics:\n    transactions:      8123   (1624.05 per sec.)\n";
        assert_eq!((events(said), events("")), (Some(8123), None));
    }
}
