#!/usr/bin/env bash
# Builds hello.wasm from its source. Needs TinyGo 0.41, on the PATH or named by TINYGO, and Go.
set -euo pipefail
cd "$(dirname "$0")"
"${TINYGO:-tinygo}" build -target=wasip1 -buildmode=c-shared -no-debug -o hello.wasm .
chmod 644 hello.wasm
