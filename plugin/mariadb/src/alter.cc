/* ALTER TABLE without a copy: what changes the definition alone. SPDX-License-Identifier: GPL-2.0-only */
#include "ha_frond.h"

#include "table_change.h"
#include "table_options.h"

using namespace frond;

namespace {

/* What rows and entries do not tell, or tell in the same way. */
constexpr alter_table_operations INSTANT =
    ALTER_COLUMN_TYPE_CHANGE_BY_ENGINE | ALTER_COLUMN_NAME | ALTER_RENAME_COLUMN | ALTER_COLUMN_DEFAULT |
    ALTER_COLUMN_OPTION | ALTER_COLUMN_COLUMN_FORMAT | ALTER_CHANGE_CREATE_OPTION | ALTER_CONVERT_TO |
    ALTER_DROP_CHECK_CONSTRAINT | ALTER_PARTITIONED | ALTER_VIRTUAL_GCOL_EXPR | ALTER_RENAME | ALTER_RENAME_INDEX |
    ALTER_CHANGE_INDEX_COMMENT | ALTER_INDEX_IGNORABILITY | ALTER_COLUMN_INDEX_LENGTH;

bool is_blob(const Type_handler *type)
{
    return type == &type_handler_tiny_blob || type == &type_handler_blob || type == &type_handler_medium_blob ||
           type == &type_handler_long_blob;
}

/* How many bytes a string of this type may have; 0: it is no string, or is not kept as its bytes. */
ulonglong capacity(const Type_handler *type, ulonglong declared)
{
    if (type == &type_handler_string || type == &type_handler_varchar)
        return declared;
    if (type == &type_handler_tiny_blob)
        return 255;
    if (type == &type_handler_blob)
        return 65535;
    if (type == &type_handler_medium_blob)
        return 0xFFFFFF;
    return type == &type_handler_long_blob ? 0xFFFFFFFF : 0;
}

/* BINARY(n) is kept with all of its bytes, other strings with their length. */
bool is_padded(const Type_handler *type, CHARSET_INFO *charset)
{
    return type == &type_handler_string && charset == &my_charset_bin;
}

}  // namespace

/*
  Whether values of the column that are stored are the same in a character set: only where nothing else goes by how
  they compare.
*/
bool ha_frond::can_reinterpret(const Field &field, CHARSET_INFO *charset) const
{
    return Charset(field.charset()).encoding_allows_reinterpret_as(charset) && table->vfield == nullptr &&
           table->check_constraints == nullptr && !(field.flags & FIELD_IN_PART_FUNC_FLAG);
}

/*
  Whether a column may get a type without a copy of the table. Strings are kept with their length and without the spaces
  that CHAR adds, so that they may become longer, and CHAR may become VARCHAR, and that TEXT. In keys there are weights
  of VARCHAR, which no length changes.
*/
bool ha_frond::can_convert_nocopy(const Field &field, const Column_definition &type) const
{
    const Type_handler *was = field.type_handler(), *is = type.type_handler();
    const ulonglong had = capacity(was, field.field_length), has = capacity(is, type.length);
    if (had == 0 || has < had || field.vcol_info != nullptr || type.vcol_info != nullptr)
        return false;
    /* Values of COMPRESSED columns are kept as the server has compressed them. */
    if (type.compression_method() != nullptr || static_cast<const Field_longstr &>(field).compression_method() != nullptr)
        return false;
    if (is_padded(was, field.charset()) || is_padded(is, type.charset))
        return false;
    if ((is == &type_handler_string && was != is) || (is_blob(was) && !is_blob(is)))
        return false;
    if (!is_blob(is) && type.char_length < field.char_length())
        return false;
    if (type.charset != field.charset() && !can_reinterpret(field, type.charset))
        return false;
    for (uint i = 0; i < table->s->keys; i++)
        for (const KEY_PART_INFO *part = table->key_info[i].key_part, *end = part + table->key_info[i].user_defined_key_parts;
             part < end; part++)
            if (part->fieldnr == field.field_index + 1u &&
                (was != &type_handler_varchar || is != was || type.charset != field.charset() ||
                 !plan().indexes[i].key.is_the_same_if_longer(field.field_index)))
                return false;
    return true;
}

