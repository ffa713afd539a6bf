#!/usr/bin/env bash
# The demo: loads real data, kills the loader with SIGKILL, proves that nothing acknowledged is
# lost, and races other stores.
#
#   scripts/demo.sh [full|tiny]     tiny is for CI: seconds instead of minutes, no race
#
# FROND names a built program `frond` to use for a tiny demo; otherwise one is built.
#
# 1. Loads the output of `apt-cache dumpavail`, with secondary indexes, repeated under new keys
#    until that takes some seconds. The loader writes a line to a ledger after each commit has
#    returned.
# 2. Kills the loader with SIGKILL between 10 % and 90 % of its batches.
# 3. Opens the store again, and looks up every row that the ledger says was acknowledged, in the
#    tree and in every index. A batch that was in progress must be there completely or not at all.
# 4. Runs iiBench and the web log on Frond, RocksDB, SQLite and LMDB, with at least 4 times more
#    data than memory, 40 seconds each.
set -euo pipefail
cd "$(dirname "$0")/.."

SIZE=${1:-full}
DATA=demo-data
STORE=$DATA/packages
LEDGER=$DATA/ledger
BATCH=500
SECONDS_WANTED=8  # a shorter load would end before it can be killed
SECONDS_EACH=40   # for each store and workload

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
fail() {
    echo "demo: $*" >&2
    exit 1
}

case $SIZE in
full) crates=(-p frond-cli -p frond-lab --features frond-lab/lab) PROFILE=release ;;
tiny) crates=(-p frond-cli) BATCH=50 PROFILE=${PROFILE:-quick} ;;
*) fail "the size is full or tiny" ;;
esac

say "Building"
if [[ $SIZE == full ]]; then scripts/install.sh build rivals; else scripts/install.sh build; fi
if [[ -f ${CARGO_HOME:-$HOME/.cargo}/env ]]; then
    # shellcheck disable=SC1091
    . "${CARGO_HOME:-$HOME/.cargo}/env"
fi
if [[ $SIZE == full || -z ${FROND:-} ]]; then
    cargo build --profile "$PROFILE" --locked "${crates[@]}"
    FROND=${CARGO_TARGET_DIR:-target}/$PROFILE/frond
fi

rm -rf "$DATA"
mkdir -p "$DATA"

# --- 1. real data ---------------------------------------------------------------------------------

packages=$DATA/packages.control
apt-cache dumpavail >"$packages" 2>/dev/null || true
if [[ ! -s $packages ]] && ((EUID == 0)); then
    apt-get update -q >/dev/null && apt-cache dumpavail >"$packages"
fi
[[ -s $packages ]] || fail "apt-cache dumpavail prints nothing; run apt-get update first"
if [[ $SIZE == tiny ]]; then
    # Keep whole paragraphs only.
    awk -v RS= -v ORS='\n\n' 'NR <= 5000' "$packages" >"$packages.part"
    mv "$packages.part" "$packages"
fi
rows_once=$(grep -c '^Package:' "$packages")

# Prints the paragraphs COPIES times, each time under other names.
records() {
    local copy
    cat "$packages"
    for ((copy = 2; copy <= COPIES; copy++)); do
        echo
        sed "s/^Package: .*/&~$copy/" "$packages"
    done
}

load=(load "$STORE" pkgs - --format control --key "Package,Version,Architecture"
    --index Section --index Maintainer --batch "$BATCH")

say "Loading $rows_once packages that Debian describes, with two secondary indexes"
COPIES=1
start=$(date +%s%N)
"$FROND" "${load[@]}" < <(records)
millis=$((($(date +%s%N) - start) / 1000000 + 1))
"$FROND" scan "$STORE" pkgs.by_Section --prefix shells --limit 5
rm -rf "$STORE"
COPIES=$(((SECONDS_WANTED * 1000 + millis - 1) / millis))
((COPIES <= 40)) || COPIES=40
[[ $SIZE == full ]] || COPIES=2
rows=$((rows_once * COPIES))

# --- 2. SIGKILL -----------------------------------------------------------------------------------

batches=$(((rows + BATCH - 1) / BATCH))
percent=$((10 + RANDOM % 71))
say "Loading them $COPIES times under new keys ($rows rows, $batches batches), and killing the loader"
killed=
for attempt in 1 2 3; do
    rm -rf "$STORE" "$LEDGER"
    : >"$LEDGER"
    after=$((batches * percent / 100 + 1))
    "$FROND" "${load[@]}" --ack "$LEDGER" < <(records) >"$DATA/loader.log" 2>&1 &
    loader=$!
    while (($(wc -l <"$LEDGER") < after)) && kill -0 "$loader" 2>/dev/null; do
        sleep 0.005
    done
    if kill -KILL "$loader" 2>/dev/null; then killed=1; fi
    wait "$loader" 2>/dev/null || true
    acknowledged=$(wc -l <"$LEDGER")
    if [[ -n $killed ]] && ((acknowledged * 10 >= batches && acknowledged * 10 <= batches * 9)); then
        break
    fi
    killed=
    percent=$((10 + RANDOM % 30))
    echo "It was too quick for attempt $attempt: $(cat "$DATA/loader.log")"
done
[[ -n $killed ]] || fail "the loader could not be killed between 10 % and 90 % of its batches"
echo "SIGKILL after $acknowledged of $batches batches were acknowledged; the last line of the ledger:"
tail -n 1 "$LEDGER"

# --- 3. everything acknowledged is there ----------------------------------------------------------

say "Opening the store again and looking up every acknowledged row, in the tree and in both indexes"
"$FROND" "${load[@]}" --verify "$LEDGER" < <(records)
"$FROND" check "$STORE"

if [[ $SIZE == tiny ]]; then
    exit
fi

# --- 4. the race ----------------------------------------------------------------------------------

rm -rf "$STORE" # its space is needed
for workload in iibench weblog; do
    case $workload in
    iibench) title="iiBench: inserts into three random secondary indexes" rows=5000000 ;;
    weblog) title="The web log" rows=5000000 ;;
    esac
    say "$title, $rows rows in 70 MB of memory, $SECONDS_EACH s for each store"
    "$FROND" bench "$workload" --rows "$rows" --memory 70MB --targets frond,rocksdb,sqlite,lmdb \
        --dir "$DATA/bench" --no-rest --time-limit "$SECONDS_EACH" --html "$DATA/$workload" \
        --chart "$DATA/$workload.svg"
done
say "Charts: $PWD/$DATA/iibench/index.html and $PWD/$DATA/weblog/index.html"
