"""Prints SQL that puts edge cases and random values of every column type into columns, keys and
indexes, and queries them in every way.

PROPERTY_ROUNDS (1) is the number of tables for each type; PROPERTY_SEED determines their content.
"""

import os
import random

ROUNDS = int(os.environ.get("PROPERTY_ROUNDS", "1"))
SEED = os.environ.get("PROPERTY_SEED", "1")


def integers(bits, unsigned):
    low, high = (0, 2 ** bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)

    def values(chance):
        edges = [low, low + 1, high, high - 1, 0, 1, 127, 128, 255]
        return [str(value) for value in edges + [chance.randint(low, high) for _ in range(8)] + [high >> chance.randint(0, bits) for _ in range(6)]
                if low <= value <= high]
    return values


def decimals(digits, scale):
    def values(chance):
        def one(length):
            return "".join(chance.choice("0123456789") for _ in range(length)) or "0"
        most = ("9" * (digits - scale) or "0") + ("." + "9" * scale if scale else "")
        some = [f"{sign}{one(chance.randint(0, digits - scale))}" + (f".{one(scale)}" if scale else "") for sign in ("", "-") for _ in range(8)]
        return ["0", "-0", most, "-" + most, "1" if digits > scale else "0", "-1" if digits > scale else "0"] + some
    return values


def floats(largest, least):
    def values(chance):
        return ["0", "-0.0", "1", "-1", "0.1", "-0.1", "1.5", largest, "-" + largest, least, "-" + least, "123456789", "3.0000001"] + [
            f"{chance.uniform(-1, 1):.9g}e{chance.randint(-20, 20)}" for _ in range(12)]
    return values


def fraction(chance, digits):
    return "." + "".join(chance.choice("0123456789") for _ in range(digits)) if digits else ""


def days(chance):
    return ["'0000-00-00'", "'1000-01-01'", "'9999-12-31'", "'2024-02-29'", "'2024-00-00'", "'2024-01-00'", "'0001-01-01'", "'1969-12-31'"] + [
        f"'{chance.randint(1, 9999):04}-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}'" for _ in range(12)]


def clock(chance):
    return f"{chance.randint(0, 23):02}:{chance.randint(0, 59):02}:{chance.randint(0, 59):02}"


def datetimes(digits):
    def values(chance):
        edges = ["'0000-00-00 00:00:00'", "'1000-01-01 00:00:00'", f"'9999-12-31 23:59:59{'.' + '9' * digits if digits else ''}'",
                 "'2024-00-00 00:00:00'", "'1970-01-01 00:00:00'"]
        return edges + [f"{day[:-1]} {clock(chance)}{fraction(chance, digits)}'" for day in days(chance)[1:]]
    return values


def timestamps(digits):
    def values(chance):
        edges = ["'0000-00-00 00:00:00'", "'1970-01-01 00:00:01'", f"'2038-01-19 03:14:07{'.' + '9' * digits if digits else ''}'"]
        return edges + [f"'{chance.randint(1971, 2037)}-{chance.randint(1, 12):02}-{chance.randint(1, 28):02} {clock(chance)}{fraction(chance, digits)}'"
                        for _ in range(16)]
    return values


def times(digits):
    def values(chance):
        most = "838:59:59" + ("." + "9" * digits if digits else "")
        edges = ["'00:00:00'", f"'{most}'", f"'-{most}'", "'00:00:01'", "'-00:00:01'", "'24:00:00'", "'-24:00:00'"]
        if digits:
            edges += [f"'-00:00:00.{'0' * (digits - 1)}1'", f"'00:00:00.{'0' * (digits - 1)}1'"]
        return edges + [f"'{chance.choice(['', '-'])}{chance.randint(0, 837)}{clock(chance)[2:]}{fraction(chance, digits)}'" for _ in range(14)]
    return values


