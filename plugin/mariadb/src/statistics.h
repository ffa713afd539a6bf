/*
  Statistics for the optimizer: how many rows share a value of a key's leading columns.

  ANALYZE TABLE samples the keys, and stores what it finds with the table. Few users run it, and
  without statistics the optimizer guesses badly. So a thread of the plugin also samples: soon after
  a table of some size is used that has none, and again when the number of its rows has doubled or
  halved. What it finds is only in memory, where it outlives the closing of the table. It uses at most
  a hundredth of a core for a table.

  SPDX-License-Identifier: GPL-2.0-only
*/
#ifndef FROND_STATISTICS_H
#define FROND_STATISTICS_H

#include <frond.h>

#include "server.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace frond {

/* Rows per value of the leading columns, for each key and each of its columns; empty if unknown. */
using Rows_per_key = std::vector<std::vector<uint64_t>>;

/*
  Samples the keys of an index's tree: tens of thousands, or all of a small tree. `ends` are
  Key_codec::layout_ends. Returns a code of the engine.
*/
int sample_keys(const frond_tree *tree, const std::vector<uint> &ends, uint64_t table_rows, std::vector<uint64_t> *rows_per_key,
                frond_error *error);

/* What is known of one table. All threads use it, also after the table was closed. */
class Statistics {
public:
    /*
      The statistics of a table: of its row tree, with indexes in the trees of these numbers. They
      are kept in memory until the server stops.
    */
    static std::shared_ptr<Statistics> of(uint64_t row_tree, const std::vector<uint> &trees);

    /* `table_rows` is how many rows the table had when it was sampled; 0 if that is not known. */
    void set(Rows_per_key rows_per_key, uint64_t table_rows);
    std::shared_ptr<const Rows_per_key> rows_per_key() const;
    /* Changes whenever the numbers do; 0 until they are set. */
    uint64_t version() const { return version_.load(std::memory_order_acquire); }
    /*
      Whether the table, which now has this many rows, should be sampled. If so, returns true only
      once until `ended` is called. Called for each statement.
    */
    bool try_begin_sampling(uint64_t table_rows);
    /* It took this long. After a failure, the table is left alone for long. */
    void ended(ulonglong micros, bool has_failed);

private:
    mutable std::mutex mutex_;
    std::shared_ptr<const Rows_per_key> rows_per_key_ = std::make_shared<Rows_per_key>();
    std::atomic<uint64_t> version_{0};
    std::atomic<uint64_t> sampled_rows_{0}; /* Rows of the table when all keys were sampled, or 0. */
    std::atomic<bool> is_running_{false};
    std::atomic<ulonglong> next_at_{0};
};

/* A table to be sampled. */
struct Sample {
    struct Index {
        std::string tree;
        std::vector<uint> ends;
        bool is_unique;
    };

    std::shared_ptr<Statistics> statistics;
    std::string table; /* The name of its row tree. */
    std::vector<Index> indexes;
};

/*
  Starts the thread that samples tables; the store is open. Without it, nothing is sampled but by
  ANALYZE.
*/
void start_sampling();
/* Ends it, after the index that it is sampling. */
void stop_sampling();
/* Samples a table soon. `Statistics::try_begin_sampling` has returned true. */
void sample_later(Sample sample);

}  // namespace frond

#endif
