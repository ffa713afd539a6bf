#!/usr/bin/env bash
# A tour of ENGINE=FROND on a private server, each step checked: create, load, sizes compared with
# InnoDB, query, transactions, ALTER, kill -9 and recovery. Then a short form of the race that
# docs/mariadb.md describes.
#
#   scripts/mariadb-tour.sh [tour|race]     only one part
#
#   ROWS       rows to load (default 1000000)
#   RACE_ROWS  rows of the race (default 500000), RACE_SECONDS at most for each engine (default 12)
#
# The plugin must have been built, and `lab` for the race: `make mariadb` does both.
set -euo pipefail
cd "$(dirname "$0")/.."

PART=${1:-all}
ROWS=${ROWS:-1000000}
RACE_ROWS=${RACE_ROWS:-500000}
RACE_SECONDS=${RACE_SECONDS:-12}
BATCH=1000        # rows per INSERT of the load
ARRIVALS=50       # rows per transaction while the server is killed
KILL_AFTER=3      # seconds of writing before the kill
RACE_MEMORY=14MB  # for each engine: a fifth of the size of the rows in InnoDB

export FROND_SERVER=tour
HOME_DIR=target/mariadb/servers/$FROND_SERVER
LAB=${CARGO_TARGET_DIR:-target}/release/lab

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
fail() {
    echo "mariadb-tour: $*" >&2
    exit 1
}
server() { scripts/mariadb-server.sh "$@"; }
# `value` prints only the result; `show` prints the statement and its result.
value() { server shell -N -e "$1" shop; }
show() {
    printf 'MariaDB> %s\n' "$1"
    server shell -t -e "$1" shop
}
check() { # check WHAT EXPECTED FOUND
    [[ $2 == "$3" ]] || fail "$1: $2 was expected, and is $3"
    echo "  ok: $1: $3"
}
seconds_since() { awk -v a="$1" -v b="$(date +%s.%N)" 'BEGIN { printf "%.1f", b - a }'; }
allocated() { du -sk "$1" | awk '{ print $1 * 1024 }'; }

rows_of() { # rows_of FIRST LAST: the values of these rows, the same each time
    echo "SELECT seq, '2026-01-01' + INTERVAL seq SECOND, CRC32(seq) % 50000, CRC32(CONCAT('p', seq)) % 2000,
        (CRC32(CONCAT('m', seq)) % 100000) / 100, ELT(1 + CRC32(CONCAT('s', seq)) % 3, 'new', 'paid', 'sent'),
        CONCAT('order ', seq, ' to gate ', CRC32(CONCAT('g', seq)) % 40) FROM seq_$1_to_$2"
}

start() {
    server start --innodb-buffer-pool-size=256M --innodb-flush-log-at-trx-commit=2 --frond-cache-size=256M
}

