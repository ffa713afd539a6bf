//! LinkBench on embedded stores: the same graph, load and requests as in SQL, in three tables. The
//! table of links has the index `id1_type`.
//!
//! Invariants
//! 1. A request that changes a link locks the link before its count, so that no two requests
//!    deadlock.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::super::pace;
use super::choice::{Choices, Drawn, LIST_MAX, List, Requester, name};
use super::load::{Load, ROWS, Sink};
use super::{ENTRY, INNODB_ID_BYTES, LinkBench, NODE_TYPE, PARAMS, last_tenth};
use crate::data::Source;
use crate::data::linktable::{LinkTable, requests::Request};
use crate::decode;
use crate::lab::embedded::{Batch, Bench, Entry, Rows, Worker, Workload};
use crate::lab::step::Step;
use crate::lab::time::millis as now_millis;
use crate::schema::{Checksum, Column, Index, Table, Type, Value};
use crate::targets::{Attempt, Begin, Connection, Direction, Failure, Result, Span};

pub const EMBEDDED: Entry = Entry {
    name: ENTRY.name,
    about: ENTRY.about,
    headline: ENTRY.headline,
    params: PARAMS,
    make: |params, seed| Ok(Box::new(LinkBench::new(params, seed)?)),
};

const VISIBILITY: usize = 3;
const DATA: usize = 4;
const TIME: usize = 5;
const VERSION: usize = 6;

fn links() -> Table {
    let index = Index { name: "id1_type", columns: vec![0, 2, VISIBILITY, TIME, 1, VERSION, DATA] };
    Table { indexes: vec![index], ..LinkTable::table() }
}

fn counts() -> Table {
    Table {
        name: "counttable",
        columns: vec![
            Column::new("id", Type::U64),
            Column::new("link_type", Type::U64),
            Column::new("count", Type::U32),
            Column::new("time", Type::U64),
            Column::new("version", Type::U64),
        ],
        primary: vec![0, 1],
        indexes: Vec::new(),
        base: 0,
    }
}

fn nodes() -> Table {
    Table {
        name: "nodetable",
        columns: vec![
            Column::new("id", Type::U64),
            Column::new("type", Type::U32),
            Column::new("version", Type::U64),
            Column::new("time", Type::U32),
            Column::new("data", Type::Blob),
        ],
        primary: vec![0],
        indexes: Vec::new(),
        base: 0,
    }
}

fn link_row<'v>(
    (id1, id2, link_type): (u64, u64, u64),
    data: &'v [u8],
    time: u64,
) -> [Value<'v>; 7] {
    let data = std::str::from_utf8(data).unwrap_or_default(); // it is ASCII
    [
        Value::U64(id1),
        Value::U64(id2),
        Value::U64(link_type),
        Value::I8(1),
        Value::Text(data),
        Value::U64(time),
        Value::U32(0),
    ]
}

fn count_row(id: u64, link_type: u64, count: u32, time: u64) -> [Value<'static>; 5] {
    let (count, version) = (Value::U32(count), Value::U64(0));
    [Value::U64(id), Value::U64(link_type), count, Value::U64(time), version]
}

fn node_row(id: u64, time: u64, data: &[u8]) -> [Value<'_>; 5] {
    let (kind, version) = (Value::U32(NODE_TYPE), Value::U64(1));
    [Value::U64(id), kind, version, Value::U32(time as u32), Value::Blob(data)]
}

/// The rows that a loader has collected for its next transactions.
struct Batches<'w, 'm, 'l> {
    worker: &'w mut Worker<'m>,
    load: &'l Load<'l>,
    links: Batch<'l>,
    counts: Batch<'l>,
    nodes: Batch<'l>,
}

impl Sink for Batches<'_, '_, '_> {
    fn go_on(&mut self) -> bool {
        self.worker.go_on()
    }

    fn link(&mut self, id1: u64, id2: u64, link_type: u64, data: &[u8], time: u64) -> Result<()> {
        self.links.push(&link_row((id1, id2, link_type), data, time));
        match self.links.len() == ROWS {
            true => flush(self.worker, "links", &mut self.links, &self.load.links),
            false => Ok(()),
        }
    }

    fn count(&mut self, id: u64, link_type: u64, count: u64, time: u64) -> Result<()> {
        self.counts.push(&count_row(id, link_type, count as u32, time));
        match self.counts.len() == ROWS {
            true => flush(self.worker, "counts", &mut self.counts, &self.load.counts),
            false => Ok(()),
        }
    }

    fn node(&mut self, id: u64, time: u64, data: &[u8]) -> Result<()> {
        self.nodes.push(&node_row(id, time, data));
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        flush(self.worker, "links", &mut self.links, &self.load.links)?;
        flush(self.worker, "counts", &mut self.counts, &self.load.counts)?;
        flush(self.worker, "nodes", &mut self.nodes, &self.load.nodes)
    }
}

