/* Keys of a table's trees. SPDX-License-Identifier: GPL-2.0-only */
#ifndef FROND_KEY_CODEC_H
#define FROND_KEY_CODEC_H

#include "column.h"
#include "cursor.h"
#include "weights.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace frond {

/* How much of a column can be recovered from its key. */
enum class Recoverable : uint8_t {
    No,      /* A prefix of a column, or weights that cannot be turned back. */
    Mostly,  /* See Column::is_mostly_recoverable. */
    Fully,
};

/* The least key above all keys that start with `prefix`; empty if there is none. */
std::string successor(std::string_view prefix);

/*
  Converts the declared parts of one key of a table to the key of a tree and back; compiled when the
  table is opened.

  Each part is a flag, if the column may be NULL (0 is NULL, so that NULLs come first), and then
  bytes that sort as the column does and mark their own end. So keys that have the same first parts
  have a common prefix of bytes, and no other key has it. A descending part is the complement of an
  ascending one.
*/
class Key_codec {
public:
    Key_codec(const TABLE *table, const KEY *key);

    /* Appends the key of a record. Returns whether a part of it is NULL. */
    bool append_record(const uchar *record, std::string *out, uint parts = UINT_MAX) const;
    /*
      Allows keys of this index to continue with the columns of the primary key, with which its
      entries end.
    */
    void extend(const TABLE *table, const KEY *key, const KEY *primary);
    /* Appends the first parts of a key in the server's tuple format; `parts` says which. */
    void append_tuple(const uchar *tuple, key_part_map parts, std::string *out) const;
    /* Appends the parts of the tree's key. */
    void append_layout(std::vector<frond_part> *layout) const;
    /*
      Fills the columns of a record that can be recovered from their keys, and returns the length of
      the parts; nothing if the bytes are not such a key. Without a record it only measures. Columns
      that are not in `wanted` (null: all are) are left unchanged, and `skipped`, which may be null,
      is set if there was one.
    */
    std::optional<size_t> decode(std::string_view key, uchar *record, const MY_BITMAP *wanted = nullptr,
                                 bool *skipped = nullptr) const
    {
        return decode(key, record, wanted, skipped, Recoverable::Mostly);
    }
    /* Fills the columns that can be recovered whatever their values are. */
    void decode_certain(std::string_view key, uchar *record) const;
    /*
      Columns that are stored next to the key, always or if their value cannot be recovered; not
      columns of which the key has a prefix.
    */
    const std::vector<Column> &kept() const { return kept_; }
    /* The column of `kept()` that is this field. */
    const Column &kept(uint field) const;
    Recoverable recoverable(uint field) const;
    /* Whether one of these columns can be recovered from keys, always or mostly. */
    bool recovers_any_of(const MY_BITMAP *columns) const;
    /*
      Whether a part is only a prefix of its column; neither the key nor the entry's value has the
      rest.
    */
    bool has_prefixes() const { return has_prefixes_; }
    /* Whether a part is all of this column. */
    bool is_whole(uint field) const;
    /* Whether no part of this key is only a prefix of one of these columns. */
    bool has_no_prefix_of(const MY_BITMAP *columns) const;
    /* Whether keys stay the same when the maximum length of this column, a VARCHAR, grows. */
    bool is_the_same_if_longer(uint field) const;
    /* For each declared part, the number of parts of the tree's key up to its end. */
    std::vector<uint> layout_ends() const;

private:
    struct Part {
        Part(const TABLE *table, const KEY_PART_INFO &info, bool is_primary);

        bool is_nullable() const { return column.null_bit != 0; }

        Column column;
        uint length;        /* Bytes of the column that the key has. */
        uint tuple_length;  /* Bytes in the server's tuple, with its flag and length. */
        uint width;         /* Bytes of a fixed part, without its flag; 0 if its length is variable. */
        bool is_descending;
        bool keeps_spaces;  /* A CHAR whose trailing spaces count, as without PAD SPACE. */
        bool is_whole;      /* Not a prefix of the column. */
        Recoverable recoverable;
        size_t chars;
        std::optional<Weights> weights;
    };

    /* A part of the primary key, and where the server's tuple of this key has its column. */
    struct Extension {
        Part part;
        uint offset;
        key_part_map bit;
    };

    std::optional<size_t> decode(std::string_view key, uchar *record, const MY_BITMAP *wanted, bool *skipped,
                                 Recoverable least) const;
    bool decode_text(const Part &part, std::string *bytes, uchar *record) const;
    void append_tuple_part(const Part &part, const uchar *data, std::string *out) const;
    void append(const Part &part, const uchar *data, size_t length, std::string *out) const;
    void append_null(const Part &part, std::string *out) const;

    std::vector<Part> parts_;
    std::vector<Extension> extension_;
    std::vector<Column> kept_;
    bool has_prefixes_ = false;
    bool is_one_word_ = false; /* One integer that is never NULL: the most common key. */
};

}  // namespace frond

#endif
