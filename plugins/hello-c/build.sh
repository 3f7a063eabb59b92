#!/usr/bin/env bash
# Builds hello.wasm from its source. Needs, as Debian calls them, clang, lld, wasi-libc and libclang-rt-14-dev-wasm32;
# another clang than 14 makes other bytes of it.
set -euo pipefail
cd "$(dirname "$0")"
clang --target=wasm32-wasi -mexec-model=reactor -std=c11 -Wall -Wextra -Werror -Os -s -o hello.wasm hello.c
chmod 644 hello.wasm
