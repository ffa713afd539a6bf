//! The data set `packages`: the packages that a Debian system knows, as an example of real text.
//!
//! The list is obtained when the workload runs and is never part of the lab: a file of control
//! paragraphs, or the output of `apt-cache dumpavail`.
//!
//! Invariants
//! 1. Each (name, version, architecture) is one row: its first occurrence in the list.
//! 2. Rows are in the order of the list.

use std::collections::HashSet;
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Stdio};

use super::Source;
use crate::schema::{Column, Table, Type, Value};
use crate::targets::{Failure, Result};

/// Fields that are stored as text, in DDL order.
const TEXTS: [&str; 11] = [
    "Package",
    "Version",
    "Architecture",
    "Section",
    "Priority",
    "Maintainer",
    "Depends",
    "Description",
    "Homepage",
    "Filename",
    "SHA256",
];
/// Fields that are stored as numbers.
const NUMBERS: [&str; 2] = ["Installed-Size", "Size"];
/// Number of leading texts that form the key.
const KEY: usize = 3;

/// A package: the positions of its texts in the list (empty if it lacks a field), and its numbers.
#[derive(Clone, Debug, Default)]
pub struct Package {
    texts: [Range<usize>; TEXTS.len()],
    numbers: [u32; NUMBERS.len()],
}

/// The list of packages.
pub struct Packages {
    text: String,
    packages: std::vec::IntoIter<Package>,
}

impl Packages {
    /// Reads a list from a file, or, without one, that of apt; `None` if apt is missing or its list
    /// is empty.
    pub fn find(file: Option<&Path>) -> Result<Option<Self>> {
        let Some(file) = file else {
            let apt = Command::new("apt-cache").arg("dumpavail").stderr(Stdio::null()).output();
            let text = apt.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
            let found = text.map(Self::new).unwrap_or_else(|_| Self::new(String::new()));
            return Ok(Some(found).filter(|found| found.len() > 0));
        };
        Self::read(file).map(Some)
    }

    fn new(text: String) -> Self {
        let packages = parse(&text).into_iter();
        Self { text, packages }
    }

    /// Reads a list from a file.
    pub fn read(file: &Path) -> Result<Self> {
        let failure = |why: String| Failure(format!("{}: {why}", file.display()));
        let bytes = fs::read(file).map_err(|error| failure(error.to_string()))?;
        let text = String::from_utf8(bytes).map_err(|_| {
            failure(
                "it is not UTF-8; lists that are compressed have to be unpacked first".to_owned(),
            )
        })?;
        match Self::new(text) {
            found if found.len() == 0 => {
                Err(failure("no paragraph of it describes a package".to_owned()))
            }
            found => Ok(found),
        }
    }

    /// Number of packages not yet returned.
    pub fn len(&self) -> u64 {
        self.packages.len() as u64
    }
}

/// Parses control paragraphs: `Name: value` lines, where lines that start with white space continue
/// the value, and empty lines separate paragraphs.
fn parse(text: &str) -> Vec<Package> {
    let (mut packages, mut seen) = (Vec::new(), HashSet::new());
    let mut package = Package::default();
    let mut open: Option<usize> = None;
    let mut at = 0;
    for line in text.split_inclusive('\n').chain(["\n"]) {
        let (begin, end) = (at, at + line.trim_end().len());
        at += line.len();
        if line.trim().is_empty() {
            let package = std::mem::take(&mut package);
            let key: Vec<&str> =
                package.texts.iter().take(KEY).map(|range| &text[range.clone()]).collect();
            if !key[0].is_empty() && seen.insert(key) {
                packages.push(package);
            }
            open = None;
        } else if line.starts_with([' ', '\t']) {
            if let Some(open) = open {
                package.texts[open].end = end;
            }
        } else if let Some((name, _)) = line.split_once(':') {
            let value = begin + name.len() + 1;
            let value = value + (text[value..end].len() - text[value..end].trim_start().len());
            open = TEXTS.iter().position(|text| *text == name);
            if let Some(open) = open {
                package.texts[open] = value..end;
            } else if let Some(number) = NUMBERS.iter().position(|number| *number == name) {
                package.numbers[number] = text[value..end].parse().unwrap_or(0);
            }
        }
    }
    packages
}

