//! Leaves, block by block: the cost of writing them, each column by the plan of the previous block,
//! and of reading them.

use std::{hint::black_box, sync::Arc, time::Instant};

use frond::{
    feed::Tag,
    internals::block::{
        Chunks, Codec, ColumnarFormat, Pushed,
        columnar::{
            ColumnSelection, ColumnarBlock, ColumnarBuilder, ColumnarRows, Columns, Models, Plans,
            Samples, find_selected,
        },
    },
    layout::{End, Part},
};

/// Rows: keys and values.
pub type Rows = Vec<(Vec<u8>, Vec<u8>)>;

/// Numbers without a pattern.
pub struct Noise(pub u64);

impl Noise {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 16) % end
    }

    /// One of `end` numbers, the first ones more often, as with names.
    pub fn skewed(&mut self, end: u64) -> u64 {
        let unit = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        ((end as f64).powf(unit) as u64 - 1).min(end - 1)
    }
}

/// The blocks of a leaf: the rows of each, and their columns.
pub struct Leaf {
    pub columns: Arc<Columns>,
    pub blocks: Vec<Rows>,
}

/// Number of blocks that fit into a core's caches.
const HOT_BLOCKS: usize = 32;
/// Rounds, of which each block's best counts.
pub const ROUNDS: usize = 25;

/// Appends a string with its length in front.
pub fn prefixed(out: &mut Vec<u8>, text: &[u8]) {
    let mut length = text.len();
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend_from_slice(text);
}

/// Blocks of about `block_bytes` with rows from `row`.
pub fn blocks(
    count: usize,
    block_bytes: usize,
    mut row: impl FnMut() -> (Vec<u8>, Vec<u8>),
) -> Vec<Rows> {
    let mut block = || {
        let (mut rows, mut bytes) = (Rows::new(), 0);
        while bytes < block_bytes {
            let (key, value) = row();
            bytes += key.len() + value.len();
            rows.push((key, value));
        }
        rows
    };
    (0..count).map(|_| block()).collect()
}

/// The layout part of a string written by [`prefixed`].
pub fn text() -> Part {
    Part::Var(End::Prefixed)
}

/// Total length of rows.
pub fn row_bytes(rows: &Rows) -> usize {
    rows.iter().map(|(key, value)| key.len() + value.len()).sum()
}

impl Leaf {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.blocks.iter().map(Vec::len).sum()
    }

    /// Raw length of all rows.
    pub fn raw_bytes(&self) -> usize {
        self.blocks.iter().map(row_bytes).sum()
    }

    /// What a leaf like this one teaches the next: plans, and models of strings; and the ns that
    /// training took.
    pub fn trained(&self, codec: Codec) -> (Plans, ColumnarFormat, f64) {
        let mut builder =
            ColumnarBuilder::new(self.columns.clone(), codec, Plans::new(&self.columns));
        let mut samples = Some(Samples::new(&self.columns));
        for (number, rows) in self.blocks.iter().enumerate() {
            *builder.samples() = samples.take_if(|_| number % 4 == 0);
            build(&mut builder, rows, &[]);
            if let Some(kept) = builder.samples().take() {
                samples = Some(kept);
            }
        }
        let mut plans = builder.plans().clone();
        let mut models = vec![None; self.columns.count()];
        let samples = samples.expect("they were put back");
        let begin = Instant::now();
        let trained = samples.train(codec, self.rows());
        let nanos = begin.elapsed().as_nanos() as f64;
        for (number, trained) in trained {
            plans.set(number, &trained);
            models[number] = trained.model.map(Arc::new);
        }
        (plans, ColumnarFormat::new(self.columns.clone(), models), nanos)
    }

    /// Writes all blocks again and again: after the first round plans are in a steady state.
    pub fn write(&self, codec: Codec, plans: &Plans, format: &ColumnarFormat) -> Written {
        let mut nanos = vec![f64::MAX; self.blocks.len()];
        let (mut blocks, mut tried, mut measuring) = (Vec::new(), 0, Vec::new());
        let mut builder = ColumnarBuilder::new(self.columns.clone(), codec, plans.clone());
        for round in 0..ROUNDS {
            (blocks, tried) = (Vec::new(), 0);
            for (number, (rows, best)) in self.blocks.iter().zip(&mut nanos).enumerate() {
                let measured = builder.columns_measured();
                let begin = Instant::now();
                let block = build(&mut builder, black_box(rows), format.models());
                let took = begin.elapsed().as_nanos() as f64;
                blocks.push(block.to_vec());
                tried += builder.take_chunks().raw;
                if builder.columns_measured() == measured {
                    *best = best.min(took);
                } else if round > 0 {
                    measuring.push((number, took));
                }
            }
        }
        let mut sorted = nanos.clone();
        sorted.sort_by(f64::total_cmp);
        let known = sorted[sorted.len() / 2];
        // A block that was measured in every round is assumed to cost as much as others otherwise.
        let without = |number: usize| if nanos[number] < f64::MAX { nanos[number] } else { known };
        let more = measuring.iter().map(|&(number, took)| took - without(number));
        let measuring = more.sum::<f64>() / (self.blocks.len() * (ROUNDS - 1)) as f64;
        Written { blocks, tried, known, measuring }
    }
}

