#!/usr/bin/env python3
"""Statistics without ANALYZE TABLE: sampled soon after a table is used, again when it has grown, and
after a restart; and prepared statements that lose what the server knew of covering indexes."""

import functools
import pathlib
import subprocess
import sys
import time

import private_server
from compare import Session

ROOT = pathlib.Path(__file__).resolve().parents[3]
SOCKET = ROOT / "target/mariadb/servers/statistics/s.sock"
LOG = ROOT / "target/mariadb/servers/statistics/error.log"
# No limit on speed: a sampling that takes this long has failed. A table is left alone for a hundred
# times as long as its last sampling took.
PATIENCE = 300
ROWS = 20000

server = functools.partial(private_server.server, "statistics")


def sql(text, database="d"):
    return subprocess.run(["mariadb", "--no-defaults", f"--socket={SOCKET}", "-uroot", "-N", database, "-e", text], stdout=subprocess.PIPE,
                          text=True, check=True).stdout


def cardinality(table, key, column):
    """What SHOW INDEX says of a key's first columns; None if nothing is known."""
    rows = [line.split("\t") for line in sql(f"SELECT COUNT(*) FROM {table} WHERE 0; SHOW INDEX FROM {table}").splitlines()[1:]]
    return next(None if row[6] == "NULL" else int(row[6]) for row in rows if row[2] == key and row[4] == column)


def expect(what, table, key, column, values):
    """
    Waits for a cardinality within a factor of two. A partition may have as many values as the
    table, and its statistics are taken for those of all rows: with four of them, up to four times
    as many.
    """
    most = 8 * values if table == "parted" else 2 * values
    end = time.monotonic() + PATIENCE
    while True:
        found = cardinality(table, key, column)
        if found is not None and values / 2 <= found <= most:
            return 0
        if time.monotonic() > end:
            print(f"{what}: {table}.{column} has {values} values, and SHOW INDEX says {found}")
            return 1
        time.sleep(0.1)


def tables_are_sampled():
    failed = 0
    for table, more in (("one", ""), ("parted", "PARTITION BY KEY (a) PARTITIONS 4")):
        sql(f"CREATE TABLE {table} (a INT PRIMARY KEY, b INT, c INT, KEY bc (b, c)) {more};"
            f"INSERT INTO {table} SELECT seq, seq MOD 100, seq MOD 1000 FROM seq_1_to_{ROWS}")
        failed += expect("after the load", table, "bc", "b", 100)
        failed += expect("after the load", table, "bc", "c", 1000)
        rows = int(sql(f"EXPLAIN SELECT * FROM seq_1_to_10 STRAIGHT_JOIN {table} FORCE INDEX (bc) ON b = seq").splitlines()[-1].split("\t")[8])
        if not 20 <= rows <= 800:
            failed += 1
            print(f"200 rows of {table} match each value, and the optimizer expects {rows}")
        sql(f"INSERT INTO {table} SELECT seq, seq MOD 5000, seq FROM seq_{ROWS + 1}_to_{4 * ROWS}")
        failed += expect("after growth", table, "bc", "b", 5000)
    server("stop")
    server("start", "--default-storage-engine=FROND")
    failed += expect("after a restart", "one", "bc", "b", 5000)
    failed += expect("after a restart", "parted", "bc", "b", 5000)
    sql("TRUNCATE TABLE one")
    sql(f"INSERT INTO one SELECT seq, seq MOD 10, seq MOD 20 FROM seq_1_to_{ROWS}")
    failed += expect("after TRUNCATE", "one", "bc", "b", 10)
    sql("ANALYZE TABLE one; CREATE INDEX c ON one (c)")
    failed += expect("of a new index", "one", "c", "c", 20)
    # What ANALYZE found of an empty table does not hold for a full one, even if it was just opened.
    sql(f"CREATE TABLE late (a INT PRIMARY KEY, b INT, KEY (b)); ANALYZE TABLE late; INSERT INTO late SELECT seq, seq MOD 40 FROM seq_1_to_{ROWS}")
    server("stop")
    server("start", "--default-storage-engine=FROND")
    failed += expect("analyzed when it was empty", "late", "b", "b", 40)
    return failed


