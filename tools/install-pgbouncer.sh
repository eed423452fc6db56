#!/usr/bin/env bash
# Installs PgBouncer for the tests of the session store, where it is missing and
# root may install it. The tests start processes of their own from it.
set -euo pipefail
PATH=$PATH:/usr/sbin
command -v pgbouncer >/dev/null && exit 0
skip() { echo "SKIPPED: tests behind PgBouncer: $1" >&2; exit 0; }
[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || skip "apt-get install pgbouncer"
echo "installing PgBouncer" >&2
{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends pgbouncer; } >&2 ||
  skip "it could not be installed"
