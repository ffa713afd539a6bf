//! A table with secondary indexes, which every write keeps in step with the rows.
//!
//! `cargo run -p frond-db --example secondary_indexes [DIRECTORY]`

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
};

use frond::{Db, Duplicate, Error, IndexSpec, Options, TableSpec, tuple};

fn main() -> frond::Result<()> {
    let default = std::env::temp_dir().join("frond-secondary-indexes");
    run(&std::env::args_os().nth(1).map_or(default, PathBuf::from))
}

/// A row: mail address, name, and city, borrowed from its bytes.
type Person<'row> = (Cow<'row, str>, Cow<'row, str>, Cow<'row, str>);

pub fn run(dir: &Path) -> frond::Result<()> {
    let db = Db::open(dir, Options::new().cache_size(64 << 20))?;

    // An index has a function that appends what it orders a row by. It may fail: then the row is
    // not written.
    let mail = IndexSpec::new("mail", |_key, row, out| {
        let (mail, _name, _city): Person = tuple::decode(row)?;
        out.extend_from_slice(mail.as_bytes());
        Ok(!mail.is_empty()) // false: the row has no entry
    });
    let city = IndexSpec::new("city", |_key, row, out| {
        let (_mail, name, city): Person = tuple::decode(row)?;
        out.extend(tuple::encode(&(city, name)));
        Ok(true)
    });
    // Opens the table, or creates it. If a later version of the program adds an index, it is built
    // here.
    let spec = TableSpec::new("people").index(mail.unique()).index(city).build_missing(true);
    let people = db.table(spec)?;

    let rows = [
        (1u32, ("ada@example.org", "Ada", "London")),
        (2, ("bob@example.org", "Bob", "Oslo")),
        (3, ("eve@example.org", "Eve", "London")),
        (4, ("", "Zoe", "Oslo")),
    ];
    db.transact(|txn| {
        for (number, person) in &rows {
            people.put(txn, number.to_be_bytes(), tuple::encode(person))?;
        }
        Ok(())
    })?;

    // Reads are of the current state (&db), of a snapshot, or of what a transaction sees.
    let (key, row) = people.index("mail")?.get(&db, "bob@example.org")?.expect("it was written");
    println!("bob@example.org is row {key:?}: {:?}", tuple::decode::<Person>(&row)?);

    for person in people.index("city")?.range(&db, tuple::prefix(&("London",))) {
        let (_key, row) = person?;
        println!("in London: {}", tuple::decode::<Person>(&row)?.1);
    }

    // A unique index refuses a second row with the same value, and says which row has it.
    let twice = tuple::encode(&("ada@example.org", "Another Ada", "Rome"));
    match db.transact(|txn| people.put(txn, 5u32.to_be_bytes(), &twice)) {
        Err(Error::DuplicateKey(Duplicate::InIndex { index, row, .. })) => {
            println!("index {index} refuses it: row {row:?} has that value");
        }
        other => panic!("{other:?}"),
    }
    println!("{} people in {}", people.range(&db, ..).count(), dir.display());
    drop(people);
    db.close()
}
