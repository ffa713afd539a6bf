//! The optional string columns of iiBench: random letters, and then the letter `a` up to their
//! length.
//!
//! The published generator takes the random letters from a buffer of 4 MiB, in which a codec with a
//! long window finds repeats; here they are always new.

use crate::lab::params::{Param, Params};
use crate::random::{Purpose, Random};
use crate::targets::{Failure, Result};

/// Names of the columns.
pub const NAMES: [&str; 8] = [
    "charfield1",
    "charfield2",
    "charfield3",
    "charfield4",
    "charfield5",
    "charfield6",
    "charfield7",
    "charfield8",
];

pub const NUMBER: Param = Param::fixed("charfields", "0", "string columns in addition, 0 to 8");
pub const BYTES: Param = Param::fixed("charfield_bytes", "1000", "length of a string, 1 to 7000");
pub const RANDOM: Param =
    Param::fixed("charfield_random", "0.1", "fraction of a string that is random letters");

/// Largest length of a string: eight of them are within the largest row of a MariaDB table.
const BYTES_MAX: u64 = 7_000;

/// What the strings are like.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Charfields {
    /// Number of columns.
    pub number: usize,
    /// Length of each string.
    pub bytes: u64,
    /// Number of random letters in each.
    random: u64,
}

impl Charfields {
    /// No such columns.
    pub const NONE: Self = Self { number: 0, bytes: 0, random: 0 };

    /// Parses the parameters.
    ///
    /// # Errors
    /// One of them is out of its range.
    pub fn new(params: &Params) -> Result<Self> {
        let (number, bytes) = (params.number(NUMBER.name)?, params.number(BYTES.name)?);
        let part = params.real(RANDOM.name)?;
        if number > NAMES.len() as u64 || !(1..=BYTES_MAX).contains(&bytes) || part > 1.0 {
            return Err(Failure(
                "iibench: allowed are charfields from 0 to 8, charfield_bytes from 1 to 7000, charfield_random from 0 to 1".to_owned(),
            ));
        }
        let random = (bytes as f64 * part).round() as u64;
        Ok(Self { number: number as usize, bytes, random })
    }

    /// Bytes of all strings of a row.
    pub fn row_bytes(self) -> u64 {
        self.number as u64 * self.bytes
    }
}

/// A generator of the strings of rows.
pub struct Texts {
    charfields: Charfields,
    random: Random,
    texts: Vec<String>,
}

impl Texts {
    /// Starts at the first row.
    pub fn new(seed: u64, charfields: Charfields) -> Self {
        let random = Random::stream(seed, "iibench", 1, 0, Purpose::Data);
        Self { charfields, random, texts: vec![String::new(); charfields.number] }
    }

    /// Returns the strings of the next row.
    pub fn next_row(&mut self) -> &[String] {
        let Charfields { bytes, random, .. } = self.charfields;
        for text in &mut self.texts {
            text.clear();
            text.extend((0..random).map(|_| char::from(b'a' + self.random.below(26) as u8)));
            text.extend(std::iter::repeat_n('a', (bytes - random) as usize));
        }
        &self.texts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::size::Size;

    fn charfields(changes: &[(&str, &str)]) -> Result<Charfields> {
        let changes: Vec<_> =
            changes.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        let params = Params::new("x", &[NUMBER, BYTES, RANDOM], Size::Tiny, &changes);
        Charfields::new(&params.expect("known"))
    }

    #[test]
    fn a_tenth_of_a_string_is_random_letters_and_the_rest_the_same_one() {
        let of_two = charfields(&[("charfields", "2")]).expect("allowed");
        assert_eq!(of_two.row_bytes(), 2_000);
        let (mut texts, mut letters) = (Texts::new(42, of_two), [0u32; 26]);
        for _ in 0..500 {
            let row = texts.next_row();
            assert_eq!(row.len(), 2);
            for text in row {
                assert_eq!(text.len(), 1_000);
                assert!(text[100..].bytes().all(|letter| letter == b'a'), "{text}");
                text[..100].bytes().for_each(|letter| letters[usize::from(letter - b'a')] += 1);
            }
        }
        assert!(letters.iter().all(|n| (3_500..4_200).contains(n)), "{letters:?}");
    }

    #[test]
    fn parameters_out_of_range_are_refused() {
        assert_eq!(charfields(&[]).map(|none| none.row_bytes()).ok(), Some(0));
        for bad in [("charfields", "9"), ("charfield_bytes", "0"), ("charfield_random", "1.1")] {
            assert!(charfields(&[bad]).is_err_and(|failure| failure.0.contains(bad.0)), "{bad:?}");
        }
    }
}
