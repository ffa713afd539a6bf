//! Estimates of how many distinct values the key prefixes of a tree have: the cardinality of an
//! index, for a query optimizer (Rule: I51).
//!
//! Nothing is maintained for it: a bounded number of rows is sampled on request (design note 034
//! says why).
//!
//! 1. A small tree is scanned and counted.
//! 2. A prefix with few values is counted: a scan seeks from each value to the next, at most
//!    [`LEAPS`] times.
//! 3. Otherwise the tree is sampled: the rows of some *windows* represent all rows. The rows with
//!    one value are a *group*. A row of a group of `g` rows counts as 1/`g` of a value; the mean of
//!    these fractions times the number of rows is the number of values, however uneven the groups
//!    are. A group that lies completely in its window is counted there. A group that the window
//!    cuts is scanned if it is not large; otherwise its size is estimated from the nodes
//!    ([`Tree::estimate`]).
//! 4. If a few large groups have most rows, few windows fall between those groups, although most
//!    values may lie there. The rows between them are then counted, or sampled again by themselves
//!    (`db/read/distinct/between.rs`).
//!
//! Windows start where estimates put equal numbers of rows between them.
//!
//! Invariants
//! 1. No number is 0, and none is smaller than that of a shorter prefix.
//! 2. The number of rows read is bounded however large the tree is: twice [`SMALL_ROWS`],
//!    [`WINDOWS`] of [`WINDOW_ROWS`], and for each part [`LEAPS`] scan chunks, two of
//!    [`GROUP_ROWS`] per window, and what `between.rs` says.
//!
//! Threads: all.

use std::collections::BTreeMap;

use crate::{
    KeyRange, Result,
    block::common_prefix,
    db::{Cursor, Tree},
    layout::Layout,
    tree::Look,
    tuple::prefix_end,
};

mod between;

/// A tree of up to about this many rows is scanned completely.
const SMALL_ROWS: u64 = 4096;
/// Most values of a prefix that are counted one by one.
const LEAPS: u64 = 64;
/// Number of samples: if one row in twenty has a value of its own, three samples lie there.
const WINDOWS: u64 = 64;
/// Rows of a sample: a few blocks.
const WINDOW_ROWS: usize = 256;
/// Rows up to which a group that is cut by its window is counted. Larger groups are estimated:
/// estimates work in whole blocks, and a block may have this many rows.
const GROUP_ROWS: u64 = 1024;
/// Steps to find the start of a window. Each halves the remaining key range. Rows are not spread as
/// keys are, so the last step may end far from the target; this only makes windows uneven.
const STEPS: usize = 48;

impl Tree {
    /// Estimates how many distinct values the first part of the keys has, the first two parts, and
    /// so on to all of them: one number for each part of the keys' layout, or one number if keys
    /// have no layout. A key that does not fit the layout counts with the leading parts that do
    /// fit, and as a value of its own from there on. No number is 0, even for an empty tree. The
    /// row count divided by one of these numbers is how many rows an index look-up with that prefix
    /// finds on average.
    ///
    /// Numbers up to 64, and those of trees of a few thousand rows, are exact if nothing is written
    /// meanwhile. Larger ones are estimates: within a factor of two if all values have about
    /// equally many rows, and of three if not. Reads a bounded number of rows, some tens of
    /// thousands: this takes milliseconds, plus the reads of up to a few hundred blocks that are
    /// not in the cache.
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// use frond::{layout::{Hint, Layout, Part}, TreeOptions};
    ///
    /// let city_and_id = Layout::new(vec![Part::Fixed(2, Hint::None), Part::Fixed(4, Hint::None)]);
    /// let options = TreeOptions::new().key_layout(city_and_id);
    /// let by_city = db.create_tree("by city", options)?;
    /// for id in 0..100u32 {
    ///     let city: &[u8; 2] = if id % 4 == 0 { b"ah" } else { b"bo" };
    ///     by_city.put(&[city, &id.to_be_bytes()[..]].concat(), b"")?;
    /// }
    /// assert_eq!(by_city.distinct_prefixes()?, [2, 100]);
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// `NoSuchTree` if the tree was dropped; I/O errors and damage of what had to be read.
    pub fn distinct_prefixes(&self) -> Result<Vec<u64>> {
        self.entry.check()?;
        self.shared.engine.health.check()?;
        let layout = self.entry.record().key_layout;
        let parts = layout.as_ref().map_or(1, |layout| layout.parts().len()).max(1);
        let keys = Keys { layout, parts };
        let rows = self.about(..)?;
        if rows <= 2 * SMALL_ROWS
            && let Some(counts) = self.counted_prefixes(&keys)?
        {
            return Ok(counts);
        }
        let rows = rows.max(SMALL_ROWS);
        let mut counts = Vec::with_capacity(parts);
        // A whole key has one row.
        while counts.len() + 1 < parts {
            match self.leap(&keys, counts.len())? {
                Some(count) => counts.push(count.max(1)),
                None => break,
            }
        }
        let leapt = counts.len();
        if leapt + 1 < parts {
            counts.extend(self.sampled_prefixes(&keys, leapt, rows)?);
        }
        counts.push(rows);
        let mut least = 1;
        for (part, count) in counts.iter_mut().enumerate() {
            // A prefix that was not counted has more values than [`LEAPS`].
            least = if part == leapt && part + 1 < parts { least.max(LEAPS + 1) } else { least };
            *count = (*count).clamp(least, rows.max(least));
            least = *count;
        }
        Ok(counts)
    }

