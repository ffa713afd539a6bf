#!/usr/bin/env bash
# Runs programs that try to break the built library from outside, through its public API
# (crates/frond-break), one after another.
#
#   scripts/break.sh [PROGRAM]…     default: all
#
# MINUTES (10) is about how long all of them take; FROND_SEED (0) chooses what they do; PROFILE
# (release) is the build profile. A program that hangs fails with the stacks of its threads.
set -euo pipefail
cd "$(dirname "$0")/.."
PROFILE=${PROFILE:-release}
programs=("$@")
if ((${#programs[@]} == 0)); then
    for source in crates/frond-break/src/bin/*.rs; do programs+=("$(basename "$source" .rs)"); done
fi

cargo build --profile "$PROFILE" --locked -p frond-break
export FROND_SEED=${FROND_SEED:-0}
export FROND_BREAK_SECONDS=$((${MINUTES:-10} * 60 / ${#programs[@]}))
# The last line of a program comes at the end, after a check or a reopening that may take as long
# again.
export FROND_TEST_LIMIT=$((FROND_BREAK_SECONDS * 2 + 300))

failed=()
for program in "${programs[@]}"; do
    scripts/watch-test.sh "${CARGO_TARGET_DIR:-target}/$PROFILE/$program" && continue
    status=$?
    # 77: the machine does not permit it, as the program has reported.
    if ((status != 77)); then failed+=("$program ($status)"); fi
done
if ((${#failed[@]} > 0)); then
    echo "break: failed: ${failed[*]}" >&2
    exit 1
fi
