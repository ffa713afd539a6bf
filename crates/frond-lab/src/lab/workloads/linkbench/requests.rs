//! LinkBench's requests in SQL, as upstream's MySQL store sends them.
//!
//! Invariants
//! 1. Writes run on a connection without autocommit, and COMMIT is sent in one round trip with the
//!    last statement.
//! 2. Reads run on a second connection, with autocommit.
//! 3. When a link is added, what follows depends on the number of rows that the first statement
//!    affected: 1 for a new link, 2 for one that became visible, 0 for one that was already
//!    visible.

use std::fmt::Write;

use super::NODE_TYPE;
use super::choice::{Choices, Drawn, LIST_MAX, List, Requester, name};
use crate::data::linktable::requests::Request;
use crate::lab::sql::{
    Connect, Session, SqlResult, Statement, Value, Worker, number_of, push_hexadecimal,
};
use crate::lab::time::millis as now_millis;
use crate::targets::{Failure, Result};

/// A client's second connection and its statements.
pub struct Store {
    reads: Session,
    add: Statement,
    visibility: Statement,
    hide: Statement,
    count: Statement,
    list: Statement,
    node: Statement,
    text: String,
}

/// The list that was requested, if it hit its limit.
type Full = Option<List>;

impl Store {
    /// Opens the second connection and prepares all statements.
    ///
    /// # Errors
    /// The server reports an error.
    pub fn new(writes: &mut Session, connect: Connect<'_>) -> Result<Self> {
        let mut reads = connect()?;
        // The data are stored as they are sent.
        reads.run("SET NAMES latin1")?;
        writes.run("SET NAMES latin1")?;
        writes.run("SET autocommit=0")?;
        const OF_LINK: &str = "WHERE id1=? AND id2=? AND link_type=?";
        Ok(Self {
            add: writes.prepare(
                "INSERT INTO linktable(id1,id2,link_type,visibility,data,time,version) VALUES(?,?,?,1,?,?,0) \
                 ON DUPLICATE KEY UPDATE visibility=VALUES(visibility)",
            )?,
            visibility: writes
                .prepare(&format!("SELECT visibility FROM linktable {OF_LINK} FOR UPDATE"))?,
            hide: writes.prepare(&format!("UPDATE linktable SET visibility=0 {OF_LINK}"))?,
            count: reads.prepare("SELECT count FROM counttable WHERE id=? AND link_type=?")?,
            list: reads.prepare(
                "SELECT id1,id2,link_type,visibility,data,time,version FROM linktable WHERE id1=? AND link_type=? \
                 AND time>=? AND time<=? AND visibility=1 ORDER BY time DESC LIMIT ?,?",
            )?,
            node: reads.prepare("SELECT id,type,version,time,data FROM nodetable WHERE id=?")?,
            reads,
            text: String::new(),
        })
    }

    /// Draws the next request and executes it.
    ///
    /// # Errors
    /// The server reports an error.
    pub fn serve(
        &mut self,
        worker: &mut Worker<'_>,
        choices: &Choices,
        requester: &mut Requester,
    ) -> Result<()> {
        choices.draw(requester);
        let (drawn, mut full) = (&requester.drawn, None);
        worker.request(name(drawn.request), 1, |writes| {
            full = self.run(writes, drawn)?;
            Ok(())
        })?;
        if let Some(list) = full {
            requester.remember(list);
        }
        Ok(())
    }

    fn run(&mut self, writes: &mut Session, drawn: &Drawn) -> SqlResult<Full> {
        match drawn.request {
            Request::AddLink | Request::UpdateLink => self.add_link(writes, drawn)?,
            Request::DeleteLink => self.delete_link(writes, drawn)?,
            Request::CountLink => {
                self.reads.query(&self.count, (drawn.id1, drawn.link_type), |_| ())?;
            }
            Request::MultigetLink => self.multiget(drawn)?,
            Request::GetLinksList => return self.list(drawn),
            Request::AddNode | Request::UpdateNode | Request::DeleteNode => {
                self.change_node(writes, drawn)?;
            }
            Request::GetNode => {
                self.reads.query(&self.node, (drawn.id1,), |_| ())?;
            }
        }
        Ok(None)
    }

