/* The handler: one cursor over one table in one statement. SPDX-License-Identifier: GPL-2.0-only */
#ifndef HA_FROND_H
#define HA_FROND_H

#include "cursor.h"
#include "rows_ahead.h"
#include "session.h"
#include "share.h"
#include "table_load.h"

namespace frond {

class Index_change;
class Table_check;

/* Whether the statement may copy a table into a new one. */
bool is_copying_alter(THD *thd);

/* Where an entry's key and value are in a string that may still grow. */
struct Span {
    size_t key, value, end;
};

}  // namespace frond

class ha_frond final : public handler {
public:
    ha_frond(handlerton *hton, TABLE_SHARE *table);
    ~ha_frond() override;

    /* Capabilities of the engine. */
    Table_flags table_flags() const override;
    ulong index_flags(uint index, uint part, bool all_parts) const override;
    uint max_supported_keys() const override { return MAX_KEY; }
    uint max_supported_key_length() const override { return 3500; }
    uint max_supported_key_part_length() const override { return 3072; }
    uint max_supported_key_parts() const override { return MAX_REF_PARTS; }
    const char *index_type(uint) override { return "BTREE"; }
    enum row_type get_row_type() const override { return ROW_TYPE_DYNAMIC; }
    uint lock_count() const override { return 0; }
    uint8 table_cache_type() override { return HA_CACHE_TBL_NOCACHE; }

    /* Tables (ddl.cc). */
    int create(const char *name, TABLE *form, HA_CREATE_INFO *info) override;
    int delete_table(const char *name) override;
    int rename_table(const char *from, const char *to) override;
    int truncate() override;
    void update_create_info(HA_CREATE_INFO *info) override;
    /* ALTER TABLE without a copy (alter.cc). */
    bool can_convert_nocopy(const Field &field, const Column_definition &type) const override;
    Compare_keys compare_key_parts(const Field &field, const Column_definition &type, const KEY_PART_INFO &was,
                                   const KEY_PART_INFO &is) const override;
    enum_alter_inplace_result check_if_supported_inplace_alter(TABLE *altered, Alter_inplace_info *info) override;
    bool check_if_incompatible_data(HA_CREATE_INFO *info, uint changes) override;
    bool prepare_inplace_alter_table(TABLE *altered, Alter_inplace_info *info) override;
    bool inplace_alter_table(TABLE *altered, Alter_inplace_info *info) override;
    bool commit_inplace_alter_table(TABLE *altered, Alter_inplace_info *info, bool commit) override;
    int analyze(THD *thd, HA_CHECK_OPT *options) override;
    int optimize(THD *, HA_CHECK_OPT *) override { return HA_ADMIN_TRY_ALTER; }
    int check(THD *thd, HA_CHECK_OPT *options) override; /* check.cc */

    /* Statements (ha_frond.cc). */
    int open(const char *name, int mode, uint test_if_locked) override;
    int close() override;
    THR_LOCK_DATA **store_lock(THD *thd, THR_LOCK_DATA **to, enum thr_lock_type type) override;
    int external_lock(THD *thd, int type) override;
    int start_stmt(THD *thd, thr_lock_type type) override;
    int reset() override;
    int extra(enum ha_extra_function operation) override;
    void init_table_handle_for_HANDLER() override;
    int info(uint flag) override;
    double scan_time() override;
    double read_time(uint index, uint ranges, ha_rows rows) override;
    ha_rows estimate_rows_upper_bound() override { return stats.records * 2 + 1000; }
    ha_rows records() override;
    double key_scan_time(uint index) override { return keyread_time(index, 1, stats.records); }
    ha_rows records_in_range(uint index, const key_range *from, const key_range *to, page_range *pages) override;

    /* Writes (write.cc). */
    int write_row(const uchar *record) override;
    int update_row(const uchar *old_record, const uchar *new_record) override;
    int delete_row(const uchar *record) override;
    void start_bulk_insert(ha_rows rows, uint flags) override;
    int end_bulk_insert() override;
    void get_auto_increment(ulonglong offset, ulonglong increment, ulonglong wanted, ulonglong *first,
                            ulonglong *reserved) override;

