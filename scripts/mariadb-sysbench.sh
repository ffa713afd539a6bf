#!/usr/bin/env bash
# Runs sysbench on tables of Frond and of InnoDB in one private server, and prints a Markdown table:
# transactions per second, and seconds for the load and for full scans. The engines take turns of
# two seconds with each workload, so that other activity on the machine affects both.
#
#   ROWS        rows of the table (default 1000000)
#   SECONDS     for each engine with each workload (default 8)
#   CACHE       for each engine, in MiB (default 1024)
#   ENGINES     the others are compared with the last one (default "FROND InnoDB")
#   THREADS     clients (default "1 16")
#   WORKLOADS   scripts of sysbench without oltp_ (default: point_select read_only read_write
#               update_index update_non_index write_only); `load` and `scan` come first, if they are
#               named or none is
#   DURABILITY  of commits: sync, os or lazy (default os)
set -euo pipefail
# The shell increments SECONDS itself.
seconds=$SECONDS
[ "$seconds" -gt 0 ] || seconds=8
cd "$(dirname "$0")/.."

rows=${ROWS:-1000000}
cache=${CACHE:-1024}
turn=2
read -ra engines <<<"${ENGINES:-FROND InnoDB}"
read -ra threads <<<"${THREADS:-1 16}"
read -ra workloads <<<"${WORKLOADS:-load scan point_select read_only read_write update_index update_non_index write_only}"
durability=${DURABILITY:-os}
declare -A flush=([sync]=1 [os]=2 [lazy]=0)
[ -n "${flush[$durability]:-}" ] || { echo "DURABILITY is sync, os or lazy" >&2; exit 2; }
command -v sysbench >/dev/null || { echo "sysbench is not installed: apt-get install sysbench" >&2; exit 1; }

export FROND_SERVER=${FROND_SERVER:-sysbench}
server() { scripts/mariadb-server.sh "$@"; }
say() { echo "$*" >&2; }

bench() { # bench ENGINE WORKLOAD THREADS COMMAND
    sysbench "oltp_$2" --db-driver=mysql --mysql-socket="$socket" --mysql-user=root --mysql-db="sbtest_${1,,}" \
        --mysql_storage_engine="$1" --tables=1 --table-size="$rows" --rand-type=uniform --threads="$3" \
        --time="$turn" --report-interval=0 "$4"
}

now() { date +%s.%N; }

load() { # load ENGINE: seconds
    server shell -e "DROP DATABASE IF EXISTS sbtest_${1,,}; CREATE DATABASE sbtest_${1,,}"
    local begin
    begin=$(now)
    bench "$1" read_only 1 prepare >/dev/null
    awk -v a="$begin" -v b="$(now)" 'BEGIN { printf "%.2f", b - a }'
    server shell -e "ANALYZE TABLE sbtest1" "sbtest_${1,,}" >/dev/null
}

scan() { # scan ENGINE QUERY: seconds, the best of three
    local statement="SET @begin = SYSDATE(6); SELECT ($2) INTO @x; SELECT TIMESTAMPDIFF(MICROSECOND, @begin, SYSDATE(6)) / 1e6;"
    server shell -N -e "$statement $statement $statement" "sbtest_${1,,}" | sort -n | head -n 1
}

rate() { # rate ENGINE WORKLOAD THREADS: transactions per second
    bench "$1" "$2" "$3" run | sed -n 's/.*transactions: .*(\([0-9.]*\) per sec.*/\1/p'
}

rest() { # waits until the server is almost idle, half a minute at most
    local before after
    for _ in $(seq 30); do
        before=$(awk '{ print $14 + $15 }' "/proc/$pid/stat")
        sleep 1
        after=$(awk '{ print $14 + $15 }' "/proc/$pid/stat")
        [ $((after - before)) -gt 5 ] || return 0
    done
}

line() { # line NAME UNIT VALUE...: one line of the table, with the ratio of each value to the last engine's
    awk -F '\t' -v OFS=' | ' '{
        reference = $NF
        line = "| " $1
        for (i = 3; i <= NF; i++)
            line = line OFS sprintf($2 == "s" ? "%.3f s" : "%.0f /s", $i)
        for (i = 3; i < NF; i++)
            line = line OFS sprintf("%.2f", $2 == "s" ? reference / $i : $i / reference)
        print line " |"
    }' <<<"$(
        IFS=$'\t'
        echo "$*"
    )"
}

measure() { # measure NAME UNIT TURNS COMMAND [ARG...]: runs COMMAND ENGINE ARG... and takes the mean of its turns
    local name=$1 unit=$2 turns=$3 values=() engine at
    shift 3
    for _ in $(seq "$turns"); do
        at=0
        for engine in "${engines[@]}"; do
            say "$name, $engine"
            values[at]+=" $("$1" "$engine" "${@:2}")"
            at=$((at + 1))
        done
    done
    for at in "${!values[@]}"; do
        values[at]=$(awk '{ for (i = 1; i <= NF; i++) sum += $i; printf "%.3f", sum / NF }' <<<"${values[at]}")
    done
    line "$name" "$unit" "${values[@]}"
}

server reset
server start --innodb-buffer-pool-size="${cache}M" --innodb-flush-log-at-trx-commit="${flush[$durability]}" \
    --innodb-log-file-size=1G --frond-cache-size="${cache}M" --frond-durability="$durability" --max-connections=300
trap 'server stop' EXIT
socket=target/mariadb/servers/$FROND_SERVER/s.sock
pid=$(cat "target/mariadb/servers/$FROND_SERVER/pid")

heading="| $rows rows, $cache MiB, $durability" rule="|---"
for engine in "${engines[@]}"; do
    heading+=" | $engine" rule+="|--:"
done
for engine in "${engines[@]::${#engines[@]}-1}"; do
    heading+=" | $engine / ${engines[-1]}" rule+="|--:"
done
printf '%s |\n%s|\n' "$heading" "$rule"

measure "load" s 1 load
rest
for workload in "${workloads[@]}"; do
    case $workload in
    load) ;;
    scan)
        for query in "COUNT(*)" "SUM(k)" "MAX(c)" "SUM(LENGTH(pad))"; do
            measure "SELECT $query" s 2 scan "SELECT $query FROM sbtest1"
        done
        ;;
    *)
        for count in "${threads[@]}"; do
            measure "$workload, $count" "/s" $(((seconds + turn - 1) / turn)) rate "$workload" "$count"
        done
        ;;
    esac
done
