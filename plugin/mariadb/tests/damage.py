#!/usr/bin/env python3
"""CHECK TABLE must find damage: index entries that are deleted, changed and added through the C API,
while the server is down."""

import ctypes
import functools
import pathlib
import subprocess
import sys

import private_server

ROOT = pathlib.Path(__file__).resolve().parents[3]
HOME = ROOT / "target/mariadb/servers/damage"
SOCKET = HOME / "s.sock"
TABLES = """CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(20), g INT AS (a * 2) VIRTUAL, KEY (a), UNIQUE (b), KEY (g));
INSERT INTO t (id, a, b) SELECT seq, seq MOD 10, IF(seq MOD 7 = 0, NULL, CONCAT('b', seq)) FROM seq_1_to_1000;
CREATE TABLE h (a INT, b TEXT, KEY (a), KEY (b(5))) PARTITION BY HASH (a) PARTITIONS 2; INSERT INTO h SELECT seq, seq FROM seq_1_to_100;"""
frond = ctypes.CDLL(str(ROOT / "target/release/libfrond_c.so"))


class Row(ctypes.Structure):
    _fields_ = [("key", ctypes.c_void_p), ("key_length", ctypes.c_size_t), ("value", ctypes.c_void_p), ("value_length", ctypes.c_size_t),
                ("locked", ctypes.c_bool)]


class Rows(ctypes.Structure):
    _fields_ = [("rows", ctypes.POINTER(Row)), ("count", ctypes.c_size_t)]


class Store:
    """The store of a stopped server."""

    def __init__(self):
        self.db = ctypes.c_void_p()
        self.done(frond.frond_open(str(HOME / "data/#frond").encode(), None, ctypes.byref(self.db), None))

    @staticmethod
    def done(code):
        if code != 0:
            sys.exit(f"error {code} of the library")

    def names(self):
        found = []
        tell = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)(
            lambda _, text, length: found.append(ctypes.string_at(text, length)))
        self.done(frond.frond_trees(self.db, tell, None, None))
        return found

    def tree(self, name):
        tree = ctypes.c_void_p()
        self.done(frond.frond_tree_open(self.db, name, ctypes.byref(tree), None))
        return tree

    def entries(self, tree):
        cursor, rows, found = ctypes.c_void_p(), Rows(), []
        size = ctypes.c_size_t(0)
        self.done(frond.frond_scan(tree, None, size, None, size, ctypes.byref(cursor), None))
        while frond.frond_cursor_next(cursor, size, ctypes.byref(rows), None) == 0:
            found += [(ctypes.string_at(row.key, row.key_length), ctypes.string_at(row.value, row.value_length))
                      for row in rows.rows[:rows.count]]
        frond.frond_cursor_free(cursor)
        return found

    def put(self, tree, key, value):
        self.done(frond.frond_put(tree, key, ctypes.c_size_t(len(key)), value, ctypes.c_size_t(len(value)), None))

    def delete(self, tree, key):
        self.done(frond.frond_delete(tree, key, ctypes.c_size_t(len(key)), None))

    def close(self):
        frond.frond_close(self.db, None)

server = functools.partial(private_server.server, "damage")


def sql(text):
    return subprocess.run(["mariadb", "--no-defaults", f"--socket={SOCKET}", "-uroot", "-N", "d", "-e", text], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False).stdout


def lost(store, tree):
    store.delete(tree, store.entries(tree)[3][0])


def moved(store, tree):
    """Changes the value in one entry; their number stays the same."""
    key, value = store.entries(tree)[3]
    store.delete(tree, key)
    store.put(tree, key[:1] + bytes([key[1] ^ 1]) + key[2:], value)


def dangling(store, tree):
    """Adds an entry without a row; each row still has its entry."""
    key, value = store.entries(tree)[3]
    store.put(tree, key[:-2] + b"\x7f\xee", value)


def same_unique_key(store, tree):
    """Gives a row the columns of another row; the two need two entries with one unique key."""
    entries = store.entries(tree)
    store.put(tree, entries[4][0], entries[3][1])


def other_value(store, tree):
    key, value = store.entries(tree)[500]
    store.put(tree, key, value[:-1] + b"?")


def main():
    failed = 0
    for index, damage, wanted in ((2, lost, "a row has no entry"), (2, moved, "the key of an entry does not match its row"), (2, dangling, "an entry has no row"),
                                  (3, lost, "index 'g'"), (1, other_value, "the columns in an entry do not match its row"), (9, same_unique_key, "the entry of a row belongs to another row"), (0, lost, "entries, but the table has")):
        server("reset")
        server("start", "--default-storage-engine=FROND")
        subprocess.run(["mariadb", "--no-defaults", f"--socket={SOCKET}", "-uroot", "-e", "CREATE DATABASE d"], check=True)
        sql(TABLES)
        before = sql("CHECK TABLE t, h; CHECK TABLE t QUICK")
        server("stop")
        store = Store()
        if index == 0:
            name = next(name for name in store.names() if name.startswith(b"d/h#P#p1"))
        else:
            rows = [name for name in store.names() if name == b"d/t"]
            name = [name for name in store.names() if name.endswith(f".{index}".encode()) or name.endswith(f"/{index}".encode())] + rows
            name = name[0]
        tree = store.tree(name)
        damage(store, tree)
        frond.frond_tree_free(tree)
        store.close()
        server("start", "--default-storage-engine=FROND")
        after = sql("CHECK TABLE t, h")
        if before.count("\tOK\n") != 3 or wanted not in after or "Corrupt" not in after:
            failed += 1
            print(f"{damage.__name__} of {name}: wanted {wanted!r}, before:\n{before}\nafter:\n{after}")
    server("stop")
    if failed:
        sys.exit(f"{failed} kinds of damage were not found")
    print("damage: CHECK TABLE finds it")


main()
