#!/usr/bin/env python3
"""Statements of several concurrent clients are logged as statements and replayed one after the
other: the resulting rows must be the same.

Each statement reads what it depends on under locks, so if they run in the order of commits in the
binlog, all of them see what they saw before.
"""

import functools
import os
import pathlib
import random
import subprocess
import sys
import threading

import private_server

ROOT = pathlib.Path(__file__).resolve().parents[3]
HOME = ROOT / "target/mariadb/servers/statements"
SOCKET = HOME / "s.sock"
CLIENTS = 4
TRANSACTIONS = int(os.environ.get("TRANSACTIONS", "150"))
OPTIONS = ["--log-bin=binlog", "--server-id=1", "--binlog-format=STATEMENT", "--frond-durability=lazy", "--default-storage-engine=FROND",
           "--frond-lock-wait-timeout=5"]
TABLES = """CREATE DATABASE a; USE a;
CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, k INT, v INT, KEY (k));
CREATE TABLE s (id INT AUTO_INCREMENT PRIMARY KEY, n INT, UNIQUE (n));
CREATE TABLE p (id INT AUTO_INCREMENT PRIMARY KEY, v INT) PARTITION BY HASH (id) PARTITIONS 3;
INSERT INTO t (k, v) SELECT seq MOD 10, seq FROM seq_1_to_60; INSERT INTO s (n) SELECT seq * 10 FROM seq_1_to_20;"""

server = functools.partial(private_server.server, "statements")


def sql(text, *options):
    return subprocess.run(["mariadb", "--no-defaults", f"--socket={SOCKET}", "-uroot", "-N", *options], input=text, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)


def statement(chance):
    k, n, low = chance.randrange(12), chance.randrange(400), chance.randrange(150)
    return chance.choice([
        f"INSERT INTO t (k, v) SELECT k, v + 1 FROM t WHERE k = {k} ORDER BY id LIMIT 5",
        f"INSERT INTO t (k, v) VALUES ({k}, {n}), ({k + 1}, {n})",
        f"INSERT INTO p (v) SELECT id FROM t WHERE k = {k} ORDER BY id LIMIT 7",
        f"INSERT INTO p (v) VALUES ({n})",
        f"UPDATE t SET v = v + 1 WHERE k = {k}",
        f"UPDATE t SET k = {chance.randrange(12)} WHERE id BETWEEN {low} AND {low + 9}",
        f"DELETE FROM t WHERE k = {k} AND v < {n}",
        f"DELETE FROM t WHERE id > {low} AND k = {chance.randrange(12)}",
        f"INSERT IGNORE INTO s (n) VALUES ({n})",
        f"DELETE FROM s WHERE n BETWEEN {n} AND {n + 15}",
        f"UPDATE t SET v = (SELECT COUNT(*) FROM s WHERE n > {n}) WHERE k = {k}",
        f"UPDATE t SET v = (SELECT MAX(n) FROM s WHERE n < {n}) WHERE id = {low}",
        f"INSERT INTO t (k, v) SELECT {k}, COUNT(*) FROM p WHERE v > {n}",
    ])


def client(seed):
    chance = random.Random(seed)
    script = []
    for _ in range(TRANSACTIONS):
        script += ["BEGIN", *(statement(chance) for _ in range(chance.randint(1, 3))), chance.choice(["COMMIT"] * 5 + ["ROLLBACK"])]
    done[seed] = sql(";\n".join(script) + ";\n", "--force", "a")


server("reset")
server("start", *OPTIONS)
done = {}
try:
    sql(TABLES)
    clients = [threading.Thread(target=client, args=(seed,)) for seed in range(CLIENTS)]
    for thread in clients:
        thread.start()
    for thread in clients:
        thread.join()
    errors = [line for seed in done for line in done[seed].stderr.splitlines() if line.startswith("ERROR")]
    # Deadlocks and timeouts are expected.
    strange = [line for line in errors if not any(f"ERROR {code}" in line for code in ("1213", "1205"))]
    sql("FLUSH BINARY LOGS")
    log = subprocess.run(["mariadb-binlog", "--no-defaults", "--rewrite-db=a->b", HOME / "data/binlog.000001"], stdout=subprocess.PIPE,
                         check=True).stdout.decode().replace("CREATE DATABASE a", "CREATE DATABASE b")
    again = sql(log)
    if "INSERT INTO t" not in log:
        strange.append("the binlog has no statements")
    strange += again.stderr.splitlines()
    for table in ("t", "s", "p"):
        rows = [sql(f"SELECT * FROM {database}.{table} ORDER BY id").stdout for database in ("a", "b")]
        if rows[0] != rows[1] or not rows[0]:
            strange.append(f"{table}: {len(rows[0].splitlines())} rows, and {len(rows[1].splitlines())} others when run again")
finally:
    server("stop")
for line in strange[:30]:
    print(line)
print(f"statements of {CLIENTS} clients, run again: {'the same rows' if not strange else 'DIFFER'}, {len(errors)} deadlocks and timeouts")
sys.exit(1 if strange else 0)
