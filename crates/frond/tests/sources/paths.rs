//! The paths that code names, with the trees of its imports expanded.

/// A path that a `use` statement outside of functions imports.
pub struct Import {
    pub is_export: bool,
    pub path: Vec<String>,
    /// The name that it has here.
    pub name: String,
}

/// All imports. The argument is [`code`](super::code), here and below.
pub fn imports(code: &str) -> Vec<Import> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("use ") {
        let line = code[..at].rsplit('\n').next().unwrap_or_default();
        if line.is_empty() || line.starts_with("pub") {
            let tree = code[at + "use ".len()..].split(';').next().unwrap_or_default();
            expand(tree, "", &mut |path, name| {
                let (is_export, name) = (!line.is_empty(), name.to_owned());
                found.push(Import { is_export, path: words(path), name });
            });
        }
    }
    found
}

/// All paths that start with `crate::` or `super::`, in imports and elsewhere.
pub fn paths(code: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    for start in ["crate::", "super::"] {
        for (at, _) in code.match_indices(start) {
            if code[..at].ends_with(is_name) {
                continue;
            }
            let mut end = code[at..].find(|c| !is_name(c)).map_or(code.len(), |len| at + len);
            if code[..end].ends_with(':') && code[end..].starts_with('{') {
                end += tree_bytes(&code[end..]);
            }
            expand(&code[at..end], "", &mut |path, _| found.push(words(path)));
        }
    }
    found
}

/// Length of a text in braces.
fn tree_bytes(text: &str) -> usize {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 1 => return at + 1,
            '}' => depth -= 1,
            _ => {}
        }
    }
    text.len()
}

/// Calls `each` with all paths of a tree `a::{b, c::{d, e as f}}`, and the name that each has here.
pub fn expand(tree: &str, before: &str, each: &mut dyn FnMut(&str, &str)) {
    let tree = tree.trim();
    let Some((head, rest)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or(tree);
        let name = tree.rsplit([' ', ':']).next().unwrap_or(tree);
        return each(&format!("{before}{path}"), name);
    };
    let inner = rest.rsplit_once('}').map_or(rest, |(inner, _)| inner);
    let before = format!("{before}{head}");
    let (mut depth, mut start) = (0, 0);
    for (at, c) in inner.char_indices().chain([(inner.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                if !inner[start..at].trim().is_empty() {
                    expand(&inner[start..at], &before, each);
                }
                start = (at + 1).min(inner.len());
            }
            _ => {}
        }
    }
}

/// The words of a path.
pub fn words(path: &str) -> Vec<String> {
    path.split("::").map(|word| word.trim().to_owned()).filter(|word| !word.is_empty()).collect()
}
