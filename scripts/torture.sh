#!/usr/bin/env bash
# The long tests. FROND_EFFORT multiplies what the ordinary campaigns try; the ignored tests run
# too. A tool that is missing is an error, not a test that was skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/install.sh build
export FROND_EFFORT="${FROND_EFFORT:-20}"
cargo test --release --workspace --locked -- --include-ignored
