/* Status variables: Frond_%. SPDX-License-Identifier: GPL-2.0-only */
#ifndef FROND_STATUS_H
#define FROND_STATUS_H

#include "server.h"

namespace frond {

extern struct st_mysql_show_var status_variables[];

/* To be called once the store is open. The error log says if it lacks one of them. */
void set_status_variables();

}  // namespace frond

#endif
