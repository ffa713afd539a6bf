/* The handler apart from reads and writes: opening, locks, statistics. SPDX-License-Identifier: GPL-2.0-only */
#include "ha_frond.h"

#include "errors.h"
#include "store.h"

#include "sql_select.h"

using namespace frond;

namespace {

constexpr size_t BUFFER_KEPT_BYTES = 1 << 20;
constexpr uint BLOCK_BYTES = 16384;

void trim(frond_buffer *buffer)
{
    if (buffer->capacity > BUFFER_KEPT_BYTES)
        frond_buffer_free(buffer);
}

}  // namespace

ha_frond::ha_frond(handlerton *hton, TABLE_SHARE *table) : handler(hton, table)
{
    ref_length = ROW_ID_BYTES;
}

ha_frond::~ha_frond()
{
    frond_buffer_free(&entry_buffer_);
    frond_buffer_free(&row_buffer_);
    frond_buffer_free(&conflict_buffer_);
}

handler::Table_flags ha_frond::table_flags() const
{
    Table_flags flags = HA_REC_NOT_IN_SEQ | HA_NULL_IN_KEY | HA_CAN_VIRTUAL_COLUMNS | HA_CAN_INDEX_BLOBS |
                        HA_CAN_SQL_HANDLER | HA_REQUIRES_KEY_COLUMNS_FOR_DELETE | HA_PRIMARY_KEY_IN_READ_INDEX |
                        HA_BINLOG_ROW_CAPABLE | HA_CAN_GEOMETRY | HA_PARTIAL_COLUMN_READ | HA_TABLE_SCAN_ON_INDEX |
                        HA_CAN_ONLINE_BACKUPS | HA_CONCURRENT_OPTIMIZE | HA_ONLINE_ANALYZE | HA_CAN_SKIP_LOCKED |
                        HA_DUPLICATE_POS | HA_CRASH_SAFE | HA_HAS_RECORDS | HA_CAN_TABLES_WITHOUT_ROLLBACK;
    if (table_share != nullptr && table_share->primary_key != MAX_KEY)
        flags |= HA_PRIMARY_KEY_REQUIRED_FOR_POSITION;
    /*
      A replica that runs statements again needs them to have locked what they have read, including
      gaps. Rows are logged wherever the server has the choice (MIXED).
    */
    THD *thd = current_thd;
    if (thd != nullptr && thd->variables.binlog_format == BINLOG_FORMAT_STMT &&
        thd_tx_isolation(thd) > ISO_READ_COMMITTED)
        flags |= HA_BINLOG_STMT_CAPABLE;
    return flags;
}

ulong ha_frond::index_flags(uint index, uint, bool) const
{
    ulong flags = HA_READ_NEXT | HA_READ_PREV | HA_READ_ORDER | HA_READ_RANGE | HA_KEYREAD_ONLY;
    if (table_share != nullptr && index == table_share->primary_key)
        flags |= HA_CLUSTERED_INDEX;
    else
        flags |= HA_DO_INDEX_COND_PUSHDOWN | HA_DO_RANGE_FILTER_PUSHDOWN;
    return flags;
}

int ha_frond::open(const char *name, int, uint)
{
    int error = 0;
    lock_shared_ha_data();
    share_ = static_cast<Share *>(get_ha_share_ptr());
    if (share_ == nullptr) {
        share_ = Share::open(name, table, &error);
        if (share_ != nullptr)
            set_ha_share_ptr(share_);
    }
    unlock_shared_ha_data();
    if (share_ == nullptr)
        return error;
    ref_length = plan().has_primary() ? table->key_info[plan().primary].key_length : ROW_ID_BYTES;
    scratch_record_.resize(table->s->rec_buff_length);
    statistics_version_ = share_->statistics->version();
    return info(HA_STATUS_VARIABLE | HA_STATUS_CONST);
}

int ha_frond::close()
{
    mrr_.dsmrr_close();
    cursor_.close();
    end_load(false);
    end_copy(false);
    share_ = nullptr;
    return 0;
}

