//! Tests of versions, on a small repository with commits of which some cannot be built.

use std::fs;
use std::path::Path;

use super::checkout::git;
use super::*;

struct Repository {
    dir: tempfile::TempDir,
    checkout: Checkout,
}

impl Repository {
    /// A repository with crates/frond-c and a plugin in its first commit.
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        git(dir.path(), &["init", "-q"]).expect("git");
        let checkout = Checkout::of(dir.path()).expect("a checkout");
        let made = Self { dir, checkout };
        made.write("target/mariadb/source/x", "");
        made.write(".gitignore", "target\n");
        made.write("Cargo.toml", "[workspace]\nresolver = \"3\"\nmembers = [\"crates/frond-c\"]\n");
        made.write(
            "Cargo.lock",
            "version = 4\n\n[[package]]\nname = \"frond-c\"\nversion = \"0.1.0\"\n",
        );
        made.write(
            "crates/frond-c/Cargo.toml",
            "[package]\nname = \"frond-c\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[lib]\nname = \"frond_c\"\n\
             crate-type = [\"cdylib\", \"staticlib\"]\n",
        );
        made.write("crates/frond-c/include/frond.h", "int frond_one(void);\n");
        made.write(
            "plugin/mariadb/CMakeLists.txt",
            "cmake_minimum_required(VERSION 3.18)\nproject(p C)\nadd_library(ha_frond MODULE a.c)\n\
             set_target_properties(ha_frond PROPERTIES PREFIX \"\")\n",
        );
        made.write("plugin/mariadb/a.c", "int frond_plugin(void) { return 1; }\n");
        made.commit("#[unsafe(no_mangle)]\npub extern \"C\" fn one() -> u32 {\n    1\n}\n");
        made
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.dir.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, text).expect("written");
    }

    fn commit(&self, library: &str) {
        self.write("crates/frond-c/src/lib.rs", library);
        let identity = ["-c", "user.name=a", "-c", "user.email=a@example"];
        git(self.dir.path(), &["add", "."]).expect("added");
        let words = [&identity[..], &["commit", "-q", "-m", "a commit"]].concat();
        git(self.dir.path(), &words).expect("committed");
    }

    fn versions(&self) -> Versions {
        Versions { checkout: Some(self.checkout.clone()), ..Versions::default() }
    }

    fn kept(&self) -> usize {
        let entries = fs::read_dir(self.checkout.cache()).expect("a cache").flatten();
        entries.filter(|entry| entry.path().is_dir()).count()
    }
}

