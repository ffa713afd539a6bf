//! Tests of the project's conventions: each file has one subject and says what it is for, prose is
//! plain English, `unsafe` is where it is expected and justified, and links in documents resolve.

mod sources;

use std::collections::BTreeSet;

use sources::{File, code, comments, comments_after_hashes, engine, file, files, root, strings};

/// The most lines of a file. A longer one has more than one subject.
const LINES_MAX: usize = 1000;

/// The most columns of a line with a comment. rustfmt wraps code, but not comments.
const COLUMNS_MAX: usize = 100;

/// Phrases that comments and documents avoid, and what to write instead. `^` before a phrase: only
/// at the start of a sentence; `¶`: only at the start of a comment or paragraph.
const PLAIN: &[(&str, &str)] = &[
    ("whoever, whomever", "any thread that, every caller that"),
    ("who, whom", "that; or name the thread, the reader, the caller"),
    ("he, him, his, himself", "it, its; or name the thread"),
    ("nobody, somebody, everybody, anybody", "no thread, a caller, every reader"),
    ("is had, are had, be had", "is acquired, is held"),
    ("stands against, stand against", "conflicts with"),
    ("lets go, let go, letting go", "releases"),
    ("takes back, taken back", "rolls back, releases, reclaims"),
    ("is told, are told, told so, told of", "is notified, receives"),
    ("heed, heeds, heeded, heeding", "observes, is cancelled by"),
    ("go on with, goes on with, gone on with", "continues with"),
    ("beside", "next to; concurrently with"),
    ("amid", "during, between"),
    ("in a circle, circle of", "a cycle"),
    ("the begin, a begin", "the start"),
    ("said so", "has requested that"),
    ("^of one that", "name the thing: \"For a handle that\""),
    ("¶the same", "say what it is, since it is shown without what precedes it"),
];

/// Words for people. After one of them, `who` is right.
const PEOPLE: &[&str] = &["people", "person", "someone", "user", "users"];

/// The places where `unsafe` may be, and why each needs it.
const UNSAFE: &[(&str, &str)] = &[
    ("crates/frond-c-macro/src/expand.rs", "C functions around Rust functions"),
    ("crates/frond-c/src/", "pointers that C gives and takes"),
    ("crates/frond/src/cache/slab.rs", "memory from the system"),
    ("crates/frond/src/cache/spans/mod.rs", "the same, cut into spans"),
    ("crates/frond/src/memtable/arena.rs", "addresses of 32 bits into frames that never move"),
    ("crates/frond/src/memtable/node.rs", "nodes of one array, its slots filled one by one"),
    ("crates/frond/src/prefetch.rs", "a hint to the processor, by address"),
    ("crates/frond/src/trim.rs", "a call of the C library"),
    ("crates/frond/tests/blob_memory.rs", "an allocator that counts"),
    ("crates/frond/tests/bulk_memory.rs", "an allocator that counts"),
    ("crates/frond/tests/hostile/counting.rs", "an allocator that counts"),
    ("crates/frond/tests/memory.rs", "an allocator that fails when it is told to"),
    (
        "crates/frond-lab/src/lab/machine/perf.rs",
        "a system call that the C library has no function for",
    ),
    ("crates/frond-lab/src/measure/process.rs", "what the kernel counts of a process"),
    ("crates/frond-lab/src/targets/library/ffi.rs", "Frond's library of another commit"),
    ("crates/frond-lab/src/targets/lmdb/", "a rival behind a C interface"),
    ("crates/frond-lab/src/targets/rocksdb/", "a rival behind a C interface"),
    ("crates/frond-lab/src/targets/sqlite/", "a rival behind a C interface"),
];

