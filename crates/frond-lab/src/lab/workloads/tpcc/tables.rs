//! The columns of TPC-C's nine tables for code that does not read the SQL definitions: the load,
//! and embedded stores.
//!
//! Amounts are in hundredths, rates in ten-thousandths. NULL in SQL is 0 here, which is neither a
//! carrier nor a date.

use crate::schema::{Column, Index, Table, Type};

/// Numbers of the tables, in the order of `schema::TABLES`.
pub const ITEM: usize = 0;
pub const WAREHOUSE: usize = 1;
pub const DISTRICT: usize = 2;
pub const CUSTOMER: usize = 3;
pub const HISTORY: usize = 4;
pub const ORDERS: usize = 5;
pub const NEW_ORDERS: usize = 6;
pub const ORDER_LINE: usize = 7;
pub const STOCK: usize = 8;

/// The type of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// TINYINT.
    Tiny,
    /// TINYINT NULL.
    TinyOrNull,
    /// SMALLINT.
    Small,
    /// INT.
    Int,
    /// DECIMAL(…,2).
    Amount,
    /// DECIMAL(4,4).
    Rate,
    /// DATETIME.
    Date,
    /// DATETIME NULL.
    DateOrNull,
    /// CHAR, VARCHAR, TEXT.
    Text,
    /// A row number. It does not exist in SQL, where a table needs no primary key.
    RowNumber,
}

use Kind::{Amount, Date, DateOrNull, Int, Rate, RowNumber, Small, Text, Tiny, TinyOrNull};

type Columns = &'static [(&'static str, Kind)];

