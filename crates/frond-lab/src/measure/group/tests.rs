//! Tests with real groups, if this machine can make them, and with a directory that imitates the
//! files of version 2.

use std::os::unix::fs::MetadataExt;
use std::process::{Child, Command};

use super::*;

/// Whether this machine can make groups with the controller; `lab doctor` calls the same function.
fn can(controller: Controller) -> bool {
    let limits = match controller {
        Controller::Memory => Limits { memory: Some(1 << 30), ..Limits::default() },
        _ => Limits::default(),
    };
    let made = place(controller).is_some() && Group::create(&limits).is_ok();
    if !made {
        eprintln!("not tested: this machine makes no control group for {controller:?}");
    }
    made
}

fn sleeper() -> Child {
    Command::new("sleep").arg("1000").spawn().unwrap()
}

fn group_of(pid: u32, controller: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    text.lines().find(|line| line.contains(controller)).unwrap_or("").to_owned()
}

/// Number of the device of the build directory.
fn device_here() -> Option<DeviceNumber> {
    let number = fs::metadata(env!("CARGO_MANIFEST_DIR")).ok()?.dev();
    let device = DeviceNumber { major: libc::major(number), minor: libc::minor(number) };
    Path::new(&format!("/sys/dev/block/{device}/queue")).exists().then_some(device)
}

