#!/bin/sh
# Before removal, not before upgrades: dpkg passes "remove", rpm the number of versions that stay.
set -e
case "${1:-}" in
  remove | 0)
    if [ -z "${DPKG_ROOT:-}" ] && [ -d /run/systemd/system ]; then
      systemctl disable --now --quiet agenthost.service || true
    fi
    ;;
esac
