#!/usr/bin/env bash
# Builds hello.wasm from its source. Needs Zig 0.15.2: on the PATH, or named by ZIG, as in
# `pip install ziglang==0.15.2` and `ZIG="python3 -m ziglang" bash build.sh`.
set -euo pipefail
cd "$(dirname "$0")"
read -ra zig <<< "${ZIG:-zig}"
"${zig[@]}" build-exe hello.zig -target wasm32-freestanding -fno-entry -rdynamic \
  -O ReleaseSmall -fstrip -femit-bin=hello.wasm
chmod 644 hello.wasm
