/* SPDX-License-Identifier: GPL-2.0-only */
#include "table_load.h"

#include "errors.h"
#include "session.h"
#include "store.h"

namespace frond {
namespace {

void keep(void *context, const uint8_t *key, size_t key_length, const uint8_t *value, size_t value_length)
{
    Table_load::Duplicate *duplicate = static_cast<Table_load::Duplicate *>(context);
    duplicate->is_recoverable = true;
    duplicate->key.assign(reinterpret_cast<const char *>(key), key_length);
    duplicate->value.assign(reinterpret_cast<const char *>(value), value_length);
}

}  // namespace

frond_error *Table_load::error() const
{
    return session_->error();
}

template <typename Begin> int Table_load::add(uint index, Begin begin)
{
    if (loads_.size() <= index)
        loads_.resize(index + 1);
    std::unique_ptr<One> &one = loads_[index];
    one.reset(new One);
    one->duplicate.index = index;
    if (int code = begin(&one->load))
        return code;
    if (int code = frond_load_set_interrupter(one->load, session_->interrupter(), error()))
        return code;
    return frond_load_on_duplicate(one->load, keep, &one->duplicate, error());
}

int Table_load::fill(uint index, const frond_tree *tree)
{
    return add(index, [&](frond_load **load) { return frond_load_begin_into(store(), tree, load, error()); });
}

int Table_load::make(uint index, const std::string &name, const frond_tree_options &options)
{
    return add(index, [&](frond_load **load) { return frond_load_begin(store(), name.c_str(), &options, load, error()); });
}

int Table_load::finish(uint first)
{
    std::vector<frond_load *> loads;
    for (const std::unique_ptr<One> &one : loads_)
        if (one != nullptr && one->load != nullptr)
            loads.insert(one->duplicate.index == first ? loads.begin() : loads.end(), one->load);
    const int code = frond_loads_finish(loads.data(), loads.size(), nullptr, error());
    /* After any other code the engine has released the handles. */
    if (code != INVALID_ARGUMENT)
        for (std::unique_ptr<One> &one : loads_)
            if (one != nullptr)
                one->load = nullptr;
    return code;
}

void Table_load::give_up()
{
    for (std::unique_ptr<One> &one : loads_)
        if (one != nullptr) {
            frond_load_free(one->load);
            one->load = nullptr;
        }
}

const Table_load::Duplicate *Table_load::duplicate() const
{
    for (const std::unique_ptr<One> &one : loads_)
        if (one != nullptr && one->duplicate.is_recoverable)
            return &one->duplicate;
    return nullptr;
}

}  // namespace frond
