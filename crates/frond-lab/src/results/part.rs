//! Size of each part of the rows, in a store that keeps rows by part.

use serde::{Deserialize, Serialize};

/// Size of a column of a table or index, or of what is stored in addition to the columns.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PartSize {
    /// Keyspace: the name of the table or index.
    pub keyspace: String,
    /// Column.
    pub part: String,
    /// Raw bytes per row, as given; 0 for what is not part of a row.
    pub raw_b_row: f64,
    /// Stored bytes per row.
    pub b_row: f64,
    /// The encoding: the most frequent one, and how many others there are.
    pub encoding: String,
}

impl PartSize {
    /// Returns the fraction of the raw bytes that encoding saves; `None` if it saves nothing.
    pub fn saved(&self) -> Option<f64> {
        let saved = 1.0 - self.b_row / self.raw_b_row;
        (self.raw_b_row > 0.0 && saved > 0.0).then_some(saved)
    }
}
