//! A time series: readings of sensors by time, and retention, which deletes the oldest.
//!
//! `cargo run -p frond-db --example time_series [DIRECTORY]`; each run adds an hour of readings.

use std::path::{Path, PathBuf};

use frond::{Batch, Db, Options, tuple};

const SENSORS: [&str; 3] = ["attic", "cellar", "garden"];
/// Seconds of readings that are kept.
const KEPT: u64 = 2 * 60 * 60;

fn main() -> frond::Result<()> {
    let default = std::env::temp_dir().join("frond-time-series");
    run(&std::env::args_os().nth(1).map_or(default, PathBuf::from))
}

pub fn run(dir: &Path) -> frond::Result<()> {
    let db = Db::open(dir, Options::new().cache_size(64 << 20))?;
    let readings = db.tree("readings", Default::default())?;

    // Keys are tuples of a sensor and a time. They sort by sensor, and then by time.
    let last = readings.range(tuple::prefix(&(SENSORS[0],))).next_back().transpose()?;
    let start = match last {
        Some((key, _)) => tuple::decode::<(String, u64)>(&key)?.1 + 1,
        None => 1_700_000_000,
    };
    let end = start + 60 * 60;

    // A batch is atomic, and costs one write to the log.
    let mut batch = Batch::new();
    for time in start..end {
        for (number, sensor) in SENSORS.iter().enumerate() {
            let celsius = 15.0 + number as f64 + (time as f64 / 600.0).sin();
            batch.put(&readings, &tuple::encode(&(*sensor, time)), &celsius.to_be_bytes())?;
        }
    }
    db.commit(&mut batch)?;

    // The last ten minutes of one sensor are one range.
    let (from, to) = (tuple::encode(&("garden", end - 600)), tuple::encode(&("garden", end)));
    let mut values = Vec::new();
    for row in readings.range(from..to) {
        let (_key, celsius) = row?;
        values.push(f64::from_be_bytes(celsius.try_into().expect("eight bytes")));
    }
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    println!("garden: {} readings in ten minutes, {mean:.2} degrees on average", values.len());

    // Retention: one range per sensor. It costs as much as one write, however many rows there are.
    // For a table with indexes, see `Table::delete_range`.
    let oldest = end.saturating_sub(KEPT);
    let mut batch = Batch::new();
    for sensor in SENSORS {
        let (first, last) = (tuple::encode(&(sensor, 0u64)), tuple::encode(&(sensor, oldest)));
        batch.delete_range(&readings, first..last)?;
    }
    db.commit(&mut batch)?;

    let kept = readings.range(..).count();
    println!("{kept} readings of {} sensors are kept in {}", SENSORS.len(), dir.display());
    assert!(kept as u64 <= KEPT * SENSORS.len() as u64);
    db.close()
}
