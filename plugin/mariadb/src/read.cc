/* Scans, index reads and reads by position. SPDX-License-Identifier: GPL-2.0-only */
#include "ha_frond.h"

#include "errors.h"

#include <algorithm>

using namespace frond;

namespace {

/*
  The number of rows that a search expects to read, in a range with an end and for all rows of a
  key. Rows that turn out not to exist cost nothing.
*/
constexpr size_t RANGE_ROWS_EXPECTED = 128;
constexpr size_t PREFIX_ROWS_EXPECTED = 32;

/*
  The number of rows that are read together for entries of an index grows by this factor. It starts
  at one, since a statement may need no more.
*/
constexpr size_t ENTRIES_GROWTH = 4;
/* Its limits: a number of rows, and the bytes that their records take. */
constexpr size_t ROWS_TOGETHER_MIN = 4, ROWS_TOGETHER_MAX = 256, ROWS_TOGETHER_BYTES = 1 << 20;

/* Number of column sets for which a handler remembers the parts of rows. */
constexpr size_t WANTED_MAX = 8;

}  // namespace

/*
  Whether this is the set of these columns. Called for each row; nearly all tables have one word of
  columns.
*/
inline bool ha_frond::Wanted::is_of(const MY_BITMAP *wanted) const
{
    const size_t words = no_words_in_map(wanted);
    if (words == 1)
        return columns.size() == 1 && columns.front() == *wanted->bitmap;
    return columns.size() == words && std::equal(columns.begin(), columns.end(), wanted->bitmap);
}

/*
  Chooses the parts of rows that are read. Whole rows are read if they are to be written, and under
  locks, where the engine reads them whole in any case.
*/
void ha_frond::choose_projection()
{
    if (get_lock_type() == F_WRLCK || row_lock_ != FROND_NO_LOCK || plan().has_prefixed_primary() ||
        share_->is_temporary() || is_sequence()) {
        reads_ = nullptr;
        return;
    }
    const MY_BITMAP *wanted = table->read_set;
    if (reads_ != nullptr && reads_->is_of(wanted))
        return;
    auto found = std::find_if(wanted_.begin(), wanted_.end(),
                              [wanted](const std::unique_ptr<Wanted> &made) { return made->is_of(wanted); });
    if (found == wanted_.end())
        make_projection();
    else
        reads_ = found->get();
}

/*
  Makes the parts for a set of columns that was not read before. Few kinds of statements run over a
  handler, so this is rare.
*/
void ha_frond::make_projection()
{
    if (wanted_.size() == WANTED_MAX)
        wanted_.erase(wanted_.begin());
    std::unique_ptr<Wanted> made(new Wanted);
    const MY_BITMAP *wanted = table->read_set;
    made->columns.assign(wanted->bitmap, wanted->bitmap + no_words_in_map(wanted));
    made->has_key_columns = plan().has_primary() && plan().primary_key().recovers_any_of(wanted);
    made->has_blobs = plan().row->has_blobs(wanted);
    for (const Index &index : plan().indexes)
        made->is_in_index.push_back(has_all(index, wanted));
    if (plan().row->project(wanted, &made->projection) &&
        frond_projection_new(share_->row_tree().stored(), made->projection.parts.data(), made->projection.parts.size(), &made->handle,
                         nullptr) != FROND_OK)
        made->handle = nullptr;
    if (made->handle != nullptr)
        made->number = ++wanted_made_;
    reads_ = made.get();
    wanted_.push_back(std::move(made));
}

/*
  Whether the entries of an index have all these columns, with the key of the row. Virtual columns
  are computed by the server, from columns of the row.
*/
bool ha_frond::has_all(const Index &index, const MY_BITMAP *columns) const
{
    if (index.number == plan().primary)
        return false;
    for (uint field = bitmap_get_first_set(columns); field != MY_BIT_NONE; field = bitmap_get_next_set(columns, field)) {
        const bool is_in_entry = index.key.is_whole(field) || (plan().has_primary() && plan().primary_key().is_whole(field));
        if (!is_in_entry || table->field[field]->vcol_info != nullptr)
            return false;
    }
    return true;
}

Cursor::How ha_frond::how(const Tree &tree)
{
    Cursor::How how;
    how.row_lock = row_lock_;
    if (is_sequence())
        how.sees = FROND_NEWEST;
    if (tree == share_->row_tree()) {
        choose_projection();
        how.projection = projection();
        how.projection_number = projection_number();
    }
    if (skips_locked_)
        how.when_locked = FROND_SKIP_LOCKED;
    else if (tries_semi_consistent_ && row_lock_ == FROND_EXCLUSIVE && tree == share_->row_tree() &&
             !session_->is_repeatable_read())
        how.when_locked = FROND_SEMI_CONSISTENT;
    return how;
}

