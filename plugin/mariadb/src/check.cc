/* SPDX-License-Identifier: GPL-2.0-only */
#include "check.h"

#include "errors.h"
#include "ha_frond.h"
#include "store.h"

#include <cinttypes>
#include <cstdarg>
#include <functional>

namespace frond {
namespace {

/* Maximum number of wrong entries that are reported one by one; the others are only counted. */
constexpr uint64_t FAULTS_REPORTED_MAX = 5;
constexpr size_t KEY_BYTES_REPORTED_MAX = 32;
constexpr uint64_t HASH_MULTIPLIER = 0x9E3779B97F4A7C15;

std::string hexadecimal(std::string_view bytes)
{
    std::string text;
    for (uchar byte : bytes.substr(0, KEY_BYTES_REPORTED_MAX)) {
        char digits[3];
        snprintf(digits, sizeof digits, "%02X", byte);
        text += digits;
    }
    return bytes.size() > KEY_BYTES_REPORTED_MAX ? text + "..." : text;
}

/* Makes all columns readable and writable during its lifetime. */
class All_columns {
public:
    explicit All_columns(TABLE *table)
        : table_(table), read_(tmp_use_all_columns(table, &table->read_set)),
          write_(tmp_use_all_columns(table, &table->write_set))
    {
    }
    ~All_columns()
    {
        tmp_restore_column_map(&table_->read_set, read_);
        tmp_restore_column_map(&table_->write_set, write_);
    }

private:
    TABLE *const table_;
    MY_BITMAP *const read_, *const write_;
};

}  // namespace

Table_check::~Table_check()
{
    frond_buffer_free(&buffer_);
    frond_snapshot_free(snapshot_);
}

void Table_check::Tally::add(std::string_view key, std::string_view value)
{
    const std::hash<std::string_view> hash;
    uint64_t mixed = hash(key) * HASH_MULTIPLIER + hash(value);
    sum += (mixed ^ mixed >> 32) * HASH_MULTIPLIER;
    entries++;
}

int Table_check::read(const Tree &tree, std::string_view key)
{
    return tree.is_temporary()
               ? frond_temporary_get(tree.temporary(), key.data(), key.size(), &buffer_, &error_)
               : frond_snapshot_get(snapshot_, tree.stored(), key.data(), key.size(), &buffer_, &error_);
}

template <typename Each> int Table_check::scan(const Tree &tree, Each each)
{
    frond_cursor *cursor = nullptr;
    frond_rows batch;
    int code = tree.is_temporary()
                   ? frond_temporary_scan(tree.temporary(), nullptr, 0, nullptr, 0, &cursor, &error_)
                   : frond_snapshot_scan(snapshot_, tree.stored(), nullptr, 0, nullptr, 0, &cursor, &error_);
    while (code == FROND_OK && (code = frond_cursor_next(cursor, 0, &batch, &error_)) == FROND_OK) {
        for (size_t i = 0; i < batch.count && code == FROND_OK; i++) {
            const frond_row &row = batch.rows[i];
            code = each(view(row.key, row.key_length), view(row.value, row.value_length));
        }
        if (code == FROND_OK && thd_killed(thd_))
            code = INTERRUPTED;
    }
    frond_cursor_free(cursor);
    return code == FROND_NOT_FOUND ? FROND_OK : code;
}

int Table_check::count_rows(uint64_t *rows)
{
    const int code = scan(handler_->share_->row_tree(), [rows](std::string_view, std::string_view) {
        ++*rows;
        return FROND_OK;
    });
    return code == FROND_OK ? HA_ADMIN_OK : unreadable(code);
}

bool Table_check::read_row(std::string_view key, std::string_view value)
{
    TABLE *table = handler_->table;
    const Plan &plan = handler_->plan();
    uchar *record = table->record[0];
    if ((plan.has_primary() ? !plan.primary_key().decode(key, record) : key.size() != ROW_ID_BYTES) ||
        !plan.row->decode(value, nullptr, record))
        return false;
    if (table->vfield != nullptr) {
        /* Warnings of expressions were given when the row was written. */
        Dummy_error_handler silence;
        thd_->push_internal_handler(&silence);
        table->update_virtual_fields(handler_, VCOL_UPDATE_FOR_READ);
        thd_->pop_internal_handler();
    }
    return true;
}

void Table_check::make_entry(uint index, std::string_view row_key, std::string_view *key, std::string_view *value)
{
    bool is_unique;
    bytes_.clear();
    const Span span = handler_->append_entry(handler_->plan().indexes[index], handler_->table->record[0], row_key, &bytes_,
                                             &is_unique);
    *key = std::string_view(bytes_).substr(span.key, span.value - span.key);
    *value = std::string_view(bytes_).substr(span.value, span.end - span.value);
}

int Table_check::unreadable(int code)
{
    failed(thd_, code, error_);
    return code == INTERRUPTED ? HA_ADMIN_FAILED : HA_ADMIN_CORRUPT;
}

int Table_check::corrupt(const char *format, ...)
{
    char text[MYSQL_ERRMSG_SIZE];
    va_list arguments;
    va_start(arguments, format);
    my_vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    push_warning_printf(thd_, Sql_condition::WARN_LEVEL_WARN, ER_NOT_KEYFILE, "Frond: %s", text);
    return HA_ADMIN_CORRUPT;
}

/* Reads all rows, and adds up the entries that each index should have. */
int Table_check::check_rows(uint64_t *rows, std::vector<Tally> *wanted)
{
    const Plan &plan = handler_->plan();
    uint64_t bad = 0;
    const int code = scan(handler_->share_->row_tree(), [&](std::string_view row_key, std::string_view row) {
        ++*rows;
        if (!read_row(row_key, row)) {
            if (++bad <= FAULTS_REPORTED_MAX)
                corrupt("the row with key %s cannot be decoded", hexadecimal(row_key).c_str());
            return FROND_OK;
        }
        for (uint i = 0; i < plan.indexes.size(); i++) {
            std::string_view key, value;
            if (i == plan.primary)
                continue;
            make_entry(i, row_key, &key, &value);
            (*wanted)[i].add(key, value);
        }
        return FROND_OK;
    });
    if (code != FROND_OK)
        return unreadable(code);
    if (bad > 0)
        return corrupt("%llu rows cannot be decoded", static_cast<ulonglong>(bad));
    return HA_ADMIN_OK;
}

/* Finds and reports the wrong entries of an index. */
int Table_check::look_for_faults(uint number)
{
    const Plan &plan = handler_->plan();
    const Plan::Index &index = plan.indexes[number];
    const char *name = handler_->table->key_info[number].name.str;
    const Tree rows = handler_->share_->row_tree(), entries = handler_->share_->tree(number);
    uint64_t faults = 0;
    std::string row_key;
    auto fault = [&](const char *what, std::string_view key) {
        if (++faults <= FAULTS_REPORTED_MAX)
            corrupt("index '%s': %s, key %s", name, what, hexadecimal(key).c_str());
        return FROND_OK;
    };
    int code = scan(entries, [&](std::string_view key, std::string_view value) {
        std::string_view wanted_key, wanted_value;
        if (!handler_->decode_entry(index, key, value, nullptr, nullptr, &row_key))
            return fault("an entry cannot be decoded", key);
        const int found = read(rows, row_key);
        if (found == FROND_NOT_FOUND)
            return fault("an entry has no row", key);
        if (found != FROND_OK)
            return found;
        if (!read_row(row_key, view(buffer_.data, buffer_.length)))
            return fault("the row of an entry cannot be decoded", key);
        make_entry(number, row_key, &wanted_key, &wanted_value);
        if (wanted_key != key)
            return fault("the key of an entry does not match its row", key);
        if (wanted_value != value)
            return fault("the columns in an entry do not match its row", key);
        return FROND_OK;
    });
    if (code == FROND_OK)
        code = scan(rows, [&](std::string_view key, std::string_view value) {
            std::string_view wanted_key, wanted_value;
            if (!read_row(key, value))
                return fault("a row cannot be decoded", key);
            make_entry(number, key, &wanted_key, &wanted_value);
            const int found = read(entries, wanted_key);
            if (found == FROND_NOT_FOUND)
                return fault("a row has no entry", wanted_key);
            /* Entries that cannot be decoded were reported above. */
            if (found == FROND_OK &&
                handler_->decode_entry(index, wanted_key, view(buffer_.data, buffer_.length), nullptr, nullptr, &row_key) &&
                row_key != key)
                return fault("the entry of a row belongs to another row", wanted_key);
            return found;
        });
    if (code != FROND_OK)
        return unreadable(code);
    return corrupt("index '%s' does not match the table: %llu entries are wrong or missing", name,
                   static_cast<ulonglong>(faults));
}

int Table_check::run(bool with_contents)
{
    const Plan &plan = handler_->plan();
    TABLE *table = handler_->table;
    const All_columns all(table);
    if (int code = frond_snapshot_take(store(), &snapshot_, &error_)) {
        failed(thd_, code, error_);
        return HA_ADMIN_FAILED;
    }
    uint64_t rows = 0;
    std::vector<Tally> wanted(plan.indexes.size());
    int result = with_contents ? check_rows(&rows, &wanted) : count_rows(&rows);
    if (result != HA_ADMIN_OK)
        return result;
    for (uint i = 0; i < plan.indexes.size(); i++) {
        Tally found;
        if (i == plan.primary)
            continue;
        const int code = scan(handler_->share_->tree(i), [&found](std::string_view key, std::string_view value) {
            found.add(key, value);
            return FROND_OK;
        });
        if (code == INTERRUPTED)
            return unreadable(code);
        if (code != FROND_OK) {
            result = unreadable(code);
            continue;
        }
        if (found.entries != rows)
            result = corrupt("index '%s' has %llu entries, but the table has %llu rows", table->key_info[i].name.str,
                             static_cast<ulonglong>(found.entries), static_cast<ulonglong>(rows));
        if (with_contents && (found.entries != wanted[i].entries || found.sum != wanted[i].sum))
            if ((result = look_for_faults(i)) == HA_ADMIN_FAILED)
                return result;
    }
    return result;
}

}  // namespace frond

int ha_frond::check(THD *thd, HA_CHECK_OPT *options)
{
    return frond::Table_check(this, thd).run(!(options->flags & T_QUICK));
}
