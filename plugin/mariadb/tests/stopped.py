#!/usr/bin/env python3
"""XA COMMIT and XA ROLLBACK whose log write fails: the statements fail, the server survives, and the
transactions can be decided after a restart.

The write fails because of a limit on the length of files (RLIMIT_FSIZE), which the running server
gets after the prepares. InnoDB is off, since it would fail, too.
"""

import functools
import os
import pathlib
import resource
import sys

import private_server

from compare import Session

ROOT = pathlib.Path(__file__).resolve().parents[3]
NAME = "stopped"
HOME = ROOT / "target/mariadb/servers" / NAME
LIMIT = 32 << 10
ENDS = {"attached": "COMMIT", "detached": "COMMIT", "refused": "ROLLBACK"}


# Without `restore_signals` the server ignores SIGXFSZ, as this interpreter does, and gets EFBIG.
server = functools.partial(private_server.server, NAME, restore_signals=False)


def start():
    server("start", "--skip-innodb", "--default-storage-engine=Aria")


def connect(database):
    return Session(os.path.relpath(HOME / "s.sock"), database, "FROND")


def must(session, statement, fails=False):
    lines = session.ask(statement)
    if lines and lines[-1] == "the connection is gone":
        sys.exit(f"{statement}: the server has died")
    if any(line.startswith("ERROR") for line in lines) != fails:
        sys.exit(f"{statement}: {lines}")
    return lines[1:]


def prepare(session, name, number):
    for statement in (f"XA START '{name}'", f"INSERT INTO t VALUES ({number})", f"XA END '{name}'", f"XA PREPARE '{name}'"):
        must(session, statement)


def main():
    os.chdir(ROOT)
    server("reset")
    # The system tables are made with InnoDB.
    server("start")
    server("stop")
    start()
    admin = connect("mysql")
    must(admin, "CREATE DATABASE d")
    must(admin, "CREATE TABLE d.t (a INT PRIMARY KEY)")
    must(admin, "CREATE TABLE d.filler (a INT PRIMARY KEY, b TEXT)")
    for number, name in enumerate(("detached", "refused")):
        session = connect("d")
        prepare(session, name, number)
        session.close()
    attached = connect("d")
    prepare(attached, "attached", 2)

    # The log's current file is longer than the limit then.
    must(admin, f"INSERT INTO d.filler VALUES (1, REPEAT('x', {LIMIT}))")
    pid = int((HOME / "pid").read_text())
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (LIMIT, hard))
    must(attached, "XA COMMIT 'attached'", fails=True)
    other = connect("d")
    for _ in range(2):
        must(other, "XA COMMIT 'detached'", fails=True)
        must(other, "XA ROLLBACK 'refused'", fails=True)
    must(attached, "SELECT 1")
    attached.close()
    must(other, "SELECT 1")
    for session in (other, admin):
        session.close()
    server("kill")

    start()
    session = connect("d")
    # A failed commit may have reached the disk.
    left = {line.split("\t")[3] for line in must(session, "XA RECOVER")}
    for name in left:
        must(session, f"XA {ENDS[name]} '{name}'")
    rows = must(session, "SELECT a FROM t ORDER BY a")
    if rows != ["0", "2"] or "refused" not in left:
        sys.exit(f"left {left}, rows {rows}")
    session.close()
    server("stop")


main()