def binaries(length):
    def values(chance):
        edges = ["''", "0x00", "0x0000", "0x01", "0xff", "0xffff", "0x00ff", "0xff00", "0x20", "0x2020", "'a'", "'a '", "'a\\0'", "'A'",
                 "0x" + "00" * length, "0x" + "ff" * length]
        return edges + ["0x" + bytes(chance.choice([0, 1, 32, 97, 255, chance.randint(0, 255)])
                                     for _ in range(chance.randint(1, length))).hex() for _ in range(14)]
    return values


def texts(length):
    words = ["", "a", "A", "a ", "a  ", "a\t", " a", "ab", "aB", "b", "é", "e\u0301", "ß", "ss", "日本", "😀", "ä", "z"]

    def values(chance):
        def quoted(text):
            return "_utf8mb4 0x" + text.encode().hex() if text else "''"
        some = words + ["".join(chance.choice(words) for _ in range(chance.randint(1, 8)))[:length] for _ in range(14)]
        return [quoted(text[:length]) for text in some] + [quoted("x" * length), quoted("x" * (length - 1) + "y")]
    return values


def bits(count):
    def values(chance):
        return [str(value) for value in {0, 1, 2 ** count - 1, 2 ** (count - 1), *(chance.getrandbits(count) for _ in range(12))}]
    return values


def members(chance):
    return ["''", "'x'", "'y'", "'x,y'", "'z'", "'x,y,z'", "0", "1", "2", "'a b'"]


def uuids(chance):
    return [f"'{text}'" for text in ("00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff",
                                     "123e4567-e89b-12d3-a456-426655440000", "123e4567-e89b-42d3-a456-426655440000")] + [
        "'%08x-%04x-%04x-%04x-%012x'" % tuple(chance.getrandbits(width) for width in (32, 16, 16, 16, 48)) for _ in range(12)]


def addresses(chance):
    return ["'::'", "'::1'", "'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'", "'::ffff:1.2.3.4'"] + [
        "'" + ":".join(f"{chance.getrandbits(16):x}" for _ in range(8)) + "'" for _ in range(12)]


def addresses4(chance):
    return ["'0.0.0.0'", "'255.255.255.255'"] + ["'" + ".".join(str(chance.getrandbits(8)) for _ in range(4)) + "'" for _ in range(12)]


