//! `frond dump`: prints every entry, in a form that can be compared and that `load` reads.
//!
//! A line starts with the name of a tree. The line that describes a tree comes before its entries
//! and starts with a tab, which no name does; the name and the options, a JSON object, follow. The
//! last line has this form, too, with an empty name and the numbers of trees and entries. A dump
//! without it, or with other numbers, is incomplete.

use std::io::Write;

use frond::{SizeClass, Tree, TreeOptions, layout::Layout};
use serde::{Deserialize, Serialize};

use crate::{
    common::{SnapshotArgs, StoreArgs, class_name, output, parse_class},
    escape::{escape, escape_into, unescape},
    fail::Result,
    rows::Header,
};

/// Print every entry: tree TAB key TAB value
///
/// Trees are sorted by name, entries by key. Before the entries of a tree, a line
/// that starts with a tab has its options; the last line has the numbers of trees
/// and entries. Bytes that are not printable text are escaped (\t, \n, \r, \\,
/// \xNN), so two stores with the same content have the same dump. The trees of a
/// table also have numbers, which depend on the order in which they were created.
/// A tree that is dumped alone is dumped without its indexes: `frond index` makes
/// them again.
#[derive(clap::Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  frond dump shop.db > shop.dump
  frond load copy.db --dump shop.dump
  diff <(frond dump a.db) <(frond dump b.db)"
)]
pub struct Args {
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    snapshot: SnapshotArgs,
    /// Dump only this tree
    tree: Option<String>,
}

/// Runs `frond dump`.
pub fn run(args: Args) -> Result {
    let db = args.store.open()?;
    let view = args.snapshot.view(&db)?;
    let is_whole = args.tree.is_none();
    let names = match args.tree {
        Some(name) => vec![name],
        None => view.names()?,
    };
    let mut out = output();
    let mut line = String::new();
    let mut end = End::default();
    for name in names {
        end.trees += 1;
        let tree = view.tree(&name)?;
        let about = Described::of(&tree, is_whole);
        let about = serde_json::to_string(&about).expect("options have a JSON form");
        writeln!(out, "\t{}\t{about}", escape(name.as_bytes()))?;
        let mut cursor = view.scan(&tree, ..)?;
        while let Some((key, value)) = cursor.next()? {
            line.clear();
            for (at, word) in [name.as_bytes(), key, value].into_iter().enumerate() {
                if at > 0 {
                    line.push('\t');
                }
                escape_into(word, &mut line);
            }
            line.push('\n');
            out.write_all(line.as_bytes())?;
            end.entries += 1;
        }
    }
    writeln!(out, "\t\t{}", serde_json::to_string(&end).expect("numbers have a JSON form"))?;
    Ok(out.flush()?)
}

/// The last line of a dump.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    pub trees: u64,
    pub entries: u64,
}

/// The options of a tree in a dump.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Described {
    class: String,
    unique: bool,
    /// Encoded layouts, and the older ones of values, escaped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key_layout: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value_layout: Option<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    layout_history: String,
    /// Escaped.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    attributes: String,
    /// The number of a tree of a table, whose definition names its trees by number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u32>,
}

impl Described {
    /// The options of a tree. If the tree is dumped alone, it is described without its table, and a
    /// loaded tree without its indexes.
    fn of(tree: &Tree, is_whole: bool) -> Self {
        let (mut options, is_of_table) = (tree.info().options, tree.table().is_some());
        if !is_whole && is_of_table {
            options.attributes.clear();
        } else if !is_whole && let Some(header) = Header::of(tree) {
            options.attributes = Header { indexes: Vec::new(), ..header }.to_attributes();
        }
        let encoded = |layout: &Option<Layout>| {
            layout.as_ref().map(|layout| {
                let mut bytes = Vec::new();
                layout.encode(&mut bytes);
                escape(&bytes)
            })
        };
        Self {
            class: class_name(options.size_class).to_owned(),
            unique: options.unique,
            key_layout: encoded(&options.key_layout),
            value_layout: encoded(&options.value_layout),
            layout_history: escape(&options.layout_history()),
            attributes: escape(&options.attributes),
            number: (is_of_table && is_whole).then_some(tree.id().0),
        }
    }

    /// The options that are described.
    ///
    /// # Errors
    /// One of them is malformed.
    pub fn options(&self) -> Result<TreeOptions, String> {
        let layout = |text: &Option<String>| match text {
            None => Ok(None),
            Some(text) => Layout::decode(&unescape(text)?)
                .map(Some)
                .map_err(|_| "a layout is malformed".to_owned()),
        };
        let size_class: SizeClass = parse_class(&self.class)?;
        let mut options = TreeOptions::new()
            .size_class(size_class)
            .unique(self.unique)
            .attributes(unescape(&self.attributes)?)
            .key_layout(layout(&self.key_layout)?)
            .value_layout(layout(&self.value_layout)?);
        let history = unescape(&self.layout_history)?;
        options
            .set_layout_history(&history)
            .map_err(|_| "the history of a layout is malformed".to_owned())?;
        Ok(options)
    }
}
