#!/usr/bin/env bash
# The long tests. FROND_TORTURE=1 makes the ordinary ones run their large sizes; the ignored ones run
# too. A tool that is missing is an error, not a test that was skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/install.sh build
export FROND_TORTURE=1
cargo test --release --workspace --locked -- --include-ignored
