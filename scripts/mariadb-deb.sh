#!/usr/bin/env bash
# Builds the Debian package mariadb-plugin-frond: ha_frond.so for exactly the server that it was
# built for, and a configuration snippet that loads it.
#
#   scripts/mariadb-deb.sh          builds target/mariadb/deb/mariadb-plugin-frond_VERSION_ARCH.deb
#   scripts/mariadb-deb.sh test     unpacks it into a folder, and tries it with a private server that reads its snippet
#
# The plugin must have been built: make deb does that. Needs dpkg-dev and python3, which
# scripts/mariadb-setup.sh installs.
set -euo pipefail
cd "$(dirname "$0")/.."

NAME=mariadb-plugin-frond
OUT=$PWD/target/mariadb/deb
PLUGIN=$PWD/target/mariadb/build/ha_frond.so
SOURCES=plugin/mariadb/debian

fail() {
    echo "mariadb-deb: $*" >&2
    exit 1
}

# The server packages have the version that mariadb-setup.sh installs.
server_version=$(sed -n 's/^version=//p' scripts/mariadb-setup.sh)
frond_version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
arch=$(dpkg --print-architecture)
# No epoch is needed: no older package has this name.
version=$frond_version+${server_version#*:}
package=$OUT/${NAME}_${version}_$arch.deb

build() {
    [[ -e $PLUGIN ]] || fail "there is no $PLUGIN: make mariadb-plugin"
    [[ -n $frond_version && -n $server_version ]] || fail "no version in Cargo.toml or scripts/mariadb-setup.sh"
    local root=$OUT/root docs=$OUT/root/usr/share/doc/$NAME
    rm -rf "$OUT"
    mkdir -p "$root/DEBIAN" "$docs/libraries"
    install -D -m 644 "$PLUGIN" "$root/usr/lib/mysql/plugin/ha_frond.so"
    strip --strip-unneeded "$root/usr/lib/mysql/plugin/ha_frond.so"
    # This is not a conffile: one that stayed after the package was removed would keep the server
    # from starting.
    install -D -m 644 "$SOURCES/frond.cnf" "$root/etc/mysql/mariadb.conf.d/frond.cnf"
    {
        cat "$SOURCES/copyright"
        sed 's/^$/./; s/^/ /' LICENSE-MIT
    } >"$docs/copyright"
    cp docs/mariadb.md "$docs/README.md"
    libraries "$docs/libraries"
    install -m 755 "$SOURCES/prerm" "$root/DEBIAN/prerm"

    # Finds the versions of the C and C++ libraries with which the plugin was linked; the tool for
    # that reads a debian/control.
    mkdir -p "$OUT/shlibs/debian"
    printf 'Source: %s\n\nPackage: %s\nArchitecture: any\n' "$NAME" "$NAME" >"$OUT/shlibs/debian/control"
    local libraries
    # Symbols that the server itself defines are in no library; tests/symbols.sh has checked them.
    libraries=$(cd "$OUT/shlibs" && dpkg-shlibdeps -O --ignore-missing-info "$root/usr/lib/mysql/plugin/ha_frond.so" 2>"$OUT/shlibs/log" |
        sed -n 's/^shlibs:Depends=//p')
    [[ -n $libraries ]] || fail "dpkg-shlibdeps found no libraries: $(cat "$OUT/shlibs/log")"
    cat >"$root/DEBIAN/control" <<END
Package: $NAME
Version: $version
Architecture: $arch
Section: database
Priority: optional
Maintainer: The Frond authors <frond@localhost>
Installed-Size: $(du -sk --exclude=DEBIAN "$root" | cut -f1)
Depends: mariadb-server (= $server_version), $libraries
Description: Frond storage engine for MariaDB
 A transactional storage engine for data sets larger than memory and heavy writes:
 a compressed fractal tree. Loads into version ${server_version#*:} of the server and no other.
END
    (cd "$root" && find usr etc -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
    dpkg-deb --root-owner-group --build "$root" "$package" >/dev/null
    rm -rf "$root" "$OUT/shlibs"
    echo "$package"
    echo "Look into it: dpkg-deb --info FILE, dpkg-deb --contents FILE. Install it: apt-get install FILE"
}

# Prints names, licences and licence files of the libraries that are linked into the plugin.
libraries() { # libraries DIR
    cargo metadata --format-version 1 --locked --filter-platform "$(rustc -vV | sed -n 's/^host: //p')" >"$OUT/metadata.json"
    python3 - "$OUT/metadata.json" "$1" <<'END'
import json, pathlib, shutil, sys

metadata = json.load(open(sys.argv[1]))
out = pathlib.Path(sys.argv[2])
packages = {package["id"]: package for package in metadata["packages"]}
nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
root = next(package["id"] for package in metadata["packages"] if package["name"] == "frond-c")
linked, waiting = set(), [root]
while waiting:
    for dependency in nodes[waiting.pop()]["deps"]:
        is_linked = any(kind["kind"] is None for kind in dependency["dep_kinds"])
        if is_linked and dependency["pkg"] not in linked:
            linked.add(dependency["pkg"])
            waiting.append(dependency["pkg"])
lines = []
for package in sorted((packages[id] for id in linked), key=lambda package: package["name"]):
    if package["source"] is None:
        continue
    home = pathlib.Path(package["manifest_path"]).parent
    texts = [path for path in home.rglob("*") if path.is_file() and path.suffix not in (".rs", ".c", ".h")
             and path.name.upper().startswith(("LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE"))]
    lines.append(f'{package["name"]} {package["version"]}: {package["license"]}')
    for path in texts:
        name = "-".join((package["name"],) + path.relative_to(home).parts)
        shutil.copyfile(path, out / name)
(out / "LIST").write_text("\n".join(lines) + "\n")
END
    rm "$OUT/metadata.json"
    [[ -s $1/LIST ]] || fail "no library is linked into the plugin, says cargo"
}

try() {
    [[ -e $package ]] || fail "there is no $package: make deb"
    local root=$OUT/unpacked
    # These are not local, because the trap runs after the function.
    home='' pid=''
    home=$(mktemp -d)
    trap 'kill "${pid:-}" 2>/dev/null || true; rm -rf "$home"' EXIT
    rm -rf "$root"
    dpkg-deb -x "$package" "$root"
    [[ $(dpkg-deb --field "$package" Depends) == *"mariadb-server (= $server_version)"* ]] || fail "it depends on another server"
    local file
    for file in usr/lib/mysql/plugin/ha_frond.so etc/mysql/mariadb.conf.d/frond.cnf usr/share/doc/$NAME/copyright \
        usr/share/doc/$NAME/libraries/LIST; do
        [[ -s $root/$file ]] || fail "it has no $file"
    done
    plugin/mariadb/tests/symbols.sh "$root/usr/lib/mysql/plugin/ha_frond.so"
    local user=() options
    [[ $(id -u) != 0 ]] || user=(--user=root)
    mkdir "$home/tmp"
    mariadb-install-db --no-defaults --datadir="$home/data" --tmpdir="$home/tmp" --auth-root-authentication-method=normal \
        --skip-test-db "${user[@]}" >"$home/log" 2>&1 || fail "no data directory: $(tail -n 5 "$home/log")"
    options=(--defaults-file="$root/etc/mysql/mariadb.conf.d/frond.cnf" --plugin-dir="$root/usr/lib/mysql/plugin"
        --datadir="$home/data" --tmpdir="$home/tmp" --socket="$home/s" --pid-file="$home/pid" --skip-networking "${user[@]}")

    # As installed: the snippet loads the engine.
    mariadbd "${options[@]}" >>"$home/log" 2>&1 &
    pid=$!
    for _ in $(seq 300); do
        mariadb-admin --no-defaults --socket="$home/s" -u root ping >/dev/null 2>&1 && break
        kill -0 "$pid" 2>/dev/null || fail "the server does not start with the package: $(tail -n 20 "$home/log")"
        sleep 0.1
    done
    local found
    found=$(mariadb --no-defaults --socket="$home/s" -u root -N -e "CREATE DATABASE d; CREATE TABLE d.t (a INT PRIMARY KEY) ENGINE=FROND;
        INSERT INTO d.t VALUES (1), (2); SELECT COUNT(*), (SELECT LOAD_OPTION FROM information_schema.PLUGINS WHERE PLUGIN_NAME = 'FROND') FROM d.t")
    [[ $found == $'2\tFORCE_PLUS_PERMANENT' ]] || fail "the engine is not loaded as it should be: $found"
    kill "$pid"
    wait "$pid" || true

    # Without the plugin the server must refuse to start, with a message: tables would be missing.
    rm "$root/usr/lib/mysql/plugin/ha_frond.so"
    if timeout 60 mariadbd "${options[@]}" >"$home/refused" 2>&1; then
        fail "the server starts without the engine"
    fi
    grep -q "ERROR.*frond" "$home/refused" || fail "the server does not say why it does not start: $(tail -n 20 "$home/refused")"
    echo "package: unpacked, loaded by its snippet, and missed by name when it is not there"
}

case ${1:-build} in
build) build ;;
test) try ;;
*) fail "the word is test, or none" ;;
esac
