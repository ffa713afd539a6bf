//! How many different values the first parts of a tree's keys have: what an optimizer wants to know of an index (Rule: I51).
//!
//! Nothing is kept for it: rows are sampled when it is asked, a bounded number of them (design note 034 says why).
//!
//! 1. A small tree is walked, and counted.
//! 2. A prefix with few values is counted: the walk leaps from each value to the next, [`LEAPS`] times at most.
//! 3. Else the rows of some windows speak for all. A row of a group of `g` rows with one value is the `g`-th part of a value: the mean of
//!    these parts, times the rows there are, is the number of values, however uneven groups are. A group that lies wholly in
//!    its window is counted there; one that the window cuts is walked over if it is not large, and else asked of the nodes ([`Tree::estimate`]).
//! 4. Where large groups have most rows, few windows fall between them, which may be where most values are: the rows there are
//!    counted, or are sampled once more by themselves (`db/distinct/rest.rs`).
//!
//! Windows begin where estimates say that so many rows lie before, all the same number of rows apart.
//!
//! Invariants
//! 1. No number is 0, and none is smaller than that of fewer parts.
//! 2. However large the tree is, so many rows are looked at, and no more: twice [`SMALL_ROWS`], [`WINDOWS`] of [`WINDOW_ROWS`], and for each part
//!    [`LEAPS`] pieces of a cursor's, two of [`GROUP_ROWS`] a window, and what `rest.rs` says.
//!
//! Threads: all.

use std::{collections::BTreeMap, ops::RangeBounds};

use crate::{Layout, Result, block::common_prefix, tree::Look, tuple::prefix_end};

use super::{Cursor, Tree};

mod rest;

/// A tree of so many rows is walked.
const SMALL_ROWS: u64 = 4096;
/// Values of a prefix that are counted one by one.
const LEAPS: u64 = 64;
/// Samples: where one row in twenty has values of its own, three of these lie there.
const WINDOWS: u64 = 64;
/// Rows of a sample: a few blocks of them.
const WINDOW_ROWS: usize = 256;
/// A group that is cut by its window is counted up to here; estimates go by blocks, which may have as many.
const GROUP_ROWS: u64 = 1024;
/// Steps on the way to the begin of a window. Each halves the keys that are left; rows are not spread as keys are, so the last
/// step may be far from where it was to go, which makes windows uneven and nothing worse.
const STEPS: usize = 48;

