#!/usr/bin/env python3
"""AUTO_INCREMENT numbers of statements that the binlog has as statements: those of one statement are
consecutive, while other clients insert rows, since the binlog has only the first one.
"""

import functools
import pathlib
import subprocess
import sys
import threading

import private_server

ROOT = pathlib.Path(__file__).resolve().parents[3]
SOCKET = ROOT / "target/mariadb/servers/numbers/s.sock"
CLIENTS = 6
STATEMENTS = 1500
TABLES = 10
OPTIONS = ["--log-bin=binlog", "--server-id=1", "--binlog-format=STATEMENT", "--frond-durability=lazy", "--default-storage-engine=FROND"]

server = functools.partial(private_server.server, "numbers")


def sql(text):
    return subprocess.run(["mariadb", "--no-defaults", f"--socket={SOCKET}", "-uroot", "-N"], input=text, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False).stdout


def client(number):
    """Half of the clients insert a number of rows that the server does not know beforehand. Each
    table is new when they reach it, at about the same time."""
    script = ["USE a"]
    for at in range(STATEMENTS):
        table, tag = f"t{at * TABLES // STATEMENTS}", number * STATEMENTS + at
        if number % 2 == 0:
            script.append(f"INSERT INTO {table} (tag) SELECT {tag} FROM seq_1_to_7")
        else:
            script.append(f"INSERT INTO {table} (tag) VALUES ({tag}), ({tag})")
    printed[number] = sql(";\n".join(script) + ";\n")


server("reset")
server("start", *OPTIONS)
printed = {}
try:
    tables = "".join(f"CREATE TABLE t{at} (id INT AUTO_INCREMENT PRIMARY KEY, tag INT);" for at in range(TABLES))
    print(sql(f"CREATE DATABASE a; USE a; {tables}"), end="")
    clients = [threading.Thread(target=client, args=(number,)) for number in range(CLIENTS)]
    for thread in clients:
        thread.start()
    for thread in clients:
        thread.join()
    wrong = [line for text in printed.values() for line in text.splitlines()]
    for at in range(TABLES):
        found = sql(f"SELECT 't{at}', tag, MIN(id), MAX(id), COUNT(*) FROM a.t{at} GROUP BY tag HAVING MAX(id) - MIN(id) + 1 <> COUNT(*)")
        wrong += found.splitlines()
    rows = int(sql("SELECT " + " + ".join(f"(SELECT COUNT(*) FROM a.t{at})" for at in range(TABLES))))
    if rows != CLIENTS // 2 * STATEMENTS * (7 + 2):
        wrong.append(f"{rows} rows")
finally:
    server("stop")
for line in wrong[:20]:
    print(line)
print(f"AUTO_INCREMENT of {CLIENTS} clients in the binlog: {len(wrong)} statements with gaps" if wrong else
      f"AUTO_INCREMENT of {CLIENTS} clients in the binlog: consecutive")
sys.exit(1 if wrong else 0)
