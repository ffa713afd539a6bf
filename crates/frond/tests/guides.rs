//! Tests the programs of docs/guide.md, docs/tables.md and docs/transactions.md: the documents
//! contain the same source text as this file, and each program runs twice in one directory.

use std::error::Error;

const GUIDES: [&str; 3] = [
    include_str!("../../../docs/guide.md"),
    include_str!("../../../docs/tables.md"),
    include_str!("../../../docs/transactions.md"),
];

/// A program of a guide, as it is called here.
type Program = fn() -> Result<(), Box<dyn Error>>;

const PROGRAMS: [Program; 11] = [
    || Ok(open_or_create::main()?),
    || Ok(keys_of_several_parts::main()?),
    || Ok(ranges::main()?),
    || Ok(batches::main()?),
    transfers::main,
    || Ok(columns::main()?),
    || Ok(retention::main()?),
    backups::main,
    || Ok(tables::main()?),
    || Ok(closures::main()?),
    || Ok(retries::main()?),
];

mod open_or_create {
    use frond::{Db, Options};

    pub fn main() -> frond::Result<()> {
        let db = Db::open("app.db", Options::new().cache_size(64 << 20))?;
        let people = db.tree("people", Default::default())?;

        people.put("ada", "London")?; // durable when it returns
        assert_eq!(people.get("ada")?.as_deref(), Some(&b"London"[..]));
        people.delete("ada")?;
        db.close()
    }
}

mod keys_of_several_parts {
    use frond::{Db, Options, tuple};

    pub fn main() -> frond::Result<()> {
        let db = Db::open("app.db", Options::new())?;
        let visits = db.tree("visits", Default::default())?;
        visits.put(tuple::encode(&("Oslo", 1_700_000_000u64)), "ada")?;
        visits.put(tuple::encode(&("Oslo", 1_700_000_060u64)), "bob")?;

        for row in visits.range(tuple::prefix(&("Oslo",))) {
            let (key, person) = row?;
            let (city, at): (String, u64) = tuple::decode(&key)?;
            println!("{city} {at} {}", String::from_utf8_lossy(&person));
        }
        db.close()
    }
}

mod ranges {
    use frond::{Db, Options};

    pub fn main() -> frond::Result<()> {
        let db = Db::open("app.db", Options::new())?;
        let users = db.tree("users", Default::default())?;
        for name in ["user:ada", "user:bob", "zone:1"] {
            users.put(name, "")?;
        }
        assert_eq!(users.count(frond::prefix("user:"))?, 2);
        let last = users.range(..).next_back().transpose()?; // the greatest key
        assert_eq!(last.map(|(key, _)| key), Some(b"zone:1".to_vec()));
        db.close()
    }
}

mod batches {
    use frond::{Batch, Db, Options, tuple};

    pub fn main() -> frond::Result<()> {
        let db = Db::open("app.db", Options::new())?;
        let people = db.tree("people", Default::default())?;
        let by_city = db.tree("people.by_city", Default::default())?;

        let mut batch = Batch::new();
        batch.put(&people, "ada", "London")?;
        batch.put(&by_city, tuple::encode(&("London", "ada")), "")?;
        db.commit(&mut batch)?;
        db.close()
    }
}

mod transfers {
    use frond::{Db, Options};
    use std::error::Error;

    fn balance(value: Option<Vec<u8>>) -> Result<u64, Box<dyn Error>> {
        value.map_or(Ok(0), |value| Ok(String::from_utf8(value)?.parse()?))
    }

    pub fn main() -> Result<(), Box<dyn Error>> {
        let db = Db::open("bank.db", Options::new())?;
        let accounts = db.tree("accounts", Default::default())?;
        accounts.put("ada", "200")?;

        let rest = db.try_transact(|txn| -> Result<u64, Box<dyn Error>> {
            let ada = balance(txn.get_for_update(&accounts, "ada")?)?;
            let bob = balance(txn.get_for_update(&accounts, "bob")?)?;
            let rest = ada.checked_sub(150).ok_or("there is too little money")?; // rolls back
            txn.put(&accounts, "ada", rest.to_string())?;
            txn.put(&accounts, "bob", (bob + 150).to_string())?;
            Ok(rest)
        })?;
        assert_eq!(rest, 50);
        db.close()?;
        Ok(())
    }
}

mod columns {
    use frond::{Db, Options, SizeClass, TreeOptions, tuple};

    pub fn main() -> frond::Result<()> {
        let db = Db::open("cities.db", Options::new())?;
        let options = TreeOptions::new()
            .key_layout(tuple::layout_of::<(&str, u64)>())
            .size_class(SizeClass::Small);
        let by_city = db.tree("people.by_city", options)?;
        by_city.put(tuple::encode(&("London", 7u64)), "")?;
        db.close()
    }
}

mod retention {
    use frond::{Db, Options, tuple};

    pub fn main() -> frond::Result<()> {
        let db = Db::open("app.db", Options::new())?;
        let events = db.tree("events", Default::default())?;
        for at in 0u64..100 {
            events.put(tuple::encode(&(at,)), "event")?;
        }
        events.delete_range(..tuple::encode(&(90u64,)))?;
        assert_eq!(events.count(..)?, 10);
        db.close()
    }
}

