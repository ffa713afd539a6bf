//! `frond dump`: every entry, in a form in which two stores can be compared.

use std::io::Write;

use crate::{
    common::{MomentArgs, StoreArgs, output},
    escape::escape_into,
    fail::Result,
};

/// Print every entry: tree TAB key TAB value
///
/// Trees are ordered by name, entries by key. Bytes that are not printable text are escaped (\t,
/// \n, \r, \\, \xNN), so that equal content gives equal lines.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    moment: MomentArgs,
    /// Print only this tree
    tree: Option<String>,
}

/// Runs it.
pub fn run(args: Args) -> Result {
    let db = args.store.open()?;
    let moment = args.moment.of(&db)?;
    let names = match args.tree {
        Some(name) => vec![name],
        None => moment.names()?,
    };
    let mut out = output();
    let mut line = String::new();
    for name in names {
        let mut cursor = moment.scan(&moment.tree(&name)?, ..)?;
        while let Some((key, value)) = cursor.next()? {
            line.clear();
            for (at, word) in [name.as_bytes(), key, value].into_iter().enumerate() {
                if at > 0 {
                    line.push('\t');
                }
                escape_into(word, &mut line);
            }
            line.push('\n');
            out.write_all(line.as_bytes())?;
        }
    }
    Ok(out.flush()?)
}