tour() {
    say "A private server: own data directory, a socket and no port"
    server reset
    start
    trap 'server stop' EXIT
    server shell -N -e "CREATE DATABASE shop"
    show "SELECT VERSION() AS server, PLUGIN_NAME AS engine, PLUGIN_MATURITY AS maturity, PLUGIN_LICENSE AS licence
        FROM information_schema.PLUGINS WHERE PLUGIN_NAME = 'FROND'"
    check "the engine is there" YES "$(value "SELECT SUPPORT FROM information_schema.ENGINES WHERE ENGINE = 'FROND'")"

    say "A table"
    columns="id BIGINT AUTO_INCREMENT PRIMARY KEY, at DATETIME NOT NULL, customer INT NOT NULL,
    product INT NOT NULL, price DECIMAL(8,2) NOT NULL, state ENUM('new','paid','sent') NOT NULL, note VARCHAR(60) NOT NULL"
    keys="KEY by_customer (customer, at), KEY by_product (product, price)"
    show "CREATE TABLE orders ($columns, $keys) ENGINE=FROND"

    say "Loading $ROWS rows, $BATCH in an INSERT"
    local begin first last
    begin=$(date +%s.%N)
    for ((first = 1; first <= ROWS; first += BATCH)); do
        last=$((first + BATCH - 1 < ROWS ? first + BATCH - 1 : ROWS))
        echo "INSERT INTO orders $(rows_of "$first" "$last");"
    done | server shell shop
    local seconds
    seconds=$(seconds_since "$begin")
    echo "$ROWS rows with two indexes, each commit on disk: $seconds s, $(awk -v r="$ROWS" -v s="$seconds" 'BEGIN { printf "%.0f", r / s }') rows/s"
    check "rows" "$ROWS" "$(value "SELECT COUNT(*) FROM orders")"

    say "The same rows in InnoDB, pages of 16 KiB, and compressed to 8 and 4 KiB"
    echo "Their indexes are built after the rows, so that their pages are full."
    value "FLUSH ENGINE LOGS"
    sleep 3 # for merges in the background
    local frond_bytes format name bytes
    frond_bytes=$(allocated "$HOME_DIR/data/#frond")
    printf '%-14s %12s %8s %8s\n' engine bytes B/row Frond=1
    printf '%-14s %12s %8s %8s\n' "FROND" "$frond_bytes" "$(awk -v b="$frond_bytes" -v r="$ROWS" 'BEGIN { printf "%.1f", b / r }')" 1.00
    for name in innodb_16k innodb_8k innodb_4k; do
        case $name in
        innodb_16k) format="ROW_FORMAT=DYNAMIC" ;;
        innodb_8k) format="ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=8" ;;
        innodb_4k) format="ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=4" ;;
        esac
        value "CREATE TABLE $name ($columns) ENGINE=InnoDB $format; INSERT INTO $name SELECT * FROM orders ORDER BY id;
            ALTER TABLE $name ADD KEY by_customer (customer, at), ADD KEY by_product (product, price);
            FLUSH TABLES $name FOR EXPORT; UNLOCK TABLES"
        bytes=$(allocated "$HOME_DIR/data/shop/$name.ibd")
        printf '%-14s %12s %8s %8s\n' "$name" "$bytes" "$(awk -v b="$bytes" -v r="$ROWS" 'BEGIN { printf "%.1f", b / r }')" \
            "$(awk -v b="$bytes" -v f="$frond_bytes" 'BEGIN { printf "%.2f", b / f }')"
    done
    ((frond_bytes < bytes)) || fail "Frond takes $frond_bytes bytes, InnoDB in pages of 4 KiB $bytes"
    echo "FROND: all of its files with the log; InnoDB: the table's file alone."

    say "Queries"
    show "SELECT id, at, price, note FROM orders WHERE customer = 4711 ORDER BY at DESC LIMIT 3"
    show "EXPLAIN SELECT SUM(price) FROM orders WHERE product BETWEEN 100 AND 104"
    local query
    for query in "SELECT id, at, price, state, note FROM %s WHERE customer = 4711 ORDER BY at DESC" \
        "SELECT product, COUNT(*), SUM(price) FROM %s WHERE product BETWEEN 100 AND 104 GROUP BY product" \
        "SELECT state, COUNT(*), MIN(price), MAX(price) FROM %s GROUP BY state ORDER BY state" \
        "SELECT COUNT(*), SUM(CRC32(CONCAT_WS(',', id, at, customer, product, price, state, note))) FROM %s"; do
        # shellcheck disable=SC2059
        [[ $(value "$(printf "$query" orders)") == "$(value "$(printf "$query" innodb_16k)")" ]] ||
            fail "the answers of FROND and InnoDB differ: $query"
    done
    echo "  ok: FROND and InnoDB give the same answers to four queries"
    value "DROP TABLE innodb_16k, innodb_8k, innodb_4k"

    say "A transaction"
    show "START TRANSACTION;
    UPDATE orders SET state = 'paid', price = price + 1 WHERE id = 7;
    SAVEPOINT before_mistake;
    DELETE FROM orders WHERE customer = 4711;
    ROLLBACK TO before_mistake;
    COMMIT;
    START TRANSACTION; DELETE FROM orders WHERE id < 1000; SELECT COUNT(*) AS seen_by_itself FROM orders WHERE id < 1000; ROLLBACK"
    check "no row is lost by the rollbacks" "$ROWS" "$(value "SELECT COUNT(*) FROM orders")"
    check "the update is there" "$(value "SELECT (CRC32('m7') % 100000) / 100 + 1.00 = price AND state = 'paid' FROM orders WHERE id = 7")" 1
    local outcome
    outcome=$(server shell -N shop -e "INSERT INTO orders VALUES (7, NOW(), 1, 1, 1, 'new', '')" 2>&1 || true)
    [[ $outcome == *"Duplicate entry '7' for key 'PRIMARY'"* ]] || fail "a duplicate key is not refused: $outcome"
    echo "  ok: a duplicate key is refused: ${outcome##*$'\n'}"

    say "ALTER TABLE"
    begin=$(date +%s.%N)
    show "ALTER TABLE orders ADD COLUMN weight INT NOT NULL DEFAULT 100 AFTER price, ADD KEY by_state (state, at), DROP KEY by_product"
    echo "$(seconds_since "$begin") s"
    check "rows" "$ROWS" "$(value "SELECT COUNT(*) FROM orders WHERE weight = 100")"
    show "CHECK TABLE orders"
    check "the table agrees with its indexes" OK "$(value "CHECK TABLE orders" | awk 'END { print $NF }')"

    say "kill -9 while another client writes"
    value "CREATE TABLE arrivals (id BIGINT PRIMARY KEY, batch INT NOT NULL, at TIMESTAMP NOT NULL, KEY (batch)) ENGINE=FROND"
    local before after acknowledged writer there whole batch
    before=$(value "CHECKSUM TABLE orders EXTENDED" | awk '{ print $2 }')
    acknowledged=$HOME_DIR/acknowledged
    for ((batch = 1; ; batch++)); do
        echo "INSERT INTO arrivals SELECT $batch * 1000 + seq, $batch, NOW() FROM seq_1_to_$ARRIVALS; SELECT $batch;"
    done 2>/dev/null | server shell -N --unbuffered shop >"$acknowledged" 2>/dev/null &
    writer=$!
    sleep "$KILL_AFTER"
    server kill
    wait "$writer" || true
    last=$(awk '/^[0-9]+$/ { last = $1 } END { print last + 0 }' "$acknowledged")
    ((last > 0)) || fail "the writer had no commit acknowledged"
    echo "The server was killed; $last transactions of $ARRIVALS rows had been acknowledged."
    begin=$(date +%s.%N)
    start
    echo "Started again, and recovered: $(seconds_since "$begin") s"
    there=$(value "SELECT COUNT(DISTINCT batch) FROM arrivals WHERE batch <= $last")
    check "acknowledged transactions that are there" "$last" "$there"
    whole=$(value "SELECT COUNT(*) FROM (SELECT batch FROM arrivals GROUP BY batch HAVING COUNT(*) <> $ARRIVALS) AS torn")
    check "transactions that are there in part" 0 "$whole"
    after=$(value "SELECT MAX(batch) - $last FROM arrivals")
    ((after == 0 || after == 1)) || fail "$after transactions are there that nobody was told of; one can be"
    after=$(value "CHECKSUM TABLE orders EXTENDED" | awk '{ print $2 }')
    check "checksum of all $ROWS orders, before and after" "$before" "$after"
    check "CHECK TABLE" "OK OK" "$(value "CHECK TABLE orders, arrivals" | awk '{ printf "%s%s", n++ ? " " : "", $NF }')"
    show "SHOW ENGINE FROND STATUS\\G" | head -n 12
    server stop
    trap - EXIT
    if grep -E "\[ERROR\].*Frond|got signal" "$HOME_DIR/error.log"; then
        fail "the server's error log has errors of the engine"
    fi
}

race() {
    say "The race: iiBench in SQL, $RACE_ROWS rows, $RACE_MEMORY of memory and $RACE_SECONDS s at most for each engine"
    echo "1000 rows an INSERT into a table with three random indexes, one client, commits relaxed for all, no binlog."
    [[ -x $LAB ]] || fail "there is no $LAB: cargo build --release -p frond-lab --features lab"
    "$LAB" run iibench --set rows="$RACE_ROWS" --set time_limit="$RACE_SECONDS" --memory "$RACE_MEMORY" \
        --durability lazy --no-rest --targets blackhole,frond,innodb,innodb-8k,innodb-4k,myrocks \
        --dir target/mariadb/race --results target/mariadb/race.sqlite
    "$LAB" show last --results target/mariadb/race.sqlite
    echo "The whole of it: $LAB run iibench --size standard --memory 28MB --durability lazy --targets …"
}

case $PART in
tour) tour ;;
race) race ;;
all)
    tour
    race
    say "Done. The server's data stays in $HOME_DIR; make mariadb-shell starts another one to play with."
    ;;
*) fail "the part is tour or race" ;;
esac
