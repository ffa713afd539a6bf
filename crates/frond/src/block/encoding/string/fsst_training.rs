//! Training of symbol tables: a few rounds over a sample, each of which encodes it with the symbols
//! of the previous round.
//!
//! A round counts how often each symbol (or byte that is none) occurs in the sample and how often
//! each pair of them does. Candidates for the next round are the symbols and the joined pairs; a
//! candidate's gain is the number of bytes that it would represent, and the 255 best are kept. So
//! symbols grow, at most doubling in a round, and pieces that looked good but lose their text to
//! others are dropped again. Early rounds use only a part of the sample. (FSST's algorithm; see
//! `fsst.rs`.)

use super::{
    fsst::{Matcher, SYMBOL_BYTES_MAX, SYMBOLS_MAX, Symbol, Symbols},
    strings::Strings,
};

/// Limits of the sample: number of strings, evenly spread, total bytes, and bytes of each string.
const SAMPLE_STRINGS_MAX: usize = 400;
const SAMPLE_BYTES_MAX: usize = 32 << 10;
const SAMPLE_STRING_BYTES_MAX: usize = 1 << 10;

/// The part of the sample that each round uses, in eighths.
const ROUNDS: [usize; 5] = [1, 3, 5, 7, 8];

/// Single bytes that are no symbol, then symbols.
const CODES: usize = 512;

/// The counts of one round, half a MiB.
struct Counts {
    single: [u32; CODES],
    /// Indexed by first and second code. The sample is short: no count overflows.
    pairs: Vec<u16>,
}

/// A candidate, and the bytes that it represents in the sample.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    symbol: Symbol,
    gain: u32,
}

/// The symbols of `strings`; `None` if there is nothing to learn.
pub(super) fn train(strings: &Strings) -> Option<Symbols> {
    let sample = sample(strings);
    if sample.is_empty() {
        return None;
    }
    let mut counts = Counts { single: [0; CODES], pairs: vec![0; CODES * CODES] };
    let mut candidates = Vec::new();
    let mut matcher = Matcher::default();
    for eighths in ROUNDS {
        let seen = (sample.len() * eighths).div_ceil(8);
        counts.single.fill(0);
        counts.pairs.fill(0);
        for text in &sample[..seen] {
            count(&matcher, text, &mut counts);
        }
        let last = eighths == 8;
        candidates.clear();
        // What is rare in a part may be chance.
        propose(matcher.symbols(), &counts, if last { 1 } else { 2 }, !last, &mut candidates);
        keep_best(&mut candidates, &mut matcher);
    }
    Some(Symbols::new(matcher.symbols().to_vec()))
}

/// Selects strings from everywhere in `strings`, each cut to the limit.
fn sample(strings: &Strings) -> Vec<&[u8]> {
    let step = strings.len().div_ceil(SAMPLE_STRINGS_MAX).max(1);
    let mut room = SAMPLE_BYTES_MAX;
    // Neighbours are similar where keys are sorted, but rounds with a part of the sample should see
    // all kinds.
    let picked = strings.len().div_ceil(step);
    let stride = coprime_stride(picked);
    let mut sample = Vec::with_capacity(picked);
    for at in 0..picked {
        let string = strings.get(at * stride % picked * step);
        let piece = &string[..string.len().min(SAMPLE_STRING_BYTES_MAX).min(room)];
        if !piece.is_empty() {
            room -= piece.len();
            sample.push(piece);
        }
    }
    sample
}

/// About 0.6 of `count`, without a common factor, so that its multiples reach every number once.
fn coprime_stride(count: usize) -> usize {
    let are_coprime = |mut a: usize, mut b: usize| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a == 1
    };
    (count * 5 / 8..).find(|&stride| are_coprime(stride, count)).unwrap_or(1)
}

fn count(matcher: &Matcher, text: &[u8], counts: &mut Counts) {
    let mut before = None;
    matcher.walk(text, |code, len, word| {
        let byte = word as u8 as usize;
        let now = code.map_or(byte, |code| 256 + usize::from(code));
        counts.single[now] += 1;
        if let Some(before) = before {
            bump(&mut counts.pairs, before, now);
        }
        if len > 1 {
            // The first byte alone stays a candidate, so that longer symbols can grow from it
            // again.
            counts.single[byte] += 1;
            if let Some(before) = before {
                bump(&mut counts.pairs, before, byte);
            }
        }
        before = Some(now);
    });
}

#[inline]
fn bump(pairs: &mut [u16], first: usize, second: usize) {
    if let Some(count) = pairs.get_mut(first * CODES + second) {
        *count += 1;
    }
}

/// Proposes the symbols that occurred in the sample, and joined pairs of them.
fn propose(
    symbols: &[Symbol],
    counts: &Counts,
    least: u32,
    join: bool,
    candidates: &mut Vec<Candidate>,
) {
    let symbol = |code: usize| match code.checked_sub(256) {
        Some(code) => symbols.get(code).copied().unwrap_or_default(),
        None => Symbol::of(code as u8),
    };
    for (first, &single) in counts.single.iter().enumerate() {
        if single == 0 {
            continue;
        }
        let one = symbol(first);
        if single >= least && one.len > 0 {
            // An escaped byte takes two: a symbol of one byte saves more than it seems to.
            let worth = if one.len == 1 { 8 } else { u32::from(one.len) };
            candidates.push(Candidate { symbol: one, gain: single * worth });
        }
        if !join || usize::from(one.len) == SYMBOL_BYTES_MAX {
            continue;
        }
        let row = &counts.pairs[first * CODES..][..CODES];
        for (eight, chunk) in row.chunks_exact(8).enumerate() {
            // Most are 0; eight are tested at once.
            if chunk.iter().fold(0, |any, count| any | count) == 0 {
                continue;
            }
            for (at, &count) in chunk.iter().enumerate() {
                if u32::from(count) >= least.max(2) {
                    let joined = one.then(symbol(eight * 8 + at));
                    let gain = u32::from(count) * u32::from(joined.len);
                    candidates.push(Candidate { symbol: joined, gain });
                }
            }
        }
    }
}

/// Makes the best candidates the symbols of `matcher`.
fn keep_best(candidates: &mut Vec<Candidate>, matcher: &mut Matcher) {
    // One symbol can result from several pairs: its gains add up.
    candidates.sort_unstable_by_key(|candidate| candidate.symbol);
    candidates.dedup_by(|next, kept| {
        let same = next.symbol == kept.symbol;
        if same {
            kept.gain += next.gain;
        }
        same
    });
    candidates.sort_unstable_by(|a, b| b.gain.cmp(&a.gain).then(a.symbol.cmp(&b.symbol)));
    matcher.clear();
    for candidate in candidates {
        if matcher.symbols().len() == SYMBOLS_MAX {
            break;
        }
        if matcher.has_room(candidate.symbol) {
            matcher.push(candidate.symbol);
        }
    }
}
