#!/usr/bin/env bash
# Checks that the published packages compile with the oldest Rust that Cargo.toml promises
# (rust-version), which is newer than Debian's and older than what developers use.
#
# Needs rustup, which downloads that toolchain. Without it nothing is checked, which is said.
set -euo pipefail
cd "$(dirname "$0")/.."

oldest=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
# Not an error: other machines check it.
unchecked() {
    echo "$1: whether Rust $oldest compiles the packages is not checked"
    exit 0
}

# A toolchain and a build.
needed_mb=1500
free_mb=$(df --output=avail -BM . | tail -n 1 | tr -dc 0-9)
((free_mb >= needed_mb)) || unchecked "$free_mb MB are free, $needed_mb are needed"
command -v rustup >/dev/null || unchecked "rustup is not installed"
rustup run "$oldest" cargo --version 2>/dev/null ||
    rustup toolchain install "$oldest" --profile minimal --no-self-update ||
    unchecked "rustup cannot install Rust $oldest"
# Deleted at the end: another compiler's build is of no use to any other target.
dir=target/msrv
trap 'rm -rf "$dir"' EXIT
CARGO_TARGET_DIR=$dir rustup run "$oldest" cargo check --locked -p frond-db -p frond-c -p frond-cli
