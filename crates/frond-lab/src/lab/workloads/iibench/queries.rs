//! The queries of iiBench's published mode: while one client inserts, another reads ten rows from a
//! random place on, in each of the four orders in turn.

use std::time::Duration;

use super::Iibench;
use crate::data::iibench::{QUERIES_FROM, question};
use crate::lab::params::{Param, Params};
use crate::lab::sql::{Session, Worker};
use crate::lab::time::date_time;
use crate::random::{Purpose, Random};
use crate::schema::Value;
use crate::targets::{Failure, Result};

pub const QUERIES: Param = Param::fixed(
    "queries",
    "none",
    "queries per second of one more client, or `unthrottled`: ten rows of each order in turn",
);

/// How often the client that queries does so.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Queries {
    None,
    Unthrottled,
    PerSecond(f64),
}

/// Queries in the order of each keyspace: the rows, and the three indexes.
const STATEMENTS: [&str; 4] = [
    "SELECT transactionid FROM purchases_index FORCE INDEX(PRIMARY) WHERE transactionid>=? LIMIT 10",
    "SELECT price,customerid FROM purchases_index FORCE INDEX(marketsegment) \
     WHERE (price=? AND customerid>=?) OR price>? LIMIT 10",
    "SELECT cashregisterid,price,customerid FROM purchases_index FORCE INDEX(registersegment) \
     WHERE (cashregisterid=? AND price=? AND customerid>=?) OR (cashregisterid=? AND price>?) \
     OR cashregisterid>? LIMIT 10",
    "SELECT price,dateandtime,customerid FROM purchases_index FORCE INDEX(pdc) \
     WHERE (price=? AND dateandtime=? AND customerid>=?) OR (price=? AND dateandtime>?) \
     OR price>? LIMIT 10",
];

impl Queries {
    /// Parses the parameter.
    ///
    /// # Errors
    /// It is no rate and none of the words.
    pub fn new(params: &Params) -> Result<Self> {
        match params.text("queries") {
            "none" => Ok(Self::None),
            "unthrottled" => Ok(Self::Unthrottled),
            text => match params.real("queries") {
                Ok(rate) if rate > 0.0 => Ok(Self::PerSecond(rate)),
                _ => Err(Failure(format!(
                    "--set queries={text}: expected none, unthrottled, or queries per second"
                ))),
            },
        }
    }

    /// Number of rows after which queries start.
    pub fn start(rows: u64) -> u64 {
        QUERIES_FROM.min(rows / 5)
    }
}

/// Draws keyspaces and first keys of queries. Without an index, nothing is asked for in its order.
pub fn drawn(
    iibench: &Iibench,
    mut rows: impl FnMut() -> u64,
) -> impl Iterator<Item = (usize, Vec<Value<'static>>)> {
    let mut choice = Random::stream(iibench.seed, "iibench", 0, 1, Purpose::Choice);
    let indexes = iibench.indexes;
    (0..4)
        .cycle()
        .map(move |shape| question(shape, rows().max(1), &mut choice))
        .filter(move |(keyspace, _)| *keyspace <= indexes)
}

/// Runs the queries in SQL until the step ends. There were `before` rows when it started.
pub fn ask(worker: &mut Worker<'_>, iibench: &Iibench, before: u64) -> Result<()> {
    let start = Queries::start(iibench.rows);
    while before + worker.done() < start && !worker.is_stopped() {
        std::thread::sleep(Duration::from_millis(5));
    }
    if let Queries::PerSecond(rate) = iibench.queries {
        worker.set_rate(rate);
    }
    let mut statements = Vec::new();
    for sql in &STATEMENTS[..=iibench.indexes] {
        statements.push(worker.session.prepare(sql)?);
    }
    let done = worker.counter();
    for (keyspace, from) in drawn(iibench, || before + done()) {
        if !worker.go_on() {
            break;
        }
        let statement = &statements[keyspace];
        worker.request("query", 1, |session: &mut Session| {
            match from[..] {
                [Value::I32(id)] => session.query(statement, (id,), |_| ()),
                [Value::F32(price), Value::I32(customer)] => {
                    session.query(statement, (price, customer, price), |_| ())
                }
                [Value::I32(register), Value::F32(price), Value::I32(customer)] => {
                    let further = (register, price, customer, register, price, register);
                    session.query(statement, further, |_| ())
                }
                [Value::F32(price), Value::Millis(millis), Value::I32(customer)] => {
                    let text = date_time(millis);
                    let time = text.as_str();
                    let further = (price, time, customer, price, time, price);
                    session.query(statement, further, |_| ())
                }
                _ => unreachable!("the four orders are these"),
            }
            .map(drop)
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::size::Size;

    #[test]
    fn a_rate_of_queries_is_a_number_or_a_word() {
        let queries = |text: &str| {
            let change = [("queries".to_owned(), text.to_owned())];
            Queries::new(&Params::new("x", &[QUERIES], Size::Tiny, &change).expect("known"))
        };
        assert_eq!(queries("none").ok(), Some(Queries::None));
        assert_eq!(queries("unthrottled").ok(), Some(Queries::Unthrottled));
        assert_eq!(queries("0.67").ok(), Some(Queries::PerSecond(0.67)));
        for bad in ["0", "-1", "", "all"] {
            assert!(queries(bad).is_err_and(|failure| failure.0.contains("queries=")), "{bad}");
        }
    }

    #[test]
    fn queries_ask_only_in_orders_that_exist() {
        let iibench = Iibench { indexes: 1, ..Iibench::plain(100, 42) };
        let asked: Vec<usize> =
            drawn(&iibench, || 100).map(|(keyspace, _)| keyspace).take(4).collect();
        assert_eq!(asked, [0, 1, 0, 1]);
    }
}
