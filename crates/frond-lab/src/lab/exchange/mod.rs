//! Export and import of results: JSON with everything about a run, and CSV and Markdown for
//! reading.
//!
//! Invariants
//! 1. `import` reads what `export --format json` writes, and yields the same run with new row ids.
//! 2. An import is one transaction: an invalid file changes nothing. A run that already exists and
//!    has ended is left as it is; an unfinished one gets the cells that it lacks or that failed.

mod conditions;
mod csv;
mod json;
mod markdown;

pub use conditions::conditions;
pub use csv::csv;
pub use json::{export, import};
pub use markdown::{markdown, short};
