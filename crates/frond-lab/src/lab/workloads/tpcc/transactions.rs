//! TPC-C's five transactions in SQL, with prepared statements.
//!
//! A new order whose last item does not exist is rolled back, which is not an error. The worker
//! retries deadlock victims with the same input.

use super::draw::{Customer, Drawn, Line};
use super::random::{DISTRICTS, amount, hundredths, write_name};
use crate::lab::sql::{Session, SqlResult, Statement, Value, number_of, text_of};
use crate::targets::{Failure, Result};

/// Maximum length of a customer's data, in bytes.
const DATA_MAX: usize = 500;

macro_rules! statements {
    ($($name:ident = $sql:expr;)*) => {
        /// The prepared statements of a client.
        struct Statements { $($name: Statement,)* stock: Vec<Statement> }

        impl Statements {
            fn new(session: &mut Session) -> Result<Self> {
                let mut stock = Vec::new();
                for district in 1..=DISTRICTS {
                    stock.push(session.prepare(&format!(
                        "SELECT s_quantity,s_data,s_dist_{district:02} FROM stock WHERE s_i_id=? AND s_w_id=? FOR UPDATE"
                    ))?);
                }
                Ok(Self { $($name: session.prepare($sql)?,)* stock })
            }
        }
    };
}

statements! {
    buyer = "SELECT c_discount,c_last,c_credit,w_tax FROM customer,warehouse WHERE w_id=? AND c_w_id=w_id AND c_d_id=? \
             AND c_id=?";
    next_order = "SELECT d_next_o_id,d_tax FROM district WHERE d_w_id=? AND d_id=? FOR UPDATE";
    set_next_order = "UPDATE district SET d_next_o_id=? WHERE d_w_id=? AND d_id=?";
    insert_order = "INSERT INTO orders(o_id,o_d_id,o_w_id,o_c_id,o_entry_d,o_ol_cnt,o_all_local) \
                    VALUES(?,?,?,?,NOW(),?,?)";
    insert_new = "INSERT INTO new_orders(no_o_id,no_d_id,no_w_id) VALUES(?,?,?)";
    item = "SELECT i_price,i_name,i_data FROM item WHERE i_id=?";
    set_stock = "UPDATE stock SET s_quantity=?,s_ytd=s_ytd+?,s_order_cnt=s_order_cnt+1,s_remote_cnt=s_remote_cnt+? \
                 WHERE s_i_id=? AND s_w_id=?";
    insert_line = "INSERT INTO order_line(ol_o_id,ol_d_id,ol_w_id,ol_number,ol_i_id,ol_supply_w_id,ol_quantity,ol_amount,\
                   ol_dist_info) VALUES(?,?,?,?,?,?,?,?,?)";
    pay_warehouse = "UPDATE warehouse SET w_ytd=w_ytd+? WHERE w_id=?";
    warehouse = "SELECT w_street_1,w_street_2,w_city,w_state,w_zip,w_name FROM warehouse WHERE w_id=?";
    pay_district = "UPDATE district SET d_ytd=d_ytd+? WHERE d_w_id=? AND d_id=?";
    district = "SELECT d_street_1,d_street_2,d_city,d_state,d_zip,d_name FROM district WHERE d_w_id=? AND d_id=?";
    by_name = "SELECT c_id FROM customer WHERE c_w_id=? AND c_d_id=? AND c_last=? ORDER BY c_first";
    payer = "SELECT c_first,c_middle,c_last,c_street_1,c_street_2,c_city,c_state,c_zip,c_phone,c_credit,c_credit_lim,\
             c_discount,c_balance,c_since FROM customer WHERE c_w_id=? AND c_d_id=? AND c_id=? FOR UPDATE";
    payer_data = "SELECT c_data FROM customer WHERE c_w_id=? AND c_d_id=? AND c_id=?";
    pay = "UPDATE customer SET c_balance=c_balance-?,c_ytd_payment=c_ytd_payment+?,c_payment_cnt=c_payment_cnt+1 \
           WHERE c_w_id=? AND c_d_id=? AND c_id=?";
    pay_with_data = "UPDATE customer SET c_balance=c_balance-?,c_ytd_payment=c_ytd_payment+?,\
                     c_payment_cnt=c_payment_cnt+1,c_data=? WHERE c_w_id=? AND c_d_id=? AND c_id=?";
    insert_history = "INSERT INTO history VALUES(?,?,?,?,?,NOW(),?,?)";
    status_customer = "SELECT c_balance,c_first,c_middle,c_last FROM customer WHERE c_w_id=? AND c_d_id=? AND c_id=?";
    last_order = "SELECT o_id,o_carrier_id,o_entry_d FROM orders WHERE o_w_id=? AND o_d_id=? AND o_c_id=? \
                  ORDER BY o_id DESC LIMIT 1";
    lines = "SELECT ol_i_id,ol_supply_w_id,ol_quantity,ol_amount,ol_delivery_d FROM order_line WHERE ol_w_id=? \
             AND ol_d_id=? AND ol_o_id=?";
    oldest_new = "SELECT no_o_id FROM new_orders WHERE no_w_id=? AND no_d_id=? ORDER BY no_o_id LIMIT 1 FOR UPDATE";
    delete_new = "DELETE FROM new_orders WHERE no_w_id=? AND no_d_id=? AND no_o_id=?";
    order_customer = "SELECT o_c_id FROM orders WHERE o_w_id=? AND o_d_id=? AND o_id=? FOR UPDATE";
    set_carrier = "UPDATE orders SET o_carrier_id=? WHERE o_w_id=? AND o_d_id=? AND o_id=?";
    set_delivered = "UPDATE order_line SET ol_delivery_d=NOW() WHERE ol_w_id=? AND ol_d_id=? AND ol_o_id=?";
    sum_lines = "SELECT SUM(ol_amount) FROM order_line WHERE ol_w_id=? AND ol_d_id=? AND ol_o_id=?";
    deliver = "UPDATE customer SET c_balance=c_balance+?,c_delivery_cnt=c_delivery_cnt+1 WHERE c_w_id=? AND c_d_id=? \
               AND c_id=?";
    next_id = "SELECT d_next_o_id FROM district WHERE d_w_id=? AND d_id=?";
    scarce = "SELECT COUNT(DISTINCT s_i_id) FROM order_line,stock WHERE ol_w_id=? AND ol_d_id=? AND ol_o_id<? \
              AND ol_o_id>=? AND s_w_id=ol_w_id AND s_i_id=ol_i_id AND s_quantity<?";
}

