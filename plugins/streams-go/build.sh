#!/usr/bin/env bash
# Builds target/streams.wasm from its source. Needs Go 1.24 or later.
set -euo pipefail
cd "$(dirname "$0")"
GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -trimpath -ldflags='-s -w' -o target/streams.wasm .
