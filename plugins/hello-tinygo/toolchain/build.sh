#!/usr/bin/env bash
# Builds TinyGo 0.41.1 into target/, where the plug-ins' build.sh look for it. Needs Go and, as Debian 12
# calls them: llvm-19-dev libclang-19-dev clang-19 lld-19 libclang-rt-19-dev-wasm32 wasi-libc binaryen.
set -euo pipefail
cd "$(dirname "$0")"
go build -tags llvm19 -o target/tinygo github.com/tinygo-org/tinygo
source=$(go list -m -f '{{.Dir}}' github.com/tinygo-org/tinygo)
rm -rf target/root
mkdir -p target/root/lib
cp -r "$source/src" "$source/targets" target/root/
chmod -R u+w target/root
# A submodule of TinyGo's that its Go module lacks. wasip1.json names Debian's libc in place of another.
mkdir -p target/root/src/net/http
TINYGOROOT=$PWD/target/root target/tinygo version
