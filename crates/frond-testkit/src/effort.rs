//! How much a campaign tries: a minimum for `make test`, more for `make torture`.

/// The factor in `FROND_EFFORT`; 1 if it is not set.
pub fn factor() -> u64 {
    std::env::var("FROND_EFFORT").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// A range of seeds: `count` times the factor. They start at `FROND_SEED`, or at 0, so that a rerun
/// gives the same result.
pub fn seeds(count: u64) -> std::ops::Range<u64> {
    let first = std::env::var("FROND_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    first..first + count * factor()
}
