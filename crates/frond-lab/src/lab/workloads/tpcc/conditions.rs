//! The twelve consistency conditions of clause 3.3.2 of TPC-C as SQL queries over all rows.

use crate::lab::sql::Bench;
use crate::targets::Result;

/// Joins each customer with the sum of the amounts of the order lines that were delivered to it.
macro_rules! delivered {
    () => {
        "LEFT JOIN (SELECT o_w_id ow,o_d_id od,o_c_id oc,SUM(ol_amount) amount FROM orders JOIN order_line \
         ON ol_w_id=o_w_id AND ol_d_id=o_d_id AND ol_o_id=o_id WHERE ol_delivery_d IS NOT NULL \
         GROUP BY o_w_id,o_d_id,o_c_id) o ON ow=c_w_id AND od=c_d_id AND oc=c_id "
    };
}

/// The conditions with their queries. Each query counts the violations of its condition.
const CONDITIONS: [(&str, &str); 12] = [
    (
        "3.3.2.1: a warehouse's sum is that of its districts",
        "SELECT COUNT(*) FROM warehouse LEFT JOIN (SELECT d_w_id,SUM(d_ytd) s FROM district GROUP BY d_w_id) d \
         ON d_w_id=w_id WHERE NOT w_ytd<=>s",
    ),
    (
        "3.3.2.2: a district's next order follows its last one",
        "SELECT COUNT(*) FROM district LEFT JOIN (SELECT o_w_id,o_d_id,MAX(o_id) m FROM orders GROUP BY o_w_id,o_d_id) o \
         ON o_w_id=d_w_id AND o_d_id=d_id LEFT JOIN (SELECT no_w_id,no_d_id,MAX(no_o_id) m FROM new_orders \
         GROUP BY no_w_id,no_d_id) n ON no_w_id=d_w_id AND no_d_id=d_id \
         WHERE NOT d_next_o_id-1<=>o.m OR n.m<>o.m",
    ),
    (
        "3.3.2.3: new orders of a district have no gaps",
        "SELECT COUNT(*) FROM (SELECT 1 FROM new_orders GROUP BY no_w_id,no_d_id \
         HAVING MAX(no_o_id)-MIN(no_o_id)+1<>COUNT(*)) x",
    ),
    (
        "3.3.2.4: a district's orders have as many lines as they say",
        "SELECT COUNT(*) FROM (SELECT o_w_id w,o_d_id d,SUM(o_ol_cnt) s FROM orders GROUP BY o_w_id,o_d_id) o \
         LEFT JOIN (SELECT ol_w_id,ol_d_id,COUNT(*) n FROM order_line GROUP BY ol_w_id,ol_d_id) l \
         ON ol_w_id=w AND ol_d_id=d WHERE NOT s<=>n",
    ),
    (
        "3.3.2.5: an order is new if and only if it has no carrier",
        "SELECT COUNT(*) FROM orders LEFT JOIN new_orders ON no_w_id=o_w_id AND no_d_id=o_d_id AND no_o_id=o_id \
         WHERE (o_carrier_id IS NULL)<>(no_o_id IS NOT NULL)",
    ),
    (
        "3.3.2.6: each order has as many lines as it says",
        "SELECT COUNT(*) FROM orders LEFT JOIN (SELECT ol_w_id,ol_d_id,ol_o_id,COUNT(*) n FROM order_line \
         GROUP BY ol_w_id,ol_d_id,ol_o_id) l ON ol_w_id=o_w_id AND ol_d_id=o_d_id AND ol_o_id=o_id \
         WHERE NOT o_ol_cnt<=>n",
    ),
    (
        "3.3.2.7: lines are delivered if and only if their order has a carrier",
        "SELECT COUNT(*) FROM order_line LEFT JOIN orders ON o_w_id=ol_w_id AND o_d_id=ol_d_id AND o_id=ol_o_id \
         WHERE o_id IS NULL OR (ol_delivery_d IS NULL)<>(o_carrier_id IS NULL)",
    ),
    (
        "3.3.2.8: a warehouse's sum is that of its history",
        "SELECT COUNT(*) FROM warehouse LEFT JOIN (SELECT h_w_id,SUM(h_amount) s FROM history GROUP BY h_w_id) h \
         ON h_w_id=w_id WHERE NOT w_ytd<=>s",
    ),
    (
        "3.3.2.9: a district's sum is that of its history",
        "SELECT COUNT(*) FROM district LEFT JOIN (SELECT h_w_id,h_d_id,SUM(h_amount) s FROM history \
         GROUP BY h_w_id,h_d_id) h ON h_w_id=d_w_id AND h_d_id=d_id WHERE NOT d_ytd<=>s",
    ),
    (
        "3.3.2.10: a customer's balance is what was delivered less what was paid",
        concat!(
            "SELECT COUNT(*) FROM customer ",
            delivered!(),
            "LEFT JOIN (SELECT h_c_w_id hw,h_c_d_id hd,h_c_id hc,SUM(h_amount) paid FROM history \
             GROUP BY h_c_w_id,h_c_d_id,h_c_id) h ON hw=c_w_id AND hd=c_d_id AND hc=c_id \
             WHERE NOT c_balance<=>COALESCE(amount,0)-COALESCE(paid,0)"
        ),
    ),
    (
        // Of 3,000 orders, 2,100 are loaded as delivered; later deliveries are counted in the row
        // of the customer.
        "3.3.2.11: of a district's orders those that were delivered are not new",
        "SELECT COUNT(*) FROM (SELECT c_w_id w,c_d_id d,COUNT(*)-COUNT(*)*3 DIV 10+SUM(c_delivery_cnt) delivered \
         FROM customer GROUP BY c_w_id,c_d_id) c LEFT JOIN (SELECT o_w_id,o_d_id,COUNT(*) n FROM orders \
         GROUP BY o_w_id,o_d_id) o ON o_w_id=w AND o_d_id=d LEFT JOIN (SELECT no_w_id,no_d_id,COUNT(*) n \
         FROM new_orders GROUP BY no_w_id,no_d_id) x ON no_w_id=w AND no_d_id=d \
         WHERE NOT COALESCE(o.n,0)-COALESCE(x.n,0)<=>delivered",
    ),
    (
        "3.3.2.12: a customer's balance and payments are what was delivered",
        concat!(
            "SELECT COUNT(*) FROM customer ",
            delivered!(),
            "WHERE NOT c_balance+c_ytd_payment<=>COALESCE(amount,0)"
        ),
    ),
];

