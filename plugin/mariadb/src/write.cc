/* Rows that are inserted, updated and deleted. SPDX-License-Identifier: GPL-2.0-only */
#include "ha_frond.h"

#include "errors.h"

#include <thread>

using namespace frond;

namespace {

constexpr uint64_t ROW_IDS_AT_ONCE = 256;

std::string_view key_of(const std::string &bytes, const Span &span)
{
    return std::string_view(bytes).substr(span.key, span.value - span.key);
}

std::string_view value_of(const std::string &bytes, const Span &span)
{
    return std::string_view(bytes).substr(span.value, span.end - span.value);
}

/* Sets an entry's pointers. Called once the bytes do not grow any more. */
void set_bytes(frond_entry *entry, const std::string &bytes, const Span &span)
{
    std::string_view key = key_of(bytes, span), value = value_of(bytes, span);
    entry->key = key.data();
    entry->key_length = key.size();
    entry->value = value.data();
    entry->value_length = value.size();
}

}  // namespace

/*
  These calls write the prepared entries, to a table in the store or to a temporary one. They return
  codes of the engine.
*/
int ha_frond::insert_entries(frond_conflict *conflict)
{
    if (!share_->is_temporary())
        return frond_txn_insert_row(session_->txn(), entries_.data(), entries_.size(),
                                    conflicts_are_written_ ? FROND_EXCLUSIVE : FROND_SHARED, conflict, session_->error());
    std::vector<frond_temporary_entry> entries;
    for (size_t i = 0; i < entries_.size(); i++) {
        const frond_entry &entry = entries_[i];
        entries.push_back({temporary_tree(entry_index_[i]), entry.key, entry.key_length, entry.value, entry.value_length,
                           entry.unique});
    }
    return frond_temporary_insert_row(writer(), entries.data(), entries.size(), conflict, session_->error());
}

int ha_frond::change_entries(frond_conflict *conflict)
{
    if (is_sequence() && !share_->is_temporary()) {
        const frond_entry &row = changes_[0].entry;
        return frond_txn_put_autonomous(session_->txn(), row.tree, row.key, row.key_length, row.value, row.value_length,
                                        nullptr, session_->error());
    }
    if (!share_->is_temporary())
        return frond_txn_update_row(session_->txn(), changes_.data(), changes_.size(),
                                    conflicts_are_written_ ? FROND_EXCLUSIVE : FROND_SHARED, conflict, session_->error());
    auto moves = [](const frond_change &change) {
        return view(change.old, change.old_length) != view(change.entry.key, change.entry.key_length);
    };
    /* First check whether everything can be written. */
    for (size_t i = 0; i < changes_.size(); i++) {
        const frond_entry &entry = changes_[i].entry;
        if (!entry.unique || !moves(changes_[i]))
            continue;
        int code = frond_temporary_get(temporary_tree(entry_index_[i]), entry.key, entry.key_length, &conflict->value,
                                       session_->error());
        if (code == FROND_OK)
            conflict->index = static_cast<int64_t>(i);
        if (code != FROND_NOT_FOUND)
            return code;
    }
    for (size_t i = 0; i < changes_.size(); i++) {
        const frond_change &change = changes_[i];
        const frond_temporary *tree = temporary_tree(entry_index_[i]);
        if (moves(change))
            if (int code = frond_temporary_delete(writer(), tree, change.old, change.old_length, session_->error()))
                return code;
        if (int code = frond_temporary_put(writer(), tree, change.entry.key, change.entry.key_length,
                                           change.entry.value, change.entry.value_length, session_->error()))
            return code;
    }
    return FROND_OK;
}

int ha_frond::delete_entries()
{
    if (!share_->is_temporary())
        return frond_txn_delete_row(session_->txn(), entries_.data(), entries_.size(), session_->error());
    for (size_t i = 0; i < entries_.size(); i++)
        if (int code = frond_temporary_delete(writer(), temporary_tree(entry_index_[i]), entries_[i].key,
                                              entries_[i].key_length, session_->error()))
            return code;
    return FROND_OK;
}

void ha_frond::append_row_key(const uchar *record, std::string *out) const
{
    if (plan().has_primary())
        plan().primary_key().append_record(record, out);
    else
        out->append(row_key_);
}

Span ha_frond::append_row(const uchar *record, std::string_view row_key, std::string *bytes) const
{
    Span span;
    span.key = bytes->size();
    bytes->append(row_key);
    span.value = bytes->size();
    plan().row->encode(record, bytes);
    span.end = bytes->size();
    return span;
}

