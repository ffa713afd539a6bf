"""Prints SQL that puts random strings into indexes of every collation and queries them in every way.

PROPERTY_ROUNDS (1) is the number of tables for each collation; PROPERTY_SEED determines their
content.
"""

import os
import random
import subprocess
import sys

ROUNDS = int(os.environ.get("PROPERTY_ROUNDS", "1"))
SEED = os.environ.get("PROPERTY_SEED", "1")
ALPHABET = list("abcABCzZ019 _-'/") + [
    "\t", "\x01", "  ", "é", "É", "ß", "ss", "ä", "ø", "ch", "Ch", "CH", "ll", "dž", "lj", "ng", "Aa", "æ", "ſ", "日", "本", "я", "Я", "ไ", "เก",
    "ก", "ク", "ぐ", "İ", "ı", "ñ", "ς", "σ", "한", "𝄞", "😀", "𐐀", "ﬁ", "\u00ad", "\u200d", "\u0000", "\ufeff", "\u3000", "e\u0301",
    "a\u0308\u0301", "a\u0301\u0308", "o\u0302\u0300", "\u0301", "\u0327", "\u0e40\u0e01", "\uffff", "\U0010fffd", "\u00a0"]
RANGES = [(0x20, 0x7E), (0xA0, 0x24F), (0x300, 0x36F), (0x370, 0x52F), (0x590, 0x6FF), (0x900, 0x97F), (0xE01, 0xE5B), (0x1100, 0x11FF),
          (0x1E00, 0x1FFF), (0x2000, 0x206F), (0x3000, 0x30FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0xFF01, 0xFFEF), (0x1F300, 0x1F64F)]


def piece(chance):
    """A character of the alphabet above, or any character of a block."""
    return chr(chance.randint(*chance.choice(RANGES))) if chance.random() < 0.2 else chance.choice(ALPHABET)


def quoted(text):
    return "_utf8mb4 0x" + text.encode().hex() if text else "''"


def like(text):
    """A pattern for strings that start with the text."""
    escaped = "".join("\\" + char if char in "%_\\" else char for char in text)
    return quoted(escaped + "%")


def strings(chance):
    some = ["".join(piece(chance) for _ in range(chance.randint(0, 5))) for _ in range(40)]
    some += ["", " ", "   "] + [text + " " for text in some[:10]] + [text + "\t" for text in some[:10]]
    some += [text.swapcase() for text in some[:10]] + [text[:-1] for text in some[:10]]
    return [text[:12] for text in some]


