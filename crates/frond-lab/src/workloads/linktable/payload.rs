//! A link's `data`: log-normal in length, its bytes fresh or from a short buffer of motifs.
//!
//! Upstream's source reads the motif buffer's size under another name than its configuration gives, so
//! the buffer has 512 bytes and not 128.

use crate::random::Random;

const MOTIF_BYTES: usize = 512;
const CHUNK_BYTES: usize = 128;
/// Share of chunks that are fresh.
const UNIQUENESS: f64 = 0.225;
const MEDIAN_BYTES: f64 = 8.0;
const SIGMA: f64 = 1.0;
const BYTES_MAX: f64 = 254.0;
/// First byte, and how many follow it.
const ALPHABET: (u8, u64) = (32, 68);

/// The generator.
#[derive(Clone, Debug)]
pub struct Payload {
    motifs: String,
}

impl Payload {
    /// With motifs of `random`.
    pub fn new(random: &mut Random) -> Self {
        let mut motifs = String::new();
        write_fresh(random, MOTIF_BYTES, &mut motifs);
        Self { motifs }
    }

    /// The next link's data.
    pub fn write(&self, random: &mut Random, out: &mut String) {
        out.clear();
        let bytes = (MEDIAN_BYTES.ln() + SIGMA * random.normal()).exp().round().min(BYTES_MAX);
        let mut left = bytes as usize;
        while left > 0 {
            let chunk = left.min(CHUNK_BYTES);
            if random.chance(UNIQUENESS) {
                write_fresh(random, chunk, out);
            } else {
                let begin = random.below((MOTIF_BYTES - chunk) as u64) as usize;
                out.push_str(&self.motifs[begin..begin + chunk]);
            }
            left -= chunk;
        }
    }
}

fn write_fresh(random: &mut Random, bytes: usize, out: &mut String) {
    let (first, count) = ALPHABET;
    out.extend((0..bytes).map(|_| char::from(first + random.below(count) as u8)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_have_the_published_lengths_and_repetition() {
        const ROWS: usize = 100_000;
        let mut random = Random::new(9);
        let payload = Payload::new(&mut random);
        let (mut data, mut lengths, mut motifs) = (String::new(), Vec::new(), 0);
        for _ in 0..ROWS {
            payload.write(&mut random, &mut data);
            assert!(data.bytes().all(|byte| (32..100).contains(&byte)));
            // Four bytes are in the motifs by chance once in forty thousand.
            motifs += usize::from(data.len() >= 4 && payload.motifs.contains(&data[..4]));
            lengths.push(data.len());
        }
        lengths.sort_unstable();
        assert_eq!(lengths[ROWS / 2], 8, "median");
        assert!(lengths[ROWS - 1] <= 254);
        let mean = lengths.iter().sum::<usize>() as f64 / ROWS as f64;
        assert!((12.9..13.4).contains(&mean), "{mean} bytes on average"); // 8·√e, less the cut
        let long = lengths.iter().filter(|&&length| length >= 4).count();
        let repeated = motifs as f64 / long as f64;
        assert!((0.765..0.785).contains(&repeated), "{repeated} from the motifs");
    }
}
