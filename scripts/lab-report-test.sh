#!/bin/bash
# Writes the pages of a made-up results database and opens them in Chromium, without a network: no
# sideways scrolling at 390 px, no errors, all charts drawn, no serious finding of axe-core,
# readable without scripts. Keeps screenshots to look at, of the README's chart, too.
#
#   scripts/lab-report-test.sh [FOLDER]     folder of pages and screenshots; default target/lab-report-test
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(realpath -m "${1:-target/lab-report-test}")

missing() { echo "lab-report-test: $1" >&2; exit 1; }
command -v node >/dev/null || missing "node is missing: apt-get install nodejs"
command -v npm >/dev/null || missing "npm is missing: apt-get install npm"
command -v chromium >/dev/null || missing "chromium is missing: apt-get install chromium"

modules=$(mktemp -d)
trap 'rm -rf "$modules"' EXIT
echo '{"private": true}' >"$modules/package.json"
PUPPETEER_SKIP_DOWNLOAD=1 npm install --prefix "$modules" --no-audit --no-fund --silent --fetch-retries=1 \
    puppeteer-core@24.9.0 axe-core@4.14.1 ||
    missing "npm could not install puppeteer-core 24.9.0 and axe-core 4.14.1: is the registry reachable?"

rm -rf "$out/pages" "$out/shots"
# Builds what `make test-lab` builds, so that nothing is built again.
FROND_REPORT_PAGES="$out/pages" cargo test --locked --workspace \
    --features frond-db/planted-bugs,frond-lab/lab,frond-lab/tidesdb --lib -- --exact lab::report::tests::pages_of_the_sample_are_written_for_the_browser
[ -s "$out/pages/index.html" ] || missing "the test wrote no pages"
node crates/frond-lab/tests/report/look.mjs "$out/pages" "$modules" "$out/shots"
