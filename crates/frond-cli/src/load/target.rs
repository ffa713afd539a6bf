//! The tree to load into, and its indexes.
//!
//! Invariant: the tree is created after its indexes, so that a tree with a header has them all. An
//! interrupted creation leaves an index without its tree; the index is empty, and created again.

use frond::{Batch, Db, Tree, TreeOptions};

use crate::{
    fail::{Fail, Result, error},
    rows::{ColumnKind, Header, IndexHeader, KeyColumn, VERSION, index_name, list},
};

use super::{Args, Input};

/// A tree and its indexes, in the order of the header.
pub struct Target {
    pub tree: Tree,
    pub indexes: Vec<Tree>,
    pub header: Header,
}

impl Target {
    /// Finds the tree, or creates it with the columns that the input has.
    pub fn open(db: &Db, args: &Args, input: &Input) -> Result<Self> {
        match db.open_tree(args.tree()) {
            Ok(tree) => Self::found(db, tree, args),
            Err(frond::Error::NoSuchTree(_)) => Self::create(db, args, input),
            Err(other) => Err(other.into()),
        }
    }

    /// Finds the tree, which must exist.
    pub fn existing(db: &Db, args: &Args) -> Result<Self> {
        Self::found(db, crate::common::open_tree(db, args.tree())?, args)
    }

    fn found(db: &Db, tree: Tree, args: &Args) -> Result<Self> {
        let Some(header) = Header::from_attributes(&tree.info().options.attributes) else {
            return error(format!("tree \"{}\" exists and was not written by `load`", args.tree()));
        };
        for (what, asked, has) in
            [("key", &args.key, &header.key), ("indexes", &args.index, &header.indexes)]
        {
            if !asked.is_empty() && asked != has {
                return error(format!(
                    "tree \"{}\" exists with other {what}: {}",
                    args.tree(),
                    list(has)
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
        Ok(Self { tree, indexes, header })
    }

    /// Adds to a batch that the index entries of the row (`key`, `row`) are deleted.
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
            let name = index_name(args.tree(), column);
            must_be_left_over(db, &name)?;
            indexes.push(db.create_tree(&name, index_options(args, &header, column))?);
        }
        let tree = db.create_tree(args.tree(), tree_options(args, &header))?;
        Ok(Self { tree, indexes, header })
    }
}

/// Makes way for an index: a tree with its name is either left over from an interrupted creation,
/// or an error.
pub fn must_be_left_over(db: &Db, name: &str) -> Result {
    match db.open_tree(name) {
        Err(frond::Error::NoSuchTree(_)) => Ok(()),
        Err(other) => Err(other.into()),
        Ok(left) if left.scan(..)?.next()?.is_none() => Ok(db.drop_tree(name)?),
        Ok(_) => error(format!("tree \"{name}\" exists and is not empty")),
    }
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

/// The options of its index on a column.
pub fn index_options(args: &Args, header: &Header, column: &KeyColumn) -> TreeOptions {
    let about =
        IndexHeader { frond_index: VERSION, of: args.tree().to_owned(), column: column.clone() };
    TreeOptions::new()
        .size_class(args.class)
        .attributes(serde_json::to_vec(&about).expect("a header has a JSON form"))
        .key_layout(header.index_layout(column))
}

/// The header of a new tree for this input.
///
/// # Errors
/// The command names columns that the input does not have.
pub fn new_header(args: &Args, input: &Input) -> Result<Header> {
    let columns = input.names().to_vec();
    for (what, asked) in [("--key", &args.key), ("--index", &args.index)] {
        for (at, column) in asked.iter().enumerate() {
            if !columns.contains(&column.name) {
                let types = match column.name.contains(':') {
                    true => "; types are :int, :float, :time, :text and :desc",
                    false => "",
                };
                return error(format!(
                    "{what}: no column \"{}\"; there are: {}{types}",
                    column.name,
                    columns.join(", ")
                ));
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

/// Tells the user if a key or index column holds integers, but is to be ordered as text.
pub fn note_integers(args: &Args, input: &Input) {
    for column in args.key.iter().chain(&args.index) {
        if column.kind == ColumnKind::Text && input.holds_integers(&column.name) {
            let name = &column.name;
            eprintln!(
                "frond: note: column \"{name}\" holds integers and is ordered as text, so that 10 \
                 comes before 9; {name}:int orders it by number"
            );
        }
    }
}
