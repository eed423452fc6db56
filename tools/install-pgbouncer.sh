#!/usr/bin/env bash
# Installs PgBouncer for the tests of the session store if it is missing and the user is
# root. The tests start their own PgBouncer processes.
set -euo pipefail
PATH=$PATH:/usr/sbin
command -v pgbouncer >/dev/null && exit 0
skip() { echo "SKIPPED: tests with PgBouncer: $1" >&2; exit 0; }
[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || skip "apt-get install pgbouncer"
echo "installing PgBouncer" >&2
{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends pgbouncer; } >&2 ||
  skip "installation failed"