fn assert_none(wrong: &[String]) {
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

fn sources() -> Vec<File> {
    files("crates", ".rs")
}

/// The prose of the project: the comments of its sources, scripts and settings, and its documents.
fn prose() -> Vec<File> {
    let mut all = sources();
    for (folder, ending) in [
        ("crates", ".c"),
        ("crates", ".h"),
        ("plugin/mariadb/src", ".cc"),
        ("plugin/mariadb/src", ".h"),
    ] {
        all.extend(files(folder, ending));
    }
    for source in &mut all {
        source.text = comments(&source.text);
    }
    all.extend(scripts());
    all.extend(documents());
    all.push(file("plugin/mariadb/README.md"));
    all
}

/// The comments of scripts and settings, each on its line.
fn scripts() -> Vec<File> {
    let mut all = Vec::from([".ci/run", "Cargo.toml", "Makefile"].map(file));
    for (folder, ending) in [
        ("crates", ".toml"),
        ("plugin/mariadb", ".py"),
        ("plugin/mariadb", ".sh"),
        ("plugin/mariadb", "CMakeLists.txt"),
        ("scripts", ".sh"),
    ] {
        all.extend(files(folder, ending));
    }
    for script in &mut all {
        script.text = comments_after_hashes(&script.text);
    }
    all
}

fn documents() -> Vec<File> {
    let mut all = files("docs", ".md");
    all.extend(["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(file));
    all
}

#[test]
fn every_file_states_its_purpose_and_is_short_enough() {
    let mut wrong = Vec::new();
    for File { path, text } in sources() {
        if !text.starts_with("//! ") {
            wrong.push(format!("{path}: does not open with what it is for"));
        }
        let lines = text.lines().count();
        if lines > LINES_MAX {
            wrong.push(format!("{path}: {lines} lines; split it by idea"));
        }
    }
    assert_none(&wrong);
}

/// What begins with a word of prose.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Starts {
    Nothing,
    Sentence,
    Paragraph,
}

/// A word of prose, in lower case and without punctuation.
struct Word {
    line: usize,
    text: String,
    starts: Starts,
}

/// The words of comments or of a document, without code: blocks of it, and what is in backticks.
fn words(text: &str) -> Vec<Word> {
    let (mut words, mut starts) = (Vec::new(), Starts::Paragraph);
    let (mut block, mut quoted) = (false, false);
    for (number, line) in text.lines().enumerate() {
        let line = line.trim().trim_start_matches(['/', '!', '*']).trim_start();
        let fence = line.starts_with("```");
        block ^= fence;
        if block || fence || line.is_empty() {
            (quoted, starts) = (false, Starts::Paragraph);
            continue;
        }
        for (at, part) in line.split('`').enumerate() {
            quoted ^= at > 0;
            if quoted {
                starts = Starts::Nothing;
                continue;
            }
            for token in part.split_whitespace() {
                let text = token.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
                if !text.is_empty() {
                    words.push(Word { line: number + 1, text, starts });
                    starts = Starts::Nothing;
                }
                // The end of a sentence; or a bullet, a heading, a cell of a table.
                if token.trim_end_matches(['"', ')', '*']).ends_with(['.', ':', ';', '?', '!'])
                    || token.ends_with(['-', '#', '|'])
                {
                    starts = Starts::Sentence;
                }
            }
        }
    }
    words
}

/// What is not plain in a text: the line, the phrase, and what to write instead.
fn banned(text: &str) -> Vec<(usize, &'static str, &'static str)> {
    let phrases = PLAIN.iter().flat_map(|&(phrases, better)| {
        phrases.split(", ").map(move |phrase| {
            let starts = match phrase.chars().next() {
                Some('¶') => Starts::Paragraph,
                Some('^') => Starts::Sentence,
                _ => Starts::Nothing,
            };
            let phrase = phrase.trim_start_matches(['¶', '^']);
            (phrase, phrase.split(' ').collect::<Vec<_>>(), starts, better)
        })
    });
    let phrases: Vec<_> = phrases.collect();
    let words = words(text);
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let person = at > 0 && PEOPLE.contains(&words[at - 1].text.as_str());
        for (phrase, parts, starts, better) in &phrases {
            let is_here = word.starts >= *starts
                && words.get(at..at + parts.len()).is_some_and(|here| {
                    here.iter().map(|word| &word.text).eq(parts.iter())
                        && here[1..].iter().all(|word| word.starts == Starts::Nothing)
                });
            if is_here && !(person && phrase.starts_with("who")) {
                found.push((word.line, *phrase, *better));
            }
        }
    }
    found
}

#[test]
fn comments_and_documents_are_plain_english() {
    let mut wrong = Vec::new();
    for File { path, text } in prose() {
        for (line, phrase, better) in banned(&text) {
            wrong.push(format!("{path}:{line}: \"{phrase}\"; better: {better}"));
        }
    }
    assert_none(&wrong);
}

/// The texts of a source's string literals, which are its messages and help texts, and the names of
/// its functions, which are the sentences of its tests. Neither starts a sentence.
fn texts_in_code(text: &str) -> String {
    let (strings, code) = (strings(text), code(text));
    let mut prose = String::new();
    for (strings, code) in strings.lines().zip(code.lines()) {
        let name = code.trim().split_once("fn ").and_then(|(_, rest)| rest.split_once('('));
        let name = name.map_or(String::new(), |(name, _)| name.replace('_', " "));
        prose.push_str(&format!("fn {name} string {strings}\n"));
    }
    prose
}

#[test]
fn messages_and_names_of_functions_are_plain_english() {
    let mut wrong = Vec::new();
    // This file lists the phrases.
    for File { path, text } in sources().into_iter().filter(|file| !file.path.ends_with("tidy.rs"))
    {
        for (line, phrase, better) in banned(&texts_in_code(&text)) {
            wrong.push(format!("{path}:{line}: \"{phrase}\"; better: {better}"));
        }
    }
    assert_none(&wrong);
}

#[test]
fn the_list_of_banned_phrases_finds_them_in_prose_only() {
    let source = "//! Reads. Lets\n//! go of it. `who`. Of one that is.\n//!\n//! ```\n//! who\n//! ```\n\
        /// The same, of users who ask.\nlet whoever = \"who\"; // He waits; not the same. Is: had\n\
        /* beside\nhim */";
    let found = banned(&comments(source)).into_iter().map(|(line, phrase, _)| (line, phrase));
    assert_eq!(
        found.collect::<Vec<_>>(),
        [
            (1, "lets go"),
            (2, "of one that"),
            (7, "the same"),
            (8, "he"),
            (9, "beside"),
            (10, "him")
        ]
    );
    let code = "fn who_waits() { panic!(\"nobody\", he, \"let \\\"go\") } // him\n#[test]\nfn of_one_that() {}";
    let found = banned(&texts_in_code(code)).into_iter().map(|(line, phrase, _)| (line, phrase));
    assert_eq!(found.collect::<Vec<_>>(), [(1, "who"), (1, "nobody"), (1, "let go")]);
    let script = "#!/bin/sh\nhe='who' # not found: no line of its own\n  # Nobody reads this.\n";
    let found = banned(&comments_after_hashes(script));
    assert_eq!(found.iter().map(|found| found.0).collect::<Vec<_>>(), [3]);
}

/// Except for tables and addresses, which cannot be wrapped. A heading has a line of its own.
#[test]
fn lines_of_comments_fit_the_width() {
    let mut wrong = Vec::new();
    for File { path, text } in sources() {
        for (number, (line, comment)) in text.lines().zip(comments(&text).lines()).enumerate() {
            let comment = comment.trim_start_matches(['/', '!']).trim_start();
            let cannot_wrap = comment.starts_with('|') || comment.contains("://");
            let columns = line.chars().count();
            if !comment.is_empty() && columns > COLUMNS_MAX && !cannot_wrap {
                wrong.push(format!("{path}:{}: {columns} columns; wrap the comment", number + 1));
            }
            let headings = ["# Errors ", "# Panics ", "# Safety ", "# Example ", "# Examples "];
            if headings.iter().any(|heading| comment.starts_with(heading)) {
                wrong.push(format!("{path}:{}: text after a heading", number + 1));
            }
        }
    }
    assert_none(&wrong);
}

/// `Cargo.toml` and the LICENSE files name the licence of the Rust sources. The plugin has another,
/// which each of its files names.
#[test]
fn licences_are_named_in_one_way() {
    const NAMED: &str = "SPDX-License-Identifier";
    fn names_one(file: &File) -> bool {
        comments(&file.text).contains(NAMED)
    }
    let mut wrong = Vec::new();
    for File { path, .. } in sources().into_iter().filter(names_one) {
        wrong.push(format!("{path}: remove {NAMED}: Cargo.toml names the licence"));
    }
    let plugin = [".cc", ".h"].into_iter().flat_map(|ending| files("plugin/mariadb/src", ending));
    for File { path, .. } in plugin.filter(|file| !names_one(file)) {
        wrong.push(format!("{path}: no {NAMED}"));
    }
    assert!(file("Cargo.toml").text.contains("license = \"MIT OR Apache-2.0\""));
    let texts = ["LICENSE-MIT", "LICENSE-APACHE", "plugin/mariadb/LICENSE"];
    wrong.extend(
        texts.iter().filter(|text| !root().join(text).exists()).map(|text| format!("no {text}")),
    );
    assert_none(&wrong);
}

#[test]
fn unsafe_code_is_only_in_listed_places_and_justified() {
    let mut wrong = Vec::new();
    let mut met = BTreeSet::new();
    for File { path, text } in sources() {
        let lines: Vec<&str> = text.lines().collect();
        for (number, line) in code(&text).lines().enumerate() {
            if !line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "unsafe")
            {
                continue;
            }
            match UNSAFE.iter().find(|(place, _)| path.starts_with(place)) {
                Some((place, _)) => drop(met.insert(*place)),
                None => wrong.push(format!("{path}:{}: unsafe outside its places", number + 1)),
            }
            let start = line.trim_start();
            let start = start.trim_start_matches("pub(crate) ").trim_start_matches("pub ");
            let declares = ["unsafe fn", "#[unsafe(no_mangle)]"];
            if declares.iter().any(|declares| start.starts_with(declares))
                || line.contains("unsafe extern")
            // a type of C functions
            {
                continue; // a declaration; each call of what it declares has its own justification
            }
            let above = &lines[number.saturating_sub(12)..=number];
            let argued =
                above.iter().any(|line| line.contains("SAFETY:") || line.contains("# Safety"));
            if !argued {
                wrong.push(format!("{path}:{}: unsafe without its argument", number + 1));
            }
        }
    }
    for (place, _) in UNSAFE.iter().filter(|(place, _)| !met.contains(place)) {
        wrong.push(format!("{place} has no unsafe code any more: take it off the list"));
    }
    assert_none(&wrong);
}

