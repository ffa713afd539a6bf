/* Status variables: Frond_%. SPDX-License-Identifier: GPL-2.0-only */
#ifndef FROND_STATUS_H
#define FROND_STATUS_H

#include "server.h"

namespace frond {

extern struct st_mysql_show_var status_variables[];

/*
  Call this once the store is open. If the store lacks one of the numbers, the error log says so.
*/
void set_status_variables();

}  // namespace frond

#endif
