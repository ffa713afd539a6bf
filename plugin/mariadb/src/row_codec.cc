/* SPDX-License-Identifier: GPL-2.0-only */
#include "row_codec.h"

#include "cursor.h"

#include <algorithm>

namespace frond {
namespace {

constexpr size_t VERSION_BYTES = 2;
constexpr size_t LENGTH_BYTES_MAX = 5;

inline uint8_t *put_length(uint8_t *at, size_t length)
{
    for (; length >= 0x80; length >>= 7)
        *at++ = static_cast<uint8_t>(length | 0x80);
    *at++ = static_cast<uint8_t>(length);
    return at;
}

inline bool get_length(const uint8_t *&at, const uint8_t *end, size_t *length)
{
    *length = 0;
    for (uint shift = 0; at < end && shift < 35; shift += 7) {
        uint8_t byte = *at++;
        *length |= static_cast<size_t>(byte & 0x7F) << shift;
        if (byte < 0x80)
            return *length <= static_cast<size_t>(end - at);
    }
    return false;
}

void append_prefixed(const uint8_t *bytes, size_t length, std::string *out)
{
    uint8_t prefix[LENGTH_BYTES_MAX];
    uint8_t *end = put_length(prefix, length);
    out->append(reinterpret_cast<const char *>(prefix), static_cast<size_t>(end - prefix));
    out->append(reinterpret_cast<const char *>(bytes), length);
}

/*
  Steps over a column, and copies it to the record if it is wanted. `blank` has what the server puts
  into columns that are NULL.
*/
inline bool decode_column(const Column &column, const uint8_t **at, const uint8_t *end, bool is_wanted, const uchar *blank,
                          uchar *record)
{
    uchar *data = record + column.offset;
    size_t length = column.length;
    if (column.is_fixed()) {
        if (static_cast<size_t>(end - *at) < length)
            return false;
        if (is_wanted && column.is_null(record))
            memcpy(data, blank + column.offset, length);
        else if (is_wanted)
            decode_word_or_fixed(column, *at, data);
    } else {
        if (!get_length(*at, end, &length))
            return false;
        const bool is_filled = length == 0 && column.is_mostly_recoverable;
        if (is_wanted && !is_filled && !put_content(column, *at, length, data))
            return false;
    }
    *at += length;
    return true;
}

}  // namespace

Row_codec::Row_codec(const TABLE *table, const Key_codec *primary)
{
    const uchar *record = table->record[0];
    uint null_bytes = table->s->null_bytes;
    null_mask_.assign(null_bytes, 0);
    blank_.assign(table->s->reclength, 0);
    null_defaults_.assign(table->s->default_values, table->s->default_values + null_bytes);
    for (uint i = 0; i < table->s->fields; i++) {
        const Field *field = table->field[i];
        const Recoverable recoverable = primary == nullptr ? Recoverable::No : primary->recoverable(i);
        if (!field->stored_in_db() || recoverable == Recoverable::Fully)
            continue;
        const Column column = recoverable == Recoverable::Mostly ? primary->kept(i) : Column(field, record);
        if (column.null_bit != 0)
            null_mask_[column.null_offset] |= column.null_bit;
        fixed_bytes_ += column.is_fixed() ? column.length : LENGTH_BYTES_MAX;
        has_blobs_ |= column.kind == Kind::Blob;
        columns_.push_back(column);
        if (column.null_bit != 0 && column.is_fixed())
            note_blank(table->field[i], column);
    }
    for (uint i = 0; i < null_bytes; i++)
        null_defaults_[i] &= static_cast<uchar>(~null_mask_[i]);
    fixed_bytes_ += VERSION_BYTES + null_bytes;
}

void Row_codec::note_blank(Field *field, const Column &column)
{
    const std::vector<uchar> before(field->ptr, field->ptr + column.length);
    field->reset();
    memcpy(&blank_[column.offset], field->ptr, column.length);
    memcpy(field->ptr, before.data(), column.length);
}

void Row_codec::encode(const uchar *record, std::string *out) const
{
    size_t room = fixed_bytes_;
    for (const Column &column : columns_) {
        if (column.is_fixed() || column.is_null(record))
            continue;
        size_t length;
        content(column, record + column.offset, &length);
        room += length;
    }
    size_t begin = out->size();
    out->resize(begin + room);
    uint8_t *const first = reinterpret_cast<uint8_t *>(&(*out)[begin]);
    uint8_t *at = first;
    *at++ = 0;
    *at++ = 0;
    for (size_t i = 0; i < null_mask_.size(); i++)
        *at++ = record[i] & null_mask_[i];
    for (const Column &column : columns_) {
        const uchar *data = record + column.offset;
        bool is_null = column.is_null(record);
        if (column.is_fixed()) {
            if (is_null)
                memset(at, 0, column.length);
            else
                encode_fixed(column, data, at);
            at += column.length;
            continue;
        }
        size_t length = 0;
        const uchar *bytes = is_null ? data : content(column, data, &length);
        if (is_recoverable(column, bytes, length))
            length = 0;
        at = put_length(at, length);
        if (length != 0)
            memcpy(at, bytes, length);
        at += length;
    }
    out->resize(begin + static_cast<size_t>(at - first));
}

/*
  Decodes the NULL bits, and returns where the columns begin. Bits of columns that are stored in the
  key only are set when the key is decoded.
*/
const uint8_t *Row_codec::decode_nulls(const uint8_t *at, uchar *record) const
{
    for (size_t i = 0; i < null_mask_.size(); i++)
        record[i] = static_cast<uchar>((*at++ & null_mask_[i]) | null_defaults_[i]);
    return at;
}

bool Row_codec::decode(std::string_view value, const MY_BITMAP *wanted, uchar *record) const
{
    const uint8_t *at = raw(value), *const end = at + value.size();
    if (value.size() < VERSION_BYTES + null_mask_.size())
        return false;
    at = decode_nulls(at + VERSION_BYTES, record);
    for (const Column &column : columns_)
        if (!decode_column(column, &at, end, wanted == nullptr || bitmap_is_set(wanted, column.index), blank_.data(),
                           record))
            return false;
    return at == end;
}

bool Row_codec::has_blobs(const MY_BITMAP *wanted) const
{
    return has_blobs_ && std::any_of(columns_.begin(), columns_.end(), [wanted](const Column &column) {
               return column.kind == Kind::Blob && bitmap_is_set(wanted, column.index);
           });
}

bool Row_codec::project(const MY_BITMAP *wanted, Projection *projection) const
{
    size_t part = 1; /* Part 0 is the version. */
    projection->parts.clear();
    projection->columns.clear();
    if (!null_mask_.empty())
        projection->parts.push_back(part++);
    for (const Column &column : columns_) {
        const bool has_part = !column.is_fixed() || column.length != 0; /* See append_layout. */
        if (bitmap_is_set(wanted, column.index)) {
            if (has_part)
                projection->parts.push_back(part);
            projection->columns.push_back(column);
        }
        part += has_part;
    }
    return projection->columns.size() < columns_.size();
}

bool Row_codec::decode(std::string_view parts, const Projection &projection, uchar *record) const
{
    const uint8_t *at = raw(parts), *const end = at + parts.size();
    if (parts.size() < null_mask_.size())
        return false;
    at = decode_nulls(at, record);
    for (const Column &column : projection.columns)
        if (!decode_column(column, &at, end, true, blank_.data(), record))
            return false;
    return at == end;
}

void Row_codec::append_layout(std::vector<frond_part> *layout) const
{
    layout->push_back({FROND_PART_VERSION, 0, FROND_HINT_NONE});
    if (!null_mask_.empty())
        layout->push_back({FROND_PART_FIXED, static_cast<uint16_t>(null_mask_.size()), FROND_HINT_NONE});
    for (const Column &column : columns_) {
        if (column.is_fixed() && column.length == 0)
            continue; /* BINARY(0). */
        if (column.is_fixed())
            layout->push_back({FROND_PART_FIXED, static_cast<uint16_t>(column.length), hint_of(column)});
        else
            layout->push_back({FROND_PART_PREFIXED, 0, FROND_HINT_NONE});
    }
}

void Entry_codec::encode(const uchar *record, std::string_view primary, std::string *out) const
{
    if (has_primary_)
        append_prefixed(raw(primary), primary.size(), out);
    for (const Column &column : columns_) {
        const uchar *data = record + column.offset;
        size_t length = 0;
        const uchar *bytes = column.is_null(record) ? data : content(column, data, &length);
        append_prefixed(bytes, is_recoverable(column, bytes, length) ? 0 : length, out);
    }
}

bool Entry_codec::take_primary(std::string_view *value, std::string_view *primary) const
{
    if (!has_primary_)
        return true;
    const uint8_t *at = raw(*value), *const end = at + value->size();
    size_t length;
    if (!get_length(at, end, &length))
        return false;
    *primary = view(at, length);
    *value = view(at + length, static_cast<size_t>(end - at) - length);
    return true;
}

bool Entry_codec::decode(std::string_view rest, uchar *record) const
{
    const uint8_t *at = raw(rest), *const end = at + rest.size();
    size_t length;
    for (const Column &column : columns_) {
        if (!get_length(at, end, &length))
            return false;
        uchar *data = record + column.offset;
        if (length == 0 && column.is_mostly_recoverable)
            continue;
        if (column.is_fixed() && length == column.length)
            memcpy(data, at, length);
        else if (!column.is_fixed() && !put_content(column, at, length, data))
            return false;
        at += length;
    }
    return at == end;
}

void Entry_codec::append_layout(std::vector<frond_part> *layout) const
{
    size_t parts = columns_.size() + has_primary_;
    for (size_t i = 0; i < parts; i++)
        layout->push_back({FROND_PART_PREFIXED, 0, FROND_HINT_NONE});
    if (parts == 0)
        layout->push_back({FROND_PART_REST, 0, FROND_HINT_NONE});
}

}  // namespace frond