# A type, its values, the length of prefixes if it can have them, and whether only a prefix can be a
# key.
TYPES = [
    *((f"{name}{sign}", integers(bits, bool(sign)), 0, False)
      for name, bits in (("TINYINT", 8), ("SMALLINT", 16), ("MEDIUMINT", 24), ("INT", 32), ("BIGINT", 64)) for sign in ("", " UNSIGNED")),
    ("INT ZEROFILL", integers(32, True), 0, False), ("BOOL", integers(8, False), 0, False),
    *((f"DECIMAL({digits},{scale})", decimals(digits, scale), 0, False)
      for digits, scale in ((1, 0), (5, 2), (9, 9), (10, 0), (18, 9), (20, 5), (65, 0), (65, 30))),
    ("DECIMAL(12,4) UNSIGNED", decimals(12, 4), 0, False),
    ("FLOAT", floats("3.4e38", "1e-37"), 0, False), ("DOUBLE", floats("1.7e308", "1e-307"), 0, False),
    ("FLOAT(7,3)", floats("9999", "0.001"), 0, False), ("DOUBLE UNSIGNED", floats("1e300", "1e-300"), 0, False),
    *((f"BIT({count})", bits(count), 0, False) for count in (1, 7, 8, 9, 33, 64)),
    ("YEAR", lambda chance: ["0", "1901", "2155", "1970", "2000"] + [str(chance.randint(1901, 2155)) for _ in range(10)], 0, False),
    ("DATE", days, 0, False),
    *((f"{name}({digits})", kind(digits), 0, False)
      for name, kind in (("DATETIME", datetimes), ("TIMESTAMP", timestamps), ("TIME", times)) for digits in (0, 1, 2, 3, 4, 5, 6)),
    *((f"CHAR({length}) {more}", texts(length), 3, False)
      for length in (8, 100) for more in ("CHARACTER SET latin1", "CHARACTER SET utf8mb4", "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", "CHARACTER SET ucs2")),
    *((f"VARCHAR({length}) {more}", texts(length), 3, False)
      for length in (8, 300) for more in ("CHARACTER SET latin1", "CHARACTER SET utf8mb4", "CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin",
                                          "CHARACTER SET utf8mb4 COLLATE utf8mb4_uca1400_as_cs", "CHARACTER SET utf32")),
    ("BINARY(4)", binaries(4), 2, False), ("BINARY(200)", binaries(20), 3, False), ("VARBINARY(6)", binaries(6), 2, False),
    ("VARBINARY(400)", binaries(50), 3, False),
    *((f"{name}TEXT", texts(30), 4, True) for name in ("TINY", "", "MEDIUM", "LONG")),
    *((f"{name}BLOB", binaries(20), 4, True) for name in ("TINY", "", "MEDIUM", "LONG")),
    ("TEXT COMPRESSED", texts(200), 0, True), ("VARCHAR(300) COMPRESSED", texts(200), 0, True),
    ("ENUM('z','x','y','a b')", members, 0, False), ("SET('x','y','z','a b')", members, 0, False),
    ("ENUM('b','a') CHARACTER SET ucs2", lambda chance: ["'a'", "'b'", "''"], 0, False),
    ("UUID", uuids, 0, False), ("INET6", addresses, 0, False), ("INET4", addresses4, 0, False),
    ("JSON", lambda chance: ["'{}'", "'[1,2]'", "'null'", "'{\"a\": \"b\"}'", "'\"x\"'"], 4, True),
    ("POINT", lambda chance: [f"POINT({chance.randint(-9, 9)},{chance.randint(-9, 9)})" for _ in range(6)], 0, True),
]


