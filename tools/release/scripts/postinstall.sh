#!/bin/sh
# After installation and upgrades: restart a running service. The service is not enabled, because it
# has no apps and no keys yet.
set -e
if [ -z "${DPKG_ROOT:-}" ] && [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  systemctl try-restart agenthost.service || true
fi