/* A part that was the whole column stays that, one that was its begin stays the same begin. */
Compare_keys ha_frond::compare_key_parts(const Field &field, const Column_definition &type, const KEY_PART_INFO &was,
                                         const KEY_PART_INFO &is) const
{
    if (field.is_equal(type))
        return was.length == is.length ? Compare_keys::Equal : Compare_keys::NotEqual;
    if (!can_convert_nocopy(field, type))
        return Compare_keys::NotEqual;
    if (was.length < field.field_length)
        return was.length == is.length ? Compare_keys::Equal : Compare_keys::NotEqual;
    return is.length == type.length ? Compare_keys::EqualButKeyPartLength : Compare_keys::NotEqual;
}

bool ha_frond::check_if_incompatible_data(HA_CREATE_INFO *info, uint changes)
{
    if ((changes != IS_EQUAL_YES && changes != IS_EQUAL_PACK_LENGTH) ||
        size_class(info->option_struct) != size_class(table->s->option_struct))
        return COMPATIBLE_DATA_NO;
    /* A lower number for AUTO_INCREMENT is looked for among the rows, which a copy does. */
    if ((info->used_fields & HA_CREATE_USED_AUTO) && table->found_next_number_field != nullptr) {
        ha_frond::info(HA_STATUS_AUTO);
        if (info->auto_increment_value < stats.auto_increment_value)
            return COMPATIBLE_DATA_NO;
    }
    return COMPATIBLE_DATA_YES;
}

/* What needs no copy needs no pass over the rows either. */
enum_alter_inplace_result ha_frond::check_if_supported_inplace_alter(TABLE *altered, Alter_inplace_info *info)
{
    if (share_->is_temporary() || altered->versioned(VERS_TIMESTAMP) || info->create_info->sequence || (info->handler_flags & ~INSTANT)) {
        if (info->handler_flags & ALTER_STORED_COLUMN_TYPE)
            info->unsupported_reason = my_get_err_msg(ER_ALTER_OPERATION_NOT_SUPPORTED_REASON_COLUMN_TYPE);
        return HA_ALTER_INPLACE_NOT_SUPPORTED;
    }
    return check_if_incompatible_data(info->create_info, IS_EQUAL_PACK_LENGTH) == COMPATIBLE_DATA_YES
               ? HA_ALTER_INPLACE_INSTANT
               : HA_ALTER_INPLACE_NOT_SUPPORTED;
}

/* The end of an ALTER without a copy: keys may have new names, and numbers may go on from elsewhere. */
bool ha_frond::commit_inplace_alter_table(TABLE *altered, Alter_inplace_info *info, bool commit)
{
    if (!commit)
        return false;
    note_options_without_effect(ha_thd(), info->create_info);
    Attributes known, attributes;
    {
        std::lock_guard<std::mutex> guard(share_->attributes_mutex);
        known = attributes = share_->attributes;
    }
    attributes.name_keys(altered->s);
    if (info->create_info->used_fields & HA_CREATE_USED_AUTO)
        attributes.auto_increment = std::max<uint64_t>(info->create_info->auto_increment_value, 1);
    if (attributes.index_names == known.index_names && attributes.auto_increment == known.auto_increment)
        return false;
    Steps steps(ha_thd());
    steps.set_attributes(share_->name, attributes);
    if (int error = steps.commit()) {
        print_error(error, MYF(0));
        return true;
    }
    uint64_t first;
    share_->reserve(AUTO_INCREMENT_COUNTER, attributes.auto_increment, 0, &first, nullptr);
    std::lock_guard<std::mutex> guard(share_->attributes_mutex);
    share_->attributes = attributes;
    return false;
}