def ask(number, collation, charset, chance):
    table, unique, char = f"t{number}", f"u{number}", f"c{number}"
    print(f"CREATE TABLE {table} (id INT PRIMARY KEY, v VARCHAR(12), c CHAR(8), x TEXT, KEY v(v), KEY c(c), KEY p(v(3)), KEY d(v DESC, c),"
          f" KEY x(x(4) DESC)) CHARACTER SET {charset} COLLATE {collation};")
    print(f"CREATE TABLE {unique} (v VARCHAR(12) NOT NULL, id INT, PRIMARY KEY(v), KEY id(id)) CHARACTER SET {charset} COLLATE {collation};")
    print(f"CREATE TABLE {char} (id INT PRIMARY KEY, c CHAR(8), UNIQUE(c), UNIQUE(c(2), id)) CHARACTER SET {charset} COLLATE {collation};")
    there = strings(chance)
    rows = ",".join(f"({i},{quoted(text)},{quoted(text)},{quoted(text)})" for i, text in enumerate(there))
    print(f"INSERT IGNORE INTO {table} VALUES {rows};")
    print(f"INSERT IGNORE INTO {unique} SELECT v,id FROM {table} ORDER BY id;")
    # In CHAR columns whose trailing spaces count, InnoDB compares as many characters as the column
    # has. If letters have several weights, that gives another order. Thai columns end at a NUL, but
    # CHAR columns do not.
    c = "id" if "nopad" in collation and any(family in collation for family in ("unicode", "uca1400", "thai")) else "c"
    print(f"INSERT IGNORE INTO {char} SELECT id,c FROM {table} {'ORDER BY id' if c == 'c' else 'LIMIT 0'};")
    queries = [
        f"SELECT id,HEX(v) FROM {table} FORCE INDEX(v) ORDER BY v,id",
        f"SELECT id,HEX(c) FROM {table} FORCE INDEX(c) ORDER BY {c} DESC,id DESC",
        f"SELECT id,HEX(v) FROM {table} FORCE INDEX(d) ORDER BY v DESC,{c},id",
        f"SELECT id,HEX(x) FROM {table} FORCE INDEX(x) ORDER BY x DESC,id",
        f"SELECT COUNT(*) FROM {table} a JOIN {table} b FORCE INDEX(v) ON a.v=b.v",
        f"SELECT COUNT(*) FROM {table} a JOIN {table} b FORCE INDEX(p) ON a.v=b.v",
        f"SELECT COUNT(*) FROM {table} a JOIN {table} b FORCE INDEX(x) ON a.x=b.x",
        f"SELECT COUNT(*),MIN(id) FROM {table} FORCE INDEX(v) GROUP BY v ORDER BY 1,2",
        f"SELECT COUNT(DISTINCT v) FROM {table} FORCE INDEX(v)",
        f"SELECT id,HEX(v) FROM {unique} FORCE INDEX(PRIMARY) ORDER BY v",
        f"SELECT id,HEX(v) FROM {unique} FORCE INDEX(id) ORDER BY id",
        f"SELECT id,HEX(c) FROM {char} ORDER BY id",
    ]
    for low, high in ((chance.choice(there), chance.choice(there)) for _ in range(3)):
        for index, column in (("v", "v"), ("p", "v"), ("d", "v"), ("x", "x")):
            source = f"SELECT COUNT(*),MIN(id),MAX(id),SUM(id) FROM {table} FORCE INDEX({index}) WHERE {column}"
            queries += [f"{source}={quoted(low)}", f"{source}<{quoted(low)}", f"{source} BETWEEN {quoted(low)} AND {quoted(high)}",
                        f"{source} IN ({quoted(low)},{quoted(high)})", f"{source} LIKE {like(low[:2])}"]
        queries += [f"SELECT id FROM {unique} WHERE v={quoted(low)}", f"SELECT COUNT(*) FROM {unique} WHERE v>={quoted(low)}"]
        if c == "c":
            queries.append(f"SELECT COUNT(*),SUM(id) FROM {table} FORCE INDEX(c) WHERE c BETWEEN {quoted(low)} AND {quoted(high)}")
            queries.append(f"SELECT COUNT(*),SUM(id) FROM {table} FORCE INDEX(c) WHERE c={quoted(low)}")
    print(";\n".join(queries) + ";")
    # Other spellings of existing values, and a deletion.
    print(f"UPDATE IGNORE {unique} SET v=UPPER(v); UPDATE {table} SET v=LOWER(v), c=UPPER(c); SELECT id,HEX(v) FROM {unique} FORCE INDEX(PRIMARY) ORDER BY v;")
    print(f"SELECT id,HEX(v) FROM {table} FORCE INDEX(v) ORDER BY v,id; DELETE FROM {table} WHERE v>={quoted(there[0])};")
    print(f"SELECT COUNT(*),SUM(id) FROM {table} FORCE INDEX(v) WHERE v<{quoted(there[0])}; CHECK TABLE {table}, {unique};")
    print(f"DROP TABLE {table}, {unique}, {char};")


def main():
    listed = subprocess.run(
        ["mariadb", "--no-defaults", f"--socket={sys.argv[1]}", "-uroot", "-N", "-e",
         "SELECT FULL_COLLATION_NAME, CHARACTER_SET_NAME FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY"
         # In the newest family, one character set and some languages represent all.
         " WHERE FULL_COLLATION_NAME NOT LIKE '%uca1400%' OR FULL_COLLATION_NAME RLIKE"
         " '^utf8mb4_uca1400_(nopad_)?(a|as_|ai_|de|german|spanish2|swedish|danish|czech|turkish)' ORDER BY 1, 2"],
        stdout=subprocess.PIPE, check=True).stdout.decode().split("\n")
    print("SET sql_mode='';")
    number = 0
    for line in listed:
        collation, charset = line.split("\t") if line else ("binary", "")
        for turn in range(0 if collation == "binary" else ROUNDS):
            number += 1
            ask(number, collation, charset, random.Random(f"{SEED} {turn} {collation}"))


main()
