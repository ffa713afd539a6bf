#!/usr/bin/env bash
# Rows per second of multi-row INSERTs into several engines of one server: iiBench's table, which
# has a primary key and three secondary indexes; 1000 rows per statement; one client. ROWS, ENGINES
# and CACHE (MiB for each engine) can be set.
set -euo pipefail
cd "$(dirname "$0")/../../.."

rows=${ROWS:-1000000}
cache=${CACHE:-256}
export FROND_SERVER=bench
scripts/mariadb-server.sh reset
scripts/mariadb-server.sh start --innodb-buffer-pool-size="${cache}M" --innodb-flush-log-at-trx-commit=2 \
    --frond-cache-size="${cache}M" --frond-durability=os --plugin-load-add=ha_blackhole.so
trap 'scripts/mariadb-server.sh stop' EXIT
pid=$(cat target/mariadb/servers/bench/pid)
ticks() { awk '{ print $14 + $15 }' "/proc/$pid/stat"; }
statements=$(mktemp)
awk -v rows="$rows" 'BEGIN {
    srand(7)
    for (n = 0; n < rows; n++) {
        if (n % 1000 == 0)
            printf "INSERT INTO t(transactiondate,cashregisterid,customerid,productid,price) VALUES "
        printf "(\"2026-01-%02d %02d:%02d:%02d\",%d,%d,%d,%.2f)%s", 1 + n % 28, n / 3600 % 24, n / 60 % 60, n % 60,
            rand() * 1000, rand() * 100000, rand() * 10000, rand() * 500, n % 1000 == 999 ? ";\n" : ","
    }
}' >"$statements"
printf '%-10s %12s %16s %14s\n' engine rows/s 'server us/row' 'bytes/row'
for engine in ${ENGINES:-BLACKHOLE FROND InnoDB}; do
    scripts/mariadb-server.sh shell -e "DROP DATABASE IF EXISTS b; CREATE DATABASE b; CREATE TABLE b.t (
        transactionid BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, transactiondate DATETIME, cashregisterid INT NOT NULL,
        customerid INT NOT NULL, productid INT NOT NULL, price FLOAT NOT NULL,
        KEY marketsegment(price, customerid), KEY registersegment(cashregisterid, price, customerid),
        KEY pdc(price, transactiondate, customerid)) ENGINE=$engine"
    before=$(ticks)
    begin=$(date +%s.%N)
    scripts/mariadb-server.sh shell b <"$statements"
    end=$(date +%s.%N)
    after=$(ticks)
    bytes=$(scripts/mariadb-server.sh shell -N -e "SELECT COALESCE(DATA_LENGTH + INDEX_LENGTH, 0) FROM information_schema.TABLES
        WHERE TABLE_SCHEMA = 'b'")
    awk -v e="$engine" -v r="$rows" -v s="$begin" -v f="$end" -v t=$((after - before)) -v b="$bytes" \
        'BEGIN { printf "%-10s %12.0f %16.2f %14.1f\n", e, r / (f - s), t * 10000 / r, b / r }'
done
rm -f "$statements"
