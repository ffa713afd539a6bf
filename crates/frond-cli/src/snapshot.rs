//! `frond snapshot`: named snapshots of a store.

use std::io::Write;

use clap::Subcommand;

use crate::{
    common::{StoreArgs, grouped, output, say},
    fail::{Fail, Result},
};

/// Create, list and drop named snapshots
///
/// A named snapshot keeps the current state of the store readable: pass its name
/// with --snapshot to `get`, `scan`, `export` and `dump`. Creating a snapshot
/// copies nothing, but data that is changed or deleted later keeps its space until
/// the snapshot is dropped.
#[derive(clap::Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  frond snapshot create shop.db monday
  frond snapshot list shop.db
  frond scan shop.db orders --snapshot monday"
)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Create a named snapshot
    Create(Named),
    /// List the snapshots: name, last commit, time of creation
    List {
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Drop a snapshot, and free the space that only it needs
    Drop(Named),
}

#[derive(clap::Args)]
struct Named {
    #[command(flatten)]
    store: StoreArgs,
    /// Name of the snapshot
    name: String,
}

/// Runs `frond snapshot`.
pub fn run(args: Args) -> Result {
    match args.action {
        Action::Create(Named { store, name }) => {
            let db = store.open_to_write()?;
            let info = db.create_snapshot(&name)?;
            db.close()?;
            say(&format!("{name} shows everything through commit {}", grouped(info.seqno.0)))
        }
        Action::List { store } => {
            let db = store.open()?;
            let mut out = output();
            for info in db.snapshots() {
                let created = jiff::Timestamp::try_from(info.created);
                let created = created.map_err(|error| Fail::Error(error.to_string()))?;
                writeln!(out, "{}\t{}\t{created:.0}", info.name, info.seqno.0)?;
            }
            Ok(out.flush()?)
        }
        Action::Drop(Named { store, name }) => {
            let db = store.open_to_write()?;
            db.drop_snapshot(&name)?;
            Ok(db.close()?)
        }
    }
}
