/* SPDX-License-Identifier: GPL-2.0-only */
#include "server.h"

#include "store.h"
#include "temporary.h"

#include "mysqld.h"

namespace frond {
namespace {

constexpr const char *DIRECTORY = "#frond";

frond_db *open_db = nullptr;

void log_warning(void *, const char *text, size_t)
{
    sql_print_warning("Frond: %s", text);
}

}  // namespace

handlerton *hton = nullptr;

bool open_store(unsigned long long cache_size, int durability)
{
    char path[FN_REFLEN];
    strxnmov(path, sizeof path - 1, mysql_real_data_home, DIRECTORY, NullS);
    frond_options options;
    frond_error error;
    frond_options_init(&options);
    options.cache_size = cache_size;
    options.durability = durability;
    if (frond_open(path, &options, &open_db, &error) != FROND_OK) {
        sql_print_error("Frond: the store in '%s' cannot be opened: %s", path, error.message);
        open_db = nullptr;
        return false;
    }
    frond_warnings(open_db, log_warning, nullptr, nullptr);
    sql_print_information("Frond: version %s, cache of %llu MiB, store in '%s'", frond_version(), cache_size >> 20,
                          path);
    return true;
}

void close_store()
{
    frond_error error;
    if (open_db == nullptr)
        return;
    Temporary_table::drop_all();
    if (frond_close(open_db, &error) != FROND_OK)
        sql_print_error("Frond: the store was not closed cleanly; the next start will run recovery: %s", error.message);
    open_db = nullptr;
}

frond_db *store()
{
    return open_db;
}

}  // namespace frond
