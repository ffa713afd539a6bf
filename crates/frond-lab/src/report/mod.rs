//! The report: tables on the terminal, and one self-contained page.
//!
//! Invariants
//! 1. Every number is shown with its conditions: machine, versions, settings, memory, durability,
//!    seed.
//! 2. What Frond loses is shown as large as what it wins.

mod page;
mod scatter;
mod sizes;
mod svg;
mod table;
mod transactions;

pub use page::page;
pub use sizes::sizes;
pub use table::{figure, table};
pub use transactions::transactions;
