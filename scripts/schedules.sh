#!/usr/bin/env bash
# Runs the engine under a model checker: unit tests named `interleavings`, with its locks, atomics
# and threads instead of the real ones (crates/frond/src/sync.rs).
#
#   scripts/schedules.sh [NAME]     NAME: only those whose path contains it, e.g. lock_table
#
# Only the crate under test is built with `--cfg shuttle`, so that everything below it is reused
# from other tests; and without optimisation, which takes longer here than it saves.
set -euo pipefail
cd "$(dirname "$0")/.."

export CARGO_PROFILE_TEST_OPT_LEVEL=0
binary=$(cargo rustc -p frond-db --lib --profile test --locked --features planted-bugs \
    --message-format=json-render-diagnostics -- --cfg shuttle |
    sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -n1)
[[ -x $binary ]] || { echo "schedules: cargo named no program" >&2; exit 1; }
watch=$PWD/scripts/watch-test.sh
cd crates/frond
exec "$watch" "$binary" "${@:-interleavings}"
