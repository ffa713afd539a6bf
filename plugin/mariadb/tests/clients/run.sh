#!/usr/bin/env bash
# Runs third-party programs on tables of Frond: mariadb-dump, mydumper and myloader, sysbench, a
# Python connector and a Java one.
#
# While the dumps are taken, a session moves money between accounts, so that a dump that is not a
# consistent snapshot has a different sum. Each dump is loaded into another database and compared by
# content.
set -euo pipefail
cd "$(dirname "$0")/../../../.."

export FROND_SERVER=clients
server() { scripts/mariadb-server.sh "$@"; }
accounts=1000
sum=$((accounts * 100))
here=plugin/mariadb/tests/clients
socket=$PWD/target/mariadb/servers/$FROND_SERVER/s.sock
# A Java connector can only use a port.
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
work=$(mktemp -d)
mover=
# shellcheck disable=SC2317 # The trap calls it.
finish() {
    [ -z "$mover" ] || kill -- "$mover" 2>/dev/null || true
    server stop
    rm -rf "$work"
}

server reset
trap finish EXIT
server start --skip-networking=0 --bind-address=127.0.0.1 --port="$port" --frond-durability=os
sql() { server shell -N -e "$1" "${@:2}"; }
sql "CREATE DATABASE bank; CREATE USER client@localhost IDENTIFIED BY 'secret'; GRANT ALL ON *.* TO client@localhost"
sql "CREATE TABLE account (id INT PRIMARY KEY, balance INT NOT NULL, note VARCHAR(50) CHARACTER SET utf8mb4, KEY (balance)) ENGINE=FROND;
    INSERT INTO account SELECT seq, 100, CONCAT('Kontonummer ', seq, ' für Zoë') FROM seq_1_to_$accounts;
    CREATE TABLE entry (id BIGINT AUTO_INCREMENT PRIMARY KEY, account INT, amount INT, at TIMESTAMP(6) DEFAULT NOW(6), KEY (account)) ENGINE=FROND" bank

move() {
    while true; do
        echo "START TRANSACTION; SET @a = 1 + FLOOR(RAND() * $accounts), @b = 1 + FLOOR(RAND() * $accounts);
            UPDATE account SET balance = balance - 1 WHERE id = @a; UPDATE account SET balance = balance + 1 WHERE id = @b;
            INSERT INTO entry (account, amount) VALUES (@a, -1), (@b, 1); COMMIT;"
    done | server shell bank
}
# It runs in a process group of its own, so that all of it can be ended.
set -m
move 2>/dev/null &
mover=-$!
set +m
until [ "$(sql 'SELECT COUNT(*) > 100 FROM entry' bank)" = 1 ]; do sleep 0.1; done

failed=0
is() { # is NAME WHAT IS EXPECTED
    if [ "$2" = "$3" ]; then
        echo "$1: passed"
    else
        echo "$1: $2, expected $3" >&2
        failed=1
    fi
}
balance() { sql "SELECT (SELECT SUM(balance) FROM account), (SELECT SUM(amount) FROM entry), COUNT(*) FROM account FORCE INDEX (balance)" "$1"; }

mariadb-dump --no-defaults --socket="$socket" -uroot --single-transaction bank >"$work/bank.sql"
sql "CREATE DATABASE dumped"
server shell dumped <"$work/bank.sql"
is "mariadb-dump --single-transaction with writers" "$(balance dumped)" "$sum	0	$accounts"

# No client writes to this database, so the dump can be compared with its source.
mydumper --socket="$socket" --user=root --database=dumped --outputdir="$work/mydumper" --threads=4 --trx-consistency-only >"$work/log" 2>&1
myloader --socket="$socket" --user=root --database=loaded --directory="$work/mydumper" --threads=4 >>"$work/log" 2>&1
checksum() { sql "CHECKSUM TABLE account, entry" "$1" | cut -f2 | tr '\n' ' '; }
is "mydumper, myloader" "$(checksum loaded)" "$(checksum dumped)"
is "myloader keeps the engine" "$(sql "SELECT GROUP_CONCAT(DISTINCT engine) FROM information_schema.tables WHERE table_schema = 'loaded'")" FROND
mydumper --socket="$socket" --user=root --database=bank --outputdir="$work/moving" --threads=4 --trx-consistency-only >>"$work/log" 2>&1
myloader --socket="$socket" --user=root --database=moving --directory="$work/moving" --threads=4 >>"$work/log" 2>&1
is "mydumper with writers" "$(balance moving)" "$sum	0	$accounts"

sql "CREATE DATABASE sb"
bench() { sysbench "$1" --db-driver=mysql --mysql-socket="$socket" --mysql-user=root --mysql-db=sb --mysql_storage_engine=FROND --tables=2 --table-size=2000 --threads=4 "${@:2}"; }
bench oltp_read_write prepare >>"$work/log" 2>&1
bench oltp_read_write --events=2000 --time=60 run >"$work/sysbench" 2>&1
is "sysbench" "$(grep -c 'total number of events: *2000$' "$work/sysbench")" 1

is "Python (PyMySQL)" "$(/usr/bin/python3 "$here/pymysql_client.py" "$socket" 2>&1)" passed
is "Java (MariaDB Connector/J)" "$(java -cp /usr/share/java/mariadb-java-client.jar "$here/Client.java" "$port" 2>&1)" passed

kill -- "$mover"
mover=
if grep -E "\[ERROR\]|got signal" "target/mariadb/servers/$FROND_SERVER/error.log"; then
    failed=1
fi
is "CHECK TABLE of all" "$(sql "CHECK TABLE bank.account, bank.entry, loaded.account, sb.sbtest1, sb.sbtest2 EXTENDED" | cut -f4 | sort -u)" OK
[ $failed = 0 ] || cat "$work/log" >&2
exit $failed
