//! Tests of the lab's sysbench: its statements are compared with those of Debian's sysbench on the
//! same server.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Client, Tables, Test, load};
use crate::lab::sql::{Bench, Place, text_of};
use crate::lab::step::Step;
use crate::lab::target::SqlTarget;
use crate::lab::workloads::clients::debians;
use crate::lab::workloads::testing::{must_fail, on_both, start, step};
use crate::targets::Result;

const ROWS: u64 = 5_000;
/// Number of events of each test.
const EVENTS: u64 = 40;

/// A statement without its values, as in a statement digest.
fn digest(text: &str) -> String {
    let mut out = String::new();
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let in_name = out.ends_with(|last: char| last.is_alphanumeric() || last == '_');
        match letter {
            '\'' => {
                while letters.next_if(|next| *next != '\'').is_some() {}
                letters.next();
                out.push('?');
            }
            '0'..='9' if !in_name => {
                while letters.next_if(char::is_ascii_digit).is_some() {}
                out.push('?');
            }
            letter if letter.is_whitespace() => {
                while letters.next_if(|next| next.is_whitespace()).is_some() {}
                if letters.peek().is_some() {
                    out.push(' ');
                }
            }
            letter => out.push(letter),
        }
    }
    // A list of rows becomes one row, as in a digest.
    for row in ["(?, ?, ?)", "(?,?,?)"] {
        if let Some(at) = out.find(row) {
            out.truncate(at);
            out.push_str("(…)");
        }
    }
    out.replace("VALUES (", "VALUES(")
}

/// The statements on the tables in the server's log since it was emptied: how often each came, by
/// the way in which it was sent (text, prepare, execute). Stops the log and empties it.
fn logged(bench: &mut Bench) -> Result<BTreeMap<String, u64>> {
    let admin = bench.admin();
    admin.run("SET GLOBAL general_log=OFF")?;
    let mut found = BTreeMap::new();
    admin.rows("SELECT command_type, argument FROM mysql.general_log", |row| {
        if let (Some(command), Some(text)) = (text_of(row, 0), text_of(row, 1)) {
            let text = digest(&text);
            let is_ours = text == "BEGIN"
                || text == "COMMIT"
                || text.contains("sbtest") && !text.contains("information_schema");
            if is_ours && ["Query", "Prepare", "Execute"].contains(&command.as_str()) {
                *found.entry(format!("{command} {text}")).or_insert(0) += 1;
            }
        }
    })?;
    admin.run("TRUNCATE TABLE mysql.general_log")?;
    Ok(found)
}

/// Runs the events of a test of the lab's sysbench.
fn ours(bench: &mut Bench, tables: &Tables, test: Test) -> Result<()> {
    bench.step_prepared(
        &Step::load(test.name(), EVENTS, 0),
        |index, session, _| Client::new(tables, test, (index, 1), session),
        |worker, mut client| client.run(worker, Some(EVENTS)),
        &[],
    )?;
    Ok(())
}

#[test]
fn sql_statements_match_debians_sysbench() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let target = SqlTarget::find("innodb")?;
    let place = Place::Own(dir.path().to_owned());
    let mut bench = start(&place, &target)?;
    let socket = bench.admin().value("SELECT @@socket")?;
    let socket = Path::new(&socket);
    bench.admin().run("SET GLOBAL log_output='TABLE'")?;
    let begin = |bench: &mut Bench| bench.admin().run("SET GLOBAL general_log=ON");

    // The load: rows have the same length, and so have statements.
    let tables = Tables::new("sbtest", 1, ROWS, "uniform", 42).with_clients(1);
    begin(&mut bench)?;
    debians(socket, Test::ReadWrite, ROWS, &[], "prepare")?;
    let expected = logged(&mut bench)?;
    bench.admin().run("DROP TABLE sbtest1")?;
    begin(&mut bench)?;
    assert!(load(&mut bench, &tables, 42)?);
    let found = logged(&mut bench)?;
    let inserts = |logged: &BTreeMap<String, u64>| -> Vec<(String, u64)> {
        let wanted = |text: &str| ["INSERT", "CREATE INDEX"].iter().any(|w| text.contains(w));
        logged.iter().filter(|(text, _)| wanted(text)).map(|(t, n)| (t.clone(), *n)).collect()
    };
    assert_eq!(inserts(&found), inserts(&expected));
    assert_eq!(inserts(&found).len(), 2);

    for test in Test::ALL {
        begin(&mut bench)?;
        ours(&mut bench, &tables, test)?;
        let found = logged(&mut bench)?;
        begin(&mut bench)?;
        let events = format!("--events={EVENTS}");
        debians(socket, test, ROWS, &[&events, "--time=0"], "run")?;
        let expected = logged(&mut bench)?;
        assert_eq!(found, expected, "{}", test.name());
        assert!(expected.values().any(|n| n % EVENTS == 0 && *n > 0), "{expected:?}");
    }
    Ok(())
}

#[test]
fn sql_all_tests_run_and_their_clients_count_the_rows() {
    for tables in ["1", "3"] {
        let mut changes = vec![("tables", tables), ("rows", "2000"), ("rate", "50%")];
        if tables != "1" {
            changes.push(("tests", "read_only,read_write,insert,delete"));
        }
        on_both("sysbench", &changes, |bench| {
            for test in ["read_only threads=2 after writes", "read_write threads=2 open"] {
                assert!(step(bench, test).metrics["ops"] > 0.0, "{test}");
            }
            let open = &step(bench, "read_write threads=2 open").metrics;
            assert!(open["wanted_s"] > 0.0 && open.contains_key("unserved"), "{open:?}");
            // Four steps, closed and open, may together delete a fifth of the rows, and requests in
            // progress at the end a row or two more.
            let most = 0.2 * 2000.0 * tables.parse::<f64>().expect("a number") / 4.0 + 2.0;
            let deleted = step(bench, "delete threads=1").metrics["rows_deleted"];
            assert!((1.0..=most).contains(&deleted), "{deleted} of {most}");
            // An event of read_write changes two rows, and deletes and inserts a third.
            let written = &step(bench, "read_write threads=1").metrics;
            assert_eq!(written["changed_b"], 4.0 * 188.0 * written["ops"]);
            assert!(!step(bench, "read_only threads=1").metrics.contains_key("write_amp"));
            let rows = bench.admin().value("SELECT COUNT(*) FROM sbtest1").expect("a count");
            let rows = rows.parse().expect("a number");
            let lost = "DELETE FROM sbtest1 ORDER BY id LIMIT 1";
            must_fail(bench, lost, |bench| bench.verify("sbtest1", Some(rows), false));
        });
    }
}

#[test]
fn digests_have_no_values() {
    assert_eq!(digest("SELECT c FROM sbtest12 WHERE id=345"), "SELECT c FROM sbtest12 WHERE id=?");
    assert_eq!(
        digest("\n  SELECT 1\n\tFROM t WHERE a IN (1, 'x y', 3)\n"),
        " SELECT ? FROM t WHERE a IN (…)"
    );
    assert_eq!(
        digest("INSERT INTO t(k) VALUES (1,'a','b'),(2,'c','d')"),
        "INSERT INTO t(k) VALUES(…)"
    );
}
