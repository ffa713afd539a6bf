//! YCSB's keys, and the distributions from which requests choose them.
//!
//! Invariants
//! 1. The key of record n is `user` and the FNV hash of n in decimal, so that loads insert in
//!    random order.
//! 2. To choose a record, a rank is drawn by Zipf 0.99 over 10¹⁰ items and hashed; the record is
//!    the hash modulo the number of records plus twice the expected number of inserts. A record's
//!    share thus does not change as records are inserted. If the record does not exist yet, another
//!    one is drawn.
//! 3. `latest` counts back from the newest record.
//!
//! Threads: `Keys` is shared by all clients.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::random::{Random, zeta};

/// Number of items from which ranks are drawn. The next line is their ζ at 0.99, as in upstream's
/// source.
const ITEMS: f64 = 1e10;
const ITEMS_ZETA: f64 = 26.469_028_201_783_02;
const THETA: f64 = 0.99;

/// FNV-1a hash of the eight bytes of a number, lowest first: the absolute value as a signed number.
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

/// Gray's Zipf sampler over a growing number of items.
#[derive(Clone, Debug)]
pub struct Zipf {
    items: f64,
    zeta: f64,
    eta: f64,
}

impl Zipf {
    /// Makes a sampler over this many items.
    pub fn new(items: u64) -> Self {
        Self::with_zeta(items as f64, zeta(items, THETA))
    }

    /// Makes the sampler from which scrambled ranks are drawn.
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

    /// Increases the number of items to this many.
    pub fn grow(&mut self, items: u64) {
        let before = self.items as u64;
        if items > before {
            self.zeta += (before + 1..=items).map(|i| (i as f64).powf(-THETA)).sum::<f64>();
            self.items = items as f64;
            self.set_eta();
        }
    }

    /// Draws a rank, from 0.
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

/// The records that exist, and the distributions over them.
pub struct Keys {
    scrambled: Zipf,
    /// Number of records plus twice the expected number of inserts.
    space: u64,
    next: AtomicU64,
    /// All records below this one have been inserted.
    seen: AtomicU64,
    /// Records above it that were inserted before an earlier one.
    early: Mutex<BTreeSet<u64>>,
}

impl Keys {
    /// Makes keys for this many existing records. Ranks are spread over `space` records.
    pub fn new(records: u64, space: u64) -> Self {
        let (next, seen) = (AtomicU64::new(records), AtomicU64::new(records));
        let (scrambled, space) = (Zipf::of_scrambled(), space.max(records));
        Self { scrambled, space, next, seen, early: Mutex::new(BTreeSet::new()) }
    }

    /// Returns the number of the next record to insert.
    pub fn take(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Records that a record has been inserted. Requests ask for it once all records before it have
    /// been inserted as well.
    pub fn inserted(&self, record: u64) {
        let mut early = self.early.lock().unwrap_or_else(|e| e.into_inner());
        early.insert(record);
        let mut seen = self.records();
        while early.remove(&seen) {
            seen += 1;
        }
        self.seen.store(seen, Ordering::Release);
    }

    /// Number of records that exist: all records below this one have been inserted.
    pub fn records(&self) -> u64 {
        self.seen.load(Ordering::Acquire)
    }

    /// Draws a record by scrambled Zipf (Invariant 2).
    pub fn scrambled(&self, random: &mut Random) -> u64 {
        loop {
            let record = hash(self.scrambled.draw(random)) % self.space;
            if record < self.records() {
                return record;
            }
        }
    }

    /// Draws a record by Zipf over age, the newest most often (Invariant 3). `zipf` belongs to the
    /// client and grows with the records.
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

    /// Compares the frequencies of the first ranks with the exact ones. The sampler is exact for
    /// the first two, and overstates the others slightly.
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
    fn scrambled_ranks_are_existing_records_and_the_hottest_has_its_share() {
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
    fn the_latest_records_are_requested_most() {
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
