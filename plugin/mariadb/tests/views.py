#!/usr/bin/env python3
"""Tests of what a DBA sees: INFORMATION_SCHEMA.FROND_*, status variables, the option COMPRESSION. The
argument is a running server's socket.

InnoDB has no such tables to compare with, so each result is checked against what was done before.
"""

import pathlib
import re
import sys
import time

from compare import Session

DOCUMENTATION = pathlib.Path(__file__).resolve().parents[3] / "docs/mariadb.md"
VIEWS = "INFORMATION_SCHEMA"
failed = []


def check(what, got, wanted):
    if got != wanted:
        failed.append(what)
        print(f"{what}: got {got!r}, wanted {wanted!r}")


def holds(what, condition, got):
    if not condition:
        failed.append(what)
        print(f"{what}: got {got!r}")


class Client(Session):
    """The rows, without a header, as lists of strings."""

    def rows(self, statement):
        lines = self.ask(statement)
        for line in lines:
            if line.startswith("ERROR"):
                failed.append(statement)
                print(f"{statement}: {line}")
        return [line.split("\t") for line in lines[1:]]

    def one(self, statement):
        rows = self.rows(statement)
        return rows[0] if rows else None


def wait_until(what, condition):
    for _ in range(100):
        if condition():
            return
        time.sleep(0.1)
    failed.append(what)
    print(f"{what}: not within 10 seconds")


def locks(a, b, c):
    a.ask("CREATE TABLE t (id INT PRIMARY KEY, v INT, KEY by_v (v)) ENGINE=FROND; INSERT INTO t VALUES (1,10),(2,20),(3,30)")
    a_id, b_id = (one.one("SELECT CONNECTION_ID()")[0] for one in (a, b))
    mine = f"FROM {VIEWS}.FROND_TRX WHERE trx_mysql_thread_id={a_id}"
    check("no transaction yet", c.rows(f"SELECT * {mine}"), [])
    a.ask("BEGIN")
    a.ask("UPDATE t SET v=11 WHERE id=1")
    check("transaction", c.one(f"SELECT trx_state, trx_rows_modified>0, trx_locks_seconds>=0 {mine}"),
          ["RUNNING", "1", "1"])
    check("row lock", c.rows(f"SELECT lock_mode, lock_schema, lock_table, lock_index, lock_data FROM {VIEWS}.FROND_LOCKS "
                             f"WHERE lock_mysql_thread_id={a_id} AND lock_type='RECORD' AND lock_index='PRIMARY'"),
          [["X", "views", "t", "PRIMARY", "0x80000001"]])
    check("locks of the index", c.one(f"SELECT COUNT(*) FROM {VIEWS}.FROND_LOCKS WHERE lock_mysql_thread_id={a_id} "
                                      "AND lock_index='by_v' AND lock_type='RECORD'"), ["2"])
    check("lock of the tree", c.one(f"SELECT DISTINCT lock_mode FROM {VIEWS}.FROND_LOCKS "
                                    f"WHERE lock_mysql_thread_id={a_id} AND lock_type='TABLE'"), ["IX"])
    a.ask("SELECT * FROM t WHERE id BETWEEN 2 AND 2 FOR UPDATE; SELECT * FROM t WHERE id>=3 FOR UPDATE")
    gaps = c.rows(f"SELECT lock_data FROM {VIEWS}.FROND_LOCKS WHERE lock_mysql_thread_id={a_id} AND lock_type='GAP'")
    holds("gap lock up to the last key", any(gap[0].endswith("last)") for gap in gaps), gaps)
    b.ask("SET frond_lock_wait_timeout=30")
    b.ask("BEGIN")
    b.send("UPDATE t SET v=12 WHERE id=1")
    waits = f"FROM {VIEWS}.FROND_LOCK_WAITS WHERE requesting_mysql_thread_id={b_id}"
    wait_until("a waiter is listed", lambda: c.rows(f"SELECT 1 {waits}"))
    check("who waits for whom", c.rows(f"SELECT blocking_mysql_thread_id, lock_mode, lock_type, lock_schema, lock_table, "
                                       f"lock_partition, lock_index, lock_data, wait_seconds BETWEEN 0 AND 30, "
                                       f"ABS(TIMESTAMPDIFF(SECOND, wait_started, NOW()))<30 {waits}"),
          [[a_id, "X", "RECORD", "views", "t", "NULL", "PRIMARY", "0x80000001", "1", "1"]])
    check("ids agree", c.one(f"SELECT COUNT(*) FROM {VIEWS}.FROND_LOCK_WAITS w JOIN {VIEWS}.FROND_TRX r "
                             f"ON r.trx_id=w.requesting_trx_id JOIN {VIEWS}.FROND_TRX h ON h.trx_id=w.blocking_trx_id "
                             f"WHERE r.trx_mysql_thread_id={b_id} AND h.trx_mysql_thread_id={a_id}"), ["1"])
    check("the waiter's statement", c.one(f"SELECT trx_state, trx_query FROM {VIEWS}.FROND_TRX "
                                          f"WHERE trx_mysql_thread_id={b_id}"), ["LOCK WAIT", "UPDATE t SET v=12 WHERE id=1"])
    a.ask("COMMIT")
    b.answer()
    check("nobody waits any more", c.rows(f"SELECT * {waits}"), [])
    b.ask("ROLLBACK")
    check("all is given back", c.rows(f"SELECT * FROM {VIEWS}.FROND_LOCKS WHERE lock_mysql_thread_id IN ({a_id},{b_id})"), [])
    a.ask("START TRANSACTION WITH CONSISTENT SNAPSHOT")
    check("a snapshot", c.one(f"SELECT trx_locks_seconds, trx_snapshot_seconds>=0, trx_snapshot_seqno>0 {mine}"),
          ["NULL", "1", "1"])
    a.ask("COMMIT")


