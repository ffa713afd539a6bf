//! Frond: an ordered, transactional, always-compressed storage engine for data larger than memory
//! and writes heavier than a B-tree bears.

#![deny(missing_docs)]

pub mod block;
pub mod cache;
pub mod catalog;
#[allow(dead_code)] // each room takes what it needs
mod coding;
mod error;
pub mod io;
mod layout;
pub mod memtable;
mod message;
pub mod page;
#[doc(hidden)]
pub mod plant;
pub mod run;
pub mod store;
#[allow(unused_imports)] // a facade: each room takes what it needs
mod sync;
pub mod tuple;
mod types;
pub mod wal;

pub use error::{Error, ErrorKind, Place, Result};
pub use layout::{End, Flaw, Hint, LAYOUT_BYTES_MAX, LAYOUT_PARTS_MAX, Layout, Part};
pub use message::{Kind, Message, Tag};
pub use types::{
    Durability, KEY_BYTES_MAX, Lineage, Lsn, Publish, Seqno, SizeClass, StoreId, TreeId,
    VALUE_BYTES_MAX, VALUE_INLINE_BYTES_MAX,
};
