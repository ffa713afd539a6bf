/* SPDX-License-Identifier: GPL-2.0-only */
#include "weights.h"

#include "column.h"

#include <vector>

namespace frond {
namespace {

inline void put(std::string *out, uint8_t byte)
{
    out->push_back(static_cast<char>(byte));
    if (byte == 0)
        out->push_back('\xFF');
}

inline void put_end(std::string *out)
{
    out->push_back('\0');
    out->push_back('\1');
}

/* Writes a unit in one to three bytes that sort as the units do. */
inline void put_unit(const uint8_t *unit, uint width, std::string *out)
{
    if (width == 2 || width == 3) {
        uint value = width == 2 ? unit[0] << 8 | unit[1] : unit[0] << 16 | unit[1] << 8 | unit[2];
        if (value < 0x80) {
            put(out, static_cast<uint8_t>(value));
            return;
        }
        value -= 0x80;
        if (value < 0x4000) {
            put(out, static_cast<uint8_t>(0x80 | value >> 8));
            put(out, static_cast<uint8_t>(value));
            return;
        }
        value -= 0x4000;
        put(out, static_cast<uint8_t>(0xC0 | value >> 16));
        put(out, static_cast<uint8_t>(value >> 8));
        put(out, static_cast<uint8_t>(value));
        return;
    }
    for (uint i = 0; i < width; i++)
        put(out, unit[i]);
}

void put_run(size_t run, uint8_t flip, std::string *out)
{
    for (; run >= 255; run -= 255)
        put(out, 255 ^ flip);
    put(out, static_cast<uint8_t>(run) ^ flip);
}

}  // namespace

Weights::Weights(CHARSET_INFO *charset) : charset_(charset), pads_(!(charset->state & MY_CS_NOPAD))
{
    const bool is_binary = charset->state & MY_CS_BINSORT;
    is_big5_ = strcmp(charset->cs_name.str, "big5") == 0 && !is_binary;
    ends_at_nul_ = strcmp(charset->cs_name.str, "tis620") == 0 && !is_binary && !pads_;
    if (is_big5_) {
        level_[0].width = 2;
        level_[0].pads = pads_;
        level_[0].space[1] = charset->sort_order[static_cast<uchar>(' ')];
        return;
    }
    uint order = charset->levels_for_order;
    uint8_t space[8];
    uint space_length = charset->mbminlen;
    charset->fill(reinterpret_cast<char *>(space), space_length, ' ');
    if (charset->uca == nullptr && (order & (order - 1)) != 0)
        is_opaque_ = true; /* Several levels in a private form of the collation. */
    levels_ = 0;
    for (uint bit = 0; bit < 6 && !is_opaque_; bit++) {
        uint flag = MY_STRXFRM_LEVEL1 << bit;
        if (!(order & flag))
            continue;
        Level &level = level_[levels_++];
        uint8_t weight[64];
        level.flag = flag;
        level.pads = pads_ || (charset->uca != nullptr && bit > 0);
        level.width = static_cast<uint>(
            charset->coll->strnxfrm(charset, weight, sizeof weight, 1, space, space_length, flag));
        if (level.width == 0 || level.width > level.space.size())
            is_opaque_ = true; /* A space that is ignored, or a weight in an unknown form. */
        else
            memcpy(level.space.data(), weight, level.width);
    }
    if (levels_ == 0)
        is_opaque_ = true;
    if (is_opaque_)
        levels_ = 1;
    if (is_opaque_ || levels_ > 1 || ends_at_nul_)
        return;
    const uint unit = static_cast<uint>(read_big_endian(level_[0].space.data(), level_[0].width));
    text_ = Text_of_weights::of(charset, {level_[0].width, unit, level_[0].pads});
}

void Weights::append(const uchar *text, size_t length, size_t chars, std::string *out) const
{
    static thread_local std::vector<uint8_t> units;
    if (is_opaque_) {
        size_t wanted = charset_->strnxfrmlen(chars * charset_->mbmaxlen);
        if (pads_)
            length = charset_->lengthsp(reinterpret_cast<const char *>(text), length);
        units.resize(wanted);
        uint flags = pads_ ? MY_STRXFRM_PAD_WITH_SPACE | MY_STRXFRM_PAD_TO_MAXLEN : 0;
        size_t got = charset_->coll->strnxfrm(charset_, units.data(), wanted, static_cast<uint>(chars), text,
                                              static_cast<uint>(length), flags);
        append_escaped(units.data(), got, out);
        return;
    }
    for (uint i = 0; i < levels_; i++) {
        size_t got = units_of(level_[i], text, length, &units);
        append_level(level_[i], units.data(), got, out);
    }
}

size_t Weights::units_of(const Level &level, const uchar *text, size_t length, std::vector<uint8_t> *units) const
{
    /*
      Lengths of weights are given for columns: as many characters as fit, each of maximum length.
    */
    size_t room = charset_->strnxfrmlen(length * charset_->mbmaxlen) + 8;
    if (units->size() < room)
        units->resize(room);
    if (!is_big5_) {
        size_t got = charset_->coll->strnxfrm(charset_, units->data(), room, static_cast<uint>(room), text,
                                              static_cast<uint>(length), level.flag);
        const void *nul = ends_at_nul_ ? memchr(units->data(), 0, got) : nullptr;
        return nul == nullptr ? got : static_cast<size_t>(static_cast<const uint8_t *>(nul) - units->data());
    }
    size_t got = 0;
    for (const uchar *end = text + length; text < end; got += 2) {
        if (charset_->charlen(text, end) == 2) {
            memcpy(units->data() + got, text, 2);
            text += 2;
            continue;
        }
        /* A byte that starts no character sorts after all characters. */
        bool is_whole = *text < 0x80;
        (*units)[got] = is_whole ? 0 : 0xFF;
        (*units)[got + 1] = is_whole ? charset_->sort_order[*text] : *text;
        text++;
    }
    return got;
}

void Weights::append_level(const Level &level, const uint8_t *units, size_t length, std::string *out) const
{
    const uint width = level.width;
    const uint8_t *space = level.space.data();
    size_t whole = length / width * width;
    if (!level.pads) {
        for (size_t at = 0; at < whole; at += width)
            put_unit(units + at, width, out);
        for (size_t at = whole; at < length; at++)
            put(out, units[at]);
        put_end(out);
        return;
    }
    size_t at = 0;
    while (at < whole) {
        if (memcmp(units + at, space, width) != 0) {
            put_unit(units + at, width, out);
            at += width;
            continue;
        }
        size_t run = 0;
        for (; at < whole && memcmp(units + at, space, width) == 0; at += width)
            run++;
        if (at >= whole)
            break;
        put_unit(space, width, out);
        bool above = memcmp(units + at, space, width) > 0;
        put(out, above ? ABOVE_SPACE : BELOW_SPACE);
        put_run(run, above ? 0xFF : 0, out);
    }
    put_unit(space, width, out);
    put(out, END_OF_TEXT);
    put_end(out);
}

void append_escaped(const uint8_t *bytes, size_t length, std::string *out)
{
    const uint8_t *end = bytes + length;
    while (bytes < end) {
        const void *zero = memchr(bytes, 0, static_cast<size_t>(end - bytes));
        const uint8_t *stop = zero == nullptr ? end : static_cast<const uint8_t *>(zero);
        out->append(reinterpret_cast<const char *>(bytes), static_cast<size_t>(stop - bytes));
        if (zero == nullptr)
            break;
        put(out, 0);
        bytes = stop + 1;
    }
    put_end(out);
}

}  // namespace frond