    fn add_link(&mut self, writes: &mut Session, drawn: &Drawn) -> SqlResult<()> {
        let Drawn { id1, link_type, .. } = *drawn;
        let (id2, now) = (drawn.id2s[0], now_millis());
        let data = Value::Bytes(drawn.data.clone());
        let affected = writes.execute(&self.add, (id1, id2, link_type, data, now))?;
        if affected > 2 {
            let failure = format!("{affected} rows were affected by the INSERT of one link");
            return Err(Failure(failure).into());
        }
        let is_old = affected != 1;
        if affected > 0 {
            self.text.clear();
            write!(
                self.text,
                "INSERT INTO counttable(id,link_type,count,time,version) VALUES({id1},{link_type},1,{now},0) \
                 ON DUPLICATE KEY UPDATE count=count+1,time={now},version=version+1"
            )
            .expect("a string takes all that is written");
            if !is_old {
                self.text.push_str("; COMMIT");
                return writes.run_all(&self.text);
            }
            writes.run(&self.text)?;
        }
        self.text.clear();
        self.text.push_str("UPDATE linktable SET visibility=1,data=");
        push_hexadecimal(&mut self.text, &drawn.data);
        write!(
            self.text,
            ",time={now},version=0 WHERE id1={id1} AND id2={id2} AND link_type={link_type}; COMMIT"
        )
        .expect("a string takes all that is written");
        writes.run_all(&self.text)
    }

    fn delete_link(&mut self, writes: &mut Session, drawn: &Drawn) -> SqlResult<()> {
        let Drawn { id1, link_type, .. } = *drawn;
        let link = (id1, drawn.id2s[0], link_type);
        let mut visibility = None;
        writes.query(&self.visibility, link, |row| visibility = number_of(row, 0))?;
        if visibility != Some(1) {
            return writes.run("COMMIT").map(drop);
        }
        writes.execute(&self.hide, link)?;
        let now = now_millis();
        self.text.clear();
        write!(
            self.text,
            "INSERT INTO counttable(id,link_type,count,time,version) VALUES({id1},{link_type},0,{now},0) \
             ON DUPLICATE KEY UPDATE count=IF(count=0,0,count-1),time={now},version=version+1; COMMIT"
        )
        .expect("a string takes all that is written");
        writes.run_all(&self.text)
    }

    fn multiget(&mut self, drawn: &Drawn) -> SqlResult<()> {
        self.text.clear();
        let written = write!(
            self.text,
            "SELECT id1,id2,link_type,visibility,data,time,version FROM linktable WHERE id1={} AND link_type={} \
             AND id2 IN (",
            drawn.id1, drawn.link_type
        );
        written.expect("a string takes all that is written");
        for (at, id2) in drawn.id2s.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            write!(self.text, "{comma}{id2}").expect("a string takes all that is written");
        }
        self.text.push(')');
        self.reads.rows(&self.text, |_| ()).map(drop)
    }

    fn list(&mut self, drawn: &Drawn) -> SqlResult<Full> {
        // A continued list starts after the last link that was returned, which is taken to be the
        // first link with its time.
        let (id1, link_type, until, skipped) = match drawn.continued {
            Some(list) => (list.id1, list.link_type, list.time, 1),
            None => (drawn.id1, drawn.link_type, i64::MAX as u64, 0u64),
        };
        let mut last = 0;
        let found =
            self.reads.query(&self.list, (id1, link_type, 0, until, skipped, LIST_MAX), |row| {
                last = number_of(row, 5).unwrap_or(0)
            })?;
        let is_full = found == LIST_MAX;
        Ok(is_full.then_some(List { id1, link_type, time: last as u64 }))
    }

    fn change_node(&mut self, writes: &mut Session, drawn: &Drawn) -> SqlResult<()> {
        let (id, now) = (drawn.id1, now_millis() / 1000);
        self.text.clear();
        let written = match drawn.request {
            Request::AddNode => write!(
                self.text,
                "INSERT INTO nodetable(type,version,time,data) VALUES({NODE_TYPE},1,{now},"
            ),
            Request::UpdateNode => {
                write!(self.text, "UPDATE nodetable SET version=2,time={now},data=")
            }
            _ => write!(self.text, "DELETE FROM nodetable WHERE id={id} AND type={NODE_TYPE}"),
        };
        written.expect("a string takes all that is written");
        match drawn.request {
            Request::AddNode => {
                push_hexadecimal(&mut self.text, &drawn.data);
                self.text.push(')');
            }
            Request::UpdateNode => {
                push_hexadecimal(&mut self.text, &drawn.data);
                write!(self.text, " WHERE id={id} AND type={NODE_TYPE}")
                    .expect("a string takes all that is written");
            }
            _ => {}
        }
        self.text.push_str("; COMMIT");
        writes.run_all(&self.text)
    }
}
