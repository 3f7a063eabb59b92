#!/usr/bin/env bash
# Builds streams.wasm from its source. Needs cargo, and rustup for the target where it is missing.
set -euo pipefail
cd "$(dirname "$0")"
target=wasm32-unknown-unknown
rustc --print target-libdir --target "$target" | xargs test -d || rustup target add "$target"
# With SIMD the ends of lines are found faster. Paths of the machine that builds would be part of the panic messages.
export RUSTFLAGS="-C target-feature=+simd128 --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}/registry/src=/cargo --remap-path-prefix=$PWD=/src"
cargo build --release --locked --target "$target"
cp "target/$target/release/streams.wasm" streams.wasm
chmod 644 streams.wasm
