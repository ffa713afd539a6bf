//! Projections: reading only the parts of values that the caller asks for.
//!
//! If the row comes from a columnar block, a part that is not requested costs nothing: its column
//! is neither read nor decompressed. Point reads and scans do this unless something newer must be
//! folded into the value; a scan then reads whole rows of that run up to the end of its chunk.
//! Everywhere else (in memtables, in row blocks) values are read whole and cut here, so that both
//! ways give the same bytes.
//!
//! Threads: immutable.

use crate::{
    Error, Result,
    block::columnar::{ColumnSelection, Columns},
    catalog::TreeEntry,
    db::tree::to_newest_version,
    layout::{LAYOUT_PARTS_MAX, RowVersions},
    run::RowSchema,
    sync::Arc,
};

/// A projection: a set of parts of a tree's values. Made by
/// [`Tree::projection`](crate::Tree::projection) and usable for any number of reads.
#[derive(Clone, Debug)]
pub struct Projection {
    /// Columns of the tree that it was made for.
    columns: Arc<Columns>,
    /// How values are converted to that layout, if they name their version.
    versions: Option<Arc<RowVersions>>,
    /// Whether each part is wanted, by number. Shared with cursors.
    wanted: Arc<[bool]>,
    projection: ColumnSelection,
}

impl Projection {
    /// Selects parts, by number and in any order, of values with this schema.
    pub(in crate::db) fn new(schema: &RowSchema, numbers: &[usize]) -> Result<Self> {
        let columns = schema.columns();
        let mut wanted = vec![false; columns.layouts().1.parts().len()];
        debug_assert!(wanted.len() <= LAYOUT_PARTS_MAX);
        for &number in numbers {
            let Some(wanted) = wanted.get_mut(number) else {
                return Err(Error::InvalidArgument(format!(
                    "part {number} of values that have {}",
                    wanted.len()
                )));
            };
            *wanted = true;
        }
        let asked = |number: &u16| wanted.get(usize::from(*number)) == Some(&true);
        let numbers: Vec<u16> = (0..wanted.len() as u16).filter(asked).collect();
        let projection = columns.project(&numbers);
        let (columns, versions) = (columns.clone(), schema.versions().cloned());
        Ok(Self { columns, versions, wanted: wanted.into(), projection })
    }

    /// Fails if the projection was made for a tree with other layouts.
    pub(in crate::db) fn check(&self, schema: Option<&Arc<RowSchema>>) -> Result<()> {
        let same = |schema: &Arc<RowSchema>| {
            let columns = schema.columns();
            let is_layout = Arc::ptr_eq(columns, &self.columns) || *columns == self.columns;
            // Equal layouts may have different older versions.
            let (theirs, own) = (schema.versions(), self.versions.as_ref());
            is_layout && (theirs.map(Arc::as_ptr) == own.map(Arc::as_ptr) || theirs == own)
        };
        match schema.is_some_and(same) {
            true => Ok(()),
            false => Err(Error::InvalidArgument(
                "this projection was made for a tree with other layouts".into(),
            )),
        }
    }

    /// The projection for columnar blocks.
    pub(in crate::db) fn columns(&self) -> &ColumnSelection {
        &self.projection
    }

    /// Cuts a whole value of the tree down to the selected parts.
    pub(in crate::db) fn keep(&self, entry: Option<&TreeEntry>, value: &mut Vec<u8>) -> Result<()> {
        if let (Some(versions), Some(entry)) = (&self.versions, entry) {
            to_newest_version(versions, entry, value)?;
        }
        let mut ends = Vec::with_capacity(self.wanted.len());
        if !self.columns.layouts().1.split(value, &mut ends) {
            return Err(Error::InvalidArgument(
                "a value that does not fit the layout of its tree has no parts; read it whole"
                    .into(),
            ));
        }
        let (mut start, mut kept) = (0, 0);
        for (&end, &wanted) in ends.iter().zip(&*self.wanted) {
            if wanted {
                value.copy_within(start..end, kept);
                kept += end - start;
            }
            start = end;
        }
        value.truncate(kept);
        Ok(())
    }
}
