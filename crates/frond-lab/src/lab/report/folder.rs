//! The folder of a report: renders the templates, and writes them with the files that they need.
//!
//! Invariants
//! 1. A folder that is not empty and holds no report is never written to. Of an earlier report only
//!    its own files are removed.
//! 2. Values in a template are escaped, except JSON, which figure.rs makes safe.

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
    written: Vec<String>,
}

impl Folder {
    /// Opens the folder, removes an earlier report from it, and writes the files that all pages
    /// need.
    ///
    /// # Errors
    /// The folder has files and holds no report (Invariant 1), or cannot be written.
    pub fn open(path: &Path) -> Result<Self> {
        let mut environment = Environment::new();
        for (name, text) in TEMPLATES {
            environment.add_template(name, text).map_err(|error| template_failure(&error))?;
        }
        clear(path)?;
        let mut folder = Self { path: path.to_owned(), environment, written: Vec::new() };
        for (name, text) in FILES {
            folder.write(name, text)?;
        }
        Ok(folder)
    }

    /// Renders a template and writes the page.
    ///
    /// # Errors
    /// The page cannot be rendered or written.
    pub fn page(&mut self, template: &str, name: &str, context: &Value) -> Result<()> {
        let rendered =
            self.environment.get_template(template).and_then(|page| page.render(context));
        self.write(name, &rendered.map_err(|error| template_failure(&error))?)
    }

    fn write(&mut self, name: &str, text: &str) -> Result<()> {
        // The list is written first, so that an interrupted report is still recognized as one.
        self.written.push(name.to_owned());
        let path = self.path.join(name);
        let parent = path.parent().unwrap_or(&self.path);
        let marker = self.path.join(MARKER);
        std::fs::create_dir_all(parent)
            .and_then(|()| std::fs::write(&marker, self.written.join("\n")))
            .and_then(|()| std::fs::write(&path, text))
            .map_err(|error| failure(&path, &error))
    }

    /// Returns the path of the first page.
    ///
    /// # Errors
    /// None: all pages have been written.
    pub fn finish(self) -> Result<PathBuf> {
        Ok(self.path.join("index.html"))
    }
}

fn clear(path: &Path) -> Result<()> {
    if path.exists() && !path.is_dir() {
        return Err(Failure(format!(
            "{}: not a folder; choose another with --out",
            path.display()
        )));
    }
    let Ok(entries) = std::fs::read_dir(path) else { return Ok(()) };
    if entries.count() == 0 {
        return Ok(());
    }
    let Ok(list) = std::fs::read_to_string(path.join(MARKER)) else {
        return Err(Failure(format!(
            "{}: the folder is not empty and holds no report; choose another with --out",
            path.display()
        )));
    };
    for name in list.lines().filter(|name| is_plain(name)) {
        match std::fs::remove_file(path.join(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(failure(&path.join(name), &error));
            }
            _ => {}
        }
    }
    Ok(())
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
        folder.write("workload-old.html", "old")?;
        std::fs::write(own.join("notes.txt"), "mine")?;
        Folder::open(&own)?;
        assert!(!own.join("workload-old.html").exists() && own.join("notes.txt").exists());
        // If the list names files elsewhere, they are not removed.
        std::fs::write(dir.path().join("precious"), "x")?;
        std::fs::write(own.join(MARKER), "../precious\n/etc/none\n")?;
        Folder::open(&own)?;
        assert!(dir.path().join("precious").exists());

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
