//! TPC-C's load, as clause 4.3.3 of the standard populates the tables.
//!
//! Invariants
//! 1. The rows depend on the seed and the scale only: each part has a stream of its own, whichever client loads it.
//! 2. The database is consistent: what customers have paid is in the sums of districts and warehouses at any scale.

use std::sync::atomic::{AtomicU64, Ordering};

use super::random::{
    Constants, DISTRICTS, Scale, amount, make_original, write_digits, write_letters, write_name,
};
use crate::lab::sql::{InsertText, Worker};
use crate::random::{Purpose, Random};
use crate::targets::Result;

/// Rows of a statement.
const ROWS: u64 = 500;
/// When everything was entered.
const DATE: &str = "2011-11-07 00:00:00";
/// What a customer has paid, in hundredths.
const PAID: u64 = 1_000;

/// What the loaders share.
pub struct Load {
    seed: u64,
    scale: Scale,
    constants: Constants,
    next: AtomicU64,
}

/// A loader's way to the server.
struct Loader<'w, 'm> {
    worker: &'w mut Worker<'m>,
    random: Random,
    text: String,
}

impl Load {
    /// One of this scale.
    pub fn new(seed: u64, scale: Scale, constants: Constants) -> Self {
        Self { seed, scale, constants, next: AtomicU64::new(0) }
    }

    /// Rows that will have been loaded, with ten lines per order on average.
    pub fn planned(scale: &Scale) -> u64 {
        let of_district = scale.customers * 13 + scale.customers * 3 / 10;
        scale.items + scale.warehouses * (1 + DISTRICTS + scale.items + DISTRICTS * of_district)
    }

    /// A client of the load: it takes parts until there are none.
    ///
    /// # Errors
    /// The server's.
    pub fn run(&self, worker: &mut Worker<'_>) -> Result<()> {
        // Of a warehouse: its row with its stock, and each district.
        let parts = 1 + self.scale.warehouses * (1 + DISTRICTS);
        while worker.go_on() {
            let part = self.next.fetch_add(1, Ordering::Relaxed);
            if part >= parts {
                break;
            }
            let random = Random::stream(self.seed, "tpcc", 1, part, Purpose::Data);
            let mut loader = Loader { worker: &mut *worker, random, text: String::new() };
            match part.checked_sub(1).map(|part| (part / (1 + DISTRICTS), part % (1 + DISTRICTS))) {
                None => self.items(&mut loader)?,
                Some((warehouse, 0)) => self.warehouse(&mut loader, warehouse + 1)?,
                Some((warehouse, district)) => {
                    self.customers(&mut loader, warehouse + 1, district)?;
                    self.orders(&mut loader, warehouse + 1, district)?;
                }
            }
        }
        Ok(())
    }

    fn items(&self, loader: &mut Loader<'_, '_>) -> Result<()> {
        let mut insert = InsertText::new("INSERT INTO item VALUES");
        for id in 1..=self.scale.items {
            let image = loader.random.between(1, 10_000);
            let row = insert.row().plain(id).plain(image).simple(loader.letters(14, 24));
            let price = loader.random.between(100, 10_000);
            row.plain(amount(price)).simple(loader.data());
            loader.flush_full("item", &mut insert)?;
        }
        loader.flush("item", &mut insert)
    }

    fn warehouse(&self, loader: &mut Loader<'_, '_>, warehouse: u64) -> Result<()> {
        let mut insert = InsertText::new("INSERT INTO warehouse VALUES");
        let mut row = insert.row().plain(warehouse).simple(loader.letters(6, 10));
        for _ in 0..3 {
            row = row.simple(loader.letters(10, 20));
        }
        let row = row.simple(loader.letters(2, 2)).simple(loader.zip());
        let tax = loader.random.below(2_001);
        row.plain(format!("0.{tax:04}")).plain(amount(DISTRICTS * self.scale.customers * PAID));
        loader.flush("warehouse", &mut insert)?;
        let mut insert = InsertText::new("INSERT INTO stock VALUES");
        for item in 1..=self.scale.items {
            let quantity = loader.random.between(10, 100);
            let mut row = insert.row().plain(item).plain(warehouse).plain(quantity);
            for _ in 0..DISTRICTS {
                row = row.simple(loader.letters(24, 24));
            }
            row.plain(0).plain(0).plain(0).simple(loader.data());
            loader.flush_full("stock", &mut insert)?;
        }
        loader.flush("stock", &mut insert)
    }

