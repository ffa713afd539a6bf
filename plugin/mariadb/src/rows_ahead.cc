/* SPDX-License-Identifier: GPL-2.0-only */
#include "rows_ahead.h"

#include "cursor.h"
#include "session.h"

namespace frond {
namespace {

/*
  The number of ranges that are taken first, and its growth. It starts small, since a statement may
  end before it has read all of them.
*/
constexpr size_t RANGES_FIRST = 16, RANGES_GROWTH = 4;

}  // namespace

void Rows_ahead::clear()
{
    bytes_.clear();
    ends_.clear();
    at_ = 0;
    is_read_ = false;
}

void Rows_ahead::add(std::string_view key)
{
    bytes_.append(key);
    ends_.push_back(bytes_.size());
}

std::string_view Rows_ahead::key(size_t row) const
{
    const size_t begin = row == 0 ? 0 : ends_[row - 1];
    return std::string_view(bytes_).substr(begin, ends_[row] - begin);
}

int Rows_ahead::read(Session *session, const Tree &tree, const frond_projection *projection, uint64_t projection_number)
{
    keys_.clear();
    for (size_t row = 0; row < ends_.size(); row++)
        keys_.push_back({key(row).data(), key(row).size()});
    values_.resize(keys_.size());
    frond_read_options options;
    frond_read_options_init(&options);
    options.projection = projection;
    if (int code = frond_txn_read_many(session->txn(), tree.stored(), keys_.data(), keys_.size(), &options, &memory_,
                                       values_.data(), nullptr, session->error())) {
        clear();
        return session->fail(code);
    }
    at_ = 0;
    writes_ = session->writes();
    projection_number_ = projection_number;
    is_read_ = true;
    return 0;
}

bool Rows_ahead::find(const Session *session, std::string_view wanted, uint64_t projection_number, frond_bytes *value)
{
    if (!is_current(session, projection_number))
        return false;
    const size_t row = place(wanted);
    if (row == ends_.size())
        return false;
    at_ = row + 1;
    *value = values_[row];
    return true;
}

bool Rows_ahead::has(const Session *session, std::string_view wanted, uint64_t projection_number) const
{
    return is_current(session, projection_number) && place(wanted) != ends_.size();
}

bool Rows_ahead::is_current(const Session *session, uint64_t projection_number) const
{
    return is_read_ && writes_ == session->writes() && projection_number_ == projection_number;
}

bool Rows_ahead::is_stale(const Session *session) const
{
    return is_read_ && writes_ != session->writes();
}

/* Finds a row; rows that the server did not want are skipped. */
size_t Rows_ahead::place(std::string_view wanted) const
{
    size_t row = at_;
    while (row < ends_.size() && key(row) != wanted)
        row++;
    return row;
}

void Rows_ahead::trim(size_t kept_bytes)
{
    clear();
    if (memory_.capacity > kept_bytes)
        frond_buffer_free(&memory_);
}

void Ranges_ahead::begin(const RANGE_SEQ_IF &sequence, void *parameter, uint ranges, uint mode)
{
    sequence_ = sequence;
    iterator_ = sequence_.init(parameter, ranges, mode);
    ranges_.clear();
    at_ = 0;
    wanted_ = RANGES_FIRST;
    is_open_ = true;
    has_ended_ = false;
}

bool Ranges_ahead::fill(size_t ranges_max)
{
    wanted_ = std::min(wanted_, ranges_max);
    ranges_.clear();
    bytes_.clear();
    at_ = 0;
    KEY_MULTI_RANGE range;
    while (!has_ended_ && ranges_.size() < wanted_) {
        has_ended_ = sequence_.next(iterator_, &range);
        if (has_ended_)
            break;
        for (const key_range *end : {&range.start_key, &range.end_key})
            if (end->keypart_map != 0)
                bytes_.append(reinterpret_cast<const char *>(end->key), end->length);
        ranges_.push_back(range);
    }
    const uchar *at = reinterpret_cast<const uchar *>(bytes_.data());
    for (KEY_MULTI_RANGE &copied : ranges_) {
        for (key_range *end : {&copied.start_key, &copied.end_key}) {
            if (end->keypart_map == 0)
                continue;
            end->key = at;
            at += end->length;
        }
    }
    wanted_ *= RANGES_GROWTH;
    return !ranges_.empty();
}

bool Ranges_ahead::next(KEY_MULTI_RANGE *range)
{
    if (at_ == ranges_.size())
        return false;
    *range = ranges_[at_++];
    return true;
}

bool Ranges_ahead::skips(range_id_t range) const
{
    return (sequence_.skip_index_tuple != nullptr && sequence_.skip_index_tuple(iterator_, range)) ||
           (sequence_.skip_record != nullptr && sequence_.skip_record(iterator_, range, nullptr));
}

}  // namespace frond
