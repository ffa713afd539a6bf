/* SPDX-License-Identifier: GPL-2.0-only */
#include "share.h"

#include "errors.h"
#include "store.h"
#include "tree_names.h"

#include <algorithm>
#include <sstream>

namespace frond {
namespace {

constexpr const char *HEADER = "frond-mariadb 1";
/*
  The header of attributes that contain numbers of trees. An older plugin, which does not know this
  header, must not open the table.
*/
constexpr const char *HEADER_WITH_TREES = "frond-mariadb 2";
constexpr ulonglong SIZES_LAST_MICROS = 1000000;

}  // namespace

std::string Attributes::encode() const
{
    std::ostringstream out;
    out << (trees.empty() ? HEADER : HEADER_WITH_TREES) << "\nid " << id << "\nindexes " << indexes << "\nauto_increment " << auto_increment << '\n';
    for (size_t i = 0; i < rows_per_key.size(); i++) {
        out << "rows_per_key " << i;
        for (uint64_t rows : rows_per_key[i])
            out << ' ' << rows;
        out << '\n';
    }
    if (analyzed_rows != 0)
        out << "analyzed_rows " << analyzed_rows << '\n';
    for (uint number : trees)
        out << "tree " << number << '\n';
    if (!version.empty())
        out << "version " << version << '\n';
    if (has_primary)
        out << "primary\n";
    for (const std::string &name : index_names)
        out << "key " << encode_name(name.c_str()) << '\n';
    return out.str();
}

bool Attributes::decode(std::string_view text, Attributes *attributes)
{
    std::istringstream lines{std::string(text)};
    std::string line;
    if (!std::getline(lines, line) || (line != HEADER && line != HEADER_WITH_TREES))
        return false;
    *attributes = {};
    while (std::getline(lines, line)) {
        std::istringstream words(line);
        std::string what;
        words >> what;
        if (what == "id")
            words >> attributes->id;
        else if (what == "indexes")
            words >> attributes->indexes;
        else if (what == "auto_increment")
            words >> attributes->auto_increment;
        else if (what == "analyzed_rows")
            words >> attributes->analyzed_rows;
        else if (what == "tree") {
            uint number = 0;
            words >> number;
            attributes->trees.push_back(number);
        } else if (what == "version")
            words >> attributes->version;
        else if (what == "primary")
            attributes->has_primary = true;
        else if (what == "key") {
            std::string name;
            words >> name;
            attributes->index_names.push_back(decode_name(name));
        } else if (what == "rows_per_key") {
            size_t index = 0;
            words >> index;
            if (index >= MAX_KEY)
                return false;
            attributes->rows_per_key.resize(std::max(attributes->rows_per_key.size(), index + 1));
            for (uint64_t rows; words >> rows;)
                attributes->rows_per_key[index].push_back(rows);
        }
    }
    return !attributes->id.empty() && (attributes->trees.empty() || attributes->trees.size() == attributes->indexes);
}

void Attributes::name_keys(const TABLE_SHARE *table)
{
    has_primary = table->primary_key != MAX_KEY;
    index_names.clear();
    for (uint i = 0; i < table->keys; i++)
        index_names.emplace_back(table->key_info[i].name.str);
}

void Attributes::arrange_keys(const Plan &plan)
{
    std::vector<uint> was;
    for (const Plan::Index &index : plan.indexes) {
        auto found = std::find_if(index_names.begin(), index_names.end(), [&index](const std::string &name) {
            return is_same_name(name.c_str(), index.name.c_str());
        });
        if (found == index_names.end())
            return;
        was.push_back(found - index_names.begin());
    }
    if (was.size() != indexes || std::is_sorted(was.begin(), was.end()))
        return;
    const Attributes before = *this;
    std::vector<uint> numbers;
    index_names.clear();
    rows_per_key.clear();
    for (uint key = 0; key < indexes; key++) {
        index_names.push_back(plan.indexes[key].name);
        numbers.push_back(before.tree_number(was[key]));
        rows_per_key.emplace_back();
        if (was[key] < before.rows_per_key.size())
            rows_per_key.back() = before.rows_per_key[was[key]];
    }
    set_trees(std::move(numbers));
}

void Attributes::set_trees(std::vector<uint> numbers)
{
    trees.clear();
    for (uint key = 0; key < numbers.size(); key++)
        if (numbers[key] != key) {
            trees = std::move(numbers);
            return;
        }
}

int Attributes::read(const frond_tree *tree, Attributes *attributes)
{
    frond_error error;
    frond_buffer text = {nullptr, 0, 0};
    int code = frond_tree_info(tree, nullptr, &text, &error);
    int result = code == FROND_OK ? 0 : handler_error(code);
    if (result == 0 && !decode(view(text.data, text.length), attributes))
        result = HA_ERR_NO_SUCH_TABLE;
    frond_buffer_free(&text);
    return result;
}

int Attributes::read(const char *tree_name, Attributes *attributes)
{
    frond_error error;
    frond_tree *tree = nullptr;
    if (int code = frond_tree_open(store(), tree_name, &tree, &error))
        return handler_error(code);
    int result = read(tree, attributes);
    frond_tree_free(tree);
    return result;
}

std::string tree_name(const char *path)
{
    std::string_view name(path);
    size_t table = name.rfind('/');
    if (table == std::string_view::npos || table == 0)
        return std::string(name);
    size_t db = name.rfind('/', table - 1);
    return std::string(db == std::string_view::npos ? name : name.substr(db + 1));
}

Plan::Plan(const TABLE *table) : primary(table->s->primary_key)
{
    for (uint i = 0; i < table->s->keys; i++) {
        indexes.emplace_back(table, &table->key_info[i]);
        indexes.back().number = i;
        indexes.back().name = table->key_info[i].name.str;
        const KEY &key = table->key_info[i];
        indexes.back().is_unique = key.flags & HA_NOSAME;
        if (key.algorithm == HA_KEY_ALG_LONG_HASH)
            indexes.back().guarded_parts = key.user_defined_key_parts;
        else if (key.without_overlaps)
            indexes.back().guarded_parts = key.user_defined_key_parts - 2; /* Without the period's two columns. */
    }
    for (Index &index : indexes)
        if (has_primary() && index.number != primary && !index.is_unique)
            index.key.extend(table, &table->key_info[index.number], &table->key_info[primary]);
    row.emplace(table, has_primary() ? &primary_key() : nullptr);
    for (Index &index : indexes) {
        if (index.number == primary)
            continue;
        std::vector<Column> kept = index.key.kept();
        auto has = [&kept](const Column &column) {
            return std::any_of(kept.begin(), kept.end(),
                               [&column](const Column &other) { return other.index == column.index; });
        };
        if (has_primary())
            for (const Column &column : primary_key().kept())
                if (!has(column))
                    kept.push_back(column);
        index.entry.emplace(index.is_unique, std::move(kept));
    }
}

void Plan::row_layout(std::vector<frond_part> *key, std::vector<frond_part> *value) const
{
    if (has_primary())
        primary_key().append_layout(key);
    else
        key->push_back({FROND_PART_FIXED, ROW_ID_BYTES, FROND_HINT_INTEGER});
    row->append_layout(value);
}

void Plan::index_layout(uint number, std::vector<frond_part> *key, std::vector<frond_part> *value) const
{
    const Index &index = indexes[number];
    index.key.append_layout(key);
    if (index.is_unique)
        key->push_back({FROND_PART_REST, 0, FROND_HINT_NONE}); /* The key of the row, if a part is NULL. */
    else if (has_primary())
        primary_key().append_layout(key);
    else
        key->push_back({FROND_PART_FIXED, ROW_ID_BYTES, FROND_HINT_INTEGER});
    index.entry->append_layout(value);
}

/* Tables that ALTER TABLE fills are not sampled: they are soon renamed, and then opened anew. */
Share::Share(const char *path, const TABLE *table)
    : name(tree_name(path)),
      plan(table),
      is_sampled_(!plan.indexes.empty() && name.find("/#sql") == std::string::npos)
{
    thr_lock_init(&lock);
}

Share::~Share()
{
    close_trees();
    thr_lock_delete(&lock);
}

void Share::close_trees()
{
    frond_tree_free(rows_);
    rows_ = nullptr;
    for (frond_tree *tree : trees_)
        frond_tree_free(tree);
    trees_.clear();
}

int Share::open_trees()
{
    frond_error error;
    temporary_ = Temporary_table::find(name);
    if (is_temporary())
        return 0;
    if (int code = frond_tree_open(store(), name.c_str(), &rows_, &error))
        return handler_error(code);
    if (int result = Attributes::read(rows_, &attributes))
        return result;
    if (attributes.indexes != plan.indexes.size()) {
        sql_print_error("Frond: table '%s' has %u keys in the store and %zu in its .frm file", name.c_str(),
                        attributes.indexes, plan.indexes.size());
        return HA_ERR_INCOMPATIBLE_DEFINITION;
    }
    attributes.arrange_keys(plan);
    trees_.assign(plan.indexes.size(), nullptr);
    for (uint i = 0; i < plan.indexes.size(); i++) {
        if (i == plan.primary)
            continue;
        if (int code = frond_tree_open(store(), attributes.index_name(i).c_str(), &trees_[i], &error)) {
            sql_print_error("Frond: index %u of table '%s': %s", i, name.c_str(), error.message);
            return handler_error(code);
        }
    }
    /* Commits maintain the counter: until the first one, it starts at what CREATE TABLE said. */
    uint64_t first;
    frond_tree_reserve(rows_, AUTO_INCREMENT_COUNTER, std::max<uint64_t>(attributes.auto_increment, 1), 0, &first,
                       nullptr);
    find_statistics();
    return 0;
}

void Share::find_statistics()
{
    std::vector<uint> numbers;
    for (uint i = 0; i < attributes.indexes; i++)
        numbers.push_back(attributes.tree_number(i));
    statistics = Statistics::of(frond_tree_id(rows_), numbers);
    if (statistics->version() != 0)
        return;
    Rows_per_key known = attributes.rows_per_key;
    known.resize(attributes.indexes); /* Nothing is known of keys that were added after ANALYZE. */
    statistics->set(std::move(known), attributes.analyzed_rows);
}

Share *Share::open(const char *path, const TABLE *table, int *error)
{
    std::unique_ptr<Share> share(new Share(path, table));
    *error = share->open_trees();
    return *error == 0 ? share.release() : nullptr;
}

int Share::reopen()
{
    close_trees();
    return open_trees();
}

int Share::reserve(Counter counter, uint64_t least, uint64_t count, uint64_t *first, frond_error *error)
{
    if (!is_temporary())
        return frond_tree_reserve(rows_, counter, least, count, first, error);
    temporary_->reserve(counter, least, count, first);
    return FROND_OK;
}

uint64_t Share::next_number(Counter counter)
{
    uint64_t next = 0;
    if (is_temporary())
        return temporary_->next_number(counter);
    frond_tree_next_number(rows_, counter, &next, nullptr);
    return next;
}

uint64_t Share::rows()
{
    uint64_t count = 0;
    bool is_exact;
    if (is_temporary())
        return temporary_->rows(&is_exact);
    frond_tree_row_count(rows_, &count, nullptr, nullptr);
    return count;
}

void Share::sample_if_due(uint64_t rows)
{
    if (!is_sampled_ || is_temporary() || !statistics->try_begin_sampling(rows))
        return;
    try {
        Sample sample;
        sample.statistics = statistics;
        sample.table = name;
        std::lock_guard<std::mutex> guard(attributes_mutex);
        for (const Plan::Index &index : plan.indexes)
            sample.indexes.push_back({index.number == plan.primary ? name : attributes.index_name(index.number),
                                      index.key.layout_ends(), index.is_unique});
        sample_later(std::move(sample));
    } catch (const std::bad_alloc &) {
        statistics->ended(0, true);
    }
}

/*
  Size of a tree in bytes: leaves with long values, entries in buffers above the leaves, and entries
  that are only in memory.
*/
static uint64_t bytes_of(const frond_tree *tree)
{
    frond_sizes sizes;
    if (tree == nullptr || frond_tree_sizes(tree, &sizes, nullptr) != FROND_OK)
        return 0;
    return sizes.encoded_bytes + sizes.blob_bytes + sizes.buffered_bytes + sizes.memory_bytes;
}

/*
  Refreshes the sizes. SHOW TABLE STATUS and the optimizer ask for each statement; reading the sizes
  of each tree once a second is enough.
*/
void Share::refresh_sizes()
{
    ulonglong now = microsecond_interval_timer(), last = sizes_at_.load(std::memory_order_acquire);
    if (last != 0 && now - last < SIZES_LAST_MICROS)
        return;
    /* Other threads wait only for the first sizes. */
    std::unique_lock<std::mutex> guard(sizes_mutex_, std::defer_lock);
    if (last == 0)
        guard.lock();
    else if (!guard.try_lock())
        return;
    if (sizes_at_.load(std::memory_order_acquire) != last)
        return;
    uint64_t index = 0;
    for (const frond_tree *tree : trees_)
        index += bytes_of(tree);
    data_bytes_.store(bytes_of(rows_), std::memory_order_relaxed);
    index_bytes_.store(index, std::memory_order_relaxed);
    sizes_at_.store(now, std::memory_order_release);
}

uint64_t Share::data_bytes()
{
    if (is_temporary())
        return temporary_->data_bytes();
    refresh_sizes();
    return data_bytes_.load(std::memory_order_relaxed);
}

uint64_t Share::index_bytes()
{
    if (is_temporary())
        return temporary_->index_bytes();
    refresh_sizes();
    return index_bytes_.load(std::memory_order_relaxed);
}

}  // namespace frond
