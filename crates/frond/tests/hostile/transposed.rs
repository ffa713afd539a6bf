//! Similar rows in row blocks: byte-shuffled blocks are corrupted in the form that the codec gets,
//! and decoded to a block.

use std::sync::Arc;

use frond::{
    feed::Tag,
    internals::{
        block::{Codec, Format, Packing, Taken},
        run::{ReadBuf, Run, RunBuilder, RunOptions},
    },
};
use frond_testkit::Dice;

use crate::{
    corrupt,
    counting::peak_of,
    reads,
    samples::{Block, Rows, Tree, pool},
};

/// Bytes for the contexts of codecs, and lists of a thread that decodes for the first time.
const SOME: usize = 256 << 10;

/// A tree of similar rows, nearly all of whose blocks are byte-shuffled.
pub fn tree(dice: &mut Dice) -> Tree {
    let (lead, wide) = (dice.below(6) as usize, dice.below(20) as usize);
    let (value, differ) = (dice.below(30) as usize, dice.chance(1, 3));
    let bits = dice.below(20);
    let (step, few) = (1 + dice.below(1 << bits), 1 + dice.below(200));
    let mut number = 0;
    let mut rows = Rows::new();
    for _ in 0..1500 {
        number += 1 + dice.below(step);
        let mut key = vec![3; lead];
        key.extend_from_slice(&number.to_be_bytes()[3..]);
        key.extend((0..wide).map(|at| if at == 0 { dice.below(few) as u8 } else { 0x41 }));
        let bytes = if differ { dice.below(value as u64 + 1) as usize } else { value };
        let payload = (0..bytes).map(|at| dice.below(1 + at as u64 % 4) as u8).collect();
        rows.insert(key, (Tag::PUT, payload));
    }
    let codec = *dice.pick(&[Codec::Lz4, Codec::Zstd1, Codec::Zstd3]);
    let block_bytes = *dice.pick(&[400, 2000, 16_384]);
    let options = RunOptions { codec, filter_bits: None, block_bytes };
    let mut builder = RunBuilder::new(pool(), options);
    for (key, (tag, payload)) in &rows {
        builder.push(key, *tag, payload).expect("keys ascend");
    }
    let run = builder.finish().expect("it fits").expect("it has rows");
    Tree { schema: None, options, rows, run }
}

/// Number of byte-shuffled blocks of a run.
pub fn count(run: &Arc<Run>) -> usize {
    run.blocks().entries().iter().filter(|entry| entry.packing.is_transposed).count()
}

/// Corrupts the shuffled forms of its blocks `corruptions` times; returns how many gave a sound
/// block.
pub fn forms(dice: &mut Dice, tree: &Tree, corruptions: u64) -> u64 {
    let mut buf = ReadBuf::new(pool());
    let mut sound = 0;
    for _ in 0..corruptions {
        let index = dice.below(tree.run.block_count() as u64) as usize;
        let entry = *tree.run.blocks().entry(index).expect("there is one");
        let encoded = tree.run.encoded_block(index, &mut buf).expect("it is whole");
        let mut raw = vec![0; entry.raw_bytes as usize];
        entry.packing.decode(None, encoded, &mut raw).expect("it was encoded");
        let mut taken = Taken::default();
        if !taken.take(&raw) {
            continue;
        }
        let best = taken.best_summed();
        let mut form = taken.form(best).expect("it is short").to_vec();
        let hits = dice.below(3);
        (0..hits).for_each(|_| corrupt::bytes(dice, &mut form));
        let mut encoded = Vec::new();
        let codec = *dice.pick(&[Codec::Lz4, Codec::Zstd1, Codec::Zstd3]);
        if codec.encode(&form, &mut encoded) == Codec::Raw {
            continue;
        }
        // Now and then the index is wrong as well.
        let raw_bytes = match dice.below(8) {
            0 => raw.len() - 1,
            1 => raw.len() + 1 + dice.below(100) as usize,
            2 => dice.below(1 << 20) as usize,
            _ => raw.len(),
        };
        let mut out = vec![0; raw_bytes];
        let packing = Packing { codec, is_transposed: true, has_dictionary: false };
        let (decoded, peak) = peak_of(|| packing.decode(None, &encoded, &mut out));
        assert!(peak <= 8 * raw_bytes + SOME, "{peak} bytes of memory for {raw_bytes}");
        if decoded.is_ok() {
            let own = tree.rows.keys().take(3).cloned().collect();
            let (rows, row_bytes) = (rows_of(&out), raw_bytes as u32);
            let block = Block { raw: out, rows, row_bytes, keys: own };
            assert!(reads::everything(&block, &Format::Row), "decoded, and no block");
            sound += u64::from(hits > 0);
        }
    }
    sound
}

/// The number of rows that a row block states.
fn rows_of(block: &[u8]) -> u32 {
    let trailer: [u8; 4] = block[block.len() - 4..].try_into().expect("it has a trailer");
    u32::from(u16::from_le_bytes([trailer[0], trailer[1]]))
}
