//! Rows of the web log: calls arrive, run, and are logged in the order in which they end.
//!
//! Invariants
//! 1. Rows are in order of `end_ts`; `log_id` is dense in that order; `begin_ts` is slightly out of
//!    order.
//! 2. A session keeps its user, account, server and id; each call replaces the session with
//!    probability 1/15.
//! 3. With the daily curve, days have the planned number of rows on average over a week.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt::Write;

use super::population::{ACCOUNTS, Kind, POLLERS, Population, RowCount, USERS, WORDS};
use crate::random::{GrayZipf, Purpose, Random, RejectionZipf};
use crate::schema::Value;

/// 2011-11-07 00:00:00 UTC, a Monday, in milliseconds.
pub const START_MILLIS: u64 = 1_320_624_000_000;
const DAY_MILLIS: f64 = 86_400_000.0;
const SESSIONS: usize = 3_000;
const SESSION_ENDS: f64 = 1.0 / 15.0;

/// How calls arrive.
#[derive(Clone, Copy, Debug)]
pub struct Traffic {
    /// Rows per day.
    pub rows_per_day: f64,
    /// Whether the rate depends on the hour, the weekend and two bursts per day.
    pub daily_curve: bool,
    /// Whether a procedure exists only on a third of the instances.
    pub instance_subsets: bool,
    /// Fraction of the calls that come from pollers.
    pub poll: f64,
}

#[derive(Clone, Debug)]
struct CallerSession {
    user: u64,
    account: u64,
    server: usize,
    id: (u64, u64),
}

#[derive(Clone, Debug)]
struct Poller {
    procedure: usize,
    instance: usize,
    server: usize,
    parameters: String,
}

/// A logged call, ordered by its end.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Call {
    /// End; ties are ordered by arrival, so that the order is total.
    pub end_millis: u64,
    arrival: u64,
    /// Start.
    pub begin_millis: u64,
    /// Duration.
    pub duration_millis: u32,
    procedure: usize,
    instance: usize,
    server: usize,
    rows: u32,
    error: i32,
    parameters: String,
    /// Assigned when the call is logged.
    pub log_id: u64,
}

/// The generator of the log's rows.
pub struct WebLog {
    population: Population,
    traffic: Traffic,
    sessions: Vec<CallerSession>,
    pollers: Vec<Poller>,
    poller_zipf: RejectionZipf,
    user_zipf: GrayZipf,
    account_zipf: GrayZipf,
    word_zipf: RejectionZipf,
    running: BinaryHeap<Reverse<Call>>,
    clock_millis: f64,
    bursts: (u64, [f64; 2]),
    arrivals: u64,
    logged: u64,
    data: Random,
    choice: Random,
    spare: Vec<String>,
}

impl WebLog {
    /// Creates the log of `seed` under `traffic`.
    pub fn new(seed: u64, traffic: Traffic) -> Self {
        let mut log = Self {
            population: Population::new(seed, traffic.instance_subsets),
            traffic,
            sessions: Vec::new(),
            pollers: Vec::new(),
            poller_zipf: RejectionZipf::new(POLLERS as u64, 1.0),
            user_zipf: GrayZipf::new(USERS, 0.9),
            account_zipf: GrayZipf::new(ACCOUNTS, 0.9),
            word_zipf: RejectionZipf::new(WORDS as u64, 1.0),
            running: BinaryHeap::new(),
            clock_millis: 0.0,
            bursts: (u64::MAX, [0.0; 2]),
            arrivals: 0,
            logged: 0,
            data: Random::stream(seed, "weblog", 0, 0, Purpose::Data),
            choice: Random::stream(seed, "weblog", 0, 0, Purpose::Choice),
            spare: Vec::new(),
        };
        for _ in 0..SESSIONS {
            let session = log.new_session();
            log.sessions.push(session);
        }
        for _ in 0..POLLERS {
            let (procedure, instance) = log.choose_procedure();
            let session = log.new_session();
            let mut parameters = String::new();
            log.write_parameters(procedure, &session, &mut parameters);
            log.pollers.push(Poller { procedure, instance, server: session.server, parameters });
        }
        log
    }

