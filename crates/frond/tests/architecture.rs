//! Tests that module dependencies point down: which module may use which is listed in one table,
//! "Which module may use which" in docs/architecture.md, and the sources must match it.
//!
//! The rows of the table go from the top layer to the bottom, and a module may use only modules in
//! rows below its own. A dependency that is not in the table is an error, and so is one in the
//! table that no source has. Shared words (small modules that all others may use) are below all
//! modules.

mod sources;

use std::collections::{BTreeMap, BTreeSet};

use sources::{
    File, code, engine, file,
    paths::{imports, paths},
    table,
};

const HEADING: &str = "## Which module may use which";
/// The crate's root file, which is not a module of the table.
const ROOT: &str = "lib";
/// The last row: small modules that all others share.
const SHARED: &str = "shared words";

type Uses = BTreeMap<String, BTreeSet<String>>;

struct Table {
    /// From the top layer to the bottom.
    modules: Vec<String>,
    uses: Uses,
    shared: BTreeSet<String>,
}

fn words(cell: &str) -> BTreeSet<String> {
    let words = cell.split([',', ' ', '`']).filter(|word| !word.is_empty() && *word != "–");
    words.map(str::to_owned).collect()
}

fn documented() -> Table {
    let mut documented = Table { modules: vec![], uses: Uses::new(), shared: BTreeSet::new() };
    for row in table(&file("docs/architecture.md"), HEADING) {
        let [name, uses] = &row[..] else { panic!("{row:?}: a module, and what it uses") };
        let name = name.replace('`', "");
        if name == SHARED {
            documented.shared = words(uses);
        } else {
            documented.uses.insert(name.clone(), words(uses));
            documented.modules.push(name);
        }
    }
    documented
}

/// The module, or shared word, that a source belongs to.
fn module_of(path: &str) -> String {
    let inside = path.strip_prefix("crates/frond/src/").expect("a source of the engine");
    inside.split('/').next().unwrap_or(inside).trim_end_matches(".rs").to_owned()
}

/// The names that `lib.rs` re-exports under the crate's own name, and the module of each.
fn exports(lib: &File) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for import in imports(&code(&lib.text)).into_iter().filter(|import| import.is_export) {
        // Modules that group names by subject re-export `crate::…`: the engine's own code names
        // their sources.
        if let [module, _, ..] = &import.path[..]
            && module != "crate"
        {
            names.insert(import.name, module.clone());
        }
    }
    // The module `operator` of `lib.rs`, with names from module `run`.
    names.insert("operator".into(), "run".into());
    names
}

/// The first words of all paths that start with `crate::`.
fn first_words(code: &str) -> BTreeSet<String> {
    let paths = paths(code).into_iter().filter(|path| path[0] == "crate");
    paths.filter_map(|path| path.get(1).cloned()).collect()
}

/// Which module uses which, and where, in the sources.
fn uses_in_sources() -> BTreeMap<(String, String), String> {
    let engine = engine();
    let exports = exports(&file("crates/frond/src/lib.rs"));
    let modules: BTreeSet<String> = engine.iter().map(|source| module_of(&source.path)).collect();
    let mut uses = BTreeMap::new();
    for source in &engine {
        let from = module_of(&source.path);
        let code = code(&source.text);
        let climbs = code
            .lines()
            .any(|line| line.starts_with("use super::") && is_module_root(&source.path));
        assert!(!climbs, "{}: other modules are imported by `crate::`, not `super::`", source.path);
        for word in first_words(&code) {
            let to = if modules.contains(&word) { Some(&word) } else { exports.get(&word) };
            let to =
                to.unwrap_or_else(|| panic!("{}: crate::{word} belongs to no module", source.path));
            if *to != from {
                uses.insert((from.clone(), to.clone()), source.path.clone());
            }
        }
    }
    uses
}

/// True for a file in which `super` is the crate.
fn is_module_root(path: &str) -> bool {
    let inside = path.strip_prefix("crates/frond/src/").unwrap_or(path);
    inside.ends_with("/mod.rs") && inside.matches('/').count() == 1 || !inside.contains('/')
}

#[test]
fn modules_use_only_modules_below_them() {
    let Table { modules, uses: documented, shared } = documented();
    let mut wrong = Vec::new();
    for (height, name) in modules.iter().enumerate() {
        for below in &documented[name] {
            match modules.iter().position(|module| module == below) {
                Some(at) if at > height => {}
                _ => wrong.push(format!("{name} may use {below}, which is in no row below it")),
            }
        }
    }
    let in_sources = uses_in_sources();
    for ((from, to), path) in &in_sources {
        if from == ROOT || shared.contains(to) {
            continue;
        }
        if shared.contains(from) {
            // A page is read from a file: this word needs the file trait, and the trait needs
            // nothing.
            if (from.as_str(), to.as_str()) != ("page", "io") {
                wrong.push(format!("{path}: the shared word {from} uses the module {to}"));
            }
            continue;
        }
        match documented.get(from) {
            None => wrong.push(format!("{path}: {from} is not in the table")),
            Some(uses) if !uses.contains(to) => {
                wrong.push(format!("{path}: {from} uses {to}, which the table does not list"));
            }
            Some(_) => {}
        }
    }
    for (from, uses) in &documented {
        for to in uses {
            if !in_sources.contains_key(&(from.clone(), to.clone())) {
                wrong.push(format!("{from} does not use {to}: remove it from the table"));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn paths_are_found_in_any_spelling() {
    let code = "use crate::{\n a::{B, c::D},\n E, f};\n fn g() { crate::h::i(crate::J) }";
    let found: Vec<String> = first_words(code).into_iter().collect();
    assert_eq!(found, ["E", "J", "a", "f", "h"]);
    assert_eq!(sources::code("a // crate::b\n\"crate::c\" 'x' '\\'' d"), "a \n\"\"   d");
}