/// Inserts the rows of a batch in a transaction of its own.
fn flush(
    worker: &mut Worker<'_>,
    kind: &'static str,
    batch: &mut Batch<'_>,
    done: &AtomicU64,
) -> Result<()> {
    done.fetch_add(worker.insert(kind, batch)?, Ordering::Relaxed);
    Ok(())
}

/// A client's access to the three tables.
struct Store<'t> {
    links: Rows<'t>,
    counts: Rows<'t>,
    nodes: Rows<'t>,
    /// Id of the next node.
    next: &'t AtomicU64,
    last: Vec<u8>,
}

impl Store<'_> {
    /// Executes the drawn request. Returns the list if it hit its limit.
    fn run(&mut self, connection: &mut dyn Connection, drawn: &Drawn) -> Attempt<Option<List>> {
        let id = [Value::U64(drawn.id1)];
        match drawn.request {
            Request::AddLink | Request::UpdateLink => self.add_link(connection, drawn)?,
            Request::DeleteLink => self.delete_link(connection, drawn)?,
            Request::CountLink => {
                self.counts.read(connection, &[id[0], Value::U64(drawn.link_type)])?;
            }
            Request::MultigetLink => {
                connection.begin(Begin::Read)?;
                for id2 in &drawn.id2s {
                    self.links.read(connection, &link_key(drawn, *id2))?;
                }
                connection.commit()?;
            }
            Request::GetLinksList => return self.list(connection, drawn),
            Request::AddNode => {
                let new = self.next.fetch_add(1, Ordering::Relaxed);
                connection.begin(Begin::Batch)?;
                let row = node_row(new, now_millis() / 1000, &drawn.data);
                self.nodes.insert(connection, &row)?;
                connection.commit()?;
            }
            Request::UpdateNode => {
                connection.begin(Begin::Write)?;
                if self.nodes.lock(connection, &id)? {
                    let time = Value::U32((now_millis() / 1000) as u32);
                    let changes = [(2, Value::U64(2)), (3, time), (4, Value::Blob(&drawn.data))];
                    self.nodes.update(connection, &changes)?;
                }
                connection.commit()?;
            }
            Request::DeleteNode => {
                connection.begin(Begin::Write)?;
                if self.nodes.lock(connection, &id)? {
                    self.nodes.delete(connection)?;
                }
                connection.commit()?;
            }
            Request::GetNode => {
                self.nodes.read(connection, &id)?;
            }
        }
        Ok(None)
    }

    fn add_link(&mut self, connection: &mut dyn Connection, drawn: &Drawn) -> Attempt<()> {
        let (id2, now) = (drawn.id2s[0], now_millis());
        connection.begin(Begin::Write)?;
        let mut is_new = true;
        if self.links.lock(connection, &link_key(drawn, id2))? {
            is_new = self.links.columns()?[VISIBILITY].integer() == 0;
            let row = link_row((drawn.id1, id2, drawn.link_type), &drawn.data, now);
            let changes = [VISIBILITY, DATA, TIME, VERSION].map(|column| (column, row[column]));
            self.links.update(connection, &changes)?;
        } else {
            let row = link_row((drawn.id1, id2, drawn.link_type), &drawn.data, now);
            self.links.insert(connection, &row)?;
        }
        if is_new {
            self.change_count(connection, drawn, now, |count| count + 1)?;
        }
        connection.commit()
    }

    fn delete_link(&mut self, connection: &mut dyn Connection, drawn: &Drawn) -> Attempt<()> {
        connection.begin(Begin::Write)?;
        if self.links.lock(connection, &link_key(drawn, drawn.id2s[0]))?
            && self.links.columns()?[VISIBILITY].integer() == 1
        {
            self.links.update(connection, &[(VISIBILITY, Value::I8(0))])?;
            self.change_count(connection, drawn, now_millis(), |count| count.saturating_sub(1))?;
        }
        connection.commit()
    }

    fn change_count(
        &mut self,
        connection: &mut dyn Connection,
        drawn: &Drawn,
        now: u64,
        change: impl Fn(u32) -> u32,
    ) -> Attempt<()> {
        let Drawn { id1, link_type, .. } = *drawn;
        if self.counts.lock(connection, &[Value::U64(id1), Value::U64(link_type)])? {
            let row = self.counts.columns()?;
            let (count, version) = (row[2].integer() as u32, row[4].integer() as u64);
            let changes = [
                (2, Value::U32(change(count))),
                (3, Value::U64(now)),
                (4, Value::U64(version + 1)),
            ];
            return self.counts.update(connection, &changes);
        }
        self.counts.insert(connection, &count_row(id1, link_type, change(0), now))
    }

    fn list(&mut self, connection: &mut dyn Connection, drawn: &Drawn) -> Attempt<Option<List>> {
        // A continued list starts after the last link that was returned, which is taken to be the
        // first link with its time.
        let (id1, link_type, until, skipped) = match drawn.continued {
            Some(list) => (list.id1, list.link_type, list.time, 1),
            None => (drawn.id1, drawn.link_type, u64::MAX, 0),
        };
        let span = Span {
            equal: &[Value::U64(id1), Value::U64(link_type), Value::I8(1)],
            to: &[Value::U64(until.min(i64::MAX as u64))],
            direction: Direction::Reverse,
            limit: LIST_MAX + skipped,
            ..Span::ALL
        };
        let (mut found, last) = (0, &mut self.last);
        connection.range(self.links.table, 1, &span, &mut |key, _| {
            found += 1;
            last.clear();
            last.extend_from_slice(key);
            true
        })?;
        if found < span.limit {
            return Ok(None);
        }
        let columns = decode::key(self.links.table, 1, last);
        let columns = columns.ok_or_else(|| Failure("linktable: a strange entry".to_owned()))?;
        Ok(Some(List { id1, link_type, time: columns[3].integer() as u64 }))
    }
}

