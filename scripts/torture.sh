#!/usr/bin/env bash
# Runs the long tests. FROND_EFFORT multiplies what the ordinary campaigns try; ignored tests run,
# too. A missing tool is an error, and does not skip a test.
#
#   scripts/torture.sh [campaigns|schedules|planted|msrv|outside|soak|large|trees|disk|server|sanitizers|miri]…     default: all, in this order
set -euo pipefail
cd "$(dirname "$0")/.."
export FROND_EFFORT="${FROND_EFFORT:-20}"
TARGET=x86_64-unknown-linux-gnu
# A test that hangs fails with the stacks of its threads. With more effort, more time passes between
# the ends of two tests.
export FROND_TEST_LIMIT="${FROND_TEST_LIMIT:-$((900 * FROND_EFFORT))}"
WATCHED=(--config "target.'cfg(unix)'.runner=['$PWD/scripts/watch-test.sh']")

campaigns() {
  cargo "${WATCHED[@]}" test --release --workspace --locked -- --nocapture
}

schedules() {
  make schedules
}

planted() {
  cargo "${WATCHED[@]}" test --release -p frond-db --features planted-bugs --locked --lib --test planted -- planted --show-output
}

msrv() {
  make msrv
}

outside() {
  scripts/break.sh
}

soak() {
  make soak SECONDS="${FROND_SOAK_SECONDS:-3600}"
}

# Updates fifty million rows in one transaction of a store of 256 MiB (FROND_UPDATED_ROWS: another
# number). Then a tree of default sizes that loses its right edge: half a GiB of rows.
large() {
  cargo "${WATCHED[@]}" test --release -p frond-db --locked --test memory_budget -- \
    --ignored --exact --nocapture fifty_million_rows_are_updated_in_one_transaction
  cargo test --release -p frond-db --locked --test worn_edges -- \
    --ignored --exact --nocapture a_drain_at_the_right_edge_at_default_sizes_leaves_a_readable_tree
}

# 100,000 trees with 1,000 named snapshots: fails if it writes more bytes, or takes more memory,
# than allowed.
trees() {
  cargo bench -p frond-db --locked --bench many_trees
}

# A file system of its own, so small that it soon is full.
disk() {
  local small
  small="$(mktemp -d)"
  mount -t tmpfs -o size=64m frond-torture "$small"
  # shellcheck disable=SC2064 # the directory of now
  trap "umount '$small'; rmdir '$small'" RETURN
  FROND_SMALL_DISK="$small" cargo "${WATCHED[@]}" test --release -p frond-db --locked --test soak -- \
    --ignored --nocapture a_disk_filled_by_others
}

# A MariaDB server with ENGINE=FROND, killed a hundred times while it writes, and during ALTER.
server() {
  make mariadb-plugin
  ROUNDS="${FROND_SERVER_ROUNDS:-100}" plugin/mariadb/tests/crash.sh
  ROUNDS="${FROND_SERVER_ROUNDS:-100}" python3 plugin/mariadb/tests/alter.py
}

# Finds memory errors, then data races, in the engine's own tests. The standard library is rebuilt
# with the sanitizer; otherwise the second run reports false races in it.
sanitizers() {
  rustup toolchain install nightly --profile minimal --component rust-src
  local kind
  for kind in address thread; do
    RUSTFLAGS="-Zsanitizer=$kind" FROND_EFFORT=1 cargo +nightly "${WATCHED[@]}" test -p frond-db --locked --lib \
      -Zbuild-std --target "$TARGET" --target-dir "target/sanitizer-$kind"
  done
}

# Finds undefined behaviour in unsafe code: memory that is divided by hand, and pointers into it.
# Miri is an interpreter, so the cases are small.
miri() {
  rustup toolchain install nightly --profile minimal --component miri --component rust-src
  MIRIFLAGS="-Zmiri-disable-isolation" FROND_EFFORT=1 cargo +nightly miri test -p frond-db --locked --lib \
    --target-dir target/miri -- cache:: memtable::tests::
}

scripts/install.sh build checks
for part in "${@:-campaigns schedules planted msrv outside soak large trees disk server sanitizers miri}"; do
  for step in $part; do
    echo "== $step"
    "$step"
  done
done
