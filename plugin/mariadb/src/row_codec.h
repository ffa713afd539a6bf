/* Values of a table's trees. SPDX-License-Identifier: GPL-2.0-only */
#ifndef FROND_ROW_CODEC_H
#define FROND_ROW_CODEC_H

#include "key_codec.h"

#include <string>
#include <string_view>
#include <vector>

namespace frond {

/*
  Some columns of a row: the numbers of the parts of its value that hold them, and how each is read.
*/
struct Projection {
    std::vector<size_t> parts;
    std::vector<Column> columns;
};

/*
  Converts columns of a record to the value of a tree and back; compiled when a table is opened.

  A value is: the version of its layout (two bytes), the record's NULL bits as the server stores
  them, then each column. Columns of fixed length are in the form that sorts, others start with
  their length. A column that is NULL is written as zeros. So the engine sees typed columns, and can
  store each in its smallest form. Virtual columns, and columns that can be recovered from the key,
  are left out. A text that can mostly be recovered is left empty where the key determines it, so
  the key must be decoded first.
*/
class Row_codec {
public:
    /* The codec of a table's rows; `primary` is null if the table has no primary key. */
    Row_codec(const TABLE *table, const Key_codec *primary);

    void encode(const uchar *record, std::string *out) const;
    /*
      Fills a record; only columns of `wanted` (null: all) must be filled. False if the bytes are
      not such a value. BLOBs point into `value`.
    */
    bool decode(std::string_view value, const MY_BITMAP *wanted, uchar *record) const;
    /* Finds the parts that hold the columns of `wanted`. False if those are all columns. */
    bool project(const MY_BITMAP *wanted, Projection *projection) const;
    /* Fills columns of a record from these parts of a value. */
    bool decode(std::string_view parts, const Projection &projection, uchar *record) const;
    void append_layout(std::vector<frond_part> *layout) const;
    bool has_blobs() const { return has_blobs_; }
    /* Whether one of these columns is a BLOB or TEXT. */
    bool has_blobs(const MY_BITMAP *wanted) const;

private:
    const uint8_t *decode_nulls(const uint8_t *at, uchar *record) const;

    void note_blank(Field *field, const Column &column);

    std::vector<Column> columns_;
    /*
      A record that has in its columns the bytes that the server leaves there when they become NULL.
      They matter because the server compares records byte by byte.
    */
    std::vector<uchar> blank_;
    std::vector<uchar> null_mask_;     /* Bits of columns that the value has. */
    std::vector<uchar> null_defaults_; /* The other bits, as the server expects them. */
    size_t fixed_bytes_ = 0;
    bool has_blobs_ = false;
};

/*
  The value of an index entry: the key of its row, if the entry's key does not have it, and columns
  as they were before they became weights.
*/
class Entry_codec {
public:
    Entry_codec(bool has_primary, std::vector<Column> columns)
        : has_primary_(has_primary), columns_(std::move(columns)) {}

    void encode(const uchar *record, std::string_view primary, std::string *out) const;
    /*
      Removes the row's key, if it is there, from the start of the value. False if the bytes are not
      such a value.
    */
    bool take_primary(std::string_view *value, std::string_view *primary) const;
    /*
      Fills columns from the rest of the value, after the key was decoded. False if the bytes are
      not such a value.
    */
    bool decode(std::string_view rest, uchar *record) const;
    void append_layout(std::vector<frond_part> *layout) const;

private:
    bool has_primary_;
    std::vector<Column> columns_;
};

}  // namespace frond

#endif
