//! What the parts of rows take in a store that keeps rows by part.

use serde::{Deserialize, Serialize};

/// A column of a table or of one of its indexes, or what stands beside the columns.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PartSize {
    /// Keyspace: the table's name, or an index's.
    pub keyspace: String,
    /// Column.
    pub part: String,
    /// Bytes a row, as they were given; 0 for what no row has.
    pub raw_b_row: f64,
    /// Bytes a row, as they are kept.
    pub b_row: f64,
    /// How they are encoded: the most frequent form, and how many others there are.
    pub encoding: String,
}

impl PartSize {
    /// Which share of its bytes encoding saves; `None` where it saves none.
    pub fn saved(&self) -> Option<f64> {
        let saved = 1.0 - self.b_row / self.raw_b_row;
        (self.raw_b_row > 0.0 && saved > 0.0).then_some(saved)
    }
}
