"""Random statements on tables whose keys the server checks (UNIQUE over long columns, WITHOUT
OVERLAPS), and on partitions with unique keys."""

import os
import random

chance = random.Random(int(os.environ.get("PROPERTY_SEED", "1")))
ROUNDS = 60 * int(os.environ.get("PROPERTY_ROUNDS", "1"))
print("CREATE TABLE l (id INT PRIMARY KEY, b BLOB, c TEXT, n INT, UNIQUE (b), UNIQUE bc(c, n), KEY (n));")
print("CREATE TABLE o (id INT, k INT, s DATE, e DATE, n INT, PERIOD FOR p(s, e), PRIMARY KEY (id), UNIQUE u(k, p WITHOUT OVERLAPS));")
print("CREATE TABLE q (a INT, b INT, c INT, UNIQUE u(a, b), UNIQUE w(a, c)) PARTITION BY HASH (a) PARTITIONS 3;")


def number(least, most):
    return chance.choice([str(chance.randrange(least, most))] * 9 + ["NULL"])


def day():
    return f"'2020-01-{chance.randrange(1, 29):02}'"


def period():
    first, last = sorted([chance.randrange(1, 28), chance.randrange(2, 29)])
    return f"'2020-01-{first:02}', '2020-01-{max(last, first + 1):02}'"


def text(kind):
    return chance.choice([f"REPEAT('{kind}', {chance.randrange(8)})"] * 9 + ["NULL"])


def of_long():
    rows = ", ".join(f"({chance.randrange(40)}, {text('b')}, {text('c')}, {number(0, 5)})" for _ in range(chance.randrange(1, 4)))
    return chance.choice([
        f"INSERT INTO l VALUES {rows}",
        f"INSERT IGNORE INTO l VALUES {rows}",
        f"REPLACE INTO l VALUES {rows}",
        f"INSERT INTO l VALUES {rows} ON DUPLICATE KEY UPDATE b = CONCAT(b, '!'), n = n + 1",
        f"INSERT IGNORE INTO l VALUES {rows} ON DUPLICATE KEY UPDATE b = {text('b')}, c = {text('c')}",
        f"UPDATE l SET b = {text('b')} WHERE id < {chance.randrange(40)} ORDER BY id",
        f"UPDATE IGNORE l SET b = {text('b')}, c = {text('c')} WHERE id < {chance.randrange(40)} ORDER BY id",
        f"UPDATE IGNORE l SET c = {text('c')}, id = id + 1 WHERE n = {chance.randrange(5)} ORDER BY id",
        f"DELETE FROM l WHERE b = {text('b')} OR id > {chance.randrange(20, 60)}",
        f"INSERT IGNORE INTO l SELECT id + {chance.randrange(20)}, c, b, n FROM l WHERE n < 3 ORDER BY id",
    ])


def of_periods():
    rows = ", ".join(f"({chance.randrange(60)}, {number(0, 4)}, {period()}, {number(0, 9)})" for _ in range(chance.randrange(1, 4)))
    return chance.choice([
        f"INSERT INTO o VALUES {rows}",
        f"INSERT IGNORE INTO o VALUES {rows}",
        f"UPDATE o SET s = {day()} WHERE id = {chance.randrange(60)}",
        f"UPDATE o SET e = {day()} WHERE k = {chance.randrange(4)} ORDER BY id LIMIT 1",
        f"UPDATE IGNORE o SET k = {number(0, 4)}, e = e + INTERVAL {chance.randrange(5)} DAY WHERE n < {chance.randrange(9)} ORDER BY id",
        f"UPDATE IGNORE o SET s = s - INTERVAL {chance.randrange(4)} DAY ORDER BY id",
        f"DELETE FROM o WHERE id > {chance.randrange(20, 80)}",
    ])


def of_partitions():
    rows = ", ".join(f"({number(0, 6)}, {number(0, 6)}, {number(0, 9)})" for _ in range(chance.randrange(1, 4)))
    return chance.choice([
        f"INSERT INTO q VALUES {rows}",
        f"INSERT IGNORE INTO q VALUES {rows}",
        f"REPLACE INTO q VALUES {rows}",
        f"INSERT INTO q VALUES {rows} ON DUPLICATE KEY UPDATE a = a + 1, c = c + 1",
        f"UPDATE q SET a = {number(0, 6)} WHERE b = {chance.randrange(6)} ORDER BY a, c",
        f"UPDATE IGNORE q SET a = a + {chance.randrange(4)}, b = {number(0, 6)} WHERE c < {chance.randrange(9)} ORDER BY a, b, c",
        f"DELETE FROM q WHERE c = {chance.randrange(9)}",
    ])


for _ in range(ROUNDS):
    print(chance.choice(["SET autocommit = 1;", "BEGIN;"]))
    for _ in range(chance.randrange(1, 8)):
        print(chance.choice([of_long, of_periods, of_partitions])() + ";")
    print(chance.choice(["COMMIT;", "COMMIT;", "ROLLBACK;"]))
    print("SELECT * FROM l ORDER BY id; SELECT * FROM o ORDER BY id; SELECT * FROM q ORDER BY a, b, c;")
print("CHECK TABLE l, o, q;")
