//! Verifying a run's extent as bytes, for callers that copy runs and read no entry.

use super::footer::{BlobUse, Footer};
use crate::{
    error::{Error, Result},
    page::{Link, PageKind, StoreFile},
};

/// Checks every byte of the run in `extent` against its link: the footer by its hash, the blocks by
/// the CRCs in it; none is decoded. Returns the blobs that the run lists. Errors name `file`.
pub fn verify_extent(file: &StoreFile, link: &Link, extent: &[u8]) -> Result<Vec<BlobUse>> {
    const WHAT: &str = "a run";
    let malformed = |why| file.malformed(link.offset, link.bytes.into(), WHAT, why);
    let parts = link.bytes.checked_sub(link.footer_bytes);
    let parts = parts.and_then(|data| extent.split_at_checked(data as usize));
    let (data, footer) = parts.ok_or_else(|| malformed("its link has impossible lengths"))?;
    file.verify(link, PageKind::Run, WHAT, footer)?;
    let footer = Footer::from_disk(&link.identity(file.store, PageKind::Run), footer)
        .map_err(|flaw| file.flawed(link.offset, link.bytes.into(), WHAT, flaw))?;
    if footer.data_bytes as usize != data.len() {
        return Err(malformed("its data is not as long as its link says"));
    }
    for entry in footer.index.entries() {
        let (start, bytes) = (entry.offset as usize, entry.encoded_bytes as usize);
        let block = data.get(start..start + bytes).unwrap_or_default();
        let computed = crc32c::crc32c(block);
        if computed != entry.crc {
            return Err(Error::Checksum {
                place: file.place(link.offset + u64::from(entry.offset), bytes as u64),
                what: "a block",
                stored: entry.crc.into(),
                computed: computed.into(),
            });
        }
    }
    Ok(footer.blobs)
}
