//! Test data to corrupt: real blocks, of runs as the engine builds them, of trees of all kinds.
//!
//! A tree is generated at random: which parts its keys and values have, and how each part's values
//! continue from row to row, so that every column encoding occurs. Its second leaf uses the models
//! trained on the first.

use std::{collections::BTreeMap, sync::Arc};

use frond::{
    feed::{Kind, Tag},
    internals::{
        block::{Codec, Format},
        cache::FramePool,
        run::{OPERATOR_ADD, ReadBuf, RowSchema, Run, RunBuilder, RunOptions, put_operand},
    },
    layout::{End, Hint, Layout, Part},
};
use frond_testkit::Dice;

/// Rows of a leaf: enough to train models.
const ROWS: u64 = 2500;

pub type Rows = BTreeMap<Vec<u8>, (Tag, Vec<u8>)>;

/// How the values of a part continue from row to row.
#[derive(Clone, Copy)]
pub enum Course {
    Same,
    Ascending(u64),
    Few(u64),
    Far,
    Tailed,
    Steps,
    Lasting,
    /// A time after the number before it in the row.
    Behind,
    /// Times within one day, in no order.
    Moment,
    /// Grows with the number before it in the row, a third as fast.
    Along,
    Decimals,
    Anything,
}

#[derive(Clone, Copy)]
pub enum Text {
    Words,
    Hex,
    Numbers,
    Prose,
    Repeated,
    Noise,
    /// Of a few templates, and some of none.
    Calls,
    /// Contains the text before it in the row.
    Referring,
}

#[derive(Clone)]
enum Recipe {
    Number(u16, Hint, Course),
    String(Part, Text),
}

/// One tree: its layouts, its rows, and a leaf of them.
pub struct Tree {
    pub schema: Option<Arc<RowSchema>>,
    pub options: RunOptions,
    pub rows: Rows,
    pub run: Arc<Run>,
}

/// A block of it, as stored and as decoded.
#[derive(Clone)]
pub struct Block {
    pub raw: Vec<u8>,
    pub rows: u32,
    pub row_bytes: u32,
    /// Some of its keys.
    pub keys: Vec<Vec<u8>>,
}

pub fn pool() -> Arc<FramePool> {
    FramePool::new(64 << 20)
}

impl Course {
    pub fn random(dice: &mut Dice) -> Self {
        let step = 1 + dice.below(9);
        let long = 1 << dice.below(30);
        let few = 2 + dice.below(40);
        let courses = [
            Self::Same,
            Self::Ascending(step),
            Self::Ascending(long),
            Self::Few(few),
            Self::Far,
            Self::Tailed,
            Self::Steps,
            Self::Lasting,
            Self::Behind,
            Self::Moment,
            Self::Along,
            Self::Decimals,
            Self::Anything,
        ];
        *dice.pick(&courses)
    }
}

impl Text {
    pub fn random(dice: &mut Dice) -> Self {
        let all = [
            Self::Words,
            Self::Hex,
            Self::Numbers,
            Self::Prose,
            Self::Repeated,
            Self::Noise,
            Self::Calls,
            Self::Referring,
        ];
        *dice.pick(&all)
    }
}

impl Recipe {
    fn random(dice: &mut Dice, of_key: bool, last: bool) -> Self {
        let (course, text) = (Course::random(dice), Text::random(dice));
        match dice.below(if of_key { 9 } else { 14 }) {
            0..=3 => Self::Number(8, Hint::Integer, course),
            4 => Self::Number(*dice.pick(&[1, 2, 3, 4, 6]), Hint::None, course),
            5 => Self::Number(*dice.pick(&[12, 16, 24]), Hint::Integer, course),
            6 if last => Self::String(Part::Var(End::Rest), text),
            6 => Self::String(Part::Var(End::Prefixed), text),
            7 => Self::String(Part::Var(End::Escaped), text),
            8 => Self::String(Part::Var(End::EscapedDescending), text),
            9 => Self::Number(8, Hint::Float, Course::Decimals),
            10 => Self::Number(4, Hint::Float, Course::Decimals),
            11 => Self::String(Part::Fixed(20, Hint::None), text),
            12 if last => Self::String(Part::Var(End::Rest), text),
            _ => Self::String(Part::Var(End::Prefixed), text),
        }
    }

    fn part(&self) -> Part {
        match *self {
            Self::Number(width, hint, _) => Part::Fixed(width, hint),
            Self::String(part, _) => part,
        }
    }

