/* The plugin's declaration, its variables, start and stop. SPDX-License-Identifier: GPL-2.0-only */
#include "ddl.h"
#include "ha_frond.h"
#include "information_schema.h"
#include "session.h"
#include "statistics.h"
#include "status.h"
#include "store.h"

#include "mysqld.h"

#include <algorithm>

extern void ignore_db_dirs_append(const char *dirname);

namespace frond {
namespace {

unsigned long long cache_size;
unsigned long durability;

const char *durability_names[] = {"sync", "os", "lazy", NullS};
TYPELIB durability_typelib = {array_elements(durability_names) - 1, "", durability_names, nullptr};

MYSQL_SYSVAR_ULONGLONG(cache_size, cache_size, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
                       "Memory limit of the engine in bytes, for cache, memtables and locks together", nullptr, nullptr,
                       256ULL << 20, 16ULL << 20, ULONGLONG_MAX, 1 << 20);

MYSQL_SYSVAR_ENUM(durability, durability, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
                  "When a commit is acknowledged: 'sync' once it is on disk; 'os' once the kernel has it, so that a "
                  "power failure may lose the last second; 'lazy' once it is in the log's buffer, so that a kill of the "
                  "server may lose the last second, and a power failure the last two",
                  nullptr, nullptr, 0, &durability_typelib);

MYSQL_THDVAR_ULONG(lock_wait_timeout, PLUGIN_VAR_RQCMDARG,
                   "How many seconds a statement waits for a row lock before it fails", nullptr, nullptr, 50, 0,
                   1 << 30, 0);

struct st_mysql_sys_var *variables[] = {
    MYSQL_SYSVAR(cache_size),
    MYSQL_SYSVAR(durability),
    MYSQL_SYSVAR(lock_wait_timeout),
    nullptr,
};

handler *create_handler(handlerton *hton, TABLE_SHARE *table, MEM_ROOT *mem_root)
{
    return new (mem_root) ha_frond(hton, table);
}

bool flush_logs(handlerton *)
{
    frond_error error;
    if (frond_checkpoint(store(), &error) != FROND_OK) {
        sql_print_error("Frond: checkpoint failed: %s", error.message);
        return true;
    }
    return false;
}

/* SHOW ENGINE FROND STATUS: one row, whose text has a section for each kind of information. */
bool show_status(handlerton *, THD *thd, stat_print_fn *print, enum ha_stat_type type)
{
    if (type != HA_ENGINE_STATUS)
        return false;
    std::string text;
    auto line = [](void *context, const char *text, size_t length) {
        static_cast<std::string *>(context)->append(text, length).append("\n");
    };
    auto number = [](void *context, const char *name, uint64_t value) {
        static_cast<std::string *>(context)->append(name).append(" ").append(std::to_string(value)).append("\n");
    };
    text.append("TRANSACTIONS\n");
    frond_transactions(store(), line, &text, nullptr);
    text.append("LOCK WAITS\n");
    frond_lock_waits(store(), line, &text, nullptr);
    frond_buffer words = {nullptr, 0, 0};
    if (frond_last_deadlock(store(), &words, nullptr) == FROND_OK)
        text.append("LAST DEADLOCK\n").append(reinterpret_cast<char *>(words.data), words.length).append("\n");
    frond_buffer_free(&words);
    text.append("STATISTICS\n");
    frond_stats(store(), number, &text, nullptr);
    return print(thd, STRING_WITH_LEN("FROND"), STRING_WITH_LEN(""), text.data(), static_cast<uint>(text.size()));
}

/*
  Checks the layout of the server's classes, which are used as its headers define them under this
  plugin's macros. If the server was built with other macros, members are at other places: then the
  plugin must not start.
*/
bool layout_agrees()
{
    THD *thd = current_thd;
    if (thd == nullptr)
        return true;
    return thd_get_thread_id(thd) == thd->thread_id && thd_sql_command(thd) == static_cast<int>(thd->lex->sql_command) &&
           thd_tx_isolation(thd) == static_cast<int>(thd->tx_isolation);
}

int init(void *data)
{
    if (!layout_agrees()) {
        sql_print_error("Frond: the plugin was compiled for a server with different class layouts; "
                        "rebuild it for this server");
        return 1;
    }
    hton = static_cast<handlerton *>(data);
    ignore_db_dirs_append("#frond");
    if (!open_store(cache_size, FROND_SYNC + static_cast<int>(durability)))
        return 1;
    start_sampling();
    set_status_variables();
    hton->create = create_handler;
    hton->flags = HTON_SUPPORTS_EXTENDED_KEYS | HTON_TRUNCATE_REQUIRES_EXCLUSIVE_USE;
    hton->flush_logs = flush_logs;
    hton->show_status = show_status;
    static const char *no_files[] = {NullS};
    hton->tablefile_extensions = no_files;
    set_table_calls(hton);
    set_transaction_calls(hton);
    set_prepared_calls(hton);
    return 0;
}

int deinit(void *)
{
    stop_sampling();
    close_store();
    return 0;
}

struct st_mysql_storage_engine storage_engine = {MYSQL_HANDLERTON_INTERFACE_VERSION};

}  // namespace

int64_t lock_timeout_ms(THD *thd)
{
    /* NOWAIT and WAIT n set the server's variable for the statement. */
    return static_cast<int64_t>(std::min<ulonglong>(THDVAR(thd, lock_wait_timeout), thd->variables.lock_wait_timeout)) *
           1000;
}

}  // namespace frond

/* A table of INFORMATION_SCHEMA is a plugin of its own, in the same file. */
#define TABLE_PLUGIN(name, description, init)                                                                            \
    {                                                                                                                    \
        MYSQL_INFORMATION_SCHEMA_PLUGIN, &frond::information_schema, name, "Frond", description, PLUGIN_LICENSE_GPL,     \
            init, nullptr, 0x0001, nullptr, nullptr, "0.1", MariaDB_PLUGIN_MATURITY_EXPERIMENTAL,                        \
    }

maria_declare_plugin(frond)
{
    MYSQL_STORAGE_ENGINE_PLUGIN,
    &frond::storage_engine,
    "FROND",
    "Frond",
    "Transactional B-epsilon-tree engine: fast inserts into indexed tables, compressed",
    PLUGIN_LICENSE_GPL,
    frond::init,
    frond::deinit,
    0x0001,
    frond::status_variables,
    frond::variables,
    "0.1",
    MariaDB_PLUGIN_MATURITY_EXPERIMENTAL,
},
TABLE_PLUGIN("FROND_TRX", "Transactions and snapshots of Frond", frond::init_trx_table),
TABLE_PLUGIN("FROND_LOCKS", "Locks held in Frond", frond::init_locks_table),
TABLE_PLUGIN("FROND_LOCK_WAITS", "Lock waits in Frond: waiting and blocking transactions",
             frond::init_lock_waits_table),
TABLE_PLUGIN("FROND_TREES", "Trees in Frond: the rows of tables, and their secondary indexes", frond::init_trees_table),
TABLE_PLUGIN("FROND_CMP", "Compression in Frond by codec", frond::init_cmp_table),
TABLE_PLUGIN("FROND_CMP_RESET", "Compression in Frond by codec, since this table was last read",
             frond::init_cmp_reset_table),
TABLE_PLUGIN("FROND_CMP_PER_INDEX", "Compression in Frond by index", frond::init_cmp_per_index_table),
TABLE_PLUGIN("FROND_CMP_PER_INDEX_RESET", "Compression in Frond by index, since this table was last read",
             frond::init_cmp_per_index_reset_table)
maria_declare_plugin_end;
