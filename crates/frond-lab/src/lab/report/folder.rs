//! The folder of a report: renders the templates, and writes them with the files that they need.
//!
//! Invariants
//! 1. A folder that is not empty and holds no report is never written to. Of an earlier report only
//!    its own files are removed.
//! 2. An earlier report is replaced only once all files of the new one have been written, to a
//!    temporary folder within it: an error, such as a full disk, leaves it as it was.
//! 3. Values in a template are escaped, except JSON, which figure.rs makes safe.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use minijinja::{Environment, Value};

use crate::targets::{Failure, Result};

/// Name of the file that lists the files of a report, one per line.
const MARKER: &str = ".lab-report";

macro_rules! file {
    ($name:literal) => {
        ($name, include_str!(concat!("../../../lab/report/", $name)))
    };
}

const TEMPLATES: &[(&str, &str)] = &[
    file!("base.html"),
    file!("figure.html"),
    file!("matrix.html"),
    file!("index.html"),
    file!("workload.html"),
    file!("study.html"),
    file!("settings.html"),
];
const FILES: &[(&str, &str)] = &[
    file!("page.css"),
    file!("page.js"),
    file!("echarts/echarts.js"),
    file!("echarts/LICENSE"),
    file!("echarts/NOTICE"),
];

/// A folder into which a report is written.
pub struct Folder {
    path: PathBuf,
    environment: Environment<'static>,
    /// Names and contents of the files, which `finish` writes.
    files: Vec<(String, String)>,
}

impl Folder {
    /// Begins a report with the files that all pages need.
    ///
    /// # Errors
    /// The folder has files and holds no report (Invariant 1).
    pub fn open(path: &Path) -> Result<Self> {
        let mut environment = Environment::new();
        for (name, text) in TEMPLATES {
            environment.add_template(name, text).map_err(|error| template_failure(&error))?;
        }
        earlier(path)?;
        let files = FILES.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        Ok(Self { path: path.to_owned(), environment, files: files.collect() })
    }

    /// Renders a template as a page.
    ///
    /// # Errors
    /// The page cannot be rendered.
    pub fn page(&mut self, template: &str, name: &str, context: &Value) -> Result<()> {
        let rendered =
            self.environment.get_template(template).and_then(|page| page.render(context));
        let rendered = rendered.map_err(|error| template_failure(&error))?;
        self.files.push((name.to_owned(), rendered));
        Ok(())
    }

    /// Writes the files in place of those of an earlier report (Invariant 2). Returns the path of
    /// the first page.
    ///
    /// # Errors
    /// The folder cannot be written, or meanwhile holds something other than a report.
    pub fn finish(self) -> Result<PathBuf> {
        let failed = |error: std::io::Error| failure(&self.path, &error);
        std::fs::create_dir_all(&self.path).map_err(failed)?;
        // It is on the same file system, so that its files can be renamed.
        let new = tempfile::Builder::new()
            .prefix(".lab-report-")
            .tempdir_in(&self.path)
            .map_err(failed)?;
        for (name, text) in &self.files {
            let path = new.path().join(name);
            let parent = path.parent().unwrap_or(new.path());
            std::fs::create_dir_all(parent)
                .and_then(|()| std::fs::write(&path, text))
                .map_err(|error| failure(&path, &error))?;
        }
        let names: Vec<&str> = self.files.iter().map(|(name, _)| name.as_str()).collect();
        let earlier = earlier(&self.path)?;
        // While files are being replaced, the list has those of both reports.
        let both: Vec<&str> =
            names.iter().copied().chain(earlier.iter().map(String::as_str)).collect();
        let list = |names: &[&str]| {
            let path = new.path().join(MARKER);
            std::fs::write(&path, names.join("\n"))?;
            std::fs::rename(&path, self.path.join(MARKER))
        };
        list(&both).map_err(failed)?;
        for name in &names {
            let path = self.path.join(name);
            std::fs::create_dir_all(path.parent().unwrap_or(&self.path))
                .and_then(|()| std::fs::rename(new.path().join(name), &path))
                .map_err(|error| failure(&path, &error))?;
        }
        for name in earlier.iter().filter(|name| !names.contains(&name.as_str())) {
            match std::fs::remove_file(self.path.join(name)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(failure(&self.path.join(name), &error));
                }
                _ => {}
            }
        }
        list(&names).map_err(failed)?;
        Ok(self.path.join("index.html"))
    }
}