fn link_key(drawn: &Drawn, id2: u64) -> [Value<'static>; 3] {
    [Value::U64(drawn.link_type), Value::U64(drawn.id1), Value::U64(id2)]
}

impl LinkBench {
    fn load_graph(&self, bench: &mut Bench<'_>, choices: &Choices) -> Result<u64> {
        let load = Load::new(self.seed, self.ids, choices);
        let tables = ["linktable", "counttable", "nodetable"].map(|name| bench.table(name));
        let [links, counts, nodes] = tables;
        let (links, counts, nodes) = (links?, counts?, nodes?);
        let mut step = Step::load("load", load.planned(), 80);
        step.clients = self.loaders + 1;
        bench.step(&step, |worker| {
            let is_of_nodes = worker.index == 0;
            let (links, counts) = (Batch::new(links), Batch::new(counts));
            let load = &load;
            let mut sink = Batches { worker, load, links, counts, nodes: Batch::new(nodes) };
            match is_of_nodes {
                true => load.load_nodes(&mut sink),
                false => load.load_links(&mut sink),
            }
        })?;
        let loaded = load.loaded();
        bench.loaded((loaded.links + loaded.counts + loaded.nodes, loaded.bytes))?;
        for (table, rows) in [(links, loaded.links), (counts, loaded.counts), (nodes, loaded.nodes)]
        {
            bench.verify(table, Some(rows), true)?;
        }
        Ok(loaded.nodes)
    }

