//! What the rows of a data set are held against beside other stores.

use serde::{Deserialize, Serialize};

/// What is known of the rows themselves, whatever keeps them.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Yardstick {
    /// Information that no store of the rows can leave out.
    Random {
        /// Bytes of it in a row.
        b_row: f64,
        /// What it is, in words.
        what: String,
    },
    /// The table without its indexes, column by column under zlib at level 6.
    ColumnSplit {
        /// Name of the table.
        table: String,
        /// Bytes a row.
        b_row: f64,
        /// What of the rows is left out, in words.
        without: String,
    },
}
