/* SPDX-License-Identifier: GPL-2.0-only */
#include "key_codec.h"

#include <algorithm>

namespace frond {
namespace {

void complement(std::string *out, size_t from)
{
    for (size_t i = from; i < out->size(); i++)
        (*out)[i] = static_cast<char>(~(*out)[i]);
}

/* Decodes an escaped part. Returns its length, including its end. */
std::optional<size_t> unescape(std::string_view key, uint8_t flip, std::string *content)
{
    size_t at = 0;
    for (;;) {
        if (at + 1 > key.size())
            return std::nullopt;
        uint8_t byte = static_cast<uint8_t>(key[at]) ^ flip;
        if (byte != 0) {
            if (content != nullptr)
                content->push_back(static_cast<char>(byte));
            at++;
            continue;
        }
        if (at + 2 > key.size())
            return std::nullopt;
        uint8_t next = static_cast<uint8_t>(key[at + 1]) ^ flip;
        at += 2;
        if (next == 1)
            return at;
        if (content != nullptr)
            content->push_back('\0');
    }
}

}  // namespace

std::string successor(std::string_view prefix)
{
    std::string next(prefix);
    while (!next.empty() && static_cast<uint8_t>(next.back()) == 0xFF)
        next.pop_back();
    if (!next.empty())
        next.back() = static_cast<char>(next.back() + 1);
    return next;
}

/*
  The field of a key part may be one that the server has made for a prefix, and is then as short as
  that.
*/
Key_codec::Part::Part(const TABLE *table, const KEY_PART_INFO &info, bool is_primary)
    : column(table->field[info.field->field_index], table->record[0]),
      length(info.length),
      tuple_length(info.store_length),
      width(0),
      is_descending(info.key_part_flag & HA_REVERSE_SORT),
      keeps_spaces(false),
      chars(info.length / (info.field->charset()->mbmaxlen ? info.field->charset()->mbmaxlen : 1))
{
    is_whole = column.kind != Kind::Blob && length >= column.length;
    if (column.is_fixed())
        width = std::min(length, column.length);
    if (column.is_text())
        weights.emplace(column.charset);
    keeps_spaces = column.kind == Kind::Char && (column.charset->state & MY_CS_NOPAD);
    /*
      Rows store the numbers of their key in a fixed width, which has no way to say that the key has
      the value.
    */
    const bool is_float = column.kind == Kind::Float || column.kind == Kind::Double;
    column.text = weights && is_whole ? weights->text() : nullptr;
    column.is_mostly_recoverable = column.text != nullptr || (is_float && is_whole && !is_primary);
    recoverable = Recoverable::No;
    if (column.is_mostly_recoverable)
        recoverable = Recoverable::Mostly;
    else if (is_whole && !column.is_text() && !is_float)
        recoverable = Recoverable::Fully;
}

Key_codec::Key_codec(const TABLE *table, const KEY *key)
{
    for (uint i = 0; i < key->user_defined_key_parts; i++) {
        parts_.emplace_back(table, key->key_part[i], key - table->key_info == static_cast<ptrdiff_t>(table->s->primary_key));
        const Part &part = parts_.back();
        if (part.recoverable != Recoverable::Fully && part.is_whole)
            kept_.push_back(part.column);
        has_prefixes_ |= !part.is_whole;
    }
    if (parts_.size() == 1) {
        const Part &part = parts_.front();
        is_one_word_ = part.width != 0 && part.recoverable == Recoverable::Fully && !part.is_nullable() && !part.is_descending;
    }
}

bool Key_codec::recovers_any_of(const MY_BITMAP *columns) const
{
    return std::any_of(parts_.begin(), parts_.end(), [columns](const Part &part) {
        return part.recoverable != Recoverable::No && bitmap_is_set(columns, part.column.index);
    });
}

bool Key_codec::is_whole(uint field) const
{
    return std::any_of(parts_.begin(), parts_.end(),
                       [field](const Part &part) { return part.is_whole && part.column.index == field; });
}

bool Key_codec::has_no_prefix_of(const MY_BITMAP *columns) const
{
    return std::none_of(parts_.begin(), parts_.end(), [columns](const Part &part) {
        return !part.is_whole && bitmap_is_set(columns, part.column.index);
    });
}

const Column &Key_codec::kept(uint field) const
{
    return *std::find_if(kept_.begin(), kept_.end(), [field](const Column &column) { return column.index == field; });
}

Recoverable Key_codec::recoverable(uint field) const
{
    Recoverable recoverable = Recoverable::No;
    for (const Part &part : parts_)
        if (part.column.index == field)
            recoverable = std::max(recoverable, part.recoverable);
    return recoverable;
}

void Key_codec::append(const Part &part, const uchar *data, size_t length, std::string *out) const
{
    size_t from = out->size();
    if (part.is_nullable())
        out->push_back('\1');
    if (part.width != 0 && part.is_whole) {
        uint8_t fixed[256];
        uchar zero[8] = {};
        encode_fixed(part.column, is_minus_zero(part.column, data) ? zero : data, fixed);
        out->append(reinterpret_cast<const char *>(fixed), part.width);
    } else if (part.width != 0) {
        out->append(reinterpret_cast<const char *>(data), part.width);
    } else if (part.weights) {
        const uchar *end = data + length;
        size_t cut = part.column.charset->charpos(data, end, part.chars);
        part.weights->append(data, std::min(cut, length), part.chars, out);
    } else {
        append_escaped(data, std::min<size_t>(length, part.length), out);
    }
    if (part.is_descending)
        complement(out, from);
}

void Key_codec::append_null(const Part &part, std::string *out) const
{
    size_t from = out->size();
    out->push_back('\0');
    if (part.width != 0)
        out->append(part.width, '\0');
    else
        for (uint level = part.weights ? part.weights->levels() : 1; level > 0; level--)
            append_escaped(nullptr, 0, out);
    if (part.is_descending)
        complement(out, from);
}

bool Key_codec::append_record(const uchar *record, std::string *out, uint parts) const
{
    bool has_null = false;
    for (const Part &part : parts_) {
        if (parts-- == 0)
            break;
        if (part.column.is_null(record)) {
            append_null(part, out);
            has_null = true;
            continue;
        }
        size_t length;
        const uchar *data = content(part.column, record + part.column.offset, &length);
        if (part.keeps_spaces)
            length = part.column.length;
        append(part, data, length, out);
    }
    return has_null;
}

void Key_codec::append_tuple(const uchar *tuple, key_part_map parts, std::string *out) const
{
    const uchar *const begin = tuple;
    const key_part_map asked = parts;
    for (const Part &part : parts_) {
        if (!(parts & 1))
            return;
        parts >>= 1;
        append_tuple_part(part, tuple, out);
        tuple += part.tuple_length;
    }
    if (parts == 0)
        return;
    for (const Extension &extension : extension_) {
        if (!(asked & extension.bit))
            return;
        append_tuple_part(extension.part, begin + extension.offset, out);
    }
}

void Key_codec::append_tuple_part(const Part &part, const uchar *data, std::string *out) const
{
    if (part.is_nullable() && *data++ != 0) {
        append_null(part, out);
        return;
    }
    size_t length = part.length;
    if (part.column.kind == Kind::Variable || part.column.kind == Kind::Blob) {
        length = uint2korr(data);
        data += HA_KEY_BLOB_LENGTH;
    } else if (part.column.kind == Kind::Char && !part.keeps_spaces) {
        length = part.column.charset->lengthsp(reinterpret_cast<const char *>(data), length);
    }
    append(part, data, length, out);
}

void Key_codec::extend(const TABLE *table, const KEY *key, const KEY *primary)
{
    for (uint i = 0; i < primary->user_defined_key_parts; i++) {
        const KEY_PART_INFO &wanted = primary->key_part[i];
        uint offset = 0, found = 0;
        for (; found < key->ext_key_parts; offset += key->key_part[found++].store_length) {
            const KEY_PART_INFO &part = key->key_part[found];
            if (part.field->field_index == wanted.field->field_index && part.length >= wanted.length)
                break;
        }
        if (found == key->ext_key_parts)
            return;
        extension_.push_back({Part(table, wanted, true), offset, key_part_map(1) << found});
    }
}

void Key_codec::append_layout(std::vector<frond_part> *layout) const
{
    for (const Part &part : parts_) {
        if (part.is_nullable())
            layout->push_back({FROND_PART_FIXED, 1, FROND_HINT_NONE});
        if (part.width != 0) {
            int hint = part.is_whole ? hint_of(part.column) : FROND_HINT_NONE;
            layout->push_back({FROND_PART_FIXED, static_cast<uint16_t>(part.width), hint});
            continue;
        }
        int kind = part.is_descending ? FROND_PART_ESCAPED_DESCENDING : FROND_PART_ESCAPED;
        for (uint level = part.weights ? part.weights->levels() : 1; level > 0; level--)
            layout->push_back({kind, 0, FROND_HINT_NONE});
    }
}

bool Key_codec::is_the_same_if_longer(uint field) const
{
    return std::none_of(parts_.begin(), parts_.end(), [field](const Part &part) {
        return part.column.index == field && part.is_whole && part.weights && part.weights->go_by_length();
    });
}

std::vector<uint> Key_codec::layout_ends() const
{
    std::vector<uint> ends;
    uint count = 0;
    for (const Part &part : parts_) {
        count += part.is_nullable() + (part.weights ? part.weights->levels() : 1);
        ends.push_back(count);
    }
    return ends;
}

void Key_codec::decode_certain(std::string_view key, uchar *record) const
{
    decode(key, record, nullptr, nullptr, Recoverable::Fully);
}

/* Decodes the content of an escaped part into the record. Overwrites `bytes`. */
bool Key_codec::decode_text(const Part &part, std::string *bytes, uchar *record) const
{
    if (part.column.text == nullptr)
        return put_content(part.column, raw(*bytes), bytes->size(), record + part.column.offset);
    static thread_local std::string text;
    part.column.text->decode(*bytes, &text);
    /*
      A text that cannot be recovered is stored next to the key, so what is decoded here does not
      matter.
    */
    if (text.size() > part.column.length)
        text.clear();
    put_content(part.column, raw(text), text.size(), record + part.column.offset);
    return true;
}

/* Decodes a key. Skips columns of which the key has less than `least`. */
std::optional<size_t> Key_codec::decode(std::string_view key, uchar *record, const MY_BITMAP *wanted, bool *skipped,
                                        Recoverable least) const
{
    if (is_one_word_) {
        const Part &part = parts_.front();
        if (key.size() < part.width)
            return std::nullopt;
        if (record != nullptr && (wanted == nullptr || bitmap_is_set(wanted, part.column.index)))
            decode_word_or_fixed(part.column, raw(key), record + part.column.offset);
        else if (record != nullptr && skipped != nullptr)
            *skipped = true;
        return part.width;
    }
    size_t at = 0;
    for (const Part &part : parts_) {
        uint8_t flip = part.is_descending ? 0xFF : 0;
        bool is_null = false;
        if (part.is_nullable()) {
            if (at >= key.size())
                return std::nullopt;
            is_null = (static_cast<uint8_t>(key[at++]) ^ flip) == 0;
            if (record != nullptr && is_null)
                part.column.set_null(record);
            else if (record != nullptr)
                part.column.set_not_null(record);
        }
        bool fills = record != nullptr && !is_null && part.recoverable >= least;
        if (fills && wanted != nullptr && !bitmap_is_set(wanted, part.column.index)) {
            fills = false;
            if (skipped != nullptr && part.recoverable == Recoverable::Fully)
                *skipped = true;
        }
        if (part.width != 0) {
            if (at + part.width > key.size())
                return std::nullopt;
            if (fills && !part.is_descending) {
                decode_word_or_fixed(part.column, raw(key.substr(at)), record + part.column.offset);
            } else if (fills) {
                uint8_t fixed[256];
                for (uint i = 0; i < part.width; i++)
                    fixed[i] = static_cast<uint8_t>(key[at + i]) ^ flip;
                decode_fixed(part.column, fixed, record + part.column.offset);
            }
            at += part.width;
            continue;
        }
        static thread_local std::string text;
        text.clear();
        for (uint level = part.weights ? part.weights->levels() : 1; level > 0; level--) {
            std::optional<size_t> length = unescape(key.substr(at), flip, fills ? &text : nullptr);
            if (!length)
                return std::nullopt;
            at += *length;
        }
        if (fills && !decode_text(part, &text, record))
            return std::nullopt;
    }
    return at;
}

}  // namespace frond
