#!/usr/bin/env bash
# Installs the dependencies of the user interface tests, including Chromium if that
# needs no password, and runs the tests. Without Chromium or npm they are skipped.
# Screenshots go to CI_ARTIFACTS, or to ui-test/screenshots.
set -euo pipefail
cd "$(dirname "$0")"
skip() { echo "SKIPPED: $1" >&2; exit 0; }
browser() {
  local name
  for name in "${CHROMIUM:-}" chromium chromium-browser google-chrome; do
    if [ -n "$name" ] && command -v "$name"; then return; fi
  done
  return 1
}
may_install() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }
install() { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium; }

command -v npm >/dev/null || skip "ui-test needs Node.js 20 or newer, with npm"
if ! browser >/dev/null && may_install; then
  echo "installing Chromium" >&2
  install >&2 || skip "ui-test needs Chromium, and it could not be installed"
fi
CHROMIUM=$(browser) || skip "ui-test needs Chromium: apt-get install chromium, or name it in CHROMIUM"
export CHROMIUM
[ -d node_modules ] && [ node_modules -nt package-lock.json ] || npm ci --ignore-scripts --no-audit --no-fund
shots=${CI_ARTIFACTS:-$PWD/screenshots}
mkdir -p "$shots"
rm -f "$shots/"{page,dev-ui,chat}' '*.png
trap 'echo "screenshots are in $shots"' EXIT
# Run sequentially: each file has its own browser and host. spec prints a line per test.
timeout -k 10 1200 node --test --test-concurrency=1 --test-reporter=spec ./*.test.mjs
