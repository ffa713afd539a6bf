//! Tests that all data sets must pass.

use super::Source;
use super::iibench::Purchases;
use super::linktable::LinkTable;
use super::packages::{EXAMPLE, Packages};
use super::sbtest::Sbtest;
use super::shape::Shape;
use super::weblog::generator::WebLog;
use crate::layout;
use crate::schema::{EncodedRow, Table};

const ROWS: u64 = 20_000;

/// Splits rows by the layouts of their table. Returns their number, and the bytes of keys and
/// values per row.
fn split<S: Source>(mut source: S) -> (u64, u64) {
    let (table, mut record, mut encoded) =
        (S::table(), S::Record::default(), EncodedRow::default());
    let (mut rows, mut bytes, mut ends) = (0, 0, Vec::new());
    let keys: Vec<_> =
        (0..=table.indexes.len()).map(|keyspace| layout::key(&table, keyspace)).collect();
    let values = layout::value(&table, 0).expect("columns besides the key");
    assert!(keys.iter().chain([&values]).all(|layout| layout.validate().is_ok()), "{}", S::NAME);
    while rows < ROWS && source.next(&mut record) {
        encoded.encode(&table, source.columns(&record).as_ref());
        let of_row = [&encoded.key].into_iter().chain(&encoded.index_keys);
        for (key, layout) in of_row.zip(&keys) {
            assert!(layout.split(key, &mut ends), "{}: {key:x?}: {layout:?}", S::NAME);
            bytes += key.len();
        }
        let value = &encoded.value;
        assert!(values.split(value, &mut ends), "{}: {value:x?}: {values:?}", S::NAME);
        bytes += value.len();
        rows += 1;
    }
    (rows, bytes as u64 / rows.max(1))
}

#[test]
fn rows_fit_the_layouts_of_their_table_and_have_the_bytes_of_their_columns() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), EXAMPLE).expect("written");
    assert_eq!(split(Packages::read(file.path()).expect("a list")).0, 2);
    assert_eq!(split(WebLog::of_a_week(42, ROWS)).0, ROWS);
    assert_eq!(split(Purchases::new(42, false)), (ROWS, 28 + 48));
    // 120 and 60 bytes of text with a length byte each, and k with id in the index.
    assert_eq!(split(Sbtest::new(42, ROWS)), (ROWS, 190 + 8));
    let (rows, bytes) = split(LinkTable::new(42, ROWS));
    assert!(rows == ROWS && (49..=53).contains(&bytes), "{rows} rows of {bytes} bytes");
}

#[test]
fn keys_and_values_of_db_bench_fit_their_layouts() {
    let (mut key, mut value, mut ends) = (Vec::new(), Vec::new(), Vec::new());
    for shape in [Shape::Script, Shape::Classic] {
        let table = Table::raw("usertable", shape.key_bytes());
        shape.key(7, &mut key);
        shape.value(7, 1, &mut value);
        assert!(layout::key(&table, 0).split(&key, &mut ends));
        assert!(layout::value(&table, 0).expect("a value").split(&value, &mut ends));
    }
}
