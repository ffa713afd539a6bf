/*
  One row of a table of INFORMATION_SCHEMA, filled from left to right.
  SPDX-License-Identifier: GPL-2.0-only
*/
#ifndef FROND_SCHEMA_ROW_H
#define FROND_SCHEMA_ROW_H

#include "tree_names.h"

#include "sql_i_s.h"
#include "tztime.h"

#include <optional>
#include <string_view>

namespace frond {

/* Seconds, with microseconds. */
inline Show::Decimal seconds_type()
{
    return Show::Decimal(100 * 20 + 6);
}

class Schema_row {
public:
    Schema_row(THD *thd, TABLE *table) : thd_(thd), table_(table) { restore_record(table, s->default_values); }

    Schema_row &null()
    {
        table_->field[next_++]->set_null();
        return *this;
    }
    Schema_row &number(uint64_t value)
    {
        field()->store(static_cast<longlong>(value), true);
        return *this;
    }
    Schema_row &text(std::string_view text, CHARSET_INFO *charset = system_charset_info)
    {
        field()->store(text.data(), text.size(), charset);
        return *this;
    }
    Schema_row &text_if(const std::optional<std::string> &value) { return value ? text(*value) : null(); }
    Schema_row &seconds(uint64_t nanos)
    {
        field()->store(static_cast<double>(nanos) / 1e9);
        return *this;
    }
    /* The ratio of two numbers; NULL if the divisor is 0. */
    Schema_row &ratio(uint64_t more, uint64_t less)
    {
        if (less == 0)
            return null();
        field()->store(static_cast<double>(more) / static_cast<double>(less));
        return *this;
    }
    /* The time so many nanoseconds ago. */
    Schema_row &ago(uint64_t nanos)
    {
        MYSQL_TIME when;
        const uint64_t now = my_hrtime().val;
        thd_->variables.time_zone->gmt_sec_to_TIME(&when, static_cast<my_time_t>((now - nanos / 1000) / 1000000));
        field()->store_time(&when);
        return *this;
    }
    /* Schema, table, partition and index. */
    Schema_row &place(const Named_tree *tree)
    {
        if (tree == nullptr)
            return null().null().null().null();
        return text_if(tree->schema).text_if(tree->table).text_if(tree->partition).text_if(tree->index);
    }
    /* True if the row could not be stored. */
    bool store() { return schema_table_store_record(thd_, table_); }

private:
    Field *field()
    {
        Field *field = table_->field[next_++];
        field->set_notnull();
        return field;
    }

    THD *thd_;
    TABLE *table_;
    uint next_ = 0;
};

/* The common part of the init functions of tables. */
int init_table(void *schema, ST_FIELD_INFO *fields, int (*fill)(THD *, TABLE_LIST *, Item *));

/* Whether the session may see what others do; raises an error if not. */
bool may_look(THD *thd);

}  // namespace frond

#endif