#[test]
fn a_process_has_its_groups_memory_limit_until_the_group_is_removed() {
    if !can(Controller::Memory) {
        return;
    }
    let mut child = sleeper();
    let before = group_of(child.id(), "memory");
    let limits = Limits { memory: Some(256 << 20), ..Limits::default() };
    let group = Group::enter(child.id(), &limits).unwrap();
    assert_eq!(group.memory_limit(), Some(256 << 20));
    assert!(group_of(child.id(), "memory").contains(PREFIX));
    let dirs: Vec<PathBuf> = group.members.iter().map(|member| member.dir.clone()).collect();
    assert!(dirs.iter().all(|dir| dir.exists()));
    drop(group);
    assert!(dirs.iter().all(|dir| !dir.exists()), "{dirs:?}");
    assert_eq!(group_of(child.id(), "memory"), before, "the process went on where it came from");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn memory_and_cpu_of_a_process_that_starts_in_a_group_are_counted() {
    if !can(Controller::Memory) || !can(Controller::Cpu) {
        return;
    }
    let group = Group::create(&Limits { memory: Some(512 << 20), ..Limits::default() }).unwrap();
    let words = group.prefix();
    // dd holds a buffer of 64 MiB, and uses CPU to fill it.
    let status = Command::new(&words[0])
        .args(&words[1..])
        .args(["dd", "if=/dev/zero", "of=/dev/null", "bs=64M", "count=4", "status=none"])
        .status()
        .unwrap();
    assert!(status.success());
    let reading = group.read();
    let memory = reading.memory.unwrap();
    if let Some(peak) = memory.peak {
        assert!((64 << 20..512 << 20).contains(&peak), "{peak}");
        if group.reset_memory_peak() {
            assert!(group.memory_peak().unwrap() < peak, "a new peak starts");
        }
    }
    let cpu = reading.cpu.unwrap();
    assert!(cpu.user_s + cpu.system_s > 0.0);
}

#[test]
fn limits_of_io_are_written_and_read_back_and_bytes_are_counted() {
    let Some(device) = device_here() else {
        eprintln!("not tested: builds are on no block device");
        return;
    };
    if place(Controller::Io).is_none() {
        eprintln!("not tested: this machine has no control group for I/O");
        return;
    }
    let io = IoLimits {
        read_bytes_s: Some(1 << 30),
        write_bytes_s: Some(2 << 30),
        read_ios_s: None,
        write_ios_s: Some(100_000),
    };
    let limits = Limits { memory: None, device: Some(device), io };
    let group = Group::create(&limits).unwrap();
    assert_eq!(group.io_limits(), io);
    group.limit_io(&IoLimits { read_ios_s: Some(5000), ..IoLimits::default() }).unwrap();
    let expected = IoLimits { read_ios_s: Some(5000), ..IoLimits::default() };
    assert_eq!(group.io_limits(), expected, "what is not limited any more is unlimited");
    group.limit_io(&IoLimits::default()).unwrap();

    let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let file = dir.path().join("written");
    let words = group.prefix();
    let status = Command::new(&words[0])
        .args(&words[1..])
        .args(["dd", "if=/dev/zero", "bs=1M", "count=3", "oflag=direct", "status=none"])
        .arg(format!("of={}", file.display()))
        .status()
        .unwrap();
    assert!(status.success());
    let count = group.read().io.unwrap();
    assert!((3 << 20..4 << 20).contains(&count.written_bytes), "{count:?}");
    assert!(count.writes > 0);
    assert_eq!(count.since(&count), IoCount::default());
}

#[test]
fn direct_writes_of_this_process_agree_with_proc() {
    let (Some(device), true) = (device_here(), can(Controller::Cpu)) else { return };
    if place(Controller::Io).is_none() {
        return;
    }
    // A separate process: other tests of this process run concurrently and also write.
    let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let file = dir.path().join("written");
    let limits = Limits { device: Some(device), ..Limits::default() };
    let group = Group::create(&limits).unwrap();
    let words = group.prefix();
    let script =
        "dd if=/dev/zero bs=1M count=8 oflag=direct status=none of=\"$0\"; cat /proc/$$/io";
    let output = Command::new(&words[0])
        .args(&words[1..])
        .args(["sh", "-c", script])
        .arg(&file)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let written = text.lines().find_map(|line| line.strip_prefix("write_bytes: ")).unwrap();
    let count = group.read().io.unwrap();
    let agreement = reading::crosscheck(count.written_bytes, written.parse().unwrap());
    assert_eq!(agreement, Agreement::Agrees, "{count:?} {text}");
}

#[test]
fn a_limit_that_cannot_be_set_is_refused_and_leaves_no_group() {
    if !can(Controller::Memory) {
        return;
    }
    let io = IoLimits { read_ios_s: Some(1), ..IoLimits::default() };
    let without = Limits { io, ..Limits::default() };
    assert_eq!(Group::create(&without).unwrap_err(), Refusal::NoDevice);
    let none = |_| None;
    let memory = Limits { memory: Some(1 << 30), ..Limits::default() };
    let refusal = Group::create_with(&memory, none).unwrap_err();
    assert_eq!(refusal, Refusal::NoController(Controller::Memory));
    // Only counting: a group without any controller reports what is missing.
    let group = Group::create_with(&Limits::default(), none).unwrap();
    assert_eq!(group.missing().len(), 2);
    assert_eq!(group.read(), Reading::default());
    // No device has this number.
    let device = DeviceNumber { major: 4000, minor: 1 };
    let absent = Limits { device: Some(device), io, ..Limits::default() };
    if place(Controller::Io).is_some() {
        assert!(matches!(Group::create(&absent), Err(Refusal::Setting { .. })));
    }
}

#[test]
fn groups_of_ended_processes_are_removed_and_others_stay() {
    if !can(Controller::Memory) {
        return;
    }
    let parent = place(Controller::Memory).unwrap().parents[0].clone();
    let own = parent.join(Owner::own().name(PREFIX));
    // This process started later than the name says.
    let dead = parent.join(format!("{PREFIX}{}.1.0", std::process::id()));
    let foreign = parent.join("other-lab-1.1.0");
    let session = foreign.join(format!("{PREFIX}{}.1.1", std::process::id()));
    for dir in [&own, &dead, &foreign, &session] {
        fs::create_dir(dir).unwrap();
    }
    let removed = Group::remove_stale();
    assert!(removed.contains(&dead) && !dead.exists());
    assert!(removed.contains(&session), "in a group of another session, too");
    assert!(own.exists() && foreign.exists());
    fs::remove_dir(own).unwrap();
    fs::remove_dir(foreign).unwrap();
}

/// Makes a directory that looks like a version 2 group with these controllers enabled for its
/// children.
fn second_version(enabled: &str) -> (tempfile::TempDir, Place) {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("cgroup.subtree_control"), enabled).unwrap();
    let top = dir.path().to_owned();
    (dir, Place { version: Version::V2, parents: vec![top.clone()], top })
}