def trees(a):
    def listed(where):
        return a.rows(f"SELECT table_name, partition_name, index_name, kind, compression, "
                      f"IF(rows_exact='YES', table_rows, 'about') FROM {VIEWS}.FROND_TREES "
                      f"WHERE table_schema='views' AND {where} ORDER BY 1, 2, 4 DESC, 3")

    check("a table with its index", listed("table_name='t'"),
          [["t", "NULL", "PRIMARY", "rows", "default", "3"], ["t", "NULL", "by_v", "index", "default", "about"]])
    a.ask("CREATE TABLE `odd /#name` (a INT, b INT, KEY `an odd # key` (a), KEY `con` (b)) ENGINE=FROND COMPRESSION=small")
    check("names that files cannot have", listed("table_name LIKE 'odd%'"),
          [["odd /#name", "NULL", "NULL", "rows", "small", "0"],
           ["odd /#name", "NULL", "an odd # key", "index", "small", "0"], ["odd /#name", "NULL", "con", "index", "small", "0"]])
    a.ask("CREATE TABLE p (a INT PRIMARY KEY, b INT, KEY (b)) ENGINE=FROND PARTITION BY HASH (a) (PARTITION `p#one`, PARTITION two)")
    a.ask("INSERT INTO p SELECT seq, seq FROM seq_1_to_10")
    check("partitions", listed("table_name='p'"),
          [["p", "p#one", "PRIMARY", "rows", "default", "5"], ["p", "p#one", "b", "index", "default", "5"],
           ["p", "two", "PRIMARY", "rows", "default", "5"], ["p", "two", "b", "index", "default", "5"]])
    a.ask("ALTER TABLE t RENAME INDEX by_v TO of_v")
    check("a renamed index", listed("table_name='t' AND kind='index'"), [["t", "NULL", "of_v", "index", "default", "about"]])
    a.ask("ALTER TABLE p RENAME INDEX b TO c")
    check("a renamed index of partitions", listed("table_name='p' AND partition_name='two' AND kind='index'"),
          [["p", "two", "c", "index", "default", "5"]])
    a.ask("RENAME TABLE t TO u")
    check("a renamed table", [row[0:3] for row in listed("table_name='u'")], [["u", "NULL", "PRIMARY"], ["u", "NULL", "of_v"]])
    a.ask("TRUNCATE u")
    check("a truncated table", listed("table_name='u' AND kind='index'"), [["u", "NULL", "of_v", "index", "default", "0"]])
    a.ask("DROP TABLE u, p, `odd /#name`")
    check("dropped tables", listed("1"), [])


