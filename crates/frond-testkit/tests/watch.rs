//! Tests of the runner of all tests: a program that hangs fails with the stacks of its threads, and
//! others are left alone.

use std::{
    env,
    path::PathBuf,
    process::{Command, Output},
    sync::Mutex,
    thread,
};

/// Set in the program that the runner runs here: this test program, with only the test below.
const HANGS: &str = "FROND_HANGS_ON_PURPOSE";

#[inline(never)]
fn locks_what_it_holds(mutex: &Mutex<()>) {
    let _held = mutex.lock();
    let _never = mutex.lock();
    // The stack frame must stay.
    std::hint::black_box(mutex);
}

#[test]
#[ignore = "run by the other tests of this file"]
fn a_test_that_hangs() {
    if env::var_os(HANGS).is_some() {
        let mutex = Mutex::new(());
        thread::scope(|scope| {
            scope.spawn(|| locks_what_it_holds(&mutex));
        });
    }
}

fn watched(program: &str, arguments: &[&str]) -> Output {
    let runner = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scripts/watch-test.sh");
    let mut command = Command::new(runner);
    command.arg(program).args(arguments).env("FROND_TEST_LIMIT", "2").env(HANGS, "1");
    command.output().unwrap()
}

#[test]
fn a_test_that_hangs_fails_with_the_stacks_of_all_threads() {
    let program = env::current_exe().unwrap();
    let hangs = ["--ignored", "--exact", "a_test_that_hangs"];
    let output = watched(program.to_str().unwrap(), &hangs);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(124), "{printed}");
    let can_trace = !printed.contains("may not attach");
    let wanted = if can_trace { "locks_what_it_holds" } else { "state S, waits in" };
    assert!(printed.contains(wanted), "{printed}");
}

#[test]
fn a_watched_program_keeps_its_output_and_exit_code() {
    let output = watched("/bin/sh", &["-c", "echo one; echo two >&2; printf three; exit 7"]);
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "one\nthree");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "two\n");
}
