//! Dimensions of an experiment: its scale, the durability of commits, and how stores are accessed.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// Scale of a workload. Its parameter `ratio` sets the ratio of data to cache, which is in force
/// from `quick` on; at `tiny` the minimum memory is larger than that ratio gives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Size {
    /// For tests of the lab itself; never in a chart.
    Tiny,
    /// Some 12 s of measured work per cell, up to 40 s where data is ten times the memory.
    Quick,
    /// For 2 cores and some minutes per cell.
    Standard,
    /// The published scale, as far as this machine allows.
    Published,
}

/// When a commit is acknowledged (docs/lab.md, "Sizes, memory, durability").
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Durability {
    /// After a sync: it survives power loss.
    #[value(alias = "sync")]
    Safe,
    /// After a write: it survives the death of the process, and is synced each second.
    #[value(alias = "os")]
    Relaxed,
    /// Before it is written: the log is written and synced each second.
    Lazy,
    /// As in 2011: no sync at commit, and no protection from torn pages where that is an option.
    HistUnsafe,
}

/// How a store is accessed. Results of different faces are never in one chart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Face {
    /// Engines of a MariaDB server.
    Sql,
    /// Stores within the process that uses them.
    Embedded,
}

macro_rules! named {
    ($($kind:ty),*) => {$(
        impl fmt::Display for $kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let value = self.to_possible_value();
                f.write_str(value.as_ref().map_or("", |value| value.get_name()))
            }
        }
    )*};
}
named!(Size, Durability, Face);
