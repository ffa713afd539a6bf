//! YCSB's keys and which of them are asked for.
//!
//! Invariants
//! 1. Record n has the key `user` and the decimal number of the FNV hash of n: loads insert in random order.
//! 2. A rank of Zipf 0.99 over 10¹⁰ items, hashed, modulo records and twice the inserts that are expected, is the
//!    record that is asked for: its share does not depend on their number. One that is not there yet is drawn again.
//! 3. `latest` counts back from the newest record.
//!
//! Threads: `Keys` is shared.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::random::{Random, zeta};

/// Items that ranks are drawn from, and their ζ at 0.99, as upstream has it.
const ITEMS: f64 = 1e10;
const ITEMS_ZETA: f64 = 26.469_028_201_783_02;
const THETA: f64 = 0.99;

/// FNV-1a over the eight bytes of a number, the lowest first, as a signed number without its sign.
pub fn hash(mut number: u64) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for _ in 0..8 {
        hash = (hash ^ (number & 0xff)).wrapping_mul(0x0100_0000_01b3);
        number >>= 8;
    }
    (hash as i64).unsigned_abs()
}

/// Writes the key of a record.
pub fn write_key(record: u64, out: &mut String) {
    out.clear();
    write!(out, "user{}", hash(record)).expect("a string takes all that is written");
}

/// Gray's sampler over a number of items that grows.
#[derive(Clone, Debug)]
pub struct Zipf {
    items: f64,
    zeta: f64,
    eta: f64,
}

impl Zipf {
    /// Of so many items.
    pub fn new(items: u64) -> Self {
        Self::with_zeta(items as f64, zeta(items, THETA))
    }

    /// Of the items that scrambled ranks are drawn from.
    pub fn of_scrambled() -> Self {
        Self::with_zeta(ITEMS, ITEMS_ZETA)
    }

    fn with_zeta(items: f64, zeta: f64) -> Self {
        let mut zipf = Self { items, zeta, eta: 0.0 };
        zipf.set_eta();
        zipf
    }

    fn set_eta(&mut self) {
        let two = 1.0 + 0.5f64.powf(THETA);
        self.eta = (1.0 - (2.0 / self.items).powf(1.0 - THETA)) / (1.0 - two / self.zeta);
    }

    /// Grows to so many items.
    pub fn grow(&mut self, items: u64) {
        let before = self.items as u64;
        if items > before {
            self.zeta += (before + 1..=items).map(|i| (i as f64).powf(-THETA)).sum::<f64>();
            self.items = items as f64;
            self.set_eta();
        }
    }

    /// One rank, from 0.
    pub fn draw(&self, random: &mut Random) -> u64 {
        let u = random.unit();
        let uz = u * self.zeta;
        if uz < 1.0 {
            return 0;
        }
        if uz < 1.0 + 0.5f64.powf(THETA) {
            return 1;
        }
        let rank = self.items * (self.eta * u - self.eta + 1.0).powf(1.0 / (1.0 - THETA));
        (rank as u64).min(self.items as u64 - 1)
    }
}

/// The records that there are.
pub struct Keys {
    scrambled: Zipf,
    /// Records and the inserts that are expected, twice.
    space: u64,
    next: AtomicU64,
    /// Records below this have all been inserted.
    seen: AtomicU64,
    /// Those above, whose inserts ended before an earlier one.
    early: Mutex<BTreeSet<u64>>,
}

impl Keys {
    /// So many records, of so many in all that ranks are spread over.
    pub fn new(records: u64, space: u64) -> Self {
        let (next, seen) = (AtomicU64::new(records), AtomicU64::new(records));
        let (scrambled, space) = (Zipf::of_scrambled(), space.max(records));
        Self { scrambled, space, next, seen, early: Mutex::new(BTreeSet::new()) }
    }

