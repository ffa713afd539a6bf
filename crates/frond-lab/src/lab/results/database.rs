//! Opens, creates and checks the database of results.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::error::{Reason, ResultsError};
use crate::targets::Failure;

const SCHEMA: &str = include_str!("schema.sql");
/// PRAGMA user_version of files with this schema.
const VERSION: i64 = 1;
/// PRAGMA application_id of the lab's files: "FLAB".
const APPLICATION: i64 = 0x464c_4142;

/// Result of opening a file.
type Result<T> = std::result::Result<T, ResultsError>;

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
            made.create().map_err(|error| made.error(&error))?;
        }
        made.check()
    }

    /// Opens the file for reading only.
    ///
    /// # Errors
    /// There is no file; or as for [`open`](Self::open).
    pub fn open_to_read(path: &Path) -> Result<Self> {
        let refused = |reason| Err(ResultsError { path: path.to_owned(), reason });
        if path.is_dir() {
            return refused(Reason::Directory);
        }
        if !path.is_file() {
            return refused(Reason::Missing);
        }
        let opened = Self::connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?.check();
        match opened {
            Err(ResultsError { reason: Reason::Sqlite(_), .. }) if has_no_log(path) => {
                Self::open_immutable(path).or(opened)
            }
            opened => opened,
        }
    }

    /// Opens a file whose directory cannot be written: SQLite cannot create the shared memory of
    /// its log there, and needs none if the file cannot change.
    fn open_immutable(path: &Path) -> Result<Self> {
        let name = path.to_string_lossy();
        let name = name.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
        let uri = PathBuf::from(format!("file:{name}?immutable=1"));
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
        let made = Self { path: path.to_owned(), ..Self::connect(&uri, flags)? };
        made.check()
    }

    fn connect(path: &Path, flags: OpenFlags) -> Result<Self> {
        let path = path.to_owned();
        match Connection::open_with_flags(&path, flags) {
            Ok(connection) => Ok(Self { path, connection }),
            Err(error) => Err(ResultsError { path, reason: Reason::Sqlite(error.to_string()) }),
        }
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
        let (application, version) = read().map_err(|error| self.error(&error))?;
        if application != APPLICATION {
            return Err(self.refused(Reason::Foreign));
        }
        if version > VERSION {
            return Err(self.refused(Reason::Newer { found: version, known: VERSION }));
        }
        let check: rusqlite::Result<String> =
            self.connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0));
        match check {
            Ok(text) if text == "ok" => {}
            Ok(text) => return Err(self.refused(Reason::Damaged(text))),
            Err(error) => return Err(self.error(&error)),
        }
        let prepared =
            self.connection.execute_batch("PRAGMA synchronous=FULL; PRAGMA busy_timeout=10000;");
        prepared.map_err(|error| self.error(&error))?;
        Ok(self)
    }

    fn refused(&self, reason: Reason) -> ResultsError {
        ResultsError { path: self.path.clone(), reason }
    }

    /// Classifies an error of SQLite.
    fn error(&self, error: &rusqlite::Error) -> ResultsError {
        use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
        self.refused(match error.sqlite_error_code() {
            Some(DatabaseCorrupt | NotADatabase) => Reason::Damaged(error.to_string()),
            _ => Reason::Sqlite(error.to_string()),
        })
    }

    /// Converts an error of SQLite into a failure that names the file.
    pub fn failure(&self, error: &rusqlite::Error) -> Failure {
        self.error(error).into()
    }
}

/// Whether the file has no log with transactions that are not in it yet.
fn has_no_log(path: &Path) -> bool {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    std::fs::metadata(log).map_or(true, |log| log.len() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(path: &Path) -> Option<Reason> {
        let error = Database::open(path).err()?;
        assert!(error.path == path && error.to_string().starts_with(&path.display().to_string()));
        Some(error.reason)
    }

    #[test]
    fn foreign_files_are_refused_and_unchanged() -> std::io::Result<()> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("r.sqlite");
        assert!(Database::open(&path).is_ok() && Database::open(&path).is_ok());
        let good = std::fs::read(&path)?;

        std::fs::write(&path, "a letter to a friend, long enough to be read")?;
        assert!(matches!(refused(&path), Some(Reason::Damaged(_))), "{:?}", refused(&path));
        assert!(std::fs::read(&path)?.starts_with(b"a letter"));

        std::fs::write(&path, &good)?;
        let newer = Connection::open(&path).and_then(|c| c.execute_batch("PRAGMA user_version=99"));
        assert!(newer.is_ok());
        assert_eq!(refused(&path), Some(Reason::Newer { found: 99, known: VERSION }));

        std::fs::write(&path, &good)?;
        let other =
            Connection::open(&path).and_then(|c| c.execute_batch("PRAGMA application_id=1"));
        assert!(other.is_ok());
        assert_eq!(refused(&path), Some(Reason::Foreign));
        let missing = Database::open_to_read(&dir.path().join("none")).err();
        assert_eq!(missing.map(|error| error.reason), Some(Reason::Missing));

        let directory = Database::open_to_read(dir.path()).err();
        assert_eq!(directory.map(|error| error.reason), Some(Reason::Directory));

        // Overwrite each page after the first, one at a time.
        for page in 1..good.len() / 4096 {
            let mut bad = good.clone();
            bad[page * 4096..page * 4096 + 512].fill(0xa5);
            std::fs::write(&path, &bad)?;
            let said = refused(&path);
            assert!(matches!(said, Some(Reason::Damaged(_))), "page {page}: {said:?}");
        }
        Ok(())
    }

    #[test]
    fn a_file_in_a_read_only_place_is_opened_without_its_log() -> std::io::Result<()> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("50 %? #1.sqlite");
        drop(Database::open(&path).ok());
        assert!(has_no_log(&path));
        let opened = Database::open_immutable(&path).map(|opened| opened.runs());
        assert!(opened.is_ok_and(|runs| runs.is_ok_and(|runs| runs.is_empty())));
        std::fs::write(dir.path().join("50 %? #1.sqlite-wal"), "transactions")?;
        assert!(!has_no_log(&path));
        Ok(())
    }
}
