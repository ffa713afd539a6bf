/* Maps errors of the engine to errors of the server. SPDX-License-Identifier: GPL-2.0-only */
#ifndef FROND_ERRORS_H
#define FROND_ERRORS_H

#include <frond.h>

class THD;

namespace frond {

/* Codes of docs/errors.md that the plugin handles itself. */
enum Code : int {
    INVALID_ARGUMENT = 1001,
    NO_SUCH_TREE = 1004,
    TREE_EXISTS = 1005,
    DEFINITION_CHANGED = 1006,
    LOCK_TIMEOUT = 1101,
    DEADLOCK = 1102,
    DUPLICATE_KEY = 1104,
    LOCK_BUSY = 1105,
    INTERRUPTED = 1106,
    CONFLICT = 1107,
    NO_SUCH_XID = 1110,
    XID_BUSY = 1112,
    CORRUPT = 2101,
};

/* The HA_ERR_* for a failed call; `code` is what the call returned, never FROND_OK. */
int handler_error(int code);

/*
  Like handler_error; also reports to the session and the error log the details that the server's
  own message lacks.
*/
int failed(THD *thd, int code, const frond_error &error);

}  // namespace frond

#endif
