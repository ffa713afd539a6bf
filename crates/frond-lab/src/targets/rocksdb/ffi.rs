//! The part of RocksDB's C interface that the lab uses, declared by hand from `rocksdb/c.h` 7.8.
//!
//! Conventions of that header: functions that can fail take a trailing `char** errptr`, which must
//! point at a null pointer and receives a malloc'ed message; slices are pointer and length.

use libc::{c_char, c_double, c_int, c_uchar, size_t};

macro_rules! opaque {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        $($(#[$doc])* #[repr(C)] pub struct $name { _private: [u8; 0] })+
    };
}

/// `rocksdb_disable`: no counters at all.
pub const PERF_LEVEL_DISABLE: c_int = 1;

opaque! {
    /// `rocksdb_t`
    Db,
    /// `rocksdb_column_family_handle_t`
    Family,
    /// `rocksdb_options_t`
    Options,
    /// `rocksdb_block_based_table_options_t`
    TableOptions,
    /// `rocksdb_cache_t`
    Cache,
    /// `rocksdb_filterpolicy_t`
    Filter,
    /// `rocksdb_writeoptions_t`
    WriteOptions,
    /// `rocksdb_readoptions_t`
    ReadOptions,
    /// `rocksdb_flushoptions_t`
    FlushOptions,
    /// `rocksdb_writebatch_t`
    WriteBatch,
    /// `rocksdb_iterator_t`
    Iter,
    /// `rocksdb_pinnableslice_t`
    Pinned,
    /// `rocksdb_transactiondb_t`
    TransactionDb,
    /// `rocksdb_transactiondb_options_t`
    TransactionDbOptions,
    /// `rocksdb_transaction_t`
    Transaction,
    /// `rocksdb_transaction_options_t`
    TransactionOptions,
    /// `rocksdb_snapshot_t`
    Snapshot,
    /// `rocksdb_envoptions_t`
    FileOptions,
    /// `rocksdb_sstfilewriter_t`
    TableWriter,
    /// `rocksdb_ingestexternalfileoptions_t`
    IngestOptions,
}

#[link(name = "rocksdb")]
unsafe extern "C" {
    pub fn rocksdb_options_create() -> *mut Options;
    pub fn rocksdb_options_destroy(options: *mut Options);
    pub fn rocksdb_options_set_create_if_missing(options: *mut Options, on: c_uchar);
    pub fn rocksdb_options_set_create_missing_column_families(options: *mut Options, on: c_uchar);
    pub fn rocksdb_options_set_db_write_buffer_size(options: *mut Options, bytes: size_t);
    pub fn rocksdb_options_set_write_buffer_size(options: *mut Options, bytes: size_t);
    pub fn rocksdb_options_set_max_write_buffer_number(options: *mut Options, n: c_int);
    pub fn rocksdb_options_set_max_background_jobs(options: *mut Options, n: c_int);
    pub fn rocksdb_options_set_max_open_files(options: *mut Options, n: c_int);
    pub fn rocksdb_options_set_compression(options: *mut Options, kind: c_int);
    pub fn rocksdb_options_set_bottommost_compression(options: *mut Options, kind: c_int);
    pub fn rocksdb_options_set_level_compaction_dynamic_level_bytes(
        options: *mut Options,
        on: c_uchar,
    );
    pub fn rocksdb_options_set_max_bytes_for_level_base(options: *mut Options, bytes: u64);
    pub fn rocksdb_options_set_target_file_size_base(options: *mut Options, bytes: u64);
    pub fn rocksdb_options_set_use_direct_reads(options: *mut Options, on: c_uchar);
    pub fn rocksdb_options_set_use_direct_io_for_flush_and_compaction(
        options: *mut Options,
        on: c_uchar,
    );
    pub fn rocksdb_options_compaction_readahead_size(options: *mut Options, bytes: size_t);
    pub fn rocksdb_options_set_wal_bytes_per_sync(options: *mut Options, bytes: u64);
    pub fn rocksdb_options_set_manual_wal_flush(options: *mut Options, on: c_uchar);
    pub fn rocksdb_options_set_block_based_table_factory(
        options: *mut Options,
        table: *mut TableOptions,
    );

    pub fn rocksdb_block_based_options_create() -> *mut TableOptions;
    pub fn rocksdb_block_based_options_destroy(options: *mut TableOptions);
    pub fn rocksdb_block_based_options_set_block_size(options: *mut TableOptions, bytes: size_t);
    pub fn rocksdb_block_based_options_set_block_cache(
        options: *mut TableOptions,
        cache: *mut Cache,
    );
    pub fn rocksdb_block_based_options_set_filter_policy(
        options: *mut TableOptions,
        filter: *mut Filter,
    );
    pub fn rocksdb_block_based_options_set_format_version(options: *mut TableOptions, n: c_int);
    pub fn rocksdb_block_based_options_set_cache_index_and_filter_blocks(
        options: *mut TableOptions,
        on: c_uchar,
    );
    pub fn rocksdb_block_based_options_set_pin_l0_filter_and_index_blocks_in_cache(
        options: *mut TableOptions,
        on: c_uchar,
    );
    pub fn rocksdb_cache_create_lru(bytes: size_t) -> *mut Cache;
    pub fn rocksdb_cache_destroy(cache: *mut Cache);
    pub fn rocksdb_cache_get_usage(cache: *mut Cache) -> size_t;
    pub fn rocksdb_filterpolicy_create_bloom_full(bits_per_key: c_double) -> *mut Filter;

    pub fn rocksdb_open_column_families(
        options: *const Options,
        path: *const c_char,
        families: c_int,
        names: *const *const c_char,
        family_options: *const *const Options,
        handles: *mut *mut Family,
        error: *mut *mut c_char,
    ) -> *mut Db;
    pub fn rocksdb_column_family_handle_destroy(family: *mut Family);
    pub fn rocksdb_close(db: *mut Db);
    pub fn rocksdb_set_perf_level(level: c_int);
    pub fn rocksdb_write(
        db: *mut Db,
        options: *const WriteOptions,
        batch: *mut WriteBatch,
        error: *mut *mut c_char,
    );
    pub fn rocksdb_flush_wal(db: *mut Db, sync: c_uchar, error: *mut *mut c_char);
    pub fn rocksdb_flush_cf(
        db: *mut Db,
        options: *const FlushOptions,
        family: *mut Family,
        error: *mut *mut c_char,
    );
    pub fn rocksdb_compact_range_cf(
        db: *mut Db,
        family: *mut Family,
        start: *const c_char,
        start_len: size_t,
        limit: *const c_char,
        limit_len: size_t,
    );
    pub fn rocksdb_property_value(db: *mut Db, name: *const c_char) -> *mut c_char;
    pub fn rocksdb_property_int_cf(
        db: *mut Db,
        family: *mut Family,
        name: *const c_char,
        value: *mut u64,
    ) -> c_int;
    pub fn rocksdb_free(pointer: *mut libc::c_void);

    pub fn rocksdb_writeoptions_create() -> *mut WriteOptions;
    pub fn rocksdb_writeoptions_destroy(options: *mut WriteOptions);
    pub fn rocksdb_writeoptions_set_sync(options: *mut WriteOptions, on: c_uchar);
    pub fn rocksdb_readoptions_create() -> *mut ReadOptions;
    pub fn rocksdb_readoptions_destroy(options: *mut ReadOptions);
    pub fn rocksdb_flushoptions_create() -> *mut FlushOptions;
    pub fn rocksdb_flushoptions_destroy(options: *mut FlushOptions);
    pub fn rocksdb_flushoptions_set_wait(options: *mut FlushOptions, on: c_uchar);

    pub fn rocksdb_writebatch_create() -> *mut WriteBatch;
    pub fn rocksdb_writebatch_destroy(batch: *mut WriteBatch);
    pub fn rocksdb_writebatch_clear(batch: *mut WriteBatch);
    pub fn rocksdb_writebatch_put_cf(
        batch: *mut WriteBatch,
        family: *mut Family,
        key: *const c_char,
        key_len: size_t,
        value: *const c_char,
        value_len: size_t,
    );
    pub fn rocksdb_writebatch_delete_cf(
        batch: *mut WriteBatch,
        family: *mut Family,
        key: *const c_char,
        key_len: size_t,
    );

    pub fn rocksdb_writebatch_delete_range_cf(
        batch: *mut WriteBatch,
        family: *mut Family,
        from: *const c_char,
        from_len: size_t,
        to: *const c_char,
        to_len: size_t,
    );

    pub fn rocksdb_envoptions_create() -> *mut FileOptions;
    pub fn rocksdb_envoptions_destroy(options: *mut FileOptions);
    pub fn rocksdb_sstfilewriter_create(
        file: *const FileOptions,
        options: *const Options,
    ) -> *mut TableWriter;
    pub fn rocksdb_sstfilewriter_open(
        writer: *mut TableWriter,
        path: *const c_char,
        error: *mut *mut c_char,
    );
    pub fn rocksdb_sstfilewriter_put(
        writer: *mut TableWriter,
        key: *const c_char,
        key_len: size_t,
        value: *const c_char,
        value_len: size_t,
        error: *mut *mut c_char,
    );
    pub fn rocksdb_sstfilewriter_file_size(writer: *mut TableWriter, bytes: *mut u64);
    pub fn rocksdb_sstfilewriter_finish(writer: *mut TableWriter, error: *mut *mut c_char);
    pub fn rocksdb_sstfilewriter_destroy(writer: *mut TableWriter);
    pub fn rocksdb_ingestexternalfileoptions_create() -> *mut IngestOptions;
    pub fn rocksdb_ingestexternalfileoptions_set_move_files(
        options: *mut IngestOptions,
        on: c_uchar,
    );
    pub fn rocksdb_ingestexternalfileoptions_destroy(options: *mut IngestOptions);
    pub fn rocksdb_ingest_external_file_cf(
        db: *mut Db,
        family: *mut Family,
        paths: *const *const c_char,
        count: size_t,
        options: *const IngestOptions,
        error: *mut *mut c_char,
    );

    pub fn rocksdb_get_pinned_cf(
        db: *mut Db,
        options: *const ReadOptions,
        family: *mut Family,
        key: *const c_char,
        key_len: size_t,
        error: *mut *mut c_char,
    ) -> *mut Pinned;
    pub fn rocksdb_pinnableslice_value(slice: *const Pinned, len: *mut size_t) -> *const c_char;
    pub fn rocksdb_pinnableslice_destroy(slice: *mut Pinned);

    pub fn rocksdb_create_iterator_cf(
        db: *mut Db,
        options: *const ReadOptions,
        family: *mut Family,
    ) -> *mut Iter;
    pub fn rocksdb_iter_destroy(iter: *mut Iter);
    pub fn rocksdb_iter_valid(iter: *const Iter) -> c_uchar;
    pub fn rocksdb_iter_seek_to_first(iter: *mut Iter);
    pub fn rocksdb_iter_seek_to_last(iter: *mut Iter);
    pub fn rocksdb_iter_seek(iter: *mut Iter, key: *const c_char, len: size_t);
    pub fn rocksdb_iter_next(iter: *mut Iter);
    pub fn rocksdb_iter_prev(iter: *mut Iter);
    pub fn rocksdb_iter_key(iter: *const Iter, len: *mut size_t) -> *const c_char;
    pub fn rocksdb_iter_value(iter: *const Iter, len: *mut size_t) -> *const c_char;
    pub fn rocksdb_iter_get_error(iter: *const Iter, error: *mut *mut c_char);

    pub fn rocksdb_readoptions_set_snapshot(options: *mut ReadOptions, snapshot: *const Snapshot);
    pub fn rocksdb_readoptions_set_iterate_upper_bound(
        options: *mut ReadOptions,
        key: *const c_char,
        key_len: size_t,
    );

    pub fn rocksdb_transactiondb_options_create() -> *mut TransactionDbOptions;
    pub fn rocksdb_transactiondb_options_destroy(options: *mut TransactionDbOptions);
    pub fn rocksdb_transactiondb_options_set_transaction_lock_timeout(
        options: *mut TransactionDbOptions,
        ms: i64,
    );
    pub fn rocksdb_transactiondb_options_set_default_lock_timeout(
        options: *mut TransactionDbOptions,
        ms: i64,
    );
    pub fn rocksdb_transactiondb_open_column_families(
        options: *const Options,
        with: *const TransactionDbOptions,
        path: *const c_char,
        families: c_int,
        names: *const *const c_char,
        family_options: *const *const Options,
        handles: *mut *mut Family,
        error: *mut *mut c_char,
    ) -> *mut TransactionDb;
    pub fn rocksdb_transactiondb_close(db: *mut TransactionDb);
    pub fn rocksdb_transactiondb_flush_wal(
        db: *mut TransactionDb,
        sync: c_uchar,
        error: *mut *mut c_char,
    );
    pub fn rocksdb_transactiondb_flush_cf(
        db: *mut TransactionDb,
        options: *const FlushOptions,
        family: *mut Family,
        error: *mut *mut c_char,
    );
    pub fn rocksdb_transactiondb_property_value(
        db: *mut TransactionDb,
        name: *const c_char,
    ) -> *mut c_char;
    pub fn rocksdb_transactiondb_write(
        db: *mut TransactionDb,
        options: *const WriteOptions,
        batch: *mut WriteBatch,
        error: *mut *mut c_char,
    );
    pub fn rocksdb_transactiondb_get_pinned_cf(
        db: *mut TransactionDb,
        options: *const ReadOptions,
        family: *mut Family,
        key: *const c_char,
        key_len: size_t,
        error: *mut *mut c_char,
    ) -> *mut Pinned;
    pub fn rocksdb_transactiondb_create_iterator_cf(
        db: *mut TransactionDb,
        options: *const ReadOptions,
        family: *mut Family,
    ) -> *mut Iter;
    pub fn rocksdb_create_snapshot(db: *mut Db) -> *const Snapshot;
    pub fn rocksdb_release_snapshot(db: *mut Db, snapshot: *const Snapshot);
    pub fn rocksdb_transactiondb_create_snapshot(db: *mut TransactionDb) -> *const Snapshot;
    pub fn rocksdb_transactiondb_release_snapshot(
        db: *mut TransactionDb,
        snapshot: *const Snapshot,
    );

    pub fn rocksdb_transaction_options_create() -> *mut TransactionOptions;
    pub fn rocksdb_transaction_options_set_deadlock_detect(
        options: *mut TransactionOptions,
        on: c_uchar,
    );
    pub fn rocksdb_transaction_options_destroy(options: *mut TransactionOptions);
    pub fn rocksdb_transaction_begin(
        db: *mut TransactionDb,
        write: *const WriteOptions,
        options: *const TransactionOptions,
        used: *mut Transaction,
    ) -> *mut Transaction;
    pub fn rocksdb_transaction_commit(txn: *mut Transaction, error: *mut *mut c_char);
    pub fn rocksdb_transaction_rollback(txn: *mut Transaction, error: *mut *mut c_char);
    pub fn rocksdb_transaction_destroy(txn: *mut Transaction);
    pub fn rocksdb_transaction_get_pinned_cf(
        txn: *mut Transaction,
        options: *const ReadOptions,
        family: *mut Family,
        key: *const c_char,
        key_len: size_t,
        error: *mut *mut c_char,
    ) -> *mut Pinned;
    pub fn rocksdb_transaction_get_pinned_for_update_cf(
        txn: *mut Transaction,
        options: *const ReadOptions,
        family: *mut Family,
        key: *const c_char,
        key_len: size_t,
        exclusive: c_uchar,
        error: *mut *mut c_char,
    ) -> *mut Pinned;
    pub fn rocksdb_transaction_put_cf(
        txn: *mut Transaction,
        family: *mut Family,
        key: *const c_char,
        key_len: size_t,
        value: *const c_char,
        value_len: size_t,
        error: *mut *mut c_char,
    );
    pub fn rocksdb_transaction_delete_cf(
        txn: *mut Transaction,
        family: *mut Family,
        key: *const c_char,
        key_len: size_t,
        error: *mut *mut c_char,
    );
    pub fn rocksdb_transaction_create_iterator_cf(
        txn: *mut Transaction,
        options: *const ReadOptions,
        family: *mut Family,
    ) -> *mut Iter;
}
