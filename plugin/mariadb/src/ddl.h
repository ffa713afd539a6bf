/* Tables as a whole, without a handler that is open. SPDX-License-Identifier: GPL-2.0-only */
#ifndef FROND_DDL_H
#define FROND_DDL_H

#include "server.h"

namespace frond {

/* Fills in the members of the handlerton that are about tables. */
void set_table_calls(handlerton *hton);

}  // namespace frond

#endif
