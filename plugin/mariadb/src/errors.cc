/* SPDX-License-Identifier: GPL-2.0-only */
#include "server.h"

#include "errors.h"

namespace frond {
namespace {

struct Mapping {
    int code;
    int handler_error;
};

/* Other codes are internal errors: the engine's message goes to the error log. */
constexpr Mapping MAPPINGS[] = {
    {FROND_NOT_FOUND, HA_ERR_KEY_NOT_FOUND},
    {1002, HA_ERR_INDEX_COL_TOO_LONG},
    {1003, HA_ERR_TO_BIG_ROW},
    {NO_SUCH_TREE, HA_ERR_NO_SUCH_TABLE},
    {TREE_EXISTS, HA_ERR_TABLE_EXIST},
    {DEFINITION_CHANGED, HA_ERR_TABLE_DEF_CHANGED},
    {1009, HA_ERR_TABLE_READONLY},
    {1014, HA_ERR_TO_BIG_ROW},
    {1018, HA_ERR_RECORD_FILE_FULL},
    {LOCK_TIMEOUT, HA_ERR_LOCK_WAIT_TIMEOUT},
    {DEADLOCK, HA_ERR_LOCK_DEADLOCK},
    {1103, HA_ERR_FOUND_DUPP_KEY},
    {DUPLICATE_KEY, HA_ERR_FOUND_DUPP_KEY},
    {LOCK_BUSY, HA_ERR_LOCK_WAIT_TIMEOUT},
    {INTERRUPTED, HA_ERR_ABORTED_BY_USER},
    {CONFLICT, HA_ERR_RECORD_CHANGED},
    {1108, HA_ERR_FOUND_DUPP_KEY},
    {1109, HA_ERR_ROLLBACK},
    {1115, HA_ERR_LOCK_TABLE_FULL},
    {1116, HA_ERR_LOCK_TABLE_FULL},
    {1301, HA_ERR_RECORD_FILE_FULL},
    {1302, HA_ERR_OUT_OF_MEM},
    {2101, HA_ERR_CRASHED},
    {2102, HA_ERR_CRASHED},
    {2103, HA_ERR_CRASHED},
};

bool is_server_message_sufficient(int code)
{
    for (const Mapping &mapping : MAPPINGS)
        if (mapping.code == code)
            return code < 1300;
    return false;
}

}  // namespace

int handler_error(int code)
{
    for (const Mapping &mapping : MAPPINGS)
        if (mapping.code == code)
            return mapping.handler_error;
    return HA_ERR_INTERNAL_ERROR;
}

int failed(THD *thd, int code, const frond_error &error)
{
    if (code != FROND_NOT_FOUND && !is_server_message_sufficient(code)) {
        sql_print_error("Frond: %s", error.message);
        if (thd != nullptr)
            push_warning_printf(thd, Sql_condition::WARN_LEVEL_WARN, ER_UNKNOWN_ERROR, "%s", error.message);
    }
    return handler_error(code);
}

}  // namespace frond
