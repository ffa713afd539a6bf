//! Tests of the API with programs in C, one of which runs a server's workflow. The programs are
//! compiled with all warnings as errors, and run plain, under AddressSanitizer with its leak check,
//! and under valgrind; one is also compiled as C++.
//!
//! If a tool is missing, a test fails and says what to install: a test that passed without running
//! would prove nothing.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

// The programs link the library that cargo builds next to this crate's.
use frond_c as _;

/// The directory in which cargo puts libfrond_c.so: that of this test program.
fn libraries() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.parent().unwrap().to_owned()
}

fn build(program: &str, flags: &[&str], dir: &Path) -> PathBuf {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c");
    build_by("cc", &sources.join(program).with_extension("c"), flags, dir)
}

fn build_by(compiler: &str, source: &Path, flags: &[&str], dir: &Path) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (program, libraries) = (dir.join(source.file_stem().unwrap()), libraries());
    let built = Command::new(compiler)
        .args(["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror", "-g", "-O1"])
        .args(flags)
        .arg("-I")
        .arg(root.join("include"))
        .arg(source)
        .arg("-o")
        .arg(&program)
        .arg("-L")
        .arg(&libraries)
        .arg("-lfrond_c")
        .output()
        .unwrap_or_else(|error| {
            panic!("{compiler}: {error}; scripts/install.sh build installs it")
        });
    let said = String::from_utf8_lossy(&built.stderr);
    // Fails here if the compiler does not support AddressSanitizer, or its library is missing.
    assert!(built.status.success(), "{compiler} {flags:?}: {said}");
    // Programs look for the installed library under this name.
    let library = libraries.join("libfrond_c.so");
    std::os::unix::fs::symlink(library, dir.join("libfrond.so.0")).unwrap();
    program
}

fn run(command: &mut Command, dir: &Path, rows: u32) {
    let ran = command
        .arg(dir.join("store"))
        .arg(rows.to_string())
        .env("LD_LIBRARY_PATH", dir)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && said.is_empty(), "{}: {said}", ran.status);
}

#[test]
fn walk_program_passes() {
    let dir = tempfile::tempdir().unwrap();
    let program = build("walk", &["-std=c11"], dir.path());
    run(&mut Command::new(program), dir.path(), 500_000);
}

#[test]
fn walk_program_passes_under_address_sanitizer() {
    let dir = tempfile::tempdir().unwrap();
    let flags = ["-std=c11", "-fsanitize=address,undefined", "-fno-omit-frame-pointer"];
    let program = build("walk", &flags, dir.path());
    run(&mut Command::new(program), dir.path(), 20_000);
}

/// Tests the calls of a server other than reads and writes of rows: plain, and under
/// AddressSanitizer.
#[test]
fn server_program_passes() {
    let sanitizer = ["-fsanitize=address,undefined", "-fno-omit-frame-pointer"];
    for flags in [&[][..], &sanitizer] {
        let dir = tempfile::tempdir().unwrap();
        let flags = [&["-std=c11", "-D_POSIX_C_SOURCE=200809L", "-pthread"][..], flags].concat();
        let program = build("server", &flags, dir.path());
        run(&mut Command::new(program), dir.path(), 0);
    }
}

/// Tests the calls that neither of the two programs uses: plain, and under AddressSanitizer.
#[test]
fn each_call_does_what_the_header_says() {
    for flags in [&[][..], &["-fsanitize=address,undefined", "-fno-omit-frame-pointer"]] {
        let dir = tempfile::tempdir().unwrap();
        let program = build("calls", &[&["-std=c11"][..], flags].concat(), dir.path());
        run(&mut Command::new(program), dir.path(), 0);
    }
}

/// Tests reads with all options: plain, and under AddressSanitizer.
#[test]
fn reads_honor_all_options() {
    for flags in [&[][..], &["-fsanitize=address,undefined", "-fno-omit-frame-pointer"]] {
        let dir = tempfile::tempdir().unwrap();
        let program = build("reads", &[&["-std=c11"][..], flags].concat(), dir.path());
        run(&mut Command::new(program), dir.path(), 0);
    }
}

/// Tests the sessions of a server: plain, and under AddressSanitizer.
#[test]
fn sessions_program_passes() {
    let sanitizer = ["-fsanitize=address,undefined", "-fno-omit-frame-pointer"];
    for flags in [&[][..], &sanitizer] {
        let dir = tempfile::tempdir().unwrap();
        let flags = [&["-std=c11", "-pthread"][..], flags].concat();
        let program = build("sessions", &flags, dir.path());
        run(&mut Command::new(program), dir.path(), 0);
    }
}

