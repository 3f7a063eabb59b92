#!/usr/bin/env bash
# Builds TinyGo 0.41.1 into target/, for the script tinygo. Needs Go and, as Debian 12
# calls them: llvm-19-dev libclang-19-dev clang-19 lld-19 libclang-rt-19-dev-wasm32 wasi-libc binaryen.
set -euo pipefail
cd "$(dirname "$0")"
go mod download github.com/tinygo-org/tinygo
source=$(go list -m -f '{{.Dir}}' github.com/tinygo-org/tinygo)
rm -rf target
mkdir -p target/root/lib
cp -r "$source/src" "$source/targets" target/root/
chmod -R u+w target/root
# A submodule of TinyGo's that its Go module lacks. Ours names Debian's libc in place of another.
mkdir -p target/root/src/net/http
cp wasip1.json target/root/targets/
go build -tags llvm19 -o target/tinygo github.com/tinygo-org/tinygo # last: it is there when all is
TINYGOROOT=$PWD/target/root target/tinygo version