    /* Reads (read.cc). */
    int rnd_init(bool scan) override;
    int rnd_end() override;
    int rnd_next(uchar *record) override;
    int rnd_pos(uchar *record, uchar *position) override;
    void position(const uchar *record) override;
    int cmp_ref(const uchar *a, const uchar *b) override;
    int index_init(uint index, bool sorted) override;
    int index_end() override;
    int index_read_map(uchar *record, const uchar *key, key_part_map parts, enum ha_rkey_function flag) override;
    int index_next(uchar *record) override;
    int index_prev(uchar *record) override;
    int index_first(uchar *record) override;
    int index_last(uchar *record) override;
    int index_next_same(uchar *record, const uchar *key, uint length) override;
    Item *idx_cond_push(uint index, Item *condition) override;
    bool rowid_filter_push(Rowid_filter *filter) override;
    handler *clone(const char *name, MEM_ROOT *mem_root) override;
    int multi_range_read_init(RANGE_SEQ_IF *sequence, void *parameter, uint ranges, uint mode,
                              HANDLER_BUFFER *buffer) override;
    int multi_range_read_next(range_id_t *range) override;
    ha_rows multi_range_read_info_const(uint index, RANGE_SEQ_IF *sequence, void *parameter, uint ranges,
                                        uint *buffer_bytes, uint *mode, Cost_estimate *cost) override;
    ha_rows multi_range_read_info(uint index, uint ranges, uint keys, uint parts, uint *buffer_bytes, uint *mode,
                                  Cost_estimate *cost) override;
    int multi_range_read_explain_info(uint mode, char *text, size_t size) override;
    void unlock_row() override;
    bool was_semi_consistent_read() override { return is_semi_consistent_; }
    void try_semi_consistent_read(bool yes) override { tries_semi_consistent_ = yes; }

private:
    friend class frond::Table_check;
    friend class frond::Index_change;

    using Index = frond::Plan::Index;

    const frond::Plan &plan() const { return share_->plan; }
    int begin()
    {
        if (row_lock_ != FROND_NO_LOCK)
            session_->set_last_locker(this);
        return copy_ != nullptr ? 0 : session_->begin_statement();
    }
    bool can_reinterpret(const Field &field, CHARSET_INFO *charset) const;
    int lock_for_copy();
    void copy_primary(uchar *to, const uchar *record) const;
    bool is_covered(const Index &index);
    bool has_rowid_filter() const;
    bool is_plain_read() const;
    bool reads_ranges_ahead() const;
    int fill_ranges();
    size_t rows_together() const;
    int read_entries_ahead(const Index &index);
    void leave_stale_rows();
    void leave_rows_ahead();
    static range_seq_t begin_ranges(void *handler, uint ranges, uint mode);
    static bool next_range(range_seq_t handler, KEY_MULTI_RANGE *range);
    void restrict_ranges(uint *mode) const;
    /*
      The key of a record in the row tree: its primary key or, without one, that of the row last
      read.
    */
    void append_row_key(const uchar *record, std::string *out) const;
    /* Appends the key and the value of a record in the row tree. */
    frond::Span append_row(const uchar *record, std::string_view row_key, std::string *bytes) const;
    /*
      Appends the key and the value of a record in an index; the key is unique if the index is and
      no part of it is NULL.
    */
    static frond::Span append_entry(const Index &index, const uchar *record, std::string_view row_key, std::string *bytes,
                                    bool *is_unique);
    int guard(const Index &index, const uchar *key, std::string *values);
    int duplicate(const frond_conflict &conflict, const uchar *record);
    /* The tree of an index of a temporary table; for MAX_KEY, that of its rows. */
    const frond_temporary *temporary_tree(uint index) const
    {
        return (index == MAX_KEY ? share_->row_tree() : share_->tree(index)).temporary();
    }
    int begin_copy();
    int end_copy(bool keeps);
    /* A copying ALTER by bulk loads (load.cc). */
    bool is_to_load() const;
    int begin_load();
    int load_entries();
    int end_load(bool keeps);
    int report_duplicate(int code);
    frond_txn *writer() const { return copy_ != nullptr ? copy_ : session_->txn(); }
    int insert_entries(frond_conflict *conflict);
    int change_entries(frond_conflict *conflict);
    int delete_entries();
    /*
      The one row of a SEQUENCE is read and written at its latest version, whatever happens to the
      transaction.
    */
    bool is_sequence() const { return table_share->table_type == TABLE_TYPE_SEQUENCE; }
    template <typename Write> int write_alone(Write write);
    /*
      Sets the row lock. Nothing of a temporary table is locked, and the server itself locks a
      SEQUENCE.
    */
    void set_row_lock(int lock)
    {
        row_lock_ = statement_row_lock_ = share_->is_temporary() || is_sequence() ? FROND_NO_LOCK : lock;
    }
    void raise_auto_increment();
    /* How a session keeps others from locking the numbers while it takes some. */
    enum class Numbers { FREE, COUNTED, SHARED };
    int begin_numbers(Numbers *numbers);
    void end_numbers(Numbers numbers);
    bool take_numbers(ulonglong offset, ulonglong increment, ulonglong wanted, ulonglong *first);

    /* A set of columns, and the parts of rows that hold them; no parts: all of them. */
    struct Wanted {
        ~Wanted() { frond_projection_free(handle); }
        bool is_of(const MY_BITMAP *wanted) const;
        std::vector<my_bitmap_map> columns;
        frond::Projection projection;
        bool has_key_columns = true; /* Some are in the primary key. */
        bool has_blobs = true;
        std::vector<bool> is_in_index; /* For each index: whether its entries have all of them. */
        frond_projection *handle = nullptr;
        uint64_t number = 0;
    };

