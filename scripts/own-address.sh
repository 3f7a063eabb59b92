#!/usr/bin/env bash
# own-address.sh OWNER/REPOSITORY: names this repository, and its image, in all files that name that of package.json. A fork commits the
# result: a release is refused if the files name another repository.
set -euo pipefail
cd "$(dirname "$0")/.."
old=$(sed -nE 's#.*"git\+https://github\.com/(.*)\.git".*#\1#p' package.json)
grep -rlE "(ghcr\.io|github\.com)/${old}\b" -i package.json deploy docs |
  xargs sed -Ei "s#github\.com/${old}\b#github.com/$1#gI; s#ghcr\.io/${old}\b#ghcr.io/${1,,}#gI"
