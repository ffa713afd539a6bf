//! Hostile bytes with right checksums: blocks, models, columns, run footers, and runs made of them.
//! Promise: P20, P15.
//!
//! Trees are generated at random and their leaves built as the engine does it. Then the result is
//! corrupted again and again, as bytes and by meaning. Whatever the result, reading it returns rows
//! or an error with its location, within the memory that its lengths allow. `FROND_EFFORT`
//! multiplies the corruptions; a failure prints the seed of its tree.

mod corrupt;
mod counting;
mod dictionaries;
mod formats;
mod reads;
mod runs;
mod samples;
mod transposed;

use std::collections::BTreeMap;

use frond::internals::block::Format;
use frond_testkit::{Dice, effort};

use runs::Lying;
use samples::{Block, Tree};

/// Encodings of a column that refer to other columns or to a model.
const RELATED: [&str; 4] = ["difference", "line", "reference", "templates"];

/// Prints the seed of a failed run.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {0}: FROND_SEED={0} repeats it", self.0);
        }
    }
}

/// Runs `act` with dice of this many seeds.
fn campaign(seeds: u64, mut act: impl FnMut(&mut Dice)) {
    for seed in effort::seeds(seeds) {
        let _told = Seed(seed);
        act(&mut Dice::new(seed));
    }
}

#[test]
fn damaged_blocks_give_rows_or_an_error() {
    let (mut damaged, mut sound) = (0u64, 0u64);
    let mut met = BTreeMap::new();
    campaign(60, |dice| {
        let tree = Tree::random(dice);
        let format = tree.format();
        let blocks = tree.blocks(dice, 10);
        for block in &blocks {
            assert!(reads::everything(block, format), "a block as it was built");
            reads::count(block, format, &mut met);
        }
        for number in 0..2000 {
            let block = &blocks[number % blocks.len()];
            let other = dice.pick(&blocks);
            let raw = corrupt::block(dice, &block.raw, &other.raw);
            // What the index of the run would say about it.
            let said = match format {
                Format::Row => None,
                Format::Columnar(_) => said(&raw),
            };
            let (rows, row_bytes) = said.unwrap_or((block.rows, raw.len() as u32));
            let hit = Block { raw, rows, row_bytes, keys: block.keys.clone() };
            sound += u64::from(reads::everything(&hit, format));
            damaged += 1;
        }
    });
    println!("{damaged} blocks, {sound} of them sound; columns: {met:?}");
    for kind in RELATED {
        let count: u64 =
            met.iter().filter(|(name, _)| name.starts_with(kind)).map(|(_, count)| count).sum();
        assert!(count >= 20, "{count} columns of {kind} prove little: {met:?}");
    }
    assert!(sound * 100 > damaged, "corruptions that end at the first look prove little");
}

/// The number of rows that a columnar block states, and their length.
fn said(block: &[u8]) -> Option<(u32, u32)> {
    let &[_, _, low, high, ref raw @ ..] = block.first_chunk::<8>()?;
    Some((u32::from(u16::from_le_bytes([low, high])), u32::from_le_bytes(*raw)))
}

#[test]
fn damaged_columns_give_values_or_an_error() {
    campaign(40, |dice| {
        formats::integers(dice, 400);
        formats::strings(dice, 100);
    });
}

#[test]
fn damaged_models_and_runs_are_read_or_refused() {
    campaign(24, |dice| {
        let tree = Tree::random(dice);
        formats::models(dice, tree.format(), 300);
        let lying = Lying::of(&tree);
        (0..40).for_each(|_| lying.corrupt_footer(dice));
        (0..12).for_each(|_| lying.corrupt_block(dice));
    });
}

#[test]
fn damaged_transposed_blocks_give_rows_or_an_error() {
    let (mut blocks, mut sound) = (0, 0);
    campaign(24, |dice| {
        let tree = transposed::tree(dice);
        blocks += transposed::count(&tree.run);
        sound += transposed::forms(dice, &tree, 400);
        let lying = Lying::of(&tree);
        (0..20).for_each(|_| lying.corrupt_footer(dice));
        (0..20).for_each(|_| lying.corrupt_block(dice));
    });
    println!("{blocks} blocks, {sound} damaged forms sound");
    assert!(blocks > 100 && sound > 500, "{blocks} blocks, {sound} sound: it proves little");
}

#[test]
fn damaged_dictionaries_give_rows_or_an_error() {
    let (mut blocks, mut sound) = (0, 0);
    campaign(12, |dice| {
        let tree = dictionaries::tree(dice);
        blocks += dictionaries::count(&tree.run);
        sound += dictionaries::decoded(dice, &tree, 300);
        dictionaries::stored(dice, &tree, 300);
        let lying = Lying::of(&tree);
        (0..20).for_each(|_| lying.corrupt_footer(dice));
        (0..20).for_each(|_| lying.corrupt_block(dice));
    });
    println!("{blocks} blocks, {sound} decoded under a damaged dictionary or damaged themselves");
    assert!(blocks > 100 && sound > 100, "{blocks} blocks, {sound} sound: it proves little");
}
