//! Compares what a commit's `frond.h` declares with the header that this lab was built with.
//!
//! Structs grew over time. A field after those that the lab knows is harmless in a struct that the
//! library initializes itself. In arrays, and in structs that the lab initializes, it changes
//! everything. So a declaration must either be identical or start with the same fields.

use crate::targets::{Failure, Result};

/// The header of this checkout.
const OURS: &str = include_str!("../../../../frond-c/include/frond.h");

/// How much of a struct must be identical.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Same {
    /// All of it.
    Whole,
    /// The given number of fields from the first.
    First(usize),
}

/// A header without comments.
struct Header(String);

impl Header {
    fn new(text: &str) -> Self {
        let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
        let mut code = String::new();
        let mut rest = lines.collect::<Vec<_>>().join("\n");
        while let Some((before, after)) = rest.split_once("/*") {
            code.push_str(before);
            rest = after.split_once("*/").map(|(_, behind)| behind.to_owned()).unwrap_or_default();
        }
        // Bytes are `uint8_t *` to older commits and `void *` to newer ones: a caller passes the
        // same pointer.
        Self((code + &rest).replace("uint8_t *", "void *"))
    }

    /// Returns the declaration of a function, from its type to its last parameter, with normalized
    /// white space and without the names of parameters, which a caller does not use.
    fn function(&self, name: &str) -> Option<String> {
        let at = self.0.match_indices(name).map(|(at, _)| at).find(|at| {
            let before = self.0[..*at].chars().next_back();
            before.is_some_and(|c| c == ' ' || c == '*')
                && self.0[at + name.len()..].starts_with('(')
        })?;
        let begin = self.0[..at].rfind([';', '}', '{']).map_or(0, |begin| begin + 1);
        let end = at + self.0[at..].find(';')?;
        // Lines of the preprocessor before the declaration are not part of it.
        let text = &self.0[begin..end];
        let code = text.lines().filter(|line| !line.starts_with('#'));
        Some(without_parameter_names(&words(&code.collect::<Vec<_>>().join("\n"))))
    }

    /// Returns the fields of a struct.
    fn fields(&self, name: &str) -> Option<Vec<String>> {
        let end = self.0.find(&format!("}} {name};"))?;
        let begin = self.0[..end].rfind('{')? + 1;
        Some(self.0[begin..end].split(';').map(words).filter(|field| !field.is_empty()).collect())
    }

    fn constant(&self, name: &str) -> Option<String> {
        let mut lines = self.0.lines();
        lines.find_map(|line| {
            Some(words(line.strip_prefix("#define ")?.strip_prefix(name)?.strip_prefix(' ')?))
        })
    }
}

fn without_parameter_names(declaration: &str) -> String {
    let Some((name, parameters)) = declaration.trim_end_matches(')').split_once('(') else {
        return declaration.to_owned();
    };
    let types = parameters.split(',').map(|parameter| {
        let kind = parameter.trim_end_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
        // A single word is a type without a name.
        if kind.trim().is_empty() { parameter.trim() } else { kind.trim() }
    });
    format!("{name}({})", types.collect::<Vec<_>>().join(", "))
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The declarations that must be as in our header.
pub struct Needed<'n> {
    /// Functions.
    pub functions: &'n [&'n str],
    /// Structs.
    pub structs: &'n [(&'n str, Same)],
    /// Constants.
    pub constants: &'n [&'n str],
}

impl Needed<'_> {
    /// Compares this header of `commit` with ours.
    ///
    /// # Errors
    /// Names what is missing or declared differently.
    pub fn check(&self, commit: &str, theirs: &str) -> Result<()> {
        let (ours, theirs) = (Header::new(OURS), Header::new(theirs));
        let (mut missing, mut other) = (Vec::new(), Vec::new());
        for &name in self.functions {
            match theirs.function(name) {
                None => missing.push(name),
                found if found != ours.function(name) => other.push(name),
                Some(_) => {}
            }
        }
        for &(name, same) in self.structs {
            let of = |header: &Header| header.fields(name).unwrap_or_default();
            let (mine, found) = (of(&ours), of(&theirs));
            let is_same = match same {
                Same::Whole => mine == found,
                Same::First(n) => mine.len() >= n && found.get(..n) == mine.get(..n),
            };
            if !is_same || mine.is_empty() {
                other.push(name);
            }
        }
        let differs = |name: &&&str| {
            theirs.constant(name).is_none() || theirs.constant(name) != ours.constant(name)
        };
        other.extend(self.constants.iter().filter(differs));
        let said = |what: &str, names: &[&str]| {
            Failure(format!("commit {commit} {what} in its C API: {}", names.join(", ")))
        };
        match (missing.is_empty(), other.is_empty()) {
            (true, true) => Ok(()),
            (false, _) => Err(said("lacks", &missing)),
            (true, false) => Err(said("declares otherwise", &other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEEDED: Needed<'static> = Needed {
        functions: &[
            "frond_open",
            "frond_put",
            "frond_tree_id",
            "frond_version",
            "frond_batch_new",
        ],
        structs: &[("frond_options", Same::First(2)), ("frond_rows", Same::Whole)],
        constants: &["FROND_LAZY"],
    };

    #[test]
    fn missing_and_differently_declared_functions_are_named() {
        let refused = |from: &str, to: &str| {
            let text = OURS.replace(from, to);
            assert_ne!(text, OURS, "{from} is in the header");
            NEEDED.check("1a2b3c4", &text).map_err(|failure| failure.0)
        };
        assert!(NEEDED.check("1a2b3c4", OURS).is_ok());
        assert_eq!(refused("  uint64_t keep_log;\n", ""), Ok(()), "a later field");
        assert_eq!(refused("// Opens a tree.", "// Otherwise described."), Ok(()));
        assert_eq!(refused("const void *key", "const uint8_t *key"), Ok(()));
        assert_eq!(
            refused("frond_tree_id(const frond_tree *tree", "frond_tree_id(const frond_tree *t"),
            Ok(())
        );
        let failure =
            refused("frond_tree_id(const frond_tree *tree", "frond_tree_id(frond_db *tree");
        assert!(failure.expect_err("it is another").ends_with("frond_tree_id"));
        let failure = refused("frond_tree_id(", "frond_tree_number(").expect_err("it is missing");
        assert_eq!(failure, "commit 1a2b3c4 lacks in its C API: frond_tree_id");
        for (from, to, name) in [
            ("uint32_t frond_tree_id", "uint64_t frond_tree_id", "frond_tree_id"),
            (
                "  uint64_t cache_size;\n",
                "  uint64_t pages;\n  uint64_t cache_size;\n",
                "frond_options",
            ),
            ("} frond_rows;", "  bool more;\n} frond_rows;", "frond_rows"),
            ("#define FROND_LAZY 3", "#define FROND_LAZY 4", "FROND_LAZY"),
        ] {
            let failure = refused(from, to).expect_err("it is another");
            assert!(failure.contains("declares otherwise") && failure.ends_with(name), "{failure}");
        }
    }
}
