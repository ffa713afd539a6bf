//! The random values of TPC-C (clauses 2.1.5, 2.1.6 and 4.3.2 of the standard).
//!
//! Threads: `Constants` and `Scale` are shared by the clients.

use crate::random::{Purpose, Random};

/// Syllables of last names.
const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];
const LETTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
/// Number of different last names.
pub const NAMES: u64 = 1_000;
/// Number of districts of a warehouse.
pub const DISTRICTS: u64 = 10;

/// Scale of the database. The standard has 100,000 items, and 3,000 customers per district.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Number of warehouses.
    pub warehouses: u64,
    /// Number of items.
    pub items: u64,
    /// Number of customers of a district, and of its orders after the load.
    pub customers: u64,
}

impl Scale {
    /// Number of last names in use: each belongs to a customer in every district.
    pub fn names(&self) -> u64 {
        self.customers.min(NAMES)
    }
}

/// The constants C of NURand, which are drawn once.
#[derive(Clone, Copy, Debug)]
pub struct Constants {
    last_load: u64,
    last_run: u64,
    customer: u64,
    item: u64,
}

impl Constants {
    /// Draws the constants for a seed. That of last names differs between load and run as clause
    /// 2.1.6.1 requires.
    pub fn new(seed: u64) -> Self {
        let mut random = Random::stream(seed, "tpcc", 0, 0, Purpose::Population);
        let last_load = random.below(256);
        let last_run = loop {
            let drawn = random.below(256);
            if is_allowed(last_load.abs_diff(drawn)) {
                break drawn;
            }
        };
        let (customer, item) = (random.below(1_024), random.below(8_192));
        Self { last_load, last_run, customer, item }
    }

    /// Draws the number of the last name of a customer that is loaded.
    pub fn loaded_name(&self, random: &mut Random, scale: &Scale) -> u64 {
        nurand(random, 255, self.last_load, 0, scale.names() - 1)
    }

    /// Draws the number of the last name that a transaction looks for.
    pub fn name(&self, random: &mut Random, scale: &Scale) -> u64 {
        nurand(random, 255, self.last_run, 0, scale.names() - 1)
    }

    /// Draws the id of a customer.
    pub fn customer(&self, random: &mut Random, scale: &Scale) -> u64 {
        nurand(random, 1_023, self.customer, 1, scale.customers)
    }

    /// Draws the id of an item.
    pub fn item(&self, random: &mut Random, scale: &Scale) -> u64 {
        nurand(random, 8_191, self.item, 1, scale.items)
    }
}

fn is_allowed(difference: u64) -> bool {
    (65..=119).contains(&difference) && difference != 96 && difference != 112
}

/// NURand(A, x, y) of the standard with the constant C.
fn nurand(random: &mut Random, a: u64, c: u64, x: u64, y: u64) -> u64 {
    ((random.between(0, a) | random.between(x, y)) + c) % (y - x + 1) + x
}

/// Writes the last name with this number.
pub fn write_name(number: u64, out: &mut String) {
    out.clear();
    for digit in [number / 100 % 10, number / 10 % 10, number % 10] {
        out.push_str(SYLLABLES[digit as usize]);
    }
}

/// Writes random letters and digits, `least` to `most` of them.
pub fn write_letters(random: &mut Random, least: u64, most: u64, out: &mut String) {
    out.clear();
    let length = random.between(least, most);
    let mut bits = 0;
    for at in 0..length {
        if at % 10 == 0 {
            bits = random.next();
        }
        // Six bits are scaled to a range of 62. The bias is the same for all targets, and far too
        // small to matter to codecs.
        out.push(char::from(LETTERS[(((bits & 0x3f) * 62) >> 6) as usize]));
        bits >>= 6;
    }
}

/// Writes random digits.
pub fn write_digits(random: &mut Random, length: u64, out: &mut String) {
    out.clear();
    out.extend((0..length).map(|_| char::from(b'0' + random.below(10) as u8)));
}