    /// Appends a value; `before` and `said` are the number and the text before it in the row.
    fn put(
        &self,
        dice: &mut Dice,
        row: u64,
        before: u64,
        said: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> u64 {
        match self {
            Self::Number(width, hint, course) => {
                let number = number(dice, *course, row, before);
                let bits = match (hint, width) {
                    (Hint::Float, 4) => u64::from((number as f32 / 100.0).to_bits() ^ 1 << 31),
                    (Hint::Float, _) => (number as f64 / 100.0).to_bits() ^ 1 << 63,
                    _ => number,
                };
                let bytes = bits.to_be_bytes();
                let width = usize::from(*width);
                out.extend(std::iter::repeat_n(0, width.saturating_sub(8)));
                out.extend_from_slice(&bytes[8 - width.min(8)..]);
                number
            }
            Self::String(part, sort) => {
                let content = match sort {
                    Text::Referring => [b"/pool/", &said[..], b".deb"].concat(),
                    sort => text(dice, *sort, row),
                };
                said.clone_from(&content);
                match *part {
                    Part::Version(version) => out.extend_from_slice(&version.to_be_bytes()),
                    Part::Fixed(width, _) => {
                        let content = content.iter().copied().chain(std::iter::repeat(b' '));
                        out.extend(content.take(width.into()));
                    }
                    Part::Var(End::Rest) => out.extend_from_slice(&content),
                    Part::Var(End::Prefixed) => {
                        let mut length = content.len();
                        while length >= 0x80 {
                            out.push(length as u8 | 0x80);
                            length >>= 7;
                        }
                        out.push(length as u8);
                        out.extend_from_slice(&content);
                    }
                    Part::Var(end) => {
                        let flip = if end == End::EscapedDescending { 0xff } else { 0 };
                        let escaped = content.iter().flat_map(|&byte| match byte {
                            0 => vec![0, 0xff],
                            byte => vec![byte],
                        });
                        out.extend(escaped.chain([0, 1]).map(|byte| byte ^ flip));
                    }
                }
                before
            }
        }
    }
}

pub fn number(dice: &mut Dice, course: Course, row: u64, before: u64) -> u64 {
    match course {
        Course::Same => 7,
        Course::Ascending(step) => row * step + dice.below(step),
        Course::Few(count) => dice.below(count).wrapping_mul(0x1234_5678_9abc),
        Course::Far if dice.chance(1, 5) => 0,
        Course::Far => 1_700_000_000_000_000 + dice.below(5000),
        Course::Tailed if dice.chance(1, 20) => dice.bits() >> dice.below(40),
        Course::Tailed => dice.below(60),
        Course::Steps => 500 + 1_000_000 * dice.below(300),
        Course::Lasting => row / 70 * 31,
        Course::Behind => before.wrapping_add(dice.below(50)).wrapping_sub(3),
        Course::Moment => 1_700_000_000_000_000 + dice.below(86_400_000),
        Course::Along => (before / 3).wrapping_add(dice.below(9)),
        Course::Decimals if dice.chance(1, 30) => dice.bits(),
        Course::Decimals => dice.below(20_000),
        Course::Anything => dice.bits(),
    }
}

pub fn text(dice: &mut Dice, sort: Text, row: u64) -> Vec<u8> {
    const WORDS: [&str; 12] = [
        "main",
        "contrib",
        "universe",
        "queue",
        "a",
        "",
        "customer",
        "customers",
        "delivered",
        "x",
        "yes",
        "no",
    ];
    match sort {
        Text::Words => dice.pick(&WORDS).as_bytes().to_vec(),
        Text::Hex if dice.chance(1, 60) => b"none".to_vec(),
        Text::Hex => {
            let bits = dice.bits();
            format!("{:08x}-{:04x}", bits as u32, (bits >> 32) as u16).into_bytes()
        }
        Text::Numbers => {
            let digits = dice.between(1, 30);
            dice.below(1 << digits).to_string().into_bytes()
        }
        Text::Prose => {
            let count = 2 + dice.below(9);
            (0..count).flat_map(|_| dice.pick(&WORDS).bytes().chain([b' '])).collect()
        }
        Text::Repeated => format!("/var/lib/frond/table-{:04}/{}", row / 9, row % 9).into_bytes(),
        Text::Noise => (0..dice.below(12)).map(|_| dice.bits() as u8).collect(),
        Text::Calls => match dice.below(20) {
            0 => format!("{} failed at {row}", dice.pick(&WORDS)).into_bytes(),
            1..8 => format!("@Id={},@To='{}'", dice.below(1 << 30), dice.pick(&WORDS)).into_bytes(),
            8..14 => format!("@Day='2026-{:02}-01',@Id={row}", 1 + dice.below(12)).into_bytes(),
            _ => {
                let (high, low) = (dice.bits(), dice.bits());
                let (head, tail) = (high as u32, low & 0xffff_ffff_ffff);
                format!("@Key='{head:08X}-{:04X}-4ABC-9ABC-{tail:012X}'", low >> 48).into_bytes()
            }
        },
        Text::Referring => format!("/pool/{}.deb", row % 40).into_bytes(),
    }
}

fn side(dice: &mut Dice, of_key: bool) -> Vec<Recipe> {
    let count = 1 + dice.below(if of_key { 4 } else { 6 });
    (0..count).map(|number| Recipe::random(dice, of_key, number + 1 == count)).collect()
}

/// Values whose parts are correlated, and calls: they are encoded as differences, lines,
/// references, and templates.
fn related() -> [Vec<Recipe>; 2] {
    let number = |course| Recipe::Number(8, Hint::Integer, course);
    let string = |text| Recipe::String(Part::Var(End::Prefixed), text);
    let numbers = [Course::Moment, Course::Behind, Course::Along].map(number);
    let strings = [Text::Hex, Text::Referring, Text::Calls].map(string);
    [vec![number(Course::Ascending(9))], [numbers, strings].concat()]
}

fn rows(dice: &mut Dice, key: &[Recipe], value: &[Recipe], first: u64) -> Rows {
    // Some trees have messages of all kinds, and rows that do not fit their layout.
    let (mixed, misfits) = (dice.chance(1, 3), dice.chance(1, 4));
    let mut rows = Rows::new();
    for row in first..first + ROWS {
        let (mut bytes, mut before) = (Vec::new(), row * 40);
        let mut said = Vec::new();
        key.iter().for_each(|part| before = part.put(dice, row, before, &mut said, &mut bytes));
        if misfits && dice.chance(1, 200) {
            bytes.truncate(bytes.len() / 2);
        }
        let tag = match dice.below(24) {
            0 if mixed => Tag::DELETE,
            1 if mixed => Tag::MERGE,
            2 if mixed => Tag::PUT_BLOB,
            3 => Tag::PUT_FRESH,
            _ => Tag::PUT,
        };
        let mut payload = Vec::new();
        match tag.kind() {
            Kind::Put if misfits && dice.chance(1, 50) => payload = text(dice, Text::Noise, row),
            Kind::Put => {
                value
                    .iter()
                    .for_each(|part| before = part.put(dice, row, before, &mut said, &mut payload));
            }
            Kind::Merge => put_operand(&mut payload, OPERATOR_ADD, &dice.bits().to_le_bytes()),
            Kind::PutBlob => payload = vec![3; 16],
            Kind::Delete | Kind::Versions => {}
        }
        rows.insert(bytes, (tag, payload));
    }
    rows
}

fn leaf(rows: &Rows, schema: Option<&Arc<RowSchema>>, options: RunOptions) -> Arc<Run> {
    let mut builder = match schema {
        Some(schema) => RunBuilder::columnar(pool(), options, schema, None),
        None => RunBuilder::new(pool(), options),
    };
    for (key, (tag, payload)) in rows {
        builder.push(key, *tag, payload).expect("keys ascend");
    }
    builder.finish().expect("it fits").expect("it has rows")
}

impl Tree {
    /// A random tree, one in eight with row blocks.
    pub fn random(dice: &mut Dice) -> Self {
        let [key, mut value] = match dice.chance(1, 5) {
            true => related(),
            false => [side(dice, true), side(dice, false)],
        };
        if dice.chance(1, 6) {
            value.insert(
                0,
                Recipe::String(Part::Version(dice.below(300) as u16), Text::random(dice)),
            );
        }
        let parts = |side: &[Recipe]| Layout::new(side.iter().map(Recipe::part).collect());
        let columnar = !dice.chance(1, 8);
        let schema = RowSchema::of(Some(&parts(&key)), Some(&parts(&value)), None, None)
            .filter(|_| columnar);
        let options = RunOptions {
            codec: *dice.pick(&[Codec::Raw, Codec::Lz4, Codec::Zstd1, Codec::Zstd1, Codec::Zstd3]),
            filter_bits: dice.chance(1, 3).then_some(10),
            block_bytes: *dice.pick(&[250, 400, 800, 2000]),
        };
        if schema.is_some() {
            leaf(&rows(dice, &key, &value, 0), schema.as_ref(), options);
        }
        let rows = rows(dice, &key, &value, ROWS);
        let run = leaf(&rows, schema.as_ref(), options);
        Self { schema, options, rows, run }
    }

    /// Some of its blocks.
    pub fn blocks(&self, dice: &mut Dice, count: u64) -> Vec<Block> {
        let mut buf = ReadBuf::new(pool());
        let numbers: Vec<u64> =
            (0..count).map(|_| dice.below(self.run.block_count() as u64)).collect();
        let mut block = |number: u64| {
            let index = number as usize;
            let entry = *self.run.blocks().entry(index).expect("there is one");
            let encoded = self.run.encoded_block(index, &mut buf).expect("it is whole");
            let mut raw = vec![0; entry.raw_bytes as usize];
            entry.packing.decode(None, encoded, &mut raw).expect("it was encoded");
            let first = self.run.blocks().separator(index);
            let own = self.rows.range(first.to_vec()..).map(|(key, _)| key.clone());
            let keys = own.take(entry.rows as usize).step_by(1 + entry.rows as usize / 4);
            Block { raw, rows: entry.rows, row_bytes: entry.row_bytes, keys: keys.collect() }
        };
        numbers.into_iter().map(&mut block).collect()
    }

    pub fn format(&self) -> &Format {
        self.run.format()
    }
}