    /// Approximate number of rows, from nodes that are read if they are not in memory.
    fn about(&self, range: impl KeyRange) -> Result<u64> {
        Ok(self.estimate_by(range, Look::Reading)?.rows)
    }

    /// Counts the prefixes, if the tree is small.
    fn counted_prefixes(&self, keys: &Keys) -> Result<Option<Vec<u64>>> {
        let mut counts = vec![0; keys.parts];
        let mut cursor = self.scan(..)?;
        let (mut last, mut rows) = (None, 0);
        while let Some((key, _)) = cursor.next()? {
            if rows == 2 * SMALL_ROWS {
                return Ok(None);
            }
            rows += 1;
            let cut = keys.cut(key);
            let same = last.as_ref().map_or(0, |last| keys.shared(&cut, last));
            counts.iter_mut().skip(same).for_each(|count| *count += 1);
            last = Some(cut);
        }
        counts.iter_mut().for_each(|count| *count = (*count).max(1));
        Ok(Some(counts))
    }

    /// The number of values of the prefix that ends with this part, if there are few.
    fn leap(&self, keys: &Keys, part: usize) -> Result<Option<u64>> {
        let mut cursor = self.scan(..)?;
        let mut values = 0;
        while let Some((key, _)) = cursor.next()? {
            values += 1;
            if values > LEAPS {
                return Ok(None);
            }
            let cut = keys.cut(key);
            // The next row has the next value if this one is a whole key.
            if !cut.is_whole(part) {
                match prefix_end(cut.prefix(part)) {
                    Some(next) => cursor.seek(&next),
                    None => break,
                }
            }
        }
        Ok(Some(values))
    }

    /// Estimates for the prefixes from this part on, without whole keys.
    fn sampled_prefixes(&self, keys: &Keys, from: usize, rows: u64) -> Result<Vec<u64>> {
        let mut cursor = self.scan(..)?;
        let Some(ends) = Ends::of(&mut cursor)? else { return Ok(Vec::new()) };
        let mut shares = vec![0.0; keys.parts - 1 - from];
        let mut sampled = 0;
        // Several windows may cut the same large group.
        let mut sizes = vec![Sizes::new(); shares.len()];
        // Windows need not start exactly at the target row.
        let near = rows as f64 / (8 * WINDOWS) as f64;
        for window in 0..WINDOWS {
            let target = (window as f64 + 0.5) / WINDOWS as f64 * rows as f64;
            cursor.seek(&self.key_at(&ends, target, near)?);
            let cuts = keys.window(&mut cursor, None)?;
            sampled += cuts.len();
            for (part, (share, sizes)) in (from..).zip(shares.iter_mut().zip(&mut sizes)) {
                *share += self.values_in(&mut cursor, &cuts, part, sizes)?;
            }
        }
        let mut counts = Vec::with_capacity(shares.len());
        for (part, (share, sizes)) in (from..).zip(shares.into_iter().zip(sizes)) {
            let count = match self.count_between_large(&mut cursor, keys, part, (rows, sizes))? {
                Some(count) => count,
                None => share / sampled.max(1) as f64 * rows as f64,
            };
            counts.push(count.round() as u64);
        }
        Ok(counts)
    }

    /// Number of values of a prefix for which the rows of a window count, with fractions for groups
    /// that the window cuts.
    fn values_in(
        &self,
        cursor: &mut Cursor,
        cuts: &[Cut],
        part: usize,
        sizes: &mut Sizes,
    ) -> Result<f64> {
        let mut values = 0.0;
        let groups = cuts.chunk_by(|a, b| a.prefix(part) == b.prefix(part));
        let last = groups.clone().count().saturating_sub(1);
        for (number, group) in groups.enumerate() {
            let Some(cut) = group.first() else { continue };
            if number != 0 && number != last || cut.is_whole(part) {
                values += 1.0;
                continue;
            }
            let prefix = cut.prefix(part);
            let size = match sizes.get(prefix) {
                Some(size) => *size,
                None => {
                    let size = self.group_rows(cursor, prefix)?;
                    sizes.insert(prefix.to_vec(), size);
                    size
                }
            };
            values += group.len() as f64 / size.max(group.len() as u64) as f64;
        }
        Ok(values)
    }

    /// Number of rows with a prefix: counted, or estimated if there are more than [`GROUP_ROWS`].
    fn group_rows(&self, cursor: &mut Cursor, prefix: &[u8]) -> Result<u64> {
        let to = prefix_end(prefix);
        let about = match &to {
            Some(to) => self.about(prefix..&to[..])?,
            None => self.about(prefix..)?,
        };
        let mut rows = GROUP_ROWS;
        if about <= 4 * GROUP_ROWS {
            cursor.seek(prefix);
            rows = 0;
            while rows < GROUP_ROWS
                && cursor.next()?.is_some_and(|(key, _)| key.starts_with(prefix))
            {
                rows += 1;
            }
        }
        Ok(if rows < GROUP_ROWS { rows } else { rows.max(about) })
    }

