//! The specification of a cell: what to run, and under which conditions. The run sends it to the
//! cell's process.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::machine::IoLimits;
use super::machine::class::{self, Class};
use super::machine::virtual_disk::Kind;
use super::params::Params;
use super::size::{Durability, Face, Size};
use super::sql::foreign_target;
use super::target::SqlTarget;
use super::{embedded, version, workloads};
use crate::targets::Result;

/// What a cell runs, and under which conditions.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CellSpec {
    /// Workload.
    pub workload: String,
    /// Parameter changes (`--set`), as name and value.
    pub changes: Vec<(String, String)>,
    /// How the target is used.
    pub face: Face,
    /// Target: a name, a file, or the URL of a server.
    pub target: String,
    /// Size.
    pub size: Size,
    /// Storage class.
    pub class: String,
    /// Limits of the class that a calibration found; `None` uses those of the class itself.
    pub limits: Option<IoLimits>,
    /// Kind of the private disk that the cell is on; `None` means the host's disk.
    pub disk: Option<Kind>,
    /// Durability.
    pub durability: Durability,
    /// Seed.
    pub seed: u64,
    /// Memory of the target in bytes; by default the size of the data divided by the ratio.
    pub memory: Option<u64>,
    /// An empty directory for this cell alone.
    pub dir: PathBuf,
    /// Whether to wait for background work after writes.
    pub with_rest: bool,
    /// Whether to kill the server once and verify what it recovers.
    #[serde(default)]
    pub with_crash: bool,
    /// Library of another commit to load instead of the installed one: the MariaDB plugin, or the C
    /// library.
    pub plugin: Option<PathBuf>,
}

/// Prefix of targets that are servers the lab did not start.
pub const URL: &str = "mysql://";

/// Splits off the parameter `engine` from the URL of a server. It chooses the engine of the tables,
/// and is no parameter of the connection.
pub fn split_engine(url: &str) -> (String, Option<&str>) {
    let Some((server, parameters)) = url.split_once('?') else { return (url.to_owned(), None) };
    let (engines, others): (Vec<&str>, Vec<&str>) =
        parameters.split('&').partition(|parameter| parameter.starts_with("engine="));
    let engine = engines.first().and_then(|parameter| parameter.strip_prefix("engine="));
    match others.is_empty() {
        true => (server.to_owned(), engine),
        false => (format!("{server}?{}", others.join("&")), engine),
    }
}

/// Text with targets in it, as it is stored and shown: the URLs lose their passwords.
pub fn without_passwords(text: &str) -> String {
    let mut parts = text.split(URL);
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(['/', ',', ' ']).unwrap_or(part.len());
        let (authority, rest) = part.split_at(end);
        // A password that contains such a character makes the URL invalid; it is removed, too.
        let is_cut = !authority.contains('@')
            && authority.split_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_err());
        let (authority, rest) = if is_cut { (part, "") } else { (authority, rest) };
        kept.push_str(URL);
        match authority.rsplit_once('@') {
            Some((user, host)) => {
                kept.push_str(user.split(':').next().unwrap_or_default());
                kept.push('@');
                kept.push_str(host);
            }
            None => kept.push_str(authority),
        }
        kept.push_str(rest);
    }
    kept
}

/// Smallest memory of a target, which is also the minimum of `frond_cache_size`. Below it, a cell
/// would measure nothing but fixed costs.
pub const MEMORY_MIN: u64 = 16 << 20;
/// Disk space that a cell may need: a multiple of the data in plain InnoDB…
const SPACE_FACTOR: u64 = 4;
/// …plus this, for logs, the server's own tables and sorts.
const SPACE_EXTRA_B: u64 = 3 << 30;
/// Less is added at size tiny, whose cells write for seconds only; InnoDB's log takes 1 GiB.
const SPACE_EXTRA_TINY_B: u64 = 3 << 29;

impl CellSpec {
    /// The workload's parameters.
    ///
    /// # Errors
    /// The name is unknown.
    pub fn params(&self) -> Result<Params> {
        let params = match self.face {
            Face::Sql => workloads::find(&self.workload)?.params,
            Face::Embedded => embedded::find(&self.workload)?.params,
        };
        Params::new(&self.workload, params, self.size, &self.changes)
    }

    /// The definition of the target. The server of a URL is asked for it.
    ///
    /// # Errors
    /// The name is unknown, or the file is invalid; the server of a URL cannot be reached, or does
    /// not have the engine.
    pub fn target(&self) -> Result<SqlTarget> {
        if self.target.starts_with(URL) {
            return foreign_target(&self.target);
        }
        let base = version::split(&self.target).map_or(self.target.as_str(), |(base, _)| base);
        let mut target = SqlTarget::find(base)?;
        target.plugin_path.clone_from(&self.plugin);
        Ok(target)
    }

    /// Upper bound on the cell's duration in seconds, roughly: measured work is limited, and the
    /// rest is an allowance that such cells have needed. `None` if the cell has no limit.
    ///
    /// # Errors
    /// A parameter is invalid.
    pub fn seconds(&self) -> Result<Option<u64>> {
        // Start and end of the store, background work, verification, and recovery.
        let further = match self.face {
            Face::Sql => 12 + u64::from(self.with_crash),
            Face::Embedded => 4,
        };
        let limit = self.params()?.number("time_limit")?;
        Ok((limit > 0).then_some(limit + further))
    }

