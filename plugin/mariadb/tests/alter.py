#!/usr/bin/env python3
"""Kills ALTER TABLE on a private server: by KILL QUERY, and together with the server. Whenever that
happens, the table must have all its keys as before or as after, and the store must not have a tree
that no table names. Also measures the memory that ALTER takes with a small cache.

ROWS is the size of the table, ROUNDS the number of rounds of each kind.
"""

import functools
import os
import pathlib
import random
import subprocess
import sys
import time

import private_server

from compare import Session

ROOT = pathlib.Path(__file__).resolve().parents[3]
SERVER = "alter"
HOME = ROOT / "target/mariadb/servers" / SERVER
CACHE = 64 << 20
ROWS = int(os.environ.get("ROWS", 60_000))
ROUNDS = int(os.environ.get("ROUNDS", 5))
# Changes and their reverse: keys added and dropped in place, some together; a copy; partitions.
ALTERS = [
    ("ADD KEY k(b), ADD UNIQUE u(id, a), DROP KEY a, ALGORITHM=NOCOPY", "DROP KEY k, DROP KEY u, ADD KEY a(a), ALGORITHM=NOCOPY"),
    ("ADD UNIQUE b(b, id), ADD COLUMN n INT DEFAULT 5, ALGORITHM=COPY", "DROP KEY b, DROP COLUMN n, ALGORITHM=COPY"),
    ("RENAME KEY a TO a2, ADD KEY k(c(9)), ALGORITHM=NOCOPY", "DROP KEY k, RENAME KEY a2 TO a, ALGORITHM=NOCOPY"),
]
TABLES = ["t", "p"]

server = functools.partial(private_server.server, SERVER)


def start():
    server("start", f"--frond-cache-size={CACHE}", "--innodb-buffer-pool-size=16M", "--frond-durability=os")


def connect():
    return Session(os.path.relpath(HOME / "s.sock"), "d", "FROND")


def ask(session, statement):
    lines = session.ask(statement)
    for line in lines:
        if line.startswith("ERROR"):
            sys.exit(f"{statement[:200]}: {line}")
    return lines[1:]


def definition(session, table):
    return ask(session, f"SHOW CREATE TABLE {table}")[0]


def check(session, table, definitions):
    """Checks that the table is undamaged and as one of these, and that all trees belong to keys."""
    now = definition(session, table)
    if now not in definitions:
        sys.exit(f"{table} is neither what it was nor what it was to be: {now}")
    if not ask(session, f"CHECK TABLE {table}")[0].endswith("status\tOK"):
        sys.exit(f"{table} is damaged: " + "\n".join(ask(session, f"CHECK TABLE {table}")))
    if ask(session, f"SELECT COUNT(*) FROM {table} FORCE INDEX ({'a2' if 'KEY `a2`' in now else 'a' if 'KEY `a`' in now else 'k'}) "
                    f"WHERE a IS NOT NULL OR b IS NOT NULL") != [str(ROWS)]:
        sys.exit(f"{table} has lost rows")
    keys = now.count("KEY `") + now.count("PRIMARY KEY")
    for partition in ask(session, "SELECT COUNT(*) FROM information_schema.frond_trees WHERE table_schema = 'd' AND "
                                  f"table_name = '{table}' AND index_name IS NOT NULL GROUP BY partition_name"):
        if int(partition) != keys:
            sys.exit(f"{table} has {keys} keys and {partition} trees")
    stray = ask(session, "SELECT tree_name FROM information_schema.frond_trees WHERE index_name IS NULL OR table_name NOT IN ('t', 'p')")
    if stray:
        sys.exit(f"trees of no table: {stray}")
    return now


def killed(kill, restart):
    """Rounds of ALTER that `kill` ends at a random time before it is done, or shortly after."""
    session, ended = connect(), {False: 0, True: 0}
    for table in TABLES:
        for there, back in ALTERS:
            # The server renames the partitions of a copy one by one, and its DDL log has no entry
            # for each: after a crash, tables of InnoDB also lack their .par file or leave partitions
            # of the backup behind.
            if restart and table == "p" and "ALGORITHM=COPY" in there:
                continue
            begin = time.monotonic()
            was = definition(session, table)
            ask(session, f"ALTER TABLE {table} {there}")
            seconds = time.monotonic() - begin
            definitions = [was, definition(session, table)]
            ask(session, f"ALTER TABLE {table} {back}")
            for _ in range(ROUNDS):
                is_there = check(session, table, definitions) == definitions[1]
                other = connect()
                other.send(f"ALTER TABLE {table} {back if is_there else there}")
                time.sleep(seconds * random.choice([random.random(), random.uniform(0.7, 1.1)]))
                kill()
                if restart:
                    other.client.kill()
                    start()
                    session = connect()
                else:
                    wait(other)
                    other.close()
                ended[(definition(session, table) == definitions[1]) != is_there] += 1
            if check(session, table, definitions) == definitions[1]:
                ask(session, f"ALTER TABLE {table} {back}")
    session.close()
    return f"{ended[False]} undone, {ended[True]} done"


