#!/usr/bin/env bash
# A browser for the tests of the dashboard's page: Debian's Chromium. Playwright downloads none. Does nothing where it is there.
set -euo pipefail
[ -x /usr/bin/chromium ] && exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "missing: chromium; install it with: sudo apt-get install -y --no-install-recommends chromium" >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq || true # a machine without a network may have all it needs in its cache
apt-get install -y -qq --no-install-recommends chromium fonts-liberation >/dev/null
echo "installed: chromium"