Span ha_frond::append_entry(const Index &index, const uchar *record, std::string_view row_key, std::string *bytes,
                            bool *is_unique)
{
    static thread_local std::string value;
    Span span;
    span.key = bytes->size();
    bool has_null = index.key.append_record(record, bytes);
    *is_unique = index.is_unique && !has_null;
    if (!*is_unique)
        bytes->append(row_key);
    span.value = bytes->size();
    value.clear();
    index.entry->encode(record, row_key, &value);
    bytes->append(value);
    span.end = bytes->size();
    return span;
}

/* Writes in a transaction of its own. */
template <typename Write> int ha_frond::write_alone(Write write)
{
    if (int error = begin_copy())
        return error;
    const int error = write();
    const int end = end_copy(error == 0);
    return error != 0 ? error : end;
}

int ha_frond::write_row(const uchar *record)
{
    if (is_sequence() && share_->is_temporary() && copy_ == nullptr)
        return write_alone([&] { return write_row(record); });
    if (load_ == nullptr && is_to_load())
        if (int error = begin_load())
            return error;
    if (table->next_number_field != nullptr && record == table->record[0])
        if (int error = update_auto_increment())
            return error == HA_ERR_AUTOINC_READ_FAILED && numbers_error_ != 0 ? numbers_error_ : error;
    if (int error = load_ == nullptr ? begin() : 0)
        return error;

    static thread_local std::vector<Span> spans;
    static thread_local std::string row_key;
    const size_t keys = table->s->keys;
    spans.clear();
    entries_.clear();
    entry_index_.clear();
    bytes_.clear();
    row_key.clear();
    if (plan().has_primary()) {
        plan().primary_key().append_record(record, &row_key);
    } else {
        if (next_row_id_ == row_ids_end_) {
            if (int code = share_->reserve(ROW_ID_COUNTER, 1, ROW_IDS_AT_ONCE, &next_row_id_, session_->error()))
                return session_->fail(code);
            row_ids_end_ = next_row_id_ + ROW_IDS_AT_ONCE;
        }
        row_key.resize(ROW_ID_BYTES);
        write_big_endian(reinterpret_cast<uint8_t *>(&row_key[0]), next_row_id_++, ROW_ID_BYTES);
        row_key_ = row_key;
    }
    spans.push_back(append_row(record, row_key, &bytes_));
    /*
      A hidden row number is assigned only once, so its key is absent. Others may insert
      AUTO_INCREMENT numbers explicitly, so these are looked up.
    */
    entries_.push_back({share_->row_tree().stored(), nullptr, 0, nullptr, 0, true, !plan().has_primary()});
    entry_index_.push_back(plan().primary);
    for (uint i = 0; i < keys; i++) {
        if (i == plan().primary)
            continue;
        bool is_unique;
        spans.push_back(append_entry(plan().indexes[i], record, row_key, &bytes_, &is_unique));
        entries_.push_back({share_->tree(i).stored(), nullptr, 0, nullptr, 0, is_unique, false});
        entry_index_.push_back(i);
    }
    for (size_t i = 0; i < spans.size(); i++)
        set_bytes(&entries_[i], bytes_, spans[i]);
    if (load_ != nullptr) {
        if (int error = load_entries())
            return error;
    } else {
        frond_conflict conflict = {-1, conflict_buffer_};
        int code = insert_entries(&conflict);
        conflict_buffer_ = conflict.value;
        if (code != FROND_OK)
            return session_->fail(code);
        if (conflict.index >= 0)
            return duplicate(conflict, record);
    }
    session_->wrote();
    if (table->next_number_field != nullptr && record == table->record[0])
        raise_auto_increment();
    return 0;
}

/* Reports which key is in conflict, and the position of the row that has it. */
int ha_frond::duplicate(const frond_conflict &conflict, const uchar *record)
{
    const uint number = entry_index_[static_cast<size_t>(conflict.index)];
    errkey = number;
    session_->met_duplicate(table_share, number);
    if (dup_ref == nullptr)
        return HA_ERR_FOUND_DUPP_KEY;
    if (number == plan().primary) {
        copy_primary(dup_ref, record);
        return HA_ERR_FOUND_DUPP_KEY;
    }
    std::string_view row_key;
    std::string_view entry = view(conflict.value.data, conflict.value.length);
    if (!plan().indexes[number].entry->take_primary(&entry, &row_key))
        return HA_ERR_CRASHED;
    if (!plan().has_primary()) {
        memcpy(dup_ref, row_key.data(), std::min<size_t>(row_key.size(), ref_length));
        return HA_ERR_FOUND_DUPP_KEY;
    }
    /*
      A position is the primary key in the server's format. Weights do not have it, but the row
      does.
    */
    frond_read_options options;
    frond_read_options_init(&options);
    options.sees = FROND_NEWEST;
    uchar *scratch = reinterpret_cast<uchar *>(&scratch_record_[0]);
    int code = share_->row_tree().read(session_->txn(), row_key, options, &row_buffer_, session_->error());
    if (code != FROND_OK)
        return session_->fail(code);
    if (!plan().primary_key().decode(row_key, scratch) ||
        !plan().row->decode(view(row_buffer_.data, row_buffer_.length), nullptr, scratch))
        return HA_ERR_CRASHED;
    copy_primary(dup_ref, scratch);
    return HA_ERR_FOUND_DUPP_KEY;
}

