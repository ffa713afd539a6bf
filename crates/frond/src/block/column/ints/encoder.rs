//! Writing integer columns: what each kind would take, exactly, and then the shortest.
//!
//! The values are looked at once for what is cheap to know of all of them; what costs more is asked
//! only of values for which it can pay. Nothing is written to see how long it gets. Who has chosen
//! once can [keep](IntEncoder::encode_as) the kind for the next block, and is told how long it got.

use super::{super::ROWS_MAX, IntKind, packed};

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
pub struct IntEncoder {}

/// How a column will be written.
#[derive(Clone, Copy, Debug)]
enum Plan {
    Packed(packed::Plan),
}

/// What one look at the values tells.
#[derive(Clone, Copy, Debug)]
struct Seen {
    min: u64,
    max: u64,
}

impl Seen {
    fn of(values: &[u64]) -> Self {
        let (mut min, mut max) = (u64::MAX, 0);
        for &value in values {
            (min, max) = (min.min(value), max.max(value));
        }
        Self { min: min.min(max), max }
    }
}

impl IntEncoder {
    /// An encoder.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends the values, at most [`ROWS_MAX`], in the kind that takes fewest bytes. The padding
    /// ([`PAD_BYTES`](super::super::PAD_BYTES)) is the caller's to add after the last column.
    pub fn encode(&mut self, values: &[u64], out: &mut Vec<u8>) -> Chosen {
        let (plan, chosen) = self.plan(values);
        plan.write(values, out);
        chosen
    }

    /// What [`encode`](IntEncoder::encode) would choose.
    pub fn measure(&mut self, values: &[u64]) -> Chosen {
        self.plan(values).1
    }

    /// Appends the values in this kind; in the shortest if this one cannot hold them.
    pub fn encode_as(&mut self, kind: IntKind, values: &[u64], out: &mut Vec<u8>) -> Chosen {
        let Some(plan) = self.plan_as(kind, values) else { return self.encode(values, out) };
        let bytes = plan.bytes(values.len());
        plan.write(values, out);
        Chosen { kind: plan.kind(), bytes }
    }

    fn plan(&mut self, values: &[u64]) -> (Plan, Chosen) {
        assert!(values.len() <= ROWS_MAX, "{} rows in a column", values.len());
        let shortest = packed::Plan::shortest(values);
        let (plan, bytes) = (Plan::Packed(shortest), shortest.bytes(values.len()));
        (plan, Chosen { kind: plan.kind(), bytes })
    }

    fn plan_as(&mut self, kind: IntKind, values: &[u64]) -> Option<Plan> {
        assert!(values.len() <= ROWS_MAX, "{} rows in a column", values.len());
        let Seen { min, max } = Seen::of(values);
        let level = packed::Plan::level(min, max);
        match kind {
            IntKind::Constant => (min == max).then_some(Plan::Packed(level)),
            IntKind::Level => Some(Plan::Packed(level)),
            IntKind::Sloped => packed::Plan::sloped(values, usize::MAX).map(Plan::Packed),
        }
    }
}

impl Plan {
    fn kind(&self) -> IntKind {
        match self {
            Plan::Packed(plan) => plan.kind(),
        }
    }

    fn bytes(&self, rows: usize) -> usize {
        match self {
            Plan::Packed(plan) => plan.bytes(rows),
        }
    }

    fn write(&self, values: &[u64], out: &mut Vec<u8>) {
        match self {
            Plan::Packed(plan) => plan.write(values, out),
        }
    }
}