fn names(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn revisions_become_commits_and_unknown_ones_are_refused() {
    let repository = Repository::new();
    let mut versions = repository.versions();
    let found = versions
        .resolve(&names(&["frond", "frond-small@HEAD", "frond@HEAD", "frond@HEAD~0"]))
        .expect("they exist");
    let head = git(repository.dir.path(), &["rev-parse", "HEAD"]).expect("a hash");
    let short = &head[..7];
    let expected = [format!("frond-small@{short}"), format!("frond@{short}")];
    assert_eq!(found[0], "frond");
    assert_eq!(found[1..], expected, "one commit is one target");
    for unknown in ["HEAD~5", "1234567", "--all", ""] {
        let target = format!("frond@{unknown}");
        let refused = versions.resolve(&[target]).expect_err("there is none").0;
        assert!(refused.contains(&format!("no revision `{unknown}`")), "{refused}");
    }
    assert_eq!(split("mysql://root@db/"), None);
    assert_eq!(split("/home/a@b/mine.toml"), None);
    assert_eq!(split("frond@a@{1}"), Some(("frond", "a@{1}")));
}

#[test]
fn each_commit_is_built_once_into_separate_libraries() {
    let repository = Repository::new();
    repository.commit("#[unsafe(no_mangle)]\npub extern \"C\" fn two() -> u32 {\n    2\n}\n");
    let mut versions = repository.versions();
    let found = versions.resolve(&names(&["frond@HEAD", "frond@HEAD~1"])).expect("they exist");
    let mut hashes = Vec::new();
    for (name, function) in found.iter().zip(["two", "one"]) {
        let built = versions.library(name, Face::Embedded).expect("it is built");
        let built = built.expect("it has a version");
        let bytes = fs::read(&built.library).expect("it is there");
        assert!(bytes.windows(4).any(|part| part == [function.as_bytes(), &[0]].concat()));
        assert!(header_of(&built.library).is_file());
        hashes.push(built.hash.clone());
    }
    assert_ne!(hashes[0], hashes[1]);
    let plugin = versions.library(&found[0], Face::Sql).expect("it is built").expect("a version");
    let (plugin, log) = (
        plugin.library.clone(),
        plugin.library.ancestors().nth(2).expect("target").join("lab-build.log"),
    );
    assert!(plugin.ends_with("ha_frond.so"));
    let environment = versions.environment();
    assert_eq!(environment.len(), 5, "two commits and three libraries: {environment:?}");
    assert_eq!(versions.library("frond", Face::Sql).expect("nothing to build").map(|_| ()), None);

    // The next run finds the library and does not build it again.
    let printed = fs::read(&log).expect("a log");
    let mut next = repository.versions();
    next.resolve(&names(&["frond@HEAD"])).expect("it exists");
    let found = next.library(&found[0], Face::Sql).expect("it is there").expect("a version");
    assert_eq!(found.library, plugin);
    assert!(fs::read(&log).expect("a log") == printed, "nothing was built again");

    assert!(next.check_unchanged(None).is_ok() && next.check_unchanged(Some(&plugin)).is_ok());
    fs::write(&plugin, "of another commit").expect("written");
    assert!(next.check_unchanged(Some(&plugin)).is_err_and(|f| f.0.contains("has changed")));
}

#[test]
fn a_build_that_fails_shows_its_last_lines_and_what_is_missing() {
    let repository = Repository::new();
    let fails = |face: Face| {
        let mut versions = repository.versions();
        let found = versions.resolve(&names(&["frond@HEAD"])).expect("it exists");
        versions.library(&found[0], face).expect_err("it cannot be built").0
    };
    repository.commit("this is not Rust");
    let failure = fails(Face::Embedded);
    assert!(failure.contains("cargo ended with") && failure.contains("this is not Rust"));
    fs::remove_dir_all(repository.dir.path().join("plugin")).expect("removed");
    repository.commit("");
    assert!(fails(Face::Sql).contains("has no MariaDB plugin"));
    fs::remove_dir_all(repository.dir.path().join("target/mariadb")).expect("removed");
    assert!(fails(Face::Sql).contains("make mariadb-plugin"));
}

#[test]
fn old_commits_are_removed_but_not_those_in_use() {
    let repository = Repository::new();
    let mut versions = repository.versions();
    let first = versions.resolve(&names(&["frond@HEAD"])).expect("it exists");
    versions.library(&first[0], Face::Embedded).expect("it is built");
    repository.commit("");
    {
        let mut other = repository.versions();
        let second = other.resolve(&names(&["frond@HEAD"])).expect("it exists");
        other.library(&second[0], Face::Embedded).expect("it is built");
    }
    assert_eq!(repository.kept(), 2);
    // The first commit is older, but in use.
    repository.checkout.remove_oldest(1);
    assert_eq!(repository.kept(), 2);
    repository.checkout.remove_oldest(0);
    assert_eq!(repository.kept(), 1);
    let library = versions.library(&first[0], Face::Embedded).expect("it is there");
    assert!(Path::new(&library.expect("a version").library).is_file());
    drop(versions);
    repository.checkout.remove_oldest(0);
    assert_eq!(repository.kept(), 0);
    let worktrees = git(repository.dir.path(), &["worktree", "list"]).expect("git");
    assert_eq!(worktrees.lines().count(), 1, "{worktrees}");
}