mod backups {
    use frond::{
        Db, Options,
        backup::{self, Backup},
    };
    use std::{error::Error, fs};

    pub fn main() -> Result<(), Box<dyn Error>> {
        fs::create_dir_all("backups")?;
        let db = Db::open("app.db", Options::new())?;
        let people = db.tree("people", Default::default())?;
        people.put("ada", "London")?;
        let sunday = db.backup("backups/sunday")?; // a directory, a store of its own
        people.put("bob", "Oslo")?;
        db.backup_since(&sunday.id, "backups/monday")?; // a file

        backup::verify("backups/sunday")?;
        backup::restore("backups/sunday", "backups/as-of-sunday")?;
        let chain = Backup::new("backups/sunday").increment("backups/monday");
        chain.restore("backups/as-of-monday")?;

        let restored = Db::open("backups/as-of-monday", Options::new())?;
        assert!(restored.open_tree("people")?.contains("bob")?);
        restored.close()?;
        db.close()?;
        fs::remove_dir_all("backups")?; // only so that the program can run again
        Ok(())
    }
}

mod tables {
    use frond::{Db, IndexSpec, Options, TableSpec, tuple};

    pub fn main() -> frond::Result<()> {
        let db = Db::open("shop.db", Options::new())?;
        // A key: the order's number. A row: the customer's number, and the sum.
        let by_customer = IndexSpec::new("customer", |_key, row, out| {
            let (customer, _sum): (u32, i64) = tuple::decode(row)?;
            out.extend(tuple::encode(&(customer,)));
            Ok(true) // Ok(false): this row has no entry
        });
        let orders = db.table(TableSpec::new("orders").index(by_customer))?;

        db.transact(|txn| {
            orders.put(txn, tuple::encode(&(7u64,)), tuple::encode(&(42u32, 990i64)))
        })?;

        for order in orders.index("customer")?.range(&db, tuple::prefix(&(42u32,))) {
            let (key, row) = order?;
            let (number,): (u64,) = tuple::decode(&key)?;
            let (_customer, sum): (u32, i64) = tuple::decode(&row)?;
            println!("order {number}: {sum}");
        }
        db.close()
    }
}

mod closures {
    use frond::{Db, Options};

    pub fn main() -> frond::Result<()> {
        let db = Db::open("bank.db", Options::new())?;
        let accounts = db.tree("accounts", Default::default())?;
        accounts.put("ada", "100")?;

        db.transact(|txn| {
            let ada = txn.get_for_update(&accounts, "ada")?.unwrap_or_default(); // read, and lock
            txn.put(&accounts, "bob", ada)?;
            txn.delete(&accounts, "ada")
        })?;
        assert_eq!(accounts.get("bob")?.as_deref(), Some(&b"100"[..]));
        db.close()
    }
}

mod retries {
    use frond::{Db, Error, Options};

    pub fn main() -> frond::Result<()> {
        let db = Db::open("bank.db", Options::new())?;
        let accounts = db.tree("accounts", Default::default())?;
        loop {
            let txn = db.begin(Default::default())?;
            let transfer = || -> frond::Result<()> {
                let ada = txn.get_for_update(&accounts, "ada")?.unwrap_or_default();
                txn.put(&accounts, "bob", ada)?;
                txn.delete(&accounts, "ada")
            };
            match transfer() {
                Ok(()) => {
                    txn.commit()?;
                    break;
                }
                Err(Error::Conflict { .. } | Error::Deadlock { .. }) => {} // rolled back: again
                Err(error) => return Err(error), // dropping `txn` rolls it back
            }
        }
        db.close()
    }
}

/// In one test, because a process has one current directory.
#[test]
fn the_programs_of_the_guides_run_twice_in_one_directory() {
    for (number, program) in PROGRAMS.iter().enumerate() {
        let dir = tempfile::tempdir().unwrap();
        std::env::set_current_dir(&dir).unwrap();
        for run in 1..=2 {
            program().unwrap_or_else(|error| panic!("program {number}, run {run}: {error}"));
        }
    }
}

/// The modules above are the programs of the guides, in their order and without indentation.
#[test]
fn the_guides_show_these_programs() {
    let source = include_str!("guides.rs");
    let here: Vec<String> = source
        .split("\nmod ")
        .skip(1)
        .map(|module| {
            let lines = module.lines().skip(1).take_while(|line| *line != "}");
            let lines = lines.map(|line| line.strip_prefix("    ").unwrap_or(line));
            lines.map(|line| line.replace("pub fn main", "fn main") + "\n").collect()
        })
        .collect();
    let shown = GUIDES.iter().flat_map(|guide| guide.split("```rust\n").skip(1));
    let shown: Vec<&str> = shown.map(|rest| rest.split("```").next().unwrap()).collect();
    assert_eq!(here, shown);
    assert_eq!(PROGRAMS.len(), shown.len());
}
