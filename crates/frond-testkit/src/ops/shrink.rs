//! Makes a failing script small: drops ever smaller pieces of it while it still fails, then entries
//! of batches. Delta debugging, bounded by a number of attempts.

use super::Op;

/// The smallest script found that still fails. `fails` runs a script; at most `attempts` times.
pub fn shrink(script: &[Op], attempts: usize, mut fails: impl FnMut(&[Op]) -> bool) -> Vec<Op> {
    let mut best = script.to_vec();
    let mut left = attempts;
    let mut piece = best.len().div_ceil(2);
    while piece > 0 {
        let mut at = 0;
        while at < best.len() {
            let mut candidate = best.clone();
            candidate.drain(at..(at + piece).min(best.len()));
            if !attempt(&mut left, &candidate, &mut fails) {
                at += piece;
            } else {
                best = candidate;
            }
        }
        piece = if piece == 1 { 0 } else { piece.div_ceil(2) };
    }
    shrink_batches(&mut best, &mut left, &mut fails);
    best
}

fn attempt(left: &mut usize, candidate: &[Op], fails: &mut impl FnMut(&[Op]) -> bool) -> bool {
    if *left == 0 {
        return false;
    }
    *left -= 1;
    fails(candidate)
}

fn shrink_batches(best: &mut Vec<Op>, left: &mut usize, fails: &mut impl FnMut(&[Op]) -> bool) {
    for index in 0..best.len() {
        let mut entry = 0;
        loop {
            let mut candidate = best.clone();
            match candidate.get_mut(index) {
                Some(Op::Commit(_, writes)) if entry < writes.len() && writes.len() > 1 => {
                    writes.remove(entry);
                }
                Some(Op::Bulk { keys, .. } | Op::Fill { keys, .. })
                    if entry < keys.len() && keys.len() > 1 =>
                {
                    keys.remove(entry);
                }
                _ => break,
            }
            if attempt(left, &candidate, fails) {
                *best = candidate;
            } else {
                entry += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::*, *};

    #[test]
    fn shrinking_finds_two_failing_operations_among_two_hundred() {
        let script = generate(3, &Swarm::everything(200));
        let needs = |script: &[Op]| {
            script.iter().any(|op| matches!(op, Op::Checkpoint))
                && script.iter().any(|op| matches!(op, Op::Advance(_)))
        };
        assert!(needs(&script));
        assert_eq!(shrink(&script, 1000, needs).len(), 2);
    }
}
