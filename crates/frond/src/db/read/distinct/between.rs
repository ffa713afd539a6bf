//! Estimates of the values between large groups. If a few values have nearly all rows, windows that
//! are spread evenly over the rows contain hardly any other values. But then the large groups are
//! known, and so are the stretches between them.
//!
//! Invariants
//! 1. The number of rows read for a part is bounded: twice [`WALKED_ROWS`], and the rows of the
//!    windows, of which there are at most one more than groups and [`WINDOWS`] together.
//!
//! Threads: all.

use std::ops::Bound;

use crate::{
    Result,
    db::{Cursor, Tree},
    tuple::prefix_end,
};

use super::{Ends, Keys, Sizes, WINDOW_ROWS, WINDOWS};

/// A group is large if it has as many rows as lie between two windows, so that hardly any larger
/// group is missed.
const LARGE: u64 = WINDOWS;
/// Large groups have nearly all rows if the others have less than one in this many: eight windows
/// of the first round.
const REST: u64 = 8;
/// Rows between large groups up to which they are counted rather than sampled.
const WALKED_ROWS: u64 = WINDOWS * WINDOW_ROWS as u64;

/// The key range between two large groups.
struct Stretch {
    from: Option<Vec<u8>>,
    to: Option<Vec<u8>>,
    rows: u64,
}

impl Stretch {
    fn from(&self) -> &[u8] {
        self.from.as_deref().unwrap_or_default()
    }
}

impl Tree {
    /// The number of values of the prefix that ends with this part, if large groups have nearly all
    /// rows.
    pub(super) fn count_between_large(
        &self,
        cursor: &mut Cursor,
        keys: &Keys,
        part: usize,
        (rows, mut sizes): (u64, Sizes),
    ) -> Result<Option<f64>> {
        sizes.retain(|_, size| *size >= rows / LARGE);
        let in_large: u64 = sizes.values().sum();
        if in_large < rows - rows / REST {
            return Ok(None);
        }
        let large = sizes.len();
        let (mut stretches, mut from) = (Vec::with_capacity(large + 1), Some(Vec::new()));
        for (prefix, _) in sizes {
            let next = prefix_end(&prefix);
            stretches.push(self.stretch(from, Some(prefix))?);
            from = next;
            if from.is_none() {
                break;
            }
        }
        if from.is_some() {
            stretches.push(self.stretch(from, None)?);
        }
        // Estimates from nodes work in blocks: many short stretches look longer than they are.
        let in_stretches: u64 = stretches.iter().map(|stretch| stretch.rows).sum();
        let mut rest = in_stretches.min(rows.saturating_sub(in_large));
        if rest <= WALKED_ROWS {
            if let Some(values) = walked(cursor, keys, part, &stretches)? {
                return Ok(Some((large as u64 + values) as f64));
            }
            rest = in_stretches.max(2 * WALKED_ROWS);
        }
        let mut values = 0.0;
        for stretch in &stretches {
            values += self.sampled(cursor, keys, part, (stretch, in_stretches))?;
        }
        Ok(Some(large as f64 + values * rest as f64 / in_stretches.max(1) as f64))
    }

    fn stretch(&self, from: Option<Vec<u8>>, to: Option<Vec<u8>>) -> Result<Stretch> {
        let low = from.as_deref().map_or(Bound::Unbounded, Bound::Included);
        let high = to.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let rows = self.about((low, high))?;
        Ok(Stretch { from, to, rows })
    }

    /// Approximate number of values in a stretch, by windows in proportion to its share of the
    /// remaining rows.
    fn sampled(
        &self,
        cursor: &mut Cursor,
        keys: &Keys,
        part: usize,
        (stretch, rest): (&Stretch, u64),
    ) -> Result<f64> {
        cursor.seek(stretch.from());
        let first = cursor.next()?.map(|(key, _)| key.to_vec());
        match &stretch.to {
            Some(to) => cursor.seek(to),
            None => cursor.seek_last(),
        }
        let last = cursor.prev()?.map(|(key, _)| key.to_vec());
        let (Some(first), Some(last)) = (first, last) else { return Ok(0.0) };
        // Estimates from nodes work in blocks: there may be none of the few rows that they report.
        if first > last {
            return Ok(0.0);
        }
        let below = self.about(..&first[..])? as f64;
        let ends = Ends { first, last };
        let windows = (stretch.rows * WINDOWS).div_ceil(rest.max(1)).max(1);
        let each = stretch.rows as f64 / windows as f64;
        let (mut share, mut sampled, mut sizes) = (0.0, 0, Sizes::new());
        for window in 0..windows {
            let target = below + (window as f64 + 0.5) * each;
            cursor.seek(&self.key_at(&ends, target, each / 8.0)?);
            let cuts = keys.window(cursor, stretch.to.as_deref())?;
            sampled += cuts.len();
            share += self.values_in(cursor, &cuts, part, &mut sizes)?;
        }
        Ok(share / sampled.max(1) as f64 * stretch.rows as f64)
    }
}

/// Counts the values of stretches; `None` if they have many more rows than estimated.
fn walked(
    cursor: &mut Cursor,
    keys: &Keys,
    part: usize,
    stretches: &[Stretch],
) -> Result<Option<u64>> {
    let (mut values, mut rows) = (0, 0);
    for stretch in stretches {
        cursor.seek(stretch.from());
        let mut last: Option<super::Cut> = None;
        while let Some((key, _)) = cursor.next()?
            && stretch.to.as_deref().is_none_or(|to| key < to)
        {
            rows += 1;
            if rows > 2 * WALKED_ROWS {
                return Ok(None);
            }
            let cut = keys.cut(key);
            let is_same = last.is_some_and(|last| last.prefix(part) == cut.prefix(part));
            values += u64::from(!is_same);
            last = Some(cut);
        }
    }
    Ok(Some(values))
}
