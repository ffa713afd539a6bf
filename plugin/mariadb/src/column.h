/* Where a column lies in the server's record and how it is encoded. SPDX-License-Identifier: GPL-2.0-only */
#ifndef FROND_COLUMN_H
#define FROND_COLUMN_H

#include "text_of_weights.h"

#include <cstdint>

namespace frond {

/* How the bytes of a column in a record are to be understood. */
enum class Kind : uint8_t {
    Signed,       /* little-endian, two's complement, `length` bytes */
    Unsigned,     /* little-endian, `length` bytes */
    Float,        /* 4 bytes, IEEE */
    Double,       /* 8 bytes, IEEE */
    Sorted,       /* `length` bytes that sort as they lie: DECIMAL, UUID, INET6, BIT, old temporals with fractions */
    Date,         /* 3 bytes, bit fields */
    Datetime,     /* 5 bytes, big-endian bit fields, then a fraction */
    Timestamp,    /* 4 bytes, big-endian seconds, then a fraction */
    Time,         /* 3 bytes, big-endian bit fields with a sign, then a fraction */
    Fixed_binary, /* BINARY(n) */
    Char,         /* `length` bytes, padded with the character set's space */
    Variable,     /* `length_bytes` of length, then up to `length` bytes: VARCHAR, VARBINARY */
    Blob,         /* `length_bytes` of length, then a pointer: TEXT, BLOB, JSON, GEOMETRY */
};

/*
  Compiled from a Field when a table is opened, so that no Field is asked for each row. Offsets are from the begin of a
  record: it serves record[0], record[1] and every other copy.
*/
struct Column {
    explicit Column(const Field *field, const uchar *record);

    bool is_null(const uchar *record) const { return null_bit != 0 && (record[null_offset] & null_bit) != 0; }
    void set_null(uchar *record) const { record[null_offset] |= null_bit; }
    void set_not_null(uchar *record) const { record[null_offset] &= static_cast<uchar>(~null_bit); }
    bool is_fixed() const { return kind < Kind::Char; }
    /* Sorts by weights, not by its bytes. */
    bool is_text() const { return kind >= Kind::Char && charset != &my_charset_bin; }

    Kind kind;
    uint8_t length_bytes;
    uchar null_bit; /* 0: NOT NULL */
    uint16_t index; /* of the field in its table */
    uint32_t offset;
    uint32_t null_offset;
    uint32_t length;
    CHARSET_INFO *charset;
    bool pads_bytes; /* The character set pads with a byte that is a space. */
    /*
      The key tells most values of the column; for others, see `is_told`, they are kept beside the key. Where they are read
      from, an empty value means that the key tells it, so that the key is decoded first.
    */
    bool is_mostly_told = false;
    const Text_of_weights *text = nullptr; /* Of text that is mostly told. */
};

inline uint64_t read_little_endian(const uchar *data, uint length)
{
    uint64_t value = 0;
    memcpy(&value, data, length);
    return value;
}

/* The low `length` bytes of a number, big-endian. */
inline void write_big_endian(uint8_t *out, uint64_t value, uint length)
{
    uint64_t swapped = __builtin_bswap64(value);
    memcpy(out, reinterpret_cast<const uint8_t *>(&swapped) + 8 - length, length);
}

inline uint64_t read_big_endian(const uint8_t *data, uint length)
{
    /* Lengths that the compiler knows cost no call. */
    if (length == 4) {
        uint32_t word;
        memcpy(&word, data, 4);
        return __builtin_bswap32(word);
    }
    uint64_t value = 0;
    if (length == 8) {
        memcpy(&value, data, 8);
        return __builtin_bswap64(value);
    }
    memcpy(reinterpret_cast<uint8_t *>(&value) + 8 - length, data, length);
    return __builtin_bswap64(value);
}

/*
  A column of fixed length in the form that sorts by its bytes, of the same length. Bit fields of times become numbers of
  mixed radix, in which one second after another is one number after another: the engine keeps those as differences.
*/
void encode_fixed(const Column &column, const uchar *data, uint8_t *out);
/* Turns encode_fixed back. */
void decode_fixed(const Column &column, const uint8_t *in, uchar *data);
/* What the engine may know of the bytes: FROND_HINT_*. */
int hint_of(const Column &column);

/* The same, quicker for the integers that most columns are. */
inline void decode_word_or_fixed(const Column &column, const uint8_t *in, uchar *data)
{
    if (column.length == 4 && (column.kind == Kind::Signed || column.kind == Kind::Unsigned)) {
        uint32_t flip = column.kind == Kind::Signed ? 1U << 31 : 0;
        uint32_t value = static_cast<uint32_t>(read_big_endian(in, 4)) ^ flip;
        memcpy(data, &value, 4);
    } else if (column.length == 8 && (column.kind == Kind::Signed || column.kind == Kind::Unsigned)) {
        uint64_t flip = column.kind == Kind::Signed ? 1ULL << 63 : 0;
        uint64_t value = read_big_endian(in, 8) ^ flip;
        memcpy(data, &value, 8);
    } else {
        decode_fixed(column, in, data);
    }
}

inline bool is_minus_zero(const Column &column, const uchar *data)
{
    return (column.kind == Kind::Double && read_little_endian(data, 8) == uint64_t(1) << 63) ||
           (column.kind == Kind::Float && read_little_endian(data, 4) == uint64_t(1) << 31);
}

/* Whether the key tells this content of a column that it tells mostly: -0.0 has the key of 0.0. */
inline bool is_told(const Column &column, const uchar *content, size_t length)
{
    return column.is_mostly_told &&
           (column.text != nullptr ? column.text->is_told(content, length) : !is_minus_zero(column, content));
}

/* The content of a column of variable length: of CHAR without the spaces at its end. */
inline const uchar *content(const Column &column, const uchar *data, size_t *length)
{
    switch (column.kind) {
    case Kind::Char:
        *length = column.charset->lengthsp(reinterpret_cast<const char *>(data), column.length);
        return data;
    case Kind::Variable:
        *length = column.length_bytes == 1 ? data[0] : uint2korr(data);
        return data + column.length_bytes;
    case Kind::Blob: {
        const uchar *pointer;
        *length = read_little_endian(data, column.length_bytes);
        memcpy(&pointer, data + column.length_bytes, sizeof pointer);
        return pointer;
    }
    default:
        *length = column.length;
        return data;
    }
}

/* Puts content into a record; a BLOB points to it, others copy. False if it does not fit. */
inline bool put_content(const Column &column, const uint8_t *bytes, size_t length, uchar *data)
{
    switch (column.kind) {
    case Kind::Char:
        if (length > column.length)
            return false;
        memcpy(data, bytes, length);
        if (length == column.length)
            return true;
        if (column.pads_bytes)
            memset(data + length, ' ', column.length - length);
        else
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
        /* In keys, BINARY(0) is text: parts of a fixed width have one. */
        return length == 0 && column.length == 0;
    }
}

}  // namespace frond

#endif