/*
  Positions the cursor at the start of a scan of [from, to): before its first row, or after its
  last. No row or gap outside of the range is locked.
*/
int ha_frond::put_cursor(Tree tree, std::string_view from, std::string_view to, bool forward)
{
    Cursor::How how = this->how(tree);
    is_point_ = false;
    is_semi_consistent_ = false;
    at_ = At::Row;
    /* The statement wants only the first row of each search. */
    if (rows_ahead_.has_rest() && tree != share_->row_tree())
        entries_wanted_ = std::min<size_t>(entries_wanted_, 1);
    scanned_ = tree;
    ascends_ = forward;
    range_ = from.empty() && to.empty() ? Range::Whole : Range::Part;
    int error = cursor_.is_open_for(tree, how) ? cursor_.set_range(from, to)
                                               : cursor_.open(session_, tree, how, from, to);
    if (error != 0)
        return error;
    return forward ? 0 : cursor_.seek_last();
}

int ha_frond::decode_row(std::string_view row_key, std::string_view value, bool is_whole, uchar *record)
{
    /*
      Only parts were read, since nothing needs the whole row; if a position is asked for, the key
      supplies it.
    */
    if (!is_whole && !reads_->has_key_columns) {
        without_key_ = plan().has_primary() ? record : nullptr;
        return plan().row->decode(value, reads_->projection, record) ? 0 : HA_ERR_CRASHED;
    }
    /*
      A statement that writes the row needs all of it, whatever it reads. So does a position that
      cannot be recovered from the key.
    */
    const bool needs_all = get_lock_type() == F_WRLCK || plan().has_prefixed_primary() || is_sequence();
    const MY_BITMAP *wanted = needs_all ? nullptr : table->read_set;
    if (!decode_row_key(row_key, wanted, record))
        return HA_ERR_CRASHED;
    const bool is_read = is_whole ? plan().row->decode(value, wanted, record)
                                  : plan().row->decode(value, reads_->projection, record);
    return is_read ? 0 : HA_ERR_CRASHED;
}

/*
  Fills the wanted columns of the primary key. A position may be asked for even if none of them was
  wanted: see `position`.
*/
bool ha_frond::decode_row_key(std::string_view row_key, const MY_BITMAP *wanted, uchar *record)
{
    bool skipped = false;
    if (plan().has_primary() && !plan().primary_key().decode(row_key, record, wanted, &skipped))
        return false;
    without_key_ = skipped ? record : nullptr;
    return true;
}

/*
  Reads a row by its key into the record. `with_last` if its lock belongs together with the one that
  was taken last, that of the entry that led to it: `unlock_row` then releases both.
*/
int ha_frond::fetch_row(std::string_view row_key, bool with_last, uchar *record)
{
    choose_projection();
    frond_bytes ahead;
    if (rows_ahead_.find(session_, row_key, projection_number(), &ahead)) {
        if (ahead.data == nullptr)
            return HA_ERR_KEY_NOT_FOUND;
        return decode_row(row_key, view(ahead.data, ahead.length), projection() == nullptr, record);
    }
    frond_read_options options;
    frond_read_options_init(&options);
    options.row_lock = row_lock_;
    options.when_locked = skips_locked_ ? FROND_SKIP_LOCKED : FROND_WAIT;
    options.with_last = with_last;
    if (is_sequence())
        options.sees = FROND_NEWEST;
    options.projection = projection();
    int code = share_->row_tree().read(session_->txn(), row_key, options, &row_buffer_, session_->error());
    if (code == FROND_NOT_FOUND || (code == LOCK_BUSY && skips_locked_))
        return HA_ERR_KEY_NOT_FOUND;
    if (code != FROND_OK)
        return session_->fail(code);
    return decode_row(row_key, view(row_buffer_.data, row_buffer_.length), options.projection == nullptr, record);
}

/*
  Fills the wanted columns (null: all) that an entry of an index has, if there is a record, and
  returns the key of its row.
*/
bool ha_frond::decode_entry(const Index &index, std::string_view key, std::string_view value, uchar *record,
                            const MY_BITMAP *wanted, std::string *row_key)
{
    std::optional<size_t> parts;
    std::string_view primary;
    if (!index.entry->take_primary(&value, &primary))
        return false;
    if (record != nullptr || !index.is_unique) {
        parts = index.key.decode(key, record, wanted);
        if (!parts)
            return false;
    }
    if (!index.is_unique)
        primary = key.substr(*parts);
    row_key->assign(primary);
    return record == nullptr || (decode_row_key(primary, wanted, record) && index.entry->decode(value, record));
}

