#!/usr/bin/env bash
# Runs the server's own suite `storage_engine` (package mariadb-test) with ENGINE=FROND; arguments are those of mysql-test-run.
#
# The suite finds its overlay and the plugin only in the directories of the installed server, so links are put there for
# the time of the run.
set -euo pipefail
cd "$(dirname "$0")/../../.."

here=$PWD
tests=/usr/share/mysql/mysql-test
links=("$tests/plugin/frond" /usr/lib/mysql/plugin/ha_frond.so)
[ -d "$tests/suite/storage_engine" ] || { echo "Install mariadb-test of the pinned version" >&2; exit 1; }
trap 'rm -f "${links[@]}"' EXIT
mkdir -p target/mariadb/overlay target/mariadb/mtr
ln -sfn "$here/plugin/mariadb/tests/storage_engine" target/mariadb/overlay/storage_engine
ln -sfn "$here/target/mariadb/overlay" "${links[0]}"
ln -sf "$here/target/mariadb/build/ha_frond.so" "${links[1]}"
cd "$tests"
perl mysql-test-run.pl --vardir="$here/target/mariadb/mtr/var" --suite="${SUITES:-storage_engine-frond,storage_engine/trx-frond,storage_engine/parts-frond}" --force --max-test-fail=0 \
    --parallel=2 --testcase-timeout=3 --suite-timeout=60 --nowarnings ${MTR_USER:+--user="$MTR_USER"} "$@"