def compression(a):
    a.ask("CREATE TABLE s (a INT PRIMARY KEY, b VARCHAR(100), KEY (b)) ENGINE=FROND COMPRESSION='fast'")
    a.ask("INSERT INTO s SELECT seq, CONCAT('value ', seq) FROM seq_1_to_1000")

    def stored():
        return sorted(row[0] for row in a.rows(f"SELECT compression FROM {VIEWS}.FROND_TREES WHERE table_name='s'"))

    check("COMPRESSION='fast'", stored(), ["fast", "fast"])
    shown = a.one("SHOW CREATE TABLE s")[1]
    holds("SHOW CREATE TABLE", "`COMPRESSION`='fast'" in shown, shown)
    a.ask("CREATE TABLE again LIKE s")
    again = a.one("SHOW CREATE TABLE again")[1]
    check("the same table again", again.replace("`again`", "`s`"), shown)
    a.ask("DROP TABLE again")
    a.ask("EXECUTE IMMEDIATE '" + again.replace("\\n", "\n").replace("'", "''") + "'")
    check("the same from its words", a.one("SHOW CREATE TABLE again")[1], again)
    a.ask("ALTER TABLE s COMPRESSION='small'")
    check("ALTER ... COMPRESSION", stored(), ["small", "small"])
    holds("SHOW TABLE STATUS", "small" in a.one("SHOW TABLE STATUS LIKE 's'")[16], a.one("SHOW TABLE STATUS LIKE 's'"))
    without = a.ask("ALTER TABLE s COMPRESSION='fast', ALGORITHM=INSTANT")
    holds("no change of it without a copy", any("ERROR 1846" in line or "ERROR 1845" in line for line in without), without)
    a.ask("ALTER TABLE s COMMENT='another'")
    check("another ALTER leaves it", stored(), ["small", "small"])
    a.ask("ALTER TABLE s COMPRESSION=DEFAULT")
    check("ALTER ... COMPRESSION=DEFAULT", stored(), ["default", "default"])
    check("rows are the same", a.one("SELECT COUNT(*), SUM(a), COUNT(DISTINCT b) FROM s"), ["1000", "500500", "1000"])
    refused = a.ask("CREATE TABLE wrong (a INT) ENGINE=FROND COMPRESSION='best'")
    holds("a wrong class", any("'best'" in line and "COMPRESSION" in line and "ERROR" in line for line in refused), refused)
    refused = a.ask("ALTER TABLE s COMPRESSION=3")
    holds("a wrong class in ALTER", any("ERROR" in line and "COMPRESSION" in line for line in refused), refused)
    a.ask("CREATE TABLE noted (a INT PRIMARY KEY) ENGINE=FROND ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=4")
    notes = a.rows("SHOW WARNINGS")
    check("notes", [note[0] + " " + note[2].split(" has")[0] for note in notes],
          ["Note Frond: ROW_FORMAT=COMPRESSED", "Note Frond: KEY_BLOCK_SIZE"])
    a.ask("DROP TABLE s, again, noted")


def sizes(a):
    """Sizes agree with the store, also after a restart, and with SHOW TABLE STATUS."""
    a.ask("CREATE TABLE z (id INT PRIMARY KEY, v INT, b LONGBLOB, KEY (v)) ENGINE=FROND COMPRESSION='fast'")
    a.ask("INSERT INTO z SELECT seq, seq*7919 MOD 100003, REPEAT('the same words ', 20) FROM seq_1_to_50000")
    a.ask("FLUSH ENGINE LOGS")

    def listed():
        return {row[0]: dict(zip(("height", "leaves", "leaf_rows", "raw", "encoded", "disk", "blobs", "buffered", "memory"),
                                 map(int, row[1:]))) for row in a.rows(
            f"SELECT index_name, height, leaves, leaf_rows, raw_bytes, encoded_bytes, disk_bytes, blob_bytes, buffered_bytes, "
            f"memory_bytes FROM {VIEWS}.FROND_TREES WHERE table_schema='views' AND table_name='z'")}

    wait_until("all rows are in leaves", lambda: all(one["leaf_rows"] == 50000 for one in listed().values()))
    rows, index = (listed()[name] for name in ("PRIMARY", "v"))
    holds("rows as they are", 50000 * 300 <= rows["raw"] <= 50000 * 330, rows)
    holds("rows as they are encoded", rows["encoded"] < rows["raw"] / 5, rows)
    holds("on the disk", rows["encoded"] < rows["disk"] < rows["encoded"] * 2 + 100000, rows)
    holds("an index is smaller", 0 < index["encoded"] < rows["encoded"] and 50000 * 8 <= index["raw"] <= 50000 * 14, index)
    before = rows["blobs"]
    a.ask("INSERT INTO z SELECT 100000, 1, GROUP_CONCAT(SHA2(seq, 512) SEPARATOR '') FROM seq_1_to_4000")
    a.ask("UPDATE z SET b=CONCAT(b, b, b, b) WHERE id=100000")
    a.ask("SET @long = (SELECT GROUP_CONCAT(SHA2(seq, 512) SEPARATOR '') FROM seq_1_to_7000); "
          "UPDATE z SET b=CONCAT(@long, @long) WHERE id=100000; FLUSH ENGINE LOGS")
    length = int(a.one("SELECT LENGTH(b) FROM z WHERE id=100000")[0])
    holds("a long value", length > 500000, length)
    wait_until("a long value has its extent", lambda: listed()["PRIMARY"]["blobs"] - before > length / 3)

    def shown():
        status = a.one("SHOW TABLE STATUS LIKE 'z'")
        return int(status[6]), int(status[8])

    def expected():
        return tuple(sum(listed()[name][of] for of in ("encoded", "blobs", "buffered", "memory")) for name in ("PRIMARY", "v"))

    wait_until("SHOW TABLE STATUS agrees", lambda: shown() == expected())
    cmp = a.rows(f"SELECT kind, codec, compress_ops, bytes_in, bytes_out, compress_seconds, coded_ops FROM "
                 f"{VIEWS}.FROND_CMP_PER_INDEX WHERE table_schema='views' AND table_name='z' ORDER BY kind")
    check("kinds and codecs", [row[:2] for row in cmp], [["primary", "LZ4"], ["secondary", "LZ4"]])
    for row in cmp:
        holds("counters of an index", int(row[2]) > 0 and int(row[3]) > int(row[4]) > 0 and float(row[5]) > 0, row)
    holds("a codec was used", int(cmp[0][6]) > 0, cmp)
    both = "SELECT SUM(compress_ops), SUM(bytes_in), SUM(stored_raw_ops) FROM "
    before = a.one(f"{both}{VIEWS}.FROND_CMP")
    a.ask(f"SELECT * FROM {VIEWS}.FROND_CMP_RESET; SELECT * FROM {VIEWS}.FROND_CMP_PER_INDEX_RESET")
    again = a.one(f"{both}{VIEWS}.FROND_CMP_RESET")
    holds("read last means from there", int(again[0]) < int(before[0]) / 2, (before, again))
    again = a.one(f"{both}{VIEWS}.FROND_CMP_PER_INDEX_RESET WHERE table_name='z'")
    check("nothing was done since", again, ["0", "0", "0"])
    primary = a.one(f"SELECT bytes_in FROM {VIEWS}.FROND_CMP WHERE codec='LZ4' AND kind='primary'")
    a.ask("TRUNCATE z")
    a.ask("DROP TABLE z")
    later = a.one(f"SELECT bytes_in FROM {VIEWS}.FROND_CMP WHERE codec='LZ4' AND kind='primary'")
    holds("what is gone stays counted", int(later[0]) >= int(primary[0]) > 10000000, (primary, later))
    tried, coded, seconds = (a.one(f"SHOW GLOBAL STATUS LIKE 'Frond_zip_lz4_{what}_primary'")[1]
                             for what in ("compressed", "compressed_ok", "compressed_seconds"))
    holds("status variables of codecs", int(tried) >= int(coded) > 0 and float(seconds) > 0, (tried, coded, seconds))