/// Verifies all conditions.
///
/// # Errors
/// The server reports an error.
pub fn verify(bench: &mut Bench) -> Result<()> {
    for (name, sql) in CONDITIONS {
        let count = bench.admin().value(sql)?;
        bench.result.verify(name, count == "0", format!("{count} violate it"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::results::State;
    use crate::lab::workloads::testing::{must_fail, on_both, step};

    #[test]
    fn sql_transactions_keep_the_conditions_at_read_committed() {
        on_both("tpcc", &[("isolation", "read-committed")], |bench| {
            assert!(step(bench, "requests").metrics["nopm"] > 0.0);
            assert_eq!(bench.result.facts["isolation level"], "READ-COMMITTED");
        });
    }

    #[test]
    fn sql_conditions_hold_and_each_notices_its_violation() {
        on_both("tpcc", &[], |bench| {
            let made = step(bench, "requests");
            assert!(made.metrics["nopm"] > 0.0 && made.latencies.contains_key("payment"));
            assert_eq!(bench.result.facts["isolation level"], "REPEATABLE-READ");
            for (harm, condition) in [
                ("UPDATE warehouse SET w_ytd=w_ytd+1 WHERE w_id=1", "3.3.2.1"),
                ("UPDATE district SET d_next_o_id=d_next_o_id+1 LIMIT 1", "3.3.2.2"),
                (
                    "DELETE FROM new_orders WHERE no_d_id=1 AND no_w_id=1 AND no_o_id=\
                  (SELECT m FROM (SELECT MAX(no_o_id)-1 m FROM new_orders WHERE no_d_id=1 AND no_w_id=1) x)",
                    "3.3.2.3",
                ),
                ("DELETE FROM order_line LIMIT 1", "3.3.2.4"),
                (
                    "UPDATE orders SET o_carrier_id=NULL WHERE o_carrier_id IS NOT NULL LIMIT 1",
                    "3.3.2.5",
                ),
                ("DELETE FROM order_line LIMIT 1", "3.3.2.6"),
                (
                    "UPDATE order_line SET ol_delivery_d=NULL WHERE ol_delivery_d IS NOT NULL LIMIT 1",
                    "3.3.2.7",
                ),
                ("DELETE FROM history LIMIT 1", "3.3.2.8"),
                ("DELETE FROM history LIMIT 1", "3.3.2.9"),
                ("UPDATE customer SET c_balance=c_balance+1 LIMIT 1", "3.3.2.10"),
                ("UPDATE customer SET c_delivery_cnt=c_delivery_cnt+1 LIMIT 1", "3.3.2.11"),
                ("UPDATE customer SET c_ytd_payment=c_ytd_payment+1 LIMIT 1", "3.3.2.12"),
            ] {
                bench.result.verified.clear();
                bench.result.state = State::Done;
                bench.admin().run("BEGIN").expect("begun");
                must_fail(bench, harm, verify);
                bench.admin().run("ROLLBACK").expect("the harm is undone");
                let found =
                    bench.result.verified.iter().find(|found| found.name.starts_with(condition));
                assert!(found.is_some_and(|found| !found.passed), "{harm}: {condition} holds");
            }
        });
    }
}
