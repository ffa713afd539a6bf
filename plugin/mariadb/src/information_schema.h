/*
  INFORMATION_SCHEMA.FROND_*: the state of the store, as tables.
  SPDX-License-Identifier: GPL-2.0-only
*/
#ifndef FROND_INFORMATION_SCHEMA_H
#define FROND_INFORMATION_SCHEMA_H

#include "server.h"

namespace frond {

extern struct st_mysql_information_schema information_schema;

/* Called by the server when it loads the plugins of the tables. */
int init_trx_table(void *schema);
int init_locks_table(void *schema);
int init_lock_waits_table(void *schema);
int init_trees_table(void *schema);
int init_cmp_table(void *schema);
int init_cmp_reset_table(void *schema);
int init_cmp_per_index_table(void *schema);
int init_cmp_per_index_reset_table(void *schema);

}  // namespace frond

#endif
