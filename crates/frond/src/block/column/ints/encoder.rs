//! Encoding integer columns: computes the exact size of each kind, then writes the shortest.
//!
//! Cheap properties are computed for all values; expensive ones only where they can pay. Nothing is
//! written just to see its length. A caller that has chosen once can [keep](IntEncoder::encode_as)
//! the kind for the next block, and gets the resulting length.

use super::{
    super::ROWS_MAX, Float, IntKind, bit_packed, decimal, delta, dictionary, pfor, rle, scaled,
    single_outlier,
};

/// The result of encoding a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chosen {
    /// Its kind.
    pub kind: IntKind,
    /// The kind of the whole numbers of decimals and of steps.
    pub numbers: Option<IntKind>,
    /// Its length.
    pub bytes: usize,
}

/// Encodes integer columns; keeps its memory from one to the next.
#[derive(Debug, Default)]
pub struct IntEncoder {
    distinct: dictionary::Distinct,
    frames: delta::Scratch,
    floats: decimal::Parts,
    steps: Vec<u64>,
    /// Encodes the values of `floats` and `steps` while the plan for the original values is kept.
    numbers: Option<Box<IntEncoder>>,
}

/// How fast a row must be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reads {
    Any,
    /// With one or two loads.
    Direct,
}

/// How a column will be encoded.
#[derive(Clone, Copy, Debug)]
enum Plan {
    BitPacked(bit_packed::Plan),
    SingleOutlier(single_outlier::Plan),
    Pfor(pfor::Plan),
    Rle(rle::Plan),
    Dictionary(dictionary::Plan),
    Delta(delta::Plan),
}

/// The least and the largest value; 0 and 0 if there are none.
fn ends_of(values: &[u64]) -> (u64, u64) {
    let Some(&first) = values.first() else { return (0, 0) };
    // Four at a time, so that none waits for the one before.
    let (mut least, mut most) = ([first; 4], [first; 4]);
    let (fours, rest) = values.as_chunks::<4>();
    for four in fours {
        for (value, (least, most)) in four.iter().zip(least.iter_mut().zip(&mut most)) {
            (*least, *most) = ((*least).min(*value), (*most).max(*value));
        }
    }
    let all = |ends: [u64; 4]| ends.into_iter().chain(rest.iter().copied());
    (all(least).min().unwrap_or(first), all(most).max().unwrap_or(first))
}

/// Number of runs of equal values.
fn runs_of(values: &[u64]) -> usize {
    let changes = values.iter().zip(values.iter().skip(1)).filter(|(a, b)| a != b).count();
    changes + usize::from(!values.is_empty())
}

/// Number of values that are below their predecessor.
fn falls_of(values: &[u64]) -> usize {
    values.iter().zip(values.iter().skip(1)).filter(|(a, b)| b < a).count()
}

impl IntEncoder {
    /// Creates an encoder.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends the values, at most [`ROWS_MAX`], in the kind that takes fewest bytes; among equals
    /// in the one that reads fastest. The caller must add the padding
    /// ([`PAD_BYTES`](super::super::PAD_BYTES)) after the last column.
    pub fn encode(&mut self, values: &[u64], out: &mut Vec<u8>) -> Chosen {
        let plan = self.plan(values, Reads::Any);
        // Stepped columns must save a tenth: every read divides or multiplies once more.
        let bytes = plan.bytes(values.len());
        match self.plan_stepped(values, None, bytes - bytes / 10) {
            Some(stepped) => self.write_scaled(stepped, out),
            None => self.write(plan, values, out),
        }
    }

    /// Encodes as [`encode`](Self::encode) does, but only in kinds that read any row with one or
    /// two loads, for values that are read on the way to something else: runs and frames take ten
    /// times as long.
    pub fn encode_direct(&mut self, values: &[u64], out: &mut Vec<u8>) -> Chosen {
        let plan = self.plan(values, Reads::Direct);
        self.write(plan, values, out)
    }

    /// Appends floats, given in the form whose order as integers is theirs: as decimals if they are
    /// decimals and this is shorter, else like other integers.
    pub fn encode_floats(&mut self, float: Float, values: &[u64], out: &mut Vec<u8>) -> Chosen {
        let bytes_max = self.measure(values).bytes;
        let decimal = self.write_decimal(float, None, values, bytes_max, out);
        decimal.unwrap_or_else(|| self.encode(values, out))
    }

    /// Appends floats in this kind; in the shortest if this one cannot hold them. For decimals, the
    /// kind of the whole numbers may be given too.
    pub fn encode_floats_as(
        &mut self,
        kind: IntKind,
        numbers: Option<IntKind>,
        float: Float,
        values: &[u64],
        out: &mut Vec<u8>,
    ) -> Chosen {
        if kind != IntKind::Decimal {
            return self.encode_as(kind, numbers, values, out);
        }
        let decimal = self.write_decimal(float, numbers, values, usize::MAX, out);
        decimal.unwrap_or_else(|| self.encode(values, out))
    }