/// A client's transactions.
pub struct Transactions {
    statements: Statements,
    name: String,
}

fn missing(what: &str) -> Failure {
    Failure(format!("tpcc: there is no {what}, which the load has made"))
}

/// Executes a query, and returns the first column of its only row, a number.
fn number(
    session: &mut Session,
    statement: &Statement,
    values: impl Into<mysql::Params>,
) -> SqlResult<Option<i64>> {
    let mut found = None;
    session.query(statement, values, |row| found = number_of(row, 0))?;
    Ok(found)
}

impl Transactions {
    /// Prepares the statements.
    ///
    /// # Errors
    /// The server reports an error.
    pub fn new(session: &mut Session) -> Result<Self> {
        Ok(Self { statements: Statements::new(session)?, name: String::new() })
    }

    /// Runs one transaction, in its home warehouse and district.
    ///
    /// # Errors
    /// The server reports an error.
    pub fn run(
        &mut self,
        session: &mut Session,
        home: u64,
        district: u64,
        drawn: &Drawn,
    ) -> SqlResult<()> {
        session.run("BEGIN")?;
        let commits = match drawn {
            Drawn::NewOrder { customer, lines, .. } => {
                self.new_order(session, home, district, *customer, lines)?
            }
            Drawn::Payment { customer, of, amount } => {
                self.payment(session, (home, district), *of, *customer, *amount)?;
                true
            }
            Drawn::OrderStatus { customer } => {
                self.order_status(session, home, district, *customer)?;
                true
            }
            Drawn::Delivery { carrier } => {
                for district in 1..=DISTRICTS {
                    self.deliver(session, home, district, *carrier)?;
                }
                true
            }
            Drawn::StockLevel { threshold } => {
                let all = &self.statements;
                let next = number(session, &all.next_id, (home, district))?;
                let next = next.ok_or_else(|| missing("district"))?;
                let values = (home, district, next, next - 20, threshold);
                session.query(&all.scarce, values, |_| ())?;
                true
            }
        };
        session.run(if commits { "COMMIT" } else { "ROLLBACK" }).map(drop)
    }

    /// Enters a new order (clause 2.4.2). Returns false if an item does not exist.
    fn new_order(
        &mut self,
        session: &mut Session,
        home: u64,
        district: u64,
        customer: u64,
        lines: &[Line],
    ) -> SqlResult<bool> {
        let all = &self.statements;
        if session.query(&all.buyer, (home, district, customer), |_| ())? == 0 {
            return Err(missing("customer").into());
        }
        let order = number(session, &all.next_order, (home, district))?;
        let order = order.ok_or_else(|| missing("district"))?;
        session.execute(&all.set_next_order, (order + 1, home, district))?;
        let is_local = lines.iter().all(|line| line.supply == home);
        let values = (order, district, home, customer, lines.len(), is_local);
        session.execute(&all.insert_order, values)?;
        session.execute(&all.insert_new, (order, district, home))?;
        for (at, line) in (1u64..).zip(lines) {
            let mut price = None;
            session.query(&all.item, (line.item,), |row| {
                price = text_of(row, 0).and_then(|text| hundredths(&text));
            })?;
            let Some(price) = price else { return Ok(false) };
            let stock = &all.stock[district as usize - 1];
            let mut found = None;
            session.query(stock, (line.item, line.supply), |row| {
                found = number_of(row, 0).zip(text_of(row, 2));
            })?;
            let (quantity, info) = found.ok_or_else(|| missing("stock"))?;
            let left = quantity - line.quantity as i64;
            let left = if left >= 10 { left } else { left + 91 };
            let remote = u64::from(line.supply != home);
            let values = (left, line.quantity, remote, line.item, line.supply);
            session.execute(&all.set_stock, values)?;
            let cost = amount(price * line.quantity);
            let values: [Value; 9] = [
                order.into(),
                district.into(),
                home.into(),
                at.into(),
                line.item.into(),
                line.supply.into(),
                line.quantity.into(),
                cost.into(),
                info.into(),
            ];
            session.execute(&all.insert_line, values.to_vec())?;
        }
        Ok(true)
    }

