//! Reads the project's own sources, for the tests that check them.

#![allow(dead_code)] // each test file takes what it needs

pub mod paths;

use std::path::{Path, PathBuf};

/// A source or document.
pub struct File {
    /// The path from the root of the project.
    pub path: String,
    pub text: String,
}

/// The root of the project.
pub fn root() -> PathBuf {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    crates.and_then(Path::parent).expect("the crate lies in crates/").to_owned()
}

/// All files below a folder of the project with this extension, ordered by path.
pub fn files(folder: &str, ending: &str) -> Vec<File> {
    let mut found = Vec::new();
    collect(&root().join(folder), ending, &mut found);
    found.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(!found.is_empty(), "{folder} has no file that ends with {ending}");
    found
}

/// One file of the project.
pub fn file(path: &str) -> File {
    let text = std::fs::read_to_string(root().join(path));
    File { path: path.into(), text: text.unwrap_or_else(|error| panic!("{path}: {error}")) }
}

fn collect(folder: &Path, ending: &str, found: &mut Vec<File>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                collect(&path, ending, found);
            }
        } else if name.ends_with(ending) {
            let text = std::fs::read_to_string(&path).expect("text");
            let path = path.strip_prefix(root()).expect("below the root");
            found.push(File { path: path.to_string_lossy().replace('\\', "/"), text });
        }
    }
}

/// The sources of the engine, without modules that are compiled for tests only.
pub fn engine() -> Vec<File> {
    let all = files("crates/frond/src", ".rs");
    let tests: Vec<String> = all.iter().flat_map(test_modules).collect();
    let is_test = |path: &str| {
        tests.iter().any(|module| {
            path.strip_prefix(module.as_str())
                .is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        })
    };
    all.into_iter()
        .filter(|file| !is_test(&file.path))
        .map(|file| File { text: without_inline_tests(&file.text), path: file.path })
        .collect()
}

/// Paths, without `.rs`, of the modules that a file declares for tests only.
fn test_modules(file: &File) -> Vec<String> {
    let folder = match file.path.strip_suffix("/mod.rs") {
        Some(folder) => folder.to_owned(),
        None => file.path.trim_end_matches(".rs").to_owned(),
    };
    let mut lines = file.text.lines();
    let mut modules = Vec::new();
    while let Some(line) = lines.next() {
        if is_test_attribute(line)
            && let Some(name) = lines.next().and_then(module_name)
        {
            modules.push(format!("{folder}/{name}"));
        }
    }
    modules
}

/// `[pub(…)] mod NAME;`
fn module_name(line: &str) -> Option<&str> {
    line.trim().strip_suffix(';')?.split_once("mod ").map(|(_, name)| name)
}

fn is_test_attribute(line: &str) -> bool {
    line.starts_with("#[cfg(") && line.contains("test")
}

/// The text without the tests at the end of its file.
fn without_inline_tests(text: &str) -> String {
    let mut kept = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let begins = lines.peek().is_some_and(|next| next.contains("mod ") && next.ends_with('{'));
        if is_test_attribute(line) && begins {
            break;
        }
        kept.push_str(line);
        kept.push('\n');
    }
    kept
}

/// The code alone: without comments, with the content of strings blanked, and with its lines
/// unchanged.
pub fn code(text: &str) -> String {
    split(text).code
}

/// The comments alone, each with its slashes and on its line.
pub fn comments(text: &str) -> String {
    split(text).comments
}

/// The content of string literals, each on its line, and on as many lines.
pub fn strings(text: &str) -> String {
    split(text).strings
}

/// The whole-line comments of a script or of a file of settings, without `#`, each on its line.
pub fn comments_after_hashes(text: &str) -> String {
    let comment = |line: &str| match line.trim().strip_prefix('#') {
        Some(comment) if !comment.starts_with('!') => comment.to_owned(),
        _ => String::new(),
    };
    text.lines().map(comment).collect::<Vec<_>>().join("\n")
}

/// The parts of a source, each with the line breaks of the whole.
#[derive(Default)]
struct Parts {
    code: String,
    comments: String,
    strings: String,
}

/// Splits a source of Rust, C or C++.
fn split(text: &str) -> Parts {
    let Parts { mut code, mut comments, mut strings } = Parts::default();
    let bytes: Vec<char> = text.chars().collect();
    let mut at = 0;
    while let Some(&c) = bytes.get(at) {
        let next = bytes.get(at + 1).copied();
        match (c, next) {
            ('/', Some('/')) => {
                while let Some(&c) = bytes.get(at).filter(|&&c| c != '\n') {
                    comments.push(c);
                    at += 1;
                }
                continue;
            }
            ('/', Some('*')) => {
                while let Some(&c) = bytes.get(at).filter(|_| !bytes[at..].starts_with(&['*', '/']))
                {
                    comments.push(c);
                    if c == '\n' {
                        code.push(c);
                        strings.push(c);
                    }
                    at += 1;
                }
                at += 1;
            }
            ('"', _) => {
                code.push('"');
                at += 1;
                strings.push(' ');
                while let Some(&c) = bytes.get(at).filter(|&&c| c != '"') {
                    let escaped = c == '\\';
                    at += usize::from(escaped);
                    match bytes.get(at) {
                        Some('\n') => {
                            code.push('\n');
                            comments.push('\n');
                            strings.push('\n');
                        }
                        Some(&c) => strings.push(if escaped { ' ' } else { c }),
                        None => {}
                    }
                    at += 1;
                }
                code.push('"');
            }
            // A character literal, not a lifetime.
            ('\'', Some('\\')) => {
                at += 3;
                while bytes.get(at).is_some_and(|&c| c != '\'') {
                    at += 1;
                }
            }
            ('\'', Some(_)) if bytes.get(at + 2) == Some(&'\'') => at += 2,
            ('\n', _) => {
                code.push('\n');
                comments.push('\n');
                strings.push('\n');
            }
            _ => code.push(c),
        }
        at += 1;
    }
    Parts { code, comments, strings }
}

/// The rows of the table under a heading of a document, cell by cell, without the header and the
/// rule.
pub fn table(document: &File, heading: &str) -> Vec<Vec<String>> {
    let section = document.text.split_once(&format!("\n{heading}\n"));
    let (_, section) = section.unwrap_or_else(|| panic!("{} has no {heading}", document.path));
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().skip_while(|line| !line.starts_with('|'));
    let rows = rows.take_while(|line| line.starts_with('|')).skip(2);
    rows.map(|row| row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect())
        .collect()
}
