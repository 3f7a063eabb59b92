#!/usr/bin/env bash
# own-address.sh OWNER/REPOSITORY: names this repository, and its image, in the files that a release publishes. Forks have other addresses.
set -euo pipefail
cd "$(dirname "$0")/.."
sed -Ei "s#(ghcr\.io|github\.com)/wasm-serve/wasm-serve#\1/$1#g" \
  deploy/helm/wasm-serve/{Chart.yaml,README.md,values.yaml} deploy/compose/compose.yaml