/* Sets the key of the current row. Called for each row of a scan: keys of integers need no call. */
inline void ha_frond::set_row_key(std::string_view key)
{
    if (key.size() == row_key_.size() && key.size() == 4)
        memcpy(&row_key_[0], key.data(), 4);
    else if (key.size() == row_key_.size() && key.size() == 8)
        memcpy(&row_key_[0], key.data(), 8);
    else
        row_key_.assign(key);
}

/* Reads the row at the cursor; HA_ERR_KEY_NOT_FOUND if an entry's row is gone or skipped. */
int ha_frond::read_current(uchar *record)
{
    if (scanned_ == share_->row_tree()) {
        set_row_key(cursor_.key());
        std::string_view value = cursor_.value();
        /* The columns for which the cursor was opened are usually still those that are wanted. */
        if (reads_ == nullptr || cursor_.how().projection_number != reads_->number || row_lock_ != FROND_NO_LOCK ||
            get_lock_type() == F_WRLCK || !reads_->is_of(table->read_set))
            choose_projection();
        const bool is_whole = projection() == nullptr;
        /* The server wants other columns than when the scan started. */
        if (cursor_.how().projection_number != projection_number())
            return fetch_row(row_key_, true, record);
        if (plan().row->has_blobs()) {
            /* BLOBs of the record point into the value, and must outlive the cursor. */
            if (int code = frond_buffer_set(&row_buffer_, value.data(), value.size(), session_->error()))
                return session_->fail(code);
            value = view(row_buffer_.data, row_buffer_.length);
        }
        return decode_row(row_key_, value, is_whole, record);
    }
    const Index &index = plan().indexes[active_index];
    /*
      COUNT(*) wants no column. It wants no position either, unless the table has no primary key:
      then the position is the key of the row.
    */
    if (bitmap_is_clear_all(table->read_set) && plan().has_primary() && keyread_enabled() && is_covered(index) &&
        !filters_entries(record)) {
        without_key_ = nullptr;
        return 0;
    }
    return read_by_entry(index, cursor_.key(), cursor_.value(), record);
}

/* Reads the row of an entry, unless the entry has all columns that are wanted. */
int ha_frond::read_by_entry(const Index &index, std::string_view key, std::string_view value, uchar *record)
{
    /* With keyread the server takes virtual columns from the entry, even if the row is read. */
    const bool is_keyread = keyread_enabled();
    const bool covered = is_covered(index);
    const bool filters = filters_entries(record);
    if (!decode_entry(index, key, value, is_keyread || covered || filters ? record : nullptr,
                      filters ? nullptr : table->read_set, &row_key_))
        return HA_ERR_CRASHED;
    if (filters)
        if (int error = check_entry())
            return error;
    if (covered)
        return 0;
    if (!is_point_ && is_plain_read())
        if (int error = read_entries_ahead(index))
            return error;
    if (int error = fetch_row(row_key_, true, record))
        return error;
    /* The row has no virtual columns, and decoding it has set their NULL bits. */
    return !is_keyread || decode_entry(index, key, value, record, table->read_set, &row_key_) ? 0 : HA_ERR_CRASHED;
}

/*
  Whether an entry has everything that is read of the row. With keyread, the server says so. It does
  not always ask for that: when several connections execute a prepared statement again and again,
  some executions do not know which indexes cover it. So all other plain reads compare the columns.

  Partitions that are merged in the order of an index need all its columns, including those of which
  the index has a prefix, which only rows have; and positions need the columns of the primary key.
*/
bool ha_frond::is_covered(const Index &index)
{
    const bool is_written = row_lock_ == FROND_EXCLUSIVE || get_lock_type() == F_WRLCK;
    if (is_written || plan().has_prefixed_primary())
        return false;
    /*
      The server compares the record with the end of the range, even if it only wants a position.
    */
    if (end_range != nullptr && index.key.has_prefixes())
        return false;
    if (!keyread_enabled()) {
        /* None is chosen where whole rows are read, as under locks. */
        choose_projection();
        return reads_ != nullptr && reads_->is_in_index[index.number];
    }
    return table->part_info == nullptr || index.key.has_no_prefix_of(table->read_set);
}

/* Whether entries are filtered. Conditions refer to the columns of the table's first record. */
bool ha_frond::filters_entries(const uchar *record) const
{
    const bool has_condition = pushed_idx_cond != nullptr && pushed_idx_cond_keyno == active_index;
    return record == table->record[0] && (has_condition || has_rowid_filter());
}