/// Tests builds of indexes concurrently with a thread that writes, and cancelled long operations:
/// plain, and under AddressSanitizer.
#[test]
fn indexes_are_built_concurrently_with_writers() {
    let sanitizer = ["-fsanitize=address,undefined", "-fno-omit-frame-pointer"];
    for flags in [&[][..], &sanitizer] {
        let dir = tempfile::tempdir().unwrap();
        let flags = [&["-std=c11", "-D_POSIX_C_SOURCE=200809L", "-pthread"][..], flags].concat();
        let program = build("builds", &flags, dir.path());
        run(&mut Command::new(program), dir.path(), 0);
    }
}

/// The parameters that may be null, by function (`*`: all) and name, as the header says. Bytes may
/// be null only with length 0. Here they have length 1, because a failed allocation must not be
/// taken for an empty string.
const MAY_BE_NULL: &[(&str, &[&str])] = &[
    ("*", &["error", "context", "cookie", "options", "wanted", "seqno"]),
    ("frond_backup", &["info"]),
    ("frond_backup_since", &["info"]),
    ("frond_backup_verify", &["info"]),
    ("frond_restore", &["info"]),
    ("frond_loads_finish", &["trees"]),
    ("frond_index_build_publish", &["then", "trees"]),
    ("frond_change_rename", &["name"]),
    ("frond_change_drop", &["name"]),
    ("frond_change_swap", &["name", "other_name"]),
    ("frond_change_truncate", &["name"]),
    ("frond_change_clone", &["name"]),
    ("frond_change_attributes", &["name"]),
    ("frond_change_publish", &["name"]),
    ("frond_change_layout", &["name"]),
    ("frond_change_tree", &["tree", "was_made"]),
    ("frond_tree_row_count", &["exact"]),
    ("frond_tree_estimate", &["data_bytes"]),
    ("frond_txn_estimate", &["data_bytes"]),
    ("frond_txn_delete_range", &["rows"]),
    ("frond_temporary_delete_range", &["rows"]),
    ("frond_temporary_estimate", &["data_bytes"]),
    ("frond_temporary_row_count", &["exact"]),
    ("frond_check", &["interrupter", "progress", "visit"]),
    ("frond_txn_read", &["locked"]),
    ("frond_txn_read_many", &["locked"]),
    ("frond_tree_info", &["birth", "attributes"]),
    ("frond_times", &["count", "nanos"]),
    ("frond_each_deadlocked", &["at_nanos"]),
    ("frond_each_lock", &["more"]),
    ("frond_txn_each_lock", &["more"]),
];

/// A function of frond.h: its return type, its name, and the types and names of its parameters.
struct Function {
    gives: String,
    name: String,
    given: Vec<(String, String)>,
}

/// A type and a name: `char**` and `names` from `const char *const *names`.
fn typed(text: &str) -> (String, String) {
    let (of, name) = text.trim().rsplit_once([' ', '*']).unwrap();
    let words = of.split([' ', '*']).filter(|word| !matches!(*word, "" | "const"));
    let words: Vec<_> = words.collect();
    (words.join(" ") + &"*".repeat(text.matches('*').count()), name.to_owned())
}

fn functions(header: &str) -> Vec<Function> {
    let code: Vec<_> = header.lines().map(|line| line.split("//").next().unwrap()).collect();
    let code = code.join(" ");
    let (_, code) = code.split_once("extern \"C\" {").unwrap();
    let code = code.replace("#endif", "").replace("(*then)(void *context)", "*then");
    let declarations = code.split(';').filter_map(|declaration| declaration.split_once('('));
    let made = declarations.map(|(head, given)| {
        let (gives, name) = typed(head);
        let given = given.trim().trim_end_matches(')').split(',').filter(|one| *one != "void");
        Function { gives, name, given: given.map(typed).collect() }
    });
    made.collect()
}

