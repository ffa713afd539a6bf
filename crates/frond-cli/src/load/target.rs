//! The tree to load into, and its indexes.
//!
//! Invariant: the tree is created after its indexes, so that a tree with a header has them all. An
//! interrupted creation leaves an index without its tree; that index is empty and is created again.
//! An empty tree with another definition is also dropped and created again.

use frond::{Batch, Db, SizeClass, Tree, TreeOptions};

use crate::{
    fail::{Fail, Result, error, to_stderr},
    rows::{ColumnKind, Header, IndexHeader, KeyColumn, VERSION, index_name, list, no_column},
};

use super::{Args, Input};

/// A tree and its indexes, in the order of the header.
pub struct Target {
    pub tree: Tree,
    pub indexes: Vec<Tree>,
    pub header: Header,
    /// True if this call created the tree.
    pub is_new: bool,
}

impl Target {
    /// Finds the tree, or creates it with the columns that the input has.
    pub fn open(db: &Db, args: &Args, input: &Input) -> Result<Self> {
        match db.open_tree(args.tree()) {
            Ok(tree) => match Self::found(db, tree.clone(), args) {
                Err(_) if Header::of(&tree).is_some() && is_empty(&tree)? => {
                    drop_with_indexes(db, &tree)?;
                    Self::create(db, args, input)
                }
                found => found,
            },
            Err(frond::Error::NoSuchTree(_)) => Self::create(db, args, input),
            Err(other) => Err(other.into()),
        }
    }

    /// Drops the tree if this call created it and it has no rows.
    pub fn discard(self, db: &Db) -> frond::Result<()> {
        match self.is_new && is_empty(&self.tree)? {
            true => drop_with_indexes(db, &self.tree),
            false => Ok(()),
        }
    }

    /// Finds the tree, which must exist.
    pub fn existing(db: &Db, args: &Args) -> Result<Self> {
        Self::found(db, crate::common::open_tree(db, args.tree())?, args)
    }

    fn found(db: &Db, tree: Tree, args: &Args) -> Result<Self> {
        let (name, dir) = (args.tree(), args.store.dir.display());
        let Some(header) = Header::of(&tree) else {
            return error(format!("tree \"{name}\" exists and was not created by `frond load`"));
        };
        for (what, option, asked, has, ways) in [
            ("a different key", "--key", &args.key, &header.key, ""),
            (
                "different indexes",
                "--index",
                &args.index,
                &header.indexes,
                " (`frond index` adds indexes)",
            ),
        ] {
            if !asked.is_empty() && asked != has {
                let (has, asked) = (list(has), list(asked));
                return error(format!(
                    "tree \"{name}\" exists with {what}: {has}, not {asked}; omit {option} to add \
                     rows to it{ways}, or drop it with `frond drop {dir} {name}`"
                ));
            }
        }
        Self::of(db, tree, header)
    }

    /// The target of a tree with this header.
    pub fn of(db: &Db, tree: Tree, header: Header) -> Result<Self> {
        let name = tree.name();
        let indexes = header.indexes.iter().map(|column| db.open_tree(&index_name(&name, column)));
        let indexes = indexes.collect::<frond::Result<_>>()?;
        Ok(Self { tree, indexes, header, is_new: false })
    }

    /// Adds the deletion of the index entries of the row (`key`, `row`) to a batch.
    pub fn delete_entries(&self, key: &[u8], row: &[u8], batch: &mut Batch) -> Result {
        let index_keys = self.header.index_keys(key, row).map_err(Fail::Error)?;
        for (index, index_key) in self.indexes.iter().zip(index_keys) {
            batch.delete(index, &index_key)?;
        }
        Ok(())
    }

    fn create(db: &Db, args: &Args, input: &Input) -> Result<Self> {
        let header = new_header(args, input)?;
        note_integers(args, input);
        let mut indexes = Vec::with_capacity(header.indexes.len());
        for column in &header.indexes {
            let name = drop_left_over_index(db, args.tree(), column)?;
            indexes.push(
                db.create_tree(&name, index_options(args.class, args.tree(), &header, column))?,
            );
        }
        let tree = db.create_tree(args.tree(), tree_options(args, &header))?;
        Ok(Self { tree, indexes, header, is_new: true })
    }
}

