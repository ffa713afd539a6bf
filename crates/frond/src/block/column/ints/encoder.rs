//! Writing integer columns: what each kind would take, exactly, and then the shortest.
//!
//! The values are looked at once for what is cheap to know of all of them; what costs more is asked
//! only of values for which it can pay. Nothing is written to see how long it gets. Who has chosen
//! once can [keep](IntEncoder::encode_as) the kind for the next block, and is told how long it got.

use super::{
    super::ROWS_MAX, Float, IntKind, decimal, dictionary, frames, lone, packed, patched, runs,
};

/// What became of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chosen {
    /// How it is written.
    pub kind: IntKind,
    /// How many bytes that takes.
    pub bytes: usize,
}

/// Encodes integer columns; keeps its memory from one to the next.
#[derive(Debug, Default)]
pub struct IntEncoder {
    distinct: dictionary::Distinct,
    frames: frames::Scratch,
    floats: decimal::Parts,
}

/// How fast a row must be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reads {
    Any,
    /// With a load or two.
    Direct,
}

/// How a column will be written.
#[derive(Clone, Copy, Debug)]
enum Plan {
    Packed(packed::Plan),
    Lone(lone::Plan),
    Patched(patched::Plan),
    Runs(runs::Plan),
    Dictionary(dictionary::Plan),
    Frames(frames::Plan),
}

/// What one look at the values tells.
#[derive(Clone, Copy, Debug)]
struct Seen {
    min: u64,
    max: u64,
    runs: usize,
    /// How often a value is below the one before.
    falls: usize,
}

impl Seen {
    fn of(values: &[u64]) -> Self {
        let Some(&first) = values.first() else {
            return Self { min: 0, max: 0, runs: 0, falls: 0 };
        };
        let (mut min, mut max, mut last) = (first, first, first);
        let (mut changes, mut falls) = (0, 0);
        for &value in values {
            (min, max) = (min.min(value), max.max(value));
            changes += usize::from(value != last);
            falls += usize::from(value < last);
            last = value;
        }
        Self { min, max, runs: changes + 1, falls }
    }
}

impl IntEncoder {
    /// An encoder.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends the values, at most [`ROWS_MAX`], in the kind that takes fewest bytes; of equals in
    /// the one that reads fastest. The padding ([`PAD_BYTES`](super::super::PAD_BYTES)) is the
    /// caller's to add after the last column.
    pub fn encode(&mut self, values: &[u64], out: &mut Vec<u8>) -> Chosen {
        let plan = self.plan(values, Reads::Any);
        self.write(plan, values, out)
    }

    /// The same, but only in kinds that read any row with a load or two, for what is read on the way to
    /// something else: runs and frames take ten times as long.
    pub fn encode_direct(&mut self, values: &[u64], out: &mut Vec<u8>) -> Chosen {
        let plan = self.plan(values, Reads::Direct);
        self.write(plan, values, out)
    }

    /// Appends floats, given in the form whose order as integers is theirs, as decimals if they are
    /// that and it is shorter, else like other integers.
    pub fn encode_floats(&mut self, float: Float, values: &[u64], out: &mut Vec<u8>) -> Chosen {
        let bytes_max = self.measure(values).bytes;
        let decimal = self.write_decimal(float, values, bytes_max, out);
        decimal.unwrap_or_else(|| self.encode(values, out))
    }

    /// Appends floats in this kind; in the shortest if this one cannot hold them.
    pub fn encode_floats_as(
        &mut self,
        kind: IntKind,
        float: Float,
        values: &[u64],
        out: &mut Vec<u8>,
    ) -> Chosen {
        if kind != IntKind::Decimal {
            return self.encode_as(kind, values, out);
        }
        let decimal = self.write_decimal(float, values, usize::MAX, out);
        decimal.unwrap_or_else(|| self.encode(values, out))
    }

