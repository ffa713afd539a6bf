//! Encoding integer columns: computes the exact size of each kind, then writes the shortest.
//!
//! Cheap properties are computed for all values; expensive ones only where they can pay. Nothing is
//! written just to see its length. A caller can [keep](IntEncoder::encode_as) the kind chosen for
//! one block for the next, and learns the resulting length.

use super::{
    super::ROWS_MAX,
    Float, IntKind, bit_packed, decimal, delta, dictionary, pfor, rle, scaled, single_outlier,
    traits::{IntPlan, Scratch, Values},
};

/// The result of encoding a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chosen {
    /// The kind.
    pub kind: IntKind,
    /// For decimal and scaled columns: the kind of the column of numbers that they contain.
    pub numbers: Option<IntKind>,
    /// The length.
    pub bytes: usize,
}

/// Encodes integer columns; keeps its memory from one to the next.
#[derive(Debug, Default)]
pub struct IntEncoder {
    scratch: Scratch,
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

/// The kinds that are tried besides plain bit packing and read a row with one or two loads, in
/// order of reading speed.
const DIRECT: [IntKind; 4] =
    [IntKind::Linear, IntKind::SingleOutlier, IntKind::Pfor, IntKind::Dictionary];

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

/// Evaluates the expression for the plan of whichever encoding.
macro_rules! each {
    ($of:expr, $plan:ident => $call:expr) => {
        match $of {
            Plan::BitPacked($plan) => $call,
            Plan::SingleOutlier($plan) => $call,
            Plan::Pfor($plan) => $call,
            Plan::Rle($plan) => $call,
            Plan::Dictionary($plan) => $call,
            Plan::Delta($plan) => $call,
        }
    };
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
        // Scaled columns must save a tenth: every read divides or multiplies once more.
        let bytes = plan.bytes(values.len());
        match self.plan_scaled(values, None, bytes - bytes / 10) {
            Some(scaled) => self.write_scaled(scaled, out),
            None => self.write(plan, values, out),
        }
    }

