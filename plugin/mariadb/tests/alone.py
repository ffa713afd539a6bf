#!/usr/bin/env python3
"""Behaviour that differs from InnoDB's: what can be altered without a copy, options without effect,
unique keys at READ COMMITTED. The argument is a running server's socket."""

import sys

from compare import Session

failed = []


def check(what, got, wanted):
    if got != wanted:
        failed.append(what)
        print(f"{what}: got {got!r}, wanted {wanted!r}")


def errors(lines):
    return [line for line in lines if line.startswith("ERROR")]


def alters(a):
    a.ask("CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, c CHAR(5), v VARCHAR(5), x TINYTEXT, y VARCHAR(5) COMPRESSED, b BINARY(3), k VARCHAR(5), "
          "p VARCHAR(9), KEY (k), KEY (p(3))) CHARACTER SET utf8mb3; INSERT INTO t (c, v, k, p) VALUES ('c', 'v', 'k', 'pppp')")
    for instant, what in (
            (True, "MODIFY c CHAR(9)"), (True, "MODIFY c VARCHAR(9)"), (False, "MODIFY c VARCHAR(8)"), (False, "MODIFY c CHAR(9)"),
            (True, "MODIFY c TEXT"), (False, "MODIFY c VARCHAR(255)"), (True, "MODIFY c LONGTEXT"), (False, "MODIFY c TEXT"),
            (True, "MODIFY v VARCHAR(300)"), (True, "MODIFY v VARCHAR(300) CHARACTER SET utf8mb4"),
            (False, "MODIFY v VARCHAR(300) CHARACTER SET latin1"), (False, "MODIFY v VARCHAR(300) CHARACTER SET utf8mb4 NOT NULL"),
            (True, "MODIFY x TEXT"), (False, "MODIFY y VARCHAR(9)"), (False, "MODIFY b BINARY(4)"), (False, "MODIFY b VARBINARY(4)"),
            (True, "MODIFY k VARCHAR(50)"), (False, "MODIFY k VARCHAR(50) COLLATE utf8mb3_bin"), (False, "MODIFY k TEXT"),
            (True, "MODIFY p VARCHAR(50)"), (False, "MODIFY id BIGINT AUTO_INCREMENT"), (True, "AUTO_INCREMENT=50"),
            (False, "AUTO_INCREMENT=10"), (True, "ROW_FORMAT=COMPACT"), (False, "COMPRESSION='small'"), (True, "MAX_ROWS=10, CHECKSUM=1")):
        got = errors(a.ask(f"ALTER TABLE t {what}, ALGORITHM=INSTANT"))
        check(f"{what} at once: {got}", not got, instant)
    check("the rows after that", a.ask("SELECT c, v, k, p FROM t FORCE INDEX (k) WHERE k = 'K'")[1:], ["c\tv\tk\tpppp"])
    check("CHECK after that", a.ask("CHECK TABLE t")[1:], [f"alone.t\tcheck\tstatus\tOK"])
    a.ask("CREATE TABLE g (a VARCHAR(5), n INT AS (a = 'A') PERSISTENT) CHARACTER SET utf8mb3")
    got = errors(a.ask("ALTER TABLE g MODIFY a VARCHAR(5) COLLATE utf8mb3_bin, ALGORITHM=INSTANT"))
    check("a collation that a generated column goes by", len(got), 1)


def notes(a):
    for option, wanted in (("ROW_FORMAT=FIXED", 1), ("ROW_FORMAT=PAGE", 1), ("ROW_FORMAT=DYNAMIC", 0), ("ROW_FORMAT=COMPRESSED", 1),
                           ("KEY_BLOCK_SIZE=8", 1), ("COMMENT='x'", 0)):
        for statement in (f"CREATE OR REPLACE TABLE n (a INT) {option}", f"ALTER TABLE n {option}", f"ALTER TABLE n {option}, ADD b INT"):
            got = [line for line in a.ask(f"{statement}; SHOW WARNINGS") if "has no effect" in line]
            check(f"{statement}: {got}", len(got), wanted)
    check("of an ALTER of something else", a.ask("ALTER TABLE n ADD c INT; SHOW WARNINGS"), [])


def unique_values(a):
    for level in ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"):
        a.ask(f"SET SESSION TRANSACTION ISOLATION LEVEL {level}; CREATE OR REPLACE TABLE l (id INT PRIMARY KEY, b BLOB UNIQUE); "
              "INSERT INTO l VALUES (1, 'one'), (2, 'two'), (3, 'three')")
        check(level, errors(a.ask("UPDATE IGNORE l SET b = 'one'")), [])
        check(level, errors(a.ask("INSERT IGNORE INTO l VALUES (4, 'two') ON DUPLICATE KEY UPDATE b = 'three'")), [])
        check(level, errors(a.ask("INSERT IGNORE INTO l VALUES (4, 'two') ON DUPLICATE KEY UPDATE b = 'four'")), [])
        check(level, a.ask("SELECT id, b FROM l ORDER BY id")[1:], ["1\tone", "2\tfour", "3\tthree"])


def main():
    admin = Session(sys.argv[1], "mysql", "FROND")
    admin.ask("DROP DATABASE IF EXISTS alone; CREATE DATABASE alone")
    for test in (alters, notes, unique_values):
        session = Session(sys.argv[1], "alone", "FROND")
        test(session)
        session.close()
    admin.close()
    if failed:
        sys.exit(f"{len(failed)} checks failed")
    print("alone: ALTER without a copy, options without effect, unique values at each level")


if __name__ == "__main__":
    main()