def wait(session):
    """Waits until the statement is over. If the kill came too late, it may end this query instead."""
    session.ask("SELECT 1")


def kill_query():
    session = connect()
    for number in ask(session, "SELECT id FROM information_schema.processlist WHERE info LIKE 'ALTER%'"):
        session.ask(f"KILL QUERY {number}")
    session.close()


def kill_server():
    server("kill")


def between(kill, restart):
    """Kills an ALTER that has built its trees and waits for a reader before it makes them live."""
    session = connect()
    was = definition(session, "t")
    rounds = 0
    while rounds < 2:
        other, reader = connect(), connect()
        other.send("ALTER TABLE t ADD KEY k(b, c), ADD UNIQUE u(c, b), ALGORITHM=NOCOPY")
        state = "SELECT state FROM information_schema.processlist WHERE info LIKE 'ALTER TABLE t%'"
        # On a busy machine, the statement may not have begun yet, and it may end before the reader
        # begins. Its client prints nothing before that.
        has_ended = lambda: not other.lines.empty()
        while "altering table" not in ask(session, state) and not has_ended():
            pass
        ask(reader, "BEGIN; SELECT id FROM t LIMIT 1")
        while not (waits := "Waiting for table metadata lock" in ask(session, state)) and not has_ended():
            time.sleep(0.01)
        if waits:
            rounds += 1
            kill()
        if waits and restart:
            other.client.kill()
            reader.client.kill()
            start()
            session = connect()
        else:
            wait(other)
            other.close()
            reader.close()
        if check(session, "t", [was] if waits else [definition(session, "t")]) != was:
            ask(session, "ALTER TABLE t DROP KEY k, DROP KEY u")
    session.close()
    return f"{rounds} times before the end"


def resident(what):
    pid = (HOME / "pid").read_text().strip()
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(status.split(f"{what}:")[1].split()[0]) << 10


def memory():
    """Sorts more than fits into the cache."""
    session = connect()
    rows = 400_000
    ask(session, "CREATE TABLE m (id INT PRIMARY KEY, a INT, b CHAR(64), c CHAR(200) COLLATE latin1_bin)")
    ask(session, f"INSERT INTO m SELECT seq, seq, SHA2(seq, 256), REPEAT(MD5(seq), 6) FROM seq_1_to_{rows // 4}")
    for part in range(1, 4):
        ask(session, f"INSERT INTO m SELECT id + {part * rows // 4}, a, SHA2(-id * {part}, 256), REPEAT(MD5(-id * {part}), 6) FROM m WHERE id <= {rows // 4}")
    session.close()
    server("stop")
    for alter in ["ADD KEY b(b, c), ADD KEY c(c)", "FORCE, ALGORITHM=COPY"]:
        start()
        session = connect()
        before = resident("VmRSS")
        ask(session, f"ALTER TABLE m {alter}")
        grown = resident("VmHWM") - before
        print(f"ALTER TABLE {alter}: {grown >> 20} MiB more, with a cache of {CACHE >> 20}")
        # The limit leaves some memory for the statement itself, which is not the engine's.
        if grown > 1.1 * CACHE + (16 << 20):
            sys.exit("that is too much")
        if not ask(session, "CHECK TABLE m")[0].endswith("status\tOK"):
            sys.exit("the table is damaged")
        session.close()
        server("stop")


def main():
    server("reset")
    start()
    try:
        subprocess.run([ROOT / "scripts/mariadb-server.sh", "shell", "-e", "CREATE DATABASE d"],
                       env={**os.environ, "FROND_SERVER": SERVER}, check=True)
        session = connect()
        columns = "(id INT PRIMARY KEY, a INT, b VARCHAR(60), c CHAR(40), KEY a(a))"
        ask(session, f"CREATE TABLE t {columns}; CREATE TABLE p {columns} PARTITION BY HASH(id) PARTITIONS 3")
        for table in TABLES:
            ask(session, f"INSERT INTO {table} SELECT seq, seq * 7919 % 10007, SHA1(seq), MD5(seq) FROM seq_1_to_{ROWS}")
        session.close()
        print("KILL QUERY:", killed(kill_query, False))
        print("kill -9:", killed(kill_server, True))
        print("KILL QUERY:", between(kill_query, False))
        print("kill -9:", between(kill_server, True))
        session = connect()
        ask(session, "DROP TABLE t, p")
        session.close()
        memory()
    finally:
        server("kill")


if __name__ == "__main__":
    main()
