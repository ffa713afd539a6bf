//! What a step of a workload is.

/// A step.
#[derive(Clone, Debug)]
pub struct Step<'s> {
    /// Its name.
    pub name: &'s str,
    /// Operations planned, if it does not run for a time.
    pub planned: Option<u64>,
    /// Seconds that it runs for.
    pub seconds: Option<f64>,
    /// Longest time before it that is not measured, seconds: until the rate is steady.
    pub warm_up: f64,
    /// Clients.
    pub clients: u64,
    /// Requests per second that arrive at all clients together, each served by one that is free: an open loop.
    pub rate: Option<f64>,
    /// Kinds of requests that have a series of their own: requests done so far.
    pub series: &'s [&'static str],
    /// Bytes of the rows that an operation changes, where each changes as many; 0 where clients tell what they changed
    /// (`Worker::changed`), or where that is not known.
    pub changed_bytes: u64,
    /// Whether it changes rows.
    pub writes: bool,
}

impl<'s> Step<'s> {
    /// A load of so many rows by one client.
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
        }
    }

    /// Requests of so many clients for a time, after a warm-up.
    pub fn timed(name: &'s str, seconds: f64, warm_up: f64, clients: u64) -> Self {
        let (planned, seconds) = (None, Some(seconds));
        let (rate, changed_bytes, writes) = (None, 0, false);
        Self { name, planned, seconds, warm_up, clients, rate, series: &[], changed_bytes, writes }
    }
}
