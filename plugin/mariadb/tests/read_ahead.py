#!/usr/bin/env python3
"""A statement that writes between its reads makes rows that were read ahead useless; it must not keep
reading ahead."""

import functools
import pathlib
import subprocess
import sys

import private_server

ROOT = pathlib.Path(__file__).resolve().parents[3]
SOCKET = ROOT / "target/mariadb/servers/ahead/s.sock"
ROWS = 5000
LOOKUPS_PER_ROW_MAX = 3
SETUP = """CREATE TABLE src (id INT PRIMARY KEY, k INT, pad CHAR(60), KEY (k));
INSERT INTO src SELECT seq, CRC32(seq) MOD 1000000, MD5(seq) FROM seq_1_to_20000;
CREATE TABLE dst (id INT AUTO_INCREMENT PRIMARY KEY, pad CHAR(60));
CREATE FUNCTION note(x INT) RETURNS INT BEGIN INSERT INTO dst (pad) VALUES (x); RETURN x; END;;"""
STATEMENTS = (
    f"INSERT INTO dst (pad) SELECT pad FROM src FORCE INDEX (k) WHERE k >= 0 LIMIT {ROWS}",
    f"SELECT COUNT(note(id)), MAX(pad) FROM (SELECT id, pad FROM src FORCE INDEX (k) WHERE k >= 0 LIMIT {ROWS}) s",
    f"SELECT COUNT(note(id)), MAX(pad) FROM src FORCE INDEX (k) WHERE k >= 0 AND id <= {ROWS}",
)

server = functools.partial(private_server.server, "ahead")


def sql(text, database="d"):
    return subprocess.run(["mariadb", "--no-defaults", f"--socket={SOCKET}", "-uroot", "-N", database, "-e", text], stdout=subprocess.PIPE,
                          text=True, check=True).stdout


def lookups(statement):
    """Number of blocks looked up in the cache. Rows that were never written to disk do not count."""
    count = "SHOW GLOBAL STATUS WHERE Variable_name IN ('Frond_cache_hits', 'Frond_cache_misses')"
    answer = sql(f"SET tx_isolation = 'READ-COMMITTED'; {count}; {statement}; {count}").splitlines()
    values = [int(line.split("\t")[1]) for line in answer if line.startswith("Frond_cache")]
    return values[2] + values[3] - values[0] - values[1]


def main():
    failed = 0
    server("reset")
    server("start", "--default-storage-engine=FROND")
    sql("CREATE DATABASE d", "mysql")
    for statement in SETUP.replace(";;", "").split(";\n"):
        sql(f"DELIMITER //\n{statement}//" if "FUNCTION" in statement else statement)
    for statement in STATEMENTS:
        server("stop")
        server("start", "--default-storage-engine=FROND")
        found = lookups(statement)
        if not ROWS // 10 <= found <= ROWS * LOOKUPS_PER_ROW_MAX:
            failed += 1
            print(f"{found} blocks were looked up for {ROWS} rows: {statement[:100]}")
    server("stop")
    if failed:
        sys.exit(f"{failed} statements read rows in vain, or none")
    print("read_ahead: rows are read once")


main()
