/*
  A copying ALTER by bulk loads. Rows and entries go into the trees of the new table without log,
  locks and undo. They are sorted, beyond memory if necessary, unless they come in order, and become
  visible in one commit at the end of the copy. Until then the trees are empty: a copy that fails
  leaves nothing. SPDX-License-Identifier: GPL-2.0-only
*/
#include "ha_frond.h"

#include "errors.h"
#include "session.h"

#include "partition_info.h"

using namespace frond;

namespace {

/* Limit for all partitions together, since each load has buffers of its own. */
constexpr size_t MAX_LOADS = 64;

}  // namespace

bool frond::is_copying_alter(THD *thd)
{
    switch (thd_sql_command(thd)) {
    case SQLCOM_ALTER_TABLE:
    case SQLCOM_CREATE_INDEX:
    case SQLCOM_DROP_INDEX:
    case SQLCOM_OPTIMIZE:
        return true;
    default:
        return false;
    }
}

void ha_frond::start_bulk_insert(ha_rows, uint)
{
    is_bulk_insert_ = true;
}

/* The server calls this before HA_EXTRA_END_COPY. */
int ha_frond::end_bulk_insert()
{
    is_bulk_insert_ = false;
    return 0;
}

/*
  Whether the copy uses loads. It cannot in these cases:
  - The server looks for rows in the new table while it copies (UNIQUE over long columns, WITHOUT
    OVERLAPS).
  - The value of a duplicate could not be reported: neither the entry of a prefix nor its key has
    the start of the column.
  - Partitions are reorganized: their rows are copied without a bulk insert, so errors at the end of
    the copy would be lost.
*/
bool ha_frond::is_to_load() const
{
    if (!is_copied_into_ || !is_bulk_insert_ || share_->is_temporary() || is_sequence() || !is_copying_alter(table->in_use))
        return false;
    for (const Index &index : plan().indexes)
        if (index.guarded_parts != 0 || table->key_info[index.number].without_overlaps ||
            (index.is_unique && index.number != plan().primary && index.key.has_prefixes()))
            return false;
    const size_t partitions = table->part_info == nullptr ? 1 : table->part_info->get_tot_partitions();
    return partitions * (plan().indexes.size() + 1) <= MAX_LOADS;
}

int ha_frond::begin_load()
{
    std::unique_ptr<Table_load> load(new Table_load(session_));
    const uint keys = table->s->keys;
    int code = load->fill(keys, share_->row_tree().stored());
    for (uint i = 0; i < keys && code == FROND_OK; i++)
        if (i != plan().primary)
            code = load->fill(i, share_->tree(i).stored());
    if (code != FROND_OK)
        return session_->fail(code);
    load_ = std::move(load);
    return 0;
}

/* Loads the entries that write_row has prepared. */
int ha_frond::load_entries()
{
    for (size_t i = 0; i < entries_.size(); i++) {
        const frond_entry &entry = entries_[i];
        const uint index = i == 0 ? table->s->keys : entry_index_[i];
        if (int code = load_->put(index, view(entry.key, entry.key_length), view(entry.value, entry.value_length)))
            return code == DUPLICATE_KEY ? report_duplicate(code) : session_->fail(code);
    }
    return 0;
}

/*
  Puts the columns of the duplicate key where the server looks for them when it reports the error.
*/
int ha_frond::report_duplicate(int code)
{
    const Table_load::Duplicate *duplicate = load_->duplicate();
    if (duplicate == nullptr)
        return session_->fail(code);
    uchar *record = table->record[0];
    const bool is_row = duplicate->index == table->s->keys;
    const uint number = is_row ? plan().primary : duplicate->index;
    /* BLOBs of the record point into the value, which must outlive the load. */
    frond_buffer_set(&row_buffer_, duplicate->value.data(), duplicate->value.size(), nullptr);
    std::string_view value = view(row_buffer_.data, row_buffer_.length);
    std::string row_key;
    if (is_row ? !decode_row_key(duplicate->key, nullptr, record) || !plan().row->decode(value, nullptr, record)
               : !decode_entry(plan().indexes[number], duplicate->key, value, record, nullptr, &row_key))
        return HA_ERR_CRASHED;
    errkey = number;
    session_->met_duplicate(table_share, number);
    return HA_ERR_FOUND_DUPP_KEY;
}

int ha_frond::end_load(bool keeps)
{
    is_copied_into_ = false;
    if (load_ == nullptr)
        return 0;
    int error = 0;
    if (keeps) {
        /*
          Rows with the same primary key also have the same entries in other indexes if their
          columns are NULL; the row tree goes first, so that the primary key is reported.
        */
        const int code = load_->finish(table->s->keys);
        if (code != FROND_OK)
            error = code == DUPLICATE_KEY ? report_duplicate(code) : session_->fail(code);
    }
    load_.reset();
    if (keeps && error == 0)
        error = share_->reopen();
    return error;
}