def privileges(socket, a):
    a.ask("CREATE USER nobody@localhost; GRANT ALL ON views.* TO nobody@localhost")
    nobody = Client(socket, "views", "frond", user="nobody")
    for view in a.rows(f"SELECT table_name FROM {VIEWS}.TABLES WHERE table_schema='information_schema' AND table_name LIKE 'FROND%'"):
        refused = nobody.ask(f"SELECT * FROM {VIEWS}.{view[0]}")
        holds(f"{view[0]} without PROCESS", any("ERROR 1227" in line for line in refused), refused)
    nobody.close()
    a.ask("DROP USER nobody@localhost")


def status(a):
    documentation = DOCUMENTATION.read_text(encoding="utf-8")
    documented = set(re.findall(r"`(Frond_[a-z0-9_]+)`", documentation))
    # A pattern stands for several names.
    patterns = re.findall(r"`(Frond_zip_CODEC_[a-z_]+_WHICH)`", documentation)
    documented |= {pattern.replace("CODEC", codec).replace("WHICH", which) for pattern in patterns
                   for codec in ("lz4", "zstd1", "zstd3") for which in ("primary", "secondary")}
    shown = {name: value for name, value in a.rows("SHOW GLOBAL STATUS LIKE 'Frond%'")}
    check("status variables without a word in docs/mariadb.md", sorted(set(shown) - documented), [])
    check("status variables that are not there", sorted(documented - set(shown)), [])
    before = int(shown.get("Frond_log_written_bytes", 0))
    a.ask("CREATE TABLE c (a INT) ENGINE=FROND; INSERT INTO c SELECT seq FROM seq_1_to_1000")
    wait_until("Frond_log_written_bytes grows",
               lambda: int(a.one("SHOW GLOBAL STATUS LIKE 'Frond_log_written_bytes'")[1]) > before)
    a.ask("DROP TABLE c")


def main():
    socket = sys.argv[1]
    setup = Session(socket, "mysql", "frond")
    setup.ask("DROP DATABASE IF EXISTS views; CREATE DATABASE views CHARACTER SET utf8mb4")
    setup.close()
    a, b, c = (Client(socket, "views", "frond") for _ in range(3))
    locks(a, b, c)
    trees(a)
    compression(a)
    sizes(a)
    privileges(socket, a)
    status(a)
    for client in (a, b, c):
        client.close()
    if failed:
        sys.exit(f"views: {len(failed)} checks failed: {', '.join(failed)}")
    print("views: all as it should be")


main()
