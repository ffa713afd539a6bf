#!/usr/bin/env bash
# What the engine does not support must fail with a message that names it, and leave nothing behind.
# The argument is a running server's socket.
set -euo pipefail
sql() { mariadb --no-defaults --socket="$1" -uroot -N refused -e "$2" 2>&1 || true; }
mariadb --no-defaults --socket="$1" -uroot -e "DROP DATABASE IF EXISTS refused; CREATE DATABASE refused;
    CREATE TABLE refused.p (a INT PRIMARY KEY) ENGINE=FROND"
failed=0
refuses() {
    local got
    got=$(sql "$1" "$3")
    if ! grep -q "$2" <<<"$got"; then
        echo "not refused with '$2': $3: $got" >&2
        failed=1
    fi
}
refuses "$1" "FOREIGN KEY" "CREATE TABLE x (a INT PRIMARY KEY, FOREIGN KEY (a) REFERENCES p(a)) ENGINE=FROND"
refuses "$1" "FOREIGN KEY" "ALTER TABLE p ADD b INT, ADD FOREIGN KEY (b) REFERENCES p(a)"
refuses "$1" "FULLTEXT" "CREATE TABLE x (a TEXT, FULLTEXT (a)) ENGINE=FROND"
refuses "$1" "SPATIAL" "CREATE TABLE x (a POINT NOT NULL, SPATIAL INDEX (a)) ENGINE=FROND"
refuses "$1" "DATA DIRECTORY" "CREATE TABLE x (a INT) ENGINE=FROND DATA DIRECTORY='/tmp'"
refuses "$1" "FOREIGN KEY" "CREATE TABLE c (a INT PRIMARY KEY, FOREIGN KEY (a) REFERENCES parent(a)) ENGINE=FROND"
refuses "$1" "FOREIGN KEY\|ERROR" "CREATE TABLE i (a INT PRIMARY KEY) ENGINE=InnoDB; CREATE TABLE j (a INT, FOREIGN KEY (a) REFERENCES i(a)) ENGINE=InnoDB; ALTER TABLE j ENGINE=FROND"
sql "$1" "CREATE TABLE xp (a INT NOT NULL, b INT NOT NULL, UNIQUE ua(a,b), UNIQUE ub(b,a)) ENGINE=FROND PARTITION BY HASH(a+b);
    CREATE TABLE xt (a INT NOT NULL, b INT NOT NULL, UNIQUE ub(b,a), UNIQUE ua(a,b)) ENGINE=FROND"
refuses "$1" "different definitions" "ALTER TABLE xp EXCHANGE PARTITION p0 WITH TABLE xt"
sql "$1" "DROP TABLE xp, xt"
left=$(sql "$1" "SHOW TABLES" | tr '\n' ' ')
[ "$left" = "i j p " ] || { echo "left behind: $left" >&2; failed=1; }
[ $failed = 0 ] && echo "refused: all by name"
exit $failed
