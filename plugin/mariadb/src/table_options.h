/* Options of CREATE TABLE that only this engine has. SPDX-License-Identifier: GPL-2.0-only */
#ifndef FROND_TABLE_OPTIONS_H
#define FROND_TABLE_OPTIONS_H

#include "server.h"

/* The server's name for the parsed options of a table. */
struct ha_table_option_struct {
    uint compression; /* Index of the chosen name, from 0. */
};

namespace frond {

extern ha_create_table_option table_options[];

/* FROND_FAST, FROND_DEFAULT, FROND_SMALL. */
int size_class(const ha_table_option_struct *options);
/* The name of a size class; "?" if there is none. */
const char *size_class_name(int size_class);

/* Adds notes about options that tell InnoDB how to compress: here every table is compressed. */
void note_options_without_effect(THD *thd, const HA_CREATE_INFO *info);

}  // namespace frond

#endif
