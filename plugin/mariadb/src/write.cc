/* Rows that are inserted, changed and deleted. SPDX-License-Identifier: GPL-2.0-only */
#include "ha_frond.h"

#include "errors.h"

using namespace frond;

namespace {

constexpr uint64_t ROW_IDS_AT_ONCE = 256;

/* Where an entry's key and value lie while the string that holds them still grows. */
struct Span {
    size_t key, value, end;
};

std::string_view cut(const std::string &bytes, size_t from, size_t to)
{
    return std::string_view(bytes).substr(from, to - from);
}

}  // namespace

void ha_frond::append_row_key(const uchar *record, std::string *out) const
{
    if (plan().has_primary())
        plan().primary_key().append_record(record, out);
    else
        out->append(row_key_);
}

bool ha_frond::append_entry(const Index &index, const uchar *record, std::string_view row_key, std::string *key,
                            std::string *value) const
{
    bool has_null = index.key.append_record(record, key);
    bool is_unique = index.is_unique && !has_null;
    if (!is_unique)
        key->append(row_key);
    index.entry->encode(record, row_key, value);
    return is_unique;
}

int ha_frond::write_row(const uchar *record)
{
    if (table->next_number_field != nullptr && record == table->record[0])
        if (int error = update_auto_increment())
            return error;
    if (int error = begin())
        return error;

    static thread_local std::vector<Span> spans;
    static thread_local std::string row_key, value;
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
            if (int code = frond_tree_reserve(share_->row_tree(), ROW_ID_COUNTER, 1, ROW_IDS_AT_ONCE, &next_row_id_,
                                              session_->error()))
                return session_->fail(code);
            row_ids_end_ = next_row_id_ + ROW_IDS_AT_ONCE;
        }
        row_key.resize(ROW_ID_BYTES);
        write_big_endian(reinterpret_cast<uint8_t *>(&row_key[0]), next_row_id_++, ROW_ID_BYTES);
        row_key_ = row_key;
    }
    spans.push_back({0, row_key.size(), 0});
    bytes_.append(row_key);
    plan().row->encode(record, &bytes_);
    spans.back().end = bytes_.size();
    /* A hidden number is given out once. Numbers of AUTO_INCREMENT may be inserted by others, too, and are looked for. */
    entries_.push_back({share_->row_tree(), nullptr, 0, nullptr, 0, true, !plan().has_primary()});
    entry_index_.push_back(plan().primary);
    for (uint i = 0; i < keys; i++) {
        if (i == plan().primary)
            continue;
        Span span;
        span.key = bytes_.size();
        value.clear();
        bool is_unique = append_entry(plan().indexes[i], record, row_key, &bytes_, &value);
        span.value = bytes_.size();
        bytes_.append(value);
        span.end = bytes_.size();
        spans.push_back(span);
        entries_.push_back({share_->tree(i), nullptr, 0, nullptr, 0, is_unique, false});
        entry_index_.push_back(i);
    }
    const uint8_t *base = raw(bytes_);
    for (size_t i = 0; i < spans.size(); i++) {
        entries_[i].key = base + spans[i].key;
        entries_[i].key_length = spans[i].value - spans[i].key;
        entries_[i].value = base + spans[i].value;
        entries_[i].value_length = spans[i].end - spans[i].value;
    }
    frond_conflict conflict = {-1, conflict_buffer_};
    int code = frond_txn_insert_row(session_->txn(), entries_.data(), entries_.size(),
                                    conflicts_are_written_ ? FROND_EXCLUSIVE : FROND_SHARED, &conflict,
                                    session_->error());
    conflict_buffer_ = conflict.value;
    if (code != FROND_OK)
        return session_->fail(code);
    if (conflict.index >= 0)
        return duplicate(entries_.data(), conflict, record);
    session_->wrote();
    if (table->next_number_field != nullptr && record == table->record[0])
        raise_auto_increment();
    return 0;
}

/* Says which key is in the way, and where the row is that has it. */
int ha_frond::duplicate(const frond_entry *entries, const frond_conflict &conflict, const uchar *record)
{
    const uint number = entry_index_[static_cast<size_t>(conflict.index)];
    lookup_errkey = errkey = number;
    if (dup_ref == nullptr)
        return HA_ERR_FOUND_DUPP_KEY;
    if (number == plan().primary) {
        key_copy(dup_ref, const_cast<uchar *>(record), &table->key_info[number], ref_length, true);
        return HA_ERR_FOUND_DUPP_KEY;
    }
    std::string_view row_key;
    if (!plan().indexes[number].entry->decode(view(conflict.value.data, conflict.value.length), nullptr, &row_key))
        return HA_ERR_CRASHED;
    if (!plan().has_primary()) {
        memcpy(dup_ref, row_key.data(), std::min<size_t>(row_key.size(), ref_length));
        return HA_ERR_FOUND_DUPP_KEY;
    }
    /* A position is the primary key in the server's format, which weights do not tell: the row does. */
    frond_read_options options;
    frond_read_options_init(&options);
    options.sees = FROND_NEWEST;
    uchar *scratch = reinterpret_cast<uchar *>(&scratch_record_[0]);
    int code = frond_txn_read(session_->txn(), share_->row_tree(), raw(row_key), row_key.size(), &options,
                              &row_buffer_, nullptr, session_->error());
    if (code != FROND_OK)
        return session_->fail(code);
    if (!plan().row->decode(view(row_buffer_.data, row_buffer_.length), nullptr, scratch) ||
        !plan().primary_key().decode(row_key, scratch))
        return HA_ERR_CRASHED;
    key_copy(dup_ref, scratch, &table->key_info[plan().primary], ref_length, true);
    return HA_ERR_FOUND_DUPP_KEY;
}