    /// The actual ratio of data to memory, which is lower than the workload's where `--memory` or
    /// the minimum grants more memory than that ratio gives.
    ///
    /// # Errors
    /// A parameter is invalid.
    pub fn effective_ratio(&self) -> Result<f64> {
        let wanted = self.params()?.real("ratio")?;
        Ok(wanted * self.memory_by_ratio()? as f64 / self.memory()?.max(1) as f64)
    }

    /// The storage class with the limits in force.
    ///
    /// # Errors
    /// The name is unknown.
    pub fn storage_class(&self) -> Result<Class> {
        let class = class::find(&self.class)?;
        Ok(self.limits.map_or(class.clone(), |limits| class.with(limits)))
    }

    /// Size of the data in plain InnoDB, bytes.
    ///
    /// # Errors
    /// A parameter is invalid.
    pub fn data_bytes(&self) -> Result<u64> {
        Ok((self.memory_by_ratio()? as f64 * self.params()?.real("ratio")?.max(1e-3)) as u64)
    }

    /// Disk space that the cell may need, bytes.
    ///
    /// # Errors
    /// A parameter is invalid.
    pub fn space_bytes(&self) -> Result<u64> {
        let extra = if self.size == Size::Tiny { SPACE_EXTRA_TINY_B } else { SPACE_EXTRA_B };
        Ok(self.data_bytes()? * SPACE_FACTOR + extra)
    }

    /// Memory that the target is given, bytes.
    ///
    /// # Errors
    /// A parameter is invalid.
    pub fn memory(&self) -> Result<u64> {
        match self.memory {
            Some(memory) => Ok(memory),
            None => Ok(self.memory_by_ratio()?.max(MEMORY_MIN)),
        }
    }

    fn memory_by_ratio(&self) -> Result<u64> {
        let params = self.params()?;
        let bytes = match self.face {
            Face::Sql => {
                let made = (workloads::find(&self.workload)?.make)(&params, self.seed)?;
                (made.innodb_bytes() as f64 / params.real("ratio")?.max(1e-3)) as u64
            }
            Face::Embedded => {
                embedded::memory(embedded::find(&self.workload)?, &params, self.seed)?
            }
        };
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_stored() {
        for (given, kept) in [
            ("mysql://root:secret@db:3306/x", "mysql://root@db:3306/x"),
            ("--targets=mysql://root:s@db/", "--targets=mysql://root@db/"),
            (
                "lab run x --targets frond@ab,mysql://a:s@b@h/l,mysql://c:s@i,frond@cd --seed 1",
                "lab run x --targets frond@ab,mysql://a@h/l,mysql://c@i,frond@cd --seed 1",
            ),
            ("mysql://a:sec/r,et@h/l", "mysql://a@h/l"),
            ("mysql://db:3306/,frond@ab", "mysql://db:3306/,frond@ab"),
            ("innodb", "innodb"),
        ] {
            assert_eq!(without_passwords(given), kept);
        }
    }

    #[test]
    fn the_engine_is_no_parameter_of_the_connection() {
        for (url, server, engine) in [
            ("mysql://root@db/", "mysql://root@db/", None),
            ("mysql://root@db/?engine=Aria", "mysql://root@db/", Some("Aria")),
            ("mysql://r@h?engine=a&socket=s", "mysql://r@h?socket=s", Some("a")),
            ("mysql://r@h/?socket=s&x=engine", "mysql://r@h/?socket=s&x=engine", None),
        ] {
            assert_eq!(split_engine(url), (server.to_owned(), engine));
        }
    }

    #[test]
    fn data_exceeds_memory_by_the_published_factor() {
        let of_sql = workloads::ALL.iter().map(|entry| (entry.name, Face::Sql));
        let embedded = embedded::ALL.iter().map(|entry| (entry.name, Face::Embedded));
        for (name, face) in of_sql.chain(embedded) {
            for size in [Size::Quick, Size::Standard, Size::Published] {
                let spec = CellSpec {
                    limits: None,
                    disk: None,
                    workload: name.to_owned(),
                    changes: Vec::new(),
                    face,
                    target: "frond".to_owned(),
                    size,
                    class: "host".to_owned(),
                    durability: Durability::Safe,
                    seed: 42,
                    memory: None,
                    dir: PathBuf::new(),
                    with_rest: true,
                    with_crash: false,
                    plugin: None,
                };
                let wanted = spec.params().and_then(|params| params.real("ratio"));
                let (wanted, found) = (wanted.expect("a ratio"), spec.effective_ratio());
                let found = found.expect("a ratio");
                // Data that fit in memory still fit if there is more of it.
                let is_right = (found / wanted - 1.0).abs() < 0.02 || wanted < 1.0;
                assert!(is_right, "{face} {name} at {size}: {found} for {wanted}");
            }
        }
    }
}
