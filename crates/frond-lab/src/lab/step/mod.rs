//! Steps of workloads, on both faces: what a step is, when its requests are due, when its warm-up
//! ends, and what was measured of it.

mod arrivals;
pub mod measured;
pub mod warm_up;

pub use arrivals::{Arrivals, Pace};

/// A step of a workload: a measured phase with a number of clients.
#[derive(Clone, Debug)]
pub struct Step<'s> {
    /// Name of the step.
    pub name: &'s str,
    /// Number of planned operations, unless the step runs for a fixed time.
    pub planned: Option<u64>,
    /// Duration in seconds, if the step runs for a fixed time.
    pub seconds: Option<f64>,
    /// Maximum duration of the warm-up in seconds. The warm-up is not measured, and ends once the
    /// rate is steady.
    pub warm_up: f64,
    /// Number of clients.
    pub clients: u64,
    /// Rate of an open loop: requests per second that become due, each served by any free client.
    /// `None` for a closed loop.
    pub rate: Option<f64>,
    /// Kinds of requests for which a separate series records the requests done so far.
    pub series: &'s [&'static str],
    /// Bytes of rows that each operation changes, if the number is constant; 0 if clients report
    /// their changes (`Worker::changed`), or if it is unknown.
    pub changed_bytes: u64,
    /// Whether the step changes rows.
    pub writes: bool,
    /// Whether further clients do as many requests as they can, which are not operations of the
    /// step. Then CPU and reads per operation are unknown: a target that serves more of those
    /// requests would look costly.
    pub is_shared: bool,
}

impl<'s> Step<'s> {
    /// A load of `rows` rows by one client.
    pub fn load(name: &'s str, rows: u64, row_bytes: u64) -> Self {
        Self {
            name,
            planned: Some(rows),
            seconds: None,
            warm_up: 0.0,
            clients: 1,
            rate: None,
            series: &[],
            changed_bytes: row_bytes,
            writes: true,
            is_shared: false,
        }
    }

    /// Requests of `clients` clients for `seconds`, after a warm-up.
    pub fn timed(name: &'s str, seconds: f64, warm_up: f64, clients: u64) -> Self {
        let (planned, seconds, writes) = (None, Some(seconds), false);
        Self { planned, seconds, warm_up, clients, writes, ..Self::load(name, 0, 0) }
    }
}

/// Errors that a client handled, and bytes that it changed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Deadlock victims.
    pub deadlock: u64,
    /// Lock wait timeouts.
    pub lock_timeout: u64,
    /// Duplicate keys.
    pub duplicate: u64,
    /// Bytes of changed rows.
    pub changed_bytes: u64,
}

impl Tally {
    /// Adds the tally of another client.
    pub fn add(&mut self, other: &Self) {
        self.deadlock += other.deadlock;
        self.lock_timeout += other.lock_timeout;
        self.duplicate += other.duplicate;
        self.changed_bytes += other.changed_bytes;
    }
}
