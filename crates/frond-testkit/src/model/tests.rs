//! Tests of the model itself: its answers, and which states it calls legal.

use super::*;
use crate::ops::{Key, Swarm, generate, parse_script};

fn run(script: &str) -> Model {
    let mut model = Model::new();
    for op in parse_script(script).unwrap() {
        model.apply(&op);
    }
    model
}

#[test]
fn the_digest_of_a_step_is_that_of_its_rows() {
    for seed in 0..30 {
        let mut model = Model::new();
        let mut states = vec![Everything::default()];
        for op in generate(seed, &Swarm::everything(120)) {
            let step = model.step();
            model.apply(&op);
            if model.step() > step {
                states.push(model.everything());
            }
        }
        for (step, state) in states.iter().enumerate() {
            assert_eq!(digest(state), model.digest_at(step as u64), "seed {seed}, step {step}");
            assert_eq!(difference(state, &model.fork_at(step as u64).everything()), "");
        }
    }
}

#[test]
fn a_fork_continues_without_the_later_steps() {
    let whole =
        run("create t0\ncommit sync: put t0 k1 v1*5\ncommit sync: delete t0 k1; put t0 k2 v2*5");
    let mut fork = whole.fork_at(2);
    fork.apply(&parse_script("commit sync: put t0 k3 v3*5").unwrap()[0]);
    let other = run("create t0\ncommit sync: put t0 k1 v1*5\ncommit sync: put t0 k3 v3*5");
    assert_eq!(fork.digest_at(3), other.digest_at(3));
    assert_eq!(fork.step(), 3);
}

#[test]
fn operations_of_a_batch_take_effect_in_order() {
    let model = run("create t0\ncommit sync: put t0 k1 v1*5; range t0 k0 k9; put t0 k2 v2*5");
    let rows = &model.everything().trees["t0"];
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].0, Key::plain(2).bytes());
}

#[test]
fn a_refused_insert_changes_nothing() {
    let mut model = run("create t0 unique\ncommit sync: put t0 k1 v1*5");
    let batch = parse_script("commit sync: put t0 k2 v1*5; insert t0 k1 v2*5").unwrap();
    assert_eq!(model.apply(&batch[0]), Answer::Refused(Refusal::KeyExists));
    assert_eq!(model.step(), 2);
    assert_eq!(model.everything().trees["t0"].len(), 1);
}

#[test]
fn a_snapshot_excludes_later_changes() {
    let model =
        run("create t0\ncommit sync: put t0 k1 v1*5\nsnapshot s0\ncommit sync: delete t0 k1\n\
         rename t0 t1\ncreate t0");
    let all = model.everything();
    assert_eq!(all.snapshots["s0"].keys().collect::<Vec<_>>(), ["t0"]);
    assert_eq!(all.snapshots["s0"]["t0"].len(), 1);
    assert_eq!(all.trees["t1"].len(), 0);
}
