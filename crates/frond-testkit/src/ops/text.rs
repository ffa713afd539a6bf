//! The text form of scripts: [`script_text`] writes it, [`parse_script`] reads it back.

use std::fmt::{self, Write as _};

use frond::Durability;

use super::{Key, Op, Value, Write, txn};

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", char::from(self.class), self.number)?;
        if self.tail > 0 {
            write!(f, "+{}", self.tail)?;
        }
        Ok(())
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}*{}", self.seed, self.bytes)
    }
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Write::Put(tree, key, value) => write!(f, "put {tree} {key} {value}"),
            Write::Insert(tree, key, value) => write!(f, "insert {tree} {key} {value}"),
            Write::Delete(tree, key) => write!(f, "delete {tree} {key}"),
            Write::Add(tree, key, number) => write!(f, "add {tree} {key} {number}"),
            Write::Max(tree, key, value) => write!(f, "max {tree} {key} {value}"),
            Write::Min(tree, key, value) => write!(f, "min {tree} {key} {value}"),
            Write::Append(tree, key, value) => write!(f, "append {tree} {key} {value}"),
            Write::Range(tree, from, to) => write!(f, "range {tree} {from} {to}"),
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Create { tree, unique: false } => write!(f, "create {tree}"),
            Op::Create { tree, unique: true } => write!(f, "create {tree} unique"),
            Op::Drop(tree) => write!(f, "drop {tree}"),
            Op::Rename(from, to) => write!(f, "rename {from} {to}"),
            Op::Clone(from, to) => write!(f, "clone {from} {to}"),
            Op::Commit(level, writes) => {
                write!(f, "commit {}:", level_name(*level))?;
                for (index, entry) in writes.iter().enumerate() {
                    write!(f, "{} {entry}", if index == 0 { "" } else { ";" })?;
                }
                Ok(())
            }
            Op::Bulk { tree, unique, value, keys } => {
                let unique = if *unique { "unique " } else { "" };
                write!(f, "bulk {tree} {unique}{value}")?;
                keys.iter().try_for_each(|key| write!(f, " {key}"))
            }
            Op::Fill { tree, value, keys } => {
                write!(f, "fill {tree} {value}")?;
                keys.iter().try_for_each(|key| write!(f, " {key}"))
            }
            Op::Begin(slot, isolation, level) => {
                f.write_str(&txn::begin_text(*slot, *isolation, *level))
            }
            Op::InTxn(slot, call) => write!(f, "txn {slot} {call}"),
            Op::Decide(number, true) => write!(f, "decide {number} commit"),
            Op::Decide(number, false) => write!(f, "decide {number} rollback"),
            Op::Get(tree, key) => write!(f, "get {tree} {key}"),
            Op::Scan { tree, from, to, limit, reverse } => {
                let verb = if *reverse { "rscan" } else { "scan" };
                write!(f, "{verb} {tree} {from} {to} {limit}")
            }
            Op::Snapshot(name) => write!(f, "snapshot {name}"),
            Op::Unsnapshot(name) => write!(f, "unsnapshot {name}"),
            Op::ReadSnapshot(name) => write!(f, "resnapshot {name}"),
            Op::Hold(slot) => write!(f, "hold {slot}"),
            Op::ReadHeld(slot) => write!(f, "held {slot}"),
            Op::Release(slot) => write!(f, "release {slot}"),
            Op::Checkpoint => write!(f, "checkpoint"),
            Op::Step(count) => write!(f, "step {count}"),
            Op::Drain(count) => write!(f, "drain {count}"),
            Op::Advance(millis) => write!(f, "advance {millis}"),
            Op::Reopen => write!(f, "reopen"),
            Op::Crash(seed) => write!(f, "crash {seed}"),
            Op::Kill => write!(f, "kill"),
        }
    }
}

pub(super) fn level_name(level: Option<Durability>) -> &'static str {
    match level {
        None => "default",
        Some(Durability::Sync) => "sync",
        Some(Durability::Os) => "os",
        Some(Durability::Lazy) => "lazy",
    }
}

/// A level by its name; the outer `None`: there is no such level.
pub(super) fn parse_level(name: &str) -> Option<Option<Durability>> {
    Some(match name {
        "default" => None,
        "sync" => Some(Durability::Sync),
        "os" => Some(Durability::Os),
        "lazy" => Some(Durability::Lazy),
        _ => return None,
    })
}

/// A script as text.
pub fn script_text(script: &[Op]) -> String {
    let mut text = String::new();
    for op in script {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{op}");
    }
    text
}

/// Reads a script. The error names the line.
pub fn parse_script(text: &str) -> Result<Vec<Op>, String> {
    let mut script = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if !line.is_empty() {
            let op = parse_op(line);
            script.push(op.ok_or_else(|| format!("line {}: no operation: {line}", index + 1))?);
        }
    }
    Ok(script)
}

