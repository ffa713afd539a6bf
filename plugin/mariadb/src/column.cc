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
        return Kind::Unsigned;
    case MYSQL_TYPE_NEWDATE:
        return Kind::Date;
    case MYSQL_TYPE_DATETIME2:
        return Kind::Datetime;
    case MYSQL_TYPE_TIMESTAMP2:
        return Kind::Timestamp;
    case MYSQL_TYPE_TIME2:
        return Kind::Time;
    /*
      With mysql56_temporal_format=OFF: little-endian, or big-endian if there are fractions of a
      second.
    */
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
        /*
          UUID, INET4 and INET6 also have this type and report a character set; they sort by their
          bytes.
        */
        if (field->type_handler() != &type_handler_string)
            return Kind::Sorted;
        return field->charset() != &my_charset_bin ? Kind::Char : Kind::Fixed_binary;
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
        /* NEWDECIMAL, BIT. */
        return Kind::Sorted;
    }
}

constexpr uint64_t sign_bit(uint length)
{
    return uint64_t(1) << (8 * length - 1);
}

/* Bytes of a time before its fraction, which has one byte for every two digits. */
constexpr uint DATETIME_BYTES = 5, TIMESTAMP_BYTES = 4, TIME_BYTES = 3;
constexpr uint64_t DATETIME_SIGN = uint64_t(1) << 39;
constexpr int64_t TIME_OFFSET = 0x800000;
constexpr uint64_t FRACTIONS[] = {1, 100, 10000, 1000000};

uint64_t number_of_date(uint64_t bits)
{
    return ((bits >> 9) * 13 + (bits >> 5 & 15)) * 32 + (bits & 31);
}

uint64_t date_of_number(uint64_t number)
{
    uint64_t months = number / 32;
    return (months / 13) << 9 | (months % 13) << 5 | (number & 31);
}

/* Hours, and below them 6 bits of minutes and 6 of seconds. */
uint64_t seconds_of_bits(uint64_t bits)
{
    return ((bits >> 12) * 60 + (bits >> 6 & 63)) * 60 + (bits & 63);
}

uint64_t bits_of_seconds(uint64_t seconds)
{
    return seconds / 3600 << 12 | seconds / 60 % 60 << 6 | seconds % 60;
}

uint64_t number_of_datetime(const uchar *data, uint fraction)
{
    /* Months (13 in a year), 5 bits of days, 5 of hours, and the rest. */
    uint64_t bits = read_big_endian(data, DATETIME_BYTES) ^ DATETIME_SIGN;
    uint64_t seconds = (bits >> 17) * 86400 + seconds_of_bits(bits & 0x1FFFF);
    return seconds * FRACTIONS[fraction] + read_big_endian(data + DATETIME_BYTES, fraction);
}

void datetime_of_number(uint64_t number, uint fraction, uchar *data)
{
    uint64_t seconds = number / FRACTIONS[fraction];
    uint64_t bits = (seconds / 86400) << 17 | bits_of_seconds(seconds % 86400);
    write_big_endian(data, bits ^ DATETIME_SIGN, DATETIME_BYTES);
    write_big_endian(data + DATETIME_BYTES, number % FRACTIONS[fraction], fraction);
}

/* A negative time is the two's complement of its bit fields and fraction together. */
int64_t number_of_time(const uchar *data, uint fraction)
{
    int64_t bits = static_cast<int64_t>(read_big_endian(data, TIME_BYTES + fraction)) - (TIME_OFFSET << 8 * fraction);
    uint64_t magnitude = static_cast<uint64_t>(bits < 0 ? -bits : bits);
    uint64_t below = magnitude & ((uint64_t(1) << 8 * fraction) - 1);
    int64_t number =
        static_cast<int64_t>(seconds_of_bits(magnitude >> 8 * fraction) * FRACTIONS[fraction] + below);
    return bits < 0 ? -number : number;
}

void time_of_number(int64_t number, uint fraction, uchar *data)
{
    uint64_t magnitude = static_cast<uint64_t>(number < 0 ? -number : number);
    int64_t bits = static_cast<int64_t>(bits_of_seconds(magnitude / FRACTIONS[fraction]) << 8 * fraction |
                                        magnitude % FRACTIONS[fraction]);
    write_big_endian(data, static_cast<uint64_t>((number < 0 ? -bits : bits) + (TIME_OFFSET << 8 * fraction)),
                     TIME_BYTES + fraction);
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
      charset(field->charset()),
      pads_bytes(charset->mbminlen == 1)
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
    case Kind::Date:
        write_big_endian(out, number_of_date(read_little_endian(data, column.length)), column.length);
        return;
    case Kind::Datetime:
        write_big_endian(out, number_of_datetime(data, column.length - DATETIME_BYTES), column.length);
        return;
    case Kind::Timestamp: {
        uint fraction = column.length - TIMESTAMP_BYTES;
        write_big_endian(out,
                         read_big_endian(data, TIMESTAMP_BYTES) * FRACTIONS[fraction] +
                             read_big_endian(data + TIMESTAMP_BYTES, fraction),
                         column.length);
        return;
    }
    case Kind::Time:
        write_big_endian(out,
                         static_cast<uint64_t>(number_of_time(data, column.length - TIME_BYTES)) ^
                             sign_bit(column.length),
                         column.length);
        return;
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
    case Kind::Date:
        value = date_of_number(read_big_endian(in, column.length));
        break;
    case Kind::Datetime:
        datetime_of_number(read_big_endian(in, column.length), column.length - DATETIME_BYTES, data);
        return;
    case Kind::Timestamp: {
        uint fraction = column.length - TIMESTAMP_BYTES;
        uint64_t number = read_big_endian(in, column.length);
        write_big_endian(data, number / FRACTIONS[fraction], TIMESTAMP_BYTES);
        write_big_endian(data + TIMESTAMP_BYTES, number % FRACTIONS[fraction], fraction);
        return;
    }
    case Kind::Time: {
        /* Extends the sign bit of the narrower number to the wider one. */
        uint unused = 64 - 8 * column.length;
        uint64_t number = (read_big_endian(in, column.length) ^ sign_bit(column.length)) << unused;
        time_of_number(static_cast<int64_t>(number) >> unused, column.length - TIME_BYTES, data);
        return;
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
    case Kind::Date:
    case Kind::Datetime:
    case Kind::Timestamp:
    case Kind::Time:
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

}  // namespace frond