/// Writes `ORIGINAL` at a random position into one text in ten.
pub fn make_original(random: &mut Random, text: &mut String) {
    const WORD: &str = "ORIGINAL";
    if random.below(10) == 0 && text.len() >= WORD.len() {
        let at = random.below((text.len() - WORD.len() + 1) as u64) as usize;
        text.replace_range(at..at + WORD.len(), WORD);
    }
}

/// Formats hundredths as an amount for SQL.
pub fn amount(hundredths: u64) -> String {
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

/// Parses an amount from SQL, and returns hundredths.
pub fn hundredths(amount: &str) -> Option<u64> {
    let (whole, part) = amount.split_once('.').unwrap_or((amount, "0"));
    let part: u64 = format!("{part:0<2}").get(..2)?.parse().ok()?;
    Some(whole.parse::<u64>().ok()? * 100 + part)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: Scale = Scale { warehouses: 1, items: 100_000, customers: 3_000 };

    #[test]
    fn last_names_are_made_of_syllables() {
        let mut name = String::new();
        for (number, expected) in [(0, "BARBARBAR"), (371, "PRICALLYOUGHT"), (999, "EINGEINGEING")]
        {
            write_name(number, &mut name);
            assert_eq!(name, expected);
        }
        let names: std::collections::BTreeSet<String> = (0..NAMES)
            .map(|number| {
                write_name(number, &mut name);
                name.clone()
            })
            .collect();
        assert_eq!(names.len(), 1_000);
        assert!(names.iter().all(|name| name.len() <= 16));
    }

    #[test]
    fn nurand_stays_in_its_range_and_is_not_uniform() {
        for seed in 0..20 {
            let constants = Constants::new(seed);
            let difference = constants.last_load.abs_diff(constants.last_run);
            assert!((65..=119).contains(&difference) && ![96, 112].contains(&difference));
        }
        let (constants, mut random) = (Constants::new(42), Random::new(1));
        let mut counts = vec![0u32; 3_001];
        const DRAWS: u32 = 300_000;
        for _ in 0..DRAWS {
            let customer = constants.customer(&mut random, &FULL);
            assert!((1..=3_000).contains(&customer));
            counts[customer as usize] += 1;
            assert!((1..=100_000).contains(&constants.item(&mut random, &FULL)));
            assert!(constants.name(&mut random, &FULL) < 1_000);
            assert!(constants.loaded_name(&mut random, &FULL) < 1_000);
        }
        let most = counts.iter().copied().max().unwrap_or(0);
        assert!(most > 5 * DRAWS / 3_000, "the most popular customer was drawn {most} times");
        let small = Scale { warehouses: 1, items: 10, customers: 3 };
        for _ in 0..1_000 {
            assert!((1..=3).contains(&constants.customer(&mut random, &small)));
            assert!(constants.name(&mut random, &small) < 3);
        }
    }

    #[test]
    fn texts_have_the_lengths_and_the_letters_of_the_standard() {
        let (mut random, mut text) = (Random::new(1), String::new());
        let (mut lengths, mut original) = (std::collections::BTreeSet::new(), 0);
        for _ in 0..20_000 {
            write_letters(&mut random, 26, 50, &mut text);
            assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric()));
            lengths.insert(text.len());
            make_original(&mut random, &mut text);
            original += u32::from(text.contains("ORIGINAL"));
        }
        assert_eq!((lengths.first(), lengths.last()), (Some(&26), Some(&50)));
        assert!((1_800..2_200).contains(&original), "{original}");
        write_digits(&mut random, 16, &mut text);
        assert!(text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_digit()));
    }

    #[test]
    fn amounts_are_written_and_read_in_hundredths() {
        for (number, text) in [(0, "0.00"), (5, "0.05"), (123_456, "1234.56")] {
            assert_eq!((amount(number).as_str(), hundredths(text)), (text, Some(number)));
        }
        assert_eq!(
            (hundredths("7"), hundredths("7.1"), hundredths("x")),
            (Some(700), Some(710), None)
        );
    }
}
