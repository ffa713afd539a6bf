#!/usr/bin/env bash
# Tests of the plugin on a private server; arguments are names of scripts in sql/ and sessions/.
set -euo pipefail
cd "$(dirname "$0")/../../.."

export FROND_SERVER=test
plugin/mariadb/tests/symbols.sh target/mariadb/build/ha_frond.so
scripts/mariadb-server.sh reset
scripts/mariadb-server.sh start --innodb-buffer-pool-size=64M --innodb-flush-log-at-trx-commit=0 --frond-durability=lazy
trap 'scripts/mariadb-server.sh stop' EXIT
plugin/mariadb/tests/refused.sh target/mariadb/servers/test/s.sock
python3 plugin/mariadb/tests/compare.py target/mariadb/servers/test/s.sock "$@"
if [ $# = 0 ]; then
    python3 plugin/mariadb/tests/views.py target/mariadb/servers/test/s.sock
    python3 plugin/mariadb/tests/alone.py target/mariadb/servers/test/s.sock
    python3 plugin/mariadb/tests/damage.py
    python3 plugin/mariadb/tests/read_ahead.py
    python3 plugin/mariadb/tests/alter.py
    python3 plugin/mariadb/tests/numbers.py
    python3 plugin/mariadb/tests/statements.py
    python3 plugin/mariadb/tests/statistics.py
    python3 plugin/mariadb/tests/stopped.py
    plugin/mariadb/tests/crash.sh
    python3 plugin/mariadb/tests/memory.py
    plugin/mariadb/tests/conformance/run.py --selection --show
fi
if grep -E "\[ERROR\].*Frond|got signal" target/mariadb/servers/test/error.log; then
    echo "The server's error log has errors of the engine" >&2
    exit 1
fi