    /// Finds the id of a customer. Of several with the same last name it is the middle one by first
    /// name.
    fn find(
        &mut self,
        session: &mut Session,
        warehouse: u64,
        district: u64,
        customer: Customer,
    ) -> SqlResult<u64> {
        let number = match customer {
            Customer::Id(id) => return Ok(id),
            Customer::Name(number) => number,
        };
        write_name(number, &mut self.name);
        let (mut ids, name) = (Vec::new(), self.name.as_str());
        session.query(&self.statements.by_name, (warehouse, district, name), |row| {
            ids.extend(number_of(row, 0));
        })?;
        let middle = ids.get(ids.len().div_ceil(2).saturating_sub(1));
        Ok(middle.map(|id| *id as u64).ok_or_else(|| missing("customer of that name"))?)
    }

    /// Enters a payment (clause 2.5.2).
    fn payment(
        &mut self,
        session: &mut Session,
        (home, district): (u64, u64),
        of: (u64, u64),
        customer: Customer,
        hundredths: u64,
    ) -> SqlResult<()> {
        let paid = amount(hundredths);
        session.execute(&self.statements.pay_warehouse, (&paid, home))?;
        let mut names = (String::new(), String::new());
        session.query(&self.statements.warehouse, (home,), |row| {
            names.0 = text_of(row, 5).unwrap_or_default();
        })?;
        session.execute(&self.statements.pay_district, (&paid, home, district))?;
        session.query(&self.statements.district, (home, district), |row| {
            names.1 = text_of(row, 5).unwrap_or_default();
        })?;
        let id = self.find(session, of.0, of.1, customer)?;
        let all = &self.statements;
        let mut credit = None;
        session.query(&all.payer, (of.0, of.1, id), |row| credit = text_of(row, 9))?;
        let credit = credit.ok_or_else(|| missing("customer"))?;
        if credit == "BC" {
            let mut data = format!("{id} {} {} {district} {home} {paid}", of.1, of.0);
            session.query(&all.payer_data, (of.0, of.1, id), |row| {
                data.extend(text_of(row, 0).as_deref());
            })?;
            data.truncate(DATA_MAX); // it is ASCII
            session.execute(&all.pay_with_data, (&paid, &paid, data, of.0, of.1, id))?;
        } else {
            session.execute(&all.pay, (&paid, &paid, of.0, of.1, id))?;
        }
        let data = format!("{}    {}", names.0, names.1);
        session.execute(&all.insert_history, (id, of.1, of.0, district, home, &paid, data))?;
        Ok(())
    }

    /// Reads the status of a customer's last order (clause 2.6.2).
    fn order_status(
        &mut self,
        session: &mut Session,
        home: u64,
        district: u64,
        customer: Customer,
    ) -> SqlResult<()> {
        let id = self.find(session, home, district, customer)?;
        let all = &self.statements;
        session.query(&all.status_customer, (home, district, id), |_| ())?;
        if let Some(order) = number(session, &all.last_order, (home, district, id))? {
            session.query(&all.lines, (home, district, order), |_| ())?;
        }
        Ok(())
    }

    /// Delivers the oldest new order of one district (clause 2.7.4). A district without one is
    /// skipped.
    fn deliver(
        &mut self,
        session: &mut Session,
        home: u64,
        district: u64,
        carrier: u64,
    ) -> SqlResult<()> {
        let all = &self.statements;
        let Some(order) = number(session, &all.oldest_new, (home, district))? else {
            return Ok(());
        };
        let key = (home, district, order);
        if session.execute(&all.delete_new, key)? != 1 {
            let failure =
                format!("tpcc: new order {order} was locked, and is not there to be deleted");
            return Err(Failure(failure).into());
        }
        let customer = number(session, &all.order_customer, key)?;
        let customer = customer.ok_or_else(|| missing("order of a new order"))?;
        session.execute(&all.set_carrier, (carrier, home, district, order))?;
        session.execute(&all.set_delivered, key)?;
        let mut sum = None;
        session.query(&all.sum_lines, key, |row| sum = text_of(row, 0))?;
        let sum = sum.ok_or_else(|| missing("line of an order"))?;
        session.execute(&all.deliver, (sum, home, district, customer))?;
        Ok(())
    }
}