    /// A key between two that has about `target` rows below it, within `near`.
    fn key_at(&self, ends: &Ends, target: f64, near: f64) -> Result<Vec<u8>> {
        let (mut low, mut high) = (ends.first.clone(), ends.last.clone());
        for _ in 0..STEPS {
            let Some(middle) = between(&low, &high) else { break };
            let below = self.about(..&middle[..])? as f64;
            if (below - target).abs() <= near {
                return Ok(middle);
            }
            if below < target { low = middle } else { high = middle }
        }
        Ok(low)
    }
}

/// Sizes of groups that windows have cut, by prefix.
type Sizes = BTreeMap<Vec<u8>, u64>;

/// How keys are split into parts.
struct Keys {
    layout: Option<Layout>,
    parts: usize,
}

/// A key, and the ends of its parts but the last. From the first part on that it does not have, its
/// prefix is the whole key.
struct Cut {
    key: Vec<u8>,
    ends: Vec<usize>,
}

impl Keys {
    /// Splits a key. A key that does not fit the layout has those leading parts that do fit:
    /// exactly the keys that start with the same parts share them. A whole key that ends within a
    /// part may be the start of other keys, which do not have its value.
    fn cut(&self, key: &[u8]) -> Cut {
        let mut ends = Vec::with_capacity(self.parts);
        self.layout.iter().for_each(|layout| layout.split_leading(key, &mut ends));
        ends.truncate(self.parts - 1);
        Cut { key: key.to_vec(), ends }
    }

    /// Number of leading parts that two keys share.
    fn shared(&self, one: &Cut, other: &Cut) -> usize {
        (0..self.parts).take_while(|&part| one.prefix(part) == other.prefix(part)).count()
    }

    /// The next rows, not beyond `to`.
    fn window(&self, cursor: &mut Cursor, to: Option<&[u8]>) -> Result<Vec<Cut>> {
        let mut cuts = Vec::with_capacity(WINDOW_ROWS);
        while cuts.len() < WINDOW_ROWS
            && let Some((key, _)) = cursor.next()?
            && to.is_none_or(|to| key < to)
        {
            cuts.push(self.cut(key));
        }
        Ok(cuts)
    }
}

impl Cut {
    /// The parts up to and including this one.
    fn prefix(&self, part: usize) -> &[u8] {
        let end = self.ends.get(part).copied().unwrap_or(self.key.len());
        self.key.get(..end).unwrap_or(&self.key)
    }

    /// True if no other key has this prefix.
    fn is_whole(&self, part: usize) -> bool {
        part >= self.ends.len()
    }
}

/// The first key and the last.
struct Ends {
    first: Vec<u8>,
    last: Vec<u8>,
}

impl Ends {
    /// `None` if there is no key.
    fn of(cursor: &mut Cursor) -> Result<Option<Self>> {
        cursor.seek_last();
        let Some(last) = cursor.prev()?.map(|(key, _)| key.to_vec()) else { return Ok(None) };
        cursor.seek_first();
        let first = cursor.next()?.map(|(key, _)| key.to_vec());
        Ok(first.map(|first| Self { first, last }))
    }
}

/// A key about halfway between two; `None` if there is no short one.
fn between(low: &[u8], high: &[u8]) -> Option<Vec<u8>> {
    let shared = common_prefix(low, high);
    // The eight bytes after the common prefix, as numbers, and one byte more, so that there is
    // something between neighbours.
    let number = |key: &[u8]| {
        let byte = |at: usize| u128::from(key.get(shared + at).copied().unwrap_or(0));
        (0..9).fold(0, |number, at| number << 8 | byte(at))
    };
    let (a, b) = (number(low), number(high));
    let middle = a + b.checked_sub(a)? / 2;
    if middle == a {
        return None;
    }
    let mut key = low.get(..shared)?.to_vec();
    key.extend_from_slice(&middle.to_be_bytes()[7..]);
    Some(key)
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn the_midpoint_lies_between_its_bounds() {
        let cases: [(&[u8], &[u8]); 6] = [
            (b"", b"\x01"),
            (b"a", b"b"),
            (b"abc", b"abd"),
            (b"a", b"a\x00\x00\x01"),
            (b"same\x00", b"same\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
            (&[0xff; 20], &[0xff; 21]),
        ];
        for (low, high) in cases {
            let mut low = low.to_vec();
            let mut steps = 0;
            while let Some(middle) = between(&low, high) {
                assert!(low < middle && middle[..] <= *high, "{low:x?} {middle:x?} {high:x?}");
                low = middle;
                steps += 1;
                assert!(steps < 200);
            }
            assert!(steps > 0 || low.starts_with(&[0xff; 20]));
        }
        assert_eq!(between(b"b", b"a"), None);
        assert_eq!(between(b"a", b"a"), None);
    }
}
