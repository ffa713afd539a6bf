//! Tests of the program `lab` from outside: runs on real servers, interruptions, faults that must
//! fail a run, and inputs that are refused.
//!
//! They need MariaDB, MyRocks and the built plugin; `make test-lab` runs them.
#![cfg(feature = "lab")]

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use frond_lab::lab::machine::{Group, Limits};
use rusqlite::Connection;

struct Lab {
    dir: tempfile::TempDir,
}

impl Lab {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a directory") }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lab"));
        command.args(words).arg("--results").arg(self.path("results.sqlite"));
        // The program looks for the plugin below the working directory.
        command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
        if words[0] == "run" {
            command.arg("--dir").arg(self.path("data"));
        }
        command
    }

    fn run(&self, words: &str) -> Output {
        let words: Vec<&str> = words.split_whitespace().collect();
        self.command(&words).output().expect("the program starts")
    }

    fn ok(&self, words: &str) -> String {
        let output = self.run(words);
        assert!(output.status.success(), "{words}: {}", said(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs a command that must fail, and returns its output.
    fn fails(&self, words: &str) -> String {
        let output = self.run(words);
        assert!(!output.status.success(), "{words} came through");
        said(&output)
    }

    fn spawn(&self, words: &str) -> Child {
        let words: Vec<&str> = words.split_whitespace().collect();
        let mut command = self.command(&words);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program starts")
    }

    fn database(&self) -> Connection {
        Connection::open(self.path("results.sqlite")).expect("there are results")
    }

    fn number(&self, sql: &str) -> i64 {
        self.database().query_row(sql, [], |row| row.get(0)).expect("a number")
    }

    /// Number of cells written so far.
    fn cells(&self) -> i64 {
        let count = |database: Connection| {
            database.query_row("SELECT COUNT(*) FROM cell", [], |row| row.get(0))
        };
        match self.path("results.sqlite").exists() {
            true => count(self.database()).unwrap_or(0), // its tables may not be there yet
            false => 0,
        }
    }

    /// Starts a run, and waits until its first cell is written and its second server is running.
    fn spawn_until_second_cell(&self, words: &str) -> Child {
        let child = self.spawn(words);
        self.wait_until("the first cell", || self.cells() == 1);
        self.wait_until("the second server", || !self.processes().is_empty());
        child
    }

    /// Waits until the condition is true.
    fn wait_until(&self, what: &str, is_so: impl Fn() -> bool) {
        let begin = Instant::now();
        while !is_so() {
            assert!(begin.elapsed() < Duration::from_secs(120), "{what} does not happen");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Writes the file of a target, and returns its path.
    fn target(&self, name: &str, text: &str) -> String {
        let path = self.path(&format!("{name}.toml"));
        std::fs::write(&path, text).expect("written");
        path.display().to_string()
    }

    /// Servers whose command line names the directory of this lab: their directories in /proc, and
    /// the command lines.
    fn servers(&self) -> Vec<(PathBuf, String)> {
        let name = self.dir.path().display().to_string();
        let entries = std::fs::read_dir("/proc").expect("there is /proc").flatten();
        let servers = entries.filter_map(|entry| {
            let line = std::fs::read(entry.path().join("cmdline")).ok()?;
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            (line.contains(&name) && line.contains("mariadbd")).then_some((entry.path(), line))
        });
        servers.collect()
    }

    /// Command lines of those servers.
    fn processes(&self) -> Vec<String> {
        self.servers().into_iter().map(|(_, line)| line).collect()
    }

    /// What such servers have outside of the directory of the lab: directories of sockets, and
    /// control groups.
    fn belongings(&self) -> Vec<PathBuf> {
        let mounts = std::fs::read_to_string("/proc/self/mounts").expect("there is /proc");
        let hierarchies: Vec<&str> =
            mounts.lines().filter_map(|line| line.split(' ').nth(1)).collect();
        let mut found = Vec::new();
        for (process, line) in self.servers() {
            let socket = line.split(' ').find_map(|word| word.strip_prefix("--socket="));
            found.extend(socket.and_then(|socket| Path::new(socket).parent()).map(Path::to_owned));
            let groups = std::fs::read_to_string(process.join("cgroup")).unwrap_or_default();
            let names = groups.lines().filter_map(|line| line.splitn(3, ':').nth(2));
            for name in names.filter(|name| name.contains("/frond-lab-")) {
                found.extend(hierarchies.iter().map(|at| PathBuf::from(format!("{at}{name}"))));
            }
        }
        found.retain(|path| path.exists());
        found
    }

    /// Waits until the server has a socket, and a control group if this machine makes them; returns
    /// their paths.
    fn wait_for_belongings(&self) -> Vec<PathBuf> {
        let group = Group::create(&Limits::default());
        let groups = usize::from(group.is_ok_and(|group| !group.count_files().is_empty()));
        self.wait_until("the control group", || self.belongings().len() > groups);
        self.belongings()
    }
}

/// A server that the lab did not start.
struct Server {
    process: Child,
    dir: tempfile::TempDir,
}

impl Server {
    /// Starts a server whose default engine is Frond.
    fn start() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name).display().to_string();
        let user = is_root().then_some("--user=root");
        // A server that starts deletes the temporary tables of all that share its directory.
        std::fs::create_dir(dir.path().join("tmp")).expect("made");
        let places = [format!("--datadir={}", at("data")), format!("--tmpdir={}", at("tmp"))];
        let mut install = Command::new("mariadb-install-db");
        install.args(["--no-defaults", "--auth-root-authentication-method=normal"]);
        let made = install.args(&places).args(user).output().expect("it is installed");
        assert!(made.status.success(), "{made:?}");
        let plugin = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/mariadb/build");
        let log = std::fs::File::create(dir.path().join("log")).expect("made");
        let mut server = Command::new("mariadbd");
        server.arg("--no-defaults").args(&places).args(user).args([
            "--skip-networking",
            "--plugin-load-add=ha_frond.so",
            "--plugin-maturity=experimental",
            "--default-storage-engine=FROND",
            "--max-connections=77",
        ]);
        server.arg(format!("--plugin-dir={}", plugin.display()));
        server.arg(format!("--socket={}", at("socket"))).stdout(Stdio::null()).stderr(log);
        let process = server.spawn().expect("it is installed");
        let server = Self { process, dir };
        let (begin, socket) = (Instant::now(), server.dir.path().join("socket"));
        while UnixStream::connect(&socket).is_err() {
            let log = || std::fs::read_to_string(server.dir.path().join("log"));
            assert!(begin.elapsed() < Duration::from_secs(120), "{:?}", log());
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }

    /// The URL of a target on this server.
    fn url(&self, more: &str) -> String {
        format!("mysql://root@localhost/?socket={}/socket{more}", self.dir.path().display())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill(); // it may have ended
        let _ = self.process.wait();
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn signal(child: &Child, signal: &str) {
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status();
    assert!(sent.expect("kill is there").success());
}

fn is_root() -> bool {
    let process = std::fs::metadata("/proc/self").expect("there is /proc");
    std::os::unix::fs::MetadataExt::uid(&process) == 0
}

/// Those of these paths that exist.
fn existing(paths: &[PathBuf]) -> Vec<&PathBuf> {
    paths.iter().filter(|path| path.exists()).collect()
}

#[test]
fn unknown_names_are_answered_with_the_nearest() {
    let lab = Lab::new();
    assert!(lab.fails("run iibnech").contains("did you mean iibench?"));
    assert!(lab.fails("run iibench --targets inodb").contains("did you mean innodb?"));
    assert!(lab.fails("run iibench --set row=7").contains("did you mean rows"));
    assert!(lab.fails("run iibench --face embedded --targets rockdb").contains("rocksdb"));
    assert!(lab.fails("run iibench --class clouds").contains("did you mean cloud?"));
    assert!(lab.fails("run iibench --targets frond@nonsense").contains("no revision `nonsense`"));
    assert!(lab.fails("run iibench --targets innodb@HEAD").contains("only Frond has versions"));
    assert!(lab.fails("show 123").contains("there are no results yet"));
    assert!(lab.fails("run iibench --set rows=0 --targets innodb").contains("rows"));
    let refused = lab.fails("run iibench --targets mysql://root@127.0.0.1:1/x");
    assert!(refused.contains("--yes-write"), "{refused}");
    let throttled = "run iibench --targets mysql://root@127.0.0.1:1/x --yes-write --class cloud";
    assert!(lab.fails(throttled).contains("only servers that the lab starts"));
    assert!(lab.fails("run iibench --dry-run --targets frond@nonsense").contains("no revision"));
    assert!(lab.fails("run iibench --memory 1MB").contains("at least 16 MiB"));
    assert!(lab.fails("run dbbnch").contains("did you mean dbbench?"));
}

#[test]
fn space_and_servers_are_checked_before_the_first_cell() {
    let lab = Lab::new();
    let huge = "run iibench --size published --targets innodb --set rows=2000000000";
    let refused = lab.fails(huge);
    assert!(refused.contains("the largest cell may need"), "{refused}");
    let unreachable = "run iibench --size tiny --targets frond,mysql://root:secret@127.0.0.1:1/x";
    let refused = lab.fails(&format!("{unreachable} --yes-write"));
    assert!(refused.contains("127.0.0.1:1") && !refused.contains("secret"), "{refused}");
    assert!(!lab.path("data").exists(), "nothing was run");
}

#[test]
fn foreign_directories_are_left_unchanged() {
    let lab = Lab::new();
    std::fs::create_dir(lab.path("data")).expect("made");
    std::fs::write(lab.path("data").join("precious"), "x").expect("written");
    let refused = lab.fails("run iibench --face embedded --targets frond --size tiny");
    assert!(refused.contains("choose another --dir"), "{refused}");
    assert!(lab.path("data").join("precious").exists());

    // A link instead of the file that marks a directory of the lab, and a directory within one.
    std::fs::remove_file(lab.path("data").join("precious")).expect("removed");
    std::fs::write(lab.path("elsewhere"), "").expect("written");
    let marker = lab.path("data").join(".frond-lab");
    std::os::unix::fs::symlink(lab.path("elsewhere"), &marker).expect("linked");
    lab.fails("run iibench --face embedded --targets frond --size tiny");
    assert_eq!(std::fs::read(lab.path("elsewhere")).expect("read"), b"");
    std::fs::remove_file(&marker).expect("removed");
    std::fs::write(lab.path(".frond-lab"), "").expect("written");
    let refused = lab.fails("run iibench --face embedded --targets frond --size tiny");
    assert!(refused.contains("is inside"), "{refused}");
}

#[test]
fn a_directory_that_another_lab_uses_is_refused() {
    let lab = Lab::new();
    std::fs::create_dir(lab.path("data")).expect("made");
    let marker = std::fs::File::create(lab.path("data").join(".frond-lab")).expect("made");
    marker.lock().expect("locked");
    let run = "run iibench --face embedded --targets null --size tiny --set rows=1000";
    assert!(lab.fails(run).contains("another lab is running there; choose another --dir"));
    drop(marker);
    lab.ok(run);
}

#[test]
fn embedded_stores_are_run_shown_and_compared() {
    let lab = Lab::new();
    let (tidesdb, stores) = if cfg!(feature = "tidesdb") { (",tidesdb", 6) } else { ("", 5) };
    lab.ok(&format!(
        "run iibench --face embedded --targets rocksdb,frond,sqlite,lmdb,null{tidesdb} --size tiny --set rows=5000"
    ));
    assert_eq!(lab.number("SELECT COUNT(*) FROM cell WHERE state='done'"), stores);
    assert_eq!(
        lab.number("SELECT COUNT(DISTINCT detail) FROM verification WHERE name LIKE 'fact:%'"),
        1
    );
    // The clients' cost is subtracted from a target unless the null target, on a busy machine, took
    // more CPU than that target's clients.
    let of_clients = "SELECT value FROM metric JOIN cell ON cell=cell.id WHERE target='null' AND name='client_cpu_us_op'";
    let not_subtracted = format!(
        "SELECT COUNT(*) FROM metric m JOIN cell ON m.cell=cell.id \
         WHERE target<>'null' AND m.name='cpu_fg_us_op' AND m.value>=({of_clients}) \
         AND NOT EXISTS (SELECT 1 FROM metric s \
           WHERE s.cell=m.cell AND s.step=m.step AND s.name='client_cpu_us_op')"
    );
    assert_eq!(lab.number(&not_subtracted), 0, "what the clients cost");
    let measured =
        "SELECT COUNT(*) FROM metric JOIN cell ON cell=cell.id WHERE name='cpu_fg_us_op'";
    assert_eq!(lab.number(measured), stores);
    assert!(lab.number("SELECT COUNT(*) FROM histogram") >= stores);
    let shown = lab.ok("show last");
    assert!(shown.contains("goal    rows/s at the end: "), "{shown}");
    assert!(shown.contains("| rocksdb |") && shown.contains("ops_s"), "{shown}");
    let compared = lab.ok("compare last:rocksdb last:frond");
    assert!(
        compared.contains("cpu_us_op") && compared.contains("there are no verdicts"),
        "{compared}"
    );
    // Runs of different sizes are refused, or marked with --anyway.
    lab.ok("run iibench --face embedded --targets frond --size quick --set rows=5000");
    let uids: Vec<String> = lab.ok("show").lines().map(|line| line[..8].to_owned()).collect();
    let refused = lab.fails(&format!("compare {} {}", uids[0], uids[1]));
    assert!(refused.contains("size tiny/quick"), "{refused}");
    let marked = lab.ok(&format!("compare {} {} --anyway", uids[0], uids[1]));
    assert!(marked.contains("NOT COMPARABLE: size tiny/quick"), "{marked}");
    // Exports the results, and imports them into another file.
    let exported = lab.ok("export");
    std::fs::write(lab.path("export.json"), &exported).expect("written");
    let other = Lab::new();
    let import = format!("import {}", lab.path("export.json").display());
    assert_eq!(other.ok(&import).trim(), "2 new runs");
    assert!(other.ok("export") == exported, "another export");
}

#[test]
fn all_engines_run_and_have_the_same_rows() {
    let lab = Lab::new();
    let targets = "innodb,innodb-compact,innodb-8k,innodb-4k,innodb-2k,innodb-lz4,innodb-cb,myrocks,blackhole,frond,frond-fast,frond-small";
    lab.ok(&format!("run iibench --size tiny --set rows=5000 --targets {targets}"));
    assert_eq!(lab.number("SELECT COUNT(*) FROM cell WHERE state='done'"), 12);
    let facts = "SELECT COUNT(*) FROM verification WHERE name='fact: purchases_index by PRIMARY'";
    assert_eq!(lab.number(facts), 11);
    let synced =
        "SELECT COUNT(*) FROM verification WHERE name='each commit is synced' AND passed=1";
    assert_eq!(lab.number(synced), 11);
    assert_eq!(lab.number("SELECT COUNT(*) FROM verification WHERE name='frond check'"), 3);
    // The memory that the server itself takes is measured on each target: that of four statements
    // of 1 MiB each, and little per connection.
    let own = "SELECT COUNT(*) FROM verification WHERE name='memory is within its limit' AND passed=1 \
               AND detail LIKE '%the server itself takes%'";
    assert_eq!(lab.number(own), 12);
    assert!(lab.number("SELECT COUNT(*) FROM counter") > 100);
    assert!(lab.processes().is_empty());
}

#[test]
fn a_target_that_does_not_sync_fails_at_safe() {
    let lab = Lab::new();
    let text = r#"
        about = "says that it syncs, and does not"
        like = "innodb"
        [durability.safe]
        innodb_flush_log_at_trx_commit = { value = "2", why = "the planted fault" }
    "#;
    let target = lab.target("liar", text);
    let failed = lab.fails(&format!("run iibench --size tiny --set rows=2000 --targets {target}"));
    assert!(failed.contains("each commit is synced: 30 commits: calls of the process"), "{failed}");
}

#[test]
fn a_target_with_more_memory_than_the_others_fails() {
    let lab = Lab::new();
    let text = r#"
        about = "has twelve times the memory"
        like = "innodb"
        [settings]
        innodb_buffer_pool_size = { value = "{memory*12}", why = "the planted fault" }
    "#;
    let target = lab.target("glutton", text);
    // More rows than the allowance holds.
    let run = "run sysbench --size tiny --no-rest --memory 32MiB --durability relaxed --set rows=1_200_000 --set time_limit=0";
    let failed =
        lab.fails(&format!("{run} --set tests=point_select --set threads=1 --targets {target}"));
    assert!(failed.contains("memory is within its limit"), "{failed}");
}

#[test]
fn a_lost_row_and_a_wrong_row_fail() {
    let lab = Lab::new();
    // These statements run after the load, when its rows are acknowledged.
    let lost = "about = 'loses rows'\nlike = 'frond'\n\
                settle = ['DELETE FROM purchases_index LIMIT 1']";
    let wrong = "about = 'changes a row'\nlike = 'innodb'\n\
                 settle = ['UPDATE purchases_index SET productid=productid+1 LIMIT 1']";
    for (target, said) in [
        (lab.target("loser", lost), "rows of purchases_index: "),
        (lab.target("forger", wrong), "purchases_index as generated: 2000 rows with checksum"),
    ] {
        let run = "run iibench --size tiny --set rows=2000 --durability relaxed";
        let failed = lab.fails(&format!("{run} --targets {target}"));
        assert!(failed.contains("1 of 1 cells failed") && failed.contains(said), "{failed}");
    }
    assert_eq!(lab.number("SELECT COUNT(*) FROM cell WHERE state='failed'"), 2);
}

#[test]
fn the_url_of_any_server_is_a_target_with_its_default_engine_or_another() {
    let (lab, server) = (Lab::new(), Server::start());
    let run = "run iibench --size tiny --set rows=2000 --yes-write --targets";
    let (default, innodb) = (server.url(""), server.url("&engine=innodb"));
    lab.ok(&format!("{run} {default},{innodb},frond"));
    for engine in ["FROND", "InnoDB"] {
        let made = format!(
            "SELECT COUNT(*) FROM cell JOIN setting ON cell=cell.id WHERE target LIKE 'mysql:%' \
             AND state='done' AND version LIKE '{engine} in MariaDB 1%' AND value='ENGINE={engine}'"
        );
        assert_eq!(lab.number(&made), 1, "{engine}");
    }
    let facts = "SELECT COUNT(*) FROM verification WHERE name='fact: purchases_index by PRIMARY'";
    assert_eq!(lab.number(facts), 3);
    let isolation = "SELECT COUNT(*) FROM verification \
                     WHERE name='fact: isolation level' AND detail='REPEATABLE-READ'";
    assert_eq!(lab.number(isolation), 3);
    // Each of the three indexes, on each target.
    let verified = "SELECT COUNT(*) FROM verification \
                    WHERE name LIKE 'purchases_index by %' AND name NOT LIKE '% after %' AND passed=1";
    assert_eq!(lab.number(verified), 9);
    // The server's settings are its own, and shown.
    let own = "SELECT COUNT(*) FROM setting WHERE name='max_connections' \
               AND value='77  (default 151)' AND cell IN (SELECT id FROM cell WHERE target LIKE 'mysql:%')";
    assert_eq!(lab.number(own), 2);
    let refused = lab.fails(&format!("{run} {}", server.url("&engine=inodb")));
    assert!(refused.contains("did you mean InnoDB?"), "{refused}");
}

#[test]
fn a_server_that_does_not_start_shows_its_log() {
    let lab = Lab::new();
    let text = r#"
        about = "has an option that does not exist"
        like = "innodb"
        [settings]
        no_such_option = { value = "1", why = "the planted fault" }
    "#;
    let target = lab.target("broken", text);
    let failed = lab.fails(&format!("run iibench --size tiny --targets {target}"));
    assert!(failed.contains("unknown variable") && failed.contains("last lines"), "{failed}");
}

#[test]
fn an_interrupted_run_leaves_nothing_behind_and_is_resumed() {
    let lab = Lab::new();
    let run = "run iibench --size tiny --targets innodb,frond,blackhole --set rows=100000 --durability relaxed";
    let child = lab.spawn_until_second_cell(run);
    let belongings = lab.wait_for_belongings();
    signal(&child, "-INT");
    let ended = child.wait_with_output().expect("it ends");
    assert!(!ended.status.success());
    assert!(lab.processes().is_empty(), "{:?}", lab.processes());
    assert_eq!(existing(&belongings), Vec::<&PathBuf>::new());
    assert_eq!(lab.number("SELECT COUNT(*) FROM cell WHERE state='done'"), 1);
    assert_eq!(lab.number("SELECT COUNT(*) FROM run WHERE ended IS NULL"), 1);

    lab.ok(&format!("{run} --resume"));
    assert_eq!(lab.number("SELECT COUNT(*) FROM run"), 1);
    assert_eq!(lab.number("SELECT COUNT(*) FROM cell WHERE state='done'"), 3);
}

#[test]
fn an_interrupt_ends_a_statement_that_runs_long() {
    let lab = Lab::new();
    let sign = lab.path("resting");
    let text = format!(
        r#"
        about = "never comes to rest"
        like = "innodb"
        settle = ["SELECT 1 INTO OUTFILE '{}'", "DO SLEEP(3600)"]
    "#,
        sign.display()
    );
    let target = lab.target("restless", &text);
    let run =
        format!("run iibench --size tiny --targets {target} --set rows=2000 --durability relaxed");
    let child = lab.spawn(&run);
    lab.wait_until("the statement", || sign.exists());
    let belongings = lab.wait_for_belongings();
    signal(&child, "-INT");
    child.wait_with_output().expect("it ends");
    assert!(lab.processes().is_empty(), "{:?}", lab.processes());
    assert_eq!(existing(&belongings), Vec::<&PathBuf>::new());
    // Values measured before the interrupt are kept, and --resume runs the cell again.
    let stopped = "SELECT COUNT(*) FROM cell JOIN metric ON cell=cell.id \
                   WHERE state='stopped' AND failure='interrupted' AND name='ops_s'";
    assert_eq!(lab.number(stopped), 1);
    let sizes = "SELECT COUNT(*) FROM metric WHERE name='disk_b_row'";
    assert_eq!(lab.number(sizes), 0, "its files hold an unknown number of rows");
}

#[test]
fn a_killed_run_keeps_its_finished_cells() {
    let lab = Lab::new();
    let run =
        "run iibench --size tiny --targets blackhole,innodb --set rows=100000 --durability relaxed";
    let mut child = lab.spawn_until_second_cell(run);
    let belongings = lab.wait_for_belongings();
    signal(&child, "-KILL");
    child.wait().expect("it ends");
    // The cell's process and its server end with the run.
    lab.wait_until("the end of the server", || lab.processes().is_empty());
    assert_eq!(lab.number("SELECT COUNT(*) FROM cell WHERE state='done'"), 1);
    lab.ok(&format!("{run} --resume"));
    assert_eq!(existing(&belongings), Vec::<&PathBuf>::new(), "the next run removes them");
    assert_eq!(lab.number("SELECT COUNT(*) FROM cell WHERE state='done'"), 2);
}

#[test]
fn cells_on_virtual_disks_leave_nothing_however_the_run_ends() {
    if !is_root() || !Path::new("/dev/fuse").exists() {
        eprintln!("not tested: a virtual disk needs root and /dev/fuse");
        return;
    }
    // On the file system of the checkout, since that of /tmp may lack direct I/O.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let lab = Lab { dir };
    let left = || {
        let name = lab.dir.path().display().to_string();
        let mounts = std::fs::read_to_string("/proc/self/mounts").expect("there is /proc");
        let loops = Command::new("losetup").arg("--list").output().expect("losetup is there");
        let text = mounts + &String::from_utf8_lossy(&loops.stdout);
        text.lines().filter(|line| line.contains(&name)).map(str::to_owned).collect::<Vec<_>>()
    };
    let run = "run iibench --size tiny --targets blackhole,innodb --set rows=30000 --class cloud --disk virtual";
    let mut child = lab.spawn_until_second_cell(run);
    signal(&child, "-KILL");
    child.wait().expect("it ends");
    lab.wait_until("the end of the server", || lab.processes().is_empty());
    assert!(!left().is_empty(), "a disk is left, for the next run");

    let mut child = lab.spawn(&format!("{run} --resume"));
    lab.wait_until("the server", || !lab.processes().is_empty());
    signal(&child, "-INT");
    assert!(!child.wait().expect("it ends").success());
    assert_eq!((lab.processes(), left()), (Vec::new(), Vec::new()));

    lab.ok(&format!("{run} --resume"));
    assert_eq!(lab.number("SELECT COUNT(*) FROM cell WHERE state='done'"), 2);
    let full = "SELECT COUNT(*) FROM setting WHERE name='throttle' AND value='full'";
    assert_eq!(lab.number(full), 2);
    assert!(lab.number("SELECT COUNT(*) FROM metric WHERE name='disk_cpu_s' AND value>0") >= 2);
    assert_eq!(left(), Vec::<String>::new());
    assert_eq!(std::fs::read_dir(lab.path("data")).expect("it is there").count(), 1, "its marker");
}

#[test]
fn a_target_is_one_file() {
    // A workload and a metric are one addition each, too: see workloads/example.rs.
    let lab = Lab::new();
    let target = lab.target(
        "mine",
        "about = 'COMPACT rows'\nlike = 'innodb'\ncreate = 'ENGINE=InnoDB ROW_FORMAT=COMPACT'",
    );
    lab.ok(&format!("run iibench --size tiny --set rows=2000 --targets innodb,{target}"));
    let create = "SELECT COUNT(*) FROM setting WHERE value LIKE '%COMPACT%'";
    assert_eq!(lab.number(create), 1);
    // The settings shown are those in force, with the server's defaults.
    let shown = lab.ok("show last");
    assert!(shown.contains("- max_connections = 1100  (sweeps"), "{shown}");
    assert!(shown.contains("; default 151)") && shown.contains("chosen by the server"), "{shown}");
    assert!(
        shown.contains("- iibench rows=2000: purchases_index by PRIMARY: 2000 rows, sum"),
        "{shown}"
    );
}
