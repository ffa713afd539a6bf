//! Unpacking: a columnar block as a cache with free space keeps it, with the same rows, but no
//! column under a general codec.
//!
//! Encodings can be read row by row, and cost nothing to keep; a codec makes each reader of a
//! string decode those of the whole block, some microseconds each time. So a block that is read
//! from the device anyway is unpacked once while there is memory for it; without free memory, a
//! small block is worth more than a fast one (docs/design/028-roomy-caches-unpack.md).
//!
//! Invariants
//! 1. The unpacked block is read with the same columns and models, and has the same rows.
//! 2. It is made only from a block that [`check`](super::check) has passed, and never written.

use super::{
    super::{BadBlock, Chunks, encoding::PAD_BYTES, encoding::string::Strs},
    builder::join,
    columns::Holds,
    frame::ColumnarBlock,
    reference,
};

/// Writes the block without codecs to `out`; false if no column uses one. What was decoded of it
/// before is not decoded again.
pub fn unpack(
    columnar: &ColumnarBlock<'_>,
    chunks: &mut Chunks,
    out: &mut Vec<u8>,
) -> Result<bool, BadBlock> {
    let (mut body, mut ends) = (Vec::new(), Vec::with_capacity(columnar.column_count()));
    let mut any = false;
    for at in 0..columnar.column_count() {
        let padded = columnar.bytes(at)?;
        let bytes = &padded[..padded.len() - PAD_BYTES];
        // The strings start after the head that says which columns they refer to.
        let head = match columnar.column(at) {
            Some(column) if matches!(column.holds, Holds::Word(..)) => None,
            Some(_) if columnar.value_at(0).is_some_and(|first| at >= first) => {
                Some(reference::head_of(bytes))
            }
            Some(_) => Some(0),
            None => (Some(at) == columnar.others_at()).then_some(0),
        };
        let coded = head.filter(|&head| bytes.get(head..).is_some_and(Strs::is_coded));
        match coded {
            None => body.extend_from_slice(bytes),
            Some(head) => {
                any = true;
                body.extend_from_slice(&bytes[..head]);
                let bytes_max = columnar.bytes_max(1) * if head > 0 { 2 } else { 1 };
                let chunk = chunks.of(at);
                let meter = columnar.meter().filter(|_| chunk.is_empty());
                let begun = meter.map(|meter| (meter, meter.begin()));
                let (bytes, rows) = (&padded[head..], columnar.rows());
                let decoded = Strs::unpack(bytes, rows, bytes_max, chunk, &mut body)?;
                if let Some((meter, begun)) = begun {
                    meter.end(begun, decoded);
                }
            }
        }
        ends.push(body.len());
    }
    if any {
        join(columnar.flags(), columnar.rows(), columnar.raw_bytes(), (&body, &ends), out);
    }
    Ok(any)
}
