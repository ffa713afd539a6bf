//! Scripts of sessions, and how they are played.
//!
//! A step is a session's number and a statement. Each session is a thread with one transaction. A
//! step is sent when everything is quiet: every session has answered or waits for a lock, as the
//! store itself reports (`Db::lock_waits`). Steps of a waiting session are queued. So a script has
//! only one course, which is written as text: the answers in the order in which they come, `~`
//! where a step waits, and `2:` before an answer of another session than the step's.

use std::{
    collections::BTreeMap,
    fmt::Write,
    sync::mpsc::{Receiver, Sender, channel},
    thread,
};

use frond::{Db, Isolation, Table, TxnOptions};

use super::session::{Answer, Session, Statement, Way, Which};

/// A session's number, and its statement.
type Step = (u32, Statement);

/// The number of the session with a read-only transaction.
const READS_ONLY: u32 = 9;

/// Parses a script: `1 get 1; 2 all; 1 commit`.
pub fn parse(script: &str) -> Vec<Step> {
    script.split(';').map(|step| parse_step(step.trim())).collect()
}

fn parse_step(step: &str) -> Step {
    let words: Vec<&str> = step.split(' ').collect();
    let number = |at: usize| -> u32 {
        let word: &str = words.get(at).unwrap_or_else(|| panic!("{step:?} ends early"));
        word.parse().unwrap_or_else(|_| panic!("{step:?}: {word:?} is no number"))
    };
    let which = |at: usize| match *words.get(at).unwrap_or(&"") {
        "" | "all" => Which::All,
        word => match (word.strip_prefix('='), word.strip_prefix('%')) {
            (Some(value), _) => Which::Value(value.parse().unwrap()),
            (_, Some(divisor)) => Which::MultiplesOf(divisor.parse().unwrap()),
            _ => Which::Id(number(at)),
        },
    };
    let statement = match words[1] {
        "read" => Statement::Read(which(2)),
        "lock" => Statement::Lock(which(2), true),
        "share" => Statement::Lock(which(2), false),
        "set" => Statement::Set(number(2), number(3)),
        "add" => Statement::Add(which(2), number(3)),
        "delete" => Statement::Delete(which(2)),
        "insert" => Statement::Insert(number(2), number(3)),
        "begin" => Statement::Begin,
        "commit" => Statement::Commit,
        "rollback" => Statement::Rollback,
        _ => panic!("{step:?}"),
    };
    (number(0), statement)
}

/// A session as the player sees it.
struct Player {
    /// The id of its transaction, which lock waits report.
    txn: u64,
    /// Steps sent and not answered.
    open: usize,
    steps: Sender<Statement>,
    answers: Receiver<Answer>,
}

/// Plays a script and returns its course, with each session at its own level. `after_commit` is
/// called after each step that commits, once everything is quiet.
pub fn play(
    db: &Db,
    table: &Table,
    (way, level): (Way, &dyn Fn(u32) -> Isolation),
    script: &[Step],
    after_commit: impl Fn(&Db),
) -> String {
    let mut course = String::new();
    thread::scope(|scope| {
        let mut players: BTreeMap<u32, Player> = BTreeMap::new();
        for (number, _) in script {
            players.entry(*number).or_insert_with(|| {
                let (isolation, read_only) = (level(*number), *number == READS_ONLY);
                let lock_timeout = None;
                let options = TxnOptions::new()
                    .isolation(isolation)
                    .read_only(read_only)
                    .lock_timeout(lock_timeout);
                let txn = db.begin(options).unwrap();
                let id = txn.control().id();
                let mut session = Session { table: table.clone(), way, txn: Some(txn) };
                let (steps, given) = channel();
                let (answer, answers) = channel();
                scope.spawn(move || {
                    while let Ok(statement) = given.recv() {
                        // If there is no receiver, the player has failed.
                        let _ = answer.send(session.say(statement));
                    }
                });
                Player { txn: id, open: 0, steps, answers }
            });
        }
        for (number, statement) in script {
            let player = players.get_mut(number).expect("made above");
            let waited = player.open > 0;
            player.open += 1;
            player.steps.send(*statement).unwrap();
            settle(db, &mut players, *number, &mut course);
            if players[number].open > 0 && !waited {
                course.push_str("~ ");
            }
            if *statement == Statement::Commit {
                after_commit(db);
            }
        }
        let waiting = players.iter().filter(|(_, player)| player.open > 0);
        let waiting: Vec<_> = waiting.map(|(number, _)| number).collect();
        // Those threads would never end.
        if !waiting.is_empty() {
            eprintln!("{waiting:?} wait at the end: {course}");
            std::process::abort();
        }
    });
    course.trim_end().to_owned()
}

/// Returns once every session has answered or waits for a lock. Appends the answers to the course:
/// first those of the step's session, then those of the others by number.
fn settle(db: &Db, players: &mut BTreeMap<u32, Player>, current: u32, course: &mut String) {
    let mut answers: BTreeMap<u32, Vec<Answer>> = BTreeMap::new();
    loop {
        let waits = db.lock_waits();
        let mut is_quiet = true;
        for (number, player) in players.iter_mut() {
            while let Ok(answer) = player.answers.try_recv() {
                player.open -= 1;
                answers.entry(*number).or_default().push(answer);
                // It may have unblocked others since the waits were listed.
                is_quiet = false;
            }
            is_quiet &= player.open == 0 || waits.iter().any(|wait| wait.waiter == player.txn);
        }
        if is_quiet {
            break;
        }
        thread::yield_now();
    }
    let of_current = answers.remove(&current).into_iter().flatten();
    of_current.for_each(|answer| tell(&answer, course));
    for (number, answers) in answers {
        for answer in answers {
            write!(course, "{number}:").unwrap();
            tell(&answer, course);
        }
    }
}

fn tell(answer: &Answer, course: &mut String) {
    match answer {
        Answer::Done(1) => course.push('.'),
        Answer::Done(rows) => write!(course, "{rows}").unwrap(),
        Answer::Rows(rows) => course.push_str(&told(rows)),
        Answer::Conflict => course.push_str("conflict"),
        Answer::Deadlock => course.push_str("deadlock"),
        Answer::Over => course.push_str("over"),
    }
    course.push(' ');
}

/// Rows as text: `1=10,2=20`; `-` for none.
pub fn told(rows: &[(u32, u32)]) -> String {
    let mut rows = rows.to_vec();
    rows.sort_unstable();
    let told: Vec<String> = rows.iter().map(|(id, value)| format!("{id}={value}")).collect();
    if told.is_empty() { "-".into() } else { told.join(",") }
}
