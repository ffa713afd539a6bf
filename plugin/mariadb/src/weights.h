/*
  Sort keys: strings encoded so that memcmp orders them as their collation does.
  SPDX-License-Identifier: GPL-2.0-only
*/
#ifndef FROND_WEIGHTS_H
#define FROND_WEIGHTS_H

#include "text_of_weights.h"

#include <array>
#include <string>
#include <vector>

namespace frond {

/* What follows a run of spaces in a key. */
enum Space_marker : uint8_t { BELOW_SPACE = 1, END_OF_TEXT = 2, ABOVE_SPACE = 3 };

/*
  Converts strings of a collation to keys.

  The naive key is what filesort uses: the weights of the string, padded with the weight of the
  space to the column's full length. It is correct, but a VARCHAR(255) takes 510 bytes however short
  its values are. With PAD SPACE, keys are made as follows:
  1. Weights are a sequence of units as wide as the weight of the space. Spaces at the end are
     dropped.
  2. A run of spaces becomes one space, a marker and the run's length. The marker says what follows
     the run: a unit below the space (1), the end (2), or a unit above (3). If it is below, longer
     runs sort later; if above, they sort earlier.
  3. The end is written as an empty run: a space and the marker 2. If one key has ended where two
     first differ, the other's next unit is compared with a space, as the collation does.
  4. Units of two and three bytes are written in one to three bytes, in an order-preserving form:
     ASCII text of utf8mb4_general_ci takes one byte per character.

  Without padding, only step 4 is done. Collations with several levels write one such string per
  level; NO PAD applies only to the first of them, as in the server's comparison.
*/
class Weights {
public:
    explicit Weights(CHARSET_INFO *charset);

    /* Number of strings in a key: the levels of the collation. */
    uint levels() const { return levels_; }
    /* Whether keys depend on the length of the column, even for shorter values. */
    bool go_by_length() const { return is_opaque_; }
    /* How texts are recovered from their keys; null if they cannot be. */
    const Text_of_weights *text() const { return text_; }
    /*
      Appends the strings, each ending as FROND_PART_ESCAPED says. `chars` is the length of the
      column in characters, used for collations that only have the padded form.
    */
    void append(const uchar *text, size_t length, size_t chars, std::string *out) const;

private:
    struct Level {
        uint flag = 0;
        uint width = 0;
        bool pads = true;
        std::array<uint8_t, 8> space{};
    };

    /* Computes the weights of a text on a level, unit after unit. Returns their length in bytes. */
    size_t units_of(const Level &level, const uchar *text, size_t length, std::vector<uint8_t> *units) const;
    void append_level(const Level &level, const uint8_t *units, size_t length, std::string *out) const;

    CHARSET_INFO *charset_;
    bool pads_;
    /*
      big5_chinese_ci compares characters by their codes; strnxfrm, by which ORDER BY sorts, gives
      the same weight to many of them.
    */
    bool is_big5_ = false;
    /* tis620_thai_nopad_ci compares up to the first NUL. */
    bool ends_at_nul_ = false;
    /* Only weights padded to the full length sort correctly. */
    bool is_opaque_ = false;
    const Text_of_weights *text_ = nullptr;
    uint levels_ = 1;
    std::array<Level, 6> level_{};
};

/*
  Appends bytes and an end, so that shorter strings sort before longer ones: 00 becomes 00 FF, the
  end is 00 01.
*/
void append_escaped(const uint8_t *bytes, size_t length, std::string *out);

}  // namespace frond

#endif
