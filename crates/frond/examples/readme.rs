//! The example of README.md, which is this file from `use` to the end of `main`. Its tests run it
//! twice in one directory, and compare the two.
use frond::{Db, Options};

fn main() -> frond::Result<()> {
    let db = Db::open("bank.db", Options::new())?; // a directory; created if it does not exist
    let accounts = db.tree("accounts", Default::default())?; // also created if it does not exist
    accounts.put(b"ada", b"100")?; // durable when it returns
    db.transact(|txn| {
        let ada = txn.get_for_update(&accounts, b"ada")?.unwrap_or_default();
        txn.put(&accounts, b"bob", &ada)?;
        txn.delete(&accounts, b"ada")
    })?; // all or nothing; a conflict with another transaction runs it again
    let bob = accounts.get(b"bob")?.unwrap_or_default();
    println!("bob has {}", String::from_utf8_lossy(&bob));
    db.close()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_example_of_the_readme_runs_twice_in_one_directory() {
        let dir = tempfile::tempdir().unwrap();
        std::env::set_current_dir(&dir).unwrap();
        super::main().unwrap();
        super::main().unwrap();
        assert!(dir.path().join("bank.db").is_dir());
    }

    #[test]
    fn the_readme_shows_this_example() {
        let readme = include_str!("../../../README.md");
        let shown = readme.split("```rust,no_run\n").nth(1).unwrap().split("```").next().unwrap();
        assert!(include_str!("readme.rs").contains(shown), "{shown}");
    }
}
