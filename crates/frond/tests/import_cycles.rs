//! Tests that files of the engine do not use each other in cycles, except those that the table
//! "Files that use each other" in docs/architecture.md lists with a reason.
//!
//! A file uses another if one of its paths (`crate::…`, `super::…`, or the name of a module below
//! it) leads there, directly or through re-exports. Uses between a folder's `mod.rs` and the files
//! in the folder do not count: the one declares the others, which use its types.

mod sources;

use std::collections::{BTreeMap, BTreeSet};

use sources::{
    code, engine, file,
    paths::{expand, imports, paths, words},
    table,
};

const HEADING: &str = "## Files that use each other";

/// A module's path: its names below the crate.
type Module = Vec<String>;
type Graph = BTreeMap<Module, BTreeSet<Module>>;

/// The engine's files, and the names that each re-exports.
struct Files {
    code: BTreeMap<Module, String>,
    exports: BTreeMap<(Module, String), Module>,
}

impl Files {
    fn read() -> Self {
        let code: BTreeMap<Module, String> =
            engine().iter().map(|file| (module(&file.path), code(&file.text))).collect();
        let mut files = Self { code, exports: BTreeMap::new() };
        let mut exports = BTreeMap::new();
        for (module, code) in &files.code {
            for import in imports(code).into_iter().filter(|import| import.is_export) {
                if let Some(path) = files.absolute(module, &import.path) {
                    exports.insert((module.clone(), import.name), path);
                }
            }
        }
        files.exports = exports;
        files
    }

    /// The path below the crate, or `None` if it leads out of the crate.
    fn absolute(&self, from: &Module, path: &[String]) -> Option<Module> {
        let supers = path.iter().take_while(|word| *word == "super").count();
        match path.first().map(String::as_str)? {
            "crate" => Some(path[1..].to_vec()),
            "self" => Some([from, &path[1..]].concat()),
            "super" => Some([&from[..from.len().checked_sub(supers)?], &path[supers..]].concat()),
            first => {
                let below = [from.as_slice(), &[first.to_owned()]].concat();
                self.code.contains_key(&below).then(|| [from.as_slice(), path].concat())
            }
        }
    }

    /// The file in which the item of a path is, once re-exports are followed.
    fn home(&self, path: &[String]) -> Module {
        let known = (0..=path.len()).rev().find(|&len| self.code.contains_key(&path[..len]));
        let (file, rest) = path.split_at(known.expect("the crate's root file is a prefix"));
        let export = rest.first().and_then(|name| self.exports.get(&(file.into(), name.clone())));
        match export {
            Some(export) if export != path => self.home(&[export, &rest[1..]].concat()),
            _ => file.into(),
        }
    }

    fn graph(&self) -> Graph {
        let mut graph = Graph::new();
        for (module, code) in &self.code {
            let imported = imports(code).into_iter().map(|import| import.path);
            let uses = imported.chain(paths(code)).filter_map(|path| self.absolute(module, &path));
            let uses = uses.map(|path| self.home(&path));
            let uses = uses.filter(|to| !to.starts_with(module) && !module.starts_with(to));
            graph.insert(module.clone(), uses.collect());
        }
        graph
    }
}

fn module(path: &str) -> Module {
    let inside = path.strip_prefix("crates/frond/src/").expect("a source of the engine");
    let name = inside.trim_end_matches(".rs").trim_end_matches("/mod");
    let is_root = name == "lib";
    name.split('/').filter(|_| !is_root).map(str::to_owned).collect()
}

/// The sets of two files or more in which each reaches all others.
fn cycles(graph: &Graph) -> BTreeSet<BTreeSet<String>> {
    let reached: Graph = graph.keys().map(|from| (from.clone(), reachable(graph, from))).collect();
    let mut found = BTreeSet::new();
    for (from, all) in &reached {
        let others = all.iter().filter(|to| reached[*to].contains(from));
        let names: BTreeSet<String> = others.map(|module| module.join("/")).collect();
        if names.len() > 1 {
            found.insert(names);
        }
    }
    found
}

fn reachable(graph: &Graph, from: &Module) -> BTreeSet<Module> {
    let (mut found, mut left) = (BTreeSet::new(), vec![from]);
    while let Some(module) = left.pop() {
        for next in &graph[module] {
            if found.insert(next.clone()) {
                left.push(next);
            }
        }
    }
    found
}

#[test]
fn files_that_use_each_other_have_a_reason() {
    let mut listed = BTreeSet::new();
    for row in table(&file("docs/architecture.md"), HEADING) {
        let [files, why] = &row[..] else { panic!("{row:?}: files, and why they use each other") };
        assert!(why.len() > 20, "{files}: a reason");
        let names = files.split([',', ' ', '`']).filter(|name| !name.is_empty());
        listed.insert(names.map(str::to_owned).collect());
    }
    let found = cycles(&Files::read().graph());
    let new: Vec<_> = found.difference(&listed).collect();
    let gone: Vec<_> = listed.difference(&found).collect();
    assert!(new.is_empty() && gone.is_empty(), "cycles not listed: {new:#?}\nlisted: {gone:#?}");
}

#[test]
fn cycles_are_found_in_any_spelling() {
    let (mut expanded, mut names) = (Vec::new(), Vec::new());
    expand("crate::{a::{B, c::{D}}, e as f}", "", &mut |path, name| {
        expanded.push(path.to_owned());
        names.push(name.to_owned());
    });
    assert_eq!(expanded, ["crate::a::B", "crate::a::c::D", "crate::e"]);
    assert_eq!(names, ["B", "D", "f"]);
    let code = "use crate::x;\npub(crate) use y::Z;\nfn f() { use crate::hidden; super::g::h() }";
    let imported: Vec<_> =
        imports(code).iter().map(|import| (import.is_export, import.path.join("::"))).collect();
    assert_eq!(imported, [(false, "crate::x".to_owned()), (true, "y::Z".to_owned())]);
    let named: Vec<String> = paths(code).iter().map(|path| path.join("::")).collect();
    assert_eq!(named, ["crate::x", "crate::hidden", "super::g::h"]);

    let of = |names: &[&str]| -> BTreeMap<Module, String> {
        names.iter().map(|name| (words(&name.replace('/', "::")), String::new())).collect()
    };
    let mut files = Files { code: of(&["", "a", "b", "b/c"]), exports: BTreeMap::new() };
    files.exports.insert((words("b"), "T".into()), words("b::c::T"));
    files.code.insert(words("a"), "use crate::b::T;".into());
    files.code.insert(words("b::c"), "use super::super::a::U;".into());
    let expected = BTreeSet::from(["a".to_owned(), "b/c".to_owned()]);
    assert_eq!(cycles(&files.graph()), BTreeSet::from([expected]));
}