/*
  Whether a filter by row id applies. It only saves rows that the server would reject, and works on
  positions.
*/
bool ha_frond::has_rowid_filter() const
{
    return pushed_rowid_filter != nullptr && rowid_filter_is_active && !plan().has_prefixed_primary();
}

/*
  Checks whether the row of the entry in the record is wanted: 0, HA_ERR_KEY_NOT_FOUND if it is not,
  HA_ERR_END_OF_FILE after the range. Locks of an unwanted entry are released as far as the
  isolation level allows.
*/
int ha_frond::check_entry()
{
    check_result_t wanted = CHECK_POS;
    if (pushed_idx_cond != nullptr && pushed_idx_cond_keyno == active_index)
        wanted = handler_index_cond_check(this);
    if (wanted == CHECK_POS && has_rowid_filter()) {
        /*
          For an index with prefixes the server itself checks the range's end, with the row: see
          idx_cond_push.
        */
        key_range *const end = end_range;
        if (plan().indexes[active_index].key.has_prefixes())
            end_range = nullptr;
        wanted = handler_rowid_filter_check(this);
        end_range = end;
    }
    switch (wanted) {
    case CHECK_POS:
        return 0;
    case CHECK_NEG:
        unlock_row();
        /* The following rows may not be wanted either. */
        entries_wanted_ = std::min<size_t>(entries_wanted_, 1);
        return HA_ERR_KEY_NOT_FOUND;
    case CHECK_OUT_OF_RANGE:
        return HA_ERR_END_OF_FILE;
    default:
        return HA_ERR_ABORTED_BY_USER;
    }
}

/*
  Accepts a condition on an index. Not on the primary key, whose rows come with their keys. Nor on
  an index with a prefix of a column: together with the condition, the engine would have to compare
  each entry with the end of the range, but such entries do not fill the record well enough for
  that.
*/
Item *ha_frond::idx_cond_push(uint index, Item *condition)
{
    if (index == plan().primary || plan().indexes[index].key.has_prefixes())
        return condition;
    pushed_idx_cond = condition;
    pushed_idx_cond_keyno = index;
    in_range_check_pushed_down = true;
    return nullptr;
}

/* A clone of the handler reads as the handler does. */
handler *ha_frond::clone(const char *name, MEM_ROOT *mem_root)
{
    ha_frond *other = static_cast<ha_frond *>(handler::clone(name, mem_root));
    if (other != nullptr) {
        other->row_lock_ = row_lock_;
        other->skips_locked_ = skips_locked_;
        other->tries_semi_consistent_ = tries_semi_consistent_;
    }
    return other;
}

/*
  Whether reads see a snapshot and lock nothing, so that rows may be read before the server asks for
  them.
*/
bool ha_frond::is_plain_read() const
{
    return row_lock_ == FROND_NO_LOCK && get_lock_type() != F_WRLCK && copy_ == nullptr && !share_->is_temporary() &&
           !is_sequence() && !session_->is_serializable();
}

/*
  Whether the ranges of one call are read ahead. For a plain read, the handler walks over the ranges
  one by one, as the server does, but over rows that were read together (Rows_ahead): rows named by
  whole primary keys, or by entries of an index. All other reads use the server's own sorting of
  keys and positions, where the optimizer wants that.
*/
bool ha_frond::reads_ranges_ahead() const
{
    return inited == INDEX && session_ != nullptr && is_plain_read() && table->part_info == nullptr;
}

int ha_frond::multi_range_read_init(RANGE_SEQ_IF *sequence, void *parameter, uint ranges, uint mode,
                                    HANDLER_BUFFER *buffer)
{
    leave_rows_ahead();
    /*
      Once it has begun, the transaction knows its isolation level, which decides whether reads
      lock.
    */
    if (session_ != nullptr && !share_->is_temporary())
        if (int error = begin())
            return error;
    if (!reads_ranges_ahead())
        return mrr_.dsmrr_init(this, sequence, parameter, ranges, mode, buffer);
    ranges_ahead_.begin(*sequence, parameter, ranges, mode);
    RANGE_SEQ_IF ahead = {};
    ahead.init = begin_ranges;
    ahead.next = next_range;
    return handler::multi_range_read_init(&ahead, this, ranges, mode, buffer);
}

int ha_frond::multi_range_read_next(range_id_t *range)
{
    if (!ranges_ahead_.is_open())
        return mrr_.dsmrr_next(range);
    int error;
    do
        error = handler::multi_range_read_next(range);
    while (error == 0 && ranges_ahead_.skips(*range));
    /* An error of reading ahead has ended the sequence of ranges. */
    if (ranges_error_ != 0)
        error = ranges_error_;
    /* Joins treat any error as the end, and check whether it was reported. */
    if (error != 0 && error != HA_ERR_END_OF_FILE && error != HA_ERR_KEY_NOT_FOUND)
        print_error(error, MYF(0));
    return error;
}

