//! SQL targets. Each is an engine of a MariaDB server with its table options, settings and
//! counters, described by a file in `lab/targets/`, which build.rs collects.
//!
//! Invariants
//! 1. Every setting comes with a reason, which the report shows.
//! 2. All targets get the run's memory and durability; a target without a section for that
//!    durability is refused.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::machine::packages;
use super::size::Durability;
use super::sql::process::{PLUGINS, Plugin, built_plugin};
use super::suggest::unknown;
use crate::targets::{Failure, Result};

include!(concat!(env!("OUT_DIR"), "/lab_targets.rs"));

/// A server setting, and the reason for its value.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Setting {
    value: String,
    why: String,
}

/// Memory that any engine may use in addition to its cache, unless its file sets another value: log
/// buffers, dictionaries, allocator overhead.
const OVERHEAD_B: u64 = 128 << 20;

type Settings = BTreeMap<String, Setting>;

/// A plugin file, and the Debian package that contains it (empty for Frond's own plugin).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Packaged {
    file: String,
    package: String,
}

/// The allocator that the server is started with, instead of the C library's.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Allocator {
    /// Path of the library; `*` stands for one component.
    file: String,
    package: String,
    why: String,
}

/// Contents of a target's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    about: String,
    /// Target from which this one inherits everything that it does not set itself; its settings are
    /// added to the inherited ones.
    like: Option<String>,
    engine: Option<String>,
    create: Option<String>,
    files: Option<String>,
    logs: Option<Vec<String>>,
    keeps_rows: Option<bool>,
    plugin: Option<Packaged>,
    /// Further plugins, such as compression providers.
    #[serde(default)]
    providers: Vec<Packaged>,
    allocator: Option<Allocator>,
    settle: Option<Vec<String>>,
    settle_variables: Option<Vec<(String, String)>>,
    bulk_variables: Option<Vec<(String, String)>>,
    zero_when_settled: Option<Vec<String>>,
    counters: Option<Vec<String>>,
    syncs: Option<Vec<String>>,
    overhead_mib: Option<u64>,
    #[serde(default)]
    settings: Settings,
    #[serde(default)]
    durability: BTreeMap<String, Settings>,
}

/// A storage engine of a MariaDB server, with its configuration.
#[derive(Clone, Debug)]
pub struct SqlTarget {
    /// Name of the target on the command line.
    pub name: String,
    /// Description of the target in one sentence.
    pub about: String,
    /// The engine's name in `information_schema.TABLES`.
    pub engine: String,
    /// Clause at the end of CREATE TABLE.
    pub create: String,
    /// Directory of the engine's files, below the data directory.
    pub files: String,
    /// Patterns for the paths of the engine's logs, below the data directory.
    pub logs: Vec<String>,
    /// False for an engine that keeps no rows.
    pub keeps_rows: bool,
    /// Statements that make the engine write out what it still holds in memory.
    pub settle: Vec<String>,
    /// Global variables, with the values that they have while the engine settles, so that it writes
    /// at full speed.
    pub settle_variables: Vec<(String, String)>,
    /// Session variables, with the values that they have during a statement that writes a whole
    /// table (LOAD DATA, ALTER TABLE with a copy). They are set in this order.
    pub bulk_variables: Vec<(String, String)>,
    /// Status variables that are zero when the engine has settled.
    pub zero_when_settled: Vec<String>,
    /// Statements that return names and numbers, sampled during a step.
    pub counters: Vec<String>,
    /// Status variables whose growth is the number of syncs.
    pub syncs: Vec<String>,
    /// Memory that is allowed in addition to the cache in any case, bytes.
    pub overhead_b: u64,
    plugin: Option<Packaged>,
    providers: Vec<Packaged>,
    allocator: Option<Allocator>,
    settings: Settings,
    durability: BTreeMap<String, Settings>,
    /// Plugin of another commit, to load instead of the installed one.
    pub plugin_path: Option<PathBuf>,
}

/// Names of all SQL targets.
pub fn names() -> Vec<&'static str> {
    FILES.iter().map(|(name, _)| *name).collect()
}

