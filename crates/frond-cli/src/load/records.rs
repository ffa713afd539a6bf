//! Converts records to keys, rows and index keys, as the header of their tree requires.

use crate::{
    fail::{Fail, Result},
    parse::Record,
    rows::{Header, RowBuilder},
};

/// The destination of a field.
#[derive(Clone, Copy)]
enum Place {
    Column(usize),
    More,
}

/// Builds the rows of consecutive records.
pub struct Records<'h> {
    header: &'h Header,
    /// How to load empty fields as null.
    null_hint: Option<&'static str>,
    builder: RowBuilder,
    index_key: Vec<u8>,
    /// The destinations of the fields, by name.
    places: Vec<Place>,
    /// The key of the next record, if they are numbered.
    pub next_number: u64,
}

impl<'h> Records<'h> {
    /// Creates a builder.
    pub fn new(header: &'h Header, null_hint: Option<&'static str>) -> Self {
        Self {
            header,
            null_hint,
            builder: RowBuilder::new(header),
            index_key: Vec::new(),
            places: Vec::new(),
            next_number: 0,
        }
    }

    /// Builds the key and the row of a record, and keeps the values of its indexed columns for
    /// [`index_key`](Self::index_key).
    pub fn build(&mut self, record: &Record, names: &[String]) -> Result<&RowBuilder> {
        let at_line = |why: String| Fail::Error(format!("line {}: {why}", record.line));
        self.builder.clear();
        for (name, value) in record.fields() {
            let place = match self.places.get(name as usize) {
                Some(place) => *place,
                None => {
                    self.learn_places(names).map_err(at_line)?;
                    self.places[name as usize]
                }
            };
            match place {
                Place::Column(column) => self.builder.set(column, value),
                Place::More => self.builder.set_more(&names[name as usize], value),
            }
        }
        self.builder.finish(self.header, self.next_number).map_err(at_line)?;
        self.next_number += 1;
        Ok(&self.builder)
    }

    /// The result of the last build.
    pub fn built(&self) -> &RowBuilder {
        &self.builder
    }

    /// The key in index `at` from the last build.
    ///
    /// # Errors
    /// The value is not of the type of the indexed column.
    pub fn index_key(&mut self, at: usize) -> Result<&[u8], String> {
        let Self { header, builder, index_key, null_hint, .. } = self;
        builder.index_key(header, at, index_key).map_err(|why| match null_hint {
            Some(hint) if builder.indexed_value(at) == Some(b"") => {
                format!("{why}; {hint}")
            }
            _ => why,
        })?;
        Ok(index_key)
    }

    fn learn_places(&mut self, names: &[String]) -> Result<(), String> {
        for name in names.iter().skip(self.places.len()) {
            let column = self.header.columns.iter().position(|known| known == name);
            self.places.push(match column {
                Some(column) => Place::Column(column),
                None if self.header.more => Place::More,
                None => return Err(format!("the tree has no column \"{name}\"")),
            });
        }
        Ok(())
    }
}
