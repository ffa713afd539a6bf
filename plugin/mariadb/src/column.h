/*
  Where a column is in the server's record, and how it is encoded.
  SPDX-License-Identifier: GPL-2.0-only
*/
#ifndef FROND_COLUMN_H
#define FROND_COLUMN_H

#include "text_of_weights.h"

#include <cstdint>

namespace frond {

/* How the bytes of a column in a record are interpreted. */
enum class Kind : uint8_t {
    Signed,       /* little-endian, two's complement, `length` bytes */
    Unsigned,     /* little-endian, `length` bytes */
    Float,        /* 4 bytes, IEEE */
    Double,       /* 8 bytes, IEEE */
    Sorted,       /* `length` bytes that sort as they are: DECIMAL, UUID, INET6, BIT, old temporals with fractions */
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
  A column, compiled from a Field when a table is opened, so that no Field is needed for each row.
  Offsets count from the start of a record, so it serves record[0], record[1] and every other copy.
*/
struct Column {
    explicit Column(const Field *field, const uchar *record);

    bool is_null(const uchar *record) const { return null_bit != 0 && (record[null_offset] & null_bit) != 0; }
    void set_null(uchar *record) const { record[null_offset] |= null_bit; }
    void set_not_null(uchar *record) const { record[null_offset] &= static_cast<uchar>(~null_bit); }
    bool is_fixed() const { return kind < Kind::Char; }
    /* Whether it sorts by weights, not by its bytes. */
    bool is_text() const { return kind >= Kind::Char && charset != &my_charset_bin; }

    Kind kind;
    uint8_t length_bytes;
    uchar null_bit; /* 0: NOT NULL */
    uint16_t index; /* of the field in its table */
    uint32_t offset;
    uint32_t null_offset;
    uint32_t length;
    CHARSET_INFO *charset;
    bool pads_bytes; /* The character set pads with the byte of a space. */
    /*
      Most values of the column can be recovered from the key; the others, see `is_recoverable`, are
      stored next to the key. A stored value that is empty means that the key has it, so the key is
      decoded first.
    */
    bool is_mostly_recoverable = false;
    const Text_of_weights *text = nullptr; /* For text that can mostly be recovered. */
};

inline uint64_t read_little_endian(const uchar *data, uint length)
{
    uint64_t value = 0;
    memcpy(&value, data, length);
    return value;
}

/* Writes the low `length` bytes of a number, big-endian. */
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
  Encodes a column of fixed length in the form that sorts by its bytes, of the same length. Bit
  fields of times become numbers of mixed radix, so that successive seconds are successive numbers:
  the engine stores those as differences.
*/
void encode_fixed(const Column &column, const uchar *data, uint8_t *out);
/* Reverses encode_fixed. */
void decode_fixed(const Column &column, const uint8_t *in, uchar *data);
/* The hint for the engine about the bytes: FROND_HINT_*. */
int hint_of(const Column &column);

/* Decodes like decode_fixed, but faster for integers, which most columns are. */
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

/*
  Whether this content of a column can be recovered from the key, if the column mostly can: -0.0 has
  the key of 0.0.
*/
inline bool is_recoverable(const Column &column, const uchar *content, size_t length)
{
    return column.is_mostly_recoverable &&
           (column.text != nullptr ? column.text->is_recoverable(content, length) : !is_minus_zero(column, content));
}

/* The content of a column of variable length; for CHAR, without the spaces at its end. */
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

/*
  Stores content in a record; a BLOB points to it, other columns copy it. False if it does not fit.
*/
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
        /* In keys, BINARY(0) is text: parts of a fixed width have at least one byte. */
        return length == 0 && column.length == 0;
    }
}

}  // namespace frond

#endif