fn parse(name: &str, text: &str) -> Result<File> {
    toml::from_str(text).map_err(|error| Failure(format!("target {name}: {error}")))
}

/// The target's own list, or else the inherited one.
fn own_or<T: Clone>(
    own: Option<Vec<T>>,
    base: Option<&SqlTarget>,
    get: fn(&SqlTarget) -> &Vec<T>,
) -> Vec<T> {
    own.or_else(|| base.map(|base| get(base).clone())).unwrap_or_default()
}

impl SqlTarget {
    /// Finds a target by its name, or reads it from a file of the user's.
    ///
    /// # Errors
    /// The name is unknown, or the file has an unknown key.
    pub fn find(name: &str) -> Result<Self> {
        if name.ends_with(".toml") {
            let path = Path::new(name);
            let text = std::fs::read_to_string(path)
                .map_err(|error| Failure(format!("target {name}: {error}")))?;
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            return Self::resolve(&stem, parse(name, &text)?, 0);
        }
        match FILES.iter().find(|(known, _)| *known == name) {
            Some((known, text)) => Self::resolve(known, parse(known, text)?, 0),
            None => Err(unknown("target", name, &names())),
        }
    }

    /// The target of an engine on a server that the lab did not start. It has the statements and
    /// counters of the target that is this engine with its defaults, if there is one, and neither
    /// settings nor a row format.
    ///
    /// # Errors
    /// The file of that target is invalid.
    pub fn of_engine(name: &str, engine: &str) -> Result<Self> {
        let mut files = FILES.iter().map(|(known, text)| parse(known, text));
        let is_of_engine = |file: &Result<File>| {
            file.as_ref().is_ok_and(|file| {
                file.engine.as_deref().is_some_and(|found| found.eq_ignore_ascii_case(engine))
            })
        };
        let file = match files.find(is_of_engine) {
            Some(file) => file?,
            None => parse(name, "about = ''\nfiles = ''\ncounters = ['SHOW GLOBAL STATUS']")?,
        };
        let file = File {
            about: format!("{engine} on a server that the lab did not start"),
            engine: Some(engine.to_owned()),
            create: Some(format!("ENGINE={engine}")),
            plugin: None,
            providers: Vec::new(),
            allocator: None,
            settings: Settings::new(),
            durability: BTreeMap::new(),
            ..file
        };
        Self::resolve(name, file, 0)
    }

    fn resolve(name: &str, file: File, depth: u32) -> Result<Self> {
        let lacks = |what: &str| Failure(format!("target {name}: its file lacks {what}"));
        if depth > 8 {
            return Err(Failure(format!(
                "target {name}: the chain of `like` is circular or too long"
            )));
        }
        let base = match &file.like {
            None => None,
            Some(other) => match FILES.iter().find(|(known, _)| known == other) {
                Some((known, text)) => Some(Self::resolve(known, parse(known, text)?, depth + 1)?),
                None => return Err(unknown("target", other, &names())),
            },
        };
        let of = |own: Option<String>, get: fn(&Self) -> &String, what: &str| {
            own.or_else(|| base.as_ref().map(|base| get(base).clone())).ok_or_else(|| lacks(what))
        };
        let mut settings = base.as_ref().map(|base| base.settings.clone()).unwrap_or_default();
        settings.extend(file.settings);
        let mut durability = base.as_ref().map(|base| base.durability.clone()).unwrap_or_default();
        for (class, own) in file.durability {
            durability.entry(class).or_default().extend(own);
        }
        let mut providers = base.as_ref().map(|base| base.providers.clone()).unwrap_or_default();
        providers.extend(file.providers);
        Ok(Self {
            name: name.to_owned(),
            about: file.about,
            engine: of(file.engine, |base| &base.engine, "`engine`")?,
            create: of(file.create, |base| &base.create, "`create`")?,
            files: of(file.files, |base| &base.files, "`files`")?,
            logs: own_or(file.logs, base.as_ref(), |base| &base.logs),
            keeps_rows: file
                .keeps_rows
                .unwrap_or_else(|| base.as_ref().is_none_or(|base| base.keeps_rows)),
            settle: own_or(file.settle, base.as_ref(), |base| &base.settle),
            settle_variables: own_or(file.settle_variables, base.as_ref(), |base| {
                &base.settle_variables
            }),
            bulk_variables: own_or(file.bulk_variables, base.as_ref(), |base| &base.bulk_variables),
            zero_when_settled: own_or(file.zero_when_settled, base.as_ref(), |base| {
                &base.zero_when_settled
            }),
            counters: own_or(file.counters, base.as_ref(), |base| &base.counters),
            syncs: own_or(file.syncs, base.as_ref(), |base| &base.syncs),
            overhead_b: file.overhead_mib.map_or_else(
                || base.as_ref().map_or(OVERHEAD_B, |base| base.overhead_b),
                |mib| mib.saturating_mul(1 << 20),
            ),
            plugin: file.plugin.or_else(|| base.as_ref().and_then(|base| base.plugin.clone())),
            providers,
            allocator: file.allocator.or_else(|| base.as_ref()?.allocator.clone()),
            settings,
            durability,
            plugin_path: None,
        })
    }

