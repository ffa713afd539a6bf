/* Values of a table's trees. SPDX-License-Identifier: GPL-2.0-only */
#ifndef FROND_ROW_CODEC_H
#define FROND_ROW_CODEC_H

#include "key_codec.h"

#include <string>
#include <string_view>
#include <vector>

namespace frond {

/* Some columns of a row: the parts of its value that hold them, by number, and how each is read. */
struct Projection {
    std::vector<size_t> parts;
    std::vector<Column> columns;
};

/*
  Columns of a record as the value of a tree, compiled when a table is opened.

  A value is: the version of its layout (two bytes), the record's NULL bits as the server keeps them, then each column:
  fixed ones in the form that sorts, others with their length before them. A column that is NULL is written as zeros. So
  the engine sees typed columns and can keep each in the form that takes least. Virtual columns, and columns that the
  key tells, are left out. Of text that the key tells mostly, what it tells is left empty: the key is decoded first.
*/
class Row_codec {
public:
    /* Of a table's rows, whose primary key, if there is one (null), is this. */
    Row_codec(const TABLE *table, const Key_codec *primary);

    void encode(const uchar *record, std::string *out) const;
    /*
      Fills a record. Only columns of `wanted` (null: all) need to be filled. False if the bytes are no such value. BLOBs
      point into `value`.
    */
    bool decode(std::string_view value, const MY_BITMAP *wanted, uchar *record) const;
    /* The parts that hold the columns of `wanted`. False if that is all of them. */
    bool project(const MY_BITMAP *wanted, Projection *projection) const;
    /* Fills a record's columns from these parts of a value alone. */
    bool decode(std::string_view parts, const Projection &projection, uchar *record) const;
    void append_layout(std::vector<frond_part> *layout) const;
    bool has_blobs() const { return has_blobs_; }
    /* Whether one of these columns is a BLOB or TEXT. */
    bool has_blobs(const MY_BITMAP *wanted) const;

private:
    const uint8_t *decode_nulls(const uint8_t *at, uchar *record) const;

    void note_blank(Field *field, const Column &column);

    std::vector<Column> columns_;
    /* A record whose columns are as the server leaves them when they become NULL: it compares records as they are. */
    std::vector<uchar> blank_;
    std::vector<uchar> null_mask_;     /* Bits of columns that are in the value. */
    std::vector<uchar> null_defaults_; /* The other bits, as the server expects them. */
    size_t fixed_bytes_ = 0;
    bool has_blobs_ = false;
};

/*
  What an index keeps beside its key: whose entry it is, if the key does not tell, and columns as they were before they
  became weights.
*/
class Entry_codec {
public:
    Entry_codec(bool has_primary, std::vector<Column> columns)
        : has_primary_(has_primary), columns_(std::move(columns)) {}

    void encode(const uchar *record, std::string_view primary, std::string *out) const;
    /* Takes the row's key, if it is in the value, from its begin. False if the bytes are no such value. */
    bool take_primary(std::string_view *value, std::string_view *primary) const;
    /* Fills what the rest of the value tells, after the key was decoded. False if the bytes are no such value. */
    bool decode(std::string_view rest, uchar *record) const;
    void append_layout(std::vector<frond_part> *layout) const;

private:
    bool has_primary_;
    std::vector<Column> columns_;
};

}  // namespace frond

#endif
