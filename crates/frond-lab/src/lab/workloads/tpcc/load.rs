//! TPC-C's load, which populates the tables as clause 4.3.3 of the standard says. The rows go to a
//! [`Sink`].
//!
//! Invariants
//! 1. The rows depend only on the seed and the scale: each part has a random stream of its own,
//!    whichever client loads it.
//! 2. The database is consistent: at any scale, the sums of districts and warehouses are what their
//!    customers have paid.

use std::sync::atomic::{AtomicU64, Ordering};

use super::random::{
    Constants, DISTRICTS, Scale, make_original, write_digits, write_letters, write_name,
};
use super::tables::{
    CUSTOMER, DISTRICT, HISTORY, ITEM, NEW_ORDERS, ORDER_LINE, ORDERS, STOCK, WAREHOUSE,
};
use crate::random::{Purpose, Random};
use crate::schema::Value::{self, I8, I16, I32, I64, Millis, Text, U64};
use crate::targets::Result;

/// Date of all loaded rows: 2011-11-07, in ms since 1970.
pub const DATE_MILLIS: u64 = 1_320_624_000_000;
/// What each customer has paid, in hundredths.
const PAID: u64 = 1_000;
/// Maximum number of texts in a row.
const TEXTS: usize = 12;

/// Takes the rows of a loader, and writes them in transactions of a few hundred rows.
pub trait Sink {
    /// Returns false when the step ends.
    fn go_on(&mut self) -> bool;
    /// Takes a row of the table with this number.
    ///
    /// # Errors
    /// The store reports an error.
    fn row(&mut self, table: usize, row: &[Value<'_>]) -> Result<()>;
    /// Writes the rows that have been taken.
    ///
    /// # Errors
    /// The store reports an error.
    fn flush(&mut self) -> Result<()>;
}

/// The state that the loaders share.
pub struct Load {
    seed: u64,
    scale: Scale,
    constants: Constants,
    next: AtomicU64,
}

/// The random stream of a part, and the texts of the current row.
struct Drawing {
    random: Random,
    texts: [String; TEXTS],
}

fn tiny(number: u64) -> Value<'static> {
    I8(number as i8)
}

fn small(number: u64) -> Value<'static> {
    I16(number as i16)
}

fn int(number: u64) -> Value<'static> {
    I32(number as i32)
}

fn amount(hundredths: u64) -> Value<'static> {
    I64(hundredths as i64)
}

impl Load {
    /// Makes a load of this scale.
    pub fn new(seed: u64, scale: Scale, constants: Constants) -> Self {
        Self { seed, scale, constants, next: AtomicU64::new(0) }
    }

    /// Number of rows that a complete load has, with ten lines per order on average.
    pub fn planned(scale: &Scale) -> u64 {
        let of_district = scale.customers * 13 + scale.customers * 3 / 10;
        scale.items + scale.warehouses * (1 + DISTRICTS + scale.items + DISTRICTS * of_district)
    }

    /// Runs a client of the load, which takes parts until there are none left.
    ///
    /// # Errors
    /// The store reports an error.
    pub fn run(&self, sink: &mut impl Sink) -> Result<()> {
        // The parts are the items, and for each warehouse its row with its stock, and each
        // district.
        let parts = 1 + self.scale.warehouses * (1 + DISTRICTS);
        while sink.go_on() {
            let part = self.next.fetch_add(1, Ordering::Relaxed);
            if part >= parts {
                break;
            }
            let random = Random::stream(self.seed, "tpcc", 1, part, Purpose::Data);
            let mut drawing = Drawing { random, texts: Default::default() };
            match part.checked_sub(1).map(|part| (part / (1 + DISTRICTS), part % (1 + DISTRICTS))) {
                None => self.items(&mut drawing, sink)?,
                Some((warehouse, 0)) => self.warehouse(&mut drawing, sink, warehouse + 1)?,
                Some((warehouse, district)) => {
                    self.customers(&mut drawing, sink, warehouse + 1, district)?;
                    self.orders(&mut drawing, sink, warehouse + 1, district)?;
                }
            }
            sink.flush()?;
        }
        Ok(())
    }

    fn items(&self, drawing: &mut Drawing, sink: &mut impl Sink) -> Result<()> {
        for id in 1..=self.scale.items {
            let image = drawing.random.between(1, 10_000);
            drawing.letters(0, 14, 24);
            let price = drawing.random.between(100, 10_000);
            drawing.data(1);
            let [name, data, ..] = &drawing.texts;
            sink.row(ITEM, &[int(id), int(image), Text(name), amount(price), Text(data)])?;
        }
        Ok(())
    }

    fn warehouse(&self, drawing: &mut Drawing, sink: &mut impl Sink, id: u64) -> Result<()> {
        let tax = drawing.place();
        let paid = DISTRICTS * self.scale.customers * PAID;
        let [name, street_1, street_2, city, state, zip, ..] = &drawing.texts;
        let row = [small(id), Text(name), Text(street_1), Text(street_2), Text(city), Text(state)];
        sink.row(WAREHOUSE, &[&row[..], &[Text(zip), int(tax), amount(paid)]].concat())?;
        for item in 1..=self.scale.items {
            let quantity = drawing.random.between(10, 100);
            let mut row = vec![int(item), small(id), small(quantity)];
            for district in 0..DISTRICTS as usize {
                drawing.letters(district, 24, 24);
            }
            drawing.data(DISTRICTS as usize);
            let (info, data) = drawing.texts.split_at(DISTRICTS as usize);
            row.extend(info.iter().map(|text| Text(text)));
            row.extend([int(0), small(0), small(0), Text(&data[0])]);
            sink.row(STOCK, &row)?;
        }
        Ok(())
    }