fn parse_op(line: &str) -> Option<Op> {
    if let Some(rest) = line.strip_prefix("commit ") {
        let (level, entries) = rest.split_once(':')?;
        let level = parse_level(level.trim())?;
        let entries = entries.split(';').map(str::trim).filter(|entry| !entry.is_empty());
        return Some(Op::Commit(level, entries.map(parse_write).collect::<Option<_>>()?));
    }
    if let Some(rest) = line.strip_prefix("txn ") {
        return txn::parse_call(rest);
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    let name = |index: usize| words.get(index).map(|word| (*word).to_owned());
    let number = |index: usize| words.get(index).and_then(|word| word.parse().ok());
    let slot = || words.get(1).and_then(|word| word.parse().ok());
    Some(match *words.first()? {
        "create" => Op::Create { tree: name(1)?, unique: words.get(2) == Some(&"unique") },
        "drop" => Op::Drop(name(1)?),
        "rename" => Op::Rename(name(1)?, name(2)?),
        "clone" => Op::Clone(name(1)?, name(2)?),
        "bulk" => {
            let unique = words.get(2) == Some(&"unique");
            let (value, keys) = words.get(2 + usize::from(unique)..)?.split_first()?;
            let keys = keys.iter().map(|word| parse_key(word)).collect::<Option<_>>()?;
            Op::Bulk { tree: name(1)?, unique, value: parse_value(value)?, keys }
        }
        "fill" => {
            let (value, keys) = words.get(2..)?.split_first()?;
            let keys = keys.iter().map(|word| parse_key(word)).collect::<Option<_>>()?;
            Op::Fill { tree: name(1)?, value: parse_value(value)?, keys }
        }
        "begin" => txn::parse_begin(&words)?,
        "decide" => match *words.get(2)? {
            "commit" => Op::Decide(slot()?, true),
            "rollback" => Op::Decide(slot()?, false),
            _ => return None,
        },
        "get" => Op::Get(name(1)?, parse_key(words.get(2)?)?),
        verb @ ("scan" | "rscan") => Op::Scan {
            tree: name(1)?,
            from: parse_key(words.get(2)?)?,
            to: parse_key(words.get(3)?)?,
            limit: number(4)?,
            reverse: verb == "rscan",
        },
        "snapshot" => Op::Snapshot(name(1)?),
        "unsnapshot" => Op::Unsnapshot(name(1)?),
        "resnapshot" => Op::ReadSnapshot(name(1)?),
        "hold" => Op::Hold(slot()?),
        "held" => Op::ReadHeld(slot()?),
        "release" => Op::Release(slot()?),
        "checkpoint" => Op::Checkpoint,
        "step" => Op::Step(number(1)?),
        "drain" => Op::Drain(number(1)?),
        "advance" => Op::Advance(number(1)?),
        "reopen" => Op::Reopen,
        "crash" => Op::Crash(words.get(1)?.parse().ok()?),
        "kill" => Op::Kill,
        _ => return None,
    })
}

pub(super) fn parse_write(entry: &str) -> Option<Write> {
    let words: Vec<&str> = entry.split_whitespace().collect();
    let tree = (*words.get(1)?).to_owned();
    let key = parse_key(words.get(2)?)?;
    let value = || words.get(3).and_then(|word| parse_value(word));
    Some(match *words.first()? {
        "put" => Write::Put(tree, key, value()?),
        "insert" => Write::Insert(tree, key, value()?),
        "delete" => Write::Delete(tree, key),
        "add" => Write::Add(tree, key, words.get(3)?.parse().ok()?),
        "max" => Write::Max(tree, key, value()?),
        "min" => Write::Min(tree, key, value()?),
        "append" => Write::Append(tree, key, value()?),
        "range" => Write::Range(tree, key, parse_key(words.get(3)?)?),
        _ => return None,
    })
}

pub(super) fn parse_key(word: &str) -> Option<Key> {
    let class = *word.as_bytes().first().filter(|class| class.is_ascii_alphabetic())?;
    let rest = &word[1..];
    let (number, tail) = rest.split_once('+').unwrap_or((rest, "0"));
    Some(Key { class, number: number.parse().ok()?, tail: tail.parse().ok()? })
}

pub(super) fn parse_value(word: &str) -> Option<Value> {
    let (seed, bytes) = word.strip_prefix('v')?.split_once('*')?;
    Some(Value { seed: seed.parse().ok()?, bytes: bytes.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::{super::*, *};

    #[test]
    fn a_script_round_trips_through_text() {
        for seed in 0..50 {
            let swarm = Swarm { fill: 5, ..Swarm::everything(200) }.with_transactions(seed);
            let script = generate(seed, &swarm);
            assert_eq!(parse_script(&script_text(&script)), Ok(script));
        }
    }

    #[test]
    fn a_malformed_line_is_reported() {
        assert_eq!(parse_script("get t0 k1\nfly t0").unwrap_err(), "line 2: no operation: fly t0");
    }
}
