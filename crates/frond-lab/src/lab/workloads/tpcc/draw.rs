//! Draws transactions and their input (clauses 2.4.1, 2.5.1, 2.6.1, 2.7.1 and 2.8.1 of the
//! standard).
//!
//! There are no terminals, so clients do not belong to a warehouse: the home warehouse is drawn for
//! each transaction.

use super::random::{Constants, DISTRICTS, Scale};
use crate::random::Random;

/// Shares of new orders, payments, order status, deliveries and stock levels, in percent.
pub const SHARES: [u32; 5] = [45, 43, 4, 4, 4];

/// An ordered item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Line {
    /// Id of the item. For an order that is to be rolled back, the last one is an id that does not
    /// exist.
    pub item: u64,
    /// Warehouse that supplies the item.
    pub supply: u64,
    /// Number of pieces.
    pub quantity: u64,
}

/// How a customer is identified.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Customer {
    /// By number.
    Id(u64),
    /// By the number of the last name.
    Name(u64),
}

/// A transaction with its input, so that a retry has the same.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Drawn {
    /// A new order.
    NewOrder { customer: u64, lines: Vec<Line>, is_rolled_back: bool },
    /// A payment of `amount` hundredths by a customer of the warehouse and district `of`.
    Payment { customer: Customer, of: (u64, u64), amount: u64 },
    /// A query for the status of a customer's last order.
    OrderStatus { customer: Customer },
    /// A delivery of the oldest new order of each district.
    Delivery { carrier: u64 },
    /// A query for how many items of the last orders are scarce.
    StockLevel { threshold: u64 },
}

impl Drawn {
    /// Name of the transaction in latencies.
    pub fn name(&self) -> &'static str {
        match self {
            Self::NewOrder { is_rolled_back: false, .. } => "new_order",
            Self::NewOrder { is_rolled_back: true, .. } => "new_order_rolled_back",
            Self::Payment { .. } => "payment",
            Self::OrderStatus { .. } => "order_status",
            Self::Delivery { .. } => "delivery",
            Self::StockLevel { .. } => "stock_level",
        }
    }
}

/// Draws a warehouse other than `home`, if there is one.
fn other(random: &mut Random, scale: &Scale, home: u64) -> u64 {
    match scale.warehouses {
        1 => home,
        warehouses => {
            let drawn = random.between(1, warehouses - 1);
            drawn + u64::from(drawn >= home)
        }
    }
}

fn customer(random: &mut Random, scale: &Scale, constants: &Constants) -> Customer {
    match random.below(100) < 60 {
        true => Customer::Name(constants.name(random, scale)),
        false => Customer::Id(constants.customer(random, scale)),
    }
}

/// Draws the next transaction, and its home warehouse and district.
pub fn draw(random: &mut Random, scale: &Scale, constants: &Constants) -> (u64, u64, Drawn) {
    let (home, district) = (random.between(1, scale.warehouses), random.between(1, DISTRICTS));
    let drawn = match random.weighted(&SHARES) {
        0 => {
            let is_rolled_back = random.below(100) == 0;
            let count = random.between(5, 15);
            let mut line = || Line {
                item: constants.item(random, scale),
                supply: match random.below(100) {
                    0 => other(random, scale, home),
                    _ => home,
                },
                quantity: random.between(1, 10),
            };
            let mut lines: Vec<Line> = (0..count).map(|_| line()).collect();
            if let Some(last) = lines.last_mut().filter(|_| is_rolled_back) {
                last.item = scale.items + 1;
            }
            Drawn::NewOrder { customer: constants.customer(random, scale), lines, is_rolled_back }
        }
        1 => {
            let of = match random.below(100) < 85 {
                true => (home, district),
                false => (other(random, scale, home), random.between(1, DISTRICTS)),
            };
            let amount = random.between(100, 500_000);
            Drawn::Payment { customer: customer(random, scale, constants), of, amount }
        }
        2 => Drawn::OrderStatus { customer: customer(random, scale, constants) },
        3 => Drawn::Delivery { carrier: random.between(1, 10) },
        _ => Drawn::StockLevel { threshold: random.between(10, 20) },
    };
    (home, district, drawn)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn transactions_and_their_input_have_the_shares_of_the_standard() {
        let scale = Scale { warehouses: 4, items: 100_000, customers: 3_000 };
        let (constants, mut random) = (Constants::new(42), Random::new(5));
        let mut counts: BTreeMap<&str, f64> = BTreeMap::new();
        let mut count = |name: &'static str| *counts.entry(name).or_default() += 1.0;
        const DRAWS: u32 = 400_000;
        for _ in 0..DRAWS {
            let (home, district, drawn) = draw(&mut random, &scale, &constants);
            assert!((1..=4).contains(&home) && (1..=10).contains(&district));
            match &drawn {
                Drawn::NewOrder { lines, is_rolled_back, customer } => {
                    count("orders");
                    assert!((5..=15).contains(&lines.len()) && (1..=3_000).contains(customer));
                    for (at, line) in lines.iter().enumerate() {
                        count("lines");
                        let is_last = at + 1 == lines.len();
                        assert_eq!(line.item > scale.items, *is_rolled_back && is_last);
                        assert!(
                            (1..=10).contains(&line.quantity) && (1..=4).contains(&line.supply)
                        );
                        if line.supply != home {
                            count("remote lines");
                        }
                    }
                    if *is_rolled_back {
                        count("rolled back");
                    }
                }
                Drawn::Payment { customer, of, amount } => {
                    count("payments");
                    assert!((100..=500_000).contains(amount));
                    if of.0 != home {
                        count("remote payments");
                    } else {
                        assert_eq!(of.1, district);
                    }
                    if matches!(customer, Customer::Name(_)) {
                        count("payments by name");
                    }
                }
                other => count(other.name()),
            }
        }
        let draws = f64::from(DRAWS);
        let near = |name: &str, of: f64, percent: f64| {
            let found = counts[name] * 100.0 / of;
            assert!((found / percent - 1.0).abs() < 0.1, "{name}: {found} % for {percent} %");
        };
        for (name, percent) in
            [("orders", 45.0), ("payments", 43.0), ("order_status", 4.0), ("delivery", 4.0)]
        {
            near(name, draws, percent);
        }
        near("stock_level", draws, 4.0);
        near("rolled back", counts["orders"], 1.0);
        near("remote lines", counts["lines"], 1.0);
        near("remote payments", counts["payments"], 15.0);
        near("payments by name", counts["payments"], 60.0);
        assert!((9.9..10.1).contains(&(counts["lines"] / counts["orders"])));
    }

    #[test]
    fn a_remote_warehouse_differs_from_home_if_possible() {
        let mut random = Random::new(1);
        for warehouses in 1..=4 {
            let scale = Scale { warehouses, items: 10, customers: 3 };
            for home in 1..=warehouses {
                let drawn: std::collections::BTreeSet<u64> =
                    (0..200).map(|_| other(&mut random, &scale, home)).collect();
                let expected: std::collections::BTreeSet<u64> =
                    (1..=warehouses).filter(|w| warehouses == 1 || *w != home).collect();
                assert_eq!(drawn, expected);
            }
        }
    }
}
