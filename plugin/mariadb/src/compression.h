/*
  Cost and savings of compression: counters of the store by codec, table and index.
  SPDX-License-Identifier: GPL-2.0-only
*/
#ifndef FROND_COMPRESSION_H
#define FROND_COMPRESSION_H

#include "tree_names.h"

#include <vector>

namespace frond {

/* Sums of work on trees. They only grow. */
struct Compression {
    /* Blocks of leaves, and of runs on their way to leaves, which have no general codec. */
    uint64_t blocks = 0, buffer_blocks = 0;
    uint64_t bytes_in = 0, bytes_out = 0, nanos = 0;
    uint64_t buffer_bytes_in = 0, buffer_bytes_out = 0, buffer_nanos = 0;
    /* Chunks that a general codec compressed, and those stored raw because it saved too little. */
    uint64_t coded = 0, coded_bytes_in = 0, coded_bytes_out = 0, raw = 0;
    uint64_t decoded = 0, decoded_bytes = 0, decode_nanos = 0;

    void add(const frond_work &work);
    void add(const Compression &other);
    /* Leaves what was counted after `since`. */
    void subtract(const Compression &since);
};

/* Sums for each codec, for rows (primary keys) and for secondary indexes. */
struct Compression_by_codec {
    static constexpr int CODECS = 3;

    Compression of[CODECS][2];

    /* Sums over all trees since the server started, including dropped trees. */
    static Compression_by_codec now();
};

constexpr int PRIMARY = 0, SECONDARY = 1;

/* Number of the codec, from 0, of a tree's leaves; the size class of the tree determines it. */
int codec_number(int size_class);
const char *codec_name(int number);
/* Name as in the names of variables. */
const char *codec_word(int number);

/*
  Trees that a change drops or replaces, so that the work done on them stays in the sums. From `add`
  on, the sums use the work recorded here instead of the trees' own counters. If the change is not
  committed, the trees' own counters are used again.
*/
class Dropped_trees {
public:
    Dropped_trees() = default;
    Dropped_trees(const Dropped_trees &) = delete;
    ~Dropped_trees();

    void add(const frond_tree *tree, bool is_rows);
    void committed();

private:
    std::vector<uint32_t> ids_;
};

}  // namespace frond

#endif