int ha_frond::update_row(const uchar *old_record, const uchar *new_record)
{
    if (is_sequence() && share_->is_temporary() && copy_ == nullptr)
        return write_alone([&] { return update_row(old_record, new_record); });
    if (int error = begin())
        return error;
    static thread_local std::string old_bytes, new_bytes, old_row_key, new_row_key;
    static thread_local std::vector<Span> old_spans, new_spans;
    old_bytes.clear();
    new_bytes.clear();
    old_row_key.clear();
    new_row_key.clear();
    old_spans.clear();
    new_spans.clear();
    changes_.clear();
    entry_index_.clear();
    append_row_key(old_record, &old_row_key);
    append_row_key(new_record, &new_row_key);

    /*
      An entry changes if its key or its value does: a new spelling with the same weights changes
      only the value.
    */
    auto add = [&](const Tree &tree, uint index, Span was, Span is, bool unique) {
        if (key_of(old_bytes, was) == key_of(new_bytes, is) && value_of(old_bytes, was) == value_of(new_bytes, is))
            return;
        frond_change change = {};
        change.entry.tree = tree.stored();
        change.entry.unique = unique;
        change.has_old = change.has_new = true;
        changes_.push_back(change);
        entry_index_.push_back(index);
        old_spans.push_back(was);
        new_spans.push_back(is);
    };
    Span was = append_row(old_record, old_row_key, &old_bytes);
    Span is = append_row(new_record, new_row_key, &new_bytes);
    add(share_->row_tree(), plan().primary, was, is, true);
    for (uint i = 0; i < table->s->keys; i++) {
        if (i == plan().primary)
            continue;
        const Index &index = plan().indexes[i];
        bool was_unique, is_unique;
        was = append_entry(index, old_record, old_row_key, &old_bytes, &was_unique);
        is = append_entry(index, new_record, new_row_key, &new_bytes, &is_unique);
        add(share_->tree(i), i, was, is, is_unique);
    }
    if (changes_.empty())
        return HA_ERR_RECORD_IS_THE_SAME;
    for (size_t i = 0; i < changes_.size(); i++) {
        frond_change &change = changes_[i];
        std::string_view old_key = key_of(old_bytes, old_spans[i]);
        change.old = old_key.data();
        change.old_length = old_key.size();
        set_bytes(&change.entry, new_bytes, new_spans[i]);
    }
    frond_conflict conflict = {-1, conflict_buffer_};
    int code = change_entries(&conflict);
    conflict_buffer_ = conflict.value;
    if (code != FROND_OK)
        return session_->fail(code);
    if (conflict.index >= 0)
        return duplicate(conflict, new_record);
    session_->wrote();
    /* A number that an UPDATE has written is not assigned again either. */
    Field *numbered = table->found_next_number_field;
    if (numbered != nullptr && new_record == table->record[0] &&
        numbered->cmp(numbered->ptr, old_record + numbered->offset(table->record[0])) != 0)
        raise_auto_increment();
    return 0;
}

int ha_frond::delete_row(const uchar *record)
{
    if (int error = begin())
        return error;
    static thread_local std::string row_key;
    static thread_local std::vector<Span> spans;
    row_key.clear();
    bytes_.clear();
    spans.clear();
    entries_.clear();
    append_row_key(record, &row_key);
    bytes_.append(row_key);
    spans.push_back({0, bytes_.size(), bytes_.size()});
    entry_index_.assign(1, plan().primary);
    entries_.push_back({share_->row_tree().stored(), nullptr, 0, nullptr, 0, true, false});
    for (uint i = 0; i < table->s->keys; i++) {
        if (i == plan().primary)
            continue;
        size_t from = bytes_.size();
        bool unique = !plan().indexes[i].key.append_record(record, &bytes_) && plan().indexes[i].is_unique;
        if (!unique)
            bytes_.append(row_key);
        spans.push_back({from, bytes_.size(), bytes_.size()});
        entry_index_.push_back(i);
        entries_.push_back({share_->tree(i).stored(), nullptr, 0, nullptr, 0, unique, false});
    }
    for (size_t i = 0; i < spans.size(); i++)
        set_bytes(&entries_[i], bytes_, spans[i]);
    if (int code = delete_entries())
        return session_->fail(code);
    session_->wrote();
    return 0;
}