int ha_frond::update_row(const uchar *old_record, const uchar *new_record)
{
    if (int error = begin())
        return error;
    static thread_local std::string old_bytes, new_bytes, old_value, new_value, old_row_key, new_row_key;
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

    /* An entry changes if its key or its value does: a new spelling of the same weights is a change of value alone. */
    auto add = [&](const frond_tree *tree, uint index, Span was, Span is, bool unique) {
        if (cut(old_bytes, was.key, was.end) == cut(new_bytes, is.key, is.end) &&
            was.value - was.key == is.value - is.key)
            return;
        frond_change change = {};
        change.entry.tree = tree;
        change.entry.unique = unique;
        change.has_old = change.has_new = true;
        changes_.push_back(change);
        entry_index_.push_back(index);
        old_spans.push_back(was);
        new_spans.push_back(is);
    };
    Span was = {0, old_row_key.size(), 0}, is = {0, new_row_key.size(), 0};
    old_bytes.append(old_row_key);
    plan().row->encode(old_record, &old_bytes);
    was.end = old_bytes.size();
    new_bytes.append(new_row_key);
    plan().row->encode(new_record, &new_bytes);
    is.end = new_bytes.size();
    add(share_->row_tree(), plan().primary, was, is, true);
    for (uint i = 0; i < table->s->keys; i++) {
        if (i == plan().primary)
            continue;
        const Index &index = plan().indexes[i];
        old_value.clear();
        new_value.clear();
        was.key = old_bytes.size();
        append_entry(index, old_record, old_row_key, &old_bytes, &old_value);
        was.value = old_bytes.size();
        old_bytes.append(old_value);
        was.end = old_bytes.size();
        is.key = new_bytes.size();
        bool unique = append_entry(index, new_record, new_row_key, &new_bytes, &new_value);
        is.value = new_bytes.size();
        new_bytes.append(new_value);
        is.end = new_bytes.size();
        add(share_->tree(i), i, was, is, unique);
    }
    if (changes_.empty())
        return HA_ERR_RECORD_IS_THE_SAME;
    for (size_t i = 0; i < changes_.size(); i++) {
        frond_change &change = changes_[i];
        change.old = raw(old_bytes) + old_spans[i].key;
        change.old_length = old_spans[i].value - old_spans[i].key;
        change.entry.key = raw(new_bytes) + new_spans[i].key;
        change.entry.key_length = new_spans[i].value - new_spans[i].key;
        change.entry.value = raw(new_bytes) + new_spans[i].value;
        change.entry.value_length = new_spans[i].end - new_spans[i].value;
    }
    frond_conflict conflict = {-1, conflict_buffer_};
    int code = frond_txn_update_row(session_->txn(), changes_.data(), changes_.size(),
                                    conflicts_are_written_ ? FROND_EXCLUSIVE : FROND_SHARED, &conflict,
                                    session_->error());
    conflict_buffer_ = conflict.value;
    if (code != FROND_OK)
        return session_->fail(code);
    if (conflict.index >= 0)
        return duplicate(nullptr, conflict, new_record);
    session_->wrote();
    if (table->found_next_number_field != nullptr && new_record == table->record[0] && conflicts_are_written_)
        raise_auto_increment();
    return 0;
}

int ha_frond::delete_row(const uchar *record)
{
    if (int error = begin())
        return error;
    static thread_local std::string row_key, value;
    static thread_local std::vector<Span> spans;
    row_key.clear();
    bytes_.clear();
    spans.clear();
    entries_.clear();
    append_row_key(record, &row_key);
    bytes_.append(row_key);
    spans.push_back({0, bytes_.size(), 0});
    entries_.push_back({share_->row_tree(), nullptr, 0, nullptr, 0, true, false});
    for (uint i = 0; i < table->s->keys; i++) {
        if (i == plan().primary)
            continue;
        size_t from = bytes_.size();
        bool unique = !plan().indexes[i].key.append_record(record, &bytes_) && plan().indexes[i].is_unique;
        if (!unique)
            bytes_.append(row_key);
        spans.push_back({from, bytes_.size(), 0});
        entries_.push_back({share_->tree(i), nullptr, 0, nullptr, 0, unique, false});
    }
    for (size_t i = 0; i < spans.size(); i++) {
        entries_[i].key = raw(bytes_) + spans[i].key;
        entries_[i].key_length = spans[i].value - spans[i].key;
    }
    if (int code = frond_txn_delete_row(session_->txn(), entries_.data(), entries_.size(), session_->error()))
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
    frond_tree_reserve(share_->row_tree(), AUTO_INCREMENT_COUNTER, next, 0, &first, nullptr);
}

void ha_frond::get_auto_increment(ulonglong offset, ulonglong increment, ulonglong wanted, ulonglong *first,
                                  ulonglong *reserved)
{
    const frond_tree *tree = share_->row_tree();
    uint64_t got = 0, next;
    if (frond_tree_reserve(tree, AUTO_INCREMENT_COUNTER, 1, wanted * increment, &got, nullptr) != FROND_OK) {
        *first = ULONGLONG_MAX;
        return;
    }
    if (increment > 1) {
        /*
          The first number of the series offset, offset + increment, ...; the next call goes on in it. An offset beyond the
          increment counts for nothing.
        */
        uint64_t start = offset > increment ? increment : offset;
        if (got > start)
            got = start + (got - start + increment - 1) / increment * increment;
        else
            got = start;
        frond_tree_reserve(tree, AUTO_INCREMENT_COUNTER, got + wanted * increment, 0, &next, nullptr);
    }
    /* A number beyond the column's range is refused by the server when it is stored. */
    *first = got;
    *reserved = wanted;
}
