#!/usr/bin/env bash
# Builds count-vowels.wasm from its source. Needs TinyGo 0.41, on the PATH or named by TINYGO, and Go.
set -euo pipefail
cd "$(dirname "$0")"
"${TINYGO:-tinygo}" build -target=wasip1 -buildmode=c-shared -no-debug -o count-vowels.wasm .
chmod 644 count-vowels.wasm