    fn customers(&self, loader: &mut Loader<'_, '_>, warehouse: u64, district: u64) -> Result<()> {
        let customers = self.scale.customers;
        let mut insert = InsertText::new("INSERT INTO district VALUES");
        let row = insert.row().plain(district).plain(warehouse);
        let mut row = row.simple(loader.letters(6, 10));
        for _ in 0..3 {
            row = row.simple(loader.letters(10, 20));
        }
        let row = row.simple(loader.letters(2, 2)).simple(loader.zip());
        let tax = loader.random.below(2_001);
        let row = row.plain(format!("0.{tax:04}")).plain(amount(customers * PAID));
        row.plain(customers + 1);
        loader.flush("district", &mut insert)?;
        let mut insert = InsertText::new("INSERT INTO customer VALUES");
        let mut paid = InsertText::new("INSERT INTO history VALUES");
        let mut name = String::new();
        for id in 1..=customers {
            // Each name in use belongs to somebody.
            let number = match id <= self.scale.names() {
                true => id - 1,
                false => self.constants.loaded_name(&mut loader.random, &self.scale),
            };
            write_name(number, &mut name);
            let row = insert.row().plain(id).plain(district).plain(warehouse);
            let mut row = row.simple(loader.letters(8, 16)).simple("OE").simple(&name);
            for _ in 0..3 {
                row = row.simple(loader.letters(10, 20));
            }
            let row = row.simple(loader.letters(2, 2)).simple(loader.zip());
            let row = row.simple(loader.digits(16)).simple(DATE);
            let credit = if loader.random.below(10) == 0 { "BC" } else { "GC" };
            let discount = loader.random.below(5_001);
            let row = row.simple(credit).plain(50_000).plain(format!("0.{discount:04}"));
            let row = row.plain("-10.00").plain(amount(PAID)).plain(1).plain(0);
            row.simple(loader.letters(300, 500));
            let row = paid.row().plain(id).plain(district).plain(warehouse).plain(district);
            let row = row.plain(warehouse).simple(DATE).plain(amount(PAID));
            row.simple(loader.letters(12, 24));
            loader.flush_full("customer", &mut insert)?;
            loader.flush_full("history", &mut paid)?;
        }
        loader.flush("customer", &mut insert)?;
        loader.flush("history", &mut paid)
    }

    fn orders(&self, loader: &mut Loader<'_, '_>, warehouse: u64, district: u64) -> Result<()> {
        let orders = self.scale.customers;
        let mut customers: Vec<u64> = (1..=orders).collect();
        for last in (1..customers.len()).rev() {
            customers.swap(last, loader.random.below(last as u64 + 1) as usize);
        }
        // Of 3,000 orders the last 900 are not delivered.
        let first_new = orders - orders * 3 / 10 + 1;
        let mut insert = InsertText::new("INSERT INTO orders VALUES");
        let mut new = InsertText::new("INSERT INTO new_orders VALUES");
        let mut lines = InsertText::new("INSERT INTO order_line VALUES");
        for (id, customer) in (1..).zip(customers) {
            let is_new = id >= first_new;
            let row = insert.row().plain(id).plain(district).plain(warehouse).plain(customer);
            let carrier = loader.random.between(1, 10);
            let row = row.simple(DATE);
            let row = if is_new { row.null() } else { row.plain(carrier) };
            let count = loader.random.between(5, 15);
            row.plain(count).plain(1);
            if is_new {
                new.row().plain(id).plain(district).plain(warehouse);
            }
            for number in 1..=count {
                let item = loader.random.between(1, self.scale.items);
                let row = lines.row().plain(id).plain(district).plain(warehouse).plain(number);
                let row = row.plain(item).plain(warehouse);
                let price = loader.random.between(1, 999_999);
                let row = match is_new {
                    true => row.null().plain(5).plain(amount(price)),
                    false => row.simple(DATE).plain(5).plain("0.00"),
                };
                row.simple(loader.letters(24, 24));
                loader.flush_full("order_line", &mut lines)?;
            }
            loader.flush_full("orders", &mut insert)?;
            loader.flush_full("new_orders", &mut new)?;
        }
        loader.flush("orders", &mut insert)?;
        loader.flush("new_orders", &mut new)?;
        loader.flush("order_line", &mut lines)
    }
}

impl Loader<'_, '_> {
    fn letters(&mut self, least: u64, most: u64) -> &str {
        write_letters(&mut self.random, least, most, &mut self.text);
        &self.text
    }

    fn digits(&mut self, length: u64) -> &str {
        write_digits(&mut self.random, length, &mut self.text);
        &self.text
    }

    fn zip(&mut self) -> &str {
        write_digits(&mut self.random, 4, &mut self.text);
        self.text.push_str("11111");
        &self.text
    }

    /// Data of an item, or of its stock.
    fn data(&mut self) -> &str {
        write_letters(&mut self.random, 26, 50, &mut self.text);
        make_original(&mut self.random, &mut self.text);
        &self.text
    }

    fn flush_full(&mut self, kind: &'static str, insert: &mut InsertText) -> Result<()> {
        if insert.len() >= ROWS { self.flush(kind, insert) } else { Ok(()) }
    }

    fn flush(&mut self, kind: &'static str, insert: &mut InsertText) -> Result<()> {
        if insert.len() > 0 {
            self.worker.insert(kind, insert)?;
        }
        Ok(())
    }
}
