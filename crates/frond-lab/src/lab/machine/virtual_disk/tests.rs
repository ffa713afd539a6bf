//! Tests with really mounted disks. On machines that do not support them, `lab doctor` must say so
//! too.

use std::io::Write;
use std::process::{Command, Stdio};

use super::*;
use crate::lab::machine::doctor::{self, State};

fn options(kind: Kind) -> Options {
    let io = IoLimits { read_ios_s: Some(20_000), write_ios_s: Some(20_000), ..Default::default() };
    let flush = (kind == Kind::Process).then_some(Duration::from_micros(100));
    Options { size: Bytes::mebi(64), io, latency: Duration::ZERO, flush, kind }
}

/// Creates a disk; `None` if this machine cannot, in which case `lab doctor` must say the same.
fn disk(dir: &Path, options: &Options) -> Option<VirtualDisk> {
    let said = doctor::virtual_disk(options.kind);
    match VirtualDisk::create(dir, options) {
        Ok(disk) => {
            assert_eq!(said.state, State::Good, "doctor denies what works: {said:?}");
            Some(disk)
        }
        Err(failure) => {
            assert_ne!(said.state, State::Good, "doctor promises what fails: {failure}");
            eprintln!("not tested: {failure}");
            None
        }
    }
}

/// What is left of `dir`: files, mounts and loop devices.
fn left(dir: &Path) -> Vec<PathBuf> {
    let dir = dir.canonicalize().unwrap();
    let files = attach::loops().into_iter().map(|(_, file)| file);
    let mut left: Vec<PathBuf> = files.filter(|file| file.starts_with(&dir)).collect();
    left.extend(attach::mounts_below(&dir));
    left.extend(fs::read_dir(&dir).unwrap().flatten().map(|entry| entry.path()));
    left
}

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap()
}

fn stores_data_counts_io_and_cleans_up(kind: Kind) {
    let dir = scratch();
    let Some(disk) = disk(dir.path(), &options(kind)) else { return };
    let volume = Volume::of(&disk.path()).unwrap();
    assert_eq!(volume.file_system, "ext4");
    assert_eq!(volume.disk().unwrap().number, disk.disk().unwrap().number);
    assert!(disk.disk().unwrap().backing.is_some());

    let before = disk.count().unwrap();
    let path = disk.path().join("file");
    let mut file = fs::File::create(&path).unwrap();
    let bytes: Vec<u8> = (0..8u32 << 20).map(|n| (n ^ (n >> 11)) as u8).collect();
    file.write_all(&bytes).unwrap();
    file.sync_all().unwrap();
    let count = disk.count().unwrap();
    let written = count.io.since(&before.io).written_bytes;
    assert!((8 << 20..16 << 20).contains(&written), "buffered writes and journal count: {written}");
    assert!(count.flushes > before.flushes, "a sync reaches the disk: {count:?}");
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    assert!(fs::read(&path).unwrap() == bytes, "what is read is what was written");
    assert!(disk.count().unwrap().io.read_bytes > before.io.read_bytes, "from the disk");
    assert_eq!(disk.cpu_s() > 0.0, kind == Kind::Process);
    drop(file);
    disk.close().unwrap();
    assert_eq!(left(dir.path()), Vec::<PathBuf>::new());
}

#[test]
fn a_process_disk_stores_data_counts_io_and_cleans_up() {
    stores_data_counts_io_and_cleans_up(Kind::Process);
}

#[test]
fn a_kernel_disk_stores_data_counts_io_and_cleans_up() {
    stores_data_counts_io_and_cleans_up(Kind::Kernel);
}

#[test]
fn limits_of_a_kernel_disk_apply_until_it_is_removed() {
    let dir = scratch();
    let Some(mut disk) = disk(dir.path(), &options(Kind::Kernel)) else { return };
    let number = disk.disk().unwrap().number;
    assert_eq!(disk.io().unwrap(), options(Kind::Kernel).io);
    let other = IoLimits { write_bytes_s: Some(50 << 20), ..IoLimits::default() };
    disk.limit(&other).unwrap();
    assert_eq!(disk.io().unwrap(), other);
    drop(disk);
    // Another test may already have this number, with its own limits.
    assert_ne!(attach::limits_of_root(number).unwrap(), other);
    assert_eq!(left(dir.path()), Vec::<PathBuf>::new());
}

#[test]
fn a_disk_in_use_is_removed_when_its_user_ends() {
    let dir = scratch();
    let Some(disk) = disk(dir.path(), &options(Kind::Process)) else { return };
    let path = disk.path().join("file");
    let script = "exec 3> \"$0\"; echo; exec sleep 0.5";
    let mut user =
        Command::new("sh").args(["-c", script]).arg(&path).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let out = user.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).unwrap();
    disk.close().unwrap();
    user.wait().unwrap();
    assert_eq!(left(dir.path()), Vec::<PathBuf>::new());
}

