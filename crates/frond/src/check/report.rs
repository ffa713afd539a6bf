//! The report of a check, for people and for programs.
//!
//! Invariants
//! 1. A finding names a file, an offset and, if known, the tree; never keys or values.
//! 2. At most [`FINDINGS_MAX`] findings are kept, whatever the damage; the others are counted.

use std::{fmt, path::PathBuf};

use crate::{Error, tree::OTHER_LEVEL};

/// Maximum number of findings kept; more would not be useful.
pub const FINDINGS_MAX: usize = 1000;

/// The extent of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CheckMode {
    /// Superblocks, log chain, catalog, root directory, sums of the space map, root pages. Reads
    /// the log and a few pages.
    Quick,
    /// Everything that `Quick` checks, and every page that a version reaches, every block, every
    /// entry, and the ownership of every byte. Reads the whole store once.
    Full,
}

/// The severity of a finding.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Severity {
    /// Nothing is lost or wrong: something that a crash may leave behind, or that could not be
    /// checked.
    Warning,
    /// Something violates a rule.
    Damage,
}

/// One violation that a check found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// A stable code that names the violated rule.
    pub code: &'static str,
    /// The severity.
    pub severity: Severity,
    /// The file.
    pub file: PathBuf,
    /// Byte offset in the file.
    pub offset: u64,
    /// Length of the affected bytes; 0 if unknown.
    pub bytes: u64,
    /// The tree, if it belongs to one.
    pub tree: Option<String>,
    /// What is wrong, in words.
    pub what: String,
}

/// Counts of what a check examined.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Checked {
    /// Trees, with the catalog and without those of the older superblock slot.
    pub trees: u64,
    /// Node pages.
    pub nodes: u64,
    /// Runs whose entries were read.
    pub runs: u64,
    /// Blocks of these runs.
    pub blocks: u64,
    /// Entries of these runs.
    pub entries: u64,
    /// Blobs that were read.
    pub blobs: u64,
    /// Extents in the space map.
    pub extents: u64,
    /// Records of the log.
    pub log_records: u64,
}

/// The result of a check.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckReport {
    /// The extent of the check.
    pub mode: CheckMode,
    /// The findings, in the order of discovery.
    pub findings: Vec<Finding>,
    /// Number of findings beyond [`FINDINGS_MAX`].
    pub more: u64,
    /// Counts of what was examined.
    pub checked: Checked,
}

impl CheckReport {
    pub(super) fn new(mode: CheckMode) -> Self {
        Self { mode, findings: Vec::new(), more: 0, checked: Checked::default() }
    }

    /// True if no damage was found; there may be warnings.
    pub fn is_clean(&self) -> bool {
        self.more == 0 && self.findings.iter().all(|finding| finding.severity != Severity::Damage)
    }

    /// True if a finding has this code.
    pub fn names(&self, code: &str) -> bool {
        self.findings.iter().any(|finding| finding.code == code)
    }

    pub(super) fn add(&mut self, finding: Finding) {
        if self.findings.contains(&finding) {
            return;
        }
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        } else {
            self.more += 1;
        }
    }

    /// The report as one JSON object.
    pub fn to_json(&self) -> String {
        let mut out = String::from("{\"mode\":");
        put_json(&mut out, if self.mode == CheckMode::Quick { "quick" } else { "full" });
        out.push_str(&format!(",\"clean\":{},\"findings\":[", self.is_clean()));
        for (index, finding) in self.findings.iter().enumerate() {
            out.push_str(if index > 0 { ",{" } else { "{" });
            out.push_str("\"code\":");
            put_json(&mut out, finding.code);
            out.push_str(",\"severity\":");
            put_json(&mut out, finding.severity.name());
            out.push_str(",\"file\":");
            put_json(&mut out, &finding.file.to_string_lossy());
            out.push_str(&format!(",\"offset\":{},\"bytes\":{}", finding.offset, finding.bytes));
            out.push_str(",\"tree\":");
            match &finding.tree {
                Some(tree) => put_json(&mut out, tree),
                None => out.push_str("null"),
            }
            out.push_str(",\"what\":");
            put_json(&mut out, &finding.what);
            out.push('}');
        }
        out.push_str(&format!("],\"more\":{},\"checked\":{{", self.more));
        for (index, (name, count)) in self.checked.iter().enumerate() {
            out.push_str(if index > 0 { "," } else { "" });
            out.push_str(&format!("\"{name}\":{count}"));
        }
        out.push_str("}}");
        out
    }
}

impl Severity {
    fn name(self) -> &'static str {
        match self {
            Severity::Warning => "warning",
            Severity::Damage => "damage",
        }
    }
}

