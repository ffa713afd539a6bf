//! Strings kept of some blocks of a leaf, to learn from how those to come are best written.

use super::{
    super::{
        Codec,
        column::string::{Purpose, StrEncoder, Strings, Trained, train},
    },
    columns::Columns,
};

/// Most bytes kept of a column.
const COLUMN_BYTES_MAX: usize = 512 << 10;
/// Least length of rows that a sample is made of.
const SAMPLE_BYTES_MIN: u64 = 8 << 10;

/// Strings of some blocks, by number of column.
#[derive(Debug, Default)]
pub struct Samples {
    columns: Vec<Sampled>,
    /// Length of the rows that they are of.
    row_bytes: u64,
}

#[derive(Clone, Debug, Default)]
struct Sampled {
    is_key: bool,
    bytes: usize,
    blocks: Vec<Strings>,
}

impl Samples {
    /// None yet.
    pub fn new(columns: &Columns) -> Self {
        Self { columns: vec![Sampled::default(); columns.count()], row_bytes: 0 }
    }

    /// Keeps column `number` of a block.
    pub(super) fn keep(&mut self, number: usize, is_key: bool, strings: &Strings) {
        // Keys that do not fit have no model: their number lies beyond.
        let Some(column) = self.columns.get_mut(number) else { return };
        if column.bytes < COLUMN_BYTES_MAX {
            column.is_key = is_key;
            column.bytes += strings.bytes().len();
            column.blocks.push(strings.clone());
        }
    }

    /// How each column that was met is best written under this codec, where a model would serve `rows` rows.
    /// Takes several times what writing the sample takes.
    pub fn train(&self, codec: Codec, rows: usize) -> Vec<(usize, Trained)> {
        let mut encoder = StrEncoder::new();
        let met = self.columns.iter().enumerate().filter(|(_, column)| column.bytes > 0);
        met.map(|(number, column)| {
            let purpose = Purpose { key: column.is_key, codec, model_rows: rows };
            (number, train(&mut encoder, &column.blocks, purpose))
        })
        .collect()
    }

    /// Counts a block of which strings were kept, with this length of rows.
    pub fn count(&mut self, row_bytes: usize) {
        self.row_bytes += row_bytes as u64;
    }

    /// Whether they say anything of a leaf with this length of rows, of which much may have been carried over.
    pub fn are_enough(&self, row_bytes: u64) -> bool {
        let some = self.columns.iter().any(|column| column.bytes > 0);
        some && self.row_bytes >= SAMPLE_BYTES_MIN.max(row_bytes / 32)
    }
}
