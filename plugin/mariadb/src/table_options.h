/* What CREATE TABLE may say to this engine alone. SPDX-License-Identifier: GPL-2.0-only */
#ifndef FROND_TABLE_OPTIONS_H
#define FROND_TABLE_OPTIONS_H

#include "server.h"

/* The server's name for what it makes of the options of a table. */
struct ha_table_option_struct {
    uint compression; /* Which of the names, from 0. */
};

namespace frond {

extern ha_create_table_option table_options[];

/* FROND_FAST, FROND_DEFAULT, FROND_SMALL. */
int size_class(const ha_table_option_struct *options);
/* The name of such a class; "?" if there is none. */
const char *size_class_name(int size_class);

/* Notes of options that say to InnoDB how to compress: every table is compressed. */
void note_options_without_effect(THD *thd, const HA_CREATE_INFO *info);

}  // namespace frond

#endif
