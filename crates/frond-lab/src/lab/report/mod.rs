//! `lab report`: turns the database of results into a folder of HTML pages, which work from
//! `file://` without a network.
//!
//! ```text
//!  query ─► group (what may be compared) ─► headline, size, statistics ─► matrix, losses
//!    │          ├─► curves, bars, latency ─► figure (chart, sentence, table) ─► workload
//!    │          └─► published, comparable ─► study                                       │
//!    ├────────────► settings ──────────────────────────────────────────► folder (templates, files)
//!    └────────────► chart (one SVG)
//! ```
//!
//! Invariants
//! 1. Every number is computed from the database or taken from published.toml.
//! 2. Without script the pages lack nothing but the charts, and those show the same data.
//! 3. A page loads only files of its folder.

mod bars;
mod chart;
mod comparable;
mod counters;
mod curves;
mod figure;
mod folder;
mod group;
mod headline;
mod index;
mod latency;
mod losses;
mod matrix;
mod natural;
mod number;
mod palette;
mod published;
mod query;
#[cfg(test)]
mod sample;
mod sentence;
mod settings;
mod size;
mod study;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod workload;

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::Args;
use minijinja::context;
use minijinja::value::Serde;

use super::results::Database;
use crate::targets::Result;
use folder::Folder;
use group::Group;
use query::Results;
pub use sentence::count;

/// Options of `lab report`.
#[derive(Args, Debug)]
pub struct Options {
    /// Folder for the pages
    #[arg(long, default_value = "lab-report", value_name = "DIR")]
    pub out: PathBuf,
    /// Runs to show (default: all, with the newest results of each target)
    #[arg(long, value_name = "UID", num_args = 1..)]
    pub run: Vec<String>,
    /// Write one SVG chart instead of the pages: speed against size of a workload
    #[arg(long, value_name = "FILE.svg")]
    pub chart: Option<PathBuf>,
    /// Workload shown by --chart
    #[arg(long, default_value = "iibench", value_name = "NAME", requires = "chart")]
    pub workload: String,
}

/// Writes the pages, or the one chart that the options ask for. Returns the path of the first page,
/// or of the chart.
///
/// # Errors
/// The database cannot be read or has no such run; the folder holds something other than a report,
/// or cannot be written.
pub fn report(database: &Database, options: &Options) -> Result<PathBuf> {
    let results = Results::read(database, &options.run)?;
    if let Some(path) = &options.chart {
        let svg = chart::svg(&results, &Group::all(&results), &options.workload)?;
        folder::write_file(path, &svg)?;
        return Ok(path.clone());
    }
    let groups = named(Group::all(&results));
    let mut folder = Folder::open(&options.out)?;
    let studies = study::all(&results, &groups)?;
    let link = |study: &study::Page| (study.suite.clone(), study.title.clone(), study.file_name());
    let links: Vec<(String, String, String)> = studies.iter().map(link).collect();
    folder.page(
        "index.html",
        "index.html",
        &context! {
            page => Serde(index::page(&results, &groups)), studies => links,
        },
    )?;
    for (group, link) in &groups {
        folder.page(
            "workload.html",
            link,
            &context! {
                page => Serde(workload::page(&results, group)?),
            },
        )?;
    }
    for study in studies {
        let name = study.file_name();
        folder.page("study.html", &name, &context! { page => Serde(study) })?;
    }
    folder.page(
        "settings.html",
        "settings.html",
        &context! {
            page => Serde(settings::page(&results, &groups)),
        },
    )?;
    folder.finish()
}

/// Gives each group a file name of its own for its page.
fn named<'a>(groups: Vec<Group<'a>>) -> Vec<(Group<'a>, String)> {
    let mut taken = BTreeSet::new();
    let name = |group: &Group<'_>| {
        let slug = group.slug();
        let names = std::iter::once(slug.clone()).chain((2..).map(|n| format!("{slug}-{n}")));
        names.into_iter().find(|name| taken.insert(name.clone())).unwrap_or(slug)
    };
    let names: Vec<String> = groups.iter().map(name).collect();
    groups
        .into_iter()
        .zip(names)
        .map(|(group, name)| (group, format!("workload-{name}.html")))
        .collect()
}
