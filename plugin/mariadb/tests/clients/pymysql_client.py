"""Uses a table of Frond from Python. The argument is the server's socket. Prints "passed"."""

import datetime
import decimal
import sys

import pymysql


def expect(got, wanted):
    if got != wanted:
        raise AssertionError(f"{got!r}, expected {wanted!r}")


def refused(call, code):
    try:
        call()
    except pymysql.Error as error:
        expect(error.args[0], code)
    else:
        raise AssertionError(f"no error {code}")


def main():
    connection = pymysql.connect(
        unix_socket=sys.argv[1], user="client", password="secret", charset="utf8mb4"
    )
    with connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE python")
        connection.select_db("python")
        cursor.execute(
            "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(40) NOT NULL UNIQUE, price DECIMAL(12, 4),"
            " day DATE, data LONGBLOB, extra JSON) ENGINE=FROND"
        )
        day = datetime.date(2024, 2, 29)
        data = bytes(range(256)) * 1000
        rows = [(f"Größe {at}", decimal.Decimal(at) / 8, day, data, '{"a": [1, 2]}') for at in range(50)]
        cursor.executemany("INSERT INTO t (name, price, day, data, extra) VALUES (%s, %s, %s, %s, %s)", rows)
        connection.commit()
        cursor.execute("SELECT name, price, day, data, extra FROM t ORDER BY id")
        expect(list(cursor.fetchall()), rows)
        refused(lambda: cursor.execute("INSERT INTO t (name) VALUES (%s)", (rows[7][0],)), 1062)
        cursor.execute("INSERT INTO t (name) VALUES ('later')")
        expect(cursor.lastrowid > 50, True)
        connection.rollback()
        cursor.execute("SELECT COUNT(*) FROM t")
        expect(cursor.fetchone(), (50,))

    # An unbuffered cursor: rows are fetched while they are read.
    stream = pymysql.connect(
        unix_socket=sys.argv[1],
        user="client",
        password="secret",
        database="python",
        cursorclass=pymysql.cursors.SSDictCursor,
    )
    with stream, stream.cursor() as cursor:
        cursor.execute("SELECT id, price FROM t ORDER BY id DESC")
        expect([row["id"] for row in cursor], list(range(50, 0, -1)))
    print("passed")


main()
