/* The state that all handlers of a table share. SPDX-License-Identifier: GPL-2.0-only */
#ifndef FROND_SHARE_H
#define FROND_SHARE_H

#include "key_codec.h"
#include "row_codec.h"
#include "statistics.h"
#include "temporary.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

namespace frond {

/* Counters of a table's row tree. */
enum Counter : uint32_t { AUTO_INCREMENT_COUNTER = 0, ROW_ID_COUNTER = 1 };

constexpr uint ROW_ID_BYTES = 8;

struct Plan;

/* Data stored with a table's row tree. */
struct Attributes {
    /* Part of the names of its index trees, which keep their names when the table is renamed. */
    std::string id;
    uint indexes = 0;
    /* From CREATE TABLE ... AUTO_INCREMENT; the tree's counter starts there. */
    uint64_t auto_increment = 1;
    /* From ANALYZE; empty if it never ran. */
    Rows_per_key rows_per_key;
    /* How many rows the table had then; 0 if ANALYZE never ran. */
    uint64_t analyzed_rows = 0;
    /*
      Whether key 0 is the primary key, and the names of all keys; views of the store read no .frm
      file.
    */
    bool has_primary = false;
    std::vector<std::string> index_names;
    /*
      The number in the name of each key's tree, once an ALTER in place has added or dropped keys,
      or an exchange has changed their order: the server then renumbers the keys, while their trees
      keep their names. Empty: each key has the number of its tree.
    */
    std::vector<uint> trees;
    /* Version of the .frm file, as of the last ALTER in place. */
    std::string version;

    /* Takes the names of a table's keys. */
    void name_keys(const TABLE_SHARE *table);
    /*
      Puts the keys into the order of the table's definition. EXCHANGE PARTITION gives rows to a
      table whose keys may have the same names in another order.
    */
    void arrange_keys(const Plan &plan);
    /* Sets the number of each key's tree. */
    void set_trees(std::vector<uint> numbers);
    std::string encode() const;
    static bool decode(std::string_view text, Attributes *attributes);
    uint tree_number(uint key) const { return trees.empty() ? key : trees[key]; }
    std::string tree_name(uint number) const { return "#" + id + "/" + std::to_string(number); }
    std::string index_name(uint key) const { return tree_name(tree_number(key)); }
    /* Reads the attributes of a table's row tree. Returns an HA_ERR_* code. */
    static int read(const frond_tree *tree, Attributes *attributes);
    static int read(const char *tree_name, Attributes *attributes);
};

/* The tree of a table: the server's path `./db/table` is the tree `db/table`. */
std::string tree_name(const char *path);

/* How the keys and values of a table are encoded; depends only on its definition. */
struct Plan {
    explicit Plan(const TABLE *table);

    struct Index {
        Index(const TABLE *table, const KEY *key) : key(table, key) {}

        Key_codec key;
        std::optional<Entry_codec> entry; /* For secondary indexes. */
        bool is_unique = false;
        /*
          For a UNIQUE over long columns, or with WITHOUT OVERLAPS, which the server checks before a
          write: the parts whose values one transaction at a time may write. 0 if the tree itself
          keeps the key unique.
        */
        uint guarded_parts = 0;
        uint number = 0; /* Index in TABLE::key_info. */
        std::string name;
    };

    bool has_primary() const { return primary != MAX_KEY; }
    const Key_codec &primary_key() const { return indexes[primary].key; }
    /* Whether a part of the primary key is only a prefix of its column. */
    bool has_prefixed_primary() const { return has_primary() && primary_key().has_prefixes(); }
    void row_layout(std::vector<frond_part> *key, std::vector<frond_part> *value) const;
    void index_layout(uint index, std::vector<frond_part> *key, std::vector<frond_part> *value) const;

    uint primary = MAX_KEY;
    std::vector<Index> indexes; /* In the order of TABLE::key_info. */
    std::optional<Row_codec> row;
};

/*
  The trees of an open table. TRUNCATE replaces all of them; no other handler has the table open
  then.
*/
class Share : public Handler_share {
public:
    ~Share() override;
    Share(const Share &) = delete;

    /* Opens the trees of a table; null, with a HA_ERR_*, on failure. */
    static Share *open(const char *name, const TABLE *table, int *error);

    bool is_temporary() const { return temporary_ != nullptr; }
    Tree row_tree() const { return is_temporary() ? temporary_->row_tree() : Tree(rows_); }
    /* The tree of an index; for the primary key, the row tree. */
    Tree tree(uint index) const
    {
        if (is_temporary())
            return temporary_->tree(index);
        return Tree(index == plan.primary ? rows_ : trees_[index]);
    }
    /* Null unless the table is a temporary one. */
    Temporary_table *temporary() const { return temporary_.get(); }
    /* Opens the trees again after TRUNCATE or a load. */
    int reopen();

    /* Takes numbers from a counter, as frond_tree_reserve does. Returns a code of the engine. */
    int reserve(Counter counter, uint64_t least, uint64_t count, uint64_t *first, frond_error *error);
    uint64_t next_number(Counter counter);
    uint64_t rows();
    /* Schedules sampling of the table, which now has this many rows, if that is due. */
    void sample_if_due(uint64_t rows);
    uint64_t data_bytes();
    uint64_t index_bytes();

    const std::string name;
    const Plan plan;
    /* Changed by ANALYZE while statements run: read it under the mutex. */
    std::mutex attributes_mutex;
    Attributes attributes;
    /* What ANALYZE found, until the table is sampled again. Never null. */
    std::shared_ptr<Statistics> statistics = std::make_shared<Statistics>();
    THR_LOCK lock;
    /*
      Whether any statement has locked the AUTO_INCREMENT numbers (ha_frond::begin_numbers), and how
      many sessions that have not seen this are taking numbers.
    */
    std::atomic<bool> numbers_are_locked{false};
    std::atomic<int> numbering_unlocked{0};

private:
    Share(const char *name, const TABLE *table);
    int open_trees();
    void close_trees();
    void find_statistics();
    void refresh_sizes();

    const bool is_sampled_;
    std::shared_ptr<Temporary_table> temporary_;
    frond_tree *rows_ = nullptr;
    std::vector<frond_tree *> trees_;
    std::mutex sizes_mutex_;
    std::atomic<ulonglong> sizes_at_{0};
    std::atomic<uint64_t> data_bytes_{0}, index_bytes_{0};
};

}  // namespace frond

#endif
