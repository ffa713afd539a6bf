//! Transfers between accounts: transactions with an error of the program's own, which are run again
//! if they conflict.
//!
//! `cargo run -p frond-db --example bank_transfer [DIRECTORY]`

use std::path::{Path, PathBuf};

use frond::{Db, Options, Tree, Txn};

const ACCOUNTS: u64 = 5;

/// Why a transfer was not made.
#[derive(Debug)]
pub enum Failure {
    NoMoney { account: u64, balance: u64 },
    Store(frond::Error),
}

impl From<frond::Error> for Failure {
    fn from(error: frond::Error) -> Self {
        Self::Store(error)
    }
}

fn main() -> Result<(), Failure> {
    let default = std::env::temp_dir().join("frond-bank-transfer");
    run(&std::env::args_os().nth(1).map_or(default, PathBuf::from))
}

fn balance(txn: &Txn, accounts: &Tree, account: u64) -> frond::Result<u64> {
    // The row is locked until the transaction ends, so the balance stays what was read.
    let found = txn.get_for_update(accounts, &account.to_be_bytes())?;
    Ok(found.map_or(100, |bytes| u64::from_be_bytes(bytes.try_into().expect("eight bytes"))))
}

/// Moves money, or returns the reason why not: then nothing was changed.
fn transfer(db: &Db, accounts: &Tree, [from, to]: [u64; 2], sum: u64) -> Result<(), Failure> {
    // If another transaction is in its way, the closure runs again in a new one.
    db.try_transact(|txn| {
        let (has, gets) = (balance(txn, accounts, from)?, balance(txn, accounts, to)?);
        let rest = has.checked_sub(sum);
        let rest = rest.ok_or(Failure::NoMoney { account: from, balance: has })?; // rolls back
        txn.put(accounts, &from.to_be_bytes(), &rest.to_be_bytes())?;
        Ok(txn.put(accounts, &to.to_be_bytes(), &(gets + sum).to_be_bytes())?)
    })
}

pub fn run(dir: &Path) -> Result<(), Failure> {
    let db = Db::open(dir, Options::new().cache_size(64 << 20))?;
    let accounts = db.tree("accounts", Default::default())?;
    // Four threads move money in both directions, so that deadlocks occur.
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (db, accounts) = (&db, &accounts);
            scope.spawn(move || {
                for number in 0..25 {
                    let (a, b) = (number % ACCOUNTS, (number + 1) % ACCOUNTS);
                    let way = if thread % 2 == 0 { [a, b] } else { [b, a] };
                    match transfer(db, accounts, way, 7) {
                        Err(Failure::Store(error)) => panic!("{error}"),
                        Err(Failure::NoMoney { .. }) | Ok(()) => {}
                    }
                }
            });
        }
    });
    match transfer(&db, &accounts, [0, 1], 1000) {
        Err(Failure::NoMoney { account, balance }) => println!("account {account} has {balance}"),
        other => panic!("{other:?}"),
    }
    let all: u64 = db.transact(|txn| (0..ACCOUNTS).map(|a| balance(txn, &accounts, a)).sum())?;
    println!("{ACCOUNTS} accounts in {} have {all} together", dir.display());
    assert_eq!(all, 100 * ACCOUNTS);
    Ok(db.close()?)
}