    /// Encodes as [`encode`](Self::encode) does, but only in kinds that read any row with one or
    /// two loads, for values that are read on the way to something else: run-length and delta
    /// columns take ten times as long.
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
        match self.plan_scaled(values, None, bytes - bytes / 10) {
            Some(scaled) => scaled.chosen(values.len()),
            None => Chosen { kind: plan.kind(), numbers: None, bytes },
        }
    }

    /// Appends the values in this kind; in the shortest if this one cannot hold them, and for
    /// [`IntKind::Decimal`], which requires [`encode_floats_as`](IntEncoder::encode_floats_as). For
    /// scaled columns, the kind of the multiples may be given too.
    pub fn encode_as(
        &mut self,
        kind: IntKind,
        numbers: Option<IntKind>,
        values: &[u64],
        out: &mut Vec<u8>,
    ) -> Chosen {
        if kind == IntKind::Scaled
            && let Some(scaled) = self.plan_scaled(values, numbers, usize::MAX)
        {
            return self.write_scaled(scaled, out);
        }
        match self.plan_as(kind, values) {
            Some(plan) => self.write(plan, values, out),
            None => self.encode(values, out),
        }
    }

    /// Plans a scaled column, with multiples of the given or the best kind, if the values have a
    /// common step and the column takes less than `bytes_max`.
    fn plan_scaled(
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
        let scaled = Scaled { head, numbers };
        (scaled.chosen(values.len()).bytes < bytes_max).then_some(scaled)
    }

    /// Appends what was planned last.
    fn write_scaled(&mut self, scaled: Scaled, out: &mut Vec<u8>) -> Chosen {
        let Self { steps, numbers, .. } = self;
        scaled.head.write(out);
        numbers.get_or_insert_default().write(scaled.numbers, steps, out);
        scaled.chosen(steps.len())
    }

    fn plan(&mut self, values: &[u64], reads: Reads) -> Plan {
        let rows = values.len();
        assert!(rows <= ROWS_MAX, "{rows} rows in a column");
        let values = Values::of(values);
        let (min, max) = values.ends();
        let mut best = Plan::BitPacked(bit_packed::Plan::level(min, max));
        if min == max {
            return best;
        }
        // Cheap to compute, and often so short that nothing else needs to be tried.
        let any = reads == Reads::Any;
        let runs = any.then(|| rle::Plan::below(&values, best.bytes(rows), &mut self.scratch));
        let runs = runs.flatten();
        // Each kind gets the length that it has to beat. Run-length columns are the slowest kind
        // but one: a faster kind of the same length is preferred.
        let runs_bytes = runs.as_ref().map_or(usize::MAX, |runs| runs.bytes(rows));
        for kind in DIRECT {
            let bytes_max = best.bytes(rows).min(runs_bytes.saturating_add(1));
            best = Plan::below(kind, &values, bytes_max, &mut self.scratch).unwrap_or(best);
        }
        if !any {
            return best;
        }
        if let Some(plan) = runs.filter(|_| runs_bytes < best.bytes(rows)) {
            best = Plan::Rle(plan);
        }
        // Values that fall often are not tried: their differences are wider than they are.
        let bytes = best.bytes(rows);
        if delta::Plan::may_be_below(bytes) && values.falls() <= rows / 8 {
            best = Plan::below(IntKind::Delta, &values, bytes, &mut self.scratch).unwrap_or(best);
        }
        best
    }

    /// The shortest plan of this kind, if it can hold the values.
    fn plan_as(&mut self, kind: IntKind, values: &[u64]) -> Option<Plan> {
        let rows = values.len();
        assert!(rows <= ROWS_MAX, "{rows} rows in a column");
        Plan::below(kind, &Values::of(values), usize::MAX, &mut self.scratch)
    }

    fn write(&mut self, plan: Plan, values: &[u64], out: &mut Vec<u8>) -> Chosen {
        let (kind, bytes) = (plan.kind(), plan.bytes(values.len()));
        out.reserve(bytes);
        each!(plan, plan => plan.write(values, &mut self.scratch, out));
        Chosen { kind, numbers: None, bytes }
    }
}

/// A plan for a scaled column, and for its multiples.
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
    /// The shortest plan of this kind, if it can hold the values in less than `bytes_max` bytes.
    fn below(
        kind: IntKind,
        values: &Values<'_>,
        bytes_max: usize,
        scratch: &mut Scratch,
    ) -> Option<Self> {
        match kind {
            IntKind::Constant | IntKind::BitPacked => {
                let (min, max) = values.ends();
                let plan = bit_packed::Plan::level(min, max);
                let fits = (kind == IntKind::BitPacked || min == max)
                    && plan.bytes(values.all.len()) < bytes_max;
                fits.then_some(Self::BitPacked(plan))
            }
            IntKind::Linear => IntPlan::below(values, bytes_max, scratch).map(Self::BitPacked),
            IntKind::SingleOutlier => {
                IntPlan::below(values, bytes_max, scratch).map(Self::SingleOutlier)
            }
            IntKind::Pfor => IntPlan::below(values, bytes_max, scratch).map(Self::Pfor),
            IntKind::Dictionary => IntPlan::below(values, bytes_max, scratch).map(Self::Dictionary),
            IntKind::Rle => IntPlan::below(values, bytes_max, scratch).map(Self::Rle),
            IntKind::Delta => IntPlan::below(values, bytes_max, scratch).map(Self::Delta),
            // They contain a column of another kind.
            IntKind::Decimal | IntKind::Scaled => None,
        }
    }

    fn kind(&self) -> IntKind {
        each!(self, plan => plan.kind())
    }

    fn bytes(&self, rows: usize) -> usize {
        each!(self, plan => plan.bytes(rows))
    }
}