/*
  Decides how rows are locked by reads; external_lock does so for tables that are written.

  A plain SELECT reads a snapshot. Every other statement reads the newest rows under shared locks,
  since what it writes depends on them. At READ COMMITTED and below, INSERT ... SELECT and the like
  read a snapshot.
*/
THR_LOCK_DATA **ha_frond::store_lock(THD *thd, THR_LOCK_DATA **to, enum thr_lock_type type)
{
    const int command = thd_sql_command(thd);
    if (type == TL_IGNORE || command == SQLCOM_DROP_TABLE || command == SQLCOM_DROP_SEQUENCE)
        return to;
    const bool is_plain_read = type == TL_READ || type == TL_READ_NO_INSERT;
    const bool in_lock_tables = thd_in_lock_tables(thd);
    bool locks = type == TL_READ_WITH_SHARED_LOCKS || type == TL_READ_SKIP_LOCKED || type == TL_READ_NO_INSERT ||
                 command != SQLCOM_SELECT ||
                 (in_lock_tables && (type == TL_READ || type == TL_READ_HIGH_PRIORITY));
    if (command == SQLCOM_CHECKSUM || (command == SQLCOM_ANALYZE && type == TL_READ) || command == SQLCOM_HA_READ)
        locks = false;
    if (is_plain_read && thd_tx_isolation(thd) <= ISO_READ_COMMITTED &&
        (command == SQLCOM_INSERT_SELECT || command == SQLCOM_REPLACE_SELECT || command == SQLCOM_UPDATE ||
         command == SQLCOM_CREATE_TABLE))
        locks = false;
    set_row_lock(locks ? FROND_SHARED : FROND_NO_LOCK);
    skips_locked_ = type == TL_READ_SKIP_LOCKED || type == TL_WRITE_SKIP_LOCKED;
    return to;
}

int ha_frond::external_lock(THD *thd, int type)
{
    session_ = Session::of(thd);
    if (type == F_UNLCK) {
        /* HANDLER ... READ NEXT continues from here in another statement. */
        cursor_.suspend();
        leave_rows_ahead();
        return 0;
    }
    if (type == F_WRLCK)
        set_row_lock(FROND_EXCLUSIVE);
    session_->enter();
    return 0;
}

int ha_frond::start_stmt(THD *thd, thr_lock_type type)
{
    session_ = Session::of(thd);
    leave_rows_ahead();
    if (type >= TL_WRITE_ALLOW_WRITE)
        set_row_lock(FROND_EXCLUSIVE);
    else if (type == TL_READ && thd_sql_command(thd) == SQLCOM_SELECT)
        row_lock_ = FROND_NO_LOCK;
    else
        row_lock_ = statement_row_lock_;
    skips_locked_ = type == TL_READ_SKIP_LOCKED || type == TL_WRITE_SKIP_LOCKED;
    session_->enter_substatement();
    return 0;
}

void ha_frond::init_table_handle_for_HANDLER()
{
    row_lock_ = FROND_NO_LOCK;
}

int ha_frond::reset()
{
    mrr_.dsmrr_close();
    cursor_.close();
    ranges_ahead_.end();
    rows_ahead_.trim(BUFFER_KEPT_BYTES);
    lock_before_copy_.reset();
    conflicts_are_written_ = false;
    end_load(false);
    is_copied_into_ = is_bulk_insert_ = false;
    tries_semi_consistent_ = is_semi_consistent_ = false;
    is_point_ = false;
    trim(&entry_buffer_);
    trim(&row_buffer_);
    trim(&conflict_buffer_);
    if (bytes_.capacity() > BUFFER_KEPT_BYTES)
        bytes_ = std::string();
    return 0;
}

int ha_frond::begin_copy()
{
    frond_txn_options options;
    frond_error error;
    if (!share_->is_temporary() || copy_ != nullptr)
        return 0;
    /* A temporary SEQUENCE is filled without external_lock. */
    session_ = Session::of(ha_thd());
    frond_txn_options_init(&options);
    int code = frond_txn_begin(store(), &options, &copy_, &error);
    return code == FROND_OK ? 0 : failed(ha_thd(), code, error);
}

