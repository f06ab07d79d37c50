#!/usr/bin/env bash
# Install the missing programs that some tests need: packages of Debian or Ubuntu; where Go is, actionlint, and
# where it is required, yaml-language-server; for CI.
set -euo pipefail

as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo)
if ! command -v actionlint > /dev/null && command -v go > /dev/null; then
  built=$(mktemp -d)
  GOBIN=$built go install github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
  "${as_root[@]}" install "$built/actionlint" /usr/local/bin/
fi
if ! command -v yaml-language-server > /dev/null && [[ ,${KAFKAFORM_REQUIRE:-}, == *,yaml-language-server,* ]]; then
  "${as_root[@]}" npm install --global --silent yaml-language-server@1.15.0
fi

missing=()
command -v shellcheck > /dev/null || missing+=(shellcheck)
command -v chromium > /dev/null || command -v google-chrome > /dev/null || missing+=(chromium)
[ ${#missing[@]} -gt 0 ] || exit 0
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -qq --no-install-recommends "${missing[@]}"
