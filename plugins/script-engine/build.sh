#!/usr/bin/env bash
# Builds engine.wasm.br from its source. Needs cargo, rustup for the target where it is missing and, as Debian 12 calls them,
# clang-19, llvm-19, wasi-libc for QuickJS, which is C.
set -euo pipefail
cd "$(dirname "$0")"
target=wasm32-wasip1
rustc --print target-libdir --target "$target" | xargs test -d || rustup target add "$target"
# Paths of the machine that builds would be part of the panic messages.
export RUSTFLAGS="--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}/registry/src=/cargo --remap-path-prefix=$PWD=/src"
export CFLAGS_wasm32_wasip1="--target=wasm32-wasi -isystem /usr/include/wasm32-wasi -include $PWD/src/stack-limit.h -ffile-prefix-map=$PWD=/src"
npx esbuild ./globals/main.js --bundle --format=cjs --platform=neutral --main-fields=main --target=es2023 --charset=utf8 \
  --minify-syntax --minify-whitespace --log-level=warning --outfile=target/globals.js \
  --banner:js='(host) => { const module = {};' --footer:js='return module.exports.engine }'
cargo build --release --locked --target "$target"
npx tsx snapshot.ts "target/$target/release/script_engine.wasm" engine.wasm.br
chmod 644 engine.wasm.br
