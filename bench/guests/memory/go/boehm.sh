#!/usr/bin/env bash
# Gives the TinyGo of plugins/hello-tinygo/toolchain the sources of Boehm's collector: they are a submodule, which TinyGo's
# Go module lacks. The crate bdwgc-alloc-sys has them; nothing else of it is used, and nothing of it is built. Needs cargo.
set -euo pipefail
cd "$(dirname "$0")"
"$TINYGO" version > /dev/null # builds it, if need be
root=$("$TINYGO" env TINYGOROOT)
[ ! -d "$root/lib/bdwgc" ] || exit 0
crate=$PWD/target/boehm
mkdir -p "$crate"
cat > "$crate/Cargo.toml" <<'TOML'
[package]
name = "boehm"
version = "0.0.0"
edition = "2021"
[lib]
path = "lib.rs"
[dependencies]
bdwgc-alloc-sys = "=0.6.16"
TOML
touch "$crate/lib.rs"
cargo vendor --quiet --manifest-path "$crate/Cargo.toml" "$crate/vendor" > /dev/null
cp -r "$crate/vendor/bdwgc-alloc-sys/vendor/bdwgc" "$root/lib/bdwgc.new"
# Its release for WASI asks for the size of a page in a way that TinyGo's build of it does not have.
sed -i 's|^#    define OS_TYPE "WASI"|&\n#    define GETPAGESIZE() 65536|' "$root/lib/bdwgc.new/include/private/gcconfig.h"
mv "$root/lib/bdwgc.new" "$root/lib/bdwgc"
