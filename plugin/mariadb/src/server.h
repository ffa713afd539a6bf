/* The server's internal headers, included in one place. SPDX-License-Identifier: GPL-2.0-only */
#ifndef FROND_SERVER_H
#define FROND_SERVER_H

#define MYSQL_SERVER 1
#include <my_global.h>

#include "sql_priv.h"
#include "sql_class.h"
#include "handler.h"
#include "field.h"
#include "key.h"
#include "log.h"
#include "sql_alter.h"
#include "sql_plugin.h"
#include "sql_table.h"
#include "table.h"
#include <mysql/plugin.h>
#include <mysqld_error.h>

#include <frond.h>

#endif