range_seq_t ha_frond::begin_ranges(void *handler, uint, uint)
{
    return handler;
}

bool ha_frond::next_range(range_seq_t handler, KEY_MULTI_RANGE *range)
{
    ha_frond *const self = static_cast<ha_frond *>(handler);
    if (self->ranges_ahead_.next(range))
        return false;
    self->ranges_error_ = self->fill_ranges();
    return self->ranges_error_ != 0 || !self->ranges_ahead_.next(range);
}

/* Takes the next ranges, and reads the rows that they name. Returns an HA_ERR_* code. */
int ha_frond::fill_ranges()
{
    leave_stale_rows();
    rows_ahead_.clear();
    choose_projection();
    const size_t rows = rows_together();
    if (!ranges_ahead_.fill(rows) || active_index != plan().primary || rows < 2)
        return 0;
    const key_part_map whole = make_prev_keypart_map(table->key_info[active_index].user_defined_key_parts);
    std::string key;
    for (const KEY_MULTI_RANGE &range : ranges_ahead_.ranges()) {
        /* Joins do not say that there is at most one row. */
        if (!(range.range_flag & EQ_RANGE) || range.start_key.keypart_map != whole)
            continue;
        key.clear();
        plan().primary_key().append_tuple(range.start_key.key, whole, &key);
        rows_ahead_.add(key);
    }
    if (rows_ahead_.size() < 2) {
        rows_ahead_.clear();
        return 0;
    }
    return rows_ahead_.read(session_, share_->row_tree(), projection(), projection_number());
}

/*
  Maximum number of rows that are read together: their values stay in memory until they are used.
  Rows with BLOBs may have any length, and are read when they are needed.
*/
size_t ha_frond::rows_together() const
{
    if (reads_ == nullptr || reads_->has_blobs || entries_wanted_ == 0)
        return 1;
    return std::clamp<size_t>(ROWS_TOGETHER_BYTES / std::max(table->s->reclength, 1UL), ROWS_TOGETHER_MIN, ROWS_TOGETHER_MAX);
}

/*
  Called when the row of an entry is about to be read: reads it together with the rows of the
  entries that were fetched with it. Each time that the statement has used all rows read so far, the
  number of rows read together grows. Returns an HA_ERR_* code.
*/
int ha_frond::read_entries_ahead(const Index &index)
{
    choose_projection();
    if (rows_ahead_.has(session_, row_key_, projection_number()))
        return 0;
    leave_stale_rows();
    const size_t rows_max = rows_together();
    const size_t rows = std::min({entries_wanted_, cursor_.rows_ahead() + 1, rows_max});
    entries_wanted_ = std::min(entries_wanted_ * ENTRIES_GROWTH, rows_max);
    rows_ahead_.clear();
    if (rows < 2)
        return 0;
    rows_ahead_.add(row_key_);
    std::string key;
    for (size_t row = 1; row < rows; row++) {
        if (!decode_entry(index, cursor_.key_ahead(row), cursor_.value_ahead(row), nullptr, nullptr, &key))
            break;
        rows_ahead_.add(key);
    }
    return rows_ahead_.read(session_, share_->row_tree(), projection(), projection_number());
}

/*
  A statement that writes between two reads, as INSERT ... SELECT does, reads row by row from then
  on.
*/
void ha_frond::leave_stale_rows()
{
    if (rows_ahead_.is_stale(session_))
        entries_wanted_ = 0;
}

void ha_frond::leave_rows_ahead()
{
    ranges_ahead_.end();
    rows_ahead_.clear();
    entries_wanted_ = 1;
    ranges_error_ = 0;
}

/*
  Keeps the server from sorting keys or positions where rows must be locked in the order of the
  ranges, and in partitioned tables. There, sorted positions have lost rows when scans of several
  indexes of a table were intersected by position.
*/
void ha_frond::restrict_ranges(uint *mode) const
{
    if (row_lock_ != FROND_NO_LOCK || table->part_info != nullptr)
        *mode |= HA_MRR_USE_DEFAULT_IMPL;
}

ha_rows ha_frond::multi_range_read_info_const(uint index, RANGE_SEQ_IF *sequence, void *parameter, uint ranges,
                                              uint *buffer_bytes, uint *mode, Cost_estimate *cost)
{
    mrr_.init(this, table);
    restrict_ranges(mode);
    return mrr_.dsmrr_info_const(index, sequence, parameter, ranges, buffer_bytes, mode, cost);
}

