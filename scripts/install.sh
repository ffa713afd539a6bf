#!/usr/bin/env bash
# Installs what a target of the Makefile needs and this machine does not have.
#
#   scripts/install.sh build        C and C++ compilers (for zstd and the C API), pkg-config (for its test) and Rust
#   scripts/install.sh rivals       the libraries of the stores that benches compare with
#   scripts/install.sh fio          fio, which measures the disk, and strace, which counts syncs
#   scripts/install.sh lab          sysbench, fio and strace, to check the lab against, and a browser for the test of its pages
#   scripts/install.sh checks       shellcheck, valgrind (for the C API's tests), gdb (for the stacks of tests that hang)
#
# Installs with apt-get, as root or through sudo. If neither is possible, it prints what is missing.
set -euo pipefail

RUST_NEEDED=1.90

packages=()

need() { # need PACKAGE COMMAND-OR-FILE
    if [[ $2 == /* ]]; then
        compgen -G "$2" >/dev/null || packages+=("$1")
    else
        command -v "$2" >/dev/null || packages+=("$1")
    fi
}

rust() {
    if [[ -f ${CARGO_HOME:-$HOME/.cargo}/env ]]; then
        # shellcheck disable=SC1091
        . "${CARGO_HOME:-$HOME/.cargo}/env"
    fi
    local found=0
    command -v cargo >/dev/null && found=$(rustc --version | cut -d' ' -f2)
    if [[ $(printf '%s\n' "$RUST_NEEDED" "$found" | sort -V | head -n1) != "$RUST_NEEDED" ]]; then
        echo "Rust $RUST_NEEDED or newer is needed (found: ${found/#0/none})." >&2
        echo "Install it with: curl --proto '=https' -sSf https://sh.rustup.rs | sh" >&2
        exit 2
    fi
}

want_rust=
for what in "$@"; do
    case $what in
    build)
        need build-essential cc
        need g++ c++
        need pkg-config pkg-config
        want_rust=1
        ;;
    rivals)
        need librocksdb-dev '/usr/lib/*/librocksdb.so'
        need libsqlite3-dev '/usr/lib/*/libsqlite3.so'
        need liblmdb-dev '/usr/lib/*/liblmdb.so'
        # TidesDB is built from the source that its crate has.
        need cmake cmake
        need liblz4-dev '/usr/lib/*/liblz4.so'
        need libzstd-dev '/usr/lib/*/libzstd.so'
        ;;
    fio)
        need fio fio
        need strace strace
        ;;
    lab)
        need fio fio
        need strace strace
        need sysbench sysbench
        need chromium chromium
        need nodejs node
        need npm npm
        ;;
    checks)
        need shellcheck shellcheck
        need valgrind valgrind
        need gdb gdb
        ;;
    *)
        echo "install.sh: unknown word \"$what\"" >&2
        exit 2
        ;;
    esac
done

if ((${#packages[@]} > 0)); then
    as_root=()
    if ((EUID != 0)); then
        if ! command -v sudo >/dev/null; then
            echo "Please install: ${packages[*]}" >&2
            exit 2
        fi
        as_root=(sudo)
    fi
    echo "Installing ${packages[*]}"
    if ! "${as_root[@]}" apt-get install -y -q "${packages[@]}" >/dev/null 2>&1; then
        # On a new machine the package lists may be empty or old.
        "${as_root[@]}" apt-get update -q >/dev/null
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
            apt-get install -y -q "${packages[@]}" >/dev/null
    fi
fi
if [[ -n $want_rust ]]; then rust; fi