def ask(number, kind, values, prefix, only_prefix, chance):
    some = values(chance)
    rows = [*some, *chance.sample(some, min(len(some), 6)), "NULL", "NULL"]
    chance.shuffle(rows)
    t = f"t{number}"
    key = f"v({prefix})" if only_prefix else "v"
    can_key = prefix or not only_prefix
    indexes = [f"KEY a({key}), KEY d({key} DESC), KEY m(n, {key} DESC), KEY r({key}, n DESC)"] if can_key else []
    if prefix and not only_prefix:
        indexes.append(f"KEY p(v({prefix})), KEY q(v({prefix}) DESC, n)")
    print(f"CREATE TABLE {t} ({', '.join([f'id INT PRIMARY KEY, n INT, v {kind} NULL', *indexes])});")
    print(f"INSERT IGNORE INTO {t} VALUES {','.join(f'({i},{i % 3},{value})' for i, value in enumerate(rows))};")
    shown = "ST_AsText(v)" if kind == "POINT" else "HEX(v)" if "BIN" in kind or "BLOB" in kind or "TEXT" in kind or "CHAR" in kind else "v+0" if "BIT" in kind else "v"
    print(f"SELECT id,n,{shown} FROM {t} ORDER BY id;")
    names = ["a", "d", "m", "r"] + (["p", "q"] if prefix and not only_prefix else []) if can_key else []
    for index in names:
        # A prefix does not determine the order: the server sorts ties.
        if index == "m":
            print(f"SELECT id,{shown} FROM {t} FORCE INDEX(m) WHERE n=1 ORDER BY v DESC,id; SELECT id FROM {t} FORCE INDEX(m) ORDER BY n,v DESC,id;")
            print(f"SELECT n,MIN(v) IS NULL,COUNT(v),COUNT(DISTINCT v) FROM {t} FORCE INDEX(m) GROUP BY n ORDER BY n;")
        else:
            print(f"SELECT id,{shown} FROM {t} FORCE INDEX({index}) ORDER BY v,id; SELECT id FROM {t} FORCE INDEX({index}) ORDER BY v DESC,id DESC;")
            print(f"SELECT COUNT(*),MIN(id) FROM {t} FORCE INDEX({index}) GROUP BY v ORDER BY 1,2;")
        where = f"FROM {t} FORCE INDEX({index}) WHERE {'n=1 AND ' if index == 'm' else ''}v"
        low, high, other = (chance.choice(some) for _ in range(3))
        for condition in (f"={low}", f"<=>{low}", f"<{low}", f">={high}", f" BETWEEN {low} AND {high}", f" IN ({low},{high},{other})", " IS NULL",
                          " IS NOT NULL", f"<>{low}", f">{low} AND v<={high}"):
            print(f"SELECT COUNT(*),MIN(id),MAX(id),SUM(id) {where}{condition};")
        print(f"SELECT id,{shown} {where}>{low} ORDER BY v DESC,id DESC LIMIT 5; SELECT id,{shown} {where}<={high} ORDER BY v,id LIMIT 5;")
        print(f"SELECT COUNT(*) FROM {t} x JOIN {t} y FORCE INDEX({index}) ON x.v=y.v{' AND x.n=y.n' if index == 'm' else ''};")
    if can_key:
        print(f"SELECT MIN(v) IS NULL,MAX(v) IS NULL FROM {t};" if shown != "v" else f"SELECT MIN(v),MAX(v) FROM {t};")
        print(f"CREATE TABLE p{number} (v {kind} NOT NULL, w {kind} NULL, id INT, PRIMARY KEY({key}), UNIQUE({key.replace('v', 'w', 1)} DESC), KEY(id));")
        print(f"INSERT IGNORE INTO p{number} SELECT v,v,id FROM {t} WHERE v IS NOT NULL ORDER BY id; INSERT INTO p{number} SELECT v,v,id FROM {t} ORDER BY id DESC LIMIT 1;")
        print(f"SELECT id,{shown} FROM p{number} FORCE INDEX(PRIMARY) ORDER BY v,id; SELECT id FROM p{number} FORCE INDEX(w) ORDER BY w DESC,id;")
        print(f"SELECT id,{shown} FROM p{number} FORCE INDEX(id) WHERE id>5 ORDER BY id; REPLACE INTO p{number} SELECT v,v,id+100 FROM {t} WHERE v IS NOT NULL AND n=1 ORDER BY id;")
        print(f"UPDATE IGNORE p{number} SET v={chance.choice(some)} WHERE id%5=1 ORDER BY id LIMIT 1; UPDATE p{number} SET w=NULL WHERE id%4=1;")
        print(f"SELECT id,{shown} FROM p{number} ORDER BY v,id; SELECT id,w IS NULL FROM p{number} FORCE INDEX(w) ORDER BY w,id; CHECK TABLE p{number}; DROP TABLE p{number};")
    print(f"CREATE TABLE h{number} (v {kind} NULL, id INT); INSERT INTO h{number} SELECT v,id FROM {t} ORDER BY id; SELECT id,{shown} FROM h{number} ORDER BY id;")
    print(f"UPDATE IGNORE {t} SET v={chance.choice(some)} WHERE n=2; DELETE FROM {t} WHERE n=0 AND v IS NOT NULL; SELECT id,{shown} FROM {t} ORDER BY id;")
    print(f"ALTER TABLE {t} ADD z INT DEFAULT 7 FIRST, ALGORITHM=COPY; SELECT id,z,{shown} FROM {t} ORDER BY id; CHECK TABLE {t}; DROP TABLE {t}, h{number};")


def main():
    print("SET sql_mode=''; SET time_zone='+00:00'; SET timestamp=1700000000; SET NAMES utf8mb4;")
    number = 0
    for turn in range(ROUNDS):
        for kind, values, prefix, only_prefix in TYPES:
            number += 1
            print(f"SELECT {number} /* {kind} */;")
            ask(number, kind, values, prefix, only_prefix, random.Random(f"{SEED} {turn} {kind}"))


main()
