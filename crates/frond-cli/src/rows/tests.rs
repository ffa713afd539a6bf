//! The invariants of rows.

use proptest::prelude::*;

use super::*;

fn header(columns: usize, key: &[&str], indexes: &[&str], more: bool) -> Header {
    let parse = |names: &[&str]| {
        names.iter().map(|name| KeyColumn::parse(name).expect("a column")).collect()
    };
    Header {
        frond_rows: VERSION,
        columns: (0..columns).map(|at| format!("c{at}")).collect(),
        key: parse(key),
        indexes: parse(indexes),
        more,
    }
}

proptest! {
    /// Invariants 1 and 2.
    #[test]
    fn record_is_restored_from_key_and_row(
        values in prop::collection::vec(
            prop::option::of(prop::collection::vec(any::<u8>(), 0..200)), 12),
        id: i64,
        late in prop::collection::vec(("[a-z]{1,5}", prop::collection::vec(any::<u8>(), 0..9)), 0..3),
        numbered: bool,
    ) {
        let key: &[&str] = if numbered { &[] } else { &["c11", "c2:int:desc", "c3:float"] };
        let header = header(12, key, &["c5:desc", "c2:int", "c3:float:desc", "c4:time"], true);
        prop_assert_eq!(Header::from_attributes(&header.to_attributes()), Some(header.clone()));
        let mut values = values;
        values[2] = Some(id.to_string().into_bytes());
        values[11].get_or_insert_default();
        values[3] = Some(format!("{id}.50").into_bytes());
        values[4] = Some(b"2026-01-31 23:59".to_vec());
        let mut builder = RowBuilder::new(&header);
        builder.set(0, b"forgotten");
        builder.clear();
        for (column, value) in values.iter().enumerate() {
            if let Some(value) = value {
                builder.set(column, value);
            }
        }
        for (name, value) in &late {
            builder.set_more(name, value);
        }
        builder.finish(&header, 7).expect("key columns are there");
        let expected = Values { columns: values.clone(), more: late };
        prop_assert_eq!(header.decode(builder.key(), builder.row()), Ok(expected));
        let mut ends = Vec::new();
        prop_assert!(header.key_layout().split(builder.key(), &mut ends));
        prop_assert!(header.row_layout().split(builder.row(), &mut ends));
        let mut index_key = Vec::new();
        for (index, column) in header.indexes.iter().enumerate() {
            builder.index_key(&header, index, &mut index_key).expect("an integer");
            prop_assert!(header.index_layout(column).split(&index_key, &mut ends));
            let at: usize = column.name[1..].parse().expect("a number");
            let (value, key) = header.decode_index_key(column, &index_key).expect("an entry");
            prop_assert_eq!(key, builder.key());
            match at {
                3 => prop_assert_eq!(value.expect("a number"), (format!("{id}.50")
                    .parse::<f64>().expect("a number")).to_string().into_bytes()),
                4 => prop_assert_eq!(value.expect("a time"), b"2026-01-31T23:59:00Z".to_vec()),
                _ => prop_assert_eq!(value, values[at].clone()),
            }
        }
    }

    /// Invariant 3.
    #[test]
    fn any_bytes_are_a_row_or_refused(
        key in prop::collection::vec(any::<u8>(), 0..20),
        row in prop::collection::vec(prop_oneof![0u8..5, any::<u8>()], 0..30),
    ) {
        for header in [header(3, &["c0"], &[], false), header(20, &[], &[], true)] {
            let _ = header.decode(&key, &row);
            let _ = header.decode_index_key(&KeyColumn::parse("c1").expect("a column"), &key);
        }
    }
}

#[test]
fn integer_keys_sort_numerically() {
    let header = header(1, &["c0:int"], &[], false);
    let key = |text: &str| header.key_of(&[Some(text.as_bytes().to_vec())]);
    assert!(key("-5") < key("3") && key("3") < key("20"));
    assert_eq!((key("007"), key("+1")), (key("7"), key("1")));
    for bad in ["1.5", "", "9223372036854775808"] {
        let error = key(bad).expect_err("no integer");
        assert!(error.ends_with("which is not a 64-bit integer"), "{error}");
    }
}

#[test]
fn record_without_its_key_is_refused() {
    let header = header(2, &["c1"], &[], false);
    let mut builder = RowBuilder::new(&header);
    builder.set(0, b"x");
    assert_eq!(builder.finish(&header, 0), Err("key column \"c1\" has no value".to_owned()));
}