int ha_frond::end_copy(bool keeps)
{
    frond_error error;
    if (copy_ == nullptr)
        return 0;
    frond_txn *txn = copy_;
    copy_ = nullptr;
    int code = keeps ? frond_txn_commit(txn, nullptr, &error) : frond_txn_rollback(txn, &error);
    return code == FROND_OK ? 0 : failed(ha_thd(), code, error);
}

int ha_frond::extra(enum ha_extra_function operation)
{
    switch (operation) {
    case HA_EXTRA_WRITE_CAN_REPLACE:
    case HA_EXTRA_INSERT_WITH_UPDATE:
        conflicts_are_written_ = true;
        break;
    case HA_EXTRA_WRITE_CANNOT_REPLACE:
        conflicts_are_written_ = false;
        break;
    case HA_EXTRA_BEGIN_COPY:
        is_copied_into_ = true;
        return begin_copy();
    case HA_EXTRA_BEGIN_ALTER_IGNORE_COPY:
        return begin_copy();
    case HA_EXTRA_END_COPY:
        if (int error = end_load(true))
            return error;
        return end_copy(true);
    case HA_EXTRA_ABORT_COPY:
        end_load(false);
        return end_copy(false);
    default:
        break;
    }
    return 0;
}

int ha_frond::info(uint flag)
{
    if (flag & HA_STATUS_VARIABLE) {
        stats.records = share_->rows();
        stats.deleted = 0;
        /*
          Rows of this transaction are not counted yet, and the optimizer treats an empty table
          specially.
        */
        if (stats.records == 0 && !(flag & (HA_STATUS_TIME | HA_STATUS_OPEN)))
            stats.records = 1;
        stats.data_file_length = share_->data_bytes();
        stats.index_file_length = share_->index_bytes();
        stats.delete_length = 0;
        stats.mean_rec_length = stats.records == 0 ? 0 : static_cast<ulong>(stats.data_file_length / stats.records);
        stats.check_time = 0;
        stats.mrr_length_per_rec = ref_length + sizeof(void *);
        share_->sample_if_due(stats.records);
        if (!(flag & HA_STATUS_CONST))
            pass_statistics();
    }
    if (flag & HA_STATUS_CONST) {
        stats.block_size = BLOCK_BYTES;
        stats.max_data_file_length = ULONGLONG_MAX;
        const auto statistics = share_->statistics->rows_per_key();
        const Rows_per_key &known = *statistics;
        for (uint i = 0; i < table->s->keys; i++) {
            KEY &key = table->key_info[i];
            for (uint part = 0; part < key.ext_key_parts; part++) {
                /* 0 means that nothing is known: the optimizer guesses. */
                ulong rows = 0;
                if (i < known.size() && part < known[i].size())
                    rows = static_cast<ulong>(known[i][part]);
                if (part + 1 >= key.user_defined_key_parts && (key.flags & HA_NOSAME))
                    rows = 1;
                if (part + 1 == key.ext_key_parts && part >= key.user_defined_key_parts)
                    rows = 1;
                key.rec_per_key[part] = rows;
            }
        }
    }
    /*
      The server may ask any handler of a partitioned table, not only the one that met the conflict.
    */
    if (flag & HA_STATUS_ERRKEY)
        errkey = Session::of(table->in_use)->duplicate_key(table_share);
    if (flag & HA_STATUS_AUTO) {
        stats.auto_increment_value = share_->next_number(AUTO_INCREMENT_COUNTER);
    }
    return 0;
}

/*
  Passes new statistics to the server. For a partitioned table, the server uses those of the largest
  partition, and asks all partitions for their sizes first. These requests must not start that again
  for each partition with new statistics.
*/
void ha_frond::pass_statistics()
{
    static thread_local bool is_passing = false;
    const uint64_t version = share_->statistics->version();
    if (version == statistics_version_)
        return;
    statistics_version_ = version;
    if (is_passing)
        return;
    is_passing = true;
    table->file->info(HA_STATUS_CONST | HA_STATUS_NO_LOCK);
    is_passing = false;
}

