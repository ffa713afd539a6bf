"""Random statements and transactions on a temporary table, and on one in the store."""

import os
import random

chance = random.Random(int(os.environ.get("PROPERTY_SEED", "1")))
ROUNDS = 60 * int(os.environ.get("PROPERTY_ROUNDS", "1"))
COLUMNS = "(id INT PRIMARY KEY, a INT, b INT, c VARCHAR(20), d TEXT, KEY (a), UNIQUE u(b), KEY ca(c, a DESC), KEY d(d(3)))"
# InnoDB's temporary tables lose rows that a transaction has replaced and a rollback should restore.
# So there it is an ordinary table.
print(f"EXECUTE IMMEDIATE CONCAT('CREATE ', IF(@@default_storage_engine = 'FROND', 'TEMPORARY ', ''), 'TABLE t {COLUMNS}');")
print(f"CREATE TABLE s {COLUMNS};")


def value(column):
    number = chance.randrange(60)
    return {"c": f"'c{number % 13}'", "d": f"REPEAT('d{number % 7}', {number})"}.get(column, chance.choice([str(number)] * 9 + ["NULL"]))


def where():
    column = chance.choice("abc") if chance.random() < .6 else "id"
    kind = chance.choice(["= {0}", "< {0}", ">= {0}", "BETWEEN {0} AND {1}", "IN ({0}, {1}, {2})", "IS NULL"])
    return f"{column} " + kind.format(*(value(column) for _ in range(3)))


def statement():
    table, other = chance.choice([("t", "s"), ("s", "t"), ("t", "t")])
    column = chance.choice("abcd")
    rows = ", ".join(f"({chance.randrange(80)}, {value('a')}, {value('b')}, {value('c')}, {value('d')})" for _ in range(chance.randrange(1, 5)))
    return chance.choice([
        f"INSERT INTO {table} VALUES {rows}",
        f"INSERT IGNORE INTO {table} VALUES {rows}",
        f"REPLACE INTO {table} VALUES {rows}",
        f"INSERT INTO {table} VALUES {rows} ON DUPLICATE KEY UPDATE a = a + 1, b = VALUES(b) + 1",
        f"INSERT IGNORE INTO {table} SELECT id + {chance.randrange(9)}, a, b + {chance.randrange(90)}, c, d FROM {other} WHERE {where()} ORDER BY id",
        f"UPDATE {table} SET {column} = {value(column)} WHERE {where()} ORDER BY id LIMIT 3",
        f"UPDATE {table} SET a = a + 1, b = b + 100 WHERE {where()} ORDER BY id",
        f"UPDATE IGNORE {table} SET id = id + {chance.randrange(1, 40)} WHERE {where()} ORDER BY id",
        f"UPDATE {table} JOIN {other} x ON {table}.id = x.a SET {table}.a = x.b, {table}.c = 'j' WHERE x.id < {chance.randrange(80)}" if table != other
        else f"UPDATE {table} SET id = id - 1 WHERE id > {chance.randrange(80)} ORDER BY id",
        f"DELETE FROM {table} WHERE {where()}",
        f"DELETE FROM {table} WHERE {where()} ORDER BY id DESC LIMIT 2",
        f"SELECT COUNT(*), SUM(id), MIN(b), MAX(a), SUM(LENGTH(d)) FROM {table} WHERE {where()}",
        f"SELECT id, a FROM {table} WHERE {where()} ORDER BY c, a, id LIMIT 7",
    ])


for _ in range(ROUNDS):
    in_transaction = chance.random() < .7
    if in_transaction:
        print("BEGIN;")
    for step in range(chance.randrange(1, 9)):
        print(statement() + ";")
        if in_transaction and chance.random() < .15:
            print("SAVEPOINT p;", *(statement() + ";" for _ in range(3)), "ROLLBACK TO p;")
    if in_transaction:
        print(chance.choice(["COMMIT;", "COMMIT;", "ROLLBACK;"]))
    if chance.random() < .05:
        print(chance.choice(["TRUNCATE t;", "ALTER TABLE t ENGINE = DEFAULT;", "ALTER TABLE t ADD z INT, DROP COLUMN z;"]).replace("ENGINE = DEFAULT", "FORCE"))
    print("SELECT * FROM t ORDER BY id; SELECT id FROM t FORCE INDEX (u) ORDER BY b, id; SELECT id FROM t FORCE INDEX (ca) ORDER BY c, a DESC, id; SELECT COUNT(*) FROM s;")
print("CHECK TABLE t, s;")