impl Tree {
    /// About how many different values the first part of the keys has, the first two, and so on to all of them, as many
    /// numbers as the keys' layout has parts; one if keys have no layout. None is 0, also of an empty tree. Rows by these numbers
    /// are what an index look-up finds.
    ///
    /// Numbers up to 64, and those of trees of some thousand rows, are exact if nothing is written meanwhile. Larger ones are
    /// estimates: within a factor of two where values have about as many rows each, of three where they have not. Reads a bounded
    /// number of rows, some tens of thousands: milliseconds, and what of some hundred blocks is not in the cache.
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// use frond::{Hint, Layout, Part, TreeOptions};
    ///
    /// let city_and_id = Layout::new(vec![Part::Fixed(2, Hint::None), Part::Fixed(4, Hint::None)]);
    /// let options = TreeOptions { key_layout: Some(city_and_id), ..Default::default() };
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
            // What was not counted has more values than were.
            least = if part == leapt && part + 1 < parts { least.max(LEAPS + 1) } else { least };
            *count = (*count).clamp(least, rows.max(least));
            least = *count;
        }
        Ok(counts)
    }

    /// About how many rows there are, by nodes that are read if they are not in memory: rows are, too.
    fn about<'k>(&self, range: impl RangeBounds<&'k [u8]>) -> Result<u64> {
        Ok(self.estimate_by(range, Look::Reading)?.rows)
    }

    /// Counts, if the tree is small.
    fn counted_prefixes(&self, keys: &Keys) -> Result<Option<Vec<u64>>> {
        let mut counts = vec![0; keys.parts];
        let mut cursor = self.scan(..)?;
        let (mut last, mut rows) = (Cut::default(), 0);
        while let Some((key, _)) = cursor.next()? {
            if rows == 2 * SMALL_ROWS {
                return Ok(None);
            }
            rows += 1;
            let cut = keys.cut(key);
            let same = cut.shared(&last);
            counts.iter_mut().skip(same).for_each(|count| *count += 1);
            last = cut;
        }
        counts.iter_mut().for_each(|count| *count = (*count).max(1));
        Ok(Some(counts))
    }

    /// How many values the prefix has that ends with this part, if they are few.
    fn leap(&self, keys: &Keys, part: usize) -> Result<Option<u64>> {
        let mut cursor = self.scan(..)?;
        let mut values = 0;
        while let Some((key, _)) = cursor.next()? {
            values += 1;
            if values > LEAPS {
                return Ok(None);
            }
            match prefix_end(keys.cut(key).prefix(part)) {
                Some(next) => cursor.seek(&next),
                None => break,
            }
        }
        Ok(Some(values))
    }

    /// Estimates of the prefixes from this part on, but for whole keys.
    fn sampled_prefixes(&self, keys: &Keys, from: usize, rows: u64) -> Result<Vec<u64>> {
        let mut cursor = self.scan(..)?;
        let Some(ends) = Ends::of(&mut cursor)? else { return Ok(Vec::new()) };
        let mut shares = vec![0.0; keys.parts - 1 - from];
        let mut sampled = 0;
        // Of a group that is larger than a window, several ask.
        let mut sizes = vec![Sizes::new(); shares.len()];
        // Windows need not begin at the row.
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
            let count = match self.beside_large(&mut cursor, keys, part, (rows, sizes))? {
                Some(count) => count,
                None => share / sampled.max(1) as f64 * rows as f64,
            };
            counts.push(count.round() as u64);
        }
        Ok(counts)
    }

    /// How many values of a prefix the rows of a window are: parts of those that it cuts.
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
            if number != 0 && number != last {
                values += 1.0;
                continue;
            }
            let Some(prefix) = group.first().map(|cut| cut.prefix(part)) else { continue };
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

    /// How many rows have a prefix: counted, or about so many if they are more than that.
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

    /// A key between two that has about so many rows below it, more or less `near`.
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

/// Groups that windows have cut, by their prefixes, and how many rows they have.
type Sizes = BTreeMap<Vec<u8>, u64>;

/// How keys are cut.
struct Keys {
    layout: Option<Layout>,
    parts: usize,
}

/// A key, and where its parts end.
#[derive(Default)]
struct Cut {
    key: Vec<u8>,
    ends: Vec<usize>,
}

impl Keys {
    /// What does not fit the layout has one part.
    fn cut(&self, key: &[u8]) -> Cut {
        let mut ends = Vec::with_capacity(self.parts);
        if !self.layout.as_ref().is_some_and(|layout| layout.split(key, &mut ends)) {
            ends.clear();
        }
        Cut { key: key.to_vec(), ends }
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
    /// The parts up to this one.
    fn prefix(&self, part: usize) -> &[u8] {
        let end = self.ends.get(part).copied().unwrap_or(self.key.len());
        self.key.get(..end).unwrap_or(&self.key)
    }

    /// How many parts it shares with another; none with what is no key.
    fn shared(&self, other: &Self) -> usize {
        let same = |part: &usize| self.prefix(*part) == other.prefix(*part);
        match other.ends.is_empty() {
            true => 0,
            false => (0..self.ends.len()).take_while(same).count(),
        }
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

/// A string between two, about halfway; `None` if there is none that is short.
fn between(low: &[u8], high: &[u8]) -> Option<Vec<u8>> {
    let shared = common_prefix(low, high);
    // Eight bytes behind what they share, as numbers; one byte more, so that neighbours have something between them.
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
    fn halfway_lies_between() {
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
