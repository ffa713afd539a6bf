//! The table of bounds: for each its value, the source that enforces it, what happens there, and
//! its tiny value in test campaigns.
//!
//! Each row defines a constant. `Fixed` rows are bounds that no writer can reach, with the reason.
//!
//! Threads: constants.

use super::{At, Bound, Unit};

macro_rules! bounds {
    ($($(#[$doc:meta])* $name:ident: $what:literal, $default:expr, $unit:ident, $read_at:literal, $at:expr, tiny $tiny:expr;)*) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        enum Row { $($name),* }

        $($(#[$doc])* pub const $name: Bound = Bound {
            row: Row::$name as usize,
            name: stringify!($name),
            what: $what,
            default: $default as u64,
            unit: Unit::$unit,
            read_at: $read_at,
            at: $at,
            tiny: $tiny,
        };)*

        /// All bounds.
        pub const BOUNDS: &[Bound] = &[$($name),*];
    };
}

const NONE: u64 = 0;

bounds! {
    // What a caller passes.
    /// Keys. Keys of the catalog are shorter.
    KEY_BYTES: "key", 64 << 10, Bytes,
        "run/footer.rs", At::Refused("FRD-1002"), tiny 24;
    /// Values; a merge result that is longer is truncated. Records of the catalog are values, too,
    /// and shorter.
    VALUE_BYTES: "value", 1 << 30, Bytes,
        "blob/table.rs", At::Refused("FRD-1003"), tiny 600;
    /// Operands of a merge; two whose combination is longer are not combined.
    OPERAND_BYTES: "merge operand", 4 << 20, Bytes,
        "db/batch.rs", At::Refused("FRD-1003"), tiny 60;
    /// Names of prepared transactions.
    XID_BYTES: "name of a prepared transaction", 255, Bytes,
        "types.rs", At::Refused("FRD-1001"), tiny 5;
    /// Names of trees and snapshots.
    NAME_BYTES: "name of a tree or a snapshot", 512, Bytes,
        "catalog/record/mod.rs", At::Refused("FRD-1001"), tiny 9;
    /// Attributes of a tree.
    ATTRIBUTES_BYTES: "attributes of a tree", 1 << 20, Bytes,
        "catalog/record/mod.rs", At::Refused("FRD-1001"), tiny 50;
    /// Names of the program's own merge operators.
    OPERATOR_NAME_BYTES: "name of a merge operator", 128, Bytes,
        "catalog/record/fields.rs", At::Refused("FRD-1001"), tiny 6;
    /// Names of columns of tables.
    COLUMN_NAME_BYTES: "name of a column of a table", 512, Bytes,
        "catalog/table.rs", At::Refused("FRD-1001"), tiny 6;
    /// Parts of a layout of keys or values.
    LAYOUT_PARTS: "parts of a layout", 4096, Count,
        "layout/mod.rs", At::Refused("FRD-1001"), tiny 3;
    /// Changes of the layout of a tree's values.
    LAYOUT_CHANGES: "changes of a tree's layout", 255, Count,
        "layout/versions/mod.rs", At::Refused("FRD-1001"), tiny 2;
    /// All layouts that a tree has had, encoded.
    LAYOUT_HISTORY_BYTES: "layouts that a tree has had", 1 << 20, Bytes,
        "layout/versions/mod.rs", At::Refused("FRD-1001"), tiny 60;
    /// Parts of the maps from all older versions of a layout to the newest: tens of bytes of memory
    /// each.
    LAYOUT_MAPPED_PARTS: "changes of a tree's layout times its parts", 256 << 10, Count,
        "layout/versions/mod.rs", At::Refused("FRD-1001"), tiny 8;
    /// Total length of the defaults that mapping adds to a row.
    LAYOUT_DEFAULTS_BYTES: "defaults that a row gets by changes of its layout", 32 << 10, Bytes,
        "layout/versions/mod.rs", At::Refused("FRD-1001"), tiny 2;

    // What the log holds.
    /// A batch, a transaction in memory or a change of trees, as a log record.
    RECORD_BYTES: "record of a batch in the log", 64 << 20, Bytes,
        "wal/assembly.rs", At::Refused("FRD-1014"), tiny 2 << 10;
    /// A batch or a transaction in memory while it is being filled: offsets in its arena have 32
    /// bits.
    WRITE_SET_BYTES: "writes of a batch or a transaction in memory", 2u64 << 30, Bytes,
        "txn/write_set/mod.rs", At::Refused("FRD-1014"), tiny 3 << 10;
    /// A group of records that are written together. A longer record is split over several groups.
    GROUP_BYTES: "group of log records", 4 << 20, Bytes,
        "wal/group.rs", At::Cut, tiny 4 << 10;

    // What the store holds.
    /// Tree numbers: the next numbers above are that of all temporary trees, and the lineage of the
    /// store's own pages.
    TREES: "trees, including dropped ones", u32::MAX - 2, Count,
        "bounds/mod.rs", At::Refused("FRD-1018"), tiny 9;
    /// Numbers of named snapshots.
    SNAPSHOTS: "named snapshots, including dropped ones", u32::MAX - 1, Count,
        "bounds/mod.rs", At::Refused("FRD-1018"), tiny 4;
    /// A chain of clones, each of the one before: the root of the last one lists pins of all
    /// others, and 64 roots share a page of at most 64 MiB.
    CLONE_CHAIN: "clones in a chain, each a clone of the one before", 16 << 10, Count,
        "bounds/mod.rs", At::Refused("FRD-1018"), tiny 3;
    /// Pins of clones and of named snapshots: the directory of the space map lists each in up to 32
    /// bytes, and reserves room for all of them.
    LINEAGE_PINS: "pins of clones and of named snapshots", 64 << 10, Count,
        "store/map.rs", At::Refused("FRD-1018"), tiny 5;

    /// The directory of the space map, one page. Its entries bound the size of the file: see
    /// [`space_map`](crate::store).
    MAP_DIRECTORY_BYTES: "directory of the space map", 16 << 20, Bytes,
        "store/space_map.rs", At::Refused("FRD-1301"), tiny 54 << 10;
    /// The address range whose extents one page of the space map lists; the next page has the range
    /// above.
    ZONE_BYTES: "addresses in a page of the space map", 64 << 20, Bytes,
        "store/map.rs", At::Cut, tiny 64 << 10;

    // What pages hold.
    /// Pieces of a long value: a reference counts them in 12 bits. A longer value has longer
    /// pieces.
    BLOB_PIECES: "pieces of a long value", 4096, Count,
        "blob/table.rs", At::Cut, tiny 3;
    /// Blocks of a run: offsets have 32 bits, and a run is read and written as a whole.
    RUN_DATA_BYTES: "blocks of a run", 1 << 30, Bytes,
        "run/builder.rs", At::Cut, tiny 2 << 10;
    /// Index, filter and range deletes of a run.
    RUN_FOOTER_BYTES: "footer of a run", 64 << 20, Bytes,
        "run/reader.rs", At::Cut, tiny 10 << 10;
    /// Separators of a run in memory; a footer encodes them shorter.
    SEPARATORS_BYTES: "separators of a run", 128 << 20, Bytes,
        "run/footer.rs", At::Cut, tiny 256;

    /// Nodes: pivots, children and what waits for them.
    NODE_PAGE_BYTES: "page of a node", 64 << 20, Bytes,
        "tree/page.rs", At::Cut, tiny 8 << 10;

    // What nothing reaches.
    /// Levels of a tree.
    LEVELS: "levels of a tree", 40, Count,
        "tree/page.rs", At::Fixed("a node has two children or more: 2^40 leaves"), tiny NONE;
    /// Pages of zones of the space map.
    ZONE_PAGE_BYTES: "page of a zone of the space map", 1 << 20, Bytes,
        "store/space_map.rs",
        At::Fixed("a zone of 64 MiB has 16,384 extents at most, of at most 44 bytes in its page"), tiny NONE;
    /// Blocks, before the codec. A block ends at 16 KiB of rows; only a single row that is longer
    /// makes a longer block. Once the operands buffered for one key reach half of this bound, they
    /// are merged with what is below them.
    BLOCK_BYTES: "block before its codec", 64 << 20, Bytes,
        "block/codec.rs",
        At::Fixed("a row of a block has 64 KiB of key, and 64 KiB of value or 32 MiB of operands"), tiny NONE;
    /// Rows of a block that has more than one.
    BLOCK_ROWS_BYTES: "rows of a block that has several", 1 << 20, Bytes,
        "block/transposed/mod.rs", At::Fixed("a block ends with the row that makes it 16 KiB long"), tiny NONE;
    /// Pages that links point to: roots, the space map, nodes. Kinds that grow have bounds of their
    /// own, none above this one.
    PAGE_BYTES: "page of any kind", 64 << 20, Bytes,
        "store/page.rs", At::Fixed("each kind of page has a bound of its own, not above this"), tiny NONE;
    /// Pages of 4 KiB in the extent of a long value.
    BLOB_PAGES: "pages of a long value", (1 << 20) - 1, Count,
        "blob/mod.rs", At::Fixed("a value has at most 1 GiB, its table 64 KiB"), tiny NONE;
    /// Number of the 4 KiB page at which a long value begins.
    BLOB_PAGE_NUMBER: "page that a long value begins at", 1u64 << 40, Count,
        "blob/write.rs", At::Fixed("the directory of the space map ends the file long before"), tiny NONE;
    /// Segments of the log.
    SEGMENT_BYTES: "segment of the log", 1 << 30, Bytes,
        "wal/segment.rs",
        At::Fixed("a segment has 16 MiB, or what its options say; one that would be longer is refused at opening"), tiny NONE;
    /// Addresses.
    FILE_BYTES: "store", 1u64 << 56, Bytes,
        "store/superblock.rs", At::Fixed("addresses have 56 bits"), tiny NONE;
}
