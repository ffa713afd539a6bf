//! Records of which custom merge operators each tree needs (Rule: I17).
//!
//! A merge is blind: its operand may stay in memtables and buffers for a long time, and only a
//! reader or a leaf merge, perhaps in another process, notices that the operator is missing. So the
//! catalog names, for each tree, the operators that it uses, and a store whose catalog names one
//! that `Options` do not have is not opened, read-only or not.
//!
//! Invariants
//! 1. The catalog record is durable before the first commit that uses an operator in a tree has a
//!    seqno.
//! 2. Clones inherit the operators of their parent; an operator is removed only with the tree.
//!
//! Threads: all.

use std::collections::BTreeMap;

use crate::{
    Error, Result, TreeId,
    catalog::{Record, TreeRecord},
    db::Shared,
    run::Operators,
};

/// Fails unless all operators that a tree uses are registered.
pub(in crate::db) fn must_know(operators: &Operators, record: &TreeRecord) -> Result<()> {
    for (&operator, name) in &record.operators {
        let found = operators.name(operator);
        if found != Some(name) {
            return Err(Error::OperatorNeeded {
                tree: record.name.clone(),
                operator,
                name: name.clone(),
                found: found.map_or("none".into(), |other| format!("\"{other}\"")),
            });
        }
    }
    Ok(())
}

impl Shared {
    /// Records which operators a commit uses in which trees, unless the catalog already does: once
    /// for each tree and operator, in a synced commit of its own.
    pub(in crate::db) fn record_operators(&self, used: &[(TreeId, u8)]) -> Result<()> {
        let is_new = |&(tree, operator): &(TreeId, u8)| {
            self.catalog.by_id(tree).is_some_and(|entry| !entry.uses(operator))
        };
        if !used.iter().any(is_new) {
            return Ok(());
        }
        let _change = self.catalog.change();
        let mut records: BTreeMap<TreeId, TreeRecord> = BTreeMap::new();
        // Checked again under the lock: another commit may have come first.
        for &(tree, operator) in used.iter().filter(|used| is_new(used)) {
            let Some(entry) = self.catalog.by_id(tree) else { continue };
            let operators = &self.engine.cx.operators;
            let name = operators.name(operator).ok_or(Error::MissingOperator(operator))?;
            let record = records.entry(tree).or_insert_with(|| entry.record());
            record.operators.insert(operator, name.to_owned());
        }
        if records.is_empty() {
            return Ok(());
        }
        let put: Vec<Record> = records.values().cloned().map(Record::Tree).collect();
        if !plant!("db: merge operators in use are not written down") {
            self.change(&put, &[], &[])?;
        }
        for record in records.into_values() {
            self.catalog.show_tree(record);
        }
        Ok(())
    }
}
