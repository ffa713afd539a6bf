//! Tests of what holds for every workload.

use std::fs;

use clap::ValueEnum;

use super::*;
use crate::layout;
use crate::schema::Keyspace;
use crate::targets::{Attempt, Begin, Clients, Connection, Direction, Target, Visit};
use frond::Layout;

/// A target that keeps nothing but splits everything it is given by the layouts of its table.
struct Splitter {
    layouts: Vec<(Layout, Layout)>,
}

struct SplitterConnection<'a>(&'a Splitter);

impl Splitter {
    fn new(table: &Table) -> Self {
        let of = |keyspace| {
            (layout::key(table, keyspace), layout::value(table, keyspace).unwrap_or_default())
        };
        Self { layouts: (0..table.keyspaces().len()).map(of).collect() }
    }
}

impl Target for Splitter {
    fn version(&self) -> String {
        String::new()
    }

    fn settings(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    fn connect(&self, _: Clients) -> Result<Box<dyn Connection + '_>> {
        Ok(Box::new(SplitterConnection(self)))
    }

    fn keeps_rows(&self) -> bool {
        false
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

impl Connection for SplitterConnection<'_> {
    fn begin(&mut self, _: Begin) -> Attempt<()> {
        Ok(())
    }

    fn get(&mut self, _: Keyspace, _: &[u8], value: &mut Vec<u8>) -> Attempt<bool> {
        value.clear();
        Ok(false)
    }

    fn get_for_update(
        &mut self,
        keyspace: Keyspace,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Attempt<bool> {
        self.get(keyspace, key, value)
    }

    fn put(&mut self, keyspace: Keyspace, key: &[u8], value: &[u8]) -> Attempt<()> {
        let (of_keys, of_values) = &self.0.layouts[keyspace];
        let mut ends = Vec::new();
        assert!(of_keys.split(key, &mut ends), "key {key:x?} of {keyspace}: {of_keys:?}");
        assert!(of_values.split(value, &mut ends), "value {value:x?} of {keyspace}: {of_values:?}");
        Ok(())
    }

    fn delete(&mut self, keyspace: Keyspace, key: &[u8]) -> Attempt<()> {
        assert!(self.0.layouts[keyspace].0.split(key, &mut Vec::new()), "{key:x?}");
        Ok(())
    }

    fn scan(
        &mut self,
        _: Keyspace,
        _: (Option<&[u8]>, Option<&[u8]>),
        _: Direction,
        _: Visit<'_>,
    ) -> Attempt<()> {
        Ok(())
    }

    fn commit(&mut self) -> Attempt<()> {
        Ok(())
    }

    fn rollback(&mut self) -> Result<()> {
        Ok(())
    }
}

fn spec(packages: &std::path::Path) -> Spec {
    Spec {
        rows: 20_000,
        seed: 42,
        shape: Shape::Script,
        threads: 1,
        seconds: 1,
        held: None,
        query_rate: 10.0,
        profile: Profile::Typical,
        durability: Durability::Lazy,
        one_writer: true,
        packages: packages.to_owned(),
        clients: vec![1, 3],
        phases: Phase::value_variants().to_vec(),
    }
}

#[test]
fn every_row_of_every_workload_fits_the_layouts_of_its_table() {
    let dir = tempfile::tempdir().expect("a directory");
    let packages = dir.path().join("packages");
    fs::write(&packages, packages::EXAMPLE).expect("a list of packages");
    for &name in Name::value_variants() {
        for shape in [Shape::Script, Shape::Classic] {
            // Steps of transactions run for a fixed time; with 0 s they end immediately.
            let seconds = u64::from(name != Name::Txn);
            let spec = Spec { shape, seconds, ..spec(&packages) };
            let mut workload = make(name, &spec).expect("a workload");
            let splitter = Splitter::new(&workload.table());
            for (key, value) in &splitter.layouts {
                assert!(key.validate().is_ok() && value.validate().is_ok(), "{name:?}");
            }
            // Named like the null target: nothing is kept, so nothing is read back.
            let dir = dir.path().to_owned();
            let mut bench = Bench::new(&splitter, "null".to_owned(), dir, None, Rest::None, false);
            workload.run(&mut bench).expect("nothing fails");
            let loaded = workload.expected()[0].rows;
            let least = if name == Name::Packages { 2 } else { 1_000 };
            assert!(loaded >= least, "{name:?} loaded {loaded} rows");
        }
    }
}

#[test]
fn bytes_of_a_load_are_those_of_its_keys_and_values() {
    let spec = spec(std::path::Path::new(""));
    for (name, least, most) in [
        (Name::Iibench, 28 + 48, 28 + 48),
        // 120 and 60 bytes of text with a length byte each, and k with id in the index.
        (Name::Sbtest, 190 + 8, 190 + 8),
        (Name::Linktable, 49, 53),
    ] {
        let mut workload = make(name, &spec).expect("a workload");
        let splitter = Splitter::new(&workload.table());
        let dir = std::env::temp_dir();
        let mut bench = Bench::new(&splitter, "null".to_owned(), dir, None, Rest::None, false);
        workload.run(&mut bench).expect("nothing fails");
        let sums = workload.expected();
        let bytes: u64 = sums.iter().map(|sum| sum.bytes).sum();
        let row = bytes / sums[0].rows;
        assert!((least..=most).contains(&row), "{name:?}: {row} bytes a row");
        assert_eq!(sums[0].rows, spec.rows);
    }
}