/// Generates the calls of nulls.c from frond.h, so that a new function is included. nulls.c does
/// not compile if it has no argument for a function.
fn sweep(header: &str) -> String {
    let is_callback = |of: &str| header.contains(&format!("typedef void (*{of})("));
    let is_handle = |of: &str| header.contains(&format!("typedef struct {of} {of};"));
    let valid = |of: &str, name: &str| match (of.trim_end_matches('*'), of.matches('*').count()) {
        (base, 0) if is_callback(base) => format!("a_{base}"),
        (_, 0) => "1".to_owned(),
        ("void", _) if ["context", "cookie", "then"].contains(&name) => "NULL".to_owned(),
        ("void", _) => "&a_uint8_t".to_owned(),
        ("char", 1) => "a_char".to_owned(),
        ("frond_error", _) => "&error".to_owned(),
        (base, 1) if is_handle(base) => format!("a_{base}"),
        (base, 1) => format!("&a_{base}"),
        (base, _) => format!("&out_{base}"),
    };
    let mut text = String::from("static void sweep(void)\n{\n");
    let functions = functions(header);
    for (function, name) in
        MAY_BE_NULL[1..].iter().flat_map(|(of, names)| names.iter().map(move |name| (of, name)))
    {
        let of = functions.iter().find(|of| of.name == *function);
        assert!(
            of.is_some_and(|of| of.given.iter().any(|(_, given)| given == name)),
            "{function}: {name}"
        );
    }
    for Function { gives, name, given } in &functions {
        let call = |is_null: &dyn Fn(usize) -> bool| {
            let all = given.iter().enumerate().map(|(at, (of, name))| match is_null(at) {
                true => "NULL".to_owned(),
                false => valid(of, name),
            });
            format!("{name}({})", all.collect::<Vec<_>>().join(", "))
        };
        let is_pointer = |at: &usize| given[*at].0.contains('*') || is_callback(&given[*at].0);
        let pointers: Vec<_> = (0..given.len()).filter(is_pointer).collect();
        let may = |at: usize| {
            let mut all = MAY_BE_NULL.iter().filter(|(of, _)| ["*", &*name].contains(of));
            all.any(|(_, names)| names.contains(&&*given[at].1))
        };
        let all = call(&|at| pointers.contains(&at));
        match (&**gives, &**name) {
            _ if pointers.is_empty() => {}
            (_, "frond_tree_layout_version") => text += &format!("    CHECK({all} == -1);\n"),
            ("void", _) => text += &format!("    {all};\n"),
            ("bool", _) => text += &format!("    CHECK({all});\n"),
            ("uint32_t" | "uint64_t", _) => text += &format!("    CHECK({all} == 0);\n"),
            _ => {
                text += &format!("    GIVES(1001, {all});\n");
                for &at in pointers.iter().filter(|&&at| !may(at)) {
                    text += &format!("    NULL_IN({});\n", call(&|other| other == at));
                }
            }
        }
    }
    text + "}\n"
}

/// Compiles nulls.c with its calls.
fn build_nulls(flags: &[&str], dir: &Path) -> PathBuf {
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/frond.h");
    let calls = sweep(&std::fs::read_to_string(header).unwrap());
    std::fs::write(dir.join("sweep.h"), calls).unwrap();
    let here = format!("-I{}", dir.display());
    build("nulls", &[&["-std=c11", &here][..], flags].concat(), dir)
}

/// Calls every function of the header with null for each pointer: plain, and under
/// AddressSanitizer.
#[test]
fn null_pointers_are_reported() {
    for flags in [&[][..], &["-fsanitize=address,undefined", "-fno-omit-frame-pointer"]] {
        let dir = tempfile::tempdir().unwrap();
        run(&mut Command::new(build_nulls(flags, dir.path())), dir.path(), 0);
    }
}

/// The blocks of docs/c-api.md in a language.
fn documented(language: &str) -> Vec<String> {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/c-api.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let blocks = guide.split("```").skip(1).step_by(2).filter_map(|block| block.split_once('\n'));
    blocks.filter(|(of, _)| *of == language).map(|(_, code)| code.to_owned()).collect()
}

/// Tests the example of docs/c-api.md, and the header in C++. A second run finds what the first has
/// made; without an argument the example reports an error itself.
#[test]
fn the_example_runs_twice() {
    for (compiler, flags) in [
        ("cc", &["-std=c11"][..]),
        ("c++", &["-xc++", "-std=c++17", "-Wno-missing-field-initializers"]),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("source.c");
        std::fs::write(&source, &documented("c")[0]).unwrap();
        let program = build_by(compiler, &source, flags, dir.path());
        let run = |arguments: &[&str]| {
            let mut hello = Command::new(&program);
            hello.args(arguments).current_dir(&dir).env("LD_LIBRARY_PATH", dir.path());
            let ran = hello.output().unwrap();
            (ran.status.code(), String::from_utf8(ran.stdout).unwrap())
        };
        for said in ["ada has 90, bob has 10\n", "ada has 80, bob has 20\n"] {
            assert_eq!(run(&["bank.db"]), (Some(0), said.to_owned()), "{compiler}");
        }
        assert_eq!(run(&[]), (Some(2), String::new()), "{compiler}");
        assert_eq!(run(&["source.c"]), (Some(1), String::new()), "{compiler}");
    }
}

