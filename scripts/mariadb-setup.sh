#!/usr/bin/env bash
# Installs the MariaDB server that the plugin is built for, and unpacks its source into target/mariadb/.
#
# The plugin needs the server's internal headers, which no package installs. They come from the source package of exactly
# the same version: a storage engine loads only into the version that it was compiled for.
set -euo pipefail
cd "$(dirname "$0")/.."

version=1:10.11.18-0+deb12u1
work=$PWD/target/mariadb
source=$work/source

sudo=
[ "$(id -u)" = 0 ] || sudo=sudo
mkdir -p "$work"

installed=$(dpkg-query -W -f '${Version}' mariadb-server-core 2>/dev/null || true)
if [ "$installed" != "$version" ] || ! dpkg-query -W libmariadb-dev >/dev/null 2>&1; then
    # Newer binaries may be in the archive without a source package, so the version is pinned.
    $sudo tee /etc/apt/preferences.d/frond-mariadb >/dev/null <<END
Package: mariadb-* libmariadb* libmariadbd*
Pin: version $version
Pin-Priority: 1001
END
    $sudo apt-get update -q
    # The package starts a server when it is installed; a private one is all that is needed.
    policy=/usr/sbin/policy-rc.d
    if [ ! -e $policy ]; then
        printf '#!/bin/sh\nexit 101\n' | $sudo tee $policy >/dev/null
        $sudo chmod +x $policy
        # shellcheck disable=SC2064
        trap "$sudo rm -f $policy" EXIT
    fi
    DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -q --no-install-recommends --allow-downgrades \
        mariadb-server mariadb-server-core mariadb-client libmariadb-dev libmariadbd-dev libssl-dev \
        dpkg-dev cmake ninja-build g++ binutils perl
fi

if [ ! -e "$source/sql/handler.h" ]; then
    # A source list of its own, used for this one fetch alone.
    lists=$work/apt
    mkdir -p "$lists/lists/partial"
    sed 's/^Types: deb$/Types: deb-src/' /etc/apt/sources.list.d/debian.sources >"$lists/source.sources"
    apt=(-o "Dir::Etc::sourcelist=/dev/null" -o "Dir::Etc::sourceparts=$lists" -o "Dir::State::lists=$lists/lists")
    apt-get -q "${apt[@]}" update
    (cd "$work" && apt-get -q "${apt[@]}" --download-only source "mariadb=$version")
    rm -rf "$source.new"
    dpkg-source --no-check -x "$work"/mariadb_*.dsc "$source.new" >/dev/null
    rm -rf "$source"
    mv "$source.new" "$source"
fi

mkdir -p "$work/generated"
# Static probes are compiled out; the header that defines them as nothing is generated in the server's build.
cp "$source/include/probes_mysql.d.base" "$work/generated/probes_mysql.d"
perl "$source/scripts/dheadgen.pl" -f "$work/generated/probes_mysql.d" >"$work/generated/probes_mysql_nodtrace.h"
echo "MariaDB $version is installed; its source is in target/mariadb/source."