/// Written blocks, and ns per block.
pub struct Written {
    pub blocks: Vec<Vec<u8>>,
    /// How often the codec was tried without success.
    pub tried: u64,
    /// Most blocks: encoded by their plans.
    pub known: f64,
    /// The additional cost of measuring columns again, spread over all blocks.
    pub measuring: f64,
}

/// Builds a block of these rows.
pub fn build<'a>(builder: &'a mut ColumnarBuilder, rows: &Rows, models: &Models) -> &'a [u8] {
    builder.clear();
    for (key, value) in rows {
        assert_eq!(builder.push(key, Tag::PUT, value, 1 << 20), Pushed::Done);
    }
    builder.finish(models)
}

/// Microseconds to find a row by its key and extract it from its block: from one that was just
/// read, and from any of more blocks than a core's caches hold.
pub fn read(leaf: &Leaf, blocks: &[Vec<u8>], models: &Models) -> (f64, f64) {
    const COLD_BYTES: usize = 256 << 20;
    const READS: usize = 20_000;
    let (mut noise, mut payload) = (Noise(5), Vec::new());
    let mut one = |block: &[u8], key: &[u8]| {
        let columnar =
            ColumnarBlock::parse(black_box(block), &leaf.columns, models).expect("a block");
        let found = find_selected(
            &columnar,
            black_box(key),
            &ColumnSelection::All,
            &mut Chunks::default(),
            &mut payload,
        );
        assert!(found.expect("a search").is_some());
        black_box(&payload);
    };
    let mut hot = f64::MAX;
    for (rows, block) in leaf.blocks.iter().zip(blocks).take(HOT_BLOCKS) {
        for _ in 0..ROUNDS {
            let begin = Instant::now();
            rows.iter().for_each(|(key, _)| one(block, key));
            hot = hot.min(begin.elapsed().as_nanos() as f64 / rows.len() as f64);
        }
    }
    let leaf_bytes = blocks.iter().map(Vec::len).sum::<usize>();
    let copies: Vec<Vec<Vec<u8>>> = (0..COLD_BYTES / leaf_bytes).map(|_| blocks.to_vec()).collect();
    let mut cold = f64::MAX;
    for _ in 0..3 {
        let mut pick = |end: usize| noise.below(end as u64) as usize;
        let picks: Vec<(&[u8], Vec<u8>)> = (0..READS)
            .map(|_| {
                let (copy, number) = (pick(copies.len()), pick(blocks.len()));
                let rows = &leaf.blocks[number];
                (copies[copy][number].as_slice(), rows[pick(rows.len())].0.clone())
            })
            .collect();
        let begin = Instant::now();
        picks.iter().for_each(|(block, key)| one(block, key));
        cold = cold.min(begin.elapsed().as_nanos() as f64 / READS as f64);
    }
    (hot / 1000.0, cold / 1000.0)
}

/// Nanoseconds to scan all rows of a block that was just read.
pub fn scan(leaf: &Leaf, blocks: &[Vec<u8>], models: &Models) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        for block in blocks {
            let columnar =
                ColumnarBlock::parse(black_box(block), &leaf.columns, models).expect("a block");
            let mut rows = ColumnarRows::new(ColumnSelection::All);
            rows.first(&columnar).expect("a row");
            while rows.next(&columnar).expect("a row") {
                black_box(rows.payload());
            }
        }
        best = best.min(begin.elapsed().as_nanos() as f64 / blocks.len() as f64);
    }
    best
}
