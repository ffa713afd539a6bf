//! Opens, creates and checks the database of results.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use crate::targets::{Failure, Result};

const SCHEMA: &str = include_str!("schema.sql");
/// PRAGMA user_version of files with this schema.
const VERSION: i64 = 1;
/// PRAGMA application_id of the lab's files: "FLAB".
const APPLICATION: i64 = 0x464c_4142;

/// The database of results.
pub struct Database {
    path: PathBuf,
    /// Connection to the file.
    pub connection: Connection,
}

impl Database {
    /// Opens the file, and creates it if there is none.
    ///
    /// # Errors
    /// The file is damaged, written by a newer lab, or not a database of the lab (Invariant 2).
    pub fn open(path: &Path) -> Result<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let is_new = std::fs::metadata(path).map_or(true, |file| file.len() == 0);
        let made = Self::connect(path, flags)?;
        if is_new {
            made.create().map_err(|error| made.failure(&error))?;
        }
        made.check()
    }

    /// Opens the file for reading only.
    ///
    /// # Errors
    /// There is no file; or as for [`open`](Self::open).
    pub fn open_to_read(path: &Path) -> Result<Self> {
        if !path.is_file() {
            return Err(Failure(format!(
                "{}: there are no results yet: `lab run`",
                path.display()
            )));
        }
        Self::connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?.check()
    }

    fn connect(path: &Path, flags: OpenFlags) -> Result<Self> {
        let connection = Connection::open_with_flags(path, flags)
            .map_err(|error| Failure(format!("{}: {error}", path.display())))?;
        Ok(Self { path: path.to_owned(), connection })
    }

    fn create(&self) -> rusqlite::Result<()> {
        self.connection.execute_batch(&format!(
            "PRAGMA journal_mode=WAL; BEGIN; PRAGMA application_id={APPLICATION}; PRAGMA user_version={VERSION}; \
             {SCHEMA} COMMIT;"
        ))
    }

    /// Refuses files that this lab must not write to (Invariant 2).
    fn check(self) -> Result<Self> {
        let pragma = |name: &str| {
            self.connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0))
        };
        let read = || Ok((pragma("application_id")?, pragma("user_version")?));
        let (application, version) = read().map_err(|error| self.failure(&error))?;
        if application != APPLICATION {
            return Err(Failure(format!(
                "{}: this is no file of the lab's; choose another with --results",
                self.path.display()
            )));
        }
        if version > VERSION {
            return Err(Failure(format!(
                "{}: written by a newer lab (schema {version}, this one knows {VERSION}); it is left as it is",
                self.path.display()
            )));
        }
        let check: std::result::Result<String, _> =
            self.connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0));
        match check {
            Ok(text) if text == "ok" => {}
            Ok(text) => return Err(self.damaged(&text)),
            Err(error) => return Err(self.failure(&error)),
        }
        let prepared =
            self.connection.execute_batch("PRAGMA synchronous=FULL; PRAGMA busy_timeout=10000;");
        prepared.map_err(|error| self.failure(&error))?;
        Ok(self)
    }

    fn damaged(&self, what: &str) -> Failure {
        Failure(format!(
            "{}: the database is damaged ({what}); it is left as it is: choose another with --results",
            self.path.display()
        ))
    }

    /// Converts an error of SQLite into a failure that names the file.
    pub fn failure(&self, error: &rusqlite::Error) -> Failure {
        use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
        match error.sqlite_error_code() {
            Some(DatabaseCorrupt | NotADatabase) => self.damaged(&error.to_string()),
            _ => Failure(format!("{}: {error}", self.path.display())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(path: &Path) -> String {
        match Database::open(path) {
            Ok(_) => "opened".to_owned(),
            Err(failure) => failure.0,
        }
    }

    #[test]
    fn foreign_files_are_refused_and_unchanged() -> std::io::Result<()> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("r.sqlite");
        assert!(Database::open(&path).is_ok() && Database::open(&path).is_ok());
        let good = std::fs::read(&path)?;

        std::fs::write(&path, "a letter to a friend, long enough to be read")?;
        assert!(refused(&path).contains("left as it is"), "{}", refused(&path));
        assert!(std::fs::read(&path)?.starts_with(b"a letter"));

        std::fs::write(&path, &good)?;
        let newer = Connection::open(&path).and_then(|c| c.execute_batch("PRAGMA user_version=99"));
        assert!(newer.is_ok());
        assert!(refused(&path).contains("newer lab"), "{}", refused(&path));

        std::fs::write(&path, &good)?;
        let other =
            Connection::open(&path).and_then(|c| c.execute_batch("PRAGMA application_id=1"));
        assert!(other.is_ok());
        assert!(refused(&path).contains("no file of the lab"), "{}", refused(&path));

        // Overwrite each page after the first, one at a time.
        for page in 1..good.len() / 4096 {
            let mut bad = good.clone();
            bad[page * 4096..page * 4096 + 512].fill(0xa5);
            std::fs::write(&path, &bad)?;
            let said = refused(&path);
            assert!(said.contains("damaged"), "page {page}: {said}");
        }
        Ok(())
    }
}
