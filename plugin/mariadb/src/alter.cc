/*
  ALTER TABLE without a copy: changes of the definition alone, and keys that are added or dropped.
  SPDX-License-Identifier: GPL-2.0-only
*/
#include "ha_frond.h"

#include "compression.h"
#include "index_change.h"
#include "table_change.h"
#include "table_options.h"
#include "tree_names.h"

using namespace frond;

namespace {

/* Changes that rows and entries do not show, or that leave their bytes the same. */
constexpr alter_table_operations INSTANT =
    ALTER_COLUMN_TYPE_CHANGE_BY_ENGINE | ALTER_COLUMN_NAME | ALTER_RENAME_COLUMN | ALTER_COLUMN_DEFAULT |
    ALTER_COLUMN_OPTION | ALTER_COLUMN_COLUMN_FORMAT | ALTER_CHANGE_CREATE_OPTION | ALTER_CONVERT_TO |
    ALTER_DROP_CHECK_CONSTRAINT | ALTER_PARTITIONED | ALTER_VIRTUAL_GCOL_EXPR | ALTER_RENAME | ALTER_RENAME_INDEX |
    ALTER_CHANGE_INDEX_COMMENT | ALTER_INDEX_IGNORABILITY | ALTER_COLUMN_INDEX_LENGTH;

/* Keys that are added and dropped; the server renumbers the others then. */
constexpr alter_table_operations KEYS_ADDED = ALTER_ADD_NON_UNIQUE_NON_PRIM_INDEX | ALTER_ADD_UNIQUE_INDEX;
constexpr alter_table_operations KEYS =
    KEYS_ADDED | ALTER_DROP_NON_UNIQUE_NON_PRIM_INDEX | ALTER_DROP_UNIQUE_INDEX | ALTER_INDEX_ORDER;

/*
  Whether the key can be built from the stored rows. It cannot if it has virtual columns, or if the
  server itself checks for rows with the same values by means of a column that it adds.
*/
bool is_of_rows(const KEY &key)
{
    if ((key.flags & (HA_FULLTEXT | HA_SPATIAL)) || key.algorithm == HA_KEY_ALG_LONG_HASH || key.without_overlaps)
        return false;
    for (uint i = 0; i < key.user_defined_key_parts; i++)
        if (!key.key_part[i].field->stored_in_db())
            return false;
    return true;
}

/*
  Keys can be added and dropped in place if the rows keep their keys: the primary key, which may be
  a UNIQUE key that the server has chosen as one, must stay.
*/
bool can_change_keys(const TABLE *table, const TABLE *altered, const Alter_inplace_info *info)
{
    const uint primary = altered->s->primary_key;
    if (altered->s->fields != table->s->fields || info->error_if_not_empty ||
        (info->ignore && (info->handler_flags & ALTER_ADD_UNIQUE_INDEX)))
        return false;
    const std::optional<Old_keys> old = old_keys(table, altered, info);
    if (!old)
        return false;
    if (primary == MAX_KEY ? table->s->primary_key != MAX_KEY : (*old)[primary] != table->s->primary_key)
        return false;
    for (uint i = 0; i < altered->s->keys; i++)
        if (!(*old)[i] && !is_of_rows(altered->key_info[i]))
            return false;
    return true;
}

bool is_blob(const Type_handler *type)
{
    return type == &type_handler_tiny_blob || type == &type_handler_blob || type == &type_handler_medium_blob ||
           type == &type_handler_long_blob;
}

/*
  How many bytes a string of this type can have; 0 if it is not a string, or is not stored as its
  bytes.
*/
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

/*
  Whether a string is stored with all of its bytes: BINARY(n). Other strings are stored with their
  length.
*/
bool is_padded(const Type_handler *type, CHARSET_INFO *charset)
{
    return type == &type_handler_string && charset == &my_charset_bin;
}

}  // namespace