def sampled_tables_can_be_dropped():
    """Tables are dropped, renamed, truncated and changed while they are sampled."""
    keys = [f"k{number} INT AS (b + {number}) STORED" for number in range(12)]
    indexes = [f"KEY (k{number}, b)" for number in range(12)]
    for number in range(12):
        change = ("DROP TABLE t", "RENAME TABLE t TO u; SELECT COUNT(*) FROM u WHERE b = 7; DROP TABLE u",
                  "TRUNCATE TABLE t; SELECT COUNT(*) FROM t WHERE b = 7; DROP TABLE t",
                  "ALTER TABLE t DROP INDEX k0, ADD INDEX ba (b, a); DROP TABLE t")[number % 4]
        sql(f"CREATE TABLE t (a INT PRIMARY KEY, b INT, {', '.join(keys)}, {', '.join(indexes)});"
            f"INSERT INTO t (a, b) SELECT seq, CRC32(seq) MOD 100000 FROM seq_1_to_{ROWS}; SELECT COUNT(*) FROM t WHERE b = 7; {change}")
    if "statistics of table" in LOG.read_text():
        print("Tables that were sampled could not be read: see the error log")
        return 1
    return 0


def row_lookups(session, statement):
    """Number of blocks that a statement looks up in the cache."""
    count = "SHOW GLOBAL STATUS WHERE Variable_name IN ('Frond_cache_hits', 'Frond_cache_misses')"
    before, after = ([int(line.split("\t")[1]) for line in session.ask(text)[-2:]] for text in (count, f"{statement}; {count}"))
    return sum(after) - sum(before)


def covering_entries_are_enough():
    """
    A prepared statement that gets another TABLE object of the server than when it was first executed
    no longer knows which indexes cover it (MariaDB 10.11.18, with InnoDB as well).
    """
    sql("CREATE TABLE covered (a INT PRIMARY KEY, b INT, c INT, pad CHAR(200), KEY bc (b, c));"
        f"INSERT INTO covered SELECT seq, CRC32(seq) MOD 100, seq, REPEAT('x', 200) FROM seq_1_to_{ROWS}; FLUSH ENGINE LOGS")
    server("stop")
    server("start", "--default-storage-engine=FROND")
    # Sampling looks up blocks, too.
    if expect("before a prepared statement", "covered", "bc", "b", 100):
        return 1
    one, other = (Session(SOCKET, "d", "FROND") for _ in range(2))
    one.ask("PREPARE s FROM 'SELECT COUNT(b), SUM(c) FROM covered FORCE INDEX (bc) WHERE b = 5'; EXECUTE s;"
            "PREPARE e FROM 'EXPLAIN SELECT COUNT(b), SUM(c) FROM covered FORCE INDEX (bc) WHERE b = 5'; EXECUTE e")
    sql("CREATE TABLE of_innodb (a INT PRIMARY KEY, b INT, c INT, KEY bc (b, c)) ENGINE=InnoDB;"
        "INSERT INTO of_innodb SELECT a, b, c FROM covered")
    one.ask("PREPARE i FROM 'EXPLAIN SELECT COUNT(b), SUM(c) FROM of_innodb FORCE INDEX (bc) WHERE b = 5'; EXECUTE i")
    other.ask("LOCK TABLES covered READ, of_innodb READ")
    for engine, statement in (("FROND", "e"), ("InnoDB", "i")):
        if "Using index" in one.ask(f"EXECUTE {statement}")[-1]:
            print(f"statistics: with {engine}, this server keeps covering indexes: that prepared statements need no rows is not tested")
    rows = int(one.ask("EXECUTE s")[-1].split("\t")[0])
    found = row_lookups(one, "EXECUTE s")
    whole = row_lookups(one, "SELECT COUNT(b), SUM(c), SUM(LENGTH(pad)) FROM covered FORCE INDEX (bc) WHERE b = 5")
    if rows < ROWS // 200 or not found * 3 < whole:
        print(f"EXECUTE looked up {found} blocks for {rows} entries of a covering index; with their rows, {whole}")
        return 1
    return 0


def main():
    server("reset")
    server("start", "--default-storage-engine=FROND")
    sql("CREATE DATABASE d", "mysql")
    failed = tables_are_sampled() + sampled_tables_can_be_dropped() + covering_entries_are_enough()
    server("stop")
    if failed:
        sys.exit(f"{failed} expectations of statistics failed")
    print("statistics: sampled without ANALYZE, and covering entries are enough")


main()
