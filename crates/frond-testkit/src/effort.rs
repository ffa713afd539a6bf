//! How much a campaign tries: floors for `make test`, more for `make torture`.

/// `FROND_EFFORT`, a factor; 1 if it is not set.
pub fn factor() -> u64 {
    std::env::var("FROND_EFFORT").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// So many seeds, times the factor. They begin at `FROND_SEED`, or at 0: CI derives that from the
/// commit, so that a rerun of a commit gives the same result.
pub fn seeds(count: u64) -> std::ops::Range<u64> {
    let first = std::env::var("FROND_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    first..first + count * factor()
}
