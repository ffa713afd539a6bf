//! The consistency conditions of clause 3.3.2 on embedded stores, computed from sums over the
//! tables, each of which is read once.

use std::collections::BTreeMap;

use super::tables::{CUSTOMER, DISTRICT, HISTORY, NEW_ORDERS, ORDER_LINE, ORDERS, WAREHOUSE};
use crate::decode;
use crate::lab::embedded::Bench;
use crate::schema::Value;
use crate::targets::Result;

/// A warehouse and one of its districts.
type Of = (i64, i64);

/// Sums of a district.
#[derive(Clone, Copy, Debug, Default)]
struct District {
    paid: i64,
    next_order: i64,
    last_order: i64,
    /// Number of lines that its orders claim to have. The next field is how many there are.
    lines_said: i64,
    lines: i64,
    /// Ids of its first and its last new order. The next field is the number of new orders.
    new: Option<(i64, i64)>,
    new_count: i64,
    history: i64,
    orders: i64,
    customers: i64,
    /// Number of deliveries that the rows of its customers count.
    deliveries: i64,
}

/// Sums of an order.
#[derive(Clone, Copy, Debug, Default)]
struct Order {
    customer: i64,
    is_new: bool,
    has_carrier: bool,
    lines_said: i64,
    lines: i64,
    /// Number of lines that were delivered. The next field is the sum of their amounts.
    delivered: i64,
    amount: i64,
}

/// Sums of a customer.
#[derive(Clone, Copy, Debug, Default)]
struct Customer {
    balance: i64,
    paid: i64,
    history: i64,
    delivered: i64,
}

#[derive(Default)]
struct Found {
    /// Year-to-date sum of each warehouse.
    warehouses: BTreeMap<i64, i64>,
    districts: BTreeMap<Of, District>,
    orders: BTreeMap<(Of, i64), Order>,
    customers: BTreeMap<(Of, i64), Customer>,
}

impl Found {
    fn district(&mut self, of: Of) -> &mut District {
        self.districts.entry(of).or_default()
    }