    /// Appends floats as decimals, if they are decimals and take less than `bytes_max`.
    fn write_decimal(
        &mut self,
        float: Float,
        numbers: Option<IntKind>,
        values: &[u64],
        bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> Option<Chosen> {
        let mut parts = std::mem::take(&mut self.floats);
        let decimal = decimal::Plan::of(float, values, &mut parts).and_then(|decimal| {
            let known = numbers.and_then(|kind| self.plan_as(kind, &parts.numbers));
            let numbers = known.unwrap_or_else(|| self.plan(&parts.numbers, Reads::Any));
            let bytes = decimal.bytes(&parts) + numbers.bytes(values.len());
            (bytes < bytes_max).then(|| {
                decimal.write(&parts, out);
                let numbers = self.write(numbers, &parts.numbers, out).kind;
                Chosen { kind: IntKind::Decimal, numbers: Some(numbers), bytes }
            })
        });
        self.floats = parts;
        decimal
    }

    /// Returns what [`encode`](IntEncoder::encode) would choose.
    pub fn measure(&mut self, values: &[u64]) -> Chosen {
        let plan = self.plan(values, Reads::Any);
        let bytes = plan.bytes(values.len());
        match self.plan_stepped(values, None, bytes - bytes / 10) {
            Some(stepped) => stepped.chosen(values.len()),
            None => Chosen { kind: plan.kind(), numbers: None, bytes },
        }
    }

    /// Appends the values in this kind; in the shortest if this one cannot hold them, and for
    /// [`IntKind::Decimal`], which requires [`encode_floats_as`](IntEncoder::encode_floats_as). For
    /// steps, the kind of the multiples may be given too.
    pub fn encode_as(
        &mut self,
        kind: IntKind,
        numbers: Option<IntKind>,
        values: &[u64],
        out: &mut Vec<u8>,
    ) -> Chosen {
        if kind == IntKind::Scaled
            && let Some(stepped) = self.plan_stepped(values, numbers, usize::MAX)
        {
            return self.write_scaled(stepped, out);
        }
        match self.plan_as(kind, values) {
            Some(plan) => self.write(plan, values, out),
            None => self.encode(values, out),
        }
    }

    /// Plans values as steps, with multiples of the given or the best kind, if they have a step and
    /// take less than `bytes_max`.
    fn plan_stepped(
        &mut self,
        values: &[u64],
        known: Option<IntKind>,
        bytes_max: usize,
    ) -> Option<Scaled> {
        let Self { steps, numbers, .. } = self;
        let head = scaled::Plan::below(values, bytes_max, steps)?;
        let encoder = numbers.get_or_insert_default();
        let known = known.and_then(|kind| encoder.plan_as(kind, steps));
        let numbers = known.unwrap_or_else(|| encoder.plan(steps, Reads::Any));
        let stepped = Scaled { head, numbers };
        (stepped.chosen(values.len()).bytes < bytes_max).then_some(stepped)
    }

    /// Appends what was planned last.
    fn write_scaled(&mut self, stepped: Scaled, out: &mut Vec<u8>) -> Chosen {
        let Self { steps, numbers, .. } = self;
        stepped.head.write(out);
        numbers.get_or_insert_default().write(stepped.numbers, steps, out);
        stepped.chosen(steps.len())
    }

    fn plan(&mut self, values: &[u64], reads: Reads) -> Plan {
        let rows = values.len();
        assert!(rows <= ROWS_MAX, "{rows} rows in a column");
        let (min, max) = ends_of(values);
        let mut best = Plan::BitPacked(bit_packed::Plan::level(min, max));
        if min == max {
            return best;
        }
        // Cheap to compute, and often so short that nothing else needs to be tried.
        let level_bytes = best.bytes(rows);
        let any = reads == Reads::Any;
        let runs = any.then(|| rle::Plan::below(rows, runs_of(values), min, max, level_bytes));
        let runs = runs.flatten();
        // In order of reading speed; each gets the length that it has to beat. Runs are the slowest
        // but one: a faster kind of the same length is preferred.
        let runs_bytes = runs.as_ref().map_or(usize::MAX, |runs| runs.bytes(rows));
        let bytes = |best: &Plan| best.bytes(rows).min(runs_bytes.saturating_add(1));
        if let Some(plan) = bit_packed::Plan::linear_below(values, bytes(&best)) {
            best = Plan::BitPacked(plan);
        }
        if let Some(plan) = single_outlier::Plan::below(values, min, max, bytes(&best)) {
            best = Plan::SingleOutlier(plan);
        }
        if let Some(plan) = pfor::Plan::below(values, min, max, bytes(&best)) {
            best = Plan::Pfor(plan);
        }
        let distinct = &mut self.distinct;
        if let Some(plan) = dictionary::Plan::below(values, min, max, bytes(&best), distinct) {
            best = Plan::Dictionary(plan);
        }
        if !any {
            return best;
        }
        if let Some(plan) = runs.filter(|_| runs_bytes < best.bytes(rows)) {
            best = Plan::Rle(plan);
        }
        // Values that fall often are not tried: their differences are wider than they are.
        let bytes = best.bytes(rows);
        if delta::Plan::may_be_below(bytes)
            && let falls = falls_of(values)
            && falls <= rows / 8
            && let Some(plan) = delta::Plan::below(values, falls, bytes, &mut self.frames)
        {
            best = Plan::Delta(plan);
        }
        best
    }

    /// The shortest plan of this kind, if it can hold the values.
    fn plan_as(&mut self, kind: IntKind, values: &[u64]) -> Option<Plan> {
        let rows = values.len();
        assert!(rows <= ROWS_MAX, "{rows} rows in a column");
        let any = usize::MAX;
        let (min, max) = match kind {
            // These kinds need other properties.
            IntKind::Linear | IntKind::Delta | IntKind::Decimal | IntKind::Scaled => (0, 0),
            _ => ends_of(values),
        };
        match kind {
            IntKind::Constant if min < max => None,
            IntKind::Constant | IntKind::BitPacked => {
                Some(Plan::BitPacked(bit_packed::Plan::level(min, max)))
            }
            IntKind::Linear => bit_packed::Plan::linear_below(values, any).map(Plan::BitPacked),
            IntKind::SingleOutlier => {
                single_outlier::Plan::below(values, min, max, any).map(Plan::SingleOutlier)
            }
            IntKind::Pfor => pfor::Plan::below(values, min, max, any).map(Plan::Pfor),
            IntKind::Dictionary => {
                let distinct = &mut self.distinct;
                dictionary::Plan::below(values, min, max, any, distinct).map(Plan::Dictionary)
            }
            IntKind::Rle => rle::Plan::below(rows, runs_of(values), min, max, any).map(Plan::Rle),
            IntKind::Delta => {
                let falls = falls_of(values);
                delta::Plan::below(values, falls, any, &mut self.frames).map(Plan::Delta)
            }
            IntKind::Decimal | IntKind::Scaled => None,
        }
    }

    fn write(&mut self, plan: Plan, values: &[u64], out: &mut Vec<u8>) -> Chosen {
        let (kind, bytes) = (plan.kind(), plan.bytes(values.len()));
        out.reserve(bytes);
        match plan {
            Plan::BitPacked(plan) => plan.write(values, out),
            Plan::SingleOutlier(plan) => plan.write(values, out),
            Plan::Pfor(plan) => plan.write(values, out),
            Plan::Rle(plan) => plan.write(values, out),
            Plan::Dictionary(plan) => plan.write(values, &mut self.distinct, out),
            Plan::Delta(plan) => plan.write(values, &self.frames, out),
        }
        Chosen { kind, numbers: None, bytes }
    }
}

/// A plan for values as steps, and for their multiples.
#[derive(Clone, Copy, Debug)]
struct Scaled {
    head: scaled::Plan,
    numbers: Plan,
}

impl Scaled {
    fn chosen(&self, rows: usize) -> Chosen {
        let bytes = self.head.bytes() + self.numbers.bytes(rows);
        Chosen { kind: IntKind::Scaled, numbers: Some(self.numbers.kind()), bytes }
    }
}

impl Plan {
    fn kind(&self) -> IntKind {
        match self {
            Plan::BitPacked(plan) => plan.kind(),
            Plan::SingleOutlier(_) => IntKind::SingleOutlier,
            Plan::Pfor(_) => IntKind::Pfor,
            Plan::Rle(_) => IntKind::Rle,
            Plan::Dictionary(_) => IntKind::Dictionary,
            Plan::Delta(_) => IntKind::Delta,
        }
    }

    fn bytes(&self, rows: usize) -> usize {
        match self {
            Plan::BitPacked(plan) => plan.bytes(rows),
            Plan::SingleOutlier(plan) => plan.bytes(rows),
            Plan::Pfor(plan) => plan.bytes(rows),
            Plan::Rle(plan) => plan.bytes(rows),
            Plan::Dictionary(plan) => plan.bytes(rows),
            Plan::Delta(plan) => plan.bytes(),
        }
    }
}