    fn customers(
        &self,
        drawing: &mut Drawing,
        sink: &mut impl Sink,
        warehouse: u64,
        district: u64,
    ) -> Result<()> {
        let customers = self.scale.customers;
        let tax = drawing.place();
        let [name, street_1, street_2, city, state, zip, ..] = &drawing.texts;
        let row = [tiny(district), small(warehouse), Text(name), Text(street_1), Text(street_2)];
        let paid = amount(customers * PAID);
        let more = [Text(city), Text(state), Text(zip), int(tax), paid, int(customers + 1)];
        sink.row(DISTRICT, &[&row[..], &more].concat())?;
        let mut last = String::new();
        for id in 1..=customers {
            // The first customers get all names in use, so that each name belongs to a customer.
            let number = match id <= self.scale.names() {
                true => id - 1,
                false => self.constants.loaded_name(&mut drawing.random, &self.scale),
            };
            write_name(number, &mut last);
            drawing.letters(0, 8, 16);
            for text in 1..4 {
                drawing.letters(text, 10, 20);
            }
            drawing.letters(4, 2, 2);
            drawing.zip(5);
            drawing.digits(6, 16);
            let credit = if drawing.random.below(10) == 0 { "BC" } else { "GC" };
            let discount = drawing.random.below(5_001);
            drawing.letters(7, 300, 500);
            drawing.letters(8, 12, 24);
            let [first, street_1, street_2, city, state, zip, phone, data, paid, ..] =
                &drawing.texts;
            let key = [int(id), tiny(district), small(warehouse)];
            let name = [Text(first), Text("OE"), Text(&last), Text(street_1), Text(street_2)];
            let place = [Text(city), Text(state), Text(zip), Text(phone), Millis(DATE_MILLIS)];
            let credit = [Text(credit), int(50_000), int(discount), I64(-1_000), amount(PAID)];
            let counts = [small(1), small(0), Text(data)];
            sink.row(CUSTOMER, &[&key[..], &name, &place, &credit, &counts].concat())?;
            let number = ((warehouse - 1) * DISTRICTS + district - 1) * customers + id;
            let of = [U64(number), int(id), tiny(district), small(warehouse), tiny(district)];
            let payment = [small(warehouse), Millis(DATE_MILLIS), amount(PAID), Text(paid)];
            sink.row(HISTORY, &[&of[..], &payment].concat())?;
        }
        Ok(())
    }

    fn orders(
        &self,
        drawing: &mut Drawing,
        sink: &mut impl Sink,
        warehouse: u64,
        district: u64,
    ) -> Result<()> {
        let orders = self.scale.customers;
        let mut customers: Vec<u64> = (1..=orders).collect();
        for last in (1..customers.len()).rev() {
            customers.swap(last, drawing.random.below(last as u64 + 1) as usize);
        }
        // Of 3,000 orders, the last 900 are not delivered.
        let first_new = orders - orders * 3 / 10 + 1;
        for (id, customer) in (1..).zip(customers) {
            let is_new = id >= first_new;
            let carrier = drawing.random.between(1, 10);
            let count = drawing.random.between(5, 15);
            let key = [int(id), tiny(district), small(warehouse)];
            let carrier = if is_new { 0 } else { carrier };
            let rest = [int(customer), Millis(DATE_MILLIS), tiny(carrier), tiny(count), tiny(1)];
            sink.row(ORDERS, &[&key[..], &rest].concat())?;
            if is_new {
                sink.row(NEW_ORDERS, &key)?;
            }
            for number in 1..=count {
                let item = drawing.random.between(1, self.scale.items);
                let price = drawing.random.between(1, 999_999);
                drawing.letters(0, 24, 24);
                let (delivered, cost) = if is_new { (0, price) } else { (DATE_MILLIS, 0) };
                let what = [tiny(number), int(item), small(warehouse), Millis(delivered)];
                let info = [tiny(5), amount(cost), Text(&drawing.texts[0])];
                sink.row(ORDER_LINE, &[&key[..], &what, &info].concat())?;
            }
        }
        Ok(())
    }
}

impl Drawing {
    fn letters(&mut self, at: usize, least: u64, most: u64) {
        write_letters(&mut self.random, least, most, &mut self.texts[at]);
    }

    fn digits(&mut self, at: usize, length: u64) {
        write_digits(&mut self.random, length, &mut self.texts[at]);
    }

    fn zip(&mut self, at: usize) {
        self.digits(at, 4);
        self.texts[at].push_str("11111");
    }

    /// Draws the data of an item or of its stock.
    fn data(&mut self, at: usize) {
        self.letters(at, 26, 50);
        make_original(&mut self.random, &mut self.texts[at]);
    }

    /// Draws name, streets, city, state and zip of a warehouse or a district. Returns its tax, in
    /// ten-thousandths.
    fn place(&mut self) -> u64 {
        self.letters(0, 6, 10);
        for text in 1..4 {
            self.letters(text, 10, 20);
        }
        self.letters(4, 2, 2);
        self.zip(5);
        self.random.below(2_001)
    }
}