    /// Plugins that the server loads.
    ///
    /// # Errors
    /// A plugin is not installed or not built; the message says what to do.
    pub fn plugins(&self) -> Result<Vec<Plugin>> {
        let mut found = Vec::new();
        for Packaged { file, package } in self.plugin.iter().chain(&self.providers) {
            let own = self.plugin_path.clone().filter(|path| path.ends_with(file));
            let path = match package.is_empty() {
                true => own.or_else(built_plugin),
                false => Some(Path::new(PLUGINS).join(file)).filter(|path| path.is_file()),
            };
            let Some(path) = path else {
                let how = match package.is_empty() {
                    true => "`make mariadb-plugin` builds it".to_owned(),
                    false => format!("`apt-get install {package}`"),
                };
                return Err(Failure(format!("target {}: there is no {file}: {how}", self.name)));
            };
            found.push(Plugin { file: file.clone(), path });
        }
        Ok(found)
    }

    /// The library that replaces the C library's allocator in the server, and why.
    ///
    /// # Errors
    /// It is not installed; the message names its package.
    pub fn allocator(&self) -> Result<Option<(PathBuf, String)>> {
        let Some(Allocator { file, package, why }) = &self.allocator else { return Ok(None) };
        match packages::find(file) {
            Some(path) => Ok(Some((path, why.clone()))),
            None => Err(Failure(format!(
                "target {}: there is no {file}: `{}`",
                self.name,
                packages::apt_get(&[package])
            ))),
        }
    }

    /// Whether the engine is Frond, the only one with versions by commit.
    pub fn is_frond(&self) -> bool {
        self.engine.eq_ignore_ascii_case("FROND")
    }

    /// Options of the server: name, value, and the reason for it.
    ///
    /// # Errors
    /// The target has no settings for this durability, or the value of a setting is not a valid
    /// expression of `memory`.
    pub fn options(
        &self,
        memory: u64,
        durability: Durability,
    ) -> Result<Vec<(String, String, String)>> {
        let name = durability.to_string();
        let Some(of_class) = self.durability.get(&name) else {
            let known: Vec<&str> = self.durability.keys().map(String::as_str).collect();
            return Err(Failure(format!(
                "target {}: it has no settings for durability {name} (it has {})",
                self.name,
                known.join(", ")
            )));
        };
        let mut all = self.settings.clone();
        all.extend(of_class.clone());
        all.into_iter()
            .map(|(name, setting)| {
                let value = with_memory(&setting.value, memory).ok_or_else(|| {
                    Failure(format!("target {}: {name} is `{}`", self.name, setting.value))
                })?;
                Ok((name.replace('_', "-"), value, setting.why))
            })
            .collect()
    }
}

