/* What all handlers of a table have in common. SPDX-License-Identifier: GPL-2.0-only */
#ifndef FROND_SHARE_H
#define FROND_SHARE_H

#include "key_codec.h"
#include "row_codec.h"
#include "temporary.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

namespace frond {

/* Counters of a table's row tree. */
enum Counter : uint32_t { AUTO_INCREMENT_COUNTER = 0, ROW_ID_COUNTER = 1 };

constexpr uint ROW_ID_BYTES = 8;

/* What is kept with a table's row tree. */
struct Attributes {
    /* By which its index trees are named: they keep their names when the table is renamed. */
    std::string id;
    uint indexes = 0;
    /* What CREATE TABLE ... AUTO_INCREMENT said; the tree's counter goes on from there. */
    uint64_t auto_increment = 1;
    /* Of ANALYZE: rows per distinct prefix, for each index and part; empty if it never ran. */
    std::vector<std::vector<uint64_t>> rows_per_key;
    /* For views of the store alone, which look into no .frm file: whether key 0 is the primary one, and the names of all. */
    bool has_primary = false;
    std::vector<std::string> index_names;
    /*
      The number in the name of each key's tree, since an ALTER in place has added or dropped keys: the server gives the others
      other numbers then, and their trees keep their names. Empty: a key's number is its tree's.
    */
    std::vector<uint> trees;
    /* Of the .frm file, as of the last ALTER in place. */
    std::string version;

    /* Takes the names of a table's keys. */
    void name_keys(const TABLE_SHARE *table);
    std::string encode() const;
    static bool decode(std::string_view text, Attributes *attributes);
    uint tree_number(uint key) const { return trees.empty() ? key : trees[key]; }
    std::string tree_name(uint number) const { return "#" + id + "/" + std::to_string(number); }
    std::string index_name(uint key) const { return tree_name(tree_number(key)); }
    /* Of a table's row tree; a HA_ERR_*. */
    static int read(const frond_tree *tree, Attributes *attributes);
    static int read(const char *tree_name, Attributes *attributes);
};

/* `./db/table` as the server says it is the tree `db/table`. */
std::string tree_name(const char *path);

/* How the keys and values of a table are made; of its definition alone. */
struct Plan {
    explicit Plan(const TABLE *table);

    struct Index {
        Index(const TABLE *table, const KEY *key) : key(table, key) {}

        Key_codec key;
        std::optional<Entry_codec> entry; /* Of secondary indexes. */
        bool is_unique = false;
        /*
          Of a UNIQUE over long columns, or with WITHOUT OVERLAPS, which the server checks before a write: the parts
          whose values one transaction at a time may write. 0 if the tree itself keeps the key unique.
        */
        uint guarded_parts = 0;
        uint number = 0; /* In TABLE::key_info. */
    };

    bool has_primary() const { return primary != MAX_KEY; }
    const Key_codec &primary_key() const { return indexes[primary].key; }
    /* Whether a part of the primary key is only the begin of its column. */
    bool has_prefixed_primary() const { return has_primary() && primary_key().has_prefixes(); }
    void row_layout(std::vector<frond_part> *key, std::vector<frond_part> *value) const;
    void index_layout(uint index, std::vector<frond_part> *key, std::vector<frond_part> *value) const;

    uint primary = MAX_KEY;
    std::vector<Index> indexes; /* As TABLE::key_info. */
    std::optional<Row_codec> row;
};

/* Trees of an open table. Replaced as a whole by TRUNCATE, which no other handler of the table is open for. */
class Share : public Handler_share {
public:
    ~Share() override;
    Share(const Share &) = delete;

    /* Opens the trees of a table; null with a HA_ERR_*. */
    static Share *open(const char *name, const TABLE *table, int *error);

    bool is_temporary() const { return temporary_ != nullptr; }
    Tree row_tree() const { return is_temporary() ? temporary_->row_tree() : Tree(rows_); }
    /* The tree of an index; of the primary key it is the row tree. */
    Tree tree(uint index) const
    {
        if (is_temporary())
            return temporary_->tree(index);
        return Tree(index == plan.primary ? rows_ : trees_[index]);
    }
    /* Null unless the table is a temporary one. */
    Temporary_table *temporary() const { return temporary_.get(); }
    /* After TRUNCATE or a load: opens the trees again. */
    int reopen();

    /* Numbers of a counter, as frond_tree_reserve gives them; a code of the engine's. */
    int reserve(Counter counter, uint64_t least, uint64_t count, uint64_t *first, frond_error *error);
    uint64_t next_number(Counter counter);
    uint64_t rows();
    uint64_t data_bytes();
    uint64_t index_bytes();

    const std::string name;
    const Plan plan;
    /* Changed by ANALYZE while statements run: read under the mutex. */
    std::mutex attributes_mutex;
    Attributes attributes;
    THR_LOCK lock;
    /* A statement has numbered rows that is logged as such, and others look whether one is doing so. */
    std::atomic<bool> numbers_are_locked{false};

private:
    Share(const char *name, const TABLE *table);
    int open_trees();
    void close_trees();
    void refresh_sizes();

    std::shared_ptr<Temporary_table> temporary_;
    frond_tree *rows_ = nullptr;
    std::vector<frond_tree *> trees_;
    std::mutex sizes_mutex_;
    std::atomic<ulonglong> sizes_at_{0};
    std::atomic<uint64_t> data_bytes_{0}, index_bytes_{0};
};

}  // namespace frond

#endif
