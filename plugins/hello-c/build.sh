#!/usr/bin/env bash
# Builds hello.wasm from its source. Needs, as Debian 12 calls them, clang, lld, wasi-libc, libclang-rt-14-dev-wasm32 and
# binaryen, whose wasm-opt clang runs where it is there. Another compiler can be named by CC, as in
# `pip install ziglang==0.15.2` and `CC="python3 -m ziglang cc" bash build.sh`. What is not clang 14 makes other bytes, and
# so does none or another wasm-opt.
set -euo pipefail
cd "$(dirname "$0")"
read -ra cc <<< "${CC:-clang}"
"${cc[@]}" --target=wasm32-wasi -mexec-model=reactor -std=c11 -Wall -Wextra -Werror -Os -s -o hello.wasm hello.c
chmod 644 hello.wasm