ha_rows ha_frond::multi_range_read_info(uint index, uint ranges, uint keys, uint parts, uint *buffer_bytes, uint *mode,
                                        Cost_estimate *cost)
{
    mrr_.init(this, table);
    restrict_ranges(mode);
    return mrr_.dsmrr_info(index, ranges, keys, parts, buffer_bytes, mode, cost);
}

int ha_frond::multi_range_read_explain_info(uint mode, char *text, size_t size)
{
    return mrr_.dsmrr_explain_info(mode, text, size);
}

bool ha_frond::rowid_filter_push(Rowid_filter *filter)
{
    pushed_rowid_filter = filter;
    return false;
}

/* Reads the next row in a direction, if its key starts with the prefix. */
int ha_frond::step(uchar *record, bool forward, std::string_view prefix)
{
    for (;;) {
        int error;
        if (is_semi_consistent_) {
            is_semi_consistent_ = false;
            error = cursor_.relock();
            if (error == HA_ERR_KEY_NOT_FOUND)
                continue;
        } else {
            error = cursor_.step(forward);
            if (error == 0 && !prefix.empty() && cursor_.key().compare(0, prefix.size(), prefix) != 0)
                error = HA_ERR_END_OF_FILE;
            if (error == 0)
                is_semi_consistent_ = row_lock_ != FROND_NO_LOCK && !cursor_.is_locked();
        }
        if (error != 0)
            return error;
        error = read_current(record);
        if (error != HA_ERR_KEY_NOT_FOUND)
            return error;
    }
}

/*
  ALTER by copy reads the whole table: one lock on the tree replaces a lock on each row. The server
  keeps its own writers away, but not transactions that were prepared before a restart.
*/
int ha_frond::lock_for_copy()
{
    if (!is_copying_alter(ha_thd()))
        return 0;
    if (int error = begin())
        return error;
    int code = frond_txn_lock_tree(session_->txn(), share_->row_tree().stored(), FROND_TREE_SHARED, FROND_WAIT, session_->error());
    if (code != FROND_OK)
        return session_->fail(code);
    lock_before_copy_ = row_lock_;
    row_lock_ = FROND_NO_LOCK;
    return 0;
}

int ha_frond::rnd_init(bool scan)
{
    cursor_.close();
    leave_rows_ahead();
    is_semi_consistent_ = false;
    scanned_ = Tree();
    return scan && row_lock_ != FROND_NO_LOCK ? lock_for_copy() : 0;
}

int ha_frond::rnd_end()
{
    cursor_.close();
    if (lock_before_copy_)
        row_lock_ = *lock_before_copy_;
    lock_before_copy_.reset();
    return 0;
}

int ha_frond::rnd_next(uchar *record)
{
    if (int error = begin())
        return error;
    if (!scanned_.is_open())
        if (int error = put_cursor(share_->row_tree(), {}, {}, true))
            return error;
    return step(record, true);
}

int ha_frond::rnd_pos(uchar *record, uchar *position)
{
    if (int error = begin())
        return error;
    row_key_.clear();
    if (plan().has_primary())
        plan().primary_key().append_tuple(position, HA_WHOLE_KEY, &row_key_);
    else
        row_key_.assign(reinterpret_cast<const char *>(position), ROW_ID_BYTES);
    is_semi_consistent_ = false;
    return fetch_row(row_key_, false, record);
}

/* Copies the primary key of a record, in the server's format. */
void ha_frond::copy_primary(uchar *to, const uchar *record) const
{
    const KEY &key = table->key_info[plan().primary];
    key_copy(to, const_cast<uchar *>(record), &table->key_info[plan().primary], ref_length, true);
    /*
      For BIT columns the server copies those of the table's first record, whatever record it is
      given.
    */
    for (uint i = 0; i < key.user_defined_key_parts; to += key.key_part[i++].store_length) {
        const Field *field = key.key_part[i].field;
        if (field->real_type() == MYSQL_TYPE_BIT)
            memcpy(to, field->ptr_in_record(record), key.key_part[i].length);
    }
}

void ha_frond::position(const uchar *record)
{
    if (record == without_key_) {
        plan().primary_key().decode_certain(row_key_, without_key_);
        without_key_ = nullptr;
    }
    if (plan().has_primary())
        copy_primary(ref, record);
    else
        memcpy(ref, row_key_.data(), ROW_ID_BYTES);
}

int ha_frond::cmp_ref(const uchar *a, const uchar *b)
{
    if (!plan().has_primary())
        return memcmp(a, b, ROW_ID_BYTES);
    std::string first, second;
    plan().primary_key().append_tuple(a, HA_WHOLE_KEY, &first);
    plan().primary_key().append_tuple(b, HA_WHOLE_KEY, &second);
    return first.compare(second);
}

