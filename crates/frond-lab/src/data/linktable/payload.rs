//! Generator of the column `data` of links and nodes: its length is log-normal; its bytes are fresh
//! or from a short buffer of motifs.
//!
//! Upstream's source reads the size of the motif buffer under a name that its configuration does
//! not set, so the buffer has 512 bytes instead of 128.

use crate::random::Random;

const MOTIF_BYTES: usize = 512;
const CHUNK_BYTES: usize = 128;
const SIGMA: f64 = 1.0;

/// Parameters that differ between links and nodes.
#[derive(Clone, Copy, Debug)]
struct Shape {
    /// Fraction of chunks that are fresh.
    uniqueness: f64,
    median_bytes: f64,
    bytes_max: f64,
    /// First byte value, and the number of distinct ones.
    alphabet: (u8, u64),
}

const LINK: Shape =
    Shape { uniqueness: 0.225, median_bytes: 8.0, bytes_max: 254.0, alphabet: (32, 68) };
const NODE: Shape = Shape {
    uniqueness: 0.63,
    median_bytes: 128.0,
    bytes_max: (1 << 20) as f64,
    alphabet: (50, 170),
};

/// The generator of `data`.
#[derive(Clone, Debug)]
pub struct Payload {
    shape: Shape,
    motifs: Vec<u8>,
}

impl Payload {
    /// Creates the generator for links, with motifs drawn from `random`; the data are always ASCII.
    pub fn links(random: &mut Random) -> Self {
        Self::new(LINK, random)
    }

    /// Creates the generator for nodes, with motifs drawn from `random`.
    pub fn nodes(random: &mut Random) -> Self {
        Self::new(NODE, random)
    }

    fn new(shape: Shape, random: &mut Random) -> Self {
        let mut motifs = Vec::new();
        write_fresh(shape, random, MOTIF_BYTES, &mut motifs);
        Self { shape, motifs }
    }

    /// Writes the next data.
    pub fn write(&self, random: &mut Random, out: &mut Vec<u8>) {
        let shape = self.shape;
        out.clear();
        let length = (shape.median_bytes.ln() + SIGMA * random.normal()).exp().round();
        let mut left = length.min(shape.bytes_max) as usize;
        while left > 0 {
            let chunk = left.min(CHUNK_BYTES);
            if random.chance(shape.uniqueness) {
                write_fresh(shape, random, chunk, out);
            } else {
                let begin = random.below((MOTIF_BYTES - chunk) as u64) as usize;
                out.extend_from_slice(&self.motifs[begin..begin + chunk]);
            }
            left -= chunk;
        }
    }
}

fn write_fresh(shape: Shape, random: &mut Random, bytes: usize, out: &mut Vec<u8>) {
    let (first, count) = shape.alphabet;
    out.extend((0..bytes).map(|_| first + random.below(count) as u8));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_have_the_published_lengths_and_repetition() {
        const ROWS: usize = 100_000;
        let mut random = Random::new(9);
        let payload = Payload::links(&mut random);
        let (mut data, mut lengths, mut motifs) = (Vec::new(), Vec::new(), 0);
        for _ in 0..ROWS {
            payload.write(&mut random, &mut data);
            assert!(data.iter().all(|byte| (32..100).contains(byte)));
            // Four fresh bytes match the motifs by chance once in forty thousand.
            let is_motif = |data: &[u8]| payload.motifs.windows(4).any(|motif| motif == data);
            motifs += usize::from(data.len() >= 4 && is_motif(&data[..4]));
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

    #[test]
    fn data_of_nodes_have_the_published_median_and_bytes() {
        let mut random = Random::new(9);
        let payload = Payload::nodes(&mut random);
        let (mut data, mut lengths) = (Vec::new(), Vec::new());
        for _ in 0..20_000 {
            payload.write(&mut random, &mut data);
            assert!(data.iter().all(|byte| (50..220).contains(byte)));
            lengths.push(data.len());
        }
        lengths.sort_unstable();
        assert!((125..=131).contains(&lengths[10_000]), "median {}", lengths[10_000]);
    }
}
