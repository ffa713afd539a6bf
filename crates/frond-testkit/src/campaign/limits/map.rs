//! A store whose space map cannot list a larger file: it refuses rows as on a full disk, still
//! reads, releases space by deletes, and no checkpoint meets the bound (P1, P5, P13; I24).

use frond::{
    Batch,
    internals::bounds::{self, Tiny},
};

use super::{Rows, Story, together_with};
use crate::{
    campaign::guarded,
    drive::{Failure, fail},
};

/// Rows that would need several times the file that the map can list.
const ROWS: u32 = 8000;
/// A long value, which has an extent of its own.
const VALUE_BYTES: usize = 3000;

/// Puts long values until they are refused, opens the store again, deletes, and puts again. Returns
/// how many rows there was space for; `None` in a build whose bounds are constants.
pub fn fill_the_map(seed: u64) -> Result<Option<u32>, Failure> {
    let values = together_with(bounds::MAP_DIRECTORY_BYTES);
    let Some(tiny) = Tiny::of(&values) else { return Ok(None) };
    let tuned: Vec<_> = values.iter().map(|(bound, _)| *bound).collect();
    guarded(|| {
        let mut story = Story::begin(&tuned, seed)?;
        story.db().create_tree("t", Default::default())?;
        story.trees.insert("t".into(), Rows::new());
        let mut next = 0;
        while story.put_one(next)? {
            next += 1;
            if next == ROWS {
                return fail("nothing bounds the space map");
            }
        }
        if tiny.reached(bounds::MAP_DIRECTORY_BYTES) == 0 {
            return fail("rows were refused by something else");
        }
        story.db().checkpoint()?;
        story.reopen()?;
        for row in 0..next / 2 {
            let tree = story.db().open_tree("t")?;
            tree.delete(&row.to_be_bytes())?;
            story.trees.entry("t".into()).or_default().remove(&row.to_be_bytes()[..]);
        }
        for _ in 0..3 {
            while story.db().drain_step()? {}
            story.db().checkpoint()?;
        }
        if !story.put_one(next)? {
            return fail("deleted rows gave no space back");
        }
        story.reopen()?;
        story.end()?;
        Ok(Some(next))
    })
}

impl Story {
    /// Puts a row; true if there was space for it.
    fn put_one(&mut self, row: u32) -> Result<bool, Failure> {
        let value: Vec<u8> = (0..VALUE_BYTES).map(|_| self.dice.bits() as u8).collect();
        let tree = self.db().open_tree("t")?;
        let mut batch = Batch::new();
        let put = batch.put(&tree, &row.to_be_bytes(), &value);
        let done = put.and_then(|()| self.db().commit(&mut batch));
        if row.is_multiple_of(100) {
            while self.db().step()? {}
        }
        if self.allowed("a row", done)?.is_none() {
            return Ok(false);
        }
        self.trees.entry("t".into()).or_default().insert(row.to_be_bytes().to_vec(), value);
        Ok(true)
    }
}
