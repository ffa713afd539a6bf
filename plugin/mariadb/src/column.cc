/* SPDX-License-Identifier: GPL-2.0-only */
#include "column.h"

namespace frond {
namespace {

Kind kind_of(const Field *field)
{
    switch (field->real_type()) {
    case MYSQL_TYPE_TINY:
    case MYSQL_TYPE_SHORT:
    case MYSQL_TYPE_INT24:
    case MYSQL_TYPE_LONG:
    case MYSQL_TYPE_LONGLONG:
        return field->flags & UNSIGNED_FLAG ? Kind::Unsigned : Kind::Signed;
    case MYSQL_TYPE_YEAR:
    case MYSQL_TYPE_ENUM:
    case MYSQL_TYPE_SET:
    case MYSQL_TYPE_DATE:
    case MYSQL_TYPE_NEWDATE:
        return Kind::Unsigned;
    /* Of mysql56_temporal_format=OFF: little-endian, or big-endian where there are fractions of a second. */
    case MYSQL_TYPE_TIME:
        return field->decimals() == 0 ? Kind::Signed : Kind::Sorted;
    case MYSQL_TYPE_TIMESTAMP:
    case MYSQL_TYPE_DATETIME:
        return field->decimals() == 0 ? Kind::Unsigned : Kind::Sorted;
    case MYSQL_TYPE_FLOAT:
        return Kind::Float;
    case MYSQL_TYPE_DOUBLE:
        return Kind::Double;
    case MYSQL_TYPE_STRING:
        if (field->charset() != &my_charset_bin)
            return Kind::Char;
        return field->binary() && field->type_handler() == &type_handler_string ? Kind::Fixed_binary : Kind::Sorted;
    case MYSQL_TYPE_VARCHAR:
    case MYSQL_TYPE_VARCHAR_COMPRESSED:
        return Kind::Variable;
    case MYSQL_TYPE_TINY_BLOB:
    case MYSQL_TYPE_MEDIUM_BLOB:
    case MYSQL_TYPE_LONG_BLOB:
    case MYSQL_TYPE_BLOB:
    case MYSQL_TYPE_BLOB_COMPRESSED:
    case MYSQL_TYPE_GEOMETRY:
        return Kind::Blob;
    default:
        /* NEWDECIMAL, BIT, TIME2, DATETIME2, TIMESTAMP2, INET4. */
        return Kind::Sorted;
    }
}

constexpr uint64_t sign_bit(uint length)
{
    return uint64_t(1) << (8 * length - 1);
}

}  // namespace

Column::Column(const Field *field, const uchar *record)
    : kind(kind_of(field)),
      length_bytes(0),
      null_bit(field->real_maybe_null() ? field->null_bit : 0),
      index(field->field_index),
      offset(static_cast<uint32_t>(field->ptr - record)),
      null_offset(null_bit != 0 ? static_cast<uint32_t>(field->null_ptr - record) : 0),
      length(field->pack_length()),
      charset(field->charset())
{
    if (kind == Kind::Variable) {
        length_bytes = static_cast<uint8_t>(static_cast<const Field_varstring *>(field)->length_bytes);
        length = field->pack_length() - length_bytes;
    } else if (kind == Kind::Blob) {
        length_bytes = static_cast<uint8_t>(static_cast<const Field_blob *>(field)->pack_length_no_ptr());
        length = 0;
    }
}

void encode_fixed(const Column &column, const uchar *data, uint8_t *out)
{
    switch (column.kind) {
    case Kind::Signed:
        write_big_endian(out, read_little_endian(data, column.length) ^ sign_bit(column.length), column.length);
        return;
    case Kind::Unsigned:
        write_big_endian(out, read_little_endian(data, column.length), column.length);
        return;
    case Kind::Float:
    case Kind::Double: {
        uint64_t bits = read_little_endian(data, column.length), sign = sign_bit(column.length);
        write_big_endian(out, bits & sign ? ~bits : bits | sign, column.length);
        return;
    }
    default:
        memcpy(out, data, column.length);
    }
}

void decode_fixed(const Column &column, const uint8_t *in, uchar *data)
{
    uint64_t value;
    switch (column.kind) {
    case Kind::Signed:
        value = read_big_endian(in, column.length) ^ sign_bit(column.length);
        break;
    case Kind::Unsigned:
        value = read_big_endian(in, column.length);
        break;
    case Kind::Float:
    case Kind::Double: {
        uint64_t bits = read_big_endian(in, column.length), sign = sign_bit(column.length);
        value = bits & sign ? bits ^ sign : ~bits;
        break;
    }
    default:
        memcpy(data, in, column.length);
        return;
    }
    memcpy(data, &value, column.length);
}

int hint_of(const Column &column)
{
    switch (column.kind) {
    case Kind::Signed:
    case Kind::Unsigned:
        return FROND_HINT_INTEGER;
    case Kind::Float:
    case Kind::Double:
        return FROND_HINT_FLOAT;
    case Kind::Sorted:
        return column.length <= 32 ? FROND_HINT_INTEGER : FROND_HINT_NONE;
    default:
        return FROND_HINT_NONE;
    }
}

bool put_content(const Column &column, const uint8_t *bytes, size_t length, uchar *data)
{
    switch (column.kind) {
    case Kind::Char:
        if (length > column.length)
            return false;
        memcpy(data, bytes, length);
        column.charset->fill(reinterpret_cast<char *>(data) + length, column.length - length, ' ');
        return true;
    case Kind::Variable:
        if (length > column.length)
            return false;
        if (column.length_bytes == 1)
            data[0] = static_cast<uchar>(length);
        else
            int2store(data, length);
        memcpy(data + column.length_bytes, bytes, length);
        return true;
    case Kind::Blob:
        memcpy(data, &length, column.length_bytes);
        memcpy(data + column.length_bytes, &bytes, sizeof bytes);
        return true;
    default:
        return false;
    }
}

}  // namespace frond
