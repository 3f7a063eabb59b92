#!/usr/bin/env bash
# Builds streams.wasm from its source. Needs npm.
set -euo pipefail
cd "$(dirname "$0")"
npm ci --no-audit --no-fund
npx asc index.ts --outFile streams.wasm --use abort=index/abort -O3s --noAssert --runtime incremental
chmod 644 streams.wasm
