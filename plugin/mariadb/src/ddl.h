/* Operations on whole tables, without an open handler. SPDX-License-Identifier: GPL-2.0-only */
#ifndef FROND_DDL_H
#define FROND_DDL_H

#include "server.h"

namespace frond {

/* Sets the members of the handlerton for tables. */
void set_table_calls(handlerton *hton);

}  // namespace frond

#endif
