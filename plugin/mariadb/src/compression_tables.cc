/*
  INFORMATION_SCHEMA.FROND_CMP, FROND_CMP_PER_INDEX, and their _RESET variants, which count since
  they were last read. SPDX-License-Identifier: GPL-2.0-only
*/
#include "compression.h"
#include "information_schema.h"
#include "opened_tree.h"
#include "schema_row.h"

#include "sql_show.h"

#include <map>
#include <mutex>

namespace Show {

#define COMPRESSION_COLUMNS                                                                                              \
    Column("compress_ops", ULonglong(), NOT_NULL), Column("bytes_in", ULonglong(), NOT_NULL),                            \
        Column("bytes_out", ULonglong(), NOT_NULL), Column("compress_seconds", frond::seconds_type(), NOT_NULL),         \
        Column("coded_ops", ULonglong(), NOT_NULL), Column("coded_bytes_in", ULonglong(), NOT_NULL),                     \
        Column("coded_bytes_out", ULonglong(), NOT_NULL), Column("stored_raw_ops", ULonglong(), NOT_NULL),               \
        Column("decompress_ops", ULonglong(), NOT_NULL), Column("decompress_bytes_out", ULonglong(), NOT_NULL),          \
        Column("decompress_seconds", frond::seconds_type(), NOT_NULL), Column("buffer_ops", ULonglong(), NOT_NULL),      \
        Column("buffer_bytes_in", ULonglong(), NOT_NULL), Column("buffer_bytes_out", ULonglong(), NOT_NULL),             \
        Column("buffer_seconds", frond::seconds_type(), NOT_NULL), CEnd()

static ST_FIELD_INFO cmp_fields[] = {
    Column("codec", Varchar(6), NOT_NULL),
    Column("kind", Varchar(9), NOT_NULL),
    COMPRESSION_COLUMNS,
};

static ST_FIELD_INFO cmp_per_index_fields[] = {
    Column("table_schema", Name(), NULLABLE),
    Column("table_name", Name(), NULLABLE),
    Column("partition_name", Varchar(2 * NAME_CHAR_LEN + 1), NULLABLE),
    Column("index_name", Name(), NULLABLE),
    Column("tree_id", ULonglong(), NOT_NULL),
    Column("codec", Varchar(6), NOT_NULL),
    Column("kind", Varchar(9), NOT_NULL),
    COMPRESSION_COLUMNS,
};

}  // namespace Show

namespace frond {
namespace {

constexpr const char *KINDS[] = {"primary", "secondary"};

/* What the _RESET tables have reported so far. */
std::mutex reported_mutex;
Compression_by_codec reported;
std::map<uint32_t, Compression> reported_of_trees;

void compression_columns(Schema_row *row, const Compression &done)
{
    row->number(done.blocks).number(done.bytes_in).number(done.bytes_out).seconds(done.nanos);
    row->number(done.coded).number(done.coded_bytes_in).number(done.coded_bytes_out).number(done.raw);
    row->number(done.decoded).number(done.decoded_bytes).seconds(done.decode_nanos);
    row->number(done.buffer_blocks).number(done.buffer_bytes_in).number(done.buffer_bytes_out).seconds(done.buffer_nanos);
}

int fill_cmp_from(THD *thd, TABLE_LIST *tables, const Compression_by_codec &sums)
{
    for (int codec = 0; codec < Compression_by_codec::CODECS; codec++)
        for (int which : {PRIMARY, SECONDARY}) {
            Schema_row row(thd, tables->table);
            row.text(codec_name(codec)).text(KINDS[which]);
            compression_columns(&row, sums.of[codec][which]);
            if (row.store())
                return 1;
        }
    return 0;
}

int fill_cmp(THD *thd, TABLE_LIST *tables, COND *)
{
    return may_look(thd) ? fill_cmp_from(thd, tables, Compression_by_codec::now()) : 0;
}

int fill_cmp_reset(THD *thd, TABLE_LIST *tables, COND *)
{
    if (!may_look(thd))
        return 0;
    Compression_by_codec since;
    {
        std::lock_guard<std::mutex> guard(reported_mutex);
        const Compression_by_codec now = Compression_by_codec::now();
        since = now;
        for (int codec = 0; codec < Compression_by_codec::CODECS; codec++)
            for (int which : {PRIMARY, SECONDARY})
                since.of[codec][which].subtract(reported.of[codec][which]);
        reported = now;
    }
    return fill_cmp_from(thd, tables, since);
}

int fill_per_index_from(THD *thd, TABLE_LIST *tables, std::map<uint32_t, Compression> *since)
{
    const Tree_names names;
    std::map<uint32_t, Compression> all;
    int failed = 0;
    for (const Named_tree &tree : names.all()) {
        const Opened_tree opened(tree);
        frond_work work;
        if (opened.get() == nullptr || frond_tree_work(opened.get(), &work, nullptr) != FROND_OK)
            continue;
        Compression done;
        done.add(work);
        if (since != nullptr) {
            all[tree.id] = done;
            done.subtract((*since)[tree.id]);
        }
        Schema_row row(thd, tables->table);
        row.place(&tree).number(tree.id).text(codec_name(codec_number(work.size_class)));
        row.text(KINDS[tree.kind == Named_tree::INDEX ? SECONDARY : PRIMARY]);
        compression_columns(&row, done);
        failed = failed || row.store() || thd_killed(thd);
        if (failed)
            return 1;
    }
    if (since != nullptr)
        *since = std::move(all); /* Dropped trees are left out. */
    return 0;
}

int fill_per_index(THD *thd, TABLE_LIST *tables, COND *)
{
    return may_look(thd) ? fill_per_index_from(thd, tables, nullptr) : 0;
}

int fill_per_index_reset(THD *thd, TABLE_LIST *tables, COND *)
{
    if (!may_look(thd))
        return 0;
    std::lock_guard<std::mutex> guard(reported_mutex);
    return fill_per_index_from(thd, tables, &reported_of_trees);
}

}  // namespace

int init_cmp_table(void *schema)
{
    return init_table(schema, Show::cmp_fields, fill_cmp);
}

int init_cmp_reset_table(void *schema)
{
    return init_table(schema, Show::cmp_fields, fill_cmp_reset);
}

int init_cmp_per_index_table(void *schema)
{
    return init_table(schema, Show::cmp_per_index_fields, fill_per_index);
}

int init_cmp_per_index_reset_table(void *schema)
{
    return init_table(schema, Show::cmp_per_index_fields, fill_per_index_reset);
}

}  // namespace frond