/// A table: name, columns, primary key, and indexes with their columns.
type Definition =
    (&'static str, Columns, &'static [usize], &'static [(&'static str, &'static [usize])]);

/// The definitions of all tables.
pub const TABLES: [Definition; 9] = [
    (
        "item",
        &[("i_id", Int), ("i_im_id", Int), ("i_name", Text), ("i_price", Amount), ("i_data", Text)],
        &[0],
        &[],
    ),
    (
        "warehouse",
        &[
            ("w_id", Small),
            ("w_name", Text),
            ("w_street_1", Text),
            ("w_street_2", Text),
            ("w_city", Text),
            ("w_state", Text),
            ("w_zip", Text),
            ("w_tax", Rate),
            ("w_ytd", Amount),
        ],
        &[0],
        &[],
    ),
    (
        "district",
        &[
            ("d_id", Tiny),
            ("d_w_id", Small),
            ("d_name", Text),
            ("d_street_1", Text),
            ("d_street_2", Text),
            ("d_city", Text),
            ("d_state", Text),
            ("d_zip", Text),
            ("d_tax", Rate),
            ("d_ytd", Amount),
            ("d_next_o_id", Int),
        ],
        &[1, 0],
        &[],
    ),
    (
        "customer",
        &[
            ("c_id", Int),
            ("c_d_id", Tiny),
            ("c_w_id", Small),
            ("c_first", Text),
            ("c_middle", Text),
            ("c_last", Text),
            ("c_street_1", Text),
            ("c_street_2", Text),
            ("c_city", Text),
            ("c_state", Text),
            ("c_zip", Text),
            ("c_phone", Text),
            ("c_since", Date),
            ("c_credit", Text),
            ("c_credit_lim", Int),
            ("c_discount", Rate),
            ("c_balance", Amount),
            ("c_ytd_payment", Amount),
            ("c_payment_cnt", Small),
            ("c_delivery_cnt", Small),
            ("c_data", Text),
        ],
        &[2, 1, 0],
        &[("idx_customer", &[2, 1, 5, 3])],
    ),
    (
        "history",
        &[
            ("h_id", RowNumber),
            ("h_c_id", Int),
            ("h_c_d_id", Tiny),
            ("h_c_w_id", Small),
            ("h_d_id", Tiny),
            ("h_w_id", Small),
            ("h_date", Date),
            ("h_amount", Amount),
            ("h_data", Text),
        ],
        &[0],
        &[("fkey_history_1", &[3, 2, 1]), ("fkey_history_2", &[5, 4])],
    ),
    (
        "orders",
        &[
            ("o_id", Int),
            ("o_d_id", Tiny),
            ("o_w_id", Small),
            ("o_c_id", Int),
            ("o_entry_d", Date),
            ("o_carrier_id", TinyOrNull),
            ("o_ol_cnt", Tiny),
            ("o_all_local", Tiny),
        ],
        &[2, 1, 0],
        &[("idx_orders", &[2, 1, 3, 0])],
    ),
    ("new_orders", &[("no_o_id", Int), ("no_d_id", Tiny), ("no_w_id", Small)], &[2, 1, 0], &[]),
    (
        "order_line",
        &[
            ("ol_o_id", Int),
            ("ol_d_id", Tiny),
            ("ol_w_id", Small),
            ("ol_number", Tiny),
            ("ol_i_id", Int),
            ("ol_supply_w_id", Small),
            ("ol_delivery_d", DateOrNull),
            ("ol_quantity", Tiny),
            ("ol_amount", Amount),
            ("ol_dist_info", Text),
        ],
        &[2, 1, 0, 3],
        &[("fkey_order_line_2", &[5, 4])],
    ),
    (
        "stock",
        &[
            ("s_i_id", Int),
            ("s_w_id", Small),
            ("s_quantity", Small),
            ("s_dist_01", Text),
            ("s_dist_02", Text),
            ("s_dist_03", Text),
            ("s_dist_04", Text),
            ("s_dist_05", Text),
            ("s_dist_06", Text),
            ("s_dist_07", Text),
            ("s_dist_08", Text),
            ("s_dist_09", Text),
            ("s_dist_10", Text),
            ("s_ytd", Int),
            ("s_order_cnt", Small),
            ("s_remote_cnt", Small),
            ("s_data", Text),
        ],
        &[1, 0],
        &[("fkey_stock_2", &[0])],
    ),
];

fn type_of(kind: Kind) -> Type {
    match kind {
        Tiny | TinyOrNull => Type::I8,
        Small => Type::I16,
        Rate | Int => Type::I32,
        Amount => Type::I64,
        Date | DateOrNull => Type::Millis,
        Text => Type::Text,
        RowNumber => Type::U64,
    }
}

/// Returns the tables of an embedded store.
pub fn tables() -> Vec<Table> {
    let table = |(name, columns, primary, indexes): &Definition| Table {
        name,
        columns: columns.iter().map(|(name, kind)| Column { name, kind: type_of(*kind) }).collect(),
        primary: primary.to_vec(),
        indexes: indexes
            .iter()
            .map(|(name, columns)| Index { name, columns: columns.to_vec() })
            .collect(),
        base: 0,
    };
    TABLES.iter().map(table).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::workloads::tpcc::schema;

    #[test]
    fn columns_keys_and_indexes_match_the_sql_definitions() {
        for ((name, columns, primary, indexes), sql) in TABLES.iter().zip(schema::TABLES) {
            assert!(sql.starts_with(&format!("{name}(")), "{sql}");
            let in_sql = columns.iter().filter(|(_, kind)| *kind != RowNumber);
            let mut rest = &sql[name.len() + 1..];
            for (column, _) in in_sql {
                rest = rest.strip_prefix(column).unwrap_or_else(|| panic!("{column} at {rest}"));
                // A comma inside parentheses, which has no space after it, belongs to a type.
                let end = rest.find(", ").unwrap_or_else(|| panic!("{rest}"));
                rest = &rest[end + 2..];
            }
            let names = |of: &[usize]| of.iter().map(|at| columns[*at].0).collect::<Vec<_>>();
            let key = format!("PRIMARY KEY({})", names(primary).join(","));
            assert_eq!(sql.contains(&key), *name != "history", "{key} of {sql}");
            for (index, of) in *indexes {
                let text = format!("KEY {index}({})", names(of).join(","));
                assert!(sql.contains(&text), "{text} in {sql}");
            }
            assert_eq!(sql.matches(" KEY ").count(), indexes.len(), "{sql}");
        }
    }
}
