/* SPDX-License-Identifier: GPL-2.0-only */
#include "status.h"

#include "compression.h"
#include "store.h"

#include <atomic>
#include <cstring>
#include <string>

namespace frond {
namespace {

/* The numbers of frond_stats that are shown; docs/mariadb.md explains them. */
constexpr const char *SHOWN[] = {
    "cache_bytes",
    "cache_hits",
    "cache_misses",
    "checkpoint_bytes_written",
    "checkpoints",
    "chunks_decode_nanos",
    "commits",
    "commits_nanos",
    "commit_p99_nanos",
    "deadlocks",
    "device_read_bytes",
    "device_reads",
    "disk_full",
    "leaf_encode_nanos",
    "leaf_encoded_bytes",
    "leaf_encoded_from_bytes",
    "lock_interrupts",
    "lock_timeouts",
    "lock_waits",
    "lock_waits_nanos",
    "locks",
    "locks_bytes",
    "log_kept_bytes",
    "log_syncs",
    "log_written_bytes",
    "memory_known_bytes",
    "memory_taken_bytes",
    "memtables_bytes",
    "pages_damaged",
    "runs_unwritten_bytes",
    "slow_operations",
    "snapshot_kept_bytes",
    "snapshot_oldest_millis",
    "snapshot_spilled_bytes",
    "snapshots",
    "space_end_bytes",
    "space_free_bytes",
    "space_live_bytes",
    "store_read_bytes",
    "store_reads",
    "store_syncs",
    "store_writes",
    "store_written_bytes",
    "sync_waits",
    "sync_waits_nanos",
    "trees",
    "uncommitted_bytes",
    "writers_slowed",
    "writers_slowed_nanos",
};
constexpr size_t COUNT = array_elements(SHOWN);

/* Where the server reads them: the values of the last refresh. */
std::atomic<ulonglong> values[COUNT];
static_assert(sizeof values[0] == sizeof(ulonglong), "the server reads plain numbers");

/* Numbers for each codec, for rows and for secondary indexes: Frond_zip_CODEC_WHAT_WHICH. */
constexpr const char *ZIP_WHAT[] = {"compressed", "compressed_ok", "compressed_seconds", "decompressed", "decompressed_seconds"};
constexpr const char *ZIP_WHICH[] = {"primary", "secondary"};
constexpr size_t ZIP_COUNT = Compression_by_codec::CODECS * array_elements(ZIP_WHICH) * array_elements(ZIP_WHAT);

struct Zip {
    std::string name;
    std::atomic<ulonglong> count{0};
    std::atomic<double> seconds{0};
};
static_assert(sizeof(std::atomic<double>) == sizeof(double), "the server reads plain numbers");
Zip zips[ZIP_COUNT];

struct st_mysql_show_var shown[COUNT + ZIP_COUNT + 1];

/* Stores a number that is shown; `context` counts those that were found. */
void keep(void *context, const char *name, uint64_t value)
{
    for (size_t i = 0; i < COUNT; i++)
        if (strcmp(SHOWN[i], name) == 0) {
            values[i].store(value, std::memory_order_relaxed);
            ++*static_cast<size_t *>(context);
        }
}

/* Collecting them visits all trees, so they are collected once a second at most. */
constexpr ulonglong ZIPS_LAST_MICROS = 1000000;
std::atomic<ulonglong> zips_at{0};

/*
  Refreshes the counters of chunks that were passed to a general codec, and of those that it
  compressed. The time is that of encoding whole blocks.
*/
void refresh_zips()
{
    const ulonglong time = microsecond_interval_timer();
    if (zips_at != 0 && time - zips_at < ZIPS_LAST_MICROS)
        return;
    zips_at = time;
    const Compression_by_codec now = Compression_by_codec::now();
    Zip *zip = zips;
    for (int codec = 0; codec < Compression_by_codec::CODECS; codec++)
        for (int which : {PRIMARY, SECONDARY}) {
            const Compression &done = now.of[codec][which];
            zip++->count = done.coded + done.raw;
            zip++->count = done.coded;
            zip++->seconds = static_cast<double>(done.nanos) / 1e9;
            zip++->count = done.decoded;
            zip++->seconds = static_cast<double>(done.decode_nanos) / 1e9;
        }
}

/* SHOW STATUS: one call of the store for all variables. The server adds the prefix. */
int show(MYSQL_THD, struct st_mysql_show_var *variable, void *, struct system_status_var *, enum enum_var_type)
{
    size_t found = 0;
    if (store() != nullptr) {
        frond_stats(store(), keep, &found, nullptr);
        refresh_zips();
    }
    variable->type = SHOW_ARRAY;
    variable->value = shown;
    return 0;
}

}  // namespace

struct st_mysql_show_var status_variables[] = {
    SHOW_FUNC_ENTRY("Frond", &show),
    {nullptr, nullptr, SHOW_LONG},
};

void set_status_variables()
{
    for (size_t i = 0; i < COUNT; i++)
        shown[i] = {SHOWN[i], &values[i], SHOW_LONGLONG};
    Zip *zip = zips;
    for (int codec = 0; codec < Compression_by_codec::CODECS; codec++)
        for (const char *which : ZIP_WHICH)
            for (const char *what : ZIP_WHAT) {
                zip->name = std::string("zip_") + codec_word(codec) + "_" + what + "_" + which;
                const bool is_time = strstr(what, "seconds") != nullptr;
                void *value = is_time ? static_cast<void *>(&zip->seconds) : static_cast<void *>(&zip->count);
                shown[COUNT + (zip - zips)] = {zip->name.c_str(), value, is_time ? SHOW_DOUBLE : SHOW_LONGLONG};
                zip++;
            }
    shown[COUNT + ZIP_COUNT] = {nullptr, nullptr, SHOW_LONG};
    size_t found = 0;
    frond_stats(store(), keep, &found, nullptr);
    if (found != COUNT)
        sql_print_error("Frond: the store has only %zu of %zu status variables", found, COUNT);
}

}  // namespace frond