#[test]
fn version_2_uses_its_own_syntax_for_limits() {
    let (dir, _) = second_version("");
    let device = DeviceNumber { major: 254, minor: 0 };
    let io = IoLimits { read_bytes_s: Some(5), write_ios_s: Some(7), ..IoLimits::default() };
    limit_io_of(dir.path(), Version::V2, device, &io).unwrap();
    let text = fs::read_to_string(dir.path().join("io.max")).unwrap();
    assert_eq!(text, "254:0 rbps=5 wbps=max riops=max wiops=7");
    assert_eq!(io_limits_of(dir.path(), Version::V2, device), io);
    let other = DeviceNumber { major: 25, minor: 4 };
    assert!(io_limits_of(dir.path(), Version::V2, other).is_none());
}

#[test]
fn version_2_without_the_controller_in_a_group_is_refused() {
    let (dir, place) = second_version("memory");
    // The kernel creates no files in a plain directory, just as in a group without the controller.
    let memory = Limits { memory: Some(1 << 30), ..Limits::default() };
    let refusal = Group::create_with(&memory, |_| Some(place.clone())).unwrap_err();
    assert!(matches!(refusal, Refusal::NoGroup { controller: Controller::Memory, .. }));
    let left: Vec<_> = fs::read_dir(dir.path()).unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "only what the test made");
}

#[test]
fn uncharged_write_back_is_not_reported_as_counted() {
    let member = |version, controllers: &[Controller]| Group {
        members: vec![Member {
            dir: PathBuf::from("/nonexistent/group"),
            parent: PathBuf::from("/nonexistent"),
            version,
            controllers: controllers.to_vec(),
        }],
        device: None,
        missing: Vec::new(),
    };
    use Controller::{Cpu, Io, Memory};
    assert_eq!(member(Version::V1, &[Io]).io_scope(), Some(IoScope::Submitted));
    assert_eq!(member(Version::V2, &[Io]).io_scope(), Some(IoScope::Submitted));
    assert_eq!(member(Version::V2, &[Memory, Io]).io_scope(), Some(IoScope::All));
    assert_eq!(member(Version::V2, &[Cpu]).io_scope(), None);
}

#[test]
fn a_memory_limit_bounds_the_page_cache() {
    if !can(Controller::Memory) {
        return;
    }
    let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let path = dir.path().join("read");
    fs::write(&path, vec![1; 48 << 20]).unwrap();
    let dd = |prefix: &[String], words: &[&str]| {
        let all =
            [prefix, &words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()].concat();
        let status = Command::new(&all[0]).args(&all[1..]).arg("status=none").status().unwrap();
        assert!(status.success(), "{all:?}: {status}");
    };
    // A page is charged to the group that first brings it in, so what this process wrote must leave
    // the cache first.
    let (to, from) = (format!("of={}", path.display()), format!("if={}", path.display()));
    dd(&[], &["dd", "oflag=nocache", "conv=notrunc,fdatasync", "count=0", &to]);
    let limit = 32 << 20;
    let group = Group::create(&Limits { memory: Some(limit), ..Limits::default() }).unwrap();
    // Read only: on version 1, dirty pages that a busy disk cannot take in time invoke the OOM
    // killer.
    dd(&group.prefix(), &["dd", "bs=1M", "of=/dev/null", &from]);
    let count = group.read().memory.unwrap();
    assert!(count.now <= limit && count.peak.is_none_or(|peak| peak <= limit), "{count:?}");
    assert!(count.file > 0, "what was read is in the page cache, and charged: {count:?}");
}