    fn new_session(&mut self) -> CallerSession {
        CallerSession {
            user: self.user_zipf.draw(&mut self.data),
            account: self.account_zipf.draw(&mut self.data),
            server: self.data.below(self.population.servers.len() as u64) as usize,
            id: (self.data.next(), self.data.next()),
        }
    }

    fn choose_procedure(&mut self) -> (usize, usize) {
        let procedure = self.population.procedure_zipf.draw(&mut self.choice) as usize;
        let rank = self.population.instance_zipf.draw(&mut self.choice) as usize;
        (procedure, self.population.procedures[procedure].instances[rank])
    }

    /// Returns the current rate, calls per millisecond.
    fn rate(&mut self) -> f64 {
        let mean = self.traffic.rows_per_day / DAY_MILLIS;
        if !self.traffic.daily_curve {
            return mean;
        }
        let day = (self.clock_millis / DAY_MILLIS) as u64;
        let in_day = self.clock_millis - day as f64 * DAY_MILLIS;
        if self.bursts.0 != day {
            let burst_start = || self.choice.unit() * (DAY_MILLIS - 60_000.0);
            self.bursts = (
                day,
                std::array::from_fn({
                    let mut burst_start = burst_start;
                    move |_| burst_start()
                }),
            );
        }
        let hour = in_day / 3_600_000.0;
        let curve = 1.0 + 0.6 * (std::f64::consts::TAU * (hour - 9.0) / 24.0).sin();
        let weekend = if day % 7 >= 5 { 0.55 } else { 1.0 };
        let burst = self.bursts.1.iter().any(|&begin| (begin..begin + 60_000.0).contains(&in_day));
        // Mean of the factors over a week: five days at 1 and two at 0.55; two minutes a day at 3.
        const WEEK: f64 = (5.0 + 2.0 * 0.55) / 7.0 * (1.0 + 2.0 * 2.0 * 60.0 / 86_400.0);
        mean * curve * weekend * if burst { 3.0 } else { 1.0 } / WEEK
    }

    /// Returns the next row, in order of end. Its text is recycled by `give_back`.
    pub fn next_call(&mut self) -> Call {
        loop {
            // A call that ended before the clock can be returned: calls that arrive later also end
            // later.
            let over = |call: &Reverse<Call>| {
                (call.0.end_millis as f64) < self.clock_millis + START_MILLIS as f64
            };
            if self.running.peek().is_some_and(over)
                && let Some(Reverse(mut call)) = self.running.pop()
            {
                call.log_id = self.logged;
                self.logged += 1;
                return call;
            }
            let rate = self.rate();
            self.clock_millis += self.choice.exponential(1.0 / rate);
            let call = self.begin_call();
            self.running.push(Reverse(call));
        }
    }

    /// Recycles a row's text for a later row.
    pub fn give_back(&mut self, call: Call) {
        self.spare.push(call.parameters);
    }

    fn begin_call(&mut self) -> Call {
        let mut parameters = self.spare.pop().unwrap_or_default();
        parameters.clear();
        let polled = self.choice.chance(self.traffic.poll);
        let (procedure, instance, server) = if polled {
            let poller = &self.pollers[self.poller_zipf.draw(&mut self.choice) as usize];
            parameters.push_str(&poller.parameters);
            (poller.procedure, poller.instance, poller.server)
        } else {
            let number = self.choice.below(SESSIONS as u64) as usize;
            if self.choice.chance(SESSION_ENDS) {
                self.sessions[number] = self.new_session();
            }
            let (procedure, instance) = self.choose_procedure();
            let session = self.sessions[number].clone();
            self.write_parameters(procedure, &session, &mut parameters);
            (procedure, instance, session.server)
        };
        let called = &self.population.procedures[procedure];
        let mut duration = (called.log_median + 0.9 * self.data.normal()).exp();
        if self.data.chance(0.005) {
            duration *= 20.0 + 180.0 * self.data.unit();
        }
        let rows = match called.rows {
            RowCount::None => 0,
            RowCount::One => 1,
            RowCount::Many(mean) => self.data.exponential(mean) as u32,
        };
        let error = match self.data.chance(0.002) {
            true => [1205, 2627, 50_000, -2][self.data.below(4) as usize],
            false => 0,
        };
        let duration_millis = duration.round() as u32;
        let begin_millis = START_MILLIS + self.clock_millis as u64;
        self.arrivals += 1;
        Call {
            end_millis: begin_millis + u64::from(duration_millis),
            arrival: self.arrivals,
            begin_millis,
            duration_millis,
            procedure,
            instance,
            server,
            rows,
            error,
            parameters,
            log_id: 0,
        }
    }

