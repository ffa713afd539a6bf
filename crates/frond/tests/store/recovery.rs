//! The log that recovery would have to replay stays bounded while the store runs (P5, I13).

use frond_testkit::{campaign::bound_the_log, effort};

#[test]
fn a_hot_row_does_not_prolong_recovery() {
    for seed in effort::seeds(2) {
        bound_the_log(seed).unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    }
}
