#!/usr/bin/env python3
"""Resident memory of a server with 200 connections that use FROND tables, compared with the same
server, connections and statements without the plugin, on BLACKHOLE tables. The difference may be at
most 1.1 times frond_cache_size.

Each connection has its own tables open and has read them, and has an open transaction with locks on
ROWS rows.
"""

import functools
import os
import pathlib
import subprocess
import sys
import threading

import private_server

from compare import Session

ROOT = pathlib.Path(__file__).resolve().parents[3]
CACHE = 256 << 20
CONNECTIONS = 200
TABLES = 20
ROWS = int(os.environ.get("ROWS", 1_000))
SERVER = "memory"

server = functools.partial(private_server.server, SERVER)


def resident():
    home = ROOT / "target/mariadb/servers" / SERVER
    status = pathlib.Path(f"/proc/{(home / 'pid').read_text().strip()}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) << 10


def ask(session, statement):
    for line in session.ask(statement):
        if line.startswith("ERROR"):
            raise RuntimeError(f"{statement[:100]}: {line}")


def connect(database, engine):
    return Session(os.path.relpath(ROOT / "target/mariadb/servers" / SERVER / "s.sock"), database, engine)


def work(number, engine, barrier):
    try:
        work_and_wait(number, engine, barrier)
    except Exception:
        barrier.abort()
        raise


def work_and_wait(number, engine, barrier):
    session = connect("m", engine)
    for table in range(TABLES):
        ask(session, f"SELECT COUNT(a) FROM t{table} WHERE b BETWEEN {number * 100} AND {number * 100 + 500}")
    # Without gap locks no session waits for another.
    ask(session, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; BEGIN")
    first = number * ROWS
    for batch in range(0, ROWS, 500):
        values = ",".join(
            f"({first + n},{(first + n) * 7919 % 1000003},REPEAT(MD5({first + n}),6))" for n in range(batch, batch + 500)
        )
        ask(session, f"INSERT INTO t{number % TABLES} VALUES {values}")
    ask(session, f"SELECT COUNT(*) FROM t{number % TABLES} WHERE c > 'f' AND b > {number}")
    ask(session, f"SELECT a FROM t{number % TABLES} WHERE a BETWEEN {first} AND {first + 200} FOR UPDATE")
    barrier.wait()
    barrier.wait()
    ask(session, "ROLLBACK")
    session.close()


def measure(engine):
    options = ["--max-connections=300", "--innodb-buffer-pool-size=32M", "--table-open-cache=4000"]
    if engine == "FROND":
        options += [f"--frond-cache-size={CACHE}", "--frond-durability=lazy"]
    else:
        options += ["--plugin-load-add=ha_blackhole.so", "--skip-frond"]
    server("reset")
    server("start", *options)
    session = connect("mysql", engine)
    ask(session, "CREATE DATABASE m")
    for table in range(TABLES):
        ask(session, f"CREATE TABLE m.t{table} (a BIGINT PRIMARY KEY, b INT, c VARCHAR(255), KEY (b), KEY (c)) ENGINE={engine}")
    barrier = threading.Barrier(CONNECTIONS + 1)
    threads = [threading.Thread(target=work, args=(number, engine, barrier)) for number in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    barrier.wait()
    bytes_now = resident()
    if engine == "FROND" and "--show" in sys.argv:
        print("\n".join(session.ask("SHOW ENGINE FROND STATUS")[1:]).replace("\\n", "\n"))
    barrier.wait()
    for thread in threads:
        thread.join()
    session.close()
    server("stop")
    return bytes_now


def main():
    os.chdir(ROOT)
    without, with_frond = 1 if "--show" in sys.argv else measure("BLACKHOLE"), measure("FROND")
    share = (with_frond - without) / CACHE
    print(f"{CONNECTIONS} connections: {without >> 20} MiB without Frond, {with_frond >> 20} MiB with it: {share:.2f} of its cache more")
    if share > 1.1:
        sys.exit(f"{share:.2f} is more than 1.1")


main()