    /// Number of a record that is to be inserted.
    pub fn take(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Notes that a record has been inserted: it is asked for when all before it have been, too.
    pub fn inserted(&self, record: u64) {
        let mut early = self.early.lock().unwrap_or_else(|e| e.into_inner());
        early.insert(record);
        let mut seen = self.records();
        while early.remove(&seen) {
            seen += 1;
        }
        self.seen.store(seen, Ordering::Release);
    }

    /// Records that are there.
    pub fn records(&self) -> u64 {
        self.seen.load(Ordering::Acquire)
    }

    /// A record by Zipf, scrambled (Invariant 2).
    pub fn scrambled(&self, random: &mut Random) -> u64 {
        loop {
            let record = hash(self.scrambled.draw(random)) % self.space;
            if record < self.records() {
                return record;
            }
        }
    }

    /// A record by Zipf over how new they are (Invariant 3); `zipf` is the client's own and grows with them.
    pub fn latest(&self, zipf: &mut Zipf, random: &mut Random) -> u64 {
        let records = self.records();
        zipf.grow(records);
        records - 1 - zipf.draw(random).min(records - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_hashes_of_fnv() {
        // FNV-1a of eight zero bytes is 0xa8c7f832281a39c5, negative as a signed number.
        assert_eq!(hash(0), (0xa8c7_f832_281a_39c5u64 as i64).unsigned_abs());
        let mut key = String::new();
        write_key(0, &mut key);
        assert_eq!(key, format!("user{}", hash(0)));
        assert!((0..10_000).all(|n| format!("user{}", hash(n)).len() <= 24));
        let distinct: std::collections::BTreeSet<_> = (0..100_000).map(hash).collect();
        assert_eq!(distinct.len(), 100_000);
    }

    /// Draws and compares the first ranks with what is exact: the first two are, the rest are overstated a little.
    fn check(zipf: &Zipf, total: f64) {
        const DRAWS: u32 = 1_000_000;
        let (mut random, mut counts) = (Random::new(5), [0u32; 20]);
        for _ in 0..DRAWS {
            if let Some(count) = counts.get_mut(zipf.draw(&mut random) as usize) {
                *count += 1;
            }
        }
        for (rank, count) in counts.iter().enumerate() {
            let expected = f64::from(DRAWS) * (rank as f64 + 1.0).powf(-THETA) / total;
            let slack = if rank < 2 { 0.0 } else { 0.25 * expected };
            let room = 5.0 * expected.sqrt() + slack;
            assert!((f64::from(*count) - expected).abs() < room, "{rank}: {count} for {expected}");
        }
    }

    #[test]
    fn ranks_have_their_probabilities() {
        check(&Zipf::of_scrambled(), ITEMS_ZETA);
        check(&Zipf::new(100_000), zeta(100_000, THETA));
        let mut grown = Zipf::new(10);
        grown.grow(100_000);
        assert!((grown.zeta - zeta(100_000, THETA)).abs() < 1e-9);
        check(&grown, zeta(100_000, THETA));
    }

    #[test]
    fn scrambled_ranks_are_records_that_are_there_and_the_hottest_has_its_share() {
        let keys = Keys::new(1_000, 1_200);
        let (mut random, mut counts) = (Random::new(5), vec![0u32; 1_000]);
        for _ in 0..200_000 {
            counts[keys.scrambled(&mut random) as usize] += 1;
        }
        let hottest = (hash(0) % 1_200) as usize;
        let most = counts.iter().copied().max().unwrap_or(0);
        if hottest < 1_000 {
            assert_eq!(counts[hottest], most);
        }
        assert!((0.03..0.06).contains(&(f64::from(most) / 200_000.0)), "{most}");
    }

    #[test]
    fn the_latest_are_asked_for_most() {
        let keys = Keys::new(1_000, 1_000);
        let (mut random, mut zipf) = (Random::new(5), Zipf::new(1_000));
        let (record, next) = (keys.take(), keys.take());
        keys.inserted(next);
        assert_eq!(keys.records(), 1_000, "the one before is not there");
        keys.inserted(record);
        assert_eq!(keys.records(), 1_002);
        let record = next;
        let newest = (0..10_000).filter(|_| keys.latest(&mut zipf, &mut random) == record).count();
        let exact = 1.0 / zeta(1_002, THETA);
        assert!((newest as f64 / 10_000.0 / exact - 1.0).abs() < 0.15, "{newest}");
    }
}
