#!/usr/bin/env bash
# Installs the MariaDB server that the plugin is built for, and unpacks its source into
# target/mariadb/.
#
#   mariadb-setup.sh            the server, and what building and testing the plugin needs
#   mariadb-setup.sh rivals     also MyRocks (with jemalloc) and LZ4 for that server: for benches
#   mariadb-setup.sh tests      also the server's own tests: for make conformance
#   mariadb-setup.sh clients    also third-party clients: for make test-mariadb-clients
#
# The plugin needs the server's internal headers, which no package installs. They come from the
# source package of exactly the same version, since a storage engine loads only into the version for
# which it was compiled. Debian 12, as root or through sudo.
set -euo pipefail
cd "$(dirname "$0")/.."

version=1:10.11.18-0+deb12u1
work=$PWD/target/mariadb
source=$work/source

wanted_server=(mariadb-server mariadb-server-core mariadb-client)
wanted_tools=(libmariadb-dev libmariadbd-dev libssl-dev dpkg-dev cmake ninja-build g++ binutils perl python3)
for what in "$@"; do
    case $what in
    rivals)
        wanted_server+=(mariadb-plugin-rocksdb mariadb-plugin-provider-lz4)
        wanted_tools+=(libjemalloc2)
        ;;
    tests) wanted_server+=(mariadb-test mariadb-test-data) ;;
    clients) wanted_tools+=(mydumper sysbench python3-pymysql libmariadb-java openjdk-17-jdk-headless) ;;
    *)
        echo "mariadb-setup.sh: unknown word \"$what\"" >&2
        exit 2
        ;;
    esac
done

sudo=()
[ "$(id -u)" = 0 ] || sudo=(sudo)
mkdir -p "$work"

installed() { # installed PACKAGE [VERSION]
    local found
    found=$(dpkg-query -W -f '${db:Status-Status} ${Version}' "$1" 2>/dev/null) || return 1
    [[ $found == installed* ]] && [[ -z ${2:-} || $found == "installed $2" ]]
}

missing=()
for package in "${wanted_server[@]}"; do
    installed "$package" "$version" || missing+=("$package=$version")
done
for package in "${wanted_tools[@]}"; do
    installed "$package" || missing+=("$package")
done

if ((${#missing[@]} > 0)); then
    if ! command -v apt-get >/dev/null; then
        echo "There is no apt-get here: the plugin is built on Debian 12, with ${missing[*]}" >&2
        exit 2
    fi
    # The archive may have a newer version without its source, and all packages of the server must
    # have the same version.
    "${sudo[@]}" tee /etc/apt/preferences.d/frond-mariadb >/dev/null <<END
Package: mariadb-* libmariadb* libmariadbd*
Pin: version $version
Pin-Priority: 1001
END
    "${sudo[@]}" apt-get update -q
    # The package starts a server when it is installed; only private ones are needed.
    policy=/usr/sbin/policy-rc.d
    if [ ! -e $policy ]; then
        printf '#!/bin/sh\nexit 101\n' | "${sudo[@]}" tee $policy >/dev/null
        "${sudo[@]}" chmod +x $policy
        # shellcheck disable=SC2064
        trap "${sudo[*]} rm -f $policy" EXIT
    fi
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -q --no-install-recommends --allow-downgrades "${missing[@]}"
fi

if [ ! -e "$source/sql/handler.h" ]; then
    # Uses Debian's own archives as sources of source packages, in separate lists for this one
    # download.
    lists=$work/apt
    rm -rf "$lists"
    mkdir -p "$lists/parts" "$lists/lists/partial"
    for list in /etc/apt/sources.list /etc/apt/sources.list.d/debian.list; do
        [ ! -e "$list" ] || sed -n 's/^deb[[:space:]]/deb-src /p' "$list" >>"$lists/parts/debian.list"
    done
    list=/etc/apt/sources.list.d/debian.sources
    [ ! -e $list ] || sed 's/^Types:.*/Types: deb-src/' $list >"$lists/parts/debian.sources"
    apt=(-o "Dir::Etc::sourcelist=/dev/null" -o "Dir::Etc::sourceparts=$lists/parts" -o "Dir::State::lists=$lists/lists")
    apt-get -q "${apt[@]}" update
    (cd "$work" && apt-get -q "${apt[@]}" --download-only source "mariadb=$version")
    rm -rf "$source.new"
    dpkg-source --no-check -x "$work"/mariadb_*.dsc "$source.new" >/dev/null
    rm -rf "$source"
    mv "$source.new" "$source"
fi

mkdir -p "$work/generated"
# Static probes are compiled out. The header that defines them as nothing is generated when the
# server is built.
cp "$source/include/probes_mysql.d.base" "$work/generated/probes_mysql.d"
perl "$source/scripts/dheadgen.pl" -f "$work/generated/probes_mysql.d" >"$work/generated/probes_mysql_nodtrace.h"
echo "MariaDB $version is installed; its source is in target/mariadb/source."