impl Checked {
    /// The counts by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        [
            ("trees", self.trees),
            ("nodes", self.nodes),
            ("runs", self.runs),
            ("blocks", self.blocks),
            ("entries", self.entries),
            ("blobs", self.blobs),
            ("extents", self.extents),
            ("log_records", self.log_records),
        ]
        .into_iter()
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: ", self.severity.name(), self.code)?;
        write!(f, "{} at {}", self.file.display(), self.offset)?;
        if let Some(tree) = &self.tree {
            write!(f, " (tree \"{tree}\")")?;
        }
        write!(f, ": {}", self.what)
    }
}

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            writeln!(f, "{finding}")?;
        }
        if self.more > 0 {
            writeln!(f, "and {} more", self.more)?;
        }
        f.write_str(if self.is_clean() { "clean:" } else { "DAMAGED:" })?;
        for (index, (name, count)) in self.checked.iter().enumerate() {
            let (comma, name) = (if index > 0 { "," } else { "" }, name.replace('_', " "));
            let catalog = if name == "trees" && count > 0 { " (one is the catalog)" } else { "" };
            write!(f, "{comma} {count} {name}{catalog}")?;
        }
        Ok(())
    }
}

/// A damage finding with a code; the caller fills in the place.
pub(super) fn damage(code: &'static str, what: impl Into<String>) -> Finding {
    Finding {
        code,
        severity: Severity::Damage,
        file: PathBuf::new(),
        offset: 0,
        bytes: 0,
        tree: None,
        what: what.into(),
    }
}

/// A warning finding with a code; the caller fills in the place.
pub(super) fn warning(code: &'static str, what: impl Into<String>) -> Finding {
    Finding { severity: Severity::Warning, ..damage(code, what) }
}

/// The finding for an error that the check met.
pub(super) fn from_error(error: &Error) -> Finding {
    let at = |code, place: &crate::Place, what: String| Finding {
        file: place.file.clone(),
        offset: place.offset,
        bytes: place.bytes,
        ..damage(code, what)
    };
    match error {
        Error::Checksum { place, what, stored, computed } => {
            let words = format!("{what} has checksum {computed:016x}, not {stored:016x}");
            at("checksum", place, words)
        }
        Error::WrongPage { place, what } => {
            at("stale", place, format!("{what} is not the one its parent names"))
        }
        Error::Malformed { place, why, .. } if why == OTHER_LEVEL => {
            at("level", place, format!("a node: {why}"))
        }
        Error::Malformed { place, what, why } => {
            at("malformed", place, format!("{what} is malformed: {why}"))
        }
        Error::TooNew { file, .. } => {
            Finding { file: file.clone(), ..damage("newer", error.to_string()) }
        }
        Error::Io { file, offset, .. } => {
            let found = damage("unreadable", error.to_string());
            Finding { file: file.clone(), offset: *offset, ..found }
        }
        Error::WalDamaged { place, .. } => at("log", place, error.to_string()),
        Error::WalMissing { file, .. } | Error::ForeignFile { file, .. } => {
            Finding { file: file.clone(), ..damage("log", error.to_string()) }
        }
        Error::NoSuperblock { file, .. } | Error::Truncated { file, .. } => {
            Finding { file: file.clone(), ..damage("superblock", error.to_string()) }
        }
        other => damage("error", other.to_string()),
    }
}

fn put_json(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            control if (control as u32) < 0x20 => {
                out.push_str(&format!("\\u{:04x}", control as u32));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_valid_text_and_json_for_any_names() {
        let mut report = CheckReport::new(CheckMode::Quick);
        assert!(report.is_clean());
        report.add(warning("slot", "a \"torn\" slot"));
        assert!(report.is_clean(), "a warning is no damage");
        let found = Finding { tree: Some("t\\\n".into()), ..damage("leak", "") };
        report.add(found.clone());
        report.add(found);
        assert_eq!(report.findings.len(), 2, "each finding is reported once");
        assert!(!report.is_clean() && report.names("leak"));
        let json = report.to_json();
        assert!(
            json.contains("a \\\"torn\\\" slot") && json.contains("\"t\\\\\\u000a\""),
            "{json}"
        );
        assert!(json.ends_with("\"log_records\":0}}"), "{json}");
        assert!(report.to_string().contains("DAMAGED"));
        for _ in 0..2 * FINDINGS_MAX {
            let offset = report.findings.len() as u64 + report.more;
            report.add(Finding { offset, ..damage("leak", "") });
        }
        assert_eq!(report.findings.len(), FINDINGS_MAX);
        assert!(report.more > 0);
    }
}
