"""Prints SQL that puts random strings into indexes of every collation and asks for them in every order."""

import random
import subprocess
import sys

ALPHABET = list("abcABCzZ019 _-'/") + ["\t", "\x01", "  ", "é", "É", "ß", "ss", "ä", "ø", "ch", "Ch", "ll", "dž", "ſ", "日", "я", "Я", "ไ", "İ", "ı", "𝄞", "e\u0301"]


def quoted(text):
    return "_utf8mb4 0x" + text.encode().hex() if text else "''"


def main():
    listed = subprocess.run(
        ["mariadb", "--no-defaults", f"--socket={sys.argv[1]}", "-uroot", "-N", "-e",
         "SELECT FULL_COLLATION_NAME, CHARACTER_SET_NAME FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY"
         # Of the newest family one character set and some languages stand for all.
         " WHERE FULL_COLLATION_NAME NOT LIKE '%uca1400%' OR FULL_COLLATION_NAME RLIKE"
         " '^utf8mb4_uca1400_(nopad_)?(a|as_|ai_|de|german|spanish2|swedish|danish|czech|turkish)' ORDER BY 1, 2"], stdout=subprocess.PIPE, check=True).stdout.decode().split("\n")
    print("SET sql_mode='';")
    for number, line in enumerate(line for line in listed if line):
        collation, charset = line.split("\t")
        if collation == "binary":
            continue
        random.seed(collation)
        table = f"t{number}"
        print(f"CREATE TABLE {table} (id INT PRIMARY KEY, v VARCHAR(12), c CHAR(8), KEY v(v), KEY c(c), KEY p(v(3)), KEY d(v DESC, c))"
              f" CHARACTER SET {charset} COLLATE {collation};")
        print(f"CREATE TABLE u{number} (v VARCHAR(12) NOT NULL, id INT, PRIMARY KEY(v)) CHARACTER SET {charset} COLLATE {collation};")
        strings = ["".join(random.choice(ALPHABET) for _ in range(random.randint(0, 5))) for _ in range(40)]
        strings += [text + " " for text in strings[:10]] + [text + "\t" for text in strings[:10]] + [text.swapcase() for text in strings[:10]]
        rows = ",".join(f"({i},{quoted(text)},{quoted(text)})" for i, text in enumerate(strings))
        print(f"INSERT IGNORE INTO {table} VALUES {rows};")
        print(f"INSERT IGNORE INTO u{number} SELECT v,id FROM {table} ORDER BY id;")
        # Of CHAR columns whose spaces count, InnoDB compares as many characters as the column has; where letters have several
        # weights, that is an order of its own.
        c = "id" if "nopad" in collation and ("unicode" in collation or "uca1400" in collation) else "c"
        for query in (
                f"SELECT id,HEX(v) FROM {table} FORCE INDEX(v) ORDER BY v,id",
                f"SELECT id,HEX(c) FROM {table} FORCE INDEX(c) ORDER BY {c} DESC,id DESC",
                f"SELECT id,HEX(v) FROM {table} FORCE INDEX(d) ORDER BY v DESC,{c},id",
                f"SELECT COUNT(*) FROM {table} a JOIN {table} b FORCE INDEX(v) ON a.v=b.v",
                f"SELECT COUNT(*) FROM {table} a JOIN {table} b FORCE INDEX(p) ON a.v=b.v",
                f"SELECT COUNT(*) FROM {table} FORCE INDEX(v) WHERE v>'a'",
                f"SELECT COUNT(*) FROM {table} FORCE INDEX(v) WHERE v LIKE 'a%'",
                f"SELECT COUNT(*) FROM {table} FORCE INDEX(v) WHERE v BETWEEN 'B' AND 'z '",
                f"SELECT id,HEX(v) FROM u{number} FORCE INDEX(PRIMARY) ORDER BY v"):
            print(query + ";")
        print(f"DROP TABLE {table}, u{number};")


main()