    fn write_parameters(&mut self, procedure: usize, session: &CallerSession, out: &mut String) {
        let template = std::mem::take(&mut self.population.procedures[procedure].template);
        for (position, &kind) in template.iter().enumerate() {
            if position > 0 {
                out.push(',');
            }
            self.write_parameter(kind, session, out);
        }
        self.population.procedures[procedure].template = template;
    }

    fn write_parameter(&mut self, kind: Kind, session: &CallerSession, out: &mut String) {
        let random = &mut self.data;
        // Writing to a String cannot fail.
        let _ = match kind {
            Kind::UserId => write!(out, "@UserId={}", session.user + 1),
            Kind::AccountId => {
                out.push_str("@AccountId='");
                write_guid(self.population.account_guid(session.account), out);
                write!(out, "'")
            }
            Kind::Status => {
                let other = [2, 3, 4, 7, 9][random.below(5) as usize];
                write!(out, "@Status={}", if random.chance(0.4) { 1 } else { other })
            }
            Kind::Culture => {
                let cultures = ["en-US", "de-DE", "fr-FR", "es-ES", "en-GB", "it-IT", "ja-JP"];
                let culture = cultures[random.weighted(&[60, 12, 8, 6, 6, 5, 3])];
                write!(out, "@Culture=N'{culture}'")
            }
            Kind::FromDate => {
                let (year, month, day) = civil(START_MILLIS / 86_400_000 - random.below(60));
                write!(out, "@FromDate='{year}-{month:02}-{day:02} 00:00:00.000'")
            }
            Kind::PageIndex => {
                let mut page = 0;
                while page < 50 && !random.chance(0.4) {
                    page += 1;
                }
                write!(out, "@PageIndex={page}")
            }
            Kind::PageSize => {
                write!(out, "@PageSize={}", [10, 20, 25, 50, 100][random.below(5) as usize])
            }
            Kind::SearchText => {
                out.push_str("@SearchText=N'");
                for word in 0..random.between(1, 4) {
                    if word > 0 {
                        out.push(' ');
                    }
                    out.push_str(&self.population.words[self.word_zipf.draw(random) as usize]);
                }
                write!(out, "'")
            }
            Kind::SessionId => {
                out.push_str("@SessionId='");
                write_guid(session.id, out);
                write!(out, "'")
            }
            Kind::IncludeDeleted => {
                write!(out, "@IncludeDeleted={}", u8::from(random.chance(0.05)))
            }
            Kind::Amount => {
                let whole = random.exponential(80.0) as u32;
                let cents = match random.below(10) {
                    0..=3 => 0,
                    4..=5 => 95,
                    6..=8 => 99,
                    _ => random.below(100),
                };
                write!(out, "@Amount={whole}.{cents:02}")
            }
            Kind::RegionCode => {
                let region = ["EU", "NA", "SA", "APAC", "MEA"][random.below(5) as usize];
                write!(out, "@RegionCode='{region}'")
            }
        };
    }

    /// Returns a call's columns in DDL order.
    #[cfg(test)]
    fn row<'a>(&'a self, call: &'a Call) -> [Value<'a>; 11] {
        columns(&self.population, call)
    }

    /// Returns the populations, to compute columns of calls elsewhere.
    pub fn population(&self) -> &Population {
        &self.population
    }
}

/// Returns a call's columns in DDL order.
pub fn columns<'a>(population: &'a Population, call: &'a Call) -> [Value<'a>; 11] {
    [
        Value::U64(call.log_id),
        Value::Millis(call.begin_millis),
        Value::Millis(call.end_millis),
        Value::U32(call.duration_millis),
        Value::Text(&population.instances[call.instance]),
        Value::Text(&population.procedures[call.procedure].name),
        Value::Text(&population.servers[call.server]),
        Value::Text(&population.logins[call.server]),
        Value::U32(call.rows),
        Value::I32(call.error),
        Value::Text(&call.parameters),
    ]
}