/// Replaces `{memory}` by the memory, and expressions such as `{memory*0.25}` by that part of it.
fn with_memory(text: &str, memory: u64) -> Option<String> {
    let (mut rest, mut out) = (text, String::new());
    while let Some(at) = rest.find("{memory") {
        let (before, after) = rest.split_at(at);
        let (inside, behind) = after.strip_prefix("{memory")?.split_once('}')?;
        let part: f64 = match inside.strip_prefix('*') {
            Some(factor) => factor.parse().ok()?,
            None if inside.is_empty() => 1.0,
            None => return None,
        };
        out.push_str(before);
        out.push_str(&((memory as f64 * part) as u64).to_string());
        rest = behind;
    }
    out.push_str(rest);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_files_are_read_and_each_setting_has_a_reason() {
        assert!(names().len() > 8, "{:?}", names());
        for name in names() {
            let target = SqlTarget::find(name).unwrap_or_else(|failure| panic!("{failure}"));
            for durability in [Durability::Safe, Durability::Relaxed] {
                let options = target.options(1 << 30, durability);
                let options = options.unwrap_or_else(|failure| panic!("{failure}"));
                for (option, value, why) in options {
                    assert!(why.len() > 5, "{name}: {option}={value} has no reason");
                    assert!(
                        !value.contains('{') || value.contains('='),
                        "{name}: {option}={value}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_derived_target_inherits_settings_and_adds_its_own() {
        let file = r#"
            about = "a trial"
            like = "innodb"
            create = "ENGINE=InnoDB ROW_FORMAT=COMPACT"
            [settings]
            innodb_io_capacity = { value = "7", why = "a test" }
        "#;
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("mine.toml");
        std::fs::write(&path, file).expect("written");
        let target = SqlTarget::find(&path.display().to_string()).expect("it is well-formed");
        assert_eq!((target.name.as_str(), target.engine.as_str()), ("mine", "InnoDB"));
        let options = target.options(64 << 20, Durability::Safe).expect("known");
        let value = |name: &str| options.iter().find(|o| o.0 == name).map(|o| o.1.clone());
        assert_eq!(value("innodb-io-capacity").as_deref(), Some("7"));
        assert_eq!(value("innodb-buffer-pool-size").as_deref(), Some("67108864"));
        std::fs::write(&path, "about = 'x'\nlike = 'innodb'\ncolour = 'red'").expect("written");
        assert!(
            SqlTarget::find(&path.display().to_string()).is_err_and(|f| f.0.contains("colour"))
        );
        assert!(SqlTarget::find("inodb").is_err_and(|f| f.0.contains("did you mean innodb")));
    }

    #[test]
    fn an_engine_of_another_server_has_its_statements_but_no_settings() {
        let innodb = SqlTarget::of_engine("mysql://h", "INNODB").expect("it is known");
        assert_eq!((innodb.name.as_str(), innodb.create.as_str()), ("mysql://h", "ENGINE=INNODB"));
        assert!(innodb.settings.is_empty() && innodb.durability.is_empty());
        assert!(innodb.counters.len() > 1 && innodb.keeps_rows);
        let rocks = SqlTarget::of_engine("mysql://h", "ROCKSDB").expect("it is known");
        assert!(rocks.plugins().is_ok_and(|plugins| plugins.is_empty()), "the server has it");
        assert!(!SqlTarget::of_engine("mysql://h", "BLACKHOLE").expect("known").keeps_rows);
        let other = SqlTarget::of_engine("mysql://h", "TempleOS").expect("any engine will do");
        assert_eq!((other.create.as_str(), other.counters.len()), ("ENGINE=TempleOS", 1));
    }

    #[test]
    fn memory_placeholders_are_substituted() {
        assert_eq!(with_memory("{memory}", 100).as_deref(), Some("100"));
        assert_eq!(
            with_memory("a={memory*0.25};b={memory*0.5}", 100).as_deref(),
            Some("a=25;b=50")
        );
        assert_eq!(with_memory("{block=1}", 100).as_deref(), Some("{block=1}"));
        assert_eq!(with_memory("{memory/2}", 100), None);
    }
}
