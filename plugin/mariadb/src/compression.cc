/* SPDX-License-Identifier: GPL-2.0-only */
#include "compression.h"

#include "store.h"

#include <algorithm>
#include <map>
#include <mutex>

namespace frond {
namespace {

struct Codec {
    int size_class;
    const char *name, *word;
};

constexpr Codec CODECS[] = {{FROND_FAST, "LZ4", "lz4"}, {FROND_DEFAULT, "zstd 1", "zstd1"}, {FROND_SMALL, "zstd 3", "zstd3"}};
static_assert(array_elements(CODECS) == Compression_by_codec::CODECS, "each class has a codec");

struct Going {
    int codec, which;
    Compression done;
};

/* Work on dropped trees, and on trees that are being dropped, by number. */
std::mutex mutex;
Compression_by_codec gone;
std::map<uint32_t, Going> going;

constexpr uint64_t Compression::*ALL[] = {
    &Compression::blocks,
    &Compression::buffer_blocks,
    &Compression::bytes_in,
    &Compression::bytes_out,
    &Compression::nanos,
    &Compression::buffer_bytes_in,
    &Compression::buffer_bytes_out,
    &Compression::buffer_nanos,
    &Compression::coded,
    &Compression::coded_bytes_in,
    &Compression::coded_bytes_out,
    &Compression::raw,
    &Compression::decoded,
    &Compression::decoded_bytes,
    &Compression::decode_nanos,
};
static_assert(sizeof(Compression) == sizeof(uint64_t) * array_elements(ALL), "each number is in the list");

}  // namespace

void Compression::add(const frond_work &work)
{
    blocks += work.leaves.blocks;
    bytes_in += work.leaves.from_bytes;
    bytes_out += work.leaves.bytes;
    nanos += work.leaves.nanos;
    buffer_blocks += work.buffers.blocks;
    buffer_bytes_in += work.buffers.from_bytes;
    buffer_bytes_out += work.buffers.bytes;
    buffer_nanos += work.buffers.nanos;
    coded += work.leaves.chunks_coded;
    coded_bytes_in += work.leaves.chunks_coded_from_bytes;
    coded_bytes_out += work.leaves.chunks_coded_bytes;
    raw += work.leaves.chunks_raw;
    decoded += work.chunks_decoded;
    decoded_bytes += work.chunks_decoded_bytes;
    decode_nanos += work.chunks_decode_nanos;
}

void Compression::add(const Compression &other)
{
    for (auto number : ALL)
        this->*number += other.*number;
}

void Compression::subtract(const Compression &since)
{
    for (auto number : ALL)
        this->*number -= std::min(this->*number, since.*number);
}

int codec_number(int size_class)
{
    for (int i = 0; i < Compression_by_codec::CODECS; i++)
        if (CODECS[i].size_class == size_class)
            return i;
    return 0;
}

const char *codec_name(int number)
{
    return CODECS[number].name;
}

const char *codec_word(int number)
{
    return CODECS[number].word;
}

Compression_by_codec Compression_by_codec::now()
{
    /*
      The list is made under the mutex, so each tree is counted exactly once: it is in the list,
      among the dropped ones, or being dropped.
    */
    std::lock_guard<std::mutex> guard(mutex);
    const Tree_names names;
    Compression_by_codec sums = gone;
    for (const auto &[id, one] : going)
        sums.of[one.codec][one.which].add(one.done);
    for (const Named_tree &named : names.all()) {
        frond_tree *tree = nullptr;
        frond_work work;
        if (going.count(named.id) != 0 || frond_tree_open(store(), named.name.c_str(), &tree, nullptr) != FROND_OK)
            continue;
        if (frond_tree_work(tree, &work, nullptr) == FROND_OK)
            sums.of[codec_number(work.size_class)][named.kind == Named_tree::INDEX ? SECONDARY : PRIMARY].add(work);
        frond_tree_free(tree);
    }
    return sums;
}

void Dropped_trees::add(const frond_tree *tree, bool is_rows)
{
    frond_work work;
    if (frond_tree_work(tree, &work, nullptr) != FROND_OK)
        return;
    Going one{codec_number(work.size_class), is_rows ? PRIMARY : SECONDARY, {}};
    one.done.add(work);
    std::lock_guard<std::mutex> guard(mutex);
    if (going.emplace(frond_tree_id(tree), one).second)
        ids_.push_back(frond_tree_id(tree));
}

void Dropped_trees::committed()
{
    std::lock_guard<std::mutex> guard(mutex);
    for (uint32_t id : ids_) {
        const Going &one = going[id];
        gone.of[one.codec][one.which].add(one.done);
        going.erase(id);
    }
    ids_.clear();
}

Dropped_trees::~Dropped_trees()
{
    std::lock_guard<std::mutex> guard(mutex);
    for (uint32_t id : ids_)
        going.erase(id);
}

}  // namespace frond
