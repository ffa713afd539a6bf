//! Requests in the shares of LinkBench, on rows of the one table.
//!
//! An id has eight rows: its node, the number of its links, and six links. The lowest bit of a
//! link's number says whether the link is visible. Ids are drawn from a Zipf distribution with
//! exponent 0.8, uncorrelated, as LinkBench's source does for reads and writes.
//!
//! Invariants
//! 1. A request that needs a link and its count locks the link first, so there are no deadlocks.
//! 2. A node that was deleted does not come back.
//!
//! Threads: each client has its own.

use super::client::Client;
use super::rows::{ADDED, State};
use crate::data::linktable::requests::{Request, SHARES};
use crate::random::{GrayZipf, Random};
use crate::targets::{Attempt, Begin, Connection};

/// Number of rows of an id.
pub const ROWS_PER_ID: u64 = 8;
const COUNT: u64 = 1;
const LINKS: std::ops::Range<u64> = 2..ROWS_PER_ID;
/// An odd prime, which scatters ranks over the ids.
const SCATTER: u64 = 2_654_435_761;

/// The distribution of a client's requests.
#[derive(Clone)]
pub struct Mix {
    zipf: GrayZipf,
    ids: u64,
}

/// A request with the values drawn for it, so that a retried transaction makes the same request.
#[derive(Clone, Copy, Debug)]
pub struct Drawn {
    request: Request,
    /// The first row of its id.
    id: u64,
    /// One of the id's links.
    link: u64,
    /// Number of links to read.
    links: u64,
}

impl Mix {
    /// Prepares requests on this many rows.
    pub fn new(rows: u64) -> Self {
        let ids = (rows / ROWS_PER_ID).max(1);
        Self { zipf: GrayZipf::new(ids.max(2), 0.8), ids }
    }

    /// Draws the next request.
    pub fn draw(&self, random: &mut Random) -> Drawn {
        let (request, _) = SHARES[random.weighted(&SHARES.map(|(_, share)| share))];
        let id = match request {
            Request::DeleteNode => random.below(self.ids),
            _ => self.zipf.draw(random).wrapping_mul(SCATTER) % self.ids,
        };
        let link = random.between(LINKS.start, LINKS.end - 1);
        // Between 2 and 5, 3.5 on average, of an id's six links. LinkBench's average is 3.6.
        let links = random.between(2, 5);
        Drawn { request, id: id * ROWS_PER_ID, link, links }
    }
}

/// Executes a drawn request in one transaction.
pub fn serve(client: &mut Client<'_>, on: &mut dyn Connection, drawn: Drawn) -> Attempt<()> {
    let Drawn { request, id, link, links } = drawn;
    match request {
        Request::AddLink | Request::UpdateLink => set_link(client, on, (id, link), true),
        Request::DeleteLink => set_link(client, on, (id, link), false),
        Request::CountLink => client.read(on, id + COUNT).map(drop),
        Request::GetNode => client.read(on, id).map(drop),
        Request::MultigetLink => {
            client.begin(on, Begin::Read)?;
            for link in LINKS.skip((link % 2) as usize).take(links as usize) {
                client.read(on, id + link)?;
            }
            client.commit(on)
        }
        Request::GetLinksList => client.list(on, id + LINKS.start, id + LINKS.end),
        Request::AddNode => client.add(on, ADDED),
        Request::UpdateNode => {
            client.begin(on, Begin::Write)?;
            if let Some(state) = client.read_for_update(on, id)? {
                client.put(on, id, bumped(state, state.number))?;
            }
            client.commit(on)
        }
        Request::DeleteNode => {
            client.begin(on, Begin::Write)?;
            client.delete(on, id)?;
            client.commit(on)
        }
    }
}

fn bumped(state: State, number: u32) -> State {
    State { version: state.version.wrapping_add(1), number }
}

/// Makes a link visible with new data, or hides it, and updates the count.
fn set_link(
    client: &mut Client<'_>,
    on: &mut dyn Connection,
    (id, link): (u64, u64),
    visible: bool,
) -> Attempt<()> {
    client.begin(on, Begin::Write)?;
    if let Some(state) = client.read_for_update(on, id + link)? {
        let was_visible = state.number & 1 == 1;
        if visible || was_visible {
            client.put(on, id + link, bumped(state, state.number & !1 | u32::from(visible)))?;
        }
        if visible != was_visible
            && let Some(count) = client.read_for_update(on, id + COUNT)?
        {
            let by = if visible { 1 } else { u32::MAX };
            client.put(on, id + COUNT, bumped(count, count.number.wrapping_add(by)))?;
        }
    }
    client.commit(on)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_requests_list_links() {
        let (mix, mut random) = (Mix::new(80_000), Random::new(5));
        let mut lists = 0;
        for _ in 0..100_000 {
            let drawn = mix.draw(&mut random);
            assert!(drawn.id % ROWS_PER_ID == 0 && drawn.id < 80_000);
            assert!(LINKS.contains(&drawn.link) && (2..6).contains(&drawn.links));
            lists += u32::from(drawn.request == Request::GetLinksList);
        }
        assert!((50_000..51_400).contains(&lists), "{lists}");
    }
}
