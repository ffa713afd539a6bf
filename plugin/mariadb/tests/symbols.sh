#!/usr/bin/env bash
# Checks that the server or its libraries define every symbol that the plugin leaves undefined.
# Otherwise the server would notice only when it loads the plugin.
set -euo pipefail
plugin=$1
server=$(command -v mariadbd)
defined() {
    nm -D --defined-only "$1" | awk '{ sub(/@.*/, "", $3); print $3 }'
}
{
    defined "$server"
    ldd "$plugin" "$server" | sed 's/:$//' | awk '$3 ~ /^\// { print $3 } $1 ~ /^\/.*so/ { print $1 }' | sort -u | while read -r library; do defined "$library"; done
} | sort -u >"${TMPDIR:-/tmp}/symbols.$$"
trap 'rm -f "${TMPDIR:-/tmp}/symbols.$$"' EXIT
missing=$(nm -D --undefined-only "$plugin" | awk '$1 == "U" { sub(/@.*/, "", $2); print $2 }' | sort -u |
    comm -23 - "${TMPDIR:-/tmp}/symbols.$$")
if [ -n "$missing" ]; then
    echo "Symbols of the plugin that the server does not have:" >&2
    echo "$missing" >&2
    exit 1
fi
exported=$(nm -D --defined-only "$plugin" | awk '{ print $3 }' | grep -vE '^(_maria_plugin_|_mysql_plugin_).*|_service$' || true)
if [ -n "$exported" ]; then
    echo "The plugin exports more than its declaration: $exported" >&2
    exit 1
fi
echo "symbols: $(nm -D --undefined-only "$plugin" | wc -l) needed, all there; none exported but the declaration"