    /* How much of the index the cursor's range covers. */
    enum class Range { Whole, Prefix, Part };
    /*
      Where a scan of an index is: on a row, where a search found none, before all rows or after
      them.
    */
    enum class At { Row, Search, Begin, End };

    bool has_other_primary_than_exchanged() const;
    bool is_being_planned() const;
    void pass_statistics();
    frond::Cursor::How how(const frond::Tree &tree);
    void choose_projection();
    void make_projection();
    bool has_all(const Index &index, const MY_BITMAP *columns) const;
    const frond_projection *projection() const { return reads_ == nullptr ? nullptr : reads_->handle; }
    uint64_t projection_number() const { return reads_ == nullptr ? 0 : reads_->number; }
    int put_cursor(frond::Tree tree, std::string_view from, std::string_view to, bool forward);
    int read_point(const Index &index, uchar *record);
    int read_by_entry(const Index &index, std::string_view key, std::string_view value, uchar *record);
    int read_edge(uchar *record, std::string_view from, std::string_view to, bool forward);
    int step(uchar *record, bool forward, std::string_view prefix = {});
    int step_index(uchar *record, bool forward);
    int step_from_no_row(uchar *record, bool forward);
    int end_at(int error, bool forward);
    int not_found(std::string_view where);
    void set_row_key(std::string_view key);
    int read_current(uchar *record);
    bool filters_entries(const uchar *record) const;
    int check_entry();
    int fetch_row(std::string_view row_key, bool with_last, uchar *record);
    int decode_row(std::string_view row_key, std::string_view value, bool is_whole, uchar *record);
    bool decode_entry(const Index &index, std::string_view key, std::string_view value, uchar *record,
                      const MY_BITMAP *wanted, std::string *row_key);
    bool decode_row_key(std::string_view row_key, const MY_BITMAP *wanted, uchar *record);

    frond::Share *share_ = nullptr;
    uint64_t statistics_version_ = 0; /* Of the statistics that the server was given. */
    frond::Session *session_ = nullptr;
    frond::Cursor cursor_;
    DsMrr_impl mrr_;
    frond::Ranges_ahead ranges_ahead_;
    frond::Rows_ahead rows_ahead_;
    size_t entries_wanted_ = 1; /* Rows to read together for entries of an index; 0: read no more rows ahead. */
    int ranges_error_ = 0;      /* The HA_ERR_* of reading ranges ahead. */

    /*
      Transaction for writes to a temporary table, or to the row of a SEQUENCE, that no rollback
      must undo: ALTER and CREATE ... SELECT (the old table is gone then).
    */
    frond_txn *copy_ = nullptr;
    /*
      For the new table of a copying ALTER, which no other session sees and whose rows go into loads
      from the first one on: whether the server has started a copy, and whether it has started a
      bulk insert. Only with the latter does it also handle errors at the end of the copy.
    */
    bool is_copied_into_ = false, is_bulk_insert_ = false;
    std::unique_ptr<frond::Table_load> load_;
    int row_lock_ = FROND_NO_LOCK;
    /* As the server has locked the table; a plain SELECT in a function locks no rows for a while. */
    int statement_row_lock_ = FROND_NO_LOCK;
    /* The row lock that was set before a copy of the table took its tree lock. */
    std::optional<int> lock_before_copy_;
    bool skips_locked_ = false;
    bool tries_semi_consistent_ = false;
    /*
      The current row was read without a lock, because another transaction holds it; the next read
      locks it and reads it again.
    */
    bool is_semi_consistent_ = false;
    bool conflicts_are_written_ = false; /* REPLACE, ON DUPLICATE KEY UPDATE: lock conflicting rows for writing. */

    frond::Tree scanned_; /* The tree of the scan. */
    Range range_ = Range::Whole;
    At at_ = At::Row;
    bool ascends_ = true;                 /* Direction in which the range is read. */
    bool is_point_ = false;               /* The last read was for one key, `search_`, and left no cursor. */
    std::string search_;                  /* The encoded key or prefix of the last index_read. */
    std::string row_key_;                 /* Key of the current row. */
    uchar *without_key_ = nullptr;        /* The record, if columns of the primary key were left out of it. */
    /* Sets of columns that statements have read, and the current one; null: whole rows. */
    std::vector<std::unique_ptr<Wanted>> wanted_;
    const Wanted *reads_ = nullptr;
    uint64_t wanted_made_ = 0;
    frond_buffer entry_buffer_ = {nullptr, 0, 0};
    frond_buffer row_buffer_ = {nullptr, 0, 0};
    frond_buffer conflict_buffer_ = {nullptr, 0, 0};
    std::string bytes_;                   /* Keys and values of the row being written. */
    std::vector<frond_entry> entries_;
    std::vector<frond_change> changes_;
    std::vector<uint> entry_index_;
    std::string scratch_record_;
    int numbers_error_ = 0; /* Why there was no number for AUTO_INCREMENT. */
    uint64_t next_row_id_ = 0, row_ids_end_ = 0;
};

#endif
