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

/* How much of a column its key tells. */
enum class Told : uint8_t {
    Nothing, /* The begin of a column, or weights that are not turned back. */
    Mostly,  /* See Column::is_mostly_told. */
    All,
};

/* The least key above all keys that begin with `prefix`; empty if there is none. */
std::string successor(std::string_view prefix);

/*
  The declared parts of one key of a table, compiled when it is opened.

  Each part is a flag, if the column may be NULL (0 is NULL, so that NULLs come first), and then bytes that sort as the
  column does and tell where they end: keys that share their first parts share a prefix of bytes, and no other key has
  it. A descending part is the complement of an ascending one.
*/
class Key_codec {
public:
    Key_codec(const TABLE *table, const KEY *key);

    /* Appends the key of a record. Returns whether a part of it is NULL. */
    bool append_record(const uchar *record, std::string *out, uint parts = UINT_MAX) const;
    /* The server may go on in a key of this index with columns of the primary key, which entries end with. */
    void extend(const TABLE *table, const KEY *key, const KEY *primary);
    /* Appends the parts of a key in the server's tuple format that `parts` names, from the first on. */
    void append_tuple(const uchar *tuple, key_part_map parts, std::string *out) const;
    /* Appends the parts of the tree's key. */
    void append_layout(std::vector<frond_part> *layout) const;
    /*
      Fills columns of a record that can be read from their keys, and gives the length of the parts; nothing if the bytes
      are no such key. With no record it only measures. Columns that are not in `wanted` (null: all are) are left as they
      are, and `skipped`, which may be null, is set if there was one.
    */
    std::optional<size_t> decode(std::string_view key, uchar *record, const MY_BITMAP *wanted = nullptr,
                                 bool *skipped = nullptr) const
    {
        return decode(key, record, wanted, skipped, Told::Mostly);
    }
    /* Fills the columns that the key tells whatever their values are. */
    void decode_certain(std::string_view key, uchar *record) const;
    /* Columns that are kept beside the key, always or where it does not tell them; no columns of which it has the begin. */
    const std::vector<Column> &kept() const { return kept_; }
    /* The one of them that is this field. */
    const Column &kept(uint field) const;
    Told told(uint field) const;
    /* Whether one of these columns is read from keys, always or mostly. */
    bool gives(const MY_BITMAP *columns) const;
    /* Whether a part is only the begin of its column, which neither the key nor the entry's value tells. */
    bool has_prefixes() const { return has_prefixes_; }
    /* Whether there is no such part of one of these columns. */
    bool tells(const MY_BITMAP *columns) const;
    /* Whether keys stay as they are when this column, a VARCHAR, becomes longer. */
    bool is_the_same_if_longer(uint field) const;
    /* For each declared part, how many parts of the tree's key there are up to its end. */
    std::vector<uint> layout_ends() const;

private:
    struct Part {
        Part(const TABLE *table, const KEY_PART_INFO &info, bool is_primary);

        bool is_nullable() const { return column.null_bit != 0; }

        Column column;
        uint length;        /* Bytes of the column that the key has. */
        uint tuple_length;  /* In the server's tuple, with its flag and length. */
        uint width;         /* Of a fixed part, without its flag; 0 if it is of variable length. */
        bool is_descending;
        bool keeps_spaces;  /* A CHAR whose spaces at the end count, as they do without PAD SPACE. */
        bool is_whole;      /* Not a prefix of the column. */
        Told told;
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
                                 Told least) const;
    bool decode_text(const Part &part, std::string *bytes, uchar *record) const;
    void append_tuple_part(const Part &part, const uchar *data, std::string *out) const;
    void append(const Part &part, const uchar *data, size_t length, std::string *out) const;
    void append_null(const Part &part, std::string *out) const;

    std::vector<Part> parts_;
    std::vector<Extension> extension_;
    std::vector<Column> kept_;
    bool has_prefixes_ = false;
    bool is_one_word_ = false; /* One integer that is never NULL: what most tables have. */
};

}  // namespace frond

#endif
