#!/usr/bin/env bash
# Builds hello.wasm from its source. Needs Go and what hello-tinygo/toolchain/build.sh needs, which builds TinyGo 0.41.1.
set -euo pipefail
cd "$(dirname "$0")"
toolchain=$PWD/../hello-tinygo/toolchain
[ -x "$toolchain/target/tinygo" ] || "$toolchain/build.sh"
export TINYGOROOT=$toolchain/target/root
"$toolchain/target/tinygo" build -target="$toolchain/wasip1.json" -buildmode=c-shared -no-debug -o hello.wasm .
chmod 644 hello.wasm
