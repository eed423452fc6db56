#!/usr/bin/env bash
# Sets up what the tests of user interfaces need, and runs them. Without Chromium
# or npm it says so, and skips.
set -euo pipefail
cd "$(dirname "$0")"
skip() { echo "SKIPPED: $1" >&2; exit 0; }
command -v npm >/dev/null || skip "ui-test needs Node.js 20 or newer, with npm"
for name in "${CHROMIUM:-}" chromium chromium-browser google-chrome; do
  if [ -n "$name" ] && CHROMIUM=$(command -v "$name"); then break; fi
  CHROMIUM=
done
[ -n "$CHROMIUM" ] || skip "ui-test needs Chromium: apt-get install chromium, or name it in CHROMIUM"
export CHROMIUM
[ -d node_modules ] && [ node_modules -nt package-lock.json ] || npm ci --ignore-scripts --no-audit --no-fund
# One after the other: each has a browser and a host.
node --test --test-concurrency=1 --test-timeout=900000 ./*.test.mjs
