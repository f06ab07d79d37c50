#!/usr/bin/env bash
# Install the missing programs that some tests need, from the packages of Debian or Ubuntu; for CI.
set -euo pipefail

missing=()
command -v shellcheck > /dev/null || missing+=(shellcheck)
command -v chromium > /dev/null || command -v google-chrome > /dev/null || missing+=(chromium)
[ ${#missing[@]} -gt 0 ] || exit 0
as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo)
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -qq --no-install-recommends "${missing[@]}"