/// Child process of the next test: creates a disk, prints "ready", and waits to be killed.
#[test]
#[ignore = "only the next test runs it"]
fn child_with_a_disk() {
    let Some(dir) = std::env::var_os("FROND_LAB_TEST_DISK") else { return };
    let kind = if std::env::var_os("FROND_LAB_TEST_KERNEL").is_some() {
        Kind::Kernel
    } else {
        Kind::Process
    };
    let disk = VirtualDisk::create(Path::new(&dir), &options(kind)).unwrap();
    fs::write(disk.path().join("file"), vec![1; 4 << 20]).unwrap();
    println!("ready");
    loop {
        std::thread::sleep(Duration::from_secs(1000));
    }
}

#[test]
fn a_disk_of_a_killed_process_is_removed_by_the_next_one() {
    for kind in [Kind::Process, Kind::Kernel] {
        let dir = scratch();
        let Some(own) = disk(dir.path(), &options(kind)) else { continue };
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "--ignored", "--nocapture"]);
        command.arg("lab::machine::virtual_disk::tests::child_with_a_disk");
        command.env("FROND_LAB_TEST_DISK", dir.path()).stdout(Stdio::piped());
        if kind == Kind::Kernel {
            command.env("FROND_LAB_TEST_KERNEL", "1");
        }
        let mut child = command.spawn().unwrap();
        let lines = std::io::BufReader::new(child.stdout.take().unwrap());
        let mut lines = std::io::BufRead::lines(lines).map_while(std::result::Result::ok);
        assert!(lines.any(|line| line.contains("ready")), "the child made its disk");
        child.kill().unwrap();
        child.wait().unwrap();
        let removed = remove_stale(dir.path());
        assert_eq!(removed.len(), 1, "{removed:?}");
        assert!(own.path().exists(), "that of a living process stays");
        own.close().unwrap();
        assert_eq!(left(dir.path()), Vec::<PathBuf>::new());
    }
}

#[test]
fn impossible_disk_options_are_refused_before_anything_is_created() {
    let dir = scratch();
    let refused = |options: &Options, word: &str| {
        let failure = VirtualDisk::create(dir.path(), options).unwrap_err().0;
        assert!(failure.contains(word), "{failure}");
        assert_eq!(left(dir.path()), Vec::<PathBuf>::new());
    };
    let process = options(Kind::Process);
    let io = IoLimits { read_ios_s: Some(80_000), ..process.io };
    refused(&Options { io, ..process.clone() }, "80000 reads");
    refused(&Options { io: IoLimits::default(), ..process.clone() }, "any number of reads");
    refused(&Options { size: Bytes::mebi(1), ..process.clone() }, "too small");
    refused(&Options { size: Bytes(1 << 60), ..process }, "free");
    let slow = Options { latency: Duration::from_millis(8), ..options(Kind::Kernel) };
    refused(&slow, "no latency");
}

#[test]
fn a_class_becomes_a_process_disk_only_if_a_process_can_serve_it() -> Result<()> {
    let hdd = super::super::class::find("hdd")?;
    let options = Options::of(&hdd, Bytes::mebi(64), Kind::Process)?;
    assert_eq!((options.io, options.latency), (hdd.io(), Duration::from_millis(8)));
    assert_eq!(options.flush, Some(Duration::from_millis(8)));
    let sata = super::super::class::find("sata")?;
    let failure = Options::of(&sata, Bytes::mebi(64), Kind::Process).unwrap_err().0;
    assert!(failure.contains("class sata") && failure.contains("20000"), "{failure}");
    assert_eq!(Options::of(&sata, Bytes::mebi(64), Kind::Kernel)?.io, sata.io());
    Ok(())
}

#[test]
fn an_engine_on_a_kernel_disk_stays_in_the_cgroup_of_its_limits() {
    let dir = scratch();
    let Some(disk) = disk(dir.path(), &options(Kind::Kernel)) else { return };
    let io_group = |pid: &str| {
        let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
        text.lines().find(|line| line.contains("blkio")).unwrap_or("").to_owned()
    };
    let before = io_group("self");
    let limits = disk.limits(Some(256 << 20));
    assert_eq!((limits.memory, limits.device), (Some(256 << 20), None));
    let group = crate::measure::Group::create(&Limits { memory: None, ..limits }).unwrap();
    let words = group.prefix();
    let output = Command::new(&words[0])
        .args(&words[1..])
        .args(["cat", "/proc/self/cgroup"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.lines().any(|line| line == before), "{before} is not in {text}");
}