    fn serve(&self, bench: &mut Bench<'_>, choices: &Choices, next: &AtomicU64) -> Result<()> {
        let tables = ["linktable", "counttable", "nodetable"].map(|name| bench.table(name));
        let [links, counts, nodes] = tables;
        let (links, counts, nodes) = (links?, counts?, nodes?);
        let mut step = Step::timed("requests", self.seconds, self.warm_up, self.requesters);
        step.writes = true;
        step.series = &["add_link"];
        // A client's random streams continue after the warm-up.
        let requesters: Vec<_> =
            (0..self.requesters).map(|at| Mutex::new(Requester::new(self.seed, at))).collect();
        let serve = |worker: &mut Worker<'_>| {
            let mut requester =
                requesters[worker.index as usize].lock().unwrap_or_else(|e| e.into_inner());
            let mut store = Store {
                links: Rows::new(links),
                counts: Rows::new(counts),
                nodes: Rows::new(nodes),
                next,
                last: Vec::new(),
            };
            while worker.go_on() {
                choices.draw(&mut requester);
                let (drawn, mut full) = (&requester.drawn, None);
                worker.request(name(drawn.request), 1, |connection| {
                    full = store.run(connection, drawn)?;
                    Ok(())
                })?;
                if let Some(list) = full {
                    requester.remember(list);
                }
            }
            Ok(())
        };
        pace::run(bench, &step, self.rate, |bench, step| {
            let made = bench.step(step, serve)?;
            if let Some(rate) = last_tenth(made) {
                made.metrics.insert("add_link_10s".to_owned(), 10.0 * rate);
            }
            Ok(())
        })
    }
}

/// Verifies that each count is the number of visible links.
fn verify_counts(bench: &mut Bench<'_>) -> Result<()> {
    if !bench.keeps_rows() {
        return Ok(());
    }
    let (links, counts) = (bench.table("linktable")?, bench.table("counttable")?);
    let mut said = Checksum::default();
    bench.read_all(counts, 0, &mut |key, value| {
        let row = decode::row(counts, key, value).unwrap_or_default();
        if let [id, link_type, count, ..] = row[..]
            && count.integer() > 0
        {
            said.add(&group(id, link_type), &count.integer().to_be_bytes());
        }
        true
    })?;
    // Links of the same node and type are adjacent.
    let (mut found, mut current) = (Checksum::default(), (Vec::new(), 0i64));
    let mut end = |(group, links): &(Vec<u8>, i64)| {
        if *links > 0 {
            found.add(group, &links.to_be_bytes());
        }
    };
    bench.read_all(links, 0, &mut |key, value| {
        let row = decode::row(links, key, value).unwrap_or_default();
        if let [id1, _, link_type, visibility, ..] = row[..] {
            let group = group(id1, link_type);
            if group != current.0 {
                end(&current);
                current = (group, 0);
            }
            current.1 += visibility.integer();
        }
        true
    })?;
    end(&current);
    let text = |sum: &Checksum| format!("{} nodes and types with sum {}", sum.rows, sum.hex());
    let detail = format!("counts: {}; visible links: {}", text(&said), text(&found));
    bench.result.verify("counts of visible links", said == found, detail);
    Ok(())
}

fn group(id: Value<'_>, link_type: Value<'_>) -> Vec<u8> {
    let mut group = Vec::with_capacity(16);
    id.append_key(&mut group);
    link_type.append_key(&mut group);
    group
}

impl Workload for LinkBench {
    fn tables(&self) -> Vec<Table> {
        vec![links(), counts(), nodes()]
    }

    fn innodb_bytes(&self) -> u64 {
        self.ids * INNODB_ID_BYTES
    }

    fn run(&mut self, bench: &mut Bench<'_>) -> Result<(u64, u64)> {
        let choices = Choices::new(self.seed, self.ids, self.strict);
        let nodes = self.load_graph(bench, &choices)?;
        if !bench.is_over() {
            let next = AtomicU64::new(nodes + 1);
            self.serve(bench, &choices, &next)?;
            bench.rest()?;
        }
        let (mut rows, mut bytes) = (0, 0);
        for name in ["linktable", "counttable", "nodetable"] {
            let live = bench.verify(bench.table(name)?, None, false)?;
            rows += live.0;
            bytes += live.1;
        }
        verify_counts(bench)?;
        Ok((rows, bytes))
    }
}

#[cfg(test)]
mod tests {
    use crate::lab::embedded::testing::{on_all, step_of};

    #[test]
    fn embedded_counts_match_visible_links() {
        on_all("linkbench", &[], |target, result| {
            let step = step_of(result, "requests");
            for request in ["add_link", "get_links_list", "delete_node"] {
                assert!(step.latencies.contains_key(request), "{target}: {request}");
            }
            assert!(step.series["add_link"].last().is_some_and(|(_, done)| *done > 0.0));
            let counts = |name: &str| name == "counts of visible links";
            let is_verified = result.verified.iter().any(|found| counts(&found.name));
            assert_eq!(is_verified, target != "null");
        });
    }
}