fn is_empty(tree: &Tree) -> frond::Result<bool> {
    Ok(tree.scan(..)?.next()?.is_none())
}

/// Drops a tree that `load` created, and its indexes.
fn drop_with_indexes(db: &Db, tree: &Tree) -> frond::Result<()> {
    let (name, mut change) = (tree.name(), db.change_trees());
    change.drop_tree(name.as_str());
    if let Some(header) = Header::of(tree) {
        for index in standing_indexes(db, &name, &header)? {
            change.drop_tree(index.as_str());
        }
    }
    change.commit()?;
    Ok(())
}

/// The names of the indexes of a tree with this header, without those whose trees are missing.
pub fn standing_indexes(db: &Db, tree: &str, header: &Header) -> frond::Result<Vec<String>> {
    let mut standing = Vec::new();
    for column in &header.indexes {
        let name = index_name(tree, column);
        match db.open_tree(&name) {
            Ok(_) => standing.push(name),
            Err(frond::Error::NoSuchTree(_)) => {}
            Err(other) => return Err(other),
        }
    }
    Ok(standing)
}

/// Drops the index of tree `of` on this column if it is left over from an interrupted creation, and
/// returns the name it is to have.
///
/// # Errors
/// A tree with that name exists and is no index of `of`.
pub fn drop_left_over_index(db: &Db, of: &str, column: &KeyColumn) -> Result<String> {
    let name = index_name(of, column);
    let left = match db.open_tree(&name) {
        Err(frond::Error::NoSuchTree(_)) => return Ok(name),
        left => left?,
    };
    match serde_json::from_slice::<IndexHeader>(&left.info().options.attributes) {
        Ok(about) if about.of == of => db.drop_tree(&name)?,
        _ => return error(format!("tree \"{name}\" exists and is not an index of \"{of}\"")),
    }
    Ok(name)
}

/// The options of the tree with this header.
pub fn tree_options(args: &Args, header: &Header) -> TreeOptions {
    TreeOptions::new()
        .size_class(args.class)
        // Keys that the input chooses are checked; numbers are always new.
        .unique(!header.key.is_empty())
        .attributes(header.to_attributes())
        .key_layout(header.key_layout())
        .value_layout(header.row_layout())
}

/// The options of the index of tree `of` on a column.
pub fn index_options(
    class: SizeClass,
    of: &str,
    header: &Header,
    column: &KeyColumn,
) -> TreeOptions {
    let about = IndexHeader { frond_index: VERSION, of: of.to_owned(), column: column.clone() };
    TreeOptions::new()
        .size_class(class)
        .attributes(serde_json::to_vec(&about).expect("a header has a JSON form"))
        .key_layout(header.index_layout(column))
}

/// The header of a new tree for this input.
///
/// # Errors
/// The command names columns that the input does not have.
pub fn new_header(args: &Args, input: &Input) -> Result<Header> {
    let columns = input.names().to_vec();
    if columns.is_empty() {
        return error("the input has no columns");
    }
    for (what, asked) in [("--key", &args.key), ("--index", &args.index)] {
        for (at, column) in asked.iter().enumerate() {
            if !columns.contains(&column.name) {
                return error(format!("{what}: {}", no_column(&column.name, &columns)));
            }
            if asked.iter().take(at).any(|other| other.name == column.name) {
                return error(format!("{what} names column \"{}\" twice", column.name));
            }
        }
    }
    Ok(Header {
        frond_rows: VERSION,
        columns,
        key: args.key.clone(),
        indexes: args.index.clone(),
        more: input.may_have_more(),
    })
}

/// Prints a note if a key or index column contains integers but is to be sorted as text.
pub fn note_integers(args: &Args, input: &Input) {
    for column in args.key.iter().chain(&args.index) {
        if column.kind == ColumnKind::Text && input.holds_integers(&column.name) {
            let name = &column.name;
            to_stderr(&format!(
                "note: column \"{name}\" contains integers but sorts as text, so 10 comes before 9; \
                 use {name}:int to sort it as numbers"
            ));
        }
    }
}
