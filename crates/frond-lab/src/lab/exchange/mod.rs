//! Results that leave the lab and come into it: JSON that has all of a run, and CSV and Markdown to read.
//!
//! Invariants
//! 1. What `export --format json` writes, `import` reads: the same run, with other row numbers.
//! 2. An import is one transaction: a file that is wrong leaves nothing. A run that is there already is left as it is.

mod conditions;
mod csv;
mod json;
mod markdown;

pub use conditions::conditions;
pub use csv::csv;
pub use json::{export, import};
pub use markdown::{markdown, short};
