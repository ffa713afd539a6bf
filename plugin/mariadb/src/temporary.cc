/* SPDX-License-Identifier: GPL-2.0-only */
#include "temporary.h"

#include "errors.h"
#include "share.h"
#include "store.h"

#include <algorithm>
#include <map>
#include <mutex>

namespace frond {
namespace {

std::mutex tables_mutex;
std::map<std::string, std::shared_ptr<Temporary_table>> tables;

uint64_t bytes_of(const frond_temporary *tree)
{
    uint64_t rows = 0, bytes = 0;
    return frond_temporary_estimate(tree, nullptr, 0, nullptr, 0, &rows, &bytes, nullptr) == FROND_OK ? bytes : 0;
}

}  // namespace

Temporary_table::~Temporary_table()
{
    frond_temporary_free(rows_);
    for (frond_temporary *tree : trees_)
        frond_temporary_free(tree);
}

int Temporary_table::create(THD *thd, const std::string &name, const Plan &plan, int size_class, uint64_t auto_increment)
{
    std::shared_ptr<Temporary_table> table(new Temporary_table);
    table->next_[AUTO_INCREMENT_COUNTER] = std::max<uint64_t>(auto_increment, 1);
    std::vector<frond_part> key, value;
    frond_error error;
    auto make = [&](bool is_unique, frond_temporary **tree) {
        frond_tree_options options;
        frond_tree_options_init(&options);
        options.size_class = size_class;
        options.unique = is_unique;
        options.key_parts = key.data();
        options.key_parts_count = key.size();
        options.value_parts = value.data();
        options.value_parts_count = value.size();
        int code = frond_temporary_create(store(), &options, tree, &error);
        if (code != FROND_OK)
            *tree = nullptr;
        return code == FROND_OK ? 0 : failed(thd, code, error);
    };
    plan.row_layout(&key, &value);
    if (int result = make(true, &table->rows_))
        return result;
    table->trees_.assign(plan.indexes.size(), nullptr);
    for (uint i = 0; i < plan.indexes.size(); i++) {
        if (i == plan.primary)
            continue;
        key.clear();
        value.clear();
        plan.index_layout(i, &key, &value);
        if (int result = make(plan.indexes[i].is_unique, &table->trees_[i]))
            return result;
    }
    std::lock_guard<std::mutex> guard(tables_mutex);
    return tables.emplace(name, std::move(table)).second ? 0 : HA_ERR_TABLE_EXIST;
}

std::shared_ptr<Temporary_table> Temporary_table::find(const std::string &name)
{
    std::lock_guard<std::mutex> guard(tables_mutex);
    auto found = tables.find(name);
    return found == tables.end() ? nullptr : found->second;
}

bool Temporary_table::rename(const std::string &from, const std::string &to)
{
    std::lock_guard<std::mutex> guard(tables_mutex);
    auto found = tables.find(from);
    if (found == tables.end())
        return false;
    std::shared_ptr<Temporary_table> table = found->second;
    tables.erase(found);
    tables[to] = std::move(table);
    return true;
}

bool Temporary_table::drop(const std::string &name)
{
    std::shared_ptr<Temporary_table> gone;
    std::lock_guard<std::mutex> guard(tables_mutex);
    auto found = tables.find(name);
    if (found == tables.end())
        return false;
    gone = std::move(found->second);
    tables.erase(found);
    return true;
}

void Temporary_table::drop_all()
{
    std::map<std::string, std::shared_ptr<Temporary_table>> gone;
    std::lock_guard<std::mutex> guard(tables_mutex);
    gone.swap(tables);
}

uint64_t Temporary_table::rows(bool *is_exact) const
{
    uint64_t rows = 0;
    if (frond_temporary_row_count(rows_, &rows, is_exact, nullptr) != FROND_OK)
        *is_exact = false;
    return rows;
}

uint64_t Temporary_table::data_bytes() const
{
    return bytes_of(rows_);
}

uint64_t Temporary_table::index_bytes() const
{
    uint64_t bytes = 0;
    for (const frond_temporary *tree : trees_)
        bytes += tree == nullptr ? 0 : bytes_of(tree);
    return bytes;
}

void Temporary_table::reserve(uint counter, uint64_t least, uint64_t count, uint64_t *first)
{
    *first = std::max(next_[counter], least);
    next_[counter] = count > ULONGLONG_MAX - *first ? ULONGLONG_MAX : *first + count;
}

int Temporary_table::clear(THD *thd)
{
    frond_error error;
    int code = frond_temporary_clear(rows_, &error);
    for (size_t i = 0; i < trees_.size() && code == FROND_OK; i++)
        if (trees_[i] != nullptr)
            code = frond_temporary_clear(trees_[i], &error);
    next_[AUTO_INCREMENT_COUNTER] = 1;
    return code == FROND_OK ? 0 : failed(thd, code, error);
}

}  // namespace frond
