/* SPDX-License-Identifier: GPL-2.0-only */
#include "table_options.h"

namespace frond {
namespace {

constexpr const char *CLASS_NAMES[] = {"fast", "default", "small"};
constexpr int CLASSES[] = {FROND_FAST, FROND_DEFAULT, FROND_SMALL};

void note(THD *thd, const char *option, const char *instead)
{
    push_warning_printf(thd, Sql_condition::WARN_LEVEL_NOTE, ER_ILLEGAL_HA_CREATE_OPTION,
                        "Frond: %s has no effect: %s", option, instead);
}

constexpr const char *COMPRESSED = "every table is compressed; use the COMPRESSION option";
constexpr const char *DYNAMIC = "the engine has only one row format";

}  // namespace

ha_create_table_option table_options[] = {
    HA_TOPTION_ENUM("COMPRESSION", compression, "fast,default,small", 1),
    HA_TOPTION_END,
};

int size_class(const ha_table_option_struct *options)
{
    return options == nullptr || options->compression >= array_elements(CLASSES) ? FROND_DEFAULT
                                                                                 : CLASSES[options->compression];
}

const char *size_class_name(int size_class)
{
    for (uint i = 0; i < array_elements(CLASSES); i++)
        if (CLASSES[i] == size_class)
            return CLASS_NAMES[i];
    return "?";
}

void note_options_without_effect(THD *thd, const HA_CREATE_INFO *info)
{
    if (info->used_fields & HA_CREATE_USED_ROW_FORMAT)
        switch (info->row_type) {
        case ROW_TYPE_COMPRESSED:
            note(thd, "ROW_FORMAT=COMPRESSED", COMPRESSED);
            break;
        case ROW_TYPE_FIXED:
            note(thd, "ROW_FORMAT=FIXED", DYNAMIC);
            break;
        case ROW_TYPE_PAGE:
            note(thd, "ROW_FORMAT=PAGE", DYNAMIC);
            break;
        default:
            break;
        }
    if ((info->used_fields & HA_CREATE_USED_KEY_BLOCK_SIZE) && info->key_block_size != 0)
        note(thd, "KEY_BLOCK_SIZE", COMPRESSED);
}

}  // namespace frond
