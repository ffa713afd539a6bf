//! Extents that log records name.

use crate::{
    Result,
    store::{Extent, Store},
    wal::LogExtent,
};

/// The extent that a log record names.
///
/// # Errors
/// `Corruption` if it is longer than an extent can be.
pub(in crate::db) fn extent_of(
    store: &Store,
    LogExtent { offset, bytes }: LogExtent,
) -> Result<Extent> {
    let bytes_max = u32::try_from(bytes);
    let bytes = bytes_max.map_err(|_| {
        let why = "the log names an extent longer than any extent can be";
        store.file().malformed(offset, bytes, "the log", why)
    })?;
    Ok(Extent { offset, bytes })
}
