//! Shared setup of scenarios through the public API: a store on real files with tiny sizes, so that
//! a few thousand keys make its trees several levels deep.

use frond::{
    Durability, Options,
    internals::{Limits, Shape, Tuning},
};

/// Tiny sizes of everything.
pub fn tiny() -> Tuning {
    Tuning {
        shape: Some(Shape {
            leaf_bytes: 2048,
            fanout_max: 4,
            push_bytes: 1024,
            block_bytes: 512,
            run_bytes: 4096,
            tiers_max: 4,
            tiers_max_bottom: 3,
            ..Shape::default()
        }),
        limits: Some(Limits {
            memtable_bytes: 16 << 10,
            memtable_log_bytes: 1 << 20,
            unwritten_bytes: 256 << 10,
            footers_bytes: 8 << 10,
            checkpoint_log_bytes: 1 << 20,
            checkpoint_millis: 50,
            mini_run_entries: 100,
            own_writes_bytes: 16 << 10,
        }),
        segment_bytes: Some(64 << 10),
        group_bytes: Some(16 << 10),
    }
}

/// Options for a tiny store on real files, without syncs.
pub fn options() -> Options {
    Options::new().cache_size(8 << 20).durability(Durability::Lazy).tuning(tiny())
}