/// Everything nondeterministic goes through the seams: otherwise a seed would not replay a run, and
/// the model checker would not see a lock.
#[test]
fn files_clocks_threads_and_locks_are_used_only_through_their_wrappers() {
    const DOORS: &[(&str, &[&str])] = &[
        ("std::fs", &["crates/frond/src/io/real.rs"]),
        ("Instant::now", &["crates/frond/src/io/real.rs"]),
        ("SystemTime::now", &["crates/frond/src/io/real.rs"]),
        ("std::thread", &["crates/frond/src/sync.rs"]),
        ("std::sync", &["crates/frond/src/sync.rs"]),
    ];
    let mut wrong = Vec::new();
    for File { path, text } in engine() {
        let code = code(&text);
        for (name, doors) in DOORS {
            if code.contains(name) && !doors.contains(&path.as_str()) {
                wrong.push(format!("{path}: {name} has a door of its own: {doors:?}"));
            }
        }
    }
    assert_none(&wrong);
}

/// GitHub's anchor of a heading.
fn anchor(heading: &str) -> String {
    let heading = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn links_between_documents_resolve() {
    let mut wrong = Vec::new();
    for File { path, text } in documents() {
        for (at, _) in text.match_indices("](") {
            let target = text[at + 2..].split(')').next().unwrap_or_default();
            if target.starts_with("http") {
                continue;
            }
            let (name, fragment) = target.split_once('#').unwrap_or((target, ""));
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            let linked =
                if name.is_empty() { root().join(&path) } else { root().join(folder).join(name) };
            let Ok(text) = std::fs::read_to_string(&linked) else {
                if !linked.exists() {
                    wrong.push(format!("{path}: no file {target}"));
                }
                continue;
            };
            let headings = text.lines().filter(|line| line.starts_with('#')).map(anchor);
            if !fragment.is_empty() && !headings.into_iter().any(|own| own == fragment) {
                wrong.push(format!("{path}: no heading for {target}"));
            }
        }
    }
    assert_none(&wrong);
}

/// Commands of documents: lines of fenced blocks, and inline code.
fn commands(text: &str) -> Vec<&str> {
    let mut is_fenced = false;
    let fenced = text.lines().filter(|line| {
        is_fenced ^= line.starts_with("```");
        is_fenced
    });
    let mut commands: Vec<&str> = fenced.collect();
    commands.extend(text.split('`').skip(1).step_by(2).filter(|code| !code.contains('\n')));
    commands
}

/// Commands that are too long to run as tests name at least what exists.
#[test]
fn documented_make_targets_and_scripts_exist() {
    let makefile = file("Makefile").text;
    let (mut met, mut wrong) = (0, Vec::new());
    for File { path, text } in documents() {
        for command in commands(&text) {
            let mut words = command.split_whitespace();
            let exists = match (words.next(), words.next()) {
                (Some("make"), Some(target)) => makefile.contains(&format!("\n{target}:")),
                (Some(script), _) if script.starts_with("scripts/") => root().join(script).exists(),
                _ => continue,
            };
            met += 1;
            if !exists {
                wrong.push(format!("{path}: {command}"));
            }
        }
    }
    assert_none(&wrong);
    assert!(met > 25, "{met} commands: the documents are elsewhere");
}

/// Sections of the format document that sources cite exist.
#[test]
fn cited_sections_of_the_format_exist() {
    let format = file("docs/format.md");
    let headings: BTreeSet<&str> = format
        .text
        .lines()
        .filter_map(|line| line.trim_start_matches('#').strip_prefix(' '))
        .collect();
    let mut wrong = Vec::new();
    for File { path, text } in sources() {
        for cited in text.split("format.md, \"").skip(1).filter_map(|rest| rest.split('"').next()) {
            if !headings.contains(cited) {
                wrong.push(format!("{path}: format.md has no section \"{cited}\""));
            }
        }
    }
    assert_none(&wrong);
}

/// A heading occurs once in a document: nothing is described twice, and every link has one target.
#[test]
fn headings_are_unique_in_a_document() {
    let mut wrong = Vec::new();
    for File { path, text } in documents().into_iter().filter(|file| file.path != "CHANGELOG.md") {
        let mut seen = BTreeSet::new();
        let sections =
            text.lines().filter(|line| line.starts_with("## ") || line.starts_with("### "));
        for heading in sections.filter(|heading| !seen.insert(*heading)) {
            wrong.push(format!("{path}: \"{heading}\" twice"));
        }
    }
    assert_none(&wrong);
}

fn codes(text: &str) -> BTreeSet<&str> {
    text.match_indices("FRD-")
        .filter_map(|(at, _)| text.get(at..at + 8))
        .filter(|code| code[4..].bytes().all(|byte| byte.is_ascii_digit()))
        .collect()
}

#[test]
fn errors_match_their_catalogue() {
    let catalogue = file("docs/errors.md");
    let sources = sources();
    let thrown: BTreeSet<&str> = sources.iter().flat_map(|source| codes(&source.text)).collect();
    let explained = codes(&catalogue.text);
    let mut wrong: Vec<String> = Vec::new();
    wrong.extend(thrown.difference(&explained).map(|code| format!("{code} is not in errors.md")));
    wrong.extend(explained.difference(&thrown).map(|code| format!("nothing says {code}")));
    // Each variant's message begins with its code; the catalogue names both in one row.
    let enums = [
        ("error/mod.rs", "pub enum Error {", "`"),
        ("error/duplicate.rs", "pub enum Duplicate {", "`DuplicateKey`, `Duplicate::"),
    ];
    for (path, head, named) in enums {
        let source = file(&format!("crates/frond/src/{path}"));
        let (_, variants) = source.text.split_once(head).expect("an enum of errors");
        let variants = variants.split("\n}\n").next().unwrap_or_default();
        let variants = variants.split("#[error(").skip(1);
        for variant in variants.filter(|variant| !variant.starts_with("transparent")) {
            let code =
                variant.split("FRD-").nth(1).and_then(|rest| rest.get(..4)).unwrap_or("none");
            let after = variant.split(")]\n").nth(1).unwrap_or_default().trim_start();
            let name: String = after.chars().take_while(|c| c.is_alphanumeric()).collect();
            let named = format!("{named}{name}`");
            if !catalogue.text.contains(&format!("| FRD-{code} {named} |")) {
                wrong.push(format!("errors.md has no row for FRD-{code} {named}"));
            }
        }
    }
    assert_none(&wrong);
}

/// The tests that safety.md names for its promises exist.
#[test]
fn tests_that_documents_name_exist() {
    let sources = sources();
    let names: BTreeSet<&str> = sources
        .iter()
        .flat_map(|source| source.text.split("fn ").skip(1))
        .filter_map(|rest| rest.split(['(', '<']).next())
        .collect();
    let safety = file("docs/safety.md");
    let quoted = safety.text.split('`').skip(1).step_by(2);
    let is_test = |word: &&str| {
        word.matches('_').count() >= 2 && word.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
    };
    let tests: Vec<&str> = quoted.filter(is_test).collect();
    assert!(tests.len() > 30, "{tests:?}");
    let missing = tests.iter().filter(|name| !names.contains(**name));
    assert_none(
        &missing
            .map(|name| format!("safety.md names {name}, which is no test"))
            .collect::<Vec<_>>(),
    );
}
