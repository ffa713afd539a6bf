/* Texts that are read from their keys. SPDX-License-Identifier: GPL-2.0-only */
#ifndef FROND_TEXT_OF_WEIGHTS_H
#define FROND_TEXT_OF_WEIGHTS_H

#include "server.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace frond {

/* How the units of a collation's weights look in keys, whose escapes are undone; see `Weights`. */
struct Unit_form {
    uint width;   /* bytes of a unit */
    uint space;   /* the unit of a space */
    bool pads;    /* runs of spaces, and the end, are written as `Weights` says */
};

/*
  Turns weights back into a text.

  Several characters have the same weight: a and A in most collations. One of them is taken, a lower-case letter where there
  is one. A text that has no others, as digits, hexadecimal numbers and addresses often have none, need not be kept beside
  its key: `is_told`. Only characters of one byte are looked at, beyond ASCII only in binary collations: other characters
  can depend on those around them.

  One for each collation, for as long as the process runs.
*/
class Text_of_weights {
public:
    /* Null if weights of this collation tell no texts. */
    static const Text_of_weights *of(CHARSET_INFO *charset, const Unit_form &form);

    /* Whether the weights of this text turn back into it. The empty text is always told. */
    bool is_told(const uchar *text, size_t length) const;
    /* Replaces `text`: by the one with these weights if it is told, otherwise by any other. */
    void turn_back(std::string_view weights, std::string *text) const;

private:
    Text_of_weights(CHARSET_INFO *charset, const Unit_form &form);

    Unit_form form_;
    std::array<bool, 256> is_taken_{}; /* of the characters with a weight, the one that it turns back into */
    uint first_ = 0;                   /* unit of chars_[0] */
    std::vector<uint8_t> chars_;       /* 0: no character, but for the unit of NUL */
    uint nul_ = UINT_MAX;              /* the unit of NUL */
};

}  // namespace frond

#endif
