#!/usr/bin/env bash
# Builds hello.wasm from its source. Needs npm.
set -euo pipefail
cd "$(dirname "$0")"
npm ci --no-audit --no-fund
npx wat2wasm hello.wat -o hello.wasm
chmod 644 hello.wasm
