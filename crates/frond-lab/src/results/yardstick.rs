//! Sizes that are known of the rows of a data set, to compare the sizes of stores with.

use serde::{Deserialize, Serialize};

/// A size that is known of the rows themselves, independent of any store.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Yardstick {
    /// Information that no store of the rows can leave out.
    Random {
        /// Random bytes per row.
        b_row: f64,
        /// What is random, in words.
        what: String,
    },
    /// The table without its indexes, column by column under zlib at level 6.
    ColumnSplit {
        /// Name of the table.
        table: String,
        /// Bytes per row.
        b_row: f64,
        /// What is left out of the rows, in words.
        without: String,
    },
}