/*
  Whether stored values of the column stay the same in another character set: only if nothing else
  depends on how they compare.
*/
bool ha_frond::can_reinterpret(const Field &field, CHARSET_INFO *charset) const
{
    return Charset(field.charset()).encoding_allows_reinterpret_as(charset) && table->vfield == nullptr &&
           table->check_constraints == nullptr && !(field.flags & FIELD_IN_PART_FUNC_FLAG);
}

/*
  Whether a column can change its type without a copy of the table. Strings are stored with their
  length and without the spaces that CHAR adds. So they may become longer, CHAR may become VARCHAR,
  and VARCHAR may become TEXT. Keys hold the weights of a VARCHAR, which depend on its maximum
  length only in a few collations (Key_codec::is_the_same_if_longer).
*/
bool ha_frond::can_convert_nocopy(const Field &field, const Column_definition &type) const
{
    const Type_handler *was = field.type_handler(), *is = type.type_handler();
    const ulonglong had = capacity(was, field.field_length), has = capacity(is, type.length);
    if (had == 0 || has < had || field.vcol_info != nullptr || type.vcol_info != nullptr)
        return false;
    /* Values of COMPRESSED columns are stored as the server has compressed them. */
    if (type.compression_method() != nullptr || static_cast<const Field_longstr &>(field).compression_method() != nullptr)
        return false;
    if (is_padded(was, field.charset()) || is_padded(is, type.charset))
        return false;
    /* KEY partitioning may hash the spaces of a CHAR. */
    if ((field.flags & FIELD_IN_PART_FUNC_FLAG) && (was == &type_handler_string || is == &type_handler_string))
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

/*
  A key part that was the whole column must still be the whole column, and a part that was a prefix
  must still be the same prefix.
*/
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

/*
  Whether the rows are about to become a partition of a table whose primary key is another one. The
  server compares keys by name only. It may have chosen a different UNIQUE key as the primary key in
  each table, and rows are stored in its order.
*/
bool ha_frond::has_other_primary_than_exchanged() const
{
    const LEX *lex = ha_thd()->lex;
    if (!(lex->alter_info.partition_flags & (ALTER_PARTITION_EXCHANGE | ALTER_PARTITION_CONVERT_IN)) ||
        lex->query_tables == nullptr || lex->query_tables->table == nullptr)
        return false;
    const TABLE_SHARE *other = lex->query_tables->table->s, *own = table->s;
    if (other->primary_key == MAX_KEY || own->primary_key == MAX_KEY)
        return other->primary_key != own->primary_key;
    return !is_same_name(other->key_info[other->primary_key].name.str, own->key_info[own->primary_key].name.str);
}

bool ha_frond::check_if_incompatible_data(HA_CREATE_INFO *info, uint changes)
{
    if (has_other_primary_than_exchanged() ||
        (changes != IS_EQUAL_YES && changes != IS_EQUAL_PACK_LENGTH) ||
        size_class(info->option_struct) != size_class(table->s->option_struct))
        return COMPATIBLE_DATA_NO;
    /* A lower number for AUTO_INCREMENT must be checked against the rows, which a copy does. */
    if ((info->used_fields & HA_CREATE_USED_AUTO) && table->found_next_number_field != nullptr) {
        ha_frond::info(HA_STATUS_AUTO);
        if (info->auto_increment_value < stats.auto_increment_value)
            return COMPATIBLE_DATA_NO;
    }
    return COMPATIBLE_DATA_YES;
}

/*
  Whether the columns have their NULL bits in the same places of the record, which rows store as they
  are. The first bit is free in a table without variable length, so ROW_FORMAT and a CHAR that
  becomes a VARCHAR can move them.
*/
static bool has_same_null_bits(const TABLE *was, const TABLE *is)
{
    if (was->s->fields != is->s->fields || was->s->null_bytes != is->s->null_bytes)
        return false;
    for (uint i = 0; i < was->s->fields; i++) {
        const Field *before = was->field[i], *after = is->field[i];
        if (before->real_maybe_null() != after->real_maybe_null())
            return false;
        if (before->real_maybe_null() &&
            (before->null_bit != after->null_bit ||
             before->null_ptr - was->record[0] != after->null_ptr - is->record[0]))
            return false;
    }
    return true;
}

/*
  A change of the definition alone needs no pass over the rows. A new key needs one, without
  concurrent writers; dropping a key needs none.
*/
enum_alter_inplace_result ha_frond::check_if_supported_inplace_alter(TABLE *altered, Alter_inplace_info *info)
{
    if (share_->is_temporary() || altered->versioned(VERS_TIMESTAMP) || info->create_info->sequence ||
        (info->handler_flags & ~(INSTANT | KEYS))) {
        if (info->handler_flags & ALTER_STORED_COLUMN_TYPE)
            info->unsupported_reason = my_get_err_msg(ER_ALTER_OPERATION_NOT_SUPPORTED_REASON_COLUMN_TYPE);
        return HA_ALTER_INPLACE_NOT_SUPPORTED;
    }
    if (check_if_incompatible_data(info->create_info, IS_EQUAL_PACK_LENGTH) != COMPATIBLE_DATA_YES)
        return HA_ALTER_INPLACE_NOT_SUPPORTED;
    if (!has_same_null_bits(table, altered))
        return HA_ALTER_INPLACE_NOT_SUPPORTED;
    if (!old_keys(table, altered, info))
        return HA_ALTER_INPLACE_NOT_SUPPORTED;
    if (!(info->handler_flags & KEYS))
        return HA_ALTER_INPLACE_INSTANT;
    if (!can_change_keys(table, altered, info))
        return HA_ALTER_INPLACE_NOT_SUPPORTED;
    const bool adds = info->handler_flags & KEYS_ADDED;
    info->unsupported_reason = adds ? "ADD INDEX" : "DROP INDEX"; /* For ALGORITHM=INSTANT. */
    return adds ? HA_ALTER_INPLACE_NOCOPY_LOCK : HA_ALTER_INPLACE_NOCOPY_NO_LOCK;
}

bool ha_frond::prepare_inplace_alter_table(TABLE *altered, Alter_inplace_info *info)
{
    std::optional<Old_keys> old = old_keys(table, altered, info);
    if (!old) {
        my_error(ER_INTERNAL_ERROR, MYF(0), "a key is not found");
        return true;
    }
    info->handler_ctx = new Index_change(share_, std::move(*old), altered, info->create_info);
    return false;
}

bool ha_frond::inplace_alter_table(TABLE *altered, Alter_inplace_info *info)
{
    Index_change *change = static_cast<Index_change *>(info->handler_ctx);
    return change->has_new_keys() && !change->build(ha_thd(), this, altered);
}

/* Ends an ALTER without a copy, for all partitions in one commit. */
bool ha_frond::commit_inplace_alter_table(TABLE *, Alter_inplace_info *info, bool commit)
{
    if (!commit) {
        /* This is called for each partition. */
        if (info->handler_ctx != nullptr)
            static_cast<Index_change *>(info->handler_ctx)->roll_back(ha_thd());
        return false;
    }
    note_options_without_effect(ha_thd(), info->create_info);
    inplace_alter_handler_ctx *alone[] = {info->handler_ctx, nullptr};
    inplace_alter_handler_ctx **const all = info->group_commit_ctx == nullptr ? alone : info->group_commit_ctx;
    Steps steps(ha_thd());
    Dropped_trees going;
    bool changes = false;
    for (inplace_alter_handler_ctx **change = all; *change != nullptr; change++)
        static_cast<Index_change *>(*change)->add_steps(&steps, &going, &changes);
    if (changes) {
        if (int error = steps.commit()) {
            print_error(error, MYF(0));
            return true;
        }
        going.committed();
    }
    for (inplace_alter_handler_ctx **change = all; *change != nullptr; change++)
        static_cast<Index_change *>(*change)->committed();
    info->group_commit_ctx = nullptr;
    return false;
}
