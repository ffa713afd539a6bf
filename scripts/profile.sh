#!/usr/bin/env bash
# Measures which share of their time transactions spend in locks: `frond bench txn` under perf, with
# its samples counted.
#
#   scripts/profile.sh [ARGS]     ARGS: for `frond bench txn`, instead of put, get, rmw and mix of 16 clients
#
# A sample counts if its function belongs to a lock, or if it was taken inside a futex call, at any
# depth. Samples are those of the process that has the store, including the clients' own work;
# first, the same bench runs without a store, in a process without the store's threads. Exits with 1
# if the share is 5 % or more.
set -euo pipefail
cd "$(dirname "$0")/.."

LIMIT=5
if ! command -v perf >/dev/null; then
    echo "profile: perf is not installed (on Debian: linux-perf)" >&2
    exit 2
fi
cargo build --release --locked -p frond-lab --features lab --bin frond-bench
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
args=("$@")
if ((${#args[@]} == 0)); then
    args=(--rows 1000000 --seconds 3 --clients 16 --phases "put,get,rmw,mix")
fi
perf record -q -F 997 -g -o "$work/samples" -- \
    target/release/frond-bench txn "${args[@]}" --targets frond --dir "$work/stores" >"$work/table" 2>"$work/log" ||
    { cat "$work/log" >&2; exit 2; }
grep -E '^(\*\*txn|\| (target|frond) )' "$work/table" || true
perf script -i "$work/samples" -F comm,pid,ip,sym 2>/dev/null | awk -v limit="$LIMIT" '
    # A sample is a header line, then its frames, innermost first, then an empty line.
    function end_sample() {
        if (pid == "") return
        samples[pid]++
        if (in_lock) locks[pid]++
        pid = ""
    }
    /^$/ { end_sample(); next }
    /^[^ \t]/ {
        end_sample()
        pid = $2
        if ($1 ~ /^frond-(apply|job|log)/) has_store[pid] = 1
        in_lock = 0
        frame = 0
        next
    }
    {
        frame++
        if ($0 ~ /futex/) in_lock = 1
        if (frame == 1 && $0 ~ /[Mm]utex|[Rr]w_?[Ll]ock|Condvar|parking_lot|sched_yield|osq_lock|spin_lock|lock_contended/)
            in_lock = 1
    }
    END {
        end_sample()
        for (pid in has_store) { all += samples[pid]; in_locks += locks[pid] }
        if (!all) { print "profile: no samples of a process with a store" > "/dev/stderr"; exit 2 }
        share = 100 * in_locks / all
        printf "locks and futexes: %d of %d samples, %.1f %% (limit %d %%): %s\n", in_locks, all, share, limit,
            share < limit ? "met" : "not met"
        exit share >= limit
    }'