impl Source for Packages {
    type Record = Package;
    type Columns<'a> = [Value<'a>; TEXTS.len() + NUMBERS.len()];
    const NAME: &'static str = "packages";
    const ROWS_PER_COMMIT: u64 = 500;
    const INNODB_ROW_BYTES: u64 = 1_000;

    fn table() -> Table {
        let names = [
            "name",
            "version",
            "architecture",
            "section",
            "priority",
            "maintainer",
            "depends",
            "description",
            "homepage",
            "file_name",
            "sha256",
        ];
        let texts = names.map(|name| Column { name, kind: Type::Text });
        let numbers = ["installed_kib", "size_b"].map(|name| Column { name, kind: Type::U32 });
        Table {
            name: "packages",
            base: 0,
            columns: texts.into_iter().chain(numbers).collect(),
            primary: (0..KEY).collect(),
            indexes: Vec::new(),
        }
    }

    fn next(&mut self, record: &mut Package) -> bool {
        let package = self.packages.next();
        let more = package.is_some();
        *record = package.unwrap_or_default();
        more
    }

    fn columns<'a>(&'a self, package: &'a Package) -> Self::Columns<'a> {
        std::array::from_fn(|column| match package.texts.get(column) {
            Some(range) => Value::Text(&self.text[range.clone()]),
            None => Value::U32(package.numbers[column - TEXTS.len()]),
        })
    }
}

/// Two packages, and paragraphs that must not become packages.
#[cfg(test)]
pub const EXAMPLE: &str = "\
Package: frond\nVersion: 1.0-1\nInstalled-Size: 120\nMaintainer: Ana Lindqvist <ana@example.org>\n\
Architecture: amd64\nDepends: libc6 (>= 2.36)\nDescription: trees of leaves\n that go on here\n .\n to the end\n\
Size: 4711\nTag: a::b,\n c::d\nSHA256: 00ff\n\n\nPackage: frond\nVersion: 1.0-1\nArchitecture: amd64\n\
Section: twice\n\nX-Nobody: knows\n\nPackage: leaf\nVersion: 2\nArchitecture: all\nSize: many";

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Packages {
        Packages::new(EXAMPLE.to_owned())
    }

    #[test]
    fn paragraphs_become_rows() {
        let mut packages = example();
        assert_eq!(packages.len(), 2, "one is there twice, one has no name");
        let mut package = Package::default();
        assert!(packages.next(&mut package));
        let row = packages.columns(&package);
        let shown: Vec<&str> = row
            .iter()
            .filter_map(|value| if let Value::Text(text) = value { Some(*text) } else { None })
            .collect();
        let expected = [
            "frond",
            "1.0-1",
            "amd64",
            "",
            "",
            "Ana Lindqvist <ana@example.org>",
            "libc6 (>= 2.36)",
            "trees of leaves\n that go on here\n .\n to the end",
            "",
            "",
            "00ff",
        ];
        assert_eq!(shown, expected);
        assert_eq!(row[11..], [Value::U32(120), Value::U32(4711)]);
        assert!(packages.next(&mut package));
        assert_eq!(packages.columns(&package)[0], Value::Text("leaf"));
        assert_eq!(packages.columns(&package)[12], Value::U32(0), "no number");
        assert!(!packages.next(&mut package));
    }

    #[test]
    fn a_list_without_packages_or_not_of_text_is_refused() -> std::io::Result<()> {
        let file = tempfile::NamedTempFile::new()?;
        for bytes in [&b""[..], b"Name: none\n\n", b"Package: x\xff\n"] {
            fs::write(file.path(), bytes)?;
            assert!(Packages::read(file.path()).is_err(), "{bytes:?}");
        }
        fs::write(file.path(), EXAMPLE)?;
        assert_eq!(Packages::read(file.path()).map(|list| list.len()).ok(), Some(2));
        Ok(())
    }
}
