//! Helpers shared by the generators' tests.

use std::io::Write;

use super::Source;
use crate::schema::EncodedRow;

/// Returns the first rows of a source, each as key and value, concatenated.
pub fn packed<S: Source>(mut source: S, rows: usize) -> Vec<u8> {
    let (mut out, mut record) = (Vec::new(), S::Record::default());
    let (table, mut encoded) = (S::table(), EncodedRow::default());
    for _ in 0..rows {
        assert!(source.next(&mut record), "the source has fewer rows");
        encoded.encode(&table, source.columns(&record).as_ref());
        out.extend_from_slice(&encoded.key);
        out.extend_from_slice(&encoded.value);
    }
    out
}

/// Returns the compression ratio of zlib at level 6 on blocks of this size.
pub fn zlib_ratio(bytes: &[u8], block: usize) -> f64 {
    let compressed = |block: &[u8]| {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::new(6));
        encoder.write_all(block).and_then(|()| encoder.finish()).map_or(0, |out| out.len())
    };
    bytes.len() as f64 / bytes.chunks(block).map(compressed).sum::<usize>() as f64
}