    /// Appends floats as decimals, if they are that and take less than `bytes_max`.
    fn write_decimal(
        &mut self,
        float: Float,
        values: &[u64],
        bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> Option<Chosen> {
        let mut parts = std::mem::take(&mut self.floats);
        let decimal = decimal::Plan::of(float, values, &mut parts).and_then(|decimal| {
            let numbers = self.plan(&parts.numbers, Reads::Any);
            let bytes = decimal.bytes(&parts) + numbers.bytes(values.len());
            (bytes < bytes_max).then(|| {
                decimal.write(&parts, out);
                self.write(numbers, &parts.numbers, out);
                Chosen { kind: IntKind::Decimal, bytes }
            })
        });
        self.floats = parts;
        decimal
    }

    /// What [`encode`](IntEncoder::encode) would choose.
    pub fn measure(&mut self, values: &[u64]) -> Chosen {
        let plan = self.plan(values, Reads::Any);
        Chosen { kind: plan.kind(), bytes: plan.bytes(values.len()) }
    }

    /// Appends the values in this kind; in the shortest if this one cannot hold them, and for
    /// [`IntKind::Decimal`], which is asked for with [`encode_floats_as`](IntEncoder::encode_floats_as).
    pub fn encode_as(&mut self, kind: IntKind, values: &[u64], out: &mut Vec<u8>) -> Chosen {
        let plan = self.plan_as(kind, values).unwrap_or_else(|| self.plan(values, Reads::Any));
        self.write(plan, values, out)
    }

    fn plan(&mut self, values: &[u64], reads: Reads) -> Plan {
        let rows = values.len();
        assert!(rows <= ROWS_MAX, "{rows} rows in a column");
        let Seen { min, max, runs, falls } = Seen::of(values);
        let mut best = Plan::Packed(packed::Plan::level(min, max));
        if min == max {
            return best;
        }
        // In the order of how fast they read; each is told what it has to beat.
        let bytes = |best: &Plan| best.bytes(rows);
        if let Some(plan) = packed::Plan::sloped_below(values, bytes(&best)) {
            best = Plan::Packed(plan);
        }
        if let Some(plan) = lone::Plan::below(values, min, max, bytes(&best)) {
            best = Plan::Lone(plan);
        }
        if let Some(plan) = patched::Plan::below(values, min, max, bytes(&best)) {
            best = Plan::Patched(plan);
        }
        let distinct = &mut self.distinct;
        if let Some(plan) = dictionary::Plan::below(values, min, max, bytes(&best), distinct) {
            best = Plan::Dictionary(plan);
        }
        if reads == Reads::Direct {
            return best;
        }
        if let Some(plan) = runs::Plan::below(rows, runs, min, max, bytes(&best)) {
            best = Plan::Runs(plan);
        }
        // Values that fall all the time are not tried: their differences are wider than they are.
        if falls <= rows / 8
            && let Some(plan) = frames::Plan::below(values, falls, bytes(&best), &mut self.frames)
        {
            best = Plan::Frames(plan);
        }
        best
    }

    /// As few bytes as a column of this kind takes, if it can hold the values.
    fn plan_as(&mut self, kind: IntKind, values: &[u64]) -> Option<Plan> {
        let rows = values.len();
        assert!(rows <= ROWS_MAX, "{rows} rows in a column");
        let Seen { min, max, runs, falls } = Seen::of(values);
        let any = usize::MAX;
        match kind {
            IntKind::Constant if min < max => None,
            IntKind::Constant | IntKind::Level => Some(Plan::Packed(packed::Plan::level(min, max))),
            IntKind::Sloped => packed::Plan::sloped_below(values, any).map(Plan::Packed),
            IntKind::Lone => lone::Plan::below(values, min, max, any).map(Plan::Lone),
            IntKind::Patched => patched::Plan::below(values, min, max, any).map(Plan::Patched),
            IntKind::Dictionary => {
                let distinct = &mut self.distinct;
                dictionary::Plan::below(values, min, max, any, distinct).map(Plan::Dictionary)
            }
            IntKind::Runs => runs::Plan::below(rows, runs, min, max, any).map(Plan::Runs),
            IntKind::Frames => {
                frames::Plan::below(values, falls, any, &mut self.frames).map(Plan::Frames)
            }
            IntKind::Decimal => None,
        }
    }

    fn write(&mut self, plan: Plan, values: &[u64], out: &mut Vec<u8>) -> Chosen {
        let (kind, bytes) = (plan.kind(), plan.bytes(values.len()));
        out.reserve(bytes);
        match plan {
            Plan::Packed(plan) => plan.write(values, out),
            Plan::Lone(plan) => plan.write(values, out),
            Plan::Patched(plan) => plan.write(values, out),
            Plan::Runs(plan) => plan.write(values, out),
            Plan::Dictionary(plan) => plan.write(values, &mut self.distinct, out),
            Plan::Frames(plan) => plan.write(values, &self.frames, out),
        }
        Chosen { kind, bytes }
    }
}

impl Plan {
    fn kind(&self) -> IntKind {
        match self {
            Plan::Packed(plan) => plan.kind(),
            Plan::Lone(_) => IntKind::Lone,
            Plan::Patched(_) => IntKind::Patched,
            Plan::Runs(_) => IntKind::Runs,
            Plan::Dictionary(_) => IntKind::Dictionary,
            Plan::Frames(_) => IntKind::Frames,
        }
    }

    fn bytes(&self, rows: usize) -> usize {
        match self {
            Plan::Packed(plan) => plan.bytes(rows),
            Plan::Lone(plan) => plan.bytes(rows),
            Plan::Patched(plan) => plan.bytes(rows),
            Plan::Runs(plan) => plan.bytes(rows),
            Plan::Dictionary(plan) => plan.bytes(rows),
            Plan::Frames(plan) => plan.bytes(),
        }
    }
}
