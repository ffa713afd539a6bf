#!/usr/bin/env bash
# Kills the server while it writes, and checks that everything it acknowledged is there and that all
# parts of a table agree.
set -euo pipefail
cd "$(dirname "$0")/../../.."

export FROND_SERVER=crash
rounds=${ROUNDS:-3}
sql() { scripts/mariadb-server.sh shell -N "$@"; }

scripts/mariadb-server.sh reset
scripts/mariadb-server.sh start --log-bin --binlog-format=ROW --sync-binlog=1
sql -e "CREATE DATABASE c; CREATE TABLE c.t (id BIGINT PRIMARY KEY, a INT, b VARCHAR(40), KEY(a), UNIQUE(b)) ENGINE=FROND;
    CREATE TABLE c.i (id BIGINT PRIMARY KEY) ENGINE=InnoDB; CREATE TABLE c.ddl (a INT PRIMARY KEY, b INT) ENGINE=FROND; CREATE SEQUENCE c.s NOCACHE ENGINE=FROND;"
acknowledged=$(mktemp)
trap 'scripts/mariadb-server.sh kill; rm -f "$acknowledged"' EXIT
for round in $(seq "$rounds"); do
    for writer in 1 2 3; do
        for n in $(seq 100000); do
            id=$((round * 10000000 + writer * 1000000 + n))
            echo "BEGIN; INSERT INTO c.t VALUES ($id, $n, 'row $id'); INSERT INTO c.i VALUES ($id); COMMIT; SELECT $id;"
        done | sql --unbuffered >>"$acknowledged" 2>/dev/null &
    done
    (while sql -e "ALTER TABLE c.ddl ADD KEY k(b); RENAME TABLE c.ddl TO c.ddl2; TRUNCATE c.ddl2; RENAME TABLE c.ddl2 TO c.ddl;
        ALTER TABLE c.ddl DROP KEY k" >/dev/null 2>&1; do :; done) &
    sql -e "XA START 'round $round'; INSERT INTO c.t VALUES ($round, 0, 'xa $round'); XA END 'round $round'; XA PREPARE 'round $round'" >/dev/null
    sleep $((1 + round % 3))
    number=$(sql -e "SELECT NEXTVAL(c.s)")
    scripts/mariadb-server.sh kill
    wait
    # A killed server loses nothing at either level: with "os", commits share pages of the log.
    durability=sync
    [ $((round % 2)) = 0 ] || durability=os
    scripts/mariadb-server.sh start --log-bin --binlog-format=ROW --sync-binlog=1 --frond-durability="$durability"
    sort -n "$acknowledged" | sed '/^[0-9]*$/!d' >"$acknowledged.sorted"
    sql -e "SELECT id FROM c.t WHERE id > 1000 ORDER BY id" >"$acknowledged.there"
    sql -e "SELECT id FROM c.i ORDER BY id" >"$acknowledged.innodb"
    lost=$(comm -23 <(sort "$acknowledged.sorted") <(sort "$acknowledged.there") | wc -l)
    [ "$lost" = 0 ] || { echo "round $round: $lost acknowledged rows are lost" >&2; exit 1; }
    cmp -s "$acknowledged.there" "$acknowledged.innodb" || { echo "round $round: Frond and InnoDB differ" >&2; exit 1; }
    [ "$(sql -e "SELECT NEXTVAL(c.s)")" -gt "$number" ] || { echo "round $round: a number of a sequence is given again" >&2; exit 1; }
    # After a restart the server holds no table lock for prepared transactions; building an index
    # must still wait for their rows.
    waits=$(sql -e "SET frond_lock_wait_timeout=1; ALTER TABLE c.t ADD KEY prepared(b, a), ALGORITHM=NOCOPY" 2>&1 || true)
    grep -q "ERROR 1205" <<<"$waits" || { echo "round $round: an index does not wait for what is prepared: $waits" >&2; exit 1; }
    sql -e "XA COMMIT 'round $round'"
    sql -e "ALTER TABLE c.t ADD KEY prepared(b, a), ALGORITHM=NOCOPY"
    [ "$(sql -e "SELECT b FROM c.t WHERE id = $round")" = "xa $round" ] || { echo "round $round: XA is lost" >&2; exit 1; }
    checked=$(sql -e "CHECK TABLE c.t; SELECT COUNT(*) FROM c.ddl, (SELECT 1) x" 2>&1 || sql -e "SELECT COUNT(*) FROM c.ddl2" 2>&1)
    grep -q "status.*OK" <<<"$checked" || { echo "round $round: $checked" >&2; exit 1; }
    sql -e "ALTER TABLE c.t DROP KEY prepared, ALGORITHM=NOCOPY"
    sql -e "RENAME TABLE c.ddl2 TO c.ddl" >/dev/null 2>&1 || true
    sql -e "ALTER TABLE c.ddl DROP KEY k" >/dev/null 2>&1 || true
    echo "crash round $round: $(wc -l <"$acknowledged.sorted") rows acknowledged, none lost"
done
rm -f "$acknowledged".*
scripts/mariadb-server.sh stop