void ha_frond::raise_auto_increment()
{
    Field *field = table->found_next_number_field;
    longlong value = field->val_int();
    if (value <= 0 && !(field->flags & UNSIGNED_FLAG))
        return;
    uint64_t number = static_cast<uint64_t>(value), first;
    uint64_t next = number == ULONGLONG_MAX ? number : number + 1;
    if (number > field->get_max_int_value())
        return;
    share_->reserve(AUTO_INCREMENT_COUNTER, next, 0, &first, nullptr);
}

/*
  Begins to take AUTO_INCREMENT numbers. The binlog has only the first number of a statement that it
  logs as a statement, so the statement's numbers must be consecutive. If the number of its rows is
  not known, such a statement takes numbers several times. So it locks a key that no row has, and
  other statements wait until its transaction ends. They lock that key, shared, while they take their
  numbers. Until a statement locks the key of this table for the first time, the others only
  increment a counter instead, and that first statement waits until it is zero.
*/
int ha_frond::begin_numbers(Numbers *numbers)
{
    *numbers = Numbers::FREE;
    THD *thd = table->in_use;
    /*
      No other session numbers rows of a table that is being loaded; and the end of the load would
      wait for the lock.
    */
    if (share_->is_temporary() || load_ != nullptr)
        return 0;
    const bool is_logged = mysql_bin_log.is_open() && (thd->variables.option_bits & OPTION_BIN_LOG) &&
                           !thd->is_current_stmt_binlog_format_row();
    const int command = thd_sql_command(thd);
    const bool is_exclusive = is_logged && command != SQLCOM_INSERT && command != SQLCOM_REPLACE;
    if (!is_exclusive) {
        share_->numbering_unlocked.fetch_add(1);
        if (!share_->numbers_are_locked.load()) {
            *numbers = Numbers::COUNTED;
            return 0;
        }
        share_->numbering_unlocked.fetch_sub(1);
    }
    if (int error = begin())
        return error;
    const int lock = is_exclusive ? FROND_EXCLUSIVE : FROND_SHARED;
    int code = frond_txn_get(session_->txn(), share_->row_tree().stored(), nullptr, 0, lock, FROND_WAIT, &conflict_buffer_,
                             session_->error());
    if (code != FROND_OK && code != FROND_NOT_FOUND)
        return session_->fail(code);
    if (!is_exclusive) {
        *numbers = Numbers::SHARED;
        return 0;
    }
    /* A session either sees this flag before it takes numbers, or is counted below. */
    share_->numbers_are_locked.store(true);
    while (share_->numbering_unlocked.load() > 0)
        std::this_thread::yield();
    return 0;
}

void ha_frond::end_numbers(Numbers numbers)
{
    if (numbers == Numbers::COUNTED)
        share_->numbering_unlocked.fetch_sub(1);
    else if (numbers == Numbers::SHARED)
        frond_txn_unlock_last(session_->txn(), nullptr);
}

void ha_frond::get_auto_increment(ulonglong offset, ulonglong increment, ulonglong wanted, ulonglong *first,
                                  ulonglong *reserved)
{
    Numbers numbers;
    numbers_error_ = begin_numbers(&numbers);
    if (numbers_error_ != 0 || !take_numbers(offset, increment, wanted, first))
        *first = ULONGLONG_MAX;
    else
        *reserved = wanted;
    end_numbers(numbers);
}

bool ha_frond::take_numbers(ulonglong offset, ulonglong increment, ulonglong wanted, ulonglong *first)
{
    uint64_t got = 0, next;
    if (share_->reserve(AUTO_INCREMENT_COUNTER, 1, wanted * increment, &got, nullptr) != FROND_OK)
        return false;
    if (increment > 1) {
        /*
          The first number of the series offset, offset + increment, ...; the next call continues
          it. An offset greater than the increment is ignored.
        */
        uint64_t start = offset > increment ? increment : offset;
        if (got > start)
            got = start + (got - start + increment - 1) / increment * increment;
        else
            got = start;
        share_->reserve(AUTO_INCREMENT_COUNTER, got + wanted * increment, 0, &next, nullptr);
    }
    /* If a number exceeds the column's range, the server refuses it when it is stored. */
    *first = got;
    return true;
}