int ha_frond::index_init(uint index, bool)
{
    active_index = index;
    is_point_ = false;
    is_semi_consistent_ = false;
    scanned_ = share_->tree(index);
    cursor_.close();
    leave_rows_ahead();
    return 0;
}

int ha_frond::index_end()
{
    active_index = MAX_KEY;
    cursor_.close();
    leave_rows_ahead();
    return 0;
}

/* Reads the one row whose key in a unique index is `search_`. */
int ha_frond::read_point(const Index &index, uchar *record)
{
    is_point_ = true;
    at_ = At::Row;
    is_semi_consistent_ = false;
    if (index.number == plan().primary) {
        row_key_ = search_;
        return fetch_row(row_key_, false, record);
    }
    frond_read_options options;
    frond_read_options_init(&options);
    options.row_lock = row_lock_;
    options.when_locked = skips_locked_ ? FROND_SKIP_LOCKED : FROND_WAIT;
    int code = share_->tree(index.number).read(session_->txn(), search_, options, &entry_buffer_, session_->error());
    if (code == FROND_NOT_FOUND || (code == LOCK_BUSY && skips_locked_))
        return HA_ERR_KEY_NOT_FOUND;
    if (code != FROND_OK)
        return session_->fail(code);
    return read_by_entry(index, search_, view(entry_buffer_.data, entry_buffer_.length), record);
}

/*
  Called before the server checks that no row has the same values as the one to be written. Locks
  the values, so that no other transaction checks for them until this one ends; otherwise each would
  miss what the other writes next. The search sees what the statement has written.
*/
int ha_frond::guard(const Index &index, const uchar *key, std::string *values)
{
    const KEY &info = table->key_info[index.number];
    index.key.append_tuple(key, make_prev_keypart_map(index.guarded_parts), values);
    session_->see_own_writes();
    cursor_.close();
    for (uint i = 0; i < index.guarded_parts; key += info.key_part[i++].store_length)
        if (info.key_part[i].null_bit != 0 && *key != 0)
            return 0; /* NULL is equal to nothing. */
    if (share_->is_temporary())
        return 0;
    int code = frond_txn_get(session_->txn(), share_->tree(index.number).stored(), values->data(), values->size(), FROND_EXCLUSIVE,
                             FROND_WAIT, &conflict_buffer_, session_->error());
    return code == FROND_OK || code == FROND_NOT_FOUND ? 0 : session_->fail(code);
}

int ha_frond::index_read_map(uchar *record, const uchar *key, key_part_map parts, enum ha_rkey_function flag)
{
    if (int error = begin())
        return error;
    const Index &index = plan().indexes[active_index];
    const KEY &info = table->key_info[active_index];
    search_.clear();
    index.key.append_tuple(key, parts, &search_);
    /*
      Keys that the server checks itself (UNIQUE over long columns, WITHOUT OVERLAPS) are checked
      before the row is written. How to recognize that search: an index of hashes is searched for
      nothing else; for the columns' own values, the server uses its own buffer.
    */
    std::string guarded;
    const bool is_check = index.guarded_parts != 0 && get_lock_type() == F_WRLCK &&
                          (info.algorithm == HA_KEY_ALG_LONG_HASH || key == table->file->lookup_buffer);
    if (is_check)
        if (int error = guard(index, key, &guarded))
            return error;
    const key_part_map all = make_prev_keypart_map(info.user_defined_key_parts);
    if (flag == HA_READ_KEY_EXACT && index.is_unique && (parts & all) == all) {
        bool has_null = false;
        const uchar *at = key;
        for (uint i = 0; i < info.user_defined_key_parts; i++) {
            has_null |= info.key_part[i].null_bit != 0 && *at != 0;
            at += info.key_part[i].store_length;
        }
        if (!has_null)
            return read_point(index, record);
    }
    const Tree tree = share_->tree(active_index);
    const std::string after = successor(search_);
    bool is_prefix = false, forward = true;
    std::string_view from, to;
    std::string end;
    switch (flag) {
    case HA_READ_KEY_EXACT:
    case HA_READ_PREFIX:
        is_prefix = true;
        from = search_;
        to = after;
        break;
    case HA_READ_KEY_OR_NEXT:
    case HA_READ_AFTER_KEY:
        from = flag == HA_READ_AFTER_KEY ? after : search_;
        if (from.empty() && !search_.empty()) {
            at_ = At::End;
            return HA_ERR_KEY_NOT_FOUND;
        }
        if (end_range != nullptr) {
            index.key.append_tuple(end_range->key, end_range->keypart_map, &end);
            if (end_range->flag != HA_READ_BEFORE_KEY)
                end = successor(end);
            if (!end.empty() && from >= end)
                return not_found(from);
            to = end;
        } else if (is_check) {
            end = successor(guarded);
            to = end;
        }
        break;
    case HA_READ_BEFORE_KEY:
        to = search_;
        forward = false;
        break;
    case HA_READ_KEY_OR_PREV:
    case HA_READ_PREFIX_LAST_OR_PREV:
        to = after;
        forward = false;
        break;
    case HA_READ_PREFIX_LAST:
        is_prefix = true;
        from = search_;
        to = after;
        forward = false;
        break;
    default:
        return HA_ERR_WRONG_COMMAND;
    }
    if (int error = put_cursor(tree, from, to, forward))
        return error;
    if (is_prefix)
        range_ = Range::Prefix;
    if (forward && !to.empty())
        cursor_.expect(is_prefix ? PREFIX_ROWS_EXPECTED : RANGE_ROWS_EXPECTED);
    int error = step(record, forward, is_prefix ? std::string_view(search_) : std::string_view());
    return error == HA_ERR_END_OF_FILE ? not_found(forward ? from : to) : error;
}

