/* SPDX-License-Identifier: GPL-2.0-only */
#include "text_of_weights.h"

#include "column.h"
#include "weights.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>

namespace frond {
namespace {

constexpr uint UNITS_MAX = 1 << 16; /* Counted from the first unit; ASCII spans some 4000 in UCA collations. */

bool is_lower_case(uint c)
{
    return c >= 'a' && c <= 'z';
}

/* Reads a unit as `Weights` has written it. */
bool get_unit(const uint8_t *&at, const uint8_t *end, uint width, uint *unit)
{
    const uint first = *at++;
    *unit = first;
    if (width == 1 || first < 0x80)
        return true;
    const uint more = first < 0xC0 ? 1 : 2;
    if (static_cast<size_t>(end - at) < more)
        return false;
    *unit = first & 0x3F;
    for (uint i = 0; i < more; i++)
        *unit = *unit << 8 | *at++;
    *unit += more == 1 ? 0x80 : 0x4080;
    return true;
}

/* Reads the length of a run of spaces as `Weights` has written it. */
size_t get_run(const uint8_t *&at, const uint8_t *end, uint8_t flip)
{
    size_t run = 0;
    while (at < end) {
        uint8_t byte = *at++ ^ flip;
        run += byte;
        if (byte != 255)
            break;
    }
    return run;
}

}  // namespace

const Text_of_weights *Text_of_weights::of(CHARSET_INFO *charset, const Unit_form &form)
{
    static std::mutex mutex;
    static std::map<CHARSET_INFO *, std::unique_ptr<Text_of_weights>> made;
    std::lock_guard<std::mutex> guard(mutex);
    std::unique_ptr<Text_of_weights> &text = made[charset];
    if (text == nullptr)
        text.reset(new Text_of_weights(charset, form));
    return text->chars_.empty() ? nullptr : text.get();
}

Text_of_weights::Text_of_weights(CHARSET_INFO *charset, const Unit_form &form) : form_(form)
{
    /* In a contraction, two characters together have a weight that neither has alone. */
    if (charset->mbminlen != 1 || form.width > 3 ||
        (charset->uca != nullptr && charset->uca->level[0].contractions.nitems != 0))
        return;
    const bool is_one_byte = charset->mbmaxlen == 1 && (charset->state & MY_CS_BINSORT);
    std::map<uint, uint8_t> char_of;
    for (uint c = 0; c < (is_one_byte ? 256 : 128); c++) {
        const uchar byte = static_cast<uchar>(c);
        uchar weight[64];
        if (charset->charlen(&byte, &byte + 1) != 1 ||
            charset->coll->strnxfrm(charset, weight, sizeof weight, 1, &byte, 1, MY_STRXFRM_LEVEL1) != form.width)
            continue;
        const uint unit = static_cast<uint>(read_big_endian(weight, form.width));
        if (unit == form.space && c != ' ')
            continue;
        auto [place, is_new] = char_of.emplace(unit, byte);
        if (!is_new && is_lower_case(c) && !is_lower_case(place->second))
            place->second = byte;
    }
    if (char_of.empty() || char_of.rbegin()->first - char_of.begin()->first > UNITS_MAX)
        return;
    first_ = char_of.begin()->first;
    chars_.assign(char_of.rbegin()->first - first_ + 1, 0);
    for (const auto &[unit, byte] : char_of) {
        chars_[unit - first_] = byte;
        is_chosen_[byte] = true;
        if (byte == 0)
            nul_ = unit;
    }
}

bool Text_of_weights::is_recoverable(const uchar *text, size_t length) const
{
    if (length != 0 && form_.pads && text[length - 1] == ' ')
        return false;
    return std::all_of(text, text + length, [this](uchar byte) { return is_chosen_[byte]; });
}

void Text_of_weights::decode(std::string_view weights, std::string *text) const
{
    text->clear();
    const uint8_t *at = reinterpret_cast<const uint8_t *>(weights.data()), *const end = at + weights.size();
    while (at < end) {
        uint unit;
        if (!get_unit(at, end, form_.width, &unit))
            return;
        if (form_.pads && unit == form_.space) {
            if (at == end || *at == END_OF_TEXT)
                return;
            const uint8_t marker = *at++;
            text->append(get_run(at, end, marker == ABOVE_SPACE ? 0xFF : 0), ' ');
            continue;
        }
        if (unit < first_ || unit - first_ >= chars_.size())
            return;
        const uint8_t byte = chars_[unit - first_];
        if (byte == 0 && unit != nul_)
            return;
        text->push_back(static_cast<char>(byte));
    }
}

}  // namespace frond
