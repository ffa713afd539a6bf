//! Verifies that an embedded store syncs each commit, if its durability requires that. This is done
//! on another store that is opened like that of the cell, after the cell's work is done, so that it
//! is no part of what is measured.

use super::bench::SYNCS;
use super::rows::Rows;
use super::{class_of, library_of, target};
use crate::lab::cell_spec::CellSpec;
use crate::lab::machine::class::Confined;
use crate::lab::results::CellResult;
use crate::lab::size::Durability;
use crate::lab::syncs::{self, Counts};
use crate::schema::{Column, Table, Type, Value};
use crate::size::Bytes;
use crate::targets::{self, Begin, Clients, Connection, Result, Setup};

/// Directory of the store, below that of the cell.
const DIR: &str = "lab_probe";

fn table() -> Table {
    Table {
        name: "lab_probe",
        columns: vec![Column::new("id", Type::U64), Column::new("v", Type::U64)],
        primary: vec![0],
        indexes: Vec::new(),
        base: 0,
    }
}

/// Verifies with every available counter that each of some commits is synced, if the cell has
/// durability `safe`.
///
/// # Errors
/// Errors of the store.
pub fn verify(spec: &CellSpec, confined: &Confined, result: &mut CellResult) -> Result<()> {
    match spec.durability {
        Durability::Safe => probe(spec, class_of(spec.durability), confined, result),
        _ => Ok(()),
    }
}

fn probe(
    spec: &CellSpec,
    durability: targets::Durability,
    confined: &Confined,
    result: &mut CellResult,
) -> Result<()> {
    let (dir, mut tables) = (spec.dir.join(DIR), vec![table()]);
    std::fs::create_dir_all(&dir)?;
    Table::number(&mut tables);
    let setup = Setup {
        dir: dir.clone(),
        memory: Bytes(spec.memory()?),
        write_buffer: None,
        durability,
        tables: tables.clone(),
        unique: false,
        transactions: true,
    };
    let store = targets::open(target(&spec.target)?, library_of(spec).as_ref(), &setup)?;
    let of_engine = || {
        let counters = store.counters();
        let of = |name: &&str| counters.iter().find(|(found, _)| found == name);
        SYNCS.iter().find_map(of).map(|(_, count)| *count as u64)
    };
    let counts = Counts { dir: &dir, process: std::process::id(), read: &|| confined.counts() };
    let mut client = (store.connect(Clients::ONE)?, Rows::new(&tables[0]));
    syncs::verify(
        &mut client,
        &counts,
        |_| of_engine(),
        |(connection, rows), id| Ok(commit(connection.as_mut(), rows, id)?),
        result,
    )?;
    drop(client);
    store.close()?;
    Ok(std::fs::remove_dir_all(&dir)?)
}

fn commit(connection: &mut dyn Connection, rows: &mut Rows<'_>, id: u64) -> targets::Attempt<()> {
    connection.begin(Begin::Write)?;
    rows.insert(connection, &[Value::U64(id), Value::U64(id)])?;
    connection.commit()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{all_targets, spec};
    use super::*;
    use crate::lab::results::State;
    use crate::lab::size::Size;

    fn probed(store: &str, durability: targets::Durability) -> CellResult {
        let dir = tempfile::tempdir().expect("a directory");
        let spec = spec("ycsb", store, Size::Tiny, dir.path());
        let mut result = CellResult::default();
        let done = probe(&spec, durability, &Confined::default(), &mut result);
        done.unwrap_or_else(|failure| panic!("{store}: {failure}"));
        assert_eq!(std::fs::read_dir(dir.path()).expect("it is there").count(), 0, "{store}");
        result
    }

    #[test]
    fn every_store_syncs_each_commit_and_one_that_does_not_fails() {
        for store in all_targets().into_iter().filter(|store| *store != "null") {
            let result = probed(store, targets::Durability::Sync);
            assert_eq!(result.state, State::Done, "{store}: {:?}", result.failure);
            assert_eq!(result.verified.len(), 1, "{store}: {:?}", result.settings);
        }
        // By its own count: other tests of this process may sync meanwhile.
        assert_eq!(probed("frond", targets::Durability::Os).state, State::Failed);
    }
}
