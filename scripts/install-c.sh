#!/usr/bin/env bash
# Installs the C API under PREFIX (default /usr/local): header, shared and static library without
# debug information, pkg-config file.
#
#   scripts/install-c.sh [PREFIX]
#
# DESTDIR, if set, is prepended to PREFIX where files are put, but not inside them. FROND_BUILT, if
# set, is a directory with the libraries to install, instead of building them: root installs what a
# user has built, and tests install their own.
set -euo pipefail
cd "$(dirname "$0")/.."
prefix=${1:-/usr/local}
root=${DESTDIR:-}$prefix
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n1)
built=${FROND_BUILT:-}

if [[ -z $built ]]; then
    cargo build --release --locked -p frond-c
    built=${CARGO_TARGET_DIR:-target}/release
fi
install -d "$root/include" "$root/lib/pkgconfig"
install -m 644 crates/frond-c/include/frond.h "$root/include/frond.h"
install -m 755 "$built/libfrond_c.so" "$root/lib/libfrond.so.0"
ln -sf libfrond.so.0 "$root/lib/libfrond.so"
install -m 644 "$built/libfrond_c.a" "$root/lib/libfrond.a"
strip --strip-unneeded "$root/lib/libfrond.so.0"
# Rust's own objects carry bitcode, which only rustc reads: three quarters of what would be left.
strip --strip-debug -R .llvmbc -R .llvmcmd "$root/lib/libfrond.a"
sed -e "s|@PREFIX@|$prefix|" -e "s|@VERSION@|$version|" crates/frond-c/frond.pc.in \
    >"$root/lib/pkgconfig/frond.pc"
echo "installed Frond $version for C under $root"
