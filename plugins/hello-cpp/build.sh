#!/usr/bin/env bash
# Builds hello.wasm from its source. Needs, as Debian 12 calls them, clang-19, lld-19, wasi-libc, libclang-rt-19-dev-wasm32,
# libc++-19-dev-wasm32, libc++abi-19-dev-wasm32 and binaryen, whose wasm-opt clang runs where it is there. Another clang than
# 19 makes other bytes of it, and so does none or another wasm-opt.
set -euo pipefail
cd "$(dirname "$0")"
clang++-19 --target=wasm32-wasi -mexec-model=reactor -std=c++20 -fno-exceptions -fno-rtti -Wall -Wextra -Werror \
  -Os -s -o hello.wasm hello.cc
chmod 644 hello.wasm