/// The files of an earlier report in a folder; none if the folder is empty or does not exist.
///
/// # Errors
/// The folder has files and holds no report (Invariant 1).
fn earlier(path: &Path) -> Result<Vec<String>> {
    if path.exists() && !path.is_dir() {
        return Err(Failure(format!(
            "{}: not a folder; choose another with --out",
            path.display()
        )));
    }
    let Ok(entries) = std::fs::read_dir(path) else { return Ok(Vec::new()) };
    // A new report that is being written, or was interrupted, does not count as content.
    let is_foreign = |entry: &std::fs::DirEntry| {
        !entry.file_name().to_string_lossy().starts_with(".lab-report-")
    };
    if !entries.flatten().any(|entry| is_foreign(&entry)) {
        return Ok(Vec::new());
    }
    let Ok(list) = std::fs::read_to_string(path.join(MARKER)) else {
        return Err(Failure(format!(
            "{}: the folder is not empty and holds no report; choose another with --out",
            path.display()
        )));
    };
    Ok(list.lines().filter(|name| is_plain(name)).map(str::to_owned).collect())
}

/// Writes a file in one step: an error leaves an earlier one as it was.
///
/// # Errors
/// The file cannot be written.
pub fn write_file(path: &Path, text: &str) -> Result<()> {
    if path.exists() && !path.is_file() {
        // A pipe or a terminal.
        return std::fs::write(path, text).map_err(|error| failure(path, &error));
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    let written = tempfile::NamedTempFile::new_in(parent).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        let mode = std::fs::Permissions::from_mode(0o644);
        file.as_file().set_permissions(mode)?;
        Ok(file.persist(path)?)
    });
    written.map(drop).map_err(|error| failure(path, &error))
}

/// Whether a name in the list is a path inside the folder.
fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && Path::new(name).components().all(|part| matches!(part, std::path::Component::Normal(_)))
}

fn failure(path: &Path, error: &std::io::Error) -> Failure {
    Failure(format!("{}: {error}", path.display()))
}

fn template_failure(error: &minijinja::Error) -> Failure {
    Failure(format!("a page of the report: {error:#}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_folders_are_refused_and_earlier_reports_are_replaced() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let own = dir.path().join("report");
        let mut folder = Folder::open(&own)?;
        folder.files.push(("workload-old.html".to_owned(), "old".to_owned()));
        folder.finish()?;
        std::fs::write(own.join("notes.txt"), "mine")?;
        let page = |text: &str| -> Result<Folder> {
            let mut folder = Folder::open(&own)?;
            folder.files.push(("index.html".to_owned(), text.to_owned()));
            Ok(folder)
        };
        page("new")?.finish()?;
        assert!(!own.join("workload-old.html").exists() && own.join("notes.txt").exists());
        // If the list names files elsewhere, they are not removed.
        std::fs::write(dir.path().join("precious"), "x")?;
        std::fs::write(own.join(MARKER), "../precious\n/etc/none\nindex.html\n")?;
        page("newer")?.finish()?;
        assert!(dir.path().join("precious").exists());
        // A file that cannot be written, as on a full disk, leaves the report as it was.
        let mut unwritable = page("newest")?;
        unwritable.files.push(("index.html/x".to_owned(), String::new()));
        assert!(unwritable.finish().is_err());
        assert_eq!(std::fs::read_to_string(own.join("index.html"))?, "newer");
        let hidden = |entry: &std::fs::DirEntry| {
            entry.file_name().to_string_lossy().starts_with(".lab-report-")
        };
        assert!(!std::fs::read_dir(&own)?.flatten().any(|entry| hidden(&entry)));

        let foreign = dir.path().join("foreign");
        std::fs::create_dir(&foreign)?;
        std::fs::write(foreign.join("thesis.txt"), "x")?;
        let refused = Folder::open(&foreign).err().map(|failure| failure.0);
        assert!(refused.is_some_and(|said| said.contains("holds no report")));
        let refused = Folder::open(&foreign.join("thesis.txt")).err().map(|failure| failure.0);
        assert!(refused.is_some_and(|said| said.contains("not a folder")));
        assert_eq!(std::fs::read_dir(&foreign)?.count(), 1);
        Ok(())
    }
}
