//! Blocks compressed with their run's dictionary: the dictionary and the blocks are corrupted.

use std::sync::Arc;

use frond::{
    feed::Tag,
    internals::{
        Lineage,
        block::{BLOCK_RAW_BYTES_TARGET, Codec, Dictionary, Format},
        io::RealClock,
        run::{ReadBuf, Run, RunBuilder, RunOptions, WorkByTree},
    },
};
use frond_testkit::Dice;

use crate::{
    corrupt,
    counting::peak_of,
    reads,
    samples::{Block, Rows, Tree, pool},
};

/// Bytes for the contexts of codecs.
const SOME: usize = 512 << 10;

/// A tree of texts, whose second leaf uses a dictionary trained on the first.
pub fn tree(dice: &mut Dice) -> Tree {
    let names = 100 + dice.below(200);
    let letters = 40 + dice.below(60);
    let names: Vec<Vec<u8>> =
        (0..names).map(|_| (0..letters).map(|_| b'a' + dice.below(26) as u8).collect()).collect();
    let options =
        RunOptions { codec: Codec::Zstd3, filter_bits: None, block_bytes: BLOCK_RAW_BYTES_TARGET };
    let work = WorkByTree::new(Arc::new(RealClock::new())).of(Lineage(1));
    let mut leaf = |count: u64| {
        let mut rows = Rows::new();
        for number in 0..count {
            let key = format!("{number:06}{}", "+".repeat(dice.below(3) as usize));
            let end = format!(" {}", dice.below(1 << 40));
            let value = [dice.pick(&names), end.as_bytes()].concat();
            rows.insert(key.into_bytes(), (Tag::PUT, value));
        }
        let mut builder = RunBuilder::new(pool(), options).counted(work.clone());
        for (key, (tag, payload)) in &rows {
            builder.push(key, *tag, payload).expect("keys ascend");
        }
        (rows, builder.finish().expect("it fits").expect("it has rows"))
    };
    leaf(12_000);
    let (rows, run) = leaf(4000);
    assert!(run.dictionary().is_some(), "texts have one");
    Tree { schema: None, options, rows, run }
}

/// Number of blocks of a run that use its dictionary.
pub fn count(run: &Arc<Run>) -> usize {
    run.blocks().entries().iter().filter(|entry| entry.packing.has_dictionary).count()
}

/// Decodes blocks `corruptions` times, with the dictionary, the block, or its length corrupted;
/// returns how often that gave bytes.
pub fn decoded(dice: &mut Dice, tree: &Tree, corruptions: u64) -> u64 {
    let mut buf = ReadBuf::new(pool());
    let dictionary = tree.run.dictionary().expect("it has one");
    let mut decoded = 0;
    for _ in 0..corruptions {
        let index = dice.below(tree.run.block_count() as u64) as usize;
        let entry = *tree.run.blocks().entry(index).expect("there is one");
        let mut encoded = tree.run.encoded_block(index, &mut buf).expect("it is whole").to_vec();
        let mut bytes = dictionary.as_bytes().to_vec();
        let mut raw_bytes = entry.raw_bytes as usize;
        match dice.below(4) {
            0 => corrupt::bytes(dice, &mut encoded),
            1 => raw_bytes = dice.below(1 << 18) as usize,
            // A few changed bytes of many: what is left may decode.
            2 => {
                let at = dice.below(bytes.len() as u64) as usize;
                bytes[at] ^= 1 << dice.below(8);
            }
            _ => bytes.truncate(dice.below(bytes.len() as u64 + 1) as usize),
        }
        let Some(damaged) = Dictionary::new(bytes) else { continue };
        let mut out = vec![0; raw_bytes];
        let (gave, peak) = peak_of(|| entry.packing.decode(Some(&damaged), &encoded, &mut out));
        assert!(peak <= 8 * raw_bytes + SOME, "{peak} bytes of memory for {raw_bytes}");
        if gave.is_ok() {
            decoded += 1;
            let row_bytes = raw_bytes as u32;
            let keys = tree.rows.keys().take(3).cloned().collect();
            reads::everything(&Block { raw: out, rows: entry.rows, row_bytes, keys }, &Format::Row);
        }
        let mut out = vec![0; entry.raw_bytes as usize];
        assert!(entry.packing.decode(None, &encoded, &mut out).is_err(), "it needs none");
    }
    decoded
}

/// Corrupts a dictionary as it is stored.
pub fn stored(dice: &mut Dice, tree: &Tree, corruptions: u64) {
    for _ in 0..corruptions {
        let mut damaged = tree.run.dictionary().expect("it has one").to_disk().to_vec();
        corrupt::bytes(dice, &mut damaged);
        let (read, peak) = peak_of(|| Dictionary::from_disk(&damaged));
        assert!(peak <= 2 * damaged.len() + SOME, "{peak} bytes of memory");
        if let Ok(read) = read {
            assert!(read.as_bytes().len() <= 64 << 10);
        }
    }
}
