//! Debian packages that experiments need, and whether they are installed.

use std::path::PathBuf;
use std::process::Command;

/// A Debian package.
#[derive(Clone, Copy, Debug)]
pub struct Package {
    /// Name of the package in Debian.
    pub name: &'static str,
    /// A file of the package; `*` stands for one component of the path. If the file exists, the
    /// package or an equivalent is installed.
    pub file: &'static str,
    /// What is impossible without the package, to complete the sentence "Without it, …".
    pub without: &'static str,
}

/// All packages that the lab can use.
pub const PACKAGES: &[Package] = &[
    Package {
        name: "mariadb-server",
        file: "/usr/sbin/mariadbd",
        without: "no SQL target can run: neither FROND nor InnoDB, MyRocks or BLACKHOLE",
    },
    Package {
        name: "mariadb-plugin-rocksdb",
        file: "/usr/lib/mysql/plugin/ha_rocksdb.so",
        without: "the target myrocks is left out",
    },
    Package {
        name: "mariadb-plugin-provider-lz4",
        file: "/usr/lib/mysql/plugin/provider_lz4.so",
        without: "the target innodb-lz4 is left out",
    },
    Package {
        name: "libjemalloc2",
        file: "/usr/lib/*/libjemalloc.so.2",
        without: "the target myrocks is left out",
    },
    Package {
        name: "sysbench",
        file: "/usr/bin/sysbench",
        without: "the lab's sysbench statements are not compared with the original ones",
    },
    Package {
        name: "fio",
        file: "/usr/bin/fio",
        without: "storage classes cannot be measured, so only `host` can be used",
    },
    Package {
        name: "strace",
        file: "/usr/bin/strace",
        without: "syncs are counted by the engine and the control group alone",
    },
    Package {
        name: "chromium",
        file: "/usr/bin/chromium",
        without: "the report's pages are not tested in a browser",
    },
    Package {
        name: "librocksdb-dev",
        file: "/usr/lib/*/librocksdb.so",
        without: "the embedded target rocksdb is left out",
    },
    Package {
        name: "libsqlite3-dev",
        file: "/usr/lib/*/libsqlite3.so",
        without: "the lab cannot be built: its results are a SQLite file",
    },
    Package {
        name: "liblmdb-dev",
        file: "/usr/lib/*/liblmdb.so",
        without: "the embedded target lmdb is left out",
    },
    Package {
        name: "cmake",
        file: "/usr/bin/cmake",
        without: "the embedded target tidesdb cannot be built",
    },
    Package {
        name: "liblz4-dev",
        file: "/usr/lib/*/liblz4.so",
        without: "the embedded target tidesdb cannot be built",
    },
    Package {
        name: "libzstd-dev",
        file: "/usr/lib/*/libzstd.so",
        without: "the embedded target tidesdb cannot be built",
    },
];

impl Package {
    /// Finds a package by name.
    pub fn named(name: &str) -> Option<&'static Self> {
        PACKAGES.iter().find(|package| package.name == name)
    }

    /// The installed version, as far as it is known; `None` if the package is not installed.
    pub fn version(&self) -> Option<String> {
        find(self.file).map(|_| {
            let format = "--showformat=${Version}";
            let output = Command::new("dpkg-query").args(["--show", format, self.name]).output();
            let version = output.ok().filter(|output| output.status.success());
            let version = version.and_then(|output| String::from_utf8(output.stdout).ok());
            version.filter(|v| !v.is_empty()).unwrap_or("of unknown version".to_owned())
        })
    }
}

/// Finds a file; `*` stands for one component of the path.
pub fn find(pattern: &str) -> Option<PathBuf> {
    match pattern.split_once("/*/") {
        None => Some(PathBuf::from(pattern)).filter(|file| file.exists()),
        Some((dir, rest)) => {
            let mut files = std::fs::read_dir(dir).ok()?.flatten().map(|dir| dir.path().join(rest));
            files.find(|file| file.exists())
        }
    }
}

/// The command that installs these packages.
pub fn apt_get(names: &[&str]) -> String {
    format!("apt-get install {}", names.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_found_by_its_file_and_missing_without_it() {
        let of = |file| Package { name: "no-such-package", file, without: "" };
        assert_eq!(of("/proc/*/no-such-file").version(), None);
        assert_eq!(of("/no-such-file").version(), None);
        assert_eq!(of("/proc/self/stat").version(), Some("of unknown version".to_owned()));
        assert!(find("/proc/*/stat").is_some_and(|file| file.ends_with("stat")));
        assert!(Package::named("fio").is_some() && Package::named("nonsense").is_none());
        assert_eq!(apt_get(&["fio", "sysbench"]), "apt-get install fio sysbench");
    }
}
