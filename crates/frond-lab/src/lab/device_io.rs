//! The I/O of a step as its control group or its private disk counted it, and how that agrees with
//! what /proc says about the process.
//!
//! For engines with direct I/O the counts must agree, or one of them is wrong. If an engine uses
//! the page cache, /proc counts a page when it is dirtied, and a group of version 1 does not count
//! what the kernel writes in the background.

use std::collections::BTreeMap;

use super::machine::{Agreement, Reading, crosscheck_io};
use super::results::StepResult;
use crate::measure::Usage;

/// Metrics that compare the two counts, and what they count.
const COMPARED: [(&str, &str); 2] =
    [("device_rd_of_proc", "read"), ("device_wr_of_proc", "written")];
/// Value of such a metric if the counts agree: within 5 % or 1 MiB.
const AGREED: f64 = 1.0;

/// Adds to the metrics of a step what its group counted between two readings: I/Os and bytes of the
/// device, their agreement with /proc, and peak memory including the page cache.
pub fn add(
    metrics: &mut BTreeMap<String, f64>,
    (before, after): (Option<&Reading>, Option<&Reading>),
    process: &Usage,
) {
    let ops = metrics.get("ops").copied().unwrap_or(1.0).max(1.0);
    let mut put = |name: &str, value: f64| metrics.insert(name.to_owned(), value);
    if let Some(peak) = after.and_then(|after| after.memory?.peak) {
        put("mem_peak_b", peak as f64);
    }
    let io_of = |reading: Option<&Reading>| reading.and_then(|reading| reading.io);
    let Some((before, after)) = io_of(before).zip(io_of(after)) else { return };
    let io = after.since(&before);
    put("rd_io_op", io.reads as f64 / ops);
    put("wr_io_op", io.writes as f64 / ops);
    put("device_rd_b_op", io.read_bytes as f64 / ops);
    put("device_wr_b_op", io.written_bytes as f64 / ops);
    let (read, written) = crosscheck_io(&io, process);
    for ((name, _), agreement) in COMPARED.into_iter().zip([read, written]) {
        put(
            name,
            match agreement {
                Agreement::Agrees => AGREED,
                Agreement::GroupLess(ratio) | Agreement::GroupMore(ratio) => ratio,
            },
        );
    }
}

/// Says in which steps of a cell the counts differ; `None` if nothing was counted.
pub fn note(steps: &[StepResult]) -> Option<String> {
    let (mut counted, mut differ) = (false, Vec::new());
    for step in steps {
        for (name, what) in COMPARED {
            let Some(ratio) = step.metrics.get(name) else { continue };
            counted = true;
            if *ratio != AGREED {
                differ.push(format!(
                    "{} {what} in {}",
                    if *ratio < AGREED { "less" } else { "more" },
                    step.name
                ));
            }
        }
    }
    let said = match differ.is_empty() {
        true => "the control group and /proc agree in all steps".to_owned(),
        false => format!("the control group and /proc disagree: {}", differ.join(", ")),
    };
    counted.then_some(said)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::machine::IoCount;

    #[test]
    fn io_is_of_the_device_and_disagreement_with_proc_is_noted() {
        let reading = |written_bytes, writes| Reading {
            io: Some(IoCount { read_bytes: 0, written_bytes, reads: 0, writes }),
            ..Reading::default()
        };
        let of = |name: &str, group: u64, process: u64| {
            let mut step = StepResult { name: name.to_owned(), ..StepResult::default() };
            step.metrics.insert("ops".to_owned(), 10.0);
            let process = Usage { write_bytes: process, write_calls: 999, ..Usage::default() };
            let (before, after) = (reading(5, 7), reading(5 + group, 27));
            add(&mut step.metrics, (Some(&before), Some(&after)), &process);
            step
        };
        let (same, less) = (of("load", 100 << 20, 101 << 20), of("requests", 50 << 20, 100 << 20));
        assert_eq!((same.metrics["wr_io_op"], same.metrics["rd_io_op"]), (2.0, 0.0));
        assert_eq!(
            (same.metrics["device_wr_of_proc"], less.metrics["device_wr_of_proc"]),
            (1.0, 0.5)
        );
        let said = note(&[same.clone(), less]).expect("I/O was counted");
        assert_eq!(said, "the control group and /proc disagree: less written in requests");
        assert_eq!(
            note(&[same]).as_deref(),
            Some("the control group and /proc agree in all steps")
        );
        assert_eq!(note(&[StepResult::default()]), None);
    }
}