/* Reads the first row of [from, to) of the index, or the last one. */
int ha_frond::read_edge(uchar *record, std::string_view from, std::string_view to, bool forward)
{
    if (int error = begin())
        return error;
    if (int error = put_cursor(share_->tree(active_index), from, to, forward))
        return error;
    return end_at(step(record, forward), forward);
}

/* Remembers where the row would be: the next step continues from there. */
int ha_frond::not_found(std::string_view where)
{
    is_point_ = false;
    at_ = At::Search;
    search_ = std::string(where);
    return HA_ERR_KEY_NOT_FOUND;
}

/*
  Remembers the end: a scan may turn round after the last row, or before the first one (HANDLER).
*/
int ha_frond::end_at(int error, bool forward)
{
    if (error == HA_ERR_END_OF_FILE)
        at_ = forward ? At::End : At::Begin;
    return error;
}

int ha_frond::step_from_no_row(uchar *record, bool forward)
{
    if (at_ == At::Search)
        return forward ? read_edge(record, search_, {}, true) : read_edge(record, {}, search_, false);
    return at_ == (forward ? At::Begin : At::End) ? read_edge(record, {}, {}, forward) : HA_ERR_END_OF_FILE;
}

int ha_frond::index_next(uchar *record)
{
    /* Within the range that was searched, nothing else needs to be checked. */
    if (!is_point_ && at_ == At::Row && range_ == Range::Part && ascends_) {
        if (int error = begin())
            return error;
        return end_at(step(record, true), true);
    }
    return is_point_ ? read_edge(record, search_ + '\0', {}, true) : step_index(record, true);
}

int ha_frond::index_prev(uchar *record)
{
    return is_point_ ? read_edge(record, {}, search_, false) : step_index(record, false);
}

/*
  Steps through an index. The cursor has the range of the last search; the scan continues beyond it:
  from rows of a prefix to others, or back.
*/
int ha_frond::step_index(uchar *record, bool forward)
{
    if (int error = begin())
        return error;
    if (at_ != At::Row)
        return step_from_no_row(record, forward);
    if ((range_ == Range::Prefix || (range_ == Range::Part && forward != ascends_)) && !is_semi_consistent_) {
        range_ = Range::Part;
        ascends_ = forward;
        if (int error = cursor_.leave_range(forward))
            return error;
    }
    return end_at(step(record, forward), forward);
}

int ha_frond::index_first(uchar *record)
{
    return read_edge(record, {}, {}, true);
}

int ha_frond::index_last(uchar *record)
{
    return read_edge(record, {}, {}, false);
}

int ha_frond::index_next_same(uchar *record, const uchar *, uint)
{
    if (int error = begin())
        return error;
    return is_point_ ? HA_ERR_END_OF_FILE : step(record, true, search_);
}

/*
  Called for a row that the statement does not want: at READ COMMITTED its lock is released. A join
  may say so after other tables of it, or of a function, have locked rows; then the lock stays.
*/
void ha_frond::unlock_row()
{
    if (is_semi_consistent_) {
        is_semi_consistent_ = false;
        return;
    }
    if (row_lock_ != FROND_NO_LOCK && thd_tx_isolation(table->in_use) <= ISO_READ_COMMITTED &&
        session_->txn() != nullptr && session_->last_locker() == this)
        frond_txn_unlock_last(session_->txn(), nullptr);
}
