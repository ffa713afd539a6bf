/* Recovers texts from their keys. SPDX-License-Identifier: GPL-2.0-only */
#ifndef FROND_TEXT_OF_WEIGHTS_H
#define FROND_TEXT_OF_WEIGHTS_H

#include "server.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace frond {

/*
  The form of the units of a collation's weights in keys, after escapes are decoded; see `Weights`.
*/
struct Unit_form {
    uint width;   /* bytes of a unit */
    uint space;   /* the unit of a space */
    bool pads;    /* runs of spaces, and the end, are written as described at `Weights` */
};

/*
  Turns weights back into a text.

  Several characters have the same weight: a and A in most collations. One of them is chosen, a
  lower-case letter if there is one. A text that consists only of chosen characters need not be
  stored next to its key (`is_recoverable`): digits, hexadecimal numbers and addresses are often
  such texts. Only characters of one byte are considered, and those beyond ASCII only in binary
  collations: other characters can depend on those around them.

  There is one object for each collation, for the lifetime of the process.
*/
class Text_of_weights {
public:
    /* Null if texts cannot be recovered from the weights of this collation. */
    static const Text_of_weights *of(CHARSET_INFO *charset, const Unit_form &form);

    /* Whether this text can be recovered from its weights. The empty text always can. */
    bool is_recoverable(const uchar *text, size_t length) const;
    /*
      Replaces `text`: by the text with these weights if it can be recovered, otherwise by some
      other one.
    */
    void decode(std::string_view weights, std::string *text) const;

private:
    Text_of_weights(CHARSET_INFO *charset, const Unit_form &form);

    Unit_form form_;
    std::array<bool, 256> is_chosen_{}; /* the chosen one of the characters with its weight */
    uint first_ = 0;                   /* the unit of chars_[0] */
    std::vector<uint8_t> chars_;       /* 0: no character, except for the unit of NUL */
    uint nul_ = UINT_MAX;              /* the unit of NUL */
};

}  // namespace frond

#endif
