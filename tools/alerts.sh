#!/usr/bin/env bash
# alerts.sh: checks the alert rules in deploy/prometheus with promtool, and runs their tests.
# Without promtool it unpacks Debian's package prometheus into a temporary folder, for which it
# needs no root.
set -euo pipefail
cd "$(dirname "$0")/../deploy/prometheus"
promtool=$(command -v promtool || true)
if [ -z "$promtool" ]; then
  command -v apt-get >/dev/null && command -v dpkg >/dev/null || {
    echo "promtool not found; hint: install Prometheus" >&2
    exit 1
  }
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  (cd "$work" && apt-get -qq -o APT::Sandbox::User=root download prometheus && dpkg -x prometheus_*.deb .) || {
    echo "promtool not installed; hint: apt-get update" >&2
    exit 1
  }
  promtool=$work/usr/bin/promtool
fi
"$promtool" --version 2>&1 | head -1
"$promtool" check rules alerts.yaml
"$promtool" test rules alerts_test.yaml