double ha_frond::scan_time()
{
    return static_cast<double>(stats.data_file_length) / BLOCK_BYTES + 1;
}

/* Rows of the primary key are stored together: reading some of them costs their share of a scan. */
double ha_frond::read_time(uint index, uint ranges, ha_rows rows)
{
    if (index != table->s->primary_key || rows <= 2)
        return handler::read_time(index, ranges, rows);
    double scan = scan_time();
    ha_rows all = estimate_rows_upper_bound();
    return rows >= all ? scan : ranges + static_cast<double>(rows) / static_cast<double>(all) * scan;
}

/*
  Whether the optimizer is comparing plans for the table's SELECT. By then it has allocated
  positions; it asks for the number of rows for the sake of COUNT(*) before that. When in doubt, no:
  a count that is not wanted costs time, but an estimate that is taken for a count is a wrong
  result.
*/
bool ha_frond::is_being_planned() const
{
    const TABLE_LIST *listed = table->pos_in_table_list;
    const SELECT_LEX *select = listed == nullptr ? nullptr : listed->select_lex;
    while (select != nullptr && select->merged_into != nullptr)
        select = select->merged_into;
    return select != nullptr && select->join != nullptr && select->join->positions != nullptr;
}

/*
  COUNT(*) without WHERE: the engine counts. HA_POS_ERROR makes the server read the rows, which it
  must do if they are locked: an error of this call would be lost, even that of a deadlock. For each
  statement that an index covers, the server also calls this to compute the cost of reading the
  whole index; an estimate will do.
*/
ha_rows ha_frond::records()
{
    /*
      The server asks for the progress of a copy, or for the size of a sample. There is no SELECT,
      and what the table says of one belongs to an earlier statement.
    */
    switch (thd_sql_command(ha_thd())) {
    case SQLCOM_ALTER_TABLE:
    case SQLCOM_CREATE_INDEX:
    case SQLCOM_DROP_INDEX:
    case SQLCOM_OPTIMIZE:
    case SQLCOM_ANALYZE:
    case SQLCOM_REPAIR:
        return share_->rows();
    default:
        break;
    }
    if (is_being_planned())
        return stats.records;
    if (row_lock_ != FROND_NO_LOCK || begin() != 0 || session_->is_serializable())
        return HA_POS_ERROR;
    uint64_t rows = 0;
    if (share_->is_temporary()) {
        bool is_exact = false;
        rows = share_->temporary()->rows(&is_exact);
        return is_exact ? rows : HA_POS_ERROR;
    }
    int code = frond_txn_count(session_->txn(), share_->row_tree().stored(), nullptr, 0, nullptr, 0, &rows, session_->error());
    return code == FROND_OK ? rows : HA_POS_ERROR;
}

ha_rows ha_frond::records_in_range(uint number, const key_range *from, const key_range *to, page_range *)
{
    const Index &index = plan().indexes[number];
    std::string low, high;
    if (from != nullptr) {
        index.key.append_tuple(from->key, from->keypart_map, &low);
        if (from->flag == HA_READ_AFTER_KEY)
            low = successor(low);
    }
    if (to != nullptr) {
        index.key.append_tuple(to->key, to->keypart_map, &high);
        if (to->flag != HA_READ_BEFORE_KEY)
            high = successor(high);
    }
    if (to != nullptr && !high.empty() && low >= high)
        return 1;
    Session *session = Session::of(table->in_use);
    if (session->begin_statement())
        return HA_POS_ERROR;
    uint64_t rows = 0;
    int code = share_->tree(number).estimate(session->txn(), low, high, &rows, session->error());
    if (code != FROND_OK)
        return HA_POS_ERROR;
    /*
      The server does not read a range that is estimated as 0 rows, so a locking read would not lock
      it.
    */
    return std::max<uint64_t>(rows, 1);
}
