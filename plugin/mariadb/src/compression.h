/* What compressing took and saved: counters of the store by codec, table and index. SPDX-License-Identifier: GPL-2.0-only */
#ifndef FROND_COMPRESSION_H
#define FROND_COMPRESSION_H

#include "tree_names.h"

#include <vector>

namespace frond {

/* Sums of work on trees. All of them only grow. */
struct Compression {
    /* Blocks of leaves, and of runs on their way there, which have no general codec. */
    uint64_t blocks = 0, buffer_blocks = 0;
    uint64_t bytes_in = 0, bytes_out = 0, nanos = 0;
    uint64_t buffer_bytes_in = 0, buffer_bytes_out = 0, buffer_nanos = 0;
    /* What a general codec was tried on, and where it was of no use. */
    uint64_t coded = 0, coded_bytes_in = 0, coded_bytes_out = 0, raw = 0;
    uint64_t decoded = 0, decoded_bytes = 0, decode_nanos = 0;

    void add(const frond_work &work);
    void add(const Compression &other);
    /* Of one who began to count at `since`. */
    void subtract(const Compression &since);
};

/* Of each codec, of rows (primary keys) and of secondary indexes. */
struct Compression_by_codec {
    static constexpr int CODECS = 3;

    Compression of[CODECS][2];

    /* Of all trees since the server started, those that are gone included. */
    static Compression_by_codec now();
};

constexpr int PRIMARY = 0, SECONDARY = 1;

/* From 0; the class of a tree says which codec its leaves have. */
int codec_number(int size_class);
const char *codec_name(int number);
/* As in names of variables. */
const char *codec_word(int number);

/*
  Trees that a change drops or replaces: what was done on them stays counted. From `add` on they are counted by what is kept
  here, and no more by themselves; unless the change is committed they count by themselves again.
*/
class Going_trees {
public:
    Going_trees() = default;
    Going_trees(const Going_trees &) = delete;
    ~Going_trees();

    void add(const frond_tree *tree, bool is_rows);
    void committed();

private:
    std::vector<uint32_t> ids_;
};

}  // namespace frond

#endif
