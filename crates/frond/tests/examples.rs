//! Tests the examples by running each twice in one directory: everything that they show also works
//! the second time.

/// The source of an example, as a module.
macro_rules! examples {
    ($($name:ident $path:literal)+) => {
        $(#[allow(dead_code)] // its `main`
        #[path = $path]
        mod $name;)+

        $(#[test]
        fn $name() {
            let dir = tempfile::tempdir().expect("a directory");
            for run in 1..=2 {
                $name::run(&dir.path().join("example")).unwrap_or_else(|error| panic!("run {run}: {error:?}"));
            }
        })+
    };
}

examples! {
    quick_start "../examples/quick_start.rs"
    time_series "../examples/time_series.rs"
    queue "../examples/queue.rs"
    secondary_indexes "../examples/secondary_indexes.rs"
    bank_transfer "../examples/bank_transfer.rs"
    backup "../examples/backup.rs"
}
