//! Training samples: strings kept from some blocks of a leaf, to learn how later ones are best
//! encoded.

use super::{
    super::{
        Codec,
        encoding::string::{Purpose, StrEncoder, Strings, Trained, train},
    },
    columns::Columns,
};

/// Most bytes kept of a column.
const COLUMN_BYTES_MAX: usize = 512 << 10;
/// Least total length of the rows that a sample is taken from.
const SAMPLE_BYTES_MIN: u64 = 8 << 10;

/// Strings of some blocks, by number of column.
#[derive(Debug, Default)]
pub struct Samples {
    columns: Vec<Sampled>,
    /// Total length of the rows that were sampled.
    row_bytes: u64,
}

#[derive(Clone, Debug, Default)]
struct Sampled {
    is_key: bool,
    bytes: usize,
    blocks: Vec<Strings>,
}

impl Samples {
    /// Creates empty samples.
    pub fn new(columns: &Columns) -> Self {
        Self { columns: vec![Sampled::default(); columns.count()], row_bytes: 0 }
    }

    /// Keeps column `number` of a block.
    pub(super) fn keep(&mut self, number: usize, is_key: bool, strings: &Strings) {
        // Keys that do not fit have no model: their number is beyond the end.
        let Some(column) = self.columns.get_mut(number) else { return };
        if column.bytes < COLUMN_BYTES_MAX {
            column.is_key = is_key;
            column.bytes += strings.bytes().len();
            column.blocks.push(strings.clone());
        }
    }

    /// Finds the best encoding, under this codec, of each column with samples, assuming that a
    /// model serves `rows` rows. Takes several times as long as encoding the sample.
    pub fn train(&self, codec: Codec, rows: usize) -> Vec<(usize, Trained)> {
        let mut encoder = StrEncoder::new();
        let met = self.columns.iter().enumerate().filter(|(_, column)| column.bytes > 0);
        met.map(|(number, column)| {
            let purpose = Purpose { key: column.is_key, codec, model_rows: rows };
            (number, train(&mut encoder, &column.blocks, purpose))
        })
        .collect()
    }

    /// Counts a sampled block with this length of rows.
    pub fn count(&mut self, row_bytes: usize) {
        self.row_bytes += row_bytes as u64;
    }

    /// True if the samples are representative of a leaf with this length of rows, much of which may
    /// have been carried over.
    pub fn are_enough(&self, row_bytes: u64) -> bool {
        let some = self.columns.iter().any(|column| column.bytes > 0);
        some && self.row_bytes >= SAMPLE_BYTES_MIN.max(row_bytes / 32)
    }
}