/// Writes a version 4 GUID of these bits, in upper case as SQL Server prints it.
fn write_guid((high, low): (u64, u64), out: &mut String) {
    let high = high & !0xf000 | 0x4000;
    let low = low & !(0b11 << 62) | 0b10 << 62;
    let _ = write!(
        out,
        "{:08X}-{:04X}-{:04X}-{:04X}-{:012X}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff
    );
}

/// Converts days since 1970 to year, month and day (Howard Hinnant's algorithm).
fn civil(days: u64) -> (u64, u64, u64) {
    let z = days + 719_468;
    let era = z / 146_097;
    let day_of_era = z % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::testing::zlib_ratio;

    fn traffic(poll: f64) -> Traffic {
        // The reference data have a constant 400 rows per second on all instances.
        let rows_per_day = 400.0 * 86_400.0;
        Traffic { rows_per_day, daily_curve: false, instance_subsets: false, poll }
    }

    /// Returns rows packed (integers at their width, strings with their length), and the bytes of
    /// text.
    fn packed(poll: f64, rows: usize) -> (Vec<u8>, usize) {
        let mut log = WebLog::new(42, traffic(poll));
        let (mut out, mut text) = (Vec::new(), 0);
        for _ in 0..rows {
            let call = log.next_call();
            for value in log.row(&call) {
                match value {
                    Value::U64(v) | Value::Millis(v) => out.extend_from_slice(&v.to_le_bytes()),
                    Value::U32(v) => out.extend_from_slice(&v.to_le_bytes()),
                    Value::I32(v) => out.extend_from_slice(&v.to_le_bytes()),
                    value => value.append_value(&mut out),
                }
            }
            text += call.parameters.len();
            log.give_back(call);
        }
        (out, text)
    }

    #[test]
    fn rows_compress_as_the_reference_does() {
        const ROWS: usize = 60_000;
        let references = [(0.25, 4.1), (0.75, 5.6), (0.95, 6.9)];
        for (poll, reference) in references {
            let (bytes, text) = packed(poll, ROWS);
            let ratio = zlib_ratio(&bytes, 64 << 10);
            println!("{poll}: {ratio:.2}x, {} B a row, {} text", bytes.len() / ROWS, text / ROWS);
            assert!((ratio / reference - 1.0).abs() < 0.15, "{poll}: {ratio} for {reference}");
            assert!((150..210).contains(&(bytes.len() / ROWS)), "{} B a row", bytes.len() / ROWS);
        }
    }

    #[test]
    fn rows_come_in_order_of_end_and_days_have_their_rows() {
        let rows_per_day = 20_000.0;
        let traffic =
            Traffic { rows_per_day, daily_curve: true, instance_subsets: true, poll: 0.25 };
        let mut log = WebLog::new(1, traffic);
        let (mut last_end, mut out_of_order, mut last_begin, mut days) = (0, 0, 0, [0u32; 7]);
        for id in 0..140_000 {
            let call = log.next_call();
            assert_eq!(call.log_id, id);
            assert!(call.end_millis >= last_end, "invariant 1");
            out_of_order += u32::from(call.begin_millis < last_begin);
            (last_end, last_begin) = (call.end_millis, call.begin_millis);
            let day = ((call.begin_millis - START_MILLIS) / 86_400_000) as usize;
            days.get_mut(day).map(|n| *n += 1).unwrap_or_default();
            log.give_back(call);
        }
        assert!((10..20_000).contains(&out_of_order), "{out_of_order} begins out of order");
        assert!(days[..5].iter().all(|&n| (20_000..26_000).contains(&n)), "{days:?}");
        assert!(days[5] < 14_000, "the weekend is quieter: {days:?}");
    }

    #[test]
    fn dates_are_right() {
        assert_eq!(civil(START_MILLIS / 86_400_000), (2011, 11, 7));
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(11_016), (2000, 2, 29));
        let mut guid = String::new();
        write_guid((u64::MAX, 0), &mut guid);
        assert_eq!(guid, "FFFFFFFF-FFFF-4FFF-8000-000000000000");
    }
}