    /// Adds a row of a table to the sums.
    fn take(&mut self, table: usize, row: &[Value<'_>]) {
        let column = |at: usize| row[at].integer();
        let (d, w) = match table {
            HISTORY => (column(4), column(5)),
            _ => (column(1), column(row.len().min(3) - 1)),
        };
        match table {
            WAREHOUSE => drop(self.warehouses.insert(column(0), column(8))),
            DISTRICT => {
                let district = self.district((column(1), column(0)));
                (district.paid, district.next_order) = (column(9), column(10));
            }
            CUSTOMER => {
                let customer = self.customers.entry(((w, d), column(0))).or_default();
                (customer.balance, customer.paid) = (column(16), column(17));
                let district = self.district((w, d));
                district.customers += 1;
                district.deliveries += column(19);
            }
            HISTORY => {
                self.district((w, d)).history += column(7);
                let of = ((column(3), column(2)), column(1));
                self.customers.entry(of).or_default().history += column(7);
            }
            ORDERS => {
                let district = self.district((w, d));
                district.last_order = district.last_order.max(column(0));
                district.lines_said += column(6);
                district.orders += 1;
                let order = self.orders.entry(((w, d), column(0))).or_default();
                (order.customer, order.lines_said) = (column(3), column(6));
                order.has_carrier = column(5) != 0;
            }
            NEW_ORDERS => {
                let (district, order) = (self.district((w, d)), column(0));
                let (first, last) = district.new.unwrap_or((order, order));
                district.new = Some((first.min(order), last.max(order)));
                district.new_count += 1;
                self.orders.entry(((w, d), order)).or_default().is_new = true;
            }
            ORDER_LINE => {
                self.district((w, d)).lines += 1;
                let order = self.orders.entry(((w, d), column(0))).or_default();
                order.lines += 1;
                if column(6) != 0 {
                    order.delivered += 1;
                    order.amount += column(8);
                }
            }
            _ => {}
        }
    }

    /// Each condition with its number of violations.
    fn violations(&mut self) -> [(&'static str, usize); 12] {
        for ((of, _), order) in &self.orders {
            self.customers.entry((*of, order.customer)).or_default().delivered += order.amount;
        }
        let sums = |of: fn(&District) -> i64| {
            let mut sums: BTreeMap<i64, i64> = BTreeMap::new();
            self.districts.iter().for_each(|((w, _), d)| *sums.entry(*w).or_default() += of(d));
            sums
        };
        let warehouses = |sums: BTreeMap<i64, i64>| {
            self.warehouses.iter().filter(|(w, sum)| sums.get(w) != Some(sum)).count()
        };
        let districts = |is_right: fn(&District) -> bool| {
            self.districts.values().filter(|d| !is_right(d)).count()
        };
        let orders =
            |is_right: fn(&Order) -> bool| self.orders.values().filter(|o| !is_right(o)).count();
        let customers = |is_right: fn(&Customer) -> bool| {
            self.customers.values().filter(|c| !is_right(c)).count()
        };
        [
            ("3.3.2.1: a warehouse's sum is that of its districts", warehouses(sums(|d| d.paid))),
            (
                "3.3.2.2: a district's next order follows its last one",
                districts(|d| {
                    let is_last = d.new.is_none_or(|(_, last)| last == d.last_order);
                    d.next_order - 1 == d.last_order && is_last
                }),
            ),
            (
                "3.3.2.3: new orders of a district have no gaps",
                districts(|d| d.new.is_none_or(|(first, last)| last - first + 1 == d.new_count)),
            ),
            (
                "3.3.2.4: a district's orders have as many lines as they say",
                districts(|d| d.lines == d.lines_said),
            ),
            (
                "3.3.2.5: an order is new if and only if it has no carrier",
                orders(|order| order.is_new != order.has_carrier),
            ),
            (
                "3.3.2.6: each order has as many lines as it says",
                orders(|order| order.lines == order.lines_said),
            ),
            (
                "3.3.2.7: lines are delivered if and only if their order has a carrier",
                orders(|o| o.delivered == if o.has_carrier { o.lines } else { 0 }),
            ),
            ("3.3.2.8: a warehouse's sum is that of its history", warehouses(sums(|d| d.history))),
            (
                "3.3.2.9: a district's sum is that of its history",
                districts(|d| d.paid == d.history),
            ),
            (
                "3.3.2.10: a customer's balance is what was delivered less what was paid",
                customers(|c| c.balance == c.delivered - c.history),
            ),
            (
                // Of 3,000 orders, 2,100 are loaded as delivered; later deliveries are counted in
                // the row of the customer.
                "3.3.2.11: of a district's orders those that were delivered are not new",
                districts(|d| {
                    let loaded = d.customers - d.customers * 3 / 10;
                    d.orders - d.new_count == loaded + d.deliveries
                }),
            ),
            (
                "3.3.2.12: a customer's balance and payments are what was delivered",
                customers(|c| c.balance + c.paid == c.delivered),
            ),
        ]
    }
}

/// Verifies all conditions.
///
/// # Errors
/// The store reports an error.
pub fn verify(bench: &mut Bench<'_>) -> Result<()> {
    if !bench.keeps_rows() {
        return Ok(());
    }
    let mut found = Found::default();
    for number in [WAREHOUSE, DISTRICT, CUSTOMER, HISTORY, ORDERS, NEW_ORDERS, ORDER_LINE] {
        let table = &bench.tables()[number];
        bench.read_all(table, 0, &mut |key, value| {
            // An undecodable row was reported when the table was verified.
            if let Some(row) = decode::row(table, key, value) {
                found.take(number, &row);
            }
            true
        })?;
    }
    for (condition, violations) in found.violations() {
        bench.result.verify(condition, violations == 0, format!("{violations} violate it"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::workloads::tpcc::load::{Load, Sink};
    use crate::lab::workloads::tpcc::random::{Constants, Scale};

    /// A sink of the load that damages one row of a table or leaves it out.
    struct Spoiled {
        found: Found,
        harm: Option<(usize, Option<(usize, Value<'static>)>)>,
    }

    impl Sink for Spoiled {
        fn go_on(&mut self) -> bool {
            true
        }

        fn row(&mut self, table: usize, row: &[Value<'_>]) -> Result<()> {
            let mut row = row.to_vec();
            if let Some((_, what)) = self.harm.take_if(|(of, _)| *of == table) {
                match what {
                    Some((column, value)) => row[column] = value,
                    None => return Ok(()),
                }
            }
            self.found.take(table, &row);
            Ok(())
        }

        fn flush(&mut self) -> Result<()> {
            Ok(())
        }
    }

    fn violated(harm: Option<(usize, Option<(usize, Value<'static>)>)>) -> Vec<&'static str> {
        let scale = Scale { warehouses: 2, items: 100, customers: 30 };
        let load = Load::new(42, scale, Constants::new(42));
        let mut sink = Spoiled { found: Found::default(), harm };
        load.run(&mut sink).expect("nothing fails");
        let all = sink.found.violations();
        let number = |text: &'static str| text.split(':').next().unwrap_or_default();
        all.into_iter().filter(|(_, n)| *n > 0).map(|(text, _)| number(text)).collect()
    }

    #[test]
    fn the_load_is_consistent_and_each_condition_notices_its_violation() {
        assert_eq!(violated(None), [] as [&str; 0]);
        let to = |column, value| Some((column, value));
        for (table, harm, conditions) in [
            (WAREHOUSE, to(8, Value::I64(1)), &["3.3.2.1", "3.3.2.8"][..]),
            (DISTRICT, to(9, Value::I64(1)), &["3.3.2.1", "3.3.2.9"]),
            (DISTRICT, to(10, Value::I32(1)), &["3.3.2.2"]),
            (NEW_ORDERS, None, &["3.3.2.5", "3.3.2.11"]),
            (ORDER_LINE, None, &["3.3.2.4", "3.3.2.6"]),
            (ORDERS, to(5, Value::I8(0)), &["3.3.2.5", "3.3.2.7"]),
            (HISTORY, to(7, Value::I64(7)), &["3.3.2.8", "3.3.2.9", "3.3.2.10"]),
            (CUSTOMER, to(16, Value::I64(7)), &["3.3.2.10", "3.3.2.12"]),
            (CUSTOMER, to(17, Value::I64(7)), &["3.3.2.12"]),
            (CUSTOMER, to(19, Value::I16(7)), &["3.3.2.11"]),
        ] {
            assert_eq!(violated(Some((table, harm))), conditions, "{table} {harm:?}");
        }
        // A gap: one of the new orders has the id of the first order.
        let far = Some((NEW_ORDERS, to(0, Value::I32(1))));
        assert!(violated(far).contains(&"3.3.2.3"));
    }
}
