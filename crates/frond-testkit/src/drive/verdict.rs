//! Compares what the engine returned with the model: which answer an error stands for, which
//! step of the model the rows belong to, and the difference in words.

use frond::Duplicate;
use frond::Error;

use super::{Failure, fail};
use crate::model::{Answer, Everything, Model, Refusal, difference, dump_difference, show};

/// Turns the engine's refusals into answers, and leaves other errors.
pub fn answer_or_error(result: frond::Result<Answer>) -> frond::Result<Answer> {
    let error = match result {
        Ok(answer) => return Ok(answer),
        Err(error) => error,
    };
    let refusal = match &error {
        Error::NoSuchTree(_) => Refusal::NoSuchTree,
        Error::TreeExists(_) => Refusal::TreeExists,
        Error::TreeNotEmpty(_) => Refusal::NotEmpty,
        Error::DuplicateKey(
            Duplicate::InBatch { .. } | Duplicate::InLoad { .. } | Duplicate::Row { .. },
        ) => Refusal::KeyExists,
        Error::InvalidArgument(_) => Refusal::BadCall,
        Error::NoSuchSnapshot(_) => Refusal::NoSuchSnapshot,
        Error::SnapshotExists(_) => Refusal::SnapshotExists,
        Error::LockBusy { .. } | Error::LockTimeout { .. } => Refusal::Busy,
        Error::Conflict { .. } => Refusal::Conflict,
        Error::TxnEnded => Refusal::Ended,
        Error::DefinitionChanged(_) => Refusal::BornLater,
        Error::XidExists(_) => Refusal::XidExists,
        Error::NoSuchXid(_) => Refusal::NoSuchXid,
        Error::XidBusy(_) => Refusal::XidBusy,
        _ => return Err(error),
    };
    Ok(Answer::Refused(refusal))
}

/// The step whose state the found rows are; an error if it is not a legal one.
pub fn find_step(
    model: &Model,
    found: &Everything,
    floor: u64,
    issued: u64,
) -> Result<u64, Failure> {
    let digest = crate::model::digest(found);
    if let Some(step) = model.step_of(digest, floor, issued) {
        let expected = model.fork_at(step).everything();
        return match found == &expected {
            true => Ok(step),
            false => fail(format!("step {step}, but {}", difference(&expected, found))),
        };
    }
    let newest = model.fork_at(floor).everything();
    let why = match model.step_of(digest, 0, model.step()) {
        Some(step) if step < floor => format!("lost commits: this is the state after step {step}"),
        Some(step) => format!("this is the state after step {step}, which was not issued yet"),
        None => "this is the state after no step".to_owned(),
    };
    fail(format!(
        "{why}; legal are steps {floor} to {issued}. Against step {floor}:\n{}",
        difference(&newest, found)
    ))
}

pub(super) fn mismatch(expected: &Answer, found: &Answer) -> String {
    match (expected, found) {
        (Answer::All(expected), Answer::All(found)) => {
            dump_difference("", expected, found).join("\n")
        }
        (Answer::Value(Some(expected)), Answer::Value(Some(found))) => {
            format!("expected {}, found {}", show(expected), show(found))
        }
        _ => format!("expected {expected:?}, found {found:?}"),
    }
}

pub(super) fn shorten(text: &str) -> String {
    if text.len() > 160 { format!("{}…", &text[..160]) } else { text.to_owned() }
}