/// Runs a program under valgrind. It finds what AddressSanitizer does not, since the library is
/// built without that: reads of uninitialized memory, and invalid accesses by the library itself.
fn run_in_valgrind(program: PathBuf, dir: &Path, rows: u32) {
    let version = Command::new("valgrind").arg("--version").output();
    let missing = "valgrind is not installed; scripts/install.sh checks installs it";
    assert!(version.is_ok_and(|version| version.status.success()), "{missing}");
    let mut valgrind = Command::new("valgrind");
    valgrind.args([
        "-q",
        "--leak-check=full",
        "--show-leak-kinds=definite",
        "--errors-for-leak-kinds=definite",
        "--error-exitcode=9",
        // valgrind runs one thread at a time; with this option each thread gets its turn, however
        // busy the machine is.
        "--fair-sched=try",
    ]);
    run(valgrind.arg(program), dir, rows);
}

#[test]
fn programs_pass_under_valgrind() {
    let rest = ["server", "calls", "reads", "sessions"].map(|name| (name, 0));
    for (name, rows) in [("walk", 500)].into_iter().chain(rest) {
        let dir = tempfile::tempdir().unwrap();
        let flags = ["-std=c11", "-D_POSIX_C_SOURCE=200809L", "-pthread"];
        run_in_valgrind(build(name, &flags, dir.path()), dir.path(), rows);
    }
}

/// A test of its own, because it takes as long as all the others.
#[test]
fn builds_program_passes_under_valgrind() {
    let dir = tempfile::tempdir().unwrap();
    let flags = ["-std=c11", "-D_POSIX_C_SOURCE=200809L", "-pthread"];
    run_in_valgrind(build("builds", &flags, dir.path()), dir.path(), 0);
}

#[test]
fn nulls_program_passes_under_valgrind() {
    let dir = tempfile::tempdir().unwrap();
    run_in_valgrind(build_nulls(&[], dir.path()), dir.path(), 0);
}

/// Runs the commands of docs/c-api.md twice in the same directories, as they are written: they
/// install the library, and compile and run the example with the shared and the static library.
#[test]
fn the_documented_commands_install_and_link_the_library() {
    let home = tempfile::tempdir().unwrap();
    let own = home.path().join("program");
    std::fs::create_dir(&own).unwrap();
    std::fs::write(own.join("hello.c"), &documented("c")[0]).unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let blocks = documented("sh");
    let (install, compile) = (&blocks[0], blocks[1..].concat());
    for time in 0..2 {
        let run = |script: &str, dir: &Path| {
            let mut shell = Command::new("bash");
            shell.args(["-euc", script]).current_dir(dir).env("HOME", home.path());
            // Installs the library that this test was built with.
            shell.env("FROND_BUILT", libraries());
            for name in ["DESTDIR", "LD_LIBRARY_PATH", "MAKEFLAGS", "PKG_CONFIG_PATH"] {
                shell.env_remove(name);
            }
            let ran = shell.output().unwrap();
            assert!(ran.status.success(), "{script}: {}", String::from_utf8_lossy(&ran.stderr));
            String::from_utf8(ran.stdout).unwrap()
        };
        run(install, &root);
        let expected = (1..=3).map(|run| {
            let moved = 10 * (3 * time + run);
            format!("ada has {}, bob has {moved}\n", 100 - moved)
        });
        assert_eq!(run(&compile, &own), expected.collect::<String>());
        assert!(run("./hello-static other.db", &own).starts_with("ada has"), "without the library");
    }
    // Debug information and bitcode would be nine tenths of the libraries.
    let installed = home.path().join("frond/lib");
    for name in ["libfrond.so.0", "libfrond.a"] {
        let headers = Command::new("readelf").args(["-SW"]).arg(installed.join(name)).output();
        let headers = String::from_utf8_lossy(&headers.unwrap().stdout).into_owned();
        assert!(headers.contains(".text"), "{name}");
        assert!(!headers.contains(".debug_info") && !headers.contains(".llvmbc"), "{name}");
    }
}
