#!/usr/bin/env bash
# Runs a private MariaDB with the Frond plugin: its own data directory below target/mariadb/, a
# socket and no port.
#
#   mariadb-server.sh start [OPTION...]   options for mariadbd, e.g. --log-bin
#   mariadb-server.sh stop | kill         shut down; or kill -9, like a crash
#   mariadb-server.sh shell [ARG...]      the SQL client
#   mariadb-server.sh reset               stop, and delete its data
#
# FROND_SERVER names a second server with its own data; FROND_PLUGINS another directory of plugins.
set -euo pipefail
cd "$(dirname "$0")/.."

home=$PWD/target/mariadb/servers/${FROND_SERVER:-shell}
plugins=${FROND_PLUGINS:-$PWD/target/mariadb/build}
data=$home/data
# The path of a socket is limited to about 100 bytes, and a checkout may be deeper than that.
socket=$(realpath -m --relative-to="$PWD" "$home/s.sock")
log=$home/error.log
user=()
[ "$(id -u)" != 0 ] || user=(--user=root)

is_up() {
    mariadb-admin --no-defaults --socket="$socket" -u root ping >/dev/null 2>&1
}

start() {
    if is_up; then
        echo "It runs already: $socket"
        return
    fi
    [ -e "$plugins/ha_frond.so" ] || { echo "ha_frond.so is not built: make mariadb-plugin" >&2; exit 1; }
    # When a server starts, it deletes the temporary tables of all servers that use the same
    # directory for them.
    mkdir -p "$home/tmp"
    # The server has only one directory of plugins, so those of its packages are linked into it,
    # except a packaged Frond.
    for plugin in /usr/lib/mysql/plugin/*.so; do
        [ ! -e "$plugin" ] || [ "$(basename "$plugin")" = ha_frond.so ] || ln -sf "$plugin" "$plugins/"
    done
    if [ ! -d "$data/mysql" ]; then
        rm -rf "$data"
        mariadb-install-db --no-defaults --datadir="$data" --tmpdir="$home/tmp" --auth-root-authentication-method=normal \
            --skip-test-db "${user[@]}" >"$home/install.log" 2>&1
    fi
    mariadbd --no-defaults --datadir="$data" --tmpdir="$home/tmp" --socket="$PWD/$socket" --pid-file="$home/pid" --log-error="$log" \
        --skip-networking --plugin-dir="$plugins" --plugin-load-add=ha_frond.so \
        --plugin-maturity=experimental --frond=FORCE_PLUS_PERMANENT "${user[@]}" "$@" >/dev/null 2>&1 &
    local pid=$!
    for _ in $(seq 300); do
        if is_up; then
            return
        fi
        if ! kill -0 "$pid" 2>/dev/null; then
            break
        fi
        sleep 0.1
    done
    echo "The server did not start; the end of $log:" >&2
    tail -n 20 "$log" >&2
    exit 1
}

pid() {
    cat "$home/pid" 2>/dev/null || true
}

gone() {
    local pid=$1
    for _ in $(seq 600); do
        kill -0 "$pid" 2>/dev/null || return 0
        sleep 0.1
    done
    echo "The server did not end" >&2
    return 1
}

stop() {
    local pid
    pid=$(pid)
    [ -n "$pid" ] && kill "$pid" 2>/dev/null || return 0
    gone "$pid"
}

case ${1:-} in
start)
    shift
    start "$@"
    ;;
stop)
    stop
    ;;
kill)
    victim=$(pid)
    [ -z "$victim" ] || kill -9 "$victim"
    [ -z "$victim" ] || gone "$victim"
    rm -f "$home/pid"
    ;;
shell)
    shift
    exec mariadb --no-defaults --socket="$socket" -u root "$@"
    ;;
reset)
    stop
    rm -rf "$home"
    ;;
*)
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
