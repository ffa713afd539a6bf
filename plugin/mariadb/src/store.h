/*
  The one store of a server, in `#frond` below its data directory.
  SPDX-License-Identifier: GPL-2.0-only
*/
#ifndef FROND_STORE_H
#define FROND_STORE_H

#include <frond.h>

struct handlerton;

namespace frond {

extern handlerton *hton;

/* Opens the store. Returns false, with a line in the error log, if it cannot be opened. */
bool open_store(unsigned long long cache_size, int durability);
void close_store();

/* The open store. */
frond_db *store();

}  // namespace frond

#endif
