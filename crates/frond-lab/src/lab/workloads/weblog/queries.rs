//! The queries of the web log, Q1 to Q6, and their shares.

use super::log::{DAY_MILLIS, Log, Times};
use crate::lab::sql::{Session, Statement, Worker};
use crate::random::{Purpose, Random};
use crate::targets::Result;

/// Shares of Q1 to Q6 in percent.
pub const SHARES: [u32; 6] = [35, 15, 15, 20, 10, 5];
/// Kinds of their requests.
pub const NAMES: [&str; 6] = ["q1", "q2", "q3", "q4", "q5", "q6"];
const MINUTE_MILLIS: u64 = 60_000;

/// The statements: Q1 reads the newest calls of a procedure, Q2 sums per procedure, Q3 the slowest
/// calls, Q4 the calls of an instance, Q5 one row; Q6 scans a day for a session.
const STATEMENTS: [&str; 6] = [
    "SELECT * FROM perf_log FORCE INDEX(ix_proc) WHERE proc_name=? AND begin_ts>=? AND begin_ts<=? \
     ORDER BY begin_ts DESC LIMIT 100",
    "SELECT proc_name,COUNT(*),AVG(duration_ms),MAX(duration_ms) FROM perf_log FORCE INDEX(PRIMARY) \
     WHERE begin_ts>=? AND begin_ts<? GROUP BY proc_name",
    "SELECT * FROM perf_log FORCE INDEX(ix_dur) WHERE duration_ms>=? AND begin_ts>=? ORDER BY duration_ms DESC LIMIT 50",
    "SELECT * FROM perf_log FORCE INDEX(ix_inst) WHERE instance_name=? AND begin_ts>=? AND begin_ts<?",
    "SELECT * FROM perf_log WHERE begin_ts=? AND log_id=?",
    "SELECT COUNT(*) FROM perf_log FORCE INDEX(PRIMARY) WHERE begin_ts>=? AND begin_ts<? AND param_text LIKE ?",
];

/// A query with its parameters. Those that it does not use are empty.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Drawn {
    /// Number of the query, from 0.
    pub query: usize,
    /// Name of the procedure or instance, or a pattern.
    pub text: String,
    /// Duration, or number of a row.
    pub number: u64,
    /// Start of the time range.
    pub from: u64,
    /// End of the time range.
    pub until: u64,
}

/// The random choices of a client of a step.
pub fn choice(seed: u64, (step, index): (u64, u64)) -> Random {
    Random::stream(seed, "weblog-sql", step, index, Purpose::Choice)
}

/// Draws the next query.
pub fn draw(log: &Log, random: &mut Random) -> Drawn {
    let query = random.weighted(&SHARES);
    let (oldest, newest) = (log.oldest(), log.newest());
    let span = newest.saturating_sub(oldest);
    // A time range of this length with a random start.
    let window = |random: &mut Random, millis: u64| {
        let from = oldest + random.below(span.saturating_sub(millis).max(1));
        (from, from + millis)
    };
    let mut drawn = Drawn { query, ..Drawn::default() };
    match query {
        0 => {
            let procedure = log.population.procedure_zipf.draw(random) as usize;
            drawn.text.clone_from(&log.population.procedures[procedure].name);
            (drawn.from, drawn.until) = (newest.saturating_sub(15 * MINUTE_MILLIS), newest);
        }
        1 => (drawn.from, drawn.until) = window(random, 60 * MINUTE_MILLIS),
        2 => {
            drawn.number = [500, 1_000, 2_000, 5_000][random.below(4) as usize];
            drawn.from = newest.saturating_sub(DAY_MILLIS);
        }
        3 => {
            let instance = random.below(log.population.instances.len() as u64) as usize;
            drawn.text.clone_from(&log.population.instances[instance]);
            (drawn.from, drawn.until) = window(random, 5 * MINUTE_MILLIS);
        }
        4 => (drawn.from, drawn.number) = log.key(random),
        _ => {
            let day = oldest + random.below((span / DAY_MILLIS).max(1)) * DAY_MILLIS;
            (drawn.from, drawn.until) = (day, day + DAY_MILLIS);
            drawn.text = format!("%SessionId='{:04X}%", random.below(1 << 16));
        }
    }
    drawn
}

/// A client that runs queries in SQL.
pub struct Queries<'l> {
    log: &'l Log,
    random: Random,
    statements: Vec<Statement>,
    from: Times,
    until: Times,
}

impl<'l> Queries<'l> {
    /// Prepares the statements.
    ///
    /// # Errors
    /// The server reports an error.
    pub fn new(
        log: &'l Log,
        seed: u64,
        (step, index): (u64, u64),
        session: &mut Session,
    ) -> Result<Self> {
        let random = choice(seed, (step, index));
        let mut statements = Vec::new();
        for sql in STATEMENTS {
            statements.push(session.prepare(sql)?);
        }
        let (from, until) = (Times::default(), Times::default());
        Ok(Self { log, random, statements, from, until })
    }

    /// Runs the next query.
    ///
    /// # Errors
    /// The server reports an error.
    pub fn ask(&mut self, worker: &mut Worker<'_>) -> Result<()> {
        let drawn = draw(self.log, &mut self.random);
        let statement = &self.statements[drawn.query];
        let (from, until) = (self.from.text(drawn.from), self.until.text(drawn.until));
        let (text, number) = (drawn.text.as_str(), drawn.number);
        worker.request(NAMES[drawn.query], 1, |session: &mut Session| {
            match drawn.query {
                0 | 3 => session.query(statement, (text, from, until), |_| ()),
                1 => session.query(statement, (from, until), |_| ()),
                2 => session.query(statement, (number, from), |_| ()),
                4 => session.query(statement, (from, number), |_| ()),
                _ => session.query(statement, (from, until, text), |_| ()),
            }
            .map(drop)
        })
    }
}
