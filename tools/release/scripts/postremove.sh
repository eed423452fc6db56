#!/bin/sh
# After removal: sessions stay in /var/lib/private/agenthost.
set -e
if [ -z "${DPKG_ROOT:-}" ] && [ -d /run/systemd/system ]; then
  systemctl daemon-reload || true
fi
